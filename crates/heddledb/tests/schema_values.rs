//! Schemas that change, of tables with values of any length.

use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::dynamic::RowValues;
use heddledb::{Builder, Database, Migration, ReadTransaction, Scan, Table, Text, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the directory has at first.
mod first {
    use heddledb::{Table, Text};

    #[derive(Table, Clone)]
    #[table(index(ByAuthor(author)))]
    pub struct Letter {
        #[key]
        pub id: u32,
        pub author: Text<20>,
        pub subject: String,
        #[group(body)]
        pub body: Option<String>,
        pub seal: [u8; 18],
        pub draft: String,
        pub note: String,
    }
}

#[derive(Table, Clone, Debug, PartialEq)]
#[table(hash, unique(BySubject(subject(max = 60))), index(BySender(sender(max = 20), place(max = 30))))]
struct Letter {
    /// Made of `body`.
    summary: String,
    body: Option<String>,
    /// New, and the same everywhere.
    place: String,
    #[key]
    id: u64,
    #[group(head)]
    sender: String,
    #[group(head)]
    subject: String,
    seal: Vec<u8>,
    /// Made of what was of any length.
    note: Text<4>,
    answer: Option<String>,
}

const ROWS: u32 = 60;
const PLACE: &str = "a town by the sea, far away";

/// About what fits into a slot, and a frame.
fn length(id: u32) -> usize {
    [0, 1, 14, 15, 16, 17, 300, 5_000, 1_100_000][id as usize % 9] / if id < 18 { 1 } else { 30 }
}

fn letter(id: u32) -> first::Letter {
    let text =
        |length: usize| (0..length).map(|at| (b'a' + ((at + id as usize) % 26) as u8) as char).collect();
    first::Letter {
        id,
        author: Text::truncated(&format!("the author number {id}")[..10 + id as usize % 8]),
        subject: format!("{id}: {}", text(id as usize % 50)),
        body: (id % 7 != 3).then(|| text(length(id))),
        seal: [id as u8; 18],
        draft: text(40),
        note: text(id as usize % 30),
    }
}

fn expected(id: u32) -> Letter {
    let first::Letter { author, subject, body, seal, note, .. } = letter(id);
    Letter {
        summary: summary(body.as_deref()),
        body,
        place: PLACE.to_owned(),
        id: id.into(),
        sender: author.to_string(),
        subject,
        seal: seal.to_vec(),
        note: Text::truncated(&note),
        answer: None,
    }
}

fn summary(body: Option<&str>) -> String {
    body.map_or("nothing".to_owned(), |body| format!("{} bytes: {}", body.len(), &body[..body.len().min(30)]))
}

fn builder(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).storage(Arc::new(disk.clone()))
}

/// Rows in a checkpoint and in the log, with values that were others before.
fn directory() -> Simulated {
    let disk = Simulated::new();
    let db = builder(&disk).table::<first::Letter>(0).open().unwrap();
    let mut session = db.session().unwrap();
    for id in 0..ROWS {
        session.run(|tx| tx.insert(first::Letter { id, ..letter(id / 2 + 3) })).unwrap();
        if id == ROWS / 2 {
            db.checkpoint().unwrap();
        }
    }
    for id in 0..ROWS {
        session.run(|tx| tx.upsert(letter(id)).map(|_| ())).unwrap();
        if id == ROWS / 2 {
            db.checkpoint().unwrap();
        }
    }
    session.run(|tx| tx.insert(letter(ROWS))).unwrap();
    session.run(|tx| tx.delete::<first::Letter>(ROWS).map(|_| ())).unwrap();
    drop((session, db));
    disk.after_kill()
}

fn is_new(db: &Database) {
    let mut session = db.session().unwrap();
    for id in 0..ROWS {
        let row = session.run(|tx| tx.get::<Letter>(u64::from(id))).unwrap();
        assert!(row == Some(expected(id)), "{id}");
    }
    let subject = expected(42).subject;
    let found = session.run(|tx| tx.find::<BySubject>(subject[..].into())).unwrap();
    assert_eq!(found.map(|row| row.id), Some(42));
    let rows = session.run(|tx| tx.collect(Scan::<BySender>::all())).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
}

#[test]
fn values_of_any_length_are_kept_made_and_shortened() {
    let base = directory();
    for kind in Kind::ALL {
        let disk = base.after_kill();
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let summed = move |row: &RowValues| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(summary(row.get::<Option<String>>("body")?.as_deref()).into())
        };
        let migration = Migration::new()
            .rename("letter", "author", "sender")
            .drop("letter", "draft")
            .set("letter", "place", PLACE)
            .set_with("letter", "summary", summed)
            .set_with("letter", "note", |row| Ok(Text::<4>::truncated(row.get::<&str>("note")?).into()));
        let new = |migration: &Migration| {
            builder(&disk).table::<Letter>(0).protocol(*kind).sessions(1).migrate(migration.clone())
        };
        let shown = new(&migration).schema_change().unwrap().to_string();
        for step in [
            "letter: column author becomes sender",
            "letter: column sender becomes String, of Text<20>",
            "letter: column seal becomes Vec<u8>, of [u8;18]",
            "letter: column note becomes Text<4>, of String, and made of each row",
            "letter: column answer is new, and null in every row",
        ] {
            assert!(shown.lines().any(|line| line == step), "{step:?} is not in\n{shown}");
        }
        let db = new(&migration).open().unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(calls.load(Ordering::Relaxed), u64::from(ROWS), "once for each row");
        is_new(&db);
        // It goes on as ever.
        let mut session = db.session().unwrap();
        for id in 0..ROWS {
            let (id, row) = (u64::from(id), expected(id));
            let other =
                Letter { answer: row.body.clone(), body: None, sender: PLACE.repeat(20), ..row.clone() };
            let too_long = session.run(|tx| tx.upsert(other.clone()).map(|_| ()));
            assert!(too_long.is_err(), "{kind}");
            let other = Letter { sender: String::new(), ..other };
            session.run(|tx| tx.upsert(other.clone()).map(|_| ())).unwrap();
            assert!(session.run(|tx| tx.get::<Letter>(id)).unwrap() == Some(other));
            session.run(|tx| tx.upsert(row.clone()).map(|_| ())).unwrap();
        }
        drop((session, db));
        let db = new(&migration).open().unwrap();
        assert!(db.recovery().unwrap().schema.is_empty());
        is_new(&db);
    }
}
