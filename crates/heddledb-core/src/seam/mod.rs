//! The seam between the typed front and the engine: operations in words.
//!
//! Above it are typed keys, rows, columns, procedures and sessions, compiled once for all protocols. Below it an
//! engine runs one protocol, which is a static type parameter there. One indirect call per operation crosses it:
//! [`Worker::get`], [`Worker::insert`], [`Worker::patch`], [`Worker::delete`], [`Worker::scan`], and [`Worker::stage`] for
//! the update of one column group; two where there are more ([`Worker::store`] says which of them the user's closure
//! changed). Keys and rows are words; relations
//! are data ([`Definition`]).
//!
//! **Life of an attempt.** [`Worker::begin`], then operations, then [`Worker::end`] with what became of the body.
//! After `end` said [`Ended::Again`] the body is executed again, in the same attempt; otherwise the attempt is over.
//! After an operation has failed, only `end` follows. An operation that cannot be met has not failed: it has an answer
//! ([`Inserted::Exists`], [`Staged::Missing`]), and [`Worker::refuse`] says that it did nothing.
//!
//! What a worker does with intentions, and what runs them, is in a part of its own: [`Defers`], [`Operators`].

mod deferred;
mod gathered;
mod replayer;
mod summand;
mod ticket;

use crate::backup::{Backup, BackupReport};
use crate::check::CheckReport;
use crate::error::{Conflict, Error, Result};
use crate::isolation::Isolation;
use crate::kind::Choice;
use crate::procedure::{Declaration, Plan, Told};
use crate::settings::{Limits, Settings};
use crate::sight::Sight;
use crate::table::{Definition, Direction, GROUPS_MAX, GroupSet, Span};
use crate::values::Values;
use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

pub use self::deferred::{Applied, Defers, Intention, Operators};
pub use self::gathered::{Job, Task};
pub use self::replayer::{MakeReplayer, Replayer};
pub use self::summand::Summand;
pub use self::ticket::{Acknowledges, Ticket};
pub use crate::metrics::{CheckpointReport, Metrics, Recovery, Stats};
pub use crate::transaction::Savepoint;

/// Which part of a relation's rows is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The table or index.
    pub relation: &'static Definition,
    /// The column groups.
    pub groups: GroupSet,
    /// Of a row's data words, those from the first to the last column.
    pub span: Span,
    /// The words of each group, by its number, where these are fewer than those of `span`.
    pub spans: Option<&'a [Span; GROUPS_MAX]>,
}

impl Part<'_> {
    /// Whole rows.
    pub fn whole(relation: &'static Definition) -> Self {
        let layout = relation.layout;
        Self {
            relation,
            groups: layout.all_groups(),
            span: Span { start: 0, end: layout.words },
            spans: None,
        }
    }

    /// Whether a row exists, without any of its words.
    #[inline(always)]
    pub fn existence(relation: &'static Definition, groups: GroupSet) -> Self {
        Self { relation, groups, span: Span { start: 0, end: 0 }, spans: None }
    }

    /// The words of a column group that are wanted.
    #[inline(always)]
    pub fn span_of(&self, group: usize) -> Span {
        if let Some(spans) = self.spans {
            spans[group]
        } else if self.groups.is_power_of_two() {
            self.span
        } else {
            let all = self.relation.layout.groups[group].span;
            Span { start: all.start.max(self.span.start), end: all.end.min(self.span.end) }
        }
    }
}

/// Which part of which row an operation is about.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The relation, and the words of the row.
    pub wanted: Part<'a>,
    /// The key's words, as many as the relation says.
    pub key: &'a [u64],
    /// The site of the procedure, counted over all procedures that run within the one that was called.
    pub site: u16,
    /// Whether this is a part of the operation before: an index entry, or the row to which an entry led.
    pub part: bool,
}

