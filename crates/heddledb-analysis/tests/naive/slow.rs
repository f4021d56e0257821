//! The second implementation: obvious and slow.

use crate::texts::COLUMNS;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub struct NaiveAccess {
    table: String,
    insert: bool,
    causal: bool,
    reads: BTreeSet<String>,
    writes: BTreeSet<String>,
    adds: BTreeSet<String>,
}

/// A type: its name, and its accesses by piece.
pub type NaiveType = (String, Vec<Vec<NaiveAccess>>);

#[derive(Debug, Default)]
pub struct Naive {
    appendonly: BTreeSet<String>,
    constant: BTreeSet<String>,
    pub types: Vec<NaiveType>,
}

fn all() -> BTreeSet<String> {
    COLUMNS.iter().chain(&["rest"]).map(|name| name.to_string()).collect()
}

/// Reads a text of the generator: one word after the other, no errors expected.
pub fn read(text: &str) -> Naive {
    let mut naive = Naive::default();
    let mut depth: Vec<&str> = Vec::new();
    let (mut in_txn, mut skipped, mut new_piece, mut number) = (false, false, true, None);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", name, "appendonly"] => drop(naive.appendonly.insert(name.into())),
            ["table", name, "static"] => drop(naive.constant.insert(name.into())),
            ["txn", name, ref rest @ ..] => {
                in_txn = true;
                skipped = rest.contains(&"readonly");
                if !skipped {
                    naive.types.push((name.into(), Vec::new()));
                }
                number = None;
            }
            ["end"] if depth.is_empty() => in_txn = false,
            ["end"] => {
                depth.pop();
                number = None;
            }
            ["else"] => number = None,
            [block @ ("loop" | "piece" | "if")] => {
                if !depth.iter().any(|outer| *outer != "if") {
                    new_piece = true;
                }
                depth.push(block);
                number = None;
            }
            [mode, table, ref rest @ ..] if in_txn && !skipped => {
                let mut access =
                    NaiveAccess { table: table.into(), insert: mode == "insert", ..Default::default() };
                let (mut cols, mut into, mut own_number) = (None, 0, None);
                for word in rest {
                    match *word {
                        "cols" => (cols, into) = (Some(BTreeSet::new()), 1),
                        "reads" => into = 2,
                        "causal" => (access.causal, into) = (true, 0),
                        "piece" => into = 3,
                        name if into == 1 => drop(cols.as_mut().unwrap().insert(name.to_string())),
                        name if into == 2 => drop(access.reads.insert(name.into())),
                        other => own_number = Some(other.to_string()),
                    }
                }
                let cols = cols.unwrap_or_else(all);
                let existence = "existence".to_string();
                match mode {
                    "read" => access.reads.extend(cols),
                    "scan" => access.reads.extend(cols.into_iter().chain([existence])),
                    "update" => access.writes = cols,
                    "add" => access.adds = cols,
                    _ => access.writes = all().into_iter().chain([existence]).collect(),
                }
                let inside = depth.iter().any(|outer| *outer != "if");
                let goes_on = (inside && !new_piece) || (own_number.is_some() && own_number == number);
                let pieces = &mut naive.types.last_mut().unwrap().1;
                if goes_on {
                    pieces.last_mut().unwrap().push(access);
                } else {
                    pieces.push(vec![access]);
                }
                new_piece = !inside;
                number = own_number;
            }
            _ => {}
        }
    }
    naive
}

impl Naive {
    fn conflict(&self, one: &NaiveAccess, two: &NaiveAccess) -> bool {
        let appended = one.insert && two.insert && self.appendonly.contains(&one.table);
        if one.table != two.table
            || one.causal
            || two.causal
            || appended
            || self.constant.contains(&one.table)
        {
            return false;
        }
        let meet = |one: &BTreeSet<String>, two: &BTreeSet<String>| one.intersection(two).next().is_some();
        let half = |one: &NaiveAccess, two: &NaiveAccess| {
            meet(&one.writes, &two.reads)
                || meet(&one.writes, &two.writes)
                || meet(&one.writes, &two.adds)
                || meet(&one.adds, &two.reads)
        };
        half(one, two) || half(two, one)
    }

