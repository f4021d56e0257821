//! What the transactions compute, and collect on the stack: orders that a price triggers, lots that a trade closes,
//! taxes and amounts, and what an account holds.

use super::input::FEED;
use super::population::{HELD_MAX, LIMIT_BUY, LIMIT_SELL, QUANTITIES, STOP_LOSS};
use super::schema::{Date, Holding, Symbol, UNIT};
use heddledb::{Scan, Text};
use std::ops::ControlFlow::{self, Break, Continue};

/// A limit order whose price has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The trade.
    pub t_id: u64,
    /// Its broker.
    pub b_id: u32,
    /// Cents.
    pub price: i64,
}

/// The limit orders that one Market-Feed sends to the exchange: at most forty, as in H-Store; others wait
/// for the next price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triggered {
    pub(super) count: usize,
    requests: [Request; Self::MAX],
}

impl Default for Triggered {
    fn default() -> Self {
        Self { count: 0, requests: [Request::default(); Self::MAX] }
    }
}

impl Triggered {
    pub(super) const MAX: usize = 40;

    /// The orders.
    pub fn requests(&self) -> &[Request] {
        &self.requests[..self.count]
    }

    pub(super) fn push(&mut self, request: Request) -> ControlFlow<()> {
        let Some(place) = self.requests.get_mut(self.count) else { return Break(()) };
        *place = request;
        self.count += 1;
        Continue(())
    }
}

/// Whether a price triggers a limit order.
pub(super) fn triggers(tt_id: &Text<3>, bid_price: i64, price: i64) -> bool {
    if *tt_id == *STOP_LOSS.id || *tt_id == *LIMIT_BUY.id {
        bid_price >= price
    } else {
        *tt_id == *LIMIT_SELL.id && bid_price <= price
    }
}

/// A lot that a trade changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Change {
    pub(super) dts: Date,
    pub(super) t_id: u64,
    pub(super) price: i64,
    pub(super) before: i32,
    pub(super) after: i32,
}

/// The lots that a trade closes, of which the last may stay open in part.
#[derive(Debug)]
pub(super) struct Closing {
    /// What is not covered by lots yet.
    pub(super) needed: i32,
    pub(super) count: usize,
    pub(super) changes: [Change; Self::MAX],
}

impl Closing {
    /// Lots are multiples of the smallest quantity, and trades have the largest at most; with one that is
    /// opened.
    pub(super) const MAX: usize = (QUANTITIES[QUANTITIES.len() - 1] / QUANTITIES[0]) as usize + 1;

    pub(super) fn new(quantity: i32) -> Self {
        Self { needed: quantity, count: 0, changes: [Change::default(); Self::MAX] }
    }

    /// Takes from a lot, which is negative if it was sold short.
    pub(super) fn take(&mut self, dts: Date, t_id: u64, price: i64, before: i32) -> ControlFlow<()> {
        // An attempt that sees two moments at once may see more lots than there can be.
        let Some(place) = self.changes.get_mut(self.count) else { return Break(()) };
        let taken = self.needed.min(before.abs());
        *place = Change { dts, t_id, price, before, after: before - taken * before.signum() };
        self.count += 1;
        self.needed -= taken;
        if self.needed == 0 { Break(()) } else { Continue(()) }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes[..self.count]
    }

    /// What is earned when the lots are closed at `price`.
    pub(super) fn profit(&self, price: i64) -> i64 {
        // A lot that was bought is sold, one that was sold short is bought back.
        self.changes().iter().map(|lot| i64::from(lot.before - lot.after) * (price - lot.price)).sum()
    }
}

/// The tax on a profit.
pub(super) fn tax_on(profit: i64, rate: i64) -> i64 {
    (profit * rate + UNIT / 2) / UNIT
}

/// What changes hands when a trade is settled.
pub(super) fn settlement_amount(is_sell: bool, quantity: i32, price: i64, costs: i64, withheld: i64) -> i64 {
    let value = i64::from(quantity) * price;
    let amount = if is_sell { value - costs } else { -(value + costs) };
    amount - withheld
}

/// The tax status of an account whose tax is withheld at settlement.
pub(super) const WITHHELD: u8 = 1;

/// SE_CASH_DUE_DATE: two days later.
pub(super) fn due(date: Date) -> Date {
    date.wrapping_add(2)
}

