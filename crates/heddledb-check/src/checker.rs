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
//! it read as absent. The history is serializable if the graph has no cycle.
//!
//! **Absence.** A row can be absent several times: at first, and after each delete. Which absence a
//! reader saw is not in its answer. A row that is not there was not there at some moment between the
//! reader's begin and end, and an absence lasts from its deleter's commit to the next writer's; that
//! mostly leaves one candidate. Where several are left, the reader gets only the edges that all of
//! them imply, and is counted as `ambiguous`: the checker never accuses wrongly, and may then acquit
//! wrongly.
//!
//! Besides cycles: reads of aborted (G1a) or intermediate (G1b) or never written versions, own writes
//! that were not seen, and two writers with one stamp.

use crate::history::{ABSENT, Attempt, History, Op, Row, Status, Version};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;

/// How many anomalies of a history are told.
const TOLD: usize = 5;

/// The judgement of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Committed transactions judged.
    pub transactions: usize,
    /// Edges of the graph.
    pub edges: usize,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ww,
    Wr,
    Rw,
    /// `rw` by a scan.
    Predicate,
    /// Real time.
    Rt,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: u32,
    to: u32,
    row: u32,
    kind: Kind,
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
    judge.verdict.edges = judge.edges.len();
    judge.find_cycles(nodes);
    judge.verdict
}

