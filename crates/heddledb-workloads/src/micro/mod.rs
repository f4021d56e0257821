//! The microbenchmark of IC3 (§6.2, §6.7): transactions of as many pieces as there are tables, piece after
//! piece, each of which updates four records of its own table.
//!
//! The first record of a piece is drawn from a few, the *scope*, the other three from the rest, so that
//! one over the scope is the rate at which two transactions meet in a piece. The keys of a piece are
//! accessed in ascending order. An update counts up the number in the row, so that the numbers of a table
//! add up to the committed updates of it; a transaction that gives up (a user abort) after one of its
//! pieces, and whoever was dragged along with it, must have left nothing.
//!
//! Two things are this suite's own: accesses that only read, and transactions that go through the tables
//! backwards, which forbid a static analysis to release anything early.
//!
//! IC3 has tables of a million rows. The default here is a tenth, so that ten tables are loaded within
//! seconds; the rate of contention depends on the scope alone.

pub mod table;

use crate::random::{chance, stream};
use crate::verdict::{Verdict, equal};
use crate::{Check, Workload};
use heddledb::{Builder, Database, Misuse, Result, Session, Transaction};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::fmt;
use std::str::FromStr;
use table::PIECES;

/// Records that a piece accesses.
pub const ACCESSES: usize = 4;

/// Where in a piece the accesses that only read stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Wherever their keys are in ascending order.
    Among,
    /// Before the updates.
    Before,
    /// After the updates.
    After,
}

impl Reads {
    const ALL: [Self; 3] = [Self::Among, Self::Before, Self::After];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Among => "among",
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl FromStr for Reads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|place| place.name() == text)
            .ok_or_else(|| format!("`{text}` is no place for reads; give among, before or after"))
    }
}

/// The parameters of [`Micro`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Pieces of a transaction, each with a table: 1 to 64.
    pub pieces: usize,
    /// Rows of each table.
    pub rows: u64,
    /// From how many rows the first record of a piece is drawn; all of them make no contention.
    pub scope: u64,
    /// Percentage of transactions that give up after one of their pieces, each equally likely.
    pub user_abort_pct: u32,
    /// Percentage of accesses that only read.
    pub read_pct: u32,
    /// Where these stand.
    pub reads: Reads,
    /// Whether half of the transactions go through the tables from the last to the first.
    pub reversed: bool,
}

impl Default for Parameters {
    /// Ten pieces, a hundred thousand rows (IC3: a million), contention rate 1 %, updates only.
    fn default() -> Self {
        Self {
            pieces: 10,
            rows: 100_000,
            scope: 100,
            user_abort_pct: 0,
            read_pct: 0,
            reads: Reads::Among,
            reversed: false,
        }
    }
}

impl Parameters {
    fn validate(&self) -> Result<()> {
        let reason = if !(1..=PIECES).contains(&self.pieces) {
            format!("a transaction has 1 to {PIECES} pieces, not {}", self.pieces)
        } else if self.rows < 2 * ACCESSES as u64 {
            // Fewer, and distinct keys would be drawn for ever.
            format!("a table has {} rows at least, not {}", 2 * ACCESSES, self.rows)
        } else if self.scope == 0 || self.scope > self.rows {
            format!("the scope is 1 to the number of rows, {}, not {}", self.rows, self.scope)
        } else if self.scope != self.rows && self.rows - self.scope < 2 * ACCESSES as u64 {
            format!(
                "a scope that is not all {} rows leaves out {} of them at least; {} leaves out {}",
                self.rows,
                2 * ACCESSES,
                self.scope,
                self.rows - self.scope
            )
        } else if self.user_abort_pct > 100 || self.read_pct > 100 {
            "a percentage is above 100".into()
        } else {
            return Ok(());
        };
        Err(Misuse::Option(reason).into())
    }
}

/// One access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The key.
    pub key: u64,
    /// Whether the number is counted up, or only read.
    pub update: bool,
}

/// The arguments of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The accesses, by table.
    pub pieces: Vec<[Access; ACCESSES]>,
    /// The table after whose piece the transaction gives up.
    pub gives_up_after: Option<usize>,
    /// Whether it goes from the last table to the first.
    pub backwards: bool,
}

impl Input {
    /// The accesses to a table, if the transaction has that piece.
    #[inline]
    fn piece(&self, number: usize) -> Option<&[Access; ACCESSES]> {
        self.pieces.get(number)
    }

    /// Whether the transaction gives up after its piece on that table.
    #[inline]
    fn gives_up_after(&self, number: usize) -> bool {
        self.gives_up_after == Some(number)
    }
}

/// The reason of a user abort: the input says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gave up after a piece")
    }
}

impl std::error::Error for GaveUp {}

/// The transaction types: the same pieces in two orders.
const KINDS: [&str; 2] = ["forwards", "backwards"];

/// Draws inputs for one worker.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
}

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each type.
    pub commits: [u64; 2],
    /// Updates by table.
    pub updates: Vec<u64>,
}

