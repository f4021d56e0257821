//! A running transaction: tables and keys above, records and a protocol below.
//!
//! [`Txn`] is a worker's place in the database with everything that an attempt needs, reused from
//! attempt to attempt. Its operations encode the key, find the record, let the protocol read or
//! announce, and keep writes in the write set; they maintain secondary indexes by the same
//! operations on the index relations, so an index entry is a record like any other and is as safe
//! as any other under every protocol.

use super::Inner;
use super::chopping::Chopped;
use super::counters::Memory;
use super::garbage::{Garbage, Means};
use super::procedures::Known;
use super::reading::{OfTable, Projection, Reading};
use super::recall::Recall;
use super::sequencing::{Meets, Sequenced, awaits_keys};
use super::store::{Store, is_ordered, place};
use crate::access::{Groups, Write, WriteSet};
use crate::arena::{Arena, Exchange};
use crate::commit::{Commit, Superseded};
use crate::error::{Conflict, Error, Misuse, Result};
use crate::index::{AnyIndex, Direction, Inserted, Lookup};
use crate::log::PAYLOAD_WORDS_MAX;
use crate::mutant::{Mutant, planted};
use crate::procedure::{Declaration, Held};
use crate::protocol::{Env, Execution, Intent, Isolation, Protocol};
use crate::record::{
    ConcurrencyWords, RecordData, RecordRef, Words, WordsCopy, WordsMut, data_base, heads_base, name_words,
};
use crate::sync::{Phase, Random, Suspender, Work, attempt_ended, note, phase, point, wait_until, work};
use crate::table::{
    Addable, Column, Columns, Group, GroupSet, Index, IndexSet, IndexVisitor, IndexWords, KeyWords, Layout,
    LeafBuffers, Relation, Row, Scan, Span, Table, encode_key,
};
use crate::transaction::Transaction;
use std::any::TypeId;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What belongs to a worker's place and outlives its session: its memory and its local state.
pub(crate) struct Worker<P: Protocol> {
    pub number: usize,
    pub local: P::Local,
    pub writes: WriteSet,
    pub arena: Arena,
    pub garbage: Garbage,
    /// Placeholders that this attempt put into indexes: relation, key (in the scratch buffer), record.
    placeholders: Vec<Placeholder>,
    /// Versions that this attempt overwrote and a snapshot may need.
    superseded: Vec<Superseded>,
    pub leaves: LeafBuffers,
    /// The relation and direction of the attempt's last scan, whose last leaf is in `leaves` still.
    scanned: Option<(usize, Direction)>,
    pub random: Random,
    pub last_commit: u64,
    /// The plan of the registered procedures.
    pub known: Known<P>,
    /// What the call that runs was told.
    pub(super) recall: Recall,
    /// Placeholders from before the piece that runs.
    placeholders_before: usize,
    /// Lets the thread's other sessions run while this one waits.
    pub suspender: Option<Suspender>,
}

struct Placeholder {
    relation: u32,
    layout: &'static Layout,
    key: u32,
    key_words: u8,
    record: RecordRef,
}

impl<P: Protocol> Worker<P> {
    /// Leaves a placeholder to reclamation.
    fn give_up_placeholder<C: ConcurrencyWords>(&mut self, at: usize, now: u64) {
        let Placeholder { relation, layout, key, key_words, record } = self.placeholders[at];
        let key = self.writes.scratch(key as usize, key_words as usize);
        self.garbage.absent(now, relation, key, record, record.word(heads_base::<C>(layout)));
    }

    /// A worker that takes over memory that recovery filled.
    pub fn with_memory(self, arena: Arena, garbage: Garbage) -> Self {
        let arena = arena.with_exchange_of(&self.arena);
        Self { arena, garbage, ..self }
    }

    pub fn new(
        number: usize,
        options: &P::Options,
        shared: &Arc<P::Shared>,
        exchange: Arc<Exchange>,
    ) -> Self {
        Self {
            number,
            local: P::local(options, shared, number),
            writes: WriteSet::default(),
            arena: Arena::new(exchange),
            garbage: Garbage::default(),
            placeholders: Vec::new(),
            superseded: Vec::new(),
            leaves: LeafBuffers::default(),
            scanned: None,
            random: Random::new(number as u64),
            last_commit: 0,
            known: Known::default(),
            recall: Recall::default(),
            placeholders_before: 0,
            suspender: None,
        }
    }

    /// How it waits for other transactions from now on; it spins if it is told nothing.
    #[cfg(feature = "suspend")]
    pub fn suspend_by(&mut self, suspender: Option<Suspender>) {
        P::suspend_by(&mut self.local, suspender.clone());
        self.suspender = suspender;
    }
}

/// A running transaction under protocol `P`; see [`Transaction`].
///
/// Sessions hand it to closures, [`Database::begin`](crate::Database::begin) gives it out inside an
/// [`OwnedTransaction`](crate::OwnedTransaction).
pub struct Txn<P: Protocol> {
    pub(super) db: Arc<Inner<P>>,
    pub(super) worker: Box<Worker<P>>,
    /// Set by the first error: the attempt can only be aborted.
    pub(super) failed: bool,
    /// How it is executed: as a closure is, or as a call in pieces.
    pub(super) executed: Execution,
    /// What it may see of others.
    pub(super) isolation: Isolation,
    /// The epoch of its commit, where that is fixed.
    pub(super) epoch: Option<u64>,
    pub(super) chopped: Chopped,
    pub(super) sequenced: Sequenced,
    /// Where the procedure's sites begin that runs within the one that was called, and the site of the next
    /// access.
    pub(super) first_site: u16,
    pub(super) site: u16,
    /// It holds the gate closed.
    pub(super) gate: bool,
    /// It has the turn of those who run alone.
    turn: bool,
    /// What holds the procedure that runs to what it declares.
    pub(super) held: Held,
}

/// Where an operation of a call gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// From the database.
    New,
    /// From the database, to be remembered.
    Remembered,
    /// It was given before.
    Old,
}

/// What a scan asks for of each record in a leaf: its concurrency words and first columns.
pub(super) const SCAN_AHEAD: Span = Span { start: 0, end: 12 };

/// How many rows that do not exist a scan with a limit expects to come to.
pub(super) const SCAN_PASSES: usize = 8;

/// Everything of a record, for whoever only wants to know whether it is there.
#[derive(Clone, Copy)]
struct Existence(GroupSet);

impl Projection for Existence {
    type Value = ();
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        self.0
    }
    #[inline(always)]
    fn span(&self, _: usize) -> Span {
        Span::NONE
    }
    #[inline(always)]
    fn load(&self, _: &impl Words) {}
    #[inline(always)]
    fn store(&self, _: &(), _: &mut impl WordsMut) {}
}

