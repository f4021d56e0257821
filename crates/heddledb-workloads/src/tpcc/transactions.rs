//! The transactions (clauses 2.4 to 2.8), but for Delivery.
//!
//! Every access names the columns that it needs. A committed transaction allocates nothing here:
//! what a scan collects goes into arrays on the stack, whose bounds the schema gives.
//!
//! They are procedures: the analysis is told of their accesses as they stand here. New-Order and Delivery (`delivery`) go
//! through their lines and districts once for each table, not once for all, so that all transactions that
//! write meet tables in the same order and none of their pieces has to be merged
//! (`tests/procedures.rs`).
//!
//! What the terminal would show is read and handed to [`black_box`], so that the compiler cannot
//! drop the reads.

use super::input::{self, CustomerBy};
use super::random::{ascii, is_original};
use super::schema::{
    self, ByCustomer, ByName, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, LINES_MAX, Mode, Tpcc, told};
use crate::missing::OrMissing;
use heddledb::{Error, ReadTransaction, Result, Scan, Text, Transaction, procedure};
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
        /// How many transactions looked for them before.
        looked_ahead: u32,
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
pub(super) const UNIT: i64 = 10_000;

/// What a line of an order brings along.
#[derive(Clone, Copy, Default)]
pub(super) struct Entered {
    /// In cents.
    pub(super) amount: i64,
    /// "ORIGINAL" is in I_DATA.
    pub(super) original: bool,
    pub(super) dist_info: Text<24>,
}

/// New-Order, with a loop over the lines for each table: so no two tables have to be one piece.
#[procedure(announce = told::order_is_entered)]
pub fn new_order(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::NewOrder) -> Result<Output> {
    let (w_id, d_id, c_id) = (input.w_id, input.d_id, input.c_id);
    let mode = tpcc.parameters.mode;

    let lines = input.lines().iter();
    tx.prefetch(lines.clone().map(|line| (line.i_id, (Item::price, Item::data))));
    tx.prefetch(lines.clone().map(|line| ((line.supply_w_id, line.i_id), (Stock::quantity, Stock::data))));
    let dist = Stock::DIST[usize::from(d_id) - 1];
    tx.prefetch(lines.map(|line| ((line.supply_w_id, line.i_id), dist)));
    let w_tax = tx.get_columns(w_id, Warehouse::tax)?.or_missing("warehouse")?;
    let (d_tax, o_id);
    // One of the two is executed.
    #[piece]
    {
        (d_tax, o_id) = match mode {
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
                (tax, tpcc.outside(w_id, d_id).next_o_id.fetch_add(1))
            }
        };
    }

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

    if mode != Mode::Dbx1000 {
        tx.insert(schema::NewOrder { w_id, d_id, o_id })?;
        tx.insert::<Order>(order_of(input, o_id))?;
        for (number, (line, entered)) in (1..).zip(input.lines().iter().zip(&entered)) {
            tx.insert::<OrderLine>(line_of(input, o_id, number, line, entered.amount, entered.dist_info))?;
        }
    }

    let (credit, discount, last) = tx
        .get_columns((w_id, d_id, c_id), (Customer::credit, Customer::discount, Customer::last))?
        .or_missing("customer")?;
    black_box((&credit, &last));
    let total =
        sum * (UNIT - i64::from(discount)) / UNIT * (UNIT + i64::from(w_tax) + i64::from(d_tax)) / UNIT;
    Ok(Output::NewOrder { o_id, total })
}

/// Payment, which adds to W_YTD and D_YTD; see [`Parameters::commutative`](super::Parameters::commutative).
#[procedure(announce = told::payment_is_added)]
pub fn payment(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Payment) -> Result<Output> {
    #[no_abort]
    let w_name = warehouse_name(tx, input.w_id)?;
    // No transaction that writes reads these sums.
    #[deferred]
    tx.add(Warehouse::ytd, input.w_id, input.amount)?;
    let d_name = district_name(tx, input.w_id, input.d_id)?;
    #[deferred]
    tx.add(District::ytd, (input.w_id, input.d_id), input.amount)?;
    // No customer's name or terms are ever changed.
    #[later]
    pay(tx, tpcc, input, w_name, d_name)
}

