//! Delays and deaths that were ordered: by access, by wait, by named point.

use super::super::schedule::{Event, Fate, When};
use super::super::trace::What;
use super::Machine;
use super::cores::State;
use super::inside::end_key;

impl Machine {
    pub(super) fn befall_access(&self, me: usize) {
        let at = self.inside.borrow().cores[me].accesses;
        self.befall(me, |when| matches!(when, When::Access(number) if *number <= at));
    }

    pub(super) fn befall_wait(&self, me: usize) {
        let at = {
            let mut inside = self.inside.borrow_mut();
            inside.cores[me].waits += 1;
            inside.cores[me].waits
        };
        self.befall(me, |when| matches!(when, When::Wait(number) if *number <= at));
    }

    /// The running core passes a named point.
    pub fn point(&self, name: &'static str) {
        if !self.charged.get() {
            return;
        }
        let me = self.current.get();
        let passed = {
            let mut inside = self.inside.borrow_mut();
            if !inside.cores[me].eventful {
                0
            } else {
                let count = inside.points.entry((me, name.as_ptr() as usize)).or_insert(0);
                *count += 1;
                *count
            }
        };
        if self.observing.get() {
            self.observe(What::Point(name));
        }
        if passed > 0 {
            self.befall(
                me,
                |when| matches!(when, When::Point(point, number) if point == name && *number == passed),
            );
        }
    }

    /// Lets happen what was ordered for now.
    fn befall(&self, me: usize, now: impl Fn(&When) -> bool) {
        let event = {
            let mut inside = self.inside.borrow_mut();
            let who = inside.cores[me].who;
            let mine = |event: &Event| Some(event.who) == who && now(&event.when);
            let Some(at) = inside.events.iter().position(mine) else { return };
            let event = inside.events.remove(at);
            inside.cores[me].eventful = inside.events.iter().any(|event| Some(event.who) == who);
            event
        };
        if self.observing.get() {
            self.observe(What::Fate(event.fate));
        }
        let mut inside = self.inside.borrow_mut();
        match event.fate {
            Fate::Stall(cycles) => {
                let steps = inside.steps;
                let core = &mut inside.cores[me];
                core.clock += cycles;
                core.counts.waiting_cycles += cycles;
                core.stalled_until_step = steps.saturating_add(cycles);
                core.state = State::Ready;
                let clock = core.clock;
                inside.enqueue(me, clock);
            }
            Fate::Kill => {
                inside.cores[me].state = State::Killed;
                inside.cores[me].generation += 1;
                // Cores that wait for its end are woken.
                let from = inside.cores[me].clock;
                inside.wake(end_key(me), true, from);
            }
        }
        drop(inside);
        self.suspend(me);
    }
}
