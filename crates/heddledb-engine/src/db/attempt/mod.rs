//! A running transaction: operations in words above, records and a protocol below.
//!
//! An [`Attempt`] is a worker's place in the database with everything that an execution of a transaction
//! needs, reused from attempt to attempt. Its operations find the record of a key, let the protocol read or
//! announce, and keep writes in the write set. Entries of secondary indexes are records of relations like any
//! other and come here as operations of their own, so they are as safe as any other under every protocol.
//!
//! | room | what is there |
//! |---|---|
//! | `life` | beginning and ending: gate, commit, abort, what is left behind |
//! | `call` | calls: sites, answers that are told again, executing a body again |
//! | `modes` | how calls are executed: whole, in pieces, in parts that commit, in turn; the hook of all of these |
//! | `ahead` | records that a prefetch has found |
//! | `read` | finding a record; reading it in place, or by a copy |
//! | `write` | staging and storing, inserts, patches, deletions |
//! | `scan` | going through leaves |
//! | `take_back` | refused operations, savepoints |
//! | `deferred` | intentions of deferring transactions |
//! | `worker` | all this as a [`Worker`](crate::seam::Worker) |

mod ahead;
mod call;
mod deferred;
mod life;
mod modes;
mod read;
mod scan;
mod snapshot;
mod take_back;
mod worker;
mod write;

pub(super) use modes::SharedStates;

use super::garbage::Garbage;
use super::procedures::PlanCache;
use super::recall::ReplayLog;
use super::{Handle, Inner};
use crate::access::WriteSet;
use crate::arena::{Arena, Exchange};
use crate::commit::LeftOver;
use crate::error::Conflict;
use crate::index::{Direction, Leaf};
use crate::intentions::Plan;
use crate::protocol::{Execution, Isolation, Protocol};
use crate::record::{RecordRef, heads_base};
use crate::sync::{Random, Suspender};
use crate::table::Layout;
use ahead::Ahead;
use modes::{Answer, States};
use std::sync::Arc;

/// What belongs to a worker's place and outlives its session: its memory and its local state.
pub(crate) struct WorkerState<P: Protocol> {
    pub number: usize,
    pub local: P::Local,
    pub writes: WriteSet,
    /// What the attempt intends with rows at its commit.
    plan: Plan,
    /// Somebody had the key of a row that the last attempt made: nothing is deferred until one has ended otherwise.
    taken_by_others: bool,
    pub arena: Arena,
    pub garbage: Garbage,
    /// A block that an index is about to be given, and its relation's number: only where a region may end that
    /// ([`Protocol::REGIONS`]).
    lent: Option<(usize, RecordRef)>,
    /// Keys that were added to indexes in the region.
    untended: Untended,
    /// Placeholders that this attempt put into indexes.
    placeholders: Vec<Placeholder>,
    /// What this attempt's commit leaves to be reclaimed.
    left: LeftOver,
    /// The leaf that a scan is in.
    pub leaf: Leaf,
    /// What the attempt has asked for ahead.
    ahead: Ahead,
    /// The key that was looked for last and had no record.
    missed: Missed,
    /// The relation and direction of the attempt's last scan, whose last leaf is in `leaf` still.
    scanned: Option<(usize, Direction)>,
    pub random: Random,
    pub last_commit: u64,
    /// The plan of the registered procedures.
    pub plan_cache: PlanCache,
    /// The answers that the running call was given.
    pub(super) replay_log: ReplayLog,
    /// Placeholders from before the piece that runs.
    placeholders_before: usize,
    /// Lets the thread's other sessions run while this one waits.
    pub suspender: Option<Suspender>,
    /// The call that begins next, or runs, for the log.
    call: CallAtHand,
}

/// A call, for a log of commands.
#[derive(Default)]
struct CallAtHand {
    /// The number of its procedure in the files; `None` if the log says of it what it has written.
    procedure: Option<u16>,
    /// Its arguments as bytes.
    arguments: Vec<u8>,
    /// How many were executed twice, or could have been.
    looked_at: u32,
}

/// What the log says of an attempt's commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logs {
    Rows,
    /// Which call it was, where it was one that has told all.
    Calls,
    /// Nothing: they are in the log, and made again.
    Nothing,
}

/// A key that was looked for and had no record.
#[derive(Default)]
struct Missed {
    relation: usize,
    key: Vec<u64>,
}

