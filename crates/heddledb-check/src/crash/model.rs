//! The tables of the crash tests, and what they should hold.
//!
//! Rows are few, so that a state is a small value that can be kept for every commit. Each table is declared with its index
//! in some lives, and without it in others; the ordered one with other columns, too, to which its rows are migrated.

use super::sums::{self, Summing, Sums};
use heddledb::internals::log::{LogKind, Manifest};
use heddledb::internals::random::Random;
use heddledb::storage::Simulated;
use heddledb::table::dynamic::RowValues;
use heddledb::table::{ColumnType, ColumnValue, KeyUpTo, UpTo, Words, WordsMut};
use heddledb::{
    Builder, Error, Migration, ReadTransaction, Result, Scan, Session, Table, Text, Transaction, procedure,
};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A row of the ordered table: three column groups and an index.
#[derive(Table, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[table(name = "crash_account", index(CrashAccountByOwner(owner)))]
pub struct Account {
    #[key]
    id: u64,
    owner: u64,
    #[group(money)]
    balance: i64,
    #[group(visits)]
    visits: i64,
    #[group(memo)]
    memo: Memo,
    label: Label,
}

/// A text that a row keeps from its insert on; where the table is declared with other columns, a `String`.
type Label = Text<24>;

/// A row of the hashed table: two column groups and a unique index.
#[derive(Table, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[table(name = "crash_note", hash, unique(CrashNoteByTag(tag(max = 40))))]
pub struct Note {
    #[key]
    id: u32,
    tag: Tag,
    memo: Memo,
    #[group(count)]
    count: i64,
}

/// A text of many lengths, stored as a `String`, and here the number that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo(u16);

impl Memo {
    fn draw(random: &mut Random) -> Self {
        Self(random.below(1_000) as u16)
    }

    fn text(self) -> String {
        let mut text = format!("{}:", self.0);
        text.extend(
            (0..u32::from(self.0) * 7 % 300).map(|at| (b'a' + ((u32::from(self.0) + at) % 26) as u8) as char),
        );
        text
    }
}

impl ColumnValue for Memo {
    const TYPE: ColumnType = String::TYPE;
    /// What is no text of a memo is one that nobody has stored.
    fn load(source: &impl Words, offset: usize) -> Self {
        let text = String::load(source, offset);
        let number = text.split(':').next().and_then(|number| number.parse().ok());
        number.map(Self).filter(|memo| memo.text() == text).unwrap_or(Self(u16::MAX))
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.text().store(target, offset);
    }
}

/// What a unique index has, stored as a `String`, which is not in its row, and here what it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tag {
    note: u32,
    number: u64,
}

impl Tag {
    fn text(self) -> String {
        format!("the tag of note {} is {}", self.note, self.number)
    }
}

impl ColumnValue for Tag {
    const TYPE: ColumnType = String::TYPE;
    /// What is no text of a tag is one that nobody has stored.
    fn load(source: &impl Words, offset: usize) -> Self {
        let text = String::load(source, offset);
        let mut numbers = text.split(' ').filter_map(|word| word.parse().ok());
        let (note, number) = (numbers.next().unwrap_or(u64::MAX), numbers.next().unwrap_or(u64::MAX));
        Some(Self { note: note as u32, number })
            .filter(|tag| tag.text() == text)
            .unwrap_or(Self { note: u32::MAX, number: 0 })
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.text().store(target, offset);
    }
}

impl<const N: usize> KeyUpTo<N> for Tag {
    type Key = UpTo<str, N>;
    fn key_up_to(&self) -> Self::Key {
        self.text().into()
    }
}

/// The same tables without their indexes.
mod plain {
    use heddledb::Table;

    #[derive(Table, Clone, Copy)]
    #[table(name = "crash_account")]
    pub struct Account {
        #[key]
        pub id: u64,
        pub owner: u64,
        #[group(money)]
        pub balance: i64,
        #[group(visits)]
        pub visits: i64,
        #[group(memo)]
        pub memo: super::Memo,
        pub label: super::Label,
    }

    #[derive(Table, Clone, Copy)]
    #[table(name = "crash_note", hash)]
    pub struct Note {
        #[key]
        pub id: u32,
        pub tag: super::Tag,
        pub memo: super::Memo,
        #[group(count)]
        pub count: i64,
    }
}

