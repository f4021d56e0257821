//! Random procedures: types of a few steps over the recorder's tables, and inputs for them.
//!
//! A [`Program`] is a type: its steps, in order, with loops and steps that are done or not. It is declared to
//! the database as what it may access, one site for each step; a call gets an [`input`](Program::input), which
//! says for each step what it does and to which keys.
//!
//! [`Listed`] is one procedure for all of them, whose calls a log of commands can hold.

use crate::additions::Counter;
use crate::history::Op;
use crate::recorder::{
    ALL_SITES, Hashed, Hashed3, Ordered, Ordered2, Recorder, Sum, TABLES, declare_all, with_table,
};
use crate::workload::Step;
use heddledb::internals::random::Random;
use heddledb::procedure::{Announcement, Declaration, Procedure, decode_arguments, encode_arguments};
use heddledb::{Result, Scan, Transaction, table::Relation};
use std::fmt;
use std::marker::PhantomData;

/// A procedure type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    lines: Vec<Line>,
    /// From this line on it does not give up.
    sure: usize,
    /// From this line on, not before `sure`, it may be put off.
    later: usize,
}

/// A step of a type: one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    does: Does,
    table: u8,
    /// It is done for any number of keys.
    repeats: bool,
    /// It may be left out.
    optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Read,
    Update,
    Write,
    Upsert,
    Overwrite,
    Delete,
    Remove,
    Insert,
    Scan,
    Add,
    /// Adds to a counter, later if that may be. Of such a line, and the next, the table says which of two columns.
    PutOff,
    Count,
}

/// Rows of counters, each of which has two.
pub const COUNTER_ROWS: u64 = 2;

/// A step of a call, and the site that it stands at.
pub type Placed = (u16, Step);

impl Program {
    /// A random type; `number` tells it from others.
    pub fn draw(random: &mut Random, number: usize) -> Self {
        let pick = |random: &mut Random| match random.below(16) {
            0..3 => Does::Read,
            3..6 => Does::Update,
            6..9 => Does::Write,
            9 => Does::Upsert,
            10 => Does::Overwrite,
            11 => Does::Delete,
            12 => Does::Remove,
            13 => Does::Insert,
            _ => Does::Scan,
        };
        let mut lines = Vec::new();
        // Mostly in one order of the tables, so that the analysis leaves several pieces.
        let ordered = random.below(4) != 0;
        let mut table = random.below(2) as u8;
        for _ in 0..1 + random.below(5) {
            let does = pick(random);
            let mut of = if ordered { table.min(TABLES - 1) } else { random.below(TABLES.into()) as u8 };
            if does == Does::Scan {
                of &= !1;
            }
            let (repeats, optional) = (random.below(3) == 0, random.below(5) == 0);
            lines.push(Line { does, table: of, repeats, optional });
            table += u8::from(random.below(5) != 0);
        }
        // Every second one gives up only where it may find a row missing, or there.
        let may_fail = |line: &Line| matches!(line.does, Does::Update | Does::Insert);
        let sure = match number % 2 {
            0 => lines.iter().rposition(may_fail).map_or(0, |last| last + 1),
            _ => lines.len(),
        };
        // Some put off all that they may, and some less. Of two steps it depends on what is there whether they write.
        let decides = |line: &Line| matches!(line.does, Does::Overwrite | Does::Delete);
        let known = lines.iter().rposition(decides).map_or(0, |last| last + 1);
        let later = (sure.max(known) + number / 2 % 2).min(lines.len());
        Self { name: format!("program_{number}"), lines, sure, later }
    }

    /// A random type whose calls tell what they will access ([`tell`]): some of its steps add, and its mark is mostly as early as it may be.
    pub fn draw_told(random: &mut Random, number: usize) -> Self {
        let mut lines = Self::draw(random, number).lines;
        // Those that may fail keep the mark behind them.
        if random.below(3) != 0 {
            let may_fail = |line: &&mut Line| matches!(line.does, Does::Update | Does::Insert);
            for line in lines.iter_mut().filter(may_fail) {
                line.does = if random.below(2) == 0 { Does::Write } else { Does::Overwrite };
            }
        }
        for _ in 0..random.below(3) {
            let at = random.below(lines.len() as u64 + 1) as usize;
            let repeats = random.below(3) == 0;
            lines.insert(at, Line { does: Does::Add, table: 0, repeats, optional: random.below(5) == 0 });
        }
        let may_fail = |line: &Line| matches!(line.does, Does::Update | Does::Insert);
        let sure = lines.iter().rposition(may_fail).map_or(0, |last| last + 1);
        let later = if random.below(6) == 0 { lines.len() } else { sure };
        Self { name: format!("told_{number}"), lines, sure, later }
    }