/// The span that covers all columns of a projection.
#[inline(always)]
pub(super) fn cover(projection: &impl Projection) -> Span {
    let mut all = Span::NONE;
    for group in Groups(projection.groups()) {
        all = all.cover(projection.span(group));
    }
    all
}

impl<P: Protocol> Txn<P> {
    pub(super) fn new(db: Arc<Inner<P>>, worker: Box<Worker<P>>) -> Self {
        Self {
            isolation: db.isolation,
            db,
            worker,
            failed: false,
            executed: Execution::Whole,
            epoch: None,
            chopped: Chopped::default(),
            sequenced: Sequenced::default(),
            first_site: 0,
            site: 0,
            gate: false,
            turn: false,
            held: Held::default(),
        }
    }

    /// Starts an attempt, of a call or of a closure; `retry` counts the earlier ones of the same transaction.
    #[inline]
    pub(super) fn begin(&mut self, retry: u32, is_call: bool) {
        work(Work::Attempt);
        phase(Phase::Body);
        note(|| format!("begins, attempt {}", retry + 1));
        self.failed = false;
        self.held = Held::default();
        match self.db.procedures.execution {
            Execution::Chopped | Execution::Sequenced if P::PIECES => self.begin_chopped(is_call),
            execution => {
                self.db.clock.pin(self.worker.number);
                if P::PIECES && execution == Execution::Pieces {
                    self.pass_gate(retry);
                }
            }
        }
        self.begin_writes(retry);
    }

    /// Begins what [`Self::commit_writes`] or [`Self::abort_writes`] ends.
    #[inline]
    pub(super) fn begin_writes(&mut self, retry: u32) {
        let worker = &mut *self.worker;
        if !planted(Mutant::ScanOutlivesAttempt) {
            worker.scanned = None;
        }
        let env = self.db.env(worker.number, self.isolation);
        P::begin(&mut worker.local, env, retry);
    }

    /// Begins, if the gate is open. One that has failed often closes it and waits until no call is under way, so
    /// that it gets through.
    #[inline]
    fn pass_gate(&mut self, retry: u32) {
        const OFTEN: u32 = 64;
        if retry < OFTEN && self.db.procedures.is_open() {
            return;
        }
        let Inner { clock, procedures, .. } = &*self.db;
        let suspender = self.worker.suspender.as_ref();
        clock.unpin(self.worker.number);
        if retry < OFTEN {
            loop {
                procedures.wait_open(suspender);
                clock.pin(self.worker.number);
                if procedures.is_open() {
                    return;
                }
                clock.unpin(self.worker.number);
            }
        }
        procedures.take_turn(suspender);
        procedures.close();
        (self.turn, self.gate) = (true, true);
        wait_until(suspender, || P::alone(&self.worker.local));
        clock.pin(self.worker.number);
    }

    /// The number of a registered procedure.
    #[inline]
    pub(super) fn number_of(&mut self, id: TypeId) -> Option<u16> {
        let known = &mut self.worker.known;
        self.db.procedures.update(known);
        known.number_of(id)
    }

    /// The attempt that has begun is a call of a registered procedure. False if no procedure is registered
    /// under that number.
    pub(super) fn call(&mut self, number: u16) -> bool {
        let worker = &mut *self.worker;
        self.db.procedures.update(&mut worker.known);
        if worker.known.plan.of_type(number.into()).is_none() {
            return false;
        }
        if P::PIECES && self.db.procedures.execution != Execution::Whole {
            (self.first_site, self.site) = (0, 0);
            worker.recall.clear();
            worker.placeholders_before = 0;
            if self.epoch.is_some() {
                let plan = &worker.known.plan;
                let (planned, later) =
                    (plan.of_type(number.into()).map(Arc::clone), plan.later_of(number.into()));
                self.executed = self.db.procedures.execution;
                self.call_chopped(planned);
                if self.executed == Execution::Sequenced {
                    self.call_sequenced(later);
                }
            } else if P::call(&mut worker.local, &worker.known.plan, number.into()) {
                self.executed = Execution::Pieces;
            }
        }
        true
    }

    /// After an attempt of a call: lets the plan follow what was met.
    #[inline(always)]
    pub(super) fn adapt(&mut self) {
        if P::PIECES
            && let Some((vertex, hot)) = P::wish(&mut self.worker.local)
        {
            self.db.procedures.adapt(&self.worker.known.plan, vertex, hot);
        }
    }

    /// After a conflict in a call: true if its body is to be executed again, with the pieces that stand.
    #[cold]
    pub(super) fn again(&mut self, conflict: Conflict) -> bool {
        let worker = &mut *self.worker;
        match self.executed {
            Execution::Whole => return false,
            Execution::Pieces if !P::again(&mut worker.local, conflict) => return false,
            Execution::Pieces => {
                let now = self.db.clock.now();
                for at in worker.placeholders_before..worker.placeholders.len() {
                    worker.give_up_placeholder::<P>(at, now);
                }
                worker.placeholders.truncate(worker.placeholders_before);
                worker.scanned = None;
                worker.writes.go_back();
                worker.recall.go_back();
            }
            Execution::Chopped | Execution::Sequenced => self.again_chopped(),
        }
        note(|| format!("{conflict}; executes its piece again"));
        self.failed = false;
        (self.first_site, self.site) = (0, 0);
        self.db.counters.piece_retry(self.worker.number);
        true
    }

    /// Lets nobody begin until this attempt ends.
    #[cold]
    pub(super) fn hold_gate(&mut self) {
        if !self.gate {
            self.db.procedures.close();
            self.gate = true;
        }
    }

