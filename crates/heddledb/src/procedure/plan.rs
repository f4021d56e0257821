//! What the analysis of all registered procedures says, in the form that a runtime asks for at each access.
//!
//! A *plan* is made anew whenever a procedure is registered or removed, and is never changed. It says for each
//! site of each type in which piece it stands and whether what it accesses must be *tracked*: whether any
//! other access may conflict with it, in a vertex where that matters. A site that is not tracked is checked
//! when its transaction commits, like an access of a closure.
//!
//! **Hot and cold.** Tracking costs, and where transactions hardly meet it gains nothing. Which vertices are
//! tracked is free to choose: what is not tracked takes effect at the commit, and commits follow the order of
//! what is, so any choice is serializable. Under [`Tracking::Contended`] all vertices begin *cold*; one where
//! commits fail becomes *hot*, and cold again when its pieces meet nobody. Each such step makes a new plan of
//! the same analysis.
//!
//! Conflicts are those of column groups ([`Granularity::Group`]), because groups are what has versions and
//! accessor lists (PITFALLS I6).

use super::{Declaration, workload};
use crate::sync::{AtomicU64, Ordering};
use heddledb_analysis::analysis::Until;
use heddledb_analysis::{Analysis, Granularity, Method, Options, Workload, analyse};
use std::sync::Arc;

/// A plan; see the module's header.
#[derive(Debug, Default)]
pub struct Plan {
    /// By the number under which a type was registered; `None` once it was removed.
    types: Vec<Option<Arc<PlannedType>>>,
    analysis: Option<Arc<Analysis>>,
    /// By vertex of the analysis.
    vertices: Vec<Vertex>,
}

/// Which conflicts between procedures are tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// None: nothing is shown before the commit.
    #[default]
    Nothing,
    /// All that the analysis does not exclude, as in the paper.
    Always,
    /// Those that come up often, for as long as they do.
    Contended,
    /// All, and each for itself: also where the analysis says that a piece needs no order but its own.
    Each,
}

/// What becomes of a vertex.
#[derive(Debug, Default)]
struct Vertex {
    hot: bool,
    /// The span of epochs in which failures were last counted, and their number; 32 bits each.
    failures: AtomicU64,
}

/// Failures in a span of epochs after which a vertex becomes hot.
const HOT: u64 = 24;
/// Epochs of a span, as a power of two: with the usual epochs a sixth of a second.
const SPAN: u32 = 4;

/// What a runtime knows of a type.
#[derive(Debug)]
pub(crate) struct PlannedType {
    /// Its sites.
    pub sites: Vec<PlannedSite>,
    /// Its pieces, in order.
    pub pieces: Vec<PlannedPiece>,
    /// Any of its sites is tracked, so that it has to be executed piece by piece.
    pub tracked: bool,
}

/// Where a site stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedSite {
    /// Its piece.
    pub piece: u16,
    /// Where its piece's vertex stands in the order of all, from 1.
    pub rank: u16,
    /// What it accesses must be tracked.
    pub tracked: bool,
    /// What is done here must be remembered for another execution of the body. If not, it is only read, and can
    /// be read again: it is checked at the commit, and its own transaction writes it nowhere.
    pub remembered: bool,
}

/// What a runtime knows of a piece.
#[derive(Debug)]
pub(crate) struct PlannedPiece {
    /// Its vertex in the analysis.
    pub vertex: u16,
    /// By type: it has a C-edge with a piece there. Where it has none, waiting for a rank means waiting for a
    /// rendezvous piece (IC3 §4.2).
    pub direct: Vec<bool>,
}

impl Plan {
    /// Analyses the types that are registered. `None` stands for one that was removed.
    pub(crate) fn new(types: &[Option<Declaration>], options: Options, tracking: Tracking) -> Self {
        Self::of_workload(
            &workload("registered", types.iter().flatten()),
            types.iter().map(Option::is_some),
            options,
            tracking,
        )
    }

    /// The same of a workload. Of each number it says whether a type has it; they are those of the workload, in
    /// order.
    fn of_workload(
        workload: &Workload,
        registered: impl Iterator<Item = bool>,
        options: Options,
        tracking: Tracking,
    ) -> Self {
        let analysis = Arc::new(analyse(workload, &options));
        let hot = vec![matches!(tracking, Tracking::Always | Tracking::Each); analysis.vertices.len()];
        Self::of_analysis(analysis, &registered.collect::<Vec<_>>(), &hot, tracking == Tracking::Each)
    }

