//! TPC-C: order entry at a wholesale supplier. The five transactions of clause 2, the population
//! of clause 4.3 and the consistency conditions of clause 3.3.2.
//!
//! The standard form is the default: D_NEXT_O_ID is a column, one New-Order in a hundred rolls back, all tables
//! grow, Delivery is one transaction over ten districts. [`Mode`] offers the deviations of two published
//! implementations for like-for-like comparisons, and names itself in [`Workload::parameters`].
//!
//! | room | what |
//! |---|---|
//! | [`schema`] | tables, column groups, indexes |
//! | `random` | NURand, names, strings |
//! | `load` | the initial population |
//! | `parameters` | what it can be told |
//! | [`input`] | drawing the arguments of transactions |
//! | `transactions` | the transactions |
//! | [`delivery`] | Delivery, in two texts |
//! | [`items_first`] | New-Order, which looks its items up first, in two texts |
//! | `told` | what calls tell that they will access |
//! | `deferred` | those that write, as deferring transactions |
//! | [`check`] | the conditions after a run |
//! | [`probe`] | two of them, during a run |

pub mod transactions;

pub mod check;
mod deferred;
pub mod delivery;
pub mod input;
pub mod items_first;
mod load;
mod logged;
mod parameters;
pub mod probe;
mod random;
pub mod schema;
mod told;

use crate::missing::Missing;
use crate::{Check, Workload};
use heddledb::internals::BuilderInternals;
use heddledb::internals::shared::{SharedU32, SharedU64};
use heddledb::protocol::Execution;
use heddledb::{Builder, Conflict, Database, Error, Misuse, ReadTransaction, Result, Session, Transaction};
use input::{Generator, Input, Kind};
pub use parameters::{Binding, Mix, Mode, Parameters, Scale};
use std::sync::atomic::{AtomicBool, Ordering};
pub use transactions::{Output, Rollback};

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;
/// The most lines of an order.
pub const LINES_MAX: usize = 15;

/// TPC-C with its parameters.
#[derive(Debug)]
pub struct Tpcc {
    parameters: Parameters,
    /// How many generators there have been. Each gets a number of its own for HISTORY keys.
    /// Written and read by [`Workload::generator`]; it publishes nothing else.
    generators: SharedU64,
    /// For each district.
    outside: Box<[Outside]>,
    /// 1 where transactions that only read are calls, too.
    reads_called: SharedU64,
    /// 1 where parts of calls commit before the others.
    commits_in_parts: SharedU64,
    /// The log says of calls that they were made. Set before workers begin; no engine is told of looks at it.
    logs_calls: AtomicBool,
}

/// What is known of a district outside the transactions. Relaxed: all are hints or identities and
/// publish nothing else.
#[derive(Debug, Default)]
struct Outside {
    /// The next order id in [`Mode::Sto`]; written by every New-Order.
    next_o_id: SharedU32,
    /// The last order known to be delivered; written by whoever has committed a Delivery, read by
    /// the next.
    delivered: SharedU32,
    /// The order that the first deferred Delivery is to deliver, 0 if that is not known.
    first: SharedU32,
    /// How many deferred Deliveries have begun; counted in the warehouse's first district.
    begun: SharedU32,
}

