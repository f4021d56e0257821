//! TPC-C in a log of commands: what is there when the calls are made again is word by word what was there before, and what a log of
//! values leads to, however many threads recover it (DGCC §4.2.2).

use heddledb::internals::SessionInternals;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{Builder, Database, Error, LogKind, ReadTransaction, Scan, Txn};
use heddledb_workloads::Workload;
use heddledb_workloads::tpcc::input::Input;
use heddledb_workloads::tpcc::schema::{
    ByCustomer, ByName, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use heddledb_workloads::tpcc::{DISTRICTS, Mix, Parameters, Scale, Tpcc};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;

const WAREHOUSES: u16 = 2;
const CALLS: usize = 600;

/// All rows and index entries, table by table, by key. Whatever is not there is said, too.
#[derive(Default, PartialEq)]
struct State {
    warehouses: Vec<Option<Warehouse>>,
    districts: Vec<Option<District>>,
    customers: Vec<Option<Customer>>,
    history: Vec<Option<History>>,
    orders: Vec<Option<Order>>,
    waiting: Vec<NewOrder>,
    lines: Vec<OrderLine>,
    items: Vec<Option<Item>>,
    stock: Vec<Option<Stock>>,
    by_name: Vec<(u16, u8, u16)>,
    by_customer: Vec<(u16, u8, u32)>,
}

impl State {
    /// What a database has. Tables with a hash index are read by the keys that they may have: payments have had these numbers.
    fn of(db: &Database, payments: &[u64]) -> Self {
        let read = |tx: &mut Txn| {
            let (mut state, scale) = (Self::default(), Scale::TINY);
            let loaded = u64::from(WAREHOUSES) * u64::from(DISTRICTS) * u64::from(scale.customers);
            for id in (0..=loaded).chain(payments.iter().copied()) {
                state.history.push(tx.get(id)?);
            }
            for item in 0..=scale.items {
                state.items.push(tx.get(item)?);
            }
            for w_id in 1..=WAREHOUSES {
                state.warehouses.push(tx.get(w_id)?);
                for item in 0..=scale.items {
                    state.stock.push(tx.get((w_id, item))?);
                }
                for d_id in 1..=DISTRICTS {
                    state.districts.push(tx.get((w_id, d_id))?);
                    for customer in 0..=scale.customers + 1 {
                        state.customers.push(tx.get((w_id, d_id, customer))?);
                    }
                    for order in 0..=scale.orders + CALLS as u32 {
                        state.orders.push(tx.get((w_id, d_id, order))?);
                    }
                }
            }
            state.waiting = tx.collect(Scan::<NewOrder>::all())?;
            state.lines = tx.collect(Scan::<OrderLine>::all())?;
            tx.scan_index(Scan::<ByName>::all(), |_, key| {
                state.by_name.push(key);
                Continue(())
            })?;
            tx.scan_index(Scan::<ByCustomer>::all(), |_, key| {
                state.by_customer.push(key);
                Continue(())
            })?;
            Ok(state)
        };
        let state = db.session().and_then(|mut session| session.run(read)).unwrap();
        let report = db.check().unwrap();
        assert!(report.is_whole(), "{report}");
        state
    }

    /// Requires the same state of another.
    fn assert_is(&self, due: &Self, place: &str) {
        fn same<T: PartialEq + Debug>(found: &[T], due: &[T], what: &str, place: &str) {
            let differs = found.iter().zip(due).find(|(found, due)| found != due);
            assert!(found == due, "{place}: {what}, {} for {}: {differs:?}", found.len(), due.len());
        }
        same(&self.warehouses, &due.warehouses, "warehouse", place);
        same(&self.districts, &due.districts, "district", place);
        same(&self.customers, &due.customers, "customer", place);
        same(&self.history, &due.history, "history", place);
        same(&self.orders, &due.orders, "order", place);
        same(&self.waiting, &due.waiting, "new_order", place);
        same(&self.lines, &due.lines, "order_line", place);
        same(&self.items, &due.items, "item", place);
        same(&self.stock, &due.stock, "stock", place);
        same(&self.by_name, &due.by_name, "customers by name", place);
        same(&self.by_customer, &due.by_customer, "orders by customer", place);
    }
}

/// A life of a directory: what it is made of, what was there at its end, and which payments there were.
struct Life {
    tpcc: Arc<Tpcc>,
    kind: Kind,
    log: LogKind,
    disk: Simulated,
    state: State,
    payments: Vec<u64>,
}

fn builder(tpcc: &Tpcc, kind: Kind, log: LogKind, disk: &Simulated) -> Builder {
    let builder = Database::builder().protocol(kind).storage(Arc::new(disk.clone())).sessions(6);
    tpcc.tables(builder.checkpoint_after(None).log_kind(log))
}

/// One client's calls, of which so many are under way at a time.
fn life(kind: Kind, log: LogKind, window: usize) -> Life {
    let mix = Mix([42, 40, 6, 8, 4]);
    let scale = Scale::TINY;
    let parameters =
        Parameters { warehouses: WAREHOUSES, scale, mix, rollback_pct: 10, ..Parameters::default() };
    let (tpcc, disk) = (Arc::new(Tpcc::new(parameters).unwrap()), Simulated::new());
    let db = builder(&tpcc, kind, log, &disk).executors(2).open().unwrap();
    tpcc.load(&db, 1, &|_| ()).unwrap();
    let mut session = db.session().unwrap();
    session.set_window(window);
    let (mut generator, mut under_way) = (tpcc.generator(0, 1, 7), VecDeque::new());
    let (mut payments, mut given_up) = (Vec::new(), 0);
    for call in 0..CALLS + window {
        if call >= window {
            let pending: heddledb::Pending<_> = under_way.pop_front().unwrap();
            match pending.wait() {
                Ok(_) => {}
                Err(Error::User(_)) => given_up += 1,
                Err(error) => panic!("{kind}: {error}"),
            }
        }
        if call < CALLS {
            let mut input = Input::default();
            tpcc.draw(&mut generator, &mut input);
            if let Input::Payment(payment) = &input {
                payments.push(payment.history_id);
            }
            let call = |session: &mut heddledb::Session, (tpcc, input): &(Arc<Tpcc>, Input)| {
                tpcc.call(session, input)
            };
            under_way.push_back(session.submit_as((Arc::clone(&tpcc), input), call).unwrap());
        }
    }
    assert!(given_up > 0, "{kind}: some orders are not wanted");
    drop(session);
    let state = State::of(&db, &payments);
    Life { tpcc, kind, log, disk, state, payments }
}

/// Opens the directory with any number of threads. Returns how many calls were made again.
fn reopens(life: &Life) -> u64 {
    let Life { tpcc, kind, log, disk, state, payments } = life;
    let calls = [1, 2, 8].map(|threads| {
        let builder = builder(tpcc, *kind, *log, disk).recovery_threads(threads).read_only(true);
        let db = builder.open().unwrap();
        State::of(&db, payments).assert_is(state, &format!("{kind}, {log:?}, {threads} threads"));
        db.recovery().unwrap().calls
    });
    assert!(calls.iter().all(|count| *count == calls[0]), "{calls:?}");
    calls[0]
}

const KINDS: [Kind; 3] = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow];

/// One call after another, so that both lives do the same.
#[test]
fn commands_lead_where_values_do() {
    for kind in KINDS {
        let [commands, values] = [LogKind::Commands, LogKind::Values].map(|log| life(kind, log, 1));
        commands.state.assert_is(&values.state, &format!("{kind}, logged as commands and as values"));
        let made_again = reopens(&commands);
        assert!(made_again > CALLS as u64 / 2, "{kind}: {made_again} calls");
        assert_eq!(reopens(&values), 0, "{kind}");
    }
}

/// Several calls at a time, in whatever order.
#[test]
fn commands_of_many_calls_at_a_time_are_made_again() {
    for kind in KINDS {
        let made_again = reopens(&life(kind, LogKind::Commands, 60));
        assert!(made_again > CALLS as u64 / 2, "{kind}: {made_again} calls");
    }
}
