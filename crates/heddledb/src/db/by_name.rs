//! Procedures that are called by name, with their arguments and results as bytes.

use super::procedures::{CallByName, Known};
use super::{Builder, Database, Inner, Session};
use crate::error::{Misuse, Result};
use crate::procedure::{Declaration, NamedProcedure};
use crate::protocol::Protocol;
use std::any::TypeId;

impl<P: Protocol> Session<P> {
    /// Calls a procedure that was registered by [`Builder::named_procedure`] or [`Database::register_named`],
    /// by its name: as [`Session::call`], with arguments and result as bytes ([`NamedProcedure`]). With the
    /// feature `postcard`.
    ///
    /// Costs a search among the names and an indirect call more than [`Session::call`], the arguments' decoding,
    /// once, and the result's encoding, at each execution of the body: a result that cannot be encoded aborts.
    ///
    /// # Errors
    /// As for [`Session::call`], where [`Misuse::NotRegistered`] tells the names that are most alike;
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
        let txn = self.txn_mut();
        let known = &mut txn.worker.known;
        txn.db.procedures.update(known);
        let call = known.by_name(name)?;
        call(self, arguments)
    }
}

impl<P: Protocol> Database<P> {
    /// As [`Database::register`], so that the procedure can also be called by name ([`Session::call_named`]). One
    /// that was registered before, by its type only, can be from then on. With the feature `postcard`.
    ///
    /// # Errors
    /// As for [`Database::register`].
    pub fn register_named<Q: NamedProcedure>(&self) -> Result<()> {
        let declaration = Declaration::of::<Q>();
        let Inner { procedures, clock, .. } = &*self.inner;
        procedures.add(Some(TypeId::of::<Q>()), declaration, Some(call::<Q, P>), clock).map(|_| ())
    }
}

impl<P: Protocol> Builder<P> {
    /// Registers a procedure at once, to be called by its type or by its name; see
    /// [`Database::register_named`]. With the feature `postcard`.
    pub fn named_procedure<Q: NamedProcedure>(mut self) -> Self {
        self.procedures.push((TypeId::of::<Q>(), Declaration::of::<Q>(), Some(call::<Q, P>)));
        self
    }
}

/// A call of `Q`, all in bytes.
fn call<Q: NamedProcedure, P: Protocol>(session: &mut Session<P>, bytes: &[u8]) -> Result<Vec<u8>> {
    session.call_and::<Q, _>(&Q::decode_arguments(bytes)?, |output| Q::encode_output(&output))
}

impl<P: Protocol> Known<P> {
    /// How a procedure is called by name.
    fn by_name(&self, name: &str) -> Result<CallByName<P>> {
        match self.names.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => self.names[at].1.ok_or_else(|| Misuse::NotByName { name: name.to_owned() }.into()),
            Err(_) => {
                let callable = self.names.iter().filter(|(_, call)| call.is_some());
                let alike = alike(name, callable.map(|(known, _)| known.as_str()));
                Err(Misuse::NotRegistered { name: name.to_owned(), alike }.into())
            }
        }
    }
}

/// Those of `names` that are most like `name`, the closest first.
#[cold]
fn alike<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    /// What a message can hold.
    const SHOWN: usize = 8;
    /// What is compared of a name, which may come from anywhere.
    const LETTERS: usize = 64;
    /// How many letters must be put in, left out or changed.
    fn distance(one: &str, other: &str) -> usize {
        let mut row: Vec<usize> = (0..=other.chars().take(LETTERS).count()).collect();
        for (above, letter) in one.chars().take(LETTERS).enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], above + 1);
            for (at, same) in other.chars().take(LETTERS).map(|wanted| wanted == letter).enumerate() {
                let changed = diagonal + usize::from(!same);
                diagonal = row[at + 1];
                row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
            }
        }
        row[row.len() - 1]
    }
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|known| distance(name, known));
    names.iter().take(SHOWN).map(|known| (*known).to_owned()).collect()
}
