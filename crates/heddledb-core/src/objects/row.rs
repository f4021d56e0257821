//! Rows of objects: a key and an element, laid out by the compiler as `#[derive(Table)]` lays out a struct.
//!
//! Their schema has the form that a derived table's has, so whatever knows tables by their schemas knows them.

use super::element::{COLUMNS_MAX, Element, Field};
use crate::table::{
    Changeable, Column, Columns, Definition, GROUPS_MAX, Group, GroupSet, IndexWords, Key, Layout, Limit,
    RANK, Relation, Role, SchemaPart, Span, Structure, Table, TableRole, TypedTable, key_words, schema_str,
    schema_text_in,
};
use crate::words::{Words, WordsMut};
use std::marker::PhantomData;

/// Bytes of a schema's text at most.
const SCHEMA_MAX: usize = 4096;

/// One of the tables of an object.
pub trait Part: Copy + Send + Sync + 'static {
    /// The type of its keys.
    type Key: Key + Element;
    /// The words of a key.
    type Words: IndexWords;
    /// What a row holds beside its key.
    type Value: Element;
    /// The name of the table.
    const NAME: &'static str;
    /// The name of the key's column, where it has one.
    const KEY_NAME: &'static str;
    /// The index.
    const STRUCTURE: Structure;
    /// The table as data.
    fn definition() -> &'static Definition;
}

/// A row of one of an object's tables.
pub struct Cell<P: Part> {
    pub(super) key: P::Key,
    pub(super) value: P::Value,
}

impl<P: Part> Clone for Cell<P> {
    fn clone(&self) -> Self {
        Self { key: self.key, value: self.value.clone() }
    }
}

impl<P: Part<Value: Copy>> Copy for Cell<P> {}

/// Where everything is in a row.
struct Plan {
    names: [&'static str; COLUMNS_MAX],
    groups_of: [u8; COLUMNS_MAX],
    offsets: [usize; COLUMNS_MAX],
    columns: usize,
    slots: [usize; COLUMNS_MAX],
    slot_count: usize,
    groups: [Group; GROUPS_MAX],
    group_count: usize,
    words: usize,
    /// The columns of the value: their groups, and their words in each.
    value_groups: GroupSet,
    value_spans: [Span; GROUPS_MAX],
}

const KEY_NAMES: [&str; 4] = ["key_1", "key_2", "key_3", "key_4"];

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    one.len() == other.len()
}

/// The columns of key and value, with their names.
const fn columns(key: &[Field], key_name: &'static str, value: &[Field]) -> ([Field; COLUMNS_MAX], usize) {
    assert!(key.len() <= KEY_NAMES.len(), "the key of a map has at most four parts");
    assert!(key.len() + value.len() <= COLUMNS_MAX, "an element has more columns than a table has room for");
    let mut all = [key[0]; COLUMNS_MAX];
    let mut at = 0;
    while at < key.len() {
        all[at] =
            Field { name: if key.len() == 1 { key_name } else { KEY_NAMES[at] }, ty: key[at].ty, group: 0 };
        at += 1;
    }
    while at < key.len() + value.len() {
        all[at] = value[at - key.len()];
        let mut other = 0;
        while other < at {
            assert!(
                !is_same(all[at].name, all[other].name),
                "a field of an element has the name of another column of the object's table, such as that of its key (`id`, `key`, \
                 `index`, `number`) or of a list's links (`previous`, `next`); rename it"
            );
            other += 1;
        }
        at += 1;
    }
    (all, at)
}

