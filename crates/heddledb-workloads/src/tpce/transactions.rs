//! The four read-write transactions, as TPC-E's frames have them, in the order of accesses that lets IC3
//! cut them into the most pieces: HOLDING_SUMMARY, HOLDING, LAST_TRADE, TRADE, TRADE_REQUEST,
//! TRADE_HISTORY, BROKER, SETTLEMENT, CUSTOMER_ACCOUNT's balance, CASH_TRANSACTION.
//!
//! They are procedures: the analysis is told of their accesses as they stand here, and none of their pieces
//! has to be merged (`tests/procedures.rs`).
//!
//! Every access names the columns that it needs. A committed transaction allocates nothing here: what a
//! scan collects goes into arrays on the stack. What the customer would be shown is read and handed to
//! [`black_box`], so that the compiler cannot drop the reads.

use super::input::{self, By, SecurityBy, UPDATES_MAX};
use super::names::{
    cash_name, cash_name_corrected, cash_type, cash_type_corrected, exec_name, exec_name_corrected,
};
use super::population::{COMPLETED, PENDING, SUBMITTED, commission};
use super::schema::{
    AccountPermission, Broker, CashTransaction, Charge, CommissionRate, Company, CompanyByName, Customer,
    CustomerAccount, CustomerTaxrate, Holding, HoldingHistory, HoldingSummary, LastTrade, Security,
    SecurityByIssue, Settlement, Symbol, TaxRate, Trade, TradeHistory, TradeRequest, TradeType,
};
use super::trading::{
    Assets, Closing, Request, Triggered, WITHHELD, due, lots, settlement_amount, tax_on, triggers,
};
use crate::missing::{Missing, OrMissing};
use heddledb::{Error, ReadTransaction, Result, Scan, Text, Transaction, procedure};
use std::fmt;
use std::hint::black_box;
use std::ops::ControlFlow::{Break, Continue};

/// What a committed transaction returns.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack; a box would be an allocation for each feed"
)]
pub enum Output {
    /// Trade-Order.
    TradeOrder {
        /// The security.
        s_symb: Symbol,
        /// Cents: the market's, or those asked for.
        price: i64,
        /// Whether the exchange takes it at once.
        is_market: bool,
    },
    /// Trade-Result.
    TradeResult {
        /// Cents that change hands, negative for a buy.
        amount: i64,
    },
    /// Market-Feed.
    MarketFeed {
        /// The limit orders whose price has come.
        triggered: Triggered,
    },
    /// Trade-Update.
    TradeUpdate,
}

/// The reason of the user abort of one Trade-Order in a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback;

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the order is not wanted after all")
    }
}

impl std::error::Error for Rollback {}

/// The reason of a user abort that the generator's inputs never lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NotPermitted;

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this person may not act for the account")
    }
}

impl std::error::Error for NotPermitted {}

