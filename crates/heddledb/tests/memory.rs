//! Memory is given back: what sessions, batches and snapshots leave behind does not pile up.

use heddledb::protocol::Kind;
use heddledb::{Database, ReadTransaction, Scan, Session, Table, Transaction};
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Item {
    #[key]
    id: u64,
    #[group(value)]
    value: u64,
}

fn open(kind: Kind) -> Database {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.snapshot_interval(Duration::ZERO).manual_epochs().open().unwrap()
}

/// Lets epochs pass, with attempts between that work the queues off.
fn settle(db: &Database, sessions: &mut [&mut Session], rounds: usize) {
    for _ in 0..rounds {
        db.advance_epoch();
        sessions.iter_mut().for_each(|session| session.run(|_| Ok(())).unwrap());
    }
}

fn insert(session: &mut Session, ids: std::ops::Range<u64>) {
    session.run(|tx| ids.clone().try_for_each(|id| tx.insert(Item { id, value: id }))).unwrap();
}

fn delete(session: &mut Session, ids: std::ops::Range<u64>) {
    session.run(|tx| ids.clone().try_for_each(|id| tx.delete::<Item>(id).map(|_| ()))).unwrap();
}

/// The protocols that allow so many sessions at a time.
fn kinds(sessions: usize) -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(move |kind| kind.sessions_max() >= sessions)
}

/// Blocks that one worker frees are taken by another.
#[test]
fn one_adds_and_another_takes_away() {
    for kind in kinds(2) {
        const ROWS: u64 = 2_000;
        let db = open(kind);
        let (mut adding, mut taking) = (db.session().unwrap(), db.session().unwrap());
        let mut bytes = Vec::new();
        for round in 0..12 {
            for first in (round * ROWS..(round + 1) * ROWS).step_by(50) {
                insert(&mut adding, first..first + 50);
            }
            for first in (round * ROWS..(round + 1) * ROWS).step_by(50) {
                delete(&mut taking, first..first + 50);
            }
            settle(&db, &mut [&mut adding, &mut taking], 300);
            bytes.push(db.metrics().record_bytes);
        }
        // Twelve times as much, if none came back; and some are with the taker.
        assert!(bytes[11] <= bytes[1] + bytes[0] / 2, "{kind}: {bytes:?}");
    }
}

/// A worker keeps up with transactions that leave much behind.
#[test]
fn large_deletes_are_worked_off() {
    for kind in kinds(1) {
        let db = open(kind);
        let mut session = db.session().unwrap();
        let mut waiting = Vec::new();
        for round in 0..40 {
            insert(&mut session, round * 500..(round + 1) * 500);
            delete(&mut session, round * 500..(round + 1) * 500);
            db.advance_epoch();
            waiting.push(db.metrics().garbage);
        }
        assert!(waiting[39] <= waiting[10] + 500, "{kind}: {waiting:?}");
    }
}

