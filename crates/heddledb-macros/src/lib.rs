//! Macros of HeddleDB. Used through `heddledb`, which re-exports them.

mod errors;
mod expand;
mod objects;
mod parse;
mod procedure;
mod rank;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a table: its fields are the columns, a value is a row.
///
/// The struct has named fields, no generic parameters, and is `Clone`. At least one
/// field is marked `#[key]`.
///
/// ```
/// use heddledb::{Table, Text};
///
/// /// A bank's customer.
/// #[derive(Table, Clone, Copy, Debug)]
/// #[table(index(ByName(branch, last_name)), unique(ByEmail(email)))]
/// struct Customer {
///     #[key]
///     branch: u16,
///     #[key]
///     number: u32,
///     last_name: Text<16>,
///     email: Text<32>,
///     /// In cents.
///     #[group(hot)]
///     balance: i64,
///     #[group(hot)]
///     payments: u32,
/// }
///
/// use heddledb::table::{Index, Relation};
///
/// let row = Customer {
///     branch: 7,
///     number: 12,
///     last_name: Text::new("Ada").unwrap(),
///     email: Text::new("ada@example.org").unwrap(),
///     balance: 100,
///     payments: 0,
/// };
/// // The key of several #[key] fields is a tuple.
/// assert_eq!(row.key(), (7, 12));
/// // Each column is a constant of its own name.
/// assert_eq!(Customer::balance.name(), "balance");
/// assert_eq!(Customer::LAYOUT.name, "customer");
/// assert_eq!(Customer::LAYOUT.groups[Customer::balance.group()].name, "hot");
/// // Each index is a type.
/// assert_eq!(ByName::entry(&row), (7, row.last_name, 12));
/// assert_eq!(ByEmail::entry(&row), row.email);
/// ```
///
/// # Attributes of the struct
///
/// `#[table(..)]` takes these, separated by commas, and may be repeated:
///
/// | | |
/// |---|---|
/// | `name = "customer"` | The table's name in messages and reports. Without it: the struct's name in snake_case. |
/// | `hash` | The primary key is reached by a hash table: point access only, no scans. Without it: by a B+tree. |
/// | `append_only` | Rows are only inserted, each under a key of its own: the analysis of procedures then holds two inserts never to conflict. |
/// | `held` | A transaction that has queued for a row holds it to its end, under protocols that would hand it on before (`drp`). |
/// | `rank = 200` | Where the rows are in the order in which transactions queue for rows, under protocols by which they do (`drp`): 0 comes first, 255 last; without it 128. |
/// | `index(ByName(last, first))` | A secondary index `ByName` over these columns, which several rows may share. |
/// | `unique(ByEmail(email))` | A secondary index `ByEmail` over columns that no two rows may share. |
/// | `index(ByName(last(max = 24)))` | Of a column of any length, as `String`, an index states how many bytes it has room for. |
///
/// A table has at most 6 secondary indexes. They are ordered, whether or not the primary key is.
///
/// # Attributes of a field
///
/// | | |
/// |---|---|
/// | `#[key]` | The column is the primary key or, if several fields have it, the next part of it. |
/// | `#[key(max = 40)]` | The same for a column of any length, of which the key has room for so many bytes. |
/// | `#[group(hot, rank = 200)]` | The same, and the group has a rank of its own. Said at one of its columns. |
/// | `#[group(hot)]` | The column is in the column group `hot`. Without it: in the group `main`. Not for key columns, which are always in `main`. |
///
/// A column group is the unit of versioning, locking and validation: two transactions that touch
/// different groups of a row do not conflict. Columns that change together and often belong in a
/// group of their own.
///
/// A **rank** decides nothing but speed. Under `drp` a transaction queues for what it writes in the order of ranks, and has
/// each row when those before it in the queue are done. So what a decision rests on (`ensure`) comes first, with a low rank;
/// and what everyone changes and nobody needs, like a counter of events, last, with a high one: a transaction then has all
/// else done when the row comes to it, and hands it on at once. A rank is not stored, and may be another at each start.
///
/// A row that is **held** is as if behind a lock: who comes to it waits for the end of the transaction before, and not only for its
/// turn. That decides nothing but speed, too, and is the slower where many want a row. It is for comparing, and for rows that are best
/// kept out of long queues: a transaction behind a held row has no predecessor there whose verdict it would have to wait for later.
/// Give such a table a high rank, so that little else is queued for meanwhile. Entries of indexes are not held.
///
/// # Types
///
/// A column holds any `heddledb::table::ColumnValue`: `u8` to `u128`, `i8` to `i128`, `bool`, `f32`,
/// `f64`, `[u8; N]`, `Text<N>`, `String`, `Vec<u8>`, `Duration`, enums and structs around a value that derive it, and
/// `Option` of these; with the features of these names, the times and dates of `jiff`, the `Uuid` of
/// `uuid` and the `Decimal` of `rust_decimal`. A column of the key or of an index is a
/// `heddledb::table::Key` as well, which floats and decimals are not. `None` is before all values, and
/// in a unique index a value like the others. A key has at most 8 parts and 64 bytes.
///
/// A `String` or `Vec<u8>` is up to 16 MiB long, and lies outside of its row if it has more than 15 bytes. A key, and the key of
/// an index, has room for as many bytes of it as is stated, `max`, and takes `max + 1`; there it is a
/// `heddledb::table::UpTo<str, 40>` or `UpTo<[u8], 40>`, ordered by its bytes. A row with a longer one is refused before anything
/// is written (`Misuse::KeyTooLong`), and so is a key or a bound that is longer. An index with another `max` is another index, and is
/// built anew; a key with more is a migration that loses nothing, and one with less is refused where a row does not fit.
///
/// # Layout
///
/// A row is an array of 64-bit words. The column groups follow one another, `main` first, the
/// others in the order in which the struct names them; each starts at a word. Inside a group the
/// columns lie in the order of declaration, each at the next multiple of its type's alignment
/// (`ColumnType::align`); one of more than 8 bytes starts at a word, a smaller one never straddles
/// two. The row of the example takes 9 words:
///
/// ```text
/// group  bytes   column
/// main    0.. 2  branch
///         4.. 8  number
///         8..24  last_name
///        24..56  email
/// hot    56..64  balance
///        64..68  payments
/// ```
///
/// A table has at most 64 columns in at most 16 groups.
///
/// # What is generated
///
/// - For the struct, `heddledb::table::Relation` and `heddledb::Table`.
/// - For each column, an associated constant with the column's name, of type
///   `heddledb::Column<Self, V>`, as visible as the struct.
/// - For each index, a unit struct with the index's name, as visible as the struct, that
///   implements `heddledb::table::Relation` and `heddledb::table::Index`. Its `Columns` are the
///   indexed columns: the bare type of one, a tuple of several. The key of a `unique` index is
///   that. The key of an `index` is a flat tuple of the columns and then those parts of the
///   primary key that are not among them, which tell apart and order the rows with equal columns; it
///   has at most 8 parts.
#[proc_macro_derive(Table, attributes(table, key, group))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    parse::table(&input).map_or_else(syn::Error::into_compile_error, |table| expand::table(&table)).into()
}