    /// Ends the last piece of a call.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.executed {
            Execution::Whole => Ok(()),
            Execution::Pieces => Ok(P::finish(&mut self.worker.local, &mut self.worker.writes)?),
            _ if self.failed => Err(Misuse::Failed.into()),
            Execution::Chopped => self.commit_piece(),
            Execution::Sequenced => self.commit_phase(),
        }
    }

    /// Before each operation.
    #[inline(always)]
    fn arrive(&mut self) -> Result<Answer> {
        if P::PIECES && self.executed != Execution::Whole { self.arrive_at_site() } else { Ok(Answer::New) }
    }

    /// The same where the body was told an answer before.
    #[cold]
    fn arrive_again(&mut self) -> Result<Answer> {
        let worker = &mut *self.worker;
        if !P::arrive_again(&mut worker.local, self.site) {
            return Ok(Answer::New);
        }
        match worker.recall.expect(self.site.into()) {
            Ok(()) => Ok(Answer::Old),
            Err(error) => Err(self.diverged(error)),
        }
    }

    fn arrive_at_site(&mut self) -> Result<Answer> {
        if self.executed != Execution::Pieces || self.worker.recall.repeats() {
            return self.arrive_elsewhere();
        }
        let worker = &mut *self.worker;
        match P::stays(&mut worker.local, self.site) {
            Some(true) => {
                worker.recall.push(self.site.into());
                Ok(Answer::Remembered)
            }
            Some(false) => Ok(Answer::New),
            None => self.arrive_elsewhere(),
        }
    }

    /// The same where it may be another piece. Apart, so that most accesses do without its stack.
    #[inline(never)]
    fn arrive_elsewhere(&mut self) -> Result<Answer> {
        match self.executed {
            Execution::Chopped => return self.arrive_chopped(),
            Execution::Sequenced => return self.arrive_sequenced(),
            Execution::Whole | Execution::Pieces => {}
        }
        if self.worker.recall.repeats() {
            return self.arrive_again();
        }
        let worker = &mut *self.worker;
        let arrived = P::arrive(&mut worker.local, &mut worker.writes, self.site)?;
        if arrived.another_piece {
            worker.writes.save();
            worker.recall.save();
            worker.placeholders_before = worker.placeholders.len();
        }
        if !arrived.remembered {
            return Ok(Answer::New);
        }
        worker.recall.push(self.site.into());
        Ok(Answer::Remembered)
    }

    /// The body did something else than before: because something has changed that it read anew, or because
    /// it is not a procedure.
    #[cold]
    fn diverged(&mut self, error: Error) -> Error {
        self.validate().map_or_else(Error::from, |()| error)
    }

    /// Keeps what a projection found, or that it found nothing.
    #[inline(always)]
    fn remember<J: Projection>(&mut self, answer: Answer, projection: J, value: Option<&J::Value>) {
        if answer == Answer::Remembered {
            let recall = &mut self.worker.recall;
            recall.push(value.is_some().into());
            if let Some(value) = value {
                projection.store(value, &mut recall.push_words(cover(&projection)));
            }
        }
    }

    /// What a projection found before.
    #[cold]
    fn recall<J: Projection>(&mut self, projection: J) -> Result<Option<J::Value>> {
        let recall = &mut self.worker.recall;
        match recall.next()? {
            0 => Ok(None),
            _ => Ok(Some(projection.load(&recall.next_words(cover(&projection))?))),
        }
    }

    /// Ends an attempt with a commit, or aborts it.
    #[inline]
    pub(super) fn commit(&mut self) -> Result<()> {
        if self.failed {
            self.abort();
            return Err(Misuse::Failed.into());
        }
        // Its last piece has committed.
        let committed =
            if self.executed.commits_pieces() { Ok(self.chopped.log_is_long) } else { self.commit_writes() };
        match committed {
            Ok(log_is_long) => {
                if P::PIECES && self.executed == Execution::Whole {
                    self.pass_time();
                }
                self.db.counters.commit(self.worker.number);
                self.end();
                attempt_ended(true);
                if log_is_long && let Some(log) = self.db.logging() {
                    log.relieve(self.worker.number);
                }
                Ok(())
            }
            Err(error) => {
                self.abort();
                if let Error::Conflict(conflict) = error {
                    self.db.counters.conflict(self.worker.number, conflict);
                }
                Err(error)
            }
        }
    }

    /// Lets the protocol commit what was read and written. True if the log has become long.
    #[inline]
    pub(super) fn commit_writes(&mut self) -> Result<bool> {
        let worker = &mut *self.worker;
        let (epoch, after) = (self.epoch, self.sequenced.after);
        let env = Env { epoch, after, ..self.db.env(worker.number, self.isolation) };
        let Worker { local, writes, arena, superseded, garbage, .. } = worker;
        let log = self.db.logging();
        if let Some(log) = log
            && !writes.is_empty()
        {
            log.check().and_then(|()| fits(writes))?;
        }
        let log = log.map(|log| (&**log, env.worker));
        let mut commit = Commit::new(writes, &self.db.boundaries, arena, superseded, garbage.live(), log);
        point("commit");
        phase(Phase::Commit);
        let outcome = P::commit(local, env, &mut commit);
        let log_is_long = commit.log_is_long();
        drop(commit);
        let stamp = outcome.inspect_err(|conflict| note(|| format!("{conflict}")))?;
        note(|| format!("committed at {stamp:#x}"));
        self.worker.last_commit = stamp;
        self.leave_behind(true);
        Ok(log_is_long)
    }

    /// Ends an attempt without effect.
    pub(super) fn abort(&mut self) {
        note(|| "aborts".to_owned());
        self.abort_writes();
        self.end();
        attempt_ended(false);
    }

    /// Drops what was read and written.
    pub(super) fn abort_writes(&mut self) {
        let worker = &mut *self.worker;
        P::abort(&mut worker.local, self.db.env(worker.number, self.isolation), &worker.writes);
        self.leave_behind(false);
    }

    /// Whether a decision to give up, or a panic, rests on reads that still stand.
    pub(super) fn validate(&mut self) -> Result<(), Conflict> {
        let worker = &mut *self.worker;
        P::validate(&mut worker.local, self.db.env(worker.number, self.isolation))
    }

    /// Queues what this attempt leaves in the indexes without a row.
    #[inline]
    fn leave_behind(&mut self, committed: bool) {
        let worker = &mut *self.worker;
        let now = self.db.clock.now();
        let writes = &mut worker.writes;
        if committed {
            // In front of the absent records, which cannot go before them.
            for version in worker.superseded.drain(..) {
                worker.garbage.superseded(now, version);
            }
            for write in writes.writes() {
                if !write.present {
                    let head = write.record.word(heads_base::<P>(write.layout));
                    worker.garbage.absent(now, write.relation, writes.key(write), write.record, head);
                }
            }
        } else {
            (0..worker.placeholders.len()).for_each(|at| worker.give_up_placeholder::<P>(at, now));
        }
        worker.placeholders.clear();
        worker.writes.clear();
    }

    #[inline]
    fn end(&mut self) {
        let worker = &mut *self.worker;
        let Inner { clock, boundaries, stores, .. } = &*self.db;
        worker.garbage.collect(Means { clock, boundaries, stores, arena: &mut worker.arena });
        let memory = Memory {
            record_bytes: worker.arena.bytes(),
            version_bytes: worker.arena.version_bytes(),
            versions_kept: worker.arena.versions(),
            garbage: worker.garbage.len(),
        };
        self.db.counters.memory(worker.number, memory);
        self.db.clock.unpin(worker.number);
        if P::PIECES {
            if std::mem::take(&mut self.executed) == Execution::Sequenced {
                self.end_sequenced();
            }
            self.end_chopped();
            if std::mem::take(&mut self.gate) {
                self.db.procedures.open();
            }
            if std::mem::take(&mut self.turn) {
                self.db.procedures.give_turn();
            }
        }
    }

    #[inline(always)]
    fn guard<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed |= result.is_err();
        result
    }

    /// Reads a projection of a record as this transaction sees it.
    #[inline(always)]
    fn read<J: Projection>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        intent: Intent,
        projection: J,
    ) -> Result<Option<J::Value>> {
        let worker = &mut *self.worker;
        if let Some(write) = worker.writes.find(record)
            && !planted(Mutant::OwnWritesUnseen)
        {
            return self.read_own(write, intent, projection);
        }
        let span = cover(&projection);
        let at = worker.writes.reserve(span.len());
        let copied = self.copy_words(record, layout, intent, projection, span, at)?;
        let words = &mut self.worker.writes;
        let value = copied.map(|()| projection.load(&WordsCopy::new(span.start, words.scratch(at, span.len()))));
        words.release(at);
        Ok(value)
    }

    /// The same for a record that this transaction has written.
    fn read_own<J: Projection>(
        &mut self,
        write: usize,
        intent: Intent,
        projection: J,
    ) -> Result<Option<J::Value>> {
        if !self.worker.writes.writes()[write].present {
            return Ok(None);
        }
        let span = cover(&projection);
        let (at, len) = self.stage(write, intent, projection.groups(), span)?;
        let words = &mut self.worker.writes;
        let value = projection.load(&WordsCopy::new(span.start, words.scratch(at, len)));
        words.release(at);
        Ok(Some(value))
    }

    /// Copies the words of `span` that are of these column groups of a written, present record, own patches applied, to
    /// the end of the scratch buffer. Returns where, and how many.
    fn stage(
        &mut self,
        write: usize,
        intent: Intent,
        groups: GroupSet,
        span: Span,
    ) -> Result<(usize, usize)> {
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let len = span.len();
        let at = worker.writes.reserve(len);
        let Write { record, layout, .. } = worker.writes.writes()[write];
        if !worker.writes.is_full(write) {
            let target = worker.writes.scratch(at, len);
            work(Work::Words(len));
            let copy = |data: RecordData| {
                for group in Groups(groups) {
                    let words = layout.groups[group].span;
                    for word in words.start.max(span.start)..words.end.min(span.end) {
                        target[word - span.start] = data.word(word);
                    }
                }
            };
            P::read(&mut worker.local, env, record, layout, groups, intent, copy)?
                .ok_or(Conflict::ReadChanged)?;
        }
        worker.writes.overlay(write, span.start, at, len);
        Ok((at, len))
    }

    /// Copies the words of a projection of a record into the scratch buffer at `at`, where data word
    /// `span.start` belongs. `None` if the row is absent.
    #[inline(always)]
    fn copy_words<J: Projection>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        intent: Intent,
        projection: J,
        span: Span,
        at: usize,
    ) -> Result<Option<()>> {
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let target = worker.writes.scratch(at, span.len());
        let copy = |data: RecordData| {
            for group in Groups(projection.groups()) {
                let words = projection.span(group);
                for word in words.start..words.end {
                    target[word - span.start] = data.word(word);
                }
            }
        };
        Ok(P::read(&mut worker.local, env, record, layout, projection.groups(), intent, copy)?)
    }

    /// Announces a write and adds its groups to the record's entry, which is made if need be.
    #[inline(always)]
    fn start_write(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        was_present: bool,
    ) -> Result<usize> {
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let writes = &mut worker.writes;
        let known = writes.find(record);
        P::write(&mut worker.local, env, record, layout, groups, known.unwrap_or(writes.writes().len()))?;
        let write = match known {
            Some(write) => write,
            None => writes.start(record, layout, relation, key, was_present),
        };
        writes.widen(write, groups);
        Ok(write)
    }

    /// The record of a key, or the absence of one, which is then remembered.
    #[inline(always)]
    fn find<R: Relation>(db: &Inner<P>, worker: &mut Worker<P>, key: &R::Words) -> Result<Option<RecordRef>> {
        work(Work::Operation);
        note(|| format!("looks for {}{:?}", R::LAYOUT.name, key.words()));
        if let Some(record) = Self::find_scanned::<R>(worker, key) {
            P::comes_to(&mut worker.local, R::slot().number(), key.words());
            return Ok(Some(record));
        }
        phase(Phase::Index);
        let found = db.stores.get::<R>()?.index.get(key);
        phase(Phase::Body);
        match found {
            Lookup::Found(record) => {
                P::comes_to(&mut worker.local, R::slot().number(), key.words());
                Ok(Some(record))
            }
            Lookup::Missing(seen) => {
                note(|| "finds no entry".to_owned());
                P::seen(&mut worker.local, seen);
                Ok(None)
            }
        }
    }

    /// The record of a key, if the last leaf of the last scan leads to it: often what was found is written next. Should it
    /// have left the index since, it is sealed, and the attempt finds that like any other that a key led to.
    #[inline(always)]
    fn find_scanned<R: Relation>(worker: &mut Worker<P>, key: &R::Words) -> Option<RecordRef> {
        let (relation, direction) = worker.scanned?;
        if relation != R::slot().number() {
            return None;
        }
        let leaf = R::Words::leaf(&mut worker.leaves);
        let at = leaf.binary_search_by(|(other, _)| match direction {
            Direction::Forward => other.cmp(key),
            Direction::Reverse => key.cmp(other),
        });
        at.ok().map(|at| leaf[at].1)
    }

    #[inline(always)]
    fn get_for<R: Relation, J: Projection>(
        &mut self,
        key: &R::Words,
        intent: Intent,
        projection: J,
    ) -> Result<Option<J::Value>> {
        self.meets(R::LAYOUT, R::slot().number(), key.words(), projection.groups(), Meets::Reads)?;
        match Self::find::<R>(&self.db, &mut self.worker, key)? {
            Some(record) => self.read(record, R::LAYOUT, intent, projection),
            None => Ok(None),
        }
    }

    /// Before the record of a key is looked for.
    #[inline(always)]
    fn meets(
        &mut self,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        meets: Meets,
    ) -> Result<()> {
        if P::PIECES && self.executed == Execution::Sequenced {
            self.meets_row(layout, relation, key, groups, meets)?;
        }
        Ok(())
    }

    /// Reads a row by its key.
    #[inline(always)]
    fn get_row<R: Relation, J: Projection>(
        &mut self,
        key: &R::Words,
        projection: J,
    ) -> Result<Option<J::Value>> {
        let answer = self.arrive()?;
        if answer == Answer::Old {
            return self.recall(projection);
        }
        let value = self.get_for::<R, J>(key, Intent::Read, projection)?;
        self.remember(answer, projection, value.as_ref());
        Ok(value)
    }

    /// Makes the row of `key` exist with the words that `fill` writes, if there is none.
    fn insert_in<R: Relation>(
        &mut self,
        key: &R::Words,
        fill: impl FnOnce(&mut WordsCopy<'_>),
    ) -> Result<bool> {
        let number = self.db.stores.get::<R>()?.number;
        let Some(at) = self.insert_record(number, R::LAYOUT, key)? else { return Ok(false) };
        fill(&mut WordsCopy::new(0, self.worker.writes.scratch(at, R::LAYOUT.words)));
        Ok(true)
    }

    /// The same of the relation of that number, whose words are to be written where it says in the scratch buffer. Apart
    /// from what depends on the type of the rows: it is long, and so it is compiled once for each width of keys.
    fn insert_record<W: IndexWords>(
        &mut self,
        number: usize,
        layout: &'static Layout,
        key: &W,
    ) -> Result<Option<usize>> {
        self.meets(layout, number, key.words(), layout.all_groups(), Meets::Writes)?;
        if P::PIECES && self.announces() {
            return Ok(Some(self.worker.writes.reserve(layout.words)));
        }
        let worker = &mut *self.worker;
        let store: &Store<W, P> = self.db.stores.numbered_of(number);
        let arena = &mut worker.arena;
        work(Work::Operation);
        work(Work::Words(layout.words));
        note(|| format!("inserts {}{:?}", layout.name, key.words()));
        P::comes_to(&mut worker.local, number, key.words());
        // Before the latch: see `Arena::allocate`.
        let block = arena.allocate(number, store.block_words);
        let local = &mut worker.local;
        phase(Phase::Index);
        let inserted = store.index.insert(key, &mut |gap: &_| {
            P::joins(local, gap);
            place::<P>(block, layout, gap)
        });
        phase(Phase::Body);
        // The gap of a placeholder or a deleted record that another put there.
        let (record, found_in) = match inserted {
            Inserted::Exists(record, seen) => {
                arena.release(number, block);
                (record, Some(seen))
            }
            Inserted::Added { record, change } => {
                name_words::<P>(record, layout, key.words());
                P::changed(&mut worker.local, change);
                let key_at = worker.writes.reserve(key.words().len());
                worker.writes.scratch(key_at, key.words().len()).copy_from_slice(key.words());
                worker.placeholders.push(Placeholder {
                    relation: number as u32,
                    layout,
                    key: key_at as u32,
                    key_words: key.words().len() as u8,
                    record,
                });
                (record, None)
            }
        };
        let write = if found_in.is_none()
            && P::fresh(&mut worker.local, record, layout, worker.writes.writes().len())
        {
            worker.writes.start(record, layout, number, key.words(), false)
        } else {
            if self.read(record, layout, Intent::Update, Existence(layout.all_groups()))?.is_some() {
                // Where another filled our own placeholder before we read it, "there is a row" would
                // contradict the absence that we may have seen in the gap before we changed it.
                return if found_in.is_none() { Err(Conflict::Phantom.into()) } else { Ok(None) };
            }
            if let Some(seen) = found_in {
                P::fills(&mut self.worker.local, record, seen);
            }
            self.start_write(record, layout, number, key.words(), layout.all_groups(), false)?
        };
        let writes = &mut self.worker.writes;
        let at = writes.reserve(layout.words);
        writes.set_full(write, at);
        Ok(Some(at))
    }

    /// Makes the row of `key` not exist; false if there was none.
    fn delete_in<R: Relation>(&mut self, key: &R::Words) -> Result<bool> {
        self.meets(R::LAYOUT, R::slot().number(), key.words(), R::LAYOUT.all_groups(), Meets::Writes)?;
        let Some(record) = Self::find::<R>(&self.db, &mut self.worker, key)? else { return Ok(false) };
        self.delete_record(record, R::LAYOUT, R::slot().number(), key.words())
    }

    /// The same of the record with that key, compiled once for all relations.
    fn delete_record(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
    ) -> Result<bool> {
        if self.read(record, layout, Intent::Update, Existence(layout.all_groups()))?.is_none() {
            return Ok(false);
        }
        if P::PIECES && self.announces() {
            return Ok(true);
        }
        let write = self.start_write(record, layout, relation, key, layout.all_groups(), true)?;
        if !planted(Mutant::DeleteLeavesRow) {
            self.worker.writes.set_absent(write);
        }
        Ok(true)
    }

    /// Reads `staged`, lets `change` alter `columns` of it, and writes back the groups that changed.
    /// `observe` sees the staged words before and after. `None` if the row is absent.
    #[inline(always)]
    fn update_in<C: Columns, J: Projection, R>(
        &mut self,
        key: &<C::Table as Relation>::Words,
        columns: C,
        staged: J,
        change: impl FnOnce(&mut C::Value) -> R,
        mut observe: impl FnMut(&WordsCopy<'_>),
    ) -> Result<Option<R>> {
        let layout = <C::Table as Relation>::LAYOUT;
        let answer = self.arrive()?;
        if answer == Answer::Old {
            // All that it did stands; only its result is wanted.
            return Ok(self.recall(OfTable(columns))?.map(|mut value| change(&mut value)));
        }
        let meets =
            if staged.groups() == OfTable(columns).groups() { Meets::Writes } else { Meets::WritesEntries };
        self.meets(layout, <C::Table as Relation>::slot().number(), key.words(), staged.groups(), meets)?;
        let Some(record) = Self::find::<C::Table>(&self.db, &mut self.worker, key)? else {
            self.remember(answer, OfTable(columns), None);
            return Ok(None);
        };
        let span = cover(&staged);
        let (at, len) = match self.worker.writes.find(record) {
            Some(write) if !self.worker.writes.writes()[write].present => {
                self.remember(answer, OfTable(columns), None);
                return Ok(None);
            }
            Some(write) => self.stage(write, Intent::Update, staged.groups(), span)?,
            None => {
                let at = self.worker.writes.reserve(span.len());
                work(Work::Words(span.len()));
                match self.copy_words(record, layout, Intent::Update, staged, span, at)? {
                    Some(()) => (at, span.len()),
                    None => {
                        self.remember(answer, OfTable(columns), None);
                        return Ok(None);
                    }
                }
            }
        };
        let words = WordsCopy::new(span.start, self.worker.writes.scratch(at, len));
        observe(&words);
        let mut value = columns.load(&words);
        if answer == Answer::Remembered {
            // As `remember` does, from words that are there already.
            let Worker { recall, writes, .. } = &mut *self.worker;
            let part = cover(&OfTable(columns));
            recall.push(true.into());
            recall.extend(writes.scratch(at + part.start - span.start, part.len()));
        }
        let mut words = WordsCopy::new(span.start, self.worker.writes.scratch(at, len));
        let result = change(&mut value);
        let mut groups = staged.groups();
        if groups.count_ones() == 1 {
            columns.store(&value, &mut words);
            observe(&words);
        } else {
            // Only the groups that the change touched conflict with others.
            let mut changes = Changes { words, layout, groups: 0 };
            columns.store(&value, &mut changes);
            observe(&changes.words);
            groups = changes.groups;
        }
        if groups != 0 && !(P::PIECES && self.announces()) {
            let number = <C::Table as Relation>::slot().number();
            let write = self.start_write(record, layout, number, key.words(), groups, true)?;
            for group in Groups(groups) {
                let part = staged.span(group);
                self.worker.writes.replace(write, part, at + part.start - span.start);
            }
        }
        Ok(Some(result))
    }

    /// An update of any columns: where it may touch the key or an indexed column, the whole row is
    /// watched, so that the key stays and index entries move.
    #[inline(always)]
    fn update_any<C: Columns, R>(
        &mut self,
        key: &<C::Table as Relation>::Words,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<Option<R>> {
        let watched = <C::Table as Table>::INDEXED | <C::Table as Table>::KEY_COLUMNS;
        if columns.ordinals() & watched == 0 {
            return self.update_in(key, columns, OfTable(columns), change, |_| {});
        }
        // Where the answer is an old one, the entries were moved and nothing is observed.
        let mut rows = [None, None];
        let mut next = rows.iter_mut();
        let observe = |words: &WordsCopy<'_>| {
            if let Some(row) = next.next() {
                *row = Some(C::Table::load(words));
            }
        };
        let result = self.update_in(key, columns, OfTable(Row::<C::Table>::new()), change, observe)?;
        let [Some(old), Some(new)] = rows else { return Ok(result) };
        if encode_key::<_, <C::Table as Relation>::Words>(&new.key()) != *key {
            return Err(Misuse::KeyChanged { table: <C::Table as Relation>::LAYOUT.name }.into());
        }
        if columns.ordinals() & C::Table::INDEXED != 0 && !planted(Mutant::IndexEntryNotMoved) {
            <C::Table as Table>::Indexes::each(&mut MoveEntry { txn: self, old: &old, new: &new })?;
        }
        Ok(result)
    }

    /// The same of a row that must be there.
    #[inline(always)]
    fn update_present<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        match self.update_any(&encode_key(&key), columns, change)? {
            Some(result) => Ok(result),
            None => Err(not_found::<C::Table>(key)),
        }
    }

    /// Deletes a row.
    fn delete_row<T: Table>(&mut self, key: &T::Words) -> Result<bool> {
        let answer = self.arrive()?;
        if answer == Answer::Old {
            return Ok(self.worker.recall.next()? != 0);
        }
        let deleted =
            if T::INDEXED == 0 { self.delete_in::<T>(key) } else { self.delete_with_entries::<T>(key) }?;
        if answer == Answer::Remembered {
            self.worker.recall.push(deleted.into());
        }
        Ok(deleted)
    }

    /// Inserts a row.
    fn insert_row<T: Table>(&mut self, row: T) -> Result<()> {
        if self.arrive()? == Answer::Old {
            return Ok(());
        }
        let key = row.key();
        match self.insert_in::<T>(&encode_key(&key), |words| row.store(words))? {
            true => T::Indexes::each(&mut AddEntry { txn: self, row: &row }),
            false => Err(duplicate_key::<T>(key)),
        }
    }

    /// Deletes a row with its index entries.
    fn delete_with_entries<T: Table>(&mut self, key: &T::Words) -> Result<bool> {
        self.meets(T::LAYOUT, T::slot().number(), key.words(), T::LAYOUT.all_groups(), Meets::WritesEntries)?;
        let Some(row) = self.get_for::<T, _>(key, Intent::Update, OfTable(Row::<T>::new()))? else {
            return Ok(false);
        };
        T::Indexes::each(&mut RemoveEntry { txn: self, row: &row })?;
        self.delete_in::<T>(key)
    }

    /// A write to a record whose present value does not matter; `patch` adds it to the entry.
    #[inline(always)]
    fn blind_write<T: Table>(
        &mut self,
        key: T::Key,
        groups: GroupSet,
        patch: impl FnOnce(&mut WriteSet, usize),
    ) -> Result<()> {
        if self.arrive()? == Answer::Old {
            return Ok(());
        }
        let words: T::Words = encode_key(&key);
        self.meets(T::LAYOUT, T::slot().number(), words.words(), groups, Meets::Writes)?;
        if P::PIECES && self.announces() {
            return Ok(());
        }
        let Some(record) = Self::find::<T>(&self.db, &mut self.worker, &words)? else {
            return Err(not_found::<T>(key));
        };
        let layout = T::LAYOUT;
        let own = self.worker.writes.find(record).map(|write| self.worker.writes.writes()[write].present);
        if !own.unwrap_or_else(|| P::peek(&mut self.worker.local, record)) {
            // The answer depends on the absence, so it is read like anything else.
            if own.is_some() || self.read(record, layout, Intent::Read, Existence(groups))?.is_none() {
                return Err(not_found::<T>(key));
            }
        }
        let write = self.start_write(record, layout, T::slot().number(), words.words(), groups, true)?;
        patch(&mut self.worker.writes, write);
        Ok(())
    }

    /// Scans, or tells again what a scan found.
    #[inline(always)]
    fn scan_rows<R: Relation, J: Projection>(
        &mut self,
        scan: Scan<R>,
        projection: J,
        mut visit: impl FnMut(&R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.arrive()? {
            Answer::New => return self.scan_leaves(scan, projection, |_, key, value| visit(key, value)),
            Answer::Old => return self.tell_again::<R, J>(projection, visit),
            Answer::Remembered => {}
        }
        self.scan_leaves(scan, projection, |recall, key, value: J::Value| {
            recall.push(1);
            key.words().iter().for_each(|word| recall.push(*word));
            projection.store(&value, &mut recall.push_words(cover(&projection)));
            visit(key, value)
        })?;
        self.worker.recall.push(0);
        Ok(())
    }

    #[cold]
    fn tell_again<R: Relation, J: Projection>(
        &mut self,
        projection: J,
        mut visit: impl FnMut(&R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        let recall = &mut self.worker.recall;
        while recall.next()? != 0 {
            let mut key = R::Words::MIN;
            for word in key.words_mut() {
                *word = recall.next()?;
            }
            let value = projection.load(&recall.next_words(cover(&projection))?);
            // Where it broke off, nothing more was kept.
            let _ = visit(&key, value);
        }
        Ok(())
    }

    #[inline(always)]
    fn scan_leaves<R: Relation, J: Projection>(
        &mut self,
        scan: Scan<R>,
        projection: J,
        mut visit: impl FnMut(&mut Recall, &R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        if !is_ordered::<R>() {
            return Err(Misuse::NotOrdered { table: R::LAYOUT.name }.into());
        }
        let Some((mut low, mut high)) = scan.bounds else { return Ok(()) };
        work(Work::Operation);
        note(|| format!("scans {} from {:?} to {:?}", R::LAYOUT.name, low.words(), high.words()));
        if P::PIECES && self.executed == Execution::Sequenced {
            self.meets_keys(R::LAYOUT, R::slot().number(), low.words(), high.words())?;
        }
        let mut left = scan.limit;
        // The buffer is put back at the end; a nested scan cannot happen, `visit` has no transaction.
        let mut leaf = std::mem::take(R::Words::leaf(&mut self.worker.leaves));
        self.worker.scanned = Some((R::slot().number(), scan.direction));
        let outcome = loop {
            if left == 0 {
                break Ok(());
            }
            leaf.clear();
            let store = match self.db.stores.get::<R>() {
                Ok(store) => store,
                Err(error) => break Err(error),
            };
            phase(Phase::Index);
            let most = left.saturating_add(SCAN_PASSES);
            let (seen, next) = store.index.read_leaf(scan.direction, &low, &high, most, &mut leaf);
            phase(Phase::Body);
            if P::PIECES && self.executed == Execution::Sequenced {
                let (from, to) = match scan.direction {
                    Direction::Forward => (&low, next.as_ref().unwrap_or(&high)),
                    Direction::Reverse => (next.as_ref().unwrap_or(&low), &high),
                };
                let suspender = self.worker.suspender.as_ref();
                let (number, sequenced) = (R::slot().number(), &mut self.sequenced);
                if awaits_keys(&self.db, sequenced, suspender, number, from.words(), to.words()) {
                    continue;
                }
            }
            P::seen(&mut self.worker.local, seen);
            leaf.iter().take(left).for_each(|(_, record)| record.prefetch(SCAN_AHEAD));
            let step = self.visit_leaf::<R, _>(&leaf, projection, &mut left, &mut visit);
            match (step, next) {
                (Ok(ControlFlow::Continue(())), Some(next)) => match scan.direction {
                    Direction::Forward => low = next,
                    Direction::Reverse => high = next,
                },
                (Ok(_), _) => break Ok(()),
                (Err(error), _) => break Err(error),
            }
        };
        *R::Words::leaf(&mut self.worker.leaves) = leaf;
        outcome
    }

    #[inline(always)]
    fn visit_leaf<R: Relation, J: Projection>(
        &mut self,
        leaf: &[(R::Words, RecordRef)],
        projection: J,
        left: &mut usize,
        visit: &mut impl FnMut(&mut Recall, &R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        for (at, (key, record)) in leaf.iter().enumerate() {
            if planted(Mutant::ScanSkipsFirstOfLeaf) && at == 0 && leaf.len() > 2 {
                continue;
            }
            work(Work::Row);
            P::comes_to(&mut self.worker.local, R::slot().number(), key.words());
            if let Some(value) = self.read(*record, R::LAYOUT, Intent::Scan, projection)? {
                *left -= 1;
                if visit(&mut self.worker.recall, key, value).is_break() || *left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// A copy of words that notes which column groups were changed.
struct Changes<'a> {
    words: WordsCopy<'a>,
    layout: &'static Layout,
    groups: GroupSet,
}

impl Words for Changes<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.word(index)
    }
}

impl WordsMut for Changes<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        if self.words.word(index) != value {
            self.words.set_word(index, value);
            let number = self.layout.groups.iter().position(|group: &Group| group.span.contains(index));
            self.groups |= number.map_or(0, |number| 1 << number);
        }
    }
}

/// A copy of one column group's words that ignores columns of other groups.
struct InGroup<'a> {
    words: WordsCopy<'a>,
    span: Span,
}

impl Words for InGroup<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        if self.span.contains(index) { self.words.word(index) } else { 0 }
    }
}

