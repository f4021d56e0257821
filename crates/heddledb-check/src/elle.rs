//! A second opinion: the same history, judged by the independent checker `adya` (a Rust
//! re-implementation of Elle), or written to a file for other tools that read Elle's format.
//!
//! `adya` knows no rows, predicates or deletes; it judges transactions that append to lists and read
//! them. So each row becomes a list of what ever happened to it, in version order: a write appends its
//! version, a delete appends a tombstone. A read of a version is a read of the list up to it, a read
//! of absence the list up to a tombstone (or the empty list), a scan a read of every list in its
//! range. Reads of an absence that cannot be told from another are left out.
//!
//! What must not have been seen has to look so to `adya` too:
//!
//! - an attempt whose outcome nobody was told, because the database crashed, is an `info` with its appends:
//!   it is left to the reads of others whether it took effect;
//! - an aborted attempt is a failed transaction with its appends, so that reading one is G1a;
//! - a version that nobody wrote in the row counts as appended by a transaction that failed;
//! - a version that its own transaction replaced is in the list, so that reading it is G1b.
//!
//! At the end every list is read once: `adya` learns an order only from reads, and else would not
//! place the last writes of a row, nor see who overlooked them. The order of these reads is the
//! stamps'; it and the place of absences are the two things that both judges take from one source.

use crate::checker::absences;
use crate::history::{ABSENT, History, Op, Row, Status, Version};
use adya::history::{Interner, Mop, Op as Event, OpType, ReadValue, Scalar};
use adya::{Opts, Valid, Workload};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

/// What `adya` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// True for a lawful history.
    pub ok: bool,
    /// The names of the anomalies.
    pub anomalies: Vec<String>,
    /// An explanation of the first.
    pub explanation: String,
}

/// `adya`'s word for a history in which nothing depends on anything: as lawful as can be.
const NOTHING_TO_JUDGE: &str = "empty-transaction-graph";

/// Judges a history, in real time if `strict`.
pub fn judge(history: &History, strict: bool) -> Opinion {
    let model = if strict { "strict-serializable" } else { "serializable" };
    let options = Opts { models: vec![model.into()], ..Opts::default() };
    let report = adya::check(&Translator::new(history).translate(), Workload::ListAppend, &options);
    let explanation = report.anomalies.values().flatten().next().map(|anomaly| anomaly.explanation.clone());
    let ok = match report.valid {
        Valid::True => true,
        Valid::False => false,
        Valid::Unknown => report.anomaly_types == [NOTHING_TO_JUDGE],
    };
    let told = |name: &String| name != NOTHING_TO_JUDGE;
    Opinion {
        ok,
        anomalies: report.anomaly_types.into_iter().filter(told).collect(),
        explanation: explanation.filter(|_| !ok).unwrap_or_default(),
    }
}

