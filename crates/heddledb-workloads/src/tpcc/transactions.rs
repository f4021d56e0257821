//! The five transactions (clauses 2.4 to 2.8).
//!
//! Every access names the columns that it needs. A committed transaction allocates nothing here:
//! what a scan collects goes into arrays on the stack, whose bounds the schema gives.
//!
//! What the terminal would show is read and handed to [`black_box`], so that the compiler cannot
//! drop the reads.

use super::input::{self, CustomerBy};
use super::random::{ascii, is_original};
use super::schema::{
    ByCustomer, ByName, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, LINES_MAX, Mode, Tpcc};
use crate::missing::{Missing, OrMissing};
use heddledb::sync::Ordering;
use heddledb::{Error, ReadTransaction, Result, Scan, Text, Transaction};
use std::fmt;
use std::hint::black_box;
use std::io::Write;
use std::ops::ControlFlow::{Break, Continue};

/// What a committed transaction returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// New-Order.
    NewOrder {
        /// The order's number.
        o_id: u32,
        /// Cents, with discount and taxes.
        total: i64,
    },
    /// Payment.
    Payment {
        /// The customer's number.
        c_id: u16,
        /// The customer's balance, in cents.
        balance: i64,
    },
    /// Order-Status.
    OrderStatus {
        /// The customer's last order, 0 if there is none.
        o_id: u32,
        /// Its lines.
        lines: u8,
    },
    /// Delivery.
    Delivery {
        /// For each district the order that was delivered, 0 if there was none.
        orders: [u32; DISTRICTS as usize],
    },
    /// Stock-Level.
    StockLevel {
        /// Items below the threshold.
        low: u32,
    },
}

/// The reason of the user abort of one New-Order in a hundred: its last item does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback;

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("item number is not valid")
    }
}

impl std::error::Error for Rollback {}

/// One in ten thousand: the unit of taxes and discounts.
const UNIT: i64 = 10_000;

impl Tpcc {
    pub(super) fn new_order<T: Transaction>(&self, tx: &mut T, input: &input::NewOrder) -> Result<Output> {
        let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
        let mode = self.parameters.mode;

        let lines = input.lines().iter();
        tx.prefetch(lines.clone().map(|line| (line.i_id, (Item::price, Item::data))));
        tx.prefetch(
            lines.clone().map(|line| ((line.supply_w_id, line.i_id), (Stock::quantity, Stock::data))),
        );
        let dist = Stock::DIST[usize::from(d_id) - 1];
        tx.prefetch(lines.map(|line| ((line.supply_w_id, line.i_id), dist)));
        let w_tax = tx.get_columns(w_id, Warehouse::tax)?.or_missing("warehouse")?;
        let (d_tax, o_id) = match mode {
            Mode::Spec | Mode::Dbx1000 => {
                tx.update_columns((w_id, d_id), (District::tax, District::next_o_id), |(tax, next)| {
                    let o_id = *next;
                    *next += 1;
                    (*tax, o_id)
                })?
            }
            Mode::Sto => {
                let tax = tx.get_columns((w_id, d_id), District::tax)?.or_missing("district")?;
                // Relaxed: the number must be unique and publishes nothing.
                (tax, self.outside(w_id, d_id).next_o_id.fetch_add(1, Ordering::Relaxed))
            }
        };
        let (credit, discount, last) = tx
            .get_columns((w_id, d_id, c_id), (Customer::credit, Customer::discount, Customer::last))?
            .or_missing("customer")?;
        black_box((&credit, &last));

        if mode != Mode::Dbx1000 {
            tx.insert(Order {
                w_id,
                d_id,
                o_id,
                c_id,
                ol_cnt: input.line_count,
                all_local: input.lines().iter().all(|line| line.supply_w_id == w_id),
                entry_d: input.date,
                carrier_id: None,
            })?;
            tx.insert(NewOrder { w_id, d_id, o_id })?;
        }

        let mut sum = 0;
        for (number, line) in (1..).zip(input.lines()) {
            let Some((price, name, item_data)) =
                tx.get_columns(line.i_id, (Item::price, Item::name, Item::data))?
            else {
                return Err(Error::user(Rollback));
            };
            let (dist_info, stock_data) = self.take_from_stock(tx, w_id, d_id, line)?;
            let brand = if is_original(&item_data) && is_original(&stock_data) { b'B' } else { b'G' };
            black_box((&name, brand));
            let amount = i64::from(line.quantity) * price;
            sum += amount;
            if mode != Mode::Dbx1000 {
                tx.insert(OrderLine {
                    w_id,
                    d_id,
                    o_id,
                    number,
                    amount,
                    i_id: line.i_id,
                    supply_w_id: line.supply_w_id,
                    quantity: line.quantity,
                    dist_info,
                    delivery_d: None,
                })?;
            }
        }
        let total =
            sum * (UNIT - i64::from(discount)) / UNIT * (UNIT + i64::from(w_tax) + i64::from(d_tax)) / UNIT;
        Ok(Output::NewOrder { o_id, total })
    }

