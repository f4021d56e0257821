//! What a call will access, told by the procedure itself.

use crate::error::Result;
use crate::table::{
    Columns, Definition, GroupSet, Index, IndexSet, IndexVisitor, KeyWords, Relation, Row, Scan, Table,
    encode_key,
};

/// How a call uses column groups of a row. Two calls that do the same may go side by side, unless they write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It reads them.
    Reads,
    /// It adds to them, and does not see what they are: sums do not depend on the order.
    Adds,
    /// It writes them, whether it reads them or not.
    Writes,
}

impl Usage {
    /// Whether who has announced this may do that.
    #[inline]
    pub fn allows(self, used: Self) -> bool {
        self == used || self == Self::Writes
    }

    /// Whether a later reader sees another row for it.
    #[inline]
    pub fn changes(self) -> bool {
        self != Self::Reads
    }
}

/// Something that a call will access, in words.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// Column groups of a row, or of an index entry.
    Row {
        /// The table or index.
        relation: &'static Definition,
        /// The key's words.
        key: &'a [u64],
        /// The column groups.
        groups: GroupSet,
        /// How they are used.
        usage: Usage,
    },
    /// All keys from one to another, both included.
    Range {
        /// The table or index.
        relation: &'static Definition,
        /// The lowest key.
        low: &'a [u64],
        /// The highest.
        high: &'a [u64],
    },
    /// Some of the keys from one to another, both included, at which it does anything.
    Open {
        /// The table or index.
        relation: &'static Definition,
        /// The lowest key.
        low: &'a [u64],
        /// The highest.
        high: &'a [u64],
    },
    /// Some of the keys from one to another, both included, at which it does anything, and nobody waits for that: commits find out
    /// who met whom.
    Unordered {
        /// The table or index.
        relation: &'static Definition,
        /// The lowest key.
        low: &'a [u64],
        /// The highest.
        high: &'a [u64],
    },
    /// It does not know all that it will access.
    Part,
}

/// Takes what a call will access, from a function that its procedure names: `#[procedure(announce = ..)]`.
///
/// Protocols that order calls by what they will access (`dgcc`, `dataflow`) ask for it; without it they execute the body once without
/// effect to find out, which takes about as long as the call. What is told and not accessed keeps others waiting for nothing. What
/// is accessed and was not told is as safe as ever, but counted
/// ([`Stats::unforeseen`](crate::metrics::Stats::unforeseen)), and the call may conflict. A function that cannot know a key, because rows
/// say which it is, tells keys that it is among ([`Announcement::writes_among`], [`Announcement::uses_unordered`]), or has the body find it out
/// ([`Announcement::finds_rest`]).
///
/// What is read of column groups that no registered procedure writes keeps nobody waiting, told or not.
///
/// **In pieces.** Under `dgcc` a submitted call of a procedure that has a mark `#[later]`, too, is executed in pieces: behind the mark it
/// lets others have a row as soon as it has come to it as often as was told, so calls that meet in a row wait for that access
/// and not for each other's end. Such a function must tell everything, each access as often as it is made (an upsert is two): what is not told
/// is refused ([`Misuse::Unforeseen`](crate::error::Misuse::Unforeseen)), and if others may have seen what the call did before, that stands
/// ([`Misuse::PiecesStand`](crate::error::Misuse::PiecesStand)), as it does where a call gives up behind its mark. So it is with a panic
/// behind the mark, which arrives as it is where the result is waited for. A panic before the mark leaves nothing. A call that has told keys
/// among others, or has its body find something out, does not know its accesses one by one: it is executed whole, as if it had no mark.
///
/// **Panics.** The function is given the arguments and sees no rows. If it panics, the call is not executed, and the panic arrives where the
/// call was made, or its result is waited for.
pub struct Announcement<'a> {
    tell: &'a mut dyn FnMut(Told<'_>),
}

