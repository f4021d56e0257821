//! The procedures that a database knows, and how their set is changed.
//!
//! All registered procedures are analysed together, so a change makes a new [`Plan`]. Two plans must not be
//! in use at once, because under them a type may be cut differently. So a change closes the *gate*: who
//! begins a transaction waits; when all that were running have ended (two epochs later), the new plan takes the
//! place of the old one, and the gate opens.
//!
//! The same gate helps a transaction that cannot get through: it closes it, waits until no call is under way,
//! and runs.

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
pub(crate) struct Procedures {
    /// By number. Locked for the length of a change.
    types: Mutex<Vec<Type>>,
    /// Locked for moments: by whoever is told of a change, pinned in the epoch that the change waits for.
    current: Mutex<Current>,
    /// Counts changes; read at each call.
    version: AtomicU64,
    /// Closed by so many.
    gate: AtomicU64,
    options: Options,
    tracking: Tracking,
    pub execution: Execution,
    underway: Underway,
}

/// What calls go by.
#[derive(Default)]
struct Current {
    plan: Arc<Plan>,
    /// The numbers of procedures that have a type.
    numbers: Vec<(TypeId, u16)>,
}

struct Type {
    /// The procedure's type, if it has one.
    id: Option<TypeId>,
    name: String,
    /// `None` once it was removed.
    declared: Option<Arc<Declaration>>,
}

/// What a session knows of the plan.
#[derive(Default)]
pub(crate) struct Known {
    version: u64,
    pub plan: Arc<Plan>,
    numbers: Vec<(TypeId, u16)>,
}

impl Procedures {
    pub fn new<P: Protocol>(options: &P::Options, sessions: usize) -> Self {
        let execution = P::execution(options);
        let chops = execution == Execution::Chopped;
        Self {
            types: Mutex::new(Vec::new()),
            current: Mutex::new(Current::default()),
            version: AtomicU64::new(1),
            gate: AtomicU64::new(0),
            options: Plan::options(P::commutes(options), chops),
            tracking: P::tracking(options),
            execution,
            underway: Underway::new(if chops { sessions } else { 0 }),
        }
    }

    /// Adds a procedure, unless it is there.
    pub fn add(&self, id: Option<TypeId>, declared: Declaration, clock: &EpochClock) -> Result<Registered> {
        let mut types = lock(&self.types);
        let name = declared.name().to_owned();
        let live = |known: &&Type| known.declared.is_some();
        let same = types.iter().position(|known| id.is_some() && known.id == id && live(&known));
        if let Some(number) = same {
            return Ok(Registered(number as u16));
        }
        if types.iter().filter(live).any(|known| known.name == name) {
            return Err(Misuse::Option(format!("another procedure is registered as `{name}`")).into());
        }
        let number = types.len();
        if number >= usize::from(u16::MAX) {
            return Err(Misuse::Option("65,535 procedures were registered already".to_owned()).into());
        }
        types.push(Type { id, name, declared: Some(Arc::new(declared)) });
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
    fn renew(&self, types: &[Type], clock: &EpochClock) -> Result<()> {
        let declared: Vec<Option<Declaration>> =
            types.iter().map(|known| known.declared.as_deref().cloned()).collect();
        let plan = Arc::new(Plan::new(&declared, self.options, self.tracking));
        let live = types.iter().enumerate().filter(|(_, known)| known.declared.is_some());
        let numbers = live.filter_map(|(number, known)| Some((known.id?, number as u16))).collect();
        self.close();
        let quiet = clock.wait_passed(clock.now());
        if quiet.is_ok() {
            self.publish(Current { plan, numbers });
        }
        self.open();
        quiet
    }

    fn publish(&self, new: Current) {
        let mut current = lock(&self.current);
        *current = new;
        // Release: pairs with the load in `update`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Makes a vertex of the plan hot, or cold, unless somebody else changes the plan just now, or a transaction
    /// does not end soon. The caller's has ended.
    #[cold]
    pub fn adapt(&self, known: &Known, vertex: u16, hot: bool, clock: &EpochClock) {
        /// For how long others wait for it at most.
        const PATIENCE_NS: u64 = 2_000_000;
        let Ok(_changing) = self.types.try_lock() else { return };
        if !Arc::ptr_eq(&self.plan(), &known.plan) {
            return;
        }
        let plan = Arc::new(known.plan.with(vertex, hot));
        self.close();
        let (now, begun, mut wait) = (clock.now(), now_ns(), Wait::new());
        while !clock.passed(now) && now_ns() - begun < PATIENCE_NS {
            if !clock.advance() {
                wait.pause();
            }
        }
        if clock.passed(now) {
            self.publish(Current { plan, numbers: known.numbers.clone() });
        }
        self.open();
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

    /// The plan.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.current).plan)
    }

    /// Brings what a session knows up to date. It is between pinning the epoch and its first access, so the
    /// plan stays until it ends.
    #[inline]
    pub fn update(&self, known: &mut Known) {
        if known.version != self.version.load(Ordering::Acquire) {
            self.learn(known);
        }
    }

    #[cold]
    fn learn(&self, known: &mut Known) {
        let current = lock(&self.current);
        known.version = self.version.load(Ordering::Acquire);
        known.plan = Arc::clone(&current.plan);
        known.numbers.clone_from(&current.numbers);
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

impl Known {
    /// The number of a procedure by its type.
    #[inline]
    pub fn number_of(&self, id: TypeId) -> Option<u16> {
        self.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| *number)
    }
}
