//! Copies beside writers, judged by the history checkers.

use heddledb::protocol::Kind;
use heddledb_check::crash::copies::{Plan, run};
use heddledb_check::judge;
use std::collections::BTreeMap;

/// Copies under each protocol in one run; `HEDDLE_BACKUPS` changes it, `HEDDLE_SEED` begins with another seed.
const COPIES: u64 = 6;
/// Copies of one database.
const OF_ONE: u64 = 12;

#[test]
fn copies_beside_writers_are_prefixes_of_the_serial_order() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (copies, first) = (number("HEDDLE_BACKUPS").unwrap_or(COPIES), number("HEDDLE_SEED").unwrap_or(1));
    let (mut sums, mut attempts) = (BTreeMap::new(), 0);
    for (place, kind) in (0..).zip(Kind::ALL) {
        for (number, from) in (0..copies).step_by(OF_ONE as usize).enumerate() {
            let seed = first + number as u64;
            let (copies, strings) = (OF_ONE.min(copies - from), (place + seed).is_multiple_of(2));
            let plan = Plan { kind: *kind, seed, copies, keys: 12, strings };
            for found in run(&plan).unwrap_or_else(|what| panic!("{what}")) {
                let told = format!("HEDDLE_SEED={seed} {kind}, {} as of epoch {}", found.what, found.epoch);
                assert_eq!(found.wrong, None, "{told}");
                let (ours, theirs) = judge(&found.history);
                assert!(ours.ok(), "{told}: {:#?}", ours.anomalies);
                assert!(theirs.ok, "{told}: adya found {:?}: {}", theirs.anomalies, theirs.explanation);
                *sums.entry(found.what).or_insert(0) += 1;
                attempts += found.history.attempts.len();
            }
        }
    }
    println!("{sums:?}, {attempts} attempts in all of their histories");
    assert!(["full", "continued", "restored"].iter().all(|what| sums[what] > 0), "{sums:?}");
}
