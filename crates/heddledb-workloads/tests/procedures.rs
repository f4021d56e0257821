//! What the analysis makes of the workloads' procedures, as they are written in Rust.

mod run;

use heddledb::procedure::{Checked, Declaration, Procedure, workload};
use heddledb::protocol::Kind;
use heddledb::{Error, Result, Txn};
use heddledb_analysis::{Analysis, Granularity, Method, Options, analyse, text};
use heddledb_workloads::articles::transactions::{
    AddComment, AddCommentAsWritten, GetArticle, GetComments, UpdateUserInfo,
};
use heddledb_workloads::articles::{self, Articles};
use heddledb_workloads::micro::table::{Backwards, Forwards};
use heddledb_workloads::micro::{self, Micro};
use heddledb_workloads::tpcc::delivery::{Delivery, DeliveryByAdds};
use heddledb_workloads::tpcc::input::Input;
use heddledb_workloads::tpcc::items_first::{NewOrderItemsFirst, NewOrderOrdersLast};
use heddledb_workloads::tpcc::transactions::{
    LastOrderStatus, NewOrder, OrderStatus, Payment, PaymentByUpdates, StockLevel,
};
use heddledb_workloads::tpcc::{Mode, Parameters, Scale, Tpcc};
use heddledb_workloads::tpce::transactions::{MarketFeed, TradeOrder, TradeResult, TradeUpdate};
use heddledb_workloads::tpce::{self, Tpce};
use heddledb_workloads::{Workload, tpce::input::Input as TpceInput};
use run::loaded;

fn analysed(granularity: Granularity, procedures: &[Declaration]) -> Analysis {
    let workload = workload("workload", procedures);
    println!("{}", text::print(&workload));
    let analysis = analyse(&workload, &Options { granularity, ..Options::default() });
    for merge in &analysis.merges {
        println!("{}", merge.cycle.words(&analysis.graph));
    }
    analysis
}

/// Of each type: its pieces with C-edges, by the tables that they access.
fn conflicts(analysis: &Analysis) -> Vec<(String, Vec<String>)> {
    let tables = |sites: std::ops::Range<usize>| analysis.graph.tables(sites).join("+");
    let of_type = |one: &heddledb_analysis::analysis::TypeAnalysis| {
        let pieces = one.pieces.iter().filter(|piece| piece.conflict);
        (one.name.clone(), pieces.map(|piece| tables(piece.sites.clone())).collect())
    };
    analysis.types.iter().map(of_type).collect()
}

fn expected(types: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |(name, pieces): &(&str, &[&str])| {
        (name.to_string(), pieces.iter().map(|piece| piece.to_string()).collect())
    };
    types.iter().map(owned).collect()
}

fn writers() -> Vec<Declaration> {
    vec![Declaration::of::<NewOrder>(), Declaration::of::<Payment>(), Declaration::of::<Delivery>()]
}

const NEW_ORDER: (&str, &[&str]) = ("new_order", &["district", "stock", "new_order", "order", "order_line"]);
const DELIVERY: (&str, &[&str]) = ("delivery", &["new_order", "order", "order_line", "customer"]);

/// Columns that are written often are in groups of their own, so the analysis loses nothing by groups.
#[test]
fn by_columns_and_by_groups_nothing_has_to_be_merged() {
    for granularity in [Granularity::Column, Granularity::Group] {
        let analysis = analysed(granularity, &writers());
        let payment: (&str, &[&str]) = ("payment", &["customer"]);
        assert_eq!(conflicts(&analysis), expected(&[NEW_ORDER, payment, DELIVERY]), "{granularity:?}");
        assert!(analysis.merges.is_empty(), "{granularity:?}");
    }
}

#[test]
fn the_last_orders_status_fits_in() {
    for granularity in [Granularity::Column, Granularity::Group] {
        let procedures = [writers(), vec![Declaration::of::<LastOrderStatus>()]].concat();
        let analysis = analysed(granularity, &procedures);
        let payment: (&str, &[&str]) = ("payment", &["customer"]);
        let status: (&str, &[&str]) = ("last_order_status", &["district", "order", "order_line"]);
        assert_eq!(
            conflicts(&analysis),
            expected(&[NEW_ORDER, payment, DELIVERY, status]),
            "{granularity:?}"
        );
        assert!(analysis.merges.is_empty(), "{granularity:?}");
    }
}

