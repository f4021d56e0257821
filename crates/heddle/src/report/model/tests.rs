//! Reports with made-up figures, and the tests of the model.

use super::{CheckResult, Latency, Machine, Measurement, Outcomes, Report, Run, Simulation, median};
use std::collections::BTreeMap;

/// A report with figures that can be told apart.
pub fn sample() -> Report {
    let protocols = ["silo", "tictoc", "no-wait", "wait-die"];
    let mut results = Vec::new();
    for (at, protocol) in protocols.into_iter().enumerate() {
        for threads in [1, 2] {
            results.push(measurement(protocol, threads, 100_000.0 * (threads as f64) - 9_000.0 * at as f64));
        }
    }
    let baseline = measurement("unprotected", 1, 130_000.0);
    let mut report = Report {
        command: "heddle bench tpcc --protocol silo,tictoc,no-wait,wait-die --threads 1,2".into(),
        machine: crate::machine::describe(),
        results,
        baseline: Some(baseline),
        notes: vec!["a note with <angles> & ampersands".into()],
    };
    report.fill_ratios();
    report
}

/// A report as of a simulation with a sweep of costs.
pub fn simulated() -> Report {
    let mut results = Vec::new();
    for (coherence, ahead) in [(1.0, 1.2), (0.5, 1.5), (2.0, 0.7)] {
        for (protocol, times) in [("silo", ahead), ("tictoc", 1.0)] {
            for cores in [1, 8, 64] {
                let tps = 90_000.0 * (cores as f64).sqrt() * if cores == 1 { 1.0 } else { times };
                let mut result = measurement(protocol, cores, tps);
                result.settings = [("seconds".to_owned(), 0.002), ("epoch_interval".to_owned(), 0.01)].into();
                result.runs.truncate(1);
                result.summarise();
                result.simulation = Some(Simulation {
                    sockets: 1,
                    cores_per_socket: 1024,
                    coherence,
                    costs: [("transfer".to_owned(), 120), ("memory".to_owned(), 200)].into(),
                    calibration: "calibrated on a machine".into(),
                    transactions: 1000,
                    cycles: 20_000.0,
                    transfers: 3.25,
                    waiting_cycles: 5_000.0,
                    ..Simulation::default()
                });
                results.push(result);
            }
        }
    }
    let mut report = Report {
        command: "heddle sim tpcc --sweep".into(),
        machine: Machine {
            cpu: "virtual cores of 2600 MHz, 1 socket of 1024".into(),
            cores: 1024,
            memory_gib: 0.0,
            os: "simulated".into(),
            virtual_machine: true,
            huge_pages: String::new(),
            rustc: String::new(),
            target: String::new(),
            profile: String::new(),
            heddle: "0.1.0".into(),
        },
        results,
        baseline: None,
        notes: Vec::new(),
    };
    report.fill_speed_ups();
    report.notes = report.orders();
    report
}

fn measurement(protocol: &str, threads: usize, tps: f64) -> Measurement {
    let mut result = Measurement {
        workload: "tpcc".into(),
        protocol: protocol.into(),
        threads,
        seed: 7,
        settings: [("seconds".to_owned(), 5.0), ("warmup".to_owned(), 1.0)].into(),
        parameters: [("warehouses".to_owned(), "1".to_owned())].into(),
        runs: (1..=3).map(|number| run(number, threads, tps * (0.9 + 0.05 * number as f64))).collect(),
        ..Measurement::default()
    };
    result.summarise();
    result
}

fn run(number: usize, threads: usize, tps: f64) -> Run {
    let committed = (tps * 5.0) as u64;
    let conflicts: BTreeMap<String, u64> = if threads == 1 {
        [("locked".to_owned(), 0), ("read changed".to_owned(), 0)].into()
    } else {
        [("locked".to_owned(), committed / 30), ("read changed".to_owned(), committed / 9)].into()
    };
    let p50 = 1e6 * threads as f64 / tps * 0.8;
    let aborted: u64 = conflicts.values().sum();
    Run {
        run: number,
        seconds: 5.0,
        committed,
        user_aborts: committed / 200,
        abort_rate: aborted as f64 / (committed + committed / 200 + aborted) as f64,
        conflicts,
        kinds: [(
            "new-order".to_owned(),
            Outcomes { committed: committed / 2, user_aborts: committed / 200 },
        )]
        .into(),
        throughput_tps: tps,
        core_share: 1.0,
        record_bytes: 3 << 20,
        version_bytes: 5 << 10,
        latency_us: Latency { mean: p50, p50, p95: p50 * 2.5, p99: p50 * 6.0, p999: p50 * 40.0, max: 9000.0 },
        checks: vec![CheckResult { name: "orders add up".into(), ok: true, detail: "3 = 3".into() }],
        ..Run::default()
    }
}

