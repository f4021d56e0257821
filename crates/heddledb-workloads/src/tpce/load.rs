//! Filling the tables with the [`Population`].

use super::Parameters;
use super::names::{
    account_name, broker_name, cash_name, cash_type, company_name, exec_name, issue, owner_name,
    owner_tax_id, person_name, person_tax_id, security_name, tax_rate_id, tax_rate_name,
};
use super::population::{
    BANDS, COMPLETED, EXCHANGES, FIRST_DATE, MARKET_BUY, OPEN_VOLUME, Population, SUBMITTED, TAX_RATES,
    TRADE_TYPES, commission_rate, exchange, open_price, tax_rate, tax_rates,
};
use super::schema::{
    AccountPermission, Broker, CashTransaction, Charge, CommissionRate, Company, Customer, CustomerAccount,
    CustomerTaxrate, Date, Holding, HoldingHistory, HoldingSummary, LastTrade, Security, Settlement, Symbol,
    TaxRate, Trade, TradeHistory, TradeRequest, TradeType,
};
use super::trading::{due, settlement_amount};
use crate::batch::Batch;
use heddledb::{Builder, Database, Result, Session, Text};

/// Room for rows that a run adds, as a multiple of those loaded. A table may grow beyond it.
const GROWTH: usize = 2;

/// Declares the tables.
pub(super) fn tables(parameters: &Parameters, population: &Population, builder: Builder) -> Builder {
    let customers = parameters.customers as usize;
    let accounts = population.accounts.len();
    let securities = population.by_security.len();
    let trades = population.lots.len() * GROWTH;
    builder
        .table::<AccountPermission>(accounts * 2)
        .table::<Customer>(customers)
        .table::<CustomerAccount>(accounts)
        .table::<CustomerTaxrate>(customers * 2)
        .table::<TaxRate>(TAX_RATES as usize)
        .table::<Broker>(population.brokers as usize)
        .table::<Company>(population.companies as usize)
        .table::<Security>(securities)
        .table::<LastTrade>(securities)
        .table::<TradeType>(TRADE_TYPES.len())
        .table::<Charge>(TRADE_TYPES.len() * 3)
        .table::<CommissionRate>(3 * TRADE_TYPES.len() * EXCHANGES.len() * BANDS.len())
        .table::<HoldingSummary>(population.holdings.len())
        .table::<Holding>(population.lots.len())
        .table::<HoldingHistory>(trades)
        .table::<Trade>(trades)
        .table::<TradeHistory>(trades * 2)
        .table::<TradeRequest>(securities)
        .table::<Settlement>(trades)
        .table::<CashTransaction>(trades)
}

/// The date of a loaded trade; they are older than all others, and each has a date of its own.
pub(super) fn date(t_id: u64) -> Date {
    FIRST_DATE + t_id as Date
}

/// SE_AMT of a loaded trade. No tax was withheld, as nothing was sold.
pub(super) fn amount(population: &Population, t_id: u64) -> i64 {
    let lot = population.lot(t_id);
    let costs = population.charge(t_id) + population.commission(t_id);
    settlement_amount(false, i32::from(lot.quantity), i64::from(lot.price), costs, 0)
}

/// Fills the tables.
pub(super) fn load(population: &Population, db: &Database, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
    let mut session = db.session()?;
    rates(&mut session)?;
    market(population, &mut session)?;
    customers(population, &mut session)?;
    brokers(population, &mut session)?;
    accounts(population, &mut session)?;
    trades(population, &mut session, progress)?;
    progress(1.0);
    Ok(())
}

/// TAX_RATE, TRADE_TYPE, CHARGE and COMMISSION_RATE.
fn rates(session: &mut Session) -> Result<()> {
    let mut taxes = Batch::new();
    for number in 0..TAX_RATES {
        let (tx_id, name) = (tax_rate_id(number), tax_rate_name(number));
        taxes.push(session, TaxRate { tx_id, rate: tax_rate(number), name })?;
    }
    taxes.flush(session)?;
    let (mut types, mut charges, mut rates) = (Batch::new(), Batch::new(), Batch::new());
    for (number, trade_type) in TRADE_TYPES.iter().enumerate() {
        let tt_id = Text::truncated(trade_type.id);
        let (is_sell, is_mrkt) = (trade_type.is_sell, trade_type.is_mrkt);
        types.push(session, TradeType { tt_id, is_sell, is_mrkt, name: Text::truncated(trade_type.name) })?;
        for (c_tier, chrg) in (1..).zip(trade_type.charges) {
            charges.push(session, Charge { tt_id, c_tier, chrg })?;
            for (place, ex_id) in EXCHANGES.iter().enumerate() {
                for (band, (from_qty, to_qty, _)) in BANDS.into_iter().enumerate() {
                    let rate = CommissionRate {
                        c_tier,
                        tt_id,
                        ex_id: Text::truncated(ex_id),
                        from_qty,
                        to_qty,
                        rate: commission_rate(c_tier, number, place, band),
                    };
                    rates.push(session, rate)?;
                }
            }
        }
    }
    types.flush(session)?;
    charges.flush(session)?;
    rates.flush(session)
}

/// COMPANY, SECURITY and LAST_TRADE.
fn market(population: &Population, session: &mut Session) -> Result<()> {
    let mut companies = Batch::new();
    for co_id in 0..population.companies {
        companies.push(session, Company { co_id, name: company_name(co_id) })?;
    }
    companies.flush(session)?;
    let (mut securities, mut prices) = (Batch::new(), Batch::new());
    for symb in 0..population.by_security.len() as Symbol {
        let security = Security {
            symb,
            co_id: symb % population.companies,
            issue: issue(symb / population.companies),
            ex_id: Text::truncated(EXCHANGES[exchange(symb)]),
            name: security_name(symb),
        };
        securities.push(session, security)?;
        let price = open_price(symb);
        let last = LastTrade { s_symb: symb, open_price: price, price, vol: OPEN_VOLUME, dts: FIRST_DATE };
        prices.push(session, last)?;
    }
    securities.flush(session)?;
    prices.flush(session)
}

