//! Applications of STAMP (Cao Minh et al., IISWC 2008) that DRP is measured with: [`kmeans`], [`vacation`],
//! [`intruder`], [`genome`], [`labyrinth`], [`bayes`].
//!
//! Vacation's tasks come one after the other, so it is a [`Workload`](crate::Workload) like others. The others are run to their end,
//! some in phases between which all threads meet: each is an [`Application`].

pub mod bayes;
pub mod genome;
pub mod intruder;
pub mod kmeans;
pub mod labyrinth;
pub mod vacation;

use crate::Check;
use heddledb::{Builder, Database, Result, Session};

/// A worker's place in a run.
pub struct Place<'a> {
    /// Its number, from 0.
    pub worker: usize,
    /// How many there are.
    pub workers: usize,
    /// Waits until all workers have come here.
    pub meet: &'a dyn Fn(),
    /// Told of computation beside transactions, in cycles of a usual core: on virtual cores that is charged; on
    /// threads it takes the time that it takes.
    pub compute: &'a dyn Fn(u64),
}

/// A program that several workers run to its end.
pub trait Application: Send + Sync + 'static {
    /// What a run knows beside the database; one for each run.
    type State: Send + Sync;

    /// The name on the command line.
    fn name(&self) -> &'static str;
    /// Every parameter and its value, for reports.
    fn parameters(&self) -> Vec<(String, String)>;
    /// Declares the tables.
    fn tables(&self, builder: Builder) -> Builder;
    /// Fills the tables, and prepares the input, which is not measured.
    ///
    /// # Errors
    /// As of [`Session::run`].
    fn load(&self, db: &Database, seed: u64) -> Result<Self::State>;
    /// The part of one worker. Where it fails, it has to go on to [meet](Place::meet) the others as often as they do, or
    /// they would wait for ever; they find out by the state.
    ///
    /// # Errors
    /// As of [`Session::run`].
    fn work(&self, place: &Place<'_>, session: &mut Session, state: &Self::State) -> Result<()>;
    /// How many steps were no transactions of the database, and stood for one.
    fn beside(&self, _state: &Self::State) -> u64 {
        0
    }
    /// Checks the quiet database, and what the workers found meanwhile.
    ///
    /// # Errors
    /// As of [`Session::run`].
    fn check(&self, db: &Database, state: &Self::State) -> Result<Vec<Check>>;
}