/// The ordered table with wider columns, a further one, in another order.
mod wide {
    use heddledb::Table;

    #[derive(Table, Clone)]
    #[table(name = "crash_account")]
    pub struct Account {
        #[group(visits)]
        pub visits: i64,
        pub owner: u128,
        #[key]
        pub id: u64,
        pub extra: Option<u32>,
        pub label: String,
        #[group(memo)]
        pub memo: super::Memo,
        #[group(money)]
        pub balance: i64,
    }
}

impl From<Account> for wide::Account {
    fn from(Account { id, owner, balance, visits, memo, label }: Account) -> Self {
        Self { id, owner: owner.into(), balance, visits, memo, label: label.to_string(), extra: None }
    }
}

impl From<wide::Account> for Account {
    fn from(wide::Account { id, owner, balance, visits, memo, label, .. }: wide::Account) -> Self {
        Self { id, owner: owner as u64, balance, visits, memo, label: Label::truncated(&label) }
    }
}

/// From any declaration to any other, as a later version of the program than all that have changed the directory.
fn migration(taken: u64) -> Migration {
    let narrowed = |row: &RowValues| Ok((row.get::<u128>("owner")? as u64).into());
    let shortened = |row: &RowValues| Ok(row.get::<&str>("label")?.into());
    let said = Migration::new().after(taken).drop("crash_account", "extra");
    said.set_with("crash_account", "owner", narrowed).set_with("crash_account", "label", shortened)
}

/// Rows of both declarations, from one to the other.
macro_rules! conversions {
    ($name:ident: $($column:ident)*) => {
        impl From<$name> for plain::$name {
            fn from($name { $($column),* }: $name) -> Self {
                Self { $($column),* }
            }
        }
        impl From<plain::$name> for $name {
            fn from(plain::$name { $($column),* }: plain::$name) -> Self {
                Self { $($column),* }
            }
        }
    };
}
conversions!(Account: id owner balance visits memo label);
conversions!(Note: id tag memo count);

/// How the tables are declared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Indexes {
    accounts: Accounts,
    notes: bool,
}

/// How the ordered table is declared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Accounts {
    /// With its index.
    Indexed,
    /// Without.
    Plain,
    /// With other columns.
    Wide,
}

impl Indexes {
    /// Mostly all of them.
    pub fn draw(random: &mut Random) -> Self {
        let accounts = match random.below(8) {
            0 | 1 => Accounts::Plain,
            2 => Accounts::Wide,
            _ => Accounts::Indexed,
        };
        Self { accounts, notes: random.below(4) != 0 }
    }

    /// All of them: what programs can be called with.
    pub const ALL: Self = Self { accounts: Accounts::Indexed, notes: true };

    /// Whether these are all.
    pub fn are_all(self) -> bool {
        self == Self::ALL
    }

    /// The same, or all of them, where the log has calls that are to be made again: these need the tables that they know.
    pub fn settled(self, disk: &Simulated) -> Self {
        let manifest = Manifest::read(&disk.after_kill()).ok().flatten();
        let has_calls = manifest.is_some_and(|manifest| {
            manifest.generations.iter().any(|generation| generation.kind == LogKind::Commands)
        });
        if has_calls { Self::ALL } else { self }
    }

    /// The same, as far as a disk can be read by it: one that is only read is not migrated.
    pub fn to_read(self, disk: &Simulated) -> Self {
        let settled = self.settled(disk);
        if settled != self {
            return settled;
        }
        let manifest = Manifest::read(&disk.after_kill()).ok().flatten();
        let is_wide = manifest.is_some_and(|manifest| {
            let mut entries = manifest.relations.iter();
            entries.any(|entry| entry.name == "crash_account" && entry.schema.contains("extra"))
        });
        let accounts = match (is_wide, self.accounts) {
            (true, _) => Accounts::Wide,
            (false, Accounts::Wide) => Accounts::Plain,
            (false, accounts) => accounts,
        };
        Self { accounts, ..self }
    }