/// A Payment that reads what it adds to conflicts on the warehouse and the district too.
#[test]
fn payments_by_updates_have_more_pieces() {
    for granularity in [Granularity::Column, Granularity::Group] {
        let mut procedures = writers();
        procedures[1] = Declaration::of::<PaymentByUpdates>();
        let analysis = analysed(granularity, &procedures);
        let payment: (&str, &[&str]) = ("payment_by_updates", &["warehouse", "district", "customer"]);
        assert_eq!(conflicts(&analysis), expected(&[NEW_ORDER, payment, DELIVERY]), "{granularity:?}");
        assert!(analysis.merges.is_empty(), "{granularity:?}");
    }
}

/// What Delivery adds to customers' balances can be put off, since nothing else joins it with Payment, which reads them; so can Payment's
/// sums. Then what is left in Delivery's conflicting piece is what all Deliveries want; and of a New-Order with orders last, what all of these want.
#[test]
fn additions_of_deliveries_may_be_put_off() {
    let put_off = |new_order: Declaration, defer| {
        let procedures = [new_order, Declaration::of::<Payment>(), Declaration::of::<DeliveryByAdds>()];
        let (granularity, method) = (Granularity::Group, Method::Chopping);
        let options = Options { granularity, method, rollback_safe: true, defer, ..Options::default() };
        let analysis = analyse(&workload("workload", &procedures), &options);
        analysis.merges.iter().for_each(|merge| println!("{}", merge.cycle.words(&analysis.graph)));
        analysis
    };
    let items_first = Declaration::of::<NewOrderItemsFirst>;
    let (at_once, later) = (put_off(items_first(), false), put_off(items_first(), true));
    assert!(later.entangled.is_none(), "{:?}", later.entangled.map(|one| one.words(&later.graph)));
    let of_type = |analysis: &Analysis, name: &str| {
        let of_all = conflicts(analysis);
        of_all.into_iter().find(|(of_one, _)| of_one == name).expect("it is analysed").1
    };
    assert_eq!(of_type(&at_once, "delivery_by_adds"), ["new_order+order+order_line+customer"]);
    assert_eq!(of_type(&later, "delivery_by_adds"), ["new_order"]);
    assert_eq!(of_type(&later, "payment"), ["customer"]);
    assert_eq!(of_type(&later, "new_order_items_first"), ["district+stock+new_order+order+order_line"]);
    let orders_last = put_off(Declaration::of::<NewOrderOrdersLast>(), true);
    assert_eq!(of_type(&orders_last, "new_order_orders_last"), ["stock+district+new_order"]);
    assert_eq!(of_type(&orders_last, "delivery_by_adds"), ["new_order"]);
}

/// Why those that only read run on snapshots: Order-Status meets Delivery, and Stock-Level meets New-Order, in
/// another order.
#[test]
fn readers_among_writers_force_merges() {
    let procedures =
        [writers(), vec![Declaration::of::<OrderStatus>(), Declaration::of::<StockLevel>()]].concat();
    for granularity in [Granularity::Column, Granularity::Group] {
        let analysis = analysed(granularity, &procedures);
        let found = expected(&[
            ("new_order", &["district", "stock+new_order+order+order_line"]),
            ("payment", &["customer"]),
            ("delivery", &["new_order+order+order_line+customer"]),
            ("order_status", &["customer+order+order_line"]),
            ("stock_level", &["district", "order_line+stock"]),
        ]);
        assert_eq!(conflicts(&analysis), found, "{granularity:?}");
    }
    let mut on_snapshots = procedures;
    on_snapshots[3..].iter_mut().for_each(|declaration| declaration.set_readonly(true));
    let analysis = analysed(Granularity::Group, &on_snapshots);
    assert_eq!(analysis.snapshots, ["order_status", "stock_level"]);
    assert!(analysis.merges.is_empty());
}

