//! The procedures that a database knows, and how their set is changed.
//!
//! All registered procedures are analysed together, so a change makes a new [`Plan`]. Two plans must not be
//! in use at once, because under them a type may be cut differently. There are two ways from one to the next:
//!
//! - A *barrier* ([`PlanChange::Barrier`]) closes the *gate*: new transactions wait; when all that were
//!   running have ended (two epochs later), the new plan replaces the old one, and the gate opens.
//! - A *transition* ([`PlanChange::Transition`]) puts a plan in between that keeps to both
//!   ([`Plan::between`]). Only the caller that makes the change waits, until all that began under the old
//!   plan have ended; a procedure that is added or removed is not called meanwhile. Transactions under the
//!   plan in between have ended before the next change begins.
//!
//! The gate also helps a transaction that cannot get through: it closes the gate, waits until no call is
//! under way, and runs. Such a transaction, like a change of the plan, holds the *turn*, so that the plan
//! does not change under it.

use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::kind::Promises;
use crate::mutant::{Mutant, planted};
use crate::procedure::{Declaration, Plan, PlanChange, Tracking};
use crate::protocol::Execution;
use crate::seam::{CallByName, ProcedureInfo, Registered};
use crate::sync::{AtomicU64, Mutex, Ordering, Suspender, Wait, fence, lock, wait_until};
use heddledb_analysis::Options;
use std::any::TypeId;
use std::sync::Arc;

/// The registered procedures, and the plan made of them.
pub(crate) struct Procedures {
    /// Locked for the length of a change.
    types: Mutex<Types>,
    /// Locked for moments, by workers that learn of a change, pinned in the epoch that the change waits for.
    current: Mutex<Current>,
    /// Counts changes; read at each call.
    version: AtomicU64,
    /// By number. Locked for moments.
    names: Mutex<Vec<String>>,
    /// How many holders keep the gate closed.
    gate: AtomicU64,
    /// Of those that run alone: changes of the plan, and what may meet no call.
    pub turn: Turn,
    /// Of pieces of chopped calls that have failed often. Another one, since who has the first waits for calls that are under way.
    pub piece_turn: Turn,
    options: Options,
    /// Calls have the epoch of their piece that conflicts.
    numbers_lazily: bool,
    tracking: Tracking,
    change: PlanChange,
}

/// Who runs, for whoever has closed the gate.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub clock: &'a EpochClock,
    /// Whether no call that commits in parts is under way.
    pub no_call_in_parts: &'a dyn Fn() -> bool,
}

impl Running<'_> {
    /// Waits until all that have passed the gate before it was closed have ended.
    fn wait_ended(self) -> Result<()> {
        let mut wait = Wait::new();
        loop {
            self.clock.wait_passed(self.clock.now())?;
            // A call that commits in parts is pinned behind the gate, so it may be pinned since (found by the search:
            // dbx-tc-lazy/change/91040898).
            if (self.no_call_in_parts)() {
                return Ok(());
            }
            wait.pause();
        }
    }
}

/// All procedures that were ever registered.
struct Types {
    /// By number.
    all: Vec<Type>,
    /// Until this epoch has passed, a transaction may run under a plan before the present one.
    changed_in: u64,
}

/// What calls use: the plan and the names.
#[derive(Clone, Default)]
struct Current {
    plan: Arc<Plan>,
    /// The numbers of procedures that have a type.
    numbers: Vec<(TypeId, u16)>,
    names: Names,
}

/// The registered procedures by name, in that order, with how to call them by it, if that is possible.
pub(crate) type Names = Arc<[(String, Option<CallByName>)]>;

struct Type {
    /// The procedure's type, if it has one.
    id: Option<TypeId>,
    name: String,
    /// `None` once it was removed.
    declared: Option<Arc<Declaration>>,
    by_name: Option<CallByName>,
}

/// What a session knows of the plan.
#[derive(Default)]
pub(crate) struct PlanCache {
    version: u64,
    pub plan: Arc<Plan>,
    numbers: Vec<(TypeId, u16)>,
    pub names: Names,
}

impl Procedures {
    pub fn new(promises: &dyn Promises, change: PlanChange) -> Self {
        let chopped = promises.execution() == Execution::Chopped;
        // Whoever is ordered by others than pieces that conflict may have an earlier number than who comes before it.
        let plan_options = Plan::options(promises.commutes(), chopped, promises.puts_off());
        Self {
            types: Mutex::new(Types { all: Vec::new(), changed_in: 0 }),
            current: Mutex::new(Current::default()),
            version: AtomicU64::new(1),
            names: Mutex::new(Vec::new()),
            gate: AtomicU64::new(0),
            turn: Turn::default(),
            piece_turn: Turn::default(),
            options: Options { causal: !promises.numbers_lazily(), ..plan_options },
            numbers_lazily: promises.numbers_lazily(),
            tracking: promises.tracking(),
            change: if promises.tracking() == Tracking::Nothing { PlanChange::Barrier } else { change },
        }
    }