const fn plan(key: &[Field], key_name: &'static str, value: &[Field], groups: &[&'static str]) -> Plan {
    let (all, count) = columns(key, key_name, value);
    let mut plan = Plan {
        names: [""; COLUMNS_MAX],
        groups_of: [0; COLUMNS_MAX],
        offsets: [0; COLUMNS_MAX],
        columns: count,
        slots: [0; COLUMNS_MAX],
        slot_count: 0,
        groups: [Group { name: "main", span: Span::NONE, rank: RANK, held: false }; GROUPS_MAX],
        group_count: groups.len(),
        words: 0,
        value_groups: 0,
        value_spans: [Span::NONE; GROUPS_MAX],
    };
    let mut end = 0usize;
    let mut group = 0;
    while group < groups.len() {
        let start = end / 8;
        let mut at = 0;
        while at < count {
            let Field { name, ty, group: of } = all[at];
            assert!(ty.bytes() > 0, "a field of an element has a type of no bytes; remove it");
            if of == group {
                plan.names[at] = name;
                plan.groups_of[at] = group as u8;
                let offset = end.next_multiple_of(ty.align());
                plan.offsets[at] = offset;
                end = offset + ty.bytes();
                if ty.has_slot() {
                    plan.slots[plan.slot_count] = offset / 8;
                    plan.slot_count += 1;
                }
                if at >= key.len() {
                    plan.value_groups |= 1 << group;
                    let span = plan.value_spans[group];
                    let (first, last) = (offset / 8, end.div_ceil(8));
                    plan.value_spans[group] = Span {
                        start: if first < span.start { first } else { span.start },
                        end: if last > span.end { last } else { span.end },
                    };
                }
            }
            at += 1;
        }
        end = end.next_multiple_of(8);
        let span = Span { start, end: end / 8 };
        plan.groups[group] = Group { name: groups[group], span, rank: RANK, held: false };
        group += 1;
    }
    plan.words = end / 8;
    assert!(end <= crate::table::ROW_BYTES_MAX, "an element is longer than 65536 bytes, too long for a row");
    plan
}

/// The schema's text, in the form that derived tables have it in.
const fn schema(
    key: &[Field],
    key_name: &'static str,
    value: &[Field],
    groups: &[&'static str],
    structure: Structure,
) -> ([u8; SCHEMA_MAX], usize) {
    let (all, count) = columns(key, key_name, value);
    let mut parts = [SchemaPart::Text(""); 8 * COLUMNS_MAX];
    let (mut end, mut at) = (0, 0);
    while at < count {
        let column = [
            SchemaPart::Text(if at == 0 { "" } else { ", " }),
            SchemaPart::Text(if all[at].group == 0 { "" } else { groups[all[at].group] }),
            SchemaPart::Text(if all[at].group == 0 { "" } else { "." }),
            SchemaPart::Text(all[at].name),
            SchemaPart::Text(": "),
            SchemaPart::Type(all[at].ty),
        ];
        let mut part = 0;
        while part < column.len() {
            parts[end] = column[part];
            end += 1;
            part += 1;
        }
        at += 1;
    }
    at = 0;
    while at < key.len() {
        parts[end] = SchemaPart::Text(if at == 0 { "; key " } else { ", " });
        parts[end + 1] = SchemaPart::Text(all[at].name);
        end += 2;
        at += 1;
    }
    parts[end] = SchemaPart::Text(match structure {
        Structure::Hash => "; hash",
        Structure::Ordered => "; ordered",
    });
    let mut text = [0; SCHEMA_MAX];
    let bytes = schema_text_in(&mut text, &parts);
    (text, bytes)
}

impl<P: Part> Cell<P> {
    const PLAN: &'static Plan =
        &plan(<P::Key as Element>::FIELDS, P::KEY_NAME, P::Value::FIELDS, P::Value::GROUPS);
    const TEXT: &'static ([u8; SCHEMA_MAX], usize) =
        &schema(<P::Key as Element>::FIELDS, P::KEY_NAME, P::Value::FIELDS, P::Value::GROUPS, P::STRUCTURE);
    const ROLE: &'static dyn TableRole = &TypedTable::<Self>::new();
    const KEY_PARTS: usize = <P::Key as Element>::FIELDS.len();
    const OFFSETS: (&'static [usize], &'static [usize]) =
        Self::PLAN.offsets.split_at(Self::PLAN.columns).0.split_at(Self::KEY_PARTS);

    /// The row of a key and a value.
    #[inline(always)]
    pub(super) fn new(key: P::Key, value: P::Value) -> Self {
        Self { key, value }
    }

    /// Where the columns of the value are.
    pub(super) const fn places() -> &'static [usize] {
        Self::OFFSETS.1
    }

    /// Column `number` of the value, which has that type.
    pub(super) const fn column<V>(number: usize) -> Column<Self, V> {
        let at = Self::KEY_PARTS + number;
        Column::new(Self::PLAN.names[at], Self::PLAN.offsets[at], Self::PLAN.groups_of[at] as usize, at)
    }
}

