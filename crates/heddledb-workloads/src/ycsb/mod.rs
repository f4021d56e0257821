//! YCSB: reads and writes of rows by key, skewed by a Zipf distribution.
//!
//! Two families, both from presets ([`Parameters::preset`]): transactions of several accesses, as
//! TicToc, Silo and STO are measured with, and the core workloads A to F of one access each.
//!
//! A write increments the number that a row's first column begins with, reading it first, so that
//! the sum over all rows is the number of committed writes. With [`Write::Blind`] it overwrites a
//! column without reading, and the check can only say that each value was written by a committed
//! transaction.
//!
//! Keys are ranks of the Zipf distribution over all records (`scramble` spreads them; upstream YCSB
//! draws from 10^10 virtual items instead, which is less skewed). In D, reads go to the newest
//! records: rank 1 is the last key given out.

pub mod table;
pub mod zipf;

use crate::random::stream;
use crate::verdict::{Verdict, equal};
use crate::{Check, Workload};
use heddledb::sync::{AtomicU64, Ordering};
use heddledb::{
    Builder, Database, Error, Misuse, Protocol, ReadTransaction, Result, Row, Scan, Session, Transaction,
};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::hint::black_box;
use std::ops::ControlFlow::{Break, Continue};
use table::{FIELDS, Fields, Narrow, Wide, WideOrdered, counter, loaded, loaded_row, set_counter, tagged};
use zipf::{Zipf, scramble};

/// The order in which a transaction accesses its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// As drawn.
    Drawn,
    /// Ascending, which keeps lock waits free of cycles (STOv2).
    Sorted,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Reads the first column and increments its number.
    Increment,
    /// Overwrites a column.
    Blind,
}

/// What a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The first column.
    First,
    /// A random column.
    One,
    /// The row.
    All,
}

/// The parameters of [`Ycsb`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Rows at first.
    pub records: u64,
    /// Bytes of a column: 100 or 10. There are ten columns.
    pub field_bytes: usize,
    /// Accesses of a transaction; their keys are distinct.
    pub operations: usize,
    /// Percentage of reads.
    pub read_pct: u32,
    /// Percentage of inserts of new keys.
    pub insert_pct: u32,
    /// Percentage of scans; the table is ordered then. What is left are writes.
    pub scan_pct: u32,
    /// Skew, from 0 (uniform) to below 1.
    pub theta: f64,
    /// Whether frequent keys are spread over the key space, or neighbours.
    pub scramble: bool,
    /// Whether skew is towards the newest records.
    pub latest: bool,
    /// Order of accesses.
    pub key_order: KeyOrder,
    /// What a read returns.
    pub read: Read,
    /// What a write does.
    pub write: Write,
    /// Whether ledgers count the writes of each row, for small tests.
    pub per_row: bool,
}

impl Default for Parameters {
    /// Sixteen accesses, half of them writes, theta 0.9, over a million rows.
    fn default() -> Self {
        Self {
            records: 1_000_000,
            field_bytes: 100,
            operations: 16,
            read_pct: 50,
            insert_pct: 0,
            scan_pct: 0,
            theta: 0.9,
            scramble: false,
            latest: false,
            key_order: KeyOrder::Drawn,
            read: Read::One,
            write: Write::Increment,
            per_row: false,
        }
    }
}

impl Parameters {
    /// The names that [`Parameters::preset`] knows, with what they stand for.
    pub const PRESETS: [(&'static str, &'static str); 9] = [
        ("read-only", "2 reads, uniform (TicToc)"),
        ("medium", "16 accesses, 90 % reads, theta 0.8 (TicToc)"),
        ("high", "16 accesses, 50 % reads, theta 0.9 (TicToc)"),
        ("a", "50 % reads, 50 % updates"),
        ("b", "95 % reads, 5 % updates"),
        ("c", "reads"),
        ("d", "95 % reads of the latest, 5 % inserts"),
        ("e", "95 % scans, 5 % inserts"),
        ("f", "50 % reads, 50 % read-modify-writes"),
    ];

