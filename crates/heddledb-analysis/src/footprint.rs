//! Which units of which tables an access reads, writes, and adds to; and where two accesses meet.
//!
//! A *unit* is what a conflict is about: a column, a column group, or a whole table, as the
//! [`Granularity`] says. That a row exists is a unit of its own, written `+`: inserts and deletes write
//! it, scans and searches through an index read it. Columns that a table has but that nobody named are one
//! unit, written `*`; it stands in the footprint of accesses to all columns.
//!
//! Two footprints *meet* where one writes what the other reads, writes or adds to, or where one adds to what
//! the other reads. Two additions to the same unit commute (IC3 §4.3), so they do not meet; but any reader
//! of the column makes the edge real again (IC3 §4.3, and the reason why an analysis needs the whole
//! workload).

use crate::workload::{Access, Columns, Mode, Table, TableKind, Workload};
use std::collections::BTreeMap;

/// What a conflict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// Columns (IC3 §5.1).
    #[default]
    Column,
    /// Column groups, as tables declare them: what a runtime that keeps versions and accessor lists per
    /// group can tell apart. IC3 draws C-edges per column but tracks per record; two writers of different
    /// columns of a record then lose an update. With groups both are the same unit
    /// (test: `groups_are_between_columns_and_tables`).
    Group,
    /// Whole tables (DBX-TC).
    Table,
}

/// A set of units of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units(Vec<u64>);

/// What an access does, in units of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The table's place in the [`Schema`].
    pub table: usize,
    /// Units that it reads.
    pub reads: Units,
    /// Units that it writes.
    pub writes: Units,
    /// Units that it adds to.
    pub adds: Units,
    /// Units that it adds to later: no conflict comes of them here, but see [`deferral`](crate::deferral).
    pub deferred: Units,
    /// An insert into an append-only table: it does not meet another one.
    appends: bool,
    /// It meets nothing.
    alone: bool,
}

/// The tables of a workload and the units that they have at some granularity.
#[derive(Clone, Debug)]
pub struct Schema {
    tables: Vec<UnitNames>,
    places: BTreeMap<String, usize>,
    commutative: bool,
    causal: bool,
    defers: bool,
}

/// The units of a table, by name.
#[derive(Clone, Debug)]
struct UnitNames {
    name: String,
    kind: TableKind,
    /// What each unit is called. The first is existence.
    units: Vec<String>,
    /// The unit of each column that has a name.
    columns: BTreeMap<String, usize>,
}

/// The unit that says whether a row exists.
const EXISTENCE: usize = 0;

impl Schema {
    /// The tables that a workload's types access, in the order of their names. Without `commutative`, an
    /// addition counts as a read and a write; without `causal`, that mark is ignored.
    pub fn new(workload: &Workload, granularity: Granularity, commutative: bool, causal: bool) -> Self {
        let mut named: BTreeMap<&str, (Vec<&str>, bool)> = BTreeMap::new();
        for access in workload.transactions.iter().flat_map(|transaction| transaction.accesses()) {
            let (columns, written) = named.entry(&access.table).or_default();
            columns.extend(access.named());
            *written |= access.mode.writes();
        }
        let table = |(name, (columns, written))| {
            let mut table = UnitNames::new(name, workload.table(name), columns, granularity);
            if written && table.kind == TableKind::Static {
                table.kind = TableKind::Ordinary;
            }
            table
        };
        let tables: Vec<UnitNames> = named.into_iter().map(table).collect();
        let places = tables.iter().enumerate().map(|(place, table)| (table.name.clone(), place)).collect();
        Self { tables, places, commutative, causal, defers: false }
    }

    /// The same, where additions that are marked as deferred take effect later, if it says so. Such an addition looks at
    /// once whether its row exists.
    #[must_use]
    pub fn deferring(self, defers: bool) -> Self {
        Self { defers, ..self }
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// What a table is called.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub fn table(&self, place: usize) -> &str {
        &self.tables[place].name
    }

