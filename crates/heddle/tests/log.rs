//! `heddle log` on directories that are whole, torn, damaged, or none.

use heddledb::protocol::{Kind, Silo, TicToc};
use heddledb::{Builder, Database, Error, LogKind, Result, Table, Text, Transaction, procedure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[derive(Table, Clone, Copy)]
#[table(index(ByOwner(owner)))]
struct Account {
    #[key]
    id: u64,
    owner: Text<12>,
    #[group(money)]
    balance: i64,
}

fn builder(path: &Path) -> Builder {
    Database::builder()
        .protocol(Silo::default())
        .table::<Account>(0)
        .manual_epochs()
        .recovery_threads(1)
        .path(path)
}

fn account(id: u64) -> Account {
    Account { id, owner: Text::truncated("somebody"), balance: id as i64 }
}

/// A database with a closed generation, a checkpoint if asked for, and a generation in two files.
fn database(checkpoint: bool) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bank");
    let db = builder(&path).open().unwrap();
    let mut session = db.session().unwrap();
    for id in 0..20 {
        session.run(|tx| tx.insert(account(id))).unwrap();
        db.flush().unwrap();
    }
    if checkpoint {
        db.checkpoint().unwrap();
    }
    for id in 20..30 {
        session.run(|tx| tx.insert(account(id))).unwrap();
        db.flush().unwrap();
    }
    drop((session, db));
    let db = builder(&path).log_files(2).open().unwrap();
    let mut sessions = [db.session().unwrap(), db.session().unwrap()];
    for id in 30..40 {
        sessions[0].run(|tx| tx.insert(account(id))).unwrap();
        sessions[1].run(|tx| tx.add(Account::balance, id - 30, 1)).unwrap();
        db.flush().unwrap();
    }
    sessions[0].run(|tx| tx.delete::<Account>(5)).unwrap();
    db.flush().unwrap();
    drop(sessions);
    drop(db);
    (folder, path)
}

fn heddle(command: &str, path: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    program.args(["log", command]).arg(path).args(more).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

fn verify(path: &Path) -> (Option<i32>, String) {
    let output = heddle("verify", path, &[]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), said)
}

/// Names and bytes of all files.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

/// The name of the only file that begins and ends so and is not empty.
fn file(path: &Path, from: &str, to: &str) -> PathBuf {
    let mut all = files(path);
    all.retain(|name, bytes| name.starts_with(from) && name.ends_with(to) && bytes.len() > 64);
    path.join(all.last_key_value().expect("there is such a file").0)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_whole_directory_is_shown_and_found_whole_and_not_touched() {
    let (_folder, path) = database(true);
    let before = files(&path);
    let shown = heddle("inspect", &path, &[]);
    assert!(shown.status.success());
    let shown = text(&shown.stdout);
    for word in
        ["checkpoint 1", "account.ByOwner", "40 rows", "generation 2", "generation 3", "log-0000000003-01"]
    {
        assert!(shown.contains(word), "{word} is missing in\n{shown}");
    }
    let (code, said) = verify(&path);
    assert!(code == Some(0) && said.contains("is whole") && said.contains("40 rows"), "{said}");
    assert_eq!(files(&path), before, "nothing was changed");

    let object: Value = serde_json::from_slice(&heddle("inspect", &path, &["--json"]).stdout).unwrap();
    assert_eq!(object["whole"], true);
    assert_eq!(object["manifest"]["relations"][0]["name"], "account");
    assert_eq!(object["checkpoint"]["relations"][0]["rows"], 20);
    assert_eq!(object["generations"][0]["transactions"], 10);
    assert_eq!(object["generations"][1]["files"].as_array().unwrap().len(), 2);
    assert_eq!(object["generations"][1]["relations"][0]["deletes"], 1);

    let listed = text(&heddle("inspect", &path, &["--transactions"]).stdout);
    assert!(listed.contains("  account  [0000000000000021]  groups 0 1, 4 words"), "{listed}");
    assert!(listed.contains("  account  [0000000000000005]  deleted"), "{listed}");
    let lines = text(&heddle("inspect", &path, &["--transactions", "--json"]).stdout);
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 10 + 21 + 1);
    assert!(objects.iter().any(|object| object["writes"][0]["key"][0] == "0000000000000021"));
}

#[test]
fn a_torn_tail_is_no_damage() {
    let (_folder, path) = database(false);
    let last = file(&path, "log-", "-00");
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 8]).unwrap();
    let (code, said) = verify(&path);
    assert!(code == Some(0) && said.contains("torn tail") && said.contains("is whole"), "{said}");
    assert!(builder(&path).open().is_ok());
    let (code, said) = verify(&path);
    assert!(code == Some(0) && !said.contains("torn tail"), "it has been cut off: {said}");
}

