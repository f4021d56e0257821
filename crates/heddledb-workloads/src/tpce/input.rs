//! The arguments of the four transactions, and the generator that draws them.
//!
//! Trade-Order and Trade-Update are drawn. Trade-Result and Market-Feed follow from committed orders: each
//! generator plays the exchange for its worker. What is due goes first: the result of a market order or of
//! a limit order whose price has come, and when twenty limit orders have been quoted, a feed of their
//! prices. An entry leaves the exchange only when its transaction has committed
//! ([`Workload::committed`](crate::Workload::committed)); until then it is due again and again, so that
//! drawing an input and then refreshing it gives the same.

use super::Parameters;
use super::names::{company_name, issue, person_tax_id};
use super::population::{
    LIMIT_BUY, LIMIT_SELL, LOAD_DATE, MARKET_BUY, MARKET_SELL, PRICES, Population, QUANTITIES, STOP_LOSS,
};
use super::schema::{Date, Symbol};
use super::transactions::Output;
use crate::random::{chance, stream};
use heddledb::Text;
use heddledb::internals::shared::SharedU64;
use rand::RngExt;
use rand::rngs::SmallRng;
use std::collections::VecDeque;

/// Entries of a Market-Feed.
pub const FEED: usize = 20;
/// The most trades of a Trade-Update.
pub const UPDATES_MAX: usize = 20;

/// The transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order.
    TradeOrder,
    /// Completes an order at the price that the exchange has found.
    TradeResult,
    /// Takes in prices from the exchange, and sends it the limit orders that they trigger.
    MarketFeed,
    /// Corrects some trades of long ago.
    TradeUpdate,
}

impl Kind {
    /// The names, in order.
    pub const NAMES: [&'static str; 4] = ["trade-order", "trade-result", "market-feed", "trade-update"];
}

/// The arguments of one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// See [`Kind::TradeOrder`].
    TradeOrder(TradeOrder),
    /// See [`Kind::TradeResult`].
    TradeResult(TradeResult),
    /// See [`Kind::MarketFeed`].
    MarketFeed(MarketFeed),
    /// See [`Kind::TradeUpdate`].
    TradeUpdate(TradeUpdate),
}

impl Input {
    /// The type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::TradeOrder(_) => Kind::TradeOrder,
            Self::TradeResult(_) => Kind::TradeResult,
            Self::MarketFeed(_) => Kind::MarketFeed,
            Self::TradeUpdate(_) => Kind::TradeUpdate,
        }
    }
}

impl Default for Input {
    /// A Trade-Update of nothing.
    fn default() -> Self {
        Self::TradeUpdate(TradeUpdate { by: By::Trades, count: 0, all_trades: [0; UPDATES_MAX] })
    }
}

/// How a security is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SecurityBy {
    /// By its symbol.
    Symbol(Symbol),
    /// By its company's name and the issue.
    Issue(Text<60>, Text<6>),
}

/// Arguments of Trade-Order.
#[derive(Clone, Debug, PartialEq)]
pub struct TradeOrder {
    /// The key of the new trade, used by no other.
    pub t_id: u64,
    /// Date of entry.
    pub date: Date,
    /// Account.
    pub ca_id: u32,
    /// The tax id of the person who acts for the account, if that is not its owner.
    pub executor: Option<Text<20>>,
    /// Security.
    pub security: SecurityBy,
    /// Trade type.
    pub tt_id: Text<3>,
    /// How many.
    pub quantity: i32,
    /// Cents; market orders take what the market gives.
    pub requested_price: i64,
    /// Sells the newest lots first, or the oldest.
    pub lifo: bool,
    /// For cash, or on margin.
    pub is_cash: bool,
    /// Whether the order rolls back when all is done.
    pub rolls_back: bool,
}

/// Arguments of Trade-Result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TradeResult {
    /// The trade.
    pub t_id: u64,
    /// Cents for each.
    pub price: i64,
    /// Date of completion.
    pub date: Date,
}

/// A price from the exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticker {
    /// Security.
    pub s_symb: Symbol,
    /// How many were traded.
    pub quantity: i32,
    /// Cents.
    pub price: i64,
}

/// Arguments of Market-Feed.
#[derive(Clone, Debug, PartialEq)]
pub struct MarketFeed {
    /// Date of the prices.
    pub date: Date,
    /// The prices.
    pub entries: [Ticker; FEED],
}

