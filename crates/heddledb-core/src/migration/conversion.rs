//! Rows of one definition as rows of another.

use super::To;
use crate::table::Layout;
use crate::table::dynamic::{ColumnType, RowValues, TableDefinition, Value};
use crate::values::Values;
use crate::words::{WithValues, WordsCopy};

/// How the rows of a stored table become those of a declared one.
pub struct Conversion {
    pub(super) old: &'static TableDefinition,
    pub(super) new: &'static TableDefinition,
    /// Of each column of the new table.
    pub(super) columns: Vec<Source>,
}

/// Where the value of a column comes from.
#[derive(Clone)]
pub(super) enum Source {
    /// A column of the old table, whose type is widened.
    Old { ordinal: usize },
    /// What the migration says.
    Said(To),
}

impl Conversion {
    /// The name of the new table.
    pub fn name(&self) -> &'static str {
        self.new.name()
    }

    /// Words of its keys.
    pub fn key_words(&self) -> usize {
        self.new.relation().key_words()
    }

    /// The shape of its rows.
    pub fn layout(&self) -> &'static Layout {
        self.new.relation().layout()
    }

    /// Converts a row, given as all its data words, and who keeps its values; appends the new key and the new data words. Its
    /// values are put there by the worker of that number.
    ///
    /// # Errors
    /// What the migration's function says, or that what it made does not fit, with the row's key.
    pub fn row(
        &self,
        data: &[u64],
        kept: &dyn Values,
        worker: usize,
        key: &mut Vec<u64>,
        out: &mut Vec<u64>,
    ) -> Result<(), String> {
        let old = self.old.read(&WithValues { row: data, values: kept });
        let values = self.columns.iter().zip(self.new.columns()).map(|(source, column)| match source {
            Source::Old { ordinal } => {
                let (value, ty) = (old.values()[*ordinal].clone(), self.old.columns()[*ordinal].ty());
                Ok(widened(value, ty, column.ty()).expect("the plan has compared the types"))
            }
            Source::Said(To::Value(value)) => Ok(value.clone()),
            Source::Said(To::Made(make)) => make(&old),
        });
        let at = out.len();
        let encoded = values.collect::<crate::Result<Vec<Value>>>().and_then(|values| {
            out.resize(at + self.layout().words, 0);
            self.new.encode_row(&values, &mut WordsCopy::new(0, &mut out[at..]).with(kept, worker))?;
            key.extend_from_slice(self.new.relation().key_of(&values)?.words());
            Ok(())
        });
        encoded.map_err(|error| format!("row {}: {error}", key_text(self.old, &old)))
    }
}

/// The key of a row, for a person.
fn key_text(table: &TableDefinition, row: &RowValues) -> String {
    let parts =
        table.relation().key_columns().iter().map(|column| row.values()[column.ordinal()].to_string());
    parts.collect::<Vec<_>>().join(", ")
}

/// The type whose values those of a type are.
fn plain(ty: ColumnType) -> ColumnType {
    match ty {
        ColumnType::Reverse(inner) => plain(*inner),
        ty => ty,
    }
}

/// The least and the largest number of an integer type, as far as signed numbers of 128 bits go.
fn integers(ty: ColumnType) -> Option<(i128, Option<i128>)> {
    match ty {
        ColumnType::U128 => Some((0, None)),
        ColumnType::I128 => Some((i128::MIN, Some(i128::MAX))),
        ty => ty.integers().map(|(least, most)| (least, Some(most))),
    }
}

/// Whether a type has all values of another.
pub(super) fn widens(from: ColumnType, to: ColumnType) -> bool {
    let (from, to) = (plain(from), plain(to));
    match (from, to) {
        (ColumnType::Option(from), ColumnType::Option(to)) => widens(*from, *to),
        (ColumnType::Option(_), _) => false,
        (from, ColumnType::Option(to)) => widens(from, *to),
        (ColumnType::Text(from), ColumnType::Text(to)) => from <= to,
        (ColumnType::Text(_) | ColumnType::Enum(_), ColumnType::String) => true,
        (ColumnType::Bytes(_), ColumnType::ByteString) => true,
        (ColumnType::F32, ColumnType::F64) => true,
        // Under what number it is stored does not matter: rows are written anew.
        (ColumnType::Enum(from), ColumnType::Enum(to)) => {
            from.variants().iter().all(|(name, _)| to.number(name).is_some())
        }
        (from, to) if from == to => true,
        (from, to) => match (integers(from), integers(to)) {
            (Some((least, most)), Some((lower, upper))) => {
                lower <= least && (upper.is_none() || most.is_some_and(|most| Some(most) <= upper))
            }
            _ => false,
        },
    }
}

