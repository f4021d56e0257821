//! TPC-E at a small scale: under every protocol, in every variant, and with rows corrupted on purpose.

mod run;

use heddledb::protocol::Kind;
use heddledb::{ReadTransaction, Result, Scan, Text, Transaction, Txn};
use heddledb_workloads::Workload;
use heddledb_workloads::tpce::schema::{
    Broker, CashTransaction, CustomerAccount, Holding, HoldingHistory, HoldingSummary, LastTrade, Settlement,
    Trade, TradeHistory, TradeRequest,
};
use heddledb_workloads::tpce::{Mix, Parameters, Tpce};
use run::{Corruption, assert_every_check_can_report, assert_ok, kinds, loaded, run};

/// 20 customers have about 100 accounts, 13 securities and 2000 trades.
fn tiny() -> Parameters {
    Parameters { customers: 20, rollback_pct: 5, ..Parameters::default() }
}

fn run_and_check(kind: Kind, parameters: Parameters, threads: usize, count: usize) {
    let place = format!("{kind} on {threads} threads, {parameters:?}");
    let tpce = Tpce::new(parameters).unwrap();
    let db = loaded(&tpce, kind, threads);
    assert_ok(&format!("{place}, loaded"), &tpce.check(&db, &[]).unwrap());

    let (mut ledgers, mut aborts) = run(&tpce, &db, threads, count, 7);
    assert_ok(&place, &tpce.check(&db, &ledgers).unwrap());
    // A second phase over the same database, as after a warm-up.
    let (more, more_aborts) = run(&tpce, &db, threads, count / 4, 8);
    ledgers.extend(more);
    aborts += more_aborts;
    assert_ok(&format!("{place}, second phase"), &tpce.check(&db, &ledgers).unwrap());

    let commits = |kind: usize| ledgers.iter().map(|ledger| ledger.commits[kind]).sum::<u64>();
    let [orders, results, feeds, updates] = [0, 1, 2, 3].map(commits);
    assert_eq!(aborts > 0, parameters.rollback_pct > 0, "{place}: {aborts} rollbacks");
    assert!(results > orders / 2 && orders > count as u64 / 4, "{place}: {orders} orders, {results} results");
    assert_eq!(feeds > 0, parameters.limit_pct > 0, "{place}: {feeds} feeds");
    assert_eq!(updates > 0, parameters.mix != Mix::new(1, 0).unwrap(), "{place}: {updates} updates");
    let triggered: u64 = ledgers.iter().map(|ledger| ledger.triggered).sum();
    let limit_orders: u64 = ledgers.iter().map(|ledger| ledger.limit_orders).sum();
    assert!(triggered * 4 >= limit_orders * 3, "{place}: {triggered} of {limit_orders} triggered");
    // The checks need the ledgers: without one of them something must not add up.
    ledgers.pop();
    let checks = tpce.check(&db, &ledgers).unwrap();
    assert!(checks.iter().any(|check| !check.ok), "{place}: a ledger is missing");
}

#[test]
fn every_protocol_passes_every_check() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            run_and_check(kind, tiny(), threads, 2000);
        }
    }
}

#[test]
fn every_variant_passes() {
    let base = tiny();
    for parameters in [
        Parameters { security_range: Some(1), ..base },
        Parameters { security_range: Some(4), shared_trade_ids: true, ..base },
        Parameters { limit_pct: 100, mix: Mix::new(50, 50).unwrap(), ..base },
        Parameters { limit_pct: 0, mix: Mix::new(1, 0).unwrap(), rollback_pct: 0, ..base },
        Parameters { customers: 10, ..base },
    ] {
        for kind in kinds(2) {
            run_and_check(kind, parameters, 2, 800);
        }
    }
}

fn first_lot(tx: &mut Txn) -> Result<Holding> {
    Ok(tx.first(Scan::<Holding>::all())?.expect("a loaded lot"))
}

