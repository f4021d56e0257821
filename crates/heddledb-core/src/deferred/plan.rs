//! A plan: steps with inputs, conditions and results, each run once when all that it needs is known.
//!
//! A step has an operator, of any `Copy` type, in the [`Store`], and there too a place for its result. It counts the
//! inputs that are not known; each value has a list of the steps that wait for it. When a value becomes known, the counts of
//! these fall, and steps without a row whose count has come to zero are run from a list of work, without
//! recursion. Steps on rows are run by [`Operators::apply`].
//!
//! **Conditions** are values, too: a step under a condition waits for it as for an input. If it does not hold, the step is
//! *skipped*: it is ready at once, does nothing, and its result stays unknown. Nobody waits for that in vain, since a value
//! may be used only under the condition under which it was made ([`Plan::check`]), so that its users are skipped with it.

use super::handle::{Deferred, Inputs, Known, Name};
use super::operators::Store;
use crate::error::{Error, Misuse, ObjectMisuse, Result};
use crate::seam::{Applied, Operators};
use std::error::Error as StdError;
use std::sync::atomic::{AtomicU64, Ordering};

/// No value, step or condition.
const NONE: u32 = u32::MAX;

/// Why a transaction decides to abort: a text, or a function that makes the reason.
#[derive(Clone, Copy, Debug)]
pub struct Refusal(Reason);

#[derive(Clone, Copy, Debug)]
enum Reason {
    Text(&'static str),
    Made(fn() -> Box<dyn StdError + Send + Sync>),
    /// A put has made a row of another key of this table.
    OtherKey(&'static str),
    /// This object has no rows yet.
    NotMade(&'static str),
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self(Reason::Text(reason))
    }
}

impl Refusal {
    /// A reason of a type of your own, which [`Error::user_reason`] finds again.
    pub fn new(reason: fn() -> Box<dyn StdError + Send + Sync>) -> Self {
        Self(Reason::Made(reason))
    }

    /// A put has made a row of another key of this table.
    #[doc(hidden)]
    pub fn other_key(table: &'static str) -> Self {
        Self(Reason::OtherKey(table))
    }

    /// This object has no rows yet.
    pub(crate) fn not_made(object: &'static str) -> Self {
        Self(Reason::NotMade(object))
    }

    /// As what the caller of the transaction gets.
    #[doc(hidden)]
    pub fn error(self) -> Error {
        match self.0 {
            Reason::Text(text) => Error::user(text),
            Reason::Made(reason) => Error::User(reason()),
            Reason::OtherKey(table) => Misuse::PutElsewhere { table }.into(),
            Reason::NotMade(object) => Misuse::Object(ObjectMisuse::NotMade { object }).into(),
        }
    }
}

/// What a step does.
pub trait Step: Copy + Send + Sync + 'static {
    /// What it needs.
    type Inputs: Inputs;
    /// Its result.
    type Output: Copy + Send + 'static;
    /// Whether it may refuse the transaction.
    const DECIDES: bool;
    /// What it needs.
    fn inputs(&self) -> Self::Inputs;
    /// Runs it, on a row as [`Operators::apply`] has it; without one on no words.
    ///
    /// # Errors
    /// Why the transaction is to have no effect.
    fn apply(
        self,
        values: <Self::Inputs as Inputs>::Values,
        present: bool,
        row: &mut [u64],
    ) -> Result<(Applied, Self::Output), Refusal>;
}

/// What is known of each value, and of each operator, which has an entry too.
struct Value {
    /// The condition under which it was made.
    scope: u32,
    /// The first in the list of what waits for it.
    first: u32,
}

/// A step waits for a value.
struct Edge {
    step: u32,
    /// The value is the step's condition.
    is_condition: bool,
    next: u32,
}

struct Planned {
    run: fn(&mut Plan, u32, bool, &mut [u64]) -> Applied,
    operator: u32,
    result: u32,
    /// How many of what it needs are not known.
    missing: u32,
    what: What,
    is_done: bool,
    /// Its condition does not hold.
    is_skipped: bool,
    decides: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Has a row.
    Row,
    /// Has none.
    Computes,
    /// Has none, and its result is a condition, which does not hold if the one around it does not.
    Condition,
}

/// The plan of an attempt, whose memory the next one uses again.
pub struct Plan {
    attempt: u64,
    /// From here on attempts need new numbers.
    attempts_end: u64,
    store: Store,
    values: Vec<Value>,
    edges: Vec<Edge>,
    steps: Vec<Planned>,
    /// Steps without a row that are ready.
    work: Vec<u32>,
    /// Steps with a row that have become ready, of which [`Operators::take_ready`] was not told.
    rows_ready: Vec<u32>,
    /// The condition under which steps are planned now.
    scope: u32,
    /// How many steps that may refuse have not been run.
    undecided: u32,
    refused: Option<Refusal>,
}

/// An identity of the process, so it uses the standard library's atomics and not the `sync` door.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// How many attempts' numbers a plan draws at once.
const ATTEMPTS_DRAWN: u64 = 1 << 20;

impl Default for Plan {
    fn default() -> Self {
        Self {
            attempt: 0,
            attempts_end: 0,
            store: Store::default(),
            values: Vec::new(),
            edges: Vec::new(),
            steps: Vec::new(),
            work: Vec::new(),
            rows_ready: Vec::new(),
            scope: NONE,
            undecided: 0,
            refused: None,
        }
    }
}

impl Known for Plan {
    fn value<V: Copy + Send + 'static>(&self, name: Name) -> V {
        self.store.get(name.number).expect("what is asked for its value was checked, and is known")
    }
}

