//! What the papers state of their figures, and what the golden texts have to give.

use heddledb_analysis::analysis::{Analysis, MergedPiece, Until};
use heddledb_analysis::transition::Transition;
use heddledb_analysis::{Granularity, Method, Options, Workload, analyse, builtin, text};

fn workload(name: &str) -> Workload {
    let found = builtin::find(name).unwrap_or_else(|| panic!("no text `{name}`"));
    text::parse(found.text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn of_text(text: &str) -> Analysis {
    analyse(&text::parse(text).unwrap(), &Options::default())
}

/// A piece as its tables, in brackets if it was merged; raw ones in lower case as they are, conflict pieces
/// with a `*`.
fn piece(analysis: &Analysis, piece: &MergedPiece) -> String {
    let tables = analysis.graph.tables(piece.sites.clone()).join("+");
    let merged = if piece.before.len() > 1 { format!("[{tables}]") } else { tables };
    if piece.conflict { format!("{merged}*") } else { merged }
}

fn pieces(analysis: &Analysis, name: &str) -> Vec<String> {
    let of_type = analysis.of_type(name).unwrap_or_else(|| panic!("no type `{name}`"));
    of_type.pieces.iter().map(|one| piece(analysis, one)).collect()
}

/// Name, pieces, conflict pieces.
fn counts(analysis: &Analysis) -> Vec<(&str, usize, usize)> {
    let count = |one: &heddledb_analysis::analysis::TypeAnalysis| (one.pieces.len(), one.conflict_pieces());
    analysis.types.iter().map(|one| (one.name.as_str(), count(one).0, count(one).1)).collect()
}

/// What a piece waits for: type and how long.
fn waits(analysis: &Analysis, name: &str, at: usize) -> Vec<(String, Until)> {
    let piece = &analysis.of_type(name).unwrap().pieces[at];
    piece.waits.iter().map(|wait| (analysis.types[wait.on].name.clone(), wait.until)).collect()
}

// Figures

#[test]
fn figures_1a_and_2_merge_read_and_write_of_a_table() {
    let analysis = analyse(&workload("figure1a"), &Options::default());
    assert_eq!(pieces(&analysis, "mytransaction"), ["[tab1]*", "[tab2]*"]);
    assert_eq!(analysis.merges.len(), 2);
    let words = analysis.merges[0].cycle.words(&analysis.graph);
    assert_eq!(
        words,
        "mytransaction's `read tab1` (line 4) comes before `update tab1` (line 5), which conflicts with `read tab1` \
         (line 4) of another mytransaction on tab1 (every column)"
    );
    // After RW(A), the piece on the second table waits for the same piece of the other (case 2).
    assert_eq!(waits(&analysis, "mytransaction", 0), []);
    assert_eq!(waits(&analysis, "mytransaction", 1), [("mytransaction".into(), Until::Piece(1))]);
}

#[test]
fn figure_1b_waits_for_the_commit_of_what_it_has_no_edge_with() {
    let analysis = analyse(&workload("figure1b"), &Options::default());
    assert!(analysis.merges.is_empty());
    assert_eq!(pieces(&analysis, "t3"), ["a*", "c*"]);
    // W3(C) conflicts with somebody, but not with T2, on which T3 depends (case 3).
    let waits = waits(&analysis, "t3", 1);
    assert!(waits.contains(&("t2".into(), Until::Commit)), "{waits:?}");
    assert!(waits.contains(&("t3".into(), Until::Piece(1))), "{waits:?}");
    // T3 meets T1 on C for the first time, so it cannot depend on it before.
    assert!(!waits.iter().any(|(on, _)| on == "t1"), "{waits:?}");
    let rank = |name: &str, at: usize| analysis.of_type(name).unwrap().pieces[at].rank;
    assert_eq!([rank("t2", 0), rank("t2", 1), rank("t1", 0), rank("t1", 1)], [1, 2, 2, 3]);
    assert_eq!([rank("t3", 0), rank("t3", 1)], [1, 3]);
}

#[test]
fn figures_3_and_4_merge_opposite_orders() {
    let analysis = analyse(&workload("figure3"), &Options::default());
    assert_eq!(pieces(&analysis, "t1"), ["[tab1+tab2]*", "tab3*"]);
    assert_eq!(pieces(&analysis, "t2"), ["[tab2+tab1]*", "tab3*"]);
    // One cycle forces both merges: R1, W1, R2, W2.
    assert_eq!(analysis.merges.len(), 1);
    let words = analysis.merges[0].cycle.words(&analysis.graph);
    assert_eq!(
        words,
        "t1's `read tab1` (line 5) comes before `update tab2` (line 6), which conflicts with t2's `read tab2` (line 10) \
         on tab2 (every column); there `read tab2` (line 10) comes before `update tab1` (line 11), which conflicts with \
         t1's `read tab1` (line 5) on tab1 (every column)"
    );
}

#[test]
fn figure_5_is_what_figure_2_becomes() {
    let by_hand = analyse(&workload("figure5"), &Options::default());
    assert!(by_hand.merges.is_empty());
    let merged = analyse(&workload("figure1a"), &Options::default());
    let sites = |analysis: &Analysis| {
        analysis.types[0].pieces.iter().map(|piece| (piece.sites.clone(), piece.rank)).collect::<Vec<_>>()
    };
    assert_eq!(sites(&by_hand), sites(&merged));
}

#[test]
fn figures_6_and_7_have_a_rendezvous_piece() {
    let analysis = analyse(&workload("figure6"), &Options::default());
    assert!(analysis.merges.is_empty());
    let p2 = &analysis.of_type("t1").unwrap().pieces[1];
    assert_eq!(p2.rendezvous.len(), 1);
    assert_eq!((p2.rendezvous[0].with, &p2.rendezvous[0].pieces[..]), (1, &[1][..]));
    assert!(waits(&analysis, "t1", 1).contains(&("t2".into(), Until::Rendezvous(1))));
    // The one-rank rule comes to the same: t2 passes the rank of t1's p2 with its own p2.
    let [p1, r] = [0, 1].map(|at| analysis.of_type("t2").unwrap().pieces[at].rank);
    assert!(p1 < p2.rank && p2.rank < r);
}

#[test]
fn figures_9_and_10_nest_the_old_pieces() {
    let both = workload("figure9");
    let old = analyse(&both.only(&["t1"]), &Options::default());
    let new = analyse(&both, &Options::default());
    assert_eq!(pieces(&old, "t1"), ["tab1*", "tab2*"]);
    assert_eq!(pieces(&new, "t1"), ["[tab1+tab2]*"]);
    assert_eq!(pieces(&new, "t2"), ["[tab2+tab1]*"]);
    let transition = Transition::between(&old, &new);
    assert_eq!(transition.types[0].pieces.len(), 1);
    assert_eq!(transition.types[0].pieces[0].sub_pieces, [0..1, 1..2]);
    assert_eq!(transition.added, ["t2"]);
}

// TPC-C

const READ_WRITE: [&str; 3] = ["new_order", "payment", "delivery"];

#[test]
fn tpcc_merges_nothing() {
    let analysis = analyse(&workload("tpcc").only(&READ_WRITE), &Options::default());
    assert!(analysis.merges.is_empty());
    assert_eq!(counts(&analysis), [("new_order", 9, 5), ("payment", 7, 1), ("delivery", 4, 4)]);
    assert_eq!(
        pieces(&analysis, "new_order"),
        [
            "warehouse",
            "district*",
            "item",
            "stock*",
            "new_order*",
            "order*",
            "order_cust_idx",
            "order_line*",
            "customer"
        ]
    );
    assert_eq!(pieces(&analysis, "payment")[5], "customer*");
    // User aborts: New-Order's has to come before the district is done, whose number others may have read.
    assert_eq!(analysis.of_type("new_order").unwrap().first_exposed.map(|(piece, _)| piece), Some(1));
    // Delivery adds to the customer at its commit; Payment writes it in its only conflict piece.
    assert_eq!(analysis.of_type("payment").unwrap().first_exposed.map(|(piece, _)| piece), Some(5));
}

#[test]
fn tpcc_without_commutativity_has_three_conflict_pieces_in_payment() {
    let options = Options { commutative: false, ..Options::default() };
    let analysis = analyse(&workload("tpcc").only(&READ_WRITE), &options);
    assert_eq!(counts(&analysis), [("new_order", 9, 5), ("payment", 7, 3), ("delivery", 4, 4)]);
    let conflict: Vec<_> =
        pieces(&analysis, "payment").into_iter().filter(|piece| piece.ends_with('*')).collect();
    assert_eq!(conflict, ["warehouse*", "district*", "customer*"]);
}

#[test]
fn tpcc_with_deliverys_loop_in_one_merges_new_orders_inserts() {
    let analysis = analyse(&workload("tpcc-fused"), &Options::default());
    assert_eq!(counts(&analysis), [("new_order", 6, 3), ("payment", 7, 1), ("delivery", 2, 2)]);
    assert_eq!(
        pieces(&analysis, "new_order"),
        [
            "warehouse",
            "district*",
            "item",
            "stock*",
            "[new_order+order+order_cust_idx+order_line]*",
            "customer"
        ]
    );
}

#[test]
fn tpcc_in_specification_order_merges_in_two_types() {
    let analysis = analyse(&workload("tpcc-spec"), &Options::default());
    assert_eq!(counts(&analysis), [("new_order", 8, 4), ("payment", 7, 1), ("delivery", 3, 3)]);
    assert_eq!(pieces(&analysis, "new_order")[4], "[order+new_order]*");
    assert_eq!(pieces(&analysis, "delivery")[0], "[new_order+order]*");
    assert_eq!(analysis.merges.len(), 1, "one cycle forces both");
}

#[test]
fn last_order_status_has_rendezvous_pieces_for_new_order() {
    let analysis = analyse(&workload("tpcc").only(&["new_order", "last_order_status"]), &Options::default());
    assert_eq!(counts(&analysis), [("new_order", 9, 5), ("last_order_status", 3, 3)]);
    assert_eq!(pieces(&analysis, "last_order_status"), ["district*", "order*", "order_line*"]);
    let new_order = analysis.of_type("new_order").unwrap();
    let rendezvous: Vec<Vec<usize>> = new_order
        .pieces
        .iter()
        .filter(|piece| piece.conflict)
        .map(|piece| {
            piece.rendezvous.iter().find(|one| one.with == 1).map_or(vec![], |one| one.pieces.clone())
        })
        .collect();
    // district; stock; new_order; order; order_line.
    assert_eq!(rendezvous, [vec![], vec![1, 2], vec![1, 2], vec![], vec![]]);
    assert_eq!(
        waits(&analysis, "new_order", 3),
        [("new_order".into(), Until::Piece(3)), ("last_order_status".into(), Until::Rendezvous(1))]
    );
}

#[test]
fn new_order_alone_conflicts_with_itself() {
    let analysis = analyse(&workload("tpcc").only(&["new_order"]), &Options::default());
    let conflict = |analysis: &Analysis| -> Vec<String> {
        pieces(analysis, "new_order").into_iter().filter(|piece| piece.ends_with('*')).collect()
    };
    assert_eq!(conflict(&analysis), ["district*", "stock*", "new_order*", "order*", "order_line*"]);
    let text = builtin::find("tpcc").unwrap().text.replace(
        "table history order_cust_idx appendonly",
        "table history order_cust_idx new_order order order_line appendonly",
    );
    let workload = text::parse(&text).unwrap().only(&["new_order"]);
    assert_eq!(conflict(&analyse(&workload, &Options::default())), ["district*", "stock*"]);
}

#[test]
fn tables_as_units_make_new_orders_customer_conflict() {
    let options = Options { granularity: Granularity::Table, ..Options::default() };
    let analysis = analyse(&workload("tpcc").only(&READ_WRITE), &options);
    let new_order = pieces(&analysis, "new_order");
    assert!(new_order.last().unwrap().contains("customer") && new_order.last().unwrap().ends_with('*'));
}

// TPC-E

#[test]
fn tpce_merges_nothing_with_causal_marks() {
    let analysis = analyse(&workload("tpce"), &Options::default());
    assert!(analysis.merges.is_empty());
    let expected =
        [("trade_order", 16, 7), ("trade_result", 16, 8), ("market_feed", 4, 3), ("trade_update", 4, 4)];
    assert_eq!(counts(&analysis), expected);
    let conflict: Vec<_> =
        pieces(&analysis, "trade_order").into_iter().filter(|piece| piece.ends_with('*')).collect();
    assert_eq!(
        conflict,
        [
            "holding_summary*",
            "holding*",
            "last_trade*",
            "trade*",
            "trade_request*",
            "trade_history*",
            "customer_account*"
        ]
    );
}

#[test]
fn tpce_without_causal_marks_merges_most() {
    let analysis = analyse(&workload("tpce"), &Options { causal: false, ..Options::default() });
    let expected =
        [("trade_order", 9, 3), ("trade_result", 6, 6), ("market_feed", 2, 2), ("trade_update", 4, 4)];
    assert_eq!(counts(&analysis), expected);
    let conflict: Vec<_> =
        pieces(&analysis, "trade_order").into_iter().filter(|piece| piece.ends_with('*')).collect();
    assert!(conflict[0].starts_with("[holding_summary+") && conflict[0].ends_with("+trade_request]*"));
    assert_eq!(conflict[1..], ["trade_history*", "customer_account*"]);
}

// The other workloads

#[test]
fn the_microbenchmark_keeps_its_pieces_in_one_order_only() {
    assert_eq!(counts(&analyse(&workload("micro"), &Options::default())), [("forth", 10, 10)]);
    let reversed = analyse(&workload("micro-reversed"), &Options::default());
    assert_eq!(counts(&reversed), [("forth", 1, 1), ("back", 1, 1)]);
    // A type has no rendezvous pieces with itself here: every pair of pieces has a direct edge.
    let disjoint = of_text("workload w\ntxn a\nupdate x\nupdate y\nend\ntxn b\nupdate v\nupdate w\nend");
    assert!(disjoint.types.iter().flat_map(|one| &one.pieces).all(|piece| piece.waits.len() < 2));
}

#[test]
fn smallbank_keeps_two_pieces_where_two_balances_are_met() {
    let analysis = analyse(&workload("smallbank"), &Options::default());
    let conflict: Vec<_> =
        counts(&analysis).into_iter().map(|(name, _, conflict)| (name, conflict)).collect();
    let expected = [
        ("balance", 2),
        ("deposit_checking", 1),
        ("transact_savings", 1),
        ("amalgamate", 2),
        ("write_check", 2),
        ("send_payment", 1),
    ];
    assert_eq!(conflict, expected);
}

#[test]
fn articles_is_one_piece_unless_the_insert_comes_last() {
    let analysis = analyse(&workload("articles"), &Options::default());
    assert_eq!(pieces(&analysis, "add_comment"), ["[articles+comments]*"]);
    assert_eq!(analysis.snapshots, ["get_article", "get_comments"]);
    let text = builtin::find("articles").unwrap().text;
    let (insert, update) = ("  insert comments\n", "  update articles cols a_num_comments\n");
    let moved = text.replace(&format!("{insert}{update}"), &format!("{update}{insert}"));
    assert_ne!(moved, text);
    assert_eq!(pieces(&of_text(&moved), "add_comment"), ["[articles]*", "comments"]);
    let last = analyse(&workload("articles-insert-last"), &Options::default());
    assert_eq!(pieces(&last, "add_comment"), ["articles*", "comments"]);
    assert_eq!(last.snapshots, ["get_article", "get_comments"]);
    let chopped = Options { method: Method::Chopping, ..Options::default() };
    assert_eq!(
        pieces(&analyse(&workload("articles-insert-last"), &chopped), "add_comment"),
        ["articles*", "comments"]
    );
}

// Properties with names of their own

#[test]
fn what_lies_between_is_swallowed() {
    // `middle` has no C-edge, but `a` before it and after it has to be one piece.
    let analysis = of_text("workload w\ntxn t\nread a\nread middle\nupdate a\nread after\nend");
    assert_eq!(pieces(&analysis, "t"), ["[a+middle]*", "after"]);
    // And so if two merged pieces would stand around it, depending on each other through it.
    let text = "workload w\ntxn t\nupdate a\nread x\nupdate b\nend\ntxn u\nupdate b\nread y\nupdate a\nend";
    let analysis = of_text(text);
    assert_eq!(
        (pieces(&analysis, "t"), pieces(&analysis, "u")),
        (vec!["[a+x+b]*".into()], vec!["[b+y+a]*".into()])
    );
}

/// A conflict is told between the accesses that conflict, also where a piece has several.
#[test]
fn a_cycle_through_a_loop_names_the_accesses_that_conflict() {
    let text = "workload w\ntxn t\nloop\nupdate a\nupdate b\nend\nupdate c\nend\n\
                txn u\nread c\nread b\nend\ntxn v\nread a\nread d\nend\n";
    let analysis = of_text(text);
    assert_eq!(
        analysis.merges[0].cycle.words(&analysis.graph),
        "t's `update b` (line 5) comes before `update c` (line 7), which conflicts with u's `read c` (line 10) on c (every \
         column); there `read c` (line 10) comes before `read b` (line 11), which conflicts with t's `update b` (line 5) on \
         b (every column)"
    );
    // From x to z two conflicts in a row, through different accesses of the loop.
    let text = "workload w\ntxn t\nread x\nread z\nend\ntxn u\nloop\nupdate x\nupdate z\nend\nend\n";
    let analysis = of_text(text);
    assert_eq!(
        analysis.merges[0].cycle.words(&analysis.graph),
        "t's `read x` (line 3) comes before `read z` (line 4), which conflicts with u's `update z` (line 9) on z (every \
         column), which is in one piece with `update x` (line 8), which conflicts with t's `read x` (line 3) on x (every \
         column)"
    );
}

#[test]
fn a_reader_makes_commuting_additions_conflict() {
    let adders = "workload w\ntxn t\nadd a cols n\nadd b cols n\nend\n";
    assert_eq!(counts(&of_text(adders)), [("t", 2, 0)]);
    let read = of_text(&format!("{adders}txn u\nread b cols n\nread a cols n\nend"));
    assert_eq!(counts(&read), [("t", 1, 1), ("u", 1, 1)]);
    // Additions are deferred to the commit: an abort before it harms nobody.
    assert!(read.types.iter().all(|one| one.first_exposed.is_none()));
}

#[test]
fn chopping_leaves_one_conflict_piece() {
    let options = Options { method: Method::Chopping, ..Options::default() };
    for text in builtin::ALL {
        let analysis = analyse(&workload(text.name), &options);
        for one in &analysis.types {
            assert!(one.conflict_pieces() <= 1, "{}: {}", text.name, one.name);
        }
    }
    let analysis = analyse(&workload("tpcc").only(&READ_WRITE), &options);
    assert_eq!(
        pieces(&analysis, "new_order"),
        ["warehouse", "[district+item+stock+new_order+order+order_cust_idx+order_line]*", "customer"]
    );
    assert_eq!(counts(&analysis)[1..], [("payment", 7, 1), ("delivery", 1, 1)]);
    assert!(!analysis.merges[0].cycle.words(&analysis.graph).is_empty());
}

#[test]
fn pieces_without_a_cycle_need_no_tracking() {
    // Two conflict pieces in `t`; `u` meets one of them; `v` and `w` meet only each other.
    let text = "workload w\ntxn t\nupdate a\nupdate b\nend\ntxn u\nread a\nend\ntxn v\nupdate c\nend\ntxn w\nread c\nend";
    let analysis = of_text(text);
    let tracked: Vec<Vec<bool>> =
        analysis.types.iter().map(|one| one.pieces.iter().map(|piece| piece.tracked).collect()).collect();
    assert_eq!(tracked, [vec![true, true], vec![true], vec![false], vec![false]]);
    assert!(analysis.types.iter().flat_map(|one| &one.pieces).all(|piece| piece.conflict));
}

#[test]
fn every_builtin_text_survives_printing() {
    for one in builtin::ALL {
        let workload = workload(one.name);
        assert_eq!(workload.name, one.name.trim_start_matches("apps/"));
        let printed = text::print(&workload);
        assert_eq!(text::print(&text::parse(&printed).unwrap()), printed, "{}", one.name);
    }
}

/// IC3 table 2: where this crate has a description, it is parsed, and its blocks are counted as its header says.
#[test]
fn described_applications_are_analysed() {
    let study = |name: &str| {
        let application = builtin::APPLICATIONS.iter().find(|one| one.name == name).unwrap();
        let description = application.described.unwrap();
        heddledb_analysis::study::study(&analyse(&workload(description.name), &Options::default()))
    };
    let numbers = |name: &str| {
        let found = study(name);
        [found.total, found.multi_table, found.deadlock_prone, found.interleaved]
    };
    // As in the paper.
    assert_eq!(numbers("Publify"), [5, 1, 0, 1]);
    // The paper has no deadlock-prone cycle here; with what is destroyed along, the deletion of an account
    // comes back to contacts and notifications.
    assert_eq!(numbers("Diaspora"), [2, 1, 1, 1]);
    // Where callbacks are followed, more tables are accessed than in the blocks themselves.
    assert_eq!(numbers("OneBody"), [2, 2, 2, 2]);
    assert_eq!(numbers("Community Engine"), [3, 2, 2, 0]);

    let sum = builtin::APPLICATIONS.iter().fold([0; 4], |[a, b, c, d], one| {
        [
            a + one.paper.total,
            b + one.paper.multi_table,
            c + one.paper.deadlock_prone,
            d + one.paper.interleaved,
        ]
    });
    assert_eq!((builtin::APPLICATIONS.len(), sum), (14, [140, 81, 15, 69]));
}
