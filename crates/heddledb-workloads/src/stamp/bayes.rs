//! Bayes: the structure of a Bayesian network is learned from records, by hill climbing.
//!
//! Records of `variables` bits are drawn from a network that is drawn first. What is learned begins without edges. For each variable
//! there is one change at most that is proposed for its parents (an edge more, less, or turned around), in a list by what
//! it would gain; first the workers propose one for each variable. Then each takes the best proposal from the list, and
//! makes it in a transaction, if the network is still without circles with it and the score still rises; then it
//! proposes the next change for the same variable. It is over when the list is empty. Transactions are few, long, and walk through
//! the network; nothing is deferred.
//!
//! The score of a variable is the likelihood of its bits by those of its parents, less what parents cost (the Bayesian information
//! criterion), in millionths: a whole number, so that sums do not depend on an order. STAMP's trees of counts (`adtree`) are not
//! here: records are bit sets of a word each, and are counted.

use super::{Application, Place};
use crate::Check;
use crate::random::{chance, shuffle, stream};
use crate::verdict::{Verdict, equal};
use heddledb::objects::{Element, TArray, TCounter, TMap};
use heddledb::{Builder, Database, Misuse, Objects, Result, Session, Transaction};
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Variables at most: a set of them is a word.
pub const VARIABLES_MAX: u32 = 64;
/// Parents of a variable at most.
pub const PARENTS_MAX: u32 = 10;
/// Units of the score.
const UNIT: f64 = 1e6;
/// Cycles of one bit of a record that is counted.
const BIT_CYCLES: u64 = 1;

/// A change that is proposed for a variable's parents.
#[derive(Element, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The other end of the edge, whose own end is the variable.
    from: u32,
    /// 0: an edge from there; 1: none any more; 2: one to there instead.
    change: u8,
}

const INSERT: u8 = 0;
const REMOVE: u8 = 1;
const REVERSE: u8 = 2;

/// What is known of a variable.
#[derive(Element, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its parents, a bit for each.
    pub parents: u64,
    /// Its score with these.
    score: i64,
}

/// The objects.
#[derive(Objects)]
pub struct Learner {
    /// Of each variable its parents and its score.
    pub network: TArray<Variable>,
    /// By what is not gained, so that the best is the first, and the variable.
    proposals: TMap<(u64, u32), Proposal>,
    /// The sum of all scores.
    total: TCounter,
    /// Edges inserted less edges removed.
    edges: TCounter,
}

/// The parameters of [`Bayes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Variables.
    pub variables: u32,
    /// Records; DRP has 4096.
    pub records: u32,
    /// Parents of a variable at most, in the network that records are drawn from; DRP has 10.
    pub parents: u32,
    /// How likely each of them is one, in percent; DRP has 40.
    pub parent_pct: u32,
    /// Parents of a variable at most, in what is learned; DRP has 8.
    pub learned: u32,
}

impl Default for Parameters {
    /// STAMP's small input.
    fn default() -> Self {
        Self { variables: 32, records: 1024, parents: 2, parent_pct: 20, learned: 2 }
    }
}

/// Bayes with its parameters.
#[derive(Debug)]
pub struct Bayes {
    parameters: Parameters,
}

/// What a run knows.
pub struct State {
    /// Each a bit for each variable.
    records: Vec<u64>,
    /// Scores that were computed, by variable and parents.
    known: Mutex<BTreeMap<(u32, u64), i64>>,
}

fn bit(variable: u32) -> u64 {
    1 << variable
}

fn members(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let first = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(first)
    })
}

/// The bits of parents in a record, as a number.
fn case(record: u64, parents: &[u32]) -> usize {
    parents.iter().fold(0, |case, parent| case << 1 | (record >> parent & 1) as usize)
}

