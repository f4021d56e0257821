//! The consistency conditions of clause 3.3.2, and the tables against the committed effects.
//!
//! The conditions alone would hold if a transaction's effects were lost as a whole; the ledgers of
//! the workers catch that. A check that cannot hold in a [`Mode`] is left out there.
//!
//! Tables with a hash index are read by the keys that they should have, and some beyond.
//!
//! [`probe`](super::probe) is for during a run.

use super::input::{same_generator, sequence_start};
use super::load::{PAID, initial_quantity};
use super::schema::{
    ByCustomer, ByName, Customer, District, History, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, Ledger, Mode, Scale, Tpcc};
use crate::Check;
use crate::verdict::{Verdict, equal};
use heddledb::{Database, Error, ReadTransaction, Result, Scan, Session, Text, Txn};
use std::ops::ControlFlow::Continue;
use std::ops::Range;

/// Keys per transaction.
const CHUNK: usize = 512;
/// How far beyond the last key that should exist rows are looked for.
const BEYOND: u32 = 64;

const CONDITIONS: [&str; 12] = [
    "1: W_YTD = sum(D_YTD)",
    "2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
    "3: max(NO_O_ID) - min(NO_O_ID) + 1 = count(NEW_ORDER)",
    "4: sum(O_OL_CNT) = count(ORDER_LINE) of the district",
    "5: O_CARRIER_ID is null <=> NEW_ORDER row exists",
    "6: O_OL_CNT = count(ORDER_LINE) of the order",
    "7: OL_DELIVERY_D is null <=> O_CARRIER_ID is null",
    "8: W_YTD = sum(H_AMOUNT)",
    "9: D_YTD = sum(H_AMOUNT)",
    "10: C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)",
    "11: count(ORDER) - count(NEW_ORDER) = delivered orders",
    "12: C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)",
];

/// The conditions that make sense in a mode. Without inserts only the first does; with order ids
/// from outside the transactions, those that exclude gaps do not.
fn applies(mode: Mode, condition: usize) -> bool {
    match mode {
        Mode::Spec => true,
        Mode::Dbx1000 => condition == 1,
        Mode::Sto => condition != 2 && condition != 3,
    }
}

/// Checks the quiet database.
pub(super) fn check(tpcc: &Tpcc, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
    let mut survey = Survey::new(tpcc, db.session()?, ledgers);
    survey.history(ledgers)?;
    for w_id in 1..=tpcc.parameters.warehouses {
        survey.warehouse(w_id)?;
    }
    Ok(survey.finish())
}

/// Everything that is summed up or compared, on the way through the tables.
struct Survey<'a> {
    tpcc: &'a Tpcc,
    session: Session,
    sums: Sums,
    /// What the workers committed, in the same terms.
    ledger: Ledger,
    conditions: Vec<Verdict>,
    order_index: Verdict,
    name_index: Verdict,
    stock_rule: Verdict,
    /// By customer index: sum(H_AMOUNT), and sum of delivered OL_AMOUNT.
    paid: Vec<i64>,
    delivered: Vec<i64>,
    /// sum(H_AMOUNT) by district index.
    district_paid: Vec<i64>,
}

/// Sums over whole tables.
#[derive(Default)]
struct Sums {
    w_ytd: i128,
    next_o_id: i128,
    orders: i128,
    waiting: i128,
    history: i128,
    history_amount: i128,
    lines: i128,
    quantity: i128,
    remote: i128,
    s_ytd: i128,
    s_order_cnt: i128,
    s_remote_cnt: i128,
    payment_cnt: i128,
    delivery_cnt: i128,
    balance: i128,
}

/// An order with what belongs to it.
#[derive(Clone, Copy)]
struct OrderSurvey {
    c_id: u16,
    carrier_id: Option<u8>,
    ol_cnt: u8,
    waiting: bool,
    indexed: bool,
    lines: u32,
    undelivered: u32,
}

