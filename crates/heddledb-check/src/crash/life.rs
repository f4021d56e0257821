//! One life of a database: it is opened, looked at, worked with, and closed or stopped by the disk.
//!
//! A life is driven by a seed and does the same each time up to the first operation of the disk that
//! goes wrong. Everything runs on one thread, so commits are in the order of the program, and what the
//! files may hold after a crash is a prefix of the [`Ledger`].

use super::kept::{Kept, Outcome};
use super::ledger::Ledger;
use super::model::{Indexes, Program, State};
use super::sums::{self, Summing};
use crate::history::EPOCH_SHIFT;
use heddledb::internals::Registered;
use heddledb::internals::log::{Manifest, survey};
use heddledb::internals::random::Random;
use heddledb::protocol::{Execution, Kind};
use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::{
    Backup, Compression, Database, Durability, Error, LogError, LogKind, Result, Session, Ticket,
};
use std::sync::Arc;

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    kind: Kind,
    files: u8,
    compression: Compression,
    durability: Durability,
    threads: usize,
    salvage: bool,
    indexes: Indexes,
    read_only: bool,
    /// Bytes of log that are kept behind checkpoints.
    keep: u64,
    log: LogKind,
}

impl Settings {
    /// Any, or under one protocol.
    pub fn draw(random: &mut Random, under: Option<Kind>) -> Self {
        let kind = under.unwrap_or(Kind::ALL[random.below(Kind::ALL.len() as u64) as usize]);
        let files = [1, 1, 2, 3][random.below(4) as usize];
        let compression = [Compression::None, Compression::Lz4][random.below(2) as usize];
        let durability = match random.below(12) {
            0 => Durability::None,
            1..4 => Durability::Sync,
            _ => Durability::Epoch,
        };
        let indexes = Indexes::draw(random);
        let (threads, salvage, read_only) = (1, false, false);
        let keep = [0, 2_000, 1 << 30, 1 << 30][random.below(4) as usize];
        let rows = Self {
            kind,
            files,
            compression,
            durability,
            threads,
            salvage,
            indexes,
            read_only,
            keep,
            log: LogKind::Values,
        };
        if random.below(5) != 0 || under.is_some() {
            return rows;
        }
        let kind = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow][random.below(3) as usize];
        let durability = if durability == Durability::None { Durability::Epoch } else { durability };
        Self { kind, indexes: Indexes::ALL, log: LogKind::Commands, durability, ..rows }
    }

    /// The same, with damage salvaged.
    pub fn salvaging(self) -> Self {
        Self { salvage: true, ..self }
    }

    /// The same, to be read only.
    pub fn reading(self, disk: &Simulated) -> Self {
        Self { read_only: true, indexes: self.indexes.to_read(disk), ..self }
    }

    /// The same with several threads of recovery now and then.
    pub fn for_a_look(random: &mut Random) -> Self {
        let threads = if random.below(8) == 0 { 2 } else { 1 };
        Self { threads, ..Self::draw(random, None) }
    }
}

/// How a life ended.
#[derive(Debug)]
pub enum End {
    /// By a drop of the database, after all steps.
    Closed(Report),
    /// The log failed, or the power did.
    Stopped,
    /// It was not opened.
    Refused(Box<LogError>),
}

/// What opening found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The last durable epoch.
    pub durable: u64,
    /// Torn rounds that were cut off.
    pub torn: usize,
    /// Damage that was salvaged.
    pub lost: usize,
    /// Whether rows were migrated, or indexes built or removed, so that a checkpoint was taken, and so an epoch later than the rows' is
    /// durable.
    pub changed: bool,
}

/// A life to live.
pub struct Life<'a> {
    /// Its disk.
    pub disk: &'a Simulated,
    /// How it is opened.
    pub settings: Settings,
    /// Where its steps come from.
    pub random: Random,
    /// How many it takes.
    pub steps: u64,
    /// No operation of the disk before this one fails.
    pub fails_at: u64,
    /// What it must find, and where its commits go.
    pub ledger: &'a mut Ledger,
}

