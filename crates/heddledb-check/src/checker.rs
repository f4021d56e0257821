//! Our own checker: is a history serializable, and, where claimed, strictly?
//!
//! **Mechanism.** For each row the committed writers are put in the order of their commit stamps;
//! that is the version order (Adya). The direct serialization graph has an edge
//!
//! - `ww` from each writer of a row to the next,
//! - `wr` from a version's writer to each transaction that read it,
//! - `rw` from each reader of a version to the writer of the next,
//! - `rt`, where strictness is claimed, from each transaction to those that began after its end
//!   (through a chain of time nodes, so that there are few).
//!
//! A scan is a read of every key in its range that the history ever writes; what it did not return
//! it read as absent, by predicate. The history is serializable if the graph has no cycle.
//!
//! **Absence.** A row can be absent several times: at first, and after each delete. Which absence a
//! reader saw is not in its answer. A row that is not there was not there at some moment between the
//! reader's begin and end, and an absence lasts from its deleter's commit to the next writer's; nor
//! can it be a later one than the reader itself ended. That mostly leaves one candidate. (So it is
//! for stores that keep one version of a row; a snapshot of a multi-version store may show an absence
//! that was over when the reader began.) Where several are left, the reader gets only the edges that all of
//! them imply, and is counted as `ambiguous`: the checker never accuses wrongly, and may then acquit
//! wrongly.
//!
//! Besides cycles: reads of aborted (G1a) or intermediate (G1b) or never written versions, own writes
//! that were not seen, scans out of their range or order, and two writers with one stamp.

use crate::cycles::{self, Edge, Kind};
use crate::history::{ABSENT, Attempt, History, Op, Row, Version};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// How many anomalies of each class are told.
const TOLD: usize = 5;

/// The judgement of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Committed transactions judged.
    pub transactions: usize,
    /// Those of them during which a transaction of another session was running. A history without
    /// any is serial, and its lawfulness says little.
    pub concurrent: usize,
    /// Edges of the graph.
    pub edges: usize,
    /// The same by kind.
    pub kinds: EdgeCounts,
    /// Reads of an absence that could not be told from another.
    pub ambiguous: usize,
    /// What is wrong, at most a few of each kind; empty for a lawful history.
    pub anomalies: Vec<Anomaly>,
}

impl Verdict {
    /// True for a lawful history.
    pub fn ok(&self) -> bool {
        self.anomalies.is_empty()
    }
}

/// How many edges of each kind a graph has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounts {
    /// From a writer to the next.
    pub ww: usize,
    /// From a writer to a reader.
    pub wr: usize,
    /// From a reader of a row to its next writer.
    pub rw: usize,
    /// From a scan over a row that was not there to its next writer.
    pub predicate: usize,
    /// Real time, those of the time nodes included.
    pub real_time: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name in the literature: G0, G1a, G1b, G1c, G-single, G2-item, G2, internal, ..
    pub class: &'static str,
    /// What happened, in words.
    pub explanation: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.explanation)
    }
}

/// Where a version comes from.
#[derive(Clone, Copy)]
struct Origin {
    attempt: u32,
    row: u32,
    /// The last write of its transaction to the row.
    last: bool,
}

/// A committed write of a row as others see it.
struct Writer {
    attempt: u32,
    stamp: u64,
    version: Version,
}

struct Judge<'a> {
    attempts: &'a [Attempt],
    rows: Vec<Row>,
    row_numbers: HashMap<Row, u32>,
    /// Row numbers of a table in key order, for scans.
    by_key: BTreeMap<Row, u32>,
    origins: HashMap<Version, Origin>,
    /// The committed writers of each row in version order.
    chains: Vec<Vec<Writer>>,
    edges: Vec<Edge>,
    verdict: Verdict,
}

/// Judges a history; `strict` adds real time.
pub fn check(history: &History, strict: bool) -> Verdict {
    let mut judge = Judge {
        attempts: &history.attempts,
        rows: Vec::new(),
        row_numbers: HashMap::new(),
        by_key: BTreeMap::new(),
        origins: HashMap::new(),
        chains: Vec::new(),
        edges: Vec::new(),
        verdict: Verdict::default(),
    };
    judge.collect_writes();
    judge.order_writers();
    for attempt in 0..judge.attempts.len() as u32 {
        if judge.committed(attempt) {
            judge.verdict.transactions += 1;
            judge.follow_reads(attempt);
        }
    }
    let nodes = if strict { judge.add_real_time() } else { judge.attempts.len() };
    judge.count();
    for cycle in cycles::find(nodes, &judge.edges, TOLD) {
        let (class, text) = (cycles::classify(&cycle), judge.tell(cycle));
        judge.report(class, text);
    }
    judge.verdict
}

