//! The child: opens the directory, and works until it is killed, or tells all that it found.
//!
//! A transaction takes three keys. For each it reads the *twin* (which version the key is at, and whether
//! its slot exists) and the *slot* (a balance), writes both anew with the next version, moves money between
//! the slots, perhaps deletes one, and adds a row to the *ledger* that tells keys, versions and balances. So
//! from the ledger alone it can be computed what twins and slots must be, and a commit that is missing, or
//! there in part, shows.
//!
//! Slots and twins have texts of many lengths. In some openings the twins are declared otherwise, so that the directory is migrated; in
//! some cycles copies of it are taken beside all that, and continued; what was continued is restored.

use super::plan::{Copies, Habit, Id, KEYS, Moment, Opening, Plan, Random, Step};
use super::rows::{ByBucket, DOOMED, Ledger, Slot, TakeStep, Twin, Twins, WideTwin, migration, take};
use super::wire::{Message, Opened, Pipe};
use crate::failure::{Failure, chain};
use clap::{Args, ValueEnum};
use heddledb::protocol::Kind;
use heddledb::{
    Backup, Database, Durability, Error, LogError, LogKind, ReadTransaction, Restore, Result, Scan, Session,
    Ticket,
};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The exit code of a child whose log has failed, or who could not open the directory.
pub const FAILED: u8 = 3;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Runs the workload.
    Work,
    /// Tells all that it finds.
    Look,
    /// Restores a copy, beside it.
    Restore,
}

/// Arguments of `heddle crash-child`.
#[derive(Args, Debug)]
pub struct ChildArguments {
    /// What it does
    #[arg(long)]
    pub role: Role,
    /// The directory; of a copy that is restored
    #[arg(long)]
    pub dir: PathBuf,
    /// The seed
    #[arg(long)]
    pub seed: u64,
    /// The cycle
    #[arg(long)]
    pub cycle: u64,
    /// Log calls as such
    #[arg(long)]
    pub calls: bool,
    /// End after so many transactions of each session, whatever the plan says
    #[arg(long)]
    pub transactions: Option<u64>,
}

/// A digest of words.
pub fn digest(words: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| (hash.rotate_left(23) ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    words.iter().fold(words.len() as u64, mix)
}

/// The digest of a whole database: messages in any order.
pub fn digest_of_all<'a>(rows: impl Iterator<Item = &'a Message>) -> u64 {
    rows.fold(0, |sum: u64, row| {
        sum.wrapping_add(match row {
            Message::Ledger(words) => digest(words),
            Message::Slot(words) => digest(words).rotate_left(1),
            Message::Twin(words) => digest(words).rotate_left(2),
            Message::Entry(bucket, key) => digest(&[*bucket, *key]).rotate_left(3),
            _ => 0,
        })
    })
}

/// Runs the child.
pub fn child(arguments: &ChildArguments) -> Result<ExitCode, Failure> {
    let pipe = Pipe::new().map_err(|error| Failure::run(chain(&error)))?;
    let plan = Plan::of(arguments.seed, arguments.cycle);
    let looks = arguments.role == Role::Look;
    let mut opening = if looks { plan.look } else { plan.work };
    if arguments.calls && !looks && !arguments.cycle.is_multiple_of(4) {
        opening.kind = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow][(arguments.cycle % 3) as usize];
    }
    let child = Child { arguments, plan: &plan, pipe: &pipe, opening, looks };
    let outcome = if arguments.role == Role::Restore { child.restore() } else { child.run() };
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            pipe.send(&failure(&error));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// How a failure is told.
fn failure(error: &Error) -> Message {
    let log = |error: &LogError| match error {
        LogError::Io { doing, .. } => (*doing).to_owned(),
        other => chain(other),
    };
    match error {
        Error::OutcomeUnknown(error) => Message::Failed(log(error)),
        Error::LogFailed(error) => Message::Failed(log(error)),
        Error::Open(error) => match &**error {
            LogError::Io { doing, .. } => Message::Failed(format!("opening: {doing}")),
            // Nothing but the system may refuse what it wrote itself.
            other => Message::Violation(format!("the directory does not open: {}", chain(other))),
        },
        other => Message::Violation(chain(other)),
    }
}

struct Child<'a> {
    arguments: &'a ChildArguments,
    plan: &'a Plan,
    pipe: &'a Pipe,
    opening: Opening,
    looks: bool,
}

