//! The tables, the procedures and the channels of the tests beside this file.

use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::{Declaration, PlanChange, Tracking};
use heddledb::protocol::{Choice, Htm, Kind};
use heddledb::{Database, Error, ReadTransaction, Result, Session, Table, Transaction, Txn};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// A row of which two columns share a group.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "piece_first")]
pub(super) struct First {
    #[key]
    pub(super) key: u64,
    pub(super) one: i64,
    pub(super) two: i64,
}

/// The table of a second piece.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "piece_second")]
pub(super) struct Second {
    #[key]
    pub(super) key: u64,
    pub(super) value: i64,
}

/// A table that nobody writes: who gets here has ended its pieces.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "piece_last")]
pub(super) struct Last {
    #[key]
    pub(super) key: u64,
}

/// The sites of every procedure here: all of the first table, then all of the second, and the last.
pub(super) const FIRST: u16 = 0;
pub(super) const SECOND: u16 = 1;
pub(super) const LAST: u16 = 2;

pub(super) fn declare(name: &str) -> Declaration {
    let mut declaration = Declaration::new(name);
    declaration.upsert::<First>();
    declaration.upsert::<Second>();
    declaration.get_row::<Last>();
    declaration
}

/// Two additions, which commute where nobody reads what they add to; it may promise not to give up after the first.
pub(super) fn two_additions(name: &str, promises: bool) -> Declaration {
    let mut declaration = Declaration::new(name);
    if promises {
        declaration.no_abort();
    }
    declaration.add(First::one);
    if promises {
        declaration.later();
    }
    declaration.add(Second::value);
    declaration
}

/// The protocol, with calls that are cut into their pieces each time, also where it would execute them as one.
pub(super) fn always_cut(kind: Kind) -> Choice {
    match kind.choice() {
        Choice::Htm(options) => Htm { joins: false, ..options }.into(),
        others => others,
    }
}

/// Whether everything is shown from the start.
pub(super) fn always_tracks(kind: Kind) -> bool {
    kind.tracking() == Tracking::Always
}

/// Waits at most so long for another thread: a test that fails does so in time.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(in crate::conformance) fn await_from<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("the other call gets as far as that")
}

pub(super) struct World {
    pub(super) db: Database,
    pub(super) call: Registered,
}

impl World {
    /// Rows 1 and 2 of both tables, all zero.
    pub(super) fn new(protocol: impl Into<Choice>) -> Self {
        Self::changing(protocol, PlanChange::default())
    }

    /// The same, whose plan changes in that way.
    pub(super) fn changing(protocol: impl Into<Choice>, how: PlanChange) -> Self {
        let builder = Database::builder().protocol(protocol);
        let db = builder.plan_change(how).open().expect("it opens");
        let call = db.register_declared(declare("both")).expect("it is registered");
        let mut session = db.session().expect("there are sessions");
        let fill = |tx: &mut Txn| {
            for key in 1..3 {
                tx.insert(First { key, one: 0, two: 0 })?;
                tx.insert(Second { key, value: 0 })?;
            }
            Ok(())
        };
        session.run(fill).expect("the tables are empty");
        Self { db, call }
    }

    pub(super) fn session(&self) -> Session {
        self.db.session().expect("there are sessions")
    }

    /// What calls add to: the first table's one and the second's value, of row 1.
    pub(super) fn sums(&self) -> (i64, i64) {
        let sums = self.session().run(|tx| {
            Ok((tx.get_columns(1, First::one)?.unwrap_or(0), tx.get_columns(1, Second::value)?.unwrap_or(0)))
        });
        sums.expect("nobody else is there")
    }

    /// Adds one to what `sums` tells of; between its two pieces, once, it does something else.
    pub(super) fn raise_both(&self, between: impl FnOnce()) -> Result<()> {
        let mut between = Some(between);
        self.session().call_registered(self.call, |tx| {
            tx.at(FIRST);
            tx.update_columns(1, First::one, |one| *one += 1)?;
            tx.at(SECOND);
            // With this access the first piece has ended.
            tx.get_columns(1, Second::value)?;
            if let Some(between) = between.take() {
                between();
            }
            tx.update_columns(1, Second::value, |value| *value += 1)
        })
    }

    /// Shows a write to the first table and passes the second, then tells, and waits for leave to go on; once,
    /// however often it is executed.
    pub(super) fn show_and_wait(
        &self,
        session: &mut Session,
        told: &Sender<()>,
        leave: &Receiver<bool>,
        write: impl Fn(&mut Txn) -> Result<()>,
    ) -> Result<()> {
        let mut waited = None;
        session.attempt_registered(self.call, |tx| {
            tx.at(FIRST);
            write(tx)?;
            tx.at(SECOND);
            tx.get_columns(2, Second::value)?;
            tx.at(LAST);
            tx.get::<Last>(1)?;
            let goes_on = *waited.get_or_insert_with(|| {
                told.send(()).expect("the other thread is there");
                await_from(leave)
            });
            if goes_on { Ok(()) } else { Err(Error::user("it gives up")) }
        })
    }
}
