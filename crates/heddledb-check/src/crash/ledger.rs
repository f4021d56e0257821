//! What a database was told, and what it must keep of that.

use super::kept::Kept;
use super::model::State;

/// What a database was told and what it promised, in the order of commits.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(super) commits: Vec<Commit>,
    /// So many of the first commits were acknowledged as durable.
    pub(super) acked: usize,
    /// How often a failed log went on.
    pub resumed: u64,
    /// How often rows were migrated.
    pub migrated: u64,
    /// A copy that is continued with the log, from one life to the next.
    pub(super) kept: Option<Kept>,
    /// How often it was continued.
    pub continued: u64,
    /// How often that was refused.
    pub refused: u64,
}

/// A commit.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub epoch: u64,
    /// All rows after it.
    pub state: State,
}

impl Ledger {
    /// The rows after the first `count` commits.
    pub(super) fn after(&self, count: usize) -> State {
        count.checked_sub(1).map_or_else(State::default, |last| self.commits[last].state)
    }

    pub(super) fn now(&self) -> State {
        self.after(self.commits.len())
    }

    /// Enters a commit.
    pub(super) fn enter(&mut self, epoch: u64, state: State) -> Result<(), String> {
        let last = self.commits.last().map_or(0, |commit| commit.epoch);
        if epoch < last {
            return Err(format!("a commit of epoch {epoch} follows one of epoch {last}"));
        }
        self.commits.push(Commit { epoch, state });
        Ok(())
    }

    /// How many commits are of an epoch up to `epoch`.
    pub(super) fn closed(&self, epoch: u64) -> usize {
        self.commits.partition_point(|commit| commit.epoch <= epoch)
    }

    /// Takes everything so far as acknowledged.
    pub(super) fn acknowledge_all(&mut self) {
        self.acked = self.commits.len();
    }

    /// Whether it has fewer commits than another.
    pub fn is_shorter(&self, than: &Self) -> bool {
        self.commits.len() < than.commits.len()
    }

    /// From now on only what is of an epoch up to `epoch` counts as acknowledged: the rest was damaged.
    pub fn forgive(&mut self, epoch: u64) {
        self.acked = self.acked.min(self.closed(epoch));
    }

    /// From now on commits of epochs after `epoch` are gone: a recovery that was cut off may have dropped them for good.
    pub(super) fn drop_after(&mut self, epoch: u64) {
        self.commits.truncate(self.closed(epoch).max(self.acked));
    }

    /// The oracle: a database with durable epoch `durable` holds `found`. Everything acknowledged must be
    /// there, and the rows must be those after all commits up to that epoch and no others. Those others
    /// are gone for good.
    pub(super) fn found(&mut self, durable: u64, found: &Result<State, String>) -> Result<(), String> {
        let count = self.closed(durable);
        if count < self.acked {
            let lost = &self.commits[count];
            return Err(format!(
                "{} commits were acknowledged, and only those up to epoch {durable} are there: {count}; \
                 the first that is lost is of epoch {}",
                self.acked, lost.epoch
            ));
        }
        let (found, due) = (found.as_ref()?, self.after(count));
        if *found != due {
            let same = (0..=self.commits.len()).filter(|at| self.after(*at) == *found);
            return Err(format!(
                "the rows are not those of the {count} commits up to epoch {durable}, of {} ({} of them \
                 acknowledged), but: {}; they are those after these numbers of commits: {:?}",
                self.commits.len(),
                self.acked,
                found.difference(&due),
                same.collect::<Vec<_>>()
            ));
        }
        self.commits.truncate(count);
        // It is open, so whoever reads takes it for durable.
        self.acked = count;
        Ok(())
    }
}
