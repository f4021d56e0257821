//! What procedures tell of keys that they do not know beforehand. Under protocols that do not order calls by it
//! ([`Execution::is_announced`](heddledb::protocol::Execution::is_announced)), that no call is lost by it.

use super::Test;
use super::graph::{Executions, NODES, Node, filled, sum};
use super::load::on_threads;
use heddledb::procedure::Announcement;
use heddledb::protocol::Kind;
use heddledb::{
    Conflict, Database, Error, ReadTransaction, Result, Scan, Table, Transaction, Txn, procedure,
};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "graph_keys_among_others_are_foreseen", run: keys_among_others_are_foreseen },
        Test { name: "graph_unordered_keys_are_foreseen", run: unordered_keys_are_foreseen },
        Test { name: "graph_bodies_find_the_rest", run: bodies_find_the_rest },
    ]
}

/// A list: its entries have the numbers from 0 on.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "graph_list")]
struct List {
    #[key]
    list: u16,
    length: u32,
}

/// An entry of a list. Its key is one word.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "graph_entry", index(EntriesByTag(list, tag)))]
struct Entry {
    #[key]
    list: u16,
    #[key]
    number: u32,
    tag: u8,
    #[group(value)]
    value: i64,
}

fn tell_appends(to: &mut Announcement<'_>, list: u16) {
    to.writes_among(Scan::<Entry>::prefix((list,)));
    to.writes_among(Scan::<EntriesByTag>::prefix((list,)));
    to.writes(list, List::length);
}

/// Adds an entry, whose number the list says, and raises the one before.
#[procedure(announce = tell_appends)]
fn graph_append(tx: &mut impl Transaction, list: u16) -> Result<u32> {
    let length = tx.get_columns(list, List::length)?.ok_or_else(|| Error::user("no list"))?;
    if length > 0 {
        let value = tx.get_columns((list, length - 1), Entry::value)?.unwrap_or(i64::MIN);
        (0..3).for_each(|_| std::thread::yield_now());
        tx.set_columns((list, length - 1), Entry::value, value + 1)?;
    }
    tx.insert::<Entry>(Entry { list, number: length, tag: 7, value: 0 })?;
    tx.set_columns(list, List::length, length + 1)?;
    Ok(length)
}

fn tell_raises(to: &mut Announcement<'_>, list: u16, number: u32) {
    to.writes((list, number), Entry::value);
}

/// Raises an entry, if there is one of that number.
#[procedure(announce = tell_raises)]
fn graph_raise_entry(tx: &mut impl Transaction, list: u16, number: u32) -> Result<bool> {
    let Some(value) = tx.get_columns((list, number), Entry::value)? else { return Ok(false) };
    (0..3).for_each(|_| std::thread::yield_now());
    tx.set_columns((list, number), Entry::value, value + 1)?;
    Ok(true)
}

fn tell_sums(to: &mut Announcement<'_>, list: u16) {
    to.scans(Scan::<Entry>::range((list, 0)..=(list, u32::MAX / 2)));
}

/// How many entries a list has, and the sum of their values.
#[procedure(announce = tell_sums)]
fn graph_sum(tx: &mut impl ReadTransaction, list: u16) -> Result<(u32, i64)> {
    let (mut count, mut sum) = (0, 0);
    tx.scan_columns(Scan::<Entry>::range((list, 0)..=(list, u32::MAX / 2)), Entry::value, |_, value| {
        (count, sum) = (count + 1, sum + value);
        ControlFlow::Continue(())
    })?;
    Ok((count, sum))
}

/// Calls that make rows of keys that they do not know before, beside others that read, write and scan rows there: those that order calls
/// by what they tell foresee all, and none fails; under any protocol no call is lost.
fn keys_among_others_are_foreseen(kind: Kind) {
    const THREADS: usize = 3;
    const LISTS: u16 = 2;
    const CALLS: u32 = 60;
    if kind.sessions_max() == 1 {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3).procedure::<GraphAppend>();
    let db = builder.procedure::<GraphRaiseEntry>().procedure::<GraphSum>().open().expect("it opens");
    let fill = |tx: &mut Txn| (0..=LISTS).try_for_each(|list| tx.insert(List { list, length: 0 }));
    db.session().and_then(|mut session| session.run(fill)).expect("the table is empty");
    let raised = AtomicU64::new(0);
    on_threads(kind, &db, THREADS, |session, _, thread| {
        for at in 0..CALLS {
            let list = (thread as u16 + at as u16) % LISTS;
            let appends = session.submit(GraphAppend, list).expect("it is submitted");
            let raises = session.submit(GraphRaiseEntry, (list, at)).expect("it is submitted");
            let sums = session.submit(GraphSum, list).expect("it is submitted");
            if at % 8 == 0 {
                session.call(GraphAppend, LISTS).expect("it commits");
            }
            appends.wait().expect("it commits");
            // Relaxed: a count, looked at when all have ended.
            raised.fetch_add(raises.wait().expect("it commits").into(), Ordering::Relaxed);
            sums.wait().expect("it commits");
        }
    });
    let metrics = db.metrics();
    if kind.execution().is_announced() {
        // Those that scan look at the gap behind the last key, too.
        let gaps = metrics.stats.conflicts_by(Conflict::Phantom);
        assert_eq!((metrics.stats.conflicts_total(), metrics.stats.unforeseen), (gaps, 0), "{metrics}");
    }
    let mut session = db.session().expect("there are sessions");
    let lists: Vec<_> = (0..=LISTS).map(|list| session.call(GraphSum, list).expect("it commits")).collect();
    let threads = THREADS as u32;
    assert_eq!(lists.iter().map(|(count, _)| count).sum::<u32>(), threads * (CALLS + CALLS.div_ceil(8)));
    let by_appends: i64 = lists.iter().map(|(count, _)| i64::from(*count) - 1).sum();
    assert_eq!(lists.iter().map(|(_, sum)| sum).sum::<i64>(), by_appends + raised.into_inner() as i64);
}

