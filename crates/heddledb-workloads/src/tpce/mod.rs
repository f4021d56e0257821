//! TPC-E: the four read-write transactions of a brokerage house, as far as IC3 is measured with them
//! (§6.3), over a population of our own.
//!
//! Trade-Order and Trade-Update are drawn; Trade-Result and Market-Feed are what a stock exchange makes of
//! the orders, and follow once these have committed. So the shares of the four types are an outcome: an order
//! to a result, but for the limit orders that still wait, and a feed to twenty limit orders.
//!
//! Contention is set by the range of securities that are traded ([`Parameters::security_range`]); the
//! brokers are a second, fixed hot spot.
//!
//! | room | what |
//! |---|---|
//! | [`schema`] | tables, column groups, indexes; what was left out |
//! | `population` | who has how much of what at first |
//! | `names` | texts made of numbers |
//! | `load` | filling the tables |
//! | [`input`] | drawing the arguments of transactions, and the exchange |
//! | `transactions` | the four transactions |
//! | `trading` | what they compute and collect |
//! | `check` | the conditions after a run |
//!
//! Where it leaves the specification: the six read-only types are not there; the population is smaller, as
//! each lot of a holding is one completed market buy, and there are no other trades at first; dates are
//! each generator's own count, so that trades of two workers have no common order in time; a Trade-Update
//! by account or security gets its trades from the generator ([`schema`] says why).

mod trading;
pub mod transactions;

mod check;
pub mod input;
mod load;
mod names;
mod population;
pub mod schema;

use crate::{Check, Workload};
use heddledb::internals::shared::SharedU64;
use heddledb::{Builder, Database, Misuse, Result, Session, Transaction};
use input::{By, Generator, Input, Kind, Shared};
use population::{CUSTOMER_UNIT, Population};
use std::fmt;
use std::str::FromStr;
pub use trading::{Request, Triggered};
pub use transactions::{Output, Rollback};

/// How many Trade-Orders are drawn to how many Trade-Updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    orders: u16,
    updates: u16,
}

impl Mix {
    /// As in the full mix of ten types.
    pub const SPEC: Self = Self { orders: 101, updates: 20 };

    /// Orders to updates; `None` if there are neither.
    pub fn new(orders: u16, updates: u16) -> Option<Self> {
        (orders > 0 || updates > 0).then_some(Self { orders, updates })
    }

    fn weights(self) -> (u32, u32) {
        (self.orders.into(), self.updates.into())
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.orders, self.updates))
    }
}

impl FromStr for Mix {
    type Err = String;

    /// Two weights as in `101/20`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (orders, updates) = text.split_once('/')?;
            Self::new(orders.parse().ok()?, updates.parse().ok()?)
        };
        parse().ok_or_else(|| {
            format!("`{text}` is no mix; give how many Trade-Orders to how many Trade-Updates, as in 101/20")
        })
    }
}

/// The parameters of [`Tpce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Customers: up to 1000, or a multiple of that. Each has five accounts on average; 0.685 times as
    /// many securities are traded.
    pub customers: u32,
    /// How many securities are traded: a security that is drawn is taken modulo this. All if not given;
    /// one makes all workers meet.
    pub security_range: Option<u32>,
    /// Trade-Orders to Trade-Updates.
    pub mix: Mix,
    /// Percentage of orders that are limit orders.
    pub limit_pct: u32,
    /// Percentage of orders that roll back.
    pub rollback_pct: u32,
    /// Whether TRADE keys come from one counter that all workers share, instead of a range for each.
    pub shared_trade_ids: bool,
}

impl Default for Parameters {
    /// 5000 customers, so 3425 securities, all of them traded.
    fn default() -> Self {
        Self {
            customers: 5000,
            security_range: None,
            mix: Mix::SPEC,
            limit_pct: 40,
            rollback_pct: 1,
            shared_trade_ids: false,
        }
    }
}

