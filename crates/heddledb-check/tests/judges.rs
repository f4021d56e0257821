//! The two judges on the same histories: made by hand, from serial runs, and from simulated stores
//! whose isolation is known.

use heddledb_check::history::{ABSENT, Attempt, Header, History, Op, Status, Version};
use heddledb_check::{checker, elle, judge};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

use Op::{Delete, Read, Scan, Write};
use Status::{Aborted, Committed};

fn history(attempts: &[(u64, u64, Status, u64, &[Op])]) -> History {
    let attempt = |(session, (begin, end, status, stamp, ops)): (usize, &(u64, u64, Status, u64, &[Op]))| {
        let (session, ops) = (session as u32, ops.to_vec());
        Attempt { session, begin: *begin, end: *end, status: *status, stamp: *stamp, ops }
    };
    let attempts = attempts.iter().enumerate().map(attempt).collect();
    History { header: Header::new("by hand", false, 0), attempts }
}

/// Both judges on one history: our classes, whether `adya` accepts.
fn both(history: &History, strict: bool) -> (Vec<&'static str>, bool) {
    let ours = checker::check(history, strict);
    let theirs = elle::judge(history, strict);
    (ours.anomalies.iter().map(|anomaly| anomaly.class).collect(), theirs.ok)
}

/// One anomaly by hand.
struct Case {
    name: &'static str,
    attempts: &'static [(u64, u64, Status, u64, &'static [Op])],
    /// Our class, serializable and strict; nothing where it is lawful.
    plain: &'static [&'static str],
    strict: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "write skew",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 5, Committed, 2, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 1, 11)]),
            (3, 6, Committed, 3, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 2, 12)]),
        ],
        plain: &["G2-item"],
        strict: &["G2-item"],
    },
    Case {
        name: "write skew over scanned rows",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 5, Committed, 2, &[Scan(0, 1, 2, SEEN), Write(0, 1, 11)]),
            (3, 6, Committed, 3, &[Scan(0, 1, 2, SEEN), Write(0, 2, 12)]),
        ],
        plain: &["G2-item"],
        strict: &["G2-item"],
    },
    Case {
        name: "phantom write skew",
        attempts: &[
            (0, 5, Committed, 2, &[Scan(0, 0, 9, Vec::new()), Write(0, 1, 11)]),
            (1, 6, Committed, 3, &[Scan(0, 0, 9, Vec::new()), Write(0, 2, 12)]),
        ],
        plain: &["G2"],
        strict: &["G2"],
    },
    Case {
        name: "lost update",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1)]),
            (2, 4, Committed, 2, &[Read(0, 1, 1), Write(0, 1, 2)]),
            (3, 5, Committed, 3, &[Read(0, 1, 1), Write(0, 1, 3)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "two inserts of one row",
        attempts: &[
            (0, 4, Committed, 2, &[Read(0, 1, ABSENT), Write(0, 1, 2)]),
            (1, 5, Committed, 3, &[Read(0, 1, ABSENT), Write(0, 1, 3)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "read skew",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 4, Committed, 2, &[Write(0, 1, 11), Write(0, 2, 12)]),
            (3, 5, Committed, 0, &[Read(0, 1, 1), Read(0, 2, 12)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "non-repeatable read",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1)]),
            (3, 4, Committed, 2, &[Write(0, 1, 2)]),
            (2, 5, Committed, 0, &[Read(0, 1, 1), Read(0, 1, 2)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "long fork",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 6, Committed, 2, &[Write(0, 1, 11)]),
            (2, 7, Committed, 3, &[Write(0, 2, 12)]),
            (3, 8, Committed, 0, &[Read(0, 1, 11), Read(0, 2, 2)]),
            (3, 9, Committed, 0, &[Read(0, 1, 1), Read(0, 2, 12)]),
        ],
        plain: &["G2-item"],
        strict: &["G2-item"],
    },
    Case {
        name: "aborted read",
        attempts: &[
            (0, 4, Aborted, 0, &[Write(0, 1, 1)]),
            (2, 3, Committed, 0, &[Read(0, 1, 1)]),
            (5, 6, Committed, 2, &[Write(0, 1, 2)]),
        ],
        plain: &["G1a"],
        strict: &["G1a"],
    },
    Case {
        name: "intermediate read",
        attempts: &[
            (0, 3, Committed, 1, &[Write(0, 1, 1), Write(0, 1, 2)]),
            (1, 2, Committed, 0, &[Read(0, 1, 1)]),
        ],
        plain: &["G1b"],
        strict: &["G1b"],
    },
    Case {
        name: "circular information",
        attempts: &[
            (0, 5, Committed, 1, &[Write(0, 1, 1), Read(0, 2, 2)]),
            (1, 6, Committed, 2, &[Write(0, 2, 2), Read(0, 1, 1)]),
        ],
        plain: &["G1c"],
        strict: &["G1c"],
    },
    Case {
        name: "a version that nobody wrote",
        attempts: &[(0, 1, Committed, 1, &[Write(0, 1, 1)]), (2, 3, Committed, 0, &[Read(0, 1, 7)])],
        plain: &["garbage"],
        strict: &["garbage"],
    },
    Case {
        name: "a version of another row",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 3, Committed, 0, &[Read(0, 1, 2)]),
        ],
        plain: &["garbage"],
        strict: &["garbage"],
    },
    Case {
        name: "own write unseen",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1)]),
            (2, 3, Committed, 2, &[Write(0, 1, 2), Read(0, 1, 1)]),
        ],
        plain: &["internal"],
        strict: &["internal"],
    },
    Case {
        name: "own insert unseen by a scan",
        attempts: &[(0, 1, Committed, 1, &[Write(0, 1, 1), Scan(0, 0, 5, Vec::new())])],
        plain: &["internal"],
        strict: &["internal"],
    },
    Case {
        name: "own delete unseen",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1)]),
            (2, 3, Committed, 2, &[Delete(0, 1), Read(0, 1, 1)]),
        ],
        plain: &["internal"],
        strict: &["internal"],
    },
    Case {
        name: "stale read",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1)]),
            (2, 3, Committed, 2, &[Write(0, 1, 2)]),
            (4, 5, Committed, 0, &[Read(0, 1, 1)]),
        ],
        plain: &[],
        strict: &["G-single-realtime"],
    },
    Case {
        name: "writes in the wrong order",
        attempts: &[(0, 1, Committed, 2, &[Write(0, 1, 1)]), (2, 3, Committed, 1, &[Write(0, 1, 2)])],
        plain: &[],
        strict: &["G0-realtime"],
    },
    Case {
        name: "read skew beside a stale read",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 4, Committed, 2, &[Write(0, 1, 11), Write(0, 2, 12)]),
            (5, 6, Committed, 0, &[Read(0, 1, 1), Read(0, 2, 12)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "half of a delete",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 4, Committed, 2, &[Delete(0, 1), Delete(0, 2)]),
            (3, 5, Committed, 0, &[Read(0, 1, ABSENT), Read(0, 2, 2)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "between two lives",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 21)]),
            (2, 3, Committed, 2, &[Delete(0, 1), Write(0, 2, 22)]),
            (10, 11, Committed, 3, &[Write(0, 1, 3), Write(0, 2, 23)]),
            (20, 21, Committed, 4, &[Delete(0, 1), Write(0, 2, 24)]),
            (5, 6, Committed, 0, &[Read(0, 1, ABSENT), Read(0, 2, 22)]),
        ],
        plain: &[],
        strict: &[],
    },
    Case {
        name: "an absence with what came after it",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 21)]),
            (2, 3, Committed, 2, &[Delete(0, 1), Write(0, 2, 22)]),
            (4, 11, Committed, 3, &[Write(0, 1, 3), Write(0, 2, 23)]),
            (20, 21, Committed, 4, &[Delete(0, 1), Write(0, 2, 24)]),
            (5, 6, Committed, 0, &[Read(0, 1, ABSENT), Read(0, 2, 23)]),
        ],
        plain: &["G-single"],
        strict: &["G-single"],
    },
    Case {
        name: "insert, delete and insert by one transaction",
        attempts: &[
            (
                0,
                1,
                Committed,
                1,
                &[
                    Read(0, 1, ABSENT),
                    Write(0, 1, 1),
                    Delete(0, 1),
                    Read(0, 1, ABSENT),
                    Write(0, 1, 2),
                    Read(0, 1, 2),
                ],
            ),
            (2, 3, Committed, 2, &[Read(0, 1, 2), Delete(0, 1), Read(0, 1, ABSENT)]),
            (4, 5, Committed, 0, &[Read(0, 1, ABSENT)]),
        ],
        plain: &[],
        strict: &[],
    },
    Case {
        name: "the reads of an aborted attempt do not count",
        attempts: &[
            (0, 1, Committed, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
            (2, 4, Committed, 2, &[Write(0, 1, 11), Write(0, 2, 12)]),
            (3, 5, Aborted, 0, &[Read(0, 1, 1), Read(0, 2, 12), Write(0, 1, 13), Delete(0, 2)]),
        ],
        plain: &[],
        strict: &[],
    },
];