impl Tpcc {
    /// The workload with `parameters`. A [`Mode`] other than the standard one overrides the mix
    /// and the rollbacks that it does not know.
    ///
    /// # Errors
    /// [`Misuse::Option`] for parameters that make no sense.
    pub fn new(mut parameters: Parameters) -> Result<Self> {
        let Parameters { warehouses, mix, scale, mode, .. } = parameters;
        let option = |text: String| Err(Misuse::Option(text).into());
        if warehouses == 0 {
            return option("TPC-C needs at least one warehouse".into());
        }
        if !(1..=3000).contains(&scale.customers) || scale.items == 0 || scale.orders == 0 {
            return option(format!(
                "TPC-C cannot have {scale:?}; at most 3000 customers, and nothing may be 0"
            ));
        }
        if mix.0.iter().map(|percent| u32::from(*percent)).sum::<u32>() != 100 {
            return option(format!("the mix {mix} does not add up to 100"));
        }
        let percentages = [
            parameters.remote_item_pct,
            parameters.remote_payment_pct,
            parameters.rollback_pct,
            parameters.wild_pct,
        ];
        if percentages.iter().any(|percent| *percent > 100) {
            return option("a percentage is above 100".into());
        }
        if parameters.wild_pct > 0 && !parameters.deferred {
            return option("a share that does not defer needs others that do: give --deferred, too".into());
        }
        if parameters.items_first && (parameters.deferred || mode == Mode::Sto) {
            return option(
                "New-Order with its items first is neither deferred nor numbered outside of transactions (mode sto)".into(),
            );
        }
        if parameters.orders_last && (parameters.items_first || mode != Mode::Spec) {
            return option(
                "New-Order with orders last has its items first already, and is as in the standard (mode spec)".into(),
            );
        }
        if parameters.orders_last && !parameters.delivery_adds {
            return option(
                "a Delivery that reads what customers owe does not wait for an order's rows: give --delivery-adds with --orders-last".into(),
            );
        }
        if parameters.delivery_adds && parameters.last_order_status {
            return option(
                "an Order-Status among those that write comes to orders as well, and a Delivery that adds takes it that none does: leave out either".into(),
            );
        }
        if parameters.delivery_adds && parameters.deferred {
            return option(
                "a Delivery that is deferred writes down its additions already: leave out either --deferred or --delivery-adds".into(),
            );
        }
        if parameters.deferred && mode == Mode::Sto {
            return option(
                "orders that are numbered outside of transactions (mode sto) cannot be deferred".into(),
            );
        }
        if mode != Mode::Spec {
            parameters.rollback_pct = 0;
        }
        if mode == Mode::Dbx1000 && mix.0[2..] != [0, 0, 0] {
            parameters.mix = Mix::NP;
        }
        let outside = (0..Scale::districts(warehouses)).map(|_| Outside::default()).collect();
        let (generators, reads_called) = (SharedU64::new(0), SharedU64::new(0));
        let (commits_in_parts, logs_calls) = (SharedU64::new(0), AtomicBool::new(false));
        Ok(Self { parameters, generators, outside, reads_called, commits_in_parts, logs_calls })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn district_index(w_id: u16, d_id: u8) -> usize {
        (usize::from(w_id) - 1) * usize::from(DISTRICTS) + usize::from(d_id) - 1
    }

    /// Why a Delivery that comes by a row of new_order finds no order. Where calls commit in parts, the New-Order's last ones are yet to come, and the
    /// part of the Delivery is executed again.
    fn too_early(&self) -> Error {
        if self.commits_in_parts.load() == 1 {
            Conflict::Accessed.into()
        } else {
            Error::user(Missing("order"))
        }
    }

    fn outside(&self, w_id: u16, d_id: u8) -> &Outside {
        &self.outside[Self::district_index(w_id, d_id)]
    }
}

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each type.
    pub commits: [u64; 5],
    /// Order lines entered.
    pub lines: u64,
    /// Their quantities.
    pub quantity: u64,
    /// Those that another warehouse supplies.
    pub remote_lines: u64,
    /// Cents paid.
    pub paid: i64,
    /// Orders delivered, by district.
    pub delivered: Vec<u64>,
    /// Districts without an order to deliver.
    pub skipped: u64,
    /// For each generator whose payments are in here: its first HISTORY key, and one past its last.
    pub history: Vec<(u64, u64)>,
}

