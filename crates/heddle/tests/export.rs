//! `heddle export` and `heddle import`: every value comes back, and what is wrong changes nothing.

use heddledb::table::dynamic::{ColumnType, RowValues, TableDefinition, Value};
use heddledb::{Builder, Database, RowScan};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A table with every type that rows of values have.
fn everything(hash: bool) -> &'static TableDefinition {
    let status = ColumnType::enumeration(ColumnType::I16, [("Open", -3), ("Sold", 300)]);
    let builder = TableDefinition::builder("everything")
        .key("id", ColumnType::U64)
        .key("part", ColumnType::Text(6).optional())
        .column("a", ColumnType::I8)
        .column("b", ColumnType::U128)
        .column("c", ColumnType::I128.optional())
        .column("d", ColumnType::Bool)
        .column("e", ColumnType::F32)
        .column("f", ColumnType::F64.optional())
        .column("g", ColumnType::Bytes(3))
        .column("h", ColumnType::Text(12).optional().reversed())
        .column("i", ColumnType::Duration)
        .column("j", status.optional())
        .column("k", ColumnType::Timestamp)
        .column("l", ColumnType::SignedDuration.optional())
        .column("m", ColumnType::Date)
        .column("n", ColumnType::Time)
        .column("o", ColumnType::DateTime)
        .column("p", ColumnType::Uuid)
        .column("q", ColumnType::Decimal)
        .column("r", ColumnType::Text(30))
        .column("s", ColumnType::String.optional())
        .column("t", ColumnType::ByteString)
        .index("ByStatus", ["j"])
        .unique("ByUuid", ["p"]);
    let builder = if hash { builder.hash() } else { builder };
    builder.build().unwrap()
}

fn rows() -> Vec<Vec<Value>> {
    let parse = |ty: ColumnType, text: &str| ty.parse(text).unwrap();
    let texts = ["", "\\", "null", "a,b", "\"quoted\"", "zwölf\n", "0x00"];
    let row = |(id, text): (u64, &&str)| {
        let number = id as f64;
        let part = if id % 2 == 0 { Value::Null } else { Value::from(&text[..text.len().min(4)]) };
        let optional = if id % 3 == 0 { Value::Null } else { Value::from(*text) };
        vec![
            id.into(),
            part,
            (id as i8 - 3).into(),
            (u128::MAX - u128::from(id)).into(),
            Value::from((id % 2 == 1).then_some(i128::MIN)),
            (id % 2 == 0).into(),
            [f32::MIN, f32::INFINITY, 0.1][id as usize % 3].into(),
            Value::from((id % 4 != 0).then_some(number / 3.0)),
            [id as u8, 0, 255].into(),
            optional,
            Duration::new(id, 1_000_000 * id as u32).into(),
            if id % 3 == 1 { Value::Null } else { "Sold".into() },
            parse(ColumnType::Timestamp, "2026-11-24T10:37:30.000000001Z"),
            if id == 2 { Value::Null } else { parse(ColumnType::SignedDuration, "-PT1H0.5S") },
            parse(ColumnType::Date, "-000044-03-15"),
            parse(ColumnType::Time, "23:59:59.999999999"),
            parse(ColumnType::DateTime, "1789-07-14T17:30:00"),
            parse(ColumnType::Uuid, &format!("01234567-89ab-cdef-0123-4567{id:08x}")),
            parse(ColumnType::Decimal, &format!("{id}.500")),
            Value::from(*text),
            match id {
                1 => Value::Null,
                2..5 => ["", "null", "\\"][id as usize - 2].into(),
                _ => text.repeat(100).into(),
            },
            Value::Bytes(vec![id as u8; 15 * id as usize]),
        ]
    };
    (1..).zip(&texts).map(row).collect()
}

fn builder(path: &Path, hash: bool) -> Builder {
    Database::builder().manual_epochs().path(path).define(everything(hash), 0)
}

fn stored(path: &Path, hash: bool) -> Vec<RowValues> {
    let db = builder(path, hash).open().unwrap();
    let table = db.define(everything(hash), 0).unwrap();
    db.session().unwrap().run(|tx| tx.rows(&table)?.collect(RowScan::all().by("ByUuid"))).unwrap()
}

/// A directory with these rows.
fn directory(folder: &Path, name: &str, hash: bool, rows: &[Vec<Value>]) -> PathBuf {
    let path = folder.join(name);
    let db = builder(&path, hash).open().unwrap();
    let table = db.define(everything(hash), 0).unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| rows.iter().try_for_each(|row| tx.rows(&table)?.insert(row))).unwrap();
    path
}

