//! New-Order, Payment and Delivery as deferring transactions.
//!
//! What is never written is read at once, before anything is written down; so are the index entries and lines by which rows are found.
//! All changes of rows that others change, too (districts, stock, customers, sums of a year), are written down and made at the
//! commit.
//!
//! **The rows of an order** have its number in their keys, which is known when the district is evaluated
//! ([`Deferring::insert_with`]).

use super::delivery::oldest_order;
use super::input;
use super::random::is_original;
use super::schema::{self, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse};
use super::transactions::{
    Output, Rollback, UNIT, district_name, find_customer, line_of, noted, order_of, spaced, stock_after,
    warehouse_name,
};
use super::{DISTRICTS, LINES_MAX, Mode, Outside, Tpcc};
use crate::missing::{Missing, OrMissing};
use heddledb::{Deferred, Deferring, Error, ReadTransaction, Refusal, Result, Scan, Session, Text};
use std::hint::black_box;
use std::ops::ControlFlow::{Break, Continue};

/// New-Order.
pub fn new_order(session: &mut Session, tpcc: &Tpcc, input: &input::NewOrder) -> Result<Output> {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    let mode = tpcc.parameters.mode;
    let (mut w_tax, mut discount, mut sum) = (0, 0, 0);
    let district = session.defer(|tx| {
        sum = 0;
        w_tax = tx.get_columns(w_id, Warehouse::tax)?.or_missing("warehouse")?;
        let dist = Stock::DIST[usize::from(d_id) - 1];
        let mut entered = [(0i64, Text::<24>::EMPTY); LINES_MAX];
        for (line, entered) in input.lines().iter().zip(&mut entered) {
            let item = tx.get_columns(line.i_id, (Item::price, Item::name, Item::data))?;
            let Some((price, name, data)) = item else { return Err(Error::user(Rollback)) };
            let amount = i64::from(line.quantity) * price;
            let key = (line.supply_w_id, line.i_id);
            let (dist_info, stock_data) = tx.get_columns(key, (dist, Stock::data))?.or_missing("stock")?;
            black_box((&name, is_original(&data) && is_original(&stock_data)));
            *entered = (amount, dist_info);
            sum += amount;
        }
        let shown = (Customer::credit, Customer::discount, Customer::last);
        let (credit, of_customer, last) =
            tx.get_columns((w_id, d_id, c_id), shown)?.or_missing("customer")?;
        black_box((&credit, &last));
        discount = of_customer;

        // From here on nothing is read.
        let columns = (District::tax, District::next_o_id);
        let district = tx.defer((w_id, d_id), columns, (), |(tax, next), ()| {
            *next += 1;
            (*tax, *next - 1)
        })?;
        for &input::Line { i_id, supply_w_id, quantity } in input.lines() {
            let hot = (Stock::quantity, Stock::ytd, Stock::order_cnt, Stock::remote_cnt);
            tx.defer((supply_w_id, i_id), hot, (), move |(left, ytd, order_cnt, remote_cnt), ()| {
                *left = stock_after(*left, i32::from(quantity));
                *ytd += u32::from(quantity);
                *order_cnt += 1;
                *remote_cnt += u32::from(supply_w_id != w_id);
            })?;
        }
        if mode == Mode::Dbx1000 {
            return Ok(district);
        }
        // Where there is no district, the transaction has no effect.
        let is_there = tx.map(district, |district| district.is_some())?;
        tx.ensure(is_there, Refusal::new(|| Box::new(Missing("district"))))?;
        let o_id = tx.map(district, |district| district.map_or(0, |(_, o_id)| o_id))?;
        tx.insert_with(o_id, move |o_id| schema::NewOrder { w_id, d_id, o_id })?;
        let order = order_of(input, 0);
        tx.insert_with(o_id, move |o_id| Order { o_id, ..order })?;
        for (number, (line, &(amount, dist_info))) in (1..).zip(input.lines().iter().zip(&entered)) {
            let line = line_of(input, 0, number, line, amount, dist_info);
            tx.insert_with(o_id, move |o_id| OrderLine { o_id, ..line })?;
        }
        Ok(district)
    })?;
    let (d_tax, o_id) = district.or_missing("district")?;
    let total =
        sum * (UNIT - i64::from(discount)) / UNIT * (UNIT + i64::from(w_tax) + i64::from(d_tax)) / UNIT;
    Ok(Output::NewOrder { o_id, total })
}

