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
//! **From plan to plan.** Transactions under two plans may run beside each other only if one of the two knows the
//! other's pieces. Either nobody runs while plans change, or there is a plan in between, whose procedures keep to
//! both: *transitional* ([`Plan::between`], IC3 §4.5). Its pieces end where pieces of both plans end; each has its rank in both. Plans in
//! turn give their ranks in another *parity*, so that who meets a rank knows in which plan's order it stands; the
//! [`Bridge`] says what a rank of the plan before means in the new one.
//!
//! Conflicts are those of column groups ([`Granularity::Group`]), because groups are what has versions and
//! accessor lists.

use super::{Declaration, workload};
use crate::shared::SharedU64;
use crate::table::GroupSet;
use heddledb_analysis::analysis::{MergedPiece, Until};
use heddledb_analysis::workload::Mode;
use heddledb_analysis::{Analysis, Granularity, Method, Options, Transition, Workload, analyse};
use std::ops::Range;
use std::sync::Arc;

/// A plan; see the module's header.
#[derive(Debug, Default)]
pub struct Plan {
    /// By the number under which a type was registered; `None` once it was removed.
    types: Vec<Option<Arc<PlannedType>>>,
    analysis: Option<Arc<Analysis>>,
    /// By the same number, the site from which on its later phase runs.
    later: Vec<Option<u16>>,
    /// By the number of a relation, the column groups that any of the types writes; `None` where that is not known.
    written: Option<Vec<GroupSet>>,
    /// By vertex of the analysis.
    vertices: Vec<Vertex>,
    /// Of which parity its ranks are: 0 or 1.
    pub parity: u16,
    /// It stands between two others.
    pub is_transitional: bool,
    /// How ranks of the plan before compare with the new one's. In a transitional plan, and in the one after it.
    pub bridge: Option<Arc<Bridge>>,
}

/// By type, the pieces of a transitional plan.
#[derive(Debug, Default)]
pub struct Bridge(Vec<Vec<Crossing>>);

/// A piece of a transitional plan: its rank among the old plan's and among the new one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crossing {
    old: u16,
    new: u16,
}

impl Bridge {
    /// Whether a call of that type under the transitional plan has executed all that is of a rank in the new plan, if
    /// it has executed its pieces up to a rank in the old one; or at least a piece behind it.
    pub fn has_executed(&self, of_type: usize, old: u16, new: u16) -> bool {
        let pieces = self.0.get(of_type).map_or(&[][..], |pieces| pieces);
        pieces.iter().find(|piece| piece.new >= new).is_some_and(|piece| old >= piece.old)
    }
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

/// How the plan changes when a procedure is registered or removed while others run (IC3 §4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanChange {
    /// Who begins a transaction waits until all that run have ended and the new plan is there.
    #[default]
    Barrier,
    /// Nobody waits: calls go over to the new plan by a transitional one. Where calls show nothing before they commit
    /// there is no order of pieces to keep, and it is as with a barrier.
    Transition,
}

/// What becomes of a vertex.
#[derive(Debug, Default)]
struct Vertex {
    hot: bool,
    /// The span of epochs in which failures were last counted, and their number; 32 bits each.
    failures: SharedU64,
}

/// Failures in a span of epochs after which a vertex becomes hot.
const HOT: u64 = 24;
/// Epochs of a span, as a power of two: with the usual epochs a sixth of a second.
const SPAN: u32 = 4;

/// What a runtime knows of a type.
#[derive(Debug)]
pub struct PlannedType {
    /// Its sites.
    pub sites: Vec<PlannedSite>,
    /// Its pieces, in order.
    pub pieces: Vec<PlannedPiece>,
    /// Any of its sites is tracked, so that it has to be executed piece by piece.
    pub tracked: bool,
}

