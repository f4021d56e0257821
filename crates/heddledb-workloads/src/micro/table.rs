//! The tables of the microbenchmark, and its transaction: both go by their number, so both come from one
//! list.
//!
//! A static analysis tells accesses apart by table, so each piece has a table type of its own. A run
//! declares and loads the first ones only; of the others there is code, but no data.
//!
//! Each of the sixteen (IC3 has up to sixty-four) costs the compiler some time under each protocol. So what is
//! done to a table stands once: both orders call the same piece, and loading and checking choose a table within
//! a transaction, so that not each of them brings a loop of attempts.
//!
//! The pieces and both orders are procedures. To the analysis a transaction has all the pieces, however many are
//! executed.
#![allow(missing_docs, reason = "sixteen tables alike")]

use super::{GaveUp, Input};
use crate::random::mix;
use heddledb::{Builder, Column, Error, Protocol, ReadTransaction, Result, Table, Transaction, procedure};
use std::hint::black_box;

/// How many tables there are.
pub const TABLES: usize = 16;
/// Bytes of a row beside its key and its counter.
const FILLER: usize = 92;

/// The filler of row `key` of table `number`: a hash of both.
fn filler(number: usize, key: u64) -> [u8; FILLER] {
    let mut bytes = [0; FILLER];
    let mut word = mix(key.wrapping_mul(TABLES as u64) + number as u64);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        word = mix(word);
    }
    bytes
}

/// Adds a row; one function for each table, as many inserts in one take the compiler longer.
#[inline(never)]
fn add<R: Table, T: Transaction>(tx: &mut T, row: R) -> Result<()> {
    tx.insert(row)
}

/// The counter of a row, and whether all else is as loaded; likewise.
#[inline(never)]
fn value<R: Table<Key = u64>, T: ReadTransaction>(
    tx: &mut T,
    number: usize,
    key: u64,
    columns: (Column<R, u64>, Column<R, [u8; FILLER]>),
) -> Result<Option<(u64, bool)>> {
    let row = tx.get_columns(key, columns)?;
    Ok(row.map(|(count, bytes)| (count, bytes == filler(number, key))))
}

macro_rules! tables {
    ($($name:ident $piece:ident $number:literal)*) => {
        $(
            /// One table: 64-bit key, 100 bytes of value that begin with a counter.
            #[derive(Table, Clone, Copy, Debug, PartialEq)]
            #[table(hash)]
            pub struct $name {
                #[key]
                pub key: u64,
                pub count: u64,
                pub filler: [u8; FILLER],
            }
        )*

        /// Declares the first `tables` tables, with `rows` rows each.
        pub(super) fn declare<P: Protocol>(mut builder: Builder<P>, tables: usize, rows: usize) -> Builder<P> {
            $(
                if $number < tables {
                    builder = builder.table::<$name>(rows);
                }
            )*
            builder
        }

        /// Adds row `key` of table `number`, as loaded.
        pub(super) fn insert<T: Transaction>(tx: &mut T, number: usize, key: u64) -> Result<()> {
            match number {
                $($number => add(tx, $name { key, count: 0, filler: filler(number, key) }),)*
                _ => Ok(()),
            }
        }

        /// The counter of row `key` of table `number`, and whether all else is as loaded.
        pub(super) fn look<T: ReadTransaction>(
            tx: &mut T,
            number: usize,
            key: u64,
        ) -> Result<Option<(u64, bool)>> {
            match number {
                $($number => value(tx, number, key, ($name::count, $name::filler)),)*
                _ => Ok(None),
            }
        }

        $(
            /// One piece: the accesses to one table.
            #[procedure]
            #[inline(never)]
            fn $piece(tx: &mut impl Transaction, input: &Input) -> Result<()> {
                let Some(piece) = input.piece($number) else { return Ok(()) };
                for access in piece {
                    if access.update {
                        tx.update_columns(access.key, $name::count, |count| *count += 1)?;
                    } else {
                        black_box(tx.get_columns(access.key, $name::count)?);
                    }
                }
                if input.gives_up_after($number) {
                    return Err(Error::user(GaveUp));
                }
                Ok(())
            }
        )*

        /// The transaction: piece after piece, from the first table to the last.
        #[procedure]
        pub fn forwards(tx: &mut impl Transaction, input: &Input) -> Result<()> {
            $($piece(tx, input)?;)*
            Ok(())
        }

        backwards!([$($piece)*]);
    };
}

/// The list of pieces turned round, and the transaction that goes through it.
macro_rules! backwards {
    ([$piece:ident $($more:tt)*] $($done:tt)*) => {
        backwards!([$($more)*] $piece $($done)*);
    };
    ([] $($piece:ident)*) => {
        /// The same pieces, from the last table to the first.
        #[procedure]
        pub fn backwards(tx: &mut impl Transaction, input: &Input) -> Result<()> {
            $($piece(tx, input)?;)*
            Ok(())
        }
    };
}

tables! {
    Table0 piece0 0 Table1 piece1 1 Table2 piece2 2 Table3 piece3 3
    Table4 piece4 4 Table5 piece5 5 Table6 piece6 6 Table7 piece7 7
    Table8 piece8 8 Table9 piece9 9 Table10 piece10 10 Table11 piece11 11
    Table12 piece12 12 Table13 piece13 13 Table14 piece14 14 Table15 piece15 15
}