/// The microbenchmark with its parameters.
#[derive(Debug)]
pub struct Micro {
    parameters: Parameters,
}

impl Micro {
    /// The workload with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.validate()?;
        Ok(Self { parameters })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The accesses to one table.
    fn draw_piece(&self, rng: &mut SmallRng) -> [Access; ACCESSES] {
        let Parameters { rows, scope, read_pct, reads, .. } = self.parameters;
        let others = if scope == rows { 0..rows } else { scope..rows };
        let mut piece = [Access::default(); ACCESSES];
        piece[0].key = rng.random_range(0..scope);
        for place in 1..ACCESSES {
            piece[place].key = loop {
                let key = rng.random_range(others.clone());
                if piece[..place].iter().all(|other| other.key != key) {
                    break key;
                }
            };
        }
        for access in &mut piece {
            access.update = !chance(rng, read_pct);
        }
        piece.sort_unstable_by_key(|access| {
            let late = match reads {
                Reads::Among => false,
                Reads::Before => access.update,
                Reads::After => !access.update,
            };
            (late, access.key)
        });
        piece
    }
}

impl Workload for Micro {
    type Generator = Generator;
    type Input = Input;
    type Output = ();
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "micro"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("pieces", p.pieces.to_string()),
            ("rows", p.rows.to_string()),
            ("scope", p.scope.to_string()),
            ("user_abort_pct", p.user_abort_pct.to_string()),
            ("read_pct", p.read_pct.to_string()),
            ("reads", p.reads.name().to_string()),
            ("reversed", p.reversed.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn tables(&self, builder: Builder) -> Builder {
        let builder = table::declare(builder, self.parameters.pieces, self.parameters.rows as usize);
        let builder = builder.procedure::<table::Forwards>();
        if self.parameters.reversed { builder.procedure::<table::Backwards>() } else { builder }
    }

    /// The content of a row is a hash of its key, so the seed does not matter.
    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        let Parameters { pieces, rows, .. } = self.parameters;
        let mut session = db.session()?;
        for number in 0..pieces {
            for first in (0..rows).step_by(CHUNK as usize) {
                let keys = first..rows.min(first + CHUNK);
                session.run(|tx| keys.clone().try_for_each(|key| table::insert(tx, number, key)))?;
            }
            progress((number + 1) as f64 / pieces as f64);
        }
        Ok(())
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        Generator { rng: stream(seed, worker as u64) }
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        let Parameters { pieces, user_abort_pct, reversed, .. } = self.parameters;
        let rng = &mut generator.rng;
        input.pieces.clear();
        input.pieces.extend((0..pieces).map(|_| self.draw_piece(rng)));
        input.gives_up_after = chance(rng, user_abort_pct).then(|| rng.random_range(0..pieces));
        input.backwards = reversed && chance(rng, 50);
    }

    /// Nothing must be new.
    fn refresh(&self, _generator: &mut Generator, _input: &mut Input) {}

