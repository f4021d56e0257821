//! What only the project's own tools ask of databases, sessions and builders. Shown in `heddledb::internals`.

use super::session::told;
use super::submit::Executor;
use super::{Builder, Database, DeferringTxn, Pending, Session, Txn};
use crate::deferred::Outcome;
use crate::error::Result;
use crate::log::LogKind;
use crate::seam::{Callee, Open, Registered};
use crate::table::Definition;
use heddledb_core::kind::Execution;
use heddledb_core::procedure::{Announcement, Declaration, Plan};
use std::sync::Arc;

/// More of a [`Builder`].
pub trait BuilderInternals {
    /// Has another engine open the database: one on virtual cores.
    #[must_use]
    fn engine(self, open: Open) -> Self;

    /// Leaves indexes as the files have them: none is built or removed.
    #[must_use]
    fn keep_indexes(self) -> Self;

    /// Makes a relation that only its shape is known of, as [`Builder::table`] does a table.
    #[must_use]
    fn relation(self, definition: &'static Definition) -> Self;

    /// Has calls be submitted without executors of the database's own, where the protocol gathers them: the program executes
    /// them by [`DatabaseInternals::executor`]. What nobody executes so waits for ever, and others for it.
    #[must_use]
    fn executed_by_hand(self) -> Self;

    /// How the chosen protocol executes calls.
    fn execution(&self) -> Execution;

    /// Whether calls are to be logged as such.
    fn logs_calls(&self) -> bool;

    /// Whether the database will run on threads, and not on virtual cores.
    fn is_native(&self) -> bool;
}

impl BuilderInternals for Builder {
    fn engine(mut self, open: Open) -> Self {
        self.engine = open;
        self.native = false;
        self
    }

    fn keep_indexes(mut self) -> Self {
        self.settings.as_found = true;
        self
    }

    fn relation(self, definition: &'static Definition) -> Self {
        self.add([definition], 0)
    }

    fn executed_by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    fn execution(&self) -> Execution {
        self.protocol.promises().execution()
    }

    fn logs_calls(&self) -> bool {
        self.settings.log.kind == LogKind::Commands
    }

    fn is_native(&self) -> bool {
        self.native
    }
}

/// More of a [`Database`].
pub trait DatabaseInternals {
    /// Registers a procedure that has no type of its own, by what it declares.
    ///
    /// # Errors
    /// As for [`Database::register`].
    fn register_declared(&self, declaration: Declaration) -> Result<Registered>;

    /// Removes a procedure that was registered by what it declares; false if it was removed before.
    ///
    /// # Errors
    /// As for [`Database::unregister`].
    fn unregister_declared(&self, which: Registered) -> Result<bool>;

    /// Makes a vertex of the present plan hot, or cold, as calls do where they contend.
    fn adapt(&self, vertex: u16, hot: bool);

    /// The plan under which procedures run now.
    fn plan(&self) -> Arc<Plan>;

    /// What executes submitted calls where the protocol gathers them, step by step. Takes a session.
    ///
    /// # Errors
    /// As for [`Database::session`].
    fn executor(&self) -> Result<Executor>;
}

impl DatabaseInternals for Database {
    fn register_declared(&self, declaration: Declaration) -> Result<Registered> {
        self.engine.register(None, declaration, None)
    }

    fn unregister_declared(&self, which: Registered) -> Result<bool> {
        self.engine.unregister(Callee::Number(which))
    }

    fn adapt(&self, vertex: u16, hot: bool) {
        self.engine.adapt(vertex, hot);
    }

    fn plan(&self) -> Arc<Plan> {
        self.engine.plan()
    }

    fn executor(&self) -> Result<Executor> {
        Executor::new(&self.engine)
    }
}

/// More of a [`Session`].
pub trait SessionInternals {
    /// Calls a procedure that was registered by its declaration: as [`Session::run`], but where the protocol does, its
    /// body is executed piece by piece. The body must say before each access at which of the declared sites it
    /// stands, and may do nothing else than was declared.
    ///
    /// # Errors
    /// As for [`Session::run`]; [`Misuse::NotRegistered`](crate::Misuse::NotRegistered),
    /// [`Misuse::Diverged`](crate::Misuse::Diverged).
    fn call_registered<R>(&mut self, which: Registered, body: impl FnMut(&mut Txn) -> Result<R>)
    -> Result<R>;

    /// As [`SessionInternals::call_registered`], once; a conflict comes back as
    /// [`Error::Conflict`](crate::Error::Conflict).
    ///
    /// # Errors
    /// As there, and conflicts.
    fn attempt_registered<R>(
        &mut self,
        which: Registered,
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R>;

    /// As [`SessionInternals::attempt_registered`], where a function tells what the call will access, as that of a procedure does
    /// (`announce = ..`).
    ///
    /// # Errors
    /// As there.
    fn attempt_told<R>(
        &mut self,
        which: Registered,
        tell: impl Fn(&mut Announcement<'_>),
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R>;

    /// As [`Session::defer`], once; a conflict comes back as [`Error::Conflict`](crate::Error::Conflict).
    ///
    /// # Errors
    /// As there, and conflicts.
    fn attempt_defer<O: Outcome>(
        &mut self,
        body: impl FnMut(&mut DeferringTxn<'_>) -> Result<O>,
    ) -> Result<O::Values>;

    /// As [`Session::submit`], with what makes the call, on another session. It may do nothing else.
    ///
    /// # Errors
    /// As there.
    fn submit_as<A: Send + 'static, T: Send + 'static>(
        &mut self,
        arguments: A,
        call: fn(&mut Session, &A) -> Result<T>,
    ) -> Result<Pending<T>>;
}

/// What messages call a procedure without a type.
const NAME: &str = "of that number";

impl SessionInternals for Session {
    fn call_registered<R>(
        &mut self,
        which: Registered,
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R> {
        self.run_as(Some(Callee::Number(which)), NAME, body)
    }

    fn attempt_registered<R>(
        &mut self,
        which: Registered,
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R> {
        self.attempt_as(Some(Callee::Number(which)), NAME, body)
    }

    fn attempt_told<R>(
        &mut self,
        which: Registered,
        tell: impl Fn(&mut Announcement<'_>),
        mut body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R> {
        self.attempt_registered(which, |tx| {
            told(tx, &tell)?;
            body(tx)
        })
    }

    fn attempt_defer<O: Outcome>(
        &mut self,
        body: impl FnMut(&mut DeferringTxn<'_>) -> Result<O>,
    ) -> Result<O::Values> {
        self.attempt_deferring(body)
    }

    fn submit_as<A: Send + 'static, T: Send + 'static>(
        &mut self,
        arguments: A,
        call: fn(&mut Session, &A) -> Result<T>,
    ) -> Result<Pending<T>> {
        self.push_waiting(arguments, call)
    }
}
