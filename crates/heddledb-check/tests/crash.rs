//! Crash points, a share of what `--bin crash` runs.

use heddledb_check::crash::{Spot, explore, replay};

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
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = explore(1, points, threads, &|_| {}).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{counts}");
    assert!(counts.points() >= points && counts.damage.iter().all(|count| *count > 0), "{counts}");
}
