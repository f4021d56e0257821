//! The redo log at work: what commits wait for, and how their writes reach the disk.
//!
//! **Mechanism.** A committing transaction appends the words of the column groups that it wrote, as they
//! are after it, to its worker's buffer ([`Buffer`]), before it ends. A *round* takes all buffers, writes
//! them to the log's files and syncs those ([`RedoLog::round`]). Rounds follow one another; while one
//! waits for the device, the next one's buffers fill, so the device sets the pace.
//!
//! ```text
//!   worker 0 --append--> buffer 0 --.            .--> file 0 --sync--.
//!   worker 1 --append--> buffer 1 ---+-- round --+                   +--> durable epoch --> waiters
//!   worker 2 --append--> buffer 2 --'            '--> file 1 --sync--'
//! ```
//!
//! **What an acknowledgement means**. When the epoch is `c + 2`, every transaction that
//! commits in an epoch up to `c` has ended, so its words are in a buffer or on disk. A round that takes the
//! buffers after that makes all of them durable, and says so in its frames: epoch `c` is *closed*. Epochs
//! do not fall along dependencies, so what is closed contains all that it depends on. Recovery keeps
//! the commits of closed epochs and no others.
//!
//! **Rounds are run** by those that wait for one: the first becomes the leader, the others wait for the
//! leader or for their turn. Where none waits, the database's ticker runs one at each epoch.
//!
//! **Failure.** After a failed write or sync it is unknown what is on the disk, and another sync may report a
//! wrong result. So the log is poisoned: waiting callers hear that the outcome is unknown, no commit is
//! acknowledged, and writers are refused. A round whose storage panics has failed, too: the panic goes on in the call
//! that led it, and who waits for the round hears of the failure.
//!
//! **Going on after it** ([`RedoLog::resume`]). The rows in memory hold all that was committed, and what no round made
//! durable is still in memory as it was to be logged: in the buffers, and in those that the failed round had taken. So
//! the old generation is ended behind its last round that was synced, a new one is begun in new files, and its first
//! round writes all of that anew. Until that round is synced nothing is acknowledged, as before; a crash meanwhile finds
//! the rounds that were synced before the failure.

mod append;
mod files;
mod firsts;

pub(crate) use append::{Announced, Append, Call, LoggedWrite, Says};
pub(crate) use files::{Due, Files, NewFiles, create_generation};

use crate::epoch::EpochClock;
use crate::error::{Error, Misuse, Result};
use crate::log::{LogError, LogKind, Manifest};
use crate::metrics::LogMetrics;
use crate::mutant::{Mutant, planted};
use crate::seam::Acknowledges;
use crate::settings::LogOptions;
use crate::stamp;
use crate::storage::Storage;
use crate::sync::{
    ASSERTS_LOAD, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, Suspender, Wait, lock, now_ns,
    point, wait_notified,
};
use append::Buffer;
use crossbeam_utils::CachePadded;
use firsts::{Bits, Firsts};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

/// The log of an open database.
pub(crate) struct RedoLog {
    clock: Arc<EpochClock>,
    /// What each relation is in the files, by its number in this process.
    relations: Box<[Relation]>,
    /// By relation, what has happened to it since the log began.
    firsts: Box<[Firsts]>,
    /// Whether there is a call in this life of the log that all others follow.
    begun: Bits,
    buffers: Box<[CachePadded<Mutex<Buffer>>]>,
    options: LogOptions,
    /// The last closed epoch. Written by the leader of a round, in `ended`.
    durable: CachePadded<AtomicU64>,
    /// Set when writers are to be refused: with `failure`, unless the database is read only.
    refuses: AtomicBool,
    failure: Mutex<Option<Arc<LogError>>>,
    is_read_only: bool,
    writer: Mutex<Writer>,
    /// Rounds that have ended, for callers that wait for one.
    ended: Mutex<u64>,
    one_ended: Condvar,
    figures: Figures,
}

/// What a relation is in the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    /// Its number there.
    pub id: u16,
    /// Whether its rows are index entries, which follow from those of a table.
    pub is_index: bool,
}

