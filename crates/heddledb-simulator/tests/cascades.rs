//! Cascading aborts on many cores must not feed themselves.

use heddledb::Conflict;
use heddledb::protocol::{Isolation, Kind};
use heddledb::simulation::Settings;
use heddledb_simulator::point::{Load, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{Mix, Parameters, Scale, Tpcc};
use std::time::Duration;

/// One New-Order in a hundred rolls back, after others have read the order number that it gave out. They abort with it;
/// were they to find out one after the other, new ones would join them faster than that, and three attempts in ten
/// would abort.
#[test]
fn rollbacks_take_few_along() {
    let parameters = Parameters { mix: Mix([100, 0, 0, 0, 0]), scale: Scale::TINY, ..Parameters::default() };
    let load = Load {
        cores: 64,
        seed: 1,
        warmup: Duration::from_micros(150),
        window: Duration::from_micros(600),
        epoch_interval: Duration::from_micros(20),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: 0,
    };
    let workload = Subject::from(Tpcc::new(parameters).unwrap());
    let point = workload.simulate(Kind::Ic3, load, Settings::default()).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{:?}", point.checks);
    assert!(point.user_aborts > 0, "nobody rolled back");
    let cascades = point.conflicts[Conflict::Cascade as usize];
    let share = cascades as f64 / point.transactions as f64;
    assert!(share < 0.1, "{cascades} cascading aborts in {} transactions", point.transactions);
}