/// What the trades of a Trade-Update have in common, and with it, what is corrected (frames 1 to 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Nothing; the name of the executor is corrected.
    Trades,
    /// Their account; the type of settlement is corrected.
    Account,
    /// Their security; the name of the cash transaction is corrected, if there is one.
    Security,
}

/// Arguments of Trade-Update.
#[derive(Clone, Debug, PartialEq)]
pub struct TradeUpdate {
    /// What the trades have in common.
    pub by: By,
    /// How many of `all_trades` count.
    pub count: u8,
    /// Completed trades, all of them loaded.
    pub all_trades: [u64; UPDATES_MAX],
}

impl TradeUpdate {
    /// The trades.
    pub fn trades(&self) -> &[u64] {
        &self.all_trades[..usize::from(self.count)]
    }
}

/// TRADE keys: the generator's number above this bit, its sequence below. Number 0 is the load, and all
/// generators if they share one sequence.
const SEQUENCE_BITS: u32 = 40;

/// Whether two TRADE keys are of one sequence.
pub(super) fn same_sequence(a: u64, b: u64) -> bool {
    a >> SEQUENCE_BITS == b >> SEQUENCE_BITS
}

/// The key before the first of the sequence of `t_id`.
pub(super) fn sequence_start(t_id: u64) -> u64 {
    t_id >> SEQUENCE_BITS << SEQUENCE_BITS
}

/// Draws inputs for one worker, and plays the exchange for it.
///
/// Dates and TRADE keys count up, so that a run can be repeated from its seed.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
    date: Date,
    t_id: u64,
    /// Trades whose result is due, with their prices.
    results: VecDeque<(u64, i64)>,
    /// Limit orders that were quoted.
    tickers: VecDeque<Ticker>,
    /// Market-Feeds that were submitted, whose tickers are not among these any more.
    submitted_feeds: usize,
}

/// What all generators of a workload share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    pub parameters: &'a Parameters,
    pub population: &'a Population,
    /// The last TRADE key given out, with [`Parameters::shared_trade_ids`].
    pub t_id: &'a SharedU64,
}

impl Generator {
    pub(super) fn new(worker: usize, number: u64, seed: u64) -> Self {
        Self {
            rng: stream(seed, worker as u64),
            date: LOAD_DATE,
            t_id: number << SEQUENCE_BITS,
            results: VecDeque::new(),
            tickers: VecDeque::new(),
            submitted_feeds: 0,
        }
    }

    pub(super) fn draw(&mut self, shared: Shared<'_>, input: &mut Input) {
        if self.due(input) {
            return;
        }
        let (orders, updates) = shared.parameters.mix.weights();
        *input = if self.rng.random_range(0..orders + updates) < orders {
            Input::TradeOrder(self.trade_order(shared))
        } else {
            Input::TradeUpdate(self.trade_update(shared))
        };
    }

    pub(super) fn refresh(&mut self, shared: Shared<'_>, input: &mut Input) {
        if self.due(input) {
            return;
        }
        match input {
            Input::TradeOrder(order) => {
                (order.t_id, order.date) = (self.next_t_id(shared), self.next_date());
            }
            Input::TradeUpdate(_) => {}
            // It was due before, and is done.
            Input::TradeResult(_) | Input::MarketFeed(_) => self.draw(shared, input),
        }
    }

    /// Takes what follows from others off the lists of what is due, since it is going to be done.
    pub(super) fn submitted(&mut self, input: &Input) {
        match input {
            Input::TradeResult(result) => self.settle(result.t_id),
            Input::MarketFeed(_) => {
                self.quote();
                self.submitted_feeds += 1;
            }
            Input::TradeOrder(_) | Input::TradeUpdate(_) => {}
        }
    }

    /// The result of this trade is not due any more.
    fn settle(&mut self, t_id: u64) {
        self.results.retain(|(other, _)| *other != t_id);
    }

    /// The first tickers are not due any more.
    fn quote(&mut self) {
        self.tickers.drain(..FEED.min(self.tickers.len()));
    }

