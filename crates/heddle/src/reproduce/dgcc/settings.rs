//! What DGCC's figures have in common: protocols, numbers of cores, queues, windows.

use crate::reproduce::figure::{Finding, Missing, Results, Scope, Setting, VirtualSetting, above};
use crate::reproduce::settings::{times, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::{Queue, Subject};

/// The protocols of the paper, and those without batches and with barriers.
pub const KINDS: [Kind; 6] =
    [Kind::Dgcc, Kind::DlDetect, Kind::TsAlloc, Kind::Hekaton, Kind::Dataflow, Kind::DgccLevels];
/// Those that DGCC is compared with.
pub const OTHERS: [&str; 3] = ["dl-detect", "ts-alloc", "hekaton"];
/// The most cores.
pub const MOST: f64 = 8.0;

/// The numbers of cores of a curve.
pub fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 2, 8] } else { &[1, 2, 4, 6, 8] }
}

/// A point: each worker has 1,000 transactions queued. Long enough that each worker comes through its queue several times.
pub fn point(scope: &Scope, workload: &Subject, kind: Kind, cores: usize) -> Setting {
    let window = window(scope, cores, 200, 10_000, 40_000);
    let queue = Queue::of(if scope.quick { 100 } else { 1_000 });
    Setting::Virtual(VirtualSetting { queue, ..VirtualSetting::new(workload, kind, cores, window) })
}

/// What `--quick` does here besides.
pub fn quick_note(scope: &Scope) -> Vec<String> {
    let note = "Quick: 100 transactions are queued, and the table has 20,000 records.";
    if scope.quick { vec![note.into()] } else { Vec::new() }
}

// Judges

/// DGCC over the best of the others.
pub fn ahead(results: &Results, x: f64) -> Result<f64, Missing> {
    Ok(results.at("dgcc", x)? / results.best(&OTHERS, x)?)
}

/// Whether DGCC is ahead of the others.
pub fn is_best(results: &Results, x: f64) -> Result<Finding, Missing> {
    let ratio = ahead(results, x)?;
    Ok(Finding::new(above(ratio, 1.0), format!("{} the best of the others", times(ratio))))
}

/// Why DGCC is behind here, in YCSB.
pub const GATHERED: &str = "a call is told, linked by one worker for all, and handed to another before it is executed, which takes as long as executing it; and \
                            its accesses are made in the order of its body, so it waits in the middle where the paper's pieces are executed in \
                            any order. Figure 6-why has transactions of one access, 6-work-why, 7d-why, 9-why and 11-why operations that take longer";

/// Why DGCC is behind here, in TPC-C.
pub const WHOLE: &str = "a vertex is a whole transaction: where two meet, one waits for the other's end (figures 8a-why and 10-why have fewer long \
                         ones)";