    /// Step 5 of New-Order for one line: S_DIST of the district, and S_DATA.
    #[inline]
    fn take_from_stock<T: Transaction>(
        &self,
        tx: &mut T,
        w_id: u16,
        d_id: u8,
        line: &input::Line,
    ) -> Result<(Text<24>, Text<50>)> {
        let key = (line.supply_w_id, line.i_id);
        let dist = Stock::DIST[usize::from(d_id) - 1];
        let texts = tx.get_columns(key, (dist, Stock::data))?.or_missing("stock")?;
        let hot = (Stock::quantity, Stock::ytd, Stock::order_cnt, Stock::remote_cnt);
        tx.update_columns(key, hot, |(quantity, ytd, order_cnt, remote_cnt)| {
            *quantity = stock_after(*quantity, i32::from(line.quantity));
            *ytd += u32::from(line.quantity);
            *order_cnt += 1;
            *remote_cnt += u32::from(line.supply_w_id != w_id);
        })?;
        Ok(texts)
    }

    pub(super) fn payment<T: Transaction>(&self, tx: &mut T, input: &input::Payment) -> Result<Output> {
        let (w_id, d_id, amount) = (input.w_id, input.d_id, input.amount);

        let address =
            (Warehouse::street_1, Warehouse::street_2, Warehouse::city, Warehouse::state, Warehouse::zip);
        let (w_name, address) = tx.get_columns(w_id, (Warehouse::name, address))?.or_missing("warehouse")?;
        black_box(&address);
        let address =
            (District::street_1, District::street_2, District::city, District::state, District::zip);
        let (d_name, address) =
            tx.get_columns((w_id, d_id), (District::name, address))?.or_missing("district")?;
        black_box(&address);
        if self.parameters.commutative {
            tx.add(Warehouse::ytd, w_id, amount)?;
            tx.add(District::ytd, (w_id, d_id), amount)?;
        } else {
            tx.update_columns(w_id, Warehouse::ytd, |ytd| *ytd += amount)?;
            tx.update_columns((w_id, d_id), District::ytd, |ytd| *ytd += amount)?;
        }

        let c_id = find_customer(tx, input.c_w_id, input.c_d_id, &input.customer)?;
        let key = (input.c_w_id, input.c_d_id, c_id);
        let person = (Customer::last, Customer::first, Customer::middle, Customer::phone);
        let terms = (Customer::credit, Customer::discount, Customer::credit_lim, Customer::since);
        let address =
            (Customer::street_1, Customer::street_2, Customer::city, Customer::state, Customer::zip);
        let (terms, person, address) =
            tx.get_columns(key, (terms, person, address))?.or_missing("customer")?;
        black_box((&terms, &person, &address));
        let hot = (Customer::balance, Customer::ytd_payment, Customer::payment_cnt);
        let balance = tx.update_columns(key, hot, |(balance, ytd_payment, payment_cnt)| {
            *balance -= amount;
            *ytd_payment += amount;
            *payment_cnt += 1;
            *balance
        })?;
        let credit = terms.0;
        if credit.as_bytes() == b"BC" {
            tx.update_columns(key, Customer::data, |data| *data = noted(data, c_id, input))?;
        }

        if self.parameters.mode != Mode::Dbx1000 {
            tx.insert(History {
                id: input.history_id,
                c_w_id: input.c_w_id,
                w_id,
                c_id,
                c_d_id: input.c_d_id,
                d_id,
                date: input.date,
                amount,
                data: spaced(&w_name, &d_name),
            })?;
        }
        Ok(Output::Payment { c_id, balance })
    }

    pub(super) fn order_status<T: ReadTransaction>(
        &self,
        tx: &mut T,
        input: &input::OrderStatus,
    ) -> Result<Output> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let c_id = find_customer(tx, w_id, d_id, &input.customer)?;
        let shown = (Customer::last, Customer::first, Customer::middle, Customer::balance);
        black_box(&tx.get_columns((w_id, d_id, c_id), shown)?.or_missing("customer")?);

        let mut last = None;
        tx.scan_index::<ByCustomer>(
            Scan::prefix((w_id, d_id, c_id)).reverse().limit(1),
            |_, (_, _, o_id)| {
                last = Some(o_id);
                Break(())
            },
        )?;
        let Some(o_id) = last else { return Ok(Output::OrderStatus { o_id: 0, lines: 0 }) };
        let order =
            tx.get_columns((w_id, d_id, o_id), (Order::entry_d, Order::carrier_id))?.or_missing("order")?;
        black_box(&order);

