//! A table that is defined at run time is the table that the derive makes of the same declaration.

#[cfg(any(feature = "jiff", feature = "uuid", feature = "rust_decimal"))]
mod foreign;
mod refusals;
mod tables;
mod values;

use super::{ColumnType, IndexDefinition, RelationDefinition, TableDefinition, Value};
use crate::error::Result;
use crate::table::{
    Index, IndexSet, IndexVisitor, KeyWords, Relation, Table, decode_key, encode_key, key_words,
};
use crate::words::WordsCopy;
use proptest::prelude::*;
use proptest::strategy::Union;
use std::ops::Bound;

/// Any value of a type.
fn value_of(ty: ColumnType) -> BoxedStrategy<Value> {
    fn any_of<V: Arbitrary + Into<Value> + 'static>() -> BoxedStrategy<Value> {
        any::<V>().prop_map(Into::into).boxed()
    }
    match ty {
        ColumnType::U8 => any_of::<u8>(),
        ColumnType::U16 => any_of::<u16>(),
        ColumnType::U32 => any_of::<u32>(),
        ColumnType::U64 => any_of::<u64>(),
        ColumnType::I8 => any_of::<i8>(),
        ColumnType::I16 => any_of::<i16>(),
        ColumnType::I32 => any_of::<i32>(),
        ColumnType::I64 => any_of::<i64>(),
        ColumnType::U128 => any_of::<u128>(),
        ColumnType::Bool => any_of::<bool>(),
        ColumnType::F32 => any_of::<f32>(),
        ColumnType::F64 => any_of::<f64>(),
        ColumnType::Bytes(bytes) => prop::collection::vec(any::<u8>(), bytes).prop_map(Value::Bytes).boxed(),
        ColumnType::Text(bytes) => {
            let cut = move |text: String| {
                let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                Value::from(&text[..end])
            };
            let text = prop::collection::vec(prop_oneof!["[a-z]", "[^\0]"], bytes).prop_map(|c| c.concat());
            prop_oneof![text.prop_map(cut), "[a-c]{0,2}".prop_map(cut)].boxed()
        }
        ColumnType::String => ".{0,15}".prop_map(|text| Value::Text(text.chars().take(3).collect())).boxed(),
        ColumnType::ByteString => prop::collection::vec(any::<u8>(), 0..16).prop_map(Value::Bytes).boxed(),
        ColumnType::I128 => any_of::<i128>(),
        ColumnType::Duration => any_of::<std::time::Duration>(),
        ColumnType::Enum(of) => {
            prop::sample::select(of.variants()).prop_map(|(name, _)| Value::from(name)).boxed()
        }
        ColumnType::Option(inner) => Union::new([Just(Value::Null).boxed(), value_of(*inner)]).boxed(),
        ColumnType::Reverse(inner) => value_of(*inner),
        #[cfg(any(feature = "jiff", feature = "uuid", feature = "rust_decimal"))]
        foreign => foreign::value_of(foreign),
    }
}

/// Any row of a table.
fn row_of(definition: &TableDefinition) -> Vec<BoxedStrategy<Value>> {
    definition.columns().iter().map(|column| value_of(column.ty())).collect()
}

/// Any row of any table.
fn any_row() -> impl Strategy<Value = (&'static TableDefinition, Vec<Value>)> {
    prop::sample::select(tables::all())
        .prop_flat_map(|definition| row_of(definition).prop_map(move |values| (definition, values)))
}

/// What both say of a relation.
fn assert_same_relation<R: Relation>(definition: &RelationDefinition) {
    assert_eq!(definition.layout(), R::LAYOUT);
    assert_eq!(definition.structure(), R::STRUCTURE);
    assert_eq!(definition.schema(), R::SCHEMA);
    assert_eq!(definition.key_words(), R::Words::MIN.words().len());
    let bytes = <R::Key as crate::table::Key>::BYTES;
    assert_eq!(
        definition
            .key_columns()
            .iter()
            .map(|column| column.ty().key_bytes(column.max().unwrap_or(0)))
            .sum::<usize>(),
        bytes
    );
    assert_eq!(definition.key_words(), key_words(bytes));
    let (low, high) = definition.all();
    assert_eq!((low.words(), high.words()), (R::Words::MIN.words(), R::Words::MAX.words()));
}

/// The indexes of `T`, each against its definition, in order of declaration.
struct SameIndexes<'a> {
    rest: std::slice::Iter<'a, IndexDefinition>,
}

impl<T: Table> IndexVisitor<T> for SameIndexes<'_> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let definition = self.rest.next().expect("an index is defined");
        assert_same_relation::<I>(definition.relation());
        assert_eq!(definition.is_unique(), I::UNIQUE);
        assert_eq!(definition.indexed(), I::INDEXED);
        assert_eq!(format!("{}.{}", T::LAYOUT.name, definition.name()), I::LAYOUT.name);
        Ok(())
    }
}

/// The entries of a row in the indexes of `T`.
struct SameEntries<'a, T> {
    rest: std::slice::Iter<'a, IndexDefinition>,
    row: &'a T,
    words: &'a mut [u64],
    values: &'a [Value],
}