impl<'a> Announcement<'a> {
    /// Passes on what it is told.
    #[doc(hidden)]
    pub fn new(tell: &'a mut dyn FnMut(Told<'_>)) -> Self {
        Self { tell }
    }

    /// These columns of a row are read, and not written.
    pub fn reads<C: Columns>(&mut self, key: <C::Table as Relation>::Key, columns: C) {
        self.row::<C::Table>(&key, columns.groups(), Usage::Reads);
    }

    /// These columns of a row are written, whether they are read or not.
    pub fn writes<C: Columns>(&mut self, key: <C::Table as Relation>::Key, columns: C) {
        self.row::<C::Table>(&key, columns.groups(), Usage::Writes);
    }

    /// These columns of a row are added to by [`Transaction::add`](crate::transaction::Transaction::add), and else not accessed. Others may add to
    /// them at the same time.
    pub fn adds<C: Columns>(&mut self, key: <C::Table as Relation>::Key, columns: C) {
        self.row::<C::Table>(&key, columns.groups(), Usage::Adds);
    }

    /// A row is read.
    pub fn reads_row<T: Table>(&mut self, key: T::Key) {
        self.reads(key, Row::<T>::new());
    }

    /// A row is written, made or deleted. Where the table has indexes their entries are not among it:
    /// [`Announcement::inserts`].
    pub fn writes_row<T: Table>(&mut self, key: T::Key) {
        self.writes(key, Row::<T>::new());
    }

    /// A row is made, or deleted, with its entries in indexes. Of the row only the columns count that are in keys.
    pub fn inserts<T: Table>(&mut self, row: &T) {
        self.writes_row::<T>(row.key());
        // It cannot fail: the visitor does not.
        let _ = T::Indexes::each(&mut Entries { row, announcement: self });
    }

    /// Rows, or entries of an index, whose keys are among these, and are not known yet: they are read, written, made or deleted, and
    /// the keys may be scanned. Where orders are numbered in turn, a new order's key is among those of its district.
    ///
    /// Others that access any row among these keys wait, and so do others that tell the same. Calls are told apart by the leading bits of
    /// keys, of which as many count as in the widest range that is told of the relation: telling a prefix keeps nobody
    /// waiting who has another one. Which rows the call has accessed is known when it ends, so a log of commands has these only.
    ///
    /// ```
    /// # use heddledb_core as heddledb;
    /// use heddledb::procedure::Announcement;
    /// # use heddledb::table::{Scan, Table};
    ///
    /// fn order_is_made<Order: Table<Key = (u32, u32)>>(to: &mut Announcement<'_>, district: u32) {
    ///     to.writes_among(Scan::<Order>::prefix((district,)));
    /// }
    /// ```
    pub fn writes_among<R: Relation>(&mut self, scan: Scan<R>) {
        if let Some((low, high)) = scan.bounds {
            (self.tell)(Told::Open { relation: R::definition(), low: low.words(), high: high.words() });
        }
    }

    /// Rows, or entries of an index, whose keys are among these, and are not known yet: they are read, written, made or deleted, and the
    /// keys may be scanned; nobody waits for that, and the call waits for nobody.
    ///
    /// Who meets whom there is found out by commits, as under optimistic protocols: the call is executed again if what it has read has changed, and
    /// two calls that are under way may take effect in either order, also those of one session under `dgcc`. So it is for
    /// few rows among many, which calls seldom want at the same time, or for such as follow from a row for which they do wait: the orders of a
    /// district, whose numbers come from its row.
    ///
    /// ```
    /// # use heddledb_core as heddledb;
    /// use heddledb::procedure::Announcement;
    /// # use heddledb::table::{Scan, Table};
    ///
    /// fn stock_is_sampled<Stock: Table<Key = (u32, u32)>>(to: &mut Announcement<'_>, warehouse: u32) {
    ///     to.uses_unordered(Scan::<Stock>::prefix((warehouse,)));
    /// }
    /// ```
    pub fn uses_unordered<R: Relation>(&mut self, scan: Scan<R>) {
        if let Some((low, high)) = scan.bounds {
            (self.tell)(Told::Unordered { relation: R::definition(), low: low.words(), high: high.words() });
        }
    }

    /// What else is accessed, the body finds out: it is executed once without effect, as that of a procedure that tells nothing. For
    /// arguments by which the keys cannot be told.
    pub fn finds_rest(&mut self) {
        (self.tell)(Told::Part);
    }

    /// Keys are scanned, of a table or of an index; the rows that are found, too, where they are told besides.
    pub fn scans<R: Relation>(&mut self, scan: Scan<R>) {
        if let Some((low, high)) = scan.bounds {
            (self.tell)(Told::Range { relation: R::definition(), low: low.words(), high: high.words() });
        }
    }

    fn row<R: Relation>(&mut self, key: &R::Key, groups: GroupSet, usage: Usage) {
        let words: R::Words = encode_key(key);
        (self.tell)(Told::Row { relation: R::definition(), key: words.words(), groups, usage });
    }
}

impl std::fmt::Debug for Announcement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Announcement")
    }
}

/// Tells the entries of a row.
struct Entries<'a, 'b, T> {
    row: &'a T,
    announcement: &'a mut Announcement<'b>,
}

impl<T: Table> IndexVisitor<T> for Entries<'_, '_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        self.announcement.row::<I>(&I::entry(self.row), I::LAYOUT.all_groups(), Usage::Writes);
        Ok(())
    }
}
