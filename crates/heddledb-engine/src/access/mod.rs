//! A transaction's own writes, kept privately until it commits.
//!
//! All protocols here defer their writes: a write is a [`Write`] entry for the record with *patches* (words
//! to copy, to add, or to merge under a mask) in a scratch buffer. Reads of the same transaction see them
//! through [`WriteSet::overlay`]; a committing protocol puts them into the record with [`WriteSet::install`],
//! under a lock that makes that exclusive.
//!
//! Clearing truncates, so a worker that has run for a while allocates nothing.

mod digest;
mod groups;
mod marks;
mod patch;
mod records;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;

pub use groups::Groups;
pub use marks::TakeBack;
pub(crate) use records::{RecordMap, Vacancy, copy_key};

use crate::record::RecordRef;
use crate::seam::Summand;
use crate::sync::{ASSERTS_LOAD, AtomicU64, Ordering, Work, work};
use crate::table::{GroupSet, Layout, Span};
use crate::values::{Outside, Slot};
use marks::Marks;
use patch::{NONE, Patch, PatchKind};
use records::Sketch;

/// What a transaction does to one record.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The record.
    pub record: RecordRef,
    /// Its relation's layout.
    pub layout: &'static Layout,
    /// Its relation's number.
    pub relation: u32,
    /// Where its key starts in the scratch buffer, and how many words it has.
    pub key: u32,
    /// Key words.
    pub key_words: u8,
    /// The column groups to lock.
    pub groups: GroupSet,
    /// Whether the row exists after this transaction.
    pub present: bool,
    /// Whether the row existed when this transaction first wrote it.
    pub was_present: bool,
    /// The column groups that others were shown before the commit, by a protocol that shows writes.
    pub exposed: GroupSet,
    /// Whether the patches cover every word, so that the record's own data do not matter.
    full: bool,
    /// Whether they are in the record already, all of them.
    installed: bool,
    first: u32,
    last: u32,
}

impl Write {
    /// A write without patches: what becomes of the row stands elsewhere.
    pub(crate) fn of_row(
        record: RecordRef,
        layout: &'static Layout,
        relation: u32,
        groups: GroupSet,
        present: bool,
        was_present: bool,
    ) -> Self {
        Self {
            record,
            layout,
            relation,
            key: 0,
            key_words: 0,
            groups,
            present,
            was_present,
            exposed: 0,
            full: false,
            installed: false,
            first: NONE,
            last: NONE,
        }
    }

    /// The group numbers to lock, ascending.
    #[inline(always)]
    pub fn group_numbers(&self) -> Groups {
        Groups(self.groups)
    }

    /// True if the record's own data do not matter for what this transaction sees.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.full
    }
}

/// Up to so many writes are gone through, and not entered in the map.
const FEW: usize = 4;

/// All writes of one transaction.
#[derive(Default)]
pub struct WriteSet {
    /// The numbers of the writes, where there are more than [`FEW`]; else empty.
    records: RecordMap,
    writes: Vec<Write>,
    sketch: Sketch,
    /// Whether one of them has been, or was begun as, a row that does not exist.
    absent: bool,
    patches: Vec<Patch>,
    /// Grows only; what is in use ends at `end`.
    scratch: Vec<u64>,
    end: usize,
    /// How many writes there were at the last mark: before one of these is changed, it is kept.
    before: usize,
    /// To what the writes can be taken back.
    marks: Marks,
}

