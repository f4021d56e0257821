//! What an object holds: a value that is one column, or a struct of such.

use crate::table::{ColumnType, ColumnValue, GROUPS_MAX};
use crate::words::{Words, WordsMut};

pub use heddledb_macros::Element;

/// Columns that a table has at most.
pub(super) const COLUMNS_MAX: usize = 64;

/// A column of an element.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: ColumnType,
    /// Its column group, counted in [`Element::GROUPS`].
    pub group: usize,
}

/// What an object can hold: any [column type](ColumnValue), a tuple of up to four, or a struct with named fields of these that
/// derives it.
///
/// Each field is a column of the object's table, of its own name. `#[group(..)]` on a field puts it in a column group of its own, as
/// in tables.
///
/// ```
/// use heddledb::objects::Element;
///
/// #[derive(Element, Clone, Copy, Debug, Default, PartialEq)]
/// struct Item {
///     price: u32,
///     #[group(stock)]
///     left: i64,
/// }
/// assert_eq!(Item::FIELDS.len(), 2);
/// assert_eq!(Item::GROUPS, ["main", "stock"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "an object cannot hold a `{Self}`",
    label = "neither a column type nor an element",
    note = "objects hold what columns do (integers, floats, `bool`, `Text<N>`, `String`, `Option` of these ..) and tuples of these; a struct of your own derives `heddledb::objects::Element`, an enum or a newtype `ColumnValue`"
)]
pub trait Element: Clone + Send + Sync + 'static {
    /// The columns, in the order of declaration.
    const FIELDS: &'static [Field];
    /// The column groups; the first is `main`.
    const GROUPS: &'static [&'static str] = &["main"];
    /// Reads the value of which column `n` is at byte `places[n]` of the row. Any bits give some value.
    #[doc(hidden)]
    fn load(source: &impl Words, places: &[usize]) -> Self;
    /// Writes the value.
    #[doc(hidden)]
    fn store(&self, target: &mut impl WordsMut, places: &[usize]);
}

#[diagnostic::do_not_recommend]
impl<V: ColumnValue> Element for V {
    const FIELDS: &'static [Field] = &[Field { name: "value", ty: V::TYPE, group: 0 }];
    #[inline(always)]
    fn load(source: &impl Words, places: &[usize]) -> Self {
        V::load(source, places[0])
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, places: &[usize]) {
        ColumnValue::store(self, target, places[0]);
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt $text:literal),+) => {
        #[diagnostic::do_not_recommend]
        impl<$($name: ColumnValue),+> Element for ($($name,)+) {
            const FIELDS: &'static [Field] = &[$(Field { name: $text, ty: $name::TYPE, group: 0 }),+];
            #[inline(always)]
            fn load(source: &impl Words, places: &[usize]) -> Self {
                ($($name::load(source, places[$index]),)+)
            }
            #[inline(always)]
            fn store(&self, target: &mut impl WordsMut, places: &[usize]) {
                $(ColumnValue::store(&self.$index, target, places[$index]);)+
            }
        }
    };
}
tuples!(A 0 "first", B 1 "second");
tuples!(A 0 "first", B 1 "second", C 2 "third");
tuples!(A 0 "first", B 1 "second", C 2 "third", D 3 "fourth");

/// Nothing: the head of an object that has none.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Element for Nothing {
    const FIELDS: &'static [Field] = &[];
    fn load(_: &impl Words, _: &[usize]) -> Self {
        Self
    }
    fn store(&self, _: &mut impl WordsMut, _: &[usize]) {}
}

/// An element of a list: a value, and its neighbours in a column group of their own.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Linked<V> {
    pub previous: u64,
    pub next: u64,
    pub value: V,
}

/// The columns of a [`Linked`] before those of its value.
pub(super) const LINKS: usize = 2;

impl<V: Element> Element for Linked<V> {
    const FIELDS: &'static [Field] = {
        const fn fields(of: &[Field], links: usize) -> [Field; COLUMNS_MAX] {
            let mut fields = [Field { name: "previous", ty: ColumnType::U64, group: links }; COLUMNS_MAX];
            fields[1].name = "next";
            let mut at = 0;
            while at < of.len() {
                fields[LINKS + at] = of[at];
                at += 1;
            }
            fields
        }
        const { &fields(V::FIELDS, V::GROUPS.len()) }.split_at(LINKS + V::FIELDS.len()).0
    };
    const GROUPS: &'static [&'static str] = {
        const fn groups(of: &[&'static str]) -> [&'static str; GROUPS_MAX] {
            assert!(of.len() < GROUPS_MAX, "an element of a list has at most 15 column groups");
            let mut groups = ["links"; GROUPS_MAX];
            let mut at = 0;
            while at < of.len() {
                groups[at] = of[at];
                at += 1;
            }
            groups
        }
        const { &groups(V::GROUPS) }.split_at(V::GROUPS.len() + 1).0
    };
    #[inline(always)]
    fn load(source: &impl Words, places: &[usize]) -> Self {
        Self {
            previous: ColumnValue::load(source, places[0]),
            next: ColumnValue::load(source, places[1]),
            value: V::load(source, &places[LINKS..]),
        }
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, places: &[usize]) {
        ColumnValue::store(&self.previous, target, places[0]);
        ColumnValue::store(&self.next, target, places[1]);
        self.value.store(target, &places[LINKS..]);
    }
}

/// Several numbers about an object, each in a column group of its own: its head.
macro_rules! heads {
    ($($(#[$doc:meta])* $head:ident { $($field:ident $at:literal),* })*) => {$(
        $(#[$doc])*
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $head {
            $(pub $field: u64,)*
        }
        impl Element for $head {
            const FIELDS: &'static [Field] =
                &[$(Field { name: stringify!($field), ty: ColumnType::U64, group: $at + 1 }),*];
            const GROUPS: &'static [&'static str] = &["main", $(stringify!($field)),*];
            fn load(source: &impl Words, places: &[usize]) -> Self {
                Self { $($field: ColumnValue::load(source, places[$at]),)* }
            }
            fn store(&self, target: &mut impl WordsMut, places: &[usize]) {
                $(ColumnValue::store(&self.$field, target, places[$at]);)*
            }
        }
    )*};
}
heads! {
    /// Of an array, and of a vector.
    Length { len 0 }
    /// Of a queue: the number of its first element, and the one that its next element gets.
    Ends { head 0, tail 1 }
    /// Of a list: the numbers of its first and last element, and how many it has had.
    Chain { first 0, last 1, made 2 }
}
