//! Who has how much of what at first: a function of the number of customers, kept in memory, so that
//! loading, drawing inputs and checking see the same without reading tables.
//!
//! It is smaller than TPC-E's, which begins with 300 days of trades: each lot that an account holds is one
//! completed market buy, and there are no other trades. They count from 1, account by account, so that
//! the trades of an account are neighbours.

use super::schema::{DOLLAR, Date, Symbol, UNIT};
use crate::random::{chance, mix, stream};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::ops::Range;

/// A unit of customers, within which Trade-Order's are drawn.
pub(super) const CUSTOMER_UNIT: u32 = 1000;
/// Rows of TAX_RATE; the first are of countries, the others of divisions of them.
pub(super) const TAX_RATES: u32 = 320;
const COUNTRIES: u32 = 20;
/// Exchanges.
pub(super) const EXCHANGES: [&str; 4] = ["NYSE", "NASDAQ", "AMEX", "PCX"];
/// Quantities of trades. All lots are multiples of the first.
pub(super) const QUANTITIES: [i32; 4] = [100, 200, 400, 800];
/// The lowest and the highest price.
pub(super) const PRICES: [i64; 2] = [20 * DOLLAR, 30 * DOLLAR];
/// Most securities of an account at first.
pub(super) const HELD_MAX: usize = 18;

/// The date before that of the first loaded trade; the date of a loaded trade is this and its number.
pub(super) const FIRST_DATE: Date = 1_000_000;
/// The date before that of the first trade of a generator.
pub(super) const LOAD_DATE: Date = 1_000_000_000;

/// A row of TRADE_TYPE, and what CHARGE has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeOfTrade {
    pub id: &'static str,
    pub name: &'static str,
    pub is_sell: bool,
    pub is_mrkt: bool,
    /// By tier.
    pub charges: [i64; 3],
}

impl TypeOfTrade {
    const fn new(
        id: &'static str,
        name: &'static str,
        is_sell: bool,
        is_mrkt: bool,
        charges: [i64; 3],
    ) -> Self {
        Self { id, name, is_sell, is_mrkt, charges }
    }
}

pub(super) const MARKET_BUY: TypeOfTrade =
    TypeOfTrade::new("TMB", "Market-Buy", false, true, [500, 450, 250]);
pub(super) const MARKET_SELL: TypeOfTrade =
    TypeOfTrade::new("TMS", "Market-Sell", true, true, [500, 450, 250]);
pub(super) const STOP_LOSS: TypeOfTrade = TypeOfTrade::new("TSL", "Stop-Loss", true, false, [650, 550, 350]);
pub(super) const LIMIT_SELL: TypeOfTrade =
    TypeOfTrade::new("TLS", "Limit-Sell", true, false, [600, 500, 300]);
pub(super) const LIMIT_BUY: TypeOfTrade = TypeOfTrade::new("TLB", "Limit-Buy", false, false, [600, 500, 300]);
/// All of them.
pub(super) const TRADE_TYPES: [TypeOfTrade; 5] = [MARKET_BUY, MARKET_SELL, STOP_LOSS, LIMIT_SELL, LIMIT_BUY];

/// The states of a trade, in the order in which it goes through them.
pub(super) const PENDING: &str = "PNDG";
pub(super) const SUBMITTED: &str = "SBMT";
pub(super) const COMPLETED: &str = "CMPT";

/// The bands of COMMISSION_RATE: first and last quantity, and the rate of a tier-1 market buy in New York.
pub(super) const BANDS: [(i32, i32, i64); 4] =
    [(1, 200, 40), (201, 500, 36), (501, 2000, 32), (2001, 999_999, 20)];

/// The rate of COMMISSION_RATE. Only those of tier 1 and a market buy in New York are TPC-E's; the others
/// are lower by some.
pub(super) fn commission_rate(tier: u8, trade_type: usize, exchange: usize, band: usize) -> i64 {
    BANDS[band].2 - 4 * (i64::from(tier) - 1) - trade_type as i64 - exchange as i64
}

/// The commission on a trade.
pub(super) fn commission(rate: i64, quantity: i32, price: i64) -> i64 {
    (rate * i64::from(quantity) * price + UNIT / 2) / UNIT
}

/// TX_RATE of row `number`: 1 % to 20 %.
pub(super) fn tax_rate(number: u32) -> i64 {
    100 + (mix(u64::from(number)) % 1901) as i64
}

/// The two rows of TAX_RATE for a customer.
pub(super) fn tax_rates(c_id: u32) -> [u32; 2] {
    let hash = mix(u64::from(c_id) ^ 0x0007_A8A7_E5A1_7E50) as u32;
    [hash % COUNTRIES, COUNTRIES + (hash >> 8) % (TAX_RATES - COUNTRIES)]
}