    /// Adds a procedure, unless it is there. `by_name` is how it is called by name, if it can be.
    pub fn add(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName>,
        running: Running<'_>,
    ) -> Result<Registered> {
        let mut types = lock(&self.types);
        let name = declared.name().to_owned();
        let live = |known: &&Type| known.declared.is_some();
        let same = types.all.iter().position(|known| id.is_some() && known.id == id && live(&known));
        if let Some(number) = same {
            if types.all[number].by_name.is_none() && by_name.is_some() {
                types.all[number].by_name = by_name;
                let names = names(&types.all);
                self.publish(|current| current.names = names);
            }
            return Ok(Registered(number as u16));
        }
        if types.all.iter().filter(live).any(|known| known.name == name) {
            return Err(Misuse::Option(format!("another procedure is registered as `{name}`")).into());
        }
        let number = types.all.len();
        if number >= usize::from(u16::MAX) {
            return Err(Misuse::Option("65,535 procedures were registered already".to_owned()).into());
        }
        lock(&self.names).push(name.clone());
        types.all.push(Type { id, name, declared: Some(Arc::new(declared)), by_name });
        match self.renew(&mut types, running) {
            Ok(()) => Ok(Registered(number as u16)),
            Err(error) => {
                types.all.pop();
                lock(&self.names).pop();
                Err(error)
            }
        }
    }

    /// Counts by number as counts by name, but for those of nothing.
    pub fn named(&self, counts: Vec<u64>) -> Vec<(String, u64)> {
        let names = lock(&self.names);
        let named = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        named.filter_map(|(number, count)| Some((names.get(number)?.clone(), count))).collect()
    }

    /// Removes a procedure. False if it was not there.
    pub fn remove(&self, number: usize, running: Running<'_>) -> Result<bool> {
        let mut types = lock(&self.types);
        let Some(declared) = types.all.get_mut(number).and_then(|known| known.declared.take()) else {
            return Ok(false);
        };
        self.renew(&mut types, running).inspect_err(|_| types.all[number].declared = Some(declared))?;
        Ok(true)
    }

    /// Puts the plan of what is registered now into force.
    fn renew(&self, types: &mut Types, running: Running<'_>) -> Result<()> {
        let declared: Vec<Option<Declaration>> =
            types.all.iter().map(|known| known.declared.as_deref().cloned()).collect();
        let plan = Plan::new(&declared, self.options, self.tracking);
        let plan = if self.numbers_lazily { plan.numbered_lazily() } else { plan };
        if plan.vertices() > Plan::VERTICES_MAX {
            let most = Plan::VERTICES_MAX;
            return Err(
                Misuse::Option(format!("the procedures have more than {most} pieces together")).into()
            );
        }
        if let Some(analysis) = plan.analysis()
            && let Some(entangled) = &analysis.entangled
            && !planted(Mutant::ShelfPremiseUnchecked)
        {
            return Err(Misuse::Option(entangled.words(&analysis.graph)).into());
        }
        match self.change {
            PlanChange::Barrier => self.stop_and_change(types, plan, running),
            PlanChange::Transition => self.go_over(types, plan, running.clock),
        }
    }

    /// Changes the plan while no transaction runs.
    fn stop_and_change(&self, types: &Types, plan: Plan, running: Running<'_>) -> Result<()> {
        // Without a suspender it takes as long as it takes.
        let _taken = self.turn.take(None);
        self.close();
        let quiet = running.wait_ended();
        if quiet.is_ok() {
            self.publish(|current| *current = Current::new(types, plan.into()));
        }
        self.open();
        self.turn.give();
        quiet
    }

    /// Changes the plan while others run.
    fn go_over(&self, types: &mut Types, mut plan: Plan, clock: &EpochClock) -> Result<()> {
        clock.wait_passed(types.changed_in)?;
        let old = self.plan();
        if old.is_empty() {
            self.publish(|current| *current = Current::new(types, plan.into()));
            return Ok(());
        }
        if let Some(between) = old.between(&mut plan) {
            let before = lock(&self.current).clone();
            let between = Current::new(types, between.into()).both(&before);
            if let Err(error) = clock.wait_passed(self.put_in_place(between, clock)) {
                types.changed_in = self.put_in_place(before, clock);
                return Err(error);
            }
        }
        types.changed_in = self.put_in_place(Current::new(types, plan.into()), clock);
        Ok(())
    }

