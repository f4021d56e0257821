//! `heddle verify` and `heddle backup` on directories that are whole, damaged, old, or of types that it does not know.

use heddledb::internals::BuilderInternals;
use heddledb::internals::log::{Manifest, RelationEntry};
use heddledb::storage::Disk;
use heddledb::table::{ColumnValue, Relation};
use heddledb::{Builder, Database, ReadTransaction, Scan, Table, Text, Transaction};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod plain {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy)]
    #[table(name = "account")]
    pub struct Account {
        #[key]
        pub id: u64,
        pub owner: Text<12>,
        #[group(money)]
        pub balance: i64,
    }
}

#[derive(Table, Clone, Copy)]
#[table(unique(ByOwner(owner)), index(ByBalance(balance)))]
struct Account {
    #[key]
    id: u64,
    owner: Text<12>,
    #[group(money)]
    balance: i64,
}

/// A column type of a program's own.
#[derive(Clone, Copy, Debug, ColumnValue)]
enum Colour {
    Green = 2,
    Red = 3,
}

#[derive(Table, Clone, Copy)]
#[table(hash, index(ByWeight(weight)))]
struct Thing {
    #[key]
    id: u32,
    colour: Option<Colour>,
    weight: u16,
}

/// With a type that only a Rust program can tell the values of.
#[derive(Table, Clone, Copy)]
#[table(index(ByAnswer(answer)))]
struct Poll {
    #[key]
    id: u32,
    answer: Option<Option<bool>>,
}

fn builder(path: &Path) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).path(path)
}

fn account(id: u64) -> Account {
    Account { id, owner: Text::truncated(&format!("owner {id}")), balance: id as i64 % 5 }
}

/// A database of so many accounts, some of them in a checkpoint.
fn database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bank");
    let db = builder(&path).table::<Account>(0).open().unwrap();
    let mut session = db.session().unwrap();
    (0..20).for_each(|id| session.run(|tx| tx.insert(account(id))).unwrap());
    db.checkpoint().unwrap();
    (20..30).for_each(|id| session.run(|tx| tx.insert(account(id))).unwrap());
    session.run(|tx| tx.delete::<Account>(3)).unwrap();
    drop((session, db));
    (folder, path)
}

fn heddle(path: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    program.arg("verify").arg(path).args(more).output().expect("the program starts")
}

fn said(path: &Path) -> (Option<i32>, String) {
    let output = heddle(path, &[]);
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("the output is text"));
    let text = text.concat();
    assert!(!text.contains("panicked"), "{text}");
    (output.status.code(), text)
}

fn json(path: &Path) -> (Option<i32>, Value) {
    let output = heddle(path, &["--json"]);
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("the output is JSON"))
}

/// Names and bytes of all files.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

#[test]
fn a_whole_directory_is_found_whole_and_not_touched() {
    let (_folder, path) = database();
    let before = files(&path);
    let (code, text) = said(&path);
    assert_eq!(code, Some(0), "{text}");
    for word in ["account.ByOwner", "account.ByBalance", "29", "2 of 2 indexes compared", "is whole"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    let (code, told) = json(&path);
    assert_eq!(code, Some(0));
    assert_eq!((told["whole"].as_bool(), told["indexes"][1]["entries"].as_u64()), (Some(true), Some(29)));
    assert_eq!(files(&path), before, "nothing was changed");
    assert!(builder(&path).table::<Account>(0).open().unwrap().check().unwrap().is_whole());
}

#[test]
fn an_index_that_is_not_true_is_a_finding() {
    let (_folder, path) = database();
    // A table that knows nothing of its indexes, beside these.
    let beside = builder(&path).keep_indexes().table::<plain::Account>(0);
    let db = beside.relation(ByOwner::definition()).relation(ByBalance::definition()).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.delete::<plain::Account>(7)).unwrap();
    session.run(|tx| tx.set_columns(8, plain::Account::balance, -4)).unwrap();
    drop((session, db));
    let before = files(&path);
    let (code, text) = said(&path);
    assert_eq!(code, Some(1), "{text}");
    for word in [
        "WRONG",
        "leads to row 7, which is not there",
        "row 8 has no entry (-4, 8)",
        "2 of 2 indexes compared do not",
    ] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    let (code, told) = json(&path);
    assert_eq!((code, told["whole"].as_bool()), (Some(1), Some(false)));
    let figure = |index: usize, name: &str| told["indexes"][index][name].as_u64().unwrap();
    assert_eq!([figure(0, "rows"), figure(0, "missing"), figure(0, "stray")], [28, 1, 2]);
    assert_eq!([figure(1, "rows"), figure(1, "missing"), figure(1, "stray")], [28, 0, 1]);
    assert_eq!(files(&path), before, "nothing was changed");
}

#[test]
fn an_index_of_an_older_directory_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old");
    let db = builder(&path).table::<plain::Account>(0).open().unwrap();
    let row = plain::Account { id: 1, owner: Text::truncated("Ada"), balance: 5 };
    db.session().unwrap().run(|tx| tx.insert(row)).unwrap();
    drop(db);
    // An older release listed the index and left it empty.
    let disk = Disk::open(&path).unwrap();
    let mut manifest = Manifest::read(&disk).unwrap().unwrap();
    let table = manifest.relations[0].clone();
    let name = "account.ByOwner".to_owned();
    let schema = format!("unique index over owner; {}", table.schema);
    manifest.relations.push(RelationEntry { id: 1, name, schema, key_words: 2, groups: vec![1], ..table });
    fs::write(path.join("MANIFEST"), manifest.encode_as(1)).unwrap();
    let (code, text) = said(&path);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("row 1 has no entry Ada in account.ByOwner"), "{text}");
    assert!(text.contains("the next opening builds it"), "{text}");
    let db = builder(&path).table::<Account>(0).open().unwrap();
    assert!(db.check().unwrap().is_whole());
    drop(db);
    assert_eq!(said(&path).0, Some(0));
}

