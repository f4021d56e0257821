//! Vacation: a travel agency's cars, flights, rooms and customers.
//!
//! A task makes a reservation (of the dearest offer of each type among some that are asked for), deletes a customer, or updates
//! offers; what it asks for is drawn before. STAMP runs a number of them; here they run as transactions of any
//! benchmark do. `query_pct` says from how much of the agency customers and offers are drawn: little makes it contended.

mod schema;
mod tasks;

pub use schema::{Agency, Offer, Type};
pub use tasks::QUERIES_MAX;

use crate::random::{chance, stream};
use crate::verdict::{Verdict, equal};
use crate::{Check, Workload};
use heddledb::internals::shared::SharedU64;
use heddledb::{Builder, Database, Misuse, Result, Session, Transaction};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;

/// The parameters of [`Vacation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Offers of each type, and customers.
    pub relations: u64,
    /// Offers that a task asks for at most, at least one; and those that an update changes.
    pub queries: usize,
    /// From how many of the customers and offers a task's are drawn, in percent.
    pub query_pct: u32,
    /// Percentage of tasks that make a reservation; of the others, half delete a customer and half update offers.
    pub user_pct: u32,
    /// Tasks read and write at once, and do not defer.
    pub eager: bool,
}

impl Parameters {
    /// Relations of the paper.
    pub const RELATIONS_OF_THE_PAPER: u64 = 1_048_576;
    /// DRP's low contention, on a sixty-fourth of its relations.
    pub const LOW: Self = Self { relations: 16_384, queries: 2, query_pct: 90, user_pct: 98, eager: false };
    /// DRP's high contention: four queries, from a hundredth.
    pub const HIGH: Self = Self { queries: 4, query_pct: 1, user_pct: 90, ..Self::LOW };
    /// All tasks ask for the same ten.
    pub const HOT: Self = Self { relations: 1_000, ..Self::HIGH };
    /// By name.
    pub const PRESETS: [(&'static str, Self); 3] =
        [("low", Self::LOW), ("high", Self::HIGH), ("hot", Self::HOT)];

    /// The preset of that name.
    pub fn preset(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(known, _)| *known == name).map(|(_, parameters)| *parameters)
    }

    /// From how many customers and offers a task's are drawn.
    fn range(&self) -> u64 {
        (self.relations * u64::from(self.query_pct) / 100).max(1)
    }
}

/// An offer that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Its type.
    pub of: Type,
    /// Its number.
    pub id: u64,
}

/// What an update does with an offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The offer.
    pub query: Query,
    /// Whether there will be more of it.
    pub add: bool,
    /// The new price, if so.
    pub price: i64,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Makes a reservation.
    Reserve {
        /// For this customer.
        customer: u64,
        /// Among these offers.
        queries: Vec<Query>,
    },
    /// Deletes a customer.
    Delete {
        /// The customer.
        customer: u64,
    },
    /// Updates offers.
    Update {
        /// What is done.
        changes: Vec<Change>,
    },
}

impl Default for Input {
    fn default() -> Self {
        Self::Delete { customer: 0 }
    }
}

const KINDS: [&str; 3] = ["make reservation", "delete customer", "update tables"];

/// What a task did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Reservations made.
    reserved: i64,
    /// Reservations taken back.
    released: i64,
    /// Their prices.
    bill: i64,
    /// By how many the total of all offers grew.
    grown: i64,
    /// Transactions that looked ahead.
    looked_ahead: u64,
}

/// The sum of what a worker's tasks did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    /// Commits by kind.
    commits: [u64; 3],
    sum: Output,
}

impl Ledger {
    /// Commits by kind.
    pub fn commits(&self) -> [u64; 3] {
        self.commits
    }
}

/// Draws tasks for one worker.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
}

/// Vacation with its parameters.
#[derive(Debug)]
pub struct Vacation {
    parameters: Parameters,
    /// The total of all offers when they were loaded.
    loaded: SharedU64,
}

/// A price, as STAMP draws it.
fn price(rng: &mut SmallRng) -> i64 {
    50 + 10 * rng.random_range(0..5)
}

impl Vacation {
    /// The workload with `parameters`.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        let Parameters { relations, queries, query_pct, user_pct, .. } = parameters;
        let reason = if relations == 0 || !(1..=QUERIES_MAX).contains(&queries) {
            format!(
                "there is a relation at least, and a task asks for 1 to {QUERIES_MAX}: {relations} and {queries} are not"
            )
        } else if !(1..=100).contains(&query_pct) || user_pct > 100 {
            format!(
                "percentages are up to 100, and that of queries at least 1: {query_pct} and {user_pct} are not"
            )
        } else {
            return Ok(Self { parameters, loaded: SharedU64::new(0) });
        };
        Err(Misuse::Option(reason).into())
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn query(&self, rng: &mut SmallRng) -> Query {
        Query { of: Type::ALL[rng.random_range(0..3)], id: rng.random_range(1..=self.parameters.range()) }
    }