/// A variable's score with these parents.
fn score(records: &[u64], variable: u32, parents: u64) -> i64 {
    let members: Vec<u32> = members(parents).collect();
    // How often it is not set and set, by the parents' bits.
    let mut counts = vec![[0u32; 2]; 1 << members.len()];
    for record in records {
        counts[case(*record, &members)][(record >> variable & 1) as usize] += 1;
    }
    let mut likelihood = 0.0;
    for both in &counts {
        let all = f64::from(both[0] + both[1]);
        for count in both.iter().filter(|count| **count > 0).map(|count| f64::from(*count)) {
            likelihood += count * (count / all).ln();
        }
    }
    let cost = 0.5 * (records.len() as f64).ln() * counts.len() as f64;
    ((likelihood - cost) * UNIT).round() as i64
}

/// Whether there is a way from `from` to `to` along edges, by the parents of `to`, their parents and so on.
fn reaches(parents: &mut dyn FnMut(u32) -> Result<u64>, from: u32, to: u32) -> Result<bool> {
    let (mut seen, mut left) = (bit(to), bit(to));
    while left != 0 {
        let variable = left.trailing_zeros();
        if variable == from {
            return Ok(true);
        }
        left &= left - 1;
        let new = parents(variable)? & !seen;
        seen |= new;
        left |= new;
    }
    Ok(false)
}