/// A customer.
#[derive(Clone, Debug)]
pub(super) struct CustomerOf {
    /// 1 to 3.
    pub tier: u8,
    pub accounts: Range<u32>,
}

/// An account.
#[derive(Clone, Debug)]
pub(super) struct AccountOf {
    pub c_id: u32,
    pub b_id: u32,
    /// 0: no tax, 1: withheld, 2: not withheld.
    pub tax_st: u8,
    pub balance: i64,
    /// Persons who may act for it, beside its owner.
    pub others: u8,
    /// Into [`Population::holdings`].
    pub holdings: Range<u32>,
}

/// A security of an account.
#[derive(Clone, Debug)]
pub(super) struct HoldingOf {
    pub ca_id: u32,
    pub s_symb: Symbol,
    /// The trades that bought it.
    pub trades: Range<u32>,
}

/// A lot: a completed market buy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lot {
    /// Into [`Population::holdings`].
    pub holding: u32,
    pub quantity: u16,
    /// In cents.
    pub price: u16,
    pub is_cash: bool,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Population {
    pub customers: Vec<CustomerOf>,
    pub accounts: Vec<AccountOf>,
    pub holdings: Vec<HoldingOf>,
    /// Trade `n` is at `n - 1`.
    pub lots: Vec<Lot>,
    /// The trades of each security, in the order of their dates.
    pub by_security: Vec<Vec<u32>>,
    /// The customer of each rank of a unit.
    by_rank: Vec<u32>,
    pub brokers: u32,
    pub companies: u32,
}

impl Population {
    /// The population of `customers` customers.
    pub fn new(customers: u32) -> Self {
        let mut rng = stream(0x7B_CE, u64::from(customers));
        let unit = customers.min(CUSTOMER_UNIT);
        let mut by_rank: Vec<u32> = (0..unit).collect();
        for last in (1..by_rank.len()).rev() {
            by_rank.swap(last, rng.random_range(0..=last));
        }
        let mut tiers = vec![0; unit as usize];
        for (rank, customer) in by_rank.iter().enumerate() {
            tiers[*customer as usize] = tier_of_rank(rank as u32, unit);
        }
        let securities = Self::securities(customers);
        let mut population = Self {
            customers: Vec::with_capacity(customers as usize),
            accounts: Vec::new(),
            holdings: Vec::new(),
            lots: Vec::new(),
            by_security: vec![Vec::new(); securities as usize],
            by_rank,
            brokers: (customers / 100).max(1),
            companies: (customers / 2).max(1),
        };
        for c_id in 0..customers {
            population.add_customer(&mut rng, c_id, tiers[(c_id % unit) as usize]);
        }
        population
    }

    /// How many securities there are for so many customers: 3425 for 5000.
    pub fn securities(customers: u32) -> u32 {
        (u64::from(customers) * 685 / 1000) as u32
    }

    fn add_customer(&mut self, rng: &mut SmallRng, c_id: u32, tier: u8) {
        let [fewest, most] = match tier {
            1 => [1, 4],
            2 => [2, 8],
            _ => [5, 10],
        };
        let accounts = rng.random_range(fewest..=most);
        let first = self.accounts.len() as u32;
        for _ in 0..accounts {
            self.add_account(rng, c_id, tier, accounts);
        }
        self.customers.push(CustomerOf { tier, accounts: first..first + accounts });
    }

    fn add_account(&mut self, rng: &mut SmallRng, c_id: u32, tier: u8, accounts: u32) {
        let ca_id = self.accounts.len() as u32;
        let first = self.holdings.len() as u32;
        let [fewest, most] = held(tier, accounts);
        let securities = self.by_security.len() as u32;
        let count = rng.random_range(fewest..=most).min(securities);
        for _ in 0..count {
            let s_symb = loop {
                let s_symb = rng.random_range(0..securities);
                if self.holdings[first as usize..].iter().all(|other| other.s_symb != s_symb) {
                    break s_symb;
                }
            };
            self.add_holding(rng, ca_id, s_symb);
        }
        let magnitude = rng.random_range(0..=9_999_999 * DOLLAR + 99);
        self.accounts.push(AccountOf {
            c_id,
            b_id: rng.random_range(0..self.brokers),
            tax_st: match rng.random_range(0..100) {
                0..20 => 0,
                20..70 => 1,
                _ => 2,
            },
            balance: if chance(rng, 80) { magnitude } else { -magnitude },
            others: match rng.random_range(0..100) {
                0..60 => 0,
                60..98 => 1,
                _ => 2,
            },
            holdings: first..first + count,
        });
    }

