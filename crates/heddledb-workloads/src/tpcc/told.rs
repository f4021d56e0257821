//! What calls tell that they will access (`#[procedure(announce = ..)]`), for protocols that order calls by it.
//!
//! The number of a new order, and which orders a Delivery comes to, are known to the bodies only. So these tell whole districts: whoever
//! they conflict with by that, they conflict with by the next order's number or by scans, or nearly always.
//!
//! Others are told by no more than what a first execution finds. A Payment by last name would meet all other Payments of the
//! customer's district; which customer it is never changes, so that execution is right. A Stock-Level would meet all New-Orders
//! of its warehouse, which with one warehouse is everybody; so it misses the items of orders that were entered meanwhile. Order-Status
//! misses an order only that its own customer has made meanwhile.

use super::input::{self, CustomerBy};
use super::schema::{
    self, ByCustomer, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, Mode, Tpcc};
use heddledb::Scan;
use heddledb::procedure::Announcement;

/// New-Order, whichever comes first in it.
pub(super) fn order_is_entered(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::NewOrder) {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    // First: whoever tells keys among others need not tell what nobody writes.
    if tpcc.parameters.mode != Mode::Dbx1000 {
        to.writes_among(Scan::<schema::NewOrder>::prefix((w_id, d_id)));
        to.writes_among(Scan::<Order>::prefix((w_id, d_id)));
        to.writes_among(Scan::<ByCustomer>::prefix((w_id, d_id, c_id)));
        to.writes_among(Scan::<OrderLine>::prefix((w_id, d_id)));
    }
    to.reads(w_id, Warehouse::tax);
    to.writes((w_id, d_id), District::next_o_id);
    for line in input.lines() {
        let key = (line.supply_w_id, line.i_id);
        to.reads(line.i_id, Item::price);
        to.reads(key, Stock::data);
        to.writes(key, Stock::quantity);
    }
    to.reads((w_id, d_id, c_id), Customer::credit);
}

/// Payment, which adds to sums.
pub(super) fn payment_is_added(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::Payment) {
    let CustomerBy::Id(c_id) = input.customer else { return to.finds_rest() };
    to.reads(input.w_id, Warehouse::name);
    to.adds(input.w_id, Warehouse::ytd);
    to.reads((input.w_id, input.d_id), District::name);
    to.adds((input.w_id, input.d_id), District::ytd);
    customer_pays(to, tpcc, input, c_id);
}

/// Payment, which reads and writes sums.
pub(super) fn payment_is_written(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::Payment) {
    let CustomerBy::Id(c_id) = input.customer else { return to.finds_rest() };
    to.reads(input.w_id, Warehouse::name);
    to.writes(input.w_id, Warehouse::ytd);
    to.reads((input.w_id, input.d_id), District::name);
    to.writes((input.w_id, input.d_id), District::ytd);
    customer_pays(to, tpcc, input, c_id);
}

fn customer_pays(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::Payment, c_id: u16) {
    let key = (input.c_w_id, input.c_d_id, c_id);
    to.reads(key, Customer::last);
    to.writes(key, Customer::balance);
    // If the customer has bad credit.
    to.writes(key, Customer::data);
    if tpcc.parameters.mode != Mode::Dbx1000 {
        to.writes_row::<History>(input.history_id);
    }
}

/// Delivery, in either text.
pub(super) fn orders_are_delivered(to: &mut Announcement<'_>, _: &Tpcc, input: &input::Delivery) {
    for d_id in 1..=DISTRICTS {
        to.writes_among(Scan::<schema::NewOrder>::prefix((input.w_id, d_id)));
        to.writes_among(Scan::<Order>::prefix((input.w_id, d_id)));
        to.writes_among(Scan::<OrderLine>::prefix((input.w_id, d_id)));
        to.writes_among(Scan::<Customer>::prefix((input.w_id, d_id)));
    }
}

/// The status of a district's last order.
pub(super) fn last_order_is_shown(to: &mut Announcement<'_>, w_id: u16, d_id: u8) {
    to.reads((w_id, d_id), District::next_o_id);
    to.scans(Scan::<Order>::prefix((w_id, d_id)));
    to.scans(Scan::<OrderLine>::prefix((w_id, d_id)));
}