    fn count(&self, rng: &mut SmallRng) -> usize {
        rng.random_range(1..=self.parameters.queries)
    }
}

/// Deletes a customer at the commit.
fn delete(session: &mut Session, customer: u64) -> Result<Output> {
    let mut looked_ahead = 0;
    loop {
        let Some(held) = session.run(|tx| tasks::held_by(tx, customer))? else {
            return Ok(Output { looked_ahead, ..Output::default() });
        };
        looked_ahead += 1;
        let (stands, prices) = session.defer(|tx| tasks::delete_later(tx, customer, &held))?;
        if stands {
            let bill = prices.into_iter().sum();
            return Ok(Output { released: held.len() as i64, bill, looked_ahead, ..Output::default() });
        }
        // What did not stand has done nothing, and has ended, too.
        looked_ahead += 1;
    }
}

impl Workload for Vacation {
    type Generator = Generator;
    type Input = Input;
    type Output = Output;
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "vacation"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        [
            ("relations", p.relations.to_string()),
            ("queries", p.queries.to_string()),
            ("query_pct", p.query_pct.to_string()),
            ("user_pct", p.user_pct.to_string()),
            ("eager", p.eager.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.objects::<Agency>()
    }

    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        const CHUNK: u64 = 64;
        let (mut session, rng, relations) = (db.session()?, &mut stream(seed, 0), self.parameters.relations);
        let mut loaded = 0;
        for first in (1..=relations).step_by(CHUNK as usize) {
            let last = relations.min(first + CHUNK - 1);
            let rows: Vec<(u64, [Offer; 3])> = (first..=last)
                .map(|id| {
                    let offers = Type::ALL.map(|_| {
                        let total = 100 * rng.random_range(1..=5);
                        Offer { used: 0, free: total, total, price: price(rng) }
                    });
                    (id, offers)
                })
                .collect();
            session.run(|tx| {
                for (id, offers) in &rows {
                    for (of, offer) in Type::ALL.into_iter().zip(offers) {
                        Agency::offers.insert(tx, of.key(*id), *offer)?;
                    }
                    Agency::customers.insert(tx, *id, 0)?;
                }
                Ok(())
            })?;
            loaded += rows.iter().flat_map(|(_, offers)| offers).map(|offer| offer.total as u64).sum::<u64>();
            progress(last as f64 / relations as f64);
        }
        self.loaded.store(loaded);
        Ok(())
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        // The first stream is the population's.
        Generator { rng: stream(seed, worker as u64 + 1) }
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        let rng = &mut generator.rng;
        let customer = rng.random_range(1..=self.parameters.range());
        *input = if chance(rng, self.parameters.user_pct) {
            let queries = (0..self.count(rng)).map(|_| self.query(rng)).collect();
            Input::Reserve { customer, queries }
        } else if rng.random() {
            Input::Delete { customer }
        } else {
            let change =
                |rng: &mut SmallRng| Change { query: self.query(rng), add: rng.random(), price: price(rng) };
            Input::Update { changes: (0..self.count(rng)).map(|_| change(rng)).collect() }
        };
    }

    fn refresh(&self, _generator: &mut Generator, _input: &mut Input) {}

