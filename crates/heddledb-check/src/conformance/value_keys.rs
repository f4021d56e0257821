//! Strings and bytes of any length in keys and in indexes.

use super::Test;
use super::random::seeds;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::UpTo;
use heddledb::{
    Builder, Database, Durability, Error, Misuse, ReadTransaction, Result, Scan, Session, Table, Transaction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "values_in_keys_as_a_model_says", run: as_a_model_says },
        Test { name: "values_in_indexes_move_beside_readers", run: move_beside_readers },
    ]
}

/// Most texts have more than fifteen bytes, and so are not in their rows.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(index(ByOwner(owner(max = 24))), unique(ByToken(token(max = 40))))]
struct Letter {
    #[key(max = 20)]
    name: String,
    owner: Option<String>,
    token: Vec<u8>,
    #[group(text)]
    text: String,
}

/// Names that begin alike, with bytes that are zero.
fn name(number: u64) -> String {
    let start = ["", "a", "a\0", "letter", "letter-of-some-len"][number as usize % 5];
    format!("{start}{}", ["", "\0", "b"][number as usize / 5 % 3])
}

impl Letter {
    /// Of two numbers that differ, most of it differs.
    fn of(number: u64, version: u64) -> Self {
        Self {
            name: name(number),
            owner: (!version.is_multiple_of(4)).then(|| owner(version)),
            token: [&version.to_be_bytes()[..], &[number as u8; 12]].concat(),
            text: "text ".repeat((version % 50) as usize),
        }
    }
}

fn owner(version: u64) -> String {
    format!("{}{}", ["owner-with-a-long-name", "o"][version as usize % 2], version % 6)
}

fn builder(kind: Kind) -> Builder {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.manual_epochs().snapshot_interval(Duration::ZERO).table::<Letter>(0)
}

type Model = BTreeMap<String, Letter>;

/// What indexes and ranges show is what the model has.
fn compare(reader: &mut impl ReadTransaction, model: &Model) -> Result<()> {
    let rows = reader.collect(Scan::<Letter>::all())?;
    assert_eq!(rows, model.values().cloned().collect::<Vec<_>>());
    let mut due: Vec<(Option<&String>, &String)> =
        model.values().map(|letter| (letter.owner.as_ref(), &letter.name)).collect();
    due.sort();
    let mut found = Vec::new();
    reader.scan_index(Scan::<ByOwner>::all(), |(owner, name), key| {
        assert_eq!(*name, *key);
        found.push((owner.map(|owner| owner.to_string()), name.to_string()));
    })?;
    assert!(found.iter().map(|(owner, name)| (owner.as_ref(), name)).eq(due));
    for version in 0..6 {
        let owner = Some(owner(version));
        let own = model.values().filter(|letter| letter.owner == owner).cloned().collect::<Vec<_>>();
        let scan = Scan::<ByOwner>::prefix((owner.as_ref().map(Into::into),));
        assert_eq!(reader.collect(scan)?, own);
        assert_eq!(reader.find::<ByOwner>(owner.as_ref().map(Into::into))?, own.first().cloned());
    }
    for letter in model.values() {
        assert_eq!(reader.find::<ByToken>(letter.token[..].into())?, Some(letter.clone()));
        assert_eq!(reader.get::<Letter>(letter.name[..].into())?, Some(letter.clone()));
    }
    let start = Scan::<Letter>::range(UpTo::from("a\0")..UpTo::from("letter"));
    assert_eq!(
        reader.collect(start)?,
        model.range("a\0".to_owned().."letter".to_owned()).map(|(_, row)| row.clone()).collect::<Vec<_>>()
    );
    Ok(())
}

