//! Transactional objects: boxes, counters, arrays, vectors, maps, queues and lists that live in a database.
//!
//! ```
//! use heddledb::objects::{Element, TArray, TBox, TCounter, TMap, TQueue};
//! use heddledb::{Database, Error, Objects};
//!
//! #[derive(Element, Clone, Copy, Debug, Default, PartialEq)]
//! struct Seat { buyer: u64, price: u32 }
//!
//! #[derive(Objects)]
//! struct Shop {
//!     hits: TBox<u64>,
//!     visits: TCounter,
//!     seats: TArray<Seat>,
//!     stock: TMap<u64, i64>,
//!     jobs: TQueue<(u64, u32)>,
//! }
//!
//! let db = Database::builder().objects::<Shop>().open()?;
//! let mut session = db.session()?;
//! session.run(|tx| {
//!     Shop::seats.grow(tx, 10, Seat { buyer: 0, price: 30 })?;
//!     Shop::stock.insert(tx, 7, 5)?;
//!     Shop::jobs.push(tx, (7, 1))
//! })?;
//! let job = session.run(|tx| {
//!     let Some((item, count)) = Shop::jobs.pop(tx)? else { return Ok(None) };
//!     Shop::stock.update(tx, item, |left| *left -= i64::from(count))?;
//!     Shop::seats.update(tx, 3, |seat| seat.buyer = 99)?;
//!     Shop::hits.update(tx, |hits| *hits += 1)?;
//!     Ok(Some(item))
//! })?;
//! assert_eq!(job, Some(7));
//! assert_eq!(session.read(|snapshot| Shop::stock.get(snapshot, 7))?, Some(4));
//! # Ok::<(), Error>(())
//! ```
//!
//! A struct with [`#[derive(Objects)]`](macro@Objects) declares objects: each field one. The struct is never a value. As a table
//! has a constant for each column, it has one for each object, `Shop::hits`, which is `Copy` and can be handed on. Operations take
//! the transaction: reads any [`ReadTransaction`](crate::ReadTransaction), so they work on snapshots, writes any
//! [`Transaction`](crate::Transaction). Those that end in `_later` take a [`Deferring`](crate::deferred::Deferring) one.
//!
//! **An object is a table**, `shop_hits`, with the rows of its elements, and maybe one more, `shop_jobs_head`, with a row of its own
//! numbers. So objects are transactional with one another and with tables, under every protocol; they are logged, recovered, copied,
//! exported and migrated as tables are, and tools see them. A column of an [`Element`] is a column of the table.
//!
//! | object | rows | what conflicts |
//! |---|---|---|
//! | [`TBox`] | one | writers with readers and writers |
//! | [`TCounter`] | one | additions with readers, but not with one another where the protocol can add |
//! | [`TArray`], [`TVector`] | one for each element, hashed by its index; the head has the length | uses of one element; a change of the length with [`len`](TArray::len), and one push or pop with another |
//! | [`TMap`] | one for each entry, ordered by its key, or `#[hash]` | uses of one key; an insert with a range in which it falls |
//! | [`TQueue`] | one for each element; the head has both ends, in column groups of their own | pushes with pushes, pops with pops; one with the other only where the queue is empty |
//! | [`TList`] | one for each element, with its neighbours in a group of their own | changes at one place; insertions with one another, since elements are numbered |
//!
//! **Cost.** An access is one look-up of a row, as with tables: a cache line of the index and then those of the row. An element takes
//! a row: its columns, key, and the protocol's words. A push or pop writes the head and one row. `Vec`s and `HashMap`s of
//! one thread are faster by an order of magnitude; see the README, "When does it pay?".
//!
//! **Not for procedures.** What a `#[procedure]` accesses has to be seen in its body, so objects are used in closures.

mod array;
mod cell;
mod element;
mod list;
mod map;
mod object;
mod queue;
mod row;

pub use array::{TArray, TVector};
pub use cell::{TBox, TCounter};
pub use element::{Chain, Element, Ends, Field, Length, Linked, Nothing};
pub use heddledb_macros::Objects;
pub use list::{Payload, TList};
pub use map::TMap;
pub use object::{Cells, Handle, Head, HeadRow, Object, Objects, Row, Shape, tables_of};
pub use queue::TQueue;
pub use row::{Cell, Held, Part, definition};

/// What the type of a declaration has in the place of its object.
#[derive(Clone, Copy, Debug)]
pub struct Declared;

/// The struct of a handle: of what it is, and of which object.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($type:ident),*>) => {
        $(#[$doc])*
        pub struct $name<$($type,)* O = $crate::objects::Declared>(std::marker::PhantomData<fn($($type,)* O)>);

        impl<$($type,)* O> Clone for $name<$($type,)* O> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($type,)* O> Copy for $name<$($type,)* O> {}

        impl<$($type,)* O: $crate::objects::Object> std::fmt::Debug for $name<$($type,)* O> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), O::NAME)
            }
        }

        impl<$($type,)* O> $name<$($type,)* O> {
            const NEW: Self = Self(std::marker::PhantomData);
        }
    };
}
use handle;
