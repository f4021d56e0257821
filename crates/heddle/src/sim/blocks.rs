//! A search in blocks of simulations, each block in a process of its own, as many side by side as there are cores.
//!
//! What a worker that died had on its stack is never freed, as no destructor of it can run: a
//! hundred thousand simulations would fill the memory. It goes with its process.

use crate::failure::Failure;
use heddledb::protocol::Kind;
use heddledb_simulator::search::{self, Faults, Progress};
use std::io::{self, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Simulations of a block: a second or some.
const BLOCK: u64 = 1_000;

/// What is searched.
#[derive(Clone, Copy)]
pub struct Search {
    pub kind: Kind,
    pub faults: Faults,
    /// The first seed.
    pub seed: u64,
    /// Where it ends: after so many simulations, or after a time.
    pub budget: Result<u64, Duration>,
}

/// What a search came to so far.
#[derive(Default)]
pub struct Found {
    pub progress: Progress,
    /// Of the block with the lowest seeds that has any, its first seed and what it says.
    pub finding: Option<(u64, String)>,
}

impl Found {
    fn add(&mut self, seed: u64, block: Found) {
        let (done, more) = (&mut self.progress, block.progress);
        done.simulations += more.simulations;
        done.steps += more.steps;
        done.commits += more.commits;
        done.stuck += more.stuck;
        let found = block.finding.map(|(_, text)| (seed, text));
        self.finding = [self.finding.take(), found].into_iter().flatten().min();
    }
}

/// Searches until something is found or the budget is used up. `progress` is told now and then, with the time that it took.
pub fn search(search: Search, progress: &(dyn Fn(&Found, Duration) + Sync)) -> Result<Found, Failure> {
    let begun = Instant::now();
    // The first seed of the next block, and what was found or went wrong.
    let state = Mutex::new((0, Ok(Found::default())));
    let next = || {
        let (taken, found) = &mut *state.lock().expect("nobody panics with it");
        if !found.as_ref().is_ok_and(|found| found.finding.is_none()) {
            return None;
        }
        let count = match search.budget {
            Ok(simulations) => BLOCK.min(simulations - *taken),
            Err(time) if begun.elapsed() < time => BLOCK,
            Err(_) => 0,
        };
        let seed = search.seed.wrapping_add(*taken);
        *taken += count;
        (count > 0).then_some((seed, count))
    };
    let work = || {
        while let Some((seed, count)) = next() {
            let outcome = block(search, seed, count);
            let (_, found) = &mut *state.lock().expect("nobody panics with it");
            match (outcome, &mut *found) {
                (Ok(block), Ok(found)) => {
                    found.add(seed, block);
                    progress(found, begun.elapsed());
                }
                (Err(failure), Ok(_)) => *found = Err(failure),
                (_, Err(_)) => {}
            }
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    state.into_inner().expect("nobody panics with it").1
}

/// Has another process search a block.
fn block(search: Search, seed: u64, count: u64) -> Result<Found, Failure> {
    let Search { kind, faults, .. } = search;
    let failed = |why: String| Failure::run(format!("{kind}/{faults}, {count} seeds from {seed} on: {why}"));
    let program = std::env::current_exe()
        .map_err(|error| failed(format!("this program's own file cannot be found: {error}")))?;
    let output = Command::new(program)
        .args(["sim", "hunt", "--block", "--protocol", kind.name(), "--faults", faults.name()])
        .args(["--seed", &seed.to_string(), "--simulations", &count.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(format!("its process cannot be started: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match parse(&text) {
        Some(found) if output.status.success() => Ok(found),
        _ => Err(failed(format!("its process ended with {}", output.status))),
    }
}

fn parse(text: &str) -> Option<Found> {
    let (counts, finding) = text.split_once('\n')?;
    let counts: Vec<u64> = counts.split(' ').map(|count| count.parse().ok()).collect::<Option<_>>()?;
    let [simulations, steps, commits, stuck] = counts[..] else { return None };
    let finding = (!finding.is_empty()).then(|| (0, finding.trim_end().to_owned()));
    Some(Found { progress: Progress { simulations, steps, commits, stuck }, finding })
}

/// Searches a block in this process, and writes what [`parse`] reads.
pub fn run(kind: Kind, faults: Faults, seed: u64, count: u64) -> io::Result<()> {
    let outcome = search::hunt(kind, faults, seed, count);
    let done = outcome.progress;
    writeln!(stdout(), "{} {} {} {}", done.simulations, done.steps, done.commits, done.stuck)?;
    outcome.finding.map_or(Ok(()), |finding| writeln!(stdout(), "{finding}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_what_it_found() {
        let found = parse("5 60 7 0\nsilo/3: lost\nreplay it with: heddle\n").expect("it is whole");
        assert_eq!(found.progress, Progress { simulations: 5, steps: 60, commits: 7, stuck: 0 });
        let mut all = Found::default();
        all.add(2001, found);
        all.add(1, parse("1000 1 2 3\n").expect("it is whole"));
        all.add(1001, parse("2 1 2 0\nsilo/1002: lost\n").expect("it is whole"));
        assert_eq!((all.progress.simulations, all.progress.stuck), (1007, 3));
        assert_eq!(all.finding, Some((1001, "silo/1002: lost".to_owned())), "the lowest seed");
        assert!(parse("").is_none() && parse("5 60\n").is_none(), "it died");
    }
}
