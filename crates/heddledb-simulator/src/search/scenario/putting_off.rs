//! Programs whose calls put additions off, with readers of the sums, closures and snapshots.

use super::{Epochs, Program, Scenario, Steps, draw_changes, pick};
use crate::search::Faults;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb_check::additions::PLACES;
use heddledb_check::programs::{COUNTER_ROWS, Placed, Program as Procedure};
use heddledb_check::recorder::TABLES;
use heddledb_check::workload::Step;
use heddledb_engine_simulated::sync::simulation::{Event, Fate, When, Who};

/// How many counters there are.
pub(in crate::search) const COUNTERS: u64 = 2 * COUNTER_ROWS;

/// Of the histories so many, of eight, have calls that put additions off, under protocols that do.
const OF_EIGHT: u64 = 7;
const SALT: u64 = 0x5E1F;

/// Named places where additions are put off and made.
const POINTS: [&str; 4] = ["put off", "shelves claimed", "shelves taken", "shelves made"];

impl Scenario {
    /// Has calls put additions off; drawn apart, so that what else the seed means stays for other protocols.
    pub(super) fn draw_putting_off(&mut self, kind: Kind, faults: Faults) {
        let random = &mut Random::new(self.seed ^ SALT ^ (faults as u64) << 32);
        let is_history = matches!(self.program, Program::History { .. });
        if !kind.puts_off() || !is_history || random.below(8) >= OF_EIGHT {
            return;
        }
        let (keys, odds) = (1 + random.below(3), random.below(4));
        let mut rows = Vec::new();
        for table in 0..TABLES {
            rows.extend((0..keys).filter(|_| random.below(4) < odds).map(|key| (table, key)));
        }
        let types = 2 + random.below(3) as usize;
        let programs: Vec<_> = (0..types).map(|number| Procedure::draw_putting_off(random, number)).collect();
        self.transactions = 1 + random.below(6) as usize;
        let (closure_odds, snapshot_odds) = (pick(random, &[4, 8, 30]), pick(random, &[4, 8, 30]));
        let mut places = [0; COUNTERS as usize];
        let mut steps = || {
            let of_type = random.below(types as u64) as usize;
            let is_snapshot = random.below(snapshot_odds) == 0;
            let mut steps = programs[of_type].input(random, 0, keys);
            if !is_snapshot {
                steps.retain_mut(|step| has_place(step, &mut places));
            }
            Steps {
                is_snapshot,
                waits: random.below(2) == 0,
                call: (random.below(closure_odds) != 0).then_some(of_type),
                steps,
                deferring: None,
                submitted: None,
            }
        };
        let mut plan = || (0..self.transactions).map(|_| steps()).collect();
        let plans = (0..self.workers).map(|_| plan()).collect();
        if faults != Faults::Disk && random.below(2) == 0 {
            self.epochs = Epochs::Worker { advances: 2 + random.below(20), yields: random.below(4) != 0 };
        }
        if random.below(2) == 0 {
            let who = Who::Worker(random.below(self.workers as u64) as usize);
            let when = When::Point(pick(random, &POINTS).to_owned(), 1 + random.below(4));
            let fate = match faults {
                Faults::Kill | Faults::Disk if random.below(2) == 0 => Fate::Kill,
                _ => Fate::Stall(20 << random.below(8)),
            };
            self.events.push(Event { who, when, fate });
        }
        if faults == Faults::Change {
            self.changes = Some(draw_changes(random, types, kind));
        }
        self.program = Program::History { rows, passing: Vec::new(), programs, keys: keys + 4, plans };
        self.puts_off = true;
    }
}

/// Gives an addition its place; false if its counter has none left.
fn has_place((_, step): &mut Placed, places: &mut [u64]) -> bool {
    let Step::PutOff(counter, place) = step else { return true };
    let taken = &mut places[*counter as usize];
    *place = *taken;
    *taken += 1;
    *place < PLACES
}