/// Where a site stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSite {
    /// Its piece.
    pub piece: u16,
    /// Where its piece's vertex stands in the order of all, from 1.
    pub rank: u16,
    /// What it accesses must be tracked.
    pub tracked: bool,
    /// What is done here must be remembered for another execution of the body. If not, it is only read, and can
    /// be read again: it is checked at the commit, and its own transaction writes it nowhere.
    pub remembered: bool,
    /// It is an addition that takes effect later, or at the end of its call.
    pub deferred: bool,
    /// The rank of its own piece in the plan before, and in the plan after a transitional one: not more than
    /// its piece's.
    pub own_ranks: [u16; 2],
}

/// What a runtime knows of a piece.
#[derive(Debug)]
pub struct PlannedPiece {
    /// Its vertex in the analysis.
    pub vertex: u16,
    /// By type: it has a C-edge with a piece there. Where it has none, waiting for a rank means waiting for a
    /// rendezvous piece (IC3 §4.2).
    pub direct: Vec<bool>,
    /// Its rank in the plan after a transitional one; otherwise its own.
    pub rank_after: u16,
    /// It may conflict with pieces of others.
    pub conflicts: bool,
}

impl Plan {
    /// Analyses the types that are registered. `None` stands for one that was removed.
    pub fn new(types: &[Option<Declaration>], options: Options, tracking: Tracking) -> Self {
        let later = types.iter().map(|declared| declared.as_ref()?.later_from()).collect();
        let plan = Self::of_workload(
            &workload("registered", types.iter().flatten()),
            types.iter().map(Option::is_some),
            options,
            tracking,
        );
        Self { later, written: Some(written(types.iter().flatten())), ..plan }
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
        Self { types, analysis: Some(analysis), vertices: vertices(hot), ..Self::default() }
    }

    /// The same plan with a vertex hot, or cold: the two may be used side by side, as all their ranks are the same.
    pub fn with(&self, vertex: u16, hot: bool) -> Self {
        let Some(analysis) = &self.analysis else { return Self::default() };
        let registered: Vec<bool> = self.types.iter().map(Option::is_some).collect();
        let mut all: Vec<bool> = self.vertices.iter().map(|vertex| vertex.hot).collect();
        if let Some(of_vertex) = all.get_mut(usize::from(vertex)) {
            *of_vertex = hot;
        }
        let (parity, bridge) = (self.parity, self.bridge.clone());
        Self { parity, bridge, ..Self::of_analysis(Arc::clone(analysis), &registered, &all, false) }
    }

    /// The plan for those who run while this one is replaced by `new`, which learns of it: the types that both know,
    /// cut where both cut them. `None` if they have none in common.
    pub fn between(&self, new: &mut Self) -> Option<Self> {
        new.parity = 1 - self.parity;
        let (before, after) = (self.analysis.as_ref()?, Arc::clone(new.analysis.as_ref()?));
        let transition = Transition::between(before, &after);
        let numbers = (0..new.types.len()).filter(|&number| new.types[number].is_some());
        let mut types: Vec<Option<Arc<PlannedType>>> = vec![None; new.types.len()];
        let mut crossings = vec![Vec::new(); new.types.len()];
        for (number, of_type) in numbers.zip(&after.types) {
            let nested = transition.types.iter().find(|nested| nested.name == of_type.name);
            let (Some(nested), Some(old), Some(new)) = (nested, self.of_type(number), new.of_type(number))
            else {
                continue;
            };
            let planned =
                PlannedType::between(old, new, nested.pieces.iter().map(|piece| piece.sites.clone()));
            let ends = nested.pieces.iter().map(|piece| planned.sites[piece.sites.end - 1]);
            let crossing = |site: PlannedSite| Crossing { old: site.own_ranks[0], new: site.own_ranks[1] };
            crossings[number] = ends.map(crossing).collect();
            types[number] = Some(Arc::new(planned));
        }
        if types.iter().all(Option::is_none) {
            return None;
        }
        let bridge = Some(Arc::new(Bridge(crossings)));
        new.bridge.clone_from(&bridge);
        let hot: Vec<bool> = new.vertices.iter().map(|vertex| vertex.hot).collect();
        let vertices = vertices(&hot);
        Some(Self {
            types,
            analysis: Some(after),
            vertices,
            parity: self.parity,
            is_transitional: true,
            bridge,
            ..Self::default()
        })
    }

