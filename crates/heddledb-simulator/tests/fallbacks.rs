//! What keeps regions away from what is executed in software: a lock for all, one for each partition, the records' own.

use heddledb::protocol::{Fallback, Htm, Isolation};
use heddledb::{Database, ReadTransaction, RegionMetrics, Result, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Costs, Schedule, Settings, clock, costs, simulate};
use heddledb_engine_simulated::sync::{Random, thread};
use heddledb_simulator::point::{Load, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{Parameters, Scale, Tpcc};
use std::time::Duration;

const PARTITION: Fallback = Fallback::Partition { leading_bits: 16 };
const FALLBACKS: [(&str, Fallback); 3] =
    [("global", Fallback::Global), ("partition", PARTITION), ("record", Fallback::Record)];

/// Rows of a partition.
#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    partition: u16,
    #[key]
    number: u32,
    amount: i64,
}

const ROWS: u32 = 64;

fn whole(fallback: Fallback) -> Htm {
    Htm { fallback, ..Htm::WHOLE }
}

fn filled(fallback: Fallback, sessions: usize, partitions: u16) -> Result<Database> {
    let builder = heddledb_simulator::builder().protocol(whole(fallback)).sessions(sessions);
    let db = builder.epoch_interval(Duration::from_micros(40)).open()?;
    for partition in 1..=partitions {
        db.session()?
            .run(|tx| (0..ROWS).try_for_each(|number| tx.insert(Account { partition, number, amount: 0 })))?;
    }
    Ok(db)
}

fn add(tx: &mut impl Transaction, partition: u16, number: u32, amount: i64) -> Result<()> {
    tx.update_columns((partition, number), Account::amount, |sum| *sum += amount).map(|_| ())
}

