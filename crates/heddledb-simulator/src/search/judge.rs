//! Whether what was recorded is lawful.
//!
//! 1. Nothing was said to be wrong while it ran: invariants, operations that fail for no reason, panics.
//! 2. It came to its end. Only where a worker died may the others wait for ever; what was committed is judged
//!    all the same.
//! 3. The history is serializable, strictly where the protocol promises it; and no addition was made too late.
//! 4. With a disk: after the power is back the database opens, holds what the commits up to its durable epoch
//!    leave and nothing else, among them everything that was acknowledged.

use super::scenario::{COUNTERS, Disk, Epochs, Scenario};
use super::stage::{Entry, Run, State, Submitted, open, sums, writes};
use heddledb::Result;
use heddledb::procedure::PlanChange;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb_check::history::{Attempt, EPOCH_SHIFT, Header, History, Op, Row, Status};
use heddledb_check::recorder::Recorder;
use heddledb_check::{additions, checker, elle};
use heddledb_engine_simulated::sync::simulation::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is wrong with a run, if anything.
pub(super) fn judge(kind: Kind, scenario: &Scenario, run: &Run, both: bool) -> Option<String> {
    if let Some(wrong) = run.record.wrong.borrow().first() {
        return Some(wrong.clone());
    }
    match &run.failure {
        Some(Failure::Panic(message)) => return Some(format!("it panicked: {message}")),
        Some(failure) if !scenario.has_deaths() => return Some(failure.to_string()),
        _ => {}
    }
    let attempts = match in_order(&run.record.entries.borrow()) {
        Ok(attempts) if attempts.is_empty() => return None,
        Ok(attempts) => attempts,
        Err(violation) => return Some(violation),
    };
    let entries = run.record.entries.borrow();
    if let Some(late) = additions::late(&attempts, |number| !entries[number].called) {
        return Some(late);
    }
    drop(entries);
    unlawful(kind, scenario, attempts.clone(), both).or_else(|| {
        let (settings, disk) = scenario.disk.as_ref().zip(run.disk.as_ref())?;
        after_the_crash(kind, scenario, run, attempts, (settings, disk)).err()
    })
}

/// The attempts, as the checkers take them: of two writers of a row the later has the greater stamp.
///
/// A call in pieces commits at several times, and has written a row at one of them. So the writers of each row are put in the order in
/// which they wrote it, and calls get stamps in an order in which all rows agree.
///
/// # Errors
/// What is unlawful already: that there is no such order, or that calls of one submitter wrote a row in another one than they were
/// submitted in.
fn in_order(entries: &[Entry]) -> Result<Vec<Attempt>, String> {
    let mut attempts: Vec<Attempt> = entries.iter().map(|entry| entry.attempt.clone()).collect();
    if entries.iter().all(|entry| entry.submitted.is_none()) {
        return Ok(attempts);
    }
    let mut writers: BTreeMap<Row, BTreeSet<(u64, usize)>> = BTreeMap::new();
    for (number, Entry { attempt, submitted, .. }) in entries.iter().enumerate() {
        for (at, op) in attempt.ops.iter().enumerate().filter(|_| attempt.status.took_effect()) {
            let (Op::Write(table, key, _) | Op::Delete(table, key)) = *op else { continue };
            let commits = submitted.iter().flat_map(|submitted| &submitted.commits);
            let time = commits.copied().find(|(ops, _)| at < *ops).map_or(attempt.stamp, |(_, time)| time);
            writers.entry((table, key)).or_default().insert((time, number));
        }
    }
    let mut after = vec![Vec::new(); entries.len()];
    let mut before = vec![0; entries.len()];
    for (row, writers) in &writers {
        let writers: Vec<(u64, usize)> = writers.iter().copied().collect();
        for pair in writers.windows(2) {
            let [(time, one), (later, other)] = [pair[0], pair[1]];
            if one == other {
                continue;
            }
            if time == later {
                return Err(format!("T{one} and T{other} wrote {row:?} at one time, {time:#x}"));
            }
            after[one].push(other);
            before[other] += 1;
        }
        let by = |number: usize| entries[number].submitted.as_ref().and_then(|submitted| submitted.by);
        for (at, (_, one)) in writers.iter().enumerate() {
            let overtaken =
                |(_, other): &&(u64, usize)| by(*one).is_some() && by(*one) == by(*other) && other < one;
            if let Some((_, other)) = writers[at..].iter().find(overtaken) {
                return Err(format!("T{other} was submitted before T{one}, and wrote {row:?} after it"));
            }
        }
    }
    let time = |number: usize| (entries[number].attempt.stamp, number);
    let mut free: BTreeSet<_> = (0..entries.len()).filter(|call| before[*call] == 0).map(time).collect();
    let mut ordered = 0;
    while let Some((stamp, number)) = free.pop_first() {
        ordered += 1;
        if stamp != 0 {
            attempts[number].stamp = ordered;
        }
        for next in &after[number] {
            before[*next] -= 1;
            if before[*next] == 0 {
                free.insert(time(*next));
            }
        }
    }
    if ordered < entries.len() as u64 {
        let left: Vec<_> = (0..entries.len()).filter(|call| before[*call] > 0).collect();
        return Err(format!("G0: these have written rows in orders that do not agree: {left:?}"));
    }
    Ok(attempts)
}

