//! Whether additions may take effect later, unseen by the calls beside them: the premise of deferred execution (DBX-TC §3.2).
//!
//! # Problem
//!
//! Additions commute, so two transactions that add to the same column do not conflict. One that reads the column conflicts with
//! both. A runtime can part them: time is cut into spans; additions that are marked as *deferred* are put off until the end of
//! their span, and nobody sees them before. Then whoever reads the column, the *subscriber*, comes before all that add to it
//! in the same span, the *publishers*, wherever their accesses meet. So there is no C-edge between them.
//!
//! That is wrong if the two meet elsewhere too, or are joined through third transactions: the subscriber may then see what the
//! publisher did there, and so come after it.
//!
//! ```text
//!   deliver [order]--S--[customer: balance, put off]         pay comes before deliver by the balance,
//!              |                                             after it by the order, which check has seen,
//!   check   [order]--S--[log]                                and whose entry pay has read
//!                         |
//!   pay                 [log]--S--[customer: balance]
//! ```
//!
//! # Mechanism
//!
//! Order the transactions of a span. Those that are joined by C-edges, which are those of the graph *without* the deferred additions,
//! may come in any order; a subscriber comes before its publishers. That has a solution, whatever the first order is, unless
//! a way leads from a publisher along C-edges, in any direction, and from subscribers to their publishers, back to its
//! subscriber. All pieces of a type are joined by S-edges, so it is enough to look at types; and as merging joins pieces of one type
//! only, the graph before merging says the same as the one after it. A type that reads what it adds is its own subscriber.
//!
//! A deferred addition still looks at once whether its row exists, so it has C-edges to inserts and deletes of the table.
//! Types that run on snapshots see whole spans, and take no part.

use crate::graph::{ScGraph, SiteId};
use std::collections::VecDeque;
use std::fmt::Write;

/// A way that leads from a publisher to its subscriber, so that the one must not be put off behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entangled {
    /// The addition that is marked as deferred.
    pub publisher: SiteId,
    /// The access that would not see it.
    pub subscriber: SiteId,
    /// The way from the publisher's type to the subscriber's; empty, if they are one type.
    pub way: Vec<Link>,
}

/// A step of such a way, between two transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A C-edge, from a site of the one to a site of the other.
    Meets {
        /// The site where the step begins.
        from: SiteId,
        /// The site where it ends.
        to: SiteId,
    },
    /// From a subscriber to the publisher that it comes before.
    Precedes {
        /// The access that does not see the addition.
        subscriber: SiteId,
        /// The addition.
        publisher: SiteId,
    },
}

/// Looks for a reason against deferring what is marked: the first, in the order of sites, with a shortest way.
/// Takes time in proportion to the pairs of deferred additions and sites, times the C-edges.
pub fn entangled(graph: &ScGraph) -> Option<Entangled> {
    let pairs = put_off(graph);
    let type_of = |site: SiteId| graph.sites[site].transaction;
    pairs.iter().find_map(|&(publisher, subscriber)| {
        let way = way(graph, &pairs, type_of(publisher), type_of(subscriber))?;
        Some(Entangled { publisher, subscriber, way })
    })
}

/// All pairs of a deferred addition and an access that would not see it.
fn put_off(graph: &ScGraph) -> Vec<(SiteId, SiteId)> {
    let sites = &graph.sites;
    let deferred = (0..sites.len()).filter(|&site| !sites[site].footprint.deferred.is_empty());
    let pairs = deferred.flat_map(|publisher| {
        let unseen =
            move |&other: &SiteId| !sites[publisher].footprint.put_off(&sites[other].footprint).is_empty();
        (0..sites.len()).filter(unseen).map(move |subscriber| (publisher, subscriber))
    });
    pairs.collect()
}

