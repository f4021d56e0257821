//! TPC-C at a tiny scale: under every protocol, in every mode, and with rows corrupted on purpose.

mod run;

use heddledb::internals::SessionInternals;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{Database, Error, LogKind, ReadTransaction, Result, Scan, Session, Text, Transaction};
use heddledb_workloads::tpcc::input::Input;
use heddledb_workloads::tpcc::probe::probe;
use heddledb_workloads::tpcc::schema::{
    Customer, District, History, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use heddledb_workloads::tpcc::{Binding, Ledger, Mix, Mode, Output, Parameters, Scale, Tpcc};
use heddledb_workloads::{ReadOnly, Workload};
use run::{Corruption, assert_every_check_can_report, assert_ok, kinds, loaded, run, run_reading};
use std::collections::VecDeque;
use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn tiny() -> Parameters {
    Parameters {
        warehouses: 2,
        scale: Scale::TINY,
        binding: Binding::Random,
        remote_item_pct: 10,
        rollback_pct: 5,
        mix: Mix([40, 35, 8, 9, 8]),
        ..Parameters::default()
    }
}

fn run_and_check(kind: Kind, read_only: ReadOnly, parameters: Parameters, threads: usize, count: usize) {
    let place = format!("{kind} on {threads} threads, {read_only}, {parameters:?}");
    let tpcc = Tpcc::new(parameters).unwrap();
    let db = loaded(&tpcc, kind, threads);
    assert_ok(&format!("{place}, loaded"), &tpcc.check(&db, &[]).unwrap());

    let (mut ledgers, mut aborts) = run_reading(read_only, &tpcc, &db, threads, count, 7);
    assert_ok(&place, &tpcc.check(&db, &ledgers).unwrap());
    // A second phase over the same database, as after a warm-up.
    let (more, more_aborts) = run_reading(read_only, &tpcc, &db, threads, count / 4, 8);
    ledgers.extend(more);
    aborts += more_aborts;
    assert_ok(&format!("{place}, second phase"), &tpcc.check(&db, &ledgers).unwrap());

    assert_eq!(
        aborts > 0,
        parameters.mode == Mode::Spec && parameters.mix.0[0] > 0,
        "{place}: {aborts} rollbacks"
    );
    for (number, percent) in tpcc.parameters().mix.0.into_iter().enumerate() {
        let commits: u64 = ledgers.iter().map(|ledger| ledger.commits[number]).sum();
        assert_eq!(commits > 0, percent > 0, "{place}: {commits} x {}", tpcc.kinds()[number]);
    }
    // The checks need the ledgers: without one of them something must not add up.
    ledgers.pop();
    assert!(tpcc.check(&db, &ledgers).unwrap().iter().any(|check| !check.ok), "{place}: a ledger is missing");
}

#[test]
fn every_protocol_passes_every_check() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            plain(kind, tiny(), threads, 2000);
        }
    }
}

#[test]
fn every_protocol_passes_every_check_with_readers_on_snapshots() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            run_and_check(kind, ReadOnly::Snapshot, tiny(), threads, 1000);
        }
    }
}

fn plain(kind: Kind, parameters: Parameters, threads: usize, count: usize) {
    run_and_check(kind, ReadOnly::Serializable, parameters, threads, count);
}

#[test]
fn payments_may_read_what_they_add_to() {
    for kind in kinds(2) {
        let parameters = Parameters { commutative: false, mix: Mix::NP, ..tiny() };
        plain(kind, parameters, 2, 1000);
    }
}

#[test]
fn the_modes_of_others_pass_their_checks() {
    for mode in [Mode::Dbx1000, Mode::Sto] {
        for kind in kinds(2) {
            plain(kind, Parameters { mode, ..tiny() }, 2, 1000);
        }
    }
}

/// Half of the transactions enter an order, half ask for the last.
#[test]
fn a_districts_last_order_is_always_there() {
    for kind in kinds(2) {
        let mix = Mix([50, 0, 50, 0, 0]);
        let parameters = Parameters { warehouses: 1, last_order_status: true, mix, ..tiny() };
        plain(kind, parameters, 2, 1000);
    }
}

#[test]
fn deferred_transactions_pass_every_check() {
    for kind in kinds(2) {
        plain(kind, Parameters { deferred: true, ..tiny() }, 2, 500);
    }
    for kind in [Kind::Silo, Kind::Drp] {
        plain(kind, Parameters { deferred: true, mode: Mode::Dbx1000, ..tiny() }, 2, 1000);
    }
    assert!(Tpcc::new(Parameters { deferred: true, mode: Mode::Sto, ..tiny() }).is_err());
}

