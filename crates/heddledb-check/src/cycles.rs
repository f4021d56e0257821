//! Cycles of a dependency graph: whether there are any, and the one that says most.
//!
//! **Mechanism.** A cycle lies within one strongly connected component, and a lawful history has
//! none of more than one node; finding that out is linear (Tarjan). Only then, in each component, the
//! [`STAGES`] look for the gravest anomaly first: each allows certain kinds of edges, and takes a
//! short cycle of them. So the class that is told is the gravest that the component holds, and real
//! time is named only where the data alone do not show a cycle.

use std::collections::{HashMap, VecDeque};

/// What an edge stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From a writer to the next.
    Ww,
    /// From a writer to a reader.
    Wr,
    /// From a reader to the next writer.
    Rw,
    /// `rw` by a scan over a row that was not there.
    Predicate,
    /// From what had ended to what then began.
    RealTime,
}

/// A dependency: `to` comes after `from`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The row that it is about; without meaning for real time.
    pub(crate) row: u32,
    pub(crate) kind: Kind,
}

/// Cycles of the edges `free`, with exactly one edge of `once` where there are any.
struct Stage {
    free: &'static [Kind],
    once: &'static [Kind],
}

/// From the gravest to the mildest. The last takes any cycle.
const STAGES: &[Stage] = {
    use Kind::{Predicate, RealTime, Rw, Wr, Ww};
    &[
        Stage { free: &[Ww], once: &[] },
        Stage { free: &[Ww, Wr], once: &[] },
        Stage { free: &[Ww, Wr], once: &[Rw] },
        Stage { free: &[Ww, Wr], once: &[Rw, Predicate] },
        Stage { free: &[Ww, Wr, Rw], once: &[] },
        Stage { free: &[Ww, Wr, Rw, Predicate], once: &[] },
        Stage { free: &[RealTime, Ww], once: &[] },
        Stage { free: &[RealTime, Ww, Wr], once: &[] },
        Stage { free: &[RealTime, Ww, Wr], once: &[Rw, Predicate] },
        Stage { free: &[RealTime, Ww, Wr, Rw, Predicate], once: &[] },
    ]
};

/// How many edges one stage may look at in one component before it takes what it has.
const EFFORT: usize = 20_000_000;

/// A cycle of each component with any, of `most` components.
pub(crate) fn find(nodes: usize, edges: &[Edge], most: usize) -> Vec<Vec<Edge>> {
    let graph = Graph::new(nodes, edges.iter().copied());
    let components = graph.components();
    components.iter().take(most).map(|component| gravest(&graph, component)).collect()
}

/// The name of a cycle in the literature.
pub(crate) fn classify(cycle: &[Edge]) -> &'static str {
    let count = |kind: Kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    let (predicate, real_time) = (count(Kind::Predicate), count(Kind::RealTime) > 0);
    match (count(Kind::Rw) + predicate, count(Kind::Wr), real_time) {
        (0, 0, false) => "G0",
        (0, 0, true) => "G0-realtime",
        (0, _, false) => "G1c",
        (0, _, true) => "G1c-realtime",
        (1, _, false) => "G-single",
        (1, _, true) => "G-single-realtime",
        (_, _, true) => "G2-realtime",
        _ if predicate > 0 => "G2",
        _ => "G2-item",
    }
}

fn gravest(graph: &Graph, component: &[u32]) -> Vec<Edge> {
    let places: HashMap<u32, u32> = (0..).zip(component).map(|(place, node)| (*node, place)).collect();
    let inner = |edge: &Edge| {
        let (from, to) = (*places.get(&edge.from)?, *places.get(&edge.to)?);
        Some(Edge { from, to, ..*edge })
    };
    let edges: Vec<Edge> = component.iter().flat_map(|node| graph.out(*node)).filter_map(inner).collect();
    let mut cycle = STAGES
        .iter()
        .find_map(|stage| stage.cycle(component.len(), &edges))
        .expect("a component of several nodes has a cycle, and the last stage takes any");
    for edge in &mut cycle {
        (edge.from, edge.to) = (component[edge.from as usize], component[edge.to as usize]);
    }
    cycle
}

impl Stage {
    fn cycle(&self, nodes: usize, edges: &[Edge]) -> Option<Vec<Edge>> {
        let of = |kinds: &'static [Kind]| edges.iter().copied().filter(|edge| kinds.contains(&edge.kind));
        let graph = Graph::new(nodes, of(self.free));
        let mut search = Search::new(&graph, EFFORT);
        let mut best: Option<Vec<Edge>> = None;
        let mut keep = |cycle: Option<Vec<Edge>>| {
            if let Some(cycle) = cycle
                && best.as_ref().is_none_or(|best| cycle.len() < best.len())
            {
                best = Some(cycle);
            }
        };
        if self.once.is_empty() {
            let component = graph.components().into_iter().min_by_key(Vec::len)?;
            // Each of its nodes is on a cycle, so the first search finds one if it is let.
            keep(Search::new(&graph, usize::MAX).path(component[0], component[0]));
            for start in component {
                keep(search.path(start, start));
                if search.effort == 0 {
                    break;
                }
            }
        } else {
            for edge in of(self.once) {
                keep(search.path(edge.to, edge.from).map(|path| [vec![edge], path].concat()));
                if search.effort == 0 {
                    break;
                }
            }
        }
        best
    }
}

