//! Invariants while threads run for real.

use super::{Hashed, Number, Ordered, Strings, Tables, Test, check_index, open};
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::{Database, Error, ReadTransaction, Scan, Session, Table, Transaction};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "bank_sum_ordered", run: bank::<Ordered, 2> },
        Test { name: "bank_sum_hashed", run: bank::<Hashed, 2> },
        Test { name: "bank_sum_strings", run: bank::<Strings, 2> },
        Test { name: "bank_sum_oversubscribed", run: bank::<Ordered, 8> },
        Test { name: "ring_ordered", run: ring::<Ordered> },
        Test { name: "ring_hashed", run: ring::<Hashed> },
        Test { name: "ring_strings", run: ring::<Strings> },
        Test { name: "insert_delete_pairs_ordered", run: pairs::<Ordered> },
        Test { name: "insert_delete_pairs_strings", run: pairs::<Strings> },
        Test { name: "write_skew_under_load", run: write_skew::<Ordered> },
        Test { name: "index_consistency_under_load", run: index_consistency::<Ordered> },
        Test { name: "index_consistency_strings", run: index_consistency::<Strings> },
        Test { name: "rows_are_whole_of_one_group", run: rows_are_whole::<Wide> },
        Test { name: "rows_are_whole_of_two_groups", run: rows_are_whole::<Split> },
        Test { name: "memory_is_flat_under_churn", run: churn },
        Test { name: "insert_after_a_look_of_before", run: insert_after_a_look_of_before },
    ]
}

/// Runs `work` on as many threads as the protocol allows, up to `threads`; each gets its session, a
/// seeded generator and its number.
pub(super) fn on_threads(
    kind: Kind,
    db: &Database,
    threads: usize,
    work: impl Fn(&mut Session, &mut Random, usize) + Sync,
) {
    std::thread::scope(|scope| {
        for number in 0..threads.min(kind.sessions_max()) {
            let work = &work;
            scope.spawn(move || {
                let mut session = db.session().expect("a session is free");
                work(&mut session, &mut Random::new(number as u64 + 1), number);
            });
        }
    });
}

pub(super) fn lawful<R>(result: heddledb::Result<R>) -> R {
    result.unwrap_or_else(|error| panic!("the workload does nothing unlawful, yet: {error}"))
}

const ACCOUNTS: u64 = 6;
const TRANSFERS: usize = 12_000;

/// Transfers keep the sum, and every reader sees it, by scan and by key.
fn bank<T: Tables, const THREADS: usize>(kind: Kind) {
    let db = open(kind);
    lawful(lawful(db.session()).run(|tx| (0..ACCOUNTS).try_for_each(|key| tx.insert(T::row(key, 100, 0)))));
    on_threads(kind, &db, THREADS, |session, random, _| {
        for round in 0..TRANSFERS / THREADS / T::ONE_OF {
            if round % 4 == 0 {
                let sum = lawful(session.run(|tx| {
                    let mut sum = 0;
                    for key in 0..ACCOUNTS {
                        sum += T::value(tx, key)?.unwrap_or(0);
                    }
                    Ok(sum)
                }));
                assert_eq!(sum, 100 * ACCOUNTS as i64, "a reader saw money appear or vanish");
                let sum: i64 = lawful(session.run(|tx| {
                    Ok(T::scan(tx, 0, ACCOUNTS, false, usize::MAX)?.iter().map(|(_, value, _)| value).sum())
                }));
                assert_eq!(sum, 100 * ACCOUNTS as i64, "a scan saw money appear or vanish");
                continue;
            }
            let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
            let amount = random.below(20) as i64;
            let give_up = random.below(10) == 0;
            let outcome = session.run(|tx| {
                T::change(tx, from, |value| *value -= amount)?;
                if give_up {
                    return Err(Error::user("half way"));
                }
                T::change(tx, to, |value| *value += amount)
            });
            assert_eq!(give_up, matches!(outcome, Err(Error::User(_))), "{outcome:?}");
        }
    });
    let rows = super::all_rows::<T>(&db);
    assert_eq!(rows.iter().map(|(_, value, _)| value).sum::<i64>(), 100 * ACCOUNTS as i64);
    check_index::<T>(&db, &rows);
}