/// Of two nodes that have one sum, the first.
const SAMPLED: u64 = 3;

fn tell_samples(to: &mut Announcement<'_>, key: u64) {
    to.uses_unordered(Scan::<Node>::range(SAMPLED..=SAMPLED + 1));
    to.writes(key, Node::value);
}

/// Reads the two, and writes another one.
#[procedure(announce = tell_samples)]
fn graph_sample(tx: &mut impl Transaction, key: u64) -> Result<i64> {
    let mut sum = tx.get_columns(SAMPLED, Node::value)?.unwrap_or(i64::MIN);
    (0..3).for_each(|_| std::thread::yield_now());
    tx.scan_columns(Scan::<Node>::range(SAMPLED + 1..=SAMPLED + 1), Node::value, |_, value| {
        sum += value;
        ControlFlow::Continue(())
    })?;
    tx.update_columns(key, Node::value, |value| *value += 1)?;
    Ok(sum)
}

fn tell_moves(to: &mut Announcement<'_>, ordered: bool) {
    if ordered {
        to.writes(SAMPLED, Node::value);
        to.writes(SAMPLED + 1, Node::value);
    } else {
        to.uses_unordered(Scan::<Node>::range(SAMPLED..=SAMPLED + 1));
    }
}

#[procedure(announce = tell_moves)]
fn graph_move(tx: &mut impl Transaction, ordered: bool) -> Result<()> {
    let _ = ordered;
    tx.update_columns(SAMPLED, Node::value, |value| *value += 1)?;
    (0..3).for_each(|_| std::thread::yield_now());
    tx.update_columns(SAMPLED + 1, Node::value, |value| *value -= 1)
}

/// Keys at which nobody waits: what is accessed there was foreseen, and goes together all the same.
fn unordered_keys_are_foreseen(kind: Kind) {
    const THREADS: usize = 3;
    const CALLS: u64 = 60;
    if kind.sessions_max() == 1 {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3).procedure::<GraphSample>();
    let db = filled(builder.procedure::<GraphMove>().procedure::<GraphStray>(), |_| 0);
    on_threads(kind, &db, THREADS, |session, _, thread| {
        for at in 0..CALLS {
            let moves = session.submit(GraphMove, at % 2 == 0).expect("it is submitted");
            let samples = session.submit(GraphSample, thread as u64).expect("it is submitted");
            assert_eq!(session.call(GraphSample, thread as u64).expect("it commits"), 0);
            assert_eq!(samples.wait().expect("it commits"), 0);
            moves.wait().expect("it commits");
        }
    });
    assert_eq!(sum(&db), (2 * THREADS as u64 * CALLS) as i64);
    assert_eq!(db.metrics().stats.unforeseen, 0, "{}", db.metrics());
    if kind.execution().is_announced() {
        let mut session = db.session().expect("there are sessions");
        session.call(GraphStray, SAMPLED).expect("it commits all the same");
        assert_eq!(session.stats().unforeseen, 1, "another key");
    }
}

fn tell_strays(to: &mut Announcement<'_>, key: u64) {
    to.uses_unordered(Scan::<Node>::range(key + 1..=key + 1));
}

#[procedure(announce = tell_strays)]
fn graph_stray(tx: &mut impl Transaction, key: u64) -> Result<()> {
    tx.update_columns(key, Node::value, |value| *value += 1)
}

fn tell_known(to: &mut Announcement<'_>, key: u64, executions: Executions) {
    let _ = executions;
    if key < NODES / 2 {
        to.writes(key, Node::value);
    } else {
        to.finds_rest();
    }
}

#[procedure(announce = tell_known)]
fn graph_known(tx: &mut impl Transaction, key: u64, executions: Executions) -> Result<()> {
    // Relaxed: as above.
    executions.0.fetch_add(1, Ordering::Relaxed);
    tx.update_columns(key, Node::value, |value| *value += 1)
}

/// A procedure that cannot tell for some of its arguments: then its body is executed to find out.
fn bodies_find_the_rest(kind: Kind) {
    if kind.sessions_max() == 1 {
        return;
    }
    let db = filled(Database::builder().protocol(kind).executors(1).procedure::<GraphKnown>(), |_| 0);
    let mut session = db.session().expect("there are sessions");
    let executions = Executions::default();
    for key in 0..NODES {
        session.call(GraphKnown, (key, executions.clone())).expect("it commits");
        let submitted = session.submit(GraphKnown, (key, executions.clone()));
        submitted.and_then(|call| call.wait()).expect("it commits");
    }
    drop(session);
    assert_eq!(sum(&db), 2 * NODES as i64);
    if kind.execution().is_announced() {
        assert_eq!(executions.0.load(Ordering::Relaxed), 3 * NODES, "half of them were executed twice");
        assert_eq!(db.metrics().stats.unforeseen, 0);
    }
}
