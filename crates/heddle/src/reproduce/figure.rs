//! A paper as data: its figures, the points that they need, and what the paper says of them.
//!
//! A claim is judged by a function of the figure's results.
//!
//! | room | what |
//! |---|---|
//! | here | papers, figures, settings |
//! | `measure` | what is drawn of a point |
//! | `results` | what came of a figure |
//! | `claim` | what a paper says, and how that is judged |

mod claim;
mod measure;
mod results;

pub use claim::{Claim, Finding, Judgement, NEAR, Verdict, above, near};
pub use measure::Measure;
pub use results::{Dot, Line, Missing, Results};

use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use heddledb::Durability;
use heddledb::protocol::{Isolation, Kind};
use heddledb_simulator::point::{Queue, Subject};
use heddledb_simulator::simulation::{Costs, Topology};
use heddledb_simulator::timeline;
use heddledb_workloads::stamp::{kmeans, vacation};
use heddledb_workloads::{ReadOnly, array, tpcc, ycsb};
use std::time::Duration;

/// A paper.
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// Its authors, its year, and what it was measured on.
    pub about: &'static str,
    /// What the reader of all figures should know.
    pub notes: &'static [&'static str],
    /// Its figures, in its order.
    pub figures: fn(&Scope) -> Result<Vec<Figure>, Failure>,
}

/// How much of each figure is wanted, and what there is to run it on.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Smaller tables, shorter windows, fewer points.
    pub quick: bool,
    /// Hardware threads of this machine.
    pub threads: usize,
}

/// A figure or table.
pub struct Figure {
    /// Its number: `12a`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The section that tells of it: `§6.2`.
    pub section: &'static str,
    /// What its points are over.
    pub axis: Axis,
    /// What it consists of.
    pub content: Content,
    /// Where its settings are not the paper's.
    pub notes: Vec<String>,
    /// What the paper says of it.
    pub claims: Vec<Claim>,
}

/// `figure 12a`, `table 1`.
pub fn caption(id: &str) -> String {
    match id.strip_prefix("table") {
        Some(number) => format!("table {number}"),
        None => format!("figure {id}"),
    }
}

/// What points are over.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// In words: `virtual cores`.
    pub name: &'static str,
    /// How its numbers stand.
    pub spacing: Spacing,
}

/// What a figure consists of.
pub enum Content {
    /// Curves over points that are run.
    Points(Vec<Series>),
    /// Throughput over time while transaction types come, by how they are added.
    Timeline(timeline::Load),
    /// What is computed in some other way.
    Facts(fn() -> Result<Facts, Failure>),
}

impl Content {
    /// Changes each point on virtual cores.
    pub fn change(&mut self, mut with: impl FnMut(&mut VirtualSetting)) {
        let Self::Points(series) = self else { return };
        for (_, setting) in series.iter_mut().flat_map(|series| &mut series.points) {
            if let Setting::Virtual(setting) = setting {
                with(setting);
            }
        }
    }
}

/// A curve.
pub struct Series {
    /// What it is called: the protocol's name, as a rule.
    pub name: String,
    /// What is drawn of its points.
    pub measure: Measure,
    /// The number on the axis, and what runs there.
    pub points: Vec<(f64, Setting)>,
}

