//! `heddle reproduce` as it is run: verdicts, files, figures that there are not.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn heddle(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(line.split(' ')).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[test]
fn a_figure_is_run_judged_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("out.json"), folder.path().join("out.html"));
    let line = "reproduce ic3 --figure 16b,table2,14 --quick --seed 7";
    let output = heddle(&format!("{line} --json {} --html {}", json.display(), html.display()));
    let (table, log) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{table}{log}");
    for word in ["figure 16b", "+ rendezvous", "not reachable here: the paper", "claims:", "new_order"] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    assert!(!table.contains('\x1b'), "colours without a terminal");
    assert!(log.contains("figure 16b: ic3, 64 cores"), "{log}");

    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&document["paper"], &document["seed"]), (&"ic3".into(), &7.into()));
    assert_eq!(document["command"], format!("heddle {line}"));
    assert!(document["machine"].is_null(), "nothing ran on threads");
    let figures = document["figures"].as_array().unwrap();
    // In the paper's order, whatever the order of the arguments.
    let ids: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["14", "16b", "table2"]);
    let verdicts = |at: usize| -> Vec<&str> {
        let claims = figures[at]["claims"].as_array().unwrap();
        claims.iter().map(|claim| claim["verdict"].as_str().unwrap()).collect()
    };
    assert_eq!(verdicts(0), ["reproduced", "reproduced"]);
    assert_eq!(verdicts(2), ["not reachable here", "not reachable here", "reproduced"]);
    let lines = figures[1]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let point = &line["points"][0];
        assert_eq!((&point["threads"], &point["simulated"]), (&64.into(), &true.into()));
        assert!(point["value"].as_f64().unwrap() > 0.0 && point["failed"].is_null(), "{point}");
    }
    // One or the other, but never neither: all points are there.
    assert!(verdicts(1)[0].ends_with("reproduced"), "{}", figures[1]["claims"]);

    let page = fs::read_to_string(html).unwrap();
    let fetched = ["https:", "src=", "href=", "url(", "@import"];
    assert!(page.contains("<svg") && fetched.iter().all(|word| !page.contains(word)));
    assert_eq!(page.matches("http").count(), 1, "the name space of the drawing alone");
    assert!(page.contains("Figure 16b") && page.contains("verdict"));
    assert!(!page.contains(&folder.path().display().to_string()), "the page names a folder of this machine");

    let again = heddle(&format!("{line} --jobs 2 --json -"));
    assert_eq!(text(&again.stdout), fs::read_to_string(json).unwrap(), "it depends on the jobs");
}

/// One whose points tell how hardware regions ended.
#[test]
fn points_tell_how_regions_ended() {
    let output = heddle("reproduce dbx-tc --figure 12-one-why --quick --json -");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = document["figures"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let point = &line["points"][0];
        assert!(point["value"].as_f64().unwrap() > 0.0, "{point}");
        let has_regions = ["dbx", "htm", "dbx-tc"].contains(&line["name"].as_str().unwrap());
        let committed = point["regions"]["committed"].as_u64();
        assert_eq!(committed.is_some_and(|count| count > 0), has_regions, "{point}");
    }
}

/// Those that come from no run of points: what a region has room for, what transactions access, chopping graphs.
#[test]
fn facts_are_tabled_drawn_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let html = folder.path().join("out.html");
    let figures = "reproduce dbx-tc --figure 1a,1b,table1,10,11 --json -";
    let output = heddle(&format!("{figures} --html {}", html.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = document["figures"].as_array().unwrap();
    let ids: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["1a", "1b", "table1", "10", "11", "11-why"]);
    for figure in figures {
        let table = figure["table"].as_array().unwrap();
        assert!(table.iter().all(|row| row.as_array().unwrap().len() == table[0].as_array().unwrap().len()));
        for claim in figure["claims"].as_array().unwrap() {
            assert!(claim["verdict"].as_str().unwrap().ends_with("reproduced"), "{claim}");
        }
    }
    let page = fs::read_to_string(html).unwrap();
    for word in ["Figure 1a", "regions that abort", "Table 1", "Figure 10", "sc-graph"] {
        assert!(page.contains(word), "{word} is missing");
    }
}

/// One that has latencies by kind, bytes of rows, and programs that end.
#[test]
fn figures_have_other_measures_than_rates() {
    let output = heddle("reproduce drp --figure 1-memory,8-eager,6-why --quick --json -");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = document["figures"].as_array().unwrap();
    let ids: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["1-memory", "6-why", "8-eager", "8-eager-why"]);
    for figure in figures {
        for line in figure["lines"].as_array().unwrap() {
            for point in line["points"].as_array().unwrap() {
                assert!(point["value"].as_f64().unwrap() > 0.0, "{point}");
            }
        }
        for claim in figure["claims"].as_array().unwrap() {
            let verdict = claim["verdict"].as_str().unwrap();
            assert!(verdict.ends_with("reproduced"), "{claim}");
        }
    }
    // A row of one number takes 24 bytes and more, whatever the protocol.
    let bytes = |at: usize| figures[0]["lines"][at]["points"][0]["value"].as_f64().unwrap();
    assert!((24.0..200.0).contains(&bytes(0)) && (24.0..200.0).contains(&bytes(1)), "{}", figures[0]);
}

#[test]
fn what_there_is_not_is_refused_with_what_there_is() {
    for (line, expected) in [
        (
            "reproduce ic3 --figure 12z",
            "there is no figure `12z` (did you mean `12a`?); choose from 12a, 12b",
        ),
        ("reproduce ic3 --figure 1", "there is no figure `1`"),
        ("reproduce ic4", "no paper is called `ic4`; choose from dbx-tc, dgcc, drp"),
        ("reproduce", "required arguments were not provided: <PAPER>"),
        ("reproduce ic3 --jobs 0", "0 is not in 1..=64"),
        ("reproduce ic3 --figure 14 --html -", "--html needs a file's name"),
    ] {
        let output = heddle(line);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(message.contains(expected), "{line}: {message}");
        assert_eq!(message.lines().count(), 1, "{line}: {message}");
    }
    let list = heddle("reproduce --list");
    assert!(list.status.success());
    let list = text(&list.stdout);
    for word in ["ic3: Scaling", "  12a ", "  table2 "] {
        assert!(list.contains(word), "{word} is missing in\n{list}");
    }
}
