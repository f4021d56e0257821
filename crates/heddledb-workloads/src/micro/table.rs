//! The tables of the microbenchmark, and its transaction: both go by the number of the piece, so both come from one
//! list.
//!
//! A static analysis tells accesses apart by table and column group, so no two pieces may share both. The first ten
//! pieces have a table type each. Each table type costs the compiler some time, so the others, up to
//! the sixty-four of IC3, share six: each has nine counters, in column groups of their own, and the rows of a piece are
//! its own, as they are in a table. A run declares the tables of its first pieces only.
//!
//! What is done to a table stands once: both orders call the same piece, and loading and checking choose a table within
//! a transaction, so that not each of them brings a loop of attempts.
//!
//! The pieces and both orders are procedures. To the analysis a transaction has all the pieces, however many are
//! executed.
#![allow(missing_docs, reason = "sixteen tables alike")]

use super::{GaveUp, Input};
use crate::random::mix;
use heddledb::{Builder, Column, Error, ReadTransaction, Result, Table, Transaction, procedure};
use std::hint::black_box;

/// How many pieces there are.
pub const PIECES: usize = 64;
/// How many of them have a table type of their own.
const ALONE: usize = 10;
/// How many share one of the other table types.
const SHARING: usize = 9;

/// Bytes of a row beside its key and its counter.
const FILLER: usize = 92;
/// Bytes of a row beside its key and its counters.
const WIDE_FILLER: usize = 100 - 8 * SHARING;

/// The key under which a piece's row is found.
#[inline(always)]
fn stored(number: usize, key: u64) -> u64 {
    /// More rows than a table may have.
    const ROWS: u32 = 48;
    if number < ALONE { key } else { key | (((number - ALONE) % SHARING) as u64) << ROWS }
}

/// The filler of row `key` of piece `number`: a hash of both.
fn filler<const BYTES: usize>(number: usize, key: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut word = mix(key.wrapping_mul(PIECES as u64) + number as u64);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        word = mix(word);
    }
    bytes
}

/// What is done to a counter.
#[inline(always)]
fn count_up(count: &mut u64) {
    *count += 1;
}

/// A table of this workload.
trait Counting: Table<Key = u64> {
    /// Row `key` of piece `number`, as loaded.
    fn loaded(number: usize, key: u64) -> Self;
}

/// Adds a row; one function for each table, as many inserts in one take the compiler longer.
#[inline(never)]
fn add<R: Counting, T: Transaction>(tx: &mut T, number: usize, key: u64) -> Result<()> {
    tx.insert(R::loaded(number, key))
}

/// The counter of a row, and whether all else is as loaded; likewise.
#[inline(never)]
fn value<R: Counting, T: ReadTransaction, const BYTES: usize>(
    tx: &mut T,
    number: usize,
    key: u64,
    columns: (Column<R, u64>, Column<R, [u8; BYTES]>),
) -> Result<Option<(u64, bool)>> {
    let row = tx.get_columns(stored(number, key), columns)?;
    Ok(row.map(|(count, bytes)| (count, bytes == filler(number, key))))
}

macro_rules! tables {
    ($($name:ident)*) => {
        $(
            /// The table of one piece: 64-bit key, 100 bytes of value that begin with a counter.
            #[derive(Table, Clone, Copy, Debug, PartialEq)]
            #[table(hash)]
            pub struct $name {
                #[key]
                pub key: u64,
                pub count: u64,
                pub filler: [u8; FILLER],
            }

            impl Counting for $name {
                fn loaded(number: usize, key: u64) -> Self {
                    Self { key: stored(number, key), count: 0, filler: filler(number, key) }
                }
            }
        )*
    };
}

macro_rules! wide_tables {
    ($($name:ident)*) => {
        $(
            /// The tables of nine pieces in one: 64-bit key, 100 bytes of value that begin with a counter for each.
            #[derive(Table, Clone, Copy, Debug, PartialEq)]
            #[table(hash)]
            pub struct $name {
                #[key]
                pub key: u64,
                #[group(g0)]
                pub count0: u64,
                #[group(g1)]
                pub count1: u64,
                #[group(g2)]
                pub count2: u64,
                #[group(g3)]
                pub count3: u64,
                #[group(g4)]
                pub count4: u64,
                #[group(g5)]
                pub count5: u64,
                #[group(g6)]
                pub count6: u64,
                #[group(g7)]
                pub count7: u64,
                #[group(g8)]
                pub count8: u64,
                pub filler: [u8; WIDE_FILLER],
            }

            impl Counting for $name {
                fn loaded(number: usize, key: u64) -> Self {
                    Self {
                        key: stored(number, key),
                        count0: 0,
                        count1: 0,
                        count2: 0,
                        count3: 0,
                        count4: 0,
                        count5: 0,
                        count6: 0,
                        count7: 0,
                        count8: 0,
                        filler: filler(number, key),
                    }
                }
            }
        )*
    };
}