impl WordsMut for InGroup<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        if self.span.contains(index) {
            self.words.set_word(index, value);
        }
    }
}

/// Refuses a transaction that no frame of the log could take. Few have so many writes that they must be
/// added up.
#[inline(always)]
fn fits(writes: &WriteSet) -> Result<()> {
    const SMALL: usize = 1 << 12;
    if writes.writes().len() < SMALL { Ok(()) } else { add_up(writes) }
}

#[cold]
fn add_up(writes: &WriteSet) -> Result<()> {
    let words: usize =
        writes.writes().iter().map(|write| 1 + usize::from(write.key_words) + write.layout.words).sum();
    if words + 2 > PAYLOAD_WORDS_MAX {
        return Err(Misuse::TooLarge { limit: PAYLOAD_WORDS_MAX * 8 }.into());
    }
    Ok(())
}

#[cold]
fn not_found<T: Table>(key: T::Key) -> Error {
    Misuse::NotFound { table: T::LAYOUT.name, key: format!("{key:?}") }.into()
}

#[cold]
fn duplicate_key<T: Table>(key: T::Key) -> Error {
    Misuse::DuplicateKey { table: T::LAYOUT.name, key: format!("{key:?}") }.into()
}

#[cold]
fn duplicate_entry<I: Index>(row: &I::Table) -> Error {
    let (index, table) = (I::LAYOUT.name, <I::Table as Relation>::LAYOUT.name);
    Misuse::DuplicateEntry { index, table, entry: format!("{:?}", I::entry(row)) }.into()
}