#[test]
fn a_sweep_tells_what_depends_on_the_costs() {
    let report = simulated();
    assert_eq!(report.notes.len(), 1);
    let expected = "order of silo and tictoc on 64 cores: depends on what cores cost each other; \
                    silo by tictoc is 1.50 with x0.5, 1.20 with x1, 0.70 with x2";
    assert_eq!(report.notes[0], expected);
    let speed_up = |at: usize| report.results[at].simulation.as_ref().unwrap().speed_up.unwrap();
    assert_eq!(speed_up(0), 1.0);
    assert!((speed_up(2) - 9.6).abs() < 0.01, "64 cores of silo: {}", speed_up(2));
    let protocols = report.protocols();
    assert_eq!(protocols, ["silo", "tictoc", "silo x0.5", "tictoc x0.5", "silo x2", "tictoc x2"]);
    let mut one = simulated();
    one.results.retain(|result| result.coherence() == 1.0);
    assert!(one.orders().is_empty());
    one.results.extend(simulated().results);
    one.results
        .iter_mut()
        .filter(|result| result.protocol == "silo")
        .for_each(|result| result.throughput_tps = 1e9);
    assert!(one.orders()[0].contains("silo is ahead whatever"), "{:?}", one.orders());
}

#[test]
fn medians_take_the_middle_run() {
    assert_eq!(median(vec![]), 0.0);
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0]), 2.5);
    let result = measurement("silo", 1, 100_000.0);
    assert!((result.throughput_tps - 100_000.0).abs() < 1e-6);
    assert!((result.spread() - 0.1).abs() < 1e-6);
    assert_eq!(result.new_order_tps(), Some(50_000.0));
}

#[test]
fn time_that_others_took_is_noted() {
    let mut report = sample();
    let notes = report.notes.len();
    report.note_stolen_time();
    assert_eq!(report.notes.len(), notes);
    report.results[1].core_share = 0.6;
    report.note_stolen_time();
    assert!(report.notes[notes].contains("other programs took up to 40.0 %"), "{:?}", report.notes);
}

#[test]
fn a_check_that_failed_once_fails_and_names_the_run() {
    let mut result = measurement("silo", 1, 100_000.0);
    result.runs[1].checks[0] =
        CheckResult { name: "orders add up".into(), ok: false, detail: "3 != 4".into() };
    result.summarise();
    assert!(result.failed());
    assert_eq!(result.checks.len(), 1);
    assert_eq!(result.checks[0].detail, "run 2: 3 != 4");
}

#[test]
fn a_broken_run_fails_and_leaves_the_medians_alone() {
    let mut result = measurement("silo", 1, 100_000.0);
    result.runs.push(Run::broken(4, "no more sessions".into()));
    result.summarise();
    assert!(result.failed() && (result.throughput_tps - 100_000.0).abs() < 1e-6);
    result.runs = vec![Run::broken(1, "no more sessions".into())];
    result.summarise();
    assert!(result.failed() && result.throughput_tps == 0.0);
}

#[test]
fn the_file_has_its_fields_and_can_be_read_back() {
    let report = sample();
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["machine"].is_object());
    let result = &value["results"][0];
    for field in ["workload", "protocol", "threads", "parameters", "runs", "throughput_tps", "abort_rate"] {
        assert!(!result[field].is_null(), "{field}");
    }
    assert!(result["latency_us"]["p999"].is_number());
    for field in ["name", "ok", "detail"] {
        assert!(!result["checks"][0][field].is_null(), "{field}");
    }
}

#[test]
fn checks_are_counted_run_by_run() {
    let mut report = sample();
    // Eight results and the baseline, three runs each, a check after each.
    assert_eq!(report.check_count().to_string(), "all 27 checks held");
    assert!(!report.failed());
    for run in &mut report.results[2].runs[..2] {
        run.checks[0].ok = false;
    }
    assert_eq!(report.check_count().to_string(), "2 of 27 checks failed");
    assert!(report.failed());
    report.results.clear();
    report.baseline = None;
    assert_eq!(report.check_count().to_string(), "no check was made");
}