/// What is done to a loaded database, and the checks that must report it.
const CORRUPTIONS: &[Corruption] = &[
    (
        "HS_QTY one up",
        |tx| {
            let lot = first_lot(tx)?;
            tx.update_columns((lot.ca_id, lot.s_symb), HoldingSummary::qty, |qty| *qty += 1)
        },
        &["condition 1:"],
    ),
    (
        "a HOLDING_SUMMARY row lost",
        |tx| {
            let lot = first_lot(tx)?;
            tx.delete::<HoldingSummary>((lot.ca_id, lot.s_symb)).map(|there| assert!(there))
        },
        &["condition 1:"],
    ),
    (
        "H_QTY one up",
        |tx| {
            let Holding { ca_id, s_symb, dts, t_id, .. } = first_lot(tx)?;
            tx.update_columns((ca_id, s_symb, dts, t_id), Holding::qty, |qty| *qty += 1)
        },
        &["condition 1:", "condition 9:"],
    ),
    (
        "a lot lost",
        |tx| {
            let Holding { ca_id, s_symb, dts, t_id, .. } = first_lot(tx)?;
            tx.delete::<Holding>((ca_id, s_symb, dts, t_id)).map(|there| assert!(there))
        },
        &["condition 1:", "condition 9:"],
    ),
    (
        "a lot without history",
        |tx| {
            let lot = first_lot(tx)?;
            tx.insert(Holding { t_id: 1 << 40, ..lot })
        },
        &["condition 1:", "condition 9:"],
    ),
    ("B_NUM_TRADES one up", |tx| tx.update_columns(0, Broker::num_trades, |n| *n += 1), &["condition 2:"]),
    (
        "B_COMM_TOTAL one up",
        |tx| tx.update_columns(0, Broker::comm_total, |sum| *sum += 1),
        &["condition 3:"],
    ),
    (
        "T_COMM one up",
        |tx| tx.update_columns(5, Trade::comm, |comm| *comm += 1),
        &["condition 3:", "SE_AMT and CT_AMT"],
    ),
    (
        "a trade is not completed",
        |tx| tx.set_columns(5, Trade::st_id, Text::truncated("SBMT")),
        &["condition 2:", "condition 3:", "condition 4:", "condition 6:", "condition 10:"],
    ),
    (
        "a state lost",
        |tx| {
            let dts = tx.get_columns(5, Trade::dts)?.unwrap();
            tx.delete::<TradeHistory>((5, dts, Text::truncated("SBMT"))).map(|there| assert!(there))
        },
        &["condition 4:"],
    ),
    (
        "a trade is completed twice",
        |tx| {
            let dts = tx.get_columns(5, Trade::dts)?.unwrap();
            tx.insert(TradeHistory { t_id: 5, dts: dts + 1, st_id: Text::truncated("CMPT") })
        },
        &["condition 4:", "condition 10:"],
    ),
    (
        "a request of a completed trade",
        |tx| {
            let Trade { t_id, s_symb, qty, tt_id, bid_price, .. } = tx.get(5)?.unwrap();
            tx.insert(TradeRequest { s_symb, b_id: 0, t_id, bid_price, qty, tt_id })
        },
        &["condition 5:", "ledger: TRADE_REQUEST"],
    ),
    ("a settlement lost", |tx| tx.delete::<Settlement>(5).map(|there| assert!(there)), &["condition 6:"]),
    (
        "a settlement of no trade",
        |tx| {
            let row = tx.get::<Settlement>(5)?.unwrap();
            tx.insert(Settlement { t_id: 0, ..row })
        },
        &["condition 6:"],
    ),
    (
        "a settlement for a cent less",
        |tx| tx.update_columns(5, Settlement::amt, |amt| *amt -= 1),
        &["SE_AMT and CT_AMT"],
    ),
    ("CA_BAL one up", |tx| tx.update_columns(3, CustomerAccount::bal, |bal| *bal += 1), &["condition 7:"]),
    ("LT_VOL up", |tx| tx.update_columns(3, LastTrade::vol, |vol| *vol += 100), &["condition 8:"]),
    (
        "a change of a lot lost",
        |tx| tx.delete::<HoldingHistory>((5, 5)).map(|there| assert!(there)),
        &["condition 9:", "condition 10:"],
    ),
    (
        "a change of a lot too many",
        |tx| {
            let row = tx.get::<HoldingHistory>((5, 5))?.unwrap();
            tx.insert(HoldingHistory { t_id: 6, before_qty: row.after_qty, after_qty: 1, ..row })
        },
        &["condition 9:", "condition 10:"],
    ),
    (
        "a trade that nobody entered",
        |tx| {
            let (trade, settlement) = (tx.get::<Trade>(5)?.unwrap(), tx.get::<Settlement>(5)?.unwrap());
            let t_id = 1 + last_trade(tx)?;
            tx.insert(Trade { t_id, ..trade })?;
            tx.insert(Settlement { t_id, ..settlement })
        },
        &["condition 2:", "condition 4:", "ledger: TRADE", "ledger: completed trades"],
    ),
    (
        "a name corrected by nobody",
        |tx| tx.set_columns(5, Trade::exec_name, Text::truncated("Ada X Lovelace")),
        &["the texts that Trade-Update corrects"],
    ),
    (
        "a type of settlement corrected by nobody",
        |tx| tx.set_columns(5, Settlement::cash_type, Text::truncated("Cash")),
        &["the texts that Trade-Update corrects"],
    ),
    (
        "a cash transaction's name torn",
        |tx| {
            let mut t_id = 1;
            while tx.get_columns(t_id, CashTransaction::amt)?.is_none() {
                t_id += 1;
            }
            tx.set_columns(t_id, CashTransaction::name, Text::truncated("Market-Buy 100 sh"))
        },
        &["the texts that Trade-Update corrects"],
    ),
];

