//! The procedures that a database knows, and how their set is changed.
//!
//! All registered procedures are analysed together, so a change makes a new [`Plan`]. Two plans must not be
//! in use at once, because under them a type may be cut differently. So a change closes the *gate*: who
//! begins a transaction waits; when all that were running have ended (two epochs later), the new plan takes the
//! place of the old one, and the gate opens.
//!
//! The same gate helps a transaction that cannot get through: it closes it, waits until no call is under way,
//! and runs. Who does so, or changes the plan, has the *turn*, so that a plan does not change under him.

use super::Session;
use super::chopping::Underway;
use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::procedure::{Declaration, Plan, Tracking};
use crate::protocol::{Execution, Protocol};
use crate::sync::{AtomicU64, Mutex, Ordering, Wait, lock, now_ns, spin_until};
use heddledb_analysis::Options;
use std::any::TypeId;
use std::sync::Arc;

/// A procedure that was registered, by whom it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(pub(crate) u16);

/// The registered procedures, and the plan made of them.
pub(crate) struct Procedures<P: Protocol> {
    /// By number. Locked for the length of a change.
    types: Mutex<Vec<Type<P>>>,
    /// Locked for moments: by whoever is told of a change, pinned in the epoch that the change waits for.
    current: Mutex<Current<P>>,
    /// Counts changes; read at each call.
    version: AtomicU64,
    /// Closed by so many.
    gate: AtomicU64,
    /// 1 while somebody has the turn.
    turn: AtomicU64,
    options: Options,
    tracking: Tracking,
    pub execution: Execution,
    underway: Underway,
}

/// A call of one procedure, its arguments and result as bytes.
pub(crate) type CallByName<P> = fn(&mut Session<P>, &[u8]) -> Result<Vec<u8>>;

/// A procedure that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcedureInfo {
    /// Its name.
    pub name: String,
    /// Whether it can be called by it, and not by its type only.
    pub by_name: bool,
}

/// What calls go by.
struct Current<P: Protocol> {
    plan: Arc<Plan>,
    /// The numbers of procedures that have a type.
    numbers: Vec<(TypeId, u16)>,
    names: Names<P>,
}

/// The registered procedures by name, in that order, with how they are called by it if they can be.
pub(crate) type Names<P> = Arc<[(String, Option<CallByName<P>>)]>;

struct Type<P: Protocol> {
    /// The procedure's type, if it has one.
    id: Option<TypeId>,
    name: String,
    /// `None` once it was removed.
    declared: Option<Arc<Declaration>>,
    by_name: Option<CallByName<P>>,
}

/// What a session knows of the plan.
pub(crate) struct Known<P: Protocol> {
    version: u64,
    pub plan: Arc<Plan>,
    numbers: Vec<(TypeId, u16)>,
    pub names: Names<P>,
}

impl<P: Protocol> Procedures<P> {
    pub fn new(options: &P::Options, sessions: usize) -> Self {
        let execution = P::execution(options);
        let chops = execution == Execution::Chopped;
        Self {
            types: Mutex::new(Vec::new()),
            current: Mutex::new(Current::default()),
            version: AtomicU64::new(1),
            gate: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            options: Plan::options(P::commutes(options), chops),
            tracking: P::tracking(options),
            execution,
            underway: Underway::new(if chops { sessions } else { 0 }),
        }
    }

    /// Adds a procedure, unless it is there. `by_name` is how it is called by name, if it can be.
    pub fn add(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName<P>>,
        clock: &EpochClock,
    ) -> Result<Registered> {
        let mut types = lock(&self.types);
        let name = declared.name().to_owned();
        let live = |known: &&Type<P>| known.declared.is_some();
        let same = types.iter().position(|known| id.is_some() && known.id == id && live(&known));
        if let Some(number) = same {
            if types[number].by_name.is_none() && by_name.is_some() {
                types[number].by_name = by_name;
                let names = names(&types);
                self.publish(|current| current.names = names);
            }
            return Ok(Registered(number as u16));
        }
        if types.iter().filter(live).any(|known| known.name == name) {
            return Err(Misuse::Option(format!("another procedure is registered as `{name}`")).into());
        }
        let number = types.len();
        if number >= usize::from(u16::MAX) {
            return Err(Misuse::Option("65,535 procedures were registered already".to_owned()).into());
        }
        types.push(Type { id, name, declared: Some(Arc::new(declared)), by_name });
        match self.renew(&types, clock) {
            Ok(()) => Ok(Registered(number as u16)),
            Err(error) => {
                types.pop();
                Err(error)
            }
        }
    }

    /// Removes a procedure. False if it was not there.
    pub fn remove(&self, number: usize, clock: &EpochClock) -> Result<bool> {
        let mut types = lock(&self.types);
        let Some(declared) = types.get_mut(number).and_then(|known| known.declared.take()) else {
            return Ok(false);
        };
        self.renew(&types, clock).inspect_err(|_| types[number].declared = Some(declared))?;
        Ok(true)
    }

