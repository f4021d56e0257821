//! Protocols whose transactions run in hardware regions: what is executed in them, and beside what falls out of them.

use heddledb::RegionMetrics;
use heddledb::protocol::{Choice, Htm as HtmOptions, Isolation, Kind};
use heddledb_engine_simulated::sync::simulation::{Costs, Counts, Settings};
use heddledb_simulator::point::{Load, Point, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Mix, Scale, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use std::time::Duration;

const KINDS: [Kind; 6] =
    [Kind::DbxTc, Kind::DbxTcDeferred, Kind::DbxTcLazy, Kind::Dbx, Kind::Htm, Kind::HtmPartition];

fn point(
    workload: impl Into<Subject>,
    protocol: impl Into<Choice>,
    cores: usize,
    seed: u64,
    costs: Costs,
) -> Point {
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
    let protocol = protocol.into();
    let point = workload.into().simulate(protocol, load, settings).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{protocol:?}, seed {seed}: {:?}", point.checks);
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
        let alone = if kind == Kind::Dbx { 0 } else { regions.commits_only };
        let in_software = (regions.software + alone) as f64 / (regions.software + regions.committed) as f64;
        // Where calls are executed as one there are fewer; nodes are in stock for what a piece adds to indexes, and not always
        // for a whole call; and alone on its core a call is followed by a commit of what it has put off.
        let most = match (kind.joins_pieces(), kind.puts_off()) {
            (true, true) => 0.5,
            (true, false) => 0.25,
            _ => 0.12,
        };
        assert!(in_software < most, "{kind}: {in_software} in software");
        // Whoever advances the epoch disturbs one now and then.
        assert!(regions.conflicts < 5, "{kind}");
    }
}

/// A call that meets nobody is one region, and one that does is cut into its pieces.
#[test]
fn calls_are_cut_where_they_meet() {
    let regions_of_a_call = |options: HtmOptions, cores| {
        let point = point(orders(Mix::NP), options, cores, 1, Costs::default());
        point.regions.unwrap().committed as f64 / point.committed as f64
    };
    let always = HtmOptions { joins: false, ..HtmOptions::CHOPPED };
    let [alone, among_others] = [1, 8].map(|cores| regions_of_a_call(HtmOptions::CHOPPED, cores));
    let cut = regions_of_a_call(always, 1);
    println!("{alone} regions a call, {among_others} on 8 cores, {cut} of calls that are always cut");
    // Those of the warm-up are counted, too.
    assert!(alone < 2.0, "{alone}");
    assert!(among_others > 2.0 * alone, "{among_others} on 8 cores");
    assert!(cut > 3.0 * alone, "{cut} of calls that are always cut");
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

/// Where Deliveries come to orders whose rows their New-Orders have yet to enter they wait for them, in regions and in software, and all that is cut is
/// right. Here whole transactions meet nearly each time, and what is cut and deferred is ahead.
#[test]
fn deliveries_wait_for_orders_that_are_entered_last() {
    let mix = Mix([55, 5, 38, 1, 1]);
    let parameters = tpcc::Parameters {
        mix,
        scale: Scale::TINY,
        orders_last: true,
        delivery_adds: true,
        ..Default::default()
    };
    let committed = |kind| {
        let workload = || Tpcc::new(parameters).unwrap();
        (1..4).map(|seed| point(workload(), kind, 8, seed, Costs::default()).committed).sum::<u64>()
    };
    let [deferred, whole] = [Kind::DbxTcDeferred, Kind::Dbx].map(committed);
    println!("{deferred} in pieces, {whole} as a whole");
    assert!(deferred as f64 > 1.1 * whole as f64, "{deferred} in pieces, {whole} as a whole");
    committed(Kind::DbxTc);
    committed(Kind::ChoppingOcc);
}

/// How many of the regions that others abort have met them in a line of an index: what a cache of the tables could spare. A measurement.
#[test]
#[ignore = "a measurement"]
fn conflicts_in_indexes() {
    for kind in [Kind::DbxTc, Kind::Dbx, Kind::Htm] {
        for warehouses in [1, 8] {
            let parameters =
                tpcc::Parameters { warehouses, items_first: true, ..tpcc::Parameters::default() };
            let point = point(Tpcc::new(parameters).unwrap(), kind, 8, 1, Costs::default());
            let Counts { region_conflicts: all, index_conflicts: index, .. } = point.counts;
            let share = index as f64 * 100.0 / all.max(1) as f64;
            println!("{kind}, {warehouses} warehouses: {index} of {all} conflicts, {share:.1} %");
        }
    }
}

/// A piece that has no room is executed in software, and its commit, which needs a line for each row, is a region all the same.
/// Who keeps others away by a lock of its own has that for it.
#[test]
fn a_commit_has_room_where_its_piece_has_none() {
    let costs = Costs { htm_write_sets: 1, htm_write_ways: 24, htm_private_words: 8, ..Costs::default() };
    let [chopped, whole] =
        [Kind::DbxTc, Kind::Htm].map(|kind| regions(kind, &point(hot_rows(), kind, 1, 1, costs)));
    assert!(chopped.capacity > 0 && chopped.commits_only > 10 * chopped.software, "{chopped}");
    assert!(whole.capacity > 0 && whole.commits_only == 0 && whole.software > 0, "{whole}");
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