/// What a scan asks for.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The relation, and the words of each row.
    pub wanted: Part<'a>,
    /// The lowest and the highest key, both included; `None` for no key at all.
    pub bounds: Option<(&'a [u64], &'a [u64])>,
    /// Where it begins.
    pub direction: Direction,
    /// The most rows.
    pub limit: usize,
    /// As in [`Access`].
    pub site: u16,
}

/// Rows that will be used soon, for [`Worker::prefetch`].
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    /// The table.
    pub relation: &'static Definition,
    /// Of each row: the key's words, then the first of the words that are wanted, and the one after the last.
    pub rows: &'a [u64],
}

/// What a staged row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be changed, and stored whatever becomes of it.
    Update,
    /// To be changed, and looked at before it is stored.
    UpdateWatched,
    /// To be changed, and index entries with it.
    UpdateWithEntries,
    /// To be deleted, and index entries with it.
    DeleteWithEntries,
}

/// A row that is about to be changed.
pub enum Staged<'a> {
    /// There is none.
    Missing,
    /// A private copy, from data word 0 on. What becomes of it is stored by [`Worker::store`].
    New(&'a mut [u64]),
    /// The same, and stored already: what is made of it counts without [`Worker::store`]. Only for [`Purpose::Update`].
    Stored(&'a mut [u64]),
    /// The body was executed before up to here.
    Old {
        /// As it was then. All that was done with it stands.
        words: &'a mut [u64],
        /// Unless the operation was refused.
        refused: Option<Refused>,
    },
}

/// What came of an insert.
pub enum Inserted<'a> {
    /// There is such a row.
    Exists,
    /// The words to be filled.
    New(&'a mut [u64]),
    /// The body was executed before up to here: all that it did stands.
    Old,
    /// It was executed before up to here, and the operation was refused for this entry.
    Refused {
        /// Its number, as in [`Refused::Entry`].
        entry: u8,
    },
}

/// Why an operation is answered with a misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// For the row itself: it is there, or is not, or may not be changed so. Nothing was done.
    Row,
    /// The entry of this number, counted over the indexes of the table, is there. What was done since
    /// [`Worker::begin_operation`] is taken back.
    Entry(u8),
}

impl Refused {
    /// A number above 0.
    pub fn number(self) -> u64 {
        match self {
            Self::Row => 1,
            Self::Entry(entry) => 2 + u64::from(entry),
        }
    }

    /// What has this number; nothing has 0.
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => None,
            1 => Some(Self::Row),
            entry => Some(Self::Entry((entry - 2) as u8)),
        }
    }
}

/// A write to a row whose present value does not matter.
#[derive(Clone, Copy, Debug)]
pub enum Patch<'a> {
    /// Adds to a data word.
    Add {
        /// The word.
        word: usize,
        /// What is added.
        summand: Summand,
    },
    /// Replaces those bits of the access's span that are ones in the masks. As many masks as values.
    Merge {
        /// The words of the span.
        values: &'a [u64],
        /// Which of their bits count.
        masks: &'a [u64],
    },
}

/// How a visit of a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Go on.
    More,
    /// That was enough.
    Enough,
    /// The sight did not stand: the same row again.
    Torn,
}

/// Which procedure is called.
#[derive(Clone, Copy, Debug)]
pub enum Callee {
    /// That of this type.
    Type(TypeId),
    /// That of this number.
    Number(Registered),
}

/// What became of a body.
pub enum Body {
    /// It came to its end; `failed` if an operation had failed before.
    Done {
        /// An operation has failed.
        failed: bool,
    },
    /// It returned an error.
    Gave(Error),
    /// It panicked.
    Panicked,
}

impl Body {
    /// It came to its end.
    pub fn is_done(&self) -> bool {
        matches!(self, Body::Done { .. })
    }
}

/// What becomes of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has committed.
    Committed,
    /// The body is to be executed again.
    Again,
    /// It was aborted, and the panic is real.
    Panics,
    /// It was aborted, and has told what it accesses: the call is a task to be announced.
    Announced,
}

/// A procedure that was registered, by whom it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(pub u16);