/// Stores a primary key as an index entry's row.
fn fill_primary_key<T: Table>(row: &T) -> impl FnOnce(&mut WordsCopy<'_>) {
    let key: T::Words = encode_key(&row.key());
    move |words| key.words().iter().enumerate().for_each(|(index, word)| words.set_word(index, *word))
}

/// Adds a row's entry to each secondary index.
struct AddEntry<'a, P: Protocol, T> {
    txn: &'a mut Txn<P>,
    row: &'a T,
}

impl<P: Protocol, T: Table> IndexVisitor<T> for AddEntry<'_, P, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let entry = encode_key(&I::entry(self.row));
        match self.txn.insert_in::<I>(&entry, fill_primary_key(self.row))? {
            true => Ok(()),
            false => Err(duplicate_entry::<I>(self.row)),
        }
    }
}

/// Removes a row's entry from each secondary index.
struct RemoveEntry<'a, P: Protocol, T> {
    txn: &'a mut Txn<P>,
    row: &'a T,
}

impl<P: Protocol, T: Table> IndexVisitor<T> for RemoveEntry<'_, P, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let entry = encode_key(&I::entry(self.row));
        self.txn.delete_in::<I>(&entry).map(|_| ())
    }
}

/// Moves a row's entry in each secondary index whose columns changed.
struct MoveEntry<'a, P: Protocol, T> {
    txn: &'a mut Txn<P>,
    old: &'a T,
    new: &'a T,
}