        let shown = (
            OrderLine::amount,
            OrderLine::i_id,
            OrderLine::supply_w_id,
            OrderLine::quantity,
            OrderLine::delivery_d,
        );
        let mut lines = 0;
        tx.scan_columns(Scan::prefix((w_id, d_id, o_id)), shown, |_, line| {
            black_box(&line);
            lines += 1;
            Continue(())
        })?;
        Ok(Output::OrderStatus { o_id, lines })
    }

    pub(super) fn delivery<T: Transaction>(&self, tx: &mut T, input: &input::Delivery) -> Result<Output> {
        let mut orders = [0; DISTRICTS as usize];
        for (d_id, order) in (1..=DISTRICTS).zip(&mut orders) {
            if let Some(o_id) = self.oldest_order(tx, input.w_id, d_id)? {
                deliver(tx, input, d_id, o_id)?;
                *order = o_id;
            }
        }
        Ok(Output::Delivery { orders })
    }

    fn oldest_order<T: Transaction>(&self, tx: &mut T, w_id: u16, d_id: u8) -> Result<Option<u32>> {
        let waiting = if self.parameters.delivery_hint {
            // Relaxed: a hint, and any older value is as good.
            let start = self.outside(w_id, d_id).delivered.load(Ordering::Relaxed);
            Scan::range((w_id, d_id, start)..=(w_id, d_id, u32::MAX))
        } else {
            Scan::prefix((w_id, d_id))
        };
        let mut oldest = None;
        tx.scan_columns(waiting.limit(1), NewOrder::o_id, |_, o_id| {
            oldest = Some(o_id);
            Break(())
        })?;
        Ok(oldest)
    }

    pub(super) fn stock_level<T: ReadTransaction>(
        &self,
        tx: &mut T,
        input: &input::StockLevel,
    ) -> Result<Output> {
        /// Orders that are looked at.
        const RECENT: u32 = 20;
        let (w_id, d_id) = (input.w_id, input.d_id);
        let recent = match self.parameters.mode {
            Mode::Spec | Mode::Dbx1000 => {
                let next = tx.get_columns((w_id, d_id), District::next_o_id)?.or_missing("district")?;
                (w_id, d_id, next.saturating_sub(RECENT), 0)..(w_id, d_id, next, 0)
            }
            Mode::Sto => {
                let next = self.outside(w_id, d_id).next_o_id.load(Ordering::Relaxed);
                (w_id, d_id, next, 0)..(w_id, d_id, next.saturating_sub(RECENT), 0)
            }
        };
        let mut items = [0; RECENT as usize * LINES_MAX];
        let mut count = 0;
        tx.scan_columns(Scan::range(recent), OrderLine::i_id, |_, i_id| {
            // An attempt that sees two moments at once may see more lines than there can be.
            let Some(item) = items.get_mut(count) else { return Break(()) };
            *item = i_id;
            count += 1;
            Continue(())
        })?;
        let items = &mut items[..count];
        items.sort_unstable();
        tx.prefetch(items.iter().map(|i_id| ((w_id, *i_id), Stock::quantity)));
        let mut low = 0;
        for (index, i_id) in items.iter().enumerate() {
            if index == 0 || items[index - 1] != *i_id {
                let quantity = tx.get_columns((w_id, *i_id), Stock::quantity)?.or_missing("stock")?;
                low += u32::from(quantity < input.threshold);
            }
        }
        Ok(Output::StockLevel { low })
    }
}

impl Tpcc {
    /// Reads the hot columns of all stock, and all order lines.
    pub(super) fn inventory<T: ReadTransaction>(&self, tx: &mut T) -> Result<u64> {
        /// Keys whose cache misses overlap.
        const AHEAD: u32 = 16;
        let mut rows = 0;
        for w_id in 1..=self.parameters.warehouses {
            for first in (1..=self.parameters.scale.items).step_by(AHEAD as usize) {
                let items = first..(first + AHEAD).min(self.parameters.scale.items + 1);
                tx.prefetch(items.clone().map(|i_id| ((w_id, i_id), Stock::quantity)));
                for i_id in items {
                    black_box(tx.get_columns((w_id, i_id), Stock::quantity)?.or_missing("stock")?);
                    rows += 1;
                }
            }
        }
        tx.scan_columns(Scan::all(), (OrderLine::amount, OrderLine::delivery_d), |_, line| {
            black_box(&line);
            rows += 1;
            Continue(())
        })?;
        Ok(rows)
    }
}

