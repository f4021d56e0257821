//! The benchmark workloads of HeddleDB, each with checks that its results must pass.
//!
//! A [`Workload`] knows how to load its tables, draw inputs, run one transaction over any
//! [`Transaction`], keep a ledger of committed effects, and check the database against the sum of
//! the ledgers. Drawing is apart from running, so that a retry runs the same input again and the
//! clock need not cover the generator.

#![forbid(unsafe_code)]

#[cfg(feature = "arguments")]
pub mod arguments;
pub mod array;
pub mod articles;
pub mod micro;
pub mod stamp;
pub mod tpcc;
pub mod tpce;
pub mod ycsb;

mod batch;
mod missing;
mod random;
mod verdict;

use heddledb::{Builder, Database, Error, ReadTransaction, Result, Session, Transaction};
use std::fmt;
use std::str::FromStr;

/// The outcome of one check after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked, in words.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures that were compared.
    pub detail: String,
}

/// A benchmark: tables, transactions, checks. The implementor holds the parameters.
pub trait Workload: Send + Sync + 'static {
    /// Draws inputs; one per worker.
    type Generator: Send;
    /// The arguments of one transaction; reused, so that drawing allocates nothing.
    type Input: Default + Clone + Send + 'static;
    /// What a committed transaction returns.
    type Output: Send + 'static;
    /// The sum of one worker's committed effects.
    type Ledger: Default + Send;

    /// The name on the command line.
    fn name(&self) -> &'static str;
    /// Every parameter and its value, for reports.
    fn parameters(&self) -> Vec<(String, String)>;
    /// The transaction types.
    fn kinds(&self) -> &'static [&'static str];
    /// Declares the tables with their expected sizes.
    fn tables(&self, builder: Builder) -> Builder;
    /// Fills the tables. `progress` is called with the share done, 0 to 1.
    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()>;
    /// The generator of worker `worker` of `workers`.
    fn generator(&self, worker: usize, workers: usize, seed: u64) -> Self::Generator;
    /// Draws an input.
    fn draw(&self, generator: &mut Self::Generator, input: &mut Self::Input);
    /// Gives an input that was drawn before what must be new at each use: surrogate keys, dates.
    fn refresh(&self, generator: &mut Self::Generator, input: &mut Self::Input);
    /// The index into [`Workload::kinds`] of an input.
    fn kind(&self, input: &Self::Input) -> usize;
    /// Runs one transaction. A user abort is an [`heddledb::Error::User`].
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Self::Input) -> Result<Self::Output>;
    /// Runs one transaction of a session until it commits or gives up: as a call, where it is a procedure that
    /// [`Workload::tables`] has registered.
    ///
    /// # Errors
    /// As for [`Session::call`].
    #[inline]
    fn call(&self, session: &mut Session, input: &Self::Input) -> Result<Self::Output> {
        session.run(|tx| self.execute(tx, input))
    }
    /// Whether its transactions can be submitted, for executors to call: whether they are calls of procedures, all of them under
    /// protocols that announce calls.
    fn is_submittable(&self) -> bool {
        false
    }
    /// Whether its transactions that write are calls that a log of commands can hold, where [`Workload::tables`] is given a builder whose log
    /// does.
    fn is_loggable(&self) -> bool {
        false
    }
    /// Whether an input only reads, so that [`Workload::look`] can run it on a snapshot.
    fn only_reads(&self, _input: &Self::Input) -> bool {
        false
    }
    /// Runs an input that only reads; does what [`Workload::execute`] does with it.
    fn look<T: ReadTransaction>(&self, _tx: &mut T, _input: &Self::Input) -> Result<Self::Output> {
        Err(Error::user("this transaction writes"))
    }
    /// Whether what runs are no transactions of the database, whose counts then say nothing.
    fn is_beside(&self) -> bool {
        false
    }
    /// Reads a large part of the database, row by row, and returns how many rows: a long reader.
    fn sweep<T: ReadTransaction>(&self, _tx: &mut T) -> Result<u64> {
        Ok(0)
    }
    /// Tells the generator that an input is submitted, and others are drawn before it has committed: what follows from a
    /// committed transaction is not to be drawn again.
    fn submitted(&self, _generator: &mut Self::Generator, _input: &Self::Input) {}
    /// Tells the generator of a committed transaction, before [`Workload::record`]: for workloads in which
    /// one transaction follows from another. What follows is drawn next, and until it has committed, again.
    fn committed(&self, _generator: &mut Self::Generator, _input: &Self::Input, _output: &Self::Output) {}
    /// How many transactions that only looked ahead a committed one has taken: they say what it will need to know before it begins, and are
    /// counted by the session too.
    fn looked_ahead(&self, _output: &Self::Output) -> u64 {
        0
    }
    /// Adds a committed transaction's effects to the ledger.
    fn record(&self, ledger: &mut Self::Ledger, input: &Self::Input, output: Self::Output);
    /// Checks the quiet database against the ledgers of all workers since loading.
    fn check(&self, db: &Database, ledgers: &[Self::Ledger]) -> Result<Vec<Check>>;
}

/// How transactions that only read are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnly {
    /// Like all others, among the writers.
    #[default]
    Serializable,
    /// On a snapshot of a recent moment.
    Snapshot,
}

impl ReadOnly {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serializable => "serializable",
            Self::Snapshot => "snapshot",
        }
    }

    /// Whether an input is run on a snapshot.
    #[inline]
    pub fn looks<W: Workload>(self, workload: &W, input: &W::Input) -> bool {
        self == Self::Snapshot && workload.only_reads(input)
    }

    /// Runs one transaction.
    ///
    /// # Errors
    /// As for [`Session::run`] and [`Session::read`].
    #[inline]
    pub fn run<W: Workload>(
        self,
        workload: &W,
        session: &mut Session,
        input: &W::Input,
    ) -> Result<W::Output> {
        if self.looks(workload, input) {
            session.read(|snapshot| workload.look(snapshot, input))
        } else {
            workload.call(session, input)
        }
    }
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ReadOnly {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Serializable, Self::Snapshot]
            .into_iter()
            .find(|way| way.name() == text)
            .ok_or_else(|| format!("`{text}` is no way to read; give serializable or snapshot"))
    }
}