    /// The same for calls of chopped types that have the epoch of their piece that conflicts: whatever else they add they add at
    /// their end, and rows that they insert before that piece become a part of it.
    #[must_use]
    pub fn numbered_lazily(mut self) -> Self {
        let Some(analysis) = &self.analysis else { return self };
        let planned = self.types.iter_mut().flatten();
        for (planned, (of_type, graph)) in planned.zip(analysis.types.iter().zip(&analysis.graph.types)) {
            let (first, Some(planned)) = (graph.sites.start, Arc::get_mut(planned)) else { continue };
            let mode = |site: usize| analysis.graph.sites[site].access.mode;
            let draws = of_type.pieces.iter().position(|piece| piece.conflict);
            for piece in of_type.pieces.iter().filter(|piece| !piece.conflict) {
                let adds = piece.sites.clone().filter(|&site| mode(site) == Mode::Add);
                adds.for_each(|site| planned.sites[site - first].deferred = true);
            }
            let Some(draws) = draws else { continue };
            let writes = |site: usize| mode(site).writes() && mode(site) != Mode::Add;
            let is_merged = |piece: &MergedPiece| piece.sites.clone().any(writes);
            if let Some(from) = of_type.pieces[..draws].iter().position(is_merged) {
                let sites = of_type.pieces[from].sites.start..of_type.pieces[draws].sites.end;
                sites.for_each(|site| planned.sites[site - first].piece = draws as u16);
            }
        }
        self
    }

    /// Whether nobody can be called under it.
    pub fn is_empty(&self) -> bool {
        self.types.iter().all(Option::is_none)
    }

    /// The most vertices that a plan may have: ranks are numbers of 14 bits.
    pub const VERTICES_MAX: usize = (1 << 14) - 1;

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.vertices.len()
    }

    /// A commit has failed over what a cold vertex accesses. True if it happens so often that the vertex should
    /// be hot.
    #[cold]
    pub fn failed(&self, vertex: u16, epoch: u64) -> bool {
        let Some(vertex) = self.vertices.get(usize::from(vertex)) else { return false };
        let span = (epoch >> SPAN) << 32;
        // Relaxed throughout: a count that loses one now and then is as good.
        let known = vertex.failures.load();
        let count = if known >> 32 == span >> 32 { (known & u64::from(u32::MAX)) + 1 } else { 1 };
        vertex.failures.store(span | count);
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
    pub fn options(commutative: bool, chopped: bool, defer: bool) -> Options {
        let method = if chopped { Method::Chopping } else { Method::Ic3 };
        let granularity = Granularity::Group;
        Options { granularity, commutative, method, rollback_safe: chopped, defer, ..Options::default() }
    }

    /// A type that is registered.
    pub fn of_type(&self, number: usize) -> Option<&Arc<PlannedType>> {
        self.types.get(number).and_then(Option::as_ref)
    }

    /// The site of that type from which on its later phase runs, if it has one ([`Execution::Sequenced`]).
    ///
    /// [`Execution::Sequenced`]: crate::kind::Execution::Sequenced
    pub fn later_of(&self, number: usize) -> Option<u16> {
        self.later.get(number).copied().flatten()
    }

    /// The column groups of a relation that registered procedures write, as far as they say what they do. The others only
    /// closures change.
    #[inline]
    pub fn written(&self, relation: usize) -> GroupSet {
        match &self.written {
            Some(written) => written.get(relation).copied().unwrap_or(0),
            None => GroupSet::MAX,
        }
    }

    /// The analysis behind it; `None` where nothing was ever registered.
    pub fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_deref()
    }
}