impl<P: Protocol, T: Table> IndexVisitor<T> for MoveEntry<'_, P, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let (old, new): (I::Words, I::Words) =
            (encode_key(&I::entry(self.old)), encode_key(&I::entry(self.new)));
        if old == new {
            return Ok(());
        }
        self.txn.delete_in::<I>(&old)?;
        match self.txn.insert_in::<I>(&new, fill_primary_key(self.new))? {
            true => Ok(()),
            false => Err(duplicate_entry::<I>(self.new)),
        }
    }
}

impl<P: Protocol> Reading for Txn<P> {
    #[inline(always)]
    fn declared(&mut self, made: impl FnOnce(&mut Declaration)) {
        self.held.check(made);
    }

    #[inline(always)]
    fn at(&mut self, site: u16) -> &mut Self {
        self.held.at(site);
        if P::PIECES {
            self.site = self.first_site + site;
            P::at(&mut self.worker.local, self.site);
        }
        self
    }

    #[inline(always)]
    fn enter(&mut self, sites: u16) {
        self.held.enter(sites);
        if P::PIECES {
            self.first_site += sites;
        }
    }

    #[inline(always)]
    fn leave(&mut self, sites: u16) {
        self.held.leave(sites);
        if P::PIECES {
            self.first_site -= sites;
        }
    }

