//! What a deferring transaction intends with rows, until its commit.
//!
//! A *step* is an intention on a row, known by the number that the front gave it. A row has its steps in the order of the
//! body. At the commit, when a row's turn has come, its words are copied here, the steps are applied to the copy
//! ([`Operators`]), and what they have made of it is installed from here.
//!
//! Clearing truncates, so a worker that has run for a while allocates nothing.

use crate::access::{Groups, RecordMap, Write, copy_key};
use crate::record::RecordRef;
use crate::seam::{Applied, Intention, Operators};
use crate::table::{Definition, GroupSet, Layout};

/// A row of which something is intended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub record: RecordRef,
    pub layout: &'static Layout,
    pub relation: u32,
    /// The column groups that the steps read or may write.
    pub groups: GroupSet,
    /// Whether there was a row when its turn came, and whether there is one as the steps have made it.
    pub was_present: bool,
    pub present: bool,
    /// The column groups that they have changed.
    pub changed: GroupSet,
    /// Its words are copied.
    pub loaded: bool,
    key: u32,
    key_words: u8,
    /// Where its words are.
    words: u32,
    /// Its next step, and its last.
    next: u32,
    last: u32,
}

impl Row {
    /// The numbers of its column groups.
    pub fn group_numbers(&self) -> Groups {
        Groups(self.groups)
    }

    /// What the steps have made of it, as a write of the groups that they have changed.
    pub fn write(&self) -> Write {
        let Self { record, layout, relation, changed, present, was_present, .. } = *self;
        Write::of_row(record, layout, relation, changed, present, was_present)
    }

    /// Whether the steps have made something of it that is to be installed. A row that they have made and removed is, too:
    /// its stamp tells that this transaction has written it, so that times rise from writer to writer.
    pub fn has_effect(&self) -> bool {
        self.present != self.was_present || self.changed != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    number: u32,
    next: u32,
    row: u32,
}

/// A row that a step makes, and with it its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insert {
    pub relation: &'static Definition,
    step: u32,
    /// Where its key is, with its words behind.
    key: u32,
    /// Whether its step was applied, and whether that has made it.
    applied: bool,
    pub made: bool,
}

const NONE: u32 = u32::MAX;

/// All intentions of one transaction.
#[derive(Default)]
pub(crate) struct Plan {
    rows: Vec<Row>,
    steps: Vec<Step>,
    records: RecordMap,
    /// Rows that steps make, in the order in which they were told.
    inserts: Vec<Insert>,
    /// Keys, and copies of rows.
    scratch: Vec<u64>,
    /// Steps that were not applied.
    left: usize,
}