    /// What units of a table are called; all of them, or nearly, in one word.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub fn names(&self, place: usize, units: &Units) -> Vec<&str> {
        let table = &self.tables[place];
        let all = (0..table.units.len()).filter(|&unit| unit != EXISTENCE);
        if table.units.len() > 2 && all.clone().all(|unit| units.has(unit)) {
            return vec!["every column"];
        }
        let named = |unit: usize| match table.units[unit].as_str() {
            "*" if table.units.len() == 2 => "every column",
            "*" => "the columns without a name here",
            "+" => "existence",
            name => name,
        };
        // That a row exists is worth a word only where nothing else is at stake.
        let mut names: Vec<&str> = all.filter(|&unit| units.has(unit)).map(named).collect();
        if names.is_empty() && units.has(EXISTENCE) {
            names.push("existence");
        }
        names
    }

    /// What an access does.
    ///
    /// # Panics
    ///
    /// If the access is of another workload.
    pub fn footprint(&self, access: &Access) -> Footprint {
        let place = self.places[&access.table];
        let table = &self.tables[place];
        let own = match &access.columns {
            Columns::All => table.all(),
            Columns::Named(names) => table.units_of(names),
        };
        let mut footprint = Footprint {
            table: place,
            reads: table.units_of(&access.reads),
            writes: Units::default(),
            adds: Units::default(),
            deferred: Units::default(),
            appends: access.mode == Mode::Insert && table.kind == TableKind::AppendOnly,
            alone: table.kind == TableKind::Static || (self.causal && access.causal),
        };
        // Whoever searches an index may find no row, or another one.
        if access.mode == Mode::Scan || access.index.is_some() {
            footprint.reads.insert(EXISTENCE);
        }
        match access.mode {
            Mode::Read | Mode::Scan => footprint.reads.extend(&own),
            Mode::Update => footprint.writes.extend(&own),
            Mode::Add if self.defers && access.deferred => {
                footprint.reads.insert(EXISTENCE);
                footprint.deferred.extend(&own);
            }
            Mode::Add if self.commutative => footprint.adds.extend(&own),
            Mode::Add => {
                footprint.reads.extend(&own);
                footprint.writes.extend(&own);
            }
            Mode::Insert | Mode::Delete => {
                footprint.writes.extend(&table.all());
                footprint.writes.insert(EXISTENCE);
            }
        }
        footprint
    }
}

impl UnitNames {
    fn new(name: &str, declared: Option<&Table>, named: Vec<&str>, granularity: Granularity) -> Self {
        let plain = Table::new(name);
        let table = declared.unwrap_or(&plain);
        let mut this =
            Self { name: name.into(), kind: table.kind, units: vec!["+".into()], columns: BTreeMap::new() };
        let declared = table.key.iter().chain(&table.columns).map(String::as_str);
        let grouped = table.groups.iter().flat_map(|group| &group.columns).map(String::as_str);
        for column in declared.chain(grouped).chain(named) {
            let unit = match granularity {
                Granularity::Column => column,
                Granularity::Group => {
                    let of = |group: &&crate::workload::Group| group.columns.iter().any(|one| one == column);
                    table.groups.iter().find(of).map_or("*", |group| group.name.as_str())
                }
                Granularity::Table => "*",
            };
            let unit = this.unit(unit);
            this.columns.insert(column.into(), unit);
        }
        // Whoever accesses all columns also accesses those that nobody named.
        if table.columns.is_empty() {
            this.unit("*");
        }
        this
    }

    /// The unit of that name, a new one if there is none.
    fn unit(&mut self, name: &str) -> usize {
        self.units.iter().position(|one| one == name).unwrap_or_else(|| {
            self.units.push(name.into());
            self.units.len() - 1
        })
    }

    /// All units but existence.
    fn all(&self) -> Units {
        let mut all = Units::default();
        (1..self.units.len()).for_each(|unit| all.insert(unit));
        all
    }

    fn units_of(&self, columns: &[String]) -> Units {
        let mut units = Units::default();
        columns.iter().for_each(|column| units.insert(self.columns[column]));
        units
    }
}

impl Footprint {
    /// The units where this access and another, of another transaction, meet.
    pub fn meets(&self, other: &Self) -> Units {
        if self.table != other.table || self.alone || other.alone || (self.appends && other.appends) {
            return Units::default();
        }
        let mut units = Units::default();
        for (one, two) in [(self, other), (other, self)] {
            for accessed in [&two.reads, &two.writes, &two.adds] {
                units.extend_common(&one.writes, accessed);
            }
            units.extend_common(&one.adds, &two.reads);
        }
        units
    }

    /// The units that this access adds to later, and that another one reads or overwrites. Application logic that orders the two
    /// knows nothing of later, so the mark `causal` does not count.
    pub fn put_off(&self, other: &Self) -> Units {
        let mut units = Units::default();
        if self.table == other.table {
            units.extend_common(&self.deferred, &other.reads);
            units.extend_common(&self.deferred, &other.writes);
        }
        units
    }

    /// The units that this access writes, at once and not at the commit, and that another one accesses.
    pub fn exposes(&self, other: &Self) -> Units {
        let meets = self.meets(other);
        let mut units = Units::default();
        units.extend_common(&self.writes, &meets);
        units
    }
}

impl Units {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Whether this one is among them.
    pub fn has(&self, unit: usize) -> bool {
        self.0.get(unit / 64).is_some_and(|word| word & (1 << (unit % 64)) != 0)
    }

