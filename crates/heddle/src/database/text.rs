//! Rows as text: CSV, and JSON Lines.
//!
//! Every value is written so that it is read back as the same one. In CSV nothing is an empty field; so in a column of texts that
//! may be nothing, an empty text and one that begins with a backslash have a backslash before them. In JSON Lines integers and
//! floats are numbers, except floats that no JSON number is, and everything else but `null`, `true` and `false` is a string.

use heddledb::table::dynamic::{ColumnDefinition, ColumnType, RowValues, TableDefinition, Value};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read, Write};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated values, with the names of the columns in the first line
    Csv,
    /// A JSON object in each line
    Jsonl,
}

impl Format {
    /// The end of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// What is wrong with text, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The line, from 1 on.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Writes rows of a table.
pub enum Writer<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(W),
}

impl<W: Write> Writer<W> {
    /// Writes the names of the columns, where the format has them once.
    pub fn begin(format: Format, table: &TableDefinition, out: W) -> std::io::Result<Self> {
        Ok(match format {
            Format::Jsonl => Self::Jsonl(out),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(table.column_names())?;
                Self::Csv(Box::new(writer))
            }
        })
    }

    /// Writes a row.
    pub fn row(&mut self, row: &RowValues) -> std::io::Result<()> {
        let columns = row.table().columns().iter().zip(row.values());
        match self {
            Self::Csv(writer) => {
                for (column, value) in columns {
                    writer.write_field(field(column.ty(), value))?;
                }
                Ok(writer.write_record(None::<&[u8]>)?)
            }
            Self::Jsonl(out) => {
                for (at, (column, value)) in columns.enumerate() {
                    let begin = if at == 0 { '{' } else { ',' };
                    write!(out, "{begin}{}:{}", quoted(column.name()), json(value))?;
                }
                out.write_all(b"}\n")
            }
        }
    }

    /// Writes what is left.
    pub fn end(self) -> std::io::Result<()> {
        match self {
            Self::Csv(mut writer) => writer.flush(),
            Self::Jsonl(mut out) => out.flush(),
        }
    }
}

/// Whether a column's values are texts, or nothing.
fn is_text_or_nothing(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Reverse(inner) => is_text_or_nothing(*inner),
        ColumnType::Option(inner) => is_text(*inner),
        _ => false,
    }
}

fn is_text(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Reverse(inner) => is_text(*inner),
        ty => matches!(ty, ColumnType::Text(_) | ColumnType::String),
    }
}

