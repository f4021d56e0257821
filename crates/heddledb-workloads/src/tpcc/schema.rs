//! The nine tables of TPC-C (clause 1.3), cut into column groups.
//!
//! Money is in cents, taxes and discounts are in 1/10000, dates are logical. Keys are narrow, so
//! that all of them but the name index take one or two words.
//!
//! Columns that are written often have a group of their own, so that a transaction that reads the
//! rest of the row does not conflict with them ("timestamp splitting" in STOv2):
//!
//! | table | groups |
//! |---|---|
//! | WAREHOUSE | `ytd`; the rest is never written |
//! | DISTRICT | `ytd`; `order`: the next order id, with D_TAX, which only New-Order reads, and always with it |
//! | CUSTOMER | `hot`: balance and counts; `cold`: C_DATA; the rest is never written |
//! | ORDER | `carrier` |
//! | ORDER_LINE | `delivery` |
//! | STOCK | `hot`: quantity and counts; the rest is never written |
//!
//! The next order id is ranked last: every New-Order of a district waits for it, and nothing else that one queues for is
//! wanted by as many, so it is queued for last and handed on first.
//!
//! Within a group, columns that are used together are neighbours, because an access copies the
//! words from the first to the last: balance lies between the Payment-only and the Delivery-only
//! columns, and discount, last name and credit come first.
#![allow(missing_docs, reason = "the columns have the names that TPC-C gives and explains them by")]

use heddledb::{Column, Table, Text};

/// A dollar: money is in cents.
pub const DOLLAR: i64 = 100;
/// A logical point in time.
pub type Date = u32;

/// WAREHOUSE.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Warehouse {
    #[key]
    pub w_id: u16,
    pub tax: i32,
    pub name: Text<10>,
    pub street_1: Text<20>,
    pub street_2: Text<20>,
    pub city: Text<20>,
    pub state: Text<2>,
    pub zip: Text<9>,
    #[group(ytd)]
    pub ytd: i64,
}

/// DISTRICT.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct District {
    #[key]
    pub w_id: u16,
    #[key]
    pub d_id: u8,
    pub name: Text<10>,
    pub street_1: Text<20>,
    pub street_2: Text<20>,
    pub city: Text<20>,
    pub state: Text<2>,
    pub zip: Text<9>,
    #[group(ytd)]
    pub ytd: i64,
    #[group(order, rank = 129)]
    pub next_o_id: u32,
    #[group(order)]
    pub tax: i32,
}

/// CUSTOMER, with the name index that Payment and Order-Status search.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
#[table(index(ByName(w_id, d_id, last, first)))]
pub struct Customer {
    #[key]
    pub w_id: u16,
    #[key]
    pub d_id: u8,
    #[key]
    pub c_id: u16,
    pub credit: Text<2>,
    pub discount: i32,
    pub last: Text<16>,
    pub first: Text<16>,
    pub middle: Text<2>,
    pub since: Date,
    pub credit_lim: i64,
    pub street_1: Text<20>,
    pub street_2: Text<20>,
    pub city: Text<20>,
    pub state: Text<2>,
    pub zip: Text<9>,
    pub phone: Text<16>,
    #[group(hot)]
    pub ytd_payment: i64,
    #[group(hot)]
    pub balance: i64,
    #[group(hot)]
    pub payment_cnt: u32,
    #[group(hot)]
    pub delivery_cnt: u32,
    #[group(cold)]
    pub data: Text<500>,
}

/// HISTORY. It has no key in TPC-C; `id` is made of the generator's number and a sequence, so that
/// inserts never collide.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash, append_only)]
pub struct History {
    #[key]
    pub id: u64,
    pub c_w_id: u16,
    pub w_id: u16,
    pub c_id: u16,
    pub c_d_id: u8,
    pub d_id: u8,
    pub date: Date,
    pub amount: i64,
    pub data: Text<24>,
}

/// NEW_ORDER: the orders that wait for delivery.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct NewOrder {
    #[key]
    pub w_id: u16,
    #[key]
    pub d_id: u8,
    #[key]
    pub o_id: u32,
}

/// ORDER, with the index by which Order-Status finds a customer's last one.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
#[table(index(ByCustomer(w_id, d_id, c_id)))]
pub struct Order {
    #[key]
    pub w_id: u16,
    #[key]
    pub d_id: u8,
    #[key]
    pub o_id: u32,
    pub c_id: u16,
    pub ol_cnt: u8,
    pub all_local: bool,
    pub entry_d: Date,
    #[group(carrier)]
    pub carrier_id: Option<u8>,
}

/// ORDER_LINE.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
pub struct OrderLine {
    #[key]
    pub w_id: u16,
    #[key]
    pub d_id: u8,
    #[key]
    pub o_id: u32,
    #[key]
    pub number: u8,
    pub amount: i64,
    pub i_id: u32,
    pub supply_w_id: u16,
    pub quantity: u8,
    pub dist_info: Text<24>,
    #[group(delivery)]
    pub delivery_d: Option<Date>,
}

/// ITEM. Never written.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Item {
    #[key]
    pub i_id: u32,
    pub im_id: u32,
    pub price: i64,
    pub name: Text<24>,
    pub data: Text<50>,
}

/// STOCK.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
pub struct Stock {
    #[key]
    pub w_id: u16,
    #[key]
    pub i_id: u32,
    pub quantity: i32,
    pub ytd: u32,
    pub order_cnt: u32,
    pub remote_cnt: u32,
    #[group(texts)]
    pub data: Text<50>,
    #[group(texts)]
    pub dist_01: Text<24>,
    #[group(texts)]
    pub dist_02: Text<24>,
    #[group(texts)]
    pub dist_03: Text<24>,
    #[group(texts)]
    pub dist_04: Text<24>,
    #[group(texts)]
    pub dist_05: Text<24>,
    #[group(texts)]
    pub dist_06: Text<24>,
    #[group(texts)]
    pub dist_07: Text<24>,
    #[group(texts)]
    pub dist_08: Text<24>,
    #[group(texts)]
    pub dist_09: Text<24>,
    #[group(texts)]
    pub dist_10: Text<24>,
}

impl Stock {
    /// S_DIST_01 to S_DIST_10.
    pub const DIST: [Column<Self, Text<24>>; 10] = [
        Self::dist_01,
        Self::dist_02,
        Self::dist_03,
        Self::dist_04,
        Self::dist_05,
        Self::dist_06,
        Self::dist_07,
        Self::dist_08,
        Self::dist_09,
        Self::dist_10,
    ];
}