#[test]
fn damage_is_told_with_file_and_offset_and_what_to_do() {
    let (_folder, path) = database(true);
    let log = file(&path, "log-", "-00");
    flip(&log, 64 + 70);
    let (code, said) = verify(&path);
    assert_eq!(code, Some(1), "{said}");
    let name = log.display().to_string();
    assert!(said.contains(&format!("{name} is damaged at byte 64")) && said.contains("salvage"), "{said}");
    let shown = heddle("inspect", &path, &[]);
    assert!(shown.status.success() && text(&shown.stdout).contains("DAMAGED"));
    flip(&log, 64 + 70);

    let checkpoint = file(&path, "checkpoint-", "");
    flip(&checkpoint, 200);
    let (code, said) = verify(&path);
    assert!(code == Some(1) && said.contains("the log no longer holds these rows"), "{said}");
    flip(&checkpoint, 200);

    flip(&path.join("MANIFEST"), 30);
    let (code, said) = verify(&path);
    assert!(code == Some(1) && said.contains("MANIFEST is damaged"), "{said}");
    let shown = text(&heddle("inspect", &path, &["--transactions"]).stdout);
    assert!(
        shown.contains("relation 0  [") && shown.contains("generation 3, not closed: 11 rounds"),
        "{shown}"
    );
    flip(&path.join("MANIFEST"), 30);

    fs::rename(&log, path.join("elsewhere")).unwrap();
    let (code, said) = verify(&path);
    assert!(code == Some(1) && said.contains(&name), "{said}");
    fs::rename(path.join("elsewhere"), &log).unwrap();
    assert_eq!(verify(&path).0, Some(0));
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (path, word) in [
        (folder.path().to_owned(), "holds no database"),
        (folder.path().join("none"), "cannot be read"),
        (folder.path().join("file"), "is no directory"),
    ] {
        fs::write(folder.path().join("file"), "text").unwrap();
        for command in ["inspect", "verify"] {
            let output = heddle(command, &path, &[]);
            let said = text(&output.stderr);
            assert!(
                output.status.code() == Some(2) && said.contains(word) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
    assert!(!folder.path().join("none").exists());
}

#[test]
fn an_open_database_can_be_seen_but_not_judged() {
    let (_folder, path) = database(false);
    let db = builder(&path).open().unwrap();
    let (code, said) = verify(&path);
    assert!(code == Some(2) && said.contains("close that first"), "{said}");
    let shown = heddle("inspect", &path, &[]);
    assert!(shown.status.success() && text(&shown.stdout).contains("a database has it open"));
    drop(db);
    assert_eq!(verify(&path).0, Some(0));
}

/// Whatever is changed, `verify` and an opening judge alike.
#[test]
fn verify_and_recovery_agree() {
    let (folder, path) = database(true);
    let whole = files(&path);
    let copy = folder.path().join("copy");
    let mut random = 7u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % limit
    };
    let mut refused = 0;
    for attempt in 0..120 {
        let names: Vec<&String> = whole.keys().filter(|name| *name != "LOCK").collect();
        let name = names[below(names.len())];
        let mut bytes = whole[name].clone();
        let at = below(bytes.len());
        match attempt % 3 {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes.truncate(at),
            _ => bytes[at..].iter_mut().take(100).for_each(|byte| *byte = 0),
        }
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for (other, whole) in &whole {
            fs::write(copy.join(other), if other == name { &bytes } else { whole }).unwrap();
        }
        let (code, said) = verify(&copy);
        let shown = heddle("inspect", &copy, &["--transactions"]);
        assert!(shown.status.code() != Some(101), "{}", text(&shown.stderr));
        let opened = Database::builder().protocol(TicToc::default()).table::<Account>(0).manual_epochs();
        match opened.path(&copy).open() {
            Ok(_) => assert_eq!(code, Some(0), "{name} at {at}: it opens, and verify says {said}"),
            Err(Error::Open(error)) => {
                refused += 1;
                assert_eq!(code, Some(1), "{name} at {at}: {error}; and verify says {said}");
            }
            Err(error) => panic!("{name} at {at}: {error}"),
        }
    }
    assert!(refused > 30, "{refused}");
}

#[procedure(version = 2)]
fn deposit(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    tx.add(Account::balance, id, amount)
}

#[test]
fn calls_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bank");
    let with_calls = builder(&path).protocol(Kind::Dgcc).log_kind(LogKind::Commands).procedure::<Deposit>();
    let db = with_calls.open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(account(1))).unwrap();
    session.call(Deposit, (1, 30)).unwrap();
    db.flush().unwrap();
    drop((session, db));
    let shown = text(&heddle("inspect", &path, &["--transactions"]).stdout);
    for word in ["procedure 0: deposit, version 2", "1 call among them", "calls deposit version 2  [013c]"] {
        assert!(shown.contains(word), "{word} is not in {shown}");
    }
    let lines = text(&heddle("inspect", &path, &["--transactions", "--json"]).stdout);
    let calls: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let call = calls.iter().find(|value: &&Value| value["call"].is_object()).expect("there is a call");
    assert_eq!(call["call"]["arguments"], "013c");
    assert_eq!(verify(&path).0, Some(0));
    // Without the program nobody can make it again: the files are whole, and what is behind them is not known.
    let mut check = Command::new(env!("CARGO_BIN_EXE_heddle"));
    let check = check.arg("verify").arg(&path).output().expect("the program starts");
    let said = text(&check.stdout) + &text(&check.stderr);
    assert!(check.status.success() && said.contains("0 of "), "{said}");
    assert!(said.contains("was not compared: its log holds calls"), "{said}");
}
