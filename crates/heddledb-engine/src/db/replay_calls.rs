//! Making commits again that the log has as calls (DGCC §4.2.1).
//!
//! **Mechanism.** Where a generation of the log has commands, it and those behind it are replayed as transactions, and not word by
//! word: what a call reads must be there before, and what others write must come after. Commit times are the serial order, so one thread
//! reads the rounds, and hands on what has closed, sorted by time. From there it goes as calls do under `dgcc`
//! ([`batches`](crate::batches)): a batch is cut, its graph is made of the cells that each entry says it used, and
//! all threads execute it. An entry that says which rows were written uses these. The thread that reads executes, too,
//! whenever it is far enough ahead.
//!
//! ```text
//!   thread 0: files --rounds--> closed, by time --batches--> graph --> thread 0: calls procedures, puts rows
//!                                                                 '--> thread 1: ..
//! ```
//!
//! **Which protocol** the database is opened under does not matter: entries that conflict are executed one after the other, so it
//! has nothing to decide. Nothing is logged: the files have it.
//!
//! **Safety.** What a call writes now is added up and compared with what it wrote then. A checkpoint holds exactly the commits up to an
//! epoch, and these are a prefix of the order: only later ones are made again, each once.

use super::shares::{Progress, UNKNOWN, check_shape};
use super::versions::Versions;
use crate::access::Groups;
use crate::batches::{Batches, Next, Seat};
use crate::epoch::EpochClock;
use crate::error::{Error, Result};
use crate::footprint::Footprint;
use crate::kind::Batching;
use crate::log::{
    Cell, CellUse, Command, Entries, Entry, Frame, Generation, LogError, Malformed, ProcedureEntry, Rounds,
    Survey, Write,
};
use crate::mutant::{Mutant, planted};
use crate::seam::{Access, Body, Inserted, Part, Purpose, Replayer, Staged, Worker};
use crate::stamp;
use crate::storage::Storage;
use crate::sync::{Mutex, Wait, in_parallel, lock};
use crate::table::{Definition, Span};
use crate::values::{Logged, Slot};
use crate::words::Values;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Generations with commands, and those behind them, which are to be replayed.
pub(super) struct LoggedCalls {
    pub storage: Arc<dyn Storage>,
    pub directory: u64,
    pub generations: Vec<(Generation, Survey)>,
    /// The last epoch that counts.
    pub durable: u64,
    /// What the checkpoint holds already.
    pub checkpoint_epoch: u64,
    /// The relations by their numbers in the files.
    pub relations: Vec<Option<&'static Definition>>,
    pub procedures: Vec<ProcedureEntry>,
    /// The numbers of relations whose records do not count.
    pub passed_over: Vec<u16>,
    pub threads: usize,
    /// How far opening has come.
    pub read: Progress,
}

/// What was made again.
#[derive(Clone, Copy, Default)]
pub(super) struct Replayed {
    pub transactions: u64,
    pub writes: u64,
    pub calls: u64,
}

/// Calls of a batch.
const BATCH: NonZeroU32 = NonZeroU32::new(4096).unwrap();
/// So many entries are handed on before who reads them executes some: what keeps the others busy meanwhile.
const AHEAD: usize = 4 * BATCH.get() as usize;
/// What it does before it looks again how many are left.
const STEPS: usize = 64;

/// An entry of the log, in the order of commits.
struct Made {
    time: u64,
    words: Box<[u64]>,
    /// The number of its generation.
    generation: u64,
    /// Nothing is executed beside it.
    alone: bool,
}

impl Made {
    fn entry(&self) -> Entry<'_> {
        Entries::new(&self.words).next().and_then(Result::ok).expect("it was read before")
    }
}

/// What all threads share.
struct Replay<'a> {
    logged: &'a LoggedCalls,
    versions: &'a Versions,
    values: &'a dyn Values,
    clock: &'a EpochClock,
    batches: Batches<Arc<Made>>,
    /// Why it failed, if it has.
    failure: Mutex<Option<Error>>,
}

impl LoggedCalls {
    /// The rounds of a generation.
    fn rounds(&self, generation: &Generation, survey: &Survey) -> Result<Rounds, LogError> {
        Rounds::new(&*self.storage, self.directory, generation, survey)
    }

