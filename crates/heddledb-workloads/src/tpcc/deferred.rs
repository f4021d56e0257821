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
use super::{DISTRICTS, LINES_MAX, Mode, Tpcc};
use crate::missing::{Missing, OrMissing};
use heddledb::{Deferring, Error, ReadTransaction, Refusal, Result, Scan, Session, Text};
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

/// Delivery.
pub fn delivery(session: &mut Session, tpcc: &Tpcc, input: &input::Delivery) -> Result<Output> {
    let input::Delivery { w_id, carrier_id, date } = *input;
    let mut orders = [0; DISTRICTS as usize];
    let delivered = session.defer(|tx| {
        // Of each district: the customer, how many lines, and what they cost.
        let mut found = [(0u16, 0u8, 0i64); DISTRICTS as usize];
        orders = [0; DISTRICTS as usize];
        for ((d_id, order), found) in (1..=DISTRICTS).zip(&mut orders).zip(&mut found) {
            let Some(o_id) = oldest_order(tx, tpcc, w_id, d_id)? else { continue };
            *order = o_id;
            let (customer, lines, sum) = found;
            *customer = tx.get_columns((w_id, d_id, o_id), Order::c_id)?.or_missing("order")?;
            let order = Scan::prefix((w_id, d_id, o_id));
            tx.scan_columns(order, OrderLine::amount, |(_, _, _, number), amount| {
                // They are numbered from 1 on; an attempt that sees two moments may see anything.
                if usize::from(number) != usize::from(*lines) + 1 || usize::from(number) > LINES_MAX {
                    return Break(());
                }
                *lines = number;
                *sum += amount;
                Continue(())
            })?;
        }

        // From here on nothing is read.
        let mut delivered = Vec::new();
        for ((d_id, o_id), (customer, lines, sum)) in (1..=DISTRICTS).zip(orders).zip(found) {
            if o_id == 0 {
                continue;
            }
            delivered.push(tx.erase::<schema::NewOrder>((w_id, d_id, o_id))?);
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
        Ok(delivered)
    })?;
    if delivered.contains(&false) {
        return Err(Error::user(Missing("new_order")));
    }
    Ok(Output::Delivery { orders })
}