impl Missed {
    fn set(&mut self, relation: usize, key: &[u64]) {
        self.relation = relation;
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn is(&self, relation: usize, key: &[u64]) -> bool {
        self.relation == relation && self.key == key
    }

    fn forget(&mut self) {
        self.key.clear();
    }
}

/// Keys that were added to indexes, in a region or where there could be one, behind which the indexes are to be tended; also those
/// whose rows were taken back since.
#[derive(Default)]
struct Untended {
    /// Relation and width of each.
    keys: Vec<(usize, usize)>,
    words: Vec<u64>,
}

impl Untended {
    fn push(&mut self, relation: usize, key: &[u64]) {
        self.keys.push((relation, key.len()));
        self.words.extend_from_slice(key);
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.words.clear();
    }
}

/// The absent record of an insert that has not committed.
struct Placeholder {
    relation: u32,
    layout: &'static Layout,
    /// Where its key is in the scratch buffer.
    key: u32,
    key_words: u8,
    record: RecordRef,
    /// It was put there for an intention, which may leave it without a row.
    intended: bool,
}

impl<P: Protocol> WorkerState<P> {
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
            plan: Plan::default(),
            taken_by_others: false,
            arena: Arena::new(exchange),
            garbage: Garbage::default(),
            lent: None,
            untended: Untended::default(),
            placeholders: Vec::new(),
            left: LeftOver::default(),
            leaf: Leaf::default(),
            ahead: Ahead::default(),
            missed: Missed::default(),
            scanned: None,
            random: Random::new(number as u64),
            last_commit: 0,
            plan_cache: PlanCache::default(),
            replay_log: ReplayLog::default(),
            placeholders_before: 0,
            suspender: None,
            call: CallAtHand::default(),
        }
    }

    /// A worker that takes over memory which recovery filled.
    pub fn with_memory(self, arena: Arena, garbage: Garbage) -> Self {
        let arena = arena.with_exchange_of(&self.arena);
        Self { arena, garbage, ..self }
    }

    /// Leaves a placeholder to reclamation.
    fn give_up_placeholder(&mut self, at: usize, now: u64) {
        let Placeholder { relation, layout, key, key_words, record, .. } = self.placeholders[at];
        let key = self.writes.scratch(key as usize, key_words as usize);
        self.garbage.absent(now, relation, key, record, record.word(heads_base::<P>(layout)));
    }
}

/// A row that is about to be changed.
#[derive(Clone, Copy)]
struct StagedRow {
    record: RecordRef,
    /// Where its words are in the scratch buffer.
    at: usize,
}

/// A worker's running transaction under protocol `P`, or its place for the next.
pub(crate) struct Attempt<P: Protocol> {
    /// Keeps the database open.
    pub(super) handle: Arc<Handle<P>>,
    pub(super) db: Arc<Inner<P>>,
    pub(super) worker: Box<WorkerState<P>>,
    /// An operation has failed, so the attempt can only be aborted.
    pub(super) failed: bool,
    /// The database was opened to be read.
    reads_only: bool,
    logs: Logs,
    /// The attempt is a call of a registered procedure.
    called: bool,
    /// How it is executed: as a closure is, or as a call in the database's mode.
    executed: Execution,
    /// What it keeps for that mode.
    modes: States,
    /// How often pieces of it failed.
    failures: u32,
    /// What it may see of others.
    pub(super) isolation: Isolation,
    /// The epoch of its commits, where that is fixed, and a time that they must be above.
    epoch: Option<u64>,
    after: u64,
    /// Its body runs to find out what it will access: nothing is written.
    dry: bool,
    /// Where the last operation of a call got its answer.
    answer: Answer,
    /// The attempt keeps the gate closed.
    gate: bool,
    /// The attempt has the turn, to run alone.
    turn: bool,
    /// It has the turn of pieces that have failed often.
    piece_turn: bool,
    /// The row that was staged last.
    staged: Option<StagedRow>,
    /// Why the last attempt could not begin, until it is asked for.
    refusal: Option<Conflict>,
}

/// So often pieces of one attempt fail before no other transaction may begin, and one piece before it waits for its turn.
const OFTEN: u32 = 32;

/// What a scan asks for ahead of each record in a leaf, in words: its concurrency words and first columns.
pub(super) const SCAN_AHEAD: usize = 12;

/// How many absent rows a scan with a limit expects to pass.
pub(super) const SCAN_PASSES: usize = 8;

impl<P: Protocol> Attempt<P> {
    /// One that makes commits of the log again: calls are executed as closures are, and nothing is logged.
    pub(super) fn replaying(handle: Arc<Handle<P>>, worker: Box<WorkerState<P>>) -> Self {
        Self { logs: Logs::Nothing, reads_only: false, ..Self::new(handle, worker) }
    }

    pub(super) fn new(handle: Arc<Handle<P>>, worker: Box<WorkerState<P>>) -> Self {
        let db = Arc::clone(&handle.inner);
        Self {
            handle,
            isolation: db.isolation,
            reads_only: db.log.as_ref().is_some_and(|log| log.is_read_only()),
            logs: if db.logs_calls() { Logs::Calls } else { Logs::Rows },
            db,
            worker,
            failed: false,
            called: false,
            executed: Execution::Whole,
            modes: States::default(),
            failures: 0,
            epoch: None,
            after: 0,
            dry: false,
            answer: Answer::Live,
            gate: false,
            turn: false,
            piece_turn: false,
            staged: None,
            refusal: None,
        }
    }
}
