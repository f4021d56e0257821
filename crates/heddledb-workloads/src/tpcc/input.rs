//! The arguments of the five transactions, and the generator that draws them (clauses 2.4.1 to
//! 2.8.1).

use super::random;
use super::schema::{DOLLAR, Date};
use super::{Binding, DISTRICTS, LINES_MAX, Parameters};
use crate::random::{chance, stream};
use heddledb::Text;
use rand::RngExt;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

/// The transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order of 5 to 15 lines.
    NewOrder,
    /// Books a customer's payment.
    Payment,
    /// Shows a customer's last order. Read-only.
    OrderStatus,
    /// Delivers the oldest order of each district of a warehouse.
    Delivery,
    /// Counts recently ordered items that run out. Read-only.
    StockLevel,
}

impl Kind {
    /// The names, in order.
    pub const NAMES: [&'static str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];
}

/// The arguments of one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// See [`Kind::NewOrder`].
    NewOrder(NewOrder),
    /// See [`Kind::Payment`].
    Payment(Payment),
    /// See [`Kind::OrderStatus`].
    OrderStatus(OrderStatus),
    /// See [`Kind::Delivery`].
    Delivery(Delivery),
    /// See [`Kind::StockLevel`].
    StockLevel(StockLevel),
}

impl Input {
    /// The type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => Kind::NewOrder,
            Self::Payment(_) => Kind::Payment,
            Self::OrderStatus(_) => Kind::OrderStatus,
            Self::Delivery(_) => Kind::Delivery,
            Self::StockLevel(_) => Kind::StockLevel,
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::StockLevel(StockLevel { w_id: 1, d_id: 1, threshold: 10 })
    }
}

/// How a customer is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum CustomerBy {
    /// By number.
    Id(u16),
    /// By last name: the middle one of those who have it, by first name.
    LastName(Text<16>),
}

/// A line of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The item; in an order that will roll back, the last one does not exist.
    pub i_id: u32,
    /// The warehouse that supplies it.
    pub supply_w_id: u16,
    /// How many, 1 to 10.
    pub quantity: u8,
}

/// Arguments of New-Order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewOrder {
    /// Warehouse.
    pub w_id: u16,
    /// District.
    pub d_id: u8,
    /// Customer.
    pub c_id: u16,
    /// Date of entry.
    pub date: Date,
    /// How many of `all_lines` count.
    pub line_count: u8,
    /// The lines.
    pub all_lines: [Line; LINES_MAX],
    /// It reads and writes at once where others defer.
    pub wild: bool,
}

impl NewOrder {
    /// The lines.
    pub fn lines(&self) -> &[Line] {
        &self.all_lines[..usize::from(self.line_count)]
    }
}

/// Arguments of Payment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    /// Warehouse.
    pub w_id: u16,
    /// District.
    pub d_id: u8,
    /// The customer's warehouse.
    pub c_w_id: u16,
    /// The customer's district.
    pub c_d_id: u8,
    /// The customer.
    pub customer: CustomerBy,
    /// Cents.
    pub amount: i64,
    /// Date of payment.
    pub date: Date,
    /// The key of the HISTORY row, used by no other payment.
    pub history_id: u64,
}

/// Arguments of Order-Status.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderStatus {
    /// Warehouse.
    pub w_id: u16,
    /// District.
    pub d_id: u8,
    /// The customer.
    pub customer: CustomerBy,
}

/// Arguments of Delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Warehouse.
    pub w_id: u16,
    /// 1 to 10.
    pub carrier_id: u8,
    /// Date of delivery.
    pub date: Date,
}

/// Arguments of Stock-Level.
#[derive(Clone, Debug, PartialEq)]
pub struct StockLevel {
    /// Warehouse.
    pub w_id: u16,
    /// District.
    pub d_id: u8,
    /// 10 to 20.
    pub threshold: i32,
}

/// The date of everything that is loaded; generators count up from there.
pub(super) const LOAD_DATE: Date = 1_000_000;

/// HISTORY keys: the generator's number above this bit, its sequence below. Number 0 is the load.
const SEQUENCE_BITS: u32 = 40;

/// Whether two HISTORY keys were given out by one generator.
pub(super) fn same_generator(a: u64, b: u64) -> bool {
    a >> SEQUENCE_BITS == b >> SEQUENCE_BITS
}

/// The key before the first of the generator that gave out `id`.
pub(super) fn sequence_start(id: u64) -> u64 {
    id >> SEQUENCE_BITS << SEQUENCE_BITS
}

/// Draws inputs for one worker.
///
/// Dates and HISTORY keys count up, so that a run can be repeated from its seed.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: SmallRng,
    home_w_id: u16,
    date: Date,
    history_id: u64,
}