/// What the checkers say against the history of these attempts.
fn unlawful(kind: Kind, scenario: &Scenario, mut attempts: Vec<Attempt>, both: bool) -> Option<String> {
    additions::settle(&mut attempts);
    let strict = kind.strict();
    let history = &History { header: Header::new(kind.name(), strict, scenario.seed), attempts };
    let verdict = checker::check(history, strict);
    if let Some(anomaly) = verdict.anomalies.first() {
        return Some(anomaly.to_string());
    }
    if both {
        let theirs = elle::judge(history, strict);
        if !theirs.ok {
            return Some(format!("adya finds {}: {}", theirs.anomalies.join(", "), theirs.explanation));
        }
    }
    None
}

/// Opens what a crash has left and compares; with the attempts of the run in the order that they are judged by.
fn after_the_crash(
    kind: Kind,
    scenario: &Scenario,
    run: &Run,
    mut attempts: Vec<Attempt>,
    (settings, disk): (&Disk, &Simulated),
) -> Result<(), String> {
    let left = if settings.keeps_power { disk.after_kill() } else { disk.after_power_cut(settings.luck) };
    // A directory belongs to no protocol.
    let kinds = [kind, Kind::Silo, Kind::NoWait];
    let found = recover(kinds[(settings.luck % 3) as usize], left, scenario);
    let Found { durable, ops, sums } =
        found.map_err(|error| format!("after the crash it does not open: {error}"))?;
    for (entry, attempt) in run.record.entries.borrow().iter().zip(&mut attempts) {
        let epoch = entry.attempt.stamp >> EPOCH_SHIFT;
        // One that only adds is in no history.
        let added = entry.submitted.as_ref().filter(|submitted| !submitted.adds.is_empty());
        let added = added.and_then(Submitted::time).map_or(0, |time| time >> EPOCH_SHIFT);
        let last = if attempt.status.took_effect() { epoch.max(added) } else { 0 };
        if entry.state == State::Acknowledged && last > durable {
            return Err(format!(
                "session {}'s commit of epoch {last} was acknowledged as durable, and recovery knows \
                 epochs up to {durable}",
                attempt.session
            ));
        }
        if attempt.status.took_effect() && writes(attempt) {
            attempt.status = match (epoch <= durable, entry.state) {
                (true, State::Acknowledged) => Status::Committed,
                (true, _) => Status::Survived,
                (false, _) => Status::Lost,
            };
        } else if attempt.status.took_effect() && entry.state != State::Acknowledged {
            // Who only read and did not wait may have seen what is lost.
            attempt.status = Status::Lost;
        }
    }
    let added = run.record.added(|time| time >> EPOCH_SHIFT <= durable);
    if sums != added {
        return Err(format!(
            "after the crash, durable up to epoch {durable}: {added:?} was added by key, and {sums:?} is there"
        ));
    }
    let now = attempts.iter().map(|attempt| attempt.end).max().unwrap_or(0) + 1;
    let (session, status) = (u32::MAX, Status::Committed);
    attempts.push(Attempt { session, begin: now, end: now + 1, status, stamp: 0, ops });
    let last = attempts.len() - 1;
    let late = additions::late(&attempts, |number| number == last);
    match late.or_else(|| unlawful(kind, scenario, attempts, false)) {
        Some(what) => Err(format!("after the crash, durable up to epoch {durable}: {what}")),
        None => Ok(()),
    }
}