    fn kind(&self, input: &Input) -> usize {
        match input {
            Input::Reserve { .. } => 0,
            Input::Delete { .. } => 1,
            Input::Update { .. } => 2,
        }
    }

    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        match input {
            Input::Reserve { customer, queries } => tasks::reserve(tx, *customer, queries),
            Input::Delete { customer } => tasks::delete_customer(tx, *customer),
            Input::Update { changes } => tasks::update(tx, changes),
        }
    }

    fn call(&self, session: &mut Session, input: &Input) -> Result<Output> {
        match input {
            Input::Reserve { customer, queries } if !self.parameters.eager => {
                let reserved = session.defer(|tx| tasks::reserve_later(tx, *customer, queries))?;
                Ok(Output { reserved: reserved.into_iter().sum(), ..Output::default() })
            }
            Input::Update { changes } if !self.parameters.eager => {
                let grown = session.defer(|tx| tasks::update_later(tx, changes))?;
                Ok(Output { grown: grown.into_iter().sum(), ..Output::default() })
            }
            Input::Delete { customer } if !self.parameters.eager => delete(session, *customer),
            _ => session.run(|tx| self.execute(tx, input)),
        }
    }

    fn looked_ahead(&self, output: &Output) -> u64 {
        output.looked_ahead
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, output: Output) {
        ledger.commits[self.kind(input)] += 1;
        let sum = &mut ledger.sum;
        sum.reserved += output.reserved;
        sum.released += output.released;
        sum.bill += output.bill;
        sum.grown += output.grown;
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        let mut session = db.session()?;
        let mut held: BTreeMap<(u8, u64), i64> = BTreeMap::new();
        let mut holders: BTreeMap<u64, i64> = BTreeMap::new();
        let mut entries = Vec::new();
        session.run(|tx| {
            entries.clear();
            Agency::held.for_each(tx, .., |entry, price| entries.push((entry, price)))
        })?;
        let mut priced = Verdict::new("every reservation has a price that an offer can have");
        let mut known = Verdict::new("every customer who holds something is there, and knows how many");
        for &((customer, of, id), price) in &entries {
            *held.entry((of, id)).or_default() += 1;
            *holders.entry(customer).or_default() += 1;
            priced.require((50..=90).contains(&price) && price % 10 == 0, || {
                format!("customer {customer} holds ({of}, {id}) for {price}")
            });
        }
        for customer in 1..=self.parameters.relations {
            let (noted, found) = (
                session.run(|tx| Agency::customers.get(tx, customer))?,
                holders.remove(&customer).unwrap_or(0),
            );
            known.require(noted.unwrap_or(0) == found, || {
                format!("customer {customer} holds {found}; noted: {noted:?}")
            });
        }
        known.require(holders.is_empty(), || format!("held, and by no customer: {holders:?}"));
        let mut whole = Verdict::new("every offer: used + free = total, and none is below zero");
        let mut counted = Verdict::new("every offer: used = customers who hold it");
        let mut total = 0;
        for of in Type::ALL {
            for id in 1..=self.parameters.relations {
                let key = of.key(id);
                let holders = held.remove(&key).unwrap_or(0);
                let Some(offer) = session.run(|tx| Agency::offers.get(tx, key))? else {
                    counted.require(holders == 0, || format!("{key:?} is not there, and {holders} hold it"));
                    continue;
                };
                let Offer { used, free, total: of_it, .. } = offer;
                whole.require(used + free == of_it && used >= 0 && free >= 0, || {
                    format!("{key:?}: {offer:?}")
                });
                counted.require(used == holders, || format!("{key:?}: {offer:?}, held {holders} times"));
                total += i128::from(of_it);
            }
        }
        counted.require(held.is_empty(), || format!("held, and no offers: {held:?}"));
        let sum = |of: fn(&Output) -> i64| -> i128 {
            ledgers.iter().map(|ledger| i128::from(of(&ledger.sum))).sum()
        };
        Ok(vec![
            whole.finish(),
            counted.finish(),
            known.finish(),
            priced.finish(),
            equal(
                "total of all offers = loaded + committed updates",
                ("total", total),
                ("expected", i128::from(self.loaded.load()) + sum(|output| output.grown)),
            ),
            equal(
                "reservations = made - taken back by committed tasks",
                ("held", entries.len() as i128),
                ("expected", sum(|output| output.reserved) - sum(|output| output.released)),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_the_shares_and_ranges_of_the_parameters() {
        let parameters = Parameters { relations: 1_000, user_pct: 80, ..Parameters::HIGH };
        let vacation = Vacation::new(parameters).unwrap();
        let (mut generator, mut input) = (vacation.generator(0, 1, 9), Input::default());
        let mut kinds = [0u32; 3];
        for _ in 0..10_000 {
            vacation.draw(&mut generator, &mut input);
            kinds[vacation.kind(&input)] += 1;
            let queries = match &input {
                Input::Reserve { customer, queries } => {
                    assert!((1..=10).contains(customer));
                    queries.clone()
                }
                Input::Delete { customer } => {
                    assert!((1..=10).contains(customer));
                    continue;
                }
                Input::Update { changes } => changes.iter().map(|change| change.query).collect(),
            };
            assert!((1..=4).contains(&queries.len()));
            assert!(queries.iter().all(|query| (1..=10).contains(&query.id)));
        }
        assert!(kinds[0].abs_diff(8_000) < 200 && kinds[1].abs_diff(1_000) < 200, "{kinds:?}");
    }

    #[test]
    fn senseless_parameters_are_refused() {
        for wrong in [
            Parameters { relations: 0, ..Parameters::LOW },
            Parameters { queries: 0, ..Parameters::LOW },
            Parameters { queries: 9, ..Parameters::LOW },
            Parameters { query_pct: 0, ..Parameters::LOW },
            Parameters { user_pct: 101, ..Parameters::LOW },
        ] {
            assert!(Vacation::new(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(Parameters::preset("hot"), Some(Parameters::HOT));
    }
}
