//! Which version of a group is visible at a time, and where it is. The module's header has the cases.

use super::times::{Id, Progress};
use super::words::{NONE, SEALED, WILL_BE_ABSENT, shown_by, stamp, writer};
use super::{Hekaton, Local};
use crate::access::Groups;
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Env, Isolation};
use crate::record::{RecordRef, data_base, heads_base};
use crate::stamp;
use crate::sync::{Ordering, Wait, fence, note};
use crate::table::{GroupSet, Layout};
use crate::version::{self, Version};

/// A group that was read, and the stamp of the version.
pub(super) struct Read {
    pub(super) record: RecordRef,
    pub(super) stamp: u64,
    pub(super) group: u8,
    /// The record's word that leads to the group's old versions.
    pub(super) head: u16,
}

/// Where a version's words are.
#[derive(Clone, Copy)]
enum Place {
    /// In the record, for as long as the stamp stands.
    Record,
    /// In an old version; nowhere if the row was absent before all of them.
    Chain(Option<Version>),
    /// In the image of a writer, for as long as it shows it.
    Image { of: Id, link: u64, speculative: bool },
}

/// A version of a group.
struct Found {
    stamp: u64,
    place: Place,
}

impl Local {
    /// The version of a group that is visible at a time that this transaction has drawn.
    fn visible(&self, record: RecordRef, group: usize, head: usize, time: u64) -> Result<Found, Conflict> {
        let mut wait = Wait::new();
        loop {
            // Acquire: pairs with the publishing store of the version, and of what hangs off it.
            let stamp = stamp!(record, group).load(Ordering::Acquire);
            if stamp == stamp::SEALED {
                return Err(Conflict::Reclaimed);
            }
            if stamp::is_locked(stamp) {
                // Its writer puts words into it, and waits for nothing.
                wait.pause();
                continue;
            }
            if stamp::time(stamp) > time && !planted(Mutant::HekatonReadsNewest) {
                // The version of our time is kept: our slot says that we read at it, and said so before the
                // writer that overwrote it drew its end.
                let old = version::as_of(record.word(head), time);
                let stamp = old.map_or(stamp::ABSENT, Version::stamp);
                return Ok(Found { stamp, place: Place::Chain(old) });
            }
            let here = Found { stamp, place: Place::Record };
            // Acquire: pairs with the release that lets the lock go, after which the stamp is another.
            let writer = writer!(record, group).load(Ordering::Acquire);
            if stamp!(record, group).load(Ordering::Relaxed) != stamp {
                continue;
            }
            // If it has no writer now, the next one draws its end after our time.
            if writer == NONE || writer == self.id.bits() || writer == SEALED {
                return Ok(here);
            }
            let of = Id::from_bits(writer);
            let (end, speculative) = match self.shared.times.progress(of) {
                Progress::Running => return Ok(here),
                Progress::Preparing(_) if planted(Mutant::HekatonPreparingIgnored) => return Ok(here),
                Progress::Preparing(end) => (end, true),
                Progress::Committed(end) => (end, false),
                Progress::Ending => {
                    wait.pause();
                    continue;
                }
                // Aborted, or else the stamp is another by now (acquired with the status).
                Progress::Ended if stamp!(record, group).load(Ordering::Relaxed) == stamp => return Ok(here),
                Progress::Ended => continue,
            };
            if end > time {
                return Ok(here);
            }
            let Some(link) = shown_by(record, group, writer) else {
                // It could not abort any more when it prepared, so it installs now; or it has just let go.
                wait.pause();
                continue;
            };
            let stamp = stamp::of(end, link & WILL_BE_ABSENT == 0);
            return Ok(Found { stamp, place: Place::Image { of, link, speculative } });
        }
    }