macro_rules! pieces {
    ($forwards:ident $backwards:ident $($table:ident: $($column:ident $number:literal $piece:ident),+;)*) => {
        $($(
            /// One piece: the accesses to one table.
            #[procedure]
            #[inline(never)]
            fn $piece(tx: &mut impl Transaction, input: &Input) -> Result<()> {
                let Some(piece) = input.piece($number) else { return Ok(()) };
                for access in piece {
                    if access.update {
                        tx.update_columns(stored($number, access.key), $table::$column, count_up)?;
                    } else {
                        black_box(tx.get_columns(stored($number, access.key), $table::$column)?);
                    }
                }
                if input.gives_up_after($number) {
                    return Err(Error::user(GaveUp));
                }
                Ok(())
            }
        )+)*

        in_order!($forwards $($($piece)+)*);
        in_order!($backwards reversed [$($($piece)+)*]);
    };
}

/// A procedure that goes through pieces one after the other, or through the same list turned round.
macro_rules! in_order {
    ($name:ident reversed [$piece:ident $($more:ident)*] $($done:ident)*) => {
        in_order!($name reversed [$($more)*] $piece $($done)*);
    };
    ($name:ident reversed [] $($piece:ident)*) => {
        in_order!($name $($piece)*);
    };
    ($name:ident $($piece:ident)*) => {
        #[procedure]
        #[inline]
        fn $name(tx: &mut impl Transaction, input: &Input) -> Result<()> {
            $($piece(tx, input)?;)*
            Ok(())
        }
    };
}

/// What goes by the number of a piece.
macro_rules! by_number {
    ($($table:ident: $($column:ident $number:literal $piece:ident),+;)*) => {
        /// Declares the tables of the first `pieces` pieces, with `rows` rows each.
        pub(super) fn declare(mut builder: Builder, pieces: usize, rows: usize) -> Builder {
            $(
                let here = [$($number),+].iter().filter(|number| **number < pieces).count();
                if here > 0 {
                    builder = builder.table::<$table>(here * rows);
                }
            )*
            builder
        }

        /// Adds row `key` of piece `number`, as loaded.
        pub(super) fn insert<T: Transaction>(tx: &mut T, number: usize, key: u64) -> Result<()> {
            match number {
                $($($number => add::<$table, _>(tx, number, key),)+)*
                _ => Ok(()),
            }
        }

        /// The counter of row `key` of piece `number`, and whether all else is as loaded.
        pub(super) fn look<T: ReadTransaction>(
            tx: &mut T,
            number: usize,
            key: u64,
        ) -> Result<Option<(u64, bool)>> {
            match number {
                $($($number => value(tx, number, key, ($table::$column, $table::filler)),)+)*
                _ => Ok(None),
            }
        }
    };
}

tables! { Table0 Table1 Table2 Table3 Table4 Table5 Table6 Table7 Table8 Table9 }
wide_tables! { Wide0 Wide1 Wide2 Wide3 Wide4 Wide5 }

macro_rules! workload {
    (alone { $($alone:tt)* } sharing { $($sharing:tt)* }) => {
        by_number!($($alone)* $($sharing)*);
        pieces!(first_forwards first_backwards $($alone)*);
        pieces!(others_forwards others_backwards $($sharing)*);
    };
}

workload! {
    alone {
        Table0: count 0 piece0;
        Table1: count 1 piece1;
        Table2: count 2 piece2;
        Table3: count 3 piece3;
        Table4: count 4 piece4;
        Table5: count 5 piece5;
        Table6: count 6 piece6;
        Table7: count 7 piece7;
        Table8: count 8 piece8;
        Table9: count 9 piece9;
    }
    sharing {
        Wide0: count0 10 piece10, count1 11 piece11, count2 12 piece12, count3 13 piece13, count4 14 piece14,
            count5 15 piece15, count6 16 piece16, count7 17 piece17, count8 18 piece18;
        Wide1: count0 19 piece19, count1 20 piece20, count2 21 piece21, count3 22 piece22, count4 23 piece23,
            count5 24 piece24, count6 25 piece25, count7 26 piece26, count8 27 piece27;
        Wide2: count0 28 piece28, count1 29 piece29, count2 30 piece30, count3 31 piece31, count4 32 piece32,
            count5 33 piece33, count6 34 piece34, count7 35 piece35, count8 36 piece36;
        Wide3: count0 37 piece37, count1 38 piece38, count2 39 piece39, count3 40 piece40, count4 41 piece41,
            count5 42 piece42, count6 43 piece43, count7 44 piece44, count8 45 piece45;
        Wide4: count0 46 piece46, count1 47 piece47, count2 48 piece48, count3 49 piece49, count4 50 piece50,
            count5 51 piece51, count6 52 piece52, count7 53 piece53, count8 54 piece54;
        Wide5: count0 55 piece55, count1 56 piece56, count2 57 piece57, count3 58 piece58, count4 59 piece59,
            count5 60 piece60, count6 61 piece61, count7 62 piece62, count8 63 piece63;
    }
}

/// The transaction: piece after piece, from the first to the last.
#[procedure]
pub fn forwards(tx: &mut impl Transaction, input: &Input) -> Result<()> {
    first_forwards(tx, input)?;
    if input.pieces.len() > ALONE {
        others_forwards(tx, input)?;
    }
    Ok(())
}

/// The same pieces, from the last to the first.
#[procedure]
pub fn backwards(tx: &mut impl Transaction, input: &Input) -> Result<()> {
    if input.pieces.len() > ALONE {
        others_backwards(tx, input)?;
    }
    first_backwards(tx, input)
}
