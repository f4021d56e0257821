//! What a procedure declares: its accesses in the analysis's terms, and its sites in the engine's.
//!
//! What stands here is what the engine does, which is more than the body says where secondary indexes and
//! keys are concerned: a write to a column of either reads and rewrites the whole row, and a deletion from a
//! table with secondary indexes reads it.

use super::Procedure;
use crate::table::{Addable, Column, Columns, GroupSet, Index, Relation, Row, Table};
use heddledb_analysis::workload::{self, Access, Group, Mode, Step, TableKind, Transaction, Workload};

/// A place in a procedure's body that calls a table operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The number of the table's [`Definition`](crate::table::Definition).
    pub relation: usize,
    /// The table's name.
    pub table: &'static str,
    /// What is done to its rows.
    pub mode: Mode,
    /// The column groups that are read. Whoever asks whether a row exists reads.
    pub reads: GroupSet,
    /// The column groups that are written or added to.
    pub writes: GroupSet,
    /// The number of the definition of the secondary index that is searched.
    pub index: Option<usize>,
}

/// The accesses of a procedure, in order, with the loops and branches that they stand in.
///
/// Each of the methods named after an operation declares one site.
///
/// ```
/// use heddledb::Table;
/// use heddledb::procedure::Declaration;
///
/// #[derive(Table, Clone, Copy)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// let mut transfer = Declaration::new("transfer");
/// transfer.update(Account::balance);
/// transfer.repeat(|transfer| {
///     transfer.add(Account::balance);
/// });
/// assert_eq!(transfer.sites().len(), 2);
/// assert_eq!(transfer.transaction().accesses()[1].table, "account");
/// ```
#[derive(Clone, Debug)]
pub struct Declaration {
    name: String,
    readonly: bool,
    /// The next access is causal.
    causal: bool,
    /// From the next access on it does not give up.
    no_abort: bool,
    /// The next access is deferred.
    deferred: bool,
    /// The site from which on it runs in its later phase.
    later: Option<u16>,
    /// How many procedures are declared within this one.
    depth: u16,
    /// It tells nothing of its tables.
    without_tables: bool,
    /// The steps of the block that is being declared.
    body: Vec<Step>,
    tables: Vec<workload::Table>,
    sites: Vec<Site>,
    /// The numbers of the indexes whose entries it makes or removes.
    entries: Vec<usize>,
}

impl Declaration {
    /// What a procedure declares.
    ///
    /// # Panics
    ///
    /// If the procedure has another number of sites than it says. Only one that is written by hand can.
    pub fn of<Q: Procedure>() -> Self {
        let mut declaration = Self::new(Q::NAME);
        Q::declare(&mut declaration);
        let (found, said) = (declaration.sites.len(), usize::from(Q::SITES));
        assert_eq!(found, said, "procedure `{}` declares {found} sites and says that it has {said}", Q::NAME);
        declaration
    }

    /// A declaration without accesses.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            readonly: false,
            causal: false,
            no_abort: false,
            deferred: false,
            later: None,
            depth: 0,
            without_tables: false,
            body: Vec::new(),
            tables: Vec::new(),
            sites: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// One without a name for accesses alone, which tells nothing of tables: made for each access of a test.
    pub(super) fn of_accesses() -> Self {
        Self { without_tables: true, ..Self::new("") }
    }

    /// The access that was declared first, outside of loops and branches.
    pub(super) fn first_access(&self) -> &Access {
        let first = self.body.iter().find_map(|step| match step {
            Step::Access(access) => Some(access),
            _ => None,
        });
        first.expect("an access was declared")
    }

    /// The procedure's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sites, in order: those of [`Self::transaction`]'s accesses.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The tables that are accessed, in the order of first access.
    pub fn tables(&self) -> &[workload::Table] {
        &self.tables
    }