    fn add_holding(&mut self, rng: &mut SmallRng, ca_id: u32, s_symb: Symbol) {
        let holding = self.holdings.len() as u32;
        let first = self.lots.len() as u32 + 1;
        let lots = rng.random_range(1..=4);
        for t_id in first..first + lots {
            self.lots.push(Lot {
                holding,
                quantity: QUANTITIES[rng.random_range(0..QUANTITIES.len())] as u16,
                price: rng.random_range(PRICES[0]..=PRICES[1]) as u16,
                is_cash: chance(rng, 84),
            });
            self.by_security[s_symb as usize].push(t_id);
        }
        self.holdings.push(HoldingOf { ca_id, s_symb, trades: first..first + lots });
    }

    /// A lot by its trade.
    pub fn lot(&self, t_id: u64) -> &Lot {
        &self.lots[t_id as usize - 1]
    }

    /// The security and account of a loaded trade.
    pub fn holding_of(&self, t_id: u64) -> &HoldingOf {
        &self.holdings[self.lot(t_id).holding as usize]
    }

    /// The tier of an account's customer.
    pub fn tier_of_account(&self, ca_id: u32) -> u8 {
        self.customers[self.accounts[ca_id as usize].c_id as usize].tier
    }

    /// The trades of an account.
    pub fn trades_of_account(&self, ca_id: u32) -> Range<u32> {
        let holdings = &self.accounts[ca_id as usize].holdings;
        let (first, last) = (holdings.start as usize, holdings.end as usize - 1);
        self.holdings[first].trades.start..self.holdings[last].trades.end
    }

    /// A customer for Trade-Order: those of higher tiers more often (TPC-E's non-uniform choice within a
    /// unit of customers).
    pub fn draw_customer(&self, rng: &mut SmallRng) -> u32 {
        let unit = self.by_rank.len() as u32;
        let units = self.customers.len() as u32 / unit;
        let rank = u64::from(rank(rng.random_range(1..=WEIGHT))) * u64::from(unit) / u64::from(CUSTOMER_UNIT);
        rng.random_range(0..units) * unit + self.by_rank[rank as usize]
    }

    /// The commission on a loaded trade.
    pub fn commission(&self, t_id: u64) -> i64 {
        let (lot, holding) = (self.lot(t_id), self.holding_of(t_id));
        let quantity = i32::from(lot.quantity);
        let band = BANDS.iter().position(|(from, to, _)| (*from..=*to).contains(&quantity));
        let rate = commission_rate(
            self.tier_of_account(holding.ca_id),
            0,
            exchange(holding.s_symb),
            band.unwrap_or_default(),
        );
        commission(rate, quantity, i64::from(lot.price))
    }

    /// The charge for a loaded trade.
    pub fn charge(&self, t_id: u64) -> i64 {
        let tier = self.tier_of_account(self.holding_of(t_id).ca_id);
        MARKET_BUY.charges[usize::from(tier) - 1]
    }
}

/// The exchange of a security, into [`EXCHANGES`].
pub(super) fn exchange(s_symb: Symbol) -> usize {
    s_symb as usize % EXCHANGES.len()
}

/// LT_PRICE at first, which is LT_OPEN_PRICE.
pub(super) fn open_price(s_symb: Symbol) -> i64 {
    PRICES[0] + (mix(u64::from(s_symb)) % (PRICES[1] - PRICES[0] + 1) as u64) as i64
}

/// LT_VOL at first.
pub(super) const OPEN_VOLUME: i64 = 0;

/// The tier of the customer with `rank` in a unit: a fifth in tier 1, three fifths in tier 2.
fn tier_of_rank(rank: u32, unit: u32) -> u8 {
    match u64::from(rank) * u64::from(CUSTOMER_UNIT) / u64::from(unit) {
        0..200 => 1,
        200..800 => 2,
        _ => 3,
    }
}

/// How many securities the accounts have of a customer with so many accounts.
fn held(tier: u8, accounts: u32) -> [u32; 2] {
    match (tier, accounts) {
        (1, 1) => [6, 14],
        (2, 2) => [7, 13],
        (1, 2) | (2, 4) | (3, 5 | 6) => [4, 16],
        (2, 3) => [5, 15],
        (2, 5) | (3, 7 | 8) => [3, 17],
        _ => [2, HELD_MAX as u32],
    }
}

/// What [`rank`] takes: TPC-E's weight from 0 to 2000, times a hundred.
const WEIGHT: u64 = 200_000;

