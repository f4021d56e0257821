//! What is wrong with a run that has come to its end.

use super::{NOBODY, World};
use std::collections::BTreeSet;

impl World {
    /// What is wrong at the end.
    pub fn violation(&self) -> Option<String> {
        let committed = |number: usize| {
            let own = &self.transactions[number];
            own.decided && !own.null
        };
        let count = self.transactions.len();
        let mut edges = vec![BTreeSet::new(); count];
        for (at, versions) in self.versions.iter().enumerate() {
            for pair in versions.windows(2) {
                if pair[1].time <= pair[0].time {
                    return Some(format!("times fall on item {at}"));
                }
                if !committed(pair[1].writer) {
                    return Some(format!("item {at} has a version of one that did not commit"));
                }
                if pair[0].writer != NOBODY {
                    edges[pair[0].writer].insert(pair[1].writer);
                }
            }
            for reader in (0..count).filter(|reader| committed(*reader)) {
                for (_, writer) in self.transactions[reader].reads.iter().filter(|read| read.0 == at) {
                    let read = versions.iter().position(|version| version.writer == *writer);
                    let Some(read) = read else { return Some("a read of nothing".to_owned()) };
                    if *writer != NOBODY && *writer != reader {
                        edges[*writer].insert(reader);
                    }
                    if let Some(next) = versions.get(read + 1).filter(|next| next.writer != reader) {
                        let (one, other) = (&self.transactions[reader], &self.transactions[next.writer]);
                        let has_queued = one.items.iter().any(|item| item.at == at);
                        if has_queued && other.decided_at < one.decided_at {
                            return Some(format!(
                                "one behind another in the queue of item {at} decided first"
                            ));
                        }
                        edges[reader].insert(next.writer);
                    }
                }
            }
        }
        for (one, others) in edges.iter().enumerate() {
            for other in others {
                let (one, other) = (&self.transactions[one], &self.transactions[*other]);
                if one.epoch > other.epoch {
                    return Some("epochs fall along a dependency".to_owned());
                }
            }
        }
        for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
            let (first, second) = (&self.transactions[one], &self.transactions[other]);
            if committed(one) && committed(other) && first.over < second.begun {
                edges[one].insert(other);
            }
        }
        let mut left: Vec<usize> = (0..count).collect();
        while let Some(first) =
            left.iter().position(|one| !left.iter().any(|other| edges[*other].contains(one)))
        {
            left.remove(first);
        }
        (!left.is_empty()).then(|| format!("no serial order of {left:?}"))
    }
}