/// How regions ended in a window in which one worker changes more rows of the first partition at a time than a region has room
/// for, and three others change two of partitions of their own, or of the first too. How many large and small ones there were.
fn beside_large(fallback: Fallback, apart: bool) -> (RegionMetrics, u64, u64) {
    let body = move || -> Result<(RegionMetrics, u64, u64)> {
        let db = filled(fallback, 5, 4)?;
        let end = clock() + costs().cycles(100_000);
        let loaded = db.metrics().regions;
        let worker = |number: u16| {
            let db = db.clone();
            thread::spawn_worker(usize::from(number), move || -> Result<u64> {
                let (mut session, mut random, mut count) = (db.session()?, Random::new(number.into()), 0);
                let partition = if apart { 1 + number } else { 1 };
                while clock() < end {
                    session.run(|tx| match number {
                        0 => (0..20).try_for_each(|row| add(tx, 1, row, 1)),
                        _ => {
                            let first = 32 + random.below(16) as u32;
                            add(tx, partition, first, 1)?;
                            add(tx, partition, first + 1, 1)
                        }
                    })?;
                    count += 1;
                }
                Ok(count)
            })
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        let mut counts = Vec::new();
        for worker in workers {
            counts.push(worker.join().expect("no panic")?);
        }
        let regions = db.metrics().regions.zip(loaded).map(|(all, loaded)| all - loaded);
        Ok((regions.expect("it has regions"), counts[0], counts[1..].iter().sum()))
    };
    let costs = Costs { htm_write_sets: 1, htm_write_ways: 16, htm_private_words: 8, ..Costs::default() };
    simulate(Settings { costs, ..Settings::default() }, body).expect("it ends").expect("no operation fails")
}

/// What is executed in software under the lock of one partition stops nobody in another, and everybody in its own: the lemming
/// effect stays where it begins. One lock for all stops all.
#[test]
fn two_partitions_do_not_stop_each_other() {
    let [global, partition, record] = FALLBACKS.map(|(name, fallback)| {
        let (regions, large, small) = beside_large(fallback, true);
        println!("{name}, apart: {regions}; {large} large, {small} small");
        assert!(large > 0 && small > 0 && regions.capacity > 0, "{name}");
        (regions, large, small)
    });
    assert!(global.0.explicit > 0, "one lock for all stops others: {global:?}");
    for (regions, large, small) in [partition, record] {
        assert_eq!(regions.explicit, 0, "nobody meets a lock of another partition");
        assert!(regions.software <= large + 3, "only what has no room is executed in software: {regions}");
        assert!(small > 2 * global.2, "{small} and {}", global.2);
    }
    let (regions, large, _) = beside_large(PARTITION, false);
    println!("partition, together: {regions}; {large} large");
    assert!(regions.explicit > 0 && regions.software > large, "its own partition is stopped: {regions}");
}

/// Amounts move between partitions, in regions and in software, with every schedule: none is lost, whatever executes what, and
/// whoever reads all sees the same sum.
fn move_about(fallback: Fallback, seed: u64) -> RegionMetrics {
    const WORKERS: usize = 4;
    const PARTITIONS: u16 = 3;
    let body = move || -> Result<RegionMetrics> {
        let db = filled(fallback, WORKERS + 1, PARTITIONS)?;
        let worker = |number: usize| {
            let db = db.clone();
            thread::spawn_worker(number, move || -> Result<()> {
                let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
                for _ in 0..12 {
                    let mut place = || (1 + random.below(PARTITIONS.into()) as u16, random.below(2) as u32);
                    let (from, to, read) = (place(), place(), place());
                    let large = random.below(3) == 0;
                    session.run(|tx| {
                        // What is read decides what is written: a read that does not stand shows.
                        let seen = tx.get_columns(read, Account::amount)?.unwrap_or(0);
                        let amount = 1 + seen.rem_euclid(5);
                        add(tx, from.0, from.1, -amount)?;
                        add(tx, to.0, to.1, amount)?;
                        let more = if large { 12 } else { 0 };
                        (0..more).try_for_each(|row| add(tx, from.0, 8 + row, 1))?;
                        (0..more).try_for_each(|row| add(tx, from.0, 8 + row, -1))
                    })?;
                    if random.below(4) == 0 {
                        let sum = session.run(|tx| sum(tx, PARTITIONS))?;
                        assert_eq!(sum, 0, "seed {seed}: half of a transfer");
                    }
                }
                Ok(())
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        for worker in workers {
            worker.join().expect("no panic")?;
        }
        assert_eq!(db.session()?.run(|tx| sum(tx, PARTITIONS))?, 0, "seed {seed}: something is lost");
        Ok(db.metrics().regions.expect("it has regions"))
    };
    let room = Costs { htm_write_sets: 1, htm_write_ways: 8, htm_private_words: 8, ..Costs::default() };
    let costs = Costs { htm_interrupt: 30_000, ..room };
    let settings = Settings { schedule: Schedule::Random { seed, odds: 30 }, costs, ..Settings::default() };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
        .expect("no operation fails")
}

fn sum(tx: &mut impl ReadTransaction, partitions: u16) -> Result<i64> {
    let mut sum = 0;
    for partition in 1..=partitions {
        for number in 0..2 {
            sum += tx.get_columns((partition, number), Account::amount)?.unwrap_or(0);
        }
    }
    Ok(sum)
}

#[test]
fn sums_stand_across_partitions() {
    for (name, fallback) in FALLBACKS {
        let mut all = RegionMetrics::default();
        (0..150).for_each(|seed| all += move_about(fallback, seed));
        println!("{name}: {all}");
        assert!(all.committed > 0 && all.software > 0, "{name}: {all}");
    }
}

/// Throughput of TPC-C with whole transactions in regions, by fallback (`docs/benchmarks.md`).
#[test]
#[ignore = "a measurement"]
fn throughput_by_fallback() {
    for warehouses in [1, 8] {
        for (name, fallback) in FALLBACKS {
            // As figure 12 of DBX-TC has it, with room for six lines of stores too; what is copied takes room.
            let scale = Scale { customers: 300, items: 10_000, orders: 100 };
            let parameters = Parameters { warehouses, scale, ..Parameters::default() };
            let much = Costs { htm_private_words: 8, ..Costs::default() };
            let few = Costs { htm_write_sets: 1, htm_write_ways: 6, ..much };
            for (room, costs) in [("64 sets of 8", much), ("six lines", few)] {
                let load = Load {
                    cores: 8,
                    seed: 1,
                    warmup: Duration::from_millis(1),
                    window: Duration::from_millis(4),
                    epoch_interval: Duration::from_millis(10),
                    read_only: ReadOnly::Serializable,
                    isolation: Isolation::Serializable,
                    pool: 0,
                    queue: Queue::ONE,
                };
                let settings = Settings { costs, ..Settings::default() };
                let subject = Subject::from(Tpcc::new(parameters).unwrap());
                let point = subject.simulate(whole(fallback), load, settings).unwrap();
                assert!(point.checks.iter().all(|check| check.ok), "{:?}", point.checks);
                let regions = point.regions.expect("it has regions");
                println!(
                    "{warehouses} warehouses, {room}, {name}: {:.0} k/s; {regions}",
                    point.committed as f64 / point.seconds / 1e3
                );
            }
        }
    }
}
