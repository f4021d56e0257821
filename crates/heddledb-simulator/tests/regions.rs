//! Protocols whose transactions run in hardware regions: what is executed in them, and beside what falls out of them.

use heddledb::RegionMetrics;
use heddledb::protocol::{Isolation, Kind};
use heddledb_engine_simulated::sync::simulation::{Costs, Settings};
use heddledb_simulator::point::{Load, Point, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Mix, Scale, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use std::time::Duration;

const KINDS: [Kind; 5] = [Kind::DbxTc, Kind::DbxTcDeferred, Kind::Dbx, Kind::Htm, Kind::HtmPartition];

fn point(workload: impl Into<Subject>, kind: Kind, cores: usize, seed: u64, costs: Costs) -> Point {
    let load = Load {
        cores,
        seed,
        warmup: Duration::from_micros(50),
        window: Duration::from_micros(300),
        epoch_interval: Duration::from_micros(40),
        read_only: ReadOnly::Snapshot,
        isolation: Isolation::Serializable,
        pool: 0,
        queue: Queue::ONE,
    };
    let settings = Settings { costs, steps_max: 30_000_000, ..Settings::default() };
    let point = workload.into().simulate(kind, load, settings).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{kind}, seed {seed}: {:?}", point.checks);
    point
}

fn orders(mix: Mix) -> Tpcc {
    let scale = Scale::TINY;
    let parameters =
        tpcc::Parameters { mix, scale, items_first: true, delivery_adds: true, ..Default::default() };
    Tpcc::new(parameters).unwrap()
}

fn hot_rows() -> Ycsb {
    let parameters =
        ycsb::Parameters { records: 200, theta: 0.9, ..ycsb::Parameters::preset("high").unwrap() };
    Ycsb::new(parameters).unwrap()
}

fn regions(kind: Kind, point: &Point) -> RegionMetrics {
    let regions = point.regions.unwrap_or_else(|| panic!("{kind} has regions"));
    println!("{kind}: {regions}");
    regions
}

/// Where nobody disturbs them nearly all regions take effect: what adds keys to indexes included.
#[test]
fn one_core_executes_in_regions() {
    for kind in KINDS {
        let regions = regions(kind, &point(orders(Mix::NP), kind, 1, 1, Costs::default()));
        let in_software = regions.software as f64 / (regions.software + regions.committed) as f64;
        assert!(in_software < 0.12, "{kind}: {in_software} in software");
        // Whoever advances the epoch disturbs one now and then.
        assert!(regions.conflicts < 5, "{kind}");
    }
}

/// Regions and what is executed in software meet at the same rows, under every protocol, and sums are right.
#[test]
fn both_executors_meet() {
    // Hardly any room, and interrupts all the time.
    let narrow = Costs { htm_write_sets: 8, htm_write_ways: 2, htm_interrupt: 30_000, ..Costs::default() };
    for kind in KINDS {
        for workload in [Subject::from(orders(Mix::FULL)), Subject::from(hot_rows())] {
            let mut sum = RegionMetrics::default();
            for seed in 1..5 {
                sum += regions(kind, &point(workload.clone(), kind, 6, seed, narrow));
            }
            assert!(sum.committed > 0 && sum.software > 0 && sum.aborted() > 0, "{kind}: {sum}");
        }
    }
}

/// What a region copies takes room, although nobody else touches it.
#[test]
fn copies_take_room() {
    let capacity = |words| {
        let costs =
            Costs { htm_write_sets: 8, htm_write_ways: 4, htm_private_words: words, ..Costs::default() };
        regions(Kind::Htm, &point(hot_rows(), Kind::Htm, 1, 1, costs)).capacity
    };
    let [none, some] = [capacity(0), capacity(8)];
    assert!(none < some, "{none} and {some}");
}

/// A protocol without regions tells of none.
#[test]
fn others_have_none() {
    assert_eq!(point(hot_rows(), Kind::Silo, 2, 1, Costs::default()).regions, None);
}