impl Judge<'_> {
    fn committed(&self, attempt: u32) -> bool {
        self.attempts[attempt as usize].status == Status::Committed
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
            if attempt.status == Status::Committed {
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
                    let seen_keys: HashSet<u64> = seen.iter().map(|(key, _)| *key).collect();
                    for (key, version) in seen {
                        self.read(number, &own, (*table, *key), *version, Kind::Predicate);
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
        let (begin, end) = {
            let reader = &self.attempts[reader as usize];
            (reader.begin, reader.end)
        };
        // Absence `at` follows writer `at - 1`; absence 0 is the first.
        let possible = |at: &usize| {
            let starts = *at == 0 || chain[at - 1].version == ABSENT;
            let began = *at == 0 || self.attempts[chain[at - 1].attempt as usize].begin <= end;
            let lasted = chain.get(*at).is_none_or(|next| self.attempts[next.attempt as usize].end >= begin);
            starts && began && lasted
        };
        let mut candidates = (0..=chain.len()).filter(possible);
        let Some(first) = candidates.next() else {
            let text = format!(
                "{} found {} absent, but it was there all the time",
                self.name(reader),
                self.row_name(row)
            );
            return self.report("garbage", text);
        };
        let last = candidates.next_back().unwrap_or(first);
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

    /// Adds a chain of time nodes after the attempts' nodes, one per committed transaction in the
    /// order of their ends. Returns the number of nodes.
    fn add_real_time(&mut self) -> usize {
        let count = self.attempts.len() as u32;
        let committed: Vec<u32> = (0..count).filter(|number| self.committed(*number)).collect();
        let mut by_end = committed.clone();
        by_end.sort_by_key(|number| self.attempts[*number as usize].end);
        for (place, &number) in by_end.iter().enumerate() {
            let time = count + place as u32;
            self.edges.push(Edge { from: number, to: time, row: 0, kind: Kind::Rt });
            if place > 0 {
                self.edges.push(Edge { from: time - 1, to: time, row: 0, kind: Kind::Rt });
            }
        }
        for number in committed {
            let begin = self.attempts[number as usize].begin;
            let before = by_end.partition_point(|other| self.attempts[*other as usize].end < begin);
            if before > 0 {
                self.edges.push(Edge { from: count + before as u32 - 1, to: number, row: 0, kind: Kind::Rt });
            }
        }
        self.attempts.len() + by_end.len()
    }

    fn find_cycles(&mut self, nodes: usize) {
        let graph = Graph::new(nodes, &self.edges);
        let cycles: Vec<Vec<Edge>> = graph
            .components()
            .iter()
            .take(TOLD)
            .filter_map(|nodes| graph.shortest_cycle(nodes, &self.edges))
            .collect();
        for cycle in cycles {
            let (class, text) = (classify(&cycle), self.tell(&cycle));
            self.report(class, text);
        }
    }

    /// A cycle in words.
    fn tell(&self, cycle: &[Edge]) -> String {
        let transactions = self.attempts.len() as u32;
        let mut text = String::new();
        let mut since: Option<u32> = None;
        for edge in cycle {
            let row = || self.row_name(edge.row);
            if edge.kind == Kind::Rt {
                // A run of edges over time nodes is one step: ended before it began.
                since = since.or((edge.from < transactions).then_some(edge.from));
                if edge.to < transactions {
                    let from =
                        since.take().map_or_else(|| "an earlier transaction".into(), |from| self.name(from));
                    text += &format!("{from} had ended before {} began; ", self.name(edge.to));
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
                Kind::Rt => unreachable!("told above"),
            };
        }
        text + "so each would have to come before itself"
    }
}

fn classify(cycle: &[Edge]) -> &'static str {
    let count = |kind: Kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    let (predicate, real_time) = (count(Kind::Predicate), count(Kind::Rt) > 0);
    match (count(Kind::Rw) + predicate, count(Kind::Wr), real_time) {
        (0, 0, false) => "G0",
        (0, _, false) => "G1c",
        (0, _, true) => "G1c-realtime",
        (1, _, false) => "G-single",
        (1, _, true) => "G-single-realtime",
        (_, _, true) => "G2-realtime",
        _ if predicate > 0 => "G2",
        _ => "G2-item",
    }
}

/// The edges by source node, compressed.
struct Graph {
    starts: Vec<u32>,
    /// Edge numbers.
    out: Vec<u32>,
    targets: Vec<u32>,
}

impl Graph {
    fn new(nodes: usize, edges: &[Edge]) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        for edge in edges {
            starts[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut place = starts.clone();
        let mut out = vec![0; edges.len()];
        for (number, edge) in edges.iter().enumerate() {
            out[place[edge.from as usize] as usize] = number as u32;
            place[edge.from as usize] += 1;
        }
        Self { starts, out, targets: edges.iter().map(|edge| edge.to).collect() }
    }

    fn out(&self, node: u32) -> &[u32] {
        &self.out[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// The strongly connected components of more than one node (Tarjan, without recursion).
    fn components(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let nodes = self.starts.len() - 1;
        let (mut index, mut low) = (vec![NEW; nodes], vec![0u32; nodes]);
        let mut on_stack = vec![false; nodes];
        let (mut stack, mut path, mut found) = (Vec::new(), Vec::<(u32, u32)>::new(), Vec::new());
        let mut next = 0;
        for root in 0..nodes as u32 {
            if index[root as usize] != NEW {
                continue;
            }
            path.push((root, 0));
            while let Some((node, edge)) = path.last_mut() {
                let (node, at) = (*node, *edge as usize);
                if at == 0 {
                    (index[node as usize], low[node as usize]) = (next, next);
                    next += 1;
                    stack.push(node);
                    on_stack[node as usize] = true;
                }
                if let Some(&number) = self.out(node).get(at) {
                    *edge += 1;
                    let target = self.targets[number as usize];
                    if index[target as usize] == NEW {
                        path.push((target, 0));
                    } else if on_stack[target as usize] {
                        low[node as usize] = low[node as usize].min(index[target as usize]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[node as usize]);
                }
                if low[node as usize] == index[node as usize] {
                    let start =
                        stack.iter().rposition(|other| *other == node).expect("a node is on the stack");
                    let component: Vec<u32> = stack.drain(start..).collect();
                    component.iter().for_each(|node| on_stack[*node as usize] = false);
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// A shortest cycle among the first nodes of a component.
    fn shortest_cycle(&self, component: &[u32], edges: &[Edge]) -> Option<Vec<Edge>> {
        const STARTS: usize = 64;
        let inside: HashSet<u32> = component.iter().copied().collect();
        let from = |start: u32| {
            let mut came: HashMap<u32, u32> = HashMap::new();
            let mut queue = VecDeque::from([start]);
            while let Some(node) = queue.pop_front() {
                for &number in self.out(node) {
                    let target = self.targets[number as usize];
                    if target == start {
                        let mut cycle = vec![edges[number as usize]];
                        let mut at = node;
                        while at != start {
                            let edge = edges[came[&at] as usize];
                            cycle.push(edge);
                            at = edge.from;
                        }
                        cycle.reverse();
                        return Some(cycle);
                    }
                    if inside.contains(&target) && !came.contains_key(&target) {
                        came.insert(target, number);
                        queue.push_back(target);
                    }
                }
            }
            None
        };
        component.iter().take(STARTS).filter_map(|start| from(*start)).min_by_key(Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Header;

    /// A history of committed transactions: (begin, end, stamp, operations).
    fn history(transactions: &[(u64, u64, u64, &[Op])]) -> History {
        let attempt = |(session, (begin, end, stamp, ops)): (usize, &(u64, u64, u64, &[Op]))| Attempt {
            session: session as u32,
            begin: *begin,
            end: *end,
            status: Status::Committed,
            stamp: *stamp,
            ops: ops.to_vec(),
        };
        History {
            header: Header::new("by hand", true, 0),
            attempts: transactions.iter().enumerate().map(attempt).collect(),
        }
    }

    fn classes(history: &History, strict: bool) -> Vec<&'static str> {
        check(history, strict).anomalies.iter().map(|anomaly| anomaly.class).collect()
    }

    use Op::{Delete, Read, Scan, Write};

    #[test]
    fn a_serial_history_is_lawful() {
        let serial = history(&[
            (0, 1, 10, &[Read(0, 1, ABSENT), Write(0, 1, 100)]),
            (2, 3, 11, &[Read(0, 1, 100), Write(0, 1, 101), Read(0, 1, 101)]),
            (4, 5, 12, &[Read(0, 1, 101), Delete(0, 1), Scan(0, 0, 9, vec![])]),
            (6, 7, 13, &[Scan(0, 0, 9, vec![]), Write(0, 1, 103)]),
            (8, 9, 0, &[Scan(0, 0, 9, vec![(1, 103)])]),
        ]);
        assert_eq!(check(&serial, true).anomalies, []);
    }

    #[test]
    fn write_skew() {
        let skew = history(&[
            (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 5, 2, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 1, 11)]),
            (3, 6, 3, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 2, 12)]),
        ]);
        let verdict = check(&skew, false);
        assert_eq!(verdict.anomalies[0].class, "G2-item");
        assert!(verdict.anomalies[0].explanation.contains("table 0 key 1"), "{}", verdict.anomalies[0]);
    }

    #[test]
    fn phantom_write_skew() {
        let skew = history(&[
            (0, 5, 2, &[Scan(0, 0, 9, vec![]), Write(0, 1, 11)]),
            (1, 6, 3, &[Scan(0, 0, 9, vec![]), Write(0, 2, 12)]),
        ]);
        assert_eq!(classes(&skew, false), ["G2"]);
    }

    #[test]
    fn lost_update_and_read_skew() {
        let lost = history(&[
            (0, 1, 1, &[Write(0, 1, 1)]),
            (2, 4, 2, &[Read(0, 1, 1), Write(0, 1, 2)]),
            (3, 5, 3, &[Read(0, 1, 1), Write(0, 1, 3)]),
        ]);
        assert_eq!(classes(&lost, false), ["G-single"]);
        let skew = history(&[
            (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 4, 2, &[Write(0, 1, 11), Write(0, 2, 12)]),
            (3, 5, 0, &[Read(0, 1, 1), Read(0, 2, 12)]),
        ]);
        assert_eq!(classes(&skew, false), ["G-single"]);
    }

    #[test]
    fn dirty_circles() {
        let circle = history(&[
            (0, 5, 1, &[Write(0, 1, 1), Read(0, 2, 2)]),
            (1, 6, 2, &[Write(0, 2, 2), Read(0, 1, 1)]),
        ]);
        assert_eq!(classes(&circle, false), ["G1c"]);
        let g0 = history(&[(0, 5, 1, &[Write(0, 1, 1), Write(0, 2, 2)]), (1, 6, 1, &[Write(0, 1, 3)])]);
        assert_eq!(classes(&g0, false), ["order"]);
    }

    #[test]
    fn dirty_reads() {
        let mut aborted = history(&[(0, 1, 1, &[Write(0, 1, 1)]), (2, 3, 0, &[Read(0, 1, 1)])]);
        aborted.attempts[0].status = Status::Aborted;
        assert_eq!(classes(&aborted, false), ["G1a"]);
        let between = history(&[(0, 3, 1, &[Write(0, 1, 1), Write(0, 1, 2)]), (1, 2, 0, &[Read(0, 1, 1)])]);
        assert_eq!(classes(&between, false), ["G1b"]);
        let nobody = history(&[(0, 3, 1, &[Write(0, 1, 1)]), (1, 2, 0, &[Read(0, 1, 7)])]);
        assert_eq!(classes(&nobody, false), ["garbage"]);
    }

    #[test]
    fn own_writes_must_be_seen() {
        let blind = history(&[(0, 1, 1, &[Write(0, 1, 1), Read(0, 1, ABSENT)])]);
        assert_eq!(classes(&blind, false), ["internal"]);
        let scan = history(&[(0, 1, 1, &[Write(0, 1, 1), Scan(0, 0, 5, vec![])])]);
        assert_eq!(classes(&scan, false), ["internal"]);
    }

    #[test]
    fn a_stale_read_is_wrong_only_in_real_time() {
        let stale = history(&[
            (0, 1, 1, &[Write(0, 1, 1)]),
            (2, 3, 2, &[Write(0, 1, 2)]),
            (4, 5, 0, &[Read(0, 1, 1)]),
        ]);
        assert_eq!(classes(&stale, false), Vec::<&str>::new());
        assert_eq!(classes(&stale, true), ["G-single-realtime"]);
        assert!(check(&stale, true).anomalies[0].explanation.contains("had ended before"));
    }

    #[test]
    fn absence_is_placed_by_time() {
        let reinsert = |reader: &'static [Op], begin, end| {
            history(&[
                (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 21)]),
                (2, 3, 2, &[Delete(0, 1), Write(0, 2, 22)]),
                (10, 11, 3, &[Write(0, 1, 3), Write(0, 2, 23)]),
                (20, 21, 4, &[Delete(0, 1), Write(0, 2, 24)]),
                (begin, end, 0, reader),
            ])
        };
        // Between the two lives: consistent with what the deleter wrote beside, and with nothing else.
        assert_eq!(
            classes(&reinsert(&[Read(0, 1, ABSENT), Read(0, 2, 22)], 5, 6), false),
            Vec::<&str>::new()
        );
        assert_eq!(classes(&reinsert(&[Read(0, 1, ABSENT), Read(0, 2, 23)], 5, 6), false), ["G-single"]);
        // During a life.
        assert_eq!(classes(&reinsert(&[Read(0, 1, ABSENT)], 13, 14), false), ["garbage"]);
        // A reader as long as everything is ambiguous, not guilty.
        let long = check(&reinsert(&[Read(0, 1, ABSENT)], 0, 30), false);
        assert_eq!((long.ok(), long.ambiguous), (true, 1));
    }
}
