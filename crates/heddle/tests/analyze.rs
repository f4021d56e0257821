//! `heddle analyze` as it is run: its forms, its exit codes, its refusals.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn heddle(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(line.split(' ')).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

/// The standard output of a command that succeeds.
fn told(line: &str) -> String {
    let output = heddle(line);
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(line: &str) -> Value {
    serde_json::from_str(&told(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Name, pieces, conflict pieces of each type.
fn counts(document: &Value) -> Vec<(String, usize, usize)> {
    let count = |one: &Value| {
        let pieces = one["pieces"].as_array().unwrap();
        let conflict = pieces.iter().filter(|piece| piece["conflict"] == true).count();
        (one["name"].as_str().unwrap().to_owned(), pieces.len(), conflict)
    };
    document["types"].as_array().unwrap().iter().map(count).collect()
}

#[test]
fn json_has_types_pieces_sites_ranks_and_rendezvous_pieces() {
    let tpcc = json("analyze tpcc --types new_order,payment,delivery --json -");
    let expected = [("new_order", 9, 5), ("payment", 7, 1), ("delivery", 4, 4)];
    assert_eq!(counts(&tpcc), expected.map(|(name, pieces, conflict)| (name.to_owned(), pieces, conflict)));
    for piece in tpcc["types"].as_array().unwrap().iter().flat_map(|one| one["pieces"].as_array().unwrap()) {
        assert!(!piece["sites"].as_array().unwrap().is_empty());
        assert!(piece["rank"].as_u64().unwrap() > 0 && piece["rendezvous"].is_array());
    }
    let merged = json("analyze tpce --ignore-causal --json -");
    assert_eq!(counts(&merged)[0], ("trade_order".into(), 9, 3));
    assert!(merged["merges"].as_array().unwrap().iter().all(|merge| {
        merge["cycle"].as_str().unwrap().contains("conflicts with")
            && merge["steps"].as_array().unwrap().len() > 1
    }));
    let plain = json("analyze tpcc --types Payment,delivery,new_order --no-commutative --json -");
    assert_eq!(counts(&plain)[1], ("payment".into(), 7, 3));
    let figure6 = json("analyze figure6 --json -");
    let rendezvous = &figure6["types"][0]["pieces"][1]["rendezvous"];
    assert_eq!((rendezvous[0]["type"].as_str(), rendezvous[0]["piece"].as_u64()), (Some("t2"), Some(2)));
}

#[test]
fn words_tell_pieces_before_and_after_the_cycle_and_the_waits() {
    let words = told("analyze figure3");
    for part in [
        "Before merging",
        "1. t1 pieces 1 to 2, t2 pieces 1 to 2:",
        "t1's `read tab1` (line 5) comes before `update tab2` (line 6), which conflicts with t2's `read tab2` (line 10)",
        "After merging",
        "C rank 1   read tab1 + update tab2",
        "waits for t1.2; t2.2",
    ] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
    assert!(!words.contains('\x1b'), "colours without a terminal");
    assert!(told("analyze tpcc").contains("nothing had to be merged"));
    assert!(told("analyze figure1b").contains("the commit of t2"));
    assert!(told("analyze articles").contains("on snapshots, left out: get_article, get_comments"));
    assert!(told("analyze tpcc --chopping").contains("every SC-cycle is merged"));
}

#[test]
fn drawings_are_whole_and_fetch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    told(&format!(
        "analyze tpcc-spec --html {} --svg {} --dot {}",
        path("a.html"),
        path("a.svg"),
        path("a.dot")
    ));
    let page = fs::read_to_string(path("a.html")).unwrap();
    let svg = fs::read_to_string(path("a.svg")).unwrap();
    let dot = fs::read_to_string(path("a.dot")).unwrap();
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.trim_end().ends_with("</svg>")
    );
    for drawing in [&page, &svg] {
        // A box for each piece, thick ones for the two merged ones, a line and a label for each C-edge.
        assert_eq!(drawing.matches("class=\"box").count(), 18);
        assert_eq!(drawing.matches("class=\"box merged\"").count(), 2);
        assert_eq!(
            drawing.matches("<path class=\"c\"").count(),
            drawing.matches("<text class=\"c\"").count()
        );
        assert_eq!(drawing.matches("<path class=\"s\"").count(), 18 - 3);
        assert!(drawing.contains(">rank 5</text>"));
        for fetched in ["src=", "href=", "url(", "<script", "@import"] {
            assert!(!drawing.contains(fetched), "{fetched}");
        }
    }
    assert_eq!(page.matches("http").count(), 1, "the name space of the drawing alone");
    assert!(!page.contains(&folder.path().display().to_string()));
    assert_eq!((dot.matches("dir=forward").count(), dot.matches("subgraph").count()), (15, 3));
    assert!(dot.starts_with("graph sc {") && dot.ends_with("}\n"));
}

#[test]
fn standard_input_and_output_are_a_dash() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_heddle"))
        .args(["analyze", "-", "--svg", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = "workload w\ntxn t\nupdate größe cols a-b\nend\n";
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("<svg") && text(&output.stdout).contains("update größe"));
    assert!(text(&output.stderr).starts_with("w: 1 type, 1 piece before merging and 1 after, 1 rank\n"));
}

#[test]
fn lists_and_applications() {
    let list = told("analyze --list");
    assert!(["tpcc ", "tpce ", "figure3 "].iter().all(|name| list.contains(name)));
    for line in list.lines() {
        told(&format!("analyze {}", line.split(' ').next().unwrap()));
    }
    let apps = told("analyze --apps");
    let publify = apps.lines().find(|line| line.starts_with("Publify")).unwrap();
    let numbers: Vec<&str> = publify.split_whitespace().skip(2).collect();
    assert_eq!(numbers, ["5", "1", "-", "1", "5", "1", "-", "1"]);
    assert_eq!(apps.matches(" at ").count(), 4, "a commit for each description");
}

#[test]
fn what_cannot_be_deferred_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deliver.txt");
    let text = "workload w\ntxn deliver\nupdate order\nadd customer cols balance deferred\nend\n\
                txn pay\nread customer cols balance\nREADS\nend\n";
    let told_of = |reads: &str, options: &str| {
        fs::write(&file, text.replace("READS", reads)).unwrap();
        told(&format!("analyze {} --chopping{options}", file.display()))
    };
    let reason =
        "not deferred: deliver's `add customer` (line 4) cannot be deferred: pay's `read customer` (line 7)";
    assert!(told_of("read order", " --defer").contains(reason));
    assert!(!told_of("read order", "").contains("deferred:"));
    assert!(!told_of("read item", " --defer").contains("deferred:"));
}

#[test]
fn refusals_are_one_line_with_the_place_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.txt");
    let refused = |content: &[u8], line: &str| {
        fs::write(&file, content).unwrap();
        let output = heddle(&line.replace("FILE", &file.display().to_string()));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        let message = text(&output.stderr);
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        message
    };
    let path = file.display();
    let cases: [(&[u8], &str, String); 9] = [
        (
            b"workload w\ntxn t\n  udpate a\nend\n",
            "analyze FILE",
            format!("error: {path}:3:3: `udpate` is not known here"),
        ),
        (b"workload w\ntxn t\n  udpate a\nend\n", "analyze FILE", "did you mean `update`?".into()),
        (
            b"workload w\ntable t cols a\ntxn t\nread t cols b\nend\n",
            "analyze FILE",
            format!("{path}:4:13: "),
        ),
        (b"workload w\n", "analyze FILE", format!("{path}: there is no transaction")),
        (b"workload w\n\xff", "analyze FILE", format!("{path}:2:1: this is no UTF-8 text")),
        (b"", "analyze tpc", "did you mean `tpcc`?".into()),
        (
            b"",
            "analyze tpcc --types pay",
            "choose from new_order, payment, delivery, last_order_status".into(),
        ),
        (b"", "analyze tpcc --json - --dot -", "only one of".into()),
        (b"", "analyze tpcc --granularity row", "column".into()),
    ];
    for (content, line, expected) in cases {
        let message = refused(content, line);
        assert!(message.contains(&expected), "{line}: {message}");
    }
    assert_eq!(heddle("analyze tpcc --json /nowhere/at/all.json").status.code(), Some(1));
}
