//! `heddle backup --incremental` and `heddle restore`, on directories whose program is not there.

use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
use std::fs;
use std::path::Path;
use std::process::Command;

#[derive(Table, Clone, Debug)]
#[table(name = "note")]
struct Note {
    #[key]
    id: u64,
    text: String,
}

fn open(path: &Path) -> Database {
    Database::builder().path(path).keep_log(1 << 20).table::<Note>(0).open().unwrap()
}

fn write(path: &Path, ids: std::ops::Range<u64>) {
    let db = open(path);
    let mut session = db.session().unwrap();
    for id in ids {
        session.run(|tx| tx.insert(Note { id, text: "a long text of a note ".repeat(id as usize) })).unwrap();
    }
    db.flush().unwrap();
}

fn notes(path: &Path) -> usize {
    let all = open(path).session().unwrap().run(|tx| tx.collect(Scan::<Note>::all())).unwrap();
    for note in &all {
        assert_eq!(note.text, "a long text of a note ".repeat(note.id as usize));
    }
    all.len()
}

/// What `heddle` said, and its exit code.
fn heddle(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    let output = program.args(arguments).args(paths).output().expect("the program starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn a_copy_is_continued_and_restored_without_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (bank, copy) = (path("bank"), path("copy"));
    write(&bank, 0..3);
    assert_eq!(heddle(&["backup"], &[&bank, &copy]).0, Some(0));
    write(&bank, 3..5);
    write(&bank, 5..9);
    let (code, text) = heddle(&["backup", "--incremental"], &[&bank, &copy]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("6 transactions"), "{text}");
    let (code, text) = heddle(&["backup", "--incremental", "--json"], &[&bank, &copy]);
    assert!(code == Some(0) && text.contains("\"transactions\": 0"), "{text}");
    let (code, text) = heddle(&["verify"], &[&copy]);
    assert!(code == Some(0) && text.contains("it can be restored to epochs "), "{text}");
    let (code, text) = heddle(&["log", "inspect"], &[&copy]);
    assert!(code == Some(0) && text.contains("it is a copy of the directory "), "{text}");

    let reach = heddledb::Restore::from(&copy).reach().unwrap();
    let (first, last) = reach.times.unwrap();
    let (code, text) = heddle(&["restore"], &[&copy, &path("latest")]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = heddle(&["verify"], &[&path("latest")]);
    assert!(code == Some(0) && text.contains("is whole up to epoch"), "{text}");
    assert_eq!(notes(&path("latest")), 9);
    let instant = heddledb::internals::copies::instant;
    let (code, text) = heddle(&["restore", "--at", &instant(first)], &[&copy, &path("first")]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(notes(&path("first")), 3);
    let (code, text) =
        heddle(&["restore", "--epoch", &reach.epochs.end().to_string()], &[&copy, &path("epoch")]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(notes(&path("epoch")), 9);
    // What is asked for is not there, or no moment.
    let (code, text) = heddle(&["restore", "--at", "2020-01-01T00:00:00Z"], &[&copy, &path("early")]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains(&instant(first)) && text.contains(&instant(last)) && !path("early").exists(),
        "{text}"
    );
    let (code, text) = heddle(&["restore", "--at", "yesterday"], &[&copy, &path("early")]);
    assert!(code == Some(2) && text.contains("2026-11-24T10:00:00Z"), "{text}");
    let (code, text) = heddle(&["restore"], &[&copy, &path("latest")]);
    assert!(code == Some(2) && text.contains("name one that is missing or empty"), "{text}");
    let (code, text) = heddle(&["restore"], &[&path("nowhere"), &path("new")]);
    assert_eq!(code, Some(2), "{text}");

    // The link is broken.
    let (code, text) = heddle(&["backup", "--incremental"], &[&path("latest"), &copy]);
    assert!(code == Some(2) && text.contains("take a full copy"), "{text}");
    let (code, text) = heddle(&["backup", "--incremental"], &[&bank, &path("nowhere")]);
    assert!(code == Some(2) && text.contains("is no directory"), "{text}");
    fs::create_dir(path("empty")).unwrap();
    let (code, text) = heddle(&["backup", "--incremental"], &[&bank, &path("empty")]);
    assert!(code == Some(2) && text.contains("there is no copy"), "{text}");
    let db = open(&bank);
    let (code, text) = heddle(&["backup", "--incremental"], &[&bank, &copy]);
    assert!(code == Some(2) && text.contains("is open in another database"), "{text}");
    drop(db);
    write(&copy, 9..10);
    let (code, text) = heddle(&["backup", "--incremental"], &[&bank, &copy]);
    assert!(code == Some(2) && text.contains("opened to be written since"), "{text}");
}
