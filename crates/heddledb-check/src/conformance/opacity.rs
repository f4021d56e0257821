//! What a body sees, also one whose attempt ends without a commit.
//!
//! Most protocols let a body run on over what is stale, and find out at the commit. One that is opaque shows one
//! moment only: the tests are run for those that say so.

use super::load::{lawful, on_threads};
use super::{Hashed, Ordered, Strings, Tables, Test, open};
use heddledb::protocol::Kind;
use heddledb::{Database, Deferring, Error, ReadTransaction, Result, Table, Transaction, Txn};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "opaque_between_two_reads", run: between_two_reads },
        Test { name: "opaque_under_load", run: under_load },
        Test { name: "opaque_beside_deferred", run: beside_deferred },
    ]
}

/// The rows' values add up to this in every committed state, and there are so many.
const SUM: i64 = 100;
const ROWS: usize = 2;

/// Reads of one transaction, split in two halves by what another commits.
type Look = fn(&mut Txn) -> Result<Vec<(u64, i64)>>;

fn by_key<T: Tables, const KEY: u64>(tx: &mut Txn) -> Result<Vec<(u64, i64)>> {
    Ok(T::value(tx, KEY)?.map(|value| (KEY, value)).into_iter().collect())
}

fn by_scan<T: Tables, const LOW: u64, const HIGH: u64>(tx: &mut Txn) -> Result<Vec<(u64, i64)>> {
    let rows = T::scan(tx, LOW, HIGH, false, usize::MAX)?;
    Ok(rows.into_iter().map(|(key, value, _)| (key, value)).collect())
}

/// Moves value from one row to the other, and the second row to another key.
fn moves<T: Tables>(tx: &mut Txn, amount: i64) -> Result<()> {
    T::change(tx, 1, |value| *value -= amount)?;
    let (from, to) = if T::value(tx, 3)?.is_some() { (3, 5) } else { (5, 3) };
    let value = T::value(tx, from)?.ok_or_else(|| Error::user("a row is at 3 or at 5"))?;
    tx.delete::<T::Row>(from)?;
    tx.insert(T::row(to, value + amount, 0))
}

fn filled<T: Tables>(kind: Kind) -> Database {
    let db = open(kind);
    let fill = |tx: &mut Txn| tx.insert(T::row(1, SUM, 0)).and_then(|()| tx.insert(T::row(3, 0, 0)));
    lawful(lawful(db.session()).run(fill));
    db
}

fn is_of_one_moment(seen: &[(u64, i64)]) -> bool {
    seen.len() == ROWS && seen.iter().map(|(_, value)| value).sum::<i64>() == SUM
}

fn between_two_reads(kind: Kind) {
    if kind.opaque() && kind.sessions_max() > 1 {
        each_pair::<Ordered>(kind);
        each_pair::<Hashed>(kind);
        each_pair::<Strings>(kind);
    }
}

fn each_pair<T: Tables>(kind: Kind) {
    let pairs: [&[Look]; 5] = [
        &[by_key::<T, 1>, by_key::<T, 3>, by_key::<T, 5>],
        &[by_key::<T, 5>, by_key::<T, 3>, by_key::<T, 1>],
        &[by_scan::<T, 0, 2>, by_scan::<T, 3, 7>],
        &[by_scan::<T, 3, 7>, by_scan::<T, 0, 2>],
        &[by_key::<T, 3>, by_scan::<T, 4, 7>, by_key::<T, 1>],
    ];
    for (looks, moves_before) in pairs.iter().flat_map(|looks| [(looks, 1), (looks, 2)]) {
        for cut in 1..looks.len() {
            let db = filled::<T>(kind);
            let mut session = lawful(db.session());
            for round in 0..moves_before {
                lawful(session.run(|tx| moves::<T>(tx, round + 1)));
            }
            let mut reader = lawful(db.begin());
            let mut seen = Vec::new();
            let mut look = |reader: &mut Txn, look: Look| look(reader).map(|rows| seen.extend(rows));
            looks[..cut].iter().for_each(|first| lawful(look(&mut reader, *first)));
            lawful(session.run(|tx| moves::<T>(tx, 7)));
            let rest = looks[cut..].iter().try_for_each(|second| look(&mut reader, *second));
            match rest {
                Ok(()) => assert!(is_of_one_moment(&seen), "{kind}: {seen:?}, cut at {cut}"),
                Err(Error::Conflict(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Bodies themselves look at the sum while others move it.
fn under_load(kind: Kind) {
    const ROUNDS: u64 = 4_000;
    if !kind.opaque() {
        return;
    }
    let db = filled::<Ordered>(kind);
    let (never_were, looks) = (AtomicU64::new(0), AtomicU64::new(0));
    on_threads(kind, &db, 4, |session, random, number| {
        for _ in 0..ROUNDS {
            if number % 2 == 0 {
                let amount = random.below(9) as i64 - 4;
                lawful(session.run(|tx| moves::<Ordered>(tx, amount)));
                continue;
            }
            lawful(session.run(|tx| {
                let mut seen = Vec::new();
                for look in [by_key::<Ordered, 1>, by_key::<Ordered, 3>, by_scan::<Ordered, 4, 7>] {
                    seen.extend(look(tx)?);
                }
                looks.fetch_add(1, Ordering::Relaxed);
                never_were.fetch_add(u64::from(!is_of_one_moment(&seen)), Ordering::Relaxed);
                Ok(())
            }));
        }
    });
    let (never_were, looks) = (never_were.into_inner(), looks.into_inner());
    assert_eq!(never_were, 0, "{kind}: of {looks} bodies so many saw a state that never was");
}

/// One of two rows whose values add up to [`SUM`].
#[derive(Table, Clone, Copy, Debug)]
struct Half {
    #[key]
    id: u64,
    value: i64,
}

/// Bodies look at both rows while others move value by intentions, and hand one row on before the other.
fn beside_deferred(kind: Kind) {
    const ROUNDS: u64 = 4_000;
    if !kind.opaque() {
        return;
    }
    let sessions = kind.sessions_max().min(4);
    let db = lawful(Database::builder().protocol(kind).sessions(sessions).table::<Half>(8).open());
    lawful(lawful(db.session()).run(|tx| {
        tx.insert(Half { id: 0, value: SUM })?;
        tx.insert(Half { id: 1, value: 0 })
    }));
    let never_were = AtomicU64::new(0);
    on_threads(kind, &db, 4, |session, random, number| {
        for _ in 0..ROUNDS {
            let (first, amount) = (random.below(2), random.below(9) as i64 - 4);
            if number % 2 == 0 {
                lawful(session.defer(|tx| {
                    tx.defer(first, Half::value, (), move |value, ()| *value -= amount)?;
                    tx.defer(1 - first, Half::value, (), move |value, ()| *value += amount)?;
                    Ok(())
                }));
                continue;
            }
            lawful(session.run(|tx| {
                let one = tx.get_columns(first, Half::value)?.unwrap_or(0);
                let other = tx.get_columns(1 - first, Half::value)?.unwrap_or(0);
                never_were.fetch_add(u64::from(one + other != SUM), Ordering::Relaxed);
                Ok(())
            }));
        }
    });
    assert_eq!(never_were.into_inner(), 0, "{kind}: so many bodies saw a state that never was");
}