/// A procedure that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcedureInfo {
    /// Its name.
    pub name: String,
    /// Whether it can be called by it, and not by its type only.
    pub by_name: bool,
}

impl ProcedureInfo {
    /// A procedure of that name.
    #[doc(hidden)]
    pub fn new(name: String, by_name: bool) -> Self {
        Self { name, by_name }
    }
}

/// A call of one procedure on a session, its arguments and result as bytes.
pub type CallByName = fn(session: &mut dyn Any, arguments: &[u8]) -> Result<Vec<u8>>;

/// The moment of a snapshot: it sees what was committed in this epoch and before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub u64);

impl Moment {
    /// The epoch.
    pub fn epoch(self) -> u64 {
        self.0
    }
}

/// What can suspend a waiting session, so that others of its thread go on.
pub trait Suspend: Send + Sync {
    /// Lets the thread's other tasks run; `in_vain` if this one has looked again since and still waits. False if that
    /// is impossible, because it is not called by the task itself.
    fn suspend(&self, in_vain: bool) -> bool;
}

/// An open database under one protocol.
pub trait Engine: Send + Sync {
    /// A place for one more session; waits for a free one for so long.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`](crate::Misuse::TooManySessions); after a wait
    /// [`Misuse::NoSessionFree`](crate::Misuse::NoSessionFree).
    fn worker(self: Arc<Self>, patience: Duration) -> Result<Box<dyn Worker>>;
    /// Who keeps the values that are not in their rows.
    fn values(&self) -> Arc<dyn Values>;
    /// For how long, and how often, something is tried.
    fn limits(&self) -> Limits;
    /// Makes a relation now instead of at its first use, sized for `rows` rows.
    ///
    /// # Errors
    /// [`Misuse::TooManyTables`](crate::Misuse::TooManyTables), [`Misuse::Undeclared`](crate::Misuse::Undeclared).
    fn create(&self, relation: &'static Definition, rows: usize) -> Result<()>;
    /// The relation of that name, if there is one.
    fn relation(&self, name: &str) -> Option<&'static Definition>;
    /// Registers a procedure, unless it is registered.
    ///
    /// # Errors
    /// As `Database::register`.
    fn register(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName>,
    ) -> Result<Registered>;
    /// Removes a procedure; false if it was not registered.
    ///
    /// # Errors
    /// As `Database::unregister`.
    fn unregister(&self, which: Callee) -> Result<bool>;
    /// The registered procedures, in the order of their names.
    fn procedures(&self) -> Vec<ProcedureInfo>;
    /// The plan under which procedures run now.
    fn plan(&self) -> Arc<Plan>;
    /// Makes a vertex of the present plan hot, or cold.
    fn adapt(&self, vertex: u16, hot: bool);
    /// What all workers did, and what the database holds.
    fn metrics(&self) -> Metrics;
    /// Advances the epoch by one, unless a commit that is under way holds it back.
    fn advance_epoch(&self) -> bool;
    /// Makes everything durable that was committed before the call.
    ///
    /// # Errors
    /// As `Database::flush`.
    fn flush(&self) -> Result<()>;
    /// Writes a checkpoint.
    ///
    /// # Errors
    /// As `Database::checkpoint`.
    fn checkpoint(&self) -> Result<CheckpointReport>;
    /// Takes a copy.
    ///
    /// # Errors
    /// As `Database::backup`.
    fn backup(&self, backup: &Backup) -> Result<BackupReport>;
    /// Compares each index with its table, and checks each file.
    ///
    /// # Errors
    /// As `Database::check`.
    fn check(&self) -> Result<CheckReport>;
    /// Lets the log go on after a failure.
    ///
    /// # Errors
    /// As `Database::resume`.
    fn resume(&self) -> Result<()>;
    /// Makes the commits again that the directory's log has as calls, and those after them. The procedures are registered;
    /// nobody else uses the database before.
    ///
    /// # Errors
    /// As `Builder::open`.
    fn finish_opening(self: Arc<Self>, replayer: MakeReplayer) -> Result<()>;
    /// Whether calls are logged as such.
    fn logs_calls(&self) -> bool;
    /// What was found when the directory was opened.
    fn recovery(&self) -> Option<&Recovery>;
    /// Whether calls are gathered into batches: then [`Engine::gather`] and [`Worker::next_task`] are how submitted calls
    /// are executed.
    fn gathers(&self) -> bool;
    /// Takes a call, to be executed behind all that were taken, or, if it is to be among the first, behind these only.
    fn gather(&self, job: Arc<dyn Job>, first: bool);
    /// No more calls will come: who waits for tasks is told so when all are done.
    fn end_gathering(&self);
    /// The protocol's name.
    fn protocol(&self) -> &'static str;
    /// The isolation levels that the protocol offers with its options, the strongest first.
    fn levels(&self) -> &'static [Isolation];
    /// Whether commits are logged.
    fn is_logged(&self) -> bool;
    /// When commits count as done, unless a session is told otherwise.
    fn durability(&self) -> crate::settings::Durability;
}

/// What opens databases: an engine's `open`.
pub type Open = fn(Choice, Settings) -> Result<Arc<dyn Engine>>;

/// A session's place in an engine: runs one attempt at a time.
pub trait Worker: Defers + Send {
    /// The engine that it is a place of.
    fn engine(&self) -> Arc<dyn Engine>;
    /// Its number.
    fn number(&self) -> usize;
    /// Gives the place back, with its memory, for another session.
    fn release(self: Box<Self>);