impl Plan {
    /// Begins an attempt.
    pub fn begin(&mut self) {
        self.attempt += 1;
        if self.attempt >= self.attempts_end {
            // Relaxed: the number is an identity and publishes nothing else.
            self.attempt = ATTEMPTS.fetch_add(ATTEMPTS_DRAWN, Ordering::Relaxed);
            self.attempts_end = self.attempt + ATTEMPTS_DRAWN;
        }
        self.store.clear();
        self.values.clear();
        self.edges.clear();
        self.steps.clear();
        self.work.clear();
        self.rows_ready.clear();
        (self.scope, self.undecided, self.refused) = (NONE, 0, None);
    }

    /// Refuses a value of another attempt, or of a condition within which it is not used.
    ///
    /// # Errors
    /// [`Misuse::DeferredElsewhere`], [`Misuse::DeferredOutOfCondition`].
    pub fn check(&self, each: impl FnOnce(&mut dyn FnMut(Name))) -> Result<()> {
        let mut found = Ok(());
        each(&mut |name| {
            if found.is_ok() {
                found = self.check_name(name);
            }
        });
        found
    }

    fn check_name(&self, name: Name) -> Result<()> {
        let value = self.values.get(name.number as usize).filter(|_| name.attempt == self.attempt);
        let Some(value) = value else { return Err(Misuse::DeferredElsewhere.into()) };
        let mut scope = self.scope;
        while scope != value.scope {
            if scope == NONE {
                return Err(Misuse::DeferredOutOfCondition.into());
            }
            scope = self.values[scope as usize].scope;
        }
        Ok(())
    }

    /// Whether a value is known, which was checked.
    pub fn is_known(&self, name: Name) -> bool {
        self.store.is_known(name.number)
    }