impl Child<'_> {
    /// Opens the directory, and works or looks: in two of four cycles with other twins than in the others, and not in the same ones.
    fn run(&self) -> Result<()> {
        let is_wide = match self.looks {
            false => self.arguments.cycle % 2 == 1,
            true => self.arguments.cycle / 2 % 2 == 1,
        };
        // Calls know one declaration.
        let is_wide = is_wide && !self.arguments.calls;
        if is_wide { self.run_with::<WideTwin>() } else { self.run_with::<Twin>() }
    }

    fn run_with<W: Twins>(&self) -> Result<()> {
        let Opening { kind, files, compression, threads } = self.opening;
        let builder = Database::builder().protocol(kind);
        let builder = if self.arguments.calls { builder.procedure::<TakeStep>() } else { builder };
        let builder = if self.logs_calls() { builder.log_kind(LogKind::Commands) } else { builder };
        let builder = builder.table::<Ledger>(1000).table::<Slot>(16).table::<W>(16);
        // Each opening with other twins is by a later version.
        let version = 2 * self.arguments.cycle + u64::from(self.looks);
        let builder = builder.migrate(migration(version));
        let builder = builder.log_files(files).compression(compression).recovery_threads(threads);
        let builder = builder.epoch_interval(Duration::from_millis(2)).path(&self.arguments.dir);
        let builder = builder.checkpoint_after(Some(self.plan.checkpoint_after));
        let builder = match self.plan.copies {
            // So that no checkpoint takes away what a copy lacks.
            Copies::Continued => builder.keep_log(1 << 30),
            _ => builder,
        };
        let builder = match self.looks && self.plan.look_without_log {
            true => builder.durability(Durability::None),
            false => builder,
        };
        let db = builder.open()?;
        let rows = everything::<W>(&db)?;
        let mut opened = Opened { digest: digest_of_all(rows.iter()), ..Opened::default() };
        if let Some(recovery) = db.recovery() {
            (opened.rows, opened.transactions) = (recovery.rows, recovery.transactions);
            opened.torn = recovery.torn.len() as u64;
        }
        self.pipe.send(&Message::Opened(opened));
        if self.looks {
            self.pipe.send_all(rows.into_iter().chain([Message::Ended(Vec::new())]));
            return Ok(());
        }
        self.work::<W>(&db)
    }
}

impl Child<'_> {
    /// Restores a copy: as of the latest commit, or of any epoch that it reaches.
    fn restore(&self) -> Result<()> {
        let mut restore = Restore::from(&self.arguments.dir);
        if !self.plan.restores_latest {
            let epochs = restore.reach()?.epochs;
            let mut random = Random::new(self.arguments.seed, &[6, self.arguments.cycle]);
            restore = restore.epoch(epochs.start() + random.below(epochs.end() - epochs.start() + 1));
        }
        restore.to(Copies::restored(&self.arguments.dir))?;
        self.pipe.send(&Message::Ended(Vec::new()));
        Ok(())
    }

    /// Whether calls are logged as such.
    fn logs_calls(&self) -> bool {
        let can = matches!(self.opening.kind, Kind::Dgcc | Kind::DgccLevels | Kind::Dataflow);
        self.arguments.calls && can && !self.looks
    }
}