    fn of_analysis(analysis: Arc<Analysis>, registered: &[bool], hot: &[bool], each: bool) -> Self {
        // By the place in the analysis, the number here.
        let numbers: Vec<usize> = (0..registered.len()).filter(|&number| registered[number]).collect();
        let mut types: Vec<Option<Arc<PlannedType>>> = registered.iter().map(|_| None).collect();
        for (place, &number) in numbers.iter().enumerate() {
            let planned = PlannedType::new(&analysis, place, &numbers, registered.len(), hot, each);
            types[number] = Some(Arc::new(planned));
        }
        let vertices = hot.iter().map(|&hot| Vertex { hot, ..Vertex::default() }).collect();
        Self { types, analysis: Some(analysis), vertices }
    }

    /// The same plan with a vertex hot, or cold.
    pub(crate) fn with(&self, vertex: u16, hot: bool) -> Self {
        let Some(analysis) = &self.analysis else { return Self::default() };
        let registered: Vec<bool> = self.types.iter().map(Option::is_some).collect();
        let mut all: Vec<bool> = self.vertices.iter().map(|vertex| vertex.hot).collect();
        if let Some(of_vertex) = all.get_mut(usize::from(vertex)) {
            *of_vertex = hot;
        }
        Self::of_analysis(Arc::clone(analysis), &registered, &all, false)
    }

    /// How many vertices there are.
    pub(crate) fn vertices(&self) -> usize {
        self.vertices.len()
    }

    /// A commit has failed over what a cold vertex accesses. True if it happens so often that the vertex should
    /// be hot.
    #[cold]
    pub(crate) fn failed(&self, vertex: u16, epoch: u64) -> bool {
        let Some(vertex) = self.vertices.get(usize::from(vertex)) else { return false };
        let span = (epoch >> SPAN) << 32;
        // Relaxed throughout: a count that loses one now and then is as good.
        let known = vertex.failures.load(Ordering::Relaxed);
        let count = if known >> 32 == span >> 32 { (known & u64::from(u32::MAX)) + 1 } else { 1 };
        vertex.failures.store(span | count, Ordering::Relaxed);
        !vertex.hot && count >= HOT
    }

    /// The tables of the vertices that are hot, in the order of the vertices.
    pub fn hot(&self) -> Vec<Vec<&str>> {
        let Some(analysis) = &self.analysis else { return Vec::new() };
        let tables = |at: usize| {
            let mut tables = Vec::new();
            for (of_type, piece) in &analysis.vertices[at].pieces {
                for table in analysis.graph.tables(analysis.types[*of_type].pieces[*piece].sites.clone()) {
                    if !tables.contains(&table) {
                        tables.push(table);
                    }
                }
            }
            tables
        };
        (0..self.vertices.len()).filter(|&at| self.vertices[at].hot).map(tables).collect()
    }

    /// The options under which column groups are what conflicts.
    pub(crate) fn options(commutative: bool, chopped: bool) -> Options {
        let method = if chopped { Method::Chopping } else { Method::Ic3 };
        let granularity = Granularity::Group;
        Options { granularity, commutative, method, rollback_safe: chopped, ..Options::default() }
    }

    /// A type that is registered.
    pub(crate) fn of_type(&self, number: usize) -> Option<&Arc<PlannedType>> {
        self.types.get(number).and_then(Option::as_ref)
    }

    /// The analysis behind it; `None` where nothing was ever registered.
    pub fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_deref()
    }
}

impl PlannedType {
    fn new(
        analysis: &Analysis,
        place: usize,
        numbers: &[usize],
        types: usize,
        hot: &[bool],
        each: bool,
    ) -> Self {
        let of_type = &analysis.types[place];
        let first = analysis.graph.types[place].sites.start;
        let mut sites = Vec::new();
        let mut pieces = Vec::new();
        for (number, piece) in of_type.pieces.iter().enumerate() {
            for site in piece.sites.clone() {
                debug_assert_eq!(site, first + sites.len(), "sites come in order");
                let in_order = each || (piece.tracked && hot[piece.vertex]);
                let tracked = in_order && conflicts(analysis, site);
                let writes = analysis.graph.sites[site].access.mode.writes();
                let remembered = tracked || writes || rewrites(analysis, site);
                let rank = piece.rank as u16;
                sites.push(PlannedSite { piece: number as u16, rank, tracked, remembered });
            }
            let mut direct = vec![false; types];
            for wait in &piece.waits {
                direct[numbers[wait.on]] = matches!(wait.until, Until::Piece(_));
            }
            pieces.push(PlannedPiece { vertex: piece.vertex as u16, direct });
        }
        let tracked = sites.iter().any(|site| site.tracked);
        Self { sites, pieces, tracked }
    }
}