    /// A place for a value of this type.
    pub fn unknown<V: Copy + Send + 'static>(&mut self) -> Deferred<V> {
        let number = self.reserve::<V>();
        Deferred::new(Name { attempt: self.attempt, number })
    }

    /// A value that is known.
    pub fn known<V: Copy + Send + 'static>(&mut self, value: V) -> Deferred<V> {
        let deferred = self.unknown();
        self.store.set(deferred.name.number, value);
        deferred
    }

    fn reserve<V: Copy + Send + 'static>(&mut self) -> u32 {
        let number = self.store.reserve::<V>();
        self.values.push(Value { scope: self.scope, first: NONE });
        debug_assert_eq!(self.values.len(), self.store.len());
        number
    }

    /// Plans a step with a row. Returns its number, and what stands for its result.
    ///
    /// # Errors
    /// As [`Plan::check`].
    pub fn row<S: Step>(&mut self, step: S) -> Result<(u32, Deferred<S::Output>)> {
        self.plan(step, What::Row)
    }

    /// Plans a step without a row; runs it now, if all that it needs is known.
    ///
    /// # Errors
    /// As [`Plan::check`].
    pub fn compute<S: Step>(&mut self, step: S) -> Result<Deferred<S::Output>> {
        let (_, result) = self.plan(step, What::Computes)?;
        self.work_off();
        Ok(result)
    }

    fn plan<S: Step>(&mut self, step: S, what: What) -> Result<(u32, Deferred<S::Output>)> {
        let inputs = step.inputs();
        self.check(|visit| inputs.each(visit))?;
        let operator = self.reserve::<S>();
        self.store.set(operator, step);
        let result = self.unknown();
        let number = self.steps.len() as u32;
        self.undecided += u32::from(S::DECIDES);
        self.steps.push(Planned {
            run: run::<S>,
            operator,
            result: result.name.number,
            missing: 0,
            what,
            is_done: false,
            is_skipped: self.is_skipped(),
            decides: S::DECIDES,
        });
        if self.scope != NONE && !self.is_skipped() {
            self.wait(number, self.scope, true);
        }
        if !self.is_skipped() {
            inputs.each(&mut |name| self.wait(number, name.number, false));
        }
        if self.steps[number as usize].missing == 0 && what != What::Row {
            self.work.push(number);
        }
        Ok((number, result))
    }

    /// A step waits for a value, unless it is known.
    fn wait(&mut self, step: u32, value: u32, is_condition: bool) {
        if self.store.is_known(value) {
            return;
        }
        let edge = self.edges.len() as u32;
        let first = &mut self.values[value as usize].first;
        self.edges.push(Edge { step, is_condition, next: std::mem::replace(first, edge) });
        self.steps[step as usize].missing += 1;
    }

    fn ready(&mut self, step: u32) {
        match self.steps[step as usize].what {
            What::Row => self.rows_ready.push(step),
            What::Computes | What::Condition => self.work.push(step),
        }
    }

    /// Whether the condition under which steps are planned now is known not to hold.
    pub fn is_skipped(&self) -> bool {
        self.scope != NONE && self.store.get(self.scope) == Some(false)
    }

    /// Whether steps are planned under a condition.
    pub fn is_under_condition(&self) -> bool {
        self.scope != NONE
    }

    /// What is planned from now on is under one more condition. Returns what [`Plan::leave`] goes back to.
    ///
    /// # Errors
    /// As [`Plan::check`].
    pub fn enter(&mut self, condition: Deferred<bool>) -> Result<u32> {
        let (_, both) = self.plan(Holds(condition), What::Condition)?;
        self.work_off();
        Ok(std::mem::replace(&mut self.scope, both.name.number))
    }

    /// Ends what [`Plan::enter`] has begun.
    pub fn leave(&mut self, before: u32) {
        self.scope = before;
    }

    /// Whether a step was run, or is skipped: the steps in the order in which they were planned.
    pub fn is_done(&self, step: u32) -> bool {
        let step = &self.steps[step as usize];
        step.is_done || step.is_skipped
    }

    /// The operator of a step with a row, and the values that it needs; `None` if it has another type.
    pub fn operator<S: Step>(&self, step: u32) -> Option<(S, <S::Inputs as Inputs>::Values)> {
        let operator: S = self.store.get(self.steps[step as usize].operator)?;
        Some((operator, operator.inputs().values(self)))
    }

    /// A step was executed, and this came of it. What becomes ready by it is run.
    pub fn finish<V: Copy + Send + 'static>(&mut self, step: u32, result: V) {
        let planned = &mut self.steps[step as usize];
        assert!(!planned.is_done, "a step is run once");
        planned.is_done = true;
        self.undecided -= u32::from(planned.decides);
        let number = planned.result;
        self.store.set(number, result);
        self.value_known(number);
        self.work_off();
    }

    /// Why the transaction is to have no effect, if that is decided.
    pub fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// A value has become known: what has waited for nothing else is ready.
    fn value_known(&mut self, value: u32) {
        let mut edge = std::mem::replace(&mut self.values[value as usize].first, NONE);
        while edge != NONE {
            let Edge { step, is_condition, next } = self.edges[edge as usize];
            edge = next;
            let planned = &mut self.steps[step as usize];
            if planned.is_skipped {
                continue;
            }
            if is_condition && self.store.get(value) == Some(false) {
                (planned.is_skipped, planned.missing) = (true, 0);
                self.ready(step);
                continue;
            }
            planned.missing -= 1;
            if planned.missing == 0 {
                self.ready(step);
            }
        }
    }

    /// Runs what is ready and has no row.
    fn work_off(&mut self) {
        while let Some(number) = self.work.pop() {
            let Planned { run, result, what, is_skipped, .. } = self.steps[number as usize];
            if !is_skipped {
                run(self, number, true, &mut []);
                continue;
            }
            self.skip(number);
            if what == What::Condition {
                self.store.set(result, false);
                self.value_known(result);
            }
        }
    }

    /// A step is skipped, and with it what it could have refused.
    fn skip(&mut self, step: u32) {
        let planned = &mut self.steps[step as usize];
        if !std::mem::replace(&mut planned.is_done, true) {
            self.undecided -= u32::from(planned.decides);
        }
    }
}

