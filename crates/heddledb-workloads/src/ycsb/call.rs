//! A transaction as a procedure, for protocols under which calls tell what they will access.
//!
//! Under others it is a closure: its accesses are data, so nothing can be analysed.

use super::operation::{Action, Input, Operation, Output};
use super::table::Fields;
use super::{Row, Ycsb};
use heddledb::procedure::{Announcement, Declaration, Procedure};
use heddledb::{Result, Scan, Transaction};
use std::marker::PhantomData;

/// Accesses of rows of this shape, as many as the input has.
pub(super) struct Transact<R>(PhantomData<R>);

impl<R> Default for Transact<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// The site of an access.
pub(super) fn site(action: Action) -> u16 {
    match action {
        Action::Read(_) | Action::ReadAll | Action::ReadAllIncrement => 0,
        Action::Increment | Action::Overwrite(_) => 1,
        Action::Insert => 2,
        Action::Scan(_) => 3,
    }
}

impl<R: Fields> Procedure for Transact<R> {
    const NAME: &'static str = "ycsb";
    const SITES: u16 = 4;
    type Arguments<'a> = (&'a Ycsb, &'a Input);
    type Output = Output;

    fn declare(declaration: &mut Declaration) {
        // It never gives up, and its input says what it accesses.
        declaration.later();
        declaration.repeat(|access| {
            access.get_row::<R>();
            access.update_row::<R>();
            access.insert::<R>();
            access.scan(Row::<R>::new());
        });
    }

    const ANNOUNCES: bool = true;

    fn announce((_, input): &Self::Arguments<'_>, announcement: &mut Announcement<'_>) {
        for Operation { key, action } in &input.operations {
            match *action {
                Action::Read(column) => announcement.reads(*key, R::FIELDS[usize::from(column)]),
                Action::ReadAll => announcement.reads_row::<R>(*key),
                Action::Increment => announcement.writes(*key, R::FIELDS[0]),
                Action::ReadAllIncrement => {
                    announcement.reads_row::<R>(*key);
                    announcement.writes(*key, R::FIELDS[0]);
                }
                Action::Overwrite(column) => announcement.writes(*key, R::FIELDS[usize::from(column)]),
                Action::Insert => announcement.writes_row::<R>(*key),
                Action::Scan(_) => announcement.scans(Scan::<R>::range(*key..)),
            }
        }
    }

    fn run<T: Transaction>(tx: &mut T, (ycsb, input): &Self::Arguments<'_>) -> Result<Output> {
        ycsb.execute_on::<R, T>(tx, input, true)
    }
}