    /// Declares the tables of a database on this disk.
    pub fn declare(self, builder: Builder, disk: &Simulated) -> Builder {
        let manifest = Manifest::read(&disk.after_kill()).ok().flatten();
        let taken = manifest.map_or(0, |manifest| manifest.changes);
        let builder = sums::declare(builder.storage(Arc::new(disk.clone())));
        let builder = match self.accounts {
            Accounts::Indexed => builder.table::<Account>(0),
            Accounts::Plain => builder.table::<plain::Account>(0),
            Accounts::Wide => builder.table::<wide::Account>(0),
        };
        let builder = if self.notes { builder.table::<Note>(0) } else { builder.table::<plain::Note>(0) };
        let builder = if self.are_all() { builder.procedure::<CrashProgram>() } else { builder };
        builder.migrate(migration(taken))
    }
}

/// Keys of the ordered table.
const ACCOUNTS: usize = 8;
/// Keys of the hashed table.
const NOTES: usize = 5;
/// Values of the indexed column.
const OWNERS: u64 = 4;
/// Values of the uniquely indexed column, of each key.
const TAGS: u64 = 3;

/// All rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct State {
    accounts: [Option<Account>; ACCOUNTS],
    notes: [Option<Note>; NOTES],
    pub(super) sums: Sums,
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Inserts an account, or replaces it.
    PutAccount(Account),
    /// Inserts an account that is not there.
    InsertAccount(Account),
    /// Deletes an account; it may not be there.
    DeleteAccount(u64),
    /// Sets a column that an index has.
    Owner(u64, u64),
    /// Sets a column group of one column.
    Balance(u64, i64),
    /// Sets a column whose values are not in the row.
    Memo(u64, Memo),
    /// Adds to a column without reading it.
    Visit(u64, i64),
    /// Inserts a note, or replaces it.
    PutNote(Note),
    /// Deletes a note; it may not be there.
    DeleteNote(u32),
    /// Adds to a column without reading it.
    Count(u32, i64),
    /// Changes a column that a unique index has.
    Tag(u32, Tag),
}

impl Op {
    /// An operation that is lawful in `state`.
    fn draw(random: &mut Random, state: &State) -> Self {
        let (id, value) = (random.below(ACCOUNTS as u64), random.below(1_000) as i64 - 500);
        let note = random.below(NOTES as u64) as u32;
        let memo = Memo::draw(random);
        let label = Label::truncated(&memo.text());
        let account =
            Account { id, owner: random.below(OWNERS), balance: value, visits: value / 7, memo, label };
        let tag = Tag { note, number: random.below(TAGS) };
        let there = state.accounts[id as usize].is_some();
        let noted = state.notes[note as usize].is_some();
        match random.below(20) {
            0..3 if !there => Self::InsertAccount(account),
            0..5 => Self::PutAccount(account),
            5..7 => Self::DeleteAccount(id),
            7..9 if there => Self::Owner(id, account.owner),
            9..11 if there => Self::Balance(id, value),
            11 if there => Self::Memo(id, memo),
            12..14 if there => Self::Visit(id, value),
            14 if noted => Self::DeleteNote(note),
            15 if noted => Self::Tag(note, tag),
            16..18 if noted => Self::Count(note, value),
            _ => Self::PutNote(Note { id: note, tag, memo, count: value }),
        }
    }

    /// What it makes of a state.
    fn apply(self, state: &mut State) {
        let at = |id: u64| id as usize;
        match self {
            Self::PutAccount(row) | Self::InsertAccount(row) => state.accounts[at(row.id)] = Some(row),
            Self::DeleteAccount(id) => state.accounts[at(id)] = None,
            Self::Owner(id, owner) => state.accounts[at(id)].iter_mut().for_each(|row| row.owner = owner),
            Self::Balance(id, new) => state.accounts[at(id)].iter_mut().for_each(|row| row.balance = new),
            Self::Memo(id, new) => state.accounts[at(id)].iter_mut().for_each(|row| row.memo = new),
            Self::Visit(id, more) => state.accounts[at(id)].iter_mut().for_each(|row| row.visits += more),
            Self::PutNote(row) => state.notes[row.id as usize] = Some(row),
            Self::DeleteNote(id) => state.notes[id as usize] = None,
            Self::Count(id, more) => state.notes[id as usize].iter_mut().for_each(|row| row.count += more),
            Self::Tag(id, tag) => state.notes[id as usize].iter_mut().for_each(|row| row.tag = tag),
        }
    }

