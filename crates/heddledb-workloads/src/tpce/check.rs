//! The conditions after a run, and the tables against the committed effects.
//!
//! The first three are TPC-E's own. Conditions alone would hold if a transaction's effects were lost as a
//! whole; the ledgers of the workers catch that.
//!
//! Tables with a hash index are read by the keys that they should have, and some beyond.

use super::input::{same_sequence, sequence_start};
use super::load::amount;
use super::names::{
    cash_name, cash_name_corrected, cash_type, cash_type_corrected, exec_name_is_corrected, security_name,
};
use super::population::{
    COMPLETED, LIMIT_BUY, LIMIT_SELL, MARKET_BUY, MARKET_SELL, OPEN_VOLUME, PENDING, STOP_LOSS, SUBMITTED,
    TRADE_TYPES, TypeOfTrade,
};
use super::schema::{
    Broker, CashTransaction, CustomerAccount, Holding, HoldingHistory, HoldingSummary, LastTrade, Settlement,
    Symbol, Trade, TradeHistory, TradeRequest,
};
use super::trading::{WITHHELD, settlement_amount};
use super::{Ledger, Tpce};
use crate::Check;
use crate::missing::OrMissing;
use crate::verdict::{Verdict, equal};
use heddledb::{Database, ReadTransaction, Result, Scan, Session, Table, Text};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

/// Rows of a transaction that checks.
const CHUNK: usize = 512;
/// How far beyond the last key that should exist rows are looked for.
const BEYOND: u64 = 64;

/// The conditions of one kind each, by number from 1.
const CONDITIONS: [&str; 10] = [
    "1: HS_QTY = sum(H_QTY), and neither is without the other",
    "2: B_NUM_TRADES = count(completed trades of the broker's accounts)",
    "3: B_COMM_TOTAL = sum(their T_COMM)",
    "4: TRADE_HISTORY has the states up to T_ST_ID, each once",
    "5: TRADE_REQUEST row exists <=> T_ST_ID = PNDG",
    "6: SETTLEMENT exists <=> completed; CASH_TRANSACTION <=> completed, and for cash",
    "7: CA_BAL = initial + sum(SE_AMT of cash trades completed since)",
    "8: LT_VOL = initial + sum(quantities fed)",
    "9: HOLDING_HISTORY chains every lot from 0 to H_QTY",
    "10: every trade was completed at most once, by its own quantity",
];

/// Checks the quiet database.
pub(super) fn check(tpce: &Tpce, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
    let mut survey = Survey {
        tpce,
        session: db.session()?,
        conditions: CONDITIONS.map(|name| Verdict::new(format!("condition {name}"))).into(),
        settled: Verdict::new("SE_AMT and CT_AMT follow from the trade"),
        corrected: Verdict::new("the texts that Trade-Update corrects are as often corrected as committed"),
        trades: Vec::new(),
        holdings: BTreeMap::new(),
        lots: BTreeMap::new(),
        totals: vec![(0, 0); tpce.population.brokers as usize],
        earned: vec![0; tpce.population.accounts.len()],
        sums: Sums::default(),
    };
    survey.trades(ledgers)?;
    survey.states()?;
    survey.requests()?;
    survey.holdings()?;
    survey.histories()?;
    survey.brokers()?;
    survey.accounts()?;
    survey.securities(ledgers)?;
    Ok(survey.finish(ledgers))
}

/// A trade with what belongs to it.
#[derive(Clone, Debug)]
struct TradeSurvey {
    t_id: u64,
    s_symb: Symbol,
    b_id: u32,
    trade_type: Option<TypeOfTrade>,
    qty: i32,
    state: &'static str,
    /// Rows of TRADE_HISTORY by state, from pending to completed.
    states: [u32; 3],
    /// Rows of TRADE_REQUEST.
    requests: u32,
    /// What it changed of lots, by HOLDING_HISTORY.
    changed: i32,
}

/// Counts over whole tables.
#[derive(Default)]
struct Sums {
    /// Trades beyond those loaded, and those of them that are completed.
    trades: i128,
    completed: i128,
    requests: i128,
}