/// Payment.
pub fn payment(session: &mut Session, tpcc: &Tpcc, input: &input::Payment) -> Result<Output> {
    let input::Payment { w_id, d_id, c_w_id, c_d_id, amount, date, history_id, .. } = *input;
    let mut c_id = 0;
    let balance = session.defer(|tx| {
        let w_name = warehouse_name(tx, w_id)?;
        let d_name = district_name(tx, w_id, d_id)?;
        c_id = find_customer(tx, c_w_id, c_d_id, &input.customer)?;
        let key = (c_w_id, c_d_id, c_id);
        let person = (Customer::last, Customer::first, Customer::middle, Customer::phone);
        let terms = (Customer::credit, Customer::discount, Customer::credit_lim, Customer::since);
        let address =
            (Customer::street_1, Customer::street_2, Customer::city, Customer::state, Customer::zip);
        let (terms, person, address) =
            tx.get_columns(key, (terms, person, address))?.or_missing("customer")?;
        black_box((&terms, &person, &address));

        // From here on nothing is read.
        tx.defer(w_id, Warehouse::ytd, (), move |ytd, ()| *ytd += amount)?;
        tx.defer((w_id, d_id), District::ytd, (), move |ytd, ()| *ytd += amount)?;
        let hot = (Customer::balance, Customer::ytd_payment, Customer::payment_cnt);
        let balance = tx.defer(key, hot, (), move |(balance, ytd_payment, payment_cnt), ()| {
            *balance -= amount;
            *ytd_payment += amount;
            *payment_cnt += 1;
            *balance
        })?;
        if terms.0.as_bytes() == b"BC" {
            let (note, c_id) = (*input, c_id);
            let note = move |data: &mut Text<500>, ()| *data = noted(data, c_id, &note);
            tx.defer(key, Customer::data, (), note)?;
        }
        if tpcc.parameters.mode != Mode::Dbx1000 {
            let data = spaced(&w_name, &d_name);
            let row = History { id: history_id, c_w_id, w_id, c_id, c_d_id, d_id, date, amount, data };
            tx.put(history_id, (), move |()| row)?;
        }
        Ok(balance)
    })?;
    Ok(Output::Payment { c_id, balance: balance.or_missing("customer")? })
}

/// An order that waits for delivery. None of this changes any more.
#[derive(Clone, Copy)]
struct Waiting {
    o_id: u32,
    /// Whether the one before it may wait, too.
    behind: bool,
    customer: u16,
    lines: u8,
    /// What the lines cost.
    sum: i64,
}

/// An order of a district, if it waits.
fn waiting(
    tx: &mut impl ReadTransaction,
    (w_id, d_id, o_id): (u16, u8, u32),
    behind: bool,
) -> Result<Option<Waiting>> {
    if tx.get_columns((w_id, d_id, o_id), schema::NewOrder::o_id)?.is_none() {
        return Ok(None);
    }
    let customer = tx.get_columns((w_id, d_id, o_id), Order::c_id)?.or_missing("order")?;
    let (mut lines, mut sum) = (0, 0);
    let order = Scan::prefix((w_id, d_id, o_id));
    tx.scan_columns(order, OrderLine::amount, |(_, _, _, number), amount| {
        // They are numbered from 1 on; an attempt that sees two moments may see anything.
        if usize::from(number) != usize::from(lines) + 1 || usize::from(number) > LINES_MAX {
            return Break(());
        }
        lines = number;
        sum += amount;
        Continue(())
    })?;
    Ok(Some(Waiting { o_id, behind, customer, lines, sum }))
}

/// Why what a Delivery intends cannot be done; if it can, there is nothing of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Objection {
    /// Another one has not yet done what it is expected to do.
    early: bool,
    /// Another one has delivered one of the orders.
    late: bool,
}

/// So often a Delivery lets others go before.
const PATIENCE: usize = 1_000;