impl<'a> Survey<'a> {
    fn new(tpcc: &'a Tpcc, session: Session, ledgers: &[Ledger]) -> Self {
        let districts = Scale::districts(tpcc.parameters.warehouses);
        let customers = districts * usize::from(tpcc.parameters.scale.customers);
        let mut ledger = Ledger { delivered: vec![0; districts], ..Ledger::default() };
        for part in ledgers {
            ledger.lines += part.lines;
            ledger.quantity += part.quantity;
            ledger.remote_lines += part.remote_lines;
            ledger.paid += part.paid;
            ledger.commits.iter_mut().zip(part.commits).for_each(|(sum, more)| *sum += more);
            ledger.delivered.iter_mut().zip(&part.delivered).for_each(|(sum, more)| *sum += more);
        }
        Self {
            tpcc,
            session,
            sums: Sums::default(),
            ledger,
            conditions: CONDITIONS.map(|name| Verdict::new(format!("condition {name}"))).into(),
            order_index: Verdict::new("ORDER_CUST_IDX has just the orders"),
            name_index: Verdict::new("CUSTOMER_NAME_IDX has just the customers"),
            stock_rule: Verdict::new("S_QUANTITY follows from S_YTD and lies between 10 and 100"),
            paid: vec![0; customers],
            delivered: vec![0; customers],
            district_paid: vec![0; districts],
        }
    }

    fn condition(&mut self, number: usize) -> &mut Verdict {
        &mut self.conditions[number - 1]
    }

    fn customer_index(&self, w_id: u16, d_id: u8, c_id: u16) -> usize {
        let customers = usize::from(self.tpcc.parameters.scale.customers);
        Tpcc::district_index(w_id, d_id) * customers + usize::from(c_id) - 1
    }

    /// HISTORY rows: those loaded, then those of each generator.
    fn history(&mut self, ledgers: &[Ledger]) -> Result<()> {
        if self.tpcc.parameters.mode == Mode::Dbx1000 {
            return Ok(());
        }
        let loaded = 0..self.paid.len() as u64 + u64::from(BEYOND);
        let mut ranges = vec![loaded];
        for (first, end) in ledgers.iter().flat_map(|ledger| ledger.history.iter().copied()) {
            match ranges.iter_mut().find(|range| same_generator(range.start, first)) {
                Some(range) => range.end = range.end.max(end + u64::from(BEYOND)),
                None => ranges.push(sequence_start(first)..end + u64::from(BEYOND)),
            }
        }
        for mut range in ranges {
            while !range.is_empty() {
                let chunk = range.start..range.end.min(range.start + CHUNK as u64);
                range.start = chunk.end;
                let rows = gather(&mut self.session, |tx, rows| {
                    for id in chunk.clone() {
                        rows.extend(tx.get::<History>(id)?);
                    }
                    Ok(())
                })?;
                for row in rows {
                    let customer = self.customer_index(row.c_w_id, row.c_d_id, row.c_id);
                    self.paid[customer] += row.amount;
                    self.district_paid[Tpcc::district_index(row.w_id, row.d_id)] += row.amount;
                    self.sums.history += 1;
                    self.sums.history_amount += i128::from(row.amount);
                }
            }
        }
        Ok(())
    }

    fn warehouse(&mut self, w_id: u16) -> Result<()> {
        let ytd = self
            .session
            .run(|tx| tx.get_columns(w_id, Warehouse::ytd))?
            .ok_or_else(|| missing("warehouse"))?;
        let mut district_ytd = 0;
        for d_id in 1..=DISTRICTS {
            district_ytd += self.district(w_id, d_id)?;
        }
        self.stock(w_id)?;
        self.sums.w_ytd += i128::from(ytd);
        self.condition(1).require(ytd == district_ytd, || {
            format!("warehouse {w_id}: W_YTD {ytd}, sum(D_YTD) {district_ytd}")
        });
        let first = Tpcc::district_index(w_id, 1);
        let paid: i64 = self.district_paid[first..first + usize::from(DISTRICTS)].iter().sum();
        self.condition(8)
            .require(ytd == paid, || format!("warehouse {w_id}: W_YTD {ytd}, sum(H_AMOUNT) {paid}"));
        Ok(())
    }