/// Few orders wait, so Deliveries come to some whose rows are yet to be entered.
#[test]
fn orders_may_be_entered_last() {
    let mix = Mix([55, 5, 38, 1, 1]);
    let parameters = Parameters { orders_last: true, delivery_adds: true, warehouses: 1, mix, ..tiny() };
    for kind in kinds(2) {
        plain(kind, parameters, 2, 500);
    }
    let refused = [
        Parameters { delivery_adds: false, ..parameters },
        Parameters { items_first: true, ..parameters },
        Parameters { deferred: true, ..parameters },
        Parameters { mode: Mode::Sto, ..parameters },
        Parameters { last_order_status: true, ..parameters },
    ];
    assert!(refused.into_iter().all(|parameters| Tpcc::new(parameters).is_err()));
}

#[test]
fn one_warehouse_at_home() {
    for kind in kinds(2) {
        let parameters = Parameters { warehouses: 1, binding: Binding::Home, ..tiny() };
        plain(kind, parameters, 2, 500);
    }
}

/// Conditions 1 and 3 hold in every snapshot that a transaction commits on.
#[test]
fn no_committed_probe_sees_a_violation() {
    for kind in kinds(2) {
        let tpcc = Tpcc::new(Parameters { warehouses: 1, ..tiny() }).unwrap();
        let db = loaded(&tpcc, kind, 2);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&tpcc, &db, 1, 1000, 3);
                done.store(true, Ordering::Relaxed);
            });
            let mut session = db.session().unwrap();
            while !done.load(Ordering::Relaxed) {
                let seen = session.run(|tx| probe(tx, 1)).unwrap();
                assert_eq!(seen.violation(), None, "{kind}");
            }
        });
    }
}

/// What Order-Status and Stock-Level rest on, and what they answer, is of one moment.
#[test]
fn every_snapshot_is_of_one_moment() {
    for kind in kinds(2) {
        let tpcc = Tpcc::new(Parameters { warehouses: 1, ..tiny() }).unwrap();
        let readers = Tpcc::new(Parameters { mix: Mix([0, 0, 50, 0, 50]), ..*tpcc.parameters() }).unwrap();
        let db = loaded(&tpcc, kind, 2);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(&tpcc, &db, 1, 3000, 3);
                done.store(true, Ordering::Relaxed);
            });
            let mut session = db.session().unwrap();
            let (mut generator, mut input) = (readers.generator(0, 1, 5), Default::default());
            let (mut last, mut moments) = ([0; 11], 0);
            while !done.load(Ordering::Relaxed) {
                readers.draw(&mut generator, &mut input);
                assert!(readers.only_reads(&input));
                // Of this moment and of a recent one in turn.
                moments += 1;
                let next = if moments % 2 == 0 {
                    session.read(|snapshot| look_around(snapshot, &readers, &input))
                } else {
                    look_around(&mut session.snapshot().unwrap(), &readers, &input)
                };
                let next = next.unwrap();
                if moments % 2 == 1 {
                    assert!((1..=10).all(|d| next[d] >= last[d]), "{kind}: {next:?} after {last:?}");
                    last = next;
                }
            }
            assert!(moments > 2 && last[1] > 31, "{kind}: {moments} moments");
        });
    }
}

