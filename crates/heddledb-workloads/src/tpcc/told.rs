//! What calls tell that they will access (`#[procedure(announce = ..)]`), for protocols that order calls by it.
//!
//! The number of a new order is known to its body only, and which orders a Delivery comes to. So they tell the row by which they wait
//! for each other, and of the rest the district, where nobody waits:
//!
//! | wait for each other | by | and meet, if ever, at |
//! |---|---|---|
//! | New-Orders and Stock-Levels of a district | the number of its next order | the stock of items |
//! | Deliveries of a warehouse | order 0 of its first district, which there never is | the oldest order, if it is the newest, too |
//! | Payments by number | the customer | the customer, with Deliveries and with Payments by last name |

use super::input::{self, CustomerBy};
use super::schema::{
    self, ByCustomer, ByName, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, Mode, Tpcc};
use heddledb::Scan;
use heddledb::procedure::Announcement;

/// New-Order, whichever comes first in it.
pub(super) fn order_is_entered(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::NewOrder) {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    // First: whoever tells keys among others need not tell what nobody writes.
    if tpcc.parameters.mode != Mode::Dbx1000 {
        to.uses_unordered(Scan::<schema::NewOrder>::prefix((w_id, d_id)));
        to.uses_unordered(Scan::<Order>::prefix((w_id, d_id)));
        to.uses_unordered(Scan::<ByCustomer>::prefix((w_id, d_id, c_id)));
        to.uses_unordered(Scan::<OrderLine>::prefix((w_id, d_id)));
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
    to.reads(input.w_id, Warehouse::name);
    to.adds(input.w_id, Warehouse::ytd);
    to.reads((input.w_id, input.d_id), District::name);
    to.adds((input.w_id, input.d_id), District::ytd);
    customer_pays(to, tpcc, input);
}

/// Payment, which reads and writes sums.
pub(super) fn payment_is_written(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::Payment) {
    to.reads(input.w_id, Warehouse::name);
    to.writes(input.w_id, Warehouse::ytd);
    to.reads((input.w_id, input.d_id), District::name);
    to.writes((input.w_id, input.d_id), District::ytd);
    customer_pays(to, tpcc, input);
}

fn customer_pays(to: &mut Announcement<'_>, tpcc: &Tpcc, input: &input::Payment) {
    let (w_id, d_id) = (input.c_w_id, input.c_d_id);
    match input.customer {
        CustomerBy::Id(c_id) => {
            to.reads((w_id, d_id, c_id), Customer::last);
            to.writes((w_id, d_id, c_id), Customer::balance);
            // If the customer has bad credit.
            to.writes((w_id, d_id, c_id), Customer::data);
        }
        CustomerBy::LastName(_) => one_of_the_name(to, w_id, d_id),
    }
    if tpcc.parameters.mode != Mode::Dbx1000 {
        to.writes_row::<History>(input.history_id);
    }
}

/// One of the customers of a district, by last name.
fn one_of_the_name(to: &mut Announcement<'_>, w_id: u16, d_id: u8) {
    to.uses_unordered(Scan::<ByName>::prefix((w_id, d_id)));
    to.uses_unordered(Scan::<Customer>::prefix((w_id, d_id)));
}

/// Delivery, in either text.
pub(super) fn orders_are_delivered(to: &mut Announcement<'_>, _: &Tpcc, input: &input::Delivery) {
    // All Deliveries of a warehouse want its oldest orders: this row stands for them.
    to.writes_row::<schema::NewOrder>((input.w_id, 1, 0));
    for d_id in 1..=DISTRICTS {
        to.uses_unordered(Scan::<schema::NewOrder>::prefix((input.w_id, d_id)));
        to.uses_unordered(Scan::<Order>::prefix((input.w_id, d_id)));
        to.uses_unordered(Scan::<OrderLine>::prefix((input.w_id, d_id)));
        to.uses_unordered(Scan::<Customer>::prefix((input.w_id, d_id)));
    }
}

/// Order-Status.
pub(super) fn order_is_shown(to: &mut Announcement<'_>, input: &input::OrderStatus) {
    let (w_id, d_id) = (input.w_id, input.d_id);
    match input.customer {
        CustomerBy::Id(c_id) => to.reads((w_id, d_id, c_id), (Customer::last, Customer::balance)),
        CustomerBy::LastName(_) => one_of_the_name(to, w_id, d_id),
    }
    to.uses_unordered(Scan::<ByCustomer>::prefix((w_id, d_id)));
    an_order_is_shown(to, w_id, d_id);
}

/// The status of a district's last order.
pub(super) fn last_order_is_shown(to: &mut Announcement<'_>, w_id: u16, d_id: u8) {
    to.reads((w_id, d_id), District::next_o_id);
    an_order_is_shown(to, w_id, d_id);
}

fn an_order_is_shown(to: &mut Announcement<'_>, w_id: u16, d_id: u8) {
    to.uses_unordered(Scan::<Order>::prefix((w_id, d_id)));
    to.uses_unordered(Scan::<OrderLine>::prefix((w_id, d_id)));
}

/// Stock-Level.
pub(super) fn stock_is_looked_at(to: &mut Announcement<'_>, _: &Tpcc, input: &input::StockLevel) {
    to.reads((input.w_id, input.d_id), District::next_o_id);
    to.uses_unordered(Scan::<OrderLine>::prefix((input.w_id, input.d_id)));
    to.uses_unordered(Scan::<Stock>::prefix((input.w_id,)));
}