    /// Publishes what calls use from now on. Returns the last epoch in which a transaction may have begun
    /// without knowing of it.
    fn put_in_place(&self, next: Current, clock: &EpochClock) -> u64 {
        self.publish(|current| *current = next);
        // SeqCst: a transaction that begins in a later epoch than the one read now sees what was published
        // (its worker reads the version after it has pinned that epoch, with a SeqCst access in between).
        fence(Ordering::SeqCst);
        clock.now()
    }

    fn publish(&self, change: impl FnOnce(&mut Current)) {
        let mut current = lock(&self.current);
        change(&mut current);
        // Release: pairs with the load in `update`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Makes a vertex of the plan hot, or cold, unless another thread is changing the plan. Needs no waiting:
    /// each transaction may choose for itself what is tracked.
    #[cold]
    pub fn adapt(&self, known: &Plan, vertex: u16, hot: bool) {
        let Ok(_changing) = self.types.try_lock() else { return };
        if std::ptr::eq(&*self.plan(), known) {
            let plan = Arc::new(known.with(vertex, hot));
            self.publish(|current| current.plan = plan);
        }
    }

    /// The number of a procedure by its type.
    pub fn number_of(&self, id: TypeId) -> Option<usize> {
        let current = lock(&self.current);
        current.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| usize::from(*number))
    }

    /// What is registered.
    pub fn list(&self) -> Vec<ProcedureInfo> {
        let current = lock(&self.current);
        let info = |(name, call): &(String, Option<_>)| ProcedureInfo::new(name.clone(), call.is_some());
        current.names.iter().map(info).collect()
    }

    /// The plan.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.current).plan)
    }

    /// Brings what a session knows up to date. It is between pinning the epoch and its first access, so the
    /// plan stays until it ends; or it has not begun, and what it learns of the plan may be out of date.
    #[inline]
    pub fn update(&self, cache: &mut PlanCache) {
        if cache.version != self.version.load(Ordering::Acquire) {
            self.learn(cache);
        }
    }

    #[cold]
    fn learn(&self, cache: &mut PlanCache) {
        let current = lock(&self.current);
        cache.version = self.version.load(Ordering::Acquire);
        cache.plan = Arc::clone(&current.plan);
        cache.numbers.clone_from(&current.numbers);
        cache.names.clone_from(&current.names);
    }

    /// No transaction begins until `open`.
    pub fn close(&self) {
        // SeqCst: either a beginning transaction sees this, or its pin is seen by the thread that then waits
        // for the epoch.
        self.gate.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a `close`.
    pub fn open(&self) {
        self.gate.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether transactions may begin.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.gate.load(Ordering::SeqCst) == 0
    }

    /// Waits until transactions may begin; false where the suspender's time is over before. The caller is not pinned
    /// and holds nothing.
    #[cold]
    pub fn wait_open(&self, suspender: Option<&Suspender>) -> bool {
        wait_until(suspender, || self.is_open())
    }
}

/// What one has at a time, and others wait for.
#[derive(Default)]
pub struct Turn(AtomicU64);

impl Turn {
    /// Takes it if it is free; returns whether it was.
    fn try_take(&self) -> bool {
        // SeqCst, as for the gate; pairs with `give`.
        self.0.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Waits for it; false where the suspender's time is over before. Who has it does not wait for the caller.
    pub fn take(&self, suspender: Option<&Suspender>) -> bool {
        while !self.try_take() {
            // Relaxed: the exchange decides whether it is ours.
            if !wait_until(suspender, || self.0.load(Ordering::Relaxed) == 0) {
                return false;
            }
        }
        true
    }

    /// Ends a `take`.
    pub fn give(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// The procedures that are registered now, by name.
fn names(types: &[Type]) -> Names {
    let live = types.iter().filter(|known| known.declared.is_some());
    let mut names: Vec<_> = live.map(|known| (known.name.clone(), known.by_name)).collect();
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    names.into()
}

impl Current {
    fn new(types: &Types, plan: Arc<Plan>) -> Self {
        let live = types.all.iter().enumerate().filter(|(_, known)| known.declared.is_some());
        let numbers = live.filter_map(|(number, known)| Some((known.id?, number as u16))).collect();
        Self { plan, numbers, names: names(&types.all) }
    }

    /// Keeps only the procedures that `other` knows too.
    fn both(mut self, other: &Self) -> Self {
        self.numbers.retain(|known| other.numbers.contains(known));
        let known = |name: &str| other.names.iter().any(|(known, _)| known == name);
        self.names = self.names.iter().filter(|(name, _)| known(name)).cloned().collect();
        self
    }
}

impl PlanCache {
    /// The number of a procedure by its type.
    #[inline]
    pub fn number_of(&self, id: TypeId) -> Option<u16> {
        self.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| *number)
    }
}