/// A table, a drawing and some numbers that come from no run.
#[derive(Default)]
pub struct Facts {
    /// The heads of the table.
    pub titles: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// HTML, or nothing.
    pub drawing: String,
    /// Numbers for the claims.
    pub values: Vec<(&'static str, f64)>,
}

/// What is run for a point.
#[derive(Clone)]
pub enum Setting {
    /// On virtual cores.
    Virtual(VirtualSetting),
    /// On this machine's threads.
    Threads(ThreadSetting),
}

/// A point on virtual cores.
#[derive(Clone)]
pub struct VirtualSetting {
    /// What runs.
    pub workload: Subject,
    /// Under which protocol.
    pub kind: Kind,
    /// On how many cores.
    pub cores: usize,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// How long it is measured; it warms up for a quarter of that.
    pub window: Duration,
    /// Whether dependencies are counted.
    pub census: bool,
    /// What each worker has under way.
    pub queue: Queue,
    /// What things cost.
    pub costs: Box<Costs>,
    /// How the cores lie.
    pub topology: Topology,
}

/// All cores on one socket.
pub const ONE_SOCKET: Topology = Topology { sockets: 1, cores_per_socket: 1024 };

/// What runs on this machine's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThreadWorkload {
    /// TPC-C.
    Tpcc(tpcc::Parameters),
    /// YCSB.
    Ycsb(ycsb::Parameters),
    /// DRP's array.
    Array(array::Parameters),
    /// STAMP's vacation.
    Vacation(vacation::Parameters),
    /// STAMP's k-means, run to its end.
    Kmeans(kmeans::Parameters),
}

/// A point on this machine's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSetting {
    /// What runs.
    pub workload: ThreadWorkload,
    /// Under which protocol.
    pub kind: Kind,
    /// On how many threads.
    pub threads: usize,
    /// When commits count as done.
    pub durability: Durability,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
}

impl VirtualSetting {
    /// A serializable point, with transactions that only read among the writers, whose dependencies are not counted.
    pub fn new(workload: &Subject, kind: Kind, cores: usize, window: Duration) -> Self {
        Self {
            workload: workload.clone(),
            kind,
            cores,
            read_only: ReadOnly::Serializable,
            isolation: Isolation::Serializable,
            window,
            census: false,
            queue: Queue::ONE,
            costs: Box::default(),
            topology: ONE_SOCKET,
        }
    }

    /// A key that is equal for settings with equal results.
    pub fn key(&self) -> String {
        let Self { workload, kind, cores, read_only, isolation, window, census, queue, costs, topology } =
            self;
        let name = workload.name();
        let parameters = workload.parameters();
        format!(
            "{name} {parameters:?} {kind} {cores} {read_only} {isolation} {window:?} {census} {queue:?} {costs:?} {topology:?}"
        )
    }
}

#[cfg(test)]
pub mod tests {
    pub use super::results::tests::made;
    use super::{Dot, Figure, Line, Results, Scope, Verdict};
    use crate::report::model::RegionFigures;

    /// What papers' tests make their figures for.
    pub const SCOPE: Scope = Scope { quick: true, threads: 2 };

    /// The verdicts of a figure's claims, but for those that cannot be reached.
    pub fn verdicts(figure: &Figure, results: &Results) -> Vec<(Verdict, String)> {
        let judged = figure.claims.iter().map(|claim| claim.judged(results));
        let judged = judged.filter(|judgement| judgement.verdict != Verdict::Unreachable);
        judged.map(|judgement| (judgement.verdict, judgement.claim + ": " + &judgement.measured)).collect()
    }

    /// Sets the aborts of a point.
    pub fn aborting(results: &mut Results, name: &str, x: f64, share: f64) {
        let lines = results.lines.iter_mut().filter(|line: &&mut Line| line.name == name);
        let dots = lines.flat_map(|line| &mut line.points);
        dots.filter(|dot: &&mut Dot| dot.x == x).for_each(|dot| dot.abort_rate = share);
    }

    /// Sets how the regions of a point ended.
    pub fn in_regions(results: &mut Results, name: &str, x: f64, regions: RegionFigures) {
        let lines = results.lines.iter_mut().filter(|line: &&mut Line| line.name == name);
        let dots = lines.flat_map(|line| &mut line.points);
        dots.filter(|dot: &&mut Dot| dot.x == x).for_each(|dot| dot.regions = Some(regions.clone()));
    }

    /// Requires that each claim that can be reached is reproduced.
    pub fn all_reproduced(figure: Figure, results: &Results) {
        let verdicts = verdicts(&figure, results);
        assert!(!verdicts.is_empty());
        for (given, told) in verdicts {
            assert_eq!(given, Verdict::Reproduced, "{}: {told}", figure.id);
        }
    }
}