    /// Begins an attempt, of a closure or of a call; `retry` counts the earlier ones of the same transaction. False,
    /// and nothing has begun, if there is no such procedure, or if the time to begin is over ([`Worker::refusal`]).
    fn begin(&mut self, retry: u32, call: Option<Callee>) -> bool;
    /// Why the last attempt did not begin, if it was kept from it for too long.
    fn refusal(&mut self) -> Option<Conflict>;
    /// Ends an attempt, or an execution of its body.
    ///
    /// # Errors
    /// What the caller hears of an attempt that did not commit, a conflict among it.
    fn end(&mut self, body: Body) -> Result<Ended>;
    /// Ends an attempt without effect.
    fn abort(&mut self);
    /// Whether everything read so far still stands.
    ///
    /// # Errors
    /// If it does not.
    fn validate(&mut self) -> Result<(), Conflict>;
    /// Waits a little, for longer the more often the transaction was tried.
    fn back_off(&mut self, retry: u32);
    /// Whether the call that has begun is to tell what it will access, rather than to run.
    fn wants_told(&self) -> bool;
    /// The call will access this. False if its body must be executed to find out the rest.
    fn tell(&mut self, told: Told<'_>) -> bool;
    /// Which procedure the call that begins next is of, for a log of commands; `None` for one that has no version. Returns where its
    /// arguments are to be written as bytes, if they are wanted.
    fn call_at_hand(&mut self, procedure: Option<TypeId>) -> Option<&mut Vec<u8>>;
    /// The digest of what was written since it was asked for last, of a worker that makes commits of a log again.
    fn written(&mut self) -> u64;
    /// What is to be done with which call that was gathered. `None` if there is nothing, or, for one that waits, if there will be
    /// nothing.
    fn next_task(&mut self, waits: bool) -> Option<Task>;
    /// The task was done.
    fn end_task(&mut self);

    /// Reads a row.
    ///
    /// # Errors
    /// Conflicts, and misuse; so of all operations.
    fn get(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>>;
    /// Reads it once more, where what [`Worker::get`] had returned did not stand: this stands.
    ///
    /// # Errors
    /// As there.
    fn get_again(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>>;
    /// Reads a row that is about to be changed.
    ///
    /// # Errors
    /// As all operations.
    fn stage(&mut self, access: &Access<'_>, purpose: Purpose) -> Result<Staged<'_>>;
    /// Writes these column groups of the row that was staged last, as they are now.
    ///
    /// # Errors
    /// As all operations.
    fn store(&mut self, access: &Access<'_>, changed: GroupSet) -> Result<()>;
    /// Makes a row exist.
    ///
    /// # Errors
    /// As all operations.
    fn insert(&mut self, access: &Access<'_>) -> Result<Inserted<'_>>;
    /// Changes a row without reading it; false if there is none.
    ///
    /// # Errors
    /// As all operations.
    fn patch(&mut self, access: &Access<'_>, patch: Patch<'_>) -> Result<bool>;
    /// Makes a row not exist; false if there is none.
    ///
    /// # Errors
    /// As all operations.
    fn delete(&mut self, access: &Access<'_>) -> Result<bool>;
    /// An operation begins that consists of several, and may be refused after some of them.
    fn begin_operation(&mut self);
    /// The operation before is answered with a misuse; the attempt goes on, as if it had done nothing but read.
    ///
    /// # Errors
    /// Conflicts.
    fn refuse(&mut self, refused: Refused) -> Result<()>;
    /// Opens a savepoint.
    ///
    /// # Errors
    /// [`Misuse::SavepointInProcedure`](crate::Misuse::SavepointInProcedure).
    fn save(&mut self) -> Result<Savepoint>;
    /// Closes a savepoint, and those opened after it: what was written since stays.
    fn keep(&mut self, savepoint: Savepoint);
    /// Closes it and those, and takes back what was written since. What was read since is checked as before.
    ///
    /// # Errors
    /// Conflicts.
    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()>;
    /// Visits rows in the order of their keys: key words and row.
    ///
    /// # Errors
    /// As all operations.
    fn scan(&mut self, range: &Range<'_>, visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit) -> Result<()>;
    /// Asks for the memory of rows. A hint.
    fn prefetch(&mut self, ahead: &Ahead<'_>);

    /// Begins a snapshot, of now or of a recent moment, and waits until it can be read.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`](crate::Misuse::EpochHeld).
    fn begin_snapshot(&mut self, recent: bool) -> Result<Moment>;
    /// Ends it.
    fn end_snapshot(&mut self, moment: Moment);
    /// Reads a row as of a moment.
    ///
    /// # Errors
    /// Misuse.
    fn get_at(&mut self, moment: Moment, access: &Access<'_>) -> Result<Option<Sight<'_>>>;
    /// Visits rows as of a moment.
    ///
    /// # Errors
    /// Misuse.
    fn scan_at(
        &mut self,
        moment: Moment,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()>;
    /// As [`Worker::prefetch`], outside of an attempt.
    fn prefetch_at(&mut self, ahead: &Ahead<'_>);

    /// Waits until everything committed up to an epoch is durable.
    ///
    /// # Errors
    /// As `Session::run`.
    fn wait_durable(&self, epoch: u64) -> Result<()>;
    /// A ticket for the last commit.
    fn ticket(&self) -> Ticket;
    /// The stamp of the last commit.
    fn last_commit(&self) -> u64;
    /// The isolation level of its attempts.
    fn isolation(&self) -> Isolation;
    /// Sets it; one of those that the engine offers.
    fn set_isolation(&mut self, level: Isolation);
    /// What this place did so far.
    fn stats(&self) -> Stats;
    /// How a procedure is called by name.
    ///
    /// # Errors
    /// As `Session::call_named`.
    fn by_name(&mut self, name: &str) -> Result<CallByName>;
    /// How it waits for other transactions from now on; it spins if it is told nothing.
    fn suspend_by(&mut self, suspender: Option<Arc<dyn Suspend>>);
    /// Waits for other transactions until `within` from now, and then for none, and no longer than `each` at a time: what
    /// waits conflicts. For as long as it takes, or as the database's settings say, if it is told nothing.
    fn wait_within(&mut self, within: Option<Duration>, each: Option<Duration>);
    /// Whether transactions of other sessions may be suspended on this thread, so that one that waits lets them go on.
    fn shares_thread(&self) -> bool;
    /// Whether that time is over.
    fn is_overdue(&self) -> bool;
}
