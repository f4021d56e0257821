//! Transaction types as declared accesses.
//!
//! A [`Workload`] is what an analysis is made of: tables, and for each transaction type the accesses of its
//! body in the order of the program, with the loops and branches that they stand in. It says nothing of
//! keys' values: two accesses to the same column of a table may always meet.
//!
//! Names are compared as they are; whoever builds a workload from text folds their case first. A table that
//! is accessed need not be declared: it is then an ordinary one whose columns are not known.

/// Tables and transaction types that are analysed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// The declared tables.
    pub tables: Vec<Table>,
    /// The transaction types. Their order is that of all results.
    pub transactions: Vec<Transaction>,
}

/// A declared table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it is called.
    pub name: String,
    /// Which of its accesses may conflict.
    pub kind: TableKind,
    /// The columns of its key.
    pub key: Vec<String>,
    /// Its other columns; empty if they are not declared, and then an access may name any.
    pub columns: Vec<String>,
    /// Column groups, the units of conflict at [`Granularity::Group`](crate::Granularity::Group). Columns in
    /// none of them form one together.
    pub groups: Vec<Group>,
}

/// Columns that share a version, an accessor list, a log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
}

/// Which accesses to a table may conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableKind {
    /// All that meet on a column which one of them writes.
    #[default]
    Ordinary,
    /// None: nobody writes it. If somebody does after all, the table counts as ordinary.
    Static,
    /// As ordinary, but for two inserts: their keys are distinct by construction.
    AppendOnly,
}

/// A transaction type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// What it is called.
    pub name: String,
    /// Its share in the mix, as far as anybody said.
    pub weight: Option<u32>,
    /// It only reads, and runs on a snapshot: it takes no part in the analysis (see
    /// [`on_snapshot`](Self::on_snapshot)).
    pub readonly: bool,
    /// What it does, in order.
    pub body: Vec<Step>,
}

/// A step of a transaction's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access.
    Access(Access),
    /// A loop. All accesses inside are one piece (IC3 §5.1).
    Loop(Vec<Step>),
    /// A piece by hand: all accesses inside are one.
    Piece(Vec<Step>),
    /// A branch. Both sides count, in the order of the text (IC3 §5.1).
    If {
        /// What is done if the condition holds.
        then: Vec<Step>,
        /// What is done otherwise.
        otherwise: Vec<Step>,
    },
}

/// An access: a site in a procedure's body that calls a table operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What is done.
    pub mode: Mode,
    /// To which table.
    pub table: String,
    /// Through which secondary index the rows are found.
    pub index: Option<String>,
    /// Which columns are accessed by that mode.
    pub columns: Columns,
    /// Columns that are read besides.
    pub reads: Vec<String>,
    /// Application logic orders this access after whatever it could conflict with: it has no C-edge.
    pub causal: bool,
    /// From this access on the transaction does not give up (transaction chopping's "rollback-safe").
    pub no_abort: bool,
    /// Of an addition: it may take effect later, for others than closures and snapshots ([`deferral`](crate::deferral)).
    pub deferred: bool,
    /// The number of a piece by hand: neighbours with the same number are one piece.
    pub piece: Option<u32>,
    /// The line that it stands on, counted from 1; 0 if it stands in no text.
    pub line: u32,
}

/// What an access does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Reads columns of a row.
    Read,
    /// Writes columns of a row; what it reads of them is declared apart.
    Update,
    /// Adds to columns, or another update that commutes with itself and whose result is not used. It is
    /// deferred to the commit (IC3 §4.3).
    Add,
    /// Creates a row: writes all its columns, and that it exists.
    Insert,
    /// Removes a row: writes all its columns, and that it exists.
    Delete,
    /// Reads columns of the rows in a range, and which of them exist.
    Scan,
}

/// Columns of an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All that the table has.
    All,
    /// These.
    Named(Vec<String>),
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 6] = [Mode::Read, Mode::Update, Mode::Add, Mode::Insert, Mode::Delete, Mode::Scan];

    /// The word for it, in texts and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Read => "read",
            Mode::Update => "update",
            Mode::Add => "add",
            Mode::Insert => "insert",
            Mode::Delete => "delete",
            Mode::Scan => "scan",
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        !matches!(self, Mode::Read | Mode::Scan)
    }
}

impl Workload {
    /// An empty workload.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tables: Vec::new(), transactions: Vec::new() }
    }

    /// The declared table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The same workload with these transaction types only, in its own order. Names that it does not have
    /// are passed over.
    pub fn only(&self, names: &[impl AsRef<str>]) -> Self {
        let wanted = |transaction: &&Transaction| names.iter().any(|name| name.as_ref() == transaction.name);
        Self { transactions: self.transactions.iter().filter(wanted).cloned().collect(), ..self.clone() }
    }
}

impl Table {
    /// An ordinary table without declared columns.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Whether an access may name this column.
    pub fn has(&self, column: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().chain(&self.key).any(|one| one == column)
    }
}

impl Transaction {
    /// A transaction type that takes part in the analysis.
    pub fn new(name: impl Into<String>, body: Vec<Step>) -> Self {
        Self { name: name.into(), weight: None, readonly: false, body }
    }

    /// Whether it runs on a snapshot: it is declared to, and indeed it only reads.
    pub fn on_snapshot(&self) -> bool {
        self.readonly && !self.accesses().iter().any(|access| access.mode.writes())
    }

    /// Its accesses, in order.
    pub fn accesses(&self) -> Vec<&Access> {
        let mut all = Vec::new();
        collect(&self.body, &mut all);
        all
    }
}

impl Access {
    /// An access to all columns.
    pub fn new(mode: Mode, table: impl Into<String>) -> Self {
        Self {
            mode,
            table: table.into(),
            index: None,
            columns: Columns::All,
            reads: Vec::new(),
            causal: false,
            no_abort: false,
            deferred: false,
            piece: None,
            line: 0,
        }
    }

    /// The same access to these columns.
    #[must_use]
    pub fn columns<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.columns = Columns::Named(names.into_iter().map(Into::into).collect());
        self
    }

    /// The same access, which also reads these columns.
    #[must_use]
    pub fn reads<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.reads = names.into_iter().map(Into::into).collect();
        self
    }

    /// The columns that it names, in any role.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let columns: &[String] = match &self.columns {
            Columns::All => &[],
            Columns::Named(names) => names,
        };
        columns.iter().chain(&self.reads).map(String::as_str)
    }
}

fn collect<'a>(steps: &'a [Step], all: &mut Vec<&'a Access>) {
    for step in steps {
        match step {
            Step::Access(access) => all.push(access),
            Step::Loop(inner) | Step::Piece(inner) => collect(inner, all),
            Step::If { then, otherwise } => {
                collect(then, all);
                collect(otherwise, all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_keeps_the_workloads_order() {
        let mut workload = Workload::new("w");
        workload.transactions = ["a", "b", "c"].map(|name| Transaction::new(name, Vec::new())).into();
        let names: Vec<_> =
            workload.only(&["c", "a", "z"]).transactions.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn accesses_come_in_the_order_of_the_body() {
        let access = |table: &str| Step::Access(Access::new(Mode::Read, table));
        let branch = Step::If { then: vec![access("b")], otherwise: vec![access("c")] };
        let body = vec![access("a"), Step::Loop(vec![branch, access("d")]), access("e")];
        let transaction = Transaction::new("t", body);
        let tables: Vec<_> = transaction.accesses().iter().map(|access| access.table.as_str()).collect();
        assert_eq!(tables, ["a", "b", "c", "d", "e"]);
    }
}