    /// Takes note of a commit.
    pub(super) fn committed(&mut self, input: &Input, output: &Output) {
        match (input, output) {
            (Input::TradeOrder(order), &Output::TradeOrder { s_symb, price, is_market, .. }) => {
                if is_market {
                    self.results.push_back((order.t_id, price));
                } else {
                    self.tickers.push_back(Ticker { s_symb, quantity: order.quantity, price });
                }
            }
            (Input::TradeResult(result), _) => self.settle(result.t_id),
            (Input::MarketFeed(_), Output::MarketFeed { triggered }) => {
                match self.submitted_feeds {
                    0 => self.quote(),
                    _ => self.submitted_feeds -= 1,
                }
                self.results.extend(triggered.requests().iter().map(|request| (request.t_id, request.price)));
            }
            _ => {}
        }
    }

    /// Replaces the input by what is due, if anything is.
    fn due(&mut self, input: &mut Input) -> bool {
        if let Some((t_id, price)) = self.results.front().copied() {
            *input = Input::TradeResult(TradeResult { t_id, price, date: self.next_date() });
        } else if self.tickers.len() >= FEED {
            let mut entries = [Ticker::default(); FEED];
            entries.iter_mut().zip(&self.tickers).for_each(|(entry, ticker)| *entry = *ticker);
            *input = Input::MarketFeed(MarketFeed { date: self.next_date(), entries });
        } else {
            return false;
        }
        true
    }

    fn next_date(&mut self) -> Date {
        self.date = self.date.wrapping_add(1);
        self.date
    }

    fn next_t_id(&mut self, shared: Shared<'_>) -> u64 {
        if shared.parameters.shared_trade_ids {
            // Relaxed: the number must be unique and publishes nothing.
            return shared.t_id.fetch_add(1) + 1;
        }
        self.t_id += 1;
        self.t_id
    }

    fn trade_order(&mut self, shared: Shared<'_>) -> TradeOrder {
        let Shared { parameters, population, .. } = shared;
        let rng = &mut self.rng;
        let c_id = population.draw_customer(rng);
        let ca_id = rng.random_range(population.customers[c_id as usize].accounts.clone());
        let account = &population.accounts[ca_id as usize];
        let executor = (account.others > 0 && chance(rng, 10))
            .then(|| person_tax_id(ca_id, rng.random_range(1..=account.others)));
        let holding = rng.random_range(account.holdings.clone());
        let s_symb = parameters.within_range(population.holdings[holding as usize].s_symb);
        let security = if chance(rng, 60) {
            SecurityBy::Symbol(s_symb)
        } else {
            let company = s_symb % population.companies;
            SecurityBy::Issue(company_name(company), issue(s_symb / population.companies))
        };
        let (is_limit, is_sell) = (chance(rng, parameters.limit_pct), chance(rng, 50));
        let trade_type = match (is_limit, is_sell) {
            (false, false) => MARKET_BUY,
            (false, true) => MARKET_SELL,
            (true, false) => LIMIT_BUY,
            (true, true) if chance(rng, 50) => STOP_LOSS,
            (true, true) => LIMIT_SELL,
        };
        TradeOrder {
            ca_id,
            executor,
            security,
            tt_id: Text::truncated(trade_type.id),
            quantity: QUANTITIES[rng.random_range(0..QUANTITIES.len())],
            requested_price: rng.random_range(PRICES[0]..=PRICES[1]),
            lifo: chance(rng, 35),
            // Of all orders 8 % are on margin, and half of them buy.
            is_cash: is_sell || !chance(rng, 16),
            rolls_back: chance(rng, parameters.rollback_pct),
            t_id: self.next_t_id(shared),
            date: self.next_date(),
        }
    }

    fn trade_update(&mut self, shared: Shared<'_>) -> TradeUpdate {
        let Shared { parameters, population, .. } = shared;
        let rng = &mut self.rng;
        let mut all_trades = [0; UPDATES_MAX];
        let mut count = 0;
        let by = match rng.random_range(0..100) {
            0..33 => By::Trades,
            33..66 => By::Account,
            _ => By::Security,
        };
        // The trades from some date on, in the order of their dates.
        let mut from = |trades: &mut dyn ExactSizeIterator<Item = u32>, rng: &mut SmallRng| {
            let start = rng.random_range(0..trades.len());
            for (place, t_id) in all_trades.iter_mut().zip(trades.skip(start)) {
                *place = u64::from(t_id);
                count += 1;
            }
        };
        match by {
            By::Trades => {
                let last = population.lots.len() as u64;
                while count < UPDATES_MAX.min(population.lots.len()) {
                    let t_id = rng.random_range(1..=last);
                    if !all_trades[..count].contains(&t_id) {
                        all_trades[count] = t_id;
                        count += 1;
                    }
                }
            }
            By::Account => {
                let ca_id = rng.random_range(0..population.accounts.len() as u32);
                from(&mut population.trades_of_account(ca_id), rng);
            }
            By::Security => {
                let s_symb =
                    parameters.within_range(rng.random_range(0..population.by_security.len() as u32));
                let trades = &population.by_security[s_symb as usize];
                if !trades.is_empty() {
                    from(&mut trades.iter().copied(), rng);
                }
            }
        }
        TradeUpdate { by, count: count as u8, all_trades }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mix, Tpce};
    use super::*;
    use crate::Workload;

