//! A copy that is kept over the lives of a database, and continued with its log; and what is restored from it.
//!
//! The disk of the copy fails on its own: wherever that is, the copy is as before or as after. It may be refused when its link
//! to the log is broken; what it holds when it is not refused is what the ledger says.

use super::model::{Indexes, State};
use heddledb::internals::random::Random;
use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::{Backup, Database, Durability, Error, LogError, Restore, Result};
use std::sync::Arc;

/// A copy, and the rows that it holds. Its disk is never written to: what works on it takes another.
#[derive(Clone, Debug)]
pub struct Kept {
    disk: Simulated,
    state: State,
    /// What a power cut may bring back: what continuations that failed have left is not always synced, and the next one
    /// may fail before it syncs it.
    earlier: Vec<State>,
}

/// What became of a copy.
pub enum Outcome {
    /// It is as it was to be, or as before where its disk failed.
    Kept(Box<Kept>),
    /// It cannot be continued, and is as before.
    Refused,
    /// The database's log or its disk has failed.
    Failed(Error),
}

/// A copy's rows, read without a change of it.
fn rows(disk: &Simulated, random: &mut Random) -> std::result::Result<State, String> {
    let indexes = Indexes::draw(random).to_read(disk);
    let builder = Database::builder().manual_epochs().recovery_threads(1).read_only(true);
    read(indexes, indexes.declare(builder, disk).open())
}

fn read(indexes: Indexes, opened: Result<Database>) -> std::result::Result<State, String> {
    let db = opened.map_err(|error| format!("it does not open: {error}"))?;
    let found = db.session().and_then(|mut session| session.run(|tx| State::read(tx, indexes)));
    found.map_err(|error| error.to_string())?
}

fn compare(found: &State, due: &State) -> std::result::Result<(), String> {
    if found == due { Ok(()) } else { Err(format!("it holds {}", found.difference(due))) }
}

/// What goes wrong with a disk, at which of its next operations.
fn draw_fault(random: &mut Random, disk: &Simulated) -> Option<Fault> {
    const FAULTS: [Fault; 5] =
        [Fault::PowerCut, Fault::PowerCut, Fault::Error, Fault::Full, Fault::Interrupted];
    let fault = (random.below(2) == 0).then(|| FAULTS[random.below(FAULTS.len() as u64) as usize])?;
    disk.fail(disk.operations() + random.below(20), fault);
    Some(fault)
}

impl Kept {
    /// Takes a full copy; `None` where it cannot be continued, because the log has failed or there is none.
    pub fn take(
        db: &Database,
        now: &State,
        random: &mut Random,
    ) -> std::result::Result<Option<Self>, String> {
        let disk = Simulated::new();
        let taken = db.backup(Backup::to_storage(Arc::new(disk.clone())));
        let report = taken.map_err(|error| format!("a copy was not taken: {error}"))?;
        compare(&rows(&disk, random)?, now)?;
        Ok(report.can_continue.then_some(Self { disk, state: *now, earlier: Vec::new() }))
    }

    /// Continues the copy, with a failure of its disk now and then. `after` says what is committed up to an epoch.
    pub fn go_on(
        &self,
        db: &Database,
        now: &State,
        after: &dyn Fn(u64) -> State,
        random: &mut Random,
    ) -> std::result::Result<Outcome, String> {
        let disk = self.disk.after_kill();
        let fault = draw_fault(random, &disk);
        let outcome = db.backup(Backup::to_storage(Arc::new(disk.clone())).incremental());
        let told = |what: String| format!("a continued copy, with {fault:?}, {outcome:?}: {what}");
        let is_off = random.below(2) == 1;
        let left = if is_off { disk.after_power_cut(random.next_u64()) } else { disk.after_kill() };
        let found = rows(&left, random).map_err(told)?;
        match &outcome {
            Ok(_) => {
                compare(&found, now).map_err(told)?;
                Self::restore(&left, after, random).map_err(told)?;
            }
            Err(_) if found == self.state => {}
            Err(_) if is_off && self.earlier.contains(&found) => {}
            // Its disk failed in the last steps.
            Err(Error::Open(_)) if fault.is_some() => compare(&found, now).map_err(told)?,
            Err(_) => compare(&found, &self.state).map_err(told)?,
        }
        let failed_itself = fault.is_some_and(|fault| fault != Fault::Interrupted);
        match outcome {
            Err(Error::Open(error)) if matches!(*error, LogError::NotContinued { .. }) => {
                Ok(Outcome::Refused)
            }
            Err(Error::Misuse(_)) => Ok(Outcome::Refused),
            Err(Error::Open(_)) if failed_itself => {
                let mut earlier = self.earlier.clone();
                match is_off {
                    true => earlier.clear(),
                    false if found != self.state => earlier.push(self.state),
                    false => {}
                }
                Ok(Outcome::Kept(Box::new(Self { disk: left, state: found, earlier })))
            }
            Err(error) => Ok(Outcome::Failed(error)),
            Ok(_) => Ok(Outcome::Kept(Box::new(Self { disk: left, state: found, earlier: Vec::new() }))),
        }
    }

    /// Restores the copy to an epoch that is drawn, or to a moment, with a failure of the new disk now and then.
    fn restore(
        copy: &Simulated,
        after: &dyn Fn(u64) -> State,
        random: &mut Random,
    ) -> std::result::Result<(), String> {
        let restore = Restore::from_storage(Arc::new(copy.clone()));
        let reach = restore.reach().map_err(|error| error.to_string())?;
        let (first, last) = (*reach.epochs.start(), *reach.epochs.end());
        let restore = match (random.below(4), reach.times) {
            (0, Some((first, last))) => {
                let length = last.duration_since(first).map_err(|error| error.to_string())?;
                restore.at(first + length * (random.below(101) as u32) / 100)
            }
            (1, _) => restore,
            _ => restore.epoch(first + random.below(last - first + 1)),
        };
        let (to, writes) = (Simulated::new(), copy.writes());
        let fault = draw_fault(random, &to);
        let outcome = restore.to_storage(Arc::new(to.clone()));
        let told = |what: String| format!("restored, with {fault:?}, {outcome:?}: {what}");
        if copy.writes() != writes {
            return Err(told("the copy was written to".to_owned()));
        }
        let is_off = fault == Some(Fault::PowerCut);
        match &outcome {
            Ok(_) => {}
            Err(_) if is_off => {}
            Err(Error::Open(_)) if matches!(fault, Some(Fault::Error | Fault::Full)) => {
                return match to.list() {
                    Ok(names) if names.is_empty() => Ok(()),
                    names => Err(told(format!("it left {names:?}"))),
                };
            }
            Err(error) => return Err(told(error.to_string())),
        }
        let left = to.after_power_cut(random.next_u64());
        let is_nothing = left.list().is_ok_and(|names| names.is_empty());
        let indexes = Indexes::draw(random).settled(&left);
        let builder = Database::builder().manual_epochs().durability(Durability::None).recovery_threads(1);
        let opened = indexes.declare(builder, &left).open();
        match (&outcome, &opened) {
            (Err(_), Err(_)) => return Ok(()),
            (Err(_), Ok(_)) if is_nothing => return Ok(()),
            _ => {}
        }
        let found = read(indexes, opened).map_err(told)?;
        match &outcome {
            Ok(report) => compare(&found, &after(report.epoch)).map_err(told),
            // It was whole when the power was cut: as of which epoch, nobody was told.
            Err(_) => (first..=last)
                .any(|epoch| found == after(epoch))
                .then_some(())
                .ok_or_else(|| told("it holds what no epoch has".to_owned())),
        }
    }
}
