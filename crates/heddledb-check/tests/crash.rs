//! Crash points, a share of what `--bin crash` runs.

use heddledb::protocol::Kind;
use heddledb_check::beside;
use heddledb_check::crash::{Failure, Spot, explore, history, replay};
use heddledb_check::history::Status;
use heddledb_check::judge;

/// Points of one run; `HEDDLE_POINTS` changes it, `HEDDLE_CRASH=17/cut/43` replays one operation.
const POINTS: u64 = 15_000;

#[test]
fn what_was_promised_is_there_after_every_crash() {
    if let Ok(text) = std::env::var("HEDDLE_CRASH") {
        let spot: Spot = text.parse().unwrap_or_else(|error| panic!("{error}"));
        println!("{}", replay(spot).unwrap_or_else(|violation| panic!("{violation}")));
        return;
    }
    let points = std::env::var("HEDDLE_POINTS").ok().and_then(|text| text.parse().ok()).unwrap_or(POINTS);
    let threads = beside::cores();
    let counts = explore(&Failure::ALL, None, 1, points, threads, &|_| {})
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("{counts}");
    assert!(counts.points() >= points && counts.damage.iter().all(|count| *count > 0), "{counts}");
    assert!(counts.migrated.iter().all(|count| *count > 0), "{counts}");
}

/// Points of each protocol that is looked at by itself.
const POINTS_UNDER_ONE: u64 = 1_500;

#[test]
fn what_calls_have_put_off_is_there_with_them() {
    for kind in [Kind::DbxTcDeferred, Kind::DbxTcLazy, Kind::DbxTc, Kind::Dbx, Kind::Htm] {
        let counts = explore(&Failure::ALL, Some(kind), 1, POINTS_UNDER_ONE, 2, &|_| {});
        let counts = counts.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(counts.points() >= POINTS_UNDER_ONE, "{kind}: {counts}");
    }
}

/// Points at which something was found once.
const FOUND: [&str; 3] = ["dbx-tc-lazy/2/error/44", "silo/58/full/22", "11/short/10"];

#[test]
fn nothing_is_found_any_more_where_something_was() {
    for text in FOUND {
        replay(text.parse().unwrap()).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// Histories of one run; `HEDDLE_HISTORIES` changes it, `HEDDLE_SEED` runs one.
const HISTORIES: u64 = 40;

#[test]
fn histories_over_crashes_are_serializable() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("HEDDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEDDLE_HISTORIES").unwrap_or(HISTORIES),
    };
    let (mut committed, mut survived, mut lost, mut many) = (0, 0, 0, 0);
    for seed in seeds {
        let history = history::run(&history::Plan::new(seed)).unwrap_or_else(|what| panic!("{what}"));
        let (ours, theirs) = judge(&history);
        let under = &history.header.protocol;
        assert!(ours.ok(), "HEDDLE_SEED={seed} {under}: {:#?}", ours.anomalies);
        assert!(
            theirs.ok,
            "HEDDLE_SEED={seed} {under}: adya found {:?}: {}",
            theirs.anomalies, theirs.explanation
        );
        let count = |status| {
            let has =
                |attempt: &&heddledb_check::history::Attempt| attempt.status == status && attempt.stamp != 0;
            history.attempts.iter().filter(has).count()
        };
        committed += count(Status::Committed);
        survived += count(Status::Survived);
        lost += count(Status::Lost);
        many += 1;
    }
    println!("{many} histories: {committed} writers committed, {survived} survived untold, {lost} were lost");
    assert!(many < 10 || (survived > 0 && lost > 0), "{survived} survived, {lost} were lost");
}