impl Plan {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.records.clear();
            self.rows.clear();
            self.steps.clear();
            self.inserts.clear();
            self.scratch.clear();
            self.left = 0;
        }
    }

    /// True without intentions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.inserts.is_empty()
    }

    /// The rows, in the order of their first steps; behind them those that were made.
    #[inline]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of a record.
    #[inline]
    pub fn find(&self, record: RecordRef) -> Option<usize> {
        self.records.get(record)
    }

    /// The key words of a row.
    #[inline]
    pub fn key(&self, row: &Row) -> &[u64] {
        &self.scratch[row.key as usize..][..row.key_words.into()]
    }

    /// The words of a row.
    #[inline]
    pub fn words(&self, row: &Row) -> &[u64] {
        &self.scratch[row.words as usize..][..row.layout.words]
    }

    /// Words that a log needs for all of it, at most, once the rows that steps have made have their places.
    pub fn logged_words(&self) -> usize {
        self.rows.iter().map(|row| 1 + usize::from(row.key_words) + row.layout.words).sum()
    }

    /// A step will make a row of this relation, to be inserted.
    pub fn add_insert(&mut self, relation: &'static Definition, step: u32) {
        let last = self.inserts.last().map(|insert| insert.step);
        debug_assert!(last.is_none_or(|last| last <= step), "numbers of steps rise");
        self.left += usize::from(last != Some(step));
        let key = self.scratch.len();
        self.scratch.resize(key + relation.key_words + relation.layout.words, 0);
        self.inserts.push(Insert { relation, step, key: key as u32, applied: false, made: false });
    }

    /// The rows that steps make.
    #[inline]
    pub fn inserts(&self) -> &[Insert] {
        &self.inserts
    }

    /// The key words of a row that was made.
    pub fn key_of(&self, insert: &Insert) -> &[u64] {
        &self.scratch[insert.key as usize..][..insert.relation.key_words]
    }

    /// The first of the rows that a step makes, if it makes any.
    pub fn insert_of(&self, step: u32) -> Option<usize> {
        let at = self.inserts.partition_point(|insert| insert.step < step);
        self.inserts.get(at).is_some_and(|insert| insert.step == step).then_some(at)
    }

    /// Applies a step that makes rows, if it is ready: the one of this row and of those behind it. Returns how many rows it
    /// makes.
    pub fn make(&mut self, first: usize, operators: &mut dyn Operators) -> usize {
        let Insert { step, key, .. } = self.inserts[first];
        let inserts = &mut self.inserts[first..];
        let many = inserts.iter().take_while(|insert| insert.step == step).count();
        let inserts = &mut inserts[..many];
        if inserts[0].applied || !operators.is_ready(step) {
            return many;
        }
        let words: usize =
            inserts.iter().map(|insert| insert.relation.key_words + insert.relation.layout.words).sum();
        let outcome = operators.apply(step, false, &mut self.scratch[key as usize..][..words]);
        for insert in inserts {
            (insert.applied, insert.made) = (true, outcome == Applied::Made);
        }
        self.left -= 1;
        many
    }

    /// A row that was made has this record, which is absent and that nobody else queues for.
    pub fn place(&mut self, at: usize, record: RecordRef) {
        let Insert { relation, key, made, .. } = self.inserts[at];
        debug_assert!(made, "what was not made has no place");
        let layout = relation.layout;
        self.records.put(record, self.rows.len());
        self.rows.push(Row {
            record,
            layout,
            relation: relation.number() as u32,
            groups: layout.all_groups(),
            was_present: false,
            present: true,
            changed: layout.all_groups(),
            loaded: true,
            key,
            key_words: relation.key_words as u8,
            words: key + relation.key_words as u32,
            next: NONE,
            last: NONE,
        });
    }

    /// Adds a step on the row of a record.
    #[expect(clippy::too_many_arguments, reason = "what a row is known by, and what is intended with it")]
    pub fn add(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        intention: Intention,
        step: u32,
    ) {
        let groups = match intention {
            Intention::Look | Intention::Change => groups,
            // That there is a row concerns all groups.
            Intention::Put | Intention::Erase => layout.all_groups(),
        };
        let number = self.steps.len() as u32;
        self.left += 1;
        let at = match self.records.find(record) {
            Ok(at) => at,
            Err(vacancy) => {
                let (at, key_at) = (self.rows.len(), self.scratch.len());
                self.scratch.resize(key_at + key.len() + layout.words, 0);
                copy_key(&mut self.scratch[key_at..key_at + key.len()], key);
                self.records.fill(vacancy, record, at);
                self.rows.push(Row {
                    record,
                    layout,
                    relation: relation as u32,
                    groups: 0,
                    was_present: false,
                    present: false,
                    changed: 0,
                    loaded: false,
                    key: key_at as u32,
                    key_words: key.len() as u8,
                    words: (key_at + key.len()) as u32,
                    next: NONE,
                    last: NONE,
                });
                at
            }
        };
        debug_assert!(self.steps.last().is_none_or(|last| last.number < step), "numbers of steps rise");
        self.steps.push(Step { number: step, next: NONE, row: at as u32 });
        let row = &mut self.rows[at];
        row.groups |= groups;
        match std::mem::replace(&mut row.last, number) {
            NONE => row.next = number,
            last => self.steps[last as usize].next = number,
        }
    }

    /// Whether something is intended with the row of this key, or with any row of the relation.
    pub fn has(&self, relation: usize, key: Option<&[u64]>) -> bool {
        let is_meant = |row: &Row| key.is_none_or(|key| self.key(row) == key);
        // Any row may be one that will be made.
        self.rows.iter().any(|row| row.relation as usize == relation && is_meant(row))
            || self.inserts.iter().any(|insert| insert.relation.number() == relation)
    }

    /// A row's turn has come: if it is there, `word` knows its words.
    #[inline]
    pub fn load(&mut self, at: usize, present: bool, word: impl Fn(usize) -> u64) {
        let row = &mut self.rows[at];
        debug_assert!(!row.loaded, "a row is loaded once");
        (row.loaded, row.was_present, row.present) = (true, present, present);
        let words = &mut self.scratch[row.words as usize..][..row.layout.words];
        if present {
            for group in Groups(row.groups) {
                let span = row.layout.groups[group].span;
                words[span.start..span.end].iter_mut().zip(span.start..).for_each(|(to, at)| *to = word(at));
            }
        }
    }

    /// Applies the steps of a loaded row that are ready. Returns how many.
    #[inline]
    pub fn apply(&mut self, at: usize, operators: &mut dyn Operators) -> usize {
        let row = &mut self.rows[at];
        let words = &mut self.scratch[row.words as usize..][..row.layout.words];
        let mut applied = 0;
        while let Some(step) = self.steps.get(row.next as usize)
            && operators.is_ready(step.number)
        {
            match operators.apply(step.number, row.present, words) {
                Applied::Kept => {}
                Applied::Changed(groups) => {
                    debug_assert!(row.present, "what is changed is there");
                    debug_assert_eq!(groups & !row.groups, 0, "only what was queued for is changed");
                    row.changed |= groups;
                }
                Applied::Made => (row.present, row.changed) = (true, row.layout.all_groups()),
                Applied::Removed => {
                    (row.present, row.changed) = (false, row.layout.all_groups());
                    // What comes after it finds zeros.
                    words.fill(0);
                }
            }
            row.next = step.next;
            applied += 1;
        }
        self.left -= applied;
        applied
    }

    /// The row of a step, by the number that the front gave it.
    #[inline]
    pub fn row_of(&self, step: u32) -> usize {
        let at = self.steps.binary_search_by_key(&step, |step| step.number);
        self.steps[at.expect("the front names steps that it has told")].row as usize
    }

    /// Whether all steps were applied.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.left == 0
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::error::{Error, Misuse};
    use crate::table::{Group, RANK, Role, Span, Structure};

    static LAYOUT: Layout = Layout {
        name: "pair",
        groups: &[
            Group { name: "one", span: Span { start: 0, end: 1 }, rank: RANK, held: false },
            Group { name: "other", span: Span { start: 1, end: 2 }, rank: RANK, held: false },
        ],
        words: 2,
        slots: &[],
    };

    static PAIRS: Definition = Definition::new(&LAYOUT, Structure::Hash, "", 1, Role::Unknown);

    /// Steps below the number are ready; each does what it says.
    struct Script(u32, Vec<(bool, Applied)>);

    impl Operators for Script {
        fn is_ready(&self, step: u32) -> bool {
            step < self.0
        }
        fn apply(&mut self, step: u32, present: bool, row: &mut [u64]) -> Applied {
            let (expected, applied) = self.1[step as usize];
            assert_eq!(present, expected, "step {step}");
            assert!(present || row.iter().all(|word| *word == 0), "an absent row is zeros");
            row[0] += 10;
            applied
        }
        fn take_ready(&mut self) -> Option<u32> {
            None
        }
        fn verdict(&self) -> Option<bool> {
            Some(true)
        }
        fn refusal(&mut self) -> Error {
            Misuse::Failed.into()
        }
    }

    #[test]
    fn steps_of_a_row_come_in_order_and_when_they_are_ready() {
        let mut arena = Arena::default();
        let records: Vec<RecordRef> = (0..2).map(|_| arena.allocate(0, 8)).collect();
        let mut plan = Plan::default();
        for round in 0..3 {
            assert!(plan.is_empty() && plan.is_done());
            plan.add(records[0], &LAYOUT, 3, &[7], 0b01, Intention::Change, 0);
            plan.add(records[1], &LAYOUT, 3, &[8], 0b10, Intention::Put, 1);
            plan.add(records[0], &LAYOUT, 3, &[7], 0b10, Intention::Look, 2);
            assert!(
                plan.has(3, None)
                    && plan.has(3, Some(&[8]))
                    && !plan.has(3, Some(&[9]))
                    && !plan.has(2, None)
            );
            assert_eq!((plan.rows()[0].groups, plan.rows()[1].groups), (0b11, 0b11));
            let mut script =
                Script(2, vec![(true, Applied::Changed(1)), (false, Applied::Made), (true, Applied::Kept)]);
            plan.load(0, true, |word| 40 + word as u64);
            plan.load(1, false, |_| unreachable!("it is absent"));
            assert_eq!((plan.apply(0, &mut script), plan.apply(1, &mut script)), (1, 1), "round {round}");
            assert!(!plan.is_done());
            assert_eq!([0, 1, 2].map(|step| plan.row_of(step)), [0, 1, 0]);
            script.0 = 9;
            assert_eq!((plan.apply(0, &mut script), plan.is_done()), (1, true));
            let [first, second] = plan.rows() else { panic!("two rows") };
            assert!(first.has_effect() && first.changed == 1 && plan.words(first) == [60, 41]);
            assert!(second.has_effect() && second.present && plan.words(second) == [10, 0]);
            plan.clear();
        }
    }

    #[test]
    fn what_comes_and_goes_is_written_and_absent() {
        let mut arena = Arena::default();
        let record = arena.allocate(0, 8);
        let mut plan = Plan::default();
        plan.add(record, &LAYOUT, 3, &[7], 0b01, Intention::Put, 0);
        plan.add(record, &LAYOUT, 3, &[7], 0b01, Intention::Erase, 1);
        plan.load(0, false, |_| 0);
        let mut script = Script(9, vec![(false, Applied::Made), (true, Applied::Removed)]);
        assert_eq!(plan.apply(0, &mut script), 2);
        let row = plan.rows()[0];
        assert!(row.has_effect() && !row.present && !row.was_present);
    }

    #[test]
    fn what_is_made_is_logged_once() {
        let mut arena = Arena::default();
        let records: Vec<RecordRef> = (0..2).map(|_| arena.allocate(0, 8)).collect();
        let mut plan = Plan::default();
        plan.add(records[0], &LAYOUT, 3, &[7], 0b01, Intention::Change, 0);
        plan.add_insert(&PAIRS, 1);
        plan.add_insert(&PAIRS, 2);
        // The head of a row, its key and its columns.
        let words = 1 + 1 + 2;
        // The last is not made.
        let mut script = Script(2, vec![(true, Applied::Changed(1)), (false, Applied::Made)]);
        assert_eq!([0, 1].map(|at| plan.make(at, &mut script)), [1, 1]);
        let [first, second] = plan.inserts() else { panic!("two inserts") };
        assert!(first.made && !second.made && plan.key_of(first) == [10]);
        plan.place(0, records[1]);
        assert_eq!(plan.logged_words(), 2 * words);
    }
}
