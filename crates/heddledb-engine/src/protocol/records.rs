//! What is done to a protocol's records beside transactions, as data.

use super::{Protocol, Seal};
use crate::epoch::EpochClock;
use crate::index::{Fold, Gap};
use crate::record::{RecordRef, Shape};
use crate::table::Layout;

/// The records of one protocol, for rooms that know none: so relations, and what recovers, copies and reclaims their
/// rows, are compiled once.
pub(crate) struct Records {
    /// Where the words of one are.
    pub shape: Shape,
    /// See [`Protocol::GAP_FOLD`] and [`Protocol::REGIONS`]: of the indexes that lead to them.
    pub gap_fold: Fold,
    pub regions: bool,
    /// See [`Protocol::init_record`], [`Protocol::restore`] and [`Protocol::seal`].
    pub init: fn(RecordRef, &'static Layout, &Gap),
    pub restore: fn(RecordRef, usize, u64),
    pub seal: fn(RecordRef, &'static Layout, &EpochClock, &Gap, &dyn Fn() -> bool) -> Seal,
}

impl Records {
    /// Those of `P`.
    pub const fn of<P: Protocol>() -> &'static Self {
        const {
            &Self {
                shape: Shape::of::<P>(),
                gap_fold: P::GAP_FOLD,
                regions: P::REGIONS,
                init: P::init_record,
                restore: P::restore,
                seal: |record, layout, clock, gap, has_no_versions| {
                    P::seal(record, layout, clock, gap, has_no_versions)
                },
            }
        }
    }
}
