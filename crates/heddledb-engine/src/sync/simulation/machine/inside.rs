//! What the cores share, and which of them is next.

use super::super::costs::Counts;
use super::super::costs::{Costs, Topology};
use super::super::directory::{Cache, Directory, Map};
use super::super::regions;
use super::super::schedule::{Event, Scheduler, Who};
use super::cores::{Awaited, Core, State};
use super::settings::Failure;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(in super::super) struct Inside {
    pub(super) cores: Vec<Core>,
    pub(super) caches: Vec<Cache>,
    /// The socket of each core.
    pub(super) sockets: Vec<u8>,
    pub(super) directory: Directory,
    /// Ready cores, and parked ones with a deadline: (time, core, generation).
    pub(super) queue: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// The first of the queue: the running core goes on while it is before this.
    pub(super) horizon: (u64, usize),
    pub(super) scheduler: Scheduler,
    pub(super) by_clock: bool,
    pub(super) waiters: Map<usize, VecDeque<usize>>,
    pub(super) watchers: Map<u32, Vec<usize>>,
    pub(super) costs: Costs,
    pub(super) topology: Topology,
    pub(super) events: Vec<Event>,
    pub(super) points: Map<(usize, usize), u64>,
    pub(super) steps: u64,
    pub(super) steps_max: u64,
    pub(super) services: usize,
    /// Hardware transactions.
    pub(in super::super) htm: regions::Model,
    /// The core that was preempted or paused just now: others go first.
    pub(super) resting: Option<usize>,
    /// A core has become ready since the running one was chosen: it may outrank it.
    pub(super) woken: bool,
    /// Scratch.
    pub(super) ready: Vec<usize>,
}

impl Inside {
    /// A core's clock.
    pub fn clock_of(&self, core: usize) -> u64 {
        self.cores[core].clock
    }

    /// What a core has counted.
    pub fn counts_of(&mut self, core: usize) -> &mut Counts {
        &mut self.cores[core].counts
    }

    /// No hardware transaction has these lines any more.
    pub fn settle(&mut self, addresses: &[usize]) {
        addresses.iter().for_each(|address| self.directory.settle(*address));
    }

    /// Whether core `me` may make its next access before all others.
    #[inline(always)]
    pub(super) fn has_turn(&mut self, me: usize) -> bool {
        if self.steps > self.steps_max {
            // It ends in `choose`.
            false
        } else if self.by_clock {
            (self.cores[me].clock, me) <= self.horizon
        } else {
            let woken = std::mem::take(&mut self.woken);
            let is_ready = |core: &usize| self.cores[*core].state == State::Ready;
            let outranked =
                woken && (0..self.cores.len()).filter(is_ready).any(|core| self.scheduler.prefers(core, me));
            !outranked && !self.scheduler.preempts(me, self.steps)
        }
    }

    pub(super) fn enqueue(&mut self, core: usize, time: u64) {
        let entry = (time, core, self.cores[core].generation);
        self.queue.push(Reverse(entry));
        self.horizon = self.horizon.min((time, core));
    }

    /// Lets others go before a core that could go on.
    pub(super) fn step_aside(&mut self, core: usize) {
        self.cores[core].state = State::Ready;
        self.resting = Some(core);
        let clock = self.cores[core].clock;
        self.enqueue(core, clock);
    }

    fn set_horizon(&mut self) {
        while let Some(Reverse((time, core, generation))) = self.queue.peek().copied() {
            if self.cores[core].generation == generation {
                self.horizon = (time, core);
                return;
            }
            self.queue.pop();
        }
        self.horizon = (u64::MAX, usize::MAX);
    }

    /// Makes a core ready, not before `time`.
    fn make_ready(&mut self, core: usize, time: u64) {
        let of = &mut self.cores[core];
        if time > of.clock {
            of.counts.waiting_cycles += time - of.clock;
            of.clock = time;
        }
        of.state = State::Ready;
        of.generation += 1;
        self.woken = true;
        let clock = of.clock;
        self.enqueue(core, clock);
    }

    /// Wakes the cores that wait for a key: one or all.
    pub fn wake(&mut self, key: usize, all: bool, from: u64) -> Option<usize> {
        let mut first = None;
        while let Some(waiters) = self.waiters.get_mut(&key) {
            let Some(core) = waiters.pop_front() else {
                self.waiters.remove(&key);
                break;
            };
            let State::Parked { what: Awaited::Key(its), .. } = self.cores[core].state else { continue };
            if its != key {
                continue;
            }
            self.cores[core].timed_out = false;
            self.make_ready(core, from + self.costs.wake);
            first = first.or(Some(core));
            if !all {
                break;
            }
        }
        first
    }

