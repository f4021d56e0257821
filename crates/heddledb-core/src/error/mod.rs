//! The one error channel, and the reasons for which a transaction aborts.

mod conflict;
mod object;

pub use conflict::Conflict;
pub use object::ObjectMisuse;

use crate::log::LogError;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The result of an operation inside or around a transaction.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong in or around a transaction. Two words wide, so that it travels cheaply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The attempt conflicted with another transaction. Return it with `?`; `Session::run` retries.
    #[error("the transaction conflicted with another ({0}); run it again")]
    Conflict(Conflict),
    /// The transaction decided to abort. Never retried.
    #[error("{0}")]
    User(#[source] Box<dyn StdError + Send + Sync>),
    /// A misuse of the database; see [`Misuse`]. Never retried.
    #[error("{0}")]
    Misuse(Box<Misuse>),
    /// The log failed while a commit waited for it: the transaction took effect in memory, and whether it
    /// is on the disk will be known when the directory is opened again. `Database::resume` makes it durable, if it
    /// succeeds.
    #[error(
        "the outcome is unknown: {0}; resume the log (`Database::resume`), or open the database again to see what survived"
    )]
    OutcomeUnknown(#[source] Arc<LogError>),
    /// The log has failed before, so nothing was done.
    #[error(
        "the log has failed, so nothing is written: {0}; when its cause is gone, resume it (`Database::resume`) or open the database again"
    )]
    LogFailed(#[source] Arc<LogError>),
    /// A directory cannot be opened.
    #[error("{0}")]
    Open(#[source] Box<LogError>),
    /// The transaction was tried as often, or for as long, as it may be, and conflicted each time. Nothing was changed.
    #[error("{0}")]
    GaveUp(Box<GaveUp>),
}

/// A transaction that was tried as often, or for as long, as it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GaveUp {
    /// How many attempts there were.
    pub attempts: u32,
    /// Why the last one aborted.
    pub conflict: Conflict,
    /// The row that the last attempt was about to access when it met the conflict; None where that was found at its
    /// begin or its commit.
    pub at: Option<Met>,
    /// The thread has another transaction open, for which this one may have waited, or which this one may have disturbed.
    pub within_another: bool,
}

/// A row that a transaction was about to access.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Met {
    /// The name of its table, or of its index.
    pub relation: &'static str,
    /// The key's words, as they are ordered.
    pub key: Vec<u64>,
}

impl GaveUp {
    /// After so many attempts.
    #[doc(hidden)]
    pub fn new(attempts: u32, conflict: Conflict, at: Option<Met>, within_another: bool) -> Self {
        Self { attempts, conflict, at, within_another }
    }
}

impl Met {
    /// The row of that key.
    #[doc(hidden)]
    pub fn new(relation: &'static str, key: &[u64]) -> Self {
        Self { relation, key: key.to_vec() }
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, conflict, at, within_another } = self;
        let times = if *attempts == 1 { "attempt" } else { "attempts" };
        write!(
            f,
            "the transaction was given up after {attempts} {times}; the last one conflicted ({conflict}) "
        )?;
        match at {
            Some(Met { relation, key }) => write!(f, "at key {key:x?} of {relation}")?,
            None => f.write_str("at its begin or its commit")?,
        }
        f.write_str(if *within_another {
            "; another transaction of this thread is open and cannot go on meanwhile: do the work of both in one transaction, \
             or end the other one first"
        } else {
            "; run it again later, allow it more attempts or time, or end what holds the row"
        })
    }
}