/// Makes a struct the declaration of transactional objects: each field is one.
///
/// See `heddledb::objects` for what there is. The struct has named fields and no generic parameters, and is never a value. For each
/// field there is a constant of its name, on which operations are called, and a type named like the struct and the field, `ShopHits`
/// for `Shop::hits`, that stands for the object; both are as visible as the struct.
///
/// ```
/// use heddledb::objects::{TBox, TMap};
/// use heddledb::{Database, Objects};
///
/// #[derive(Objects)]
/// #[objects(name = "store")]
/// struct Shop {
///     hits: TBox<u64>,
///     #[hash]
///     stock: TMap<u64, i64>,
/// }
/// let db = Database::builder().objects::<Shop>().open()?;
/// db.session()?.run(|tx| Shop::hits.set(tx, 1))?;
/// # Ok::<(), heddledb::Error>(())
/// ```
///
/// | | |
/// |---|---|
/// | `#[objects(name = "store")]` | On the struct: what the names of its tables begin with, `store_hits`. Without it: the struct's name in snake_case. Two structs of one database have different names. |
/// | `#[hash]` | On a field that is a `TMap`: the map has no order, and its entries are found by a hash table. |
#[proc_macro_derive(Objects, attributes(objects, hash))]
pub fn derive_objects(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    objects::objects(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct an element of transactional objects: its fields are columns.
///
/// See `heddledb::objects::Element`. The struct has named fields, no generic parameters, and is `Clone`.
#[proc_macro_derive(Element, attributes(group))]
pub fn derive_element(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    objects::element(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a type a column type: an enum without fields, or a struct around one value.
///
/// A struct is stored, and told in the schema, like the value in it: its name can be changed at any time.
///
/// An enum is stored as a `u8`, or as the integer that its `#[repr(..)]` names. Its variants are in the schema, with
/// their numbers: `u8{Open=0,Sold=1}`. A directory opens if all variants that it knows have the numbers that they had;
/// more may have come.
///
/// Both can be had from and made `heddledb::table::dynamic::Value`s, an enum by the names of its variants.
#[proc_macro_derive(ColumnValue)]
pub fn derive_column_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    value::column_value(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a type a key, or a part of one: an enum without fields, or a struct around a key.
///
/// The enum is ordered by the numbers of its variants, the struct like the key in it: both as by `#[derive(PartialOrd)]`.
#[proc_macro_derive(Key)]
pub fn derive_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    value::key(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function a procedure: a transaction type whose accesses are known before it runs.
///
/// The function stays, under its name and for whoever calls it. Each access in it now says its *site*, the
/// number of this call of a table operation in the body. A unit struct with the function's name in
/// CamelCase stands for the procedure; it implements `heddledb::procedure::Procedure` and, if the function
/// only reads, `ReadProcedure`. If all its parameters and its result have serde's traits, it can be called by
/// name as well (`heddledb::procedure::NamedProcedure`).
///
/// ```
/// use heddledb::procedure::Declaration;
/// use heddledb::{Error, ReadTransaction, Result, Table, Transaction, procedure};
///
/// #[derive(Table, Clone, Copy)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// #[derive(Table, Clone, Copy)]
/// #[table(append_only)]
/// struct Entry {
///     #[key]
///     id: u64,
///     amount: i64,
/// }
///
/// #[procedure]
/// fn funds(tx: &mut impl ReadTransaction, id: u64) -> Result<i64> {
///     tx.get_columns(id, Account::balance)?.ok_or_else(|| Error::user("no such account"))
/// }
///
/// /// Moves money and takes a note.
/// #[procedure]
/// fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<()> {
///     if funds(tx, from)? < amount {
///         return Err(Error::user("too little"));
///     }
///     for (id, amount) in [(from, -amount), (to, amount)] {
///         tx.update_columns(id, Account::balance, |balance| *balance += amount)?;
///     }
///     tx.insert(Entry { id: from, amount })
/// }
///
/// let transfer = Declaration::of::<Transfer>();
/// let modes: Vec<_> = transfer.sites().iter().map(|site| (site.table, site.mode.word())).collect();
/// assert_eq!(modes, [("account", "read"), ("account", "update"), ("entry", "insert")]);
/// ```
///
/// # The function
///
/// It is free, and its first parameter is a `&mut impl Transaction`, or a `&mut impl ReadTransaction` if it
/// only reads. The other parameters are values or shared references; they are cloned for each execution of
/// the body. It has no parameters of type or lifetime, and returns a `heddledb::Result` of something that
/// does not borrow. The type's name must be free: a procedure `new_order` cannot stand beside a table
/// `NewOrder`, unless in another module.
///
/// # The body
///
/// It is ordinary Rust. The transaction, `tx` in the following, is used in two ways:
///
/// - For its operations, `tx.get_columns(..)`. The columns are written with their table: `Table::column`, a
///   tuple of such, an element of an array of such (`Table::COLUMNS[at]`, which counts as all of them), a
///   constant, or a variable that `let` binds to one of these earlier in the body. Where an operation takes
///   no columns, the table or index is in the turbofish, `tx.get::<Table>(..)`, or where else it can be
///   seen: in a row that is a struct literal, in `Scan::<Table>::..`, in the type of the parameter of an update's closure.
/// - As the first argument of another procedure, `helper(tx, ..)`. Its sites become sites of the caller.
///
/// What is inside a `for`, `while` or `loop` is one piece for the analysis. Both sides of an `if`, all arms
/// of a `match`, the `else` of a `let`, and what is on the right of `&&` and `||` are branches. `return`,
/// `break`, `continue` and `?` may be anywhere. `prefetch` is no access.
///
/// What cannot be followed is refused: an access inside a closure, an `async` block or a macro, and any other
/// use of `tx`. An error that a type is not found where a function is called with `tx` says that the
/// function is no procedure.
///
/// # Marks
///
/// Nobody has to write these; they are for who knows more than can be seen.
///
/// | | |
/// |---|---|
/// | `#[piece] { .. }` | The accesses of this block are one piece. |
/// | `#[causal]` | On a statement: the application orders its accesses after whatever they could conflict with. Under transaction chopping that may be a part of another call that has yet to commit: a body that does not find it gives `Conflict::Accessed`, and the part is executed again. |
/// | `#[deferred]` | On a statement whose accesses are all `add`: where the protocol defers additions, these take effect when no call that may see them is under way. Elsewhere it says nothing. A database that defers refuses to register procedures of which that could be seen. |
/// | `#[no_abort]` | On a statement of the body itself: from here on it does not give up. Only transaction chopping asks for it. |
/// | `#[later]` | On a statement of the body itself: from here on it does not give up, and which rows it comes to does not depend on what it reads from here on. Deterministic execution asks for it, and `dgcc` of procedures that tell what they access: it executes them in pieces. |
///
/// # Telling what a call will access
/// `#[procedure(announce = transfer_accesses)]` names a function with the same parameters, behind a
/// `&mut heddledb::procedure::Announcement`, which tells what a call with such arguments will access. Protocols that order calls by that
/// (`dgcc`, `dataflow`) need not execute the body to find out. It may tell too much, and too little where there is no mark `#[later]`: see
/// there.
///
/// ```
/// use heddledb::procedure::Announcement;
/// use heddledb::protocol::Kind;
/// use heddledb::{Database, Error, Result, Table, Transaction, procedure};
///
/// #[derive(Table, Clone, Copy)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// fn transfer_accesses(to: &mut Announcement<'_>, from: u64, other: u64, _amount: i64) {
///     to.writes(from, Account::balance);
///     to.writes(other, Account::balance);
/// }
///
/// #[procedure(announce = transfer_accesses)]
/// fn transfer(tx: &mut impl Transaction, from: u64, other: u64, amount: i64) -> Result<()> {
///     tx.add(Account::balance, from, -amount)?;
///     tx.add(Account::balance, other, amount)?;
///     Ok(())
/// }
///
/// let db = Database::builder().protocol(Kind::Dgcc).procedure::<Transfer>().open()?;
/// let mut session = db.session()?;
/// session.run(|tx| (0..2).try_for_each(|id| tx.insert(Account { id, balance: 100 })))?;
/// session.call(Transfer, (0, 1, 30))?;
/// assert_eq!(db.metrics().stats.unforeseen, 0);
/// # Ok::<(), Error>(())
/// ```
#[proc_macro_attribute]
pub fn procedure(attribute: TokenStream, item: TokenStream) -> TokenStream {
    procedure::procedure(attribute.into(), item.into()).into()
}