/// CUSTOMER and CUSTOMER_TAXRATE.
fn customers(population: &Population, session: &mut Session) -> Result<()> {
    let (mut customers, mut rates) = (Batch::new(), Batch::new());
    for (c_id, customer) in (0..).zip(&population.customers) {
        let (f_name, l_name) = owner_name(c_id);
        let row = Customer { c_id, tier: customer.tier, tax_id: owner_tax_id(c_id), l_name, f_name };
        customers.push(session, row)?;
        for number in tax_rates(c_id) {
            rates.push(session, CustomerTaxrate { c_id, tx_id: tax_rate_id(number) })?;
        }
    }
    customers.flush(session)?;
    rates.flush(session)
}

/// BROKER, with the totals of the loaded trades.
fn brokers(population: &Population, session: &mut Session) -> Result<()> {
    let mut totals = vec![(0, 0); population.brokers as usize];
    for t_id in 1..=population.lots.len() as u64 {
        let account = population.holding_of(t_id).ca_id;
        let total = &mut totals[population.accounts[account as usize].b_id as usize];
        *total = (total.0 + 1, total.1 + population.commission(t_id));
    }
    let mut brokers = Batch::new();
    for (b_id, (num_trades, comm_total)) in (0..).zip(totals) {
        brokers.push(session, Broker { b_id, name: broker_name(b_id), num_trades, comm_total })?;
    }
    brokers.flush(session)
}

/// CUSTOMER_ACCOUNT, ACCOUNT_PERMISSION and HOLDING_SUMMARY.
fn accounts(population: &Population, session: &mut Session) -> Result<()> {
    let (mut accounts, mut permissions, mut summaries) = (Batch::new(), Batch::new(), Batch::new());
    for (ca_id, account) in (0..).zip(&population.accounts) {
        let row = CustomerAccount {
            ca_id,
            b_id: account.b_id,
            c_id: account.c_id,
            tax_st: account.tax_st,
            name: account_name(ca_id),
            bal: account.balance,
        };
        accounts.push(session, row)?;
        let owner = (owner_tax_id(account.c_id), owner_name(account.c_id), "1111");
        let others = (1..=account.others).map(|n| (person_tax_id(ca_id, n), person_name(ca_id, n), "0011"));
        for (tax_id, (f_name, l_name), acl) in std::iter::once(owner).chain(others) {
            let acl = Text::truncated(acl);
            permissions.push(session, AccountPermission { ca_id, tax_id, acl, l_name, f_name })?;
        }
        for place in account.holdings.clone() {
            let holding = &population.holdings[place as usize];
            let qty =
                holding.trades.clone().map(|t_id| i32::from(population.lot(u64::from(t_id)).quantity)).sum();
            summaries.push(session, HoldingSummary { ca_id, s_symb: holding.s_symb, qty })?;
        }
    }
    accounts.flush(session)?;
    permissions.flush(session)?;
    summaries.flush(session)
}

/// What each lot is made of: TRADE, TRADE_HISTORY, HOLDING, HOLDING_HISTORY, SETTLEMENT, and if it was
/// bought for cash, CASH_TRANSACTION.
fn trades(population: &Population, session: &mut Session, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
    let (mut trades, mut states) = (Batch::new(), Batch::new());
    let (mut holdings, mut histories) = (Batch::new(), Batch::new());
    let (mut settlements, mut payments) = (Batch::new(), Batch::new());
    let total = population.lots.len() as u64;
    for t_id in 1..=total {
        let (lot, holding) = (*population.lot(t_id), population.holding_of(t_id));
        let (ca_id, s_symb, qty) = (holding.ca_id, holding.s_symb, i32::from(lot.quantity));
        let (price, dts, amt) = (i64::from(lot.price), date(t_id), amount(population, t_id));
        let (first, last) = owner_name(population.accounts[ca_id as usize].c_id);
        let trade = Trade {
            t_id,
            ca_id,
            s_symb,
            qty,
            tt_id: Text::truncated(MARKET_BUY.id),
            lifo: true,
            is_cash: lot.is_cash,
            chrg: population.charge(t_id),
            bid_price: price,
            dts,
            st_id: Text::truncated(COMPLETED),
            trade_price: price,
            comm: population.commission(t_id),
            tax: 0,
            exec_name: exec_name(&first, &last),
        };
        trades.push(session, trade)?;
        for st_id in [SUBMITTED, COMPLETED] {
            states.push(session, TradeHistory { t_id, dts, st_id: Text::truncated(st_id) })?;
        }
        holdings.push(session, Holding { ca_id, s_symb, dts, t_id, price, qty })?;
        histories.push(session, HoldingHistory { t_id, h_t_id: t_id, before_qty: 0, after_qty: qty })?;
        let cash_type = cash_type(lot.is_cash);
        settlements.push(session, Settlement { t_id, amt, cash_due_date: due(dts), cash_type })?;
        if lot.is_cash {
            let name = cash_name(&Text::truncated(MARKET_BUY.name), qty, &security_name(s_symb));
            payments.push(session, CashTransaction { t_id, amt, dts, name })?;
        }
        if t_id % 4096 == 0 {
            progress(t_id as f64 / total as f64);
        }
    }
    trades.flush(session)?;
    states.flush(session)?;
    holdings.flush(session)?;
    histories.flush(session)?;
    settlements.flush(session)?;
    payments.flush(session)
}
