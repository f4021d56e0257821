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
fn readers_on_snapshots_are_told_in_the_report() {
    let small = "--threads 2 --seconds 0.1 --warmup 0.05 --runs 1 --pool 200 --no-baseline --json -";
    for (line, way) in [
        ("tpcc --scale tiny --read-only snapshot", "snapshot"),
        ("tpcc --scale tiny", "serializable"),
        ("ycsb --preset b --records 1000 --read-only snapshot", "snapshot"),
    ] {
        let output = heddle(&format!("bench {line} {small}"));
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(&format!("read_only {way}")), "{}", text(&output.stderr));
        let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let result = &report["results"][0];
        assert_eq!(result["parameters"]["read_only"], way);
        assert!(result["record_bytes"].as_f64().unwrap() > 1e5);
        assert_eq!(result["runs"][0]["version_bytes"].as_u64().unwrap() > 0, way == "snapshot", "{line}");
        let counted = result["checks"].as_array().unwrap().iter();
        let counted = counted.filter(|check| check["name"].as_str().unwrap().contains("sessions counted"));
        let details: Vec<_> = counted.map(|check| check["detail"].as_str().unwrap()).collect();
        assert_eq!(details[0].contains(" 0 on snapshots"), way == "serializable", "{details:?}");
    }
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
fn consequences_and_abandoned_pieces_are_counted() {
    for (line, counted) in [
        ("tpce --customers 20 --pool 200", ["trade-order", "trade-result", "market-feed", "trade-update"]),
        ("tpce --customers 20 --pool 0", ["trade-order", "trade-result", "market-feed", "trade-update"]),
        ("micro --rows 100 --scope 10 --user-aborts 20 --reversed", ["forwards", "backwards", "", ""]),
    ] {
        // A busy machine may come to no user abort in so short a time, so there is a longer one.
        let missing = |seconds| {
            let small = "--protocol tictoc --threads 2 --warmup 0.05 --runs 1 --no-baseline --json -";
            let output = heddle(&format!("bench {line} {small} --seconds {seconds}"));
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
            let run = &report["results"][0]["runs"][0];
            let mut kinds = counted.into_iter().filter(|kind| !kind.is_empty());
            let none = kinds.find(|kind| run["kinds"][kind]["committed"].as_u64().unwrap() == 0);
            none.or((run["user_aborts"].as_u64().unwrap() == 0).then_some("user aborts"))
        };
        let still_missing = missing("0.2").and_then(|_| missing("5"));
        assert_eq!(still_missing, None, "{line}");
    }
}

#[test]
fn deferred_workloads_and_applications_are_run_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("out.html");
    for line in [
        "array --elements 1000 --accesses 10 --shared",
        "vacation --contention hot --relations 300",
        "tpcc --scale tiny --deferred --mix np",
        "kmeans --points 200 -m 5",
        "intruder --flows 100",
        "genome -g 100 -n 500",
    ] {
        let output = heddle(&format!(
            "bench {line} --protocol drp,silo --threads 2 --seconds 0.1 --warmup 0.05 --runs 1 --pool 200 --json - --html {}",
            page.display()
        ));
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        for result in report["results"].as_array().unwrap() {
            assert!(line.starts_with(result["workload"].as_str().unwrap()));
            assert!(result["throughput_tps"].as_f64().unwrap() > 0.0, "{line}");
            let checks = result["checks"].as_array().unwrap();
            assert!(checks.len() > 2 && checks.iter().all(|check| check["ok"] == true), "{line}: {checks:?}");
        }
        assert!(fs::read_to_string(&page).unwrap().contains("<svg"), "{line}");
    }
}

