//! New-Order, in another order: items first.
//!
//! The standard's text comes to the warehouse and the district, and then to the items, of which the last may not exist. So
//! whoever has to know that a transaction does not give up any more, before others are shown what it wrote, has the district in hand for as
//! long as the items take: transaction chopping, where what may give up is one piece (DBX-TC §3.1, reordering). Here the items,
//! which nobody changes, are a piece before all others.

use super::input;
use super::random::is_original;
use super::schema::{self, Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use super::transactions::{Entered, Output, Rollback, UNIT, line_of, order_of, stock_after};
use super::{LINES_MAX, Mode, Tpcc, told};
use crate::missing::OrMissing;
use heddledb::{Error, Result, Transaction, procedure};
use std::hint::black_box;

/// New-Order as [`new_order`](super::transactions::new_order) does it, but with the items before the warehouse.
#[procedure(announce = told::order_is_entered)]
pub fn new_order_items_first(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: &input::NewOrder,
) -> Result<Output> {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    let lines = input.lines().iter();
    tx.prefetch(lines.map(|line| (line.i_id, (Item::price, Item::data))));
    let mut entered = [Entered::default(); LINES_MAX];
    let mut sum = 0;
    for (line, entered) in input.lines().iter().zip(&mut entered) {
        let Some((price, name, data)) = tx.get_columns(line.i_id, (Item::price, Item::name, Item::data))?
        else {
            return Err(Error::user(Rollback));
        };
        black_box(&name);
        entered.amount = i64::from(line.quantity) * price;
        entered.original = is_original(&data);
        sum += entered.amount;
    }

    #[no_abort]
    let w_tax = tx.get_columns(w_id, Warehouse::tax)?.or_missing("warehouse")?;
    // No customer's terms are ever changed, so they need not be in one piece with what follows.
    let (credit, discount, last) = tx
        .get_columns((w_id, d_id, c_id), (Customer::credit, Customer::discount, Customer::last))?
        .or_missing("customer")?;
    black_box((&credit, &last));

    let (d_tax, o_id) =
        tx.update_columns((w_id, d_id), (District::tax, District::next_o_id), |(tax, next)| {
            let o_id = *next;
            *next += 1;
            (*tax, o_id)
        })?;
    let dist = Stock::DIST[usize::from(d_id) - 1];
    #[later]
    for (line, entered) in input.lines().iter().zip(&mut entered) {
        let key = (line.supply_w_id, line.i_id);
        let (dist_info, data) = tx.get_columns(key, (dist, Stock::data))?.or_missing("stock")?;
        let hot = (Stock::quantity, Stock::ytd, Stock::order_cnt, Stock::remote_cnt);
        tx.update_columns(key, hot, |(quantity, ytd, order_cnt, remote_cnt)| {
            *quantity = stock_after(*quantity, i32::from(line.quantity));
            *ytd += u32::from(line.quantity);
            *order_cnt += 1;
            *remote_cnt += u32::from(line.supply_w_id != w_id);
        })?;
        let brand = if entered.original && is_original(&data) { b'B' } else { b'G' };
        black_box(brand);
        entered.dist_info = dist_info;
    }

    if tpcc.parameters.mode != Mode::Dbx1000 {
        tx.insert(schema::NewOrder { w_id, d_id, o_id })?;
        tx.insert::<Order>(order_of(input, o_id))?;
        for (number, (line, entered)) in (1..).zip(input.lines().iter().zip(&entered)) {
            tx.insert::<OrderLine>(line_of(input, o_id, number, line, entered.amount, entered.dist_info))?;
        }
    }
    let total =
        sum * (UNIT - i64::from(discount)) / UNIT * (UNIT + i64::from(w_tax) + i64::from(d_tax)) / UNIT;
    Ok(Output::NewOrder { o_id, total })
}
