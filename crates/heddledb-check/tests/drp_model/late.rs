//! Late items, and those who give up.

use super::{Access, Fault, Item, Stage, World};

impl World {
    /// All that was intended is known, and with it which items are late; or the transaction refuses.
    pub fn evaluate(&mut self, me: usize) -> Stage {
        let found: Vec<(usize, usize)> = {
            let items = self.transactions[me].items.iter();
            let seen = items.filter(|item| item.access != Access::Update);
            seen.map(|item| (item.at, self.newest(item.at).writer)).collect()
        };
        let early = self.has(Fault::LookDoneAtEvaluation);
        let own = &mut self.transactions[me];
        own.reads.extend(found);
        for item in &mut own.items {
            item.done |= early && item.access == Access::Look;
        }
        if own.verdict == Some(false) {
            return self.nullify(me);
        }
        own.verdict = None;
        let is_taken = self.has(Fault::LateAfterDecision) || self.has(Fault::LateBeforeDecisions);
        if is_taken { self.after_evaluation(me) } else { Stage::Take(0) }
    }

    /// Takes a late item, unless somebody is there.
    pub fn take(&mut self, me: usize, number: usize) -> Stage {
        let Some(at) = self.transactions[me].late.get(number).copied() else {
            return match self.fault {
                Some(Fault::LateAfterDecision) => Stage::Install,
                Some(Fault::LateBeforeDecisions) => Stage::Order,
                _ => self.after_evaluation(me),
            };
        };
        let waits = self.has(Fault::LateWaits);
        // Once it has decided it cannot give up any more.
        if self.tails[at].is_some()
            && !waits
            && !self.has(Fault::LateFromOthers)
            && !self.has(Fault::LateAfterDecision)
        {
            return self.nullify(me);
        }
        let keeps = waits || self.has(Fault::LateAfterDecision);
        let previous = self.tails[at].replace(me).filter(|_| keeps);
        let own = &mut self.transactions[me];
        own.items.push(Item { at, access: Access::Late, previous, acquired: true, done: false });
        own.predecessors.extend(previous.filter(|_| waits));
        Stage::Take(number + 1)
    }

    /// Whether a transaction that waits gives up instead.
    pub fn may_give_up(&self, me: usize) -> bool {
        let own = &self.transactions[me];
        own.gives_up
            && matches!(own.stage, Stage::Acquire(_) | Stage::Publish(_) | Stage::Order | Stage::Reached)
    }
}