/// What the command wrote, its complaints, and its exit code.
fn heddle(arguments: &[&str], input: &str) -> (String, String, Option<i32>) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    let program = program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_value_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    for hash in [false, true] {
        for format in ["csv", "jsonl"] {
            let name = |what: &str| format!("{what} {hash} {format}");
            let full = directory(folder.path(), &name("full"), hash, &rows());
            let empty = directory(folder.path(), &name("empty"), hash, &[]);
            let table = ["--table", "everything", "--format", format];
            let (written, told, code) = heddle(&[&["export", text(&full)], &table[..]].concat(), "");
            assert_eq!(code, Some(0), "{told}");
            // All of them, also of a hash table, which cannot be scanned.
            let ids = stored(&full, hash).iter().map(|row| row["id"].to_string()).collect::<Vec<_>>();
            let begins = |line: &str, id: &str| {
                line.starts_with(&format!("{id},")) || line.starts_with(&format!("{{\"id\":{id},"))
            };
            let found = written.lines().filter(|line| ids.iter().any(|id| begins(line, id))).count();
            assert_eq!(found, ids.len(), "{written}");
            let (_, told, code) = heddle(&[&["import", text(&empty)], &table[..]].concat(), &written);
            assert_eq!(code, Some(0), "{told}");
            assert_eq!(stored(&empty, hash), stored(&full, hash));
            // Once more they are in the way, unless they are to be replaced.
            let (_, told, code) = heddle(&[&["import", text(&empty)], &table[..]].concat(), &written);
            assert_eq!(code, Some(1));
            assert!(told.contains("already has a row with key") && told.contains("0 rows before"), "{told}");
            let (_, told, code) =
                heddle(&[&["import", text(&empty), "--replace"], &table[..]].concat(), &written);
            assert_eq!(code, Some(0), "{told}");
            assert_eq!(stored(&empty, hash), stored(&full, hash));
        }
    }
}

#[test]
fn all_tables_go_to_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = directory(folder.path(), "bank", false, &rows());
    let out = folder.path().join("out");
    let (_, told, code) = heddle(&["export", text(&path), "--format", "jsonl", "--out", text(&out)], "");
    assert_eq!(code, Some(0), "{told}");
    let file = out.join("everything.jsonl");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), rows().len());
    // A second time the file is there.
    let (_, told, code) = heddle(&["export", text(&path), "--format", "jsonl", "--out", text(&out)], "");
    assert_eq!(code, Some(1));
    assert!(told.contains("everything.jsonl is there already, and is not overwritten"), "{told}");
    // The format is told by the name.
    let empty = directory(folder.path(), "empty", false, &[]);
    let (_, told, code) = heddle(&["import", text(&empty), "--table", "everything", text(&file)], "");
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(stored(&empty, false), stored(&path, false));
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = directory(folder.path(), "bank", false, &rows());
    let before = stored(&path, false);
    let (csv, ..) = heddle(&["export", text(&path), "--table", "everything"], "");
    let (jsonl, ..) = heddle(&["export", text(&path), "--table", "everything", "--format", "jsonl"], "");
    let wrong = |format: &str, input: &str, expected: &str| {
        let (_, told, code) =
            heddle(&["import", text(&path), "--table", "everything", "--format", format, "--replace"], input);
        assert_eq!(code, Some(1), "{expected}");
        assert!(told.contains(expected) && told.contains("nothing was imported"), "{told} has no {expected}");
    };
    wrong(
        "csv",
        &csv.replace("1789-07-14T17:30:00", "yesterday"),
        "line 2: column o: expected DateTime, given \"yesterday\"",
    );
    wrong("csv", &csv.replacen("Sold", "Lost", 1), "expected Option<i16{Open=-3,Sold=300}>, given \"Lost\"");
    wrong(
        "csv",
        &csv.replacen("id,", "number,", 1),
        "line 1: there is no column id; the first line has number, part",
    );
    wrong("csv", &csv.replacen("id,", "id,extra,", 1), "extra");
    wrong("csv", &(csv.clone() + "1,2\n"), "line");
    wrong(
        "jsonl",
        &jsonl.replacen("\"id\":", "\"number\":", 1),
        "line 1: table everything has no column number",
    );
    wrong("jsonl", &jsonl.replacen("\"d\":false", "\"d\":7", 1), "column d: expected bool, given \"7\"");
    wrong("jsonl", &jsonl.replacen('{', "[", 1), "line 1: no JSON object");
    wrong("jsonl", &jsonl.replacen("\"d\":false,", "", 1), "line 1: there is no column d");
    assert_eq!(stored(&path, false), before);
    let (_, told, code) = heddle(&["export", text(&path), "--table", "nothing"], "");
    assert_eq!(code, Some(2));
    assert!(told.contains("has no table nothing whose columns are known; it has everything"), "{told}");
}
