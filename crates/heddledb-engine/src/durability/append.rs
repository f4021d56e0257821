//! What one commit appends to its worker's buffer: the words of the rows that it wrote, or the call that made it.

use super::{RedoLog, Relation};
use crate::access::{Groups, Write, WriteSet};
use crate::footprint::Footprint;
use crate::heap::Heap;
use crate::log::{CELLS_MAX, Cell, CellUse, Writing, WritingCommand, digest, sort_cells};
use crate::mutant::{Mutant, planted};
use crate::record::RecordRef;
use crate::sync::{MutexGuard, Ordering, lock};
use crate::table::{GroupSet, Layout};
use crate::values::{Outside, Slot};

/// What a worker has committed since the last round took it.
#[derive(Default)]
pub(crate) struct Buffer {
    pub words: Vec<u64>,
    /// The highest epoch in it.
    pub highest: u64,
    /// Of the call that is being appended.
    cells: Vec<Cell>,
    /// Of what the worker's last call wrote.
    pub digest: u64,
}

/// What the log says of a commit.
#[derive(Clone, Copy)]
pub(crate) enum Says<'a> {
    /// The rows that it wrote.
    Rows,
    /// That it was this call.
    Call(Call<'a>),
    /// Nothing: it is in the log, and is made again. What it writes is added up.
    Nothing,
}

/// A call, for a log of commands.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The number of its procedure in the files.
    pub procedure: u16,
    /// Its arguments as bytes.
    pub arguments: &'a [u8],
    /// All that it has read, at the least.
    pub footprint: &'a Footprint,
}

/// What was announced of a commit before it drew its time; nothing, in a log without calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announced {
    /// Something happens for the first time: it is replayed alone.
    alone: bool,
    /// The scans of relations to which nobody had written, by their number among its ranges.
    quiet: u64,
}

/// The entry of one commit, being written.
pub(crate) struct Append<'a> {
    log: &'a RedoLog,
    buffer: MutexGuard<'a, Buffer>,
    entry: Entry<'a>,
    announced: Announced,
}

enum Entry<'a> {
    Rows(Option<Writing>),
    /// The rows are added up, and not kept.
    Sum {
        digest: u64,
        call: Option<(WritingCommand, Call<'a>)>,
    },
}

impl<'a> Says<'a> {
    /// What the call has told, if it says that it was one.
    pub fn footprint(&self) -> Option<&'a Footprint> {
        match self {
            Self::Call(call) => Some(call.footprint),
            Self::Rows | Self::Nothing => None,
        }
    }
}

impl RedoLog {
    /// Before a commit draws its time in a log of commands: what it writes, and scans if it is a call. See `firsts`.
    pub fn announce(&self, writes: &WriteSet, footprint: Option<&Footprint>) -> Announced {
        let mut known = true;
        for write in writes.writes() {
            known &= self.firsts[write.relation as usize].groups().announce(groups_of(write));
        }
        let Some(footprint) = footprint else { return Announced { alone: !known, quiet: 0 } };
        known &= self.begun.announce(1);
        let mut quiet = 0;
        for (at, (relation, low, high)) in footprint.ranges().enumerate() {
            let firsts = &self.firsts[relation.number as usize];
            if at < 64 && firsts.groups().announced() == 0 {
                quiet |= 1 << at;
            } else {
                known &= firsts.lengths().announce(1 << common(low, high));
            }
        }
        Announced { alone: !known && !planted(Mutant::CommandNeverAlone), quiet }
    }

    /// The sum of what the worker's last call wrote, which is told once.
    pub fn take_digest(&self, worker: usize) -> u64 {
        std::mem::take(&mut lock(&self.buffers[worker]).digest)
    }
}

/// The column groups that a write concerns: of a row that comes or goes, all.
fn groups_of(write: &Write) -> GroupSet {
    if write.present && write.was_present { write.groups } else { write.layout.all_groups() }
}

/// How many leading words all keys from one to the other have in common.
fn common(low: &[u64], high: &[u64]) -> usize {
    low.iter().zip(high).take_while(|(low, high)| low == high).count()
}

impl<'a> Append<'a> {
    #[inline(always)]
    pub(super) fn begin(
        log: &'a RedoLog,
        mut buffer: MutexGuard<'a, Buffer>,
        time: u64,
        says: Says<'a>,
        announced: Announced,
    ) -> Self {
        let entry = match says {
            Says::Rows => Entry::Rows(Some(Writing::begin(&mut buffer.words, time))),
            Says::Nothing => Entry::Sum { digest: 0, call: None },
            Says::Call(call) => {
                let writing = WritingCommand::begin(&mut buffer.words, time, call.procedure, call.arguments);
                Entry::Sum { digest: 0, call: Some((writing, call)) }
            }
        };
        Self { log, buffer, entry, announced }
    }

    /// Whether the buffer is so full that its owner should wait for a round.
    pub fn is_long(&self) -> bool {
        self.buffer.words.len() >= self.log.options.buffer_words
    }

    /// Adds a write: the words of its column groups as they are in the record now. The caller is the
    /// record's only writer.
    #[inline(always)]
    pub fn write(&mut self, write: &LoggedWrite<'_>) {
        let relation = self.log.relations[write.relation];
        if self.announced.alone {
            // As they were announced: all, of a row that comes or goes. What is known of too few is announced again.
            self.log.firsts[write.relation].groups().make_known(write.groups);
        }
        match &mut self.entry {
            Entry::Rows(Some(entry)) => entry_of(write, relation.id, entry, &mut self.buffer.words),
            Entry::Rows(None) => {}
            Entry::Sum { .. } => self.add_up(write, relation),
        }
    }