impl Bayes {
    /// The application with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { variables, records, parents, parent_pct, learned } = parameters;
        let reason = if !(2..=VARIABLES_MAX).contains(&variables) || records == 0 {
            format!(
                "there are 2 to {VARIABLES_MAX} variables, and a record at least; {variables} and {records} are not"
            )
        } else if parents > PARENTS_MAX || !(1..=PARENTS_MAX).contains(&learned) || parent_pct > 100 {
            format!(
                "a variable has {PARENTS_MAX} parents at most, is to learn one at least, and a percentage is up to 100: \
                 {parents}, {learned} and {parent_pct} are not"
            )
        } else {
            return Ok(Self { parameters });
        };
        Err(Misuse::Option(reason).into())
    }

    /// Draws a network, and records from it.
    fn records(&self, seed: u64) -> Vec<u64> {
        let rng = &mut stream(seed, 0);
        let Parameters { variables, records, parents, parent_pct, .. } = self.parameters;
        // Parents come before their children in this order, so there is no circle.
        let mut order: Vec<u32> = (0..variables).collect();
        shuffle(rng, &mut order);
        // Of each variable: its parents, and how likely it is set, in percent, by their bits.
        let mut network: Vec<(u32, Vec<u32>, Vec<u32>)> = Vec::new();
        for (at, variable) in order.iter().enumerate() {
            let mut own: Vec<u32> = Vec::new();
            for _ in 0..parents {
                if at > 0 && chance(rng, parent_pct) {
                    let parent = order[rng.random_range(0..at)];
                    if !own.contains(&parent) {
                        own.push(parent);
                    }
                }
            }
            let likely = (0..1usize << own.len()).map(|_| rng.random_range(5..=95)).collect();
            network.push((*variable, own, likely));
        }
        (0..records)
            .map(|_| {
                network.iter().fold(0, |record, (variable, parents, likely)| {
                    record | u64::from(chance(rng, likely[case(record, parents)])) << variable
                })
            })
            .collect()
    }

    /// A variable's score with these parents; each is kept when it was computed, but charged to everyone who asks.
    fn score(&self, place: &Place<'_>, state: &State, variable: u32, parents: u64) -> i64 {
        let records = u64::from(self.parameters.records);
        (place.compute)(records * u64::from(1 + parents.count_ones()) * BIT_CYCLES);
        let known = || state.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(score) = known().get(&(variable, parents)) {
            return *score;
        }
        // Others compute theirs meanwhile; two that compute the same come to the same.
        let score = score(&state.records, variable, parents);
        known().insert((variable, parents), score);
        score
    }

    /// The best change for a variable in a network, and what it would gain.
    fn best(
        &self,
        place: &Place<'_>,
        state: &State,
        network: &[Variable],
        to: u32,
    ) -> Option<(i64, Proposal)> {
        let Variable { parents, score: before } = network[to as usize];
        let mut best: Option<(i64, Proposal)> = None;
        let mut offer = |gain: i64, from: u32, change: u8| {
            if gain > 0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, Proposal { from, change }));
            }
        };
        let reaches = |network: &[Variable], from, to| {
            reaches(&mut |variable| Ok(network[variable as usize].parents), from, to).unwrap_or(true)
        };
        for from in (0..network.len() as u32).filter(|from| *from != to) {
            let other = network[from as usize];
            if parents & bit(from) == 0 {
                if parents.count_ones() < self.parameters.learned && !reaches(network, to, from) {
                    offer(self.score(place, state, to, parents | bit(from)) - before, from, INSERT);
                }
                continue;
            }
            let without = self.score(place, state, to, parents & !bit(from)) - before;
            offer(without, from, REMOVE);
            if other.parents.count_ones() < self.parameters.learned {
                let mut less = network.to_vec();
                less[to as usize].parents &= !bit(from);
                if !reaches(&less, from, to) {
                    let turned = self.score(place, state, from, other.parents | bit(to)) - other.score;
                    offer(without + turned, from, REVERSE);
                }
            }
        }
        best
    }

    /// Proposes the next change for a variable, if one gains anything.
    fn propose(&self, place: &Place<'_>, session: &mut Session, state: &State, to: u32) -> Result<()> {
        session.run(|tx| {
            let network = Learner::network.collect(tx)?;
            if let Some((gain, proposal)) = self.best(place, state, &network, to) {
                Learner::proposals.insert(tx, (u64::MAX - gain as u64, to), proposal)?;
            }
            Ok(())
        })
    }

    /// Makes a change, if the network stays without circles and the score rises.
    fn change(
        &self,
        place: &Place<'_>,
        tx: &mut impl Transaction,
        state: &State,
        to: u32,
        Proposal { from, change }: Proposal,
    ) -> Result<()> {
        let own = Learner::network.get(tx, to.into())?;
        let has = own.parents & bit(from) != 0;
        let is_full = |variable: &Variable| variable.parents.count_ones() >= self.parameters.learned;
        if has == (change == INSERT) || change == INSERT && is_full(&own) {
            return Ok(());
        }
        let parents = if change == INSERT { own.parents | bit(from) } else { own.parents & !bit(from) };
        let new = Variable { parents, score: self.score(place, state, to, parents) };
        let mut gain = new.score - own.score;
        let mut turned = None;
        let mut parents_of = |variable: u32| -> Result<u64> {
            Ok(if variable == to { new.parents } else { Learner::network.get(tx, variable.into())?.parents })
        };
        match change {
            INSERT if reaches(&mut parents_of, to, from)? => return Ok(()),
            REVERSE => {
                if reaches(&mut parents_of, from, to)? {
                    return Ok(());
                }
                let other = Learner::network.get(tx, from.into())?;
                if is_full(&other) {
                    return Ok(());
                }
                let parents = other.parents | bit(to);
                let other_new = Variable { parents, score: self.score(place, state, from, parents) };
                gain += other_new.score - other.score;
                turned = Some(other_new);
            }
            _ => {}
        }
        if gain <= 0 {
            return Ok(());
        }
        Learner::network.set(tx, to.into(), new)?;
        if let Some(other) = turned {
            Learner::network.set(tx, from.into(), other)?;
        }
        Learner::total.add(tx, gain)?;
        match change {
            INSERT => Learner::edges.add(tx, 1),
            REMOVE => Learner::edges.add(tx, -1),
            _ => Ok(()),
        }
    }
}

impl Application for Bayes {
    type State = State;