    /// Does it in a transaction.
    fn execute(self, tx: &mut impl Transaction, indexes: Indexes) -> Result<()> {
        match self {
            Self::PutNote(_) | Self::DeleteNote(_) | Self::Count(..) | Self::Tag(..) => match indexes.notes {
                true => self.note(tx),
                false => self.plain_note(tx),
            },
            _ => match indexes.accounts {
                Accounts::Indexed => self.account(tx),
                Accounts::Plain => self.plain_account(tx),
                Accounts::Wide => self.wide_account(tx),
            },
        }
    }
}

/// The operations on each table, under each declaration.
macro_rules! operations {
    ($account:ident: $accounts:ty) => {
        impl Op {
            fn $account(self, tx: &mut impl Transaction) -> Result<()> {
                type Row = $accounts;
                match self {
                    Self::PutAccount(row) => tx.upsert(Row::from(row)).map(|_| ()),
                    Self::InsertAccount(row) => tx.insert(Row::from(row)),
                    Self::DeleteAccount(id) => tx.delete::<Row>(id).map(|_| ()),
                    Self::Owner(id, owner) => tx.set_columns(id, Row::owner, owner.into()),
                    Self::Balance(id, balance) => tx.set_columns(id, Row::balance, balance),
                    Self::Memo(id, memo) => tx.set_columns(id, Row::memo, memo),
                    Self::Visit(id, more) => tx.add(Row::visits, id, more),
                    other => unreachable!("{other:?} is of a note"),
                }
            }
        }
    };
    ($note:ident of $notes:ty) => {
        impl Op {
            fn $note(self, tx: &mut impl Transaction) -> Result<()> {
                type Row = $notes;
                match self {
                    Self::PutNote(row) => tx.upsert(Row::from(row)).map(|_| ()),
                    Self::DeleteNote(id) => tx.delete::<Row>(id).map(|_| ()),
                    Self::Count(id, more) => tx.add(Row::count, id, more),
                    Self::Tag(id, tag) => tx.update_columns(id, Row::tag, |old| *old = tag),
                    other => unreachable!("{other:?} is of an account"),
                }
            }
        }
    };
}
operations!(account: Account);
operations!(plain_account: plain::Account);
operations!(wide_account: wide::Account);
operations!(note of Note);
operations!(plain_note of plain::Note);

/// A transaction to run.
#[derive(Clone, Debug)]
pub struct Program {
    ops: Vec<Op>,
    /// What it does instead.
    summing: Option<Summing>,
    /// Whether it aborts at its end.
    gives_up: bool,
}

impl Program {
    /// A transaction that is lawful in `state`, and the state after it.
    pub fn draw(random: &mut Random, state: &State) -> (Self, State) {
        let mut after = *state;
        let mut ops = Vec::new();
        let summing = (random.below(4) == 0).then(|| Summing::draw(random, &after.sums));
        let count = if summing.is_some() { 0 } else { 1 + random.below(4) };
        summing.iter().for_each(|summing| summing.apply(&mut after.sums));
        for _ in 0..count {
            let op = Op::draw(random, &after);
            op.apply(&mut after);
            ops.push(op);
        }
        let gives_up = random.below(12) == 0;
        (Self { ops, summing, gives_up }, if gives_up { *state } else { after })
    }

    /// Whether it aborts.
    pub fn gives_up(&self) -> bool {
        self.gives_up
    }

