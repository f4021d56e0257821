//! Delivery (clause 2.7), in two texts.

use super::schema::{self, Customer, Order, OrderLine};
use super::transactions::Output;
use super::{DISTRICTS, LINES_MAX, Tpcc, input, told};
use crate::missing::{Missing, OrMissing};
use heddledb::{Error, ReadTransaction, Result, Scan, Transaction, procedure};
use std::ops::ControlFlow::{Break, Continue};

/// Delivery, with a loop over the districts for each table: so no two tables have to be one piece.
#[procedure(announce = told::orders_are_delivered)]
pub fn delivery(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Delivery) -> Result<Output> {
    let Delivered { orders, customers, sums } = deliver(tx, tpcc, input)?;
    for ((d_id, _), at) in with_orders(&orders) {
        tx.update_columns(
            (input.w_id, d_id, customers[at]),
            (Customer::balance, Customer::delivery_cnt),
            |(balance, delivery_cnt)| {
                *balance += sums[at];
                *delivery_cnt += 1;
            },
        )?;
    }
    Ok(Output::Delivery { orders, looked_ahead: 0 })
}

/// Delivery, which adds to C_BALANCE and C_DELIVERY_CNT without reading them; see
/// [`Parameters::delivery_adds`](super::Parameters::delivery_adds).
#[procedure(announce = told::orders_are_delivered)]
pub fn delivery_by_adds(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Delivery) -> Result<Output> {
    let Delivered { orders, customers, sums } = deliver(tx, tpcc, input)?;
    #[no_abort]
    for ((d_id, _), at) in with_orders(&orders) {
        // Payments read the balance, and write it.
        #[deferred]
        tx.add(Customer::balance, (input.w_id, d_id, customers[at]), sums[at])?;
        #[deferred]
        tx.add(Customer::delivery_cnt, (input.w_id, d_id, customers[at]), 1)?;
    }
    Ok(Output::Delivery { orders, looked_ahead: 0 })
}

/// What was delivered in each district: the order, or 0, whose it is, and what it costs.
struct Delivered {
    orders: [u32; DISTRICTS as usize],
    customers: [u16; DISTRICTS as usize],
    sums: [i64; DISTRICTS as usize],
}

/// The districts that have an order, the order, and its place.
fn with_orders(orders: &[u32; DISTRICTS as usize]) -> impl Iterator<Item = ((u8, u32), usize)> {
    (1..=DISTRICTS).zip(*orders).zip(0..).filter(|((_, o_id), _)| *o_id != 0)
}

/// Delivers, up to what the customers owe for it.
#[procedure]
#[inline]
fn deliver(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Delivery) -> Result<Delivered> {
    let w_id = input.w_id;
    let mut orders = [0; DISTRICTS as usize];
    for (d_id, order) in (1..=DISTRICTS).zip(&mut orders) {
        if let Some(o_id) = oldest_order(tx, tpcc, w_id, d_id)? {
            if !tx.delete::<schema::NewOrder>((w_id, d_id, o_id))? {
                return Err(Error::user(Missing("new_order")));
            }
            *order = o_id;
        }
    }

    let mut customers = [0; DISTRICTS as usize];
    for ((d_id, o_id), at) in with_orders(&orders) {
        let customer: &mut u16 = &mut customers[at];
        *customer = tx.get_columns((w_id, d_id, o_id), Order::c_id)?.or_missing("order")?;
        tx.set_columns((w_id, d_id, o_id), Order::carrier_id, Some(input.carrier_id))?;
    }

    let mut sums = [0; DISTRICTS as usize];
    // Lines that a scan comes to it may write.
    #[later]
    for ((d_id, o_id), at) in with_orders(&orders) {
        let sum: &mut i64 = &mut sums[at];
        let mut numbers = [0; LINES_MAX];
        let mut count = 0;
        tx.scan_columns(Scan::prefix((w_id, d_id, o_id)), OrderLine::amount, |(_, _, _, number), amount| {
            let Some(place) = numbers.get_mut(count) else { return Break(()) };
            *place = number;
            count += 1;
            *sum += amount;
            Continue(())
        })?;
        for number in &numbers[..count] {
            tx.set_columns((w_id, d_id, o_id, *number), OrderLine::delivery_d, Some(input.date))?;
        }
    }
    Ok(Delivered { orders, customers, sums })
}

/// The oldest order of a district that waits for delivery.
#[procedure]
#[inline]
pub(super) fn oldest_order(
    tx: &mut impl ReadTransaction,
    tpcc: &Tpcc,
    w_id: u16,
    d_id: u8,
) -> Result<Option<u32>> {
    let waiting = if tpcc.parameters.delivery_hint {
        // Relaxed: a hint, and any older value is as good.
        let start = tpcc.outside(w_id, d_id).delivered.load();
        Scan::range((w_id, d_id, start)..=(w_id, d_id, u32::MAX))
    } else {
        Scan::prefix((w_id, d_id))
    };
    let mut oldest = None;
    tx.scan_columns(waiting.limit(1), schema::NewOrder::o_id, |_, o_id| {
        oldest = Some(o_id);
        Break(())
    })?;
    Ok(oldest)
}