    /// What it writes or adds to: relations by number, with their column groups. Of an index all of them.
    pub fn written(&self) -> impl Iterator<Item = (usize, GroupSet)> {
        let of_sites = self.sites.iter().map(|site| (site.relation, site.writes));
        of_sites.chain(self.entries.iter().map(|index| (*index, GroupSet::MAX)))
    }

    /// The same for the analysis.
    pub fn transaction(&self) -> Transaction {
        Transaction { readonly: self.readonly, ..Transaction::new(&self.name, self.body.clone()) }
    }

    /// Whether it only ever runs on snapshots.
    pub fn readonly(&self) -> bool {
        self.readonly
    }

    /// Declares whether it only ever runs on snapshots, and so takes no part in the analysis. Not at first:
    /// a procedure that only reads may run among those that write.
    pub fn set_readonly(&mut self, readonly: bool) {
        self.readonly = readonly;
    }

    /// Application logic orders the next access after whatever it could conflict with.
    pub fn causal(&mut self) {
        self.causal = true;
    }

    /// From the next access on the procedure does not give up: it returns no error of its own, and every insert,
    /// update and addition finds what it needs. Where pieces commit one by one they may begin here.
    pub fn no_abort(&mut self) {
        // What a procedure says of itself is not so of one that calls it.
        self.no_abort |= self.depth == 0;
    }

    /// The next access is an addition that may take effect when no call that reads the column is under way, where the protocol
    /// defers ([`Htm::defer`](crate::kind::Htm::defer)); elsewhere, and of a column on which an index depends, it says nothing.
    pub fn deferred(&mut self) {
        self.deferred = true;
    }

    /// The next access begins the later phase: from there on the procedure does not give up, and which rows it comes to
    /// does not depend on what it reads there. Deterministic execution lets other calls run beside it, and `dgcc` executes it in pieces if
    /// it tells what it accesses.
    pub fn later(&mut self) {
        if self.depth == 0 {
            self.later = Some(self.sites.len() as u16);
        }
    }

    /// The site at which the later phase begins, if there is one.
    pub fn later_from(&self) -> Option<u16> {
        self.later.filter(|site| usize::from(*site) < self.sites.len())
    }

    /// The accesses of a procedure that is called here.
    pub fn call<Q: Procedure>(&mut self) {
        self.depth += 1;
        Q::declare(self);
        self.depth -= 1;
    }

    /// A loop.
    pub fn repeat(&mut self, body: impl FnOnce(&mut Self)) {
        let steps = self.block(body);
        self.body.push(Step::Loop(steps));
    }

    /// A piece by hand: what is inside executes atomically.
    pub fn piece(&mut self, body: impl FnOnce(&mut Self)) {
        let steps = self.block(body);
        self.body.push(Step::Piece(steps));
    }

    /// A branch.
    pub fn branch(&mut self, then: impl FnOnce(&mut Self), otherwise: impl FnOnce(&mut Self)) {
        let (then, otherwise) = (self.block(then), self.block(otherwise));
        self.body.push(Step::If { then, otherwise });
    }

    fn block(&mut self, body: impl FnOnce(&mut Self)) -> Vec<Step> {
        let around = std::mem::take(&mut self.body);
        body(self);
        std::mem::replace(&mut self.body, around)
    }

    /// `get_columns`.
    pub fn get<C: Columns>(&mut self, columns: C) {
        self.look::<C::Table>(Mode::Read, Set::of(columns), None);
    }

    /// `get`.
    pub fn get_row<T: Table>(&mut self) {
        self.get(Row::<T>::new());
    }

    /// `scan_columns`.
    pub fn scan<C: Columns>(&mut self, columns: C) {
        self.look::<C::Table>(Mode::Scan, Set::of(columns), None);
    }

    /// `scan`, `scan_rows`, `collect`, `first` and `page`, of a table or by an index.
    pub fn scan_rows<R: Relation>(&mut self) {
        let index = R::ENTRIES.then(|| (R::LAYOUT.name, R::definition().number()));
        self.look::<R::Table>(Mode::Scan, Set::all::<R::Table>(), index);
    }

