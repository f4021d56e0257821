//! The seam where concurrency controls differ, and the register of those that exist.
//!
//! A [`Protocol`] decides what its words in a record mean, what a read does, what the first write
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
//! | [`locking`] | two-phase locking: NO_WAIT, WAIT_DIE, deadlock detection, ordered acquisition | strictly serializable |
//! | `nested` | Silo, whose calls are validated piece by piece | strictly serializable |
//! | [`unprotected`] | none, one session | serial |
//!
//! Adding one: a new file here, and a line in `registry!`. `examples/one_writer.rs` is one that was added so.

pub mod dta;
pub mod hekaton;
pub mod ic3;
mod images;
mod isolation;
pub mod locking;
mod nested;
pub(crate) mod reads;
pub mod silo;
mod stamps;
pub mod tictoc;
pub mod unprotected;

#[cfg(feature = "example")]
#[path = "../../../../examples/one_writer.rs"]
pub mod one_writer;

mod kind;

pub use dta::Dta;
pub use hekaton::Hekaton;
pub use ic3::Options as Ic3;
pub use isolation::{Isolation, UnknownIsolation};
pub use kind::{Choice, Kind, UnknownKind};
pub use locking::Options as Locking;
pub use silo::Options as Silo;
pub use tictoc::Options as TicToc;
pub use unprotected::Unprotected;

use crate::access::WriteSet;
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Fold, Gap, Seen};
use crate::procedure::{Plan, Tracking};
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::sync::Suspender;
use crate::table::{GroupSet, Layout};
use std::fmt::Debug;
use std::sync::Arc;

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To know the value.
    Read,
    /// To write the same column groups next.
    Update,
    /// A scan has come to the record, and has told [`Protocol::seen`] of the gap that it is in.
    Scan,
}

/// A column group, to be read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighted {
    /// The row is absent, and that was read.
    Absent,
    /// Its data are in the record, and are what was read as long as a word of the record is what it was. Words of an
    /// earlier version show in it before any of the data change.
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

/// Where a call has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// At another piece than before.
    pub another_piece: bool,
    /// At a site whose answer has to be remembered.
    pub remembered: bool,
}

/// How calls of registered procedures are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Like closures.
    #[default]
    Whole,
    /// Piece by piece, by the protocol's own verbs.
    Pieces,
    /// Piece by piece, each of which commits on its own: transaction chopping (IC3 §6.4).
    ///
    /// The pieces are merged until no SC-cycle is left. What may abort is one piece too: of a procedure that
    /// nowhere says `#[no_abort]`, all. If a body gives up after a piece was committed, that piece stands, and
    /// the caller is told so ([`Misuse::PiecesStand`](crate::Misuse::PiecesStand)); so it is where the body
    /// panics. A closure is no part of the analysis, so it runs while no call does.
    Chopped,
    /// In the order in which they begin: what comes before the procedure's mark `#[later]` one call after another, and
    /// what comes behind it at once, except for what conflicts. Deterministic execution (IC3 §6.4).
    ///
    /// From the mark on a body must not give up, as with [`Self::Chopped`], and must access no row that it did not
    /// come to with other answers ([`Misuse::Unforeseen`](crate::Misuse::Unforeseen)). A closure runs while no call
    /// does.
    Sequenced,
}

impl Execution {
    /// Whether a call commits in parts, so that what it has done may be there although it gives up.
    pub fn commits_pieces(self) -> bool {
        matches!(self, Self::Chopped | Self::Sequenced)
    }
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
    /// The epoch for a commit, read after the transaction's locks are held (PITFALLS X5).
    #[inline]
    pub fn commit_epoch(&self) -> u64 {
        let now = self.clock.commit_epoch();
        self.epoch.unwrap_or(now)
    }
}

/// What the workers of a database share besides its records.
pub trait Shared: Send + Sync + 'static {
    /// That of a database with so many sessions.
    fn new(sessions: usize) -> Self;
}

/// For protocols whose workers meet in the records alone.
impl Shared for () {
    fn new(_: usize) {}
}