/// Every access is the one that its site declares.
#[test]
fn bodies_keep_to_their_declarations() {
    let modes = [(Mode::Spec, true), (Mode::Spec, false), (Mode::Sto, true), (Mode::Dbx1000, true)];
    for (mode, commutative) in modes {
        let parameters = Parameters {
            warehouses: 2,
            scale: Scale::TINY,
            rollback_pct: 5,
            delivery_hint: commutative,
            mode,
            commutative,
            delivery_adds: commutative,
            ..Parameters::default()
        };
        let tpcc = Tpcc::new(parameters).unwrap();
        let db = loaded(&tpcc, Kind::Silo, 1);
        let mut session = db.session().unwrap();
        let mut generator = tpcc.generator(0, 1, 1);
        let mut input = Input::default();
        let mut done = [0; 5];
        for round in 0..1000 {
            tpcc.draw(&mut generator, &mut input);
            let outcome = session.run(|tx| match &input {
                Input::NewOrder(input) if round % 2 == 0 && mode == Mode::Spec => {
                    checked::<NewOrderOrdersLast>(tx, (&tpcc, input))
                }
                Input::NewOrder(input) => checked::<NewOrder>(tx, (&tpcc, input)),
                Input::Payment(input) if commutative => checked::<Payment>(tx, (&tpcc, input)),
                Input::Payment(input) => checked::<PaymentByUpdates>(tx, (&tpcc, input)),
                Input::Delivery(input) if commutative => checked::<DeliveryByAdds>(tx, (&tpcc, input)),
                Input::Delivery(input) => checked::<Delivery>(tx, (&tpcc, input)),
                Input::OrderStatus(input) if round % 2 == 0 => checked::<OrderStatus>(tx, input),
                Input::OrderStatus(input) => checked::<LastOrderStatus>(tx, (input.w_id, input.d_id)),
                Input::StockLevel(input) => checked::<StockLevel>(tx, (&tpcc, input)),
            });
            match outcome {
                Ok(_) => done[input.kind() as usize] += 1,
                Err(Error::User(reason)) if reason.to_string() == "item number is not valid" => {}
                // What is outside the database knows an order before it is entered.
                Err(Error::User(_)) if mode == Mode::Sto => {}
                Err(error) => panic!("{mode:?}: {error}"),
            }
        }
        let kinds = if mode == Mode::Dbx1000 { 2 } else { 5 };
        assert!(done[..kinds].iter().all(|done| *done > 0), "{mode:?}: {done:?}");
    }
}

/// TPC-E's four types, with their marks of what the application orders: the first read of Trade-Result, and
/// Market-Feed's update of TRADE.
#[test]
fn of_tpce_nothing_has_to_be_merged() {
    let procedures = [
        Declaration::of::<TradeOrder>(),
        Declaration::of::<TradeResult>(),
        Declaration::of::<MarketFeed>(),
        Declaration::of::<TradeUpdate>(),
    ];
    for granularity in [Granularity::Column, Granularity::Group] {
        let analysis = analysed(granularity, &procedures);
        let order = [
            "holding_summary",
            "holding",
            "last_trade",
            "trade",
            "trade_request",
            "trade_history",
            "customer_account",
        ];
        let result = [
            "holding_summary",
            "holding",
            "trade",
            "trade_history",
            "broker",
            "settlement",
            "customer_account",
            "cash_transaction",
        ];
        let feed = ["last_trade", "trade_request", "trade_history"];
        let update = ["trade+trade_type+security", "trade_history", "settlement", "cash_transaction"];
        let found = expected(&[
            ("trade_order", &order),
            ("trade_result", &result),
            ("market_feed", &feed),
            ("trade_update", &update),
        ]);
        assert_eq!(conflicts(&analysis), found, "{granularity:?}");
        assert!(analysis.merges.is_empty(), "{granularity:?}");
    }
}

/// Both orders together are one piece each; one order alone has all of its pieces.
#[test]
fn of_the_microbenchmark_only_both_orders_together_are_merged() {
    let (forwards, backwards) = (Declaration::of::<Forwards>(), Declaration::of::<Backwards>());
    for granularity in [Granularity::Column, Granularity::Group] {
        let pieces = |procedures: &[Declaration]| {
            let found = conflicts(&analysed(granularity, procedures));
            found.iter().map(|(_, pieces)| pieces.len()).collect::<Vec<_>>()
        };
        assert_eq!(pieces(std::slice::from_ref(&forwards)), [64]);
        assert_eq!(pieces(std::slice::from_ref(&backwards)), [64]);
        assert_eq!(pieces(&[forwards.clone(), backwards.clone()]), [1, 1]);
    }
}

/// Of Articles' AddComment, every way to cut it: its order, what the analysis knows of those who only read, and whether
/// the pieces commit one by one.
#[test]
fn an_insert_that_comes_last_is_a_piece() {
    let readers = |readonly| {
        let mut readers = [Declaration::of::<GetArticle>(), Declaration::of::<GetComments>()];
        readers.iter_mut().for_each(|reader| reader.set_readonly(readonly));
        readers
    };
    let pieces = |add: Declaration, on_snapshots: bool, method: Method| {
        let [article, comments] = readers(on_snapshots);
        let procedures = [add, Declaration::of::<UpdateUserInfo>(), article, comments];
        let workload = workload("articles", &procedures);
        let safe = method == Method::Chopping;
        let options =
            Options { granularity: Granularity::Group, method, rollback_safe: safe, ..Options::default() };
        let analysis = analyse(&workload, &options);
        let add = &analysis.types[0];
        add.pieces
            .iter()
            .map(|piece| analysis.graph.tables(piece.sites.clone()).join("+"))
            .collect::<Vec<_>>()
    };
    let (last, written) = (Declaration::of::<AddComment>, Declaration::of::<AddCommentAsWritten>);
    let cut = vec!["articles".to_owned(), "comments".to_owned()];
    let whole = vec!["articles+comments".to_owned()];
    for on_snapshots in [true, false] {
        assert_eq!(pieces(last(), on_snapshots, Method::Ic3), cut, "on snapshots {on_snapshots}");
        for method in [Method::Ic3, Method::Chopping] {
            assert_eq!(pieces(written(), on_snapshots, method), whole, "on snapshots {on_snapshots}");
        }
    }
    assert_eq!(pieces(last(), true, Method::Chopping), cut);
    assert_eq!(pieces(last(), false, Method::Chopping), whole);
}

