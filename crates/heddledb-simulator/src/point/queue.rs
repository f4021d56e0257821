//! A worker that submits calls, as many as its queue has room for, and helps to execute what all workers have submitted.

use super::{Load, Tally};
use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::{Database, Error, Pending, Session};
use heddledb_engine_simulated::sync::simulation::{clock, counts, free};
use heddledb_engine_simulated::sync::{Wait, yield_now};
use heddledb_workloads::Workload;
use std::collections::VecDeque;
use std::sync::Arc;

/// A transaction that was submitted: when, with which input, and what will come of it, and when.
struct Submitted<W: Workload> {
    since: u64,
    input: W::Input,
    pending: Pending<(W::Output, u64)>,
}

/// Executes a transaction, on whatever worker's session.
fn call<W: Workload>(
    session: &mut Session,
    (workload, input): &(Arc<W>, W::Input),
) -> Result<(W::Output, u64), Error> {
    let output = workload.call(session, input)?;
    Ok((output, clock()))
}

/// As [`super::worker`], where calls are gathered. Transactions that are run on snapshots are run at once.
pub(super) fn worker<W: Workload>(
    workload: &Arc<W>,
    load: &Load,
    db: &Database,
    number: usize,
    start: u64,
) -> Result<Tally<W::Ledger>, Error> {
    let mut session = free(|| db.session())?;
    let mut executor = free(|| db.executor())?;
    let window = load.window_from(start);
    let mut generator = workload.generator(number, load.cores, load.seed);
    let mut tally = Tally::new(workload.kinds().len());
    let mut measured = None;
    let mut under_way: VecDeque<Submitted<W>> = VecDeque::new();
    let mut wait = Wait::new();
    loop {
        let now = clock();
        // Not with something in its hands that others wait for.
        if now >= window.end && under_way.is_empty() && !executor.step() {
            break;
        }
        if now >= window.start && measured.is_none() {
            measured = Some((now, counts(), free(|| executor.stats())));
        }
        while now < window.end && under_way.len() < load.queue.length {
            let mut input = W::Input::default();
            workload.draw(&mut generator, &mut input);
            if load.read_only.looks(&**workload, &input) {
                let since = clock();
                let outcome = session.read(|snapshot| workload.look(snapshot, &input));
                tally.tell(&**workload, &mut generator, &input, outcome, (since, clock()), &window)?;
                tally.transactions += u64::from(measured.is_some());
                continue;
            }
            workload.submitted(&mut generator, &input);
            let arguments = (Arc::clone(workload), input.clone());
            let since = clock();
            let pending = session.submit_as(arguments, call::<W>)?;
            under_way.push_back(Submitted { since, input, pending });
        }
        if executor.step() {
            wait = Wait::new();
        } else if wait.rounds() < 6 {
            wait.pause();
        } else {
            yield_now();
        }
        while under_way.front().is_some_and(|first| first.pending.is_done()) {
            let Submitted { since, input, pending } = under_way.pop_front().expect("there is one");
            let (outcome, to) = match pending.wait() {
                Ok((output, at)) => (Ok(output), at),
                Err(error) => (Err(error), clock()),
            };
            tally.tell(&**workload, &mut generator, &input, outcome, (since, to), &window)?;
            tally.transactions += u64::from(measured.is_some());
        }
    }
    if let Some((from, before, stats)) = measured {
        tally.cycles = clock() - from;
        tally.counts = counts() - before;
        tally.conflicts = (free(|| executor.stats()) - stats).conflicts;
    }
    Ok(tally)
}