    #[inline(never)]
    fn add_up(&mut self, write: &LoggedWrite<'_>, relation: Relation) {
        let Self { log, buffer, entry: Entry::Sum { digest: sum, call }, .. } = self else { return };
        let Buffer { words, cells, .. } = &mut **buffer;
        if !relation.is_index {
            // As in an entry of rows, whose words are taken back.
            let start = words.len();
            let mut entry = Writing::begin(words, 0);
            entry_of(write, relation.id, &mut entry, words);
            *sum = sum.wrapping_add(digest(&words[start + 2..]));
            words.truncate(start);
        }
        if call.is_some() {
            let groups = if write.present { write.groups } else { write.layout.all_groups() };
            let cell = |group| Cell::of_row(relation.id, write.key, group, CellUse::Writes);
            cells.extend(Groups(groups).map(cell));
            if !planted(Mutant::CommandWithinForgotten) {
                let announced = log.firsts[write.relation].lengths().announced();
                let lengths = (0..=write.key.len()).filter(|words| announced >> words & 1 == 1);
                cells.extend(
                    lengths.map(|words| Cell::below(relation.id, &write.key[..words], CellUse::Within)),
                );
            }
        }
    }
}

/// Appends a write to an entry of rows.
#[inline(always)]
fn entry_of(write: &LoggedWrite<'_>, id: u16, entry: &mut Writing, out: &mut Vec<u64>) {
    let spans = || Groups(write.groups).map(|group| write.layout.groups[group].span);
    let mut words: usize = if write.present { spans().map(|span| span.len()).sum() } else { 0 };
    if write.present && !write.layout.slots.is_empty() {
        words += write.values().map(Outside::words).sum::<usize>();
    }
    entry.write(out, id, write.groups, write.present, write.key, words);
    if write.present {
        let start = out.len();
        for span in spans() {
            // Relaxed: stored by this thread, or ordered by the lock on the record.
            let word =
                |index: usize| write.record.word(write.base.wrapping_add(index)).load(Ordering::Relaxed);
            out.extend((span.start..span.end).map(word));
        }
        if !write.layout.slots.is_empty() {
            write.heap.append(write.layout.logged_slots(write.groups), start, out);
        }
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        let Self { log, buffer, entry, announced } = self;
        match entry {
            Entry::Rows(entry) => {
                if let Some(entry) = entry.take() {
                    entry.end_alone(&mut buffer.words, announced.alone);
                }
            }
            Entry::Sum { digest, call } => {
                buffer.digest = *digest;
                if let Some((writing, call)) = call.take() {
                    end_call(log, buffer, writing, &call, *announced, *digest);
                }
            }
        }
    }
}

/// Ends the entry of a call: with what it has read, too.
fn end_call(
    log: &RedoLog,
    buffer: &mut Buffer,
    writing: WritingCommand,
    call: &Call<'_>,
    announced: Announced,
    digest: u64,
) {
    let Buffer { words, cells, .. } = buffer;
    let Announced { mut alone, quiet } = announced;
    if !planted(Mutant::CommandReadsForgotten) {
        for (relation, key, groups, _) in call.footprint.points() {
            let id = log.relations[relation.number as usize].id;
            // What nobody writes is read without a word.
            let written = groups & log.firsts[relation.number as usize].groups().announced() as GroupSet;
            cells.extend(Groups(written).map(|group| Cell::of_row(id, key, group, CellUse::Reads)));
        }
    }
    for (at, (relation, low, high)) in call.footprint.ranges().enumerate() {
        if at < 64 && quiet >> at & 1 == 1 {
            // Whoever writes there now may not have seen the scan.
            alone |= log.firsts[relation.number as usize].groups().announced() != 0;
        } else {
            cells.push(Cell::below(
                log.relations[relation.number as usize].id,
                &low[..common(low, high)],
                CellUse::Scans,
            ));
        }
    }
    sort_cells(cells);
    // A call with more of them waits for all others, and they for it.
    alone |= cells.len() > CELLS_MAX;
    cells.truncate(CELLS_MAX);
    writing.end(words, cells, alone, digest);
    cells.clear();
    if announced.alone {
        log.begun.make_known(1);
        for (at, (relation, low, high)) in call.footprint.ranges().enumerate() {
            if at >= 64 || quiet >> at & 1 == 0 {
                log.firsts[relation.number as usize].lengths().make_known(1 << common(low, high));
            }
        }
    }
}

/// A write to a record, for the log.
pub(crate) struct LoggedWrite<'a> {
    /// The record.
    pub record: RecordRef,
    /// Where its data begin; of a version with one group, where those before would.
    pub base: usize,
    /// Its shape.
    pub layout: &'static Layout,
    /// Its relation's number in this process.
    pub relation: usize,
    /// Its key.
    pub key: &'a [u64],
    /// What was written.
    pub groups: GroupSet,
    /// Whether the row exists now.
    pub present: bool,
    /// Where its values are.
    pub heap: &'a Heap,
}

impl LoggedWrite<'_> {
    /// The values of what was written that are not in the record.
    fn values(&self) -> impl Iterator<Item = Outside> + '_ {
        let word = |at: usize| self.record.word(self.base.wrapping_add(at)).load(Ordering::Relaxed);
        Groups(self.groups)
            .flat_map(|group| self.layout.slots_of(group))
            .filter_map(move |at| Slot([word(at), word(at + 1)]).value())
    }
}
