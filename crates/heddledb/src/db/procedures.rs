//! The procedures that a database knows, and how their set is changed.
//!
//! All registered procedures are analysed together, so a change makes a new [`Plan`]. Two plans must not be
//! in use at once, because under them a type may be cut differently. So a change closes the *gate*: who
//! begins a transaction waits; when all that were running have ended (two epochs later), the new plan takes the
//! place of the old one, and the gate opens.
//!
//! The same gate helps a transaction that cannot get through: it closes it, waits until no call is under way,
//! and runs.

use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::procedure::{Declaration, Plan, Tracking};
use crate::sync::{AtomicU64, Mutex, Ordering, Wait, lock, now_ns};
use heddledb_analysis::Options;
use std::any::TypeId;
use std::sync::Arc;

/// A procedure that was registered, by whom it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(pub(crate) u16);

/// The registered procedures, and the plan made of them.
pub(crate) struct Procedures {
    registered: Mutex<State>,
    /// Counts changes; read at each call.
    version: AtomicU64,
    /// Closed by so many.
    gate: AtomicU64,
    options: Options,
    tracking: Tracking,
}

struct State {
    /// By number.
    types: Vec<Type>,
    plan: Arc<Plan>,
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
    pub fn new(options: Options, tracking: Tracking) -> Self {
        let state = State { types: Vec::new(), plan: Arc::default() };
        Self {
            registered: Mutex::new(state),
            version: AtomicU64::new(1),
            gate: AtomicU64::new(0),
            options,
            tracking,
        }
    }

    /// Adds a procedure, unless it is there.
    pub fn add(&self, id: Option<TypeId>, declared: Declaration, clock: &EpochClock) -> Result<Registered> {
        let mut state = lock(&self.registered);
        let name = declared.name().to_owned();
        let live = |known: &&Type| known.declared.is_some();
        if let Some(number) =
            state.types.iter().position(|known| known.id == id && live(&known) && id.is_some())
        {
            return Ok(Registered(number as u16));
        }
        if state.types.iter().filter(live).any(|known| known.name == name) {
            return Err(Misuse::Option(format!("another procedure is registered as `{name}`")).into());
        }
        let number = state.types.len();
        if number >= usize::from(u16::MAX) {
            return Err(Misuse::Option("65,535 procedures were registered already".to_owned()).into());
        }
        state.types.push(Type { id, name, declared: Some(Arc::new(declared)) });
        match self.renew(&mut state, clock) {
            Ok(()) => Ok(Registered(number as u16)),
            Err(error) => {
                state.types.pop();
                Err(error)
            }
        }
    }

    /// Removes a procedure. False if it was not there.
    pub fn remove(&self, number: usize, clock: &EpochClock) -> Result<bool> {
        let mut state = lock(&self.registered);
        let Some(declared) = state.types.get_mut(number).and_then(|known| known.declared.take()) else {
            return Ok(false);
        };
        self.renew(&mut state, clock).inspect_err(|_| state.types[number].declared = Some(declared))?;
        Ok(true)
    }

    /// Makes the plan of what is registered now the one that is used.
    fn renew(&self, state: &mut State, clock: &EpochClock) -> Result<()> {
        let types: Vec<Option<Declaration>> =
            state.types.iter().map(|known| known.declared.as_deref().cloned()).collect();
        let plan = Arc::new(Plan::new(&types, self.options, self.tracking));
        self.close();
        let quiet = clock.wait_passed(clock.now());
        if quiet.is_ok() {
            state.plan = plan;
            // Release: pairs with the load in `known`.
            self.version.fetch_add(1, Ordering::Release);
        }
        self.open();
        quiet
    }

    /// Makes a vertex of the plan hot, or cold, unless somebody else changes the plan just now, or a transaction
    /// does not end soon. The caller's has ended.
    #[cold]
    pub fn adapt(&self, known: &Known, vertex: u16, hot: bool, clock: &EpochClock) {
        /// For how long others wait for it at most.
        const PATIENCE_NS: u64 = 2_000_000;
        let Ok(mut state) = self.registered.try_lock() else { return };
        if !Arc::ptr_eq(&state.plan, &known.plan) {
            return;
        }
        let plan = Arc::new(state.plan.with(vertex, hot));
        self.close();
        let (now, begun, mut wait) = (clock.now(), now_ns(), Wait::new());
        while !clock.passed(now) && now_ns() - begun < PATIENCE_NS {
            if !clock.advance() {
                wait.pause();
            }
        }
        if clock.passed(now) {
            state.plan = plan;
            self.version.fetch_add(1, Ordering::Release);
        }
        self.open();
    }

    /// The number of a procedure by its type.
    pub fn number_of(&self, id: TypeId) -> Option<usize> {
        let state = lock(&self.registered);
        state.types.iter().position(|known| known.id == Some(id) && known.declared.is_some())
    }

    /// The number of a procedure by its name.
    pub fn number_named(&self, name: &str) -> Option<usize> {
        let state = lock(&self.registered);
        state.types.iter().position(|known| known.name == name && known.declared.is_some())
    }

    /// The plan.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.registered).plan)
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
        let state = lock(&self.registered);
        known.version = self.version.load(Ordering::Acquire);
        known.plan = Arc::clone(&state.plan);
        known.numbers.clear();
        let typed = state.types.iter().enumerate().filter(|(_, of_type)| of_type.declared.is_some());
        known.numbers.extend(typed.filter_map(|(number, of_type)| Some((of_type.id?, number as u16))));
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
        let mut wait = Wait::new();
        while !self.is_open() {
            wait.pause();
        }
    }
}

impl Known {
    /// The number of a procedure by its type.
    #[inline]
    pub fn number_of(&self, id: TypeId) -> Option<u16> {
        self.numbers.iter().find(|(known, _)| *known == id).map(|(_, number)| *number)
    }
}