/// Runs a step that is ready, and what becomes ready by it is left in the list of work.
fn run<S: Step>(plan: &mut Plan, step: u32, present: bool, row: &mut [u64]) -> Applied {
    let (operator, values) = plan.operator::<S>(step).expect("a step is run as what it was planned as");
    let outcome = operator.apply(values, present, row);
    let planned = &mut plan.steps[step as usize];
    assert!(!planned.is_done, "a step is run once");
    planned.is_done = true;
    plan.undecided -= u32::from(planned.decides);
    let result = planned.result;
    match outcome {
        Ok((applied, output)) => {
            plan.store.set(result, output);
            plan.value_known(result);
            applied
        }
        // Its result stays unknown: nothing that rests on it will be asked for.
        Err(refusal) => {
            plan.refused.get_or_insert(refusal);
            Applied::Kept
        }
    }
}

impl Operators for Plan {
    fn is_ready(&self, step: u32) -> bool {
        self.steps[step as usize].missing == 0
    }

    fn apply(&mut self, step: u32, present: bool, row: &mut [u64]) -> Applied {
        let Planned { run, is_skipped, missing, .. } = self.steps[step as usize];
        assert!(missing == 0, "a step is applied when it is ready");
        if is_skipped {
            self.skip(step);
            return Applied::Kept;
        }
        let applied = run(self, step, present, row);
        self.work_off();
        applied
    }

    fn take_ready(&mut self) -> Option<u32> {
        self.rows_ready.pop()
    }

    fn verdict(&self) -> Option<bool> {
        match (self.refused, self.undecided) {
            (Some(_), _) => Some(false),
            (None, 0) => Some(true),
            _ => None,
        }
    }

    fn refusal(&mut self) -> Error {
        self.refused.expect("only a transaction that was refused is asked why").error()
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy)]
struct Holds(Deferred<bool>);

impl Step for Holds {
    type Inputs = Deferred<bool>;
    type Output = bool;
    const DECIDES: bool = false;
    fn inputs(&self) -> Self::Inputs {
        self.0
    }
    fn apply(self, holds: bool, _: bool, _: &mut [u64]) -> Result<(Applied, bool), Refusal> {
        Ok((Applied::Kept, holds))
    }
}

/// Decides that the transaction is to have no effect unless a condition holds.
#[derive(Clone, Copy)]
pub struct Ensure {
    /// The condition.
    pub condition: Deferred<bool>,
    /// Why.
    pub refusal: Refusal,
}

impl Step for Ensure {
    type Inputs = Deferred<bool>;
    type Output = ();
    const DECIDES: bool = true;
    fn inputs(&self) -> Self::Inputs {
        self.condition
    }
    fn apply(self, holds: bool, _: bool, _: &mut [u64]) -> Result<(Applied, ()), Refusal> {
        if holds { Ok((Applied::Kept, ())) } else { Err(self.refusal) }
    }
}

/// Makes a value of values.
#[derive(Clone, Copy)]
pub struct Map<I, F> {
    /// Of these.
    pub with: I,
    /// By this.
    pub function: F,
}

impl<I: Inputs, V: Copy + Send + 'static, F: Fn(I::Values) -> V + Copy + Send + Sync + 'static> Step
    for Map<I, F>
{
    type Inputs = I;
    type Output = V;
    const DECIDES: bool = false;
    fn inputs(&self) -> I {
        self.with
    }
    fn apply(self, values: I::Values, _: bool, _: &mut [u64]) -> Result<(Applied, V), Refusal> {
        Ok((Applied::Kept, (self.function)(values)))
    }
}