/// A ring of successors stays one ring while random nodes are moved: each step swaps three links,
/// which any non-serializable mix of two steps tears into pieces.
fn ring<T: Tables>(kind: Kind) {
    const NODES: u64 = 8;
    const STEPS: usize = 8_000;
    let db = open(kind);
    let next_of = |node: u64| ((node + 1) % NODES) as i64;
    lawful(
        lawful(db.session()).run(|tx| (0..NODES).try_for_each(|key| tx.insert(T::row(key, next_of(key), 0)))),
    );
    on_threads(kind, &db, 3, |session, random, _| {
        for _ in 0..STEPS / T::ONE_OF {
            let start = random.below(NODES);
            lawful(session.run(|tx| {
                let mut link = |node: u64| Ok::<_, Error>(T::value(tx, node)?.unwrap_or(0) as u64);
                let (a, b, c, d);
                (a, b) = (start, link(start)?);
                c = link(b)?;
                d = link(c)?;
                if [a, b, c, d]
                    .iter()
                    .any(|node| [a, b, c, d].iter().filter(|other| *other == node).count() > 1)
                {
                    return Err(Error::user("the walk came back too soon"));
                }
                // a -> b -> c -> d becomes a -> c -> b -> d.
                T::change(tx, a, |value| *value = c as i64)?;
                T::change(tx, c, |value| *value = b as i64)?;
                T::change(tx, b, |value| *value = d as i64)
            }));
        }
    });
    let rows = super::all_rows::<T>(&db);
    let (mut node, mut seen) = (0u64, 0);
    loop {
        node = rows[node as usize].1 as u64;
        seen += 1;
        if node == 0 || seen > NODES {
            break;
        }
    }
    assert_eq!(seen, NODES, "the ring fell apart: {rows:?}");
}

/// Keys come and go in pairs; whoever looks sees both or neither, by scan, by key and by index.
fn pairs<T: Tables>(kind: Kind) {
    const ROUNDS: usize = 8_000;
    let db = open(kind);
    on_threads(kind, &db, 3, |session, random, _| {
        for _ in 0..ROUNDS / T::ONE_OF {
            let low = random.below(4);
            let high = low + 4;
            match random.below(3) {
                0 => lawful(session.run(|tx| match T::value(tx, low)? {
                    None => {
                        tx.insert(T::row(low, 1, 1))?;
                        tx.insert(T::row(high, 1, 1))
                    }
                    // An error, not an assertion: an optimistic body may see half a pair, and is
                    // then retried instead of heard.
                    Some(_) => match tx.delete::<T::Row>(high)? && tx.delete::<T::Row>(low)? {
                        true => Ok(()),
                        false => Err(Error::user(format!("half a pair at {low}"))),
                    },
                })),
                1 => {
                    let keys: Vec<u64> = lawful(session.run(|tx| T::scan(tx, 0, 8, false, usize::MAX)))
                        .iter()
                        .map(|row| row.0)
                        .collect();
                    let paired = keys.iter().all(|key| keys.contains(&((key + 4) % 8)));
                    assert!(paired, "a scan saw half a pair: {keys:?}");
                }
                _ => {
                    let count = lawful(session.run(|tx| T::entries(tx, i64::MIN..=i64::MAX))).len();
                    assert_eq!(count % 2, 0, "the index showed half a pair");
                }
            }
        }
    });
    check_index::<T>(&db, &super::all_rows::<T>(&db));
}

/// Two rows may not both be raised: each transaction reads both and raises one if neither is.
fn write_skew<T: Tables>(kind: Kind) {
    const ROUNDS: usize = 120_000;
    let db = open(kind);
    lawful(lawful(db.session()).run(|tx| (0..2).try_for_each(|key| tx.insert(T::row(key, 0, 0)))));
    on_threads(kind, &db, 2, |session, _, number| {
        let mine = number as u64;
        for round in 0..ROUNDS {
            let sum = lawful(session.run(|tx| {
                let other = T::value(tx, 1 - mine)?.unwrap_or(0);
                let own = T::value(tx, mine)?.unwrap_or(0);
                let new = if own == 0 && other == 0 { 1 } else { 0 };
                if new != own {
                    T::change(tx, mine, |value| *value = new)?;
                }
                Ok(new + other)
            }));
            assert!(sum <= 1, "both rows are raised, in round {round}");
        }
    });
}