    /// Checks a district and returns D_YTD.
    fn district(&mut self, w_id: u16, d_id: u8) -> Result<i64> {
        let (ytd, next_o_id) = self
            .session
            .run(|tx| tx.get_columns((w_id, d_id), (District::ytd, District::next_o_id)))?
            .ok_or_else(|| missing("district"))?;
        self.sums.next_o_id += i128::from(next_o_id);
        let paid = self.district_paid[Tpcc::district_index(w_id, d_id)];
        self.condition(9)
            .require(ytd == paid, || format!("district ({w_id}, {d_id}): D_YTD {ytd}, sum(H_AMOUNT) {paid}"));
        match self.tpcc.parameters.mode {
            Mode::Dbx1000 => {}
            Mode::Spec => self.orders(w_id, d_id, next_o_id)?,
            // Relaxed: the database is quiet.
            Mode::Sto => self.orders(w_id, d_id, self.tpcc.outside(w_id, d_id).next_o_id.load())?,
        }
        self.customers(w_id, d_id)?;
        Ok(ytd)
    }

    /// Conditions 2 to 7 and 11, and the sums of delivered lines by customer.
    fn orders(&mut self, w_id: u16, d_id: u8, next_o_id: u32) -> Result<()> {
        let place = format!("district ({w_id}, {d_id})");
        let mut orders = self.order_rows(w_id, d_id, next_o_id + BEYOND)?;
        self.order_entries(w_id, d_id, &mut orders)?;
        let waiting = self.waiting_rows(w_id, d_id, &mut orders)?;
        let lines = self.line_rows(w_id, d_id, &mut orders)?;

        let (mut count, mut last, mut promised) = (0i128, 0, 0u64);
        for (o_id, order) in (0u32..).zip(&orders) {
            let Some(order) = order else { continue };
            let OrderSurvey { carrier_id, ol_cnt, waiting, indexed, lines, undelivered, .. } = *order;
            (count, last, promised) = (count + 1, o_id, promised + u64::from(ol_cnt));
            self.condition(5).require(carrier_id.is_none() == waiting, || {
                format!(
                    "order ({w_id}, {d_id}, {o_id}): O_CARRIER_ID {carrier_id:?}, NEW_ORDER row {waiting}"
                )
            });
            self.condition(6).require(u32::from(ol_cnt) == lines, || {
                format!("order ({w_id}, {d_id}, {o_id}): O_OL_CNT {ol_cnt}, {lines} lines")
            });
            self.condition(7).require(undelivered == if carrier_id.is_none() { lines } else { 0 }, || {
                format!(
                    "order ({w_id}, {d_id}, {o_id}): O_CARRIER_ID {carrier_id:?}, {undelivered} of {lines} lines \
                     without delivery date"
                )
            });
            self.order_index.require(indexed, || format!("order ({w_id}, {d_id}, {o_id}) has no entry"));
        }
        let waiting_count = waiting.len() as i128;
        self.condition(2)
            .require(last + 1 == next_o_id, || format!("{place}: D_NEXT_O_ID {next_o_id}, max(O_ID) {last}"));
        if let (Some(min), Some(max)) = (waiting.first(), waiting.last()) {
            self.condition(2).require(max + 1 == next_o_id, || {
                format!("{place}: D_NEXT_O_ID {next_o_id}, max(NO_O_ID) {max}")
            });
            self.condition(3).require(i128::from(max - min) + 1 == waiting_count, || {
                format!("{place}: NO_O_ID from {min} to {max}, {waiting_count} rows")
            });
        }
        self.condition(4).require(promised == lines, || {
            format!("{place}: sum(O_OL_CNT) {promised}, count(ORDER_LINE) {lines}")
        });
        let delivered = self.ledger.delivered[Tpcc::district_index(w_id, d_id)];
        let loaded = self.tpcc.parameters.scale.delivered();
        self.condition(11).require(count - waiting_count == i128::from(loaded) + i128::from(delivered), || {
            format!(
                "{place}: {count} orders, {waiting_count} new orders, {loaded} loaded as delivered, {delivered} \
                 delivered since"
            )
        });
        self.sums.orders += count;
        self.sums.waiting += waiting_count;
        Ok(())
    }

    /// ORDER rows with ids below `end`, by id.
    fn order_rows(&mut self, w_id: u16, d_id: u8, end: u32) -> Result<Vec<Option<OrderSurvey>>> {
        let mut orders = Vec::with_capacity(end as usize);
        let columns = (Order::c_id, Order::carrier_id, Order::ol_cnt);
        for chunk in chunks(0..end) {
            orders.extend(gather(&mut self.session, |tx, rows| {
                for o_id in chunk.clone() {
                    let row = tx.get_columns((w_id, d_id, o_id), columns)?;
                    rows.push(row.map(|(c_id, carrier_id, ol_cnt)| OrderSurvey {
                        c_id,
                        carrier_id,
                        ol_cnt,
                        waiting: false,
                        indexed: false,
                        lines: 0,
                        undelivered: 0,
                    }));
                }
                Ok(())
            })?);
        }
        Ok(orders)
    }