    /// The parameters of a named workload. A to F access one row, theta 0.99, scrambled, and read
    /// whole rows.
    pub fn preset(name: &str) -> Option<Self> {
        let core = Self {
            operations: 1,
            theta: 0.99,
            scramble: true,
            read: Read::All,
            write: Write::Blind,
            ..Self::default()
        };
        Some(match name {
            "read-only" => Self { operations: 2, read_pct: 100, theta: 0.0, ..Self::default() },
            "medium" => Self { read_pct: 90, theta: 0.8, ..Self::default() },
            "high" => Self::default(),
            "a" => core,
            "b" => Self { read_pct: 95, ..core },
            "c" => Self { read_pct: 100, ..core },
            "d" => Self { read_pct: 95, insert_pct: 5, latest: true, ..core },
            "e" => Self { read_pct: 0, insert_pct: 5, scan_pct: 95, ..core },
            "f" => Self { write: Write::Increment, ..core },
            _ => return None,
        })
    }

    fn ordered(&self) -> bool {
        self.scan_pct > 0
    }

    fn validate(&self) -> Result<()> {
        let reason = if !matches!(self.field_bytes, 10 | 100) {
            "columns have 10 or 100 bytes".into()
        } else if self.ordered() && self.field_bytes != 100 {
            "a table for scans has columns of 100 bytes".into()
        } else if !(0.0..1.0).contains(&self.theta) {
            format!("theta {} is not in [0, 1)", self.theta)
        } else if self.read_pct.saturating_add(self.insert_pct).saturating_add(self.scan_pct) > 100 {
            "the percentages of reads, inserts and scans add up to more than 100".into()
        } else if self.operations == 0 || self.records < 2 * self.operations as u64 {
            // Fewer, and distinct keys would be drawn for ever.
            format!(
                "{} accesses of {} records: at least one access, and twice as many records",
                self.operations, self.records
            )
        } else {
            return Ok(());
        };
        Err(Misuse::Option(reason).into())
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// The key, or where the scan starts.
    pub key: u64,
    /// What to do.
    pub action: Action,
}

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Reads this column.
    Read(u8),
    /// Reads the row.
    ReadAll,
    /// Reads and writes the first column.
    Increment,
    /// Reads the row, and writes the first column.
    ReadAllIncrement,
    /// Overwrites this column.
    Overwrite(u8),
    /// Adds the row.
    Insert,
    /// Reads this many rows.
    Scan(u8),
}

/// The kinds of transactions, by what is heaviest in them.
const KINDS: [&str; 4] = ["read", "write", "insert", "scan"];

impl Action {
    fn only_reads(self) -> bool {
        matches!(self, Self::Read(_) | Self::ReadAll | Self::Scan(_))
    }

    fn kind(self) -> usize {
        match self {
            Self::Read(_) | Self::ReadAll => 0,
            Self::Increment | Self::ReadAllIncrement | Self::Overwrite(_) => 1,
            Self::Insert => 2,
            Self::Scan(_) => 3,
        }
    }
}

/// The arguments of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The accesses.
    pub operations: Vec<Operation>,
    /// What overwrites write: used by no other transaction.
    pub tag: u64,
    kind: usize,
    writes: bool,
}

/// Draws inputs for one worker.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
    tag: u64,
}

/// Tags: the generator's number above this bit, its sequence below.
const SEQUENCE_BITS: u32 = 40;
/// How far beyond the last key given out rows are looked for.
const BEYOND: u64 = 64;
/// The longest scan.
const SCAN_MAX: u8 = 100;

