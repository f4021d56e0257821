//! The initial population (clause 4.3.3).

use super::input::LOAD_DATE;
use super::random::{a_string, data, last_name, last_name_load, last_names, n_string, state, zip};
use super::schema::{
    Customer, DOLLAR, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use super::{DISTRICTS, LINES_MAX, Mode, Parameters, Scale};
use crate::batch::Batch;
use crate::random::{chance, mix, stream};
use heddledb::{Builder, Database, Result, Session, Text};
use rand::RngExt;
use rand::rngs::SmallRng;

/// W_YTD for each customer, in cents; D_YTD is the same. Equal to the sum of their HISTORY rows.
pub(super) const PAID: i64 = 10 * DOLLAR;

/// Room for rows that a run adds, as a multiple of those loaded. A table may grow beyond it.
const GROWTH: usize = 4;

/// Declares the tables.
pub(super) fn tables(parameters: &Parameters, builder: Builder) -> Builder {
    let Scale { customers, items, orders } = parameters.scale;
    let warehouses = usize::from(parameters.warehouses);
    let districts = Scale::districts(parameters.warehouses);
    let customers = districts * usize::from(customers);
    let growth = if parameters.mode == Mode::Dbx1000 { 1 } else { GROWTH };
    let orders = districts * orders as usize;
    builder
        .table::<Warehouse>(warehouses)
        .table::<District>(districts)
        .table::<Customer>(customers)
        .table::<History>(customers * growth)
        .table::<NewOrder>(orders)
        .table::<Order>(orders * growth)
        .table::<OrderLine>(orders * growth * 10)
        .table::<Item>(items as usize)
        .table::<Stock>(warehouses * items as usize)
}

/// S_QUANTITY of a stock row at first: 10 to 100, by a hash of the key, so that a check can tell it
/// again.
pub(super) fn initial_quantity(w_id: u16, i_id: u32) -> i32 {
    10 + (mix(u64::from(w_id) << 32 | u64::from(i_id)) % 91) as i32
}

/// Fills the tables.
pub(super) fn load(
    parameters: &Parameters,
    db: &Database,
    seed: u64,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<()> {
    let mut session = db.session()?;
    // Each warehouse takes about as long as its stock and eleven districts.
    let steps = f64::from(parameters.warehouses) * f64::from(DISTRICTS + 2) + 1.0;
    let mut done = 0.0;
    let mut step = |units: u8| {
        done += f64::from(units);
        progress(done / steps);
    };
    items(parameters, &mut session, &mut stream(seed, 0))?;
    step(1);
    let mut history_id = 0;
    for w_id in 1..=parameters.warehouses {
        let mut rng = stream(seed, u64::from(w_id));
        warehouse(parameters, &mut session, &mut rng, w_id)?;
        stock(parameters, &mut session, &mut rng, w_id)?;
        step(2);
        for d_id in 1..=DISTRICTS {
            district(parameters, &mut session, &mut rng, w_id, d_id)?;
            customers(parameters, &mut session, &mut rng, w_id, d_id, &mut history_id)?;
            if parameters.mode != Mode::Dbx1000 {
                orders(parameters, &mut session, &mut rng, w_id, d_id)?;
            }
            step(1);
        }
    }
    Ok(())
}

fn items(parameters: &Parameters, session: &mut Session, rng: &mut SmallRng) -> Result<()> {
    let mut batch = Batch::new();
    for i_id in 1..=parameters.scale.items {
        let item = Item {
            i_id,
            im_id: rng.random_range(1..=10_000),
            price: rng.random_range(DOLLAR..=100 * DOLLAR),
            name: a_string(rng, 14..=24),
            data: data(rng),
        };
        batch.push(session, item)?;
    }
    batch.flush(session)
}

fn warehouse(parameters: &Parameters, session: &mut Session, rng: &mut SmallRng, w_id: u16) -> Result<()> {
    let warehouse = Warehouse {
        w_id,
        tax: rng.random_range(0..=2000),
        name: a_string(rng, 6..=10),
        street_1: a_string(rng, 10..=20),
        street_2: a_string(rng, 10..=20),
        city: a_string(rng, 10..=20),
        state: state(rng),
        zip: zip(rng),
        ytd: PAID * i64::from(parameters.scale.customers) * i64::from(DISTRICTS),
    };
    let mut batch = Batch::new();
    batch.push(session, warehouse)?;
    batch.flush(session)
}

fn stock(parameters: &Parameters, session: &mut Session, rng: &mut SmallRng, w_id: u16) -> Result<()> {
    let mut batch = Batch::new();
    for i_id in 1..=parameters.scale.items {
        let stock = Stock {
            w_id,
            i_id,
            quantity: initial_quantity(w_id, i_id),
            ytd: 0,
            order_cnt: 0,
            remote_cnt: 0,
            data: data(rng),
            dist_01: a_string(rng, 24..=24),
            dist_02: a_string(rng, 24..=24),
            dist_03: a_string(rng, 24..=24),
            dist_04: a_string(rng, 24..=24),
            dist_05: a_string(rng, 24..=24),
            dist_06: a_string(rng, 24..=24),
            dist_07: a_string(rng, 24..=24),
            dist_08: a_string(rng, 24..=24),
            dist_09: a_string(rng, 24..=24),
            dist_10: a_string(rng, 24..=24),
        };
        batch.push(session, stock)?;
    }
    batch.flush(session)
}

fn district(
    parameters: &Parameters,
    session: &mut Session,
    rng: &mut SmallRng,
    w_id: u16,
    d_id: u8,
) -> Result<()> {
    let district = District {
        w_id,
        d_id,
        name: a_string(rng, 6..=10),
        street_1: a_string(rng, 10..=20),
        street_2: a_string(rng, 10..=20),
        city: a_string(rng, 10..=20),
        state: state(rng),
        zip: zip(rng),
        ytd: PAID * i64::from(parameters.scale.customers),
        next_o_id: parameters.scale.orders + 1,
        tax: rng.random_range(0..=2000),
    };
    let mut batch = Batch::new();
    batch.push(session, district)?;
    batch.flush(session)
}

fn customers(
    parameters: &Parameters,
    session: &mut Session,
    rng: &mut SmallRng,
    w_id: u16,
    d_id: u8,
    history_id: &mut u64,
) -> Result<()> {
    let mut batch = Batch::new();
    let mut history = Batch::new();
    let customers = parameters.scale.customers;
    for c_id in 1..=customers {
        let number = u32::from(c_id) - 1;
        let customer = Customer {
            w_id,
            d_id,
            c_id,
            credit: if chance(rng, 10) { Text::truncated("BC") } else { Text::truncated("GC") },
            discount: rng.random_range(0..=5000),
            last: if number < last_names(customers) {
                last_name(number)
            } else {
                last_name_load(rng, customers)
            },
            first: a_string(rng, 8..=16),
            middle: Text::truncated("OE"),
            since: LOAD_DATE,
            credit_lim: 50_000 * DOLLAR,
            street_1: a_string(rng, 10..=20),
            street_2: a_string(rng, 10..=20),
            city: a_string(rng, 10..=20),
            state: state(rng),
            zip: zip(rng),
            phone: n_string(rng, 16..=16),
            ytd_payment: PAID,
            balance: -PAID,
            payment_cnt: 1,
            delivery_cnt: 0,
            data: a_string(rng, 300..=500),
        };
        batch.push(session, customer)?;
        if parameters.mode != Mode::Dbx1000 {
            let row = History {
                id: *history_id,
                c_w_id: w_id,
                w_id,
                c_id,
                c_d_id: d_id,
                d_id,
                date: LOAD_DATE,
                amount: PAID,
                data: a_string(rng, 12..=24),
            };
            *history_id += 1;
            history.push(session, row)?;
        }
    }
    batch.flush(session)?;
    history.flush(session)
}

fn orders(
    parameters: &Parameters,
    session: &mut Session,
    rng: &mut SmallRng,
    w_id: u16,
    d_id: u8,
) -> Result<()> {
    let Scale { customers, items, orders } = parameters.scale;
    let mut buyers: Vec<u16> = (1..=customers).collect();
    for last in (1..buyers.len()).rev() {
        buyers.swap(last, rng.random_range(0..=last));
    }
    let (mut order_batch, mut line_batch, mut waiting) = (Batch::new(), Batch::new(), Batch::new());
    for (o_id, c_id) in (1..=orders).zip(buyers.into_iter().cycle()) {
        let delivered = o_id <= parameters.scale.delivered();
        let ol_cnt = rng.random_range(5..=LINES_MAX as u8);
        let order = Order {
            w_id,
            d_id,
            o_id,
            c_id,
            ol_cnt,
            all_local: true,
            entry_d: LOAD_DATE,
            carrier_id: delivered.then(|| rng.random_range(1..=10)),
        };
        order_batch.push(session, order)?;
        for number in 1..=ol_cnt {
            let line = OrderLine {
                w_id,
                d_id,
                o_id,
                number,
                amount: if delivered { 0 } else { rng.random_range(1..=9999 * DOLLAR + 99) },
                i_id: rng.random_range(1..=items),
                supply_w_id: w_id,
                quantity: 5,
                dist_info: a_string(rng, 24..=24),
                delivery_d: delivered.then_some(LOAD_DATE),
            };
            line_batch.push(session, line)?;
        }
        if !delivered {
            waiting.push(session, NewOrder { w_id, d_id, o_id })?;
        }
    }
    order_batch.flush(session)?;
    line_batch.flush(session)?;
    waiting.flush(session)
}
