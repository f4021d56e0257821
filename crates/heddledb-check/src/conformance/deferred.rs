//! Deferring transactions: what is written down now and done at the commit, or at once where the protocol does not defer.

use super::Test;
use super::load::{lawful, on_threads};
use super::random::seeds;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::{Database, Deferred, Deferring, Error, Misuse, ReadTransaction, Result, Table, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "deferred_as_a_model_says", run: as_a_model_says },
        Test { name: "deferred_transfers_keep_the_sum", run: transfers },
        Test { name: "deferred_after_reads_no_write_skew", run: write_skew },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq, Eq)]
struct Purse {
    #[key]
    id: u64,
    value: i64,
    #[group(uses)]
    uses: u64,
}

const PURSES: u64 = 6;
const EACH: i64 = 100;

fn open(kind: Kind) -> Database {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(16));
    let db = lawful(builder.table::<Purse>(64).open());
    lawful(
        lawful(db.session())
            .run(|tx| (0..PURSES).try_for_each(|id| tx.insert(Purse { id, value: EACH, uses: 0 }))),
    );
    db
}

fn all(tx: &mut impl ReadTransaction) -> Result<BTreeMap<u64, Purse>> {
    let mut rows = BTreeMap::new();
    for id in 0..PURSES * 2 {
        rows.extend(tx.get::<Purse>(id)?.map(|row| (id, row)));
    }
    Ok(rows)
}

/// One step of a random plan, on a row of this number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Look(u64),
    /// Adds the value of a result before, or 1.
    Add(u64, Option<usize>),
    /// Only if a result before is greater than so much.
    AddIf(u64, Option<usize>, i64),
    Put(u64, Option<usize>),
    /// Inserts a row whose number is that of a result before.
    InsertWith(Option<usize>),
    Erase(u64),
    /// An ordinary operation.
    ReadNow(u64),
    AddNow(u64),
    Force(Option<usize>),
    /// Refused where a result before is greater.
    Ensure(Option<usize>, i64),
}

impl Step {
    fn draw(random: &mut Random, results: &mut usize) -> Self {
        let id = random.below(PURSES * 2);
        let before = (*results > 0).then(|| random.below(*results as u64) as usize);
        let step = match random.below(20) {
            0..3 => Self::Look(id),
            3..8 => Self::Add(id, before),
            8..11 => Self::AddIf(id, before, random.below(300) as i64),
            11..13 => Self::Put(id, before),
            13 => Self::InsertWith(before),
            14..16 => Self::Erase(id),
            16 => Self::ReadNow(id),
            17 => Self::AddNow(id),
            18 => Self::Force(before),
            // About the middle of the results, most of which come from the 1 that stands for none.
            _ => Self::Ensure(before, random.below(6) as i64 - 2),
        };
        *results += usize::from(matches!(step, Self::Look(_) | Self::Add(..) | Self::Erase(_)));
        step
    }
}

/// A row whose number is made of a value.
fn numbered(value: i64) -> Purse {
    Purse { id: value.rem_euclid(PURSES as i64 * 2) as u64, value, uses: 1 }
}

/// What the steps give, one result each for those that have one; None where the transaction is refused.
fn model(rows: &mut BTreeMap<u64, Purse>, steps: &[Step]) -> Option<Vec<i64>> {
    let before = rows.clone();
    let mut results: Vec<i64> = Vec::new();
    for step in steps {
        let of = |at: Option<usize>| at.map_or(1, |at| results[at]);
        match *step {
            Step::Look(id) => results.push(rows.get(&id).map_or(-1, |row| row.value)),
            Step::Add(id, at) => {
                let by = of(at);
                let made = rows.get_mut(&id).map(|row| {
                    row.value += by;
                    row.value
                });
                results.push(made.unwrap_or(-1));
            }
            Step::AddIf(id, at, least) => {
                if of(at) > least
                    && let Some(row) = rows.get_mut(&id)
                {
                    row.value += 7;
                    row.uses += 1;
                }
            }
            Step::Put(id, at) => {
                rows.insert(id, Purse { id, value: of(at), uses: 1 });
            }
            Step::InsertWith(at) => {
                let row = numbered(of(at));
                if rows.insert(row.id, row).is_some() {
                    *rows = before;
                    return None;
                }
            }
            Step::Erase(id) => results.push(i64::from(rows.remove(&id).is_some())),
            Step::ReadNow(_) | Step::Force(_) => {}
            Step::AddNow(id) => {
                if let Some(row) = rows.get_mut(&id) {
                    row.value += 3;
                }
            }
            Step::Ensure(at, most) => {
                if of(at) > most {
                    *rows = before;
                    return None;
                }
            }
        }
    }
    Some(results)
}