/// For the derive: one of an object's tables, as data.
#[doc(hidden)]
pub const fn definition<P: Part>() -> Definition {
    Definition::new(
        Cell::<P>::LAYOUT,
        P::STRUCTURE,
        Cell::<P>::SCHEMA,
        key_words(<P::Key as Key>::BYTES),
        Role::Table(Cell::<P>::ROLE),
    )
}

impl<P: Part> Relation for Cell<P> {
    type Table = Self;
    const ENTRIES: bool = false;
    type Key = P::Key;
    type Words = P::Words;
    type Exceeds = ();
    const KEY_LIMITS: &'static [Limit] = &[];
    const LAYOUT: &'static Layout = &Layout {
        name: P::NAME,
        groups: Self::PLAN.groups.split_at(Self::PLAN.group_count).0,
        words: Self::PLAN.words,
        slots: Self::PLAN.slots.split_at(Self::PLAN.slot_count).0,
    };
    const STRUCTURE: Structure = P::STRUCTURE;
    const SCHEMA: &'static str = schema_str(Self::TEXT.0.split_at(Self::TEXT.1).0);
    #[inline(always)]
    fn definition() -> &'static Definition {
        P::definition()
    }
}

impl<P: Part> Table for Cell<P> {
    type Indexes = ();
    const INDEXED: u64 = 0;
    const KEY_COLUMNS: u64 = (1 << Self::KEY_PARTS) - 1;
    const COLUMN_NAMES: &'static [&'static str] = Self::PLAN.names.split_at(Self::PLAN.columns).0;
    const COLUMN_GROUPS: &'static [u8] = Self::PLAN.groups_of.split_at(Self::PLAN.columns).0;
    const APPEND_ONLY: bool = false;
    const LIMITS: &'static [Limit] = &[];
    #[inline(always)]
    fn key(&self) -> P::Key {
        self.key
    }
    #[inline(always)]
    fn load(source: &impl Words) -> Self {
        Self { key: Element::load(source, Self::OFFSETS.0), value: Element::load(source, Self::OFFSETS.1) }
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut) {
        Element::store(&self.key, target, Self::OFFSETS.0);
        self.value.store(target, Self::OFFSETS.1);
    }
}

/// All columns of the value of a row, and none of its key.
pub struct Held<P>(PhantomData<fn() -> P>);

impl<P> Held<P> {
    /// The set.
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<P> Clone for Held<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Held<P> {}

impl<P: Part> Changeable for Held<P> {}

impl<P: Part> Columns for Held<P> {
    type Table = Cell<P>;
    type Value = P::Value;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        Cell::<P>::PLAN.value_groups
    }
    #[inline(always)]
    fn ordinals(&self) -> u64 {
        let all = u64::MAX >> (COLUMNS_MAX - Cell::<P>::PLAN.columns);
        all & !Cell::<P>::KEY_COLUMNS
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        Cell::<P>::PLAN.value_spans[group]
    }
    #[inline(always)]
    fn have_slots(&self) -> bool {
        Cell::<P>::PLAN.slot_count > 0
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> P::Value {
        Element::load(source, Cell::<P>::OFFSETS.1)
    }
    #[inline(always)]
    fn store(&self, value: &P::Value, target: &mut impl WordsMut) {
        value.store(target, Cell::<P>::OFFSETS.1);
    }
}