/// Whether any access, in another transaction of its own type too, may conflict with a site.
fn conflicts(analysis: &Analysis, site: usize) -> bool {
    let sites = &analysis.graph.sites;
    sites.iter().any(|other| !sites[site].footprint.meets(&other.footprint).is_empty())
}

/// Whether a transaction writes what it reads at a site.
fn rewrites(analysis: &Analysis, site: usize) -> bool {
    let site = &analysis.graph.sites[site];
    let read = &site.footprint;
    analysis.graph.sites.iter().filter(|other| other.transaction == site.transaction).any(|other| {
        let wrote = &other.footprint;
        wrote.table == read.table && (wrote.writes.overlap(&read.reads) || wrote.adds.overlap(&read.reads))
    })
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use heddledb_analysis::text::parse;

    /// The types of a text, each registered.
    fn plan(text: &str, commutative: bool) -> Plan {
        let workload = parse(text).unwrap();
        let registered = workload.transactions.iter().map(|_| true);
        Plan::of_workload(&workload, registered, Plan::options(commutative, false), Tracking::Always)
    }

    #[test]
    fn sites_know_their_pieces_and_what_is_tracked() {
        let text =
            "workload w\ntable n static\ntxn t\nread n\nupdate a reads a\nupdate b reads b\nadd c\nend";
        let plan = plan(text, true);
        let of_type = plan.of_type(0).unwrap();
        let tracked: Vec<bool> = of_type.sites.iter().map(|site| site.tracked).collect();
        assert_eq!(tracked, [false, true, true, false]);
        let remembered: Vec<bool> = of_type.sites.iter().map(|site| site.remembered).collect();
        assert_eq!(remembered, [false, true, true, true]);
        let ranks: Vec<u16> = of_type.sites.iter().map(|site| site.rank).collect();
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "{ranks:?}");
        assert!(of_type.pieces[2].direct[0] && !of_type.pieces[3].direct[0]);
    }

    #[test]
    fn additions_that_do_not_commute_are_tracked() {
        let text = "workload w\ntxn t\nadd a cols x\nadd b cols x\nend";
        assert!(plan(text, true).of_type(0).unwrap().sites.iter().all(|site| !site.tracked));
        assert!(plan(text, false).of_type(0).unwrap().sites.iter().all(|site| site.tracked));
    }

    #[test]
    fn what_a_transaction_rewrites_is_remembered() {
        let plan = plan("workload w\ntxn t\nread a cols x causal\nupdate b\nupdate a cols x\nend", true);
        let sites = &plan.of_type(0).unwrap().sites;
        assert!(!sites[0].tracked && sites[0].remembered);
    }

    #[test]
    fn one_conflict_piece_needs_no_tracking() {
        let plan = plan("workload w\ntxn t\nread a cols x\nupdate b reads b\nend", true);
        assert!(plan.of_type(0).unwrap().sites.iter().all(|site| !site.tracked));
    }

    #[test]
    fn a_vertex_becomes_hot_where_commits_fail_and_cold_again() {
        let workload = parse("workload w\ntxn t\nupdate a reads a\nupdate b reads b\nend").unwrap();
        let plan = Plan::of_workload(
            &workload,
            std::iter::once(true),
            Plan::options(true, false),
            Tracking::Contended,
        );
        assert!(plan.hot().is_empty() && !plan.of_type(0).unwrap().tracked);
        let vertex = plan.of_type(0).unwrap().pieces[1].vertex;
        assert!((0..HOT - 1).all(|_| !plan.failed(vertex, 3)) && plan.failed(vertex, 3));
        assert!(!plan.failed(vertex, 3 + (1 << SPAN)), "not so often");
        let hot = plan.with(vertex, true);
        assert_eq!(hot.hot(), [["b"]]);
        let of_type = hot.of_type(0).unwrap();
        assert!(of_type.tracked && of_type.sites[1].tracked && !of_type.sites[0].tracked);
        assert!(hot.with(vertex, false).hot().is_empty());
    }

    #[test]
    fn removed_types_keep_their_number() {
        let workload = parse("workload w\ntxn t\nupdate a\nupdate b\nend").unwrap();
        let plan = Plan::of_workload(
            &workload,
            [false, true].into_iter(),
            Plan::options(true, false),
            Tracking::Always,
        );
        assert!(plan.of_type(0).is_none());
        assert_eq!(plan.of_type(1).unwrap().sites.len(), 2);
    }
}
