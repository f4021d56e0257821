//! A second opinion: the same history, judged by the independent checker `adya` (a Rust
//! re-implementation of Elle).
//!
//! `adya` knows no rows, predicates or deletes; it judges transactions that append to lists and read
//! them. So each row becomes a list of what ever happened to it, in version order: a write appends its
//! version, a delete appends a tombstone. A read of a version is a read of the list up to it, a read
//! of absence the list up to a tombstone (or the empty list), a scan a read of every list in its
//! range. Reads of own writes are left out (they are checked by [`crate::checker`]), and so are reads
//! of an absence that cannot be told from another. A write that was overwritten within its own
//! transaction is left out as well, as nobody else may see it.

use crate::history::{ABSENT, History, Op, Row, Status, Version};
use adya::history::{Interner, Mop, Op as Event, OpType, ReadValue, Scalar};
use adya::{Opts, Valid, Workload};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What `adya` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// True for a lawful history.
    pub ok: bool,
    /// The names of the anomalies.
    pub anomalies: Vec<String>,
    /// An explanation of the first.
    pub explanation: String,
}

/// One committed change of a row.
struct Change {
    attempt: usize,
    stamp: u64,
    version: Version,
    /// The list element: a version, or a fresh negative number for a tombstone.
    element: i64,
}

/// Judges a history, in real time if `strict`.
pub fn judge(history: &History, strict: bool) -> Opinion {
    let model = if strict { "strict-serializable" } else { "serializable" };
    let options = Opts { models: vec![model.into()], ..Opts::default() };
    let report = adya::check(&translate(history), Workload::ListAppend, &options);
    let explanation = report.anomalies.values().flatten().next().map(|anomaly| anomaly.explanation.clone());
    Opinion {
        ok: report.valid == Valid::True || report.anomaly_types.iter().all(|name| name == "empty-transaction-graph"),
        anomalies: report.anomaly_types,
        explanation: explanation.unwrap_or_default(),
    }
}

/// The history in `adya`'s terms: committed transactions only.
fn translate(history: &History) -> adya::History {
    let chains = chains(history);
    let places: HashMap<Version, (Row, usize)> = chains
        .iter()
        .flat_map(|(row, chain)| chain.iter().enumerate().map(move |(at, change)| (change.version, (*row, at))))
        .filter(|(version, _)| *version != ABSENT)
        .collect();
    let mut interner = Interner::default();
    let keys: HashMap<Row, u32> = chains
        .keys()
        .map(|row| (*row, interner.intern(Scalar::Str(format!("{}/{}", row.0, row.1)))))
        .collect();
    let elements: HashMap<i64, u32> = chains
        .values()
        .flatten()
        .map(|change| (change.element, interner.intern(Scalar::Int(change.element))))
        .collect();

    // (time, is it the end, attempt); an operation's value is known at its end.
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (number, attempt) in history.attempts.iter().enumerate() {
        if attempt.status == Status::Committed {
            events.push((attempt.begin, false, number));
            events.push((attempt.end, true, number));
        }
    }
    events.sort_unstable();

    let prefix = |row: Row, length: usize| {
        let list = chains.get(&row).map_or(&[][..], |chain| &chain[..length]);
        ReadValue::List(list.iter().map(|change| elements[&change.element]).collect())
    };
    let mut ops = Vec::with_capacity(events.len());
    // `adya` allows one open operation per process; attempts of one session do not overlap.
    for (index, (_, end, number)) in events.into_iter().enumerate() {
        let attempt = &history.attempts[number];
        let mut value = Vec::new();
        let mut own: HashSet<Row> = HashSet::new();
        let read = |row: Row, version: Version, own: &HashSet<Row>, value: &mut Vec<Mop>| {
            let Some(&key) = keys.get(&row) else { return };
            if own.contains(&row) {
                return;
            }
            let length = match version {
                ABSENT => absence(history, &chains[&row], number),
                _ => places.get(&version).filter(|place| place.0 == row).map(|place| place.1 + 1),
            };
            if let Some(length) = length {
                let seen = if end { prefix(row, length) } else { ReadValue::Nil };
                value.push(Mop::Read { key, value: seen });
            }
        };
        for op in &attempt.ops {
            match op {
                Op::Read(table, key, version) => read((*table, *key), *version, &own, &mut value),
                Op::Scan(table, low, high, seen) => {
                    for (key, version) in seen {
                        read((*table, *key), *version, &own, &mut value);
                    }
                    let seen: HashSet<u64> = seen.iter().map(|(key, _)| *key).collect();
                    for (row, _) in chains.range((*table, *low)..=(*table, *high)) {
                        if !seen.contains(&row.1) {
                            read(*row, ABSENT, &own, &mut value);
                        }
                    }
                }
                Op::Write(table, key, _) | Op::Delete(table, key) => _ = own.insert((*table, *key)),
            }
        }
        for row in own {
            let chain = &chains[&row];
            let from = chain.partition_point(|change| change.stamp < attempt.stamp);
            if let Some(change) = chain[from..].iter().find(|change| change.attempt == number) {
                value.push(Mop::Append { key: keys[&row], value: elements[&change.element] });
            }
        }
        let kind = if end { OpType::Ok } else { OpType::Invoke };
        ops.push(Event {
            index: index as u64,
            kind,
            process: Some(i64::from(attempt.session)),
            value,
            time: None,
        });
    }
    adya::History::from_ops(ops, interner)
}

/// The committed changes of each row, in version order.
fn chains(history: &History) -> BTreeMap<Row, Vec<Change>> {
    let mut chains: BTreeMap<Row, Vec<Change>> = BTreeMap::new();
    let mut tombstones = 0;
    for (number, attempt) in history.attempts.iter().enumerate() {
        if attempt.status != Status::Committed {
            continue;
        }
        let mut left: BTreeMap<Row, Version> = BTreeMap::new();
        for op in &attempt.ops {
            match op {
                Op::Write(table, key, version) => _ = left.insert((*table, *key), *version),
                Op::Delete(table, key) => _ = left.insert((*table, *key), ABSENT),
                Op::Read(..) | Op::Scan(..) => {}
            }
        }
        for (row, version) in left {
            let element = match version {
                ABSENT => {
                    tombstones -= 1;
                    tombstones
                }
                version => version as i64,
            };
            chains.entry(row).or_default().push(Change { attempt: number, stamp: attempt.stamp, version, element });
        }
    }
    chains.values_mut().for_each(|chain| chain.sort_by_key(|change| change.stamp));
    chains
}

/// How much of a row's list a reader of its absence has seen, if only one absence fits its time.
fn absence(history: &History, chain: &[Change], reader: usize) -> Option<usize> {
    let (begin, end) = (history.attempts[reader].begin, history.attempts[reader].end);
    let possible = |at: &usize| {
        let starts = *at == 0 || chain[at - 1].version == ABSENT;
        let began = *at == 0 || history.attempts[chain[at - 1].attempt].begin <= end;
        let lasted = chain.get(*at).is_none_or(|next| history.attempts[next.attempt].end >= begin);
        starts && began && lasted
    };
    let mut candidates = (0..=chain.len()).filter(possible);
    let first = candidates.next();
    if candidates.next().is_some() { None } else { first }
}