/// Rows cannot be listed in a constant.
const SEEN: Vec<(u64, Version)> = Vec::new();

/// Puts the rows in that [`SEEN`] stands for.
fn with_rows(case: &Case) -> History {
    let mut history = history(case.attempts);
    for attempt in &mut history.attempts {
        for op in &mut attempt.ops {
            if let Scan(_, 1, 2, seen) = op {
                *seen = vec![(1, 1), (2, 2)];
            }
        }
    }
    history
}

#[test]
fn anomalies_by_hand() {
    let mut wrong = Vec::new();
    for case in CASES {
        let history = with_rows(case);
        for (strict, expected) in [(false, case.plain), (true, case.strict)] {
            let (ours, theirs) = both(&history, strict);
            if ours != expected {
                wrong.push(format!("{} (strict: {strict}): ours says {ours:?}, not {expected:?}", case.name));
            }
            if theirs != expected.is_empty() {
                let opinion = elle::judge(&history, strict);
                wrong.push(format!("{} (strict: {strict}): adya says {opinion:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scans_keep_to_their_range_and_order() {
    let classes = |rows: &[(u64, Version)]| {
        let scan = [Scan(0, 1, 2, rows.to_vec())];
        let write = [Write(0, 1, 1), Write(0, 2, 2), Write(0, 3, 3)];
        let history = history(&[(0, 1, Committed, 1, &write), (2, 3, Committed, 0, &scan)]);
        checker::check(&history, true).anomalies.iter().map(|anomaly| anomaly.class).collect::<Vec<_>>()
    };
    assert_eq!(classes(&[(1, 1), (2, 2)]), Vec::<&str>::new());
    assert_eq!(classes(&[(2, 2), (1, 1)]), Vec::<&str>::new());
    assert_eq!(classes(&[(1, 1), (2, 2), (3, 3)]), ["scan"]);
    assert_eq!(classes(&[(1, 1), (1, 1), (2, 2)]), ["scan"]);
}

/// A source of draws for the simulations, by seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// What a simulated store guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Isolation {
    /// Each transaction runs in one step, somewhere between its begin and end.
    Serial,
    /// Reads from the state at the begin; the first to commit a row wins.
    Snapshot,
    /// The same without the rule about rows: updates are lost.
    StaleSnapshot,
    /// Each read from the committed state of its moment.
    ReadCommitted,
}

type State = BTreeMap<u64, Version>;

struct Running {
    session: u32,
    begin: u64,
    steps: Vec<(u64, u64)>,
    snapshot: State,
    /// Commits before the begin.
    since: u64,
    writes: BTreeMap<u64, Version>,
    ops: Vec<Op>,
}

impl Running {
    fn step(&mut self, kind: u64, key: u64, state: &State, fresh: &mut Version) {
        let mut view = state.clone();
        view.extend(&self.writes);
        let seen = view.get(&key).copied().unwrap_or(ABSENT);
        match kind {
            0..4 => self.ops.push(Read(0, key, seen)),
            4..7 => {
                *fresh += 1;
                self.writes.insert(key, *fresh);
                self.ops.extend([Read(0, key, seen), Write(0, key, *fresh)]);
            }
            7 => {
                *fresh += 1;
                self.writes.insert(key, *fresh);
                self.ops.push(Write(0, key, *fresh));
            }
            8 => {
                self.ops.push(Read(0, key, seen));
                if seen != ABSENT {
                    self.writes.insert(key, ABSENT);
                    self.ops.push(Delete(0, key));
                }
            }
            _ => {
                let (low, high) = (key, key + 2);
                let rows = view.range(low..=high).filter(|row| *row.1 != ABSENT);
                self.ops.push(Scan(0, low, high, rows.map(|(key, version)| (*key, *version)).collect()));
            }
        }
    }
}

/// Runs random transactions over a few rows, interleaved at random, on a store of known isolation.
fn simulate(isolation: Isolation, seed: u64, transactions: usize, sessions: u32, keys: u64) -> History {
    let mut draws = Draws(seed);
    let (mut state, mut changed) = (State::new(), BTreeMap::<u64, u64>::new());
    let (mut clock, mut commits, mut fresh, mut begun) = (0, 0, 0, 0);
    let mut running: Vec<Option<Running>> = (0..sessions).map(|_| None).collect();
    let mut attempts = Vec::new();
    while begun < transactions || running.iter().any(Option::is_some) {
        clock += 1;
        let session = draws.below(u64::from(sessions)) as u32;
        let place = &mut running[session as usize];
        let Some(transaction) = place else {
            if begun < transactions {
                begun += 1;
                let steps = (0..1 + draws.below(4)).map(|_| (draws.below(10), draws.below(keys))).collect();
                let snapshot = state.clone();
                let (writes, ops) = (BTreeMap::new(), Vec::new());
                *place =
                    Some(Running { session, begin: clock, steps, snapshot, since: commits, writes, ops });
            }
            continue;
        };
        if isolation != Isolation::Serial
            && let Some((kind, key)) = transaction.steps.pop()
        {
            let view = match isolation {
                Isolation::ReadCommitted => state.clone(),
                _ => transaction.snapshot.clone(),
            };
            transaction.step(kind, key, &view, &mut fresh);
            continue;
        }
        let mut transaction = place.take().expect("it was there above");
        for (kind, key) in std::mem::take(&mut transaction.steps) {
            transaction.step(kind, key, &state, &mut fresh);
        }
        let overtaken = |key: &u64| changed.get(key).is_some_and(|commit| *commit > transaction.since);
        let loses = isolation == Isolation::Snapshot && transaction.writes.keys().any(overtaken);
        let aborted = loses || draws.below(20) == 0;
        let mut stamp = 0;
        if !aborted && !transaction.writes.is_empty() {
            commits += 1;
            stamp = commits;
            changed.extend(transaction.writes.keys().map(|key| (*key, commits)));
            state.extend(&transaction.writes);
            state.retain(|_, version| *version != ABSENT);
        }
        // Some ends are told late.
        clock += 1 + draws.below(3);
        attempts.push(Attempt {
            session: transaction.session,
            begin: transaction.begin,
            end: clock,
            status: if aborted { Aborted } else { Committed },
            stamp,
            ops: transaction.ops,
        });
    }
    History { header: Header::new("simulated", true, seed), attempts }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// No judge accuses a run that was serial in real time.
    #[test]
    fn serial_runs_are_lawful(seed: u64, transactions in 1usize..300, sessions in 1u32..6, keys in 1u64..8) {
        let history = simulate(Isolation::Serial, seed, transactions, sessions, keys);
        let (ours, theirs) = judge(&history);
        prop_assert!(ours.ok(), "{:?}", ours.anomalies);
        prop_assert!(theirs.ok, "{theirs:?}");
    }

    /// The judges come to one verdict, whatever the store does, where each read can be told to both.
    /// Where an absence is ambiguous `adya` is not told of the read: it may then acquit what our
    /// checker does not, and never the other way about.
    #[test]
    fn the_judges_agree(seed: u64, transactions in 5usize..60, isolation in 0usize..4, strict: bool) {
        let isolation =
            [Isolation::Serial, Isolation::Snapshot, Isolation::StaleSnapshot, Isolation::ReadCommitted][isolation];
        let history = simulate(isolation, seed, transactions, 4, 6);
        let (ours, theirs) = (checker::check(&history, strict), elle::judge(&history, strict));
        if ours.ambiguous == 0 || ours.ok() {
            prop_assert_eq!(ours.ok(), theirs.ok, "{:?}: {:?}, adya {:?}", isolation, ours.anomalies, theirs);
        }
    }
}

/// Whichever absence of row 1 the first reader saw, it came before the second's insert, which came
/// before the first's: seen by our checker alone.
#[test]
fn an_ambiguous_absence_still_accuses() {
    let history = history(&[
        (1, 2, Committed, 1, &[Write(0, 1, 1)]),
        (3, 4, Committed, 2, &[Delete(0, 1)]),
        (0, 9, Committed, 3, &[Read(0, 1, ABSENT), Write(0, 2, 2)]),
        (5, 8, Committed, 4, &[Read(0, 2, ABSENT), Write(0, 1, 3)]),
    ]);
    let ours = checker::check(&history, false);
    assert_eq!((ours.ambiguous, ours.anomalies.len()), (1, 1), "{ours:?}");
    assert_eq!(ours.anomalies[0].class, "G2-item");
    assert!(elle::judge(&history, false).ok);
}

/// Weak stores are caught, on every seed, by both.
#[test]
fn weak_stores_are_caught() {
    let mut classes: BTreeSet<(String, &str)> = BTreeSet::new();
    for isolation in [Isolation::Snapshot, Isolation::StaleSnapshot, Isolation::ReadCommitted] {
        for seed in 0..20 {
            let history = simulate(isolation, seed, 400, 4, 6);
            let (ours, theirs) = both(&history, false);
            assert!(!ours.is_empty(), "{isolation:?}, seed {seed}: ours accepts");
            assert!(!theirs, "{isolation:?}, seed {seed}: adya accepts");
            classes.extend(ours.into_iter().map(|class| (format!("{isolation:?}"), class)));
        }
    }
    // A snapshot store loses no update and shows no half of a transaction.
    let snapshot: Vec<&str> =
        classes.iter().filter(|(isolation, _)| isolation == "Snapshot").map(|(_, class)| *class).collect();
    assert!(snapshot.iter().all(|class| class.starts_with("G2")), "{snapshot:?}");
}

/// The file for other tools says what `adya` was told here.
#[test]
fn the_elle_file_is_judged_alike() {
    for isolation in [Isolation::Serial, Isolation::Snapshot] {
        let history = simulate(isolation, 5, 200, 4, 6);
        let mut file = Vec::new();
        elle::write(&history, &mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        let read = adya::History::from_json(&text).unwrap();
        let options = adya::Opts { models: vec!["serializable".into()], ..adya::Opts::default() };
        let report = adya::check(&read, adya::Workload::ListAppend, &options);
        let opinion = elle::judge(&history, false);
        assert_eq!(report.anomaly_types, opinion.anomalies);
        assert_eq!(opinion.ok, isolation == Isolation::Serial);
    }
}
