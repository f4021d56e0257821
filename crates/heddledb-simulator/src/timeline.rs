//! TPC-C whose transaction types come one after the other, on virtual cores: throughput over time (IC3 §6.9, fig. 22).
//!
//! New-Order, Order-Status and Stock-Level run from the start; Payment is added after a third of the time and Delivery after
//! two thirds, by a core of its own. What is compared is how that is done: all types analysed at the start, and
//! only called later; a barrier for each change of the plan; or a transition from plan to plan.

use crate::point::Broken;
use heddledb::procedure::PlanChange;
use heddledb::procedure::Procedure;
use heddledb::protocol::Ic3;
use heddledb::{Conflict, Database, Error};
use heddledb_engine_simulated::sync::simulation::{Settings, clock, costs, free, simulate};
use heddledb_engine_simulated::sync::{sleep, thread};
use heddledb_workloads::tpcc::delivery::Delivery;
use heddledb_workloads::tpcc::input::Kind;
use heddledb_workloads::tpcc::transactions::Payment;
use heddledb_workloads::tpcc::{Ledger, Parameters, Tpcc};
use heddledb_workloads::{Check, ReadOnly, Workload};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How types are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// All are analysed at the start.
    AtStart,
    /// Each when it comes.
    Online(PlanChange),
}

impl Scheme {
    /// Those that are compared.
    pub const ALL: [Self; 3] =
        [Self::AtStart, Self::Online(PlanChange::Barrier), Self::Online(PlanChange::Transition)];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtStart => "all at the start",
            Self::Online(PlanChange::Barrier) => "barrier",
            Self::Online(PlanChange::Transition) => "transition",
        }
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Workers: virtual cores.
    pub cores: usize,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// TPC-C; its mix says how often a type is called once it is there.
    pub tpcc: Parameters,
    /// Commits are counted for each of these.
    pub slice: Duration,
    /// Slices before Payment comes, from there until Delivery does, and from there on.
    pub slices: usize,
    /// How often the epoch advances.
    pub epoch_interval: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Commits by slice, all types together.
    pub commits: Vec<u64>,
    /// For Payment and Delivery: nanoseconds after the start at which its addition began, and that it took.
    pub changes: Vec<[u64; 2]>,
    /// Attempts that conflicted, by reason as in [`Conflict::ALL`].
    pub conflicts: [u64; Conflict::ALL.len()],
    /// The longest time between two commits of whatever worker, in nanoseconds, in the slices in which a type is added.
    pub longest_gap_ns: u64,
    /// The workload's checks.
    pub checks: Vec<Check>,
}

/// Simulates a timeline.
///
/// # Errors
/// [`Broken`].
pub fn timeline(scheme: Scheme, load: &Load, settings: Settings) -> Result<Timeline, Broken> {
    let (workload, load) = (Arc::new(Tpcc::new(load.tpcc)?), load.clone());
    Ok(simulate(settings, move || body(scheme, &workload, &load))??)
}

/// What a worker counted.
#[derive(Default)]
struct Tally {
    ledger: Ledger,
    /// When it committed, in cycles after the start.
    commits: Vec<u64>,
}

fn body(scheme: Scheme, workload: &Arc<Tpcc>, load: &Load) -> Result<Timeline, Error> {
    let change = match scheme {
        Scheme::AtStart => PlanChange::default(),
        Scheme::Online(change) => change,
    };
    let builder = crate::builder().protocol(Ic3::default()).sessions(load.cores + 1).plan_change(change);
    let db = workload.tables(builder).epoch_interval(load.epoch_interval).open()?;
    if scheme != Scheme::AtStart {
        db.unregister::<Payment>()?;
        db.unregister::<Delivery>()?;
    }
    workload.load(&db, load.seed, &|_| {})?;
    let start = clock();
    // Types that are called: one more each time.
    let phase = Rc::new(Cell::new(0));
    let changer = {
        let (db, phase, load) = (db.clone(), Rc::clone(&phase), load.clone());
        thread::spawn_worker(load.cores, move || change_types(scheme, &db, &phase, &load, start))
    };
    let workers: Vec<_> = (0..load.cores)
        .map(|number| {
            let (workload, load, db, phase) =
                (Arc::clone(workload), load.clone(), db.clone(), Rc::clone(&phase));
            thread::spawn_worker(number, move || worker(&workload, &load, &db, &phase, number, start))
        })
        .collect();
    let mut line = Timeline { commits: vec![0; 3 * load.slices], ..Timeline::default() };
    let (mut ledgers, mut all) = (Vec::new(), Vec::new());
    for worker in workers {
        let tally = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ledgers.push(tally.ledger);
        all.extend(tally.commits);
    }
    line.changes = changer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    all.sort_unstable();
    let costs = costs();
    let slice = costs.cycles(load.slice.as_nanos() as u64);
    for at in &all {
        if let Some(count) = line.commits.get_mut((at / slice) as usize) {
            *count += 1;
        }
    }
    let changing = |cycles: u64| {
        let ns = costs.nanoseconds(cycles);
        line.changes
            .iter()
            .any(|[begun, took]| (*begun..=begun + took + load.slice.as_nanos() as u64).contains(&ns))
    };
    let gaps = all.windows(2).filter(|pair| changing(pair[1])).map(|pair| pair[1] - pair[0]);
    line.longest_gap_ns = costs.nanoseconds(gaps.max().unwrap_or(0));
    line.conflicts = db.metrics().stats.conflicts;
    line.checks = workload.check(&db, &ledgers)?;
    Ok(line)
}

/// Adds one type after the other; when each addition began and what it took.
fn change_types(
    scheme: Scheme,
    db: &Database,
    phase: &Cell<usize>,
    load: &Load,
    start: u64,
) -> Result<Vec<[u64; 2]>, Error> {
    fn add<Q: Procedure>(scheme: Scheme, db: &Database) -> Result<(), Error> {
        if scheme == Scheme::AtStart { Ok(()) } else { db.register::<Q>() }
    }
    let since = || costs().nanoseconds(clock() - start);
    let mut changes = Vec::new();
    for next in 1..=2 {
        let due = load.slice.as_nanos() as u64 * (load.slices * next) as u64;
        sleep(Duration::from_nanos(due.saturating_sub(since())));
        let begun = since();
        match next {
            1 => add::<Payment>(scheme, db)?,
            _ => add::<Delivery>(scheme, db)?,
        }
        changes.push([begun, since() - begun]);
        phase.set(next);
    }
    Ok(changes)
}

fn worker(
    workload: &Tpcc,
    load: &Load,
    db: &Database,
    phase: &Cell<usize>,
    number: usize,
    start: u64,
) -> Result<Tally, Error> {
    let mut session = free(|| db.session())?;
    let end = start + costs().cycles(load.slice.as_nanos() as u64) * 3 * load.slices as u64;
    let mut generator = workload.generator(number, load.cores, load.seed);
    let (mut input, mut tally) = (Default::default(), Tally::default());
    while clock() < end {
        workload.draw(&mut generator, &mut input);
        let is_there = match input.kind() {
            Kind::Payment => phase.get() >= 1,
            Kind::Delivery => phase.get() >= 2,
            _ => true,
        };
        if !is_there {
            continue;
        }
        match ReadOnly::Snapshot.run(workload, &mut session, &input) {
            Ok(output) => {
                workload.committed(&mut generator, &input, &output);
                workload.record(&mut tally.ledger, &input, output);
                tally.commits.push(clock() - start);
            }
            Err(Error::User(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tally)
}