    /// Whether any are in both sets.
    pub fn overlap(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(one, two)| one & two != 0)
    }

    /// Adds one.
    pub fn insert(&mut self, unit: usize) {
        self.reach(unit / 64 + 1);
        self.0[unit / 64] |= 1 << (unit % 64);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        self.reach(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Adds what two other sets have in common.
    fn extend_common(&mut self, one: &Self, two: &Self) {
        self.reach(one.0.len().min(two.0.len()));
        for (word, (one, two)) in self.0.iter_mut().zip(one.0.iter().zip(&two.0)) {
            *word |= one & two;
        }
    }

    fn reach(&mut self, words: usize) {
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    /// Where the first two accesses of a transaction meet, in two instances of it.
    fn meet(tables: &str, one: &str, two: &str, granularity: Granularity) -> Vec<String> {
        let workload = parse(&format!("workload w\n{tables}\ntxn t\n{one}\n{two}\nend\n")).unwrap();
        let schema = Schema::new(&workload, granularity, true, true);
        let accesses = workload.transactions[0].accesses();
        let [one, two] = [accesses[0], accesses[1]].map(|access| schema.footprint(access));
        assert_eq!(one.meets(&two), two.meets(&one), "meeting is mutual");
        let units = one.meets(&two);
        schema.names(one.table, &units).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn modes_meet_as_the_rules_say() {
        let cases: [(&str, &str, &[&str]); 16] = [
            ("read t cols a", "read t cols a", &[]),
            ("read t cols a", "update t cols a", &["a"]),
            ("read t cols a", "update t cols b", &[]),
            ("read t cols a", "update t cols b reads a", &[]),
            ("update t cols a b", "update t cols b c", &["b"]),
            ("add t cols a", "add t cols a", &[]),
            ("add t cols a reads a", "add t cols a", &["a"]),
            ("add t cols a", "update t cols a", &["a"]),
            ("add t cols a", "read t cols a", &["a"]),
            ("add t cols a", "insert t", &["a"]),
            ("read t cols a", "insert t", &["a"]),
            ("scan t cols a", "delete t", &["a"]),
            ("insert t", "insert t", &["every column"]),
            ("read t", "update t cols a", &["a"]),
            ("read t", "read t cols a", &[]),
            ("update t cols a causal", "update t cols a", &[]),
        ];
        for (one, two, expected) in cases {
            assert_eq!(meet("", one, two, Granularity::Column), expected, "{one}, {two}");
        }
    }

    #[test]
    fn tables_may_be_static_or_append_only() {
        assert_eq!(meet("table t appendonly", "insert t", "insert t", Granularity::Column), [""; 0]);
        assert_eq!(meet("table t appendonly", "insert t", "delete t", Granularity::Column), ["every column"]);
        assert_eq!(meet("table t static", "read t", "scan t", Granularity::Column), [""; 0]);
    }

    /// The text format refuses this; a workload from elsewhere must not be analysed wrongly.
    #[test]
    fn marks_that_accesses_contradict_are_not_believed() {
        use crate::workload::{Step, Transaction};
        let mut workload = parse("workload w\ntable t static\ntxn r readonly\nread t\nend").unwrap();
        let write = Step::Access(Access::new(Mode::Update, "t"));
        workload.transactions.push(Transaction::new("w", vec![write.clone()]));
        let analysis = crate::analyse(&workload, &crate::Options::default());
        assert_eq!(analysis.snapshots, ["r"]);
        assert!(analysis.types[0].pieces[0].conflict);
        workload.transactions[0].body.push(write);
        let analysis = crate::analyse(&workload, &crate::Options::default());
        assert!(analysis.snapshots.is_empty() && analysis.types[0].pieces.len() == 1);
    }

    #[test]
    fn existence_is_met_where_no_column_is() {
        let (one, two) = ("scan t cols a", "insert t");
        assert_eq!(meet("table t cols a b", one, two, Granularity::Column), ["a"]);
        let workload = parse("workload w\ntable t cols a\ntxn t\nscan t\ninsert t\nend").unwrap();
        let schema = Schema::new(&workload, Granularity::Column, true, true);
        let mut existence = Units::default();
        existence.insert(EXISTENCE);
        assert_eq!(schema.names(0, &existence), ["existence"]);
    }

    #[test]
    fn groups_are_between_columns_and_tables() {
        let table = "table t key k cols a b c d group left a b group right c";
        let cases = [
            ("update t cols a", "update t cols b", [false, true, true]),
            ("update t cols a", "update t cols c", [false, false, true]),
            ("update t cols a", "read t cols d", [false, false, true]),
            ("add t cols a", "add t cols b", [false, false, false]),
            ("update t cols a", "update t cols a", [true, true, true]),
        ];
        for (one, two, expected) in cases {
            let found = [Granularity::Column, Granularity::Group, Granularity::Table]
                .map(|granularity| !meet(table, one, two, granularity).is_empty());
            assert_eq!(found, expected, "{one}, {two}");
        }
    }

    #[test]
    fn sets_of_units_grow() {
        let mut units = Units::default();
        assert!(units.is_empty() && !units.has(200));
        units.insert(200);
        let mut other = Units::default();
        other.insert(3);
        other.extend(&units);
        assert!(other.overlap(&units) && !units.overlap(&Units::default()));
        assert!(other.has(3) && other.has(200) && !other.has(199) && !other.is_empty());
    }
}