    #[inline(always)]
    fn get_in<R: Relation, J: Projection>(
        &mut self,
        key: &R::Words,
        projection: J,
    ) -> Result<Option<J::Value>> {
        let result = self.get_row::<R, J>(key, projection);
        self.guard(result)
    }

    #[inline(always)]
    fn scan_in<R: Relation, J: Projection>(
        &mut self,
        scan: Scan<R>,
        projection: J,
        visit: impl FnMut(&R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        let result = self.scan_rows(scan, projection, visit);
        self.guard(result)
    }

    #[inline]
    fn prefetch_in<C: Columns>(
        &mut self,
        rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone,
    ) {
        // Without a store there are no rows; the access itself will say what is wrong.
        let Ok(store) = self.db.stores.get::<C::Table>() else { return };
        rows.clone().for_each(|(key, _)| store.index.prefetch(&encode_key(&key)));
        for (key, columns) in rows {
            if let Lookup::Found(record) = store.index.get(&encode_key(&key)) {
                let base = data_base::<P>(<C::Table as Relation>::LAYOUT);
                record.prefetch(Span { start: 0, end: base });
                for group in Groups(columns.groups()) {
                    let span = columns.span(group);
                    record.prefetch(Span { start: base + span.start, end: base + span.end });
                }
            }
        }
    }
}

impl<P: Protocol> Transaction for Txn<P> {
    fn insert<T: Table>(&mut self, row: T) -> Result<()> {
        self.declared(|made| made.insert::<T>());
        let result = self.insert_row(row);
        self.guard(result)
    }