/// A shortest way from one type to another, if there is one.
fn way(graph: &ScGraph, pairs: &[(SiteId, SiteId)], from: usize, to: usize) -> Option<Vec<Link>> {
    let type_of = |site: SiteId| graph.sites[site].transaction;
    // By type: from which one, and by which link, the search came to it.
    let mut came: Vec<Option<(usize, Link)>> = vec![None; graph.types.len()];
    let mut reached = vec![false; graph.types.len()];
    let mut next = VecDeque::from([from]);
    reached[from] = true;
    while let Some(at) = next.pop_front() {
        let meets = graph.edges.iter().flat_map(|edge| {
            let (one, two) = edge.sites;
            [Link::Meets { from: one, to: two }, Link::Meets { from: two, to: one }]
        });
        let precedes = pairs.iter().map(|&(publisher, subscriber)| Link::Precedes { subscriber, publisher });
        for link in meets.chain(precedes) {
            let (begins, ends) = link.ends();
            let (begins, ends) = (type_of(begins), type_of(ends));
            if begins == at && !reached[ends] {
                reached[ends] = true;
                came[ends] = Some((at, link));
                next.push_back(ends);
            }
        }
    }
    if !reached[to] {
        return None;
    }
    let mut links = Vec::new();
    let mut at = to;
    while let (true, Some((before, link))) = (at != from, came[at]) {
        links.push(link);
        at = before;
    }
    links.reverse();
    Some(links)
}

impl Link {
    /// The sites where it begins and ends.
    fn ends(self) -> (SiteId, SiteId) {
        match self {
            Self::Meets { from, to } => (from, to),
            Self::Precedes { subscriber, publisher } => (subscriber, publisher),
        }
    }
}

