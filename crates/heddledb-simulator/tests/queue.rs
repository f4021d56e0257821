//! Workers that have many transactions under way: gathered into batches, and one after another.

use heddledb::protocol::{Isolation, Kind};
use heddledb_engine_simulated::sync::simulation::Settings;
use heddledb_simulator::point::{Load, Point, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Mix, Scale, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use std::time::Duration;

fn point(workload: impl Into<Subject>, kind: Kind, size: (usize, usize)) -> Point {
    seeded(workload, kind, size, 1)
}

fn seeded(workload: impl Into<Subject>, kind: Kind, (cores, queue): (usize, usize), seed: u64) -> Point {
    let load = Load {
        cores,
        seed,
        warmup: Duration::from_micros(100),
        window: Duration::from_micros(400),
        epoch_interval: Duration::from_micros(50),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: 0,
        queue: Queue::of(queue),
    };
    let settings = Settings { steps_max: 30_000_000, ..Settings::default() };
    let point = workload.into().simulate(kind, load, settings).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{kind}: {:?}", point.checks);
    point
}

fn hot_rows() -> Ycsb {
    let parameters =
        ycsb::Parameters { records: 1_000, theta: 0.9, ..ycsb::Parameters::preset("high").unwrap() };
    Ycsb::new(parameters).unwrap()
}

/// Calls of batches conflict with nobody, and there are more of them than where each worker brings one.
#[test]
fn batches_conflict_with_nobody() {
    let one = point(hot_rows(), Kind::Dgcc, (8, 1));
    for kind in [Kind::Dgcc, Kind::DgccLevels] {
        // In pieces, and whole.
        let point = point(hot_rows(), kind, (8, 50));
        assert_eq!(point.conflicts.iter().sum::<u64>(), 0, "{kind}");
        println!("{kind}: {} of {} alone, {} steps", point.committed, one.committed, point.steps);
        assert!(point.committed > one.committed, "{kind}: {} of {}", point.committed, one.committed);
    }
}

/// What calls in pieces do where they meet in hot rows, in many schedules: the sums are right, and none conflicts.
#[test]
fn pieces_in_many_schedules() {
    for records in [40, 300] {
        for seed in 1..7 {
            let parameters =
                ycsb::Parameters { records, theta: 0.9, ..ycsb::Parameters::preset("high").unwrap() };
            let point = seeded(Ycsb::new(parameters).unwrap(), Kind::Dgcc, (6, 20), seed);
            assert_eq!(point.conflicts.iter().sum::<u64>(), 0, "seed {seed}");
            assert!(point.committed > 0, "seed {seed}");
        }
    }
}

/// What a transaction takes is counted from when it was queued.
#[test]
fn latencies_have_the_queue_in_them() {
    let median = |queue| {
        let latencies = point(hot_rows(), Kind::Silo, (2, queue)).latencies_ns;
        latencies[latencies.len() / 2]
    };
    let (one, ten) = (median(1), median(10));
    assert!((8 * one..12 * one).contains(&ten), "{one} ns, {ten} ns");
}

/// The full mix, in which some transactions read what others insert.
#[test]
fn a_mix_of_procedures() {
    let parameters =
        tpcc::Parameters { mix: Mix([45, 43, 4, 4, 4]), scale: Scale::TINY, ..tpcc::Parameters::default() };
    for kind in [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow] {
        // A window has a hundred calls or two, and one in 25 is of a rare type.
        let mut kinds = [0; 5];
        for seed in 1..=3 {
            let point = seeded(Tpcc::new(parameters).unwrap(), kind, (6, 20), seed);
            println!("{kind}, seed {seed}: {:?}", point.kinds);
            kinds.iter_mut().zip(point.kinds).for_each(|(sum, [commits, _])| *sum += commits);
        }
        assert!(kinds.iter().all(|commits| *commits > 0), "{kind}: {kinds:?}");
    }
}

/// Deliveries of one warehouse, which all want the same orders. Deferred, each looks first and then only intends.
fn deliveries(deferred: bool, orders: u32) -> Point {
    let scale = Scale { orders, customers: 300, items: 100 };
    let parameters = tpcc::Parameters { scale, deferred, mix: Mix([0, 0, 0, 100, 0]), ..Default::default() };
    seeded(Tpcc::new(parameters).unwrap(), Kind::Drp, (8, 1), 1)
}

#[test]
fn deferred_deliveries_follow_one_another() {
    let (at_once, deferred) = (deliveries(false, 600), deliveries(true, 600));
    let conflicts = deferred.conflicts.iter().sum::<u64>();
    println!("{} at once, {} deferred, {conflicts} conflicts", at_once.committed, deferred.committed);
    assert_eq!(conflicts, 0, "what only intends never conflicts");
    assert!(deferred.committed > 3 * at_once.committed);
}

/// More Deliveries than orders: who finds none leaves the line in order.
#[test]
fn deliveries_that_find_no_order_end() {
    let point = deliveries(true, 20);
    println!("{} deferred", point.committed);
    assert!(point.committed > 6, "{} of six orders a district", point.committed);
}