impl Generator {
    pub(super) fn new(parameters: &Parameters, worker: usize, number: u64, seed: u64) -> Self {
        Self {
            rng: stream(seed, worker as u64),
            home_w_id: (worker % usize::from(parameters.warehouses)) as u16 + 1,
            date: LOAD_DATE,
            history_id: number << SEQUENCE_BITS,
        }
    }

    pub(super) fn draw(&mut self, parameters: &Parameters, input: &mut Input) {
        let w_id = match parameters.binding {
            Binding::Home => self.home_w_id,
            Binding::Random => self.rng.random_range(1..=parameters.warehouses),
        };
        let mut share = self.rng.random_range(0..100);
        let kinds = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];
        for (kind, percent) in kinds.into_iter().zip(parameters.mix.0) {
            if share < percent {
                *input = match kind {
                    Kind::NewOrder => Input::NewOrder(self.new_order(parameters, w_id)),
                    Kind::Payment => Input::Payment(self.payment(parameters, w_id)),
                    Kind::OrderStatus => Input::OrderStatus(self.order_status(parameters, w_id)),
                    Kind::Delivery => Input::Delivery(self.delivery(w_id)),
                    Kind::StockLevel => Input::StockLevel(self.stock_level(w_id)),
                };
                return;
            }
            share -= percent;
        }
        unreachable!("the mix adds up to 100");
    }

    pub(super) fn refresh(&mut self, input: &mut Input) {
        match input {
            Input::NewOrder(input) => input.date = self.next_date(),
            Input::Payment(input) => {
                (input.date, input.history_id) = (self.next_date(), self.next_history_id())
            }
            Input::Delivery(input) => input.date = self.next_date(),
            Input::OrderStatus(_) | Input::StockLevel(_) => {}
        }
    }

    fn next_date(&mut self) -> Date {
        self.date = self.date.wrapping_add(1);
        self.date
    }

    fn next_history_id(&mut self) -> u64 {
        self.history_id += 1;
        self.history_id
    }

    fn district(&mut self) -> u8 {
        self.rng.random_range(1..=DISTRICTS)
    }

    /// Another warehouse than `w_id`, each equally likely; there must be two at least.
    fn other_warehouse(&mut self, parameters: &Parameters, w_id: u16) -> u16 {
        let other = self.rng.random_range(1..parameters.warehouses);
        if other < w_id { other } else { other + 1 }
    }

    fn customer(&mut self, parameters: &Parameters) -> CustomerBy {
        let customers = parameters.scale.customers;
        if chance(&mut self.rng, 60) {
            CustomerBy::LastName(random::last_name_run(&mut self.rng, customers))
        } else {
            CustomerBy::Id(random::customer(&mut self.rng, customers))
        }
    }

    fn new_order(&mut self, parameters: &Parameters, w_id: u16) -> NewOrder {
        let d_id = self.district();
        let c_id = random::customer(&mut self.rng, parameters.scale.customers);
        let line_count = self.rng.random_range(5..=LINES_MAX);
        let mut all_lines = [Line::default(); LINES_MAX];
        for line in &mut all_lines[..line_count] {
            let remote = parameters.warehouses > 1 && chance(&mut self.rng, parameters.remote_item_pct);
            *line = Line {
                i_id: random::item(&mut self.rng, parameters.scale.items),
                supply_w_id: if remote { self.other_warehouse(parameters, w_id) } else { w_id },
                quantity: self.rng.random_range(1..=10),
            };
        }
        if chance(&mut self.rng, parameters.rollback_pct) {
            all_lines[line_count - 1].i_id = parameters.scale.items + 1;
        }
        // Where all are alike, nothing is drawn: inputs stay what they were.
        let wild = parameters.wild_pct > 0 && chance(&mut self.rng, parameters.wild_pct);
        NewOrder { w_id, d_id, c_id, date: self.next_date(), line_count: line_count as u8, all_lines, wild }
    }

    fn payment(&mut self, parameters: &Parameters, w_id: u16) -> Payment {
        let d_id = self.district();
        let remote = parameters.warehouses > 1 && chance(&mut self.rng, parameters.remote_payment_pct);
        let (c_w_id, c_d_id) =
            if remote { (self.other_warehouse(parameters, w_id), self.district()) } else { (w_id, d_id) };
        Payment {
            w_id,
            d_id,
            c_w_id,
            c_d_id,
            customer: self.customer(parameters),
            amount: self.rng.random_range(DOLLAR..=5000 * DOLLAR),
            date: self.next_date(),
            history_id: self.next_history_id(),
        }
    }

    fn order_status(&mut self, parameters: &Parameters, w_id: u16) -> OrderStatus {
        OrderStatus { w_id, d_id: self.district(), customer: self.customer(parameters) }
    }

    fn delivery(&mut self, w_id: u16) -> Delivery {
        Delivery { w_id, carrier_id: self.rng.random_range(1..=10), date: self.next_date() }
    }

    fn stock_level(&mut self, w_id: u16) -> StockLevel {
        StockLevel { w_id, d_id: self.district(), threshold: self.rng.random_range(10..=20) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mix;
    use super::*;

    fn draws(parameters: &Parameters, worker: usize, count: usize) -> Vec<Input> {
        let mut generator = Generator::new(parameters, worker, 1, 42);
        let mut input = Input::default();
        let mut draw = || {
            generator.draw(parameters, &mut input);
            input.clone()
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn shares_are_those_of_the_parameters() {
        let parameters = Parameters { warehouses: 4, ..Parameters::default() };
        let inputs = draws(&parameters, 6, 100_000);
        for (kind, percent) in Mix::FULL.0.into_iter().enumerate() {
            let count = inputs.iter().filter(|input| input.kind() as usize == kind).count();
            assert!(count.abs_diff(usize::from(percent) * 1000) < 600, "{} x {}", count, Kind::NAMES[kind]);
        }
        let mut lines = (0, 0);
        let mut rollbacks = (0, 0);
        let mut payments = (0, 0, 0);
        for input in &inputs {
            match input {
                Input::NewOrder(order) => {
                    assert_eq!(order.w_id, 3, "worker 6 of 4 warehouses");
                    assert!((5..=15).contains(&order.line_count));
                    let invalid = order.lines().iter().filter(|line| line.i_id > 100_000).count();
                    assert!(invalid == 0 || order.lines()[order.lines().len() - 1].i_id == 100_001);
                    rollbacks = (rollbacks.0 + invalid, rollbacks.1 + 1);
                    let remote = order.lines().iter().filter(|line| line.supply_w_id != 3).count();
                    lines = (lines.0 + remote, lines.1 + order.lines().len());
                }
                Input::Payment(payment) => {
                    assert!((100..=500_000).contains(&payment.amount));
                    assert!(payment.c_w_id != 3 || payment.c_d_id == payment.d_id);
                    let named = matches!(payment.customer, CustomerBy::LastName(_));
                    payments.0 += usize::from(payment.c_w_id != 3);
                    payments.1 += usize::from(named);
                    payments.2 += 1;
                }
                _ => {}
            }
        }
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
        assert!((percent(lines.0, lines.1) - 1.0).abs() < 0.15, "{lines:?}");
        assert!((percent(rollbacks.0, rollbacks.1) - 1.0).abs() < 0.25, "{rollbacks:?}");
        assert!((percent(payments.0, payments.2) - 15.0).abs() < 1.0, "{payments:?}");
        assert!((percent(payments.1, payments.2) - 60.0).abs() < 1.5, "{payments:?}");
    }

    #[test]
    fn one_warehouse_has_no_remote_ones() {
        let parameters =
            Parameters { remote_item_pct: 100, remote_payment_pct: 100, ..Parameters::default() };
        for input in draws(&parameters, 0, 1000) {
            match input {
                Input::NewOrder(order) => assert!(order.lines().iter().all(|line| line.supply_w_id == 1)),
                Input::Payment(payment) => assert_eq!((payment.c_w_id, payment.c_d_id), (1, payment.d_id)),
                _ => {}
            }
        }
    }

    #[test]
    fn refreshing_makes_keys_and_dates_new() {
        let parameters = Parameters { mix: Mix::PAYMENT, ..Parameters::default() };
        let mut generator = Generator::new(&parameters, 0, 9, 1);
        let mut input = Input::default();
        generator.draw(&parameters, &mut input);
        let old = input.clone();
        generator.refresh(&mut input);
        match (old, input) {
            (Input::Payment(old), Input::Payment(new)) => {
                assert!(new.history_id > old.history_id && same_generator(new.history_id, old.history_id));
                assert!(new.date > old.date);
                assert_eq!((new.amount, new.customer), (old.amount, old.customer));
            }
            _ => panic!("a payment-only mix"),
        }
    }

    #[test]
    fn random_binding_uses_every_warehouse() {
        let parameters = Parameters {
            warehouses: 5,
            binding: Binding::Random,
            mix: Mix([0, 0, 0, 0, 100]),
            ..Parameters::default()
        };
        let mut seen = [false; 6];
        for input in draws(&parameters, 0, 200) {
            if let Input::StockLevel(input) = input {
                seen[usize::from(input.w_id)] = true;
            }
        }
        assert_eq!(seen, [false, true, true, true, true, true]);
    }
}