/// Trade-Order.
#[procedure]
pub fn trade_order(tx: &mut impl Transaction, input: &input::TradeOrder) -> Result<Output> {
    let ca_id = input.ca_id;

    // Frame 1: account, customer and broker.
    let columns =
        (CustomerAccount::name, CustomerAccount::b_id, CustomerAccount::c_id, CustomerAccount::tax_st);
    let (ca_name, b_id, c_id, tax_st) = tx.get_columns(ca_id, columns)?.or_missing("customer_account")?;
    let columns = (Customer::f_name, Customer::l_name, Customer::tier, Customer::tax_id);
    let (f_name, l_name, tier, tax_id) = tx.get_columns(c_id, columns)?.or_missing("customer")?;
    let b_name = tx.get_columns(b_id, Broker::name)?.or_missing("broker")?;
    black_box((&ca_name, &tax_id, &b_name));

    // Frame 2: permission.
    let mut executor = (f_name, l_name);
    if let Some(tax_id) = input.executor {
        let columns = (AccountPermission::f_name, AccountPermission::l_name, AccountPermission::acl);
        match tx.get_columns((ca_id, tax_id), columns)? {
            Some((f_name, l_name, acl)) => {
                black_box(&acl);
                executor = (f_name, l_name);
            }
            None => return Err(Error::user(NotPermitted)),
        }
    }

    // Frame 3: what the trade will cost.
    let (s_symb, ex_id);
    // The company is found by its name, or from its security.
    #[piece]
    {
        s_symb = match &input.security {
            SecurityBy::Symbol(s_symb) => *s_symb,
            SecurityBy::Issue(company, issue) => {
                let co_id = tx.find_key::<CompanyByName>(*company)?.or_missing("company")?;
                tx.find_key::<SecurityByIssue>((co_id, *issue))?.or_missing("security")?
            }
        };
        let columns = (Security::co_id, Security::ex_id, Security::name);
        let (co_id, s_ex_id, s_name) = tx.get_columns(s_symb, columns)?.or_missing("security")?;
        let co_name = tx.get_columns(co_id, Company::name)?.or_missing("company")?;
        black_box((&s_name, &co_name));
        ex_id = s_ex_id;
    }
    let (is_sell, is_market) =
        tx.get_columns(input.tt_id, (TradeType::is_sell, TradeType::is_mrkt))?.or_missing("trade_type")?;

    // For a trade on margin all that the account has.
    let summaries =
        if input.is_cash { Scan::range((ca_id, s_symb)..=(ca_id, s_symb)) } else { Scan::prefix((ca_id,)) };
    let mut assets = Assets::new(s_symb);
    tx.scan_columns(summaries, HoldingSummary::qty, |(_, s_symb), qty| assets.push(s_symb, qty))?;
    let mut closing = Closing::new(input.quantity);
    if is_sell && assets.held() > 0 || !is_sell && assets.held() < 0 {
        tx.scan_columns(
            lots(ca_id, s_symb, input.lifo),
            (Holding::price, Holding::qty),
            |(_, _, dts, t_id), (price, qty)| closing.take(dts, t_id, price, qty),
        )?;
    }
    let (mut market_price, mut asset_value) = (0, 0);
    for (number, (asset, qty)) in assets.all(input.is_cash).iter().enumerate() {
        let price = tx.get_columns(*asset, LastTrade::price)?.or_missing("last_trade")?;
        if number == 0 {
            market_price = price;
        }
        asset_value += i64::from(*qty) * price;
    }
    let price = if is_market { market_price } else { input.requested_price };
    let profit = closing.profit(price);
    let mut tax = 0;
    if profit > 0 && tax_st != 0 {
        tax = tax_on(profit, find_tax_rate(tx, c_id)?);
    }
    let rate = find_commission_rate(tx, tier, input.tt_id, ex_id, input.quantity)?;
    let comm = commission(rate, input.quantity, price);
    let chrg = tx.get_columns((input.tt_id, tier), Charge::chrg)?.or_missing("charge")?;

    // Frame 4: the order.
    let st_id = Text::truncated(if is_market { SUBMITTED } else { PENDING });
    tx.insert(Trade {
        t_id: input.t_id,
        ca_id,
        s_symb,
        qty: input.quantity,
        tt_id: input.tt_id,
        lifo: input.lifo,
        is_cash: input.is_cash,
        chrg,
        bid_price: price,
        dts: input.date,
        st_id,
        trade_price: 0,
        comm,
        tax: 0,
        exec_name: exec_name(&executor.0, &executor.1),
    })?;
    if !is_market {
        tx.insert(TradeRequest {
            s_symb,
            b_id,
            t_id: input.t_id,
            bid_price: price,
            qty: input.quantity,
            tt_id: input.tt_id,
        })?;
    }
    tx.insert(TradeHistory { t_id: input.t_id, dts: input.date, st_id })?;
    if !input.is_cash {
        asset_value += tx.get_columns(ca_id, CustomerAccount::bal)?.or_missing("customer_account")?;
    }
    black_box((tax, asset_value));

    // Frame 5.
    if input.rolls_back {
        return Err(Error::user(Rollback));
    }
    Ok(Output::TradeOrder { s_symb, price, is_market })
}

