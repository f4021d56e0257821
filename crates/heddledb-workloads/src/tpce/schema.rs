//! The twenty tables of TPC-E that its four read-write transactions use, cut into column groups.
//!
//! Money is in cents, rates are in 1/10000, dates are logical: each generator counts its own. Only the
//! columns that the four transactions use are here. Keys are narrow: a security's symbol is its number,
//! where TPC-E has fifteen letters, and accounts, customers, brokers and companies count from zero.
//!
//! Columns that change have a group of their own, so that a transaction that reads the rest of the row
//! does not conflict with whoever changes them:
//!
//! | table | groups |
//! |---|---|
//! | CUSTOMER_ACCOUNT | `balance`; the rest is never written |
//! | BROKER | `totals`; the name is never written |
//! | LAST_TRADE | `quote`: date, price and volume, which Market-Feed writes |
//! | TRADE | `state`: what Trade-Result and Market-Feed write; `executor`: the name, which Trade-Update writes; the rest is never written |
//! | SETTLEMENT | `cash_type`, which Trade-Update writes |
//! | CASH_TRANSACTION | `name`, which Trade-Update writes |
//!
//! **Left out:** TRADE's indexes by account and date and by security and date, which only Trade-Update
//! searches, for trades that were completed long ago. Their dates change twice in the life of a trade,
//! so that both would be written by every Trade-Order, Trade-Result and Market-Feed. Trade-Update gets
//! the trades of an account or security from its generator, which knows those that were loaded.
#![allow(missing_docs, reason = "the columns have the names that TPC-E gives and explains them by")]

use heddledb::{Table, Text};

/// A dollar: money is in cents.
pub const DOLLAR: i64 = 100;
/// One in ten thousand: the unit of rates.
pub const UNIT: i64 = 10_000;
/// A logical point in time.
pub type Date = u32;
/// The number of a security.
pub type Symbol = u32;

/// ACCOUNT_PERMISSION: who may act for an account; its owner has a row, too.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct AccountPermission {
    #[key]
    pub ca_id: u32,
    #[key]
    pub tax_id: Text<20>,
    pub acl: Text<4>,
    pub l_name: Text<25>,
    pub f_name: Text<20>,
}

/// CUSTOMER. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Customer {
    #[key]
    pub c_id: u32,
    pub tier: u8,
    pub tax_id: Text<20>,
    pub l_name: Text<25>,
    pub f_name: Text<20>,
}

/// CUSTOMER_ACCOUNT.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct CustomerAccount {
    #[key]
    pub ca_id: u32,
    pub b_id: u32,
    pub c_id: u32,
    pub tax_st: u8,
    pub name: Text<50>,
    #[group(balance)]
    pub bal: i64,
}

/// CUSTOMER_TAXRATE: two rows for each customer. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct CustomerTaxrate {
    #[key]
    pub c_id: u32,
    #[key]
    pub tx_id: Text<4>,
}

/// TAX_RATE. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct TaxRate {
    #[key]
    pub tx_id: Text<4>,
    pub rate: i64,
    pub name: Text<50>,
}

/// BROKER.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Broker {
    #[key]
    pub b_id: u32,
    pub name: Text<49>,
    #[group(totals)]
    pub num_trades: i64,
    #[group(totals)]
    pub comm_total: i64,
}

/// COMPANY. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
#[table(unique(CompanyByName(name)))]
pub struct Company {
    #[key]
    pub co_id: u32,
    pub name: Text<60>,
}

/// SECURITY. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
#[table(unique(SecurityByIssue(co_id, issue)))]
pub struct Security {
    #[key]
    pub symb: Symbol,
    pub co_id: u32,
    pub issue: Text<6>,
    pub ex_id: Text<6>,
    pub name: Text<70>,
}

/// LAST_TRADE.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct LastTrade {
    #[key]
    pub s_symb: Symbol,
    pub open_price: i64,
    #[group(quote)]
    pub price: i64,
    #[group(quote)]
    pub vol: i64,
    #[group(quote)]
    pub dts: Date,
}

/// TRADE_TYPE. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct TradeType {
    #[key]
    pub tt_id: Text<3>,
    pub is_sell: bool,
    pub is_mrkt: bool,
    pub name: Text<12>,
}

/// CHARGE. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Charge {
    #[key]
    pub tt_id: Text<3>,
    #[key]
    pub c_tier: u8,
    pub chrg: i64,
}

/// COMMISSION_RATE: bands of quantities. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct CommissionRate {
    #[key]
    pub c_tier: u8,
    #[key]
    pub tt_id: Text<3>,
    #[key]
    pub ex_id: Text<6>,
    #[key]
    pub from_qty: i32,
    pub to_qty: i32,
    pub rate: i64,
}

/// HOLDING_SUMMARY: what an account has of a security; negative if it sold what it did not have.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct HoldingSummary {
    #[key]
    pub ca_id: u32,
    #[key]
    pub s_symb: Symbol,
    pub qty: i32,
}

/// HOLDING: the lots that this is made of, one for each trade that opened one.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct Holding {
    #[key]
    pub ca_id: u32,
    #[key]
    pub s_symb: Symbol,
    #[key]
    pub dts: Date,
    #[key]
    pub t_id: u64,
    pub price: i64,
    pub qty: i32,
}

/// HOLDING_HISTORY: which trade changed which lot. Rows are only ever added.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(append_only)]
pub struct HoldingHistory {
    #[key]
    pub t_id: u64,
    #[key]
    pub h_t_id: u64,
    pub before_qty: i32,
    pub after_qty: i32,
}

/// TRADE.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Trade {
    #[key]
    pub t_id: u64,
    pub ca_id: u32,
    pub s_symb: Symbol,
    pub qty: i32,
    pub tt_id: Text<3>,
    pub lifo: bool,
    pub is_cash: bool,
    pub chrg: i64,
    pub bid_price: i64,
    #[group(state)]
    pub dts: Date,
    #[group(state)]
    pub st_id: Text<4>,
    #[group(state)]
    pub trade_price: i64,
    #[group(state)]
    pub comm: i64,
    #[group(state)]
    pub tax: i64,
    #[group(executor)]
    pub exec_name: Text<49>,
}

/// TRADE_HISTORY: the states of a trade. Rows are only ever added.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct TradeHistory {
    #[key]
    pub t_id: u64,
    #[key]
    pub dts: Date,
    #[key]
    pub st_id: Text<4>,
}

/// TRADE_REQUEST: the limit orders that wait for their price.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct TradeRequest {
    #[key]
    pub s_symb: Symbol,
    #[key]
    pub b_id: u32,
    #[key]
    pub t_id: u64,
    pub bid_price: i64,
    pub qty: i32,
    pub tt_id: Text<3>,
}

/// SETTLEMENT.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Settlement {
    #[key]
    pub t_id: u64,
    pub amt: i64,
    pub cash_due_date: Date,
    #[group(cash_type)]
    pub cash_type: Text<40>,
}

/// CASH_TRANSACTION.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct CashTransaction {
    #[key]
    pub t_id: u64,
    pub amt: i64,
    pub dts: Date,
    #[group(name)]
    pub name: Text<100>,
}
