//! What DBX-TC's figures have in common: systems, levels of contention, numbers of cores, windows.

use crate::failure::Failure;
use crate::reproduce::figure::{
    Finding, Measure, Missing, NEAR, Results, Scope, Series, Setting, VirtualSetting, above, near,
};
use crate::reproduce::settings::{SMALL, times, tpcc, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_simulator::simulation::Costs;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{Mix, Parameters, Scale};

/// The most cores.
pub const MOST: f64 = 8.0;

/// The numbers of cores of a curve.
pub fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 4, 8] } else { &[1, 2, 4, 6, 8] }
}

/// How many workers share a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each has its own.
    Low,
    /// Two share one.
    Medium,
    /// All share one.
    High,
}

impl Level {
    /// Warehouses of so many workers.
    pub fn warehouses(self, cores: usize) -> usize {
        match self {
            Self::Low => cores,
            Self::Medium => cores.div_ceil(2),
            Self::High => 1,
        }
    }
}

/// A system with its form of TPC-C.
#[derive(Clone, Copy)]
pub struct System {
    /// What its curve is called.
    pub name: &'static str,
    /// The protocol.
    pub kind: Kind,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// Whether New-Order looks its items up first.
    pub items_first: bool,
    /// Whether it also enters an order's rows last, in pieces of their own.
    pub orders_last: bool,
    /// Whether Payment adds to the sums of its warehouse and its district without reading them.
    pub adds: bool,
    /// Whether Delivery adds to what customers owe without reading it.
    pub delivery_adds: bool,
    /// The shares of the types.
    pub mix: Mix,
    /// Rows of a warehouse.
    pub scale: Scale,
    /// What things cost, where that is not as everywhere.
    pub costs: fn(Costs) -> Costs,
}

/// The paper's system without deferral.
pub const DBX_TC: System = System {
    name: "dbx-tc",
    kind: Kind::DbxTc,
    read_only: ReadOnly::Snapshot,
    items_first: true,
    orders_last: false,
    adds: true,
    delivery_adds: false,
    mix: Mix::FULL,
    scale: SMALL,
    costs: |costs| costs,
};
/// The paper's system.
pub const DEFERRED: System = System {
    kind: Kind::DbxTcDeferred,
    items_first: false,
    orders_last: true,
    delivery_adds: true,
    ..DBX_TC
};
/// The system that it extends.
pub const DBX: System = System { name: "dbx", kind: Kind::Dbx, ..DBX_TC };
/// Silo.
pub const SILO: System = System { name: "silo", kind: Kind::Silo, ..DBX_TC };
/// Silo with two-phase locking.
pub const TWO_PHASE: System = System { name: "ordered-2pl", kind: Kind::Ordered2pl, ..DBX_TC };
/// A region for each transaction, of whatever type.
pub const WHOLE: System =
    System { name: "htm", kind: Kind::Htm, read_only: ReadOnly::Serializable, items_first: false, ..DBX_TC };

/// Those that it is compared with, in figures 12 and 15.
pub const OTHERS: [System; 4] = [DBX, WHOLE, SILO, TWO_PHASE];

impl System {
    /// A point of any workload.
    pub fn run(self, scope: &Scope, workload: &Subject, cores: usize) -> Setting {
        let window = window(scope, cores, 160, 20_000, 40_000);
        Setting::Virtual(VirtualSetting {
            read_only: self.read_only,
            costs: Box::new((self.costs)(Costs::default())),
            ..VirtualSetting::new(workload, self.kind, cores, window)
        })
    }

    /// TPC-C with so many warehouses.
    pub fn point(self, scope: &Scope, warehouses: usize, cores: usize) -> Result<Setting, Failure> {
        let workload = tpcc(Parameters {
            warehouses: warehouses as u16,
            items_first: self.items_first,
            orders_last: self.orders_last,
            commutative: self.adds,
            delivery_adds: self.delivery_adds,
            mix: self.mix,
            scale: self.scale,
            ..Parameters::default()
        })?;
        Ok(self.run(scope, &workload, cores))
    }

    /// TPC-C at a level of contention, over numbers of cores.
    pub fn at_level(self, scope: &Scope, level: Level, name: &str) -> Result<Series, Failure> {
        let at = |&cores: &usize| Ok((cores as f64, self.point(scope, level.warehouses(cores), cores)?));
        let points = cores(scope).iter().map(at).collect::<Result<_, Failure>>()?;
        Ok(Series { name: name.to_owned(), measure: Measure::Throughput, points })
    }
}

/// Says how many rows there are.
pub fn small_note() -> Vec<String> {
    vec!["A warehouse has 300 customers a district, 10,000 items and 100 orders a district.".into()]
}

// Judges

/// One curve over another at a number.
pub fn to(results: &Results, one: &str, other: &str, x: f64) -> Result<f64, Missing> {
    Ok(results.at(one, x)? / results.at(other, x)?)
}

/// Whether one is ahead of another by about the paper's ratio, or by more.
pub fn ahead(results: &Results, one: &str, other: &str, x: f64, paper: f64) -> Result<Finding, Missing> {
    let ratio = to(results, one, other, x)?;
    Ok(Finding::new(above(ratio, 1.0) && (near(ratio, paper) || ratio > paper), times(ratio)))
}

/// Whether one gains over another what it does in the paper, as a share, or more.
pub fn gains(results: &Results, one: &str, other: &str, x: f64, paper: f64) -> Result<Finding, Missing> {
    let ratio = to(results, one, other, x)?;
    Ok(Finding::new(ratio - 1.0 >= paper / NEAR, times(ratio)))
}

/// Whether one is ahead of another wherever both are.
pub fn ahead_throughout(results: &Results, one: &str, other: &str) -> Result<Finding, Missing> {
    let line = results.lines.iter().find(|line| line.name == one);
    let numbers = line.into_iter().flat_map(|line| &line.points).map(|dot| dot.x);
    let ratios: Vec<(f64, f64)> =
        numbers.map(|x| Ok((to(results, one, other, x)?, x))).collect::<Result<_, Missing>>()?;
    if ratios.is_empty() {
        return Err(Missing(one.to_owned()));
    }
    let told: Vec<String> = ratios.iter().map(|(ratio, x)| format!("{ratio:.2} at {x}")).collect();
    Ok(Finding::new(ratios.iter().all(|(ratio, _)| above(*ratio, 1.0)), told.join(", ")))
}

/// Whether a curve goes on to rise from 4 cores to 8 by more than a plateau does.
pub fn scales_from_4(results: &Results, line: &str) -> Result<(bool, String), Missing> {
    let ratio = results.over(line, MOST, 4.0)?;
    Ok((ratio > PLATEAU, format!("8 cores make {} of 4", times(ratio))))
}

/// A curve that rises by no more does not scale.
const PLATEAU: f64 = 1.25;
