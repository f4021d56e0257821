//! Whether what was recorded is lawful.
//!
//! 1. Nothing was said to be wrong while it ran: invariants, operations that fail for no reason, panics.
//! 2. It came to its end. Only where a worker died may the others wait for ever; what was committed is judged
//!    all the same.
//! 3. The history is serializable, strictly where the protocol promises it.
//! 4. With a disk: after the power is back the database opens, holds what the commits up to its durable epoch
//!    leave and nothing else, among them everything that was acknowledged.

use super::scenario::{Disk, Epochs, Scenario};
use super::stage::{Run, State, open, writes};
use heddledb::Result;
use heddledb::procedure::PlanChange;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb_check::history::{Attempt, Header, History, Op, Status};
use heddledb_check::recorder::Recorder;
use heddledb_check::{checker, elle};
use heddledb_engine_simulated::sync::simulation::Failure;
use std::time::Duration;

/// Bits of a stamp below its epoch.
const EPOCH_SHIFT: u32 = 24;

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
    let attempts: Vec<Attempt> =
        run.record.entries.borrow().iter().map(|entry| entry.attempt.clone()).collect();
    if attempts.is_empty() {
        return None;
    }
    let history = History { header: Header::new(kind.name(), kind.strict(), scenario.seed), attempts };
    unlawful(&history, kind.strict(), both).or_else(|| {
        let (settings, disk) = scenario.disk.as_ref().zip(run.disk.as_ref())?;
        after_the_crash(kind, scenario, run, settings, disk).err()
    })
}

/// What the checkers say against a history.
fn unlawful(history: &History, strict: bool, both: bool) -> Option<String> {
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

/// Opens what a crash has left and compares.
fn after_the_crash(
    kind: Kind,
    scenario: &Scenario,
    run: &Run,
    settings: &Disk,
    disk: &Simulated,
) -> Result<(), String> {
    let left = if settings.keeps_power { disk.after_kill() } else { disk.after_power_cut(settings.luck) };
    // A directory belongs to no protocol.
    let kinds = [kind, Kind::Silo, Kind::NoWait];
    let found = recover(kinds[(settings.luck % 3) as usize], left);
    let (durable, ops) = found.map_err(|error| format!("after the crash it does not open: {error}"))?;
    let mut attempts = Vec::new();
    for entry in run.record.entries.borrow().iter() {
        let mut attempt = entry.attempt.clone();
        let epoch = attempt.stamp >> EPOCH_SHIFT;
        if attempt.status.took_effect() && writes(&attempt) {
            if entry.state == State::Acknowledged && epoch > durable {
                return Err(format!(
                    "session {}'s commit of epoch {epoch} was acknowledged as durable, and recovery knows \
                     epochs up to {durable}",
                    attempt.session
                ));
            }
            attempt.status = match (epoch <= durable, entry.state) {
                (true, State::Acknowledged) => Status::Committed,
                (true, _) => Status::Survived,
                (false, _) => Status::Lost,
            };
        } else if attempt.status.took_effect() && entry.state != State::Acknowledged {
            // Who only read and did not wait may have seen what is lost.
            attempt.status = Status::Lost;
        }
        attempts.push(attempt);
    }
    let now = attempts.iter().map(|attempt| attempt.end).max().unwrap_or(0) + 1;
    let (session, status) = (u32::MAX, Status::Committed);
    attempts.push(Attempt { session, begin: now, end: now + 1, status, stamp: 0, ops });
    let history = History { header: Header::new(kind.name(), kind.strict(), scenario.seed), attempts };
    match unlawful(&history, kind.strict(), false) {
        Some(what) => Err(format!("after the crash, durable up to epoch {durable}: {what}")),
        None => Ok(()),
    }
}

/// Recovers a directory: its durable epoch, and everything in it as one attempt would read it.
fn recover(kind: Kind, disk: Simulated) -> Result<(u64, Vec<Op>)> {
    let epochs = Epochs::Worker { advances: 0, yields: false };
    let db = open(kind, 1, Some((disk, Duration::ZERO)), epochs, PlanChange::default())?;
    let durable = db.recovery().map_or(0, |recovery| recovery.durable_epoch);
    let (mut ops, mut version) = (Vec::new(), 0);
    let mut snapshot = db.snapshot()?;
    let mut recorder = Recorder::new(&mut snapshot, &mut ops, &mut version);
    recorder.everything(64, 16)?;
    drop(snapshot);
    Ok((durable, ops))
}
