//! Additions as parts of a history: a counter's value tells which of them it has.
//!
//! **Problem.** Additions have no order and leave no version, so a history knows nothing of them, and a sum at the end tells only
//! whether all are there then.
//!
//! **Mechanism.** Each addition of a run has a *place*, two bits of a counter, to which it adds one. So whoever reads a counter sees
//! which additions have been made, and one that was made twice, too. In a history each place is a row of [`COUNTERS`], which one
//! transaction writes, and a counter is read as all its rows. What an addition has to come before and after is then for the
//! checkers to say, as of any row.
//!
//! Two things they do not say, since they know neither epochs nor which transactions are calls: [`late`].

use crate::history::{ABSENT, Attempt, EPOCH_SHIFT, Op, Status, Version};
use heddledb::Table;
use std::collections::BTreeMap;

/// Two counters.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_counters")]
pub struct Counter {
    /// Its key.
    #[key]
    pub key: u64,
    /// Those of even numbers.
    #[group(one)]
    pub one: i64,
    /// Those of odd numbers.
    #[group(two)]
    pub two: i64,
}

/// The number of the table of counters, whose rows are places.
pub const COUNTERS: u8 = 5;

/// How many places a counter has.
pub const PLACES: u64 = 31;

/// Bits of a place.
const BITS: u64 = 2;

/// The row of a place.
pub const fn row(counter: u64, place: u64) -> u64 {
    counter * (PLACES + 1) + place
}

/// What an addition at that place adds.
pub const fn amount(place: u64) -> i64 {
    1 << (BITS * place)
}

/// The version that an addition leaves in its row.
pub const fn version(row: u64) -> Version {
    1 << 62 | row
}

/// The version that is there before it.
const fn before(row: u64) -> Version {
    1 << 61 | row
}

/// What the value of a counter tells: a read of each of its places. What was made more than once is a version that nobody writes.
pub fn seen(counter: u64, value: i64) -> impl Iterator<Item = Op> {
    (0..PLACES).map(move |place| {
        let (times, row) = ((value as u64) >> (BITS * place) & ((1 << BITS) - 1), row(counter, place));
        let version = if times == 0 { ABSENT } else { version(row) | (times - 1) << 40 };
        Op::Read(COUNTERS, row, version)
    })
}

/// Makes of additions what a checker knows: their rows are there before the first attempt, and are written once, by the attempt of a
/// transaction that took effect, if one did. Its other attempts have not added anything.
pub fn settle(attempts: &mut Vec<Attempt>) {
    let writers = writers(attempts);
    if writers.is_empty() {
        return;
    }
    for (number, attempt) in attempts.iter_mut().enumerate() {
        attempt.ops.retain_mut(|op| match op {
            Op::Write(COUNTERS, row, _) => writers[&*row] == number,
            Op::Read(COUNTERS, row, version) if *version == ABSENT => {
                *version = before(*row);
                writers.contains_key(row)
            }
            _ => true,
        });
    }
    let ops = writers.keys().map(|row| Op::Write(COUNTERS, *row, before(*row))).collect();
    attempts.push(Attempt {
        session: u32::MAX - 1,
        begin: 0,
        end: 0,
        status: Status::Committed,
        stamp: 1,
        ops,
    });
}

/// By place, the attempt that took effect of those that have added there, or else the last one.
fn writers(attempts: &[Attempt]) -> BTreeMap<u64, usize> {
    let mut writers = BTreeMap::new();
    for (number, attempt) in attempts.iter().enumerate() {
        for op in &attempt.ops {
            let Op::Write(COUNTERS, row, _) = *op else { continue };
            let writer = writers.entry(row).or_insert(number);
            if !attempts[*writer].status.took_effect() {
                *writer = number;
            }
        }
    }
    writers
}

/// An addition that was made too late, if there is one. An attempt that is no call, as `looks` says, sees what those had added that had
/// ended when it began; and whoever commits in an epoch sees what was added in earlier ones.
pub fn late(attempts: &[Attempt], looks: impl Fn(usize) -> bool) -> Option<String> {
    let writers = writers(attempts);
    for (number, reader) in attempts.iter().enumerate().filter(|(_, reader)| reader.status.took_effect()) {
        for op in &reader.ops {
            let Op::Read(COUNTERS, row, ABSENT) = *op else { continue };
            let Some(&by) = writers.get(&row).filter(|by| **by != number) else { continue };
            let writer = &attempts[by];
            if !writer.status.took_effect() {
                continue;
            }
            let (place, counter) = (row % (PLACES + 1), row / (PLACES + 1));
            let missed =
                format!("T{number} does not see what T{by} has added at place {place} of counter {counter}");
            if looks(number) && writer.end < reader.begin {
                return Some(format!("{missed}, though it began after that had ended"));
            }
            if writer.stamp >> EPOCH_SHIFT < reader.stamp >> EPOCH_SHIFT {
                return Some(format!("{missed}, though it is of a later epoch"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::history::{Header, History};

    const EPOCH: u64 = 1 << 24;

    fn attempt(session: u32, times: (u64, u64), stamp: u64, ops: Vec<Op>) -> Attempt {
        Attempt { session, begin: times.0, end: times.1, status: Status::Committed, stamp, ops }
    }

    fn adds(counter: u64, place: u64) -> Op {
        let row = row(counter, place);
        Op::Write(COUNTERS, row, version(row))
    }

    fn classes(mut attempts: Vec<Attempt>) -> Vec<&'static str> {
        settle(&mut attempts);
        let verdict = check(&History { header: Header::new("test", false, 1), attempts }, false);
        verdict.anomalies.iter().map(|anomaly| anomaly.class).collect()
    }

    #[test]
    fn a_value_tells_what_was_added() {
        let adder = attempt(0, (1, 2), EPOCH, vec![adds(1, 0), adds(1, 3)]);
        let reads =
            |value: i64| classes(vec![adder.clone(), attempt(1, (3, 4), 0, seen(1, value).collect())]);
        assert!(reads(amount(0) + amount(3)).is_empty());
        assert!(reads(0).is_empty(), "a call may come before");
        assert_eq!(reads(amount(0)), ["G-single"], "half of them");
        assert_eq!(reads(2 * amount(0) + amount(3)), ["garbage"], "one of them twice");
        assert_eq!(reads(amount(7)), ["garbage"], "nobody's");
    }

    #[test]
    fn what_an_aborted_attempt_adds_is_not_seen() {
        let mut aborted = attempt(0, (1, 2), 0, vec![adds(0, 5)]);
        aborted.status = Status::Aborted;
        let look = attempt(1, (5, 6), 0, seen(0, amount(5)).collect());
        assert_eq!(classes(vec![aborted.clone(), look.clone()]), ["G1a"]);
        let again = attempt(0, (3, 4), EPOCH, vec![adds(0, 5)]);
        assert!(classes(vec![aborted, again, look]).is_empty(), "its next attempt was successful");
    }

    #[test]
    fn additions_are_late_for_looks_and_later_epochs() {
        let adder = attempt(0, (1, 2), EPOCH, vec![adds(0, 0)]);
        let reader = |begin, stamp| attempt(1, (begin, 9), stamp, seen(0, 0).collect());
        let judged =
            |begin, stamp, looks: bool| late(&[adder.clone(), reader(begin, stamp)], |_| looks).is_some();
        assert!(judged(3, 0, true) && !judged(3, 0, false) && !judged(2, 0, true));
        assert!(judged(3, 2 * EPOCH, false) && !judged(3, EPOCH + 7, false));
    }
}