/// The rank of the customer with a weight, 0 to 999: the higher in its tier, the more often.
fn rank(weight: u64) -> u32 {
    // ceil(sqrt(a + b w) - c) with w in hundredths, in whole numbers: the least r with
    // (r + c)^2 >= a + b w.
    let least = |hundredfold: u64, c: u64| {
        let root = (hundredfold.div_ceil(100)).isqrt();
        let root = if root * root * 100 < hundredfold { root + 1 } else { root };
        root.saturating_sub(c)
    };
    let rank = match weight {
        0..=20_000 => least(2_250_000 + 500 * weight, 151),
        20_001..=140_000 => least(29_000_000 + 1000 * weight, 501),
        _ => least(500 * weight - 27_750_000, 0) + 149,
    };
    (rank as u32).min(CUSTOMER_UNIT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_formulas() {
        for weight in 1..=WEIGHT {
            let w = weight as f64 / 100.0;
            let expected = if w <= 200.0 {
                ((22_500.0 + 500.0 * w).sqrt() - 151.0).ceil()
            } else if w <= 1400.0 {
                ((290_000.0 + 1000.0 * w).sqrt() - 501.0).ceil()
            } else {
                (149.0 + (500.0 * w - 277_500.0).sqrt()).ceil()
            };
            assert_eq!(f64::from(rank(weight)), expected.max(0.0), "weight {weight}");
        }
        assert_eq!([1, 20_000, 20_001, 140_000, WEIGHT].map(rank), [0, 199, 200, 799, 999]);
    }

    #[test]
    fn a_thousand_customers_have_the_shares_of_the_specification() {
        let population = Population::new(1000);
        let tier = |tier| population.customers.iter().filter(|customer| customer.tier == tier).count();
        assert_eq!([tier(1), tier(2), tier(3)], [200, 600, 200]);
        let accounts = population.accounts.len();
        assert!((4_800..5_200).contains(&accounts), "{accounts} accounts");
        let holdings = population.holdings.len();
        assert!((95..105).contains(&(holdings * 10 / accounts)), "{holdings} holdings");
        let lots = population.lots.len();
        assert!((24..26).contains(&(lots * 10 / holdings)), "{lots} lots");
        let cash = population.lots.iter().filter(|lot| lot.is_cash).count();
        assert!((83..86).contains(&(cash * 100 / lots)), "{cash} for cash");
        assert_eq!((population.brokers, population.companies, population.by_security.len()), (10, 500, 685));
        assert_eq!(Population::securities(5000), 3425);
        let positive = population.accounts.iter().filter(|account| account.balance > 0).count();
        assert!((78..82).contains(&(positive * 100 / accounts)), "{positive} positive balances");
        for (others, percent) in [(0, 60), (1, 38), (2, 2)] {
            let count = population.accounts.iter().filter(|account| account.others == others).count();
            assert!((count * 100 / accounts).abs_diff(percent) <= 2, "{count} with {others} others");
        }
    }

    #[test]
    fn trades_are_where_they_are_said_to_be() {
        for customers in [20, 1000] {
            let population = Population::new(customers);
            for (ca_id, account) in (0..).zip(&population.accounts) {
                let trades = population.trades_of_account(ca_id);
                assert!(trades.clone().all(|t_id| population.holding_of(u64::from(t_id)).ca_id == ca_id));
                assert!(!trades.is_empty() && account.holdings.len() <= HELD_MAX);
                let customer = &population.customers[account.c_id as usize];
                assert!(customer.accounts.contains(&ca_id));
            }
            let sum: usize = population.by_security.iter().map(Vec::len).sum();
            assert_eq!(sum, population.lots.len());
            for (s_symb, trades) in (0..).zip(&population.by_security) {
                assert!(trades.is_sorted());
                let same = |t_id: &u32| population.holding_of(u64::from(*t_id)).s_symb == s_symb;
                assert!(trades.iter().all(same));
            }
        }
    }

    #[test]
    fn customers_of_higher_tiers_trade_more_often() {
        for customers in [50, 1000, 3000] {
            let population = Population::new(customers);
            let mut rng = stream(3, 0);
            let mut counts = [0; 3];
            for _ in 0..20_000 {
                let customer = &population.customers[population.draw_customer(&mut rng) as usize];
                counts[usize::from(customer.tier) - 1] += 1;
            }
            // Weights 200, 1200 and 600 of 2000.
            for (count, expected) in counts.into_iter().zip([2_000, 12_000, 6_000]) {
                assert!(i32::abs_diff(count, expected) < 500, "{customers}: {counts:?}");
            }
        }
    }

    #[test]
    fn every_security_has_a_price_and_every_rate_is_positive() {
        assert!((0..1000).all(|s_symb| (PRICES[0]..=PRICES[1]).contains(&open_price(s_symb))));
        for tier in 1..=3 {
            for trade_type in 0..5 {
                for exchange in 0..4 {
                    let rates = [0, 1, 2, 3].map(|band| commission_rate(tier, trade_type, exchange, band));
                    assert!(rates.is_sorted_by(|a, b| a > b) && rates[3] > 0, "{rates:?}");
                }
            }
        }
        assert_eq!(commission(40, 200, 2500), 2000);
        for c_id in 0..1000 {
            let [country, division] = tax_rates(c_id);
            assert!(country < 20 && (20..320).contains(&division));
            assert!((100..=2000).contains(&tax_rate(country)));
        }
    }
}