/// Trade-Result.
#[procedure]
pub fn trade_result(tx: &mut impl Transaction, input: &input::TradeResult) -> Result<Output> {
    let (t_id, price) = (input.t_id, input.price);

    // Frame 1: the trade, and what the account has of the security.
    let columns =
        (Trade::ca_id, Trade::tt_id, Trade::s_symb, Trade::qty, Trade::chrg, Trade::lifo, Trade::is_cash);
    // The exchange makes a result of an order that has committed.
    #[causal]
    let (ca_id, tt_id, s_symb, qty, chrg, lifo, is_cash) =
        tx.get_columns(t_id, columns)?.or_missing("trade")?;
    let (is_sell, type_name) =
        tx.get_columns(tt_id, (TradeType::is_sell, TradeType::name))?.or_missing("trade_type")?;

    // Frame 2: the holdings.
    let columns = (CustomerAccount::b_id, CustomerAccount::c_id, CustomerAccount::tax_st);
    let (b_id, c_id, tax_st) = tx.get_columns(ca_id, columns)?.or_missing("customer_account")?;
    let signed = if is_sell { -qty } else { qty };
    let held;
    // All are of the same row.
    #[piece]
    {
        held = match tx.get_columns((ca_id, s_symb), HoldingSummary::qty)? {
            None => {
                tx.insert(HoldingSummary { ca_id, s_symb, qty: signed })?;
                0
            }
            Some(held) if held + signed == 0 => {
                tx.delete::<HoldingSummary>((ca_id, s_symb))?;
                held
            }
            Some(held) => {
                tx.set_columns((ca_id, s_symb), HoldingSummary::qty, held + signed)?;
                held
            }
        };
    }
    let mut closing = Closing::new(qty);
    let opened;
    // All are of the same lots.
    #[piece]
    {
        if is_sell && held > 0 || !is_sell && held < 0 {
            tx.scan_columns(
                lots(ca_id, s_symb, lifo),
                (Holding::price, Holding::qty),
                |(_, _, dts, t_id), (price, qty)| closing.take(dts, t_id, price, qty),
            )?;
        }
        for lot in closing.changes() {
            if lot.after == 0 {
                tx.delete::<Holding>((ca_id, s_symb, lot.dts, lot.t_id))?;
            } else {
                tx.set_columns((ca_id, s_symb, lot.dts, lot.t_id), Holding::qty, lot.after)?;
            }
        }
        // What no lot covers opens one.
        opened = if is_sell { -closing.needed } else { closing.needed };
        if opened != 0 {
            tx.insert(Holding { ca_id, s_symb, dts: input.date, t_id, price, qty: opened })?;
        }
    }
    #[piece]
    {
        for lot in closing.changes() {
            let (before_qty, after_qty) = (lot.before, lot.after);
            tx.insert(HoldingHistory { t_id, h_t_id: lot.t_id, before_qty, after_qty })?;
        }
        if opened != 0 {
            tx.insert(HoldingHistory { t_id, h_t_id: t_id, before_qty: 0, after_qty: opened })?;
        }
    }

    // Frame 3: the tax.
    let profit = closing.profit(price);
    let mut tax = 0;
    if profit > 0 && tax_st != 0 {
        tax = tax_on(profit, find_tax_rate(tx, c_id)?);
    }

    // Frame 4: the commission.
    let (ex_id, s_name) =
        tx.get_columns(s_symb, (Security::ex_id, Security::name))?.or_missing("security")?;
    let tier = tx.get_columns(c_id, Customer::tier)?.or_missing("customer")?;
    let rate = find_commission_rate(tx, tier, tt_id, ex_id, qty)?;
    let comm = commission(rate, qty, price);

    // Frame 5: the trade is completed.
    let st_id = Text::truncated(COMPLETED);
    tx.set_columns(
        t_id,
        (Trade::tax, Trade::comm, Trade::dts, Trade::st_id, Trade::trade_price),
        (tax, comm, input.date, st_id, price),
    )?;
    tx.insert(TradeHistory { t_id, dts: input.date, st_id })?;
    tx.update_columns(b_id, (Broker::num_trades, Broker::comm_total), |(num_trades, comm_total)| {
        *num_trades += 1;
        *comm_total += comm;
    })?;

    // Frame 6: the settlement.
    let withheld = if tax_st == WITHHELD { tax } else { 0 };
    let amount = settlement_amount(is_sell, qty, price, chrg + comm, withheld);
    let cash_due_date = due(input.date);
    tx.insert(Settlement { t_id, amt: amount, cash_due_date, cash_type: cash_type(is_cash) })?;
    let balance;
    // One of the two is executed.
    #[piece]
    {
        balance = if is_cash {
            tx.update_columns(ca_id, CustomerAccount::bal, |bal| {
                *bal += amount;
                *bal
            })?
        } else {
            tx.get_columns(ca_id, CustomerAccount::bal)?.or_missing("customer_account")?
        };
    }
    black_box(balance);
    if is_cash {
        let name = cash_name(&type_name, qty, &s_name);
        tx.insert(CashTransaction { t_id, amt: amount, dts: input.date, name })?;
    }
    Ok(Output::TradeResult { amount })
}

/// Market-Feed.
#[procedure]
pub fn market_feed(tx: &mut impl Transaction, input: &input::MarketFeed) -> Result<Output> {
    for entry in &input.entries {
        let quote = (LastTrade::price, LastTrade::vol, LastTrade::dts);
        tx.update_columns(entry.s_symb, quote, |(price, vol, dts)| {
            *price = entry.price;
            *vol += i64::from(entry.quantity);
            *dts = input.date;
        })?;
    }
    let mut triggered = Triggered::default();
    for entry in &input.entries {
        let first = triggered.count;
        tx.scan_columns(
            Scan::prefix((entry.s_symb,)),
            (TradeRequest::tt_id, TradeRequest::bid_price),
            |(_, b_id, t_id), (tt_id, bid_price)| {
                if triggers(&tt_id, bid_price, entry.price) {
                    triggered.push(Request { t_id, b_id, price: entry.price })
                } else {
                    Continue(())
                }
            },
        )?;
        for request in &triggered.requests()[first..] {
            if !tx.delete::<TradeRequest>((entry.s_symb, request.b_id, request.t_id))? {
                return Err(Error::user(Missing("trade_request")));
            }
        }
    }
    let st_id = Text::truncated(SUBMITTED);
    for request in triggered.requests() {
        // Its request, which was read above, came after the trade; its result comes after this; and only trades
        // that are completed are corrected.
        #[causal]
        tx.set_columns(request.t_id, (Trade::dts, Trade::st_id), (input.date, st_id))?;
    }
    for request in triggered.requests() {
        tx.insert(TradeHistory { t_id: request.t_id, dts: input.date, st_id })?;
    }
    Ok(Output::MarketFeed { triggered })
}