    /// Calls it as a procedure, or runs it where there is none for it.
    ///
    /// # Errors
    /// As for [`Self::execute`].
    pub fn call(&self, session: &mut Session) -> Result<()> {
        match self.summing {
            Some(_) if self.gives_up => return session.run(|tx| self.execute(tx, Indexes::ALL)),
            Some(summing) => return summing.call(session),
            None => {}
        }
        session.call(CrashProgram, (self.ops.clone(), self.gives_up))
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the operations; its own when it gives up.
    pub fn execute(&self, tx: &mut impl Transaction, indexes: Indexes) -> Result<()> {
        self.summing.iter().try_for_each(|summing| summing.execute(tx))?;
        self.ops.iter().try_for_each(|op| op.execute(tx, indexes))?;
        if self.gives_up { Err(Error::user("the program gives up")) } else { Ok(()) }
    }
}

/// A program as a call, of tables with all their indexes.
#[procedure(version = 1)]
pub fn crash_program(tx: &mut impl Transaction, ops: Vec<Op>, gives_up: bool) -> Result<()> {
    for op in ops {
        match op {
            Op::PutAccount(row) => {
                tx.upsert::<Account>(row)?;
            }
            Op::InsertAccount(row) => tx.insert::<Account>(row)?,
            Op::DeleteAccount(id) => {
                tx.delete::<Account>(id)?;
            }
            Op::Owner(id, owner) => tx.set_columns(id, Account::owner, owner)?,
            Op::Balance(id, balance) => tx.set_columns(id, Account::balance, balance)?,
            Op::Memo(id, memo) => tx.set_columns(id, Account::memo, memo)?,
            Op::Visit(id, more) => tx.add(Account::visits, id, more)?,
            Op::PutNote(row) => {
                tx.upsert::<Note>(row)?;
            }
            Op::DeleteNote(id) => {
                tx.delete::<Note>(id)?;
            }
            Op::Count(id, more) => tx.add(Note::count, id, more)?,
            Op::Tag(id, tag) => tx.update_columns(id, Note::tag, |old| *old = tag)?,
        }
    }
    if gives_up { Err(Error::user("the program gives up")) } else { Ok(()) }
}

impl State {
    /// All rows as a transaction sees them, or what is wrong between tables and their indexes.
    ///
    /// # Errors
    /// Those of the reads.
    pub fn read(tx: &mut impl ReadTransaction, indexes: Indexes) -> Result<Result<Self, String>> {
        let mut state = Self { sums: sums::read(tx)?, ..Self::default() };
        let accounts = match indexes.accounts {
            Accounts::Indexed => tx.collect(Scan::<Account>::all())?,
            Accounts::Plain => {
                tx.collect(Scan::<plain::Account>::all())?.into_iter().map(Account::from).collect()
            }
            Accounts::Wide => {
                tx.collect(Scan::<wide::Account>::all())?.into_iter().map(Account::from).collect()
            }
        };
        for row in accounts {
            let Some(place) = state.accounts.get_mut(row.id as usize) else {
                return Ok(Err(format!("there is a row that nobody wrote: {row:?}")));
            };
            *place = Some(row);
        }
        for id in 0..NOTES {
            state.notes[id] = match indexes.notes {
                true => tx.get::<Note>(id as u32)?,
                false => tx.get::<plain::Note>(id as u32)?.map(Note::from),
            };
        }
        let (mut owners, mut tags) = (Vec::new(), Vec::new());
        if indexes.accounts == Accounts::Indexed {
            tx.scan_index(Scan::<CrashAccountByOwner>::all(), |(owner, _), id| {
                owners.push((owner, id));
                ControlFlow::Continue(())
            })?;
        }
        if indexes.notes {
            tx.scan_index(Scan::<CrashNoteByTag>::all(), |tag, id| {
                tags.push((tag.to_string(), id));
                ControlFlow::Continue(())
            })?;
        }
        let mut by_owner: Vec<_> = state.accounts.iter().flatten().map(|row| (row.owner, row.id)).collect();
        by_owner.sort_unstable();
        let mut by_tag: Vec<_> = state.notes.iter().flatten().map(|row| (row.tag.text(), row.id)).collect();
        by_tag.sort_unstable();
        if indexes.accounts == Accounts::Indexed && owners != by_owner {
            return Ok(Err(format!("the ordered table says {by_owner:?}, its index {owners:?}")));
        }
        if indexes.notes && tags != by_tag {
            return Ok(Err(format!("the hashed table says {by_tag:?}, its index {tags:?}")));
        }
        Ok(Ok(state))
    }

    /// The rows in which two states differ.
    pub fn difference(&self, other: &Self) -> String {
        let mut lines = Vec::new();
        for (a, b) in self.accounts.iter().zip(&other.accounts).filter(|(a, b)| a != b) {
            lines.push(format!("{a:?} instead of {b:?}"));
        }
        for (a, b) in self.notes.iter().zip(&other.notes).filter(|(a, b)| a != b) {
            lines.push(format!("{a:?} instead of {b:?}"));
        }
        for (a, b) in self.sums.iter().zip(&other.sums).filter(|(a, b)| a != b) {
            lines.push(format!("{a:?} instead of {b:?}"));
        }
        lines.join("; ")
    }
}