/// A request that cannot be met, with what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// An update or add of a row that is not there.
    #[error("table {table} has no row with key {key}; use get or upsert where a row may be missing")]
    NotFound {
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// An insert of a row that is already there.
    #[error("table {table} already has a row with key {key}; use upsert to replace it")]
    DuplicateKey {
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// Two rows with equal columns of a unique index.
    #[error("unique index {index} of table {table} already has an entry {entry}")]
    DuplicateEntry {
        /// The index.
        index: &'static str,
        /// The table.
        table: &'static str,
        /// The indexed columns' values.
        entry: String,
    },
    /// An update that changed the primary key.
    #[error("an update may not change the key of table {table}; delete the row and insert it anew")]
    KeyChanged {
        /// The table.
        table: &'static str,
    },
    /// A scan of a relation without order.
    #[error("table {table} has a hash index and cannot be scanned; declare it without `hash`")]
    NotOrdered {
        /// The table.
        table: &'static str,
    },
    /// A body that, executed again with the same answers, did something else.
    #[error(
        "a procedure did something else when it was executed again with the same answers; let it depend on its arguments and on what it reads alone"
    )]
    Diverged,
    /// A procedure that gave up after pieces of it had committed one by one.
    #[error(
        "a procedure gave up after a piece of it was committed, and that stands: {why}; put `#[no_abort]` behind whatever may give up"
    )]
    PiecesStand {
        /// Why it gave up.
        why: String,
    },
    /// A procedure that accessed, behind its mark `#[later]`, what it had not come to with other answers, or had not told.
    #[error(
        "a procedure accessed a key of table `{table}` that depends on what it had read behind `#[later]`, or that it had not told as often ({key}); put the mark behind what such keys depend on, and let `announce` tell each access"
    )]
    Unforeseen {
        /// The table, or the index.
        table: &'static str,
        /// The key's words.
        key: String,
    },
    /// An access of a call at a site that its procedure does not have.
    #[error("a call accesses the database at site {site}, which its procedure does not declare")]
    NoSite {
        /// The number of the site.
        site: u16,
    },
    /// A call of a procedure that the database does not know.
    #[error(
        "procedure {name} is not registered{}; name it with `Builder::procedure` or `Database::register`, or, to call it by its \
         name, with `Builder::named_procedure` or `Database::register_named`",
        choice(alike)
    )]
    NotRegistered {
        /// The procedure.
        name: String,
        /// After a call by name: what can be called by name, the most alike first, eight at most.
        alike: Vec<String>,
    },
    /// A call by name of a procedure that was registered by its type only.
    #[error(
        "procedure {name} cannot be called by name; register it with `Builder::named_procedure` or `Database::register_named`"
    )]
    NotByName {
        /// The procedure.
        name: String,
    },
    /// Bytes that are not a procedure's arguments, or not its result.
    #[error(
        "the {part} of procedure {procedure} cannot be decoded as `{expected}`: {why}; encode that very type, with `NamedProcedure` or in postcard's format"
    )]
    Undecodable {
        /// The procedure.
        procedure: &'static str,
        /// `arguments` or `result`.
        part: &'static str,
        /// What was expected: the type.
        expected: &'static str,
        /// What the matter is with the bytes.
        why: String,
    },
    /// Arguments or a result that have no bytes.
    #[error(
        "the {part} of procedure {procedure}, `{given}`, cannot be encoded: {why}; change how the type is serialized"
    )]
    Unencodable {
        /// The procedure.
        procedure: &'static str,
        /// `arguments` or `result`.
        part: &'static str,
        /// The type.
        given: &'static str,
        /// What the matter is with the value.
        why: String,
    },
    /// A commit after an operation of the transaction returned an error that ends it ([`Error::ends_transaction`]).
    #[error("an operation of this transaction failed, so it cannot commit; hand its error on with `?`")]
    Failed,
    /// A savepoint in a call of a procedure.
    #[error(
        "a procedure can have no savepoint, since others may have seen a piece of it that would be taken back; use `Session::run`, or look before you write"
    )]
    SavepointInProcedure,
    /// All worker places are taken.
    #[error(
        "all {limit} sessions of this database are in use; drop one, or open it with more by `sessions(..)`"
    )]
    TooManySessions {
        /// How many there are.
        limit: usize,
    },
    /// A commit or call that is under way, or a transaction older than a change of procedures, has not ended.
    #[error(
        "what is waited for has not ended for {seconds} s: a commit or call that is under way, or, where procedures are registered, an open transaction; `Metrics::oldest_transaction` names its session"
    )]
    EpochHeld {
        /// How long was waited.
        seconds: u64,
    },
    /// A submitted call, or room for one, was waited for where its own thread has a transaction open.
    #[error(
        "a submitted call, which goes on, has not ended within half a second, and may wait for a transaction that this thread has open: submit calls in a body or beside an owned transaction, and wait for them when it has ended"
    )]
    WaitsWithin,
    /// A write, or a checkpoint, of a database that was opened to be read.
    #[error("the database was opened to be read; open it without `Builder::read_only` to write")]
    ReadOnly,
    /// No session became free while one was waited for.
    #[error(
        "all {limit} sessions of this database were in use for {waited:?}; hold them for less long, or open it with more by `sessions(..)` or more patience by `session_wait(..)`"
    )]
    NoSessionFree {
        /// How many there are.
        limit: usize,
        /// How long was waited.
        waited: Duration,
    },
    /// An owned transaction that was open for longer than one may be.
    #[error(
        "this transaction was open for longer than {limit:?}, so it was ended without effect; begin it anew, or allow more by `transaction_timeout(..)`"
    )]
    TransactionTimedOut {
        /// How long one may be open.
        limit: Duration,
    },
    /// A table or index of the name of another, which the database has by another definition: a Rust type of that name, or one
    /// that was defined at run time.
    #[error(
        "the database has another table or index {relation} already; give one another name, or, where both are the same table, \
         use the Rust type before `Database::define`"
    )]
    TwoOfOneName {
        /// Its name.
        relation: &'static str,
    },
    /// A table of a database with files that was not named when it was opened.
    #[error("table {table} was not declared; name it with `Builder::table` before the directory is opened")]
    Undeclared {
        /// The table.
        table: &'static str,
    },
    /// A text or a list of bytes that is longer than one may be.
    #[error(
        "a value of {bytes} bytes for a row of {table}, and one has at most {limit}; keep it in several rows"
    )]
    ValueTooLong {
        /// The table.
        table: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The most that one may have.
        limit: usize,
    },
    /// A text or a list of bytes that is longer than a key or an index has room for.
    #[error(
        "column {column} is given {bytes} bytes, of which the key of {relation} has room for {limit}; shorten it, or state more \
         as its `max`"
    )]
    KeyTooLong {
        /// The table whose key it is, or the index.
        relation: &'static str,
        /// The column.
        column: &'static str,
        /// The bytes of the value.
        bytes: usize,
        /// The most that one may have.
        limit: usize,
    },
    /// A transaction that does not fit a frame of the log.
    #[error("the transaction writes more than {limit} bytes, the most that the log takes; split it")]
    TooLarge {
        /// The most that it may write.
        limit: usize,
    },
    /// More tables than a process can tell apart.
    #[error("this process has used more than {limit} tables and indexes")]
    TooManyTables {
        /// How many there may be.
        limit: usize,
    },
    /// A table defined at run time that cannot be.
    #[error("table {table} cannot be defined: {why}")]
    Definition {
        /// The table.
        table: String,
        /// What is wrong, and what to do instead.
        why: String,
    },
    /// A value that is not of its column's type, or too long for it.
    #[error("column {column} of table {table}: expected {expected}, given {given}")]
    WrongValue {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The type.
        expected: String,
        /// The value, and what its type is.
        given: String,
    },
    /// More or fewer values than a row or a key has.
    #[error("the {part} of {relation} consists of {columns}; {given} values were given")]
    WrongCount {
        /// The table, or the index.
        relation: &'static str,
        /// `row`, `key` or `key prefix`.
        part: &'static str,
        /// The columns whose values were expected.
        columns: String,
        /// How many values there were.
        given: usize,
    },
    /// A name that no column of a table has.
    #[error("table {table} has no column {column}; it has {columns}")]
    NoColumn {
        /// The table.
        table: &'static str,
        /// The name.
        column: String,
        /// The names of its columns.
        columns: String,
    },
    /// A secondary index that a table does not have.
    #[error("table {table} has no index `{index}`; it has: {indexes}")]
    NoIndex {
        /// The table.
        table: &'static str,
        /// The name.
        index: String,
        /// The names of those that it has.
        indexes: String,
    },
    /// A deferred value in another attempt, transaction or session than that in which it was made.
    #[error(
        "a deferred value was used outside of the attempt in which it was made; return it from the body to get its value, and make it anew in each transaction"
    )]
    DeferredElsewhere,
    /// A deferred value that was made under a condition, used outside of it.
    #[error(
        "a deferred value was used outside of the `when` in which it was made, where it may have no value; make it before, or use it inside"
    )]
    DeferredOutOfCondition,
    /// An operation that reads or writes at once, in the body of a `when`.
    #[error(
        "an operation that reads or writes at once was called in the body of a `when`, whose condition may not be known; write intentions there, or use `force` or `then` outside of it"
    )]
    EagerUnderCondition,
    /// A deferred change of columns of which the key or an index depends.
    #[error(
        "a change of {columns} of table {table} cannot be deferred, because its key or an index depends on it; name the columns that change, or use `update_columns`"
    )]
    NotDeferrable {
        /// The table.
        table: &'static str,
        /// The columns.
        columns: String,
    },
    /// A deferred put that made a row with another key than it had announced.
    #[error(
        "a deferred put in table {table} made a row with another key than the one that it was given; give it the key of the row"
    )]
    PutElsewhere {
        /// The table.
        table: &'static str,
    },
    /// An operation of a transactional object.
    #[error("{0}")]
    Object(ObjectMisuse),
    /// An option that cannot be met.
    #[error("{0}")]
    Option(String),
    /// The operating system refused.
    #[error("{0}")]
    System(String),
}