/// Requires that a warehouse is of one moment, and that the workload's own reading sees the same.
/// Returns D_NEXT_O_ID by district.
fn look_around<T: ReadTransaction>(
    tx: &mut T,
    readers: &Tpcc,
    input: &<Tpcc as Workload>::Input,
) -> Result<[u32; 11]> {
    assert_eq!(probe(tx, 1)?.violation(), None);
    let answer = readers.look(tx, input)?;
    let mut all = [0; 11];
    for d_id in 1..=10 {
        let next = tx.get_columns((1, d_id), District::next_o_id)?.unwrap();
        all[usize::from(d_id)] = next;
        assert_eq!(tx.get::<Order>((1, d_id, next))?, None);
        for o_id in next.saturating_sub(20)..next {
            let order =
                tx.get::<Order>((1, d_id, o_id))?.expect("all orders below the next number are there");
            let waiting = tx.get::<NewOrder>((1, d_id, o_id))?.is_some();
            assert_eq!(waiting, order.carrier_id.is_none(), "{order:?}");
            let mut numbers = Vec::new();
            tx.scan(Scan::<OrderLine>::prefix((1, d_id, o_id)), |line| {
                assert_eq!(line.delivery_d.is_none(), waiting, "{line:?}");
                numbers.push(line.number);
                Continue(())
            })?;
            assert!(numbers.iter().copied().eq(1..=order.ol_cnt), "{order:?}: {numbers:?}");
        }
        let mut beyond = 0;
        tx.scan(Scan::<OrderLine>::range((1, d_id, next, 0)..(1, d_id, u32::MAX, 0)), |_| {
            beyond += 1;
            Continue(())
        })?;
        assert_eq!(beyond, 0, "lines of an order that is not there");
    }
    if let Output::OrderStatus { o_id, lines } = answer {
        // The customer's district is any.
        let orders = (1..=10).map(|d_id| tx.get::<Order>((1, d_id, o_id)));
        let counts = orders.map(|order| Ok(order?.map_or(0, |order| order.ol_cnt)));
        assert!(o_id == 0 || counts.collect::<Result<Vec<_>>>()?.contains(&lines));
    }
    assert_eq!(readers.look(tx, input)?, answer, "the same question on the same snapshot");
    Ok(all)
}

/// What is done to a loaded database, and the checks that must report it.
const CORRUPTIONS: &[Corruption] = &[
    (
        "W_YTD one up",
        |tx| tx.update_columns(1, Warehouse::ytd, |ytd| *ytd += 1),
        &["condition 1:", "condition 8:", "ledger: W_YTD"],
    ),
    (
        "D_YTD one up",
        |tx| tx.update_columns((1, 3), District::ytd, |ytd| *ytd += 1),
        &["condition 1:", "condition 9:"],
    ),
    (
        "a gap in the order ids",
        |tx| tx.update_columns((1, 3), District::next_o_id, |next| *next += 1),
        &["condition 2:", "ledger: order ids"],
    ),
    (
        "a NEW_ORDER row lost in the middle",
        |tx| tx.delete::<NewOrder>((1, 2, 25)).map(|there| assert!(there)),
        &["condition 3:", "condition 5:", "condition 11:", "ledger: NEW_ORDER"],
    ),
    (
        "a NEW_ORDER row of a delivered order",
        |tx| tx.insert(NewOrder { w_id: 1, d_id: 2, o_id: 1 }),
        &["condition 3:", "condition 5:", "condition 11:", "ledger: NEW_ORDER"],
    ),
    (
        "a NEW_ORDER row without order",
        |tx| tx.insert(NewOrder { w_id: 1, d_id: 2, o_id: 31 }),
        &["condition 2:", "condition 5:", "condition 11:"],
    ),
    (
        "an order line lost",
        |tx| tx.delete::<OrderLine>((1, 1, 1, 2)).map(|there| assert!(there)),
        &["condition 4:", "condition 6:"],
    ),
    (
        "an order line too many",
        |tx| {
            let line = tx.get::<OrderLine>((1, 1, 1, 1))?.unwrap();
            tx.insert(OrderLine { number: 16, ..line })
        },
        &["condition 4:", "condition 6:"],
    ),
    (
        "an order line without order",
        |tx| {
            let line = tx.get::<OrderLine>((1, 1, 1, 1))?.unwrap();
            tx.insert(OrderLine { o_id: 4_000_000, ..line })
        },
        &["condition 4:", "condition 6:", "ledger: ORDER_LINE", "ledger: OL_QUANTITY"],
    ),
    (
        "a remote order line",
        |tx| {
            let line = tx.get::<OrderLine>((1, 1, 1, 1))?.unwrap();
            tx.insert(OrderLine { o_id: 4_000_000, supply_w_id: 2, ..line })
        },
        &["ledger: OL_SUPPLY_W_ID"],
    ),
    (
        "a carrier for a new order",
        |tx| tx.set_columns((1, 10, 30), Order::carrier_id, Some(3)),
        &["condition 5:", "condition 7:"],
    ),
    (
        "an undelivered line of a delivered order",
        |tx| tx.set_columns((1, 10, 3, 1), OrderLine::delivery_d, None),
        &["condition 7:"],
    ),
    (
        "a payment lost",
        |tx| tx.delete::<History>(5).map(|there| assert!(there)),
        &["condition 8:", "condition 9:", "condition 10:", "ledger: HISTORY", "ledger: H_AMOUNT"],
    ),
    ("a payment in the wrong district", |tx| tx.set_columns(5, History::d_id, 2), &["condition 9:"]),
    (
        "C_BALANCE one up",
        |tx| tx.update_columns((2, 5, 30), Customer::balance, |balance| *balance += 1),
        &["condition 10:", "condition 12:"],
    ),
    (
        "C_YTD_PAYMENT one up",
        |tx| tx.update_columns((2, 5, 30), Customer::ytd_payment, |paid| *paid += 1),
        &["condition 12:"],
    ),
    (
        "C_PAYMENT_CNT one up",
        |tx| tx.update_columns((2, 5, 30), Customer::payment_cnt, |count| *count += 1),
        &["ledger: C_PAYMENT_CNT"],
    ),
    (
        "C_DELIVERY_CNT one up",
        |tx| tx.update_columns((2, 5, 30), Customer::delivery_cnt, |count| *count += 1),
        &["ledger: C_DELIVERY_CNT"],
    ),
    (
        "a delivered amount",
        |tx| tx.set_columns((1, 10, 3, 1), OrderLine::amount, 1),
        &["condition 10:", "condition 12:"],
    ),
    (
        "S_YTD up by a whole refill",
        |tx| tx.update_columns((2, 7), Stock::ytd, |ytd| *ytd += 91),
        &["ledger: S_YTD", "ledger: OL_QUANTITY"],
    ),
    (
        "S_ORDER_CNT one up",
        |tx| tx.update_columns((2, 7), Stock::order_cnt, |count| *count += 1),
        &["ledger: S_ORDER_CNT", "ledger: ORDER_LINE"],
    ),
    (
        "S_REMOTE_CNT one up",
        |tx| tx.update_columns((2, 7), Stock::remote_cnt, |count| *count += 1),
        &["ledger: S_REMOTE_CNT", "ledger: OL_SUPPLY_W_ID"],
    ),
    (
        "S_QUANTITY one up",
        |tx| tx.update_columns((2, 7), Stock::quantity, |quantity| *quantity += 1),
        &["S_QUANTITY"],
    ),
    (
        "S_QUANTITY out of bounds",
        |tx| tx.update_columns((2, 7), Stock::quantity, |quantity| *quantity += 91),
        &["S_QUANTITY"],
    ),
    (
        "an order lost",
        |tx| tx.delete::<Order>((1, 1, 30)).map(|there| assert!(there)),
        &["condition 2:", "condition 5:", "condition 6:", "condition 11:", "ledger: ORDER"],
    ),
    (
        "an order that nobody entered",
        |tx| {
            let order = tx.get::<Order>((1, 1, 1))?.unwrap();
            tx.insert(Order { o_id: 1000, ..order })
        },
        &["ORDER_CUST_IDX"],
    ),
    (
        "a customer too many",
        |tx| {
            let customer = tx.get::<Customer>((1, 1, 1))?.unwrap();
            tx.insert(Customer { c_id: 31, first: Text::truncated("Ada"), ..customer })
        },
        &["CUSTOMER_NAME_IDX"],
    ),
];