/// What recovery finds.
struct Found {
    /// The durable epoch.
    durable: u64,
    /// Everything, as one attempt would read it.
    ops: Vec<Op>,
    /// What has been added, by key.
    sums: BTreeMap<u64, i64>,
}

/// Recovers a directory of a scenario.
fn recover(kind: Kind, disk: Simulated, scenario: &Scenario) -> Result<Found> {
    let epochs = Epochs::Worker { advances: 0, yields: false };
    let (disk, change) = (Some((disk, Duration::ZERO)), PlanChange::default());
    let db = open(kind, 1, disk, epochs, change, scenario.told, scenario.puts_off)?;
    let durable = db.recovery().map_or(0, |recovery| recovery.durable_epoch);
    let (mut ops, mut version) = (Vec::new(), 0);
    let mut snapshot = db.snapshot()?;
    let mut recorder = Recorder::new(&mut snapshot, &mut ops, &mut version);
    recorder.everything(64, 16)?;
    let counters = if scenario.puts_off { COUNTERS } else { 0 };
    (0..counters).try_for_each(|counter| recorder.count(counter))?;
    let sums = if scenario.told.is_some() { sums(&mut snapshot)? } else { BTreeMap::new() };
    drop(snapshot);
    Ok(Found { durable, ops, sums })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::Priority;

    /// A call that was submitted by a worker, and wrote these rows at these times, each in a piece of its own.
    fn call(session: u32, by: usize, writes: &[(u64, u64)]) -> Entry {
        let ops =
            writes.iter().map(|(key, time)| Op::Write(0, *key, u64::from(session) << 32 | time)).collect();
        let commits = (1..).zip(writes).map(|(ops, (_, time))| (ops, *time)).collect();
        let stamp = writes.last().map_or(0, |(_, time)| *time);
        let attempt = Attempt { session, begin: 1, end: 100, status: Status::Committed, stamp, ops };
        let submitted = Some(Submitted { by: Some((by, Priority::Normal)), adds: Vec::new(), commits });
        Entry { attempt, state: State::Ended, called: true, submitted }
    }

    fn stamps(calls: &[Entry]) -> Result<Vec<u64>, String> {
        in_order(calls).map(|attempts| attempts.iter().map(|attempt| attempt.stamp).collect())
    }

    #[test]
    fn calls_in_pieces_have_the_order_of_their_rows() {
        // The first ends last, and comes first.
        let calls = [call(0, 0, &[(1, 10), (2, 40)]), call(1, 1, &[(1, 20), (3, 30)])];
        assert_eq!(stamps(&calls), Ok(vec![1, 2]));
        let calls = [call(0, 0, &[(1, 10), (2, 40)]), call(1, 1, &[(1, 20), (2, 30)])];
        assert!(stamps(&calls).unwrap_err().starts_with("G0"), "each is before the other in one row");
        let calls = [call(0, 0, &[(1, 10)]), call(1, 1, &[(1, 10)])];
        assert!(stamps(&calls).unwrap_err().contains("at one time"));
    }

    #[test]
    fn calls_of_one_worker_that_meet_keep_their_order() {
        let calls = |by| [call(0, 0, &[(1, 20)]), call(1, by, &[(1, 10)])];
        assert!(stamps(&calls(0)).unwrap_err().contains("T0 was submitted before T1"));
        assert_eq!(stamps(&calls(1)), Ok(vec![2, 1]));
    }
}