impl Entangled {
    /// The reason as a sentence.
    pub fn words(&self, graph: &ScGraph) -> String {
        let Self { publisher, subscriber, ref way } = *self;
        let (one, two) = (graph.site_in_words(publisher), graph.site_in_words(subscriber));
        let unseen = graph.put_off(publisher, subscriber);
        let mut words = format!("{one} cannot be deferred: {two} would not see it in {unseen}, ");
        if way.is_empty() {
            words.push_str("and both are of one type");
            return words;
        }
        words.push_str("but the two are joined elsewhere: ");
        for (at, link) in way.iter().enumerate() {
            let (begins, ends) = link.ends();
            let (one, two) = (graph.site_in_words(begins), graph.site_in_words(ends));
            let comma = if at == 0 { "" } else { ", " };
            let _ = match link {
                Link::Meets { from, to } => {
                    write!(words, "{comma}{one} meets {two} in {}", graph.meeting(*from, *to))
                }
                Link::Precedes { subscriber, publisher } => {
                    let unseen = graph.put_off(*publisher, *subscriber);
                    write!(words, "{comma}{one} does not see {two} in {unseen}")
                }
            };
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use crate::text::parse;
    use crate::{Method, Options, analyse};

    const OPTIONS: Options = Options {
        granularity: crate::Granularity::Column,
        method: Method::Chopping,
        commutative: true,
        causal: true,
        rollback_safe: false,
        defer: true,
    };

    /// The reason against deferring, and the pieces of each type.
    fn analysed(body: &str) -> (Option<String>, Vec<usize>) {
        let workload = parse(&format!("workload w\n{body}")).unwrap();
        let analysis = analyse(&workload, &OPTIONS);
        let words = analysis.entangled.as_ref().map(|entangled| entangled.words(&analysis.graph));
        (words, analysis.types.iter().map(|one| one.pieces.len()).collect())
    }

    /// DBX-TC figure 3: the edge between publisher and subscriber is gone, so neither has to be one piece.
    #[test]
    fn what_is_put_off_has_no_edge() {
        let body = |mark: &str| {
            format!(
                "txn deliver\nupdate order cols carrier\nadd customer cols balance {mark}\nend\n\
                 txn pay\nupdate customer cols balance reads balance\nread customer cols name\nend"
            )
        };
        assert_eq!(analysed(&body("deferred")), (None, vec![2, 2]));
        // Without the mark the two meet, which by itself is no cycle.
        let workload = parse(&format!("workload w\n{}", body(""))).unwrap();
        let edges = |defer| analyse(&workload, &Options { defer, ..OPTIONS }).graph.edges.len();
        assert_eq!((edges(true), edges(false)), (3, 3));
        let workload = parse(&format!("workload w\n{}", body("deferred"))).unwrap();
        let edges = |defer| analyse(&workload, &Options { defer, ..OPTIONS }).graph.edges.len();
        assert_eq!((edges(true), edges(false)), (2, 3), "the option counts, and not the mark alone");
    }

    #[test]
    fn those_who_meet_elsewhere_are_entangled() {
        let (words, _) = analysed(
            "txn deliver\nupdate order\nadd customer cols balance deferred\nend\n\
             txn pay\nread customer cols balance\nread order\nend",
        );
        assert_eq!(
            words.as_deref(),
            Some(
                "deliver's `add customer` (line 4) cannot be deferred: pay's `read customer` (line 7) would not see it in \
                 customer (balance), but the two are joined elsewhere: deliver's `update order` (line 3) meets pay's \
                 `read order` (line 8) in order (every column)"
            )
        );
    }

    #[test]
    fn third_types_join_them_too() {
        let third = "txn check\nread order\ninsert log\nend\n";
        let body = "txn deliver\nupdate order\nadd customer cols balance deferred\nend\n\
                    txn pay\nscan log\nread customer cols balance\nend\n";
        assert_eq!(analysed(body).0, None);
        let words = analysed(&format!("{body}{third}")).0.expect("they are joined");
        assert!(words.contains("check's `read order`") && words.contains("pay's `scan log`"), "{words}");
        // One that runs on a snapshot sees whole spans.
        assert_eq!(analysed(&format!("{body}txn check readonly\nread order\nscan log\nend")).0, None);
    }

    #[test]
    fn a_type_that_reads_what_it_adds_is_entangled_with_itself() {
        let (words, _) = analysed("txn t\nadd a cols x deferred\nread a cols x\nend");
        assert!(words.expect("it is").ends_with("both are of one type"));
        assert_eq!(analysed("txn t\nadd a cols x deferred\nread a cols y\nend").0, None);
        assert!(analysed("txn t\nadd a cols x deferred reads x\nend").0.is_some());
    }

    /// Each of the two would come before the other.
    #[test]
    fn two_that_do_not_see_each_other_are_entangled() {
        let body =
            "txn t\nread b cols y\nadd a cols x deferred\nend\ntxn u\nread a cols x\nadd b cols y MARK\nend";
        let words = analysed(&body.replace("MARK", "deferred")).0.expect("they are");
        assert!(words.contains("does not see"), "{words}");
        // Then they meet in b.
        assert!(analysed(&body.replace("MARK", "")).0.is_some());
        // In one direction there is an order.
        let chain = "txn t\nadd a cols x deferred\nend\ntxn u\nread a cols x\nadd b cols y deferred\nend\n\
                     txn v\nread b cols y\nend";
        assert_eq!(analysed(chain).0, None);
    }

    /// An addition looks at once whether there is a row.
    #[test]
    fn who_makes_or_removes_rows_meets_it_all_the_same() {
        for mode in ["insert", "delete"] {
            let (words, _) = analysed(&format!("txn t\nadd a cols x deferred\nend\ntxn u\n{mode} a\nend"));
            let words = words.expect("they meet in the row's existence");
            assert!(words.contains("in a (existence)"), "{words}");
        }
    }

    #[test]
    fn a_causal_reader_is_a_subscriber_all_the_same() {
        let body = "txn t\nupdate b\nadd a cols x deferred\nend\ntxn u\nread b\nread a cols x causal\nend";
        assert!(analysed(body).0.is_some());
    }

    #[test]
    fn only_additions_are_deferred() {
        let error = parse("workload w\ntxn t\nread a deferred\nend").unwrap_err();
        assert!(error.to_string().contains("only an `add` can be deferred, not `read`"), "{error}");
        let printed = crate::text::print(&parse("workload w\ntxn t\nadd a cols x deferred\nend").unwrap());
        assert!(printed.contains("a cols x deferred"), "{printed}");
        assert_eq!(crate::text::print(&parse(&printed).unwrap()), printed);
    }
}
