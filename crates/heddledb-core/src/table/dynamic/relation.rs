//! What a table that is defined at run time, and each of its indexes, is to the storage: keys and a layout.

use super::coding::Unfit;
use super::key::EncodedKey;
use super::value::Value;
use crate::error::{Error, Misuse, Result};
use crate::table::key::{KeyReader, KeyWriter, key_words};
use crate::table::{ColumnType, Definition, Layout, Span, Structure};
use crate::values::{Lengths, Limit, Longer};
use crate::words::{Words, WordsMut};
use std::ops::Bound;

/// A column of a table that is defined at run time.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) ty: ColumnType,
    pub(super) group: usize,
    pub(super) ordinal: usize,
    pub(super) offset: usize,
    /// As a part of a key, how many bytes of a value of any length there is room for; 0 of other columns.
    pub(super) max: usize,
}

impl ColumnDefinition {
    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The type.
    pub fn ty(&self) -> ColumnType {
        self.ty
    }

    /// The number of its column group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Its place in the order of declaration.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Its byte offset in the row.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Of a part of a key that is of any length: how many bytes of a value the key has room for.
    pub fn max(&self) -> Option<usize> {
        (self.max > 0).then_some(self.max)
    }

    /// The words of the row that it touches.
    pub fn words(&self) -> Span {
        Span { start: self.offset / 8, end: (self.offset + self.ty.bytes()).div_ceil(8) }
    }

    /// Reads the column of a row; any bits give some value.
    pub fn load(&self, source: &impl Words) -> Value {
        self.ty.load(source, self.offset)
    }

    /// Whether the column can hold a value.
    ///
    /// # Errors
    /// [`Misuse::WrongValue`].
    pub fn check(&self, value: &Value) -> Result<()> {
        self.store(value, &mut Lengths::default())
    }

    /// Writes the column of a row.
    ///
    /// # Errors
    /// [`Misuse::WrongValue`]; nothing was written then.
    ///
    /// # Panics
    /// For a value that the row has no room for, and a target without one who keeps it ([`WordsMut::put`]).
    pub fn store(&self, value: &Value, target: &mut impl WordsMut) -> Result<()> {
        self.ty.store(value, target, self.offset).map_err(|Unfit| self.wrong(self.ty.to_string(), value))
    }

    /// Bytes of the column in a key.
    pub(super) fn key_bytes(&self) -> usize {
        self.ty.key_bytes(self.max)
    }

    /// Appends a value to a key. Of one that is too long, something that no other key has.
    pub(super) fn write_key(&self, value: &Value, out: &mut KeyWriter<'_>) -> Result<()> {
        self.ty.write_key(value, self.max, out).map_err(|Unfit| self.wrong(self.ty.to_string(), value))
    }

    /// Takes a value from a key.
    pub(super) fn read_key(&self, input: &mut KeyReader<'_>) -> Value {
        self.ty.read_key(self.max, input)
    }

    /// The limit of a part of a key, if it is of any length.
    pub(super) fn limit(&self, relation: &'static str, part: usize) -> Option<Limit> {
        let (column, slot, bytes) = (self.name, self.offset / 8, self.max);
        self.max().map(|_| Limit { relation, part, column, slot, bytes })
    }

    #[cold]
    pub(super) fn wrong(&self, expected: String, given: &Value) -> Error {
        let (table, column, given) = (self.table, self.name, given.described());
        Misuse::WrongValue { table, column, expected, given }.into()
    }
}

/// A relation as data: what the trait [`Relation`](crate::table::Relation) says of a type.
///
/// Its keys are slices of values, one for each of [`key_columns`](Self::key_columns). Bounds of scans are the
/// lowest and the highest key, both included.
#[derive(Debug)]
pub struct RelationDefinition {
    pub(super) definition: &'static Definition,
    pub(super) key: Vec<ColumnDefinition>,
    pub(super) key_bytes: usize,
    /// Of the parts of the key that are of any length.
    pub(super) limits: Vec<Limit>,
}

