//! The version stamp of a column group: a logical or commit time with two state bits.
//!
//! ```text
//!   63     62      61 .......... 24   23 ........ 0
//!   lock   absent  epoch (38 bits)    sequence within the epoch
//! ```
//!
//! At a thousand epochs a second, as fast as a disk takes them, the epochs last for eight years of a
//! database's life. Sixteen million sequence numbers last an epoch of some seconds; where a
//! commit that is under way holds the epoch back for longer, others conflict ([`Conflict::EpochFull`])
//! until it ends.
//!
//! [`Conflict::EpochFull`]: crate::Conflict::EpochFull
//!
//! For one record stamps rise strictly from writer to writer. The all-ones stamp is *sealed*:
//! locked and absent for ever, the last state of a block before it is unlinked and recycled.

/// Held by a committing writer.
pub const LOCK: u64 = 1 << 63;
/// The row does not exist.
pub const ABSENT: u64 = 1 << 62;
/// Locked and absent for ever.
pub const SEALED: u64 = u64::MAX;

const TIME: u64 = ABSENT - 1;
const SEQUENCE_BITS: u32 = 24;

/// The time of a stamp, without its state bits.
#[inline(always)]
pub const fn time(stamp: u64) -> u64 {
    stamp & TIME
}

/// The earliest time of `epoch`.
#[inline(always)]
pub const fn floor(epoch: u64) -> u64 {
    epoch << SEQUENCE_BITS
}

/// The epoch of a stamp.
#[inline(always)]
pub const fn epoch(stamp: u64) -> u64 {
    time(stamp) >> SEQUENCE_BITS
}

/// True when the lock bit is set.
#[inline(always)]
pub const fn is_locked(stamp: u64) -> bool {
    stamp & LOCK != 0
}

/// True when the row does not exist.
#[inline(always)]
pub const fn is_absent(stamp: u64) -> bool {
    stamp & ABSENT != 0
}

/// True where no row has ever been committed.
#[inline(always)]
pub const fn is_placeholder(stamp: u64) -> bool {
    stamp & !LOCK == ABSENT
}

/// A stamp of `time` for a row that is present or not, unlocked.
#[inline(always)]
pub const fn of(time: u64, present: bool) -> u64 {
    if present { time } else { time | ABSENT }
}

/// How far logical time has come: in each epoch the ticks from the earliest commit to the latest.
///
/// Under TicToc transactions that need no order share a tick, so the fewer ticks there are for a number of commits,
/// the more of them could have run at once (TicToc §6.5).
#[derive(Clone, Debug, Default)]
pub struct LogicalTime {
    /// Epochs, rising, and the least and the greatest sequence number seen in each.
    epochs: Vec<(u64, u64, u64)>,
}

impl LogicalTime {
    /// Takes note of a commit by its stamp (`Session::last_commit`).
    #[inline]
    pub fn note(&mut self, commit: u64) {
        let (epoch, sequence) = (epoch(commit), time(commit) & ((1 << SEQUENCE_BITS) - 1));
        match self.epochs.last_mut() {
            Some(last) if last.0 == epoch => (last.1, last.2) = (last.1.min(sequence), last.2.max(sequence)),
            // Who only reads may commit in an epoch gone by, where no time passes any more.
            Some(last) if last.0 > epoch => {}
            _ => self.epochs.push((epoch, sequence, sequence)),
        }
    }

    /// Takes over what another has noted.
    pub fn merge(&mut self, other: &Self) {
        for &(epoch, least, greatest) in &other.epochs {
            match self.epochs.binary_search_by_key(&epoch, |known| known.0) {
                Ok(at) => {
                    let known = &mut self.epochs[at];
                    (known.1, known.2) = (known.1.min(least), known.2.max(greatest));
                }
                Err(at) => self.epochs.insert(at, (epoch, least, greatest)),
            }
        }
    }

    /// The ticks.
    pub fn ticks(&self) -> u64 {
        self.epochs.iter().map(|(_, least, greatest)| greatest - least + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_begin_anew_in_each_epoch() {
        let (mut one, mut other) = (LogicalTime::default(), LogicalTime::default());
        [floor(7) + 3, floor(7) + 3, floor(9) + 1, floor(7) + 8].into_iter().for_each(|time| one.note(time));
        [floor(7) + 5, (floor(8) + 2) | ABSENT].into_iter().for_each(|time| other.note(time));
        one.merge(&other);
        assert_eq!(one.ticks(), 3 + 1 + 1);
    }

    #[test]
    fn parts() {
        let stamp = of(floor(7) + 3, false) | LOCK;
        assert!(is_locked(stamp) && is_absent(stamp) && !is_placeholder(stamp));
        assert!(is_placeholder(ABSENT) && is_placeholder(ABSENT | LOCK) && !is_placeholder(SEALED));
        assert_eq!((epoch(stamp), time(stamp)), (7, floor(7) + 3));
        assert!(is_locked(SEALED) && is_absent(SEALED));
        assert!(floor(8) > floor(7) + 1_000_000);
    }
}