impl WriteSet {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        if !self.writes.is_empty() {
            if self.writes.len() > FEW {
                self.records.clear();
            }
            self.writes.clear();
            self.patches.clear();
            self.absent = false;
            self.sketch = Sketch::default();
        }
        self.end = 0;
        if self.marks.set {
            self.forget_marks();
        }
    }

    /// A write that is about to be changed.
    #[inline(always)]
    fn change(&mut self, index: usize) -> &mut Write {
        if index < self.before {
            self.keep(index);
        }
        let write = &mut self.writes[index];
        write.installed = false;
        write
    }

    /// Notes that others were shown column groups of a write.
    #[inline]
    pub fn expose(&mut self, index: usize, groups: GroupSet) {
        self.writes[index].exposed |= groups;
    }

    /// The writes, in the order of their first access.
    #[inline]
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// True without writes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The number of the write to `record`.
    #[inline]
    pub fn find(&self, record: RecordRef) -> Option<usize> {
        if self.sketch.may_have(record) { self.find_written(record) } else { None }
    }

    /// A function of its own: most records that are read are not written, and do without its loop.
    #[inline(never)]
    fn find_written(&self, record: RecordRef) -> Option<usize> {
        if self.writes.len() <= FEW { self.find_among_few(record) } else { self.records.get(record) }
    }

    /// As [`Self::find`], by going through them.
    #[inline(always)]
    fn find_among_few(&self, record: RecordRef) -> Option<usize> {
        self.writes.iter().position(|write| write.record == record)
    }

    /// False if every write leaves a row.
    #[inline(always)]
    pub fn may_leave_absent(&self) -> bool {
        self.absent
    }

    /// The number of the write to `record`, or where one is to be started before any other.
    #[inline(always)]
    pub fn find_or_vacancy(&mut self, record: RecordRef) -> Result<usize, Vacancy> {
        if self.writes.len() <= FEW {
            return self.find_among_few(record).ok_or(Vacancy::NONE);
        }
        self.records.find(record)
    }

    /// The write that was begun last counts, of `record`, for which there was a vacancy.
    #[inline(always)]
    pub fn enter(&mut self, record: RecordRef, vacancy: Vacancy) {
        match self.writes.len() {
            ..=FEW => {}
            writes if writes == FEW + 1 => self.enter_all(record),
            writes => self.records.fill(vacancy, record, writes - 1),
        }
    }

    /// As [`Self::enter`], and the others, which are so many only now.
    fn enter_all(&mut self, record: RecordRef) {
        self.writes[..FEW].iter().enumerate().for_each(|(number, write)| {
            self.records.put(write.record, number);
        });
        self.records.put(record, FEW);
    }

    /// True if this transaction writes column group `group` of `record`.
    #[inline]
    pub fn covers(&self, record: RecordRef, group: usize) -> bool {
        self.find(record).is_some_and(|index| self.writes[index].groups & (1 << group) != 0)
    }

    /// Answers [`Self::covers`] for many groups, quickly if they come in the order of the writes.
    #[inline(always)]
    pub fn coverage(&self) -> impl FnMut(RecordRef, usize) -> bool + '_ {
        let mut at = 0;
        move |record, group| {
            let is_at = |at: usize| self.writes.get(at).is_some_and(|write| write.record == record);
            if !is_at(at) {
                at = if is_at(at + 1) {
                    at + 1
                } else {
                    let Some(number) = self.find(record) else { return false };
                    number
                };
            }
            self.writes[at].groups & (1 << group) != 0
        }
    }

    /// The key words of a write.
    #[inline]
    pub fn key(&self, write: &Write) -> &[u64] {
        &self.scratch[write.key as usize..][..write.key_words as usize]
    }

    /// Starts a write to column groups of a record for which there was a vacancy, and returns its number.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what a write is made of")]
    pub fn start(
        &mut self,
        vacancy: Vacancy,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        was_present: bool,
    ) -> usize {
        let number = self.start_at(record, layout, relation, key, groups, was_present, NONE);
        self.enter(record, vacancy);
        number
    }

    /// Begins a write to a column group of a record that has none, and returns where in the scratch buffer its row is: the
    /// words of `span` are what will be installed. Then either [`Self::enter`] or [`Self::take_back_begun`].
    #[inline(always)]
    pub fn begin_replaced(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        span: Span,
    ) -> usize {
        let at = self.reserve(span.end);
        let patch = self.patch(PatchKind::Copy, span, at + span.start);
        self.start_at(record, layout, relation, key, groups, true, patch);
        at
    }

    /// There is no write as it was begun last. Its record stays in the sketch, and its words in the scratch buffer.
    #[cold]
    pub fn take_back_begun(&mut self) {
        self.writes.pop();
        self.patches.pop();
    }

    /// Starts a write with one patch, or with `NONE`, which `records` does not know yet.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what a write is made of")]
    fn start_at(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        was_present: bool,
        patch: u32,
    ) -> usize {
        let number = self.writes.len();
        let key_at = self.reserve(key.len());
        match *key {
            [word] => self.scratch[key_at] = word,
            _ => copy_key(&mut self.scratch[key_at..self.end], key),
        }
        self.absent |= !was_present;
        self.sketch.add(record);
        self.writes.push(Write {
            record,
            layout,
            relation: relation as u32,
            key: key_at as u32,
            key_words: key.len() as u8,
            groups,
            present: was_present,
            was_present,
            exposed: 0,
            full: false,
            installed: false,
            first: patch,
            last: patch,
        });
        number
    }

    /// Adds column groups to those that a write locks.
    #[inline]
    pub fn widen(&mut self, index: usize, groups: GroupSet) {
        self.change(index).groups |= groups;
    }

    /// Makes room for `words` words, whatever they are, in the scratch buffer and returns where.
    #[inline]
    pub fn reserve(&mut self, words: usize) -> usize {
        let at = self.end;
        self.end += words;
        if self.end > self.scratch.len() {
            self.grow();
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        self.scratch.resize(self.end.next_power_of_two(), 0);
    }

    /// Words of the scratch buffer.
    #[inline]
    pub fn scratch(&mut self, at: usize, words: usize) -> &mut [u64] {
        &mut self.scratch[at..at + words]
    }

    /// The words that were reserved last, from `at` on, and given back: they are the caller's until something
    /// else is reserved.
    #[inline]
    pub fn last(&mut self, at: usize, words: usize) -> &mut [u64] {
        self.end = at;
        &mut self.scratch[at..at + words]
    }

    /// Gives back everything of the scratch buffer from `at` on; nothing may refer to it.
    #[inline]
    pub fn release(&mut self, at: usize) {
        self.end = at;
    }

    /// Makes a patch, of no write yet, and returns its number.
    #[inline(always)]
    fn patch(&mut self, kind: PatchKind, span: Span, words: usize) -> u32 {
        let number = self.patches.len() as u32;
        let (start, len) = (span.start as u32, span.len() as u32);
        self.patches.push(Patch { kind, start, len, words: words as u32, next: NONE });
        number
    }

    #[inline]
    fn push(&mut self, index: usize, kind: PatchKind, span: Span, words: usize) {
        let number = self.patch(kind, span, words);
        let write = self.change(index);
        let last = std::mem::replace(&mut write.last, number);
        match last {
            NONE => write.first = number,
            last => self.patches[last as usize].next = number,
        }
    }

    /// The words of `span` become those at `words` of the scratch buffer.
    #[inline]
    pub fn replace(&mut self, index: usize, span: Span, words: usize) {
        self.push(index, PatchKind::Copy, span, words);
    }

    /// Adds to data word `word`.
    #[inline]
    pub fn add(&mut self, index: usize, word: usize, summand: Summand) {
        let at = self.reserve(1);
        self.scratch[at] = summand.bits();
        self.push(index, PatchKind::of(summand), Span { start: word, end: word + 1 }, at);
    }

    /// Replaces bits of `span`: the values are at `words`, followed by as many masks.
    #[inline]
    pub fn merge(&mut self, index: usize, span: Span, words: usize) {
        self.push(index, PatchKind::Merge, span, words);
    }

    /// The row exists after this transaction, with the whole data at `words`.
    #[inline]
    pub fn set_full(&mut self, index: usize, words: usize) {
        let layout = self.writes[index].layout;
        let write = self.change(index);
        (write.present, write.full, write.first, write.last) = (true, true, NONE, NONE);
        write.groups = layout.all_groups();
        self.replace(index, Span { start: 0, end: layout.words }, words);
    }

    /// The row does not exist after this transaction.
    #[inline]
    pub fn set_absent(&mut self, index: usize) {
        self.absent = true;
        let write = self.change(index);
        (write.present, write.full, write.first, write.last) = (false, true, NONE, NONE);
        write.groups = write.layout.all_groups();
    }

    /// True if the record's own data do not matter for what this transaction sees.
    #[inline]
    pub fn is_full(&self, index: usize) -> bool {
        self.writes[index].is_full()
    }

    /// Whether a write adds to a word.
    pub(crate) fn adds(&self, write: &Write) -> bool {
        let mut next = write.first;
        while let Some(patch) = self.patches.get(next as usize) {
            if matches!(patch.kind, PatchKind::Add | PatchKind::AddHalves) {
                return true;
            }
            next = patch.next;
        }
        false
    }

    /// Applies the patches of a write to a copy of the row's words from `start` on, which lies at
    /// `at` in the scratch buffer and has `len` words.
    pub fn overlay(&mut self, index: usize, start: usize, at: usize, len: usize) {
        let mut next = self.writes[index].first;
        while next != NONE {
            let patch = self.patches[next as usize];
            next = patch.next;
            for offset in 0..patch.len as usize {
                let word = patch.start as usize + offset;
                if word < start || word >= start + len {
                    continue;
                }
                let value = self.scratch[patch.words as usize + offset];
                let mask = match patch.kind {
                    PatchKind::Merge => self.scratch[(patch.words + patch.len) as usize + offset],
                    _ => u64::MAX,
                };
                let target = &mut self.scratch[at + word - start];
                *target = match patch.kind {
                    PatchKind::Copy => value,
                    PatchKind::Add | PatchKind::AddHalves => patch.kind.sum(*target, value),
                    PatchKind::Merge => (*target & !mask) | (value & mask),
                };
            }
        }
    }

    /// The values outside of its row that a write leaves in it. The record's words, which begin at `base`, may be read while
    /// others change them: then it is nearly so.
    pub fn values<'a>(&'a self, write: &'a Write, base: usize) -> impl Iterator<Item = Outside> + 'a {
        write.layout.slots.iter().filter_map(move |slot| {
            let (mut row, nowhere) = (Vec::new(), AtomicU64::new(0));
            // Relaxed: as is said above.
            let word = |at: usize| AtomicU64::new(write.record.word(base + at).load(Ordering::Relaxed));
            row.extend([word(*slot), word(slot + 1)]);
            let span = Span { start: *slot, end: slot + 2 };
            self.apply(write, span, |at| {
                at.checked_sub(*slot).and_then(|at| row.get(at)).unwrap_or(&nowhere)
            });
            Slot([row[0].load(Ordering::Relaxed), row[1].load(Ordering::Relaxed)]).value()
        })
    }

    /// Puts a write's data into the record, whose data start at word `base`. The caller holds the lock that
    /// makes it the only writer, and publishes with a release afterwards.
    #[inline(always)]
    pub fn install(&self, write: &Write, base: usize) {
        if write.installed {
            debug_assert!(
                !ASSERTS_LOAD || self.stands_in_place(write, base),
                "shown is not what is installed"
            );
            return;
        }
        // As often as not it is this.
        if let Some(Patch { kind: PatchKind::Copy, start, len: 1, words, next: NONE }) =
            self.patches.get(write.first as usize)
        {
            work(Work::Words(1));
            // Relaxed: as in `apply`.
            let target = write.record.word(base + *start as usize);
            target.store(self.scratch[*words as usize], Ordering::Relaxed);
            return;
        }
        self.install_all(write, base);
    }

    #[inline(never)]
    fn install_all(&self, write: &Write, base: usize) {
        let all = Span { start: 0, end: write.layout.words };
        self.apply(write, all, |word| write.record.word(base + word));
    }

    /// Whether the record holds what a write of the whole row put into it, for assertions. Not asked of
    /// writes with several patches.
    fn stands_in_place(&self, write: &Write, base: usize) -> bool {
        let Some(patch) = self.patches.get(write.first as usize) else { return true };
        if patch.next != NONE || patch.kind != PatchKind::Copy {
            return true;
        }
        let words = &self.scratch[patch.words as usize..][..patch.len as usize];
        let at = base + patch.start as usize;
        // Relaxed: stored by this thread.
        words.iter().enumerate().all(|(i, word)| write.record.word(at + i).load(Ordering::Relaxed) == *word)
    }

    /// Puts the data of a row that comes into being into its record and notes that others are shown all of
    /// it, for a protocol that knows that no other transaction uses the record's words. A commit installs
    /// them again only if the write was changed since.
    #[inline]
    pub fn show_in_place(&mut self, index: usize, base: usize) {
        self.install(&self.writes[index], base);
        let write = &mut self.writes[index];
        (write.exposed, write.installed) = (write.groups, true);
    }

    /// Applies the part of a write that lies in `span` to words that `target` finds by their place in the
    /// row. The caller is their only writer.
    #[inline(always)]
    pub fn apply<'a>(&self, write: &Write, span: Span, target: impl Fn(usize) -> &'a AtomicU64) {
        let mut next = write.first;
        // No patch has the number `NONE`.
        while let Some(patch) = self.patches.get(next as usize) {
            next = patch.next;
            let (start, end) = (patch.start as usize, (patch.start + patch.len) as usize);
            if start >= span.end || end <= span.start {
                continue;
            }
            let at = patch.words as usize;
            let words = &self.scratch[at..at + patch.len as usize];
            work(Work::Words(words.len()));
            // Relaxed throughout: optimistic readers discard what they copied while the caller's
            // lock bit was set, and the caller's release store publishes the rest.
            match patch.kind {
                PatchKind::Copy => {
                    // That of a whole row covers several groups.
                    let (from, to) = (start.max(span.start), end.min(span.end));
                    for (offset, word) in words[from - start..to - start].iter().enumerate() {
                        target(from + offset).store(*word, Ordering::Relaxed);
                    }
                }
                PatchKind::Add | PatchKind::AddHalves => {
                    let word = target(start);
                    word.store(patch.kind.sum(word.load(Ordering::Relaxed), words[0]), Ordering::Relaxed);
                }
                PatchKind::Merge => {
                    let masks = &self.scratch[(patch.words + patch.len) as usize..][..patch.len as usize];
                    for (offset, (word, mask)) in words.iter().zip(masks).enumerate() {
                        let target = target(start + offset);
                        let old = target.load(Ordering::Relaxed);
                        target.store((old & !mask) | (word & mask), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
