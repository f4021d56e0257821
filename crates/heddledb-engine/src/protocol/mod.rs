//! Where concurrency controls differ: the traits that each implements, and a room for each.
//!
//! A `Protocol` decides what its words in a record mean, what a read does, what the first write
//! to a record does, what is remembered about absence, and how a transaction commits. Everything
//! else (tables, keys, the write set, indexes, secondary indexes, reclamation) is shared and does
//! not know which protocol runs.
//!
//! | room | control | guarantee |
//! |---|---|---|
//! | [`silo`] | optimistic, commit by read validation; commit times computed or from a counter | strictly serializable |
//! | [`tictoc`] | optimistic, commit time computed from the data | serializable, not strict |
//! | [`dta`] | optimistic, commit time chosen from the interval that conflicts with recent commits leave | strictly serializable |
//! | [`hekaton`] | optimistic on several versions: reads as of the begin, checked again at the end | strictly serializable |
//! | [`ic3`] | pieces that show their writes, in an order that static analysis keeps free of cycles | strictly serializable |
//! | [`drp`] | writers queue in the order of ranks, commit in the order of the queues, hand over row by row | strictly serializable |
//! | [`htm`] | hardware regions, over whole transactions, pieces, or commits; Silo where there are none | strictly serializable |
//! | [`locking`] | two-phase locking: NO_WAIT, WAIT_DIE, deadlock detection, ordered acquisition | strictly serializable |
//! | `nested` | Silo, whose calls are validated piece by piece | strictly serializable |
//! | [`unprotected`] | none, one session | serial |
//!
//! Adding one: a new file here, its options, a line in `protocols!` and one in `registry!` (`crate::kind`), and a line
//! in [`crate::db::open`]. `examples/one_writer.rs` is one that was added so.

pub mod drp;
pub mod dta;
mod gaps;
pub mod hekaton;
pub mod htm;
pub mod ic3;
mod images;
pub mod locking;
mod nested;
mod pieces;
pub(crate) mod reads;
mod records;
pub mod silo;
mod stamps;
pub mod tictoc;
pub mod unprotected;

#[cfg(feature = "example")]
#[path = "../../../../examples/one_writer.rs"]
pub mod one_writer;

pub use crate::isolation::Isolation;
pub use crate::kind::{Execution, Promises};
pub(crate) use pieces::{Arrived, Pieces};
pub(crate) use records::Records;

use crate::access::WriteSet;
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Fold, Gap, Seen};
use crate::intentions::{Insert, Plan};
use crate::metrics::RegionMetrics;
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::seam::Operators;
use crate::sync::{Ordering, Suspender, fence};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To know the value.
    Read,
    /// To write the same column groups next.
    Update,
    /// A scan has come to the record, and has told `Protocol::observe_gap` of the gap that it is in.
    Scan,
}

/// A column group, to be read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighted {
    /// The row is absent, and that was read.
    Absent,
    /// Its data are in the record, and are what was read as long as a word of the record is unchanged. That
    /// word changes before any of the data does.
    At {
        /// The word.
        word: usize,
        /// What it was.
        was: u64,
    },
    /// It can only be copied.
    Hidden,
}

/// Whether a block could be sealed for reclamation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Sealed: locked and absent for ever.
    Sealed,
    /// The row exists again; there is nothing to reclaim.
    Live,
    /// In use or too young; try again later.
    Busy,
}

/// What every verb of a protocol gets to see of its worker and database.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The epochs.
    pub clock: &'a EpochClock,
    /// This worker's number.
    pub worker: usize,
    /// The epoch of its commit, where that was fixed before.
    pub epoch: Option<u64>,
    /// A time that its commit must be above, where calls are sequenced ([`Execution::Sequenced`]).
    pub after: u64,
    /// The level of the attempt, one of those that the protocol offers.
    pub isolation: Isolation,
}

impl Env<'_> {
    /// The epoch for a commit, read after the transaction's locks are held.
    #[inline]
    pub fn commit_epoch(&self) -> u64 {
        match self.epoch {
            None => self.clock.commit_epoch(self.worker),
            // Pinned since its begin; the locks are in one order with what is read from now on all the same.
            Some(epoch) => {
                fence(Ordering::SeqCst);
                epoch
            }
        }
    }

    /// Announces a commit before its locks are taken, all of them by SeqCst exchanges. Returns its epoch, which counts if
    /// [`Self::announced_epoch`] says so.
    #[inline]
    pub fn announce_commit(&self) -> u64 {
        self.epoch.unwrap_or_else(|| self.clock.announce_commit(self.worker))
    }

    /// As [`Self::commit_epoch`], after an announcement; at least one lock was taken since.
    #[inline]
    pub fn announced_epoch(&self, announced: u64) -> u64 {
        match self.epoch {
            None => self.clock.announced_epoch(self.worker, announced),
            Some(_) => self.commit_epoch(),
        }
    }
}

