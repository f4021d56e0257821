//! Deferring transactions: what a body writes down instead of reading, and the plan that it becomes.
//!
//! | room | what is there |
//! |---|---|
//! | `operators` | memory for operators and results; the only unsafe code |
//! | `handle` | `Deferred`, `Inputs`, `Outcome`: what stands for values that are not known yet; `Later`, `Operator`: what can be kept |
//! | `plan` | `Plan`: steps, what each waits for, the verdict; the seam's [`Operators`](crate::seam::Operators) |

mod handle;
#[allow(unsafe_code, reason = "values of any types in one buffer")]
mod operators;
mod plan;

pub use handle::{Deferred, Inputs, Known, Later, Name, Operator, Outcome};
pub use operators::Store;
pub use plan::{Ensure, Map, Plan, Refusal, Step};

use crate::error::Result;
use crate::table::{Changeable, Columns, Relation, Table};
use crate::transaction::Transaction;

/// What a deferring transaction can do beside what any can: write *intentions* down on rows whose keys it knows. Nothing
/// is read while it does. Each gives a [`Deferred`], by which later intentions use its result.
///
/// Where the protocol defers, intentions are carried out after the body has ended, so that rows that are in demand are
/// handed from transaction to transaction; elsewhere each is carried out at once by the ordinary operation. A body means
/// the same under all.
///
/// **Operators** are functions of their inputs and of the row alone, `Copy + Send + Sync + 'static`: they capture what the
/// body knows (`move`), no references to the body's variables. They are run once for each attempt at most. One that panics
/// ends the transaction without effect, and the panic comes to the caller; but where the protocol defers, after a row was
/// handed on already, the database refuses to go on.
///
/// **Reading at once** is possible beside intentions ([`force`](Self::force), and all of [`Transaction`]): what was
/// deferred is carried out first, if it is on the same row, or on the same table in the case of a scan, and from then on
/// intentions are carried out at once. A savepoint does that, too.
///
/// **What cannot be deferred**: a change of columns that belong to the key, and of values that are not `Copy`, as those of any length: the
/// compiler refuses both. And of those that belong to an index, which is answered with
/// [`Misuse::NotDeferrable`](crate::Misuse::NotDeferrable). Carried out at once, and what was deferred before it, too, is a put or erase in a
/// table with indexes or with columns of any length, and what reads or changes such columns, if their values are `Copy` all the same.
pub trait Deferring: Transaction {
    /// Columns of the row with `key`, or `None`.
    fn look<C>(&mut self, key: <C::Table as Relation>::Key, columns: C) -> Result<Deferred<Option<C::Value>>>
    where
        C: Columns + Send + Sync + 'static,
        C::Value: Later;

    /// Lets `op` change columns of the row with `key`, and keeps what it returns; `None` if there is no such row.
    ///
    /// # Errors
    /// [`Misuse::NotDeferrable`](crate::Misuse::NotDeferrable).
    fn defer<C, I, V>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        with: I,
        op: impl Fn(&mut C::Value, I::Values) -> V + Operator,
    ) -> Result<Deferred<Option<V>>>
    where
        C: Changeable + Send + Sync + 'static,
        C::Value: Later,
        I: Inputs,
        V: Later;

    /// Adds the row that `make` makes, or replaces the one with its key, which is `key`: where `make` makes another, the
    /// transaction has no effect, and its caller hears [`Misuse::PutElsewhere`](crate::Misuse::PutElsewhere).
    fn put<T: Table + Later, I: Inputs>(
        &mut self,
        key: T::Key,
        with: I,
        make: impl Fn(I::Values) -> T + Operator,
    ) -> Result<()>;

    /// Inserts the row that `make` makes, whose key may depend on what is not known yet. Where the protocol defers, nobody waits
    /// for the row before it is made; if its key is in use, the transaction is tried again, with its intentions carried out at
    /// once. So are they if it intends something with a row of the table afterwards, which may be this one.
    ///
    /// # Errors
    /// As [`Transaction::insert`], to the caller of the transaction if not here.
    fn insert_with<T: Table + Later, I: Inputs>(
        &mut self,
        with: I,
        make: impl Fn(I::Values) -> T + Operator,
    ) -> Result<()>;

    /// Removes the row with `key`; false if there is none.
    fn erase<T: Table>(&mut self, key: T::Key) -> Result<Deferred<bool>>;

    /// A value that `function` makes of others.
    fn map<I: Inputs, V: Later>(
        &mut self,
        with: I,
        function: impl Fn(I::Values) -> V + Operator,
    ) -> Result<Deferred<V>>;

    /// What `body` writes down counts only if `condition` holds. The body itself runs in any case, since that may not be
    /// known yet. It can do nothing but write down: what reads or writes at once is answered with
    /// [`Misuse::EagerUnderCondition`](crate::Misuse::EagerUnderCondition). What stands for values made in it means
    /// nothing outside.
    fn when(&mut self, condition: Deferred<bool>, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()>
    where
        Self: Sized;

    /// Lets the transaction have no effect unless `condition` holds; its caller gets the reason then, a text or a
    /// [`Refusal`]. Nothing takes that back. Under a condition that does not hold, nothing is asked.
    ///
    /// # Errors
    /// The reason, if it is known already that the condition does not hold.
    fn ensure(&mut self, condition: Deferred<bool>, why: impl Into<Refusal>) -> Result<()>;

    /// Goes on with values at hand, for instance to use keys that depend on them. What was deferred before is carried out
    /// for it, so that later intentions are carried out at once.
    ///
    /// # Errors
    /// What `body` returns, and as [`Deferring::force`].
    fn then<I: Inputs, R>(
        &mut self,
        with: I,
        body: impl FnOnce(&mut Self, I::Values) -> Result<R>,
    ) -> Result<R>
    where
        Self: Sized;

    /// The value itself. What was deferred before is carried out for it, so that later intentions are carried out at once.
    ///
    /// # Errors
    /// Conflicts; the reason of an [`ensure`](Self::ensure) whose condition does not hold.
    fn force<V: Later>(&mut self, value: Deferred<V>) -> Result<V>;
}
