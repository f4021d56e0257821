//! A transaction that holds a procedure to what it declares.

use super::{Declaration, Procedure};
use crate::error::Result;
use crate::table::{Addable, Column, Columns, Index, Relation, Scan, Table};
use crate::transaction::{Onward, ReadTransaction, Savepoint, Transaction};
use heddledb_analysis::workload::{self, Access};
#[cfg(debug_assertions)]
use std::any::TypeId;
use std::sync::Arc;

/// A transaction that panics where an access is not the one that its site declares: another table, another
/// operation, columns that are not declared, or no site at all. For tests.
///
/// ```
/// use heddledb::procedure::{Checked, Procedure};
/// use heddledb::{Database, Result, Table, Transaction, procedure};
///
/// #[derive(Table, Clone, Copy)]
/// struct Counter {
///     #[key]
///     id: u64,
///     value: i64,
/// }
///
/// #[procedure]
/// fn count(tx: &mut impl Transaction, id: u64) -> Result<()> {
///     tx.add(Counter::value, id, 1)
/// }
///
/// let db = Database::builder().table::<Counter>(1).open()?;
/// let mut session = db.session()?;
/// session.run(|tx| tx.insert(Counter { id: 1, value: 0 }))?;
/// session.run(|tx| count(&mut Checked::of::<Count>(tx), 1))?;
/// session.run(|tx| Count::run(&mut Checked::of::<Count>(tx), &1))?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Debug)]
pub struct Checked<'a, T> {
    tx: &'a mut T,
    checker: Checker,
}

impl<'a, T> Checked<'a, T> {
    /// Holds what `tx` does to the declaration of `Q`.
    pub fn of<Q: Procedure>(tx: &'a mut T) -> Self {
        Self::new(tx, Declaration::of::<Q>())
    }

    /// Holds what `tx` does to a declaration.
    pub fn new(tx: &'a mut T, declaration: Declaration) -> Self {
        Self { tx, checker: Checker::new(Declared::new(declaration)) }
    }

    /// Compares the access that is about to be made, declared by `declare`, with that of its site.
    fn check(&mut self, declare: impl Fn(&mut Declaration)) {
        self.checker.check(&declare);
    }
}

/// What a procedure declares.
#[derive(Debug)]
struct Declared {
    declaration: Declaration,
    /// The accesses of the sites.
    accesses: Vec<Access>,
}

impl Declared {
    fn new(declaration: Declaration) -> Arc<Self> {
        let accesses = declaration.transaction().accesses().into_iter().cloned().collect();
        Arc::new(Self { declaration, accesses })
    }
}

/// What a procedure declares, and where it stands.
#[derive(Debug)]
struct Checker {
    declared: Arc<Declared>,
    /// The number of the first site of the procedure that runs.
    base: u16,
    /// Where the next access is, if that was said.
    next: Option<u16>,
}

impl Checker {
    fn new(declared: Arc<Declared>) -> Self {
        Self { declared, base: 0, next: None }
    }

    fn at(&mut self, site: u16) {
        self.next = Some(self.base + site);
    }

    fn enter(&mut self, sites: u16) {
        self.base += sites;
    }

    fn leave(&mut self, sites: u16) {
        self.base -= sites;
    }

    /// Compares the access that is about to be made, declared by `declare`, with that of its site.
    fn check(&mut self, declare: &dyn Fn(&mut Declaration)) {
        let mut made = Declaration::of_accesses();
        declare(&mut made);
        let Declared { declaration, accesses } = &*self.declared;
        let procedure = declaration.name();
        let (site, access) = (&made.sites()[0], made.first_access());
        let Some(number) = self.next.take() else {
            panic!("procedure `{procedure}` accesses {} outside its sites: {access:?}", site.table);
        };
        let Some(declared) = declaration.sites().get(usize::from(number)) else {
            panic!("procedure `{procedure}` is at site {number}, but it has {}", declaration.sites().len());
        };
        let of_site = &accesses[usize::from(number)];
        let same = (site.relation, site.mode, site.index)
            == (declared.relation, declared.mode, declared.index)
            && site.reads & !declared.reads == 0
            && site.writes & !declared.writes == 0
            && within(&access.columns, &of_site.columns)
            && access.reads.iter().all(|column| of_site.reads.contains(column));
        assert!(
            same,
            "procedure `{procedure}` does not do at site {number} what it declares\n    done: {access:?}\ndeclared: {of_site:?}",
        );
    }
}

/// What holds a transaction to the declaration of the procedure that it runs: in test builds; in others it is nothing.
#[derive(Debug, Default)]
pub struct Held {
    #[cfg(debug_assertions)]
    checker: Option<Checker>,
    /// What procedures declare that were held to it before.
    #[cfg(debug_assertions)]
    known: Vec<(TypeId, Arc<Declared>)>,
}