fn step(session: &mut Session, model: &mut Model, random: &mut Random) {
    let (before, seed, gives_up) = (model.clone(), random.below(u64::MAX >> 33), random.below(6) == 0);
    let mut changed = Model::new();
    let done: Result<()> = session.run(|tx| {
        changed = before.clone();
        let mut random = Random::new(seed);
        for _ in 0..1 + random.below(4) {
            let letter = Letter::of(random.below(15), random.below(1000));
            let (key, known) = (letter.name.clone(), changed.contains_key(&letter.name));
            match random.below(7) {
                0 if !known => {
                    tx.insert(letter.clone())?;
                    changed.insert(key, letter);
                }
                1 => assert_eq!(tx.delete::<Letter>((&key).into())?, changed.remove(&key).is_some()),
                2 if known => {
                    tx.set_columns((&key).into(), Letter::owner, letter.owner.clone())?;
                    changed.get_mut(&key).unwrap().owner = letter.owner;
                }
                3 if known => {
                    tx.update_columns((&key).into(), (Letter::token, Letter::text), |(token, text)| {
                        token.clone_from(&letter.token);
                        text.clone_from(&letter.text);
                    })?;
                    let there = changed.get_mut(&key).unwrap();
                    (there.token, there.text) = (letter.token, letter.text);
                }
                4 => {
                    let long = Letter { owner: Some("o".repeat(25)), ..letter };
                    let refused = tx.upsert(long).unwrap_err();
                    assert!(matches!(refused.misuse(), Some(Misuse::KeyTooLong { bytes: 25, .. })));
                }
                5 => {
                    let taken_back: Result<()> = tx.savepoint(|tx| {
                        tx.upsert(letter.clone())?;
                        Err(Error::user("taken back"))
                    });
                    assert!(taken_back.is_err());
                }
                _ => {
                    assert_eq!(tx.upsert(letter.clone())?, known);
                    changed.insert(key, letter);
                }
            }
        }
        compare(tx, &changed)?;
        if gives_up { Err(Error::user("given up")) } else { Ok(()) }
    });
    assert_eq!(done.is_err(), gives_up, "{done:?}");
    if !gives_up {
        *model = changed;
    }
}

/// Random transactions, over three lives.
fn as_a_model_says(kind: Kind) {
    for seed in seeds(2) {
        let (disk, mut model, mut random) = (Simulated::new(), Model::new(), Random::new(seed));
        for life in 0..3 {
            let files = Arc::new(disk.clone());
            let db = builder(kind).durability(Durability::Epoch).storage(files).open().unwrap();
            let mut session = db.session().unwrap();
            compare(&mut session.snapshot().unwrap(), &model).unwrap();
            for round in 0..40 {
                step(&mut session, &mut model, &mut random);
                (0..3).for_each(|_| {
                    db.advance_epoch();
                    session.run(|_| Ok(())).unwrap();
                });
                if round == 20 && life == 1 {
                    db.checkpoint().unwrap();
                }
            }
            session.run(|tx| compare(tx, &model)).unwrap();
            let report = db.check().unwrap();
            assert!(report.is_whole(), "HEDDLE_SEED={seed}, {kind}, life {life}: {report:?}");
        }
    }
}

/// One letter of each name changes its owner and its token; what an index shows agrees with the row.
fn move_beside_readers(kind: Kind) {
    if kind.sessions_max() < 3 {
        return;
    }
    let interval = Duration::from_micros(200);
    let db =
        Database::builder().protocol(kind).sessions(3).epoch_interval(interval).snapshot_interval(interval);
    let db = db.table::<Letter>(0).open().unwrap();
    db.session()
        .unwrap()
        .run(|tx| (0..15).try_for_each(|number| tx.upsert(Letter::of(number, 0)).map(|_| ())))
        .unwrap();
    let names = (0..15).map(name).collect::<BTreeSet<_>>().len();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let (mut session, mut random) = (db.session().unwrap(), Random::new(seed));
                while !over.load(Ordering::Relaxed) {
                    let letter = Letter::of(random.below(15), random.below(1000));
                    session
                        .run(|tx| {
                            let found = tx
                                .collect(Scan::<ByOwner>::prefix((letter.owner.as_ref().map(Into::into),)))?;
                            // An optimistic transaction may see two moments; then its commit fails.
                            tx.upsert(letter.clone())?;
                            Ok(found)
                        })
                        .unwrap()
                        .iter()
                        .for_each(|row| assert_eq!(row.owner, letter.owner, "{kind}"));
                }
            });
        }
        scope.spawn(|| {
            let mut session = db.session().unwrap();
            while !over.load(Ordering::Relaxed) {
                let rows = session.run(|tx| tx.collect(Scan::<ByOwner>::all())).unwrap();
                assert_eq!(rows.len(), names, "{kind}");
                let is_right = |row: &Letter| {
                    let version = u64::from_be_bytes(row.token[..8].try_into().unwrap());
                    (0..15).any(|number| *row == Letter::of(number, version))
                };
                assert!(rows.iter().all(is_right), "{kind}: {rows:?}");
            }
        });
        thread::sleep(Duration::from_millis(60));
        over.store(true, Ordering::Relaxed);
    });
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{kind}: {report:?}");
}