/// What a committed transaction returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Rows that were read by key or by scan.
    pub rows: u32,
    /// Keys that were given out, but had no row when read (D only).
    pub absent: u32,
}

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each kind.
    pub commits: [u64; 4],
    /// Increments.
    pub increments: u64,
    /// Overwrites.
    pub overwrites: u64,
    /// Inserts.
    pub inserts: u64,
    /// Rows read.
    pub rows: u64,
    /// Keys without a row.
    pub absent: u64,
    /// For each generator in here: its first tag, and one past its last.
    pub tags: Vec<(u64, u64)>,
    /// Increments of each row, with [`Parameters::per_row`].
    pub per_row: Vec<u64>,
}

/// YCSB with its parameters.
#[derive(Debug)]
pub struct Ycsb {
    parameters: Parameters,
    zipf: Zipf,
    /// How many generators there have been; each gets a number of its own for tags.
    generators: AtomicU64,
    /// The next key to insert. Written by whoever draws an insert, read by whoever draws from the
    /// latest; relaxed, because it only hands out numbers.
    next_key: AtomicU64,
}

/// Runs generic code for the shape of the table that the parameters ask for.
macro_rules! with_shape {
    ($parameters:expr, $shape:ident => $body:expr) => {
        if $parameters.ordered() {
            type $shape = WideOrdered;
            $body
        } else if $parameters.field_bytes == 10 {
            type $shape = Narrow;
            $body
        } else {
            type $shape = Wide;
            $body
        }
    };
}