#[test]
fn every_check_can_report() {
    assert_every_check_can_report(&Tpcc::new(tiny()).unwrap(), CORRUPTIONS);
}

fn session(db: &Database) -> Session {
    db.session().unwrap()
}

#[test]
fn a_violation_is_told_with_its_place() {
    let tpcc = Tpcc::new(tiny()).unwrap();
    let db = loaded(&tpcc, Kind::Silo, 1);
    session(&db).run(|tx| tx.update_columns((2, 3), District::next_o_id, |next| *next += 2)).unwrap();
    let checks = tpcc.check(&db, &[]).unwrap();
    let told = checks.iter().find(|check| check.name.starts_with("condition 2:")).unwrap();
    assert_eq!(told.detail, "2 of 40 violated, first: district (2, 3): D_NEXT_O_ID 33, max(O_ID) 30");
}

#[test]
fn a_rollback_leaves_nothing() {
    let parameters = Parameters { rollback_pct: 100, mix: Mix::NEW_ORDER, ..tiny() };
    let tpcc = Tpcc::new(parameters).unwrap();
    let db = loaded(&tpcc, Kind::Silo, 1);
    let (ledgers, aborts) = run(&tpcc, &db, 1, 100, 9);
    assert_eq!((aborts, ledgers[0].commits), (100, [0; 5]));
    assert_ok("after rollbacks only", &tpcc.check(&db, &ledgers).unwrap());
}

