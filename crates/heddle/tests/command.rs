//! The program as it is run: small benchmarks, its files, its exit codes.

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
fn tpcc_prints_a_table_and_writes_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("out.json"), folder.path().join("out.html"));
    let output = heddle(&format!(
        "bench tpcc --protocol silo,tictoc --threads 1,2 --warehouses 1 --scale tiny --seconds 0.1 --warmup 0.05 \
         --runs 2 --seed 7 --pool 200 --json {} --html {}",
        json.display(),
        html.display()
    ));
    let (table, log) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{table}{log}");
    for word in ["silo", "tictoc", "(unprotected)", "new-order/s", "ratio", "p99.9", "checks held"] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    assert!(!table.contains('\x1b'), "colours without a terminal");
    assert!(log.contains("run 2 of 2: tictoc, 2 threads:"), "{log}");

    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(report["machine"]["cores"].is_u64());
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        assert_eq!(result["workload"], "tpcc");
        assert_eq!(result["seed"], 7);
        assert_eq!(result["parameters"]["warehouses"], "1");
        assert_eq!(result["runs"].as_array().unwrap().len(), 2);
        assert!(result["throughput_tps"].as_f64().unwrap() > 0.0);
        assert!(result["abort_rate"].as_f64().unwrap() < 1.0);
        assert!(result["latency_us"]["p99"].as_f64().unwrap() > 0.0);
        let checks = result["checks"].as_array().unwrap();
        assert!(checks.len() > 5, "{checks:?}");
        assert!(checks.iter().all(|check| check["ok"] == true && check["detail"].is_string()));
    }

    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("<svg") && page.contains("tictoc"));
    let fetched = ["http:", "https:", "src=", "href=", "url("];
    assert!(fetched.iter().all(|word| !page.contains(word)), "the page fetches something");
    assert!(!page.contains(&folder.path().display().to_string()), "the page names a folder of this machine");
}

#[test]
fn ycsb_writes_json_to_the_standard_output() {
    let output = heddle(
        "bench ycsb --theta 0.9 --reads 50 --ops 4 --records 1000 --field-bytes 10 --quick --seconds 0.1 \
         --warmup 0 --pool 0 --no-baseline --json -",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(report["results"][0]["parameters"]["theta"], "0.9");
    assert!(report["baseline"].is_null());
    assert!(text(&output.stderr).contains("p99.9"), "the table goes to the standard error stream");
}

#[test]
fn the_list_has_workloads_and_protocols() {
    let list = text(&heddle("bench --list").stdout);
    for word in ["tpcc", "ycsb", "silo", "tictoc", "no-wait", "wait-die", "unprotected"] {
        assert!(list.contains(word), "{list}");
    }
}

#[test]
fn refusals_are_one_line_and_exit_with_two() {
    let cases = [
        ("bench", "name a workload, tpcc or ycsb"),
        ("bench tpcc --protocol unprotected --threads 2", "1 thread only"),
        ("bench tpcc --protocol magic", "choose from unprotected, silo"),
        ("bench tpcc --json no/such/folder/out.json", "name a file in a folder that exists"),
        ("bench ycsb --theta 2", "from 0 to below 1"),
        ("speed", "unrecognized subcommand 'speed'"),
    ];
    for (line, expected) in cases {
        let output = heddle(line);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{line}: {message}");
        assert!(output.stdout.is_empty());
    }
}