impl Workload for Tpcc {
    type Generator = Generator;
    type Input = Input;
    type Output = Output;
    type Ledger = Ledger;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let Parameters { warehouses, mix, binding, scale, commutative, delivery_hint, mode, .. } =
            &self.parameters;
        let mut list = vec![
            ("warehouses", warehouses.to_string()),
            ("mode", mode.about().to_string()),
            ("mix", mix.to_string()),
            ("binding", binding.name().to_string()),
            ("remote_item_pct", self.parameters.remote_item_pct.to_string()),
            ("remote_payment_pct", self.parameters.remote_payment_pct.to_string()),
            ("rollback_pct", self.parameters.rollback_pct.to_string()),
            ("commutative", commutative.to_string()),
            ("delivery_hint", delivery_hint.to_string()),
        ];
        if self.parameters.last_order_status {
            list.push(("order_status", "a district's last order, among those that write".to_string()));
        }
        if self.parameters.deferred {
            list.push(("deferred", "New-Order, Payment and Delivery".to_string()));
        }
        if self.parameters.items_first {
            list.push(("order of New-Order", "items first".to_string()));
        }
        if self.parameters.orders_last {
            list.push(("order of New-Order", "items first, orders last".to_string()));
        }
        if self.parameters.delivery_adds {
            list.push(("Delivery", "adds to what customers owe".to_string()));
        }
        if self.parameters.wild_pct > 0 {
            list.push(("wild_pct", self.parameters.wild_pct.to_string()));
        }
        if *scale != Scale::FULL {
            list.push(("customers per district", scale.customers.to_string()));
            list.push(("items", scale.items.to_string()));
            list.push(("orders per district", scale.orders.to_string()));
        }
        list.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &Kind::NAMES
    }

    fn tables(&self, builder: Builder) -> Builder {
        let mut builder = load::tables(&self.parameters, builder);
        let Parameters { last_order_status, commutative, mix: Mix(shares), .. } = self.parameters;
        let is_called = |kind: Kind| !last_order_status || shares[kind as usize] > 0;
        let logs_calls = builder.logs_calls();
        self.logs_calls.store(logs_calls, Ordering::Relaxed);
        if logs_calls {
            builder = logged::procedures(builder);
        }
        if is_called(Kind::NewOrder) {
            builder = match self.parameters {
                Parameters { items_first: true, .. } => {
                    builder.procedure::<items_first::NewOrderItemsFirst>()
                }
                Parameters { orders_last: true, .. } => {
                    builder.procedure::<items_first::NewOrderOrdersLast>()
                }
                _ => builder.procedure::<transactions::NewOrder>(),
            };
        }
        if is_called(Kind::Delivery) {
            builder = match self.parameters.delivery_adds {
                false => builder.procedure::<delivery::Delivery>(),
                true => builder.procedure::<delivery::DeliveryByAdds>(),
            };
        }
        if last_order_status {
            builder = builder.procedure::<transactions::LastOrderStatus>();
        }
        self.commits_in_parts.store((builder.execution() == Execution::Chopped).into());
        let reads_called = builder.execution().is_announced();
        self.reads_called.store(reads_called.into());
        if reads_called {
            builder =
                builder.procedure::<transactions::OrderStatus>().procedure::<transactions::StockLevel>();
        }
        match commutative {
            _ if !is_called(Kind::Payment) => builder,
            true => builder.procedure::<transactions::Payment>(),
            false => builder.procedure::<transactions::PaymentByUpdates>(),
        }
    }

    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        for outside in &self.outside {
            outside.next_o_id.store(self.parameters.scale.orders + 1);
            outside.delivered.store(0);
            outside.first.store(self.parameters.scale.delivered() + 1);
            outside.begun.store(0);
        }
        load::load(&self.parameters, db, seed, progress)
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Generator {
        // Relaxed: only the number must be unique.
        let number = self.generators.fetch_add(1) + 1;
        Generator::new(&self.parameters, worker, number, seed)
    }

    fn draw(&self, generator: &mut Generator, input: &mut Input) {
        generator.draw(&self.parameters, input);
    }

    fn refresh(&self, generator: &mut Generator, input: &mut Input) {
        generator.refresh(input);
    }

    fn kind(&self, input: &Input) -> usize {
        input.kind() as usize
    }

    #[inline]
    fn execute<T: Transaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        match input {
            Input::NewOrder(input) if self.parameters.items_first => {
                items_first::new_order_items_first(tx, self, input)
            }
            Input::NewOrder(input) if self.parameters.orders_last => {
                items_first::new_order_orders_last(tx, self, input)
            }
            Input::NewOrder(input) => transactions::new_order(tx, self, input),
            Input::Payment(input) if self.parameters.commutative => transactions::payment(tx, self, input),
            Input::Payment(input) => transactions::payment_by_updates(tx, self, input),
            Input::Delivery(input) if self.parameters.delivery_adds => {
                delivery::delivery_by_adds(tx, self, input)
            }
            Input::Delivery(input) => delivery::delivery(tx, self, input),
            Input::OrderStatus(input) if self.parameters.last_order_status => {
                transactions::last_order_status(tx, input.w_id, input.d_id)
            }
            Input::OrderStatus(_) | Input::StockLevel(_) => self.look(tx, input),
        }
    }

    /// Transactions that write are calls. Those that only read are closures, unless calls tell what they access: among the
    /// analysed they would join pieces of the others, which access the same tables in another order.
    #[inline]
    fn call(&self, session: &mut Session, input: &Input) -> Result<Output> {
        match input {
            // A body that draws the order's number outside of the transaction cannot be executed again.
            _ if self.parameters.mode == Mode::Sto => session.run(|tx| self.execute(tx, input)),
            Input::NewOrder(input) if self.parameters.deferred && !input.wild => {
                deferred::new_order(session, self, input)
            }
            Input::Payment(input) if self.parameters.deferred => deferred::payment(session, self, input),
            Input::Delivery(input) if self.parameters.deferred => deferred::delivery(session, self, input),
            Input::NewOrder(_) | Input::Payment(_) | Input::Delivery(_)
                if self.logs_calls.load(Ordering::Relaxed) =>
            {
                logged::call(self, session, input)
            }
            Input::NewOrder(input) if self.parameters.items_first => {
                session.call(items_first::NewOrderItemsFirst, (self, input))
            }
            Input::NewOrder(input) if self.parameters.orders_last => {
                session.call(items_first::NewOrderOrdersLast, (self, input))
            }
            Input::NewOrder(input) => session.call(transactions::NewOrder, (self, input)),
            Input::Payment(input) if self.parameters.commutative => {
                session.call(transactions::Payment, (self, input))
            }
            Input::Payment(input) => session.call(transactions::PaymentByUpdates, (self, input)),
            Input::Delivery(input) if self.parameters.delivery_adds => {
                session.call(delivery::DeliveryByAdds, (self, input))
            }
            Input::Delivery(input) => session.call(delivery::Delivery, (self, input)),
            Input::OrderStatus(input) if self.parameters.last_order_status => {
                session.call(transactions::LastOrderStatus, (input.w_id, input.d_id))
            }
            Input::OrderStatus(input) if self.reads_called.load() == 1 => {
                session.call(transactions::OrderStatus, input)
            }
            Input::StockLevel(input) if self.reads_called.load() == 1 => {
                session.call(transactions::StockLevel, (self, input))
            }
            Input::OrderStatus(_) | Input::StockLevel(_) => session.run(|tx| self.look(tx, input)),
        }
    }

    fn is_submittable(&self) -> bool {
        self.parameters.mode != Mode::Sto && !self.parameters.deferred
    }

    fn is_loggable(&self) -> bool {
        self.is_submittable()
    }

    #[inline]
    fn only_reads(&self, input: &Input) -> bool {
        match input {
            Input::OrderStatus(_) => !self.parameters.last_order_status,
            input => matches!(input, Input::StockLevel(_)),
        }
    }

    #[inline]
    fn look<T: ReadTransaction>(&self, tx: &mut T, input: &Input) -> Result<Output> {
        match input {
            Input::OrderStatus(input) => transactions::order_status(tx, input),
            Input::StockLevel(input) => transactions::stock_level(tx, self, input),
            _ => Err(Error::user("this transaction writes")),
        }
    }

    /// All stock by key, and all order lines by a scan.
    fn sweep<T: ReadTransaction>(&self, tx: &mut T) -> Result<u64> {
        self.inventory(tx)
    }

    fn looked_ahead(&self, output: &Output) -> u64 {
        match output {
            Output::Delivery { looked_ahead, .. } => u64::from(*looked_ahead),
            _ => 0,
        }
    }

    fn record(&self, ledger: &mut Ledger, input: &Input, output: Output) {
        ledger.commits[input.kind() as usize] += 1;
        match (input, output) {
            (Input::NewOrder(order), _) => {
                for line in order.lines() {
                    ledger.lines += 1;
                    ledger.quantity += u64::from(line.quantity);
                    ledger.remote_lines += u64::from(line.supply_w_id != order.w_id);
                }
            }
            (Input::Payment(payment), _) => {
                ledger.paid += payment.amount;
                let id = payment.history_id;
                match ledger.history.iter_mut().find(|(first, _)| input::same_generator(*first, id)) {
                    Some((first, end)) => (*first, *end) = ((*first).min(id), (*end).max(id + 1)),
                    None => ledger.history.push((id, id + 1)),
                }
            }
            (Input::Delivery(delivery), Output::Delivery { orders, .. }) => {
                ledger.delivered.resize(self.outside.len(), 0);
                for (d_id, order) in (1..=DISTRICTS).zip(orders) {
                    if order == 0 {
                        ledger.skipped += 1;
                        continue;
                    }
                    ledger.delivered[Self::district_index(delivery.w_id, d_id)] += 1;
                    self.outside(delivery.w_id, d_id).delivered.fetch_max(order);
                }
            }
            _ => {}
        }
    }

    fn check(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        check::check(self, db, ledgers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked_and_fitted_to_the_mode() {
        let wrong = Parameters { warehouses: 0, ..Parameters::default() };
        assert!(Tpcc::new(wrong).is_err());
        let rival = Tpcc::new(Parameters { mode: Mode::Dbx1000, ..Parameters::default() }).unwrap();
        assert_eq!((rival.parameters().mix, rival.parameters().rollback_pct), (Mix::NP, 0));
        let rival = Tpcc::new(Parameters { mode: Mode::Sto, ..Parameters::default() }).unwrap();
        assert_eq!((rival.parameters().mix, rival.parameters().rollback_pct), (Mix::FULL, 0));
    }
}
