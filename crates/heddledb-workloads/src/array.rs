//! DRP's array (§7.1): each transaction increments some elements of an array of numbers.
//!
//! Without contention each worker draws from a part of the array that is its own; otherwise from all of it, evenly or skewed by a
//! Zipf distribution. The elements of a transaction are distinct. It is deferred, so that a protocol that can hands elements
//! from transaction to transaction, or eager.

use crate::random::stream;
use crate::verdict::{Verdict, equal};
use crate::ycsb::zipf::{Zipf, scramble};
use crate::{Check, Workload};
use heddledb::internals::shared::SharedU64;
use heddledb::objects::TArray;
use heddledb::{Builder, Database, Misuse, Objects, Result, Session, Transaction};
use rand::RngExt;
use rand::rngs::SmallRng;

/// The object.
#[derive(Objects)]
pub struct Numbers {
    /// The array.
    array: TArray<u64>,
}

/// The parameters of [`Array`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Elements of the array.
    pub elements: u64,
    /// How many of them a transaction increments.
    pub accesses: usize,
    /// Workers draw from the whole array, and not from a part of their own.
    pub shared: bool,
    /// The skew of a shared array; 0 is none.
    pub theta: f64,
    /// Elements are incremented at once, and not deferred.
    pub eager: bool,
    /// One worker increments plain numbers, without a database: what speed-ups are over.
    pub plain: bool,
}

impl Default for Parameters {
    /// A tenth of the paper's million elements, fifty increments, no contention.
    fn default() -> Self {
        Self { elements: 100_000, accesses: 50, shared: false, theta: 0.0, eager: false, plain: false }
    }
}

/// The most workers whose parts of the array are told apart.
const PARTS: usize = 1024;

/// The arguments of one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The elements, all different.
    pub indexes: Vec<u64>,
    /// The part of the array that they are in; 0 of a shared one.
    pub part: usize,
}

/// Draws inputs for one worker.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
    part: usize,
    /// The part's elements.
    first: u64,
    len: u64,
}

/// What one worker's transactions did.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits.
    commits: u64,
}

/// The array with its parameters.
#[derive(Debug)]
pub struct Array {
    parameters: Parameters,
    zipf: Option<Zipf>,
    /// The numbers of a plain run.
    numbers: Box<[SharedU64]>,
}

impl Array {
    /// The workload with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { elements, accesses, shared, theta, plain, .. } = parameters;
        // One element is a counter that all want, or each worker would if it had others.
        let is_counter = (elements, accesses) == (1, 1) && theta == 0.0;
        let reason = if !is_counter && (accesses == 0 || elements < 2 * accesses as u64) {
            format!(
                "a transaction increments at least one element, and at most half of the array, or all of one that has \
                 a single element and no skew; {accesses} of {elements} are not"
            )
        } else if theta != 0.0 && !shared {
            "only a shared array is skewed: give --shared with --theta".into()
        } else {
            let zipf = (theta != 0.0).then(|| Zipf::new(elements, theta));
            let numbers = (0..if plain { elements } else { 0 }).map(|_| SharedU64::new(0)).collect();
            return Ok(Self { parameters, zipf, numbers });
        };
        Err(Misuse::Option(reason).into())
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }
}