    fn kind(&self, input: &Input) -> usize {
        usize::from(input.backwards)
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<()> {
        if input.backwards { table::backwards(tx, input) } else { table::forwards(tx, input) }
    }

    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<()> {
        if input.backwards {
            session.call(table::Backwards, input)
        } else {
            session.call(table::Forwards, input)
        }
    }

    fn is_submittable(&self) -> bool {
        true
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, (): ()) {
        ledger.commits[self.kind(input)] += 1;
        ledger.updates.resize(self.parameters.pieces, 0);
        for (sum, piece) in ledger.updates.iter_mut().zip(&input.pieces) {
            *sum += piece.iter().filter(|access| access.update).count() as u64;
        }
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        let Parameters { pieces, rows, read_pct, .. } = self.parameters;
        let mut session = db.session()?;
        let mut present = Verdict::new("every row is there, and no other");
        let mut intact = Verdict::new("every row is as loaded but for its counter");
        let mut counted = Verdict::new("each table: sum of the counters = committed updates");
        let mut sums = Vec::with_capacity(pieces);
        for number in 0..pieces {
            let mut sum = 0u64;
            // The table is a hash table, so it is read by the keys that it should have, and some beyond.
            for first in (0..rows + CHUNK).step_by(CHUNK as usize) {
                let keys = first..first + CHUNK;
                let found: Vec<Option<(u64, bool)>> =
                    session.run(|tx| keys.clone().map(|key| table::look(tx, number, key)).collect())?;
                for (key, row) in keys.zip(found) {
                    present.require(row.is_some() == (key < rows), || {
                        format!("table {number}, row {key}: present {}", row.is_some())
                    });
                    let Some((count, as_loaded)) = row else { continue };
                    intact.require(as_loaded, || format!("table {number}, row {key}"));
                    sum = sum.wrapping_add(count);
                }
            }
            let updates: u64 = ledgers.iter().filter_map(|ledger| ledger.updates.get(number)).sum();
            counted.require(sum == updates, || format!("table {number}: {sum}, committed {updates}"));
            sums.push(sum);
        }
        let mut checks = vec![present.finish(), intact.finish(), counted.finish()];
        if read_pct == 0 {
            let mut alike = Verdict::new("the counters of all tables have the same sum");
            for (number, sum) in sums.iter().enumerate() {
                alike.require(*sum == sums[0], || format!("table {number}: {sum}, table 0: {}", sums[0]));
            }
            checks.push(alike.finish());
            let commits: u64 = ledgers.iter().flat_map(|ledger| ledger.commits).sum();
            let accesses = i128::from(commits) * ACCESSES as i128;
            let sum = i128::from(sums.first().copied().unwrap_or_default());
            let name = "sum of the counters of a table = 4 x committed transactions";
            checks.push(equal(name, ("in table 0", sum), ("expected", accesses)));
        }
        Ok(checks)
    }
}

/// Rows of a transaction that loads or checks.
const CHUNK: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(parameters: Parameters, count: usize) -> Vec<Input> {
        let micro = Micro::new(parameters).unwrap();
        let mut generator = micro.generator(0, 1, 5);
        let mut input = Input::default();
        let mut draw = || {
            micro.draw(&mut generator, &mut input);
            input.clone()
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn a_piece_has_one_record_of_the_scope_and_three_others_in_order() {
        for (pieces, scope) in [(1, 10), (10, 100), (64, 5), (10, 992)] {
            let parameters = Parameters { pieces, rows: 1000, scope, ..Parameters::default() };
            for input in draws(parameters, 500) {
                assert_eq!(input.pieces.len(), pieces);
                assert!(!input.backwards && input.gives_up_after.is_none());
                for piece in &input.pieces {
                    assert!(piece.windows(2).all(|pair| pair[0].key < pair[1].key));
                    assert!(piece[0].key < scope && piece[1].key >= scope && piece[3].key < 1000);
                    assert!(piece.iter().all(|access| access.update));
                }
            }
        }
    }

    #[test]
    fn the_scope_is_used_evenly_and_may_be_everything() {
        let parameters = Parameters { pieces: 1, rows: 1000, scope: 10, ..Parameters::default() };
        let mut counts = [0; 10];
        for input in draws(parameters, 10_000) {
            counts[input.pieces[0][0].key as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let parameters = Parameters { rows: 8, scope: 8, ..parameters };
        let mut seen = [0; 8];
        for input in draws(parameters, 1000) {
            input.pieces[0].iter().for_each(|access| seen[access.key as usize] += 1);
        }
        assert!(seen.iter().all(|count| (400..600).contains(count)), "{seen:?}");
    }

    #[test]
    fn shares_are_those_of_the_parameters() {
        let parameters = Parameters {
            pieces: 5,
            user_abort_pct: 10,
            read_pct: 30,
            reversed: true,
            ..Parameters::default()
        };
        let inputs = draws(parameters, 20_000);
        let reads = inputs.iter().flat_map(|input| input.pieces.iter().flatten());
        let reads = reads.filter(|access| !access.update).count();
        assert!(reads.abs_diff(120_000) < 2_000, "{reads}");
        let backwards = inputs.iter().filter(|input| input.backwards).count();
        assert!(backwards.abs_diff(10_000) < 300, "{backwards}");
        for piece in 0..5 {
            let after = inputs.iter().filter(|input| input.gives_up_after == Some(piece)).count();
            assert!(after.abs_diff(400) < 100, "{after} after piece {piece}");
        }
        assert!(inputs.iter().all(|input| input.gives_up_after.is_none_or(|piece| piece < 5)));
    }

    #[test]
    fn reads_stand_where_they_were_asked_for() {
        for reads in Reads::ALL {
            assert_eq!(reads.name().parse(), Ok(reads));
            let parameters = Parameters { read_pct: 50, reads, ..Parameters::default() };
            for input in draws(parameters, 200) {
                for piece in &input.pieces {
                    let updates = piece.map(|access| access.update);
                    match reads {
                        Reads::Among => assert!(piece.is_sorted_by_key(|access| access.key)),
                        Reads::Before => assert!(updates.is_sorted()),
                        Reads::After => assert!(updates.is_sorted_by(|a, b| a >= b)),
                    }
                }
            }
        }
        assert!("between".parse::<Reads>().is_err());
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let parameters =
            Parameters { user_abort_pct: 20, read_pct: 20, reversed: true, ..Parameters::default() };
        assert_eq!(draws(parameters, 100), draws(parameters, 100));
        let micro = Micro::new(parameters).unwrap();
        let first = |worker| {
            let mut input = Input::default();
            micro.draw(&mut micro.generator(worker, 2, 5), &mut input);
            input
        };
        assert_ne!(first(0), first(1));
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { pieces: 0, ..default },
            Parameters { pieces: 65, ..default },
            Parameters { rows: 7, scope: 7, ..default },
            Parameters { scope: 0, ..default },
            Parameters { scope: 100_001, ..default },
            Parameters { scope: 99_999, ..default },
            Parameters { read_pct: 101, ..default },
            Parameters { user_abort_pct: 101, ..default },
        ] {
            assert!(Micro::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