/// Every workload of procedures, submitted: by windows, and in an open loop.
#[test]
fn submitted_calls_of_every_workload_are_run_and_checked() {
    let small = "--threads 2 --seconds 0.2 --warmup 0.05 --runs 1 --pool 200 --json -";
    for (line, protocols) in [
        ("tpcc --scale tiny --queue 20", "silo,ic3,dgcc,dataflow,drp"),
        ("tpcc --scale tiny --mix np --rate 2000", "silo,dgcc"),
        ("tpcc --scale tiny --read-only snapshot --queue 20 --clients 1", "tictoc,dgcc-levels"),
        ("tpcc --scale tiny --queue 20 --durability epoch --log commands --checkpoint --recover", "dgcc"),
        (
            "tpcc --scale tiny --items-first --queue 20 --durability epoch --log commands --checkpoint --recover",
            "dataflow",
        ),
        ("ycsb --records 1000 --theta 0.8 --queue 20", "silo,dgcc,dataflow"),
        ("ycsb --records 1000 --preset f --rate 3000 --arrivals fixed", "wait-die,dgcc"),
        ("tpce --customers 20 --queue 20", "silo,dgcc"),
        ("micro --rows 1000 --queue 5 --user-aborts 5", "ic3,dgcc"),
    ] {
        let output = heddle(&format!("bench {line} --protocol {protocols} {small}"));
        let table = text(&output.stderr);
        assert!(output.status.success(), "{line}: {table}");
        let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        let results = report["results"].as_array().unwrap();
        assert_eq!(results.len(), protocols.split(',').count(), "{line}");
        let open = line.contains("--rate");
        for result in results {
            assert!(result["throughput_tps"].as_f64().unwrap() > 0.0, "{line}");
            assert_eq!(result["driver"]["loop"], if open { "open" } else { "window" });
            assert_eq!(result["driver"]["clients"], if line.contains("--clients 1") { 1 } else { 2 });
            assert_eq!(result["latency_from"], if open { "intended arrival" } else { "submission" });
            assert_eq!(result["calls"]["open"].is_object(), open);
            let checks = result["checks"].as_array().unwrap();
            let counted = |check: &Value| check["name"].as_str().unwrap().contains("the database counted");
            assert!(checks.iter().any(counted), "{line}: {checks:?}");
        }
        assert!(table.contains("executors") && table.contains("clients"), "{table}");
    }
}

#[test]
fn the_list_has_workloads_and_protocols() {
    let list = text(&heddle("bench --list").stdout);
    for word in [
        "tpcc",
        "tpce",
        "ycsb",
        "micro",
        "articles",
        "array",
        "kmeans",
        "vacation",
        "silo",
        "tictoc",
        "no-wait",
        "wait-die",
        "unprotected",
    ] {
        assert!(list.contains(word), "{list}");
    }
}