impl Workload for Array {
    type Generator = Generator;
    type Input = Input;
    type Output = ();
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "array"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("elements", p.elements.to_string()),
            ("accesses", p.accesses.to_string()),
            ("shared", p.shared.to_string()),
            ("theta", p.theta.to_string()),
            ("eager", p.eager.to_string()),
            ("plain", p.plain.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["increment"]
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Numbers>()
    }

    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        const CHUNK: u64 = 256;
        if self.parameters.plain {
            self.numbers.iter().for_each(|number| number.store(0));
            return Ok(());
        }
        let mut session = db.session()?;
        let elements = self.parameters.elements;
        for first in (0..elements).step_by(CHUNK as usize) {
            session.run(|tx| Numbers::array.grow(tx, elements.min(first + CHUNK), 0))?;
            progress(first as f64 / elements as f64);
        }
        Ok(())
    }

    /// A part may be too small for a transaction where there are many workers: then several share one.
    fn generator(&self, worker: usize, workers: usize, seed: u64) -> Generator {
        let Parameters { elements, accesses, shared, .. } = self.parameters;
        let parts = (workers as u64).min(elements / (2 * accesses as u64)).min(PARTS as u64).max(1);
        let parts = if shared { 1 } else { parts };
        let (part, len) = (worker as u64 % parts, elements / parts);
        Generator { rng: stream(seed, worker as u64), part: part as usize, first: part * len, len }
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        let Generator { rng, part, first, len } = generator;
        input.part = *part;
        input.indexes.clear();
        while input.indexes.len() < self.parameters.accesses {
            let index = match &self.zipf {
                Some(zipf) => scramble(zipf.draw(rng) - 1, self.parameters.elements),
                None => *first + rng.random_range(0..*len),
            };
            if !input.indexes.contains(&index) {
                input.indexes.push(index);
            }
        }
    }

    fn refresh(&self, _generator: &mut Generator, _input: &mut Input) {}

    fn kind(&self, _input: &Input) -> usize {
        0
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<()> {
        input.indexes.iter().try_for_each(|index| Numbers::array.update(tx, *index, |number| *number += 1))
    }

    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<()> {
        if self.parameters.plain {
            for index in &input.indexes {
                let number = &self.numbers[*index as usize];
                number.store(number.load() + 1);
            }
            return Ok(());
        }
        if self.parameters.eager {
            return session.run(|tx| self.execute(tx, input));
        }
        session.defer(|tx| {
            for index in &input.indexes {
                Numbers::array.update_later(tx, *index, (), |number, ()| *number += 1)?;
            }
            Ok(())
        })
    }

    fn is_beside(&self) -> bool {
        self.parameters.plain
    }

    fn record(&self, ledger: &mut Ledger, _input: &Input, (): ()) {
        ledger.commits += 1;
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        let Parameters { elements, accesses, .. } = self.parameters;
        const CHUNK: u64 = 256;
        let mut session = db.session()?;
        let mut once = Verdict::new("plain numbers have one worker");
        once.require(!self.parameters.plain || ledgers.len() <= 1, || {
            format!("there were {}", ledgers.len())
        });
        let mut lawful = Verdict::new("no element is counted up more often than transactions committed");
        let commits: u64 = ledgers.iter().map(|ledger| ledger.commits).sum();
        let mut sum = 0u64;
        for first in (0..elements).step_by(CHUNK as usize) {
            let indexes = first..elements.min(first + CHUNK);
            let numbers: Vec<u64> = if self.parameters.plain {
                indexes.clone().map(|index| self.numbers[index as usize].load()).collect()
            } else {
                session.run(|tx| indexes.clone().map(|index| Numbers::array.get(tx, index)).collect())?
            };
            for (index, number) in indexes.zip(numbers) {
                lawful
                    .require(number <= commits, || format!("element {index} is {number}, commits {commits}"));
                sum = sum.wrapping_add(number);
            }
        }
        let len = match self.parameters.plain {
            true => self.numbers.len() as u64,
            false => session.run(|tx| Numbers::array.len(tx))?,
        };
        Ok(vec![
            once.finish(),
            equal("the array is as long as it was", ("elements", len.into()), ("loaded", elements.into())),
            lawful.finish(),
            equal(
                "sum of the elements = increments of committed transactions",
                ("sum", sum.into()),
                ("expected", i128::from(commits) * accesses as i128),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(parameters: Parameters, worker: usize, workers: usize) -> Vec<u64> {
        let array = Array::new(parameters).unwrap();
        let mut generator = array.generator(worker, workers, 3);
        let (mut all, mut input) = (Vec::new(), Input::default());
        for _ in 0..200 {
            array.draw(&mut generator, &mut input);
            assert_eq!(input.indexes.len(), parameters.accesses);
            input.indexes.sort_unstable();
            assert!(input.indexes.windows(2).all(|pair| pair[0] < pair[1]), "{input:?}");
            all.extend(&input.indexes);
        }
        all
    }

    #[test]
    fn workers_draw_from_their_parts_or_from_all() {
        let own = Parameters { elements: 1_000, accesses: 10, ..Parameters::default() };
        for worker in 0..4 {
            let part = worker as u64 * 250..(worker as u64 + 1) * 250;
            assert!(indexes(own, worker, 4).iter().all(|index| part.contains(index)));
        }
        let shared = indexes(Parameters { shared: true, ..own }, 3, 4);
        assert!(shared.iter().any(|index| *index < 250) && shared.iter().any(|index| *index >= 750));
        let counter = Parameters { elements: 1, accesses: 1, shared: true, ..own };
        assert!(indexes(counter, 1, 4).iter().all(|index| *index == 0));
        let skewed = indexes(Parameters { shared: true, theta: 0.9, ..own }, 0, 4);
        let most = (0..1_000).map(|index| skewed.iter().filter(|other| **other == index).count()).max();
        assert!(most > Some(100), "{most:?}");
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { accesses: 0, ..default },
            Parameters { elements: 99, ..default },
            Parameters { elements: 1, accesses: 1, shared: true, theta: 0.5, ..default },
            Parameters { theta: 0.5, ..default },
        ] {
            assert!(Array::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