    /// Whether the program has the procedures of all calls, before anything is changed because of them. Goes through the log only if it
    /// lacks one that the files list.
    ///
    /// # Errors
    /// [`LogError::ProcedureChanged`]; as [`Self::replay`].
    pub fn check(&self, versions: &Versions) -> Result<(), LogError> {
        let place = || self.storage.place();
        let is_known = |id: u16| versions.call(id, &self.procedures, &place).map(|_| ());
        if self.procedures.iter().all(|listed| is_known(listed.id).is_ok()) {
            return Ok(());
        }
        for (generation, survey) in &self.generations {
            let mut rounds = self.rounds(generation, survey)?;
            let mut see = |frame: Frame<'_>| {
                for entry in Entries::new(frame.words) {
                    let entry = entry.map_err(|malformed| frame.frames.malformed(malformed))?;
                    if let Some(command) = entry.command()
                        && entry.epoch() > self.checkpoint_epoch
                        && entry.epoch() <= self.durable
                    {
                        is_known(command.procedure)?;
                    }
                }
                Ok(())
            };
            while rounds.next_round(&mut see)?.is_some() {}
        }
        Ok(())
    }

    /// Makes all commits again, on a thread for each replayer.
    ///
    /// # Errors
    /// Damage, the system's; a call that cannot be made again, or does something else. The rows are invalid then.
    pub fn replay(
        &self,
        versions: &Versions,
        values: &dyn Values,
        clock: &EpochClock,
        replayers: Vec<Box<dyn FnOnce() -> Box<dyn Replayer> + Send + '_>>,
    ) -> Result<Replayed> {
        let batching = Batching { levels: false, size: Some(BATCH), target_us: 0 };
        let replay = Replay {
            logged: self,
            versions,
            values,
            clock,
            batches: Batches::new(batching, 0),
            failure: Mutex::new(None),
        };
        let counts = in_parallel(replayers, |number, replayer| -> Result<Replayed> {
            let mut executor = Executor::new(&replay, replayer());
            if number == 0 {
                if let Err(error) = replay.feed(&mut executor) {
                    replay.failed(error);
                }
                replay.batches.close();
            }
            while executor.step(true) {}
            Ok(executor.count)
        })?;
        if let Some(error) = lock(&replay.failure).take() {
            return Err(error);
        }
        Ok(counts.iter().fold(Replayed::default(), |sum, one| Replayed {
            transactions: sum.transactions + one.transactions,
            writes: sum.writes + one.writes,
            calls: sum.calls + one.calls,
        }))
    }
}

