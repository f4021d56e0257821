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

mod call;
mod check;
mod operation;
mod parameters;
pub mod table;
pub mod zipf;

pub use operation::{Action, Input, Ledger, Operation, Output};
pub use parameters::{KeyOrder, Parameters, Read, Write};

use crate::random::stream;
use crate::{Check, Workload};
use call::Transact;
use heddledb::internals::BuilderInternals;
use heddledb::internals::shared::SharedU64;
use heddledb::{Builder, Database, Error, ReadTransaction, Result, Row, Scan, Session, Transaction};
use operation::KINDS;
use rand::RngExt;
use rand::rngs::SmallRng;
use std::hint::black_box;
use std::ops::ControlFlow::{Break, Continue};
use table::{FIELDS, Fields, Narrow, Wide, WideOrdered, counter, loaded_row, set_counter, tagged};
use zipf::{Zipf, scramble};

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

/// YCSB with its parameters.
#[derive(Debug)]
pub struct Ycsb {
    parameters: Parameters,
    zipf: Zipf,
    /// How many generators there have been; each gets a number of its own for tags.
    generators: SharedU64,
    /// The next key to insert. Written by whoever draws an insert, read by whoever draws from the
    /// latest; relaxed, because it only hands out numbers.
    next_key: SharedU64,
    /// 1 where transactions are calls, under protocols that call for them to tell what they access.
    called: SharedU64,
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
    /// [`Misuse::Option`](heddledb::Misuse::Option) for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            zipf: Zipf::new(parameters.records, parameters.theta),
            generators: SharedU64::new(0),
            next_key: SharedU64::new(parameters.records),
            called: SharedU64::new(0),
        })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn key(&self, rng: &mut SmallRng) -> u64 {
        let rank = self.zipf.draw(rng) - 1;
        if self.parameters.latest {
            self.next_key.load() - 1 - rank
        } else if self.parameters.scramble {
            scramble(rank, self.parameters.records)
        } else {
            rank
        }
    }

    fn new_key(&self) -> u64 {
        self.next_key.fetch_add(1)
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

    /// One transaction; at the sites of [`Transact`], if it is called as that.
    fn execute_on<R: Fields, T: Transaction>(
        &self,
        tx: &mut T,
        input: &Input,
        called: bool,
    ) -> Result<Output> {
        let mut output = Output::default();
        prefetch::<R, T>(tx, input);
        for Operation { key, action } in &input.operations {
            if called {
                tx.at(call::site(*action));
            }
            match *action {
                Action::Increment => increment::<R, T>(tx, *key)?,
                Action::ReadAllIncrement => {
                    black_box(&tx.get::<R>(*key)?);
                    if called {
                        tx.at(call::site(Action::Increment));
                    }
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
    #[inline(always)]
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

    fn load_shape<R: Fields>(&self, db: &Database, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
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

    fn tables(&self, builder: Builder) -> Builder {
        let rows = self.parameters.records as usize;
        // A scan tells all keys from its first on, since nobody knows where it ends: then all wait for all.
        let called = builder.execution().is_announced() && !self.parameters.ordered();
        self.called.store(called.into());
        with_shape!(self.parameters, Shape => {
            let builder = builder.table::<Shape>(rows);
            if called { builder.procedure::<Transact<Shape>>() } else { builder }
        })
    }

    /// The content of a row is a hash of its key, so the seed does not matter.
    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        self.next_key.store(self.parameters.records);
        with_shape!(self.parameters, Shape => self.load_shape::<Shape>(db, progress))
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        let number = self.generators.fetch_add(1) + 1;
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
        with_shape!(self.parameters, Shape => self.execute_on::<Shape, T>(tx, input, false))
    }

    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<Output> {
        if self.called.load() == 0 {
            return session.run(|tx| self.execute(tx, input));
        }
        with_shape!(self.parameters, Shape => session.call(Transact::<Shape>::default(), (self, input)))
    }

    fn is_submittable(&self) -> bool {
        !self.parameters.ordered()
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

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        with_shape!(self.parameters, Shape => self.check_shape::<Shape>(db, ledgers))
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