/// The lots of a security, the newest first or the oldest.
pub(super) fn lots(ca_id: u32, s_symb: Symbol, lifo: bool) -> Scan<Holding> {
    let scan = Scan::prefix((ca_id, s_symb));
    if lifo { scan.reverse() } else { scan }
}

/// What an account has of the security that is traded, and for a trade on margin, of all others.
#[derive(Debug)]
pub(super) struct Assets {
    count: usize,
    /// The security that is traded comes first.
    all: [(Symbol, i32); Self::MAX],
}

impl Assets {
    /// Those of the load, as many within a range of securities, and the one that is traded.
    pub(super) const MAX: usize = 2 * HELD_MAX + 1;

    pub(super) fn new(s_symb: Symbol) -> Self {
        let mut all = [(0, 0); Self::MAX];
        all[0] = (s_symb, 0);
        Self { count: 1, all }
    }

    pub(super) fn push(&mut self, s_symb: Symbol, qty: i32) -> ControlFlow<()> {
        if s_symb == self.all[0].0 {
            self.all[0].1 = qty;
        } else {
            let Some(place) = self.all.get_mut(self.count) else { return Break(()) };
            *place = (s_symb, qty);
            self.count += 1;
        }
        Continue(())
    }

    /// How much of the security that is traded.
    pub(super) fn held(&self) -> i32 {
        self.all[0].1
    }

    /// The security that is traded, and if not for cash, all others.
    pub(super) fn all(&self, is_cash: bool) -> &[(Symbol, i32)] {
        &self.all[..if is_cash { 1 } else { self.count }]
    }
}

const _: () = assert!(FEED <= Triggered::MAX, "a feed triggers its own orders at least");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_are_closed_in_part_or_whole() {
        let mut closing = Closing::new(500);
        assert_eq!(closing.take(1, 1, 2000, 200), Continue(()));
        assert_eq!(closing.take(2, 2, 3000, 800), Break(()));
        let afters: Vec<_> = closing.changes().iter().map(|lot| (lot.before, lot.after)).collect();
        assert_eq!((afters, closing.needed), (vec![(200, 0), (800, 500)], 0));
        assert_eq!(closing.profit(2500), 200 * 500 - 300 * 500);

        let mut covering = Closing::new(500);
        assert_eq!(covering.take(1, 1, 3000, -200), Continue(()));
        assert_eq!((covering.changes()[0].after, covering.needed), (0, 300));
        assert_eq!(covering.profit(2500), 200 * 500, "sold for 30, bought back for 25");
    }

    #[test]
    fn a_full_list_ends_a_scan() {
        let mut closing = Closing::new(i32::MAX);
        let taken = (1..).take_while(|t_id| closing.take(0, *t_id, 1, 1).is_continue()).count();
        assert_eq!(taken, Closing::MAX);
        let mut triggered = Triggered::default();
        let pushed = (1..)
            .take_while(|t_id| triggered.push(Request { t_id: *t_id, ..Request::default() }).is_continue());
        assert_eq!(pushed.count(), 40);
        let mut assets = Assets::new(5);
        let pushed = (100..).take_while(|s_symb| assets.push(*s_symb, 1).is_continue()).count();
        assert_eq!(pushed, 36);
        assert_eq!(assets.push(5, -7), Continue(()));
        assert_eq!((assets.held(), assets.all(true), assets.all(false).len()), (-7, &[(5, -7)][..], 37));
    }

    #[test]
    fn prices_trigger_what_they_should() {
        let at = |tt_id: &str, bid_price| triggers(&Text::truncated(tt_id), bid_price, 2500);
        for (tt_id, expected) in
            [("TSL", [false, true, true]), ("TLS", [true, true, false]), ("TLB", [false, true, true])]
        {
            assert_eq!([2499, 2500, 2501].map(|bid_price| at(tt_id, bid_price)), expected, "{tt_id}");
        }
        assert!(!at("TMB", 2500) && !at("TMS", 2500));
    }

    #[test]
    fn settlements_deduct_costs_and_withheld_tax() {
        assert_eq!(settlement_amount(true, 100, 2500, 700, 0), 249_300);
        assert_eq!(settlement_amount(true, 100, 2500, 700, 300), 249_000);
        assert_eq!(settlement_amount(false, 100, 2500, 700, 0), -250_700);
    }
}