    pub(super) fn wake_watchers(&mut self, line: u32, by: usize, done: u64) {
        let Some(watchers) = self.watchers.remove(&line) else { return };
        // A core that itself writes the line that it watches, say with an exchange that fails, goes on
        // watching it.
        let mut himself = false;
        for core in watchers {
            if !self.cores[core].watched.contains(&line) {
                continue;
            }
            if core == by {
                himself = true;
                continue;
            }
            self.cores[core].written = true;
            if let State::Parked { what: Awaited::Line, .. } = self.cores[core].state {
                self.make_ready(core, done);
            }
        }
        if himself {
            self.watchers.insert(line, vec![by]);
        }
    }

    /// The next core, made running; or why there is none.
    pub(super) fn choose(&mut self) -> Result<Option<usize>, Failure> {
        if self.steps > self.steps_max {
            return Err(Failure::Endless { steps: self.steps, waits: self.waits() });
        }
        if self.by_clock {
            self.set_horizon();
            let Some(Reverse((time, core, _))) = self.queue.pop() else { return self.nobody() };
            self.begin(core, time);
            self.set_horizon();
            return Ok(Some(core));
        }
        // Few cores: look at them all.
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let steps = self.steps;
        let ready_now = |core: &Core| core.state == State::Ready && core.stalled_until_step <= steps;
        ready.extend((0..self.cores.len()).filter(|core| ready_now(&self.cores[*core])));
        if ready.is_empty() {
            ready.extend((0..self.cores.len()).filter(|core| self.cores[*core].state == State::Ready));
        }
        // Time passes for a core that waits for it when the others have come so far.
        let now = self.cores.iter().map(|core| core.clock).max().unwrap_or(0);
        let due = |core: &Core| match core.state {
            State::Parked { deadline: Some(deadline), .. } => Some(deadline),
            _ => None,
        };
        let timed = (0..self.cores.len()).filter(|core| due(&self.cores[*core]).is_some_and(|at| at <= now));
        ready.extend(timed);
        if ready.is_empty() {
            let first = (0..self.cores.len()).filter_map(|core| due(&self.cores[core]).map(|at| (at, core)));
            ready.extend(first.min().map(|(_, core)| core));
        }
        let chosen =
            if ready.is_empty() { None } else { Some(self.scheduler.choose(&ready, self.resting.take())) };
        self.ready = ready;
        match chosen {
            None => self.nobody(),
            Some(core) => {
                let time = due(&self.cores[core]).unwrap_or(self.cores[core].clock);
                self.begin(core, time);
                Ok(Some(core))
            }
        }
    }

    fn begin(&mut self, core: usize, time: u64) {
        let of = &mut self.cores[core];
        if let State::Parked { .. } = of.state {
            of.timed_out = true;
        }
        if time > of.clock {
            of.counts.waiting_cycles += time - of.clock;
            of.clock = time;
        }
        of.generation += 1;
        of.stalled_until_step = 0;
        of.state = State::Running;
    }

    /// Whether the body has ended and a worker is dead: what it holds stays held, services that serve it
    /// never end, and there is nothing more to learn.
    pub(super) fn is_over(&self) -> bool {
        let is_worker = |core: &&Core| matches!(core.who, Some(Who::Worker(_)));
        self.cores[0].state == State::Done
            && self.cores.iter().any(|core| core.state == State::Killed)
            && self
                .cores
                .iter()
                .filter(is_worker)
                .all(|core| matches!(core.state, State::Done | State::Killed))
    }

    fn nobody(&self) -> Result<Option<usize>, Failure> {
        if self.cores.iter().all(|core| matches!(core.state, State::Done | State::Killed)) {
            return Ok(None);
        }
        Err(Failure::Deadlock { steps: self.steps, waits: self.waits() })
    }

    fn waits(&self) -> String {
        let mut lines = Vec::new();
        for (number, core) in self.cores.iter().enumerate() {
            let name = label(core.who);
            match core.state {
                State::Done => {}
                State::Parked { what: Awaited::Key(key), .. } => {
                    let end = key.checked_sub(1).and_then(|core| self.cores.get(core));
                    lines.push(match end {
                        Some(other) => format!("{name} waits for the end of {}", label(other.who)),
                        None => format!("{name} waits for a mutex or a condition"),
                    });
                }
                State::Parked { what: Awaited::Line, .. } => lines.push(format!("{name} spins")),
                State::Parked { what: Awaited::Time, .. } => lines.push(format!("{name} sleeps")),
                State::Ready | State::Running => lines.push(format!("{name} (core {number}) runs")),
                State::Killed => lines.push(format!("{name} is dead")),
            }
        }
        lines.truncate(12);
        lines.join("; ")
    }
}

/// The name of a core.
fn label(who: Option<Who>) -> String {
    match who {
        None => "the body".into(),
        Some(Who::Worker(number)) => format!("worker {number}"),
        Some(Who::Service(number)) => format!("service {number}"),
    }
}

/// What waits for a core's end wait for: no address of a program is so small.
pub(super) fn end_key(core: usize) -> usize {
    core + 1
}