impl Life<'_> {
    /// Lives it; an error is a violation of what the database promises.
    pub fn live(self) -> Result<End, String> {
        let mut life = self;
        life.settings.indexes = life.settings.indexes.settled(life.disk);
        life.live_on()
    }

    fn live_on(self) -> Result<End, String> {
        let Settings {
            files,
            compression,
            durability,
            threads,
            salvage,
            kind,
            indexes,
            read_only,
            keep,
            log,
        } = self.settings;
        let named = if self.random.clone().below(4) == 0 { highest_epoch(self.disk) } else { 0 };
        let before = self.disk.after_kill();
        let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(3));
        let builder = indexes.declare(builder, self.disk);
        let builder =
            builder.manual_epochs().durability(durability).log_files(files).keep_log(keep).log_kind(log);
        let opened = builder.compression(compression).recovery_threads(threads).salvage(salvage);
        let opened = opened.read_only(read_only).open();
        let db = match opened {
            Ok(db) => db,
            Err(Error::Open(error)) => {
                if self.disk.operations() > self.fails_at
                    && let Some(durable) = durable_epoch(before, indexes)
                {
                    self.ledger.drop_after(durable);
                }
                return Ok(End::Refused(error));
            }
            Err(error) => return Err(format!("opening under {kind} failed with {error}")),
        };
        let recovery = db.recovery().ok_or("a database with files has no recovery")?;
        self.ledger.migrated += u64::from(!recovery.schema.is_empty());
        let report = Report {
            durable: recovery.durable_epoch,
            torn: recovery.torn.len(),
            lost: recovery.lost.len(),
            changed: !recovery.indexes.is_empty() || !recovery.schema.is_empty(),
        };
        let sessions = (0..kind.sessions_max().min(3)).map(|_| db.session()).collect::<Result<Vec<_>>>();
        let sessions = sessions.map_err(|error| format!("no session: {error}"))?;
        let waits = vec![durability == Durability::Sync; sessions.len()];
        let logged = durability != Durability::None;
        let stays = (kind.puts_off() && self.steps > 0).then(|| sums::register_stay(&db)).transpose();
        let stays = stays.map_err(|error| format!("a procedure is not registered: {error}"))?;
        let mut alive = Alive { db, sessions, tickets: Vec::new(), waits, logged, stays, life: self };
        let under = |what: String| format!("under {kind}: {what}");
        alive.look(&report, named).map_err(under)?;
        let stopped = alive.steps().map_err(under)?;
        let Alive { db, sessions, life, logged, .. } = alive;
        drop((sessions, db));
        if stopped {
            return Ok(End::Stopped);
        }
        if logged && life.disk.operations() <= life.fails_at {
            life.ledger.acknowledge_all();
        }
        Ok(End::Closed(report))
    }
}

/// The last epoch of a disk that counts for a recovery. One that is cut off may have dropped what is later, and then have
/// written a checkpoint of a later epoch.
fn durable_epoch(disk: Simulated, indexes: Indexes) -> Option<u64> {
    let builder = Database::builder().manual_epochs().recovery_threads(1).durability(Durability::None);
    let db = indexes.settled(&disk).declare(builder, &disk).open().ok()?;
    db.recovery().map(|recovery| recovery.durable_epoch)
}

/// The highest epoch that any log file names, as far as it can be read.
fn highest_epoch(disk: &Simulated) -> u64 {
    let copy = disk.after_kill();
    let Ok(Some(manifest)) = Manifest::read(&copy) else { return 0 };
    let one = |generation| survey(&copy, manifest.directory, generation, true, 1).map_or(0, |s| s.highest);
    manifest.generations.iter().map(one).max().unwrap_or(0)
}

/// A database that is open.
struct Alive<'a> {
    db: Database,
    sessions: Vec<Session>,
    /// With the number of commits that each stands for.
    tickets: Vec<(Ticket, usize)>,
    /// Whether the commits of each session wait until they are durable.
    waits: Vec<bool>,
    logged: bool,
    /// A call that others put additions off beside, where the protocol does.
    stays: Option<Registered>,
    life: Life<'a>,
}

/// What an error of an operation means.
enum Failure {
    /// The log has failed.
    Log,
    /// A checkpoint was not written.
    Checkpoint,
}