impl PlannedType {
    /// Where a site stands; `None` if the type has not so many.
    #[inline(always)]
    pub fn site(&self, site: u16) -> Option<PlannedSite> {
        self.sites.get(usize::from(site)).copied()
    }

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
                let own_ranks = [rank; 2];
                let deferred = !analysis.graph.sites[site].footprint.deferred.is_empty();
                let piece = number as u16;
                sites.push(PlannedSite { piece, rank, tracked, remembered, deferred, own_ranks });
            }
            let mut direct = vec![false; types];
            for wait in &piece.waits {
                direct[numbers[wait.on]] = matches!(wait.until, Until::Piece(_));
            }
            let rank_after = piece.rank as u16;
            let conflicts = piece.conflict;
            pieces.push(PlannedPiece { vertex: piece.vertex as u16, direct, rank_after, conflicts });
        }
        let tracked = sites.iter().any(|site| site.tracked);
        Self { sites, pieces, tracked }
    }

    /// The same type between two plans, in pieces of those sites.
    fn between(old: &Self, new: &Self, cuts: impl Iterator<Item = Range<usize>>) -> Self {
        let (mut sites, mut pieces) = (Vec::new(), Vec::new());
        for cut in cuts {
            let last = cut.end - 1;
            let (rank, rank_after) = (old.sites[last].rank, new.sites[last].rank);
            let mut direct = vec![true; new.pieces.first().map_or(0, |piece| piece.direct.len())];
            for at in cut {
                let (before, after) = (old.sites[at], new.sites[at]);
                sites.push(PlannedSite {
                    piece: pieces.len() as u16,
                    rank,
                    tracked: before.tracked || after.tracked,
                    remembered: before.remembered || after.remembered,
                    deferred: before.deferred && after.deferred,
                    own_ranks: [before.rank, after.rank],
                });
                let (before, after) =
                    (&old.pieces[usize::from(before.piece)], &new.pieces[usize::from(after.piece)]);
                for (of_type, direct) in direct.iter_mut().enumerate() {
                    *direct &= before.direct.get(of_type) == Some(&true) && after.direct[of_type];
                }
            }
            let vertex = new.pieces[usize::from(new.sites[last].piece)].vertex;
            pieces.push(PlannedPiece { vertex, direct, rank_after, conflicts: true });
        }
        let tracked = sites.iter().any(|site| site.tracked);
        Self { sites, pieces, tracked }
    }
}

/// By the number of a relation, the column groups that these write.
fn written<'a>(types: impl Iterator<Item = &'a Declaration>) -> Vec<GroupSet> {
    let mut written = Vec::new();
    for (relation, groups) in types.flat_map(Declaration::written).filter(|(_, groups)| *groups != 0) {
        if written.len() <= relation {
            written.resize(relation + 1, 0);
        }
        written[relation] |= groups;
    }
    written
}