    /// Marks the orders that have an entry in ORDER_CUST_IDX.
    fn order_entries(&mut self, w_id: u16, d_id: u8, orders: &mut [Option<OrderSurvey>]) -> Result<()> {
        let entries = gather(&mut self.session, |tx, rows| {
            tx.scan_index(Scan::<ByCustomer>::prefix((w_id, d_id)), |(_, _, c_id, ..), (_, _, o_id)| {
                rows.push((c_id, o_id));
                Continue(())
            })
        })?;
        for (c_id, o_id) in entries {
            let order =
                orders.get_mut(o_id as usize).and_then(Option::as_mut).filter(|order| order.c_id == c_id);
            self.order_index.require(order.is_some(), || {
                format!("the entry of customer ({w_id}, {d_id}, {c_id}) for order {o_id} has no such order")
            });
            if let Some(order) = order {
                order.indexed = true;
            }
        }
        Ok(())
    }

    /// Marks the orders that have a NEW_ORDER row, and returns the ids of all such rows.
    fn waiting_rows(&mut self, w_id: u16, d_id: u8, orders: &mut [Option<OrderSurvey>]) -> Result<Vec<u32>> {
        let waiting = gather(&mut self.session, |tx, rows| {
            tx.scan_columns(Scan::prefix((w_id, d_id)), NewOrder::o_id, |_, o_id| {
                rows.push(o_id);
                Continue(())
            })
        })?;
        for o_id in &waiting {
            match orders.get_mut(*o_id as usize).and_then(Option::as_mut) {
                Some(order) => order.waiting = true,
                None => self
                    .condition(5)
                    .require(false, || format!("NEW_ORDER row ({w_id}, {d_id}, {o_id}) without order")),
            }
        }
        Ok(waiting)
    }

    /// Counts the lines of each order and sums up those delivered; returns how many lines there are.
    fn line_rows(&mut self, w_id: u16, d_id: u8, orders: &mut [Option<OrderSurvey>]) -> Result<u64> {
        let columns = (OrderLine::amount, OrderLine::supply_w_id, OrderLine::quantity, OrderLine::delivery_d);
        let loaded = self.tpcc.parameters.scale.orders;
        let end = orders.len() as u32;
        let mut count = 0;
        for chunk in chunks(0..end).chain(std::iter::once(end..u32::MAX)) {
            let range = (w_id, d_id, chunk.start, 0)..(w_id, d_id, chunk.end, 0);
            let lines = gather(&mut self.session, |tx, rows| {
                tx.scan_columns(Scan::range(range.clone()), columns, |(_, _, o_id, number), line| {
                    rows.push((o_id, number, line));
                    Continue(())
                })
            })?;
            for (o_id, number, (amount, supply_w_id, quantity, delivery_d)) in lines {
                count += 1;
                if o_id > loaded {
                    self.sums.lines += 1;
                    self.sums.quantity += i128::from(quantity);
                    self.sums.remote += i128::from(supply_w_id != w_id);
                }
                let Some(order) = orders.get_mut(o_id as usize).and_then(Option::as_mut) else {
                    self.condition(6).require(false, || {
                        format!("order line ({w_id}, {d_id}, {o_id}, {number}) without order")
                    });
                    continue;
                };
                order.lines += 1;
                if delivery_d.is_some() {
                    let customer = self.customer_index(w_id, d_id, order.c_id);
                    self.delivered[customer] += amount;
                } else {
                    order.undelivered += 1;
                }
            }
        }
        Ok(count)
    }