    /// `scan_index`.
    pub fn scan_index<I: Index>(&mut self) {
        self.search::<I>(Set::of_ordinals::<I::Table>(I::INDEXED));
    }

    /// `find_key`.
    pub fn find_key<I: Index>(&mut self) {
        self.scan_index::<I>();
    }

    /// `find`.
    pub fn find<I: Index>(&mut self) {
        self.search::<I>(Set::all::<I::Table>());
    }

    /// `insert`.
    pub fn insert<T: Table>(&mut self) {
        let all = Set::all::<T>();
        self.writes_entries::<T>();
        self.access::<T>(Access::new(Mode::Insert, T::LAYOUT.name), all.groups, all.groups, None);
    }

    /// `upsert`: the row is read, and then written as a whole or created.
    pub fn upsert<T: Table>(&mut self) {
        const {
            assert!(!T::APPEND_ONLY, "rows of an `append_only` table are only inserted: use `insert`");
        }
        let all = Set::all::<T>();
        let access = Access::new(Mode::Insert, T::LAYOUT.name).reads(all.names::<T>());
        self.writes_entries::<T>();
        self.access::<T>(access, all.groups, all.groups, None);
    }

    /// `update_columns`: they are read and written.
    pub fn update<C: Columns>(&mut self, columns: C) {
        let set = Set::of(columns).watched::<C::Table>();
        if set.is_watched::<C::Table>() {
            self.writes_entries::<C::Table>();
        }
        let access = set.access::<C::Table>(Mode::Update).reads(set.names::<C::Table>());
        self.access::<C::Table>(access, set.groups, set.groups, None);
    }

    /// `update`.
    pub fn update_row<T: Table>(&mut self) {
        self.update(Row::<T>::new());
    }

    /// `set_columns`.
    pub fn set<C: Columns>(&mut self, columns: C) {
        let set = Set::of(columns);
        // A long value that is there already stays where it is, so it is looked at.
        if columns.have_slots() || set.is_watched::<C::Table>() {
            return self.update(columns);
        }
        self.access::<C::Table>(set.access::<C::Table>(Mode::Update), 0, set.groups, None);
    }

    /// `add`.
    pub fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>) {
        let set = Set::of(column);
        if set.is_watched::<T>() {
            return self.update(column);
        }
        self.access::<T>(set.access::<T>(Mode::Add), 0, set.groups, None);
    }

    /// `delete`: where there are secondary indexes, the row says which entries go with it.
    pub fn delete<T: Table>(&mut self) {
        let all = Set::all::<T>();
        let mut access = Access::new(Mode::Delete, T::LAYOUT.name);
        self.writes_entries::<T>();
        if T::INDEXED != 0 {
            access = access.reads(all.names::<T>());
        }
        self.access::<T>(access, all.groups, all.groups, None);
    }

    /// Entries are made or removed with the rows.
    fn writes_entries<T: Table>(&mut self) {
        let table = T::definition().role.table();
        for index in table.map_or_else(Vec::new, |table| table.indexes()) {
            if !self.entries.contains(&index.number()) {
                self.entries.push(index.number());
            }
        }
    }

    fn look<T: Table>(&mut self, mode: Mode, set: Set, index: Option<(&str, usize)>) {
        let mut access = set.access::<T>(mode);
        access.index = index.map(|(name, _)| name.to_owned());
        self.access::<T>(access, set.groups, 0, index.map(|(_, number)| number));
    }

    fn search<I: Index>(&mut self, set: Set) {
        self.look::<I::Table>(Mode::Scan, set, Some((I::LAYOUT.name, I::definition().number())));
    }

    fn access<T: Table>(
        &mut self,
        mut access: Access,
        reads: GroupSet,
        writes: GroupSet,
        index: Option<usize>,
    ) {
        let name = T::LAYOUT.name;
        if !self.without_tables && self.tables.iter().all(|table| table.name != name) {
            self.tables.push(describe::<T>());
        }
        access.causal = std::mem::take(&mut self.causal);
        access.no_abort = std::mem::take(&mut self.no_abort);
        // Of a column on which an index depends an addition is an update.
        access.deferred = std::mem::take(&mut self.deferred) && access.mode == Mode::Add;
        let relation = T::definition().number();
        self.sites.push(Site { relation, table: name, mode: access.mode, reads, writes, index });
        self.body.push(Step::Access(access));
    }
}