/// Trade-Update.
#[procedure]
pub fn trade_update(tx: &mut impl Transaction, input: &input::TradeUpdate) -> Result<Output> {
    /// The most rows of TRADE_HISTORY that are shown of a trade.
    const STATES: usize = 3;
    let mut cash = [false; UPDATES_MAX];
    for (number, t_id) in input.trades().iter().enumerate() {
        let columns = (
            Trade::is_cash,
            Trade::tt_id,
            Trade::s_symb,
            Trade::ca_id,
            Trade::bid_price,
            Trade::qty,
            Trade::trade_price,
            Trade::dts,
        );
        let trade = tx.get_columns(*t_id, columns)?.or_missing("trade")?;
        black_box(&trade);
        let (is_cash, tt_id, s_symb, ..) = trade;
        cash[number] = is_cash;
        if input.by == By::Trades {
            tx.update_columns(*t_id, Trade::exec_name, |name| *name = exec_name_corrected(name))?;
        } else {
            black_box(&tx.get_columns(*t_id, Trade::exec_name)?.or_missing("trade")?);
        }
        if input.by != By::Account {
            let columns = (TradeType::is_mrkt, TradeType::name);
            black_box(&tx.get_columns(tt_id, columns)?.or_missing("trade_type")?);
        }
        if input.by == By::Security {
            black_box(&tx.get_columns(s_symb, Security::name)?.or_missing("security")?);
        }
    }
    for t_id in input.trades() {
        tx.scan_columns(Scan::prefix((*t_id,)).limit(STATES), TradeHistory::t_id, |key, _| {
            black_box(&key);
            Continue(())
        })?;
    }
    for t_id in input.trades() {
        let columns = (Settlement::amt, Settlement::cash_due_date, Settlement::cash_type);
        if input.by == By::Account {
            tx.update_columns(*t_id, columns, |(amt, cash_due_date, cash_type)| {
                black_box((&amt, &cash_due_date));
                *cash_type = cash_type_corrected(cash_type);
            })?;
        } else {
            black_box(&tx.get_columns(*t_id, columns)?.or_missing("settlement")?);
        }
    }
    for (number, t_id) in input.trades().iter().enumerate() {
        let columns = (CashTransaction::amt, CashTransaction::dts, CashTransaction::name);
        if cash[number] && input.by == By::Security {
            tx.update_columns(*t_id, columns, |(amt, dts, name)| {
                black_box((&amt, &dts));
                *name = cash_name_corrected(name);
            })?;
        } else if cash[number] {
            black_box(&tx.get_columns(*t_id, columns)?.or_missing("cash_transaction")?);
        }
    }
    Ok(Output::TradeUpdate)
}

/// The sum of the two rates by which a customer's profits are taxed.
#[procedure]
fn find_tax_rate(tx: &mut impl ReadTransaction, c_id: u32) -> Result<i64> {
    let mut tx_ids = [Text::EMPTY; 2];
    let mut count = 0;
    tx.scan_columns(Scan::prefix((c_id,)).limit(2), CustomerTaxrate::tx_id, |_, tx_id| {
        tx_ids[count] = tx_id;
        count += 1;
        Continue(())
    })?;
    let mut rate = 0;
    for tx_id in &tx_ids[..count] {
        rate += tx.get_columns(*tx_id, TaxRate::rate)?.or_missing("tax_rate")?;
    }
    Ok(rate)
}

/// The rate of the band that a quantity lies in.
#[procedure]
fn find_commission_rate(
    tx: &mut impl ReadTransaction,
    tier: u8,
    tt_id: Text<3>,
    ex_id: Text<6>,
    quantity: i32,
) -> Result<i64> {
    let bands = Scan::range((tier, tt_id, ex_id, 0)..=(tier, tt_id, ex_id, quantity));
    let mut rate = None;
    let columns = (CommissionRate::to_qty, CommissionRate::rate);
    tx.scan_columns(bands.reverse().limit(1), columns, |_, (to_qty, found)| {
        rate = (quantity <= to_qty).then_some(found);
        Break(())
    })?;
    rate.or_missing("commission_rate")
}