/// Delivery. Which orders wait is looked for first, in a transaction of its own.
///
/// Orders come, and are delivered, in the order of their numbers. So one that was the oldest is still, if it still waits, and one is the
/// oldest if it waits and the one before it does not: that is the condition of all that is intended. If it does not hold, another has
/// delivered one of them, and all begins anew.
///
/// **Several at a time.** All of a warehouse want the same orders. So they draw numbers when they begin, and each expects those before it
/// to deliver what comes before: it looks for the orders of its own number. Where rows are handed on, one Delivery then follows another at
/// the distance of a hand-over. The numbers are hints: whose expectations are not met looks for the oldest orders after all.
pub fn delivery(session: &mut Session, tpcc: &Tpcc, input: &input::Delivery) -> Result<Output> {
    let number = tpcc.outside(input.w_id, 1).begun.fetch_add(1);
    let (mut looked_ahead, mut expects) = (0, tpcc.parameters.delivery_hint);
    loop {
        let found = session.run(|tx| {
            let mut found = [None; DISTRICTS as usize];
            for (d_id, found) in (1..=DISTRICTS).zip(&mut found) {
                let expected = expects.then(|| expected(tpcc.outside(input.w_id, d_id), number)).flatten();
                *found = match expected {
                    Some((o_id, behind)) => waiting(tx, (input.w_id, d_id, o_id), behind)?,
                    None => match oldest_order(tx, tpcc, input.w_id, d_id)? {
                        Some(o_id) => waiting(tx, (input.w_id, d_id, o_id), false)?,
                        None => None,
                    },
                };
            }
            Ok(found)
        })?;
        looked_ahead += 1;
        // Who counts on nobody looks anew.
        for _ in 0..if expects { PATIENCE } else { 1 } {
            let objection = session.defer(|tx| deliver(tx, tpcc, input, &found))?;
            if objection == Objection::default() {
                for (d_id, _) in (1..=DISTRICTS).zip(&found).filter(|(_, found)| found.is_none()) {
                    // The order that it would have delivered, if it comes, is the next one's.
                    tpcc.outside(input.w_id, d_id).first.fetch_add(u32::MAX);
                }
                let orders = found.map(|found| found.map_or(0, |found| found.o_id));
                return Ok(Output::Delivery { orders, looked_ahead });
            }
            // It has done nothing, and has ended, too.
            looked_ahead += 1;
            if objection.late {
                break;
            }
        }
        expects = false;
    }
}

/// The order of a district that the Delivery of a number is expected to deliver, and whether the one before it may wait; if that can be
/// said.
fn expected(outside: &Outside, number: u32) -> Option<(u32, bool)> {
    // Relaxed: hints. What was known to be delivered is.
    let (first, delivered) = (outside.first.load(), outside.delivered.load());
    let (next, o_id) = (first.max(delivered + 1), first.checked_add(number)?);
    (first > 0 && next <= o_id).then_some((o_id, next < o_id))
}

/// Delivers what was found, if it is still to be delivered, and nothing before it.
fn deliver(
    tx: &mut impl Deferring,
    tpcc: &Tpcc,
    input: &input::Delivery,
    found: &[Option<Waiting>; DISTRICTS as usize],
) -> Result<Deferred<Objection>> {
    let input::Delivery { w_id, carrier_id, date } = *input;
    let mut objection = tx.map((), |()| Objection::default())?;
    for (d_id, found) in (1..=DISTRICTS).zip(found) {
        let Some(Waiting { o_id, behind, .. }) = *found else {
            // Others are expected to deliver what waits. If nothing does, that is certified.
            if oldest_order(tx, tpcc, w_id, d_id)?.is_some() {
                objection = tx.map(objection, |objection| Objection { early: true, ..objection })?;
            }
            continue;
        };
        if behind {
            let before = tx.look((w_id, d_id, o_id - 1), schema::NewOrder::o_id)?;
            objection = tx.map((objection, before), |(objection, before)| Objection {
                early: objection.early || before.is_some(),
                ..objection
            })?;
        }
        let waits = tx.look((w_id, d_id, o_id), schema::NewOrder::o_id)?;
        objection = tx.map((objection, waits), |(objection, waits)| Objection {
            late: objection.late || waits.is_none(),
            ..objection
        })?;
    }
    let stands = tx.map(objection, |objection| objection == Objection::default())?;
    tx.when(stands, |tx| {
        for (d_id, found) in (1..=DISTRICTS).zip(found) {
            let Some(Waiting { o_id, customer, lines, sum, .. }) = *found else { continue };
            tx.erase::<schema::NewOrder>((w_id, d_id, o_id))?;
            tx.defer((w_id, d_id, o_id), Order::carrier_id, (), move |carrier, ()| {
                *carrier = Some(carrier_id)
            })?;
            for number in 1..=lines {
                let key = (w_id, d_id, o_id, number);
                tx.defer(key, OrderLine::delivery_d, (), move |delivered, ()| *delivered = Some(date))?;
            }
            let hot = (Customer::balance, Customer::delivery_cnt);
            tx.defer((w_id, d_id, customer), hot, (), move |(balance, delivery_cnt), ()| {
                *balance += sum;
                *delivery_cnt += 1;
            })?;
        }
        Ok(())
    })?;
    Ok(objection)
}