    fn small() -> Parameters {
        Parameters { customers: 100, ..Parameters::default() }
    }

    fn draws(parameters: Parameters, count: usize) -> (Tpce, Vec<Input>) {
        let tpce = Tpce::new(parameters).unwrap();
        let mut generator = tpce.generator(0, 1, 42);
        let mut input = Input::default();
        let mut draw = || {
            tpce.draw(&mut generator, &mut input);
            input.clone()
        };
        let inputs = (0..count).map(|_| draw()).collect();
        (tpce, inputs)
    }

    fn percent(part: usize, whole: usize) -> usize {
        (part * 100 + whole / 2) / whole
    }

    /// What is due is drawn until it has committed, or is submitted: then what is due behind it comes next.
    #[test]
    fn what_is_submitted_is_not_drawn_again() {
        let (tpce, _) = draws(small(), 0);
        let mut generator = tpce.generator(0, 1, 42);
        generator.results.extend([(1, 10), (2, 20)]);
        let ticker = |price: i64| Ticker { price, ..Ticker::default() };
        generator.tickers.extend((0..2 * FEED as i64).map(ticker));
        let mut draw = |submitted: bool| {
            let mut input = Input::default();
            tpce.draw(&mut generator, &mut input);
            if submitted {
                tpce.submitted(&mut generator, &input);
            }
            match input {
                Input::TradeResult(result) => result.price,
                Input::MarketFeed(feed) => 100 + feed.entries[0].price,
                Input::TradeOrder(_) | Input::TradeUpdate(_) => -1,
            }
        };
        let drawn = [false, true, false, true, false, true, true, true].map(&mut draw);
        assert_eq!(drawn, [10, 10, 20, 20, 100, 100, 100 + FEED as i64, -1]);
    }

    #[test]
    fn shares_are_those_of_the_specification() {
        let (tpce, inputs) = draws(Parameters { customers: 1000, ..small() }, 100_000);
        let orders: Vec<_> = inputs
            .iter()
            .filter_map(|input| match input {
                Input::TradeOrder(order) => Some(order),
                _ => None,
            })
            .collect();
        let updates: Vec<_> = inputs
            .iter()
            .filter_map(|input| match input {
                Input::TradeUpdate(update) => Some(update),
                _ => None,
            })
            .collect();
        assert_eq!(orders.len() + updates.len(), inputs.len(), "nothing is due");
        let of = |predicate: &dyn Fn(&TradeOrder) -> bool| {
            percent(orders.iter().filter(|order| predicate(order)).count(), orders.len())
        };
        let near =
            |found: usize, expected: usize| assert!(found.abs_diff(expected) <= 1, "{found} {expected}");
        near(percent(orders.len(), inputs.len()), 83);
        for (trade_type, expected) in
            [(MARKET_BUY, 30), (MARKET_SELL, 30), (LIMIT_BUY, 20), (LIMIT_SELL, 10), (STOP_LOSS, 10)]
        {
            near(of(&|order| order.tt_id == *trade_type.id), expected);
        }
        near(of(&|order| matches!(order.security, SecurityBy::Symbol(_))), 60);
        near(of(&|order| order.lifo), 35);
        near(of(&|order| !order.is_cash), 8);
        near(of(&|order| order.rolls_back), 1);
        near(of(&|order| order.executor.is_some()), 4);
        QUANTITIES.into_iter().for_each(|quantity| near(of(&|order| order.quantity == quantity), 25));
        let buys = [MARKET_BUY.id, LIMIT_BUY.id];
        for order in &orders {
            assert!(order.is_cash || buys.contains(&order.tt_id.as_str()));
            assert!((PRICES[0]..=PRICES[1]).contains(&order.requested_price));
            if let SecurityBy::Symbol(s_symb) = order.security {
                let holdings = &tpce.population.accounts[order.ca_id as usize].holdings;
                let held = &tpce.population.holdings[holdings.start as usize..holdings.end as usize];
                assert!(held.iter().any(|holding| holding.s_symb == s_symb));
            }
        }
        assert!(orders.windows(2).all(|pair| pair[0].t_id < pair[1].t_id && pair[0].date < pair[1].date));
        for by in [By::Trades, By::Account, By::Security] {
            let count = updates.iter().filter(|update| update.by == by).count();
            assert!(percent(count, updates.len()).abs_diff(33) <= 2);
        }
        for update in updates {
            let trades = update.trades();
            assert!(!trades.is_empty());
            assert!(trades.iter().enumerate().all(|(at, t_id)| !trades[..at].contains(t_id)));
            let first = tpce.population.holding_of(trades[0]);
            for t_id in trades {
                let holding = tpce.population.holding_of(*t_id);
                match update.by {
                    By::Trades => assert_eq!(trades.len(), UPDATES_MAX),
                    By::Account => assert_eq!(holding.ca_id, first.ca_id),
                    By::Security => assert_eq!(holding.s_symb, first.s_symb),
                }
            }
        }
    }

