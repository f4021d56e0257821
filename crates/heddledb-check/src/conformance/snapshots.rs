//! Snapshots: one moment, a prefix of the serial order, whatever happens beside it; and no more memory
//! than the live ones need.

use super::random::seeds;
use super::{Hashed, HashedRow, Ordered, OrderedRow, Strings, Tables, Test, open};
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::{Builder, Database, ReadTransaction, Result, Session, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "snapshots_show_their_moment_ordered", run: moments::<Ordered> },
        Test { name: "snapshots_show_their_moment_hashed", run: moments::<Hashed> },
        Test { name: "snapshots_show_their_moment_strings", run: moments::<Strings> },
        Test { name: "snapshots_are_prefixes", run: prefixes },
        Test { name: "snapshots_conserve_sums", run: sums },
        Test { name: "snapshots_leave_no_memory", run: memory },
        Test { name: "snapshots_outlive_the_interval", run: outlive },
    ]
}

const KEYS: u64 = super::script::KEYS;
/// Cases of random changes.
const CASES: u64 = 150;
/// So long is waited for a thread that has not been given any time.
const MINUTE: Duration = Duration::from_secs(60);

fn builder(kind: Kind) -> Builder {
    Database::builder().protocol(kind).sessions(kind.sessions_max().min(16))
}

/// Everything that a snapshot can say about a table.
fn view<T: Tables>(tx: &mut impl ReadTransaction) -> Result<BTreeMap<u64, (i64, i64)>> {
    let mut rows = BTreeMap::new();
    for key in 0..KEYS {
        if let Some(row) = tx.get::<T::Row>(key)? {
            let (key, value, other) = T::parts(&row);
            assert_eq!(T::value(tx, key)?, Some(value), "one column of key {key}");
            assert_eq!(tx.get_columns(key, T::OTHER)?, Some(other), "one column of key {key}");
            rows.insert(key, (value, other));
        }
    }
    for reverse in [false, true] {
        let mut scanned = T::scan(tx, 0, KEYS - 1, reverse, usize::MAX)?;
        scanned.sort_unstable();
        let rows: Vec<_> = rows.iter().map(|(key, (value, other))| (*key, *value, *other)).collect();
        assert_eq!(scanned, rows, "a scan and point reads, reverse {reverse}");
    }
    let entries = T::entries(tx, i64::MIN..=i64::MAX)?;
    let mut expected: Vec<_> = rows.iter().map(|(key, (value, _))| (*value, *key)).collect();
    expected.sort_unstable();
    assert_eq!(entries, expected, "the secondary index");
    Ok(rows)
}

/// One random committed change, made in the model too.
fn change<T: Tables>(session: &mut Session, random: &mut Random, model: &mut BTreeMap<u64, (i64, i64)>) {
    let (key, value) = (random.below(KEYS), random.below(9) as i64);
    let what = random.below(5);
    session
        .run(|tx| match what {
            0 => tx.delete::<T::Row>(key).map(|_| ()),
            1 | 2 => tx.upsert(T::row(key, value, value)).map(|_| ()),
            3 if model.contains_key(&key) => T::change(tx, key, |old| *old = value),
            4 if model.contains_key(&key) => tx.add(T::OTHER, key, value),
            _ => Ok(()),
        })
        .expect("nobody is in the way");
    match (what, model.get_mut(&key)) {
        (0, _) => _ = model.remove(&key),
        (1 | 2, _) => _ = model.insert(key, (value, value)),
        (3, Some(row)) => row.0 = value,
        (4, Some(row)) => row.1 += value,
        _ => {}
    }
}

/// Random changes with several snapshots open at once, each compared with the model as it was; some
/// live long, records are reclaimed meanwhile, and keys have many lives.
fn moments<T: Tables>(kind: Kind) {
    for seed in seeds(CASES / T::ONE_OF as u64) {
        let db = builder(kind).manual_epochs().snapshot_interval(Duration::ZERO).open().unwrap();
        let mut random = Random::new(seed);
        let mut model = BTreeMap::new();
        let mut writer = db.session().unwrap();
        let mut open = Vec::new();
        for _ in 0..120 {
            match random.below(8) {
                0 if open.len() < kind.sessions_max().min(6) - 1 => {
                    open.push((db.snapshot().unwrap(), model.clone()));
                }
                1 if !open.is_empty() => {
                    let at = random.below(open.len() as u64) as usize;
                    let (mut snapshot, expected) = open.swap_remove(at);
                    let seen = view::<T>(&mut snapshot).unwrap();
                    assert_eq!(seen, expected, "{kind} seed {seed}, HEDDLE_SEED replays it");
                }
                2 => _ = db.advance_epoch(),
                3 => {
                    let seen = writer.snapshot().and_then(|mut s| view::<T>(&mut s)).unwrap();
                    assert_eq!(seen, model, "{kind} seed {seed}, HEDDLE_SEED replays it");
                }
                _ => change::<T>(&mut writer, &mut random, &mut model),
            }
        }
        for (mut snapshot, expected) in open {
            assert_eq!(view::<T>(&mut snapshot).unwrap(), expected, "{kind} seed {seed} at the end");
        }
    }
}