/// The procedures as a workload, with all their tables.
pub fn workload<'a>(
    name: impl Into<String>,
    procedures: impl IntoIterator<Item = &'a Declaration>,
) -> Workload {
    let mut workload = Workload::new(name);
    for procedure in procedures {
        for table in procedure.tables() {
            if workload.table(&table.name).is_none() {
                workload.tables.push(table.clone());
            }
        }
        workload.transactions.push(procedure.transaction());
    }
    workload
}

/// The procedures as a text that `heddle analyze` reads.
pub fn text<'a>(name: impl Into<String>, procedures: impl IntoIterator<Item = &'a Declaration>) -> String {
    heddledb_analysis::text::print(&workload(name, procedures))
}

/// Columns of a table, and the groups that they are in.
#[derive(Clone, Copy)]
struct Set {
    ordinals: u64,
    groups: GroupSet,
}

impl Set {
    fn of<C: Columns>(columns: C) -> Self {
        Self { ordinals: columns.ordinals() & every::<C::Table>(), groups: columns.groups() }
    }

    fn of_ordinals<T: Table>(ordinals: u64) -> Self {
        let groups = members::<T>(ordinals).fold(0, |groups, column| groups | 1 << T::COLUMN_GROUPS[column]);
        Self { ordinals, groups }
    }

    fn all<T: Table>() -> Self {
        Self { ordinals: every::<T>(), groups: T::LAYOUT.all_groups() }
    }

    /// Whether a write to it may change the key or an index entry.
    fn is_watched<T: Table>(self) -> bool {
        self.ordinals & (T::INDEXED | T::KEY_COLUMNS) != 0
    }

    /// What an update of it rewrites.
    fn watched<T: Table>(self) -> Self {
        if self.is_watched::<T>() { Self::all::<T>() } else { self }
    }

    fn names<T: Table>(self) -> Vec<&'static str> {
        members::<T>(self.ordinals).map(|column| T::COLUMN_NAMES[column]).collect()
    }

    /// An access to these columns.
    fn access<T: Table>(self, mode: Mode) -> Access {
        let access = Access::new(mode, T::LAYOUT.name);
        if self.ordinals == every::<T>() { access } else { access.columns(self.names::<T>()) }
    }
}

/// All columns of a table, one bit each.
fn every<T: Table>() -> u64 {
    u64::MAX >> (64 - T::COLUMN_NAMES.len())
}

/// The ordinals in a set.
fn members<T: Table>(ordinals: u64) -> impl Iterator<Item = usize> {
    (0..T::COLUMN_NAMES.len()).filter(move |column| ordinals & 1 << column != 0)
}

/// A table for the analysis.
fn describe<T: Table>() -> workload::Table {
    let names = |ordinals| members::<T>(ordinals).map(|column| T::COLUMN_NAMES[column].to_owned()).collect();
    let group = |(number, group): (usize, &crate::table::Group)| {
        let columns = members::<T>(every::<T>()).filter(|&column| {
            let of = T::COLUMN_GROUPS[column];
            usize::from(of) == number
        });
        Group {
            name: group.name.to_owned(),
            columns: columns.map(|column| T::COLUMN_NAMES[column].to_owned()).collect(),
        }
    };
    workload::Table {
        name: T::LAYOUT.name.to_owned(),
        kind: if T::APPEND_ONLY { TableKind::AppendOnly } else { TableKind::Ordinary },
        key: names(T::KEY_COLUMNS),
        columns: names(every::<T>() & !T::KEY_COLUMNS),
        groups: T::LAYOUT.groups.iter().enumerate().map(group).collect(),
    }
}
