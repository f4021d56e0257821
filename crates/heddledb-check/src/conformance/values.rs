//! Values of any length: strings and bytes that are not in their rows.

use super::Test;
use super::random::seeds;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{
    Backup, Builder, Database, Durability, Error, ReadTransaction, Result, Row, Scan, Session, Table,
    Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "values_as_a_model_says", run: as_a_model_says },
        Test { name: "values_are_given_back", run: given_back },
        Test { name: "values_are_whole_beside_writers", run: whole_beside_writers },
    ]
}

/// What is in each column follows from `id` and `version`, so that whatever is read shows whether it belongs together.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(index(ByVersion(version)))]
struct Note {
    #[key]
    id: u64,
    version: u64,
    title: String,
    #[group(body)]
    body: Option<String>,
    #[group(body)]
    data: Vec<u8>,
    #[group(reads)]
    reads: u64,
}

impl Note {
    fn of(id: u64, version: u64) -> Self {
        let length = |step: u64, most: u64| (id * 31 + version * step) % most;
        let text =
            |length: u64| (0..length).map(|at| (b'a' + ((at + id + version) % 26) as u8) as char).collect();
        Self {
            id,
            version,
            title: text(length(7, 40)),
            body: (!version.is_multiple_of(3)).then(|| text(length(613, 3000))),
            data: (0..length(17, 90)).map(|at| (at * version + id) as u8).collect(),
            reads: 0,
        }
    }

    /// Whether it is as [`Note::of`] made it, apart from the counter.
    fn is_whole(&self) -> bool {
        *self == Self { reads: self.reads, ..Self::of(self.id, self.version) }
    }
}

fn memory(kind: Kind) -> Builder {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.manual_epochs().snapshot_interval(Duration::ZERO).table::<Note>(0)
}

fn open(kind: Kind, disk: &Simulated) -> Database {
    memory(kind)
        .recovery_threads(2)
        .durability(Durability::Epoch)
        .storage(Arc::new(disk.clone()))
        .open()
        .unwrap()
}

type Model = BTreeMap<u64, Note>;

fn all(reader: &mut impl ReadTransaction) -> Result<Vec<Note>> {
    reader.collect(Scan::<Note>::all())
}

/// One random transaction, on the database and on the model.
fn step(session: &mut Session, model: &mut Model, random: &mut Random) {
    let before = model.clone();
    let gives_up = random.below(5) == 0;
    let seed = random.below(u64::MAX >> 33);
    let mut changed = model.clone();
    let done: Result<()> = session.run(|tx| {
        changed = before.clone();
        let mut random = Random::new(seed);
        for _ in 0..1 + random.below(4) {
            let (id, version) = (random.below(12), random.below(1000));
            let note = Note::of(id, version);
            match random.below(8) {
                0 if !changed.contains_key(&id) => {
                    tx.insert(note.clone())?;
                    changed.insert(id, note);
                }
                1 => assert_eq!(tx.delete::<Note>(id)?, changed.remove(&id).is_some()),
                2 => {
                    assert_eq!(tx.upsert(note.clone())?, changed.contains_key(&id));
                    changed.insert(id, note);
                }
                3 if changed.contains_key(&id) => {
                    tx.update::<Note, _>(id, |old| *old = note.clone())?;
                    changed.insert(id, note);
                }
                4 if changed.contains_key(&id) => {
                    tx.add(Note::reads, id, 1)?;
                    changed.get_mut(&id).unwrap().reads += 1;
                }
                5 if changed.contains_key(&id) => {
                    tx.set_columns(id, (Note::version, Note::title, Note::body, Note::data), {
                        let Note { version, title, body, data, .. } = note.clone();
                        (version, title, body, data)
                    })?;
                    let reads = changed[&id].reads;
                    changed.insert(id, Note { reads, ..note });
                }
                6 if changed.contains_key(&id) => {
                    // One value of two in a group: the other stays where it is.
                    tx.update_columns(id, Note::body, |body| *body = None)?;
                    tx.update_columns(id, Note::body, |body| *body = note.body.clone())?;
                    changed.get_mut(&id).unwrap().body = note.body;
                }
                _ => {
                    let taken_back: Result<()> = tx.savepoint(|tx| {
                        tx.upsert(note.clone())?;
                        assert_eq!(tx.get::<Note>(id)?, Some(note.clone()));
                        Err(Error::user("taken back"))
                    });
                    assert!(taken_back.is_err());
                }
            }
            assert_eq!(tx.get::<Note>(id)?, changed.get(&id).cloned());
        }
        if gives_up { Err(Error::user("given up")) } else { Ok(()) }
    });
    assert_eq!(done.is_err(), gives_up, "{done:?}");
    if !gives_up {
        *model = changed;
    }
}

