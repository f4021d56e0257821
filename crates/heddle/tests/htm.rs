//! `heddle htm` as it is run.

use serde_json::Value;
use std::process::{Command, Output};

fn heddle(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(line.split(' ')).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[test]
fn a_processor_is_probed_or_said_to_have_none() {
    let output = heddle("htm probe --regions 10");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    if told.starts_with("no RTM: ") {
        assert_eq!(told.lines().count(), 1, "{told}");
    } else {
        assert!(told.starts_with("RTM: ") && told.contains("writes at random"), "{told}");
    }
}

#[test]
fn the_model_is_probed_alike_on_any_machine() {
    let probe = || heddle("htm probe --model --regions 2 --json -");
    let output = probe();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("reads in sequence"), "the table goes elsewhere");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["available"], &document["regions"]), (&true.into(), &2.into()));
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4 * 17);
    for trial in trials {
        let lines = trial["lines"].as_u64().unwrap();
        let share = trial["committed_share"].as_f64().unwrap();
        match trial["accesses"].as_str().unwrap() {
            "writes in sequence" => assert_eq!(share, f64::from(u8::from(lines <= 512)), "{trial}"),
            "reads in sequence" => assert_eq!(share, f64::from(u8::from(lines <= 16_384)), "{trial}"),
            _ => assert!(lines > 7 || share == 1.0, "{trial}"),
        }
        assert_eq!((&trial["conflicts"], &trial["interrupted"]), (&0.into(), &0.into()), "{trial}");
    }
    assert_eq!(probe().stdout, output.stdout);
}

/// The first-level cache is chosen by name, and is a part of the table of costs.
#[test]
fn the_model_has_the_cache_that_is_asked_for() {
    let output = heddle("htm probe --model --l1 12-way --regions 2 --json -");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["told"].as_str().unwrap().contains("12-way"), "{document}");
    let share = |lines: u64| {
        let trials = document["trials"].as_array().unwrap();
        let of = |trial: &&Value| trial["accesses"] == "writes in sequence" && trial["lines"] == lines;
        trials.iter().find(of).unwrap()["committed_share"].as_f64().unwrap()
    };
    assert_eq!((share(640), share(768)), (1.0, 0.0), "more than 32 KiB, less than 48 KiB");
    let table = heddle("sim costs --l1 8-way");
    assert!(text(&table.stdout).contains("htm_read_spans = 400"), "{}", text(&table.stdout));
}

#[test]
fn what_cannot_be_is_refused() {
    let lines = [
        "htm probe --regions 0",
        "htm probe --model=yes",
        "htm",
        "htm probe --l1 8-way",
        "htm probe --model --l1 9-way",
    ];
    for line in lines {
        assert_eq!(heddle(line).status.code(), Some(2), "{line}");
    }
}
