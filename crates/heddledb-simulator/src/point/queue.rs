//! A worker that submits calls, as many as its queue has room for, and helps to execute what all workers have submitted.

use super::{Load, Tally};
use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::{Database, Error, Pending, Session};
use heddledb_engine_simulated::sync::simulation::{clock, costs, counts, free};
use heddledb_engine_simulated::sync::{Wait, yield_now};
use heddledb_workloads::Workload;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

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
    let cycles = |length: Duration| costs().cycles(length.as_nanos() as u64);
    let begin = start + cycles(load.warmup);
    let end = begin + cycles(load.window);
    let mut generator = workload.generator(number, load.cores, load.seed);
    let mut tally = Tally::new(workload.kinds().len());
    let mut measured = None;
    let mut under_way: VecDeque<Submitted<W>> = VecDeque::new();
    let mut wait = Wait::new();
    loop {
        let now = clock();
        // Not with something in its hands that others wait for.
        if now >= end && under_way.is_empty() && !executor.step() {
            break;
        }
        if now >= begin && measured.is_none() {
            measured = Some((now, counts(), free(|| executor.stats())));
        }
        while now < end && under_way.len() < load.queue.length {
            let mut input = W::Input::default();
            workload.draw(&mut generator, &mut input);
            if load.read_only.looks(&**workload, &input) {
                let since = clock();
                let outcome = session.read(|snapshot| workload.look(snapshot, &input));
                let outcome = outcome.map(|output| (output, clock()));
                tell(&**workload, &mut generator, &mut tally, (&input, since), outcome, &(begin..end))?;
                continue;
            }
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
            tell(&**workload, &mut generator, &mut tally, (&input, since), pending.wait(), &(begin..end))?;
        }
    }
    if let Some((from, before, stats)) = measured {
        tally.cycles = clock() - from;
        tally.counts = counts() - before;
        tally.conflicts = (free(|| executor.stats()) - stats).conflicts;
    }
    Ok(tally)
}

/// A transaction has ended, at the time that comes with what it returned.
fn tell<W: Workload>(
    workload: &W,
    generator: &mut W::Generator,
    tally: &mut Tally<W::Ledger>,
    (input, since): (&W::Input, u64),
    outcome: Result<(W::Output, u64), Error>,
    window: &Range<u64>,
) -> Result<(), Error> {
    let kind = workload.kind(input);
    match outcome {
        Ok((output, at)) => {
            workload.committed(generator, input, &output);
            workload.record(&mut tally.ledger, input, output);
            if window.contains(&at) {
                tally.committed += 1;
                tally.kinds[kind][0] += 1;
                tally.latencies.push((kind, at - since));
            }
        }
        Err(Error::User(_)) if window.contains(&clock()) => {
            tally.user_aborts += 1;
            tally.kinds[kind][1] += 1;
        }
        Err(Error::User(_)) => {}
        Err(error) => return Err(error),
    }
    tally.transactions += 1;
    Ok(())
}