/// Random transactions, with snapshots of moments before them, over three lives, with a checkpoint and copies.
fn as_a_model_says(kind: Kind) {
    for seed in seeds(2) {
        let (disk, mut model, mut random) = (Simulated::new(), Model::new(), Random::new(seed));
        for life in 0..3 {
            let db = open(kind, &disk);
            let mut session = db.session().unwrap();
            assert_eq!(
                all(&mut session.snapshot().unwrap()).unwrap(),
                model.values().cloned().collect::<Vec<_>>(),
                "{kind}"
            );
            for round in 0..60 {
                let before: Vec<Note> = model.values().cloned().collect();
                // The only session of some protocols cannot do both.
                let snapshot = (kind.sessions_max() > 1).then(|| db.snapshot().unwrap());
                step(&mut session, &mut model, &mut random);
                db.advance_epoch();
                step(&mut session, &mut model, &mut random);
                (0..8).for_each(|_| {
                    db.advance_epoch();
                    session.run(|_| Ok(())).unwrap();
                });
                if let Some(mut snapshot) = snapshot {
                    assert_eq!(
                        all(&mut snapshot).unwrap(),
                        before,
                        "HEDDLE_SEED={seed}, {kind}, life {life}, round {round}"
                    );
                }
                assert_eq!(session.run(all).unwrap(), model.values().cloned().collect::<Vec<_>>());
                if round == 20 && life == 1 {
                    db.checkpoint().unwrap();
                }
            }
            let copy = Simulated::new();
            db.backup(Backup::to_storage(Arc::new(copy.clone()))).unwrap();
            drop(session);
            let copied = open(kind, &copy);
            assert_eq!(
                all(&mut copied.session().unwrap().snapshot().unwrap()).unwrap(),
                model.values().cloned().collect::<Vec<_>>()
            );
            let report = db.check().unwrap();
            assert!(report.is_whole(), "HEDDLE_SEED={seed}, {kind}: {report:?}");
        }
    }
}

/// What was replaced, deleted, or put and not committed, is free again; what stays the same stays where it is.
fn given_back(kind: Kind) {
    {
        let db = memory(kind).open().unwrap();
        let mut session = db.session().unwrap();
        let write = |session: &mut Session, version: u64| {
            session
                .run(|tx| (0..20).try_for_each(|id| tx.upsert(Note::of(id, version)).map(|_| ())))
                .unwrap();
        };
        let settle = |session: &mut Session| {
            for _ in 0..12 {
                db.advance_epoch();
                session.run(|_| Ok(())).unwrap();
            }
        };
        write(&mut session, 1);
        settle(&mut session);
        let first = db.metrics().value_bytes;
        assert!(first > 0);
        for version in 2..30 {
            write(&mut session, version);
            let given_up: Result<()> = session.run(|tx| {
                tx.upsert(Note::of(1, 500))?;
                Err(Error::user("given up"))
            });
            assert!(given_up.is_err());
            settle(&mut session);
        }
        write(&mut session, 1);
        settle(&mut session);
        assert_eq!(db.metrics().value_bytes, first, "{kind}");
        // What is as it was stays where it is.
        write(&mut session, 1);
        session
            .run(|tx| (0..20).try_for_each(|id| tx.update_columns(id, Note::data, |data| data.truncate(80))))
            .unwrap();
        settle(&mut session);
        assert!(db.metrics().value_bytes <= first);
        session.run(|tx| (0..20).try_for_each(|id| tx.delete::<Note>(id).map(|_| ()))).unwrap();
        settle(&mut session);
        assert_eq!(db.metrics().value_bytes, 0, "{kind}");
    }
}

/// Transactions and snapshots see whole values while others replace them.
fn whole_beside_writers(kind: Kind) {
    let millis = std::env::var("HEDDLE_VALUES_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    if kind.sessions_max() >= 4 {
        let interval = Duration::from_micros(200);
        let db = Database::builder()
            .protocol(kind)
            .sessions(4)
            .epoch_interval(interval)
            .snapshot_interval(interval);
        let db = db.table::<Note>(0).open().unwrap();
        db.session().unwrap().run(|tx| (0..4).try_for_each(|id| tx.insert(Note::of(id, 0)))).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..2 {
                let (db, over) = (&db, &over);
                scope.spawn(move || {
                    let (mut session, mut random) = (db.session().unwrap(), Random::new(seed));
                    while !over.load(Ordering::Relaxed) {
                        let (id, version) = (random.below(4), random.below(1000));
                        session
                            .run(|tx| match version % 4 {
                                0 => tx.upsert(Note::of(id, version)).map(|_| ()),
                                1 => tx.delete::<Note>(id).map(|_| ()),
                                _ => match tx.get::<Note>(id)? {
                                    None => tx.insert(Note::of(id, version)),
                                    Some(note) => {
                                        assert!(note.is_whole(), "{kind}: {note:?}");
                                        tx.update_columns(id, Row::<Note>::new(), |row| {
                                            *row = Note::of(id, version)
                                        })
                                    }
                                },
                            })
                            .unwrap();
                    }
                });
            }
            scope.spawn(|| {
                let mut session = db.session().unwrap();
                while !over.load(Ordering::Relaxed) {
                    let mut snapshot = session.snapshot().unwrap();
                    let first = all(&mut snapshot).unwrap();
                    thread::sleep(Duration::from_millis(2));
                    let again = all(&mut snapshot).unwrap();
                    assert!(
                        first == again && first.iter().all(Note::is_whole),
                        "{kind}: {first:?} {again:?}"
                    );
                    drop(snapshot);
                    let notes = session.run(all).unwrap();
                    assert!(notes.iter().all(Note::is_whole), "{kind}: {notes:?}");
                }
            });
            thread::sleep(Duration::from_millis(millis));
            over.store(true, Ordering::Relaxed);
        });
    }
}