/// Payment, which reads and writes W_YTD and D_YTD.
#[procedure(announce = told::payment_is_written)]
pub fn payment_by_updates(tx: &mut impl Transaction, tpcc: &Tpcc, input: &input::Payment) -> Result<Output> {
    let w_name = warehouse_name(tx, input.w_id)?;
    tx.update_columns(input.w_id, Warehouse::ytd, |ytd| *ytd += input.amount)?;
    let d_name = district_name(tx, input.w_id, input.d_id)?;
    tx.update_columns((input.w_id, input.d_id), District::ytd, |ytd| *ytd += input.amount)?;
    // As above.
    #[later]
    pay(tx, tpcc, input, w_name, d_name)
}

/// W_NAME; the address is only shown.
#[procedure]
#[inline]
pub(super) fn warehouse_name(tx: &mut impl ReadTransaction, w_id: u16) -> Result<Text<10>> {
    let address =
        (Warehouse::street_1, Warehouse::street_2, Warehouse::city, Warehouse::state, Warehouse::zip);
    let (name, address) = tx.get_columns(w_id, (Warehouse::name, address))?.or_missing("warehouse")?;
    black_box(&address);
    Ok(name)
}

/// D_NAME; the address is only shown.
#[procedure]
#[inline]
pub(super) fn district_name(tx: &mut impl ReadTransaction, w_id: u16, d_id: u8) -> Result<Text<10>> {
    let address = (District::street_1, District::street_2, District::city, District::state, District::zip);
    let (name, address) = tx.get_columns((w_id, d_id), (District::name, address))?.or_missing("district")?;
    black_box(&address);
    Ok(name)
}

/// What Payment does for the customer.
#[procedure]
#[inline]
fn pay(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: &input::Payment,
    w_name: Text<10>,
    d_name: Text<10>,
) -> Result<Output> {
    let amount = input.amount;
    let c_id = find_customer(tx, input.c_w_id, input.c_d_id, &input.customer)?;
    let key = (input.c_w_id, input.c_d_id, c_id);
    let person = (Customer::last, Customer::first, Customer::middle, Customer::phone);
    let terms = (Customer::credit, Customer::discount, Customer::credit_lim, Customer::since);
    let address = (Customer::street_1, Customer::street_2, Customer::city, Customer::state, Customer::zip);
    let (terms, person, address) = tx.get_columns(key, (terms, person, address))?.or_missing("customer")?;
    black_box((&terms, &person, &address));
    let hot = (Customer::balance, Customer::ytd_payment, Customer::payment_cnt);
    let balance;
    // Both are of the same row.
    #[piece]
    {
        balance = tx.update_columns(key, hot, |(balance, ytd_payment, payment_cnt)| {
            *balance -= amount;
            *ytd_payment += amount;
            *payment_cnt += 1;
            *balance
        })?;
        let credit = terms.0;
        if credit.as_bytes() == b"BC" {
            tx.update_columns(key, Customer::data, |data| *data = noted(data, c_id, input))?;
        }
    }

    if tpcc.parameters.mode != Mode::Dbx1000 {
        tx.insert(History {
            id: input.history_id,
            c_w_id: input.c_w_id,
            w_id: input.w_id,
            c_id,
            c_d_id: input.c_d_id,
            d_id: input.d_id,
            date: input.date,
            amount,
            data: spaced(&w_name, &d_name),
        })?;
    }
    Ok(Output::Payment { c_id, balance })
}

/// Order-Status.
#[procedure(announce = told::order_is_shown)]
pub fn order_status(tx: &mut impl ReadTransaction, input: &input::OrderStatus) -> Result<Output> {
    let (w_id, d_id) = (input.w_id, input.d_id);
    let c_id = find_customer(tx, w_id, d_id, &input.customer)?;
    let shown = (Customer::last, Customer::first, Customer::middle, Customer::balance);
    black_box(&tx.get_columns((w_id, d_id, c_id), shown)?.or_missing("customer")?);

    let mut last = None;
    tx.scan_index(Scan::<ByCustomer>::prefix((w_id, d_id, c_id)).reverse().limit(1), |_, (_, _, o_id)| {
        last = Some(o_id);
        Break(())
    })?;
    let Some(o_id) = last else { return Ok(Output::OrderStatus { o_id: 0, lines: 0 }) };
    show_order(tx, w_id, d_id, o_id)
}