/// A log of commands holds calls of the New-Order, or the Delivery, that was asked for, and they are made again.
#[test]
fn a_log_of_commands_holds_the_calls_that_were_asked_for() {
    let orders = Parameters { mix: Mix::NEW_ORDER, ..tiny() };
    let deliveries = Parameters { mix: Mix([0, 0, 0, 100, 0]), ..tiny() };
    let all = [
        ("logged_new_order", orders),
        ("logged_new_order_items_first", Parameters { items_first: true, ..orders }),
        ("logged_new_order_orders_last", Parameters { orders_last: true, delivery_adds: true, ..orders }),
        ("logged_delivery", deliveries),
        ("logged_delivery_by_adds", Parameters { delivery_adds: true, ..deliveries }),
    ];
    for (due, parameters) in all {
        let tpcc = Tpcc::new(parameters).unwrap();
        let disk = Simulated::new();
        let builder = |log: LogKind| {
            let builder = Database::builder().protocol(Kind::Dgcc).storage(Arc::new(disk.clone()));
            tpcc.tables(builder.sessions(2).checkpoint_after(None).log_kind(log))
        };
        let db = builder(LogKind::Commands).open().unwrap();
        tpcc.load(&db, 1, &|_| ()).unwrap();
        let (ledgers, _) = run(&tpcc, &db, 1, 50, 9);
        drop(db);
        // Of whoever does not log commands, no procedure is known by which these could be made again.
        let refused = builder(LogKind::Values).open().err().expect("there are calls").to_string();
        assert!(refused.contains(&format!("procedure {due} ")), "{refused}");
        let db = builder(LogKind::Commands).open().unwrap();
        // Deliveries find few orders that wait.
        assert!(db.recovery().unwrap().calls >= 15, "{due}: {:?}", db.recovery());
        assert_ok(due, &tpcc.check(&db, &ledgers).unwrap());
    }
}

/// Calls that wait in a queue, where a dry run does not know the next order's number: they tell what they access.
#[test]
fn queued_calls_access_what_they_told() {
    const CALLS: usize = 1500;
    let spec = Parameters { warehouses: 1, mix: Mix([40, 40, 8, 6, 6]), ..tiny() };
    let all = [
        spec,
        Parameters { items_first: true, delivery_adds: true, commutative: false, ..spec },
        Parameters { orders_last: true, delivery_adds: true, ..spec },
        Parameters { mode: Mode::Dbx1000, ..spec },
        Parameters { last_order_status: true, ..spec },
    ];
    let kinds = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow];
    for (parameters, kind) in all.into_iter().flat_map(|parameters| kinds.map(|kind| (parameters, kind))) {
        let place = format!("{kind}, {parameters:?}");
        let tpcc = Arc::new(Tpcc::new(parameters).unwrap());
        let builder = Database::builder().protocol(kind).sessions(6).executors(2);
        let db = tpcc.tables(builder).open().unwrap();
        tpcc.load(&db, 1, &|_| ()).unwrap();
        let mut session = session(&db);
        session.set_window(100);
        let (mut generator, mut ledger) = (tpcc.generator(0, 1, 7), Ledger::default());
        let mut under_way = VecDeque::new();
        for call in 0..CALLS + 100 {
            if call < CALLS {
                let mut input = Input::default();
                tpcc.draw(&mut generator, &mut input);
                let arguments = (Arc::clone(&tpcc), input.clone());
                let pending =
                    session.submit_as(arguments, |session, (tpcc, input)| tpcc.call(session, input));
                under_way.push_back((input, pending.unwrap()));
            }
            if call >= 100 {
                let (input, pending) = under_way.pop_front().unwrap();
                match pending.wait() {
                    Ok(output) => tpcc.record(&mut ledger, &input, output),
                    Err(Error::User(_)) => {}
                    Err(error) => panic!("{place}: {error}"),
                }
            }
        }
        assert_ok(&place, &tpcc.check(&db, &[ledger]).unwrap());
        let metrics = db.metrics();
        assert_eq!(metrics.stats.unforeseen, 0, "{place}: {metrics}");
    }
}

#[test]
fn loading_repeats() {
    let tpcc = Tpcc::new(tiny()).unwrap();
    let row = || {
        let db = loaded(&tpcc, Kind::Silo, 1);
        let mut session = session(&db);
        session.run(|tx| Ok((tx.get::<Customer>((2, 3, 4))?, tx.get::<Stock>((2, 9))?))).unwrap()
    };
    assert_eq!(row(), row());
}