/// All rows of all tables.
fn everything<W: Twins>(db: &Database) -> Result<Vec<Message>> {
    db.session()?.run(|tx| {
        let mut rows = Vec::new();
        rows.extend(tx.collect(Scan::<Ledger>::all())?.iter().map(|row| Message::Ledger(row.words())));
        rows.extend(tx.collect(Scan::<Slot>::all())?.iter().map(|row| Message::Slot(row.words())));
        for key in 0..KEYS {
            rows.extend(tx.get::<W>(key)?.map(|row| Message::Twin(row.into().words())));
        }
        tx.scan_index(Scan::<ByBucket>::all(), |bucket, key| {
            rows.push(Message::Entry(bucket_of(bucket), key));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    })
}

fn bucket_of(key: <ByBucket as heddledb::table::Relation>::Key) -> u64 {
    u64::from(key.0)
}

impl Child<'_> {
    /// Runs the sessions. Returns when all have done their share, if they are to end at all.
    fn work<W: Twins>(&self, db: &Database) -> Result<()> {
        let ends = self.arguments.transactions.is_some() || self.plan.moment == Moment::End;
        let limit = self.arguments.transactions.unwrap_or(if ends { 100 } else { 400 });
        let stop = AtomicBool::new(false);
        let sessions = (self.plan.sessions.iter().enumerate())
            .map(|(number, habit)| Ok((number as u64, *habit, db.session()?)))
            .collect::<Result<Vec<_>>>()?;
        let mut tried: Vec<u64> = Vec::new();
        let outcome = std::thread::scope(|scope| {
            let checkpoints = self.plan.checkpoints.then(|| scope.spawn(|| self.checkpoints(db, &stop)));
            let takes_backups = self.plan.copies != Copies::None;
            let backups = takes_backups.then(|| scope.spawn(|| self.backups(db, &stop)));
            let threads: Vec<_> = (sessions.into_iter())
                .map(|(number, habit, session)| {
                    scope.spawn(move || self.session::<W>(db, session, number, habit, limit))
                })
                .collect();
            let mut outcome = Ok(());
            for thread in threads {
                match thread.join() {
                    Ok(Ok(count)) => tried.push(count),
                    Ok(Err(error)) => outcome = Err(error),
                    Err(_) => self.violation("a session panicked"),
                }
            }
            if !ends && outcome.is_ok() {
                // To be killed.
                loop {
                    std::thread::park();
                }
            }
            // Relaxed: a hint.
            stop.store(true, Ordering::Relaxed);
            if let Some(Err(_)) = checkpoints.map(|thread| thread.join()) {
                self.violation("a checkpoint panicked");
            }
            if let Some(Err(_)) = backups.map(|thread| thread.join()) {
                self.violation("a backup panicked");
            }
            outcome
        });
        outcome?;
        db.flush()?;
        self.pipe.send(&Message::Ended(tried));
        Ok(())
    }

    fn violation(&self, what: impl Into<String>) {
        self.pipe.send(&Message::Violation(what.into()));
    }

    /// Takes copies, and continues them, until it is told to stop.
    fn backups(&self, db: &Database, stop: &AtomicBool) {
        let mut random = Random::new(self.arguments.seed, &[5, self.arguments.cycle]);
        for number in 0..Copies::MAX {
            std::thread::sleep(random.micros(3_000));
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let place = self.plan.copies.place(&self.arguments.dir, number);
            let backup = match Copies::is_whole(&place) {
                true => Backup::to(place).incremental(),
                false => Backup::to(place),
            };
            let continues = backup.is_incremental();
            self.pipe.send(&Message::BackupBegun(number));
            match db.backup(backup) {
                Ok(_) => self.pipe.send(&Message::BackupEnded(number)),
                // Under failures of the disk.
                Err(Error::Open(error)) if matches!(*error, LogError::Io { .. }) => {
                    self.pipe.send(&Message::CheckpointFailed(format!("backup: {error}")));
                }
                Err(Error::LogFailed(_) | Error::OutcomeUnknown(_)) if continues => return,
                Err(other) => self.violation(format!("a backup failed: {}", chain(&other))),
            }
        }
    }

    /// Takes checkpoints until it is told to stop, or the log fails.
    fn checkpoints(&self, db: &Database, stop: &AtomicBool) {
        let mut random = Random::new(self.arguments.seed, &[3, self.arguments.cycle]);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(random.micros(2_000));
            self.pipe.send(&Message::CheckpointBegun);
            match db.checkpoint() {
                Ok(_) => self.pipe.send(&Message::CheckpointEnded),
                // The one before stays in force.
                Err(Error::Open(error)) => match *error {
                    LogError::Io { doing, .. } => {
                        self.pipe.send(&Message::CheckpointFailed(format!("checkpoint: {doing}")));
                    }
                    other => self.violation(format!("a checkpoint found: {}", chain(&other))),
                },
                Err(Error::LogFailed(_) | Error::OutcomeUnknown(_)) => return,
                Err(other) => self.violation(format!("a checkpoint failed: {}", chain(&other))),
            }
        }
    }

    /// Runs the transactions of a session; says how many it tried.
    fn session<W: Twins>(
        &self,
        db: &Database,
        mut session: Session,
        number: u64,
        habit: Habit,
        limit: u64,
    ) -> Result<u64> {
        let mut random = Random::new(self.arguments.seed, &[4, self.arguments.cycle, number]);
        let mut under_way: VecDeque<(u64, u64, Ticket)> = VecDeque::new();
        let mut last = None;
        session.set_durability(if habit == Habit::Sync { Durability::Sync } else { Durability::Epoch })?;
        let outcome = (0..limit).try_for_each(|transaction| {
            let id = Id { cycle: self.arguments.cycle, session: number, number: transaction };
            let step = Step::of(self.arguments.seed, id);
            let outcome = match habit {
                Habit::Pipelined(_) => session
                    .run_pipelined(|tx| take::<W>(tx, step, id))
                    .map(|(row, ticket)| (row, Some(ticket))),
                _ if self.logs_calls() => session.call(TakeStep, (step, id)).map(|row| (row, None)),
                _ => session.run(|tx| take::<W>(tx, step, id)).map(|row| (row, None)),
            };
            let (row, ticket) = match outcome {
                Ok((row, ticket)) if !step.doomed => (row, ticket),
                Ok(_) => {
                    self.violation(format!("{id} did not abort"));
                    return Ok(());
                }
                Err(Error::User(reason)) if step.doomed && reason.to_string() == DOOMED => return Ok(()),
                Err(error) => return Err(error),
            };
            last = Some(transaction);
            match habit {
                Habit::Sync => self.pipe.send(&Message::Durable(number, transaction, digest(&row.words()))),
                Habit::Pipelined(most) => {
                    under_way.extend(ticket.map(|ticket| (transaction, digest(&row.words()), ticket)));
                    while under_way.len() as u64 > most
                        || under_way.front().is_some_and(|(_, _, ticket)| ticket.is_durable())
                    {
                        self.redeem(number, &mut under_way)?;
                    }
                }
                Habit::Epoch => {
                    if random.percent(4) {
                        db.flush()?;
                        self.pipe.send(&Message::Flushed(number, transaction));
                    }
                    std::thread::sleep(random.micros(100));
                }
            }
            Ok(())
        });
        let outcome = outcome.and_then(|()| {
            while !under_way.is_empty() {
                self.redeem(number, &mut under_way)?;
            }
            Ok(limit)
        });
        if let Err(Error::OutcomeUnknown(_) | Error::LogFailed(_)) = &outcome {
            self.stays_failed::<W>(db, &mut session, number, limit);
        }
        outcome
    }

    /// Waits for the oldest commit under way, and acknowledges it.
    fn redeem(&self, session: u64, under_way: &mut VecDeque<(u64, u64, Ticket)>) -> Result<()> {
        let Some((number, digest, ticket)) = under_way.pop_front() else { return Ok(()) };
        ticket.wait()?;
        self.pipe.send(&Message::Durable(session, number, digest));
        Ok(())
    }

    /// Tries to go on with a log that has failed. Nothing may be acknowledged any more.
    fn stays_failed<W: Twins>(&self, db: &Database, session: &mut Session, number: u64, from: u64) {
        let is_failure = |error: &Error| matches!(error, Error::LogFailed(_) | Error::OutcomeUnknown(_));
        for transaction in from..from + 3 {
            let id = Id { cycle: self.arguments.cycle, session: number, number: transaction };
            let step = Step { doomed: false, ..Step::of(self.arguments.seed, id) };
            match session.run(|tx| take::<W>(tx, step, id)) {
                Err(Error::LogFailed(_)) => {}
                Err(other) => {
                    self.violation(format!("after the log failed a commit said: {}", chain(&other)))
                }
                Ok(_) => self.violation("a commit went through after the log failed"),
            }
        }
        if !db.flush().is_err_and(|error| is_failure(&error)) {
            self.violation("a flush went through after the log failed");
        }
        if !db.checkpoint().is_err_and(|error| is_failure(&error)) {
            self.violation("a checkpoint went through after the log failed");
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use heddledb::protocol::TicToc;

    fn run(seed: u64, transactions: u64) -> (Database, Vec<(u64, u64, u64)>) {
        let db = Database::builder().protocol(TicToc::default()).open().unwrap();
        let mut session = db.session().unwrap();
        let mut done = Vec::new();
        for number in 0..transactions {
            let id = Id { cycle: 0, session: 0, number };
            let step = Step::of(seed, id);
            match session.run(|tx| take::<Twin>(tx, step, id)) {
                Ok(row) => done.push((0, number, digest(&row.words()))),
                Err(error) => assert!(step.doomed && error.to_string() == DOOMED, "{error}"),
            }
        }
        drop(session);
        (db, done)
    }

    /// The commits of so many transactions of one session: session, number, digest.
    pub fn after(seed: u64, transactions: u64) -> Vec<(u64, u64, u64)> {
        run(seed, transactions).1
    }

    /// All rows after so many transactions of one session.
    pub fn everything_after(seed: u64, transactions: u64) -> Vec<Message> {
        everything::<Twin>(&run(seed, transactions).0).unwrap()
    }
}