/// What only the leader of a round has.
struct Writer {
    files: Files,
    /// What the last round left for the buffers to be swapped with.
    spares: Vec<Buffer>,
    taken: Vec<(usize, Buffer)>,
    /// The highest epoch that was written, in any round.
    highest: u64,
}

#[derive(Default)]
struct Figures {
    rounds: AtomicU64,
    bytes: AtomicU64,
    words: AtomicU64,
    sync_ns: AtomicU64,
    /// What was logged since the last checkpoint: bytes, rounds, writes.
    due: [AtomicU64; 3],
    /// Of the database's own checkpoints, those that have failed in a row.
    checkpoints_failed: AtomicU64,
}

impl Figures {
    fn tell(&self, due: Due) {
        let Due { bytes, rounds, writes } = due;
        self.due.iter().zip([bytes, rounds, writes]).for_each(|(at, due)| at.store(due, Ordering::Relaxed));
    }
}

/// How often the leader of a round tries to move the epoch on past commits that are under way.
const ADVANCE_PAUSES: u32 = 100;
impl RedoLog {
    /// A log that continues with `files`. Everything up to epoch `durable` is on the disk.
    pub fn new(
        clock: Arc<EpochClock>,
        relations: Box<[Relation]>,
        workers: usize,
        options: LogOptions,
        files: Files,
        durable: u64,
    ) -> Self {
        let figures = Figures::default();
        figures.tell(files.due());
        Self {
            clock,
            firsts: relations.iter().map(|_| Firsts::default()).collect(),
            begun: Bits::default(),
            relations,
            buffers: (0..workers).map(|_| CachePadded::new(Mutex::new(Buffer::default()))).collect(),
            options,
            durable: CachePadded::new(AtomicU64::new(durable)),
            refuses: AtomicBool::new(false),
            failure: Mutex::new(None),
            is_read_only: false,
            writer: Mutex::new(Writer { files, spares: Vec::new(), taken: Vec::new(), highest: durable }),
            ended: Mutex::new(0),
            one_ended: Condvar::new(),
            figures,
        }
    }

    /// The same of a database that is only read: writers are refused, and all that is there is durable.
    pub fn read_only(self) -> Self {
        let (refuses, durable) = (AtomicBool::new(true), CachePadded::new(AtomicU64::new(u64::MAX)));
        Self { is_read_only: true, refuses, durable, ..self }
    }

    /// What its entries say.
    pub fn kind(&self) -> LogKind {
        self.options.kind
    }

    /// Whether the database is only read.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Refuses to go on after a failure, or where nothing is to be written.
    ///
    /// # Errors
    /// [`Error::LogFailed`]; [`Misuse::ReadOnly`].
    #[inline(always)]
    pub fn check(&self) -> Result<()> {
        // Relaxed: who is not refused yet appends to a buffer that no round takes until the log is resumed.
        if self.refuses.load(Ordering::Relaxed) { self.refuse() } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        if self.is_read_only {
            return Err(Misuse::ReadOnly.into());
        }
        self.failure().map_or(Ok(()), |failure| Err(Error::LogFailed(failure)))
    }

    /// Why the log has failed, if it has.
    fn failure(&self) -> Option<Arc<LogError>> {
        // Acquire: pairs with `poison`, which has kept the failure.
        if self.refuses.load(Ordering::Acquire) { lock(&self.failure).clone() } else { None }
    }