#[test]
fn refusals_are_one_line_and_exit_with_two() {
    let cases = [
        ("bench", "name a workload, such as tpcc or ycsb"),
        ("bench tpcc --protocol unprotected --threads 2", "1 thread only"),
        ("bench tpcc --protocol magic", "choose from unprotected, silo"),
        ("bench tpcc --json no/such/folder/out.json", "name a file in a folder that exists"),
        ("bench ycsb --theta 2", "from 0 to below 1"),
        ("bench array --theta 0.5", "give --shared with --theta"),
        ("bench vacation --contention mild", "give low, high or hot"),
        ("bench kmeans --most 4 --least 5", "5 to 4"),
        ("bench kmeans --durability sync", "without a log"),
        ("bench tpcc --deferred --mode sto", "cannot be deferred"),
        ("bench tpcc --read-only dirty", "give serializable or snapshot"),
        ("bench array --queue 8", "only calls can be submitted"),
        ("bench vacation --rate 100", "only calls can be submitted"),
        ("bench ycsb --preset e --queue 8", "only calls can be submitted"),
        ("bench kmeans --queue 8", "only calls can be submitted"),
        ("bench tpcc --deferred --queue 8", "only calls can be submitted"),
        ("bench tpcc --queue 0", "give a whole number from 1 to 100000"),
        ("bench tpcc --rate 0", "give calls a second from 1"),
        ("bench tpcc --rate 10 --arrivals often", "give poisson or fixed"),
        ("bench tpcc --arrivals fixed", "--arrivals is for --rate"),
        ("bench tpcc --clients 2", "--clients is for --queue or --rate"),
        ("bench tpcc --crew 2 --queue 8", "leave out --crew"),
        ("bench tpcc --protocol dgcc --log commands", "--log commands is for runs with a log"),
        ("bench tpcc --dir /tmp", "--dir is for runs with a log"),
        ("bench tpcc --log-files 2 --durability none", "--log-files is for runs with a log"),
        ("bench ycsb --lz4 --queue 8", "--lz4 is for runs with a log"),
        ("bench tpcc --checkpoint", "--checkpoint is for runs with a log"),
        ("bench kmeans --recover", "--recover is for runs with a log"),
        ("bench tpcc --recovery-threads 2", "--recovery-threads is for runs with a log"),
        ("bench tpcc --durability epoch --recovery-threads 2", "give --recover or --checkpoint"),
        ("bench tpcc --durability epoch --log commands", "silo logs what was written"),
        ("bench tpcc --protocol dgcc,drp --durability epoch --log commands", "drp logs what was written"),
        ("bench ycsb --protocol dgcc --durability sync --log commands", "leave out --log commands"),
        (
            "bench tpce --protocol dataflow --durability epoch --log commands --rate 100",
            "leave out --log commands",
        ),
        (
            "bench micro --protocol dgcc --durability epoch --log commands --queue 8",
            "leave out --log commands",
        ),
        ("bench articles --protocol dgcc --durability epoch --log commands", "leave out --log commands"),
        (
            "bench tpcc --protocol dgcc --durability epoch --log commands --mode sto",
            "leave out --log commands",
        ),
        (
            "bench tpcc --protocol dgcc --durability epoch --log commands --deferred",
            "leave out --log commands",
        ),
        ("bench recovery --protocol dgcc --log commands --deferred", "leave out --log commands"),
        ("bench tpcc --protocol unprotected --queue 8", "unprotected cannot run on 1 threads"),
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

#[test]
fn a_history_of_every_protocol_is_lawful() {
    let folder = tempfile::tempdir().unwrap();
    for protocol in ["silo", "tictoc", "tictoc-sorted", "no-wait", "wait-die", "unprotected"] {
        let file = folder.path().join(protocol);
        let threads = if protocol == "unprotected" { 1 } else { 2 };
        let made = heddle(&format!(
            "history --protocol {protocol} --transactions 2000 --threads {threads} --seed 7 --keys 8 --out {}",
            file.display()
        ));
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert!(text(&made.stderr).contains("2000 transactions committed"), "{}", text(&made.stderr));
        let judged = heddle(&format!("check {}", file.display()));
        let words = text(&judged.stdout);
        assert_eq!(judged.status.code(), Some(0), "{words}{}", text(&judged.stderr));
        assert!(words.contains("2000 transactions") && words.contains("ok serializable"), "{words}");
    }
}

#[test]
fn an_anomaly_is_told_in_words_and_exits_with_one() {
    // Write skew: each reads the row that the other writes.
    let history = "\
{\"format\":\"heddledb-history\",\"version\":1,\"protocol\":\"none\",\"strict\":false,\"seed\":1}
{\"session\":0,\"begin\":1,\"end\":2,\"status\":\"committed\",\"stamp\":1,\"ops\":[{\"write\":[1,1,1]},{\"write\":[1,2,2]}]}
{\"session\":0,\"begin\":3,\"end\":6,\"status\":\"committed\",\"stamp\":2,\"ops\":[{\"read\":[1,1,1]},{\"read\":[1,2,2]},{\"write\":[1,1,3]}]}
{\"session\":1,\"begin\":4,\"end\":5,\"status\":\"committed\",\"stamp\":3,\"ops\":[{\"read\":[1,1,1]},{\"read\":[1,2,2]},{\"write\":[1,2,4]}]}
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("skew");
    fs::write(&file, history).unwrap();
    let output = heddle(&format!("check {}", file.display()));
    let words = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(
        words.contains("G2-item") && words.contains("T1 (session 0) read table 1 key 2 before T2"),
        "{words}"
    );

    let output = heddle(&format!("check {} --json", file.display()));
    assert_eq!(output.status.code(), Some(1));
    let judgement: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(judgement["ok"], false);
    assert_eq!(judgement["anomalies"][0]["class"], "G2-item");
}

#[test]
fn what_is_no_history_exits_with_two() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    fs::write(&file, "hello\n").unwrap();
    let output = heddle(&format!("check {}", file.display()));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("line 1 is not a history's header"), "{}", text(&output.stderr));
    let output = heddle("check no/such/file");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("heddle history"), "{}", text(&output.stderr));
    let output = heddle("history --protocol unprotected --threads 2 --out -");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--threads is at most 1"), "{}", text(&output.stderr));
}