/// Values move about, so index entries do; index and table agree at every look.
fn index_consistency<T: Tables>(kind: Kind) {
    const ROUNDS: usize = 6_000;
    let db = open(kind);
    lawful(lawful(db.session()).run(|tx| (0..8).try_for_each(|key| tx.insert(T::row(key, key as i64, 0)))));
    on_threads(kind, &db, 3, |session, random, _| {
        for _ in 0..ROUNDS / T::ONE_OF {
            let (key, value) = (random.below(8), random.below(50) as i64);
            if random.below(2) == 0 {
                lawful(session.run(|tx| T::change(tx, key, |old| *old = value)));
            } else {
                lawful(session.run(|tx| {
                    let Some(row) = tx.get::<T::Row>(key)? else { return Ok(()) };
                    let (_, value, _) = T::parts(&row);
                    let place = (T::Value::of(value).entry(), key);
                    let mut found = false;
                    tx.scan_index(Scan::<T::ByValue>::range(place..=place), |_, _| {
                        found = true;
                        ControlFlow::Continue(())
                    })?;
                    // Only a transaction that commits may complain: an optimistic one may have read
                    // the row and the entry at different moments.
                    if found { Ok(()) } else { Err(Error::user(format!("no entry {value} for row {key}"))) }
                }));
            }
        }
    });
    check_index::<T>(&db, &super::all_rows::<T>(&db));
}

/// A row of one column group, so wide that others write it while it is read.
#[derive(Table, Clone, Copy)]
#[table(name = "load_wide")]
struct Wide {
    #[key]
    key: u64,
    counts: [u8; 512],
}

/// The same in two column groups.
#[derive(Table, Clone, Copy)]
#[table(name = "load_split")]
struct Split {
    #[key]
    key: u64,
    left: [u8; 256],
    #[group(right)]
    right: [u8; 256],
}

/// A row that is a counter, and tells the count in each of its words.
trait Repeated: Table<Key = u64> {
    fn of(count: u64) -> Self;
    fn words(&self) -> impl Iterator<Item = u64>;

    /// The count, unless words differ.
    fn count(&self) -> Option<u64> {
        let mut words = self.words();
        let first = words.next()?;
        words.all(|word| word == first).then_some(first)
    }
}

impl Repeated for Wide {
    fn of(count: u64) -> Self {
        Self { key: 0, counts: repeat(count) }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        words_of(&self.counts)
    }
}

impl Repeated for Split {
    fn of(count: u64) -> Self {
        Self { key: 0, left: repeat(count), right: repeat(count) }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        words_of(&self.left).chain(words_of(&self.right))
    }
}