/// The status of a district's last order (IC3 §6.5): what Order-Status does once it knows the order, among
/// those that write.
#[procedure(announce = told::last_order_is_shown)]
pub fn last_order_status(tx: &mut impl ReadTransaction, w_id: u16, d_id: u8) -> Result<Output> {
    let next = tx.get_columns((w_id, d_id), District::next_o_id)?.or_missing("district")?;
    show_order(tx, w_id, d_id, next.saturating_sub(1))
}

/// Shows an order and its lines.
#[procedure]
#[inline]
fn show_order(tx: &mut impl ReadTransaction, w_id: u16, d_id: u8, o_id: u32) -> Result<Output> {
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

/// Stock-Level.
#[procedure(announce = told::stock_is_looked_at)]
pub fn stock_level(tx: &mut impl ReadTransaction, tpcc: &Tpcc, input: &input::StockLevel) -> Result<Output> {
    /// Orders that are looked at.
    const RECENT: u32 = 20;
    let (w_id, d_id) = (input.w_id, input.d_id);
    let recent = match tpcc.parameters.mode {
        Mode::Spec | Mode::Dbx1000 => {
            let next = tx.get_columns((w_id, d_id), District::next_o_id)?.or_missing("district")?;
            (w_id, d_id, next.saturating_sub(RECENT), 0)..(w_id, d_id, next, 0)
        }
        Mode::Sto => {
            let next = tpcc.outside(w_id, d_id).next_o_id.load();
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

/// The customer's number; by last name the middle one, rounded up, in the order of first names.
#[procedure]
pub(super) fn find_customer(
    tx: &mut impl ReadTransaction,
    w_id: u16,
    d_id: u8,
    by: &CustomerBy,
) -> Result<u16> {
    let last = match by {
        CustomerBy::Id(c_id) => return Ok(*c_id),
        CustomerBy::LastName(last) => *last,
    };
    // The most frequent name has about 50 customers of 3000; half of 256 are enough for the middle.
    let mut first_half = [0; 128];
    let mut count = 0;
    tx.scan_index(Scan::<ByName>::prefix((w_id, d_id, last)), |_, (_, _, c_id)| {
        if let Some(place) = first_half.get_mut(count) {
            *place = c_id;
        }
        count += 1;
        Continue(())
    })?;
    let middle = count.checked_sub(1).map(|above| above / 2);
    middle.and_then(|middle| first_half.get(middle).copied()).or_missing("customer by name")
}

/// The row of the order with that number.
pub(super) fn order_of(input: &input::NewOrder, o_id: u32) -> Order {
    let input::NewOrder { w_id, d_id, c_id, line_count, date, .. } = *input;
    let all_local = input.lines().iter().all(|line| line.supply_w_id == w_id);
    Order { w_id, d_id, o_id, c_id, ol_cnt: line_count, all_local, entry_d: date, carrier_id: None }
}

/// The row of a line of the order, which costs so many cents.
pub(super) fn line_of(
    input: &input::NewOrder,
    o_id: u32,
    number: u8,
    line: &input::Line,
    amount: i64,
    dist_info: Text<24>,
) -> OrderLine {
    let input::NewOrder { w_id, d_id, .. } = *input;
    let input::Line { i_id, supply_w_id, quantity } = *line;
    let delivery_d = None;
    OrderLine { w_id, d_id, o_id, number, amount, i_id, supply_w_id, quantity, dist_info, delivery_d }
}

/// The quantity in stock after `taken` were taken.
pub(super) fn stock_after(quantity: i32, taken: i32) -> i32 {
    if quantity >= taken + 10 { quantity - taken } else { quantity + 91 - taken }
}

/// C_DATA of a customer with bad credit after a payment: a note, then the old text, cut off.
pub(super) fn noted(old: &Text<500>, c_id: u16, input: &input::Payment) -> Text<500> {
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
pub(super) fn spaced(w_name: &Text<10>, d_name: &Text<10>) -> Text<24> {
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