/// What a long snapshot holds waits without being looked at, and goes when it ends.
#[test]
fn a_long_snapshot_holds_versions_and_deleted_rows_until_it_ends() {
    for kind in kinds(2) {
        const ROWS: u64 = 400;
        let db = open(kind);
        let (mut session, mut reader) = (db.session().unwrap(), db.session().unwrap());
        insert(&mut session, 0..ROWS);
        let mut snapshot = reader.snapshot().unwrap();
        for id in 0..ROWS {
            session
                .run(|tx| {
                    if id % 2 == 0 {
                        tx.update_columns(id, Item::value, |value| *value += 1)
                    } else {
                        tx.delete::<Item>(id).map(|_| ())
                    }
                })
                .unwrap();
        }
        settle(&db, &mut [&mut session], 100);
        let held = db.metrics();
        assert!(held.version_bytes > 0, "{kind}");
        // One version a row changed, two a row deleted, which waits itself.
        assert_eq!(held.garbage as u64, ROWS / 2 + ROWS / 2 * 3, "{kind}");
        // Shorter ones beside it come and go, and the row comes back.
        for round in 0..20 {
            insert(&mut session, 1..2);
            assert_eq!(db.snapshot().unwrap().get::<Item>(1).unwrap(), Some(Item { id: 1, value: 1 }));
            session.run(|tx| tx.update_columns(0, Item::value, |value| *value += 1)).unwrap();
            delete(&mut session, 1..2);
            settle(&db, &mut [&mut session], 8);
            let more = db.metrics().garbage.saturating_sub(held.garbage);
            assert!(more < 20, "{kind}: {more} more in round {round}");
        }
        for id in 0..ROWS {
            assert_eq!(snapshot.get::<Item>(id).unwrap(), Some(Item { id, value: id }), "{kind}");
        }
        drop(snapshot);
        settle(&db, &mut [&mut session], 100);
        let after = db.metrics();
        assert_eq!((after.version_bytes, after.garbage), (0, 0), "{kind}");
        // The blocks of the deleted rows serve again.
        insert(&mut session, ROWS..ROWS + ROWS / 2);
        assert_eq!(db.metrics().record_bytes, after.record_bytes, "{kind}");
    }
}

/// A snapshot that began after a row was deleted does not hold it.
#[test]
fn a_later_snapshot_holds_nothing_of_what_was_gone() {
    for kind in kinds(2) {
        let db = open(kind);
        let (mut session, mut reader) = (db.session().unwrap(), db.session().unwrap());
        insert(&mut session, 0..100);
        let earlier = reader.snapshot().unwrap();
        delete(&mut session, 0..100);
        let later = db.snapshot().unwrap();
        settle(&db, &mut [&mut session], 20);
        assert!(db.metrics().garbage >= 100, "{kind}");
        drop(earlier);
        settle(&db, &mut [&mut session], 40);
        assert_eq!((db.metrics().garbage, db.metrics().version_bytes), (0, 0), "{kind}");
        drop(later);
    }
}

/// Hekaton keeps every version that is overwritten. What bounds them: some epochs, or the longest transaction.
mod every_version {
    use super::*;

    const ROWS: u64 = 4;
    /// A version's words: link, stamp, value.
    const VERSION_BYTES: usize = 3 * 8;

    /// Many transactions on few rows, from two sessions; an epoch passes after each hundred. What is the most.
    fn churn(db: &Database, sessions: &mut [Session; 2], transactions: u64) -> usize {
        let mut most = 0;
        for number in 0..transactions {
            let session = &mut sessions[(number % 2) as usize];
            let raise = |value: &mut u64| *value += 1;
            session.run(|tx| tx.update_columns(number / 2 % ROWS, Item::value, raise)).unwrap();
            if number % 100 == 0 {
                db.advance_epoch();
            }
            most = most.max(db.metrics().version_bytes);
        }
        most
    }

    #[test]
    fn are_bounded_by_epochs_or_by_the_longest_transaction() {
        let db = open(Kind::Hekaton);
        let mut sessions = [db.session().unwrap(), db.session().unwrap()];
        insert(&mut sessions[0], 0..ROWS);
        churn(&db, &mut sessions, 2_000);
        // Of some hundred updates: three epochs until a version is taken out, three until its block is free.
        let most = churn(&db, &mut sessions, 20_000);
        assert!(most <= 1_000 * VERSION_BYTES, "{most}");

        // Under a long reader, what is overwritten while it lives.
        let mut reader = db.begin().unwrap();
        let seen = reader.get::<Item>(0).unwrap();
        let during = churn(&db, &mut sessions, 5_000);
        assert!(during <= most + 5_000 * VERSION_BYTES, "{during} after {most}");
        assert_eq!(reader.get::<Item>(0).unwrap(), seen, "it reads as of its begin");
        let all: u64 = (0..ROWS).map(|id| reader.get::<Item>(id).unwrap().unwrap().value).sum();
        assert_eq!(all, 22_000 + (0..ROWS).sum::<u64>(), "all of one moment");
        reader.commit().unwrap();

        let [first, second] = &mut sessions;
        settle(&db, &mut [first, second], 400);
        let after = db.metrics();
        assert_eq!((after.version_bytes, after.garbage), (0, 0));
        let record_bytes = after.record_bytes;
        let later = churn(&db, &mut sessions, 20_000);
        assert!(later <= 1_000 * VERSION_BYTES, "{later}");
        assert_eq!(db.metrics().record_bytes, record_bytes, "the blocks serve again");
    }
}