impl RelationDefinition {
    /// The name: the table's, and for an index `table.Index`.
    pub fn name(&self) -> &'static str {
        self.definition.name()
    }

    /// The shape of the rows.
    pub fn layout(&self) -> &'static Layout {
        self.definition.layout
    }

    /// The index that the relation is reached by.
    pub fn structure(&self) -> Structure {
        self.definition.structure
    }

    /// The definition as text, as `#[derive(Table)]` writes it.
    pub fn schema(&self) -> &'static str {
        self.definition.schema
    }

    /// What the engine knows of this relation: another one than that of a Rust type defined alike.
    pub fn definition(&self) -> &'static Definition {
        self.definition
    }

    /// The parts of the key, in their order.
    pub fn key_columns(&self) -> &[ColumnDefinition] {
        &self.key
    }

    /// The words of an encoded key, one to eight.
    pub fn key_words(&self) -> usize {
        key_words(self.key_bytes)
    }

    /// Encodes a key.
    ///
    /// # Errors
    /// [`Misuse::WrongCount`], [`Misuse::WrongValue`] and [`Misuse::KeyTooLong`] where the values do not make up a key.
    pub fn encode_key(&self, values: &[Value]) -> Result<EncodedKey> {
        check_count(self.name(), "key", &self.key, values)?;
        self.encode(values.iter())
    }

    /// Decodes a key.
    ///
    /// # Panics
    /// When there are not exactly [`key_words`](Self::key_words) words.
    pub fn decode_key(&self, words: &[u64]) -> Vec<Value> {
        assert_eq!(words.len(), self.key_words(), "a key of {} has so many words", self.name());
        let mut reader = KeyReader::new(words);
        self.key.iter().map(|column| column.read_key(&mut reader)).collect()
    }

    /// The key of a row that is given as the values of all columns of the table.
    ///
    /// # Errors
    /// [`Misuse::WrongValue`] where a part of the key has another type, [`Misuse::KeyTooLong`] where it is too long, and
    /// [`Misuse::WrongCount`] where it is missing.
    pub fn key_of(&self, row: &[Value]) -> Result<EncodedKey> {
        if self.key.iter().any(|column| column.ordinal >= row.len()) {
            return Err(wrong_count(self.name(), "key", &self.key, row.len()));
        }
        self.encode(self.key.iter().map(|column| &row[column.ordinal]))
    }

    /// The key of a row that is given as its words in the table's layout, with the values that are not in it. From a torn
    /// copy, some key; of a value that is longer than the key has room for, its start.
    pub fn key_in(&self, row: &impl Words) -> EncodedKey {
        let mut key = EncodedKey::zero(self.key_bytes);
        let mut writer = KeyWriter::new(key.words_mut());
        for column in &self.key {
            column.write_key(&column.load(row), &mut writer).expect("what a column loads fits it");
        }
        key
    }

    /// The bounds of all keys.
    pub fn all(&self) -> (EncodedKey, EncodedKey) {
        let zero = EncodedKey::zero(self.key_bytes);
        (zero, zero.last_with_prefix(0))
    }

    /// The bounds of the keys that start with `prefix`, which may be empty, and may be a whole key.
    ///
    /// # Errors
    /// As for [`encode_key`](Self::encode_key).
    pub fn prefix(&self, prefix: &[Value]) -> Result<(EncodedKey, EncodedKey)> {
        if prefix.len() > self.key.len() {
            return Err(wrong_count(self.name(), "key prefix", &self.key, prefix.len()));
        }
        let low = self.encode(prefix.iter())?;
        if prefix.len() == self.key.len() {
            return Ok((low, low));
        }
        let bytes = self.key[..prefix.len()].iter().map(ColumnDefinition::key_bytes).sum();
        Ok((low, low.last_with_prefix(bytes)))
    }

    /// The bounds of the keys between `low` and `high`, `None` where there are none. A bound that is a prefix
    /// of keys stands for all of these: they are within the range if it is included, and outside if it is
    /// excluded.
    ///
    /// # Errors
    /// As for [`encode_key`](Self::encode_key).
    pub fn range(
        &self,
        low: Bound<&[Value]>,
        high: Bound<&[Value]>,
    ) -> Result<Option<(EncodedKey, EncodedKey)>> {
        let (first, last) = self.all();
        let low = match low {
            Bound::Included(prefix) => Some(self.prefix(prefix)?.0),
            Bound::Excluded(prefix) => self.prefix(prefix)?.1.successor(),
            Bound::Unbounded => Some(first),
        };
        let high = match high {
            Bound::Included(prefix) => Some(self.prefix(prefix)?.1),
            Bound::Excluded(prefix) => self.prefix(prefix)?.0.predecessor(),
            Bound::Unbounded => Some(last),
        };
        Ok(low.zip(high).filter(|(low, high)| low <= high))
    }

    /// The encoding of the leading parts of a key.
    fn encode<'a>(&self, values: impl Iterator<Item = &'a Value>) -> Result<EncodedKey> {
        let mut key = EncodedKey::zero(self.key_bytes);
        let mut writer = KeyWriter::new(key.words_mut());
        for (part, (column, value)) in self.key.iter().zip(values).enumerate() {
            column.write_key(value, &mut writer)?;
            let limit = self.limits.iter().find(|limit| limit.part == part && value.length() > limit.bytes);
            if let Some(limit) = limit {
                return Err(Misuse::from(Longer { limit: *limit, bytes: value.length() }).into());
            }
        }
        Ok(key)
    }
}

/// Whether there is one value for each of `columns`, which make up a `part` of the relation.
pub(super) fn check_count(
    relation: &'static str,
    part: &'static str,
    columns: &[ColumnDefinition],
    values: &[Value],
) -> Result<()> {
    match values.len() == columns.len() {
        true => Ok(()),
        false => Err(wrong_count(relation, part, columns, values.len())),
    }
}

#[cold]
fn wrong_count(relation: &'static str, part: &'static str, of: &[ColumnDefinition], given: usize) -> Error {
    Misuse::WrongCount { relation, part, columns: names(of), given }.into()
}

/// The names of columns, in a message.
pub(super) fn names(columns: &[ColumnDefinition]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}