impl Misuse {
    /// Whether an operation that returned this did nothing, so that its transaction goes on.
    fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::ValueTooLong { .. }
                | Self::KeyTooLong { .. }
                | Self::NotFound { .. }
                | Self::DuplicateKey { .. }
                | Self::DuplicateEntry { .. }
                | Self::KeyChanged { .. }
                | Self::WrongValue { .. }
                | Self::WrongCount { .. }
                | Self::NoColumn { .. }
                | Self::NoIndex { .. }
                | Self::SavepointInProcedure
                | Self::ReadOnly
                | Self::WaitsWithin
                | Self::Object(_)
        )
    }
}

/// What could have been meant, in a message.
fn choice(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(", but {} can be called by name", names.join(", ")) }
}

impl Error {
    /// An abort by the transaction's own decision, carried to the caller of `Session::run`.
    pub fn user(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::User(reason.into())
    }

    /// True for a conflict: the same transaction may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Whether a transaction can only be given up whose operation returned this. Not so after an operation that could
    /// not be met, such as an insert of a row that is there: it did nothing, its error is its answer, and the transaction
    /// goes on.
    #[cold]
    pub fn ends_transaction(&self) -> bool {
        match self {
            Self::User(_) => false,
            Self::Misuse(misuse) => !misuse.is_answer(),
            _ => true,
        }
    }

    /// The conflict, if it is one.
    pub fn conflict(&self) -> Option<Conflict> {
        match self {
            Self::Conflict(conflict) => Some(*conflict),
            _ => None,
        }
    }

    /// The misuse, if it is one.
    pub fn misuse(&self) -> Option<&Misuse> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            _ => None,
        }
    }

    /// The reason given to [`Error::user`], if it has type `E`.
    pub fn user_reason<E: StdError + 'static>(&self) -> Option<&E> {
        match self {
            Self::User(reason) => reason.downcast_ref(),
            _ => None,
        }
    }
}

/// So that `?` takes any error in a body whose own type is that of a box: a decision to abort.
impl From<Box<dyn StdError + Send + Sync>> for Error {
    fn from(reason: Box<dyn StdError + Send + Sync>) -> Self {
        Self::User(reason)
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Open(Box::new(error))
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<Misuse> for Error {
    #[cold]
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(Box::new(misuse))
    }
}

const _: () = assert!(size_of::<Error>() <= 24);
