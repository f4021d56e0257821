//! The search: fixed seeds of every protocol with every kind of fault, and that a replay is exact.
//!
//! A failure prints the spec that replays it. `HEDDLE_SIMULATIONS` changes how many are run of each, and
//! `HEDDLE_KIND` names the one protocol that is searched.

use heddledb::protocol::Kind;
use heddledb_check::beside;
use heddledb_simulator::search::{Faults, ReplayOptions, Spec, hunt, replay, run};
use std::process::Command;

fn simulations(unless_told: u64) -> u64 {
    std::env::var("HEDDLE_SIMULATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(unless_told)
}

/// The protocols that a search is about.
fn kinds(faults: Faults) -> Vec<Kind> {
    let only = std::env::var("HEDDLE_KIND").ok().map(|name| name.parse::<Kind>().unwrap());
    // Elsewhere calls are executed whole, however procedures come and go.
    let concerned = |kind: &Kind| faults != Faults::Change || kind.has_pieces();
    let is_due = |kind: &Kind| concerned(kind) && only.is_none_or(|only| only == *kind);
    Kind::ALL.iter().copied().filter(is_due).collect()
}

/// Every protocol, from seed 0 on; finds nothing, and did something.
fn search(faults: Faults, count: u64) {
    let search = |kind: &Kind| (*kind, hunt(*kind, faults, 0, simulations(count)));
    beside::each(beside::cores(), &kinds(faults), search, |(kind, outcome)| {
        if let Some(finding) = &outcome.finding {
            panic!("{finding}");
        }
        let progress = outcome.progress;
        println!("{kind} {faults}: {progress:?}");
        assert!(progress.commits > progress.simulations, "hardly anything commits: {progress:?}");
        if faults == Faults::Kill && kind != Kind::Unprotected {
            assert!(progress.stuck > 0, "nobody ever waits for the dead: {progress:?}");
        }
    });
}

/// The same, each protocol in a process of its own: the dead leave their memory behind, which all together is gigabytes.
fn search_apart(test: &str, faults: Faults, count: u64) {
    if std::env::var_os("HEDDLE_KIND").is_some() {
        return search(faults, count);
    }
    let program = std::env::current_exe().unwrap();
    let search = |kind: &Kind| {
        let mut again = Command::new(&program);
        let again = again.args(["--exact", test, "--nocapture"]).env("HEDDLE_KIND", kind.name());
        (*kind, again.output().expect("the test can start itself again"))
    };
    beside::each(beside::cores(), &kinds(faults), search, |(kind, output)| {
        let text = String::from_utf8_lossy(&output.stdout);
        let told = text.lines().find(|line| line.starts_with(&format!("{kind} {faults}: ")));
        let is_well = output.status.success() && told.is_some();
        assert!(is_well, "{kind}: {text}{}", String::from_utf8_lossy(&output.stderr));
        println!("{}", told.unwrap_or_default());
    });
}

#[test]
fn nothing_is_found_without_faults() {
    search(Faults::None, 6_000);
}

#[test]
fn nothing_is_found_with_stalled_workers() {
    search(Faults::Stall, 3_000);
}

#[test]
fn nothing_is_found_with_dead_workers() {
    search_apart("nothing_is_found_with_dead_workers", Faults::Kill, 800);
}

#[test]
fn nothing_is_found_with_deaths_and_a_disk_that_loses_power() {
    search_apart("nothing_is_found_with_deaths_and_a_disk_that_loses_power", Faults::Disk, 800);
}

#[test]
fn nothing_is_found_while_procedures_come_and_go() {
    search(Faults::Change, 6_000);
}

/// What searches have found, for as long as the sequence of accesses lets the same happen.
#[test]
fn what_was_found_is_mended() {
    let specs = [
        "ic3/84715",
        "ic3/84715~5.2.0.0",
        // A deleted row that a scan passed while another piece, which had let the gap go, had yet to let go of the row that it put there.
        "ic3/kill/90075909~5.4.0.0",
        // A decision that rests on the absence of rows which the attempt itself has added.
        "silo/127",
        "silo/127~2.1.0.0",
        "chopping-occ/change/455",
        // A row that a plan makes and removes; a row that another makes in a gap, after an intention on its key.
        "drp/200~5.2.0.0",
        "drp/447~4.1.0.0",
        // Their clocks tick while workers wait for time-outs: within the limit of accesses.
        "datm/7023",
        "datm/stall/553",
        // A call that only put off told a later epoch than its own, since it had found a row absent.
        // Without an end: a piece that only read drew its number anew for each try.
        "dbx-tc-lazy/794~2.1.0.15",
        "dbx-tc-lazy/stall/958~1.2.0.0",
        "dbx-tc-lazy/kill/1600~1.2.0.12",
        // A call that had found the gate open, and was pinned after a change of the plan had closed it and looked for those pinned.
        "dbx-tc-lazy/change/91040898~3.2.0.50",
        "dbx-tc-deferred/36~2.3.0.52",
        "dbx-tc-deferred/disk/5119~2.1.0.0",
        // Its log fails between pieces that only put off.
        "dbx-tc-deferred/disk/253",
        // Killed between the phases of a call, of which the second has a later time than the call.
        "deterministic-lazy/kill/5212419~3.1.3.4",
        "deterministic-lazy/disk/5241761~4.2.2.4",
    ];
    for spec in specs {
        assert_eq!(run(spec.parse().unwrap()).violation, None, "{spec}");
    }
}

fn traced(spec: Spec, options: &ReplayOptions) -> String {
    let mut text = Vec::new();
    replay(spec, options, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_same_spec_gives_the_same_trace_and_verdict() {
    for faults in Faults::ALL {
        for seed in 0..6 {
            for kind in [Kind::Silo, Kind::TicToc, Kind::WaitDie] {
                let spec = Spec { kind, faults, seed, cut: None };
                let options = ReplayOptions { unnamed: true, ..ReplayOptions::default() };
                let first = traced(spec, &options);
                // Memory lies elsewhere the second time.
                let between: Vec<Vec<u64>> = (1..200).map(|size| vec![0; size * 7]).collect();
                let second = traced(spec, &options);
                drop(between);
                assert!(first == second, "{spec} has two traces");
                assert_eq!(run(spec).steps, run(spec).steps, "{spec}");
            }
        }
    }
}

#[test]
fn a_trace_tells_who_did_what_to_which_record() {
    let spec: Spec = "silo/4711".parse().unwrap();
    let all = traced(spec, &ReplayOptions::default());
    for part in
        ["silo/4711\n", "begins, attempt 1", "committed at", "] stamp: epoch", "verdict after", "lawful"]
    {
        assert!(all.contains(part), "no {part:?} in\n{all}");
    }
    let one = traced(spec, &ReplayOptions { worker: Some(1), ..ReplayOptions::default() });
    assert!(
        one.len() < all.len() && one.contains("worker 1 ") && !one.contains("  worker 0   reads"),
        "{one}"
    );
    let part = ReplayOptions { from: Some(50), to: Some(60), unnamed: true, ..ReplayOptions::default() };
    let steps = |text: &str| text.lines().filter(|line| line.contains("  worker ")).count();
    let lines = steps(&traced(spec, &part));
    assert!((1..60).contains(&lines), "{lines} lines for eleven steps");
}

#[test]
fn specs_are_read_as_written() {
    for text in
        ["silo/4711", "wait-die/kill/0", "tictoc-sorted/disk/12~2.1.0.7", "no-wait/5~1.1.0.0", "ic3/change/3"]
    {
        assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
    }
    for (text, why) in [
        ("silo", "two or three parts"),
        ("sillo/1", "no protocol is called `sillo`"),
        ("silo/fire/1", "no faults are called `fire`"),
        ("silo/x", "`x` is no number"),
        ("silo/1~2.1", "four numbers"),
    ] {
        let error = text.parse::<Spec>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("silo/4711"), "{error}");
    }
}