impl Replay<'_> {
    /// Hands on what the files hold, in the order of commit times. Who does it executes some of it.
    fn feed(&self, executor: &mut Executor<'_>) -> Result<()> {
        let (mut waiting, mut last_generation) = (Vec::new(), 0);
        for (generation, survey) in &self.logged.generations {
            // As for rows: of a generation that a recovery has ended, no later epoch counts.
            let end = generation.end.map_or(u64::MAX, |end| end.epoch);
            let last = self.logged.durable.min(end);
            let mut rounds = self.logged.rounds(generation, survey)?;
            while let Some(header) = rounds.next_round(|frame| {
                self.logged.read.add(frame.header.bytes());
                self.take(frame, generation.number, last, &mut waiting)
            })? {
                // All commits of the epochs up to the closed one are in the rounds so far.
                self.hand_on(&mut waiting, header.label.closed, &mut last_generation);
                if self.has_failed() {
                    return Ok(());
                }
                executor.fall_back();
            }
        }
        self.hand_on(&mut waiting, u64::MAX, &mut last_generation);
        Ok(())
    }

    /// Takes the entries of a frame that count.
    fn take(
        &self,
        frame: Frame<'_>,
        generation: u64,
        last: u64,
        waiting: &mut Vec<Made>,
    ) -> Result<(), LogError> {
        for entry in Entries::new(frame.words) {
            let entry = entry.map_err(|malformed| frame.frames.malformed(malformed))?;
            for write in entry.writes() {
                let relation = self.relation(write.relation);
                let checked = match relation {
                    Some(relation) => check_shape(relation, &write),
                    None if self.logged.passed_over.contains(&write.relation) => Ok(()),
                    None => Err(UNKNOWN),
                };
                checked.map_err(|what| frame.frames.malformed(Malformed { at: 0, what }))?;
            }
            let is_held =
                entry.epoch() <= self.logged.checkpoint_epoch && !planted(Mutant::CommandInCheckpoint);
            if !is_held && entry.epoch() <= last {
                let alone = entry.is_alone();
                waiting.push(Made { time: entry.time(), words: entry.words().into(), generation, alone });
            }
        }
        Ok(())
    }

    /// Has the commits of the epochs up to one made again. The first of a generation is made alone: calls of earlier ones say nothing of
    /// what they read where nobody wrote then.
    fn hand_on(&self, waiting: &mut Vec<Made>, closed: u64, last_generation: &mut u64) {
        if !planted(Mutant::CommandsOutOfOrder) {
            waiting.sort_by_key(|made| made.time);
        }
        let due = waiting.partition_point(|made| stamp::epoch(made.time) <= closed);
        for mut made in waiting.drain(..due) {
            if made.generation > *last_generation && !planted(Mutant::CommandNeverAlone) {
                (made.alone, *last_generation) = (true, made.generation);
            }
            self.batches.submit(Arc::new(made), false);
        }
        // So that no epoch gets too many commits, where nobody else advances it.
        self.clock.advance();
    }

    fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// The first failure counts.
    fn failed(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    #[cold]
    fn panicked(&self, time: u64) -> Error {
        let (place, what) = (self.logged.storage.place(), "making it again panicked".to_owned());
        LogError::CallDiverged { place, procedure: "(none)".to_owned(), time, what }.into()
    }

    /// What an entry used.
    fn tell(&self, entry: &Entry<'_>, footprint: &mut Footprint) {
        if let Some(command) = entry.command() {
            footprint.use_cells(command.cells());
            return;
        }
        for Write { relation, groups, present, key, .. } in entry.writes() {
            let all = self.relation(relation).map_or(groups, |relation| relation.layout.all_groups());
            let groups = Groups(if present { groups } else { all });
            let cell = |group| Cell::of_row(relation, key, group, CellUse::Writes);
            footprint.use_cells(groups.map(cell));
            // By whatever leading words it may have been scanned.
            let below = |words| Cell::below(relation, &key[..words], CellUse::Within);
            footprint.use_cells((0..=key.len()).map(below));
        }
    }

    /// The relation of a number, if its records count.
    fn relation(&self, id: u16) -> Option<&'static Definition> {
        self.logged.relations.get(usize::from(id)).copied().flatten()
    }

    /// Makes one commit again.
    fn make(&self, replayer: &mut dyn Replayer, entry: &Entry<'_>, count: &mut Replayed) -> Result<()> {
        count.transactions += 1;
        if let Some(command) = entry.command() {
            count.calls += 1;
            return self.call(replayer, entry.time(), command);
        }
        count.writes += entry.len() as u64;
        let worker = replayer.worker();
        let mut retry = 0;
        loop {
            let outcome = self.put(worker, retry, entry);
            let Err(Error::Conflict(_)) = outcome else { return outcome };
            worker.back_off(retry);
            retry += 1;
        }
    }

    fn call(&self, replayer: &mut dyn Replayer, time: u64, command: &Command<'_>) -> Result<()> {
        let place = || self.logged.storage.place();
        let (procedure, call) = self.versions.call(command.procedure, &self.logged.procedures, &place)?;
        let diverged = |what: String| LogError::CallDiverged {
            place: place(),
            procedure: procedure.to_owned(),
            time,
            what,
        };
        replayer.worker().written();
        replayer
            .call(call, &command.arguments())
            .map_err(|error| diverged(format!("it gave up: {error}")))?;
        if replayer.worker().written() != command.digest {
            return Err(diverged("it wrote something else".to_owned()).into());
        }
        Ok(())
    }

    /// Puts the rows of an entry where they were.
    fn put(&self, worker: &mut dyn Worker, retry: u32, entry: &Entry<'_>) -> Result<()> {
        if !worker.begin(retry, None) {
            return Err(worker.refusal().map_or_else(|| unreachable!("a closure is no call"), Error::from));
        }
        for write in entry.writes() {
            let Some(relation) = self.relation(write.relation) else { continue };
            if let Err(error) = self.put_row(worker, relation, &write) {
                worker.end(Body::Gave(error))?;
                unreachable!("it gave up");
            }
        }
        worker.end(Body::Done { failed: false }).map(|_| ())
    }

    fn put_row(
        &self,
        worker: &mut dyn Worker,
        relation: &'static Definition,
        write: &Write<'_>,
    ) -> Result<()> {
        let layout = relation.layout;
        let access = |groups| {
            // Nothing beside these groups: what others make of the rest of the row is not ours.
            let spans = Groups(groups).map(|group| layout.groups[group].span);
            let all = |one: Span, other: Span| Span {
                start: one.start.min(other.start),
                end: one.end.max(other.end),
            };
            let span = spans.reduce(all).unwrap_or(Span { start: 0, end: 0 });
            let wanted = Part { relation, groups, span, spans: None };
            Access { wanted, key: write.key, site: 0, part: false }
        };
        if !write.present {
            return worker.delete(&access(layout.all_groups())).map(|_| ());
        }
        let number = worker.number();
        match worker.stage(&access(write.groups), Purpose::UpdateWatched)? {
            Staged::Missing => {}
            Staged::New(words) | Staged::Stored(words) => {
                self.fill(write, relation, number, words);
                return worker.store(&access(write.groups), write.groups);
            }
            Staged::Old { .. } => unreachable!("no part of it was executed before"),
        }
        match worker.insert(&access(layout.all_groups()))? {
            Inserted::New(words) => self.fill(write, relation, number, words),
            _ => unreachable!("there was none"),
        }
        Ok(())
    }

    /// Copies the words of column groups, and keeps the values that are not in them.
    fn fill(&self, write: &Write<'_>, relation: &Definition, worker: usize, words: &mut [u64]) {
        let (layout, mut data) = (relation.layout, write.data);
        for group in Groups(write.groups) {
            let span = layout.groups[group].span;
            let (of_group, rest) = data.split_at(span.len());
            words[span.start..span.end].copy_from_slice(of_group);
            data = rest;
            for slot in layout.slots_of(group) {
                if let Some(value) = Slot([words[slot], words[slot + 1]]).value() {
                    let mut bytes = Vec::new();
                    Logged(write.data).read(value, &mut bytes);
                    words[slot] = self.values.put(worker, &bytes);
                }
            }
        }
    }
}

