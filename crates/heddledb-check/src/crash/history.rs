//! Histories that span crashes: threads run transactions, the disk fails, the directory is recovered under
//! another protocol, and the work goes on; then the whole is judged.
//!
//! **What became of an attempt** whose commit took effect in memory, but of which nobody was told that it
//! is durable? The recovery that follows says up to which epoch everything is there. Taking its word,
//! an attempt of an epoch up to that one [`Survived`](Status::Survived), any other is
//! [`Lost`](Status::Lost). That is sound: where the word is true, the history is what happened. Where it is
//! not, a transaction that came back was `Lost` and is read (G1a), or one that is gone had `Survived`
//! and is overlooked. Going by what is seen of it would be weaker: a delete leaves nothing to see, and a write
//! that was overwritten before the crash neither. `adya` is not told, and decides by the reads.
//!
//! An attempt that only read, and was told nothing, counts as lost: to leave out a reader accuses nobody.
//!
//! Sessions differ in what they wait for: one waits at each commit, one for tickets some commits later, one
//! for nothing. What the first two were told is [`Committed`](Status::Committed) and has to stay.

use crate::history::{Attempt, EPOCH_SHIFT, Header, History, Op, Status};
use crate::recorder::{HASHED, Hashed, ORDERED, Ordered, Recorder};
use crate::workload::draw;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::storage::{Fault, Simulated};
use heddledb::{Compression, Database, Durability, Error, Result, Session, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all randomness but the scheduler's.
    pub seed: u64,
    /// Crashes.
    pub crashes: u64,
    /// Commits of each session in a life, unless the disk fails before.
    pub commits: u64,
    /// Keys of each table in use at a time.
    pub keys: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, crashes: 5, commits: 300, keys: 8 }
    }
}

/// An attempt, and the epoch of its commit if nobody was told the outcome yet.
struct Recorded {
    attempt: Attempt,
    open: Option<u64>,
}

/// What a life needs.
struct Life<'a> {
    plan: &'a Plan,
    number: u64,
    kind: Kind,
    disk: &'a Simulated,
    clock: &'a AtomicU64,
    /// Everything so far.
    done: &'a mut Vec<Recorded>,
    /// Whether it ends without a crash.
    is_last: bool,
    /// No operation of the disk before this one fails.
    fails_at: u64,
}

/// Runs a plan.
///
/// # Errors
/// What is unlawful even without a judge.
pub fn run(plan: &Plan) -> Result<History, String> {
    let mut random = Random::new(plan.seed);
    let (clock, mut done) = (AtomicU64::new(1), Vec::new());
    let (mut disk, mut strict, mut names) = (Simulated::new(), true, Vec::new());
    for number in 0..=plan.crashes {
        let kind = Kind::ALL[random.below(Kind::ALL.len() as u64) as usize];
        strict &= kind.strict();
        names.push(kind.name());
        let is_last = number == plan.crashes;
        let fails_at = if is_last { u64::MAX } else { 40 + random.below(400) };
        if !is_last {
            disk.fail(fails_at, [Fault::PowerCut, Fault::PowerCut, Fault::Error][random.below(3) as usize]);
        }
        let life =
            Life { plan, number, kind, disk: &disk, clock: &clock, done: &mut done, is_last, fails_at };
        life.live().map_err(|what| format!("seed {}, life {number} under {kind}: {what}", plan.seed))?;
        disk = match random.below(3) {
            0 => disk.after_kill(),
            _ => disk.after_power_cut(random.next_u64()),
        };
    }
    let attempts = done.into_iter().map(|recorded| recorded.attempt).collect();
    Ok(History { header: Header::new(&names.join(" then "), strict, plan.seed), attempts })
}

impl Life<'_> {
    fn live(self) -> Result<(), String> {
        let Self { plan, number, kind, disk, clock, done, is_last, fails_at } = self;
        let files = 1 + (plan.seed + number) % 3;
        let compression = [Compression::None, Compression::Lz4][(number % 2) as usize];
        let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
        let builder = builder.table::<Ordered>(0).table::<Hashed>(0).storage(Arc::new(disk.clone()));
        let builder = builder.epoch_interval(Duration::from_micros(300)).log_files(files as u8);
        let opened = builder.compression(compression).recovery_threads(1).open();
        let db = match opened {
            Ok(db) => db,
            // Its disk failed at once.
            Err(_) if disk.operations() > fails_at => return Ok(()),
            Err(error) => return Err(format!("it was not opened: {error}")),
        };
        let durable = db.recovery().ok_or("a database with files has no recovery")?.durable_epoch;
        for recorded in done.iter_mut() {
            if let Some(epoch) = recorded.open.take() {
                let survived = epoch <= durable && recorded.attempt.stamp != 0;
                recorded.attempt.status = if survived { Status::Survived } else { Status::Lost };
            }
        }
        // The window of keys moves on a little in each life.
        let base = number * (plan.keys / 4);
        let sessions = kind.sessions_max().min(3);
        let lives: Vec<Result<Vec<Recorded>, String>> = std::thread::scope(|scope| {
            let start = |session: usize| {
                let (db, seed) = (&db, plan.seed.wrapping_mul(977) + number * 31 + session as u64);
                scope.spawn(move || {
                    let life = Worker {
                        session: db.session().map_err(|error| error.to_string())?,
                        number: session as u32,
                        random: Random::new(seed),
                        version: (number * 8 + session as u64 + 1) << 32,
                        clock,
                        recorded: Vec::new(),
                        tickets: VecDeque::new(),
                    };
                    life.work(plan, base, session == 0)
                })
            };
            let threads: Vec<_> = (0..sessions).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("workers do not panic")).collect()
        });
        let from = done.len();
        for life in lives {
            done.extend(life?);
        }
        if is_last {
            db.flush().map_err(|error| format!("flushing failed with {error}"))?;
            for recorded in &mut done[from..] {
                if recorded.open.take().is_some() {
                    recorded.attempt.status = Status::Committed;
                }
            }
        }
        Ok(())
    }
}

