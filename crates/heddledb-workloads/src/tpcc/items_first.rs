//! New-Order, in two other orders: items first.
//!
//! The standard's text comes to the warehouse and the district, and then to the items, of which the last may not exist. So
//! whoever has to know that a transaction does not give up any more, before others are shown what it wrote, has the district in hand for as
//! long as the items take: transaction chopping, where what may give up is one piece (DBX-TC §3.1, reordering). Here the items,
//! which nobody changes, are a piece before all others.
//!
//! With *orders last* what all New-Orders want, the district, comes after what few want, the stocks; and the order and its lines, which
//! only a Delivery comes to, and only by the row of new_order, are entered when all else is done: in pieces of their own (DBX-TC figure 3). A
//! Delivery that is too early for them waits ([`delivery`](super::delivery)).

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
    let (w_id, d_id) = (input.w_id, input.d_id);
    let (sum, entered) = price(tx, input)?;
    #[no_abort]
    let (w_tax, discount) = terms(tx, input)?;
    let (d_tax, o_id) = number(tx, input)?;
    #[later]
    let entered = supply(tx, input, entered)?;
    if tpcc.parameters.mode != Mode::Dbx1000 {
        tx.insert(schema::NewOrder { w_id, d_id, o_id })?;
        tx.insert::<Order>(order_of(input, o_id))?;
        for (number, (line, entered)) in (1..).zip(input.lines().iter().zip(&entered)) {
            tx.insert::<OrderLine>(line_of(input, o_id, number, line, entered.amount, entered.dist_info))?;
        }
    }
    Ok(Output::NewOrder { o_id, total: total(sum, discount, w_tax, d_tax) })
}

/// The same with orders last; see [`Parameters::orders_last`](super::Parameters::orders_last).
#[procedure(announce = told::order_is_entered)]
pub fn new_order_orders_last(
    tx: &mut impl Transaction,
    _tpcc: &Tpcc,
    input: &input::NewOrder,
) -> Result<Output> {
    let (w_id, d_id) = (input.w_id, input.d_id);
    let (sum, entered) = price(tx, input)?;
    #[no_abort]
    let (w_tax, discount) = terms(tx, input)?;
    let entered = supply(tx, input, entered)?;
    let (d_tax, o_id) = number(tx, input)?;
    #[later]
    tx.insert(schema::NewOrder { w_id, d_id, o_id })?;
    for (number, (line, entered)) in (1..).zip(input.lines().iter().zip(&entered)) {
        #[causal]
        tx.insert::<OrderLine>(line_of(input, o_id, number, line, entered.amount, entered.dist_info))?;
    }
    // Behind its lines: whoever finds it finds them.
    #[causal]
    tx.insert::<Order>(order_of(input, o_id))?;
    Ok(Output::NewOrder { o_id, total: total(sum, discount, w_tax, d_tax) })
}

type Lines = [Entered; LINES_MAX];

/// What the lines cost together, and what is known of each.
#[procedure]
#[inline]
fn price(tx: &mut impl Transaction, input: &input::NewOrder) -> Result<(i64, Lines)> {
    let mut entered = [Entered::default(); LINES_MAX];
    let lines = input.lines().iter();
    tx.prefetch(lines.map(|line| (line.i_id, (Item::price, Item::data))));
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
    Ok((sum, entered))
}

/// The warehouse's tax, and the customer's discount.
#[procedure]
#[inline]
fn terms(tx: &mut impl Transaction, input: &input::NewOrder) -> Result<(i32, i32)> {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    let w_tax = tx.get_columns(w_id, Warehouse::tax)?.or_missing("warehouse")?;
    // No customer's terms are ever changed, so they need not be in one piece with what follows.
    let (credit, discount, last) = tx
        .get_columns((w_id, d_id, c_id), (Customer::credit, Customer::discount, Customer::last))?
        .or_missing("customer")?;
    black_box((&credit, &last));
    Ok((w_tax, discount))
}

/// The district's tax, and the order's number.
#[procedure]
#[inline]
fn number(tx: &mut impl Transaction, input: &input::NewOrder) -> Result<(i32, u32)> {
    tx.update_columns((input.w_id, input.d_id), (District::tax, District::next_o_id), |(tax, next)| {
        let o_id = *next;
        *next += 1;
        (*tax, o_id)
    })
}

/// Takes the lines out of the stocks, and notes what these say of them.
#[procedure]
#[inline]
fn supply(tx: &mut impl Transaction, input: &input::NewOrder, mut entered: Lines) -> Result<Lines> {
    let dist = Stock::DIST[usize::from(input.d_id) - 1];
    for (line, entered) in input.lines().iter().zip(&mut entered) {
        let key = (line.supply_w_id, line.i_id);
        let (dist_info, data) = tx.get_columns(key, (dist, Stock::data))?.or_missing("stock")?;
        let hot = (Stock::quantity, Stock::ytd, Stock::order_cnt, Stock::remote_cnt);
        tx.update_columns(key, hot, |(quantity, ytd, order_cnt, remote_cnt)| {
            *quantity = stock_after(*quantity, i32::from(line.quantity));
            *ytd += u32::from(line.quantity);
            *order_cnt += 1;
            *remote_cnt += u32::from(line.supply_w_id != input.w_id);
        })?;
        let brand = if entered.original && is_original(&data) { b'B' } else { b'G' };
        black_box(brand);
        entered.dist_info = dist_info;
    }
    Ok(entered)
}

fn total(sum: i64, discount: i32, w_tax: i32, d_tax: i32) -> i64 {
    sum * (UNIT - i64::from(discount)) / UNIT * (UNIT + i64::from(w_tax) + i64::from(d_tax)) / UNIT
}