#[test]
fn bodies_of_articles_keep_to_their_declarations() {
    let parameters =
        articles::Parameters { articles: 30, users: 5, comment_cap: 40, ..articles::Parameters::default() };
    let articles = Articles::new(parameters).unwrap();
    let db = loaded(&articles, Kind::Silo, 1);
    let mut session = db.session().unwrap();
    let mut generator = articles.generator(0, 1, 1);
    let mut input = articles::Input::default();
    let mut done = [0; 4];
    let mut full = 0;
    for round in 0..6000 {
        articles.draw(&mut generator, &mut input);
        let output = session.run(|tx| match &input {
            articles::Input::GetArticle { article } => checked::<GetArticle>(tx, *article),
            articles::Input::GetComments { article } => checked::<GetComments>(tx, *article),
            articles::Input::AddComment(add) if round % 2 == 0 => checked::<AddComment>(tx, (add, 40)),
            articles::Input::AddComment(add) => checked::<AddCommentAsWritten>(tx, (add, 40)),
            articles::Input::UpdateUserInfo(update) => {
                checked::<UpdateUserInfo>(tx, (update.user, update.last_name))
            }
        });
        done[articles.kind(&input)] += 1;
        full += u32::from(output.unwrap() == articles::Output::Added { index: None });
    }
    assert!(done.iter().all(|done| *done > 0) && full > 0, "{done:?}, {full} full");
}

#[test]
fn bodies_of_tpce_keep_to_their_declarations() {
    let parameters = tpce::Parameters { customers: 20, rollback_pct: 5, ..tpce::Parameters::default() };
    let tpce = Tpce::new(parameters).unwrap();
    let db = loaded(&tpce, Kind::Silo, 1);
    let mut session = db.session().unwrap();
    let mut generator = tpce.generator(0, 1, 1);
    let mut input = TpceInput::default();
    let mut done = [0; 4];
    for _ in 0..3000 {
        tpce.draw(&mut generator, &mut input);
        let outcome = session.run(|tx| match &input {
            TpceInput::TradeOrder(input) => checked::<TradeOrder>(tx, input),
            TpceInput::TradeResult(input) => checked::<TradeResult>(tx, input),
            TpceInput::MarketFeed(input) => checked::<MarketFeed>(tx, input),
            TpceInput::TradeUpdate(input) => checked::<TradeUpdate>(tx, input),
        });
        match outcome {
            Ok(output) => {
                tpce.committed(&mut generator, &input, &output);
                done[tpce.kind(&input)] += 1;
            }
            Err(Error::User(reason)) if reason.to_string() == "the order is not wanted after all" => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
}

#[test]
fn bodies_of_the_microbenchmark_keep_to_their_declarations() {
    let parameters = micro::Parameters {
        pieces: 64,
        rows: 64,
        scope: 4,
        read_pct: 30,
        user_abort_pct: 10,
        reversed: true,
        ..micro::Parameters::default()
    };
    let micro = Micro::new(parameters).unwrap();
    let db = loaded(&micro, Kind::Silo, 1);
    let mut session = db.session().unwrap();
    let mut generator = micro.generator(0, 1, 1);
    let mut input = micro::Input::default();
    let mut done = [0; 2];
    for _ in 0..300 {
        micro.draw(&mut generator, &mut input);
        let outcome = session.run(|tx| match input.backwards {
            true => checked::<Backwards>(tx, &input),
            false => checked::<Forwards>(tx, &input),
        });
        match outcome {
            Ok(()) => done[micro.kind(&input)] += 1,
            Err(Error::User(reason)) if reason.to_string() == "gave up after a piece" => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
}

fn checked<Q: Procedure>(tx: &mut Txn, arguments: Q::Arguments<'_>) -> Result<Q::Output> {
    Q::run(&mut Checked::of::<Q>(tx), &arguments)
}