    /// A random type whose calls put additions off, and read sums. Of `number` 0 they add, of 1 they read; most of the others do one of
    /// both. Those that add mostly share no table with those that read, or no additions could be put off.
    pub fn draw_putting_off(random: &mut Random, number: usize) -> Self {
        let adds = if number < 2 { number == 0 } else { random.below(2) == 0 };
        let mut lines = Self::draw(random, number).lines;
        lines.truncate(random.below(3) as usize);
        if random.below(6) != 0 {
            lines.iter_mut().for_each(|line| line.table = line.table % 2 + if adds { 0 } else { 2 });
        }
        for _ in 0..1 + random.below(3) {
            let does = if adds == (random.below(10) != 0) { Does::PutOff } else { Does::Count };
            let at = random.below(lines.len() as u64 + 1) as usize;
            let (table, repeats, optional) =
                (random.below(2) as u8, random.below(4) == 0, random.below(6) == 0);
            lines.insert(at, Line { does, table, repeats, optional });
        }
        let may_fail = |line: &Line| matches!(line.does, Does::Update | Does::Insert);
        let sure = match random.below(3) {
            0 => lines.len(),
            _ => lines.iter().rposition(may_fail).map_or(0, |last| last + 1),
        };
        let later = lines.len();
        Self { name: format!("putting_off_{number}"), lines, sure, later }
    }

    /// What the database is told.
    pub fn declare(&self) -> Declaration {
        let mut declaration = Declaration::new(&self.name);
        for (at, line) in self.lines.iter().enumerate() {
            if at == self.sure {
                declaration.no_abort();
            }
            if at == self.later {
                declaration.later();
            }
            match line.repeats {
                true => declaration.repeat(|declaration| line.declare(declaration)),
                false => line.declare(&mut declaration),
            }
        }
        declaration
    }

    /// What one call does, over `keys` keys from `base` on. Its additions to counters have no places yet.
    pub fn input(&self, random: &mut Random, base: u64, keys: u64) -> Vec<Placed> {
        let mut input = Vec::new();
        for (site, line) in (0..).zip(&self.lines) {
            if line.optional && random.below(2) == 0 {
                continue;
            }
            let times = if line.repeats { random.below(4) } else { 1 };
            for _ in 0..times {
                input.push((site, line.step(random, base, keys)));
                if random.below(40) == 0 && usize::from(site) < self.sure {
                    input.push((site, Step::GiveUp));
                    return input;
                }
                if random.below(8) == 0 {
                    input.push((site, Step::Pause(random.below(64))));
                }
            }
        }
        input
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |line: &Line| {
            let (open, close) = if line.repeats { ("(", ")*") } else { ("", "") };
            let optional = if line.optional { "?" } else { "" };
            format!("{open}{:?} {}{close}{optional}", line.does, line.table)
        };
        let lines: Vec<_> = self.lines.iter().map(line).collect();
        write!(f, "{}; sure from {}, later from {}", lines.join(", "), self.sure, self.later)
    }
}

impl Line {
    /// One site for all that the step may do.
    fn declare(self, declaration: &mut Declaration) {
        match self.does {
            Does::Read => with_table!(self.table, Row => declaration.get_row::<Row>()),
            Does::Update => with_table!(self.table, Row => declaration.update(Row::version)),
            Does::Overwrite => with_table!(self.table, Row => declaration.set(Row::version)),
            Does::Scan => with_table!(self.table, Row => declaration.scan_rows::<Row>()),
            Does::Add => declaration.add(Sum::sum),
            Does::PutOff => {
                declaration.deferred();
                match self.table {
                    0 => declaration.add(Counter::one),
                    _ => declaration.add(Counter::two),
                }
            }
            Does::Count if self.table == 0 => declaration.get(Counter::one),
            Does::Count => declaration.get(Counter::two),
            _ => with_table!(self.table, Row => declaration.upsert::<Row>()),
        }
    }

    fn step(&self, random: &mut Random, base: u64, keys: u64) -> Step {
        let (table, key) = (self.table, base + random.below(keys));
        match self.does {
            Does::Read => Step::Read(table, key),
            Does::Update if random.below(2) == 0 => Step::TryUpdate(table, key),
            Does::Update => Step::Update(table, key),
            Does::Write => Step::Write(table, key),
            Does::Upsert => Step::Upsert(table, key),
            Does::Overwrite => Step::Overwrite(table, key),
            Does::Delete => Step::Delete(table, key),
            Does::Remove => Step::Remove(table, key),
            Does::Insert if random.below(2) == 0 => Step::TryInsert(table, key),
            Does::Insert => Step::Insert(table, key),
            Does::Add => Step::Add(key),
            Does::PutOff => Step::PutOff(random.below(COUNTER_ROWS) * 2 + u64::from(table), 0),
            Does::Count => Step::Count(random.below(COUNTER_ROWS) * 2 + u64::from(table)),
            Does::Scan => {
                let limit = if random.below(3) == 0 { 1 + random.below(3) as usize } else { usize::MAX };
                let (high, reverse) = (key + random.below(4), random.below(2) == 0);
                Step::Scan { table, low: key, high, reverse, limit }
            }
        }
    }
}

