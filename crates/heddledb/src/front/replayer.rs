//! Calls of a log of commands: how sessions tell the engine of them, and how they are made again when a directory is opened.

use super::session::Session;
use crate::error::{Error, Result};
use crate::seam::{Replayer, Worker};
use crate::settings::{CallLogged, Durability, Versioned};
use heddledb_core::procedure::Procedure;
use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a log knows of a procedure, if it has a version.
pub(super) fn versioned<Q: Procedure>() -> Option<Versioned> {
    Q::VERSION.map(|version| Versioned {
        id: TypeId::of::<Q>(),
        name: Q::NAME,
        version,
        fingerprint: Q::FINGERPRINT,
        call: call::<Q>,
    })
}

/// A call of `Q` whose arguments are bytes of a log.
fn call<Q: Procedure>(session: &mut dyn Any, arguments: &[u8]) -> Result<()> {
    let session = session.downcast_mut::<Session>().expect("calls are made again on sessions");
    session.call_and::<Q, _>(&Q::decode(arguments)?, |_| Ok(()))
}

/// A session on which the commits of a log are made again.
struct OfLog(Session);

impl Replayer for OfLog {
    fn call(&mut self, call: CallLogged, arguments: &[u8]) -> Result<()> {
        let session = &mut self.0;
        catch_unwind(AssertUnwindSafe(|| call(session, arguments)))
            .unwrap_or_else(|_| Err(Error::user("it panicked")))
    }

    fn worker(&mut self) -> &mut dyn Worker {
        &mut *self.0.txn_mut().worker
    }
}

/// Makes one of a worker.
pub(super) fn replayer(worker: Box<dyn Worker>) -> Box<dyn Replayer> {
    let mut session = Session::new(worker, None);
    // What is made again is durable.
    session.durability = Durability::Epoch;
    session.limits.retries = u32::MAX;
    Box::new(OfLog(session))
}

impl Session {
    /// Tells the engine what the log is to say of the call that begins next.
    #[cold]
    pub(super) fn tell_of_call<Q: Procedure>(&mut self, arguments: &Q::Arguments<'_>) -> Result<()> {
        let procedure = Q::VERSION.map(|_| TypeId::of::<Q>());
        if let Some(bytes) = self.txn_mut().worker.call_at_hand(procedure) {
            Q::encode(arguments, bytes)?;
        }
        Ok(())
    }
}