/// A thread that executes what was handed on.
struct Executor<'a> {
    replay: &'a Replay<'a>,
    replayer: Box<dyn Replayer>,
    seat: Seat<Arc<Made>>,
    footprint: Footprint,
    count: Replayed,
}

impl<'a> Executor<'a> {
    fn new(replay: &'a Replay<'a>, replayer: Box<dyn Replayer>) -> Self {
        let (seat, footprint, count) = Default::default();
        Self { replay, replayer, seat, footprint, count }
    }

    /// Does the next thing that there is to do. False if there is none, or, where it waits, if there will be none.
    fn step(&mut self, waits: bool) -> bool {
        let Self { replay, replayer, seat, footprint, count } = self;
        let Some(next) = replay.batches.next(seat, waits) else { return false };
        match next {
            Next::Announce(made) => {
                footprint.clear();
                if made.alone {
                    footprint.be_alone();
                }
                replay.tell(&made.entry(), footprint);
                seat.swap(footprint);
            }
            // After a failure the others are gone through only.
            Next::Execute(_) if replay.has_failed() => {}
            Next::Execute(made) => {
                // A panic of ours must not keep the others waiting for what this one has in its hands.
                let make = || replay.make(&mut **replayer, &made.entry(), count);
                let outcome = catch_unwind(AssertUnwindSafe(make));
                if let Err(error) = outcome.unwrap_or_else(|_| Err(replay.panicked(made.time))) {
                    replay.failed(error);
                }
            }
        }
        replay.batches.done(seat);
        true
    }

    /// Executes while enough is handed on for all, and then what others would wait for in vain.
    fn fall_back(&mut self) {
        let mut wait = Wait::new();
        while self.replay.batches.metrics().queued > AHEAD {
            if !(0..STEPS).all(|_| self.step(false)) {
                wait.pause();
            }
        }
        while !self.seat.is_empty_handed() {
            self.step(false);
        }
    }
}