    /// The stamp of a group whose visible version is in the record itself.
    #[inline(always)]
    pub(super) fn in_place(
        &self,
        record: RecordRef,
        group: usize,
        head: usize,
        time: u64,
    ) -> Result<Option<u64>, Conflict> {
        // Acquire, both: as in `visible`, of which this is the simplest case. The stamp is compared after the
        // copy.
        let stamp = stamp!(record, group).load(Ordering::Acquire);
        if !stamp::is_locked(stamp) && stamp::time(stamp) <= time {
            let writer = writer!(record, group).load(Ordering::Acquire);
            if writer == NONE || writer == self.id.bits() {
                return Ok(Some(stamp));
            }
        }
        let found = self.visible(record, group, head, time)?;
        Ok(matches!(found.place, Place::Record).then_some(found.stamp))
    }

    /// Copies the visible versions of groups of a record, wherever each of them is, into one row. `None` if
    /// the row is absent.
    #[cold]
    pub(super) fn put_together(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        time: u64,
    ) -> Result<Option<RecordRef>, Conflict> {
        self.row.clear();
        let row = self.row.take(layout.words, &self.shared.chunks);
        let mut absent = false;
        for group in Groups(groups) {
            let head = heads_base::<Hekaton>(layout) + group;
            let span = layout.groups[group].span;
            let stamp = loop {
                let Found { stamp, place } = self.visible(record, group, head, time)?;
                let copy = |from: RecordRef, at: usize| {
                    for index in 0..span.len() {
                        // Relaxed: checked below, or published with the version.
                        let word = from.word(at + index).load(Ordering::Relaxed);
                        row.word(span.start + index).store(word, Ordering::Relaxed);
                    }
                };
                let stands = match place {
                    _ if stamp::is_absent(stamp) && !matches!(place, Place::Image { .. }) => true,
                    Place::Record => {
                        copy(record, data_base::<Hekaton>(layout) + span.start);
                        // Acquire fence, then a relaxed load: pairs with the release fence of the install.
                        fence(Ordering::Acquire);
                        stamp!(record, group).load(Ordering::Relaxed) == stamp
                    }
                    Place::Chain(old) => {
                        old.into_iter().for_each(|old| copy(old.block(), version::HEADER));
                        true
                    }
                    Place::Image { of, link, speculative } => {
                        if let Some(image) = RecordRef::from_link(link & !WILL_BE_ABSENT) {
                            copy(image, 0);
                        }
                        let shown = self.shared.times.still_shows(of);
                        if shown && speculative {
                            note(|| format!("reads speculatively of {of:?}"));
                            self.dependencies.push(of);
                        }
                        shown
                    }
                };
                if stands {
                    break stamp;
                }
            };
            absent |= stamp::is_absent(stamp);
            self.reads.push(Read { record, stamp, group: group as u8, head: head as u16 });
        }
        Ok((!absent).then_some(row))
    }

    /// When a record is read: at the begin, or, under repeatable read, when it was read first.
    #[inline(always)]
    pub(super) fn read_time(&mut self, env: Env<'_>, record: RecordRef) -> u64 {
        if env.isolation == Isolation::RepeatableRead { self.read_first(record) } else { self.begin }
    }

    #[cold]
    fn read_first(&mut self, record: RecordRef) -> u64 {
        if let Some(at) = self.records.get(record) {
            return self.times[at];
        }
        self.records.put(record, self.times.len());
        self.times.push(self.shared.times.now());
        self.times[self.times.len() - 1]
    }

    /// The latest time of a version that this attempt may overwrite.
    #[inline(always)]
    pub(super) fn newest_overwritten(&self, env: Env<'_>, record: RecordRef) -> u64 {
        match env.isolation {
            Isolation::RepeatableRead => self.records.get(record).map_or(u64::MAX, |at| self.times[at]),
            _ => self.begin,
        }
    }

    /// Whether every group that was read stands at `time`, our end.
    pub(super) fn validate_reads(&self, time: u64) -> Result<(), Conflict> {
        if planted(Mutant::HekatonReadsNotValidated) {
            return Ok(());
        }
        for read in &self.reads {
            let found = self.visible(read.record, read.group.into(), read.head.into(), time)?;
            // A version that a preparing transaction shows counts as there: if it was read, we depend on it
            // already; if not, our read is over unless it aborts, and the paper does not wait for that
            // either.
            if found.stamp != read.stamp {
                return Err(Conflict::ReadChanged);
            }
        }
        Ok(())
    }
}