fn vertices(hot: &[bool]) -> Vec<Vertex> {
    hot.iter().map(|&hot| Vertex { hot, ..Vertex::default() }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb_analysis::text::parse;

    #[test]
    fn lazily_numbered_types_add_at_their_end() {
        let text = "workload w\ntable h appendonly\ntxn t\nadd s cols x no_abort\ninsert h\nread c cols y\nupdate c cols y reads y\ninsert h\nadd s cols x\nend";
        let workload = parse(text).unwrap();
        let options = Plan::options(true, true, false);
        let plan =
            Plan::of_workload(&workload, [true].into_iter(), options, Tracking::Nothing).numbered_lazily();
        let of_type = plan.of_type(0).unwrap();
        let at_end: Vec<bool> = of_type.sites.iter().map(|site| site.deferred).collect();
        assert_eq!(at_end, [true, false, false, false, false, true]);
        let pieces: Vec<u16> = of_type.sites.iter().map(|site| site.piece).collect();
        assert_eq!(
            pieces[1..4],
            [pieces[3]; 3],
            "what is inserted before is a part of the piece that conflicts"
        );
        assert!(of_type.pieces[usize::from(pieces[3])].conflicts);
        assert!(pieces[0] < pieces[1] && pieces[3] < pieces[4] && pieces[4] < pieces[5]);
    }

    /// The types of a text, each registered.
    fn plan(text: &str, commutative: bool) -> Plan {
        let workload = parse(text).unwrap();
        let registered = workload.transactions.iter().map(|_| true);
        Plan::of_workload(&workload, registered, Plan::options(commutative, false, false), Tracking::Always)
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
            Plan::options(true, false, false),
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

    /// IC3 figure 10: the new type forces two pieces of the old one together, which stay sub-pieces; and back.
    #[test]
    fn between_two_plans_a_piece_ends_where_both_end() {
        let of = |text: &str, registered: &[bool]| {
            let options = Plan::options(true, false, false);
            Plan::of_workload(&parse(text).unwrap(), registered.iter().copied(), options, Tracking::Always)
        };
        let forth = "txn t1\nupdate a reads a\nupdate b reads b\nupdate c reads c\nend\n";
        let back = "txn t2\nupdate b reads b\nupdate a reads a\nend\n";
        let mut one = of(&format!("workload w\n{forth}"), &[true]);
        let mut both = of(&format!("workload w\n{forth}{back}"), &[true, true]);
        assert!(Plan::default().between(&mut one).is_none(), "there was nothing before");
        assert_eq!(one.parity, 1);
        let between = one.between(&mut both).unwrap();
        assert_eq!((one.parity, between.parity, both.parity), (1, 1, 0));
        assert!(between.is_transitional && !both.is_transitional && between.of_type(1).is_none());
        let ranks =
            |plan: &Plan| plan.of_type(0).unwrap().sites.iter().map(|site| site.rank).collect::<Vec<_>>();
        let (before, after) = (ranks(&one), ranks(&both));
        assert!(before[0] < before[1] && after[0] == after[1] && after[1] < after[2]);
        let sites = &between.of_type(0).unwrap().sites;
        assert_eq!(sites.iter().map(|site| site.piece).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(ranks(&between), [before[1], before[1], before[2]], "what the whole piece is past");
        assert_eq!(sites[0].own_ranks, [before[0], after[0]]);
        let pieces = &between.of_type(0).unwrap().pieces;
        assert_eq!(pieces.iter().map(|piece| piece.rank_after).collect::<Vec<_>>(), [after[1], after[2]]);
        let bridge = both.bridge.as_ref().unwrap();
        assert!(!bridge.has_executed(0, before[0], after[0]) && bridge.has_executed(0, before[1], after[0]));
        assert!(!bridge.has_executed(0, before[1], after[2]) && bridge.has_executed(0, before[2], after[2]));
        assert!(!bridge.has_executed(0, before[2], after[2] + 1), "nothing of it comes there or later");
        assert!(!bridge.has_executed(1, before[2], after[0]), "of a type that was not there");
        // The same way back.
        let mut again = of(&format!("workload w\n{forth}"), &[true, false]);
        let between = both.between(&mut again).unwrap();
        assert_eq!(between.of_type(0).unwrap().sites[0].own_ranks, [after[0], before[0]]);
        assert_eq!(between.of_type(0).unwrap().pieces[0].rank_after, before[1]);
    }

    #[test]
    fn removed_types_keep_their_number() {
        let workload = parse("workload w\ntxn t\nupdate a\nupdate b\nend").unwrap();
        let plan = Plan::of_workload(
            &workload,
            [false, true].into_iter(),
            Plan::options(true, false, false),
            Tracking::Always,
        );
        assert!(plan.of_type(0).is_none());
        assert_eq!(plan.of_type(1).unwrap().sites.len(), 2);
    }
}