/// Writers raise counter after counter, each only once the one before it is raised, across tables; a
/// snapshot must never see a later one without the earlier. Some links of the chain are reads alone:
/// the writer of `k + 1` reads `k` and overwrites what the writer of `k` read.
fn prefixes(kind: Kind) {
    let db = open(kind);
    let (writers, readers) = (kind.sessions_max().min(3), if kind.sessions_max() == 1 { 0 } else { 2 });
    db.session()
        .unwrap()
        .run(|tx| {
            for key in 0..4 {
                tx.upsert(Ordered::row(key, 0, 0))?;
                tx.upsert(Hashed::row(key, 0, 0))?;
            }
            Ok(())
        })
        .unwrap();
    let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                let mut session = db.session().unwrap();
                while !stop.load(SeqCst) {
                    let seen = look(&mut session.snapshot().unwrap()).unwrap();
                    assert!(seen.windows(2).all(|pair| pair[0] >= pair[1]), "{kind}: {seen:?}");
                    assert!(seen[0] <= seen[7] + 1, "{kind}: {seen:?}");
                    looks.fetch_add(1, SeqCst);
                }
            });
        }
        let threads: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = db.session().unwrap();
                    for round in 0..if readers == 0 { 100 } else { 3_000 } {
                        // However little the readers are given, half of it comes after a look.
                        let (half, begun) = (round == 1_500, Instant::now());
                        while half && looks.load(SeqCst) == 0 && begun.elapsed() < MINUTE {
                            std::thread::yield_now();
                        }
                        for place in 0..8 {
                            session.run(|tx| raise(tx, place)).unwrap();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stop.store(true, SeqCst);
    });
    assert!(readers == 0 || looks.load(SeqCst) > 0, "the snapshots never got to look");
}

/// The counters, in the order in which they are raised.
fn look(tx: &mut impl ReadTransaction) -> Result<Vec<i64>> {
    (0..8u64)
        .map(|place| {
            let value = match place % 2 {
                0 => tx.get_columns(place / 2, Ordered::VALUE)?,
                _ => tx.get_columns(place / 2, Hashed::VALUE)?,
            };
            Ok(value.expect("it was loaded"))
        })
        .collect()
}

/// Raises counter `place` if the one before it is ahead, or, for the first, if all are level.
fn raise(tx: &mut impl Transaction, place: u64) -> Result<()> {
    let get = |tx: &mut _, place: u64| -> Result<i64> { Ok(read(tx, place)?.expect("it was loaded")) };
    let (before, own) = (get(tx, (place + 7) % 8)?, get(tx, place)?);
    let ahead = if place == 0 { before == own } else { before > own };
    if ahead {
        match place % 2 {
            0 => tx.set_columns(place / 2, Ordered::VALUE, own + 1)?,
            _ => tx.set_columns(place / 2, Hashed::VALUE, own + 1)?,
        }
    }
    Ok(())
}

fn read(tx: &mut impl ReadTransaction, place: u64) -> Result<Option<i64>> {
    match place % 2 {
        0 => tx.get_columns(place / 2, Ordered::VALUE),
        _ => tx.get_columns(place / 2, Hashed::VALUE),
    }
}

