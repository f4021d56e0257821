//! Deliveries of one warehouse all want the same orders. Deferred, each looks first and then only intends.

use heddledb::protocol::{Isolation, Kind};
use heddledb_engine_simulated::sync::simulation::Settings;
use heddledb_simulator::point::{Load, Point, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Mix, Scale, Tpcc};
use std::time::Duration;

fn deliveries(deferred: bool, orders: u32) -> Point {
    let scale = Scale { orders, customers: 300, items: 100 };
    let parameters = tpcc::Parameters { scale, deferred, mix: Mix([0, 0, 0, 100, 0]), ..Default::default() };
    let load = Load {
        cores: 8,
        seed: 1,
        warmup: Duration::from_micros(100),
        window: Duration::from_micros(400),
        epoch_interval: Duration::from_micros(50),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: 0,
        queue: Queue::of(1),
    };
    let subject = Subject::from(Tpcc::new(parameters).unwrap());
    let settings = Settings { steps_max: 30_000_000, ..Settings::default() };
    let point = subject.simulate(Kind::Drp, load, settings).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{:?}", point.checks);
    point
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