fn repeat<const N: usize>(count: u64) -> [u8; N] {
    std::array::from_fn(|index| count.to_le_bytes()[index % 8])
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Whoever reads a row, by key or by scan, or in order to change it, sees all of it as one writer left it, also
/// where the attempt then aborts; and no change is lost.
fn rows_are_whole<T: Repeated>(kind: Kind) {
    const ROUNDS: u64 = 20_000;
    let db = open(kind);
    lawful(lawful(db.session()).run(|tx| tx.insert(T::of(0))));
    let (torn, changes) = (AtomicU64::new(0), AtomicU64::new(0));
    on_threads(kind, &db, 3, |session, _, number| {
        let look = |row: &T| {
            row.count().unwrap_or_else(|| {
                torn.fetch_add(1, Ordering::Relaxed);
                0
            })
        };
        for round in 0..ROUNDS {
            match (number, round % 4) {
                (0, _) | (2, 0) => {
                    lawful(session.run(|tx| tx.update(0, |row: &mut T| *row = T::of(look(row) + 1))));
                    changes.fetch_add(1, Ordering::Relaxed);
                }
                (_, 1) => lawful(session.run(|tx| {
                    tx.scan(Scan::<T>::all(), |row| {
                        look(&row);
                        ControlFlow::Continue(())
                    })
                })),
                _ => lawful(session.run(|tx| {
                    tx.get::<T>(0)?.as_ref().map(look);
                    Ok(())
                })),
            }
        }
    });
    assert_eq!(torn.into_inner(), 0, "{kind}: so many looks saw a row that no writer left");
    let last = lawful(lawful(db.session()).run(|tx| tx.get::<T>(0)));
    assert_eq!(last.and_then(|row| row.count()), Some(changes.into_inner()), "{kind}: the changes");
}

/// A window of keys moves on for ever; records, index nodes and garbage stay bounded.
fn churn(kind: Kind) {
    const WINDOW: u64 = 200;
    const ROUNDS: u64 = 60_000;
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    let db = builder.manual_epochs().open().expect("the settings are lawful");
    let measure = |db: &Database| {
        let metrics = db.metrics();
        (
            metrics.record_bytes,
            metrics.index_nodes.iter().map(|(_, nodes)| nodes).sum::<usize>(),
            metrics.garbage,
        )
    };
    let mut sizes = Vec::new();
    for part in 0..4 {
        let mut session = db.session().expect("a session is free");
        for round in part * ROUNDS / 4..(part + 1) * ROUNDS / 4 {
            lawful(session.run(|tx| {
                tx.insert(Ordered::row(round, round as i64 % 7, 0))?;
                tx.insert(Hashed::row(round, round as i64 % 7, 0))?;
                if let Some(old) = round.checked_sub(WINDOW) {
                    assert!(tx.delete::<<Ordered as Tables>::Row>(old)?);
                    assert!(tx.delete::<<Hashed as Tables>::Row>(old)?);
                }
                Ok(())
            }));
            if round % 50 == 0 {
                db.advance_epoch();
            }
        }
        drop(session);
        sizes.push(measure(&db));
    }
    let (first, last) = (sizes[0], sizes[3]);
    assert!(last.0 <= first.0 + first.0 / 20, "record memory grew: {sizes:?}");
    assert!(last.1 <= first.1 + first.1 / 4 + 8, "index nodes grew: {sizes:?}");
    assert!(last.2 <= first.2 * 2 + 100, "garbage grew: {sizes:?}");
}

/// Two transactions scan the same empty range, and each adds a row there, whose key its session has looked for in vain in a transaction
/// before: one sees the other's (found by a history under load).
fn insert_after_a_look_of_before(kind: Kind) {
    if kind.sessions_max() < 2 {
        return;
    }
    type Row = <Ordered as Tables>::Row;
    let db = open(kind);
    let mut one = lawful(db.session());
    let ((go, going), (told, telling)) = (channel(), channel());
    let count = |tx: &mut heddledb::Txn| Ok::<_, Error>(Ordered::scan(tx, 10, 20, false, usize::MAX)?.len());
    let db = &db;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let mut session = lawful(db.session());
            assert!(lawful(session.run(|tx| tx.get::<Row>(16))).is_none());
            going.recv().expect("the other begins");
            let seen = lawful(session.run(|tx| {
                let seen = count(tx)?;
                tx.insert(Ordered::row(16, 1, 1))?;
                Ok(seen)
            }));
            // Nobody listens where this one had to wait.
            let _ = told.send(());
            seen
        });
        assert!(lawful(one.run(|tx| tx.get::<Row>(15))).is_none());
        let mut attempts = 0;
        let seen = lawful(one.run(|tx| {
            let seen = count(tx)?;
            tx.insert(Ordered::row(15, 1, 1))?;
            attempts += 1;
            if attempts == 1 {
                go.send(()).expect("the other waits");
                let _ = telling.recv_timeout(Duration::from_millis(50));
            }
            Ok(seen)
        }));
        let other = other.join().expect("it does not panic");
        assert_eq!((seen + other), 1, "one comes after the other: {seen}, {other}");
    });
}