/// A row with a text that is not in it, and an index over another.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(index(ByTitle(title(max = 40))))]
struct Page {
    #[key(max = 20)]
    name: String,
    title: String,
    text: String,
}

fn page(number: u64, version: u64) -> Page {
    Page {
        name: format!("the page called {number:02}"),
        title: format!("title {version} of the page {number}"),
        text: format!("{version:1024}"),
    }
}

/// A text of 1 KB takes at most 64 bytes more than it has.
#[test]
fn a_text_takes_its_bytes_and_little_more() {
    #[derive(Table, Clone)]
    struct Note {
        #[key]
        id: u64,
        text: String,
    }
    for length in [16, 100, 1000, 1024, 4000] {
        let db = open(Kind::Silo);
        let mut session = db.session().unwrap();
        let text = "x".repeat(length);
        session.run(|tx| (0..100).try_for_each(|id| tx.insert(Note { id, text: text.clone() }))).unwrap();
        // The slot is in the row.
        let each = db.metrics().value_bytes / 100 + heddledb::table::SLOT_BYTES;
        assert!(each <= length + 64, "{each} bytes for {length}");
    }
}

/// Texts that are replaced again and again, beside snapshots that stay open for a while and without, under every protocol.
#[test]
fn replaced_texts_do_not_pile_up() {
    const PAGES: u64 = 20;
    for kind in kinds(1) {
        let db = open(kind);
        let mut session = db.session().unwrap();
        session.run(|tx| (0..PAGES).try_for_each(|id| tx.insert(page(id, 0)))).unwrap();
        let (mut most, mut snapshot) = ([0; 2], None);
        for version in 1..400 {
            session
                .run(|tx| {
                    (0..PAGES).try_for_each(|id| match (id + version) % 7 {
                        0 => {
                            tx.delete::<Page>(page(id, version).name.into())?;
                            tx.insert(page(id, version))
                        }
                        1 => tx.upsert(page(id, version)).map(|_| ()),
                        _ => tx.set_columns(
                            page(id, version).name.into(),
                            (Page::title, Page::text),
                            (page(id, version).title, page(id, version).text),
                        ),
                    })
                })
                .unwrap();
            let given_up: heddledb::Result<()> = session.run(|tx| {
                tx.upsert(page(3, 10_000 + version))?;
                Err(heddledb::Error::user("given up"))
            });
            assert!(given_up.is_err());
            if version % 20 == 0 {
                // The only session of some protocols cannot do both.
                snapshot = (kind.sessions_max() > 1 && version % 40 == 0).then(|| db.snapshot().unwrap());
            }
            settle(&db, &mut [&mut session], 3);
            let half = usize::from(version >= 200);
            most[half] = most[half].max(db.metrics().value_bytes);
        }
        assert!(most[1] <= most[0] * 21 / 20, "{kind}: {most:?}");
        drop(snapshot);
        settle(&db, &mut [&mut session], 16);
        let live: usize = session.run(|tx| tx.collect(Scan::<Page>::all())).unwrap().iter().map(bytes).sum();
        assert!(db.metrics().value_bytes <= live + 3 * 64 * PAGES as usize, "{kind}");
        assert!(db.check().unwrap().is_whole(), "{kind}");
    }
}

fn bytes(page: &Page) -> usize {
    page.name.len() + page.title.len() + page.text.len()
}