/// Whether a call of that number tells that nobody waits for it, so that it may take effect in any order with others that are under way.
pub fn is_unordered(call: u64) -> bool {
    call.is_multiple_of(6)
}

/// Tells what a call with that input will access: each access as often as it may be made, in the order of the steps. If the call's number
/// says so, keys that its keys are among, in order with others or not.
pub fn tell(call: u64, input: &[Placed], to: &mut Announcement<'_>) {
    fn tell_among<R: Relation>(call: u64, to: &mut Announcement<'_>, scan: Scan<R>) {
        if is_unordered(call) { to.uses_unordered(scan) } else { to.writes_among(scan) }
    }
    let among = call.is_multiple_of(3);
    for (_, step) in input {
        match *step {
            Step::Read(table, key)
            | Step::Update(table, key)
            | Step::Insert(table, key)
            | Step::TryUpdate(table, key)
            | Step::Remove(table, key)
            | Step::Upsert(table, key)
            | Step::TryInsert(table, key)
            | Step::Write(table, key)
            | Step::Overwrite(table, key)
            | Step::Delete(table, key)
                if among =>
            {
                with_table!(table, Row => tell_among(call, to, Scan::<Row>::range(key & !1..=key | 1)));
            }
            Step::Scan { table, low, high, .. } if among => {
                with_table!(table, Row => tell_among(call, to, Scan::<Row>::range(low..=high)));
            }
            Step::Read(table, key) => with_table!(table, Row => to.reads(key, Row::version)),
            Step::Update(table, key)
            | Step::Insert(table, key)
            | Step::TryUpdate(table, key)
            | Step::Remove(table, key) => with_table!(table, Row => to.writes_row::<Row>(key)),
            // An upsert looks, and writes.
            Step::Upsert(table, key) => with_table!(table, Row => {
                to.writes_row::<Row>(key);
                to.writes_row::<Row>(key);
            }),
            Step::TryInsert(table, key) => with_table!(table, Row => {
                to.writes_row::<Row>(key);
                to.reads(key, Row::version);
            }),
            Step::Write(table, key) | Step::Overwrite(table, key) | Step::Delete(table, key) => {
                with_table!(table, Row => {
                    to.reads(key, Row::version);
                    to.writes_row::<Row>(key);
                });
            }
            Step::Scan { table, low, high, .. } => {
                with_table!(table, Row => to.scans(Scan::<Row>::range(low..=high)));
            }
            Step::Add(key) => to.adds(key, Sum::sum),
            Step::WriteInVain(..) | Step::RemoveInVain(..) => unreachable!("no call does it"),
            Step::PutOff(..) | Step::Count(_) => unreachable!("no call does it that tells what it accesses"),
            Step::Pause(_) | Step::GiveUp => {}
        }
    }
}

/// Executes a call's input.
///
/// # Errors
/// Those of the steps.
pub fn execute<T: Transaction>(input: &[Placed], recorder: &mut Recorder<'_, T>) -> Result<()> {
    for (site, step) in input {
        recorder.at(*site);
        step.run(recorder)?;
    }
    Ok(())
}

/// Who is told what calls of [`Listed`] do.
pub trait Watches: 'static {
    /// The call of that number begins, maybe again.
    fn begins(call: u64);
    /// It has done this, which is taken.
    fn does(call: u64, ops: &mut Vec<Op>);
}

/// A procedure that does whatever the steps of its input say, and tells beforehand what it will access. Calls of it can be made again from a
/// log: what they do is in their arguments.
pub struct Listed<W>(PhantomData<fn() -> W>);

impl<W> Default for Listed<W> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<W: Watches> Procedure for Listed<W> {
    const NAME: &'static str = "listed";
    const SITES: u16 = ALL_SITES;
    /// The number of the call, the version before its first, and its input.
    type Arguments<'a> = (u64, u64, Vec<Placed>);
    type Output = ();

    fn declare(declaration: &mut Declaration) {
        declare_all(declaration);
    }

    const ANNOUNCES: bool = true;

    fn announce((call, _, input): &Self::Arguments<'_>, announcement: &mut Announcement<'_>) {
        tell(*call, input, announcement);
    }

    const VERSION: Option<u32> = Some(1);

    fn encode(arguments: &Self::Arguments<'_>, out: &mut Vec<u8>) -> Result<()> {
        encode_arguments::<Self, _>(arguments, out)
    }

    fn decode(bytes: &[u8]) -> Result<Self::Arguments<'_>> {
        decode_arguments::<Self, _>(bytes)
    }

    fn run<T: Transaction>(tx: &mut T, (call, first, input): &Self::Arguments<'_>) -> Result<()> {
        W::begins(*call);
        let (mut ops, mut version) = (Vec::new(), *first);
        for (_, step) in input {
            let outcome = step.run(&mut Recorder::new(tx, &mut ops, &mut version).by_access());
            W::does(*call, &mut ops);
            outcome?;
        }
        Ok(())
    }
}