/// What Delivery does for one order.
fn deliver<T: Transaction>(tx: &mut T, input: &input::Delivery, d_id: u8, o_id: u32) -> Result<()> {
    let w_id = input.w_id;
    if !tx.delete::<NewOrder>((w_id, d_id, o_id))? {
        return Err(Error::user(Missing("new_order")));
    }
    let c_id = tx.get_columns((w_id, d_id, o_id), Order::c_id)?.or_missing("order")?;
    tx.set_columns((w_id, d_id, o_id), Order::carrier_id, Some(input.carrier_id))?;

    let mut numbers = [0; LINES_MAX];
    let (mut count, mut sum) = (0, 0);
    tx.scan_columns(Scan::prefix((w_id, d_id, o_id)), OrderLine::amount, |(_, _, _, number), amount| {
        let Some(place) = numbers.get_mut(count) else { return Break(()) };
        *place = number;
        count += 1;
        sum += amount;
        Continue(())
    })?;
    for number in &numbers[..count] {
        tx.set_columns((w_id, d_id, o_id, *number), OrderLine::delivery_d, Some(input.date))?;
    }

    tx.update_columns(
        (w_id, d_id, c_id),
        (Customer::balance, Customer::delivery_cnt),
        |(balance, delivery_cnt)| {
            *balance += sum;
            *delivery_cnt += 1;
        },
    )
}

/// The customer's number; by last name the middle one, rounded up, in the order of first names.
fn find_customer<T: ReadTransaction>(tx: &mut T, w_id: u16, d_id: u8, by: &CustomerBy) -> Result<u16> {
    let last = match by {
        CustomerBy::Id(c_id) => return Ok(*c_id),
        CustomerBy::LastName(last) => *last,
    };
    // The most frequent name has about 50 customers of 3000; half of 256 are enough for the middle.
    let mut first_half = [0; 128];
    let mut count = 0;
    tx.scan_index::<ByName>(Scan::prefix((w_id, d_id, last)), |_, (_, _, c_id)| {
        if let Some(place) = first_half.get_mut(count) {
            *place = c_id;
        }
        count += 1;
        Continue(())
    })?;
    let middle = count.checked_sub(1).map(|above| above / 2);
    middle.and_then(|middle| first_half.get(middle).copied()).or_missing("customer by name")
}

/// The quantity in stock after `taken` were taken.
pub(super) fn stock_after(quantity: i32, taken: i32) -> i32 {
    if quantity >= taken + 10 { quantity - taken } else { quantity + 91 - taken }
}

/// C_DATA of a customer with bad credit after a payment: a note, then the old text, cut off.
fn noted(old: &Text<500>, c_id: u16, input: &input::Payment) -> Text<500> {
    let mut buffer = [0; 500];
    let mut rest = &mut buffer[..];
    let input::Payment { c_d_id, c_w_id, d_id, w_id, amount, .. } = input;
    // The note takes 40 bytes at most, and a write to a slice that is full is cut off.
    let _ = write!(rest, "{c_id} {c_d_id} {c_w_id} {d_id} {w_id} {amount}|");
    let _ = rest.write(old.as_bytes());
    let unused = rest.len();
    let used = buffer.len() - unused;
    ascii(&buffer[..used])
}

/// H_DATA: both names with four spaces between.
fn spaced(w_name: &Text<10>, d_name: &Text<10>) -> Text<24> {
    let mut buffer = [0; 24];
    let mut end = 0;
    for part in [w_name.as_bytes(), b"    ", d_name.as_bytes()] {
        buffer[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    ascii(&buffer[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_stays_between_10_and_100() {
        for quantity in 10..=100 {
            for taken in 1..=10 {
                let after = stock_after(quantity, taken);
                assert!((10..=100).contains(&after), "{quantity} - {taken} = {after}");
                assert_eq!((quantity - taken - after).rem_euclid(91), 0);
            }
        }
    }

    #[test]
    fn notes_go_in_front_and_are_cut_off() {
        let input = input::Payment {
            w_id: 1,
            d_id: 2,
            c_w_id: 3,
            c_d_id: 4,
            customer: CustomerBy::Id(5),
            amount: 678,
            date: 0,
            history_id: 0,
        };
        assert_eq!(noted(&Text::EMPTY, 5, &input).as_str(), "5 4 3 2 1 678|");
        let old = Text::truncated(&"x".repeat(500));
        let new = noted(&old, 5, &input);
        assert_eq!(new.as_str(), format!("5 4 3 2 1 678|{}", "x".repeat(486)));
        assert!(noted(&new, 5, &input).as_str().starts_with("5 4 3 2 1 678|5 4 3 2 1 678|xx"));
    }

    #[test]
    fn names_are_joined_by_four_spaces() {
        let joined = spaced(&Text::truncated("abcdefghij"), &Text::truncated("klmnopqrst"));
        assert_eq!(joined.as_str(), "abcdefghij    klmnopqrst");
        assert_eq!(spaced(&Text::truncated("a"), &Text::truncated("b")).as_str(), "a    b");
    }
}
