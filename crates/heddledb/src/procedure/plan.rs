//! What the analysis of all registered procedures says, in the form that a runtime asks for at each access.
//!
//! A *plan* is made anew whenever a procedure is registered or removed, and is never changed. It says for each
//! site of each type in which piece it stands and whether what it accesses must be *tracked*: whether any
//! other access may conflict with it, in a vertex where that matters. A site that is not tracked is checked
//! when its transaction commits, like an access of a closure.
//!
//! Conflicts are those of column groups ([`Granularity::Group`]), because groups are what has versions and
//! accessor lists (PITFALLS I6).

use super::{Declaration, workload};
use heddledb_analysis::analysis::Until;
use heddledb_analysis::{Analysis, Granularity, Options, Workload, analyse};

use std::sync::Arc;

/// A plan; see the module's header.
#[derive(Debug, Default)]
pub struct Plan {
    /// By the number under which a type was registered; `None` once it was removed.
    types: Vec<Option<Arc<PlannedType>>>,
    analysis: Option<Analysis>,
}

/// What a runtime knows of a type.
#[derive(Debug)]
pub(crate) struct PlannedType {
    /// Its sites.
    pub sites: Vec<PlannedSite>,
    /// Its pieces, in order.
    pub pieces: Vec<PlannedPiece>,
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
    /// By type: it has a C-edge with a piece there. Where it has none, waiting for a rank means waiting for a
    /// rendezvous piece (IC3 §4.2).
    pub direct: Vec<bool>,
}

impl Plan {
    /// Analyses the types that are registered. `None` stands for one that was removed.
    pub(crate) fn new(types: &[Option<Declaration>], options: Options) -> Self {
        Self::of_workload(
            &workload("registered", types.iter().flatten()),
            types.iter().map(Option::is_some),
            options,
        )
    }

    /// The same of a workload. Of each number it says whether a type has it; they are those of the workload, in
    /// order.
    fn of_workload(workload: &Workload, registered: impl Iterator<Item = bool>, options: Options) -> Self {
        let registered: Vec<bool> = registered.collect();
        let analysis = analyse(workload, &options);
        // By the place in the analysis, the number here.
        let numbers: Vec<usize> = (0..registered.len()).filter(|&number| registered[number]).collect();
        let mut types: Vec<Option<Arc<PlannedType>>> = registered.iter().map(|_| None).collect();
        for (place, &number) in numbers.iter().enumerate() {
            types[number] = Some(Arc::new(PlannedType::new(&analysis, place, &numbers, registered.len())));
        }
        Self { types, analysis: Some(analysis) }
    }

    /// The options under which column groups are what conflicts.
    pub(crate) fn options(commutative: bool) -> Options {
        Options { granularity: Granularity::Group, commutative, ..Options::default() }
    }

    /// A type that is registered.
    pub(crate) fn of_type(&self, number: usize) -> Option<&Arc<PlannedType>> {
        self.types.get(number).and_then(Option::as_ref)
    }

    /// The analysis behind it; `None` where nothing was ever registered.
    pub fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_ref()
    }
}

impl PlannedType {
    fn new(analysis: &Analysis, place: usize, numbers: &[usize], types: usize) -> Self {
        let of_type = &analysis.types[place];
        let first = analysis.graph.types[place].sites.start;
        let mut sites = Vec::new();
        let mut pieces = Vec::new();
        for (number, piece) in of_type.pieces.iter().enumerate() {
            for site in piece.sites.clone() {
                debug_assert_eq!(site, first + sites.len(), "sites come in order");
                let tracked = piece.tracked && conflicts(analysis, site);
                let writes = analysis.graph.sites[site].access.mode.writes();
                let remembered = tracked || writes || rewrites(analysis, site);
                let rank = piece.rank as u16;
                sites.push(PlannedSite { piece: number as u16, rank, tracked, remembered });
            }
            let mut direct = vec![false; types];
            for wait in &piece.waits {
                direct[numbers[wait.on]] = matches!(wait.until, Until::Piece(_));
            }
            pieces.push(PlannedPiece { direct });
        }
        Self { sites, pieces }
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
        Plan::of_workload(&workload, registered, Plan::options(commutative))
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
    fn removed_types_keep_their_number() {
        let workload = parse("workload w\ntxn t\nupdate a\nupdate b\nend").unwrap();
        let plan = Plan::of_workload(&workload, [false, true].into_iter(), Plan::options(true));
        assert!(plan.of_type(0).is_none());
        assert_eq!(plan.of_type(1).unwrap().sites.len(), 2);
    }
}
