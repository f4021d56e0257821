//! Delivery (clause 2.7), in two texts.
//!
//! The second adds to what customers owe, and knows that nothing but it and a New-Order comes to an order and its lines, and both by way of the row of
//! new_order: so these accesses are *causal*, and what all Deliveries want is a piece of its own (DBX-TC figure 3).

use super::schema::{self, Customer, Order, OrderLine};
use super::transactions::Output;
use super::{DISTRICTS, LINES_MAX, Tpcc, input, told};
use crate::missing::{Missing, OrMissing};
use heddledb::{Error, ReadTransaction, Result, Scan, Transaction, procedure};
use std::ops::ControlFlow;

/// Delivery, with a loop over the districts for each table: so no two tables have to be one piece.
#[procedure(announce = told::orders_are_delivered)]
pub fn delivery(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Delivery) -> Result<Output> {
    let w_id = input.w_id;
    let orders = take(tx, tpcc, w_id)?;
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
        let mut lines = Lines::default();
        tx.scan_columns(Scan::prefix((w_id, d_id, o_id)), OrderLine::amount, |(_, _, _, number), amount| {
            lines.see(number, amount)
        })?;
        for number in lines.numbers() {
            tx.set_columns((w_id, d_id, o_id, *number), OrderLine::delivery_d, Some(input.date))?;
        }
        sums[at] = lines.sum;
    }

    for ((d_id, _), at) in with_orders(&orders) {
        tx.update_columns(
            (w_id, d_id, customers[at]),
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
    let w_id = input.w_id;
    let orders = take(tx, tpcc, w_id)?;
    let mut customers = [0; DISTRICTS as usize];
    #[no_abort]
    for ((d_id, o_id), at) in with_orders(&orders) {
        let customer: &mut u16 = &mut customers[at];
        #[causal]
        let found = tx.get_columns((w_id, d_id, o_id), Order::c_id)?;
        *customer = found.ok_or_else(|| tpcc.too_early())?;
        #[causal]
        tx.set_columns((w_id, d_id, o_id), Order::carrier_id, Some(input.carrier_id))?;
    }

    let mut sums = [0; DISTRICTS as usize];
    // As above.
    #[later]
    for ((d_id, o_id), at) in with_orders(&orders) {
        let mut lines = Lines::default();
        #[causal]
        tx.scan_columns(Scan::prefix((w_id, d_id, o_id)), OrderLine::amount, |(_, _, _, number), amount| {
            lines.see(number, amount)
        })?;
        for number in lines.numbers() {
            #[causal]
            tx.set_columns((w_id, d_id, o_id, *number), OrderLine::delivery_d, Some(input.date))?;
        }
        sums[at] = lines.sum;
    }

    for ((d_id, _), at) in with_orders(&orders) {
        // Payments read the balance, and write it.
        #[deferred]
        tx.add(Customer::balance, (w_id, d_id, customers[at]), sums[at])?;
        #[deferred]
        tx.add(Customer::delivery_cnt, (w_id, d_id, customers[at]), 1)?;
    }
    Ok(Output::Delivery { orders, looked_ahead: 0 })
}

/// The lines of an order.
#[derive(Default)]
struct Lines {
    numbers: [u8; LINES_MAX],
    count: usize,
    sum: i64,
}

impl Lines {
    /// One of them, and what it costs.
    #[inline]
    fn see(&mut self, number: u8, amount: i64) -> ControlFlow<()> {
        let Some(place) = self.numbers.get_mut(self.count) else { return ControlFlow::Break(()) };
        *place = number;
        self.count += 1;
        self.sum += amount;
        ControlFlow::Continue(())
    }

    fn numbers(&self) -> &[u8] {
        &self.numbers[..self.count]
    }
}

/// The districts that have an order, the order, and its place.
fn with_orders(orders: &[u32; DISTRICTS as usize]) -> impl Iterator<Item = ((u8, u32), usize)> {
    (1..=DISTRICTS).zip(*orders).zip(0..).filter(|((_, o_id), _)| *o_id != 0)
}

/// Takes the oldest order of each district out of those that wait; 0 where none does.
#[procedure]
#[inline]
fn take(tx: &mut impl Transaction, tpcc: &Tpcc, w_id: u16) -> Result<[u32; DISTRICTS as usize]> {
    let mut orders = [0; DISTRICTS as usize];
    for (d_id, order) in (1..=DISTRICTS).zip(&mut orders) {
        if let Some(o_id) = oldest_order(tx, tpcc, w_id, d_id)? {
            if !tx.delete::<schema::NewOrder>((w_id, d_id, o_id))? {
                return Err(Error::user(Missing("new_order")));
            }
            *order = o_id;
        }
    }
    Ok(orders)
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
        ControlFlow::Break(())
    })?;
    Ok(oldest)
}