impl Judge<'_> {
    fn committed(&self, attempt: u32) -> bool {
        self.attempts[attempt as usize].status.took_effect()
    }

    fn name(&self, attempt: u32) -> String {
        format!("T{attempt} (session {})", self.attempts[attempt as usize].session)
    }

    fn row_name(&self, row: u32) -> String {
        let (table, key) = self.rows[row as usize];
        format!("table {table} key {key}")
    }

    fn report(&mut self, class: &'static str, explanation: String) {
        if self.verdict.anomalies.iter().filter(|anomaly| anomaly.class == class).count() < TOLD {
            self.verdict.anomalies.push(Anomaly { class, explanation });
        }
    }

    fn row(&mut self, row: Row) -> u32 {
        let (rows, chains) = (&mut self.rows, &mut self.chains);
        *self.row_numbers.entry(row).or_insert_with(|| {
            rows.push(row);
            chains.push(Vec::new());
            rows.len() as u32 - 1
        })
    }

    /// Finds the writes, and what each committed transaction leaves in each row.
    fn collect_writes(&mut self) {
        let mut left: HashMap<u32, Version> = HashMap::new();
        for number in 0..self.attempts.len() as u32 {
            let attempt = &self.attempts[number as usize];
            left.clear();
            for op in &attempt.ops {
                let (row, version) = match op {
                    Op::Write(table, key, version) => ((*table, *key), *version),
                    Op::Delete(table, key) => ((*table, *key), ABSENT),
                    _ => continue,
                };
                let row = self.row(row);
                if let Some(replaced) = left.insert(row, version).filter(|replaced| *replaced != ABSENT)
                    && let Some(origin) = self.origins.get_mut(&replaced)
                {
                    origin.last = false;
                }
                if version != ABSENT {
                    let origin = Origin { attempt: number, row, last: true };
                    if let Some(other) = self.origins.insert(version, origin) {
                        let (a, b) = (self.name(other.attempt), self.name(number));
                        self.report("malformed", format!("{a} and {b} both wrote version {version}"));
                    }
                }
            }
            if attempt.status.took_effect() {
                for (row, version) in left.drain() {
                    let writer = Writer { attempt: number, stamp: attempt.stamp, version };
                    self.chains[row as usize].push(writer);
                }
            }
        }
        self.by_key = self.rows.iter().enumerate().map(|(number, row)| (*row, number as u32)).collect();
    }

    fn order_writers(&mut self) {
        for row in 0..self.chains.len() {
            self.chains[row].sort_by_key(|writer| writer.stamp);
            for at in 1..self.chains[row].len() {
                let (a, b) = (&self.chains[row][at - 1], &self.chains[row][at]);
                let (from, to, same) = (a.attempt, b.attempt, a.stamp == b.stamp);
                self.edges.push(Edge { from, to, row: row as u32, kind: Kind::Ww });
                if same {
                    let text = format!(
                        "{} and {} wrote {} with the same commit stamp",
                        self.name(from),
                        self.name(to),
                        self.row_name(row as u32)
                    );
                    self.report("order", text);
                }
            }
        }
    }

    /// Adds the edges of one committed transaction's reads.
    fn follow_reads(&mut self, number: u32) {
        let attempts = self.attempts;
        let mut own: HashMap<Row, Version> = HashMap::new();
        for op in &attempts[number as usize].ops {
            match op {
                Op::Write(table, key, version) => _ = own.insert((*table, *key), *version),
                Op::Delete(table, key) => _ = own.insert((*table, *key), ABSENT),
                Op::Read(table, key, version) => self.read(number, &own, (*table, *key), *version, Kind::Rw),
                Op::Scan(table, low, high, seen) => {
                    self.check_scan(number, *low, *high, seen);
                    let seen_keys: HashSet<u64> = seen.iter().map(|(key, _)| *key).collect();
                    for (key, version) in seen {
                        self.read(number, &own, (*table, *key), *version, Kind::Rw);
                    }
                    let range: Vec<Row> =
                        self.by_key.range((*table, *low)..=(*table, *high)).map(|(row, _)| *row).collect();
                    for row in range.into_iter().filter(|row| !seen_keys.contains(&row.1)) {
                        self.read(number, &own, row, ABSENT, Kind::Predicate);
                    }
                }
            }
        }
    }

    /// A scan gives rows that are there, in its range, in one direction, each once.
    fn check_scan(&mut self, reader: u32, low: u64, high: u64, seen: &[(u64, Version)]) {
        let forward = seen.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let reverse = seen.windows(2).all(|pair| pair[0].0 > pair[1].0);
        let within = seen.iter().all(|(key, _)| (low..=high).contains(key));
        let present = seen.iter().all(|(_, version)| *version != ABSENT);
        if !((forward || reverse) && within && present) {
            let name = self.name(reader);
            self.report("scan", format!("{name} scanned keys {low} to {high} and was given {seen:?}"));
        }
    }

    fn read(&mut self, reader: u32, own: &HashMap<Row, Version>, at: Row, version: Version, kind: Kind) {
        if let Some(expected) = own.get(&at) {
            if *expected != version {
                let text = format!(
                    "{} read version {version} of table {} key {} after writing {expected} itself",
                    self.name(reader),
                    at.0,
                    at.1
                );
                self.report("internal", text);
            }
            return;
        }
        let Some(&row) = self.row_numbers.get(&at) else {
            if version != ABSENT {
                let text = format!("{} read version {version}, which nobody wrote", self.name(reader));
                self.report("garbage", text);
            }
            return; // Absent for the whole history.
        };
        if version == ABSENT {
            self.read_absent(reader, row, kind)
        } else {
            self.read_present(reader, row, version, kind)
        }
    }

    fn read_present(&mut self, reader: u32, row: u32, version: Version, kind: Kind) {
        let origin = self.origins.get(&version).copied().filter(|origin| origin.row == row);
        let Some(origin) = origin else {
            let text = format!(
                "{} read version {version} of {}, which nobody wrote there",
                self.name(reader),
                self.row_name(row)
            );
            return self.report("garbage", text);
        };
        if !self.committed(origin.attempt) {
            let text = format!(
                "{} read {} as written by {}, which aborted",
                self.name(reader),
                self.row_name(row),
                self.name(origin.attempt)
            );
            return self.report("G1a", text);
        }
        if !origin.last {
            let text = format!(
                "{} read {} as {} had it before its own later write",
                self.name(reader),
                self.row_name(row),
                self.name(origin.attempt)
            );
            return self.report("G1b", text);
        }
        let chain = &self.chains[row as usize];
        let stamp = self.attempts[origin.attempt as usize].stamp;
        let from = chain.partition_point(|writer| writer.stamp < stamp);
        let at = (from..chain.len()).find(|at| chain[*at].version == version).unwrap_or(from);
        let next = chain.get(at + 1).map(|writer| writer.attempt);
        self.edge(origin.attempt, reader, row, Kind::Wr);
        if let Some(next) = next {
            self.edge(reader, next, row, kind);
        }
    }

    fn read_absent(&mut self, reader: u32, row: u32, kind: Kind) {
        let chain = &self.chains[row as usize];
        let writers = chain.iter().map(|writer| (writer.attempt as usize, writer.version == ABSENT));
        let mut candidates = absences(self.attempts, reader as usize, writers);
        let (first, last) = (candidates.next(), candidates.last());
        let Some(first) = first else {
            let text = format!(
                "{} found {} absent, but it was there all the time",
                self.name(reader),
                self.row_name(row)
            );
            return self.report("garbage", text);
        };
        let last = last.unwrap_or(first);
        let writer = first.checked_sub(1).map(|at| chain[at].attempt);
        let next = chain.get(last).map(|writer| writer.attempt);
        self.verdict.ambiguous += usize::from(first != last);
        if let Some(writer) = writer {
            self.edge(writer, reader, row, Kind::Wr);
        }
        if let Some(next) = next {
            self.edge(reader, next, row, kind);
        }
    }

    fn edge(&mut self, from: u32, to: u32, row: u32, kind: Kind) {
        if from != to {
            self.edges.push(Edge { from, to, row, kind });
        }
    }

    /// Counts the edges by kind, and the transactions that overlap others.
    fn count(&mut self) {
        self.verdict.edges = self.edges.len();
        for edge in &self.edges {
            let kinds = &mut self.verdict.kinds;
            *match edge.kind {
                Kind::Ww => &mut kinds.ww,
                Kind::Wr => &mut kinds.wr,
                Kind::Rw => &mut kinds.rw,
                Kind::Predicate => &mut kinds.predicate,
                Kind::RealTime => &mut kinds.real_time,
            } += 1;
        }
        let committed = self.attempts.iter().filter(|attempt| attempt.status.took_effect());
        let mut times: Vec<(u64, u64)> = committed.map(|attempt| (attempt.begin, attempt.end)).collect();
        times.sort_unstable();
        let mut latest = 0;
        for (at, (begin, end)) in times.iter().enumerate() {
            let next = times.get(at + 1).is_some_and(|next| next.0 < *end);
            self.verdict.concurrent += usize::from(next || latest > *begin);
            latest = latest.max(*end);
        }
    }

    /// Adds a chain of time nodes after the attempts' nodes, one per committed transaction in the
    /// order of their ends. Returns the number of nodes.
    fn add_real_time(&mut self) -> usize {
        let count = self.attempts.len() as u32;
        let committed: Vec<u32> = (0..count).filter(|number| self.committed(*number)).collect();
        let mut by_end = committed.clone();
        by_end.sort_by_key(|number| self.attempts[*number as usize].end);
        for (place, &number) in by_end.iter().enumerate() {
            let time = count + place as u32;
            self.edges.push(Edge { from: number, to: time, row: 0, kind: Kind::RealTime });
            if place > 0 {
                self.edges.push(Edge { from: time - 1, to: time, row: 0, kind: Kind::RealTime });
            }
        }
        for number in committed {
            let begin = self.attempts[number as usize].begin;
            let before = by_end.partition_point(|other| self.attempts[*other as usize].end < begin);
            if before > 0 {
                self.edges.push(Edge {
                    from: count + before as u32 - 1,
                    to: number,
                    row: 0,
                    kind: Kind::RealTime,
                });
            }
        }
        self.attempts.len() + by_end.len()
    }

    /// A cycle in words.
    fn tell(&self, mut cycle: Vec<Edge>) -> String {
        let transactions = self.attempts.len() as u32;
        let mut text = String::new();
        // Time only goes forward, so a transaction is among the nodes; begin there.
        let first = cycle.iter().position(|edge| edge.from < transactions).unwrap_or(0);
        cycle.rotate_left(first);
        let mut since = 0;
        for edge in cycle {
            let row = || self.row_name(edge.row);
            if edge.kind == Kind::RealTime {
                // A run of edges over time nodes is one step: ended before it began.
                if edge.from < transactions {
                    since = edge.from;
                }
                if edge.to < transactions {
                    text += &format!("{} had ended before {} began; ", self.name(since), self.name(edge.to));
                }
                continue;
            }
            let (from, to) = (self.name(edge.from), self.name(edge.to));
            text += &match edge.kind {
                Kind::Ww => format!("{from} wrote {} before {to} did (ww); ", row()),
                Kind::Wr => format!("{to} read what {from} left in {} (wr); ", row()),
                Kind::Rw => format!("{from} read {} before {to} changed it (rw); ", row()),
                Kind::Predicate => {
                    format!("{from} scanned over {} before {to} changed it (rw, predicate); ", row())
                }
                Kind::RealTime => unreachable!("told above"),
            };
        }
        text + "so each would have to come before itself"
    }
}

/// The absences of a row that a reader may have seen, as numbers of writers before them. `writers`
/// are the row's in version order: attempt, and whether it left the row absent.
pub(crate) fn absences(
    attempts: &[Attempt],
    reader: usize,
    writers: impl Iterator<Item = (usize, bool)> + Clone,
) -> impl Iterator<Item = usize> {
    let (begin, end) = (attempts[reader].begin, attempts[reader].end);
    let before = std::iter::once(None).chain(writers.clone().map(Some));
    let after = writers.map(Some).chain(std::iter::once(None));
    // What follows the reader's own write came after the read.
    let pairs = before
        .zip(after)
        .enumerate()
        .take_while(move |(_, (before, _))| before.is_none_or(|(attempt, _)| attempt != reader));
    pairs.filter_map(move |(at, (before, after))| {
        let began = before.is_none_or(|(attempt, absent)| absent && attempts[attempt].begin <= end);
        let lasted = after.is_none_or(|(attempt, _)| attempts[attempt].end >= begin);
        (began && lasted).then_some(at)
    })
}

#[cfg(test)]
mod tests;