/// Writes a history as Elle's JSON lines (workload `list-append`).
///
/// # Errors
/// What the writer says.
pub fn write(history: &History, output: impl Write) -> io::Result<()> {
    let events = Translator::new(history).translate();
    let mut output = io::BufWriter::new(output);
    for (at, event) in events.ops.iter().enumerate() {
        let invoked = event.kind == OpType::Invoke;
        // An invocation lists what will be done, without the answers.
        let done = if invoked { events.pair[at].map_or(at, |end| end) } else { at };
        let value: Vec<_> =
            events.ops[done].value.iter().map(|mop| mop_json(&events.interner, mop, invoked)).collect();
        let kind = match event.kind {
            OpType::Invoke => "invoke",
            OpType::Ok => "ok",
            OpType::Fail => "fail",
            OpType::Info => "info",
        };
        let line = serde_json::json!({
            "index": event.index, "type": kind, "process": event.process, "f": "txn", "value": value,
        });
        serde_json::to_writer(&mut output, &line)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

fn mop_json(names: &Interner, mop: &Mop, invoked: bool) -> serde_json::Value {
    let name = |id: u32| match names.get(id) {
        Scalar::Int(number) => serde_json::json!(number),
        Scalar::Str(text) => serde_json::json!(text),
    };
    match mop {
        Mop::Append { key, value } | Mop::Write { key, value } => {
            serde_json::json!(["append", name(*key), name(*value)])
        }
        Mop::Read { key, value: ReadValue::List(list) } if !invoked => {
            let list: Vec<_> = list.iter().map(|element| name(*element)).collect();
            serde_json::json!(["r", name(*key), list])
        }
        Mop::Read { key, .. } => serde_json::json!(["r", name(*key), null]),
    }
}

/// What one committed transaction did to a row.
struct Change {
    attempt: usize,
    stamp: u64,
    /// What it appended, and how long the list was before.
    elements: Vec<u32>,
    start: usize,
    /// Whether it left the row absent.
    absent: bool,
}

/// What ever happened to a row.
#[derive(Default)]
struct Line {
    /// Committed changes in version order.
    changes: Vec<Change>,
    elements: Vec<u32>,
}

/// What a transaction has done to a row so far.
struct Own {
    row: Row,
    /// The list up to there.
    length: usize,
    version: Version,
}

struct Translator<'a> {
    history: &'a History,
    lines: BTreeMap<Row, Line>,
    /// Committed versions: the row, and the length of its list up to there.
    places: HashMap<Version, (Row, usize)>,
    /// Keys and elements that no committed transaction appended, but committed ones read.
    forged: HashSet<(u32, u32)>,
    names: Interner,
}

impl<'a> Translator<'a> {
    fn new(history: &'a History) -> Self {
        let mut translator = Self {
            history,
            lines: BTreeMap::new(),
            places: HashMap::new(),
            forged: HashSet::new(),
            names: Interner::default(),
        };
        translator.draw_lines();
        translator
    }

    fn key(&mut self, row: Row) -> u32 {
        self.names.intern(Scalar::Str(format!("{}/{}", row.0, row.1)))
    }

    fn element(&mut self, version: Version) -> u32 {
        self.names.intern(Scalar::Int(version as i64))
    }

    /// What a write or delete appends: its version, or a negative number made of where it stands.
    fn appended(&mut self, attempt: usize, op: usize) -> Option<(Row, Version, u32)> {
        const OPS_BITS: u32 = 16;
        match self.history.attempts[attempt].ops[op] {
            Op::Write(table, key, version) => Some(((table, key), version, self.element(version))),
            Op::Delete(table, key) => {
                let tombstone = Scalar::Int(-(((attempt as i64) << OPS_BITS) + op as i64 + 1));
                Some(((table, key), ABSENT, self.names.intern(tombstone)))
            }
            Op::Read(..) | Op::Scan(..) => None,
        }
    }

    fn draw_lines(&mut self) {
        for (attempt, Attempted { stamp, ops, .. }) in committed(self.history) {
            for op in 0..ops {
                let Some((row, version, element)) = self.appended(attempt, op) else { continue };
                let changes = &mut self.lines.entry(row).or_default().changes;
                if changes.last().is_none_or(|change| change.attempt != attempt) {
                    changes.push(Change { attempt, stamp, elements: Vec::new(), start: 0, absent: false });
                }
                let change = changes.last_mut().expect("it was pushed above");
                change.elements.push(element);
                change.absent = version == ABSENT;
            }
        }
        for (row, line) in &mut self.lines {
            line.changes.sort_by_key(|change| change.stamp);
            for change in &mut line.changes {
                change.start = line.elements.len();
                for element in &change.elements {
                    line.elements.push(*element);
                    if let Scalar::Int(version) = self.names.get(*element)
                        && *version > 0
                    {
                        self.places.insert(*version as Version, (*row, line.elements.len()));
                    }
                }
            }
        }
    }

    fn translate(mut self) -> adya::History {
        // (time, is it the end, attempt); at one time, what begins overlaps what ends.
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(self.history.attempts.len() * 2);
        for (number, attempt) in self.history.attempts.iter().enumerate() {
            events.extend([(attempt.begin, false, number), (attempt.end, true, number)]);
        }
        events.sort_unstable();
        let mut ops = Vec::with_capacity(events.len());
        let mut add = |kind: OpType, process: i64, value: Vec<Mop>| {
            let index = ops.len() as u64;
            ops.push(Event { index, kind, process: Some(process), value, time: None });
        };
        // `adya` allows one open operation per process; attempts of one session do not overlap. It
        // needs the values of an invocation only to look for doubles, upon which it gives up without a
        // word and acquits; they are left out here, and doubles are our own checker's to find.
        let sessions = self.history.attempts.iter().map(|attempt| i64::from(attempt.session) + 1);
        let last = sessions.max().unwrap_or(0);
        for (_, end, number) in events {
            let attempt = &self.history.attempts[number];
            let is_told = matches!(attempt.status, Status::Committed | Status::Aborted);
            let session = match is_told {
                true => i64::from(attempt.session),
                // A process that was not told an outcome does nothing more.
                false => last + 1 + number as i64,
            };
            match (end, attempt.status) {
                (false, _) => add(OpType::Invoke, session, Vec::new()),
                (true, Status::Committed) => add(OpType::Ok, session, self.committed(number)),
                (true, Status::Aborted) => add(OpType::Fail, session, self.aborted(number)),
                // `adya` decides by the reads of others what became of it.
                (true, Status::Survived | Status::Lost) => add(OpType::Info, session, self.aborted(number)),
            }
        }
        const LISTS_PER_READER: usize = 32;
        let rows: Vec<Row> = self.lines.keys().copied().collect();
        for rows in rows.chunks(LISTS_PER_READER) {
            add(OpType::Invoke, last, Vec::new());
            let reads = rows.iter().map(|row| self.prefix(*row, usize::MAX)).collect();
            add(OpType::Ok, last, reads);
        }
        if !self.forged.is_empty() {
            add(OpType::Invoke, last, Vec::new());
            let mut forged: Vec<(u32, u32)> = self.forged.into_iter().collect();
            forged.sort_unstable();
            let forged = forged.into_iter().map(|(key, value)| Mop::Append { key, value }).collect();
            add(OpType::Fail, last, forged);
        }
        adya::History::from_ops(ops, self.names)
    }

    fn aborted(&mut self, attempt: usize) -> Vec<Mop> {
        let mut value = Vec::new();
        for op in 0..self.history.attempts[attempt].ops.len() {
            if let Some((row, _, element)) = self.appended(attempt, op) {
                value.push(Mop::Append { key: self.key(row), value: element });
            }
        }
        value
    }

    fn committed(&mut self, number: usize) -> Vec<Mop> {
        let history = self.history;
        let mut value = Vec::new();
        let mut own: Vec<Own> = Vec::new();
        for (at, op) in history.attempts[number].ops.iter().enumerate() {
            match op {
                Op::Read(table, key, version) => {
                    value.extend(self.read(number, (*table, *key), *version, &own));
                }
                Op::Scan(table, low, high, seen) => {
                    for (key, version) in seen {
                        value.extend(self.read(number, (*table, *key), *version, &own));
                    }
                    let seen: HashSet<u64> = seen.iter().map(|(key, _)| *key).collect();
                    let range = self.lines.range((*table, *low)..=(*table, *high));
                    let others: Vec<Row> =
                        range.map(|(row, _)| *row).filter(|row| !seen.contains(&row.1)).collect();
                    for row in others {
                        value.extend(self.read(number, row, ABSENT, &own));
                    }
                }
                Op::Write(..) | Op::Delete(..) => {
                    let (row, version, element) =
                        self.appended(number, at).expect("a write or delete appends");
                    value.push(Mop::Append { key: self.key(row), value: element });
                    match own.iter_mut().find(|own| own.row == row) {
                        Some(own) => (own.length, own.version) = (own.length + 1, version),
                        None => {
                            let changes = &self.lines[&row].changes;
                            let change = changes.iter().find(|change| change.attempt == number);
                            let length = change.expect("each committed write has its change").start + 1;
                            own.push(Own { row, length, version });
                        }
                    }
                }
            }
        }
        value
    }

    fn prefix(&mut self, row: Row, length: usize) -> Mop {
        let key = self.key(row);
        let elements = self.lines.get(&row).map_or(&[][..], |line| &line.elements);
        Mop::Read { key, value: ReadValue::List(elements[..length.min(elements.len())].to_vec()) }
    }

    /// A committed transaction's read; nothing if it cannot be told what it read.
    fn read(&mut self, reader: usize, row: Row, version: Version, own: &[Own]) -> Option<Mop> {
        if let Some(own) = own.iter().find(|own| own.row == row)
            && (own.version == version || version == ABSENT)
        {
            // An absence after an own write is read as the empty list, which is wrong.
            return Some(self.prefix(row, if own.version == version { own.length } else { 0 }));
        }
        if version == ABSENT {
            let line = self.lines.get(&row)?;
            let writers = line.changes.iter().map(|change| (change.attempt, change.absent));
            let candidates: Vec<usize> = absences(&self.history.attempts, reader, writers).take(2).collect();
            let &[only] = &candidates[..] else { return None };
            let length = only.checked_sub(1).map_or(0, |before| {
                let change = &line.changes[before];
                change.start + change.elements.len()
            });
            return Some(self.prefix(row, length));
        }
        if let Some((_, length)) = self.places.get(&version).copied().filter(|place| place.0 == row) {
            return Some(self.prefix(row, length));
        }
        let (key, element) = (self.key(row), self.element(version));
        self.forged.insert((key, element));
        Some(Mop::Read { key, value: ReadValue::List(vec![element]) })
    }
}

/// What is needed of an attempt while the lines are drawn.
struct Attempted {
    stamp: u64,
    ops: usize,
}

fn committed(history: &History) -> impl Iterator<Item = (usize, Attempted)> + use<'_> {
    let attempts = history.attempts.iter().enumerate();
    attempts
        .filter(|(_, attempt)| attempt.status.took_effect())
        .map(|(number, attempt)| (number, Attempted { stamp: attempt.stamp, ops: attempt.ops.len() }))
}