impl Parameters {
    /// The fewest customers: they need a few securities.
    pub const CUSTOMERS_MIN: u32 = 10;

    /// Which security is traded for one that was drawn.
    fn within_range(&self, s_symb: schema::Symbol) -> schema::Symbol {
        self.security_range.map_or(s_symb, |range| s_symb % range)
    }

    fn validate(&self) -> Result<()> {
        let customers = self.customers;
        let securities = Population::securities(customers);
        let reason = if customers < Self::CUSTOMERS_MIN
            || customers > CUSTOMER_UNIT && !customers.is_multiple_of(CUSTOMER_UNIT)
            || customers > 100 * CUSTOMER_UNIT
        {
            format!(
                "customers are {} to {CUSTOMER_UNIT}, or a multiple of {CUSTOMER_UNIT} up to {}, not {customers}",
                Self::CUSTOMERS_MIN,
                100 * CUSTOMER_UNIT
            )
        } else if self.security_range.is_some_and(|range| range == 0 || range > securities) {
            format!("{customers} customers have {securities} securities; the range is 1 to that")
        } else if self.limit_pct > 100 || self.rollback_pct > 100 {
            "a percentage is above 100".into()
        } else {
            return Ok(());
        };
        Err(Misuse::Option(reason).into())
    }
}

/// TPC-E with its parameters.
#[derive(Debug)]
pub struct Tpce {
    parameters: Parameters,
    population: Population,
    /// How many generators there have been. Each gets a number of its own for TRADE keys. Written and
    /// read by [`Workload::generator`]; it publishes nothing else.
    generators: SharedU64,
    /// The last TRADE key given out, with [`Parameters::shared_trade_ids`]. Written by whoever draws an
    /// order; relaxed, because it only hands out numbers.
    t_id: SharedU64,
}

impl Tpce {
    /// The workload with `parameters`. Takes time and memory in proportion to the customers: 15 MB for
    /// 5000.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(parameters: Parameters) -> Result<Self> {
        parameters.validate()?;
        let population = Population::new(parameters.customers);
        let t_id = SharedU64::new(population.lots.len() as u64);
        Ok(Self { parameters, population, generators: SharedU64::new(0), t_id })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn shared(&self) -> Shared<'_> {
        Shared { parameters: &self.parameters, population: &self.population, t_id: &self.t_id }
    }

    /// The TRADE keys that were loaded: from 1 to this.
    fn loaded_trades(&self) -> u64 {
        self.population.lots.len() as u64
    }
}

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each type.
    pub commits: [u64; 4],
    /// Orders that wait for their price.
    pub limit_orders: u64,
    /// Those whose price has come.
    pub triggered: u64,
    /// What was fed, by security.
    pub fed: Vec<i64>,
    /// For each sequence of TRADE keys whose orders are in here: the first key, and one past the last.
    pub trades: Vec<(u64, u64)>,
    /// Loaded trades that were corrected an odd number of times, one bit each: by the name of the
    /// executor, by the type of settlement, by the name of the cash transaction.
    pub corrected: [Vec<u64>; 3],
}

impl Ledger {
    fn correct(&mut self, which: usize, t_id: u64) {
        let (word, bit) = ((t_id / 64) as usize, t_id % 64);
        let bits = &mut self.corrected[which];
        bits.resize(bits.len().max(word + 1), 0);
        bits[word] ^= 1 << bit;
    }
}

impl Workload for Tpce {
    type Generator = Generator;
    type Input = Input;
    type Output = Output;
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "tpce"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let p = &self.parameters;
        let securities = self.population.by_security.len() as u32;
        [
            ("customers", p.customers.to_string()),
            ("securities", securities.to_string()),
            ("security_range", p.security_range.unwrap_or(securities).to_string()),
            ("orders/updates", p.mix.to_string()),
            ("limit_pct", p.limit_pct.to_string()),
            ("rollback_pct", p.rollback_pct.to_string()),
            ("shared_trade_ids", p.shared_trade_ids.to_string()),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &Kind::NAMES
    }

