//! Procedures that are called by name, with their arguments and results as bytes.

use super::{Builder, Database, Pending, Session};
#[cfg(doc)]
use crate::error::Misuse;
use crate::error::Result;
use crate::seam::CallByName;
use heddledb_core::procedure::{Declaration, NamedProcedure};
use std::any::{Any, TypeId};

impl Session {
    /// Calls a procedure that was registered by [`Builder::named_procedure`](crate::Builder::named_procedure) or [`Database::register_named`](crate::Database::register_named),
    /// by its name: as [`Session::call`](crate::Session::call), with arguments and result as bytes ([`NamedProcedure`]). With the
    /// feature `postcard`.
    ///
    /// Costs a search among the names and an indirect call more than [`Session::call`](crate::Session::call), the arguments' decoding,
    /// once, and the result's encoding, at each execution of the body: a result that cannot be encoded aborts.
    ///
    /// # Errors
    /// As for [`Session::call`](crate::Session::call), where [`Misuse::NotRegistered`] tells the names that are most alike;
    /// [`Misuse::NotByName`] for a procedure that was registered by its type only; [`Misuse::Undecodable`] for
    /// bytes that are not its arguments; [`Misuse::Unencodable`] for a result that has no bytes. Nothing was changed
    /// then.
    ///
    /// ```
    /// use heddledb::procedure::NamedProcedure;
    /// use heddledb::{Database, Misuse, Result, Table, Transaction, procedure};
    ///
    /// #[derive(Table, Clone, Copy)]
    /// struct Counter { #[key] id: u32, value: u64 }
    ///
    /// #[procedure]
    /// fn count(tx: &mut impl Transaction, id: u32) -> Result<u64> {
    ///     tx.update_columns(id, Counter::value, |value| { *value += 1; *value })
    /// }
    ///
    /// let db = Database::builder().named_procedure::<Count>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Counter { id: 1, value: 0 }))?;
    /// let result = session.call_named("count", &Count::encode_arguments(&1)?)?;
    /// assert_eq!(Count::decode_output(&result)?, 1);
    ///
    /// let error = session.call_named("count", &[]).unwrap_err();
    /// assert!(matches!(error.misuse(), Some(Misuse::Undecodable { procedure: "count", .. })));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn call_named(&mut self, name: &str, arguments: &[u8]) -> Result<Vec<u8>> {
        let call = self.txn_mut().worker.by_name(name)?;
        call(self, arguments)
    }

    /// Has an executor of the database call a procedure by its name: as [`Session::call_named`](crate::Session::call_named), submitted as
    /// [`Session::submit`](crate::Session::submit) does. With the feature `postcard`.
    ///
    /// # Errors
    /// As for [`Session::submit`](crate::Session::submit); what the name is not of is told here, and all else where the [`Pending`] is
    /// waited for.
    pub fn submit_named(&mut self, name: &str, arguments: Vec<u8>) -> Result<Pending<Vec<u8>>> {
        let call = self.txn_mut().worker.by_name(name)?;
        self.push_waiting((call, arguments), submitted)
    }
}

/// A call by name on an executor's session.
fn submitted(session: &mut Session, (call, arguments): &(CallByName, Vec<u8>)) -> Result<Vec<u8>> {
    call(session, arguments)
}

impl Database {
    /// As [`Database::register`](crate::Database::register), so that the procedure can also be called by name ([`Session::call_named`](crate::Session::call_named)). One
    /// that was registered before, by its type only, can be from then on. With the feature `postcard`.
    ///
    /// # Errors
    /// As for [`Database::register`](crate::Database::register).
    pub fn register_named<Q: NamedProcedure>(&self) -> Result<()> {
        let declaration = Declaration::of::<Q>();
        self.engine.register(Some(TypeId::of::<Q>()), declaration, Some(call::<Q>)).map(|_| ())
    }
}

impl Builder {
    /// Registers a procedure at once, to be called by its type or by its name; see
    /// [`Database::register_named`](crate::Database::register_named). With the feature `postcard`.
    pub fn named_procedure<Q: NamedProcedure>(self) -> Self {
        self.procedure_by_name::<Q>(call::<Q>)
    }
}

/// A call of `Q`, all in bytes.
fn call<Q: NamedProcedure>(session: &mut dyn Any, bytes: &[u8]) -> Result<Vec<u8>> {
    let session = session.downcast_mut::<Session>().expect("only sessions call by name");
    session.call_and::<Q, _>(&Q::decode_arguments(bytes)?, |output| Q::encode_output(&output))
}