/// Edges by their source.
struct Graph {
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    fn new(nodes: usize, edges: impl Iterator<Item = Edge> + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        edges.clone().for_each(|edge| starts[edge.from as usize + 1] += 1);
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut place = starts.clone();
        let nothing = Edge { from: 0, to: 0, row: 0, kind: Kind::RealTime };
        let mut sorted = vec![nothing; starts[nodes] as usize];
        for edge in edges {
            let place = &mut place[edge.from as usize];
            sorted[*place as usize] = edge;
            *place += 1;
        }
        Self { starts, edges: sorted }
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn out(&self, node: u32) -> &[Edge] {
        &self.edges[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// The strongly connected components of more than one node (Tarjan, without recursion).
    fn components(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let nodes = self.nodes();
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
                if let Some(Edge { to, .. }) = self.out(node).get(at).copied() {
                    *edge += 1;
                    if index[to as usize] == NEW {
                        path.push((to, 0));
                    } else if on_stack[to as usize] {
                        low[node as usize] = low[node as usize].min(index[to as usize]);
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
}

/// Breadth-first searches over one graph that share their memory and their effort.
struct Search<'a> {
    graph: &'a Graph,
    /// The search that last reached each node, and the edge that it came by.
    reached: Vec<(u32, Option<Edge>)>,
    searches: u32,
    effort: usize,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, effort: usize) -> Self {
        Self { graph, reached: vec![(0, None); graph.nodes()], searches: 0, effort }
    }

    /// A shortest path of at least one edge, unless the effort runs out.
    fn path(&mut self, from: u32, to: u32) -> Option<Vec<Edge>> {
        self.searches += 1;
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for edge in self.graph.out(node) {
                self.effort = self.effort.checked_sub(1)?;
                if edge.to == to {
                    let mut path = vec![*edge];
                    let mut at = node;
                    while at != from {
                        let edge = self.reached[at as usize].1.expect("each node but the first was reached");
                        path.push(edge);
                        at = edge.from;
                    }
                    path.reverse();
                    return Some(path);
                }
                let reached = &mut self.reached[edge.to as usize];
                if reached.0 != self.searches && edge.to != from {
                    *reached = (self.searches, Some(*edge));
                    queue.push_back(edge.to);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Predicate, RealTime, Rw, Wr, Ww};

    fn classes(nodes: usize, edges: &[(u32, u32, Kind)]) -> Vec<(&'static str, usize)> {
        let edges: Vec<Edge> =
            edges.iter().map(|&(from, to, kind)| Edge { from, to, row: 0, kind }).collect();
        let name = |cycle: &Vec<Edge>| {
            let closed = (0..cycle.len()).all(|at| cycle[at].to == cycle[(at + 1) % cycle.len()].from);
            assert!(closed, "{cycle:?}");
            (classify(cycle), cycle.len())
        };
        find(nodes, &edges, 9).iter().map(name).collect()
    }

    #[test]
    fn each_class_by_its_edges() {
        assert_eq!(classes(3, &[(0, 1, Ww), (1, 2, Wr), (0, 2, Rw)]), []);
        assert_eq!(classes(2, &[(0, 1, Ww), (1, 0, Ww)]), [("G0", 2)]);
        assert_eq!(classes(2, &[(0, 1, Ww), (1, 0, Wr)]), [("G1c", 2)]);
        assert_eq!(classes(2, &[(0, 1, Ww), (1, 0, Rw)]), [("G-single", 2)]);
        assert_eq!(classes(2, &[(0, 1, Wr), (1, 0, Predicate)]), [("G-single", 2)]);
        assert_eq!(classes(2, &[(0, 1, Rw), (1, 0, Rw)]), [("G2-item", 2)]);
        assert_eq!(classes(2, &[(0, 1, Rw), (1, 0, Predicate)]), [("G2", 2)]);
        assert_eq!(classes(2, &[(0, 1, RealTime), (1, 0, Ww)]), [("G0-realtime", 2)]);
        assert_eq!(classes(2, &[(0, 1, RealTime), (1, 0, Wr)]), [("G1c-realtime", 2)]);
        assert_eq!(classes(2, &[(0, 1, RealTime), (1, 0, Rw)]), [("G-single-realtime", 2)]);
        let twice = [(0, 1, Rw), (1, 2, RealTime), (2, 0, Rw)];
        assert_eq!(classes(3, &twice), [("G2-realtime", 3)]);
    }

    #[test]
    fn the_gravest_is_told_and_not_the_shortest() {
        // A short cycle through real time beside a longer one of data alone.
        let edges = [(0, 1, RealTime), (1, 0, Rw), (1, 2, Wr), (2, 0, Ww), (0, 1, Ww)];
        assert_eq!(classes(3, &edges), [("G1c", 3)]);
        let edges = [(0, 1, Rw), (1, 0, Rw), (1, 2, Wr), (2, 0, Wr)];
        assert_eq!(classes(3, &edges), [("G-single", 3)]);
    }

    #[test]
    fn components_are_told_apart() {
        let edges = [(0, 1, Ww), (1, 0, Rw), (1, 2, Wr), (2, 3, Rw), (3, 2, Rw)];
        let mut found = classes(4, &edges);
        found.sort_unstable();
        assert_eq!(found, [("G-single", 2), ("G2-item", 2)]);
    }
}