impl Ycsb {
    /// The workload with `parameters`. Takes time in proportion to the records.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            zipf: Zipf::new(parameters.records, parameters.theta),
            generators: AtomicU64::new(0),
            next_key: AtomicU64::new(parameters.records),
        })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn key(&self, rng: &mut SmallRng) -> u64 {
        let rank = self.zipf.draw(rng) - 1;
        if self.parameters.latest {
            self.next_key.load(Ordering::Relaxed) - 1 - rank
        } else if self.parameters.scramble {
            scramble(rank, self.parameters.records)
        } else {
            rank
        }
    }

    fn new_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    fn action(&self, rng: &mut SmallRng) -> Action {
        let Parameters { read_pct, insert_pct, scan_pct, read, write, .. } = self.parameters;
        let share = rng.random_range(0..100);
        let mut column = || rng.random_range(0..FIELDS as u8);
        if share < read_pct {
            match read {
                Read::First => Action::Read(0),
                Read::One => Action::Read(column()),
                Read::All => Action::ReadAll,
            }
        } else if share < read_pct + insert_pct {
            Action::Insert
        } else if share < read_pct + insert_pct + scan_pct {
            Action::Scan(rng.random_range(1..=SCAN_MAX))
        } else {
            match (write, read) {
                (Write::Increment, Read::All) => Action::ReadAllIncrement,
                (Write::Increment, _) => Action::Increment,
                (Write::Blind, Read::First) => Action::Overwrite(0),
                (Write::Blind, _) => Action::Overwrite(column()),
            }
        }
    }

    fn execute_on<R: Fields, T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        let mut output = Output::default();
        prefetch::<R, T>(tx, input);
        for Operation { key, action } in &input.operations {
            match *action {
                Action::Increment => increment::<R, T>(tx, *key)?,
                Action::ReadAllIncrement => {
                    black_box(&tx.get::<R>(*key)?);
                    increment::<R, T>(tx, *key)?;
                }
                Action::Overwrite(column) => {
                    tx.set_columns(*key, R::FIELDS[usize::from(column)], tagged::<R>(input.tag))?;
                }
                Action::Insert => tx.insert(loaded_row::<R>(*key))?,
                Action::Read(_) | Action::ReadAll | Action::Scan(_) => {
                    self.look_at::<R, T>(tx, *key, *action, &mut output)?;
                    continue;
                }
            }
            output.rows += 1;
        }
        Ok(output)
    }

    fn look_on<R: Fields, T: ReadTransaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        let mut output = Output::default();
        prefetch::<R, T>(tx, input);
        for Operation { key, action } in &input.operations {
            self.look_at::<R, T>(tx, *key, *action, &mut output)?;
        }
        Ok(output)
    }

    /// One access that only reads.
    #[inline]
    fn look_at<R: Fields, T: ReadTransaction>(
        &self,
        tx: &mut T,
        key: u64,
        action: Action,
        output: &mut Output,
    ) -> Result<()> {
        let found = match action {
            Action::Read(column) => {
                let value = tx.get_columns(key, R::FIELDS[usize::from(column)])?;
                black_box(&value).is_some()
            }
            Action::ReadAll => black_box(&tx.get::<R>(key)?).is_some(),
            Action::Scan(length) => {
                output.rows += self.scan::<R, T>(tx, key, length)?;
                return Ok(());
            }
            _ => return Err(Error::user("this access writes")),
        };
        output.rows += u32::from(found);
        output.absent += u32::from(!found);
        Ok(())
    }

    /// Reads the first column of every record that was loaded.
    fn sweep_shape<R: Fields, T: ReadTransaction>(&self, tx: &mut T) -> Result<u64> {
        /// Keys whose cache misses overlap.
        const AHEAD: u64 = 16;
        let mut rows = 0;
        for first in (0..self.parameters.records).step_by(AHEAD as usize) {
            let keys = first..self.parameters.records.min(first + AHEAD);
            tx.prefetch(keys.clone().map(|key| (key, R::FIELDS[0])));
            for key in keys {
                rows += u64::from(black_box(&tx.get_columns(key, R::FIELDS[0])?).is_some());
            }
        }
        Ok(rows)
    }

    /// Reads up to `length` rows from `start`, and requires that they ascend and that none of those
    /// that were loaded is left out.
    fn scan<R: Fields, T: ReadTransaction>(&self, tx: &mut T, start: u64, length: u8) -> Result<u32> {
        let loaded = self.parameters.records;
        let mut next = start;
        let mut rows = 0;
        let mut gap = None;
        tx.scan_columns(Scan::range(start..).limit(usize::from(length)), Row::<R>::new(), |key, row| {
            black_box(&row);
            if key < next || next < loaded && key != next {
                gap = Some((next, key));
                return Break(());
            }
            next = key + 1;
            rows += 1;
            Continue(())
        })?;
        if gap.is_none() && rows < u32::from(length) && next < loaded {
            gap = Some((next, u64::MAX));
        }
        match gap {
            None => Ok(rows),
            Some((expected, found)) => Err(Error::user(format!(
                "a scan from {start} found key {found} where {expected} was expected"
            ))),
        }
    }

    fn load_shape<R: Fields, P: Protocol>(
        &self,
        db: &Database<P>,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<()> {
        const ROWS: u64 = 128;
        let mut session = db.session()?;
        let records = self.parameters.records;
        for first in (0..records).step_by(ROWS as usize) {
            session.run(|tx| {
                (first..records.min(first + ROWS)).try_for_each(|key| tx.insert(loaded_row::<R>(key)))
            })?;
            if first % (ROWS * 64) == 0 {
                progress(first as f64 / records as f64);
            }
        }
        progress(1.0);
        Ok(())
    }

    fn check_shape<R: Fields, P: Protocol>(
        &self,
        db: &Database<P>,
        ledgers: &[Ledger],
    ) -> Result<Vec<Check>> {
        const ROWS: u64 = 64;
        let records = self.parameters.records;
        let mut session = db.session()?;
        let mut intact =
            Verdict::new("every column holds what was loaded or what a committed transaction wrote");
        let mut per_row = Verdict::new("the number in each row = committed increments of that row");
        let mut present = Verdict::new("every record that was loaded is there");
        let (mut rows, mut sum) = (0i128, 0i128);
        let end = self.next_key.load(Ordering::Relaxed) + BEYOND;
        for first in (0..end).step_by(ROWS as usize) {
            let chunk: Vec<Option<R>> =
                session.run(|tx| (first..end.min(first + ROWS)).map(|key| tx.get(key)).collect())?;
            for (key, row) in (first..).zip(chunk) {
                let Some(row) = row else {
                    present.require(key >= records, || format!("record {key} is missing"));
                    continue;
                };
                rows += 1;
                let fields = row.values();
                for (column, field) in fields.iter().enumerate() {
                    intact.require(self.explains::<R>(ledgers, key, column, field), || {
                        format!("row {key}, column {column}: {field:?}", field = field.as_ref())
                    });
                }
                if self.parameters.write == Write::Increment {
                    let number = counter(&fields[0]);
                    sum += i128::from(number);
                    let committed =
                        || ledgers.iter().filter_map(|ledger| ledger.per_row.get(key as usize)).sum::<u64>();
                    if self.parameters.per_row {
                        per_row.require(number == committed(), || {
                            format!("row {key}: {number}, committed {}", committed())
                        });
                    }
                }
            }
        }

        let total =
            |part: fn(&Ledger) -> u64| ledgers.iter().map(|ledger| i128::from(part(ledger))).sum::<i128>();
        let mut checks = vec![intact.finish(), present.finish()];
        let inserts = ("committed inserts", total(|ledger| ledger.inserts));
        checks.push(equal("ledger: rows", ("rows beyond those loaded", rows - i128::from(records)), inserts));
        if self.parameters.write == Write::Increment {
            let increments = ("committed increments", total(|ledger| ledger.increments));
            checks.push(equal("ledger: increments", ("sum of the numbers in column 0", sum), increments));
        }
        if self.parameters.per_row {
            checks.push(per_row.finish());
        }
        if self.parameters.ordered() {
            checks.push(self.check_order::<R, P>(&mut session, rows)?);
        }
        Ok(checks)
    }

    /// Whether a column's value is as loaded, incremented, or a committed transaction's.
    fn explains<R: Fields>(&self, ledgers: &[Ledger], key: u64, column: usize, field: &R::Field) -> bool {
        let as_loaded = field.as_ref()[8..] == loaded::<R>(key, column).as_ref()[8..];
        let number = counter(field);
        match self.parameters.write {
            Write::Increment => as_loaded && (column == 0 || number == 0),
            Write::Blind if number == 0 => as_loaded,
            Write::Blind => {
                let committed = ledgers.iter().flat_map(|ledger| &ledger.tags);
                field.as_ref() == tagged::<R>(number).as_ref()
                    && committed.into_iter().any(|(first, end)| (*first..*end).contains(&number))
            }
        }
    }

    /// The scan of everything meets the keys in order, and as many as there are.
    fn check_order<R: Fields, P: Protocol>(&self, session: &mut Session<P>, rows: i128) -> Result<Check> {
        const ROWS: usize = 1024;
        let mut order = Verdict::new("a scan of everything meets every row once, in order");
        let (mut next, mut met) = (0, 0);
        loop {
            let keys = session.run(|tx| {
                let mut keys = Vec::with_capacity(ROWS);
                tx.scan_columns(Scan::range(next..).limit(ROWS), R::FIELDS[0], |key, _| {
                    keys.push(key);
                    Continue(())
                })?;
                Ok(keys)
            })?;
            let Some(last) = keys.last() else { break };
            for pair in keys.windows(2) {
                order.require(pair[0] < pair[1], || format!("key {} after {}", pair[1], pair[0]));
            }
            order.require(keys[0] >= next, || format!("key {} in a scan from {next}", keys[0]));
            met += keys.len() as i128;
            next = last + 1;
        }
        order.require(met == rows, || format!("{met} rows met, {rows} there"));
        Ok(order.finish())
    }
}

