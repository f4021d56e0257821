//! `heddle sim` as it is run: its files, the same from two processes, its exit codes.

use heddledb::protocol::Kind;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn heddle(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heddle")).args(line.split(' ')).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

const SMALL: &str = "tpcc --scale tiny --window 200us --warmup 50us --seed 7";

#[test]
fn a_sweep_prints_a_table_and_writes_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("out.json"), folder.path().join("out.html"));
    let output = heddle(&format!(
        "sim {SMALL} --protocol all --cores 1,6 --sweep --json {} --html {}",
        json.display(),
        html.display()
    ));
    let (table, log) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{table}{log}");
    for word in [
        "silo x0.5",
        "no-wait x2",
        "speed-up",
        "transfers/tx",
        "costs, in cycles",
        "order of silo",
        "checks held",
    ] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    assert!(!table.contains('\x1b'), "colours without a terminal");
    assert!(log.contains("steps/s") && log.contains("left)"), "{log}");
    assert!(table.contains("unprotected on 6 cores was passed over"), "{table}");

    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["machine"]["os"], "simulated");
    let results = report["results"].as_array().unwrap();
    // Every protocol but comparators on two numbers of cores, and the one for a single core on that.
    let points = 2 * (Kind::contenders().len() - 1) + 1;
    assert_eq!(results.len(), 3 * points);
    for result in results {
        assert_eq!((&result["workload"], &result["seed"]), (&"tpcc".into(), &7.into()));
        assert!(result["throughput_tps"].as_f64().unwrap() > 0.0);
        assert_eq!(result["runs"].as_array().unwrap().len(), 1);
        let simulation = &result["simulation"];
        assert!(simulation["cycles"].as_f64().unwrap() > 100.0);
        assert!(simulation["costs"]["transfer"].as_u64().unwrap() > 0);
        assert!(simulation["speed_up"].as_f64().unwrap() > 0.0);
        assert!(result["checks"].as_array().unwrap().len() > 5);
    }
    let transfer = |at: usize| results[at]["simulation"]["costs"]["transfer"].as_u64().unwrap();
    assert_eq!((transfer(points) * 2, transfer(2 * points)), (transfer(0), transfer(0) * 2));
    let page = fs::read_to_string(html).unwrap();
    let fetched = ["http:", "https:", "src=", "href=", "url("];
    assert!(page.contains("<svg") && fetched.iter().all(|word| !page.contains(word)));
    assert!(!page.contains(&folder.path().display().to_string()), "the page names a folder of this machine");
}

#[test]
fn two_processes_write_the_same_bytes() {
    let run = |jobs: &str| heddle(&format!("sim {SMALL} --cores 1,3 --json -{jobs}"));
    let (first, second) = (run(""), run(" --jobs 2"));
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(!first.stdout.is_empty());
    assert_eq!(text(&first.stdout), text(&second.stdout));
}

#[test]
fn costs_are_printed_read_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.costs");
    let printed = text(&heddle("sim costs").stdout);
    assert!(printed.contains("transfer = ") && printed.contains("# A full fence."), "{printed}");
    fs::write(&file, printed.replace("operation = ", "operation = 1")).unwrap();
    let output =
        heddle(&format!("sim {SMALL} --cores 1 --protocol silo --json - --costs {}", file.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("not calibrated"));
    fs::write(&file, "hit = 4\ntransfre = 9\n").unwrap();
    let output = heddle(&format!("sim {SMALL} --costs {}", file.display()));
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("line 2: there is no cost `transfre`; did you mean `transfer`?"), "{message}");
}

#[test]
fn a_calibration_compares_and_fits() {
    let folder = tempfile::tempdir().unwrap();
    let (costs, table) = (folder.path().join("fitted.costs"), folder.path().join("table.txt"));
    let output = heddle(&format!(
        "sim calibrate --quick --protocol silo --load tpcc-np,ycsb-small --fit --out {} --table {}",
        costs.display(),
        table.display()
    ));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("ycsb-small") && told.contains("with the fitted costs"), "{told}");
    let fitted = fs::read_to_string(&costs).unwrap();
    assert!(fitted.starts_with("# calibrated on one core of "), "{fitted}");
    assert_eq!(fs::read_to_string(&table).unwrap().lines().filter(|line| !line.starts_with('#')).count(), 2);
    assert!(heddle(&format!("sim costs --costs {}", costs.display())).status.success());
    let output = heddle("sim calibrate --load tpcd");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("give some of tpcc, tpcc-np"), "{}", text(&output.stderr));
}

#[test]
fn the_size_of_batches_is_for_who_gathers() {
    let output = heddle(&format!("sim {SMALL} --cores 1 --protocol silo,dataflow --batch 10"));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--batch is for protocols that gather"),
        "{}",
        text(&output.stderr)
    );
    let output = heddle(&format!("sim {SMALL} --cores 1 --protocol silo,dgcc --batch 10"));
    assert!(output.status.success(), "{}", text(&output.stderr));
}