/// The same as a transaction; operations that are made at once are checked against the model's rows so far.
fn execute(tx: &mut (impl Deferring + ReadTransaction), steps: &[Step]) -> Result<Vec<Deferred<i64>>> {
    let mut results: Vec<Deferred<i64>> = Vec::new();
    let one = tx.map((), |()| 1i64)?;
    for step in steps {
        let of = |at: Option<usize>| at.map_or(one, |at| results[at]);
        match *step {
            Step::Look(id) => {
                let seen = tx.look(id, Purse::value)?;
                results.push(tx.map(seen, |seen| seen.unwrap_or(-1))?);
            }
            Step::Add(id, at) => {
                let made = tx.defer(id, Purse::value, of(at), |value, by| {
                    *value += by;
                    *value
                })?;
                results.push(tx.map(made, |made| made.unwrap_or(-1))?);
            }
            Step::AddIf(id, at, least) => {
                let is_more = tx.map(of(at), move |value| value > least)?;
                tx.when(is_more, |tx| {
                    tx.defer(id, (Purse::value, Purse::uses), (), |(value, uses), ()| {
                        *value += 7;
                        *uses += 1;
                    })?;
                    Ok(())
                })?;
            }
            Step::Put(id, at) => tx.put(id, of(at), move |value| Purse { id, value, uses: 1 })?,
            Step::InsertWith(at) => tx.insert_with(of(at), numbered)?,
            Step::Erase(id) => {
                let gone = tx.erase::<Purse>(id)?;
                results.push(tx.map(gone, i64::from)?);
            }
            Step::ReadNow(id) => {
                tx.get::<Purse>(id)?;
            }
            Step::AddNow(id) => {
                if tx.get::<Purse>(id)?.is_some() {
                    tx.update_columns(id, Purse::value, |value| *value += 3)?;
                }
            }
            Step::Force(at) => {
                tx.force(of(at))?;
            }
            Step::Ensure(at, most) => {
                let is_lawful = tx.map(of(at), move |value| value <= most)?;
                tx.ensure(is_lawful, "too much")?;
            }
        }
    }
    Ok(results)
}

/// Random plans do what their steps do one after the other, and a refused one does nothing.
fn as_a_model_says(kind: Kind) {
    let db = open(kind);
    let mut session = lawful(db.session());
    let mut rows = lawful(session.run(all));
    for seed in seeds(400) {
        let random = &mut Random::new(seed);
        let mut results = 0;
        let steps: Vec<Step> = (0..1 + random.below(8)).map(|_| Step::draw(random, &mut results)).collect();
        let expected = model(&mut rows, &steps);
        let found = match session.defer(|tx| execute(tx, &steps)) {
            Ok(values) => Some(values),
            Err(Error::User(why)) if why.to_string() == "too much" => None,
            Err(Error::Misuse(misuse)) if matches!(*misuse, Misuse::DuplicateKey { .. }) => None,
            Err(error) => panic!("{kind}, seed {seed}: {error}; {steps:?}"),
        };
        assert_eq!(found, expected, "{kind}, seed {seed}: {steps:?}");
        assert_eq!(lawful(session.run(all)), rows, "{kind}, seed {seed}: {steps:?}");
    }
}

/// Transfers, deferred and not, some refused when they are evaluated, keep the sum, and each that committed is counted.
fn transfers(kind: Kind) {
    const ROUNDS: usize = 1_500;
    let db = open(kind);
    let uses = AtomicI64::new(0);
    on_threads(kind, &db, 4, |session, random, _| {
        for round in 0..ROUNDS {
            let (from, to) = (random.below(PURSES), random.below(PURSES));
            let amount = random.below(60) as i64;
            let outcome = match round % 8 {
                0 => {
                    let rows = lawful(session.run(all));
                    assert_eq!(
                        rows.values().map(|row| row.value).sum::<i64>(),
                        PURSES as i64 * EACH,
                        "{kind}"
                    );
                    continue;
                }
                1 => session.run(|tx| {
                    tx.update_columns(from, Purse::value, |value| *value -= amount)?;
                    tx.update_columns(to, Purse::value, |value| *value += amount)?;
                    tx.update_columns(from, Purse::uses, |uses| *uses += 1)
                }),
                part => session.defer(|tx| {
                    if part == 2 {
                        // A read at once, of a row that others change.
                        tx.get::<Purse>(random.below(PURSES))?;
                    }
                    let left = tx.defer(from, Purse::value, (), move |value, ()| {
                        *value -= amount;
                        *value
                    })?;
                    if part > 4 {
                        let is_enough = tx.map(left, |left| left.is_some_and(|left| left >= -100))?;
                        tx.ensure(is_enough, "too little")?;
                    }
                    tx.defer(to, Purse::value, (), move |value, ()| *value += amount)?;
                    tx.defer(from, Purse::uses, (), |uses, ()| *uses += 1)?;
                    Ok(())
                }),
            };
            match outcome {
                Ok(()) => {
                    uses.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::User(_)) => {}
                Err(error) => panic!("{kind}: {error}"),
            }
        }
    });
    let rows = lawful(lawful(db.session()).run(all));
    assert_eq!(rows.values().map(|row| row.value).sum::<i64>(), PURSES as i64 * EACH, "{kind}");
    assert_eq!(rows.values().map(|row| row.uses as i64).sum::<i64>(), uses.into_inner(), "{kind}");
}

/// Who sees that two rows are above zero together takes one from one of them, at the commit: never do both go below.
fn write_skew(kind: Kind) {
    let db = open(kind);
    on_threads(kind, &db, 4, |session, random, _| {
        for _ in 0..1_000 {
            let (mine, gives) = (random.below(2), random.below(3) == 0);
            lawful(session.defer(|tx| {
                let (one, other) = (tx.get::<Purse>(0)?, tx.get::<Purse>(1)?);
                let sum = one.map_or(0, |row| row.value) + other.map_or(0, |row| row.value);
                assert!(sum >= 0, "{kind}: both took the last");
                if gives || sum > 0 {
                    let by = if gives { 1 } else { -sum.min(60) };
                    tx.defer(mine, Purse::value, (), move |value, ()| *value += by)?;
                }
                Ok(())
            }));
        }
    });
    let rows = lawful(lawful(db.session()).run(all));
    assert!(rows[&0].value + rows[&1].value >= 0, "{kind}: both took the last");
}