fn damage_checkpoint(path: &Path) {
    // Neighbouring rows are in one part, so another may have none.
    let parts = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| path.to_string_lossy().contains("checkpoint-0000000001-");
    let part = parts.filter(is_part).max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&part).unwrap();
    bytes[200] ^= 4;
    fs::write(&part, bytes).unwrap();
}

#[test]
fn a_damaged_file_is_a_finding() {
    let (_folder, path) = database();
    damage_checkpoint(&path);
    let (code, text) = said(&path);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("DAMAGED") && text.contains("no index was compared"), "{text}");
}

#[test]
fn an_index_beside_a_type_of_the_programs_own_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("things");
    let db = builder(&path).table::<Thing>(0).open().unwrap();
    let colours = [Some(Colour::Green), Some(Colour::Red), None];
    let things = (0..).zip(colours).map(|(id, colour)| Thing { id, colour, weight: 70 });
    db.session().unwrap().run(|tx| things.clone().try_for_each(|thing| tx.insert(thing))).unwrap();
    drop(db);
    let (code, text) = said(&path);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 of 1 indexes compared"), "{text}");
}

#[test]
fn an_index_beside_a_type_that_has_no_definition_is_told_as_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("polls");
    let db = builder(&path).table::<Poll>(0).table::<Account>(0).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(Poll { id: 4, answer: Some(None) })).unwrap();
    session.run(|tx| tx.insert(account(4))).unwrap();
    drop((session, db));
    let (code, text) = said(&path);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("poll.ByAnswer was not compared"), "{text}");
    assert!(text.contains("2 of 3 indexes compared"), "{text}");
    let (_, told) = json(&path);
    assert_eq!(told["indexes"][2]["compared"].as_bool(), Some(false));
    // The program itself can.
    let db = builder(&path).table::<Poll>(0).table::<Account>(0).open().unwrap();
    assert_eq!(db.check().unwrap().indexes[2].entries, 1);
}

#[test]
fn what_is_no_database_or_is_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = said(folder.path());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("holds no database"), "{text}");
    let (_folder, path) = database();
    let db = builder(&path).table::<Account>(0).open().unwrap();
    let (code, text) = said(&path);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is open in a database"), "{text}");
    drop(db);
}

/// What `heddle backup` said, and its exit code.
fn backed_up(from: &Path, to: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    let output = program.arg("backup").arg(from).arg(to).args(more).output().expect("the program starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn a_closed_database_is_copied_without_its_program() {
    let (folder, path) = database();
    let names = |path: &Path| {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<_> =
            names.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
        names.sort();
        names
    };
    let before = names(&path);
    let copy = folder.path().join("copy");
    let (code, text) = backed_up(&path, &copy, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("is copied to") && text.contains("rows in"), "{text}");
    assert_eq!(names(&path), before);
    let (code, text) = said(&copy);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 of 2 indexes compared"), "{text}");
    let db = builder(&copy).table::<Account>(0).open().unwrap();
    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<Account>::all())).unwrap();
    assert_eq!(rows.len(), 29);
    for row in rows {
        let Account { owner, balance, .. } = account(row.id);
        assert_eq!((row.owner, row.balance), (owner, balance));
    }
    // A second one into the same place, and one of what is open.
    drop(db);
    let (code, text) = backed_up(&path, &copy, &["--json"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a backup is made in a directory of its own"), "{text}");
    let (code, text) = backed_up(&path, &folder.path().join("nowhere").join("copy"), &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("has no directory to be in"), "{text}");
    let _db = builder(&path).table::<Account>(0).open().unwrap();
    let (code, text) = backed_up(&path, &folder.path().join("other"), &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is open in a database"), "{text}");
}

#[test]
fn what_is_damaged_is_not_copied() {
    let (folder, path) = database();
    damage_checkpoint(&path);
    let (code, text) = backed_up(&path, &folder.path().join("copy"), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is damaged: "), "{text}");
    assert!(!folder.path().join("copy").exists());
}

#[test]
fn a_directory_that_was_copied_while_it_was_open_is_refused() {
    let (folder, path) = database();
    let raw = folder.path().join("raw");
    let db = builder(&path).table::<Account>(0).open().unwrap();
    fs::create_dir(&raw).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), raw.join(entry.file_name())).unwrap();
    }
    drop(db);
    let (code, text) = said(&raw);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("backup") && text.contains("--accept-copy"), "{text}");
    let copy = folder.path().join("copy");
    let (code, text) = backed_up(&raw, &copy, &[]);
    assert_eq!(code, Some(2), "{text}");
    let (code, text) = backed_up(&raw, &copy, &["--accept-copy", "--mib-per-second", "100"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = said(&copy);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn the_tables_of_a_directory_are_shown() {
    let (_folder, path) = database();
    let shown = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
        let output = program.arg("schema").arg(&path).args(more).output().expect("the program starts");
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    // Also while it is open.
    let _db = builder(&path).table::<Account>(0).open().unwrap();
    let text = shown(&[]);
    assert!(text.contains("table account, by a tree") && text.contains("Text<12>"), "{text}");
    assert!(text.contains("unique index ByOwner over owner: whole"), "{text}");
    let told: Value = serde_json::from_str(&shown(&["--json"])).unwrap();
    let balance = &told[0]["columns"][2];
    assert_eq!(
        *balance,
        serde_json::json!({"column": "balance", "type": "i64", "group": "money", "key": false})
    );
    assert_eq!(told[0]["indexes"][1]["columns"], serde_json::json!(["balance"]));
}