    #[test]
    fn a_range_of_securities_is_kept_to() {
        let parameters =
            Parameters { security_range: Some(3), limit_pct: 100, mix: Mix::new(50, 50).unwrap(), ..small() };
        let (tpce, inputs) = draws(parameters, 2000);
        let mut seen = [0; 3];
        for input in inputs {
            match input {
                Input::TradeOrder(TradeOrder { tt_id, security, .. }) => {
                    assert!(tt_id != *MARKET_BUY.id && tt_id != *MARKET_SELL.id);
                    match security {
                        SecurityBy::Symbol(s_symb) => seen[s_symb as usize] += 1,
                        SecurityBy::Issue(company, _) => {
                            assert!((0..3).map(company_name).any(|n| n == company))
                        }
                    }
                }
                Input::TradeUpdate(update) if update.by == By::Security => {
                    assert!(tpce.population.holding_of(update.trades()[0]).s_symb < 3);
                }
                _ => {}
            }
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let (_, first) = draws(small(), 500);
        let (_, second) = draws(small(), 500);
        assert_eq!(first, second);
    }

    #[test]
    fn consequences_are_due_until_they_have_committed() {
        let parameters = Parameters { limit_pct: 50, mix: Mix::new(1, 0).unwrap(), ..small() };
        let tpce = Tpce::new(parameters).unwrap();
        let mut generator = tpce.generator(0, 1, 1);
        let mut input = Input::default();
        let mut commits = [0usize; 4];
        for _ in 0..2000 {
            tpce.draw(&mut generator, &mut input);
            let drawn = input.clone();
            tpce.refresh(&mut generator, &mut input);
            let output = match (&drawn, &input) {
                (Input::TradeOrder(order), Input::TradeOrder(again)) => {
                    assert!(again.t_id > order.t_id && again.date > order.date);
                    let is_market = again.tt_id.as_str().starts_with("TM");
                    Output::TradeOrder { s_symb: 7, price: 2345, is_market }
                }
                (Input::TradeResult(result), Input::TradeResult(again)) => {
                    assert_eq!((result.t_id, result.price), (again.t_id, 2345));
                    Output::TradeResult { amount: 0 }
                }
                (Input::MarketFeed(feed), Input::MarketFeed(again)) => {
                    assert_eq!(feed.entries, again.entries);
                    assert!(feed.entries.iter().all(|entry| (entry.s_symb, entry.price) == (7, 2345)));
                    Output::MarketFeed { triggered: Default::default() }
                }
                _ => panic!("{drawn:?} became {input:?}"),
            };
            commits[input.kind() as usize] += 1;
            tpce.committed(&mut generator, &input, &output);
        }
        let [orders, results, feeds, updates] = commits;
        assert_eq!(updates, 0);
        // Half of the orders are market orders, each with a result; of the others, twenty make a feed.
        assert!(orders > 1000 && results.abs_diff(orders / 2) < 60, "{commits:?}");
        assert!((feeds * FEED).abs_diff(orders - results) < 2 * FEED, "{commits:?}");
    }
}