impl<T: Table> IndexVisitor<T> for SameEntries<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let definition = self.rest.next().expect("an index is defined");
        let entry = definition.entry(self.values)?;
        let derived: I::Words = encode_key(&I::entry(self.row));
        assert_eq!(entry.words(), derived.words());
        assert_eq!(definition.entry_in(&WordsCopy::new(0, self.words)), entry);
        // The indexed columns come first.
        let columns: Vec<Value> =
            definition.columns().iter().map(|column| self.values[column.ordinal()].clone()).collect();
        let (low, high) = definition.relation().prefix(&columns)?;
        assert!((low..=high).contains(&entry));
        Ok(())
    }
}

/// `T` and its definition say the same and encode alike.
fn assert_alike<T: Table>(definition: &'static TableDefinition) {
    assert_same_relation::<T>(definition.relation());
    assert_eq!(definition.name(), T::LAYOUT.name);
    assert_eq!(definition.column_names(), T::COLUMN_NAMES);
    assert_eq!(definition.column_groups(), T::COLUMN_GROUPS);
    assert_eq!(definition.key_columns(), T::KEY_COLUMNS);
    assert_eq!(definition.indexed(), T::INDEXED);
    assert_eq!(definition.is_append_only(), T::APPEND_ONLY);
    let mut indexes = SameIndexes { rest: definition.indexes().iter() };
    <T::Indexes as IndexSet<T>>::each(&mut indexes).unwrap();
    assert!(indexes.rest.next().is_none(), "more indexes are defined than derived");

    proptest!(ProptestConfig::with_cases(64), |(values in row_of(definition), fill: u64)| {
        same_row::<T>(definition, &values, fill);
    });
}

/// What one of the two writes over words of `fill`, the other reads, and both write the same.
fn same_row<T: Table>(definition: &'static TableDefinition, values: &[Value], fill: u64) {
    let mut words = vec![fill; T::LAYOUT.words];
    definition.encode_row(values, &mut WordsCopy::new(0, &mut words)).unwrap();
    let row = T::load(&WordsCopy::new(0, &mut words));
    let mut derived = vec![fill; T::LAYOUT.words];
    row.store(&mut WordsCopy::new(0, &mut derived));
    assert_eq!(words, derived);
    assert_eq!(definition.decode_row(&WordsCopy::new(0, &mut derived)), values);

    let key: Vec<Value> =
        definition.relation().key_columns().iter().map(|column| values[column.ordinal()].clone()).collect();
    let encoded = definition.encode_key(&key).unwrap();
    let derived: T::Words = encode_key(&row.key());
    assert_eq!(encoded.words(), derived.words());
    assert_eq!(definition.decode_key(derived.words()), key);
    let mut back = T::Words::MIN;
    back.words_mut().copy_from_slice(&encoded);
    let back: T::Words = encode_key(&decode_key::<T::Key>(back.words()));
    assert_eq!(back, derived);
    assert_eq!(definition.relation().key_of(values).unwrap(), encoded);
    assert_eq!(definition.relation().key_in(&WordsCopy::new(0, &mut words)), encoded);

    let rest = definition.indexes().iter();
    let mut entries = SameEntries { rest, row: &row, words: &mut words, values };
    <T::Indexes as IndexSet<T>>::each(&mut entries).unwrap();
}

/// Whether the range from `low` to `high` is of exactly those keys that `within` says, among all pairs of a
/// small and a signed number.
fn check_range(
    low: Bound<&[Value]>,
    high: Bound<&[Value]>,
    within: impl Fn(u8, i8) -> bool,
) -> Result<(), TestCaseError> {
    let definition = TableDefinition::builder("pairs")
        .key("a", ColumnType::U8)
        .key("b", ColumnType::I8)
        .build()
        .unwrap()
        .relation();
    let bounds = definition.range(low, high).unwrap();
    for (a, b) in (0..4).flat_map(|a| (-3..4).map(move |b| (a, b))) {
        let key = definition.encode_key(&[a.into(), b.into()]).unwrap();
        let found = bounds.is_some_and(|(low, high)| low <= key && key <= high);
        prop_assert_eq!(found, within(a, b), "{:?}..{:?}: {} {}", low, high, a, b);
    }
    Ok(())
}