/// A session on its thread.
struct Worker<'a> {
    session: Session,
    number: u32,
    random: Random,
    version: u64,
    clock: &'a AtomicU64,
    recorded: Vec<Recorded>,
    /// With the place in `recorded` of what each is for.
    tickets: VecDeque<(Ticket, usize)>,
}

/// Tickets that may be open.
const TICKETS: usize = 8;

impl Worker<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn work(mut self, plan: &Plan, base: u64, looks: bool) -> Result<Vec<Recorded>, String> {
        let waits = self.number == 0;
        let durability = if waits { Durability::Sync } else { Durability::Epoch };
        self.session.set_durability(durability).map_err(|error| error.to_string())?;
        if looks {
            // What recovery left, of every key so far.
            let keys = base + plan.keys + 8;
            let look = |recorder: &mut Recorder<'_, _>| {
                recorder.scan(ORDERED, 0, keys, false, usize::MAX)?;
                (0..keys).try_for_each(|key| recorder.read(HASHED, key).map(|_| ()))?;
                (0..keys).try_for_each(|key| recorder.read(ORDERED, key).map(|_| ()))
            };
            if !self.attempt(waits, look)? {
                return Ok(self.recorded);
            }
        }
        for _ in 0..plan.commits {
            let steps = draw(&mut self.random, ORDERED, base, plan.keys);
            let run = |recorder: &mut Recorder<'_, _>| steps.iter().try_for_each(|step| step.run(recorder));
            if !self.attempt(waits, run)? {
                break;
            }
            while self.tickets.len() > TICKETS && self.redeem() {}
        }
        while self.redeem() {}
        Ok(self.recorded)
    }

    /// Waits for the oldest ticket; false without one, or if the log failed.
    fn redeem(&mut self) -> bool {
        let Some((ticket, at)) = self.tickets.pop_front() else { return false };
        let is_durable = ticket.wait().is_ok();
        if is_durable {
            self.recorded[at].open = None;
            self.recorded[at].attempt.status = Status::Committed;
        }
        is_durable
    }

    /// Runs a transaction until it does not conflict. False if the log has failed.
    fn attempt(
        &mut self,
        waits: bool,
        mut body: impl FnMut(&mut Recorder<'_, heddledb::Txn>) -> Result<()>,
    ) -> Result<bool, String> {
        for _ in 0..20 {
            let (mut ops, mut version) = (Vec::new(), self.version);
            let begin = self.now();
            let mut once = |tx: &mut heddledb::Txn| {
                ops.clear();
                body(&mut Recorder::new(tx, &mut ops, &mut version))
            };
            let mut ticket = None;
            let outcome = match self.number {
                // It retries by itself; what is recorded is the last attempt.
                2 => self.session.run_pipelined(once).map(|((), given)| ticket = Some(given)),
                _ => self.session.attempt(&mut once),
            };
            let end = self.now();
            self.version = version;
            let (mut again, mut goes_on, mut open) = (false, true, None);
            let last = self.session.last_commit();
            let status = match outcome {
                Ok(()) if waits => Status::Committed,
                Ok(()) => {
                    open = Some(last >> EPOCH_SHIFT);
                    Status::Lost
                }
                Err(Error::OutcomeUnknown(_)) => {
                    (goes_on, open) = (false, Some(last >> EPOCH_SHIFT));
                    Status::Lost
                }
                Err(Error::LogFailed(_)) => {
                    goes_on = false;
                    Status::Aborted
                }
                Err(Error::Conflict(_)) => {
                    again = true;
                    Status::Aborted
                }
                Err(Error::User(_) | Error::Misuse(_)) => Status::Aborted,
                Err(error) => return Err(error.to_string()),
            };
            let wrote = ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Delete(..)));
            let stamp = if wrote && status != Status::Aborted { last } else { 0 };
            let attempt = Attempt { session: self.number, begin, end, status, stamp, ops };
            self.recorded.push(Recorded { attempt, open });
            self.tickets.extend(ticket.map(|ticket| (ticket, self.recorded.len() - 1)));
            if !again {
                return Ok(goes_on);
            }
        }
        Ok(true)
    }
}
