//! What DRP's figures have in common: numbers of cores, workloads, windows.

use crate::failure::Failure;
use crate::reproduce::figure::{
    Finding, Measure, Missing, Results, Scope, Series, Setting, VirtualSetting, above, near,
};
use crate::reproduce::settings::{scale, times, tpcc, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_simulator::simulation::Topology;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Binding, Mix, Mode};
use std::time::Duration;

/// The most cores.
pub const MOST: f64 = 32.0;

/// The numbers of cores of a curve.
pub fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 2, 4, 16, 32] } else { &[1, 2, 4, 8, 16, 32] }
}

/// A point on virtual cores.
pub fn point(workload: &Subject, kind: Kind, cores: usize, read_only: ReadOnly, window: Duration) -> Setting {
    Setting::Virtual(VirtualSetting { read_only, ..VirtualSetting::new(workload, kind, cores, window) })
}

/// A protocol with its form of TPC-C.
#[derive(Clone, Copy)]
pub struct Rival {
    /// What its curve is called.
    pub name: &'static str,
    /// The protocol.
    pub kind: Kind,
    /// Whether what writes is deferred.
    pub deferred: bool,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
}

/// DRP as in the paper.
pub const DRP: Rival =
    Rival { name: "drp", kind: Kind::Drp, deferred: true, read_only: ReadOnly::Serializable };
/// OCC.
pub const OCC: Rival = Rival { name: "silo", kind: Kind::Silo, deferred: false, ..DRP };
/// IC3, whose transactions that only read are on snapshots.
pub const IC3: Rival = Rival { name: "ic3", kind: Kind::Ic3, deferred: false, read_only: ReadOnly::Snapshot };
/// DRP with reads on snapshots.
pub const DRP_ON_SNAPSHOTS: Rival =
    Rival { name: "drp, reads on snapshots", read_only: ReadOnly::Snapshot, ..DRP };
/// Intentions whose locks are held to the end.
pub const DEFERRED_2PL: Rival = Rival { name: "deferred-2pl", kind: Kind::Deferred2pl, ..DRP };

/// Cores spread evenly over as many sockets as the paper's machine has, which has 15 on each.
pub const FOUR_SOCKETS: Topology = Topology { sockets: 4, cores_per_socket: 8 };

/// TPC-C as DRP has it: each transaction draws its warehouse.
pub fn orders(scope: &Scope, warehouses: u16, mix: Mix) -> tpcc::Parameters {
    tpcc::Parameters { warehouses, mix, binding: Binding::Random, scale: scale(scope), ..Default::default() }
}

/// The same without inserts: no New-Order makes rows.
pub fn without_inserts(scope: &Scope) -> tpcc::Parameters {
    tpcc::Parameters { mode: Mode::Dbx1000, ..orders(scope, 1, Mix::NEW_ORDER) }
}

/// What New-Orders alone wait for.
pub const MADE_IN_TURN: &str = "the keys of a New-Order's rows have the order's number, so its rows are made at the commit, when its turn has \
                                come and before it decides: the New-Orders of a district make them one after another, and whoever is behind \
                                waits for the decision. Without these rows: see the figure that ends in -why";
/// What the mix waits for.
pub const WILD_AND_IN_TURN: &str = "Order-Status and Stock-Level read what others are about to write: nearly all that aborts is theirs (see the curve \
                                    with reads on snapshots in figure 3a). And the New-Orders of a district make their rows one after another \
                                    (see figure 3b)";

impl Rival {
    /// This rival at a number of the axis.
    pub fn point(
        self,
        parameters: tpcc::Parameters,
        cores: usize,
        window: Duration,
    ) -> Result<Setting, Failure> {
        let workload = tpcc(tpcc::Parameters { deferred: self.deferred, ..parameters })?;
        Ok(point(&workload, self.kind, cores, self.read_only, window))
    }

    /// A curve of this rival over numbers of cores.
    pub fn by_cores(
        self,
        scope: &Scope,
        measure: Measure,
        parameters: impl Fn(usize) -> tpcc::Parameters,
    ) -> Result<Series, Failure> {
        let at = |&cores: &usize| {
            Ok((cores as f64, self.point(parameters(cores), cores, tpcc_window(scope, cores))?))
        };
        let points = cores(scope).iter().map(at).collect::<Result<_, Failure>>()?;
        Ok(Series { name: self.name.to_owned(), measure, points })
    }
}

/// How long TPC-C is measured on so many cores.
pub fn tpcc_window(scope: &Scope, cores: usize) -> Duration {
    window(scope, cores, 96, 3_000, 12_000)
}

// Judges

/// One curve over another at a number.
pub fn to(results: &Results, one: &str, other: &str, x: f64) -> Result<f64, Missing> {
    Ok(results.at(one, x)? / results.at(other, x)?)
}

/// One curve over another at each number of the first from `from` on: ratios, and where they are.
pub fn ratios(results: &Results, one: &str, other: &str, from: f64) -> Result<Vec<(f64, f64)>, Missing> {
    let line = results.lines.iter().find(|line| line.name == one);
    let numbers = line.into_iter().flat_map(|line| &line.points).map(|dot| dot.x).filter(|x| *x >= from);
    numbers.map(|x| Ok((to(results, one, other, x)?, x))).collect()
}

/// The greatest ratio of two curves, and where it is.
pub fn most(results: &Results, one: &str, other: &str, from: f64) -> Result<(f64, f64), Missing> {
    ratios(results, one, other, from)?
        .into_iter()
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .ok_or_else(|| Missing(one.into()))
}

/// Whether one is ahead of another by about this ratio at the most, or by more.
pub fn up_to(results: &Results, one: &str, other: &str, paper: f64) -> Result<Finding, Missing> {
    let (ratio, at) = most(results, one, other, 0.0)?;
    let holds = above(ratio, 1.0) && (near(ratio, paper) || ratio > paper);
    Ok(Finding::new(holds, format!("{} at {at}", times(ratio))))
}