/// Asks for the memory of all rows of a transaction, where there are several.
#[inline]
fn prefetch<R: Fields, T: ReadTransaction>(tx: &mut T, input: &Input) {
    if input.operations.len() > 1 {
        tx.prefetch(input.operations.iter().map(|operation| {
            let column = match operation.action {
                Action::Read(column) | Action::Overwrite(column) => usize::from(column),
                _ => 0,
            };
            (operation.key, R::FIELDS[column])
        }));
    }
}

#[inline]
fn increment<R: Fields, T: Transaction>(tx: &mut T, key: u64) -> Result<()> {
    tx.update_columns(key, R::FIELDS[0], |field| {
        let number = counter(field);
        set_counter(field, number + 1);
    })
}

impl Workload for Ycsb {
    type Generator = Generator;
    type Input = Input;
    type Output = Output;
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        let write_pct = 100 - p.read_pct - p.insert_pct - p.scan_pct;
        let distribution = match (p.latest, p.theta == 0.0) {
            (true, _) => "zipf from the latest",
            (false, true) => "uniform",
            (false, false) => "zipf over the records",
        };
        [
            ("records", p.records.to_string()),
            ("field_bytes", p.field_bytes.to_string()),
            ("operations", p.operations.to_string()),
            (
                "read/write/insert/scan %",
                format!("{}/{write_pct}/{}/{}", p.read_pct, p.insert_pct, p.scan_pct),
            ),
            ("distribution", distribution.to_string()),
            ("theta", p.theta.to_string()),
            ("scramble", p.scramble.to_string()),
            ("key_order", format!("{:?}", p.key_order).to_lowercase()),
            ("read", format!("{:?}", p.read).to_lowercase()),
            ("write", format!("{:?}", p.write).to_lowercase()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn tables<P: Protocol>(&self, builder: Builder<P>) -> Builder<P> {
        let rows = self.parameters.records as usize;
        with_shape!(self.parameters, Shape => builder.table::<Shape>(rows))
    }

    /// The content of a row is a hash of its key, so the seed does not matter.
    fn load<P: Protocol>(&self, db: &Database<P>, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        self.next_key.store(self.parameters.records, Ordering::Relaxed);
        with_shape!(self.parameters, Shape => self.load_shape::<Shape, P>(db, progress))
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        let number = self.generators.fetch_add(1, Ordering::Relaxed) + 1;
        Generator { rng: stream(seed, worker as u64), tag: number << SEQUENCE_BITS }
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        input.operations.clear();
        (input.kind, input.writes) = (0, false);
        generator.tag += 1;
        input.tag = generator.tag;
        for _ in 0..self.parameters.operations {
            let action = self.action(&mut generator.rng);
            input.kind = input.kind.max(action.kind());
            input.writes |= !action.only_reads();
            let key = if action == Action::Insert {
                self.new_key()
            } else {
                loop {
                    let key = self.key(&mut generator.rng);
                    if input.operations.iter().all(|other| other.key != key) {
                        break key;
                    }
                }
            };
            input.operations.push(Operation { key, action });
        }
        if self.parameters.key_order == KeyOrder::Sorted {
            input.operations.sort_unstable();
        }
    }

    fn refresh(&self, generator: &mut Generator, input: &mut Input) {
        generator.tag += 1;
        input.tag = generator.tag;
        for operation in &mut input.operations {
            if operation.action == Action::Insert {
                operation.key = self.new_key();
            }
        }
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        with_shape!(self.parameters, Shape => self.execute_on::<Shape, T>(tx, input))
    }

    #[inline]
    fn only_reads(&self, input: &Input) -> bool {
        !input.writes
    }

    #[inline]
    fn look<T: ReadTransaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        with_shape!(self.parameters, Shape => self.look_on::<Shape, T>(tx, input))
    }

    /// All records that were loaded, by key.
    fn sweep<T: ReadTransaction>(&self, tx: &mut T) -> Result<u64> {
        with_shape!(self.parameters, Shape => self.sweep_shape::<Shape, T>(tx))
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, output: Output) {
        ledger.commits[input.kind] += 1;
        ledger.rows += u64::from(output.rows);
        ledger.absent += u64::from(output.absent);
        for Operation { key, action } in &input.operations {
            match action {
                Action::Increment | Action::ReadAllIncrement => {
                    ledger.increments += 1;
                    if self.parameters.per_row {
                        let key = *key as usize;
                        ledger.per_row.resize(ledger.per_row.len().max(key + 1), 0);
                        ledger.per_row[key] += 1;
                    }
                }
                Action::Overwrite(_) => ledger.overwrites += 1,
                Action::Insert => ledger.inserts += 1,
                Action::Read(_) | Action::ReadAll | Action::Scan(_) => {}
            }
        }
        if self.parameters.write == Write::Blind {
            let tag = input.tag;
            match ledger.tags.iter_mut().find(|(first, _)| *first >> SEQUENCE_BITS == tag >> SEQUENCE_BITS) {
                Some((first, end)) => (*first, *end) = ((*first).min(tag), (*end).max(tag + 1)),
                None => ledger.tags.push((tag, tag + 1)),
            }
        }
    }

    fn check<P: Protocol>(&self, db: &Database<P>, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        with_shape!(self.parameters, Shape => self.check_shape::<Shape, P>(db, ledgers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(parameters: Parameters, count: usize) -> Vec<Input> {
        let ycsb = Ycsb::new(parameters).unwrap();
        let mut generator = ycsb.generator(0, 1, 5);
        let mut input = Input::default();
        let mut draw = || {
            ycsb.draw(&mut generator, &mut input);
            input.clone()
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn keys_are_distinct_and_sorted_if_asked() {
        let small = Parameters { records: 40, key_order: KeyOrder::Sorted, ..Parameters::default() };
        for input in draws(small, 500) {
            assert_eq!(input.operations.len(), 16);
            assert!(input.operations.windows(2).all(|pair| pair[0].key < pair[1].key));
        }
    }

    #[test]
    fn shares_are_those_of_the_preset() {
        for (name, kinds) in [
            ("a", [50, 50, 0, 0]),
            ("b", [95, 5, 0, 0]),
            ("c", [100, 0, 0, 0]),
            ("d", [95, 0, 5, 0]),
            ("e", [0, 0, 5, 95]),
            ("f", [50, 50, 0, 0]),
        ] {
            let parameters = Parameters { records: 1000, ..Parameters::preset(name).unwrap() };
            let inputs = draws(parameters, 20_000);
            for (kind, percent) in kinds.into_iter().enumerate() {
                let count = inputs.iter().filter(|input| input.kind == kind).count();
                assert!(count.abs_diff(percent * 200) < 300, "{name}: {count} x {}", KINDS[kind]);
            }
        }
        assert!(Parameters::PRESETS.iter().all(|(name, _)| Parameters::preset(name).is_some()));
        assert!(Parameters::preset("g").is_none());
    }

    #[test]
    fn the_latest_is_the_last_key_given_out() {
        let parameters = Parameters { records: 1000, ..Parameters::preset("d").unwrap() };
        let inputs = draws(parameters, 10_000);
        let mut newest = 999;
        let mut hits = 0;
        for Operation { key, action } in inputs.iter().flat_map(|input| &input.operations) {
            if *action == Action::Insert {
                assert_eq!(*key, newest + 1);
                newest = *key;
            } else {
                assert!(*key <= newest && *key + 1000 > newest);
                hits += u32::from(*key == newest);
            }
        }
        assert!(hits > 800, "zeta of 1000 at 0.99 gives the newest about 13 %: {hits}");
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { theta: 1.0, ..default },
            Parameters { records: 31, ..default },
            Parameters { field_bytes: 20, ..default },
            Parameters { read_pct: 60, scan_pct: 60, ..default },
            Parameters { field_bytes: 10, scan_pct: 10, ..default },
            Parameters { operations: 0, ..default },
        ] {
            assert!(Ycsb::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