/// A value of a type as one of another that [`widens`] it.
fn widened(value: Value, from: ColumnType, to: ColumnType) -> Option<Value> {
    let (from, to) = (plain(from), plain(to));
    match (from, to) {
        (_, ColumnType::Option(_)) if value.is_null() => Some(Value::Null),
        (ColumnType::Option(from), to) => widened(value, *from, to),
        (from, ColumnType::Option(to)) => widened(value, from, *to),
        (from, to) if from == to => Some(value),
        (ColumnType::F32, ColumnType::F64) => f32::try_from(&value).ok().map(|value| f64::from(value).into()),
        (ColumnType::Text(_) | ColumnType::Enum(_) | ColumnType::Bytes(_), _) => Some(value),
        (_, to) => {
            let number = value.integer()?;
            match to {
                ColumnType::U128 => u128::try_from(number).ok().map(Value::U128),
                ColumnType::I128 => Some(Value::I128(number)),
                to => Value::of_integer(to, number),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_widens_keeps_every_value() {
        let enumeration =
            |names: &[&str]| ColumnType::enumeration(ColumnType::U8, names.iter().copied().zip(0..));
        let types: Vec<ColumnType> = ColumnType::SIMPLE
            .iter()
            .copied()
            .chain([ColumnType::Text(3), ColumnType::Text(5), ColumnType::Bytes(2), ColumnType::Bytes(4)])
            .chain([enumeration(&["A"]), enumeration(&["B", "A"])])
            .collect();
        let all = || types.iter().copied().chain(types.iter().map(|ty| ty.optional()));
        let mut pairs = 0;
        for (from, to) in all().flat_map(|from| all().map(move |to| (from, to))) {
            if !widens(from, to) {
                continue;
            }
            pairs += usize::from(from != to);
            for value in samples(from) {
                let wide =
                    widened(value.clone(), from, to).unwrap_or_else(|| panic!("{value} of {from} to {to}"));
                let mut words = [0; 4];
                let column =
                    TableDefinition::builder("t").key("id", ColumnType::U8).column("a", to).build().unwrap();
                let column = column.column("a").unwrap();
                column.store(&wide, &mut WordsCopy::new(0, &mut words)).unwrap();
                assert_eq!(wide.to_string(), value.to_string(), "{from} to {to}");
            }
        }
        assert!(pairs > 80, "{pairs}");
        for (from, to) in [(ColumnType::U64, ColumnType::I64), (ColumnType::I8, ColumnType::U64)] {
            assert!(!widens(from, to) && !widens(to, from));
        }
        assert!(
            !widens(ColumnType::U128, ColumnType::I128) && !widens(ColumnType::U8.optional(), ColumnType::U8)
        );
        assert!(widens(ColumnType::U8, ColumnType::I16.reversed().optional()));
    }

    fn samples(ty: ColumnType) -> Vec<Value> {
        if let ColumnType::Option(inner) = ty {
            return [Value::Null].into_iter().chain(samples(*inner)).collect();
        }
        match ty {
            ColumnType::U128 => vec![Value::U128(0), Value::U128(u128::MAX)],
            ColumnType::I128 => vec![Value::I128(i128::MIN), Value::I128(i128::MAX)],
            ColumnType::F32 => vec![Value::F32(-1.5)],
            ColumnType::Text(bytes) => vec!["".into(), Value::from(&"abcdef"[..bytes])],
            ColumnType::Enum(of) => of.variants().iter().map(|(name, _)| Value::from(*name)).collect(),
            ty => match ty.integers() {
                Some((least, most)) => [least, most].map(|n| Value::of_integer(ty, n).unwrap()).to_vec(),
                None => Vec::new(),
            },
        }
    }
}