proptest! {
    #[test]
    fn ranges_are_of_whole_keys_and_of_prefixes(a in 0u8..4, b in -3i8..4, c in 0u8..4, d in -3i8..4) {
        use Bound::{Excluded, Included, Unbounded};
        let (low, high): ([Value; 2], [Value; 2]) = ([a.into(), b.into()], [c.into(), d.into()]);
        check_range(Included(&low), Excluded(&high), |x, y| (a, b) <= (x, y) && (x, y) < (c, d))?;
        check_range(Excluded(&low), Included(&high), |x, y| (a, b) < (x, y) && (x, y) <= (c, d))?;
        check_range(Included(&low[..1]), Included(&high[..1]), |x, _| a <= x && x <= c)?;
        check_range(Excluded(&low[..1]), Excluded(&high[..1]), |x, _| a < x && x < c)?;
        check_range(Unbounded, Excluded(&high[..1]), |x, _| x < c)?;
        check_range(Excluded(&low[..0]), Unbounded, |_, _| false)?;
    }

    /// What is shown is read back, in every type; texts of a nullable column that say `null` apart.
    #[test]
    fn what_is_shown_is_read_back(rows in prop::collection::vec(any_row(), 1..4)) {
        for (definition, values) in rows {
            for (column, value) in definition.columns().iter().zip(values) {
                let read = column.ty().parse(&value.to_string());
                prop_assert_eq!(read.unwrap().to_string(), value.to_string());
            }
        }
    }

    /// Whatever is read is a value or an error.
    #[test]
    fn any_text_is_a_value_or_none(text in "\\PC*|[0-9a-fx.:TZsPD+-]{0,40}") {
        for definition in tables::all() {
            for column in definition.columns() {
                if let Ok(value) = column.ty().parse(&text) {
                    let mut words = vec![0; definition.relation().layout().words];
                    column.store(&value, &mut WordsCopy::new(0, &mut words)).unwrap();
                }
            }
        }
    }

    /// Whatever a directory says of its tables, there is a definition that says the same, or an error.
    #[test]
    fn any_text_is_a_schema_or_none(
        definition in prop::sample::select(tables::all()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[a-zA-Z0-9<>{}=,;:. \\[\\]]{0,3}", 0usize..4), 0..4),
    ) {
        let mut schema = definition.relation().schema().to_owned();
        for (at, insert, remove) in changes {
            let at = at.index(schema.len() + 1);
            let end = (at + remove).min(schema.len());
            if schema.is_char_boundary(at) && schema.is_char_boundary(end) {
                schema.replace_range(at..end, &insert);
            }
        }
        let index = format!("index over {}; {schema}", definition.column_names()[0]);
        if let Ok(defined) = TableDefinition::of_schema("any", &schema, &[("Index", &index)]) {
            prop_assert_eq!(defined.relation().schema(), &schema);
        }
        super::is_same_or_widened(&schema, definition.relation().schema());
    }

    /// A torn copy has any bits.
    #[test]
    fn any_bits_give_a_row(fill: u64) {
        for definition in tables::all() {
            let mut words = vec![fill; definition.relation().layout().words];
            let words = WordsCopy::new(0, &mut words);
            let values = definition.decode_row(&words);
            prop_assert_eq!(values.len(), definition.columns().len());
            let relations = definition.indexes().iter().map(IndexDefinition::relation);
            for relation in relations.chain([definition.relation()]) {
                prop_assert_eq!(relation.key_in(&words).len(), relation.key_words());
            }
        }
    }
}

#[test]
fn defined_again_a_table_is_the_one_that_it_was() {
    let define = |ty| TableDefinition::builder("twice").key("id", ty).column("a", ColumnType::U8);
    let (first, again) = (define(ColumnType::U64).build().unwrap(), define(ColumnType::U64).build().unwrap());
    assert!(std::ptr::eq(first, again));
    assert_eq!(first.relation().definition().number(), again.relation().definition().number());
    let others = [
        define(ColumnType::U32).build().unwrap(),
        define(ColumnType::U64).hash().build().unwrap(),
        define(ColumnType::U64).append_only().build().unwrap(),
        define(ColumnType::U64).index("ByA", ["a"]).build().unwrap(),
        define(ColumnType::U64).unique("ByA", ["a"]).build().unwrap(),
    ];
    for other in others {
        assert!(!std::ptr::eq(first, other));
        assert_ne!(first.relation().definition().number(), other.relation().definition().number());
    }
    let threads = [(); 4].map(|()| std::thread::spawn(move || define(ColumnType::I8).build().unwrap()));
    let [one, rest @ ..] = threads.map(|thread| thread.join().unwrap());
    assert!(rest.iter().all(|other| std::ptr::eq(one, *other)));
}

#[test]
fn rows_have_names() {
    let bank = TableDefinition::builder("bank")
        .key("id", ColumnType::U32)
        .column("owner", ColumnType::Text(8))
        .column("limit", ColumnType::I64.optional())
        .build()
        .unwrap();
    let row = bank.row([7u32.into(), "ada".into(), Value::Null]).unwrap();
    assert_eq!(format!("{row:?}"), r#"bank { id: 7, owner: "ada", limit: null }"#);
    assert_eq!(row["id"], Value::U32(7));
    assert_eq!(row.get::<&str>("owner").unwrap(), "ada");
    assert_eq!(row.get::<Option<i64>>("limit").unwrap(), None);
    assert_eq!(row.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["id", "owner", "limit"]);
    let mut words = vec![0; 4];
    bank.encode_row(row.values(), &mut WordsCopy::new(0, &mut words)).unwrap();
    assert_eq!(bank.read(&WordsCopy::new(0, &mut words)), row);
    let error = |result: Result<u8>| result.unwrap_err().to_string();
    assert_eq!(error(row.get("id")), "column id of table bank: expected u8, given 7 (u32)");
    assert_eq!(error(row.get("nobody")), "table bank has no column nobody; it has id, owner, limit");
    assert_eq!(error(row.get("limit")), "column limit of table bank: expected u8, given null");
}