/// A concurrency control.
///
/// **Contract.** One worker runs one attempt at a time: `begin`, then any number of `read`,
/// `write`, `seen` and `changed`, then `commit` or `abort` exactly once. The worker is pinned in
/// an epoch from before `begin` until after the last. After a verb returned a conflict, only
/// `abort` follows. `place` and `seal` may run at any time on records that the index protects:
/// `seal` beside attempts that read or write the same record.
///
/// Whatever a committed attempt read and saw absent must be as if read at one moment of a serial
/// order, together with its writes; at a lower level ([`Env::isolation`]), as that level promises.
pub(crate) trait Protocol: ConcurrencyWords + Sized + Send + Sync + 'static {
    /// The name on the command line and in reports.
    const NAME: &'static str;
    /// The most sessions that a database may have under this protocol.
    const SESSIONS_MAX: usize;
    /// Settings, fixed when the database is opened.
    type Options: Clone + Default + Debug + Send + Sync + 'static;
    /// What one worker remembers about its attempt.
    type Local: Send;
    /// What the workers share.
    type Shared: Shared;
    /// How the stamps of two gaps become one.
    const GAP_FOLD: Fold = Fold::Max;

    /// Whether the serial order always agrees with real time (PITFALLS X11).
    fn strict(options: &Self::Options) -> bool;

    /// Whether whatever a body sees is of one moment, also where its attempt aborts (PITFALLS TT12).
    fn opaque(_options: &Self::Options) -> bool {
        false
    }

    /// The isolation levels that transactions may choose from, the strongest first.
    fn levels(_options: &Self::Options) -> &'static [Isolation] {
        &[Isolation::Serializable]
    }

    /// A worker's local state.
    fn local(options: &Self::Options, shared: &Arc<Self::Shared>, worker: usize) -> Self::Local;

    /// Starts an attempt; `retry` counts the attempts of the same transaction before it.
    fn begin(local: &mut Self::Local, env: Env<'_>, retry: u32);

    /// The record of that key in a relation is about to be read or written, if there is one.
    #[inline(always)]
    fn comes_to(_local: &mut Self::Local, _relation: usize, _key: &[u64]) {}

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

    /// Reads one column group in place, if that can be: as [`Protocol::read`], but the caller copies, and then finds
    /// out whether the word that vouches for the data is what it was. Only asked where the caller can.
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
    fn peek(local: &mut Self::Local, record: RecordRef) -> bool;

    /// Announces a write to column groups of a record, which is that of the given number in the write set. Who
    /// locks at the commit needs no announcement.
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

    /// A gap was looked at and what it did not hold matters.
    fn seen(local: &mut Self::Local, seen: Seen);

    /// This attempt's own insert changed a gap.
    fn changed(local: &mut Self::Local, change: Change);

    /// Prepares a block for a new key, absent, under the latch of the gap that it will fill.
    fn place(record: RecordRef, layout: &'static Layout, gap: &Gap);

    /// The key of a row of this attempt is about to be added to a gap, under the gap's latch.
    fn joins(_local: &mut Self::Local, _gap: &Gap) {}

    /// A row of this attempt will take the place of an absent record, which is in this gap, and which it has just read.
    fn fills(_local: &mut Self::Local, _record: RecordRef, _seen: Seen) {}

    /// Commits, and returns the commit time. For one record, times rise from writer to writer, and
    /// along every dependency, anti-dependencies included, epochs of times do not fall. The time of
    /// an attempt without writes is of no earlier epoch than anything that it read.
    ///
    /// Once it has decided to commit it calls `Commit::install` for each write.
    fn commit(local: &mut Self::Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict>;

    /// Whether everything read so far still stands, so that a decision based on it is sound.
    fn validate(local: &mut Self::Local, env: Env<'_>) -> Result<(), Conflict>;

    /// Releases whatever the attempt holds.
    fn abort(local: &mut Self::Local, env: Env<'_>, writes: &WriteSet);

    /// Seals an absent record, under the latch of its gap, before it is unlinked; only one whose
    /// stamps are below every later commit's, since the row's next record begins anew, and only if
    /// `spare`, asked when nobody else can write the record, says that it has no past.
    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        gap: &Gap,
        spare: impl FnOnce() -> bool,
    ) -> Seal;

    /// Makes the concurrency words of a column group those of a committed version with this stamp,
    /// which nobody has read or locked: while nobody else has the record.
    fn restore(record: RecordRef, group: usize, stamp: u64);

    /// Whether there are options under which calls of procedures are executed piece by piece. If not, a call
    /// is like a closure, and none of the verbs below is used.
    const PIECES: bool = false;

    /// How calls of procedures are executed.
    fn execution(_options: &Self::Options) -> Execution {
        Execution::Whole
    }

    /// Whether additions whose result nobody uses are analysed as commuting.
    fn commutes(_options: &Self::Options) -> bool {
        true
    }

    /// Which conflicts between procedures are tracked.
    fn tracking(_options: &Self::Options) -> Tracking {
        Tracking::Nothing
    }

    /// How the worker waits for other transactions from now on; it spins if it is told nothing.
    #[cfg_attr(not(feature = "suspend"), expect(dead_code, reason = "only crews suspend sessions"))]
    fn suspend_by(_local: &mut Self::Local, _suspender: Option<Suspender>) {}

    /// The attempt that has begun is a call of the procedure with that number in the plan. True if it is to be
    /// executed piece by piece.
    fn call(_local: &mut Self::Local, _plan: &Arc<Plan>, _of_type: usize) -> bool {
        false
    }

    /// The next access of a call stands at that site.
    #[inline(always)]
    fn at(_local: &mut Self::Local, _site: u16) {}

    /// After an attempt: a vertex that had better be hot, or cold. Asked once.
    #[inline(always)]
    fn wish(_local: &mut Self::Local) -> Option<(u16, bool)> {
        None
    }

    /// The next access stands at a site of the procedure. If that is in the piece that runs and there is nothing more to
    /// it, whether the answer is to be remembered; `None` leaves it to [`Protocol::arrive`].
    #[inline(always)]
    fn stays(_local: &mut Self::Local, _site: u16) -> Option<bool> {
        None
    }

    /// The next access stands at a site of the procedure. Ends the piece before, if this is another.
    fn arrive(_local: &mut Self::Local, _writes: &mut WriteSet, _site: u16) -> Result<Arrived, Conflict> {
        Ok(Arrived { another_piece: false, remembered: false })
    }

    /// The next access stands at a site of a piece that stands. Whether its answer was remembered; if not, it is
    /// made again, as one that is not tracked.
    fn arrive_again(_local: &mut Self::Local, _site: u16) -> bool {
        true
    }

    /// This attempt has just added a record, so it knows that there is no row; true if it need not look, and
    /// the write need not be announced.
    #[inline(always)]
    fn fresh(_local: &mut Self::Local, _record: RecordRef, _layout: &'static Layout, _number: usize) -> bool {
        false
    }

    /// Ends the last piece.
    fn finish(_local: &mut Self::Local, _writes: &mut WriteSet) -> Result<(), Conflict> {
        Ok(())
    }

    /// After a conflict in a call: whether it is enough to execute the last piece again. If so, forgets it.
    fn again(_local: &mut Self::Local, _conflict: Conflict) -> bool {
        false
    }

    /// Whether no other call is under way.
    fn alone(_local: &Self::Local) -> bool {
        true
    }
}