/// What the workers of a database share besides its records.
pub trait Shared: Send + Sync + 'static {
    /// The shared state of a database with `sessions` sessions.
    fn new(sessions: usize) -> Self;
}

/// For protocols whose workers meet in the records alone.
impl Shared for () {
    fn new(_: usize) {}
}

/// The types that a protocol's verbs work on.
pub(crate) trait State: ConcurrencyWords + Sized + Send + Sync + 'static {
    /// Settings, fixed when the database is opened.
    type Options: Promises + Clone + Default + Send + Sync + 'static;
    /// What one worker remembers about its attempt.
    type Local: Send;
    /// What the workers share.
    type Shared: Shared;
}

/// A concurrency control.
///
/// **Contract.** One worker runs one attempt at a time: `begin`, then any number of `read`, `write`,
/// `observe_gap` and `own_gap_changed`, then `commit` or `abort` exactly once. The worker is pinned in an
/// epoch from before `begin` until after the last. After a verb returned a conflict, only `abort` follows.
/// `init_record` and `seal` may run at any time on records that the index protects: `seal` beside attempts
/// that read or write the same record.
///
/// Whatever a committed attempt read and saw absent must be as if read at one moment of a serial
/// order, together with its writes; at a lower level ([`Env::isolation`]), as that level promises.
pub(crate) trait Protocol: Pieces {
    /// Whether there are options under which operations are executed in hardware regions, which may end them at any access.
    const REGIONS: bool = false;

    /// How the stamps of two gaps become one.
    const GAP_FOLD: Fold = Fold::Max;

    /// A worker's local state.
    fn local(options: &Self::Options, shared: &Arc<Self::Shared>, worker: usize) -> Self::Local;