    fn upsert<T: Table>(&mut self, row: T) -> Result<bool> {
        self.declared(|made| made.upsert::<T>());
        let replaced = self.update_any(&encode_key(&row.key()), Row::<T>::new(), |old| *old = row);
        match self.guard(replaced)? {
            Some(()) => Ok(true),
            None => {
                let inserted = self.insert_row(row);
                self.guard(inserted).map(|()| false)
            }
        }
    }

    #[inline]
    fn update_columns<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        self.declared(|made| made.update(columns));
        let result = self.update_present(key, columns, change);
        self.guard(result)
    }

    #[inline]
    fn set_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: C::Value,
    ) -> Result<()> {
        self.declared(|made| made.set(columns));
        let watched = <C::Table as Table>::INDEXED | <C::Table as Table>::KEY_COLUMNS;
        if columns.ordinals() & watched != 0 {
            let result = self.update_present(key, columns, |old| *old = value);
            return self.guard(result);
        }
        let result = self.blind_write::<C::Table>(key, columns.groups(), |writes, write| {
            for group in Groups(columns.groups()) {
                // Stored over zeros and over ones: the bits that agree are those of the columns.
                let span = columns.span(group);
                let at = writes.reserve(span.len() * 2);
                let words = writes.scratch(at, span.len() * 2);
                let (values, masks) = words.split_at_mut(span.len());
                masks.fill(u64::MAX);
                columns.store(&value, &mut InGroup { words: WordsCopy::new(span.start, values), span });
                columns.store(&value, &mut InGroup { words: WordsCopy::new(span.start, masks), span });
                values.iter().zip(masks).for_each(|(value, mask)| *mask = !(*value ^ *mask));
                writes.merge(write, span, at);
            }
        });
        self.guard(result)
    }

    #[inline]
    fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>, key: T::Key, delta: V) -> Result<()> {
        self.declared(|made| made.add(column));
        let word = column.offset() / 8;
        if Columns::ordinals(&column) & (T::INDEXED | T::KEY_COLUMNS) != 0 {
            // An index entry must move, so the value must be known.
            let result = self.update_present(key, column, |value| *value = value.plus(delta));
            return self.guard(result);
        }
        let result = self.blind_write::<T>(key, Columns::groups(&column), |writes, write| {
            writes.add(write, word, delta.bits());
            if planted(Mutant::AddAppliedTwice) {
                writes.add(write, word, delta.bits());
            }
        });
        self.guard(result)
    }

    fn delete<T: Table>(&mut self, key: T::Key) -> Result<bool> {
        self.declared(|made| made.delete::<T>());
        let result = self.delete_row::<T>(&encode_key(&key));
        self.guard(result)
    }
}
