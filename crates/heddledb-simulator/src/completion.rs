//! An application that virtual cores run to its end.
//!
//! The database is opened and loaded for nothing. The clock runs from the moment at which all cores are there to the last one's
//! end; where they meet in between, who comes early sleeps until the last one has come. What they compute beside
//! transactions is charged as they say it.

use crate::point::{Broken, Load, Point};
use heddledb::protocol::Choice;
use heddledb::{Conflict, Error};
use heddledb_engine_simulated::sync::simulation::{
    Counts, Settings, clock, costs, counts, free, simulate, steps,
};
use heddledb_engine_simulated::sync::{AtomicU64, Ordering, Work, spin_until, thread, work};
use heddledb_workloads::stamp::{Application, Place};
use std::sync::Arc;

/// Simulates a run; of the load, windows say nothing.
///
/// # Errors
/// [`Broken`].
pub fn complete<A: Application>(
    protocol: Choice,
    application: Arc<A>,
    load: Load,
    settings: Settings,
) -> Result<Point, Broken> {
    Ok(simulate(settings, move || body(protocol, &application, &load))??)
}

/// Where cores meet: on a cache line of its own, wherever memory is given out.
#[derive(Default)]
#[repr(align(64))]
struct Meeting {
    /// Who has come, since the start.
    came: AtomicU64,
    /// How often all have.
    met: AtomicU64,
}

impl Meeting {
    fn meet(&self, cores: usize) {
        let came = self.came.fetch_add(1, Ordering::AcqRel) + 1;
        let round = came.div_ceil(cores as u64);
        if came == round * cores as u64 {
            self.met.store(round, Ordering::Release);
        } else {
            spin_until(|| self.met.load(Ordering::Acquire) >= round);
        }
    }
}

/// What one worker counted.
struct Tally {
    begin: u64,
    end: u64,
    committed: u64,
    conflicts: [u64; Conflict::ALL.len()],
    counts: Counts,
}

fn body<A: Application>(protocol: Choice, application: &Arc<A>, load: &Load) -> Result<Point, Error> {
    let builder = crate::builder().protocol(protocol).sessions(load.cores).isolation(load.isolation);
    let db = application.tables(builder).epoch_interval(load.epoch_interval).open()?;
    let state = Arc::new(application.load(&db, load.seed)?);
    let meeting = Arc::new(Meeting::default());
    let workers: Vec<_> = (0..load.cores)
        .map(|worker| {
            let (application, state, meeting) =
                (Arc::clone(application), Arc::clone(&state), Arc::clone(&meeting));
            let (db, cores) = (db.clone(), load.cores);
            thread::spawn_worker(worker, move || {
                let mut session = free(|| db.session())?;
                let meet = || meeting.meet(cores);
                let compute = |cycles| work(Work::Cycles(cycles));
                let place = Place { worker, workers: cores, meet: &meet, compute: &compute };
                meet();
                let (begin, before) = (clock(), counts());
                application.work(&place, &mut session, &state)?;
                let stats = free(|| session.stats());
                Ok(Tally {
                    begin,
                    end: clock(),
                    committed: stats.commits,
                    conflicts: stats.conflicts,
                    counts: counts() - before,
                })
            })
        })
        .collect();
    let mut tallies: Vec<Tally> = Vec::with_capacity(workers.len());
    for worker in workers {
        let outcome: Result<Tally, Error> =
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        tallies.push(outcome?);
    }
    let (begin, end) =
        (tallies.iter().map(|tally| tally.begin).min(), tallies.iter().map(|tally| tally.end).max());
    let mut point = Point {
        seconds: costs().nanoseconds(end.unwrap_or(0) - begin.unwrap_or(0)) as f64 / 1e9,
        steps: steps(),
        ..Point::default()
    };
    for tally in tallies {
        point.committed += tally.committed;
        point.cycles += tally.end - tally.begin;
        point.counts += tally.counts;
        point.conflicts.iter_mut().zip(tally.conflicts).for_each(|(sum, more)| *sum += more);
    }
    point.committed += application.beside(&state);
    point.transactions = point.committed;
    point.kinds = vec![[point.committed, 0]];
    let metrics = db.metrics();
    point.record_bytes = metrics.record_bytes as u64;
    point.version_bytes = metrics.version_bytes as u64;
    point.regions = metrics.regions;
    point.checks = application.check(&db, &state)?;
    Ok(point)
}