    /// Conditions 10 and 12, and the name index.
    fn customers(&mut self, w_id: u16, d_id: u8) -> Result<()> {
        let customers = u32::from(self.tpcc.parameters.scale.customers);
        let hot = (Customer::balance, Customer::ytd_payment, Customer::payment_cnt, Customer::delivery_cnt);
        let columns = (hot, (Customer::last, Customer::first));
        let mut names = Vec::new();
        for chunk in chunks(1..customers + 1) {
            let rows = gather(&mut self.session, |tx, rows| {
                for c_id in chunk.clone() {
                    let row = tx.get_columns((w_id, d_id, c_id as u16), columns)?;
                    rows.push((c_id as u16, row.ok_or_else(|| missing("customer"))?));
                }
                Ok(())
            })?;
            for (c_id, ((balance, ytd_payment, payment_cnt, delivery_cnt), (last, first))) in rows {
                let index = self.customer_index(w_id, d_id, c_id);
                let (paid, delivered) = (self.paid[index], self.delivered[index]);
                self.condition(10).require(balance == delivered - paid, || {
                    format!(
                        "customer ({w_id}, {d_id}, {c_id}): C_BALANCE {balance}, delivered {delivered}, paid {paid}"
                    )
                });
                self.condition(12).require(balance + ytd_payment == delivered, || {
                    format!(
                        "customer ({w_id}, {d_id}, {c_id}): C_BALANCE {balance}, C_YTD_PAYMENT {ytd_payment}, \
                         delivered {delivered}"
                    )
                });
                self.sums.balance += i128::from(balance);
                self.sums.payment_cnt += i128::from(payment_cnt);
                self.sums.delivery_cnt += i128::from(delivery_cnt);
                names.push((last, first, c_id));
            }
        }
        self.names(w_id, d_id, names)
    }

    fn names(&mut self, w_id: u16, d_id: u8, mut names: Vec<(Text<16>, Text<16>, u16)>) -> Result<()> {
        let entries = gather(&mut self.session, |tx, rows| {
            tx.scan_index(Scan::<ByName>::prefix((w_id, d_id)), |(_, _, last, first, ..), (_, _, c_id)| {
                rows.push((last, first, c_id));
                Continue(())
            })
        })?;
        names.sort_unstable();
        let (rows, found) = (names.len(), entries.len());
        self.name_index.require(rows == found, || {
            format!("district ({w_id}, {d_id}): {rows} customers, {found} entries")
        });
        for (row, entry) in names.iter().zip(&entries) {
            self.name_index
                .require(row == entry, || format!("district ({w_id}, {d_id}): row {row:?}, entry {entry:?}"));
        }
        Ok(())
    }

    fn stock(&mut self, w_id: u16) -> Result<()> {
        let columns = (Stock::quantity, Stock::ytd, Stock::order_cnt, Stock::remote_cnt);
        for chunk in chunks(1..self.tpcc.parameters.scale.items + 1) {
            let rows = gather(&mut self.session, |tx, rows| {
                for i_id in chunk.clone() {
                    rows.push((
                        i_id,
                        tx.get_columns((w_id, i_id), columns)?.ok_or_else(|| missing("stock"))?,
                    ));
                }
                Ok(())
            })?;
            for (i_id, (quantity, ytd, order_cnt, remote_cnt)) in rows {
                let initial = initial_quantity(w_id, i_id);
                let rest = i64::from(initial) - i64::from(ytd) - i64::from(quantity);
                self.stock_rule.require(rest % 91 == 0 && (10..=100).contains(&quantity), || {
                    format!("stock ({w_id}, {i_id}): {initial} at first, S_YTD {ytd}, S_QUANTITY {quantity}")
                });
                self.sums.s_ytd += i128::from(ytd);
                self.sums.s_order_cnt += i128::from(order_cnt);
                self.sums.s_remote_cnt += i128::from(remote_cnt);
            }
        }
        Ok(())
    }