/// The last trade that was loaded.
fn last_trade(tx: &mut Txn) -> Result<u64> {
    let last = tx.first(Scan::<HoldingHistory>::all().reverse())?;
    Ok(last.expect("a loaded lot").t_id)
}

#[test]
fn every_check_can_report() {
    assert_every_check_can_report(&Tpce::new(tiny()).unwrap(), CORRUPTIONS);
}

#[test]
fn a_rollback_leaves_nothing() {
    let parameters = Parameters { rollback_pct: 100, mix: Mix::new(1, 0).unwrap(), ..tiny() };
    let tpce = Tpce::new(parameters).unwrap();
    let db = loaded(&tpce, Kind::Silo, 1);
    let (ledgers, aborts) = run(&tpce, &db, 1, 200, 9);
    assert_eq!((aborts, ledgers[0].commits), (200, [0; 4]));
    assert_ok("after rollbacks only", &tpce.check(&db, &ledgers).unwrap());
}

#[test]
fn lots_are_opened_closed_and_covered() {
    let tpce = Tpce::new(Parameters { security_range: Some(5), rollback_pct: 0, ..tiny() }).unwrap();
    let db = loaded(&tpce, Kind::Silo, 1);
    let (ledgers, _) = run(&tpce, &db, 1, 6000, 4);
    assert_ok("after 6000", &tpce.check(&db, &ledgers).unwrap());
    let mut session = db.session().unwrap();
    let (changes, summaries) = session
        .run(|tx| {
            Ok((tx.collect::<HoldingHistory>(Scan::all())?, tx.collect::<HoldingSummary>(Scan::all())?))
        })
        .unwrap();
    let count = |which: &dyn Fn(&HoldingHistory) -> bool| changes.iter().filter(|row| which(row)).count();
    for (what, found) in [
        ("opened short", count(&|row| row.before_qty == 0 && row.after_qty < 0)),
        ("sold in part", count(&|row| row.before_qty > 0 && row.after_qty > 0)),
        ("sold", count(&|row| row.before_qty > 0 && row.after_qty == 0)),
        ("bought back in part", count(&|row| row.before_qty < 0 && row.after_qty < 0)),
        ("bought back", count(&|row| row.before_qty < 0 && row.after_qty == 0)),
        ("negative holdings", summaries.iter().filter(|row| row.qty < 0).count()),
    ] {
        assert!(found > 10, "{what}: {found}");
    }
    // An account sold all that it had of something, and its summary went.
    let accounts: std::collections::BTreeSet<_> =
        summaries.iter().map(|row| (row.ca_id, row.s_symb)).collect();
    let gone = changes.iter().filter(|row| row.after_qty == 0).filter_map(|row| {
        let trade = session.run(|tx| tx.get::<Trade>(row.t_id)).unwrap()?;
        (!accounts.contains(&(trade.ca_id, trade.s_symb))).then_some(())
    });
    assert!(gone.count() > 0);
    let taxed = (1 << 40..).map_while(|t_id| session.run(|tx| tx.get_columns(t_id + 1, Trade::tax)).unwrap());
    assert!(taxed.filter(|tax| *tax > 0).count() > 10);
}

#[test]
fn loading_repeats() {
    let tpce = Tpce::new(tiny()).unwrap();
    let rows = || {
        let db = loaded(&tpce, Kind::Silo, 1);
        let mut session = db.session().unwrap();
        session.run(|tx| Ok((tx.get::<Trade>(77)?, tx.get::<CustomerAccount>(9)?))).unwrap()
    };
    assert_eq!(rows(), rows());
}
