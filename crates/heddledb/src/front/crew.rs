//! Several sessions on one thread, of which each goes on where another waits (IC3 §5.2, suspend-wait).

use super::{Database, Session};
use crate::error::{Misuse, Result};
use heddledb_engine::sync::interleave;

impl Database {
    /// Runs `work` on so many sessions at once, all on this thread; returns what it returned for each of them, in the
    /// order of their numbers.
    ///
    /// A session's transaction that must wait for another transaction (a piece under `ic3`, a lock under
    /// `dl-detect` and `ordered-2pl`, a turn, a change of the plan) is suspended, and the thread goes on with
    /// the next session; it also does so after each transaction, and before one that conflicted is tried again.
    /// That pays where waits are long. Where they are short, one session that spins is faster, and that is what
    /// a session does elsewhere.
    ///
    /// Each session has a stack of 1 MiB, of which it takes what it touches. What stops the thread stops all of
    /// them: waiting for a commit to be durable, for a snapshot, or for anything of the caller's. So a session
    /// must not wait for another one of them in any other way than by its transactions.
    ///
    /// ```
    /// # use heddledb::{Database, Result, Table, Transaction};
    /// #[derive(Table, Clone, Copy)]
    /// struct Counter { #[key] id: u64, count: i64 }
    ///
    /// let db = Database::in_memory();
    /// db.session()?.run(|tx| tx.insert(Counter { id: 1, count: 0 }))?;
    /// let counts = db.crew(4, |_, session| session.run(|tx| tx.update_columns(1, Counter::count, |n| { *n += 1; *n })))?;
    /// assert_eq!(counts.into_iter().map(Result::unwrap).sum::<i64>(), 1 + 2 + 3 + 4);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`]; [`Misuse::System`] where there is no memory for a stack.
    ///
    /// # Panics
    /// When `work` does, after the other sessions have ended.
    pub fn crew<R>(&self, sessions: usize, work: impl Fn(usize, &mut Session) -> R) -> Result<Vec<R>> {
        let mut sessions = (0..sessions).map(|_| self.session()).collect::<Result<Vec<_>>>()?;
        let work = &work;
        let mut tasks = Vec::new();
        for (number, session) in sessions.iter_mut().enumerate() {
            tasks.push(move |suspender| {
                session.txn_mut().worker.suspend_by(Some(suspender));
                let result = work(number, session);
                session.txn_mut().worker.suspend_by(None);
                result
            });
        }
        interleave(tasks)
            .map_err(|error| Misuse::System(format!("no memory for a session's stack: {error}")).into())
    }
}