    /// Makes the plan of what is registered now the one that is used.
    fn renew(&self, types: &[Type<P>], clock: &EpochClock) -> Result<()> {
        let declared: Vec<Option<Declaration>> =
            types.iter().map(|known| known.declared.as_deref().cloned()).collect();
        let plan = Arc::new(Plan::new(&declared, self.options, self.tracking));
        let live = types.iter().enumerate().filter(|(_, known)| known.declared.is_some());
        let numbers = live.filter_map(|(number, known)| Some((known.id?, number as u16))).collect();
        self.take_turn();
        self.close();
        let quiet = clock.wait_passed(clock.now());
        if quiet.is_ok() {
            self.publish(|current| *current = Current { plan, numbers, names: names(types) });
        }
        self.open();
        self.give_turn();
        quiet
    }

    fn publish(&self, change: impl FnOnce(&mut Current<P>)) {
        let mut current = lock(&self.current);
        change(&mut current);
        // Release: pairs with the load in `update`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Makes a vertex of the plan hot, or cold, unless somebody else changes the plan just now, or a transaction
    /// does not end soon. The caller's has ended.
    #[cold]
    pub fn adapt(&self, known: &Known<P>, vertex: u16, hot: bool, clock: &EpochClock) {
        /// For how long others wait for it at most.
        const PATIENCE_NS: u64 = 2_000_000;
        let Ok(_changing) = self.types.try_lock() else { return };
        if !Arc::ptr_eq(&self.plan(), &known.plan) {
            return;
        }
        let plan = Arc::new(known.plan.with(vertex, hot));
        if !self.try_turn() {
            return;
        }
        self.close();
        let (now, begun, mut wait) = (clock.now(), now_ns(), Wait::new());
        while !clock.passed(now) && now_ns() - begun < PATIENCE_NS {
            if !clock.advance() {
                wait.pause();
            }
        }
        if clock.passed(now) {
            self.publish(|current| current.plan = plan);
        }
        self.open();
        self.give_turn();
    }

    /// The calls that are under way, where calls are chopped.
    pub fn underway(&self) -> &Underway {
        &self.underway
    }

    /// The number of a procedure by its type.
    pub fn number_of(&self, id: TypeId) -> Option<usize> {
        let current = lock(&self.current);
        current.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| usize::from(*number))
    }

    /// What is registered.
    pub fn list(&self) -> Vec<ProcedureInfo> {
        let current = lock(&self.current);
        let info = |(name, call): &(String, Option<_>)| ProcedureInfo {
            name: name.clone(),
            by_name: call.is_some(),
        };
        current.names.iter().map(info).collect()
    }

    /// The plan.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.current).plan)
    }

    /// Brings what a session knows up to date. It is between pinning the epoch and its first access, so the
    /// plan stays until it ends; or it has not begun, and what it learns of the plan may be out of date.
    #[inline]
    pub fn update(&self, known: &mut Known<P>) {
        if known.version != self.version.load(Ordering::Acquire) {
            self.learn(known);
        }
    }

    #[cold]
    fn learn(&self, known: &mut Known<P>) {
        let current = lock(&self.current);
        known.version = self.version.load(Ordering::Acquire);
        known.plan = Arc::clone(&current.plan);
        known.numbers.clone_from(&current.numbers);
        known.names.clone_from(&current.names);
    }

    /// Whether the turn was free, and is the caller's now.
    fn try_turn(&self) -> bool {
        // SeqCst, as for the gate; pairs with `give_turn`.
        self.turn.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Waits for the turn. The caller is not pinned.
    pub fn take_turn(&self) {
        spin_until(|| self.try_turn());
    }

    /// Ends a `take_turn`.
    pub fn give_turn(&self) {
        self.turn.store(0, Ordering::SeqCst);
    }

    /// Nobody begins a transaction until `open`.
    pub fn close(&self) {
        // SeqCst: either who begins sees it, or his pin is seen by whoever then waits for the epoch.
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

    /// Waits until they may. The caller is not pinned and holds nothing.
    #[cold]
    pub fn wait_open(&self) {
        spin_until(|| self.is_open());
    }
}

/// The procedures that are registered now, by name.
fn names<P: Protocol>(types: &[Type<P>]) -> Names<P> {
    let live = types.iter().filter(|known| known.declared.is_some());
    let mut names: Vec<_> = live.map(|known| (known.name.clone(), known.by_name)).collect();
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    names.into()
}

impl<P: Protocol> Default for Current<P> {
    fn default() -> Self {
        Self { plan: Arc::default(), numbers: Vec::new(), names: Arc::default() }
    }
}

impl<P: Protocol> Default for Known<P> {
    fn default() -> Self {
        Self { version: 0, plan: Arc::default(), numbers: Vec::new(), names: Arc::default() }
    }
}

impl<P: Protocol> Known<P> {
    /// The number of a procedure by its type.
    #[inline]
    pub fn number_of(&self, id: TypeId) -> Option<u16> {
        self.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| *number)
    }
}