    fn edge(&self, one: &[NaiveAccess], two: &[NaiveAccess]) -> bool {
        one.iter().any(|one| two.iter().any(|two| self.conflict(one, two)))
    }

    /// All pieces of two instances of each type: type, instance, place.
    fn nodes(&self) -> Vec<(usize, usize, usize)> {
        let mut nodes = Vec::new();
        for (of_type, (_, pieces)) in self.types.iter().enumerate() {
            for instance in 0..2 {
                nodes.extend((0..pieces.len()).map(|at| (of_type, instance, at)));
            }
        }
        nodes
    }

    /// Which node leads to which, by an S-edge forward or a C-edge.
    fn steps(&self) -> Vec<Vec<bool>> {
        let nodes = self.nodes();
        let step = |&(t, i, p): &(usize, usize, usize), &(u, j, q): &(usize, usize, usize)| {
            let sibling = t == u && i == j && q == p + 1;
            let conflict = (t, i) != (u, j) && self.edge(&self.types[t].1[p], &self.types[u].1[q]);
            sibling || conflict
        };
        nodes.iter().map(|from| nodes.iter().map(|to| step(from, to)).collect()).collect()
    }

    /// Whether a simple path leads from one node to another: all of them, one after the other.
    fn path(steps: &[Vec<bool>], from: usize, to: usize, visited: &mut Vec<usize>) -> bool {
        if from == to {
            return true;
        }
        visited.push(from);
        for next in 0..steps.len() {
            if steps[from][next] && !visited.contains(&next) && Self::path(steps, next, to, visited) {
                return true;
            }
        }
        visited.pop();
        false
    }

    /// The same question for all pairs, for graphs with too many paths: Warshall's closure.
    fn closure(mut steps: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
        for middle in 0..steps.len() {
            for from in 0..steps.len() {
                if steps[from][middle] {
                    let onward = steps[middle].clone();
                    steps[from].iter_mut().zip(onward).for_each(|(step, onward)| *step |= onward);
                }
            }
        }
        steps
    }

    /// Merges two neighbours as long as an S-edge closes to a cycle.
    pub fn merge(&mut self, enumerate: bool) {
        'again: loop {
            let (nodes, steps) = (self.nodes(), self.steps());
            let closure = (!enumerate).then(|| Self::closure(steps.clone()));
            for (at, &(of_type, _, piece)) in nodes.iter().enumerate() {
                if piece + 1 == self.types[of_type].1.len() {
                    continue;
                }
                let closed = match &closure {
                    Some(closure) => closure[at + 1][at],
                    None => Self::path(&steps, at + 1, at, &mut Vec::new()),
                };
                if closed {
                    let pieces = &mut self.types[of_type].1;
                    let next = pieces.remove(piece + 1);
                    pieces[piece].extend(next);
                    continue 'again;
                }
            }
            return;
        }
    }

    pub fn conflicts(&self, of_type: usize, at: usize) -> bool {
        let piece = &self.types[of_type].1[at];
        self.types.iter().any(|(_, pieces)| pieces.iter().any(|other| self.edge(piece, other)))
    }

    /// Rule 5: pieces of `with` that have a C-edge with a later piece, if none has one with this.
    pub fn rendezvous(&self, of_type: usize, at: usize, with: usize) -> Vec<usize> {
        let (own, others) = (&self.types[of_type].1, &self.types[with].1);
        if others.iter().any(|other| self.edge(&own[at], other)) {
            return Vec::new();
        }
        let later = |other: &Vec<NaiveAccess>| own[at + 1..].iter().any(|later| self.edge(later, other));
        (0..others.len()).filter(|&place| later(&others[place])).collect()
    }
}