/// Everything that is compared, on the way through the tables.
struct Survey<'a> {
    tpce: &'a Tpce,
    session: Session,
    conditions: Vec<Verdict>,
    settled: Verdict,
    corrected: Verdict,
    /// By rising key.
    trades: Vec<TradeSurvey>,
    /// HOLDING: sum and rows by account and security.
    holdings: BTreeMap<(u32, Symbol), i64>,
    /// HOLDING: quantity by the trade that opened the lot.
    lots: BTreeMap<u64, i32>,
    /// Completed trades and their commission by broker.
    totals: Vec<(i64, i64)>,
    /// By account.
    earned: Vec<i64>,
    sums: Sums,
}

const STATES: [&str; 3] = [PENDING, SUBMITTED, COMPLETED];

impl Survey<'_> {
    fn condition(&mut self, number: usize) -> &mut Verdict {
        &mut self.conditions[number - 1]
    }

    fn trade(&mut self, t_id: u64) -> Option<&mut TradeSurvey> {
        let place = self.trades.binary_search_by_key(&t_id, |trade| trade.t_id).ok()?;
        Some(&mut self.trades[place])
    }

    /// Visits all rows of a table in order.
    fn all<R: Table>(&mut self, mut visit: impl FnMut(&mut Self, R)) -> Result<()> {
        let mut last: Option<R> = None;
        loop {
            let scan = match &last {
                None => Scan::all(),
                Some(row) => Scan::range((Excluded(row.key()), Unbounded)),
            };
            let rows = self.session.run(|tx| tx.collect::<R>(scan.limit(CHUNK)))?;
            let Some(end) = rows.last() else { return Ok(()) };
            last = Some(end.clone());
            rows.into_iter().for_each(|row| visit(self, row));
        }
    }

    /// TRADE with SETTLEMENT and CASH_TRANSACTION: those loaded, then those of each sequence.
    fn trades(&mut self, ledgers: &[Ledger]) -> Result<()> {
        let loaded = 0..self.tpce.loaded_trades() + BEYOND;
        let mut ranges: Vec<Range<u64>> = vec![loaded];
        for (first, end) in ledgers.iter().flat_map(|ledger| ledger.trades.iter().copied()) {
            match ranges.iter_mut().find(|range| same_sequence(range.start, first)) {
                Some(range) => range.end = range.end.max(end + BEYOND),
                None => ranges.push(sequence_start(first)..end + BEYOND),
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let corrected: [Vec<u64>; 3] = std::array::from_fn(|which| {
            let mut sum: Vec<u64> = Vec::new();
            for bits in ledgers.iter().map(|ledger| &ledger.corrected[which]) {
                sum.resize(sum.len().max(bits.len()), 0);
                sum.iter_mut().zip(bits).for_each(|(sum, bits)| *sum ^= bits);
            }
            sum
        });
        for first in ranges.iter().flat_map(|range| range.clone().step_by(CHUNK)) {
            let end = ranges.iter().find(|range| range.contains(&first)).map_or(first, |range| range.end);
            let ids = first..end.min(first + CHUNK as u64);
            type Rows = (Option<Trade>, Option<Settlement>, Option<CashTransaction>);
            let rows: Vec<Rows> = self.session.run(|tx| {
                ids.clone().map(|t_id| Ok((tx.get(t_id)?, tx.get(t_id)?, tx.get(t_id)?))).collect()
            })?;
            for (t_id, (trade, settlement, payment)) in ids.zip(rows) {
                match trade {
                    Some(trade) => self.add_trade(&trade, settlement, payment, &corrected),
                    None => self.condition(6).require(settlement.is_none() && payment.is_none(), || {
                        format!("trade {t_id}: missing, but was settled")
                    }),
                }
            }
        }
        Ok(())
    }

    fn add_trade(
        &mut self,
        trade: &Trade,
        settlement: Option<Settlement>,
        payment: Option<CashTransaction>,
        corrected: &[Vec<u64>; 3],
    ) {
        let Trade { t_id, ca_id, s_symb, qty, is_cash, .. } = *trade;
        let population = &self.tpce.population;
        let loaded = t_id <= self.tpce.loaded_trades();
        let account = &population.accounts[ca_id as usize % population.accounts.len()];
        let trade_type = TRADE_TYPES.into_iter().find(|known| trade.tt_id == *known.id);
        let state = STATES.into_iter().find(|state| trade.st_id == **state).unwrap_or("none");
        let completed = state == COMPLETED;
        let b_id = account.b_id;
        if completed {
            let total = &mut self.totals[b_id as usize];
            *total = (total.0 + 1, total.1 + trade.comm);
        }
        self.sums.trades += i128::from(!loaded);
        self.sums.completed += i128::from(!loaded && completed);
        let (settled, paid) = (settlement.is_some(), payment.is_some());
        self.condition(6).require(settled == completed && paid == (completed && is_cash), || {
            format!(
                "trade {t_id}: T_ST_ID {state}, cash {is_cash}, SETTLEMENT {settled}, CASH_TRANSACTION {paid}"
            )
        });

        let is_sell = trade_type.is_some_and(|known| known.is_sell);
        if let Some(settlement) = settlement {
            let withheld = if account.tax_st == WITHHELD { trade.tax } else { 0 };
            let costs = trade.chrg + trade.comm;
            let expected = settlement_amount(is_sell, qty, trade.trade_price, costs, withheld);
            let payment = payment.map(|payment| payment.amt);
            let amt = settlement.amt;
            let holds = amt == expected
                && payment.is_none_or(|payment| payment == amt)
                && (!loaded || amt == amount(population, t_id));
            self.settled.require(holds, || {
                format!("trade {t_id}: SE_AMT {amt}, CT_AMT {payment:?}, expected {expected}")
            });
            if is_cash && !loaded {
                self.earned[ca_id as usize % population.accounts.len()] += amt;
            }
        }

        let odd = |which: usize| {
            corrected[which].get((t_id / 64) as usize).is_some_and(|word| word >> (t_id % 64) & 1 == 1)
        };
        let plain = cash_type(is_cash);
        let expected = if odd(1) { cash_type_corrected(&plain) } else { plain };
        let type_holds = settlement.is_none_or(|settlement| settlement.cash_type == expected);
        let name_holds = payment.is_none_or(|payment| {
            let type_name = trade_type.map_or("", |known| known.name);
            let plain = cash_name(&Text::truncated(type_name), qty, &security_name(s_symb));
            payment.name == if odd(2) { cash_name_corrected(&plain) } else { plain }
        });
        let executor_holds = exec_name_is_corrected(&trade.exec_name) == odd(0);
        self.corrected.require(executor_holds && type_holds && name_holds, || {
            format!(
                "trade {t_id}: T_EXEC_NAME `{}`, SE_CASH_TYPE `{}`, CT_NAME `{}`; corrected an odd number of \
                 times: {}, {}, {}",
                trade.exec_name,
                settlement.map(|row| row.cash_type).unwrap_or_default(),
                payment.map(|row| row.name).unwrap_or_default(),
                odd(0),
                odd(1),
                odd(2)
            )
        });
        self.trades.push(TradeSurvey {
            t_id,
            s_symb,
            b_id,
            trade_type,
            qty,
            state,
            states: [0; 3],
            requests: 0,
            changed: 0,
        });
    }

    /// Condition 4.
    fn states(&mut self) -> Result<()> {
        self.all(|survey, row: TradeHistory| {
            let state = STATES.iter().position(|state| row.st_id == **state);
            let trade = survey.trade(row.t_id);
            let known = state.is_some() && trade.is_some();
            if let (Some(trade), Some(state)) = (trade, state) {
                trade.states[state] += 1;
            }
            survey.condition(4).require(known, || format!("{row:?} is of no trade or state"));
        })?;
        for place in 0..self.trades.len() {
            let TradeSurvey { t_id, trade_type, state, states, .. } = self.trades[place].clone();
            let expected = match (trade_type, state) {
                (Some(MARKET_BUY | MARKET_SELL), SUBMITTED) => [0, 1, 0],
                (Some(MARKET_BUY | MARKET_SELL), COMPLETED) => [0, 1, 1],
                (Some(LIMIT_BUY | LIMIT_SELL | STOP_LOSS), PENDING) => [1, 0, 0],
                (Some(LIMIT_BUY | LIMIT_SELL | STOP_LOSS), SUBMITTED) => [1, 1, 0],
                (Some(LIMIT_BUY | LIMIT_SELL | STOP_LOSS), COMPLETED) => [1, 1, 1],
                _ => [u32::MAX; 3],
            };
            self.condition(4).require(states == expected, || {
                format!("trade {t_id}: T_ST_ID {state}, rows of {STATES:?} {states:?}")
            });
        }
        Ok(())
    }

    /// Condition 5.
    fn requests(&mut self) -> Result<()> {
        self.all(|survey, row: TradeRequest| {
            survey.sums.requests += 1;
            let mut holds = false;
            if let Some(trade) = survey.trade(row.t_id) {
                trade.requests += 1;
                holds = (trade.s_symb, trade.b_id, trade.qty) == (row.s_symb, row.b_id, row.qty)
                    && trade.trade_type.is_some_and(|known| row.tt_id == *known.id);
            }
            survey.condition(5).require(holds, || format!("{row:?} is not of its trade"));
        })?;
        for place in 0..self.trades.len() {
            let TradeSurvey { t_id, state, requests, .. } = self.trades[place];
            self.condition(5).require(requests == u32::from(state == PENDING), || {
                format!("trade {t_id}: T_ST_ID {state}, {requests} rows of TRADE_REQUEST")
            });
        }
        Ok(())
    }

    /// Condition 1.
    fn holdings(&mut self) -> Result<()> {
        self.all(|survey, row: Holding| {
            *survey.holdings.entry((row.ca_id, row.s_symb)).or_default() += i64::from(row.qty);
            let doubled = survey.lots.insert(row.t_id, row.qty).is_some();
            survey
                .condition(1)
                .require(row.qty != 0 && !doubled, || format!("{row:?} is empty, or there twice"));
        })?;
        let mut sums = std::mem::take(&mut self.holdings);
        self.all(|survey, row: HoldingSummary| {
            let sum = sums.remove(&(row.ca_id, row.s_symb));
            survey.condition(1).require(sum == Some(i64::from(row.qty)) && row.qty != 0, || {
                format!("{row:?}, sum(H_QTY) {sum:?}")
            });
        })?;
        self.condition(1)
            .require(sums.is_empty(), || format!("without HOLDING_SUMMARY: {:?}", sums.first_key_value()));
        Ok(())
    }

    /// Conditions 9 and 10.
    fn histories(&mut self) -> Result<()> {
        let mut rows = Vec::new();
        self.all(|survey, row: HoldingHistory| {
            if let Some(trade) = survey.trade(row.t_id) {
                trade.changed = trade.changed.saturating_add(row.after_qty.saturating_sub(row.before_qty));
            }
            rows.push(row);
        })?;
        // The opening of a lot first, then from more to less.
        rows.sort_unstable_by_key(|row| {
            (
                row.h_t_id,
                row.before_qty != 0,
                Reverse(row.before_qty.unsigned_abs()),
                row.after_qty.unsigned_abs(),
            )
        });
        for chain in rows.chunk_by(|a, b| a.h_t_id == b.h_t_id) {
            let lot = chain[0].h_t_id;
            let opened = chain[0].t_id == lot && chain[0].before_qty == 0 && chain[0].after_qty != 0;
            let linked = chain.windows(2).all(|pair| pair[0].after_qty == pair[1].before_qty);
            let last = chain[chain.len() - 1].after_qty;
            let qty = self.lots.remove(&lot).unwrap_or_default();
            self.condition(9).require(opened && linked && last == qty, || {
                let steps: Vec<_> =
                    chain.iter().map(|row| (row.t_id, row.before_qty, row.after_qty)).collect();
                format!("lot {lot}: H_QTY {qty}, changes {steps:?}")
            });
        }
        let lots = std::mem::take(&mut self.lots);
        self.condition(9)
            .require(lots.is_empty(), || format!("without history: lot {:?}", lots.first_key_value()));
        for place in 0..self.trades.len() {
            let TradeSurvey { t_id, trade_type, qty, state, states, changed, .. } = self.trades[place];
            let signed = if trade_type.is_some_and(|known| known.is_sell) { -qty } else { qty };
            let expected = if state == COMPLETED { signed } else { 0 };
            self.condition(10).require(changed == expected && states[2] <= 1, || {
                format!(
                    "trade {t_id}: T_ST_ID {state}, completed {} times, lots changed by {changed}",
                    states[2]
                )
            });
        }
        Ok(())
    }

    /// Conditions 2 and 3.
    fn brokers(&mut self) -> Result<()> {
        for b_id in 0..self.tpce.population.brokers {
            let columns = (Broker::num_trades, Broker::comm_total);
            let (num_trades, comm_total) =
                self.session.run(|tx| tx.get_columns(b_id, columns)?.or_missing("broker"))?;
            let (count, sum) = self.totals[b_id as usize];
            self.condition(2).require(num_trades == count, || {
                format!("broker {b_id}: B_NUM_TRADES {num_trades}, {count} completed")
            });
            self.condition(3).require(comm_total == sum, || {
                format!("broker {b_id}: B_COMM_TOTAL {comm_total}, sum(T_COMM) {sum}")
            });
        }
        Ok(())
    }

    /// Condition 7.
    fn accounts(&mut self) -> Result<()> {
        for first in (0..self.tpce.population.accounts.len()).step_by(CHUNK) {
            let ids = first..self.tpce.population.accounts.len().min(first + CHUNK);
            let balances: Vec<i64> = self.session.run(|tx| {
                ids.clone()
                    .map(|ca_id| {
                        tx.get_columns(ca_id as u32, CustomerAccount::bal)?.or_missing("customer_account")
                    })
                    .collect()
            })?;
            for (ca_id, balance) in ids.zip(balances) {
                let (initial, earned) = (self.tpce.population.accounts[ca_id].balance, self.earned[ca_id]);
                self.condition(7).require(balance == initial + earned, || {
                    format!("account {ca_id}: CA_BAL {balance}, initial {initial}, sum(SE_AMT) {earned}")
                });
            }
        }
        Ok(())
    }

    /// Condition 8.
    fn securities(&mut self, ledgers: &[Ledger]) -> Result<()> {
        for s_symb in 0..self.tpce.population.by_security.len() {
            let vol = self
                .session
                .run(|tx| tx.get_columns(s_symb as Symbol, LastTrade::vol)?.or_missing("last_trade"))?;
            let fed: i64 = ledgers.iter().filter_map(|ledger| ledger.fed.get(s_symb)).sum();
            self.condition(8)
                .require(vol == OPEN_VOLUME + fed, || format!("security {s_symb}: LT_VOL {vol}, fed {fed}"));
        }
        Ok(())
    }

    fn finish(self, ledgers: &[Ledger]) -> Vec<Check> {
        let total =
            |part: fn(&Ledger) -> u64| ledgers.iter().map(|ledger| i128::from(part(ledger))).sum::<i128>();
        let mut checks: Vec<Check> = self.conditions.into_iter().map(Verdict::finish).collect();
        checks.push(self.settled.finish());
        checks.push(self.corrected.finish());
        let orders = ("committed Trade-Orders", total(|ledger| ledger.commits[0]));
        checks.push(equal("ledger: TRADE", ("trades beyond those loaded", self.sums.trades), orders));
        let results = ("committed Trade-Results", total(|ledger| ledger.commits[1]));
        checks.push(equal("ledger: completed trades", ("since the load", self.sums.completed), results));
        let waiting = total(|ledger| ledger.limit_orders) - total(|ledger| ledger.triggered);
        let waiting = ("limit orders entered less those triggered", waiting);
        checks.push(equal("ledger: TRADE_REQUEST", ("rows", self.sums.requests), waiting));
        checks
    }
}