/// Transfers, with rows that come and go; every snapshot sees the same sum, recent ones too, and their
/// readers abort nobody more than they abort themselves.
fn sums(kind: Kind) {
    const TOTAL: i64 = KEYS as i64 * 100;
    let db = builder(kind).snapshot_interval(Duration::from_millis(1)).open().unwrap();
    let load = |tx: &mut heddledb::Txn| (0..KEYS).try_for_each(|key| tx.insert(Ordered::row(key, 100, 0)));
    db.session().unwrap().run(load).unwrap();
    let (readers, stop) = (if kind.sessions_max() == 1 { 0 } else { 2 }, AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..readers {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut last = 0;
                while !stop.load(SeqCst) {
                    let seen = match reader {
                        0 => session.read(|tx| {
                            assert!(tx.epoch() >= last, "moments go forward");
                            last = tx.epoch();
                            sum(tx, false)
                        }),
                        _ => session.snapshot().and_then(|mut tx| sum(&mut tx, true)),
                    };
                    assert_eq!(seen.unwrap(), TOTAL, "{kind}: a snapshot's sum");
                }
            });
        }
        let threads: Vec<_> = (0..kind.sessions_max().min(3) as u64)
            .map(|number| {
                let db = &db;
                scope.spawn(move || {
                    let (mut session, mut random) = (db.session().unwrap(), Random::new(number));
                    for _ in 0..4_000 {
                        let (from, to) = (random.below(2 * KEYS), random.below(2 * KEYS));
                        let amount = random.below(10) as i64;
                        session.run(|tx| transfer(tx, from, to, amount)).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stop.store(true, SeqCst);
    });
}

fn sum(tx: &mut impl ReadTransaction, reverse: bool) -> Result<i64> {
    let rows = Ordered::scan(tx, 0, 2 * KEYS, reverse, usize::MAX)?;
    Ok(rows.iter().map(|(_, value, _)| *value).sum())
}

/// Moves an amount; a row that runs empty is deleted, one that is not there is inserted.
fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<()> {
    let Some(balance) = tx.get_columns(from, Ordered::VALUE)? else { return Ok(()) };
    if from == to || balance < amount {
        return Ok(());
    }
    match balance - amount {
        0 => _ = tx.delete::<OrderedRow>(from)?,
        left => tx.update_columns(from, Ordered::VALUE, |value| *value = left)?,
    }
    match tx.get_columns(to, Ordered::VALUE)? {
        Some(_) => tx.update_columns(to, Ordered::VALUE, |value| *value += amount),
        None => tx.insert(Ordered::row(to, amount, 0)),
    }
}

/// An open snapshot keeps one version of each row, however often the rows are overwritten and however
/// many snapshots come and go beside it, is reported, and when it ends everything goes.
fn memory(kind: Kind) {
    if kind.sessions_max() == 1 {
        return;
    }
    let db = builder(kind).manual_epochs().snapshot_interval(Duration::ZERO).open().unwrap();
    let mut session = db.session().unwrap();
    let mut churn = |rounds: i64| {
        for round in 0..rounds {
            for key in 0..KEYS {
                session.run(|tx| tx.upsert(HashedRow::fresh(key, round)).map(|_| ())).unwrap();
                if round % 3 == 0 {
                    session.run(|tx| tx.delete::<HashedRow>(key).map(|_| ())).unwrap();
                }
            }
            drop(session.snapshot().unwrap());
            db.advance_epoch();
        }
    };
    churn(20);
    assert_eq!(db.metrics().oldest_snapshot, None);
    let before = db.metrics();
    let snapshot = db.snapshot().unwrap();
    churn(100);
    let during = db.metrics();
    assert!(during.oldest_snapshot.is_some(), "an open snapshot is reported");
    assert!(during.version_bytes > 0, "it needs versions");
    churn(400);
    let later = db.metrics();
    // Reclamation is some epochs behind, by what was written then.
    assert!(
        later.version_bytes <= during.version_bytes * 2,
        "{} then {}",
        during.version_bytes,
        later.version_bytes
    );
    drop(snapshot);
    churn(20);
    let after = db.metrics();
    assert_eq!(after.oldest_snapshot, None);
    assert!(
        after.version_bytes <= before.version_bytes,
        "{} then {}",
        before.version_bytes,
        after.version_bytes
    );
    assert!(after.garbage <= before.garbage * 2, "{} then {}", before.garbage, after.garbage);
}

impl HashedRow {
    fn fresh(key: u64, round: i64) -> Self {
        Hashed::row(key, round, -round)
    }
}

/// A snapshot of a moment that another one has taken before is read on when that moment is no longer recent, while all that it shows is
/// overwritten and reclaimed.
fn outlive(kind: Kind) {
    const INTERVAL: Duration = Duration::from_millis(40);
    if kind.sessions_max() < 3 {
        return;
    }
    let builder = builder(kind).manual_epochs().snapshot_interval(INTERVAL).table::<OrderedRow>(0);
    let db = builder.open().expect("it is in memory");
    let [mut writer, mut first, mut second] = [(); 3].map(|()| db.session().expect("one is free"));
    let mut put = |value: i64| {
        let rows = |tx: &mut heddledb::Txn| {
            (0..KEYS).try_for_each(|key| tx.upsert(Ordered::row(key, value, value)).map(|_| ()))
        };
        writer.run(rows).expect("nobody is in the way");
        (0..5).for_each(|_| _ = db.advance_epoch());
    };
    put(1);
    first.read(|_| Ok(())).expect("nothing is under way");
    second
        .read(|snapshot| {
            let shown = view::<Ordered>(snapshot)?;
            std::thread::sleep(INTERVAL + INTERVAL / 2);
            (2..5).for_each(&mut put);
            assert_eq!(view::<Ordered>(snapshot)?, shown);
            assert!(shown.values().all(|row| *row == (1, 1)));
            Ok(())
        })
        .expect("a snapshot has no conflicts");
}