    /// A worker's appender for one commit. The worker stays pinned until after its end.
    #[inline(always)]
    pub fn append<'a>(
        &'a self,
        worker: usize,
        time: u64,
        says: Says<'a>,
        announced: Announced,
    ) -> Append<'a> {
        // Contended only by the leader of a round, for the length of a swap.
        let mut buffer = lock(&self.buffers[worker]);
        if !matches!(says, Says::Nothing) {
            debug_assert!(!ASSERTS_LOAD || stamp::epoch(time) > self.durable(), "a commit of a closed epoch");
            buffer.highest = buffer.highest.max(stamp::epoch(time));
        }
        Append::begin(self, buffer, time, says, announced)
    }

    /// The last durable epoch.
    #[inline(always)]
    pub fn durable(&self) -> u64 {
        // Acquire: a caller that sees an epoch durable also sees what was written about it.
        self.durable.load(Ordering::Acquire)
    }

    /// As [`RedoLog::wait`], on a thread of which other sessions are suspended: they run until nothing holds the epoch
    /// back, since that may be one of them. Then a round is waited for as elsewhere, and no session leads one while it is
    /// suspended.
    ///
    /// # Errors
    /// As for [`RedoLog::wait`].
    pub fn wait_beside(&self, suspender: &Suspender, epoch: u64) -> Result<()> {
        suspender.wait_until(&mut || {
            self.clock.closed(epoch) || self.durable() >= epoch || self.failure().is_some() || {
                self.clock.advance();
                self.clock.closed(epoch)
            }
        });
        self.wait(epoch)
    }

    /// Waits until everything up to `epoch` is durable. The caller is not pinned.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the log fails before.
    pub fn wait(&self, epoch: u64) -> Result<()> {
        let mut wait = Wait::new();
        while self.durable() < epoch {
            self.lead_or_follow(epoch)?;
            if self.durable() < epoch && !self.clock.closed(epoch) {
                // A commit that began before has not ended.
                wait.pause();
            }
        }
        Ok(())
    }

    /// Runs a round, or waits for the one that is running.
    fn lead_or_follow(&self, epoch: u64) -> Result<()> {
        let before = *lock(&self.ended);
        match self.try_writer() {
            Some(writer) => self.lead(writer, |writer| {
                if self.durable() < epoch {
                    self.close(epoch);
                    // A failure is seen below.
                    let _ = self.round(writer);
                }
            }),
            None => {
                let mut ended = lock(&self.ended);
                while *ended == before && self.durable() < epoch && self.failure().is_none() {
                    ended = wait_notified(&self.one_ended, ended);
                }
            }
        }
        self.failure().map_or(Ok(()), |failure| Err(Error::OutcomeUnknown(failure)))
    }

    /// Tries for a while to move the epoch on until `epoch` is closed.
    fn close(&self, epoch: u64) {
        let mut wait = Wait::new();
        while !self.clock.closed(epoch) && wait.rounds() < ADVANCE_PAUSES {
            if !self.clock.advance() {
                wait.pause();
            }
        }
    }

    /// Makes everything durable that was committed before the call.
    ///
    /// # Errors
    /// As for [`RedoLog::wait`]; [`Misuse::EpochHeld`](crate::Misuse::EpochHeld).
    pub fn flush(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let epoch = self.clock.now();
        self.clock.wait_closed(epoch)?;
        self.wait(epoch)
    }

    /// Runs a round for no caller in particular, unless one is running.
    pub fn tick(&self) {
        // Relaxed: a round looks again.
        if !self.refuses.load(Ordering::Relaxed)
            && let Some(writer) = self.try_writer()
        {
            // A failure is kept, and reported to the next caller; so is a panic, which is the end of no thread of the database's own,
            // since after `resume` there must be one that ticks.
            let _ = catch_unwind(AssertUnwindSafe(|| self.lead(writer, |writer| self.round(writer))));
        }
    }

    /// The leader's turn, unless somebody else has it.
    fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            // A holder has panicked that did not lead a round.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Does something as the leader, and ends its turn: first the next leader can take it, then the waiting callers are told. If it
    /// panics, the log has failed, and the panic goes on when they know.
    fn lead<R>(&self, mut writer: MutexGuard<'_, Writer>, work: impl FnOnce(&mut Writer) -> R) -> R {
        // Unwind safe: after a failure nobody uses the writer but to go on in new files.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut writer)));
        if outcome.is_err() {
            self.poison(LogError::Panicked { place: writer.files.storage().place() });
        }
        drop(writer);
        *lock(&self.ended) += 1;
        self.one_ended.notify_all();
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Lets a worker whose buffer is full wait until a round has taken it. The worker is not pinned.
    #[cold]
    pub fn relieve(&self, worker: usize) {
        while lock(&self.buffers[worker]).words.len() >= self.options.buffer_words {
            // The next commit reports a failure.
            if self.lead_or_follow(self.clock.now()).is_err() {
                return;
            }
        }
    }

    /// Takes all buffers, writes and syncs them, and publishes the closed epoch.
    fn round(&self, writer: &mut Writer) -> Result<(), Arc<LogError>> {
        match self.failure() {
            Some(failure) => Err(failure),
            None => self.round_anyway(writer, 0).map_err(|error| self.poison(error)),
        }
    }

    /// A round, with what one that failed had taken. After a failure all that it has taken waits for the next. It is written
    /// in any case if none of this generation has closed the epoch `mark`, which is closed.
    fn round_anyway(&self, writer: &mut Writer, mark: u64) -> Result<(), LogError> {
        // Before the buffers are taken: every transaction of an epoch up to this has ended.
        let open = if planted(Mutant::LogEpochClosedEarly) { 0 } else { 2 };
        let closed = self.clock.now().saturating_sub(open).max(self.durable());
        let Writer { files, spares, taken, highest } = writer;
        for (worker, place) in self.buffers.iter().enumerate() {
            let mut buffer = lock(place);
            if !buffer.words.is_empty() {
                debug_assert!(!ASSERTS_LOAD || buffer.highest > self.durable(), "commits of a closed epoch");
                let taken_now = std::mem::replace(&mut *buffer, spares.pop().unwrap_or_default());
                drop(buffer);
                taken.push((worker, taken_now));
            }
        }
        point("round taken");
        let undecided = *highest > self.durable();
        let is_marked = files.closed() >= mark;
        let written = if taken.is_empty() && is_marked && !(undecided && closed > self.durable()) {
            // Nothing was committed in the epochs that have closed, or no epoch has.
            Ok(())
        } else {
            let begun = now_ns();
            let written = files.write_round(
                closed,
                taken.iter().map(|(worker, buffer)| (*worker, buffer.highest, &buffer.words[..])),
            );
            self.figures.sync_ns.fetch_add(now_ns() - begun, Ordering::Relaxed);
            written.map(|bytes| {
                let words: usize = taken.iter().map(|(_, buffer)| buffer.words.len()).sum();
                self.figures.rounds.fetch_add(1, Ordering::Relaxed);
                self.figures.bytes.fetch_add(bytes, Ordering::Relaxed);
                self.figures.words.fetch_add(words as u64, Ordering::Relaxed);
            })
        };
        written?;
        for (_, mut buffer) in taken.drain(..) {
            *highest = buffer.highest.max(*highest);
            empty(&mut buffer.words);
            buffer.highest = 0;
            spares.push(buffer);
        }
        self.figures.tell(files.due());
        point("round durable");
        // Release: pairs with `durable`.
        self.durable.store(closed, Ordering::Release);
        Ok(())
    }

    /// Keeps what made the log fail, for all who ask. The caller leads a round, or stands between two.
    fn poison(&self, error: LogError) -> Arc<LogError> {
        let error = Arc::new(error);
        *lock(&self.failure) = Some(Arc::clone(&error));
        // Release: pairs with `failure`.
        self.refuses.store(true, Ordering::Release);
        error
    }

    /// Goes on after a failure, in new files; does nothing where there was none.
    ///
    /// # Errors
    /// [`Error::LogFailed`] if it fails again; it may be called again.
    pub fn resume(&self) -> Result<()> {
        if self.is_read_only {
            return Err(Misuse::ReadOnly.into());
        }
        self.lead(lock(&self.writer), |writer| {
            let mut outcome = Ok(());
            if self.failure().is_some() {
                if planted(Mutant::LogResumedWithoutTheTaken) {
                    writer.taken.clear();
                }
                outcome = writer.files.resume().and_then(|()| self.round_anyway(writer, 0));
                self.figures.tell(writer.files.due());
            }
            let outcome = outcome.map_err(|error| Error::LogFailed(self.poison(error)));
            if outcome.is_ok() {
                *lock(&self.failure) = None;
                // Release: who sees it sees the new files' epochs, too, and not the failure.
                self.refuses.store(false, Ordering::Release);
            }
            outcome
        })
    }

    /// Runs `change` on the files between two rounds, after a round that leaves nothing behind.
    ///
    /// # Errors
    /// As for [`RedoLog::wait`], and those of `change`, which poison the log like those of a round.
    pub fn between_rounds<R>(&self, change: impl FnOnce(&mut Files) -> Result<R, LogError>) -> Result<R> {
        let outcome = self.lead(lock(&self.writer), |writer| {
            let round = self.round(writer);
            let outcome = round.and_then(|()| change(&mut writer.files).map_err(|error| self.poison(error)));
            self.figures.tell(writer.files.due());
            outcome
        });
        outcome.map_err(Error::LogFailed)
    }

    /// The number of the generation that is being written.
    pub fn generation(&self) -> u64 {
        lock(&self.writer).files.written().0
    }

    /// Makes everything up to `epoch` durable, and says so in a round: no later life of the directory has a commit of an epoch
    /// up to that one. Returns where the log stands then.
    ///
    /// # Errors
    /// As for [`RedoLog::flush`].
    pub fn mark(&self, epoch: u64) -> Result<Marked> {
        self.check()?;
        self.clock.wait_closed(epoch)?;
        self.wait(epoch)?;
        let marked = self.lead(lock(&self.writer), |writer| {
            match self.failure() {
                Some(failure) => Err(failure),
                None => self.round_anyway(writer, epoch).map_err(|error| self.poison(error)),
            }?;
            let files = &writer.files;
            let (generation, rounds) = files.written();
            Ok(Marked {
                storage: Arc::clone(files.storage()),
                manifest: files.manifest().clone(),
                generation,
                rounds,
                time: files.time(),
            })
        });
        marked.map_err(Error::LogFailed)
    }

    /// The files as they were opened, of a database that is only read.
    pub fn found(&self) -> (Arc<dyn Storage>, Manifest) {
        let writer = lock(&self.writer);
        (Arc::clone(writer.files.storage()), writer.files.manifest().clone())
    }

    /// What was logged since the last checkpoint.
    pub fn due(&self) -> Due {
        let [bytes, rounds, writes] = [0, 1, 2].map(|at| self.figures.due[at].load(Ordering::Relaxed));
        Due { bytes, rounds, writes }
    }

    /// So many checkpoints have failed in a row.
    pub fn tell_failed_checkpoints(&self, count: u32) {
        self.figures.checkpoints_failed.store(count.into(), Ordering::Relaxed);
    }

    /// What was done so far.
    pub fn metrics(&self) -> LogMetrics {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let mut metrics = LogMetrics::default();
        metrics.durable_epoch = self.durable();
        metrics.rounds = load(&self.figures.rounds);
        metrics.bytes = load(&self.figures.bytes);
        metrics.entry_bytes = load(&self.figures.words) * 8;
        metrics.io_time = Duration::from_nanos(load(&self.figures.sync_ns));
        let due = self.due();
        (metrics.replay_bytes, metrics.replay_time) = (due.bytes, due.time());
        metrics.checkpoints_failed = load(&self.figures.checkpoints_failed);
        metrics
    }
}