    fn name(&self) -> &'static str {
        "bayes"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("variables", p.variables),
            ("records", p.records),
            ("parents", p.parents),
            ("parent_pct", p.parent_pct),
            ("learned", p.learned),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into()
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Learner>()
    }

    fn load(&self, db: &Database, seed: u64) -> Result<State> {
        let records = self.records(seed);
        let scores: Vec<i64> =
            (0..self.parameters.variables).map(|variable| score(&records, variable, 0)).collect();
        db.session()?.run(|tx| {
            for (at, score) in (1..).zip(&scores) {
                Learner::network.grow(tx, at, Variable { parents: 0, score: *score })?;
            }
            Learner::total.add(tx, scores.iter().sum())
        })?;
        Ok(State { records, known: Mutex::default() })
    }

    fn work(&self, place: &Place<'_>, session: &mut Session, state: &State) -> Result<()> {
        let mine = (place.worker as u32..self.parameters.variables).step_by(place.workers);
        let outcome = mine.into_iter().try_for_each(|variable| self.propose(place, session, state, variable));
        (place.meet)();
        outcome?;
        loop {
            let taken = session.run(|tx| {
                let best = Learner::proposals.first(tx, ..)?;
                if let Some((key, _)) = best {
                    Learner::proposals.remove(tx, key)?;
                }
                Ok(best)
            })?;
            let Some(((_, to), proposal)) = taken else { return Ok(()) };
            session.run(|tx| self.change(place, tx, state, to, proposal))?;
            self.propose(place, session, state, to)?;
        }
    }

    fn check(&self, db: &Database, state: &State) -> Result<Vec<Check>> {
        let (network, total, edges, left) = db.session()?.run(|tx| {
            Ok((
                Learner::network.collect(tx)?,
                Learner::total.get(tx)?,
                Learner::edges.get(tx)?,
                Learner::proposals.len(tx)?,
            ))
        })?;
        // Whoever has no parent that is left is taken out, until nobody is left.
        let mut left_over = u64::MAX >> (64 - network.len());
        while let Some(free) = members(left_over).find(|at| network[*at as usize].parents & left_over == 0) {
            left_over &= !bit(free);
        }
        let mut few = Verdict::new("no variable has more parents than it may have, and none itself");
        let mut scored = Verdict::new("each score is that of the parents, computed anew");
        let (mut sum, mut empty, mut count) = (0i128, 0i128, 0u32);
        for (at, variable) in (0..).zip(&network) {
            let Variable { parents, score: noted } = *variable;
            few.require(parents.count_ones() <= self.parameters.learned && parents & bit(at) == 0, || {
                format!("variable {at}: {parents:b}")
            });
            let anew = score(&state.records, at, parents);
            scored.require(anew == noted, || format!("variable {at}: {noted} is noted, it is {anew}"));
            (sum, count) = (sum + i128::from(anew), count + parents.count_ones());
            empty += i128::from(score(&state.records, at, 0));
        }
        let mut acyclic = Verdict::new("what was learned has no circle");
        acyclic.require(left_over == 0, || format!("{left_over:b} are in circles"));
        let mut better = Verdict::new("it is no worse than no edges at all, and better if it has some");
        better.require(if count > 0 { sum > empty } else { sum == empty }, || {
            format!("{sum} with {count} edges, {empty} without")
        });
        Ok(vec![
            acyclic.finish(),
            few.finish(),
            scored.finish(),
            equal(
                "the sum of all gains is the score, computed anew",
                ("noted", total.into()),
                ("score", sum),
            ),
            equal("edges were counted", ("noted", edges.into()), ("edges", count.into())),
            better.finish(),
            equal("nothing is left to change", ("proposals", left.into()), ("expected", 0)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_worth_what_it_tells() {
        // Variable 1 is variable 0, variable 2 is by itself.
        let records: Vec<u64> = (0..256u64).map(|at| ((at & 1) * 3) | ((at >> 1 & 1) << 2)).collect();
        assert!(score(&records, 1, bit(0)) > score(&records, 1, 0));
        assert!(score(&records, 1, bit(2)) < score(&records, 1, 0));
        // Certain but for what the parent costs: two cases.
        assert_eq!(score(&records, 1, bit(0)), (-(256f64.ln()) * UNIT).round() as i64);
    }

    #[test]
    fn ways_are_found_along_edges() {
        let parents = [0, bit(0), bit(1), bit(1)];
        let is_there = |from, to| reaches(&mut |at| Ok(parents[at as usize]), from, to).unwrap();
        assert!(is_there(0, 3) && is_there(1, 2) && is_there(2, 2));
        assert!(!is_there(3, 0) && !is_there(2, 3));
        assert!(members(0b1001_0100).eq([2, 4, 7]));
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { variables: 1, ..default },
            Parameters { variables: 65, ..default },
            Parameters { records: 0, ..default },
            Parameters { learned: 0, ..default },
            Parameters { parents: 11, ..default },
        ] {
            assert!(Bayes::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