    fn tables(&self, builder: Builder) -> Builder {
        load::tables(&self.parameters, &self.population, builder)
            .procedure::<transactions::TradeOrder>()
            .procedure::<transactions::TradeResult>()
            .procedure::<transactions::MarketFeed>()
            .procedure::<transactions::TradeUpdate>()
    }

    /// The population follows from the number of customers, so the seed does not matter.
    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        self.t_id.store(self.loaded_trades());
        load::load(&self.population, db, progress)
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        // Relaxed: only the number must be unique.
        let number = self.generators.fetch_add(1) + 1;
        Generator::new(worker, number, seed)
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        generator.draw(self.shared(), input);
    }

    fn refresh(&self, generator: &mut Generator, input: &mut Input) {
        generator.refresh(self.shared(), input);
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind() as usize
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        match input {
            Input::TradeOrder(input) => transactions::trade_order(tx, input),
            Input::TradeResult(input) => transactions::trade_result(tx, input),
            Input::MarketFeed(input) => transactions::market_feed(tx, input),
            Input::TradeUpdate(input) => transactions::trade_update(tx, input),
        }
    }

    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<Output> {
        match input {
            Input::TradeOrder(input) => session.call(transactions::TradeOrder, input),
            Input::TradeResult(input) => session.call(transactions::TradeResult, input),
            Input::MarketFeed(input) => session.call(transactions::MarketFeed, input),
            Input::TradeUpdate(input) => session.call(transactions::TradeUpdate, input),
        }
    }

    fn is_submittable(&self) -> bool {
        true
    }

    fn submitted(&self, generator: &mut Generator, input: &Input) {
        generator.submitted(input);
    }

    fn committed(&self, generator: &mut Generator, input: &Input, output: &Output) {
        generator.committed(input, output);
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, output: Output) {
        ledger.commits[input.kind() as usize] += 1;
        match (input, output) {
            (Input::TradeOrder(order), Output::TradeOrder { is_market, .. }) => {
                ledger.limit_orders += u64::from(!is_market);
                let t_id = order.t_id;
                match ledger.trades.iter_mut().find(|(first, _)| input::same_sequence(*first, t_id)) {
                    Some((first, end)) => (*first, *end) = ((*first).min(t_id), (*end).max(t_id + 1)),
                    None => ledger.trades.push((t_id, t_id + 1)),
                }
            }
            (Input::MarketFeed(feed), Output::MarketFeed { triggered }) => {
                ledger.triggered += triggered.requests().len() as u64;
                ledger.fed.resize(self.population.by_security.len(), 0);
                for entry in &feed.entries {
                    ledger.fed[entry.s_symb as usize] += i64::from(entry.quantity);
                }
            }
            (Input::TradeUpdate(update), _) => {
                for t_id in update.trades() {
                    match update.by {
                        By::Trades => ledger.correct(0, *t_id),
                        By::Account => ledger.correct(1, *t_id),
                        By::Security if self.population.lot(*t_id).is_cash => ledger.correct(2, *t_id),
                        By::Security => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        check::check(self, db, ledgers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_read_as_they_print() {
        for mix in [Mix::SPEC, Mix { orders: 50, updates: 50 }, Mix { orders: 1, updates: 0 }] {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        for wrong in ["", "0/0", "50", "50/", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let default = Parameters::default();
        for wrong in [
            Parameters { customers: 9, ..default },
            Parameters { customers: 1500, ..default },
            Parameters { customers: 200_000, ..default },
            Parameters { customers: 100, security_range: Some(0), ..default },
            Parameters { customers: 100, security_range: Some(69), ..default },
            Parameters { customers: 100, limit_pct: 101, ..default },
            Parameters { customers: 100, rollback_pct: 101, ..default },
        ] {
            assert!(Tpce::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(Tpce::new(Parameters { customers: 100, security_range: Some(68), ..default }).is_ok());
    }
}