    /// Starts an attempt; `retry` counts the attempts of the same transaction before it.
    fn begin(local: &mut Self::Local, env: Env<'_>, retry: u32);

    /// An operation is about to look at what is shared, where the protocol has [`Protocol::REGIONS`]: begins a region, if
    /// none is open and this attempt is to be executed in one.
    fn enter(_local: &mut Self::Local, _env: Env<'_>) -> Result<(), Conflict> {
        Ok(())
    }

    /// Whether the attempt is in a region.
    fn in_region(_local: &Self::Local) -> bool {
        false
    }

    /// Whether the attempt that was aborted last was in a region that was aborted with it: then nothing of what it did to
    /// indexes has happened.
    fn vanished(_local: &Self::Local) -> bool {
        false
    }

    /// What became of hardware regions.
    fn regions(_shared: &Self::Shared) -> Option<RegionMetrics> {
        None
    }

    /// The record of that key in a relation is about to be read or written, if there is one.
    #[inline(always)]
    fn visit_key(_local: &mut Self::Local, _relation: usize, _key: &[u64]) {}

    /// Reads column groups of a record: runs `copy` on a consistent state, possibly several times
    /// (earlier results are discarded), and returns its result, or `None` where the row is absent.
    fn read<R>(
        local: &mut Self::Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict>;

    /// Reads one column group in place, if that can be: as [`Protocol::read`], but the caller copies, and
    /// then finds out whether the word that vouches for the data is what it was. Only asked where the caller
    /// can.
    #[inline(always)]
    fn sight(
        _local: &mut Self::Local,
        _env: Env<'_>,
        _record: RecordRef,
        _layout: &'static Layout,
        _group: usize,
        _intent: Intent,
    ) -> Result<Sighted, Conflict> {
        Ok(Sighted::Hidden)
    }

    /// What [`Protocol::sight`] showed last was not what it was: forgets that it was read.
    fn unsight(_local: &mut Self::Local) {}

    /// Whether the row exists, for a write that does not read. Not validated: `commit` finds out.
    fn exists(local: &mut Self::Local, record: RecordRef) -> bool;

    /// Announces a write to column groups of a record, which is that of the given number in the write set. A
    /// protocol that locks at the commit needs no announcement.
    #[inline(always)]
    fn write(
        _local: &mut Self::Local,
        _env: Env<'_>,
        _record: RecordRef,
        _layout: &'static Layout,
        _groups: GroupSet,
        _number: usize,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// The attempt has looked at a gap, and depends on what the gap did not hold.
    fn observe_gap(local: &mut Self::Local, seen: Seen);

    /// After [`Protocol::observe_gap`]: whether the body may be shown what the gap did not hold, beside what it has seen.
    #[inline(always)]
    fn show_gap(_local: &mut Self::Local) -> Result<(), Conflict> {
        Ok(())
    }

    /// This attempt's own insert changed a gap. `sought` if the key that it has added is the one that the attempt looked
    /// for and missed last: from now on that the key was absent is a matter of its record, not of the gap.
    fn own_gap_changed(local: &mut Self::Local, change: Change, sought: bool);

    /// Prepares a block for a new key, absent, under the latch of the gap that it will fill.
    fn init_record(record: RecordRef, layout: &'static Layout, gap: &Gap);

    /// The key of a row of this attempt is about to be added to a gap, under the gap's latch.
    fn before_insert(_local: &mut Self::Local, _gap: &Gap) {}

    /// A row of this attempt will take the place of an absent record, which is in this gap, and which it has
    /// just read.
    fn reuse_absent(_local: &mut Self::Local, _record: RecordRef, _seen: Seen) {}

    /// Commits, and returns the commit time. For one record, times rise from writer to writer, and
    /// along every dependency, anti-dependencies included, epochs of times do not fall. The time of
    /// an attempt without writes is of no earlier epoch than anything that it read.
    ///
    /// Once it has decided to commit it calls `Commit::install` for each write.
    fn commit(local: &mut Self::Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict>;

    /// As [`Protocol::commit`], of a call that has the epoch of its piece that conflicts and adds to groups at its end, after nothing
    /// was read; only where its options say that calls do ([`Promises::numbers_lazily`]). A row of a write has one group there.
    fn commit_additions(
        local: &mut Self::Local,
        env: Env<'_>,
        commit: &mut Commit<'_>,
    ) -> Result<u64, Conflict> {
        Self::commit(local, env, commit)
    }

    /// Whether intentions can be deferred to the commit ([`Protocol::commit_deferred`]).
    const DEFERS: bool = false;

    /// Of an attempt whose plan makes rows: applies the steps, before anything is decided. False, if the verdict is against
    /// it. A panic of a step comes through. What the steps found out holds if [`Protocol::validate_applied`] says so.
    fn apply_deferred(
        _local: &mut Self::Local,
        _env: Env<'_>,
        _writes: &WriteSet,
        _plan: &mut Plan,
        _operators: &mut dyn Operators,
    ) -> Result<bool, Conflict> {
        unreachable!("a protocol that defers says how")
    }

    /// After [`Protocol::apply_deferred`]: whether a decision to give up, or a panic, rests on what still stands.
    fn validate_applied(_local: &mut Self::Local, _writes: &WriteSet, _plan: &Plan) -> Result<(), Conflict> {
        unreachable!("a protocol that defers says how")
    }

    /// After [`Protocol::apply_deferred`]: takes the record in which a row that was made is to be installed, the plan's next.
    /// An error, if somebody else has it, or there is a row.
    fn take_made(
        _local: &mut Self::Local,
        _writes: &WriteSet,
        _plan: &Plan,
        _insert: &Insert,
        _record: RecordRef,
    ) -> Result<(), Conflict> {
        unreachable!("a protocol that defers says how")
    }

    /// As [`Protocol::commit`], of an attempt that has deferred intentions, too: applies their steps, unless they were applied
    /// by [`Protocol::apply_deferred`], and installs what these have made of the rows. None, and nothing is installed, if the
    /// verdict is against it; `abort` follows then, and after a panic of a step.
    fn commit_deferred(
        _local: &mut Self::Local,
        _env: Env<'_>,
        _commit: &mut Commit<'_>,
        _plan: &mut Plan,
        _operators: &mut dyn Operators,
    ) -> Result<Option<u64>, Conflict> {
        unreachable!("a protocol that defers says how")
    }

    /// This attempt has just added a record for an intention; what it saw of that gap before was that there is no row.
    fn own_intention(_local: &mut Self::Local, _record: RecordRef) {}

    /// Whether everything read so far still stands, so that a decision based on it is sound.
    fn validate(local: &mut Self::Local, env: Env<'_>) -> Result<(), Conflict>;

    /// Releases whatever the attempt holds.
    fn abort(local: &mut Self::Local, env: Env<'_>, writes: &WriteSet);

    /// Seals an absent record, under the latch of its gap, before it is unlinked; only one whose stamps are
    /// below every later commit's, since the row's next record begins anew, and only if `has_no_versions`,
    /// asked when no other transaction can write the record, says that it has no past.
    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        gap: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal;

    /// Makes the concurrency words of a column group those of a committed version with this stamp, which is
    /// neither read nor locked, while no other transaction has the record.
    fn restore(record: RecordRef, group: usize, stamp: u64);

    /// This attempt has just added a record, so it knows that there is no row; true if it need not look, and
    /// the write need not be announced.
    #[inline(always)]
    fn own_insert(
        _local: &mut Self::Local,
        _record: RecordRef,
        _layout: &'static Layout,
        _number: usize,
    ) -> bool {
        false
    }

    /// Writes of this attempt were taken back; these are left. Locks may stay, if the end lets
    /// them go. Whether there was a row where one was that
    /// is no more is read after this.
    fn writes_taken_back(_local: &mut Self::Local, _left: &WriteSet) {}

    /// How the worker waits for other transactions from now on; it spins if it is told nothing.
    fn suspend_by(_local: &mut Self::Local, _suspender: Option<Suspender>) {}
}