/// Where a log stands.
pub(crate) struct Marked {
    pub storage: Arc<dyn Storage>,
    /// The manifest that is in force.
    pub manifest: Manifest,
    /// The generation that is being written, and how many of its rounds are durable.
    pub generation: u64,
    pub rounds: u64,
    /// When the last of these was taken, in milliseconds since 1970.
    pub time: u64,
}

/// The log as a session sees it whose thread has others.
pub(crate) struct Beside {
    pub log: Arc<RedoLog>,
    pub suspender: Suspender,
}

impl Acknowledges for Beside {
    fn durable(&self) -> u64 {
        self.log.durable()
    }

    fn wait(&self, epoch: u64) -> Result<()> {
        self.log.wait_beside(&self.suspender, epoch)
    }
}

impl Acknowledges for RedoLog {
    fn durable(&self) -> u64 {
        self.durable()
    }

    fn wait(&self, epoch: u64) -> Result<()> {
        self.wait(epoch)
    }
}

/// Empties a buffer for the next round. A buffer that a stall of the device made large shrinks again.
fn empty<T>(buffer: &mut Vec<T>) {
    const KEPT: usize = 1 << 16;
    if buffer.capacity() > KEPT && buffer.len() < buffer.capacity() / 8 {
        buffer.shrink_to(buffer.capacity() / 2);
    }
    buffer.clear();
}