impl Held {
    /// Holds what follows to the declaration of `Q`.
    #[inline(always)]
    pub fn hold_to<Q: Procedure>(&mut self) {
        #[cfg(debug_assertions)]
        {
            let of_type = TypeId::of::<Q>();
            let known = self.known.iter().find(|(known, _)| *known == of_type);
            let declared = known.map(|(_, declared)| Arc::clone(declared)).unwrap_or_else(|| {
                let declared = Declared::new(Declaration::of::<Q>());
                self.known.push((of_type, Arc::clone(&declared)));
                declared
            });
            self.checker = Some(Checker::new(declared));
        }
    }

    /// Holds what follows to nothing.
    #[inline(always)]
    pub fn let_go(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.checker = None;
        }
    }

    #[inline(always)]
    fn checker(&mut self) -> Option<&mut Checker> {
        #[cfg(debug_assertions)]
        let checker = self.checker.as_mut();
        #[cfg(not(debug_assertions))]
        let checker = None;
        checker
    }

    /// The next access is at this site.
    #[inline(always)]
    pub fn at(&mut self, site: u16) {
        if let Some(checker) = self.checker() {
            checker.at(site);
        }
    }

    /// A procedure is called whose first site is this many after the present base.
    #[inline(always)]
    pub fn enter(&mut self, sites: u16) {
        if let Some(checker) = self.checker() {
            checker.enter(sites);
        }
    }

    /// That call is over.
    #[inline(always)]
    pub fn leave(&mut self, sites: u16) {
        if let Some(checker) = self.checker() {
            checker.leave(sites);
        }
    }

    /// Compares the access that is about to be made, declared by `declare`, with that of its site.
    #[inline(always)]
    pub fn check(&mut self, declare: impl Fn(&mut Declaration)) {
        if let Some(checker) = self.checker() {
            checker.check(&declare);
        }
    }
}

/// Whether all columns of one set are in another.
fn within(one: &workload::Columns, other: &workload::Columns) -> bool {
    use workload::Columns::{All, Named};
    match (one, other) {
        (_, All) => true,
        (All, Named(_)) => false,
        (Named(one), Named(other)) => one.iter().all(|column| other.contains(column)),
    }
}

impl<T: ReadTransaction> ReadTransaction for Checked<'_, T> {
    fn at(&mut self, site: u16) -> &mut Self {
        self.checker.at(site);
        self.tx.at(site);
        self
    }

    fn enter(&mut self, sites: u16) {
        self.checker.enter(sites);
        self.tx.enter(sites);
    }

    fn leave(&mut self, sites: u16) {
        self.checker.leave(sites);
        self.tx.leave(sites);
    }

    fn get_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
    ) -> Result<Option<C::Value>> {
        self.check(|made| made.get(columns));
        self.tx.get_columns(key, columns)
    }

    fn prefetch<C: Columns>(&mut self, rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone) {
        self.tx.prefetch(rows);
    }

    fn scan_columns<C: Columns, O: Onward>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> O,
    ) -> Result<()> {
        self.check(|made| made.scan(columns));
        self.tx.scan_columns(scan, columns, visit)
    }

    fn scan_rows<R: Relation, O: Onward>(
        &mut self,
        scan: Scan<R>,
        visit: impl FnMut(R::Key, R::Table) -> O,
    ) -> Result<()> {
        self.check(|made| made.scan_rows::<R>());
        self.tx.scan_rows(scan, visit)
    }

    fn scan_index<I: Index, O: Onward>(
        &mut self,
        scan: Scan<I>,
        visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> O,
    ) -> Result<()> {
        self.check(|made| made.scan_index::<I>());
        self.tx.scan_index(scan, visit)
    }

    fn find_key<I: Index>(&mut self, columns: I::Columns) -> Result<Option<<I::Table as Relation>::Key>> {
        self.check(|made| made.find_key::<I>());
        self.tx.find_key::<I>(columns)
    }

    fn find<I: Index>(&mut self, columns: I::Columns) -> Result<Option<I::Table>> {
        self.check(|made| made.find::<I>());
        self.tx.find::<I>(columns)
    }
}

impl<T: Transaction> Transaction for Checked<'_, T> {
    fn save(&mut self) -> Result<Savepoint> {
        self.tx.save()
    }

    fn keep(&mut self, savepoint: Savepoint) {
        self.tx.keep(savepoint);
    }

    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        self.tx.roll_back(savepoint)
    }

    fn insert<R: Table>(&mut self, row: R) -> Result<()> {
        self.check(|made| made.insert::<R>());
        self.tx.insert(row)
    }

    fn upsert<R: Table>(&mut self, row: R) -> Result<bool> {
        self.check(|made| made.upsert::<R>());
        self.tx.upsert(row)
    }

    fn update_columns<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        self.check(|made| made.update(columns));
        self.tx.update_columns(key, columns, change)
    }

    fn set_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: C::Value,
    ) -> Result<()> {
        self.check(|made| made.set(columns));
        self.tx.set_columns(key, columns, value)
    }

    fn add<R: Table, V: Addable>(&mut self, column: Column<R, V>, key: R::Key, delta: V) -> Result<()> {
        self.check(|made| made.add(column));
        self.tx.add(column, key, delta)
    }

    fn delete<R: Table>(&mut self, key: R::Key) -> Result<bool> {
        self.check(|made| made.delete::<R>());
        self.tx.delete::<R>(key)
    }
}
