//! The operations of a transaction, and what each needs to be declared.

/// What has to be seen of a call to declare it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Columns, in the argument of this position.
    Columns(usize),
    /// The table, in the turbofish.
    Table,
    /// The table, in the turbofish or in the parameter of the closure.
    TableOrChange,
    /// The table or index, in the turbofish or in `Scan::<..>`. No closure's parameter tells an index.
    TableOrScan,
    /// The table, in the turbofish or in a struct literal.
    TableOrRow,
    /// The index, in the turbofish.
    Index,
    /// The index, in the turbofish or in `Scan::<..>`.
    IndexOrScan,
}

/// An operation of a transaction.
pub struct Operation {
    /// The method of a transaction.
    pub name: &'static str,
    /// The method of a declaration.
    pub declares: &'static str,
    pub needs: Needs,
    pub writes: bool,
}

const fn reads(name: &'static str, declares: &'static str, needs: Needs) -> Operation {
    Operation { name, declares, needs, writes: false }
}

const fn writes(name: &'static str, declares: &'static str, needs: Needs) -> Operation {
    Operation { name, declares, needs, writes: true }
}

/// All of them.
const OPERATIONS: [Operation; 17] = [
    reads("get", "get_row", Needs::Table),
    reads("get_columns", "get", Needs::Columns(1)),
    reads("scan", "scan_rows", Needs::TableOrScan),
    reads("collect", "scan_rows", Needs::TableOrScan),
    reads("first", "scan_rows", Needs::TableOrScan),
    reads("page", "scan_rows", Needs::TableOrScan),
    reads("scan_columns", "scan", Needs::Columns(1)),
    reads("scan_index", "scan_index", Needs::IndexOrScan),
    reads("find", "find", Needs::Index),
    reads("find_key", "find_key", Needs::Index),
    writes("insert", "insert", Needs::TableOrRow),
    writes("upsert", "upsert", Needs::TableOrRow),
    writes("update", "update_row", Needs::TableOrChange),
    writes("update_columns", "update", Needs::Columns(1)),
    writes("set_columns", "set", Needs::Columns(1)),
    writes("add", "add", Needs::Columns(0)),
    writes("delete", "delete", Needs::Table),
];

/// The operation of that name.
pub fn named(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

/// All names, in words.
pub fn names(writing: bool) -> String {
    let all = OPERATIONS.iter().filter(|operation| writing || !operation.writes);
    let all: Vec<String> = all.map(|operation| format!("`{}`", operation.name)).collect();
    format!("{} and `prefetch`", all.join(", "))
}