impl Alive<'_> {
    /// Compares what is there with the ledger.
    fn look(&mut self, report: &Report, named: u64) -> Result<(), String> {
        let found = self.read(0).map_err(|error| format!("reading failed with {error}"))?;
        self.life.ledger.found(report.durable, &found)?;
        let epoch = self.db.metrics().epoch;
        if epoch <= named.max(report.durable) {
            let durable = report.durable;
            return Err(format!("it starts at epoch {epoch}; the files name {named}, {durable} is durable"));
        }
        Ok(())
    }

    fn read(&mut self, session: usize) -> Result<Result<State, String>> {
        let indexes = self.life.settings.indexes;
        self.sessions[session].run(|tx| State::read(tx, indexes))
    }

    /// Takes the steps; true if the log failed.
    fn steps(&mut self) -> Result<bool, String> {
        if self.life.steps == 0 {
            return Ok(false);
        }
        for number in 0..self.sessions.len() {
            let durability = match self.life.random.below(4) {
                0 if self.logged => Durability::Sync,
                1 => Durability::None,
                2 => Durability::Epoch,
                _ => continue,
            };
            self.set(number, durability)?;
        }
        for _ in 0..self.life.steps {
            match self.step()? {
                Ok(()) | Err(Failure::Checkpoint) => {}
                Err(Failure::Log) => {
                    if self.logged {
                        self.after_failure()?;
                    }
                    if !self.resume()? {
                        return Ok(true);
                    }
                }
            }
            if let Some(log) = self.db.metrics().log {
                let ledger = &mut *self.life.ledger;
                ledger.acked = ledger.acked.max(ledger.closed(log.durable_epoch));
            }
        }
        Ok(false)
    }

    fn step(&mut self) -> Result<Result<(), Failure>, String> {
        let random = &mut self.life.random;
        match random.below(32) {
            0..18 => self.transaction(),
            18..22 if !self.tickets.is_empty() => {
                let (ticket, count) =
                    self.tickets.swap_remove(random.below(self.tickets.len() as u64) as usize);
                let outcome = ticket.wait();
                if outcome.is_ok() && self.logged {
                    self.life.ledger.acked = self.life.ledger.acked.max(count);
                }
                self.judge(outcome)
            }
            22 | 23 if self.logged => {
                let outcome = self.db.flush();
                self.acknowledge(outcome)
            }
            24..27 => {
                for _ in 0..=random.below(2) {
                    self.db.advance_epoch();
                }
                Ok(Ok(()))
            }
            28 | 29 => {
                let outcome = self.db.checkpoint().map(|_| ());
                self.acknowledge(outcome)
            }
            27 => self.go_on(),
            30 => self.backup().map(Ok),
            31 if self.stays.is_some() => self.move_beside(),
            _ => {
                // Whoever reads and waits was told that what it saw is durable.
                let session = random.below(self.sessions.len() as u64) as usize;
                let mut waits = false;
                if self.logged && random.below(2) == 0 {
                    waits = true;
                    self.set(session, Durability::Sync)?;
                }
                let outcome = self.read(session);
                let now = self.life.ledger.now();
                match &outcome {
                    Ok(Ok(found)) if *found != now => {
                        return Err(format!("a transaction saw {}", found.difference(&now)));
                    }
                    Ok(Err(what)) => return Err(what.clone()),
                    _ => {}
                }
                let outcome = outcome.map(|_| ());
                if waits { self.acknowledge(outcome) } else { self.judge(outcome) }
            }
        }
    }

    /// Takes a copy, with a failure of its disk now and then: it holds all that was committed, or does not open.
    fn backup(&mut self) -> Result<(), String> {
        const FAULTS: [Fault; 5] =
            [Fault::PowerCut, Fault::Error, Fault::Full, Fault::Short, Fault::Interrupted];
        let random = &mut self.life.random;
        let disk = Simulated::new();
        let fault = (random.below(2) == 0).then(|| FAULTS[random.below(FAULTS.len() as u64) as usize]);
        if let Some(fault) = fault {
            disk.fail(random.below(20), fault);
        }
        let (indexes, seed) = (Indexes::draw(random), random.next_u64());
        let taken = self.db.backup(Backup::to_storage(Arc::new(disk.clone())));
        let told = |what: String| format!("a copy, with {fault:?}: {what}");
        match (&taken, fault) {
            (Ok(_), _) | (Err(_), Some(Fault::PowerCut)) => {}
            (Err(_), Some(Fault::Error | Fault::Full)) => {
                return match disk.list() {
                    Ok(names) if names.is_empty() => Ok(()),
                    names => Err(told(format!("it left {names:?}"))),
                };
            }
            (Err(error), _) => return Err(told(error.to_string())),
        }
        let left = disk.after_power_cut(seed);
        let is_nothing = left.list().is_ok_and(|names| names.is_empty());
        let builder = Database::builder().manual_epochs().durability(Durability::None).recovery_threads(1);
        let copy = match indexes.declare(builder, &left).open() {
            Ok(copy) if taken.is_ok() || !is_nothing => copy,
            Ok(_) => return Ok(()),
            Err(_) if taken.is_err() => return Ok(()),
            Err(error) => return Err(told(format!("it does not open: {error}"))),
        };
        let found = copy.session().and_then(|mut session| session.run(|tx| State::read(tx, indexes)));
        let (found, now) = (found.map_err(|error| told(error.to_string()))??, self.life.ledger.now());
        match found == now {
            true => Ok(()),
            false => Err(told(format!("it holds {}", found.difference(&now)))),
        }
    }

    /// Continues the copy that is kept, or takes one to keep.
    fn go_on(&mut self) -> Result<Result<(), Failure>, String> {
        let Self { db, life, .. } = self;
        let (random, ledger) = (&mut life.random, &mut *life.ledger);
        let now = ledger.now();
        let Some(kept) = ledger.kept.take() else {
            ledger.kept = Kept::take(db, &now, random)?;
            return Ok(Ok(()));
        };
        let outcome = kept.go_on(db, &now, &|epoch| ledger.after(ledger.closed(epoch)), random)?;
        match outcome {
            Outcome::Kept(kept) => {
                ledger.continued += 1;
                ledger.kept = Some(*kept);
                Ok(Ok(()))
            }
            Outcome::Refused => {
                ledger.refused += 1;
                Ok(Ok(()))
            }
            Outcome::Failed(error) => {
                ledger.kept = Some(kept);
                self.judge(Err(error))
            }
        }
    }

    /// Runs a transaction and enters it into the ledger.
    fn transaction(&mut self) -> Result<Result<(), Failure>, String> {
        let random = &mut self.life.random;
        let (program, after) = Program::draw(random, &self.life.ledger.now());
        let number = random.below(self.sessions.len() as u64) as usize;
        let pipelined = random.below(3) == 0;
        let session = &mut self.sessions[number];
        let indexes = self.life.settings.indexes;
        let Settings { kind, log, .. } = self.life.settings;
        let has_calls = log == LogKind::Commands || kind.execution() == Execution::Chopped;
        let is_call = has_calls && indexes.are_all() && random.below(4) != 0;
        let outcome = if is_call {
            program.call(session).map(|()| None)
        } else if pipelined {
            session.run_pipelined(|tx| program.execute(tx, indexes)).map(|((), ticket)| Some(ticket))
        } else {
            session.run(|tx| program.execute(tx, indexes)).map(|()| None)
        };
        let took_effect = match &outcome {
            Ok(_) | Err(Error::OutcomeUnknown(_)) if program.gives_up() => {
                return Err("a transaction that gave up was committed".to_owned());
            }
            Ok(_) | Err(Error::OutcomeUnknown(_)) => true,
            Err(Error::User(_)) if program.gives_up() => return Ok(Ok(())),
            Err(_) => false,
        };
        let ledger = &mut *self.life.ledger;
        // A transaction that changed nothing may not have written at all.
        let changed = ledger.now() != after;
        if took_effect && changed {
            ledger.enter(session.last_commit() >> EPOCH_SHIFT, after)?;
        }
        match outcome {
            Ok(ticket) => {
                let count = self.life.ledger.commits.len();
                if changed {
                    self.tickets.extend(ticket.map(|ticket| (ticket, count)));
                    if self.waits[number] && (!pipelined || is_call) {
                        self.life.ledger.acknowledge_all();
                    }
                }
                Ok(Ok(()))
            }
            Err(error) => self.judge(Err(error)),
        }
    }

    /// Moves amounts while a call of another session is under way.
    fn move_beside(&mut self) -> Result<Result<(), Failure>, String> {
        let (Some(stays), true) = (self.stays, self.sessions.len() > 1) else { return Ok(Ok(())) };
        // A commit that waits would wait for that call, too.
        self.set(1, if self.logged { Durability::Epoch } else { Durability::None })?;
        let Self { sessions, life, .. } = self;
        let (random, ledger) = (&mut life.random, &mut *life.ledger);
        let [staying, moving, ..] = &mut sessions[..] else { unreachable!("there are two") };
        let (mut moved, mut entered) = (Ok(()), Ok(()));
        let outcome = sums::beside(stays, staying, || {
            for _ in 0..=random.below(4) {
                let mut after = ledger.now();
                let Some(summing) = Summing::draw_move(random, &after.sums) else { return };
                summing.apply(&mut after.sums);
                moved = summing.call(moving);
                if matches!(moved, Ok(()) | Err(Error::OutcomeUnknown(_))) {
                    entered = ledger.enter(moving.last_commit() >> EPOCH_SHIFT, after);
                }
                if moved.is_err() || entered.is_err() {
                    return;
                }
            }
        });
        entered?;
        match self.judge(moved)? {
            Ok(()) => self.judge(outcome),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn set(&mut self, session: usize, durability: Durability) -> Result<(), String> {
        self.waits[session] = durability == Durability::Sync;
        self.sessions[session].set_durability(durability).map_err(|error| error.to_string())
    }

    /// The same as `judge`, of what acknowledges everything before it.
    fn acknowledge(&mut self, outcome: Result<()>) -> Result<Result<(), Failure>, String> {
        if outcome.is_ok() {
            self.life.ledger.acknowledge_all();
        }
        self.judge(outcome)
    }

    /// An error is lawful only when the disk has failed.
    fn judge(&mut self, outcome: Result<()>) -> Result<Result<(), Failure>, String> {
        let failure = match outcome {
            Ok(()) => return Ok(Ok(())),
            Err(Error::OutcomeUnknown(_) | Error::LogFailed(_)) => Failure::Log,
            Err(Error::Open(_)) => Failure::Checkpoint,
            Err(error) => return Err(format!("an operation failed with {error}")),
        };
        if self.life.disk.operations() <= self.life.fails_at {
            return Err("the log failed, though the disk did not".to_owned());
        }
        Ok(Err(failure))
    }

    /// After a failure nothing is acknowledged, and nothing is written.
    fn after_failure(&mut self) -> Result<(), String> {
        let durable = self.db.metrics().log.map_or(0, |log| log.durable_epoch);
        for (ticket, count) in std::mem::take(&mut self.tickets) {
            let due = ticket.is_durable();
            match ticket.wait() {
                Ok(()) if due => self.life.ledger.acked = self.life.ledger.acked.max(count),
                Err(Error::OutcomeUnknown(_)) if !due => {}
                other => {
                    return Err(format!("a ticket of a failed log is durable: {due}, and said {other:?}"));
                }
            }
        }
        let (program, after) = loop {
            let (program, after) = Program::draw(&mut self.life.random, &self.life.ledger.now());
            if after != self.life.ledger.now() {
                break (program, after);
            }
        };
        let before = self.life.ledger.now();
        let indexes = self.life.settings.indexes;
        for session in &mut self.sessions {
            match session.run(|tx| program.execute(tx, indexes)) {
                Err(Error::LogFailed(_)) => {}
                other => return Err(format!("a failed log took a transaction with {other:?}: {after:?}")),
            }
        }
        self.set(0, Durability::None)?;
        match self.read(0) {
            Ok(Ok(found)) if found == before => {}
            other => return Err(format!("reading beside a failed log gave {other:?}")),
        }
        if self.db.flush().is_ok() || self.db.checkpoint().is_ok() {
            return Err("a failed log was flushed".to_owned());
        }
        if self.db.metrics().log.map_or(0, |log| log.durable_epoch) != durable {
            return Err("a failed log's durable epoch moved".to_owned());
        }
        Ok(())
    }

    /// Lets a failed log go on, now and then, with another failure on the way or soon after, also now and then. True
    /// if it goes on.
    fn resume(&mut self) -> Result<bool, String> {
        let (random, disk) = (&mut self.life.random, self.life.disk);
        if random.below(3) == 0 {
            return Ok(false);
        }
        if random.below(2) == 0 {
            let at = disk.operations() + random.below(24);
            disk.fail(at, [Fault::PowerCut, Fault::Error, Fault::Full][random.below(3) as usize]);
        }
        for _ in 0..3 {
            match self.db.resume() {
                Ok(()) => {
                    self.life.ledger.resumed += 1;
                    return Ok(true);
                }
                Err(Error::LogFailed(_)) => {}
                Err(error) => return Err(format!("resuming the log failed with {error}")),
            }
        }
        Ok(false)
    }
}