fn field(ty: ColumnType, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) if is_text_or_nothing(ty) && (text.is_empty() || text.starts_with('\\')) => {
            format!("\\{text}")
        }
        value => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json(value: &Value) -> String {
    match value {
        Value::F32(number) if !number.is_finite() => quoted(&value.to_string()),
        Value::F64(number) if !number.is_finite() => quoted(&value.to_string()),
        Value::Null
        | Value::Bool(_)
        | Value::U8(_)
        | Value::U16(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::U128(_)
        | Value::I8(_)
        | Value::I16(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::I128(_)
        | Value::F32(_)
        | Value::F64(_) => value.to_string(),
        value => quoted(&value.to_string()),
    }
}

/// Reads all rows, and says of the first that is wrong where and what.
pub fn read(format: Format, table: &TableDefinition, input: impl BufRead) -> Result<Vec<Vec<Value>>, Flaw> {
    match format {
        Format::Csv => read_csv(table, input),
        Format::Jsonl => read_jsonl(table, input),
    }
}

fn read_csv(table: &TableDefinition, input: impl Read) -> Result<Vec<Vec<Value>>, Flaw> {
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Flaw { line, what: error.to_string() }
    };
    let mut reader = csv::ReaderBuilder::new().from_reader(input);
    let header = reader.headers().map_err(wrong)?.clone();
    // The field of each column.
    let mut fields = Vec::new();
    for column in table.columns() {
        let at = header.iter().position(|name| name == column.name());
        fields.push(at.ok_or_else(|| {
            let found: Vec<&str> = header.iter().collect();
            let what =
                format!("there is no column {}; the first line has {}", column.name(), found.join(", "));
            Flaw { line: 1, what }
        })?);
    }
    if let Some(name) = header.iter().find(|name| table.column(name).is_err()) {
        return Err(Flaw { line: 1, what: format!("table {} has no column {name}", table.name()) });
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let line = record.position().map_or(0, csv::Position::line);
        let value = |(column, at): (&ColumnDefinition, &usize)| {
            let ty = column.ty();
            match (&record[*at], ty) {
                ("", ColumnType::Option(_)) => Ok(Value::Null),
                ("", ColumnType::Reverse(ColumnType::Option(_))) => Ok(Value::Null),
                (text, ty) if is_text_or_nothing(ty) => {
                    // `null` is a text here.
                    checked(column, Value::from(text.strip_prefix('\\').unwrap_or(text)))
                }
                (text, ty) => ty.parse(text).map_err(|error| format!("column {}: {error}", column.name())),
            }
            .map_err(|what| Flaw { line, what })
        };
        let row: Vec<Value> = table.columns().iter().zip(&fields).map(value).collect::<Result<_, _>>()?;
        has_keys(table, &row).map_err(|what| Flaw { line, what })?;
        rows.push(row);
    }
    Ok(rows)
}

/// Whether there is room for a row in the key and in each index.
fn has_keys(table: &TableDefinition, row: &[Value]) -> Result<(), String> {
    let key = table.relation().key_of(row).map(|_| ());
    let all = key.and_then(|()| table.indexes().iter().try_for_each(|index| index.entry(row).map(|_| ())));
    all.map_err(|error| error.to_string())
}

/// The value, if its column can hold it.
fn checked(column: &ColumnDefinition, value: Value) -> Result<Value, String> {
    column.check(&value).map(|()| value).map_err(|error| error.to_string())
}

fn read_jsonl(table: &TableDefinition, input: impl BufRead) -> Result<Vec<Vec<Value>>, Flaw> {
    let mut rows = Vec::new();
    for (number, text) in (1..).zip(input.lines()) {
        let flaw = |what: String| Flaw { line: number, what };
        let text = text.map_err(|error| flaw(error.to_string()))?;
        if text.trim().is_empty() {
            continue;
        }
        let object: BTreeMap<String, &RawValue> =
            serde_json::from_str(&text).map_err(|error| flaw(format!("no JSON object: {error}")))?;
        if let Some(name) = object.keys().find(|name| table.column(name).is_err()) {
            return Err(flaw(format!("table {} has no column {name}", table.name())));
        }
        let value = |column: &ColumnDefinition| {
            let name = column.name();
            let raw = object.get(name).ok_or_else(|| flaw(format!("there is no column {name}")))?.get();
            let value = if raw == "null" {
                checked(column, Value::Null)
            } else if raw.starts_with('"') {
                let text: String = serde_json::from_str(raw).map_err(|error| flaw(error.to_string()))?;
                match is_text_or_nothing(column.ty()) {
                    true => checked(column, text.into()),
                    false => column.ty().parse(&text).map_err(|error| format!("column {name}: {error}")),
                }
            } else {
                column.ty().parse(raw).map_err(|error| format!("column {name}: {error}"))
            };
            value.map_err(flaw)
        };
        let row: Vec<Value> = table.columns().iter().map(value).collect::<Result<_, _>>()?;
        has_keys(table, &row).map_err(flaw)?;
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> &'static TableDefinition {
        TableDefinition::builder("t")
            .key("id", ColumnType::U16)
            .key("word", ColumnType::String)
            .max(3)
            .column("free", ColumnType::ByteString.optional())
            .index("ByFree", [("free", 4)])
            .column("name", ColumnType::Text(8).optional())
            .column("at", ColumnType::Timestamp)
            .column("raw", ColumnType::Bytes(2))
            .column("state", ColumnType::enumeration(ColumnType::U8, [("On", 1), ("Off", 0)]))
            .build()
            .unwrap()
    }

    proptest! {
        /// Whatever is read, it is rows that the table can hold, or a flaw with its line.
        #[test]
        fn any_text_is_rows_or_a_flaw(
            format in prop::sample::select(vec![Format::Csv, Format::Jsonl]),
            changes in prop::collection::vec((any::<prop::sample::Index>(), "\\PC{0,3}|[\"\\\\,{}\n0-9]{0,3}", 0usize..6), 0..6),
        ) {
            let table = table();
            let values = [1u16.into(), "abc".into(), vec![1u8; 4].into(), Value::Null, ColumnType::Timestamp.parse("2026-11-24T10:00:00Z").unwrap()];
            let row = [&values[..], &[[1u8, 2].into(), "On".into()]].concat();
            let mut text = Vec::new();
            let mut writer = Writer::begin(format, table, &mut text).unwrap();
            writer.row(&table.row(row.clone()).unwrap()).unwrap();
            writer.row(&table.row(row).unwrap()).unwrap();
            writer.end().unwrap();
            let is_changed = !changes.is_empty();
            for (at, insert, remove) in changes {
                let at = at.index(text.len() + 1);
                text.splice(at..(at + remove).min(text.len()), insert.into_bytes());
            }
            match read(format, table, &text[..]) {
                Ok(rows) => {
                    for row in rows {
                        table.columns().iter().zip(&row).for_each(|(column, value)| column.check(value).unwrap());
                        assert!(has_keys(table, &row).is_ok());
                    }
                }
                Err(flaw) => prop_assert!(is_changed && flaw.line >= 1, "{flaw}"),
            }
        }
    }

    #[test]
    fn a_value_that_no_key_has_room_for_is_told_with_its_line() {
        let table = TableDefinition::builder("t")
            .key("word", ColumnType::String)
            .max(3)
            .column("free", ColumnType::String)
            .index("ByFree", [("free", 4)])
            .build()
            .unwrap();
        for (format, text, relation) in [
            (Format::Csv, "word,free\na,b\nabcd,b\n", "t"),
            (Format::Csv, "word,free\na,b\nabc,12345\n", "t.ByFree"),
            (Format::Jsonl, "\n\n{\"word\":\"abcd\",\"free\":\"b\"}\n", "t"),
        ] {
            let flaw = read(format, table, text.as_bytes()).unwrap_err();
            assert!(
                flaw.line == 3 && flaw.what.contains(&format!("the key of {relation} has room")),
                "{flaw}"
            );
        }
    }
}