    /// The conditions, then the sums against the ledgers.
    fn finish(self) -> Vec<Check> {
        let Self { sums, ledger, tpcc, .. } = self;
        let mode = tpcc.parameters.mode;
        let scale = tpcc.parameters.scale;
        let districts = Scale::districts(tpcc.parameters.warehouses) as i128;
        let customers = districts * i128::from(scale.customers);
        let loaded_orders = districts * i128::from(scale.orders);
        let loaded_waiting = loaded_orders - districts * i128::from(scale.delivered());
        let [new_orders, payments, ..] = ledger.commits.map(i128::from);
        let delivered: i128 = ledger.delivered.iter().map(|orders| i128::from(*orders)).sum();

        let mut checks: Vec<Check> = (1..)
            .zip(self.conditions)
            .filter(|(number, _)| applies(mode, *number))
            .map(|(_, verdict)| verdict.finish())
            .collect();
        let mut ledger_check = |name: &str, table: &str, found: i128, log: &str, committed: i128| {
            checks.push(equal(format!("ledger: {name}"), (table, found), (log, committed)));
        };
        if mode != Mode::Sto {
            let taken = sums.next_o_id - loaded_orders - districts;
            ledger_check("order ids", "sum(D_NEXT_O_ID) grew by", taken, "committed New-Orders", new_orders);
        }
        let log = "cents of committed Payments";
        let initial = customers * i128::from(PAID);
        ledger_check("W_YTD", "sum(W_YTD) grew by", sums.w_ytd - initial, log, ledger.paid.into());
        let log = "committed Payments";
        ledger_check(
            "C_PAYMENT_CNT",
            "sum(C_PAYMENT_CNT) grew by",
            sums.payment_cnt - customers,
            log,
            payments,
        );
        let log = "quantity of committed New-Orders";
        ledger_check("S_YTD", "sum(S_YTD)", sums.s_ytd, log, ledger.quantity.into());
        let log = "lines of committed New-Orders";
        ledger_check("S_ORDER_CNT", "sum(S_ORDER_CNT)", sums.s_order_cnt, log, ledger.lines.into());
        let log = "remote lines of committed New-Orders";
        ledger_check("S_REMOTE_CNT", "sum(S_REMOTE_CNT)", sums.s_remote_cnt, log, ledger.remote_lines.into());
        checks.push(self.stock_rule.finish());
        checks.push(self.name_index.finish());
        if mode == Mode::Dbx1000 {
            let log = "cents of committed Payments";
            let fallen = -(sums.balance + initial);
            checks.push(equal(
                "ledger: C_BALANCE",
                ("sum(C_BALANCE) fell by", fallen),
                (log, ledger.paid.into()),
            ));
            return checks;
        }

        let mut ledger_check = |name: &str, table: &str, found: i128, log: &str, committed: i128| {
            checks.push(equal(format!("ledger: {name}"), (table, found), (log, committed)));
        };
        let grown = sums.orders - loaded_orders;
        ledger_check("ORDER", "count(ORDER) grew by", grown, "committed New-Orders", new_orders);
        let grown = sums.history - customers;
        ledger_check("HISTORY", "count(HISTORY) grew by", grown, "committed Payments", payments);
        let grown = sums.history_amount - initial;
        ledger_check(
            "H_AMOUNT",
            "sum(H_AMOUNT) grew by",
            grown,
            "cents of committed Payments",
            ledger.paid.into(),
        );
        ledger_check("OL_QUANTITY", "sum(OL_QUANTITY) of new lines", sums.quantity, "sum(S_YTD)", sums.s_ytd);
        ledger_check("ORDER_LINE", "new lines", sums.lines, "sum(S_ORDER_CNT)", sums.s_order_cnt);
        ledger_check(
            "OL_SUPPLY_W_ID",
            "new remote lines",
            sums.remote,
            "sum(S_REMOTE_CNT)",
            sums.s_remote_cnt,
        );
        let log = "orders of committed Deliveries";
        ledger_check("C_DELIVERY_CNT", "sum(C_DELIVERY_CNT)", sums.delivery_cnt, log, delivered);
        let gone = loaded_waiting + new_orders - sums.waiting;
        ledger_check("NEW_ORDER", "NEW_ORDER rows gone", gone, log, delivered);
        checks.push(self.order_index.finish());
        checks
    }
}

pub(super) fn missing(table: &str) -> Error {
    Error::user(format!("a row of {table} that was loaded is missing"))
}

/// Cuts a range into pieces for one transaction each.
fn chunks(range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let end = range.end;
    range.step_by(CHUNK).map(move |start| start..end.min(start.saturating_add(CHUNK as u32)))
}

/// The rows that a read-only transaction collects.
fn gather<R>(
    session: &mut Session,
    mut body: impl FnMut(&mut Txn, &mut Vec<R>) -> Result<()>,
) -> Result<Vec<R>> {
    let mut rows = Vec::new();
    session.run(|tx| {
        rows.clear();
        body(tx, &mut rows)
    })?;
    Ok(rows)
}
