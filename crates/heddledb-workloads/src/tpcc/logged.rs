//! The transactions as procedures whose calls a log of commands holds. Their arguments are their own, and the workload is one of them: what
//! it says of itself in the log, and what stands for it when they are made again.
//!
//! A call depends on the [`Mode`] alone. That orders are numbered outside of transactions ([`Mode::Sto`]) is nothing that
//! could be done again, so such calls are refused.

use super::input::Input;
use super::{Mode, Output, Parameters, Tpcc, delivery, input, items_first, told, transactions};
use heddledb::procedure::Announcement;
use heddledb::{Builder, Error, Result, Session, Transaction, procedure};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::LazyLock;

const MODES: [Mode; 2] = [Mode::Spec, Mode::Dbx1000];

/// Registers them.
pub(super) fn procedures(builder: Builder) -> Builder {
    let builder = builder.procedure::<LoggedNewOrder>().procedure::<LoggedNewOrderItemsFirst>();
    let builder = builder.procedure::<LoggedNewOrderOrdersLast>();
    let builder = builder.procedure::<LoggedPayment>();
    let builder = builder.procedure::<LoggedPaymentByUpdates>();
    builder.procedure::<LoggedDelivery>().procedure::<LoggedDeliveryByAdds>()
}

/// Calls the one that does what an input that writes asks for.
pub(super) fn call(tpcc: &Tpcc, session: &mut Session, input: &Input) -> Result<Output> {
    match input {
        Input::NewOrder(input) if tpcc.parameters.items_first => {
            session.call(LoggedNewOrderItemsFirst, (tpcc, input.clone()))
        }
        Input::NewOrder(input) if tpcc.parameters.orders_last => {
            session.call(LoggedNewOrderOrdersLast, (tpcc, input.clone()))
        }
        Input::NewOrder(input) => session.call(LoggedNewOrder, (tpcc, input.clone())),
        Input::Payment(input) if tpcc.parameters.commutative => session.call(LoggedPayment, (tpcc, *input)),
        Input::Payment(input) => session.call(LoggedPaymentByUpdates, (tpcc, *input)),
        Input::Delivery(input) if tpcc.parameters.delivery_adds => {
            session.call(LoggedDeliveryByAdds, (tpcc, input.clone()))
        }
        Input::Delivery(input) => session.call(LoggedDelivery, (tpcc, input.clone())),
        Input::OrderStatus(_) | Input::StockLevel(_) => Err(Error::user("this transaction only reads")),
    }
}

static STAND_INS: [LazyLock<Tpcc>; 2] = [LazyLock::new(|| stand_in(0)), LazyLock::new(|| stand_in(1))];

/// Without hints: where they come from is not there any more.
fn stand_in(mode: usize) -> Tpcc {
    let parameters = Parameters { mode: MODES[mode], delivery_hint: false, ..Parameters::default() };
    Tpcc::new(parameters).expect("the default is possible")
}

impl Serialize for Tpcc {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match MODES.iter().position(|mode| *mode == self.parameters.mode) {
            Some(mode) => serializer.serialize_u8(mode as u8),
            None => Err(S::Error::custom("its orders are numbered outside of transactions")),
        }
    }
}

impl<'de> Deserialize<'de> for &'de Tpcc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mode = u8::deserialize(deserializer)?;
        let stand_in =
            STAND_INS.get(usize::from(mode)).ok_or_else(|| D::Error::custom("there is no such mode"))?;
        Ok(stand_in)
    }
}

fn order(to: &mut Announcement<'_>, tpcc: &Tpcc, input: input::NewOrder) {
    told::order_is_entered(to, tpcc, &input);
}

fn added(to: &mut Announcement<'_>, tpcc: &Tpcc, input: input::Payment) {
    told::payment_is_added(to, tpcc, &input);
}

fn written(to: &mut Announcement<'_>, tpcc: &Tpcc, input: input::Payment) {
    told::payment_is_written(to, tpcc, &input);
}

fn delivered(to: &mut Announcement<'_>, tpcc: &Tpcc, input: input::Delivery) {
    told::orders_are_delivered(to, tpcc, &input);
}

#[procedure(version = 1, announce = order)]
pub fn logged_new_order(tx: &mut impl Transaction, tpcc: &Tpcc, input: input::NewOrder) -> Result<Output> {
    transactions::new_order(tx, tpcc, &input)
}

#[procedure(version = 1, announce = order)]
pub fn logged_new_order_items_first(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: input::NewOrder,
) -> Result<Output> {
    items_first::new_order_items_first(tx, tpcc, &input)
}

#[procedure(version = 1, announce = order)]
pub fn logged_new_order_orders_last(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: input::NewOrder,
) -> Result<Output> {
    items_first::new_order_orders_last(tx, tpcc, &input)
}

#[procedure(version = 1, announce = added)]
pub fn logged_payment(tx: &mut impl Transaction, tpcc: &Tpcc, input: input::Payment) -> Result<Output> {
    transactions::payment(tx, tpcc, &input)
}

#[procedure(version = 1, announce = written)]
pub fn logged_payment_by_updates(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: input::Payment,
) -> Result<Output> {
    transactions::payment_by_updates(tx, tpcc, &input)
}

#[procedure(version = 1, announce = delivered)]
pub fn logged_delivery(tx: &mut impl Transaction, tpcc: &Tpcc, input: input::Delivery) -> Result<Output> {
    delivery::delivery(tx, tpcc, &input)
}

#[procedure(version = 1, announce = delivered)]
pub fn logged_delivery_by_adds(
    tx: &mut impl Transaction,
    tpcc: &Tpcc,
    input: input::Delivery,
) -> Result<Output> {
    delivery::delivery_by_adds(tx, tpcc, &input)
}
