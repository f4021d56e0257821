//! Histories by hand, and what is said of them.

use super::*;
use crate::history::{Header, Status};

/// A history of committed transactions: (begin, end, stamp, operations).
fn history(transactions: &[(u64, u64, u64, &[Op])]) -> History {
    let attempt = |(session, (begin, end, stamp, ops)): (usize, &(u64, u64, u64, &[Op]))| Attempt {
        session: session as u32,
        begin: *begin,
        end: *end,
        status: Status::Committed,
        stamp: *stamp,
        ops: ops.to_vec(),
    };
    History {
        header: Header::new("by hand", true, 0),
        attempts: transactions.iter().enumerate().map(attempt).collect(),
    }
}

fn classes(history: &History, strict: bool) -> Vec<&'static str> {
    check(history, strict).anomalies.iter().map(|anomaly| anomaly.class).collect()
}

use Op::{Delete, Read, Scan, Write};

#[test]
fn a_serial_history_is_lawful() {
    let serial = history(&[
        (0, 1, 10, &[Read(0, 1, ABSENT), Write(0, 1, 100)]),
        (2, 3, 11, &[Read(0, 1, 100), Write(0, 1, 101), Read(0, 1, 101)]),
        (4, 5, 12, &[Read(0, 1, 101), Delete(0, 1), Scan(0, 0, 9, vec![])]),
        (6, 7, 13, &[Scan(0, 0, 9, vec![]), Write(0, 1, 103)]),
        (8, 9, 0, &[Scan(0, 0, 9, vec![(1, 103)])]),
    ]);
    assert_eq!(check(&serial, true).anomalies, []);
}

#[test]
fn write_skew() {
    let skew = history(&[
        (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
        (2, 5, 2, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 1, 11)]),
        (3, 6, 3, &[Read(0, 1, 1), Read(0, 2, 2), Write(0, 2, 12)]),
    ]);
    let verdict = check(&skew, false);
    assert_eq!(verdict.anomalies[0].class, "G2-item");
    assert!(verdict.anomalies[0].explanation.contains("table 0 key 1"), "{}", verdict.anomalies[0]);
}

#[test]
fn phantom_write_skew() {
    let skew = history(&[
        (0, 5, 2, &[Scan(0, 0, 9, vec![]), Write(0, 1, 11)]),
        (1, 6, 3, &[Scan(0, 0, 9, vec![]), Write(0, 2, 12)]),
    ]);
    assert_eq!(classes(&skew, false), ["G2"]);
}

#[test]
fn lost_update_and_read_skew() {
    let lost = history(&[
        (0, 1, 1, &[Write(0, 1, 1)]),
        (2, 4, 2, &[Read(0, 1, 1), Write(0, 1, 2)]),
        (3, 5, 3, &[Read(0, 1, 1), Write(0, 1, 3)]),
    ]);
    assert_eq!(classes(&lost, false), ["G-single"]);
    let skew = history(&[
        (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 2)]),
        (2, 4, 2, &[Write(0, 1, 11), Write(0, 2, 12)]),
        (3, 5, 0, &[Read(0, 1, 1), Read(0, 2, 12)]),
    ]);
    assert_eq!(classes(&skew, false), ["G-single"]);
}

#[test]
fn dirty_circles() {
    let circle =
        history(&[(0, 5, 1, &[Write(0, 1, 1), Read(0, 2, 2)]), (1, 6, 2, &[Write(0, 2, 2), Read(0, 1, 1)])]);
    assert_eq!(classes(&circle, false), ["G1c"]);
    let g0 = history(&[(0, 5, 1, &[Write(0, 1, 1), Write(0, 2, 2)]), (1, 6, 1, &[Write(0, 1, 3)])]);
    assert_eq!(classes(&g0, false), ["order"]);
}

#[test]
fn dirty_reads() {
    let mut aborted = history(&[(0, 1, 1, &[Write(0, 1, 1)]), (2, 3, 0, &[Read(0, 1, 1)])]);
    aborted.attempts[0].status = Status::Aborted;
    assert_eq!(classes(&aborted, false), ["G1a"]);
    let between = history(&[(0, 3, 1, &[Write(0, 1, 1), Write(0, 1, 2)]), (1, 2, 0, &[Read(0, 1, 1)])]);
    assert_eq!(classes(&between, false), ["G1b"]);
    let nobody = history(&[(0, 3, 1, &[Write(0, 1, 1)]), (1, 2, 0, &[Read(0, 1, 7)])]);
    assert_eq!(classes(&nobody, false), ["garbage"]);
}

#[test]
fn own_writes_must_be_seen() {
    let blind = history(&[(0, 1, 1, &[Write(0, 1, 1), Read(0, 1, ABSENT)])]);
    assert_eq!(classes(&blind, false), ["internal"]);
    let scan = history(&[(0, 1, 1, &[Write(0, 1, 1), Scan(0, 0, 5, vec![])])]);
    assert_eq!(classes(&scan, false), ["internal"]);
}

#[test]
fn a_stale_read_is_wrong_only_in_real_time() {
    let stale =
        history(&[(0, 1, 1, &[Write(0, 1, 1)]), (2, 3, 2, &[Write(0, 1, 2)]), (4, 5, 0, &[Read(0, 1, 1)])]);
    assert_eq!(classes(&stale, false), Vec::<&str>::new());
    assert_eq!(classes(&stale, true), ["G-single-realtime"]);
    assert!(check(&stale, true).anomalies[0].explanation.contains("had ended before"));
}

#[test]
fn absence_is_placed_by_time() {
    let reinsert = |reader: &'static [Op], begin, end| {
        history(&[
            (0, 1, 1, &[Write(0, 1, 1), Write(0, 2, 21)]),
            (2, 3, 2, &[Delete(0, 1), Write(0, 2, 22)]),
            (10, 11, 3, &[Write(0, 1, 3), Write(0, 2, 23)]),
            (20, 21, 4, &[Delete(0, 1), Write(0, 2, 24)]),
            (begin, end, 0, reader),
        ])
    };
    // Between the two lives: consistent with what the deleter wrote beside, and with nothing else.
    assert_eq!(classes(&reinsert(&[Read(0, 1, ABSENT), Read(0, 2, 22)], 5, 6), false), Vec::<&str>::new());
    assert_eq!(classes(&reinsert(&[Read(0, 1, ABSENT), Read(0, 2, 23)], 5, 6), false), ["G-single"]);
    // During a life.
    assert_eq!(classes(&reinsert(&[Read(0, 1, ABSENT)], 13, 14), false), ["garbage"]);
    // A reader as long as everything is ambiguous, not guilty.
    let long = check(&reinsert(&[Read(0, 1, ABSENT)], 0, 30), false);
    assert_eq!((long.ok(), long.ambiguous), (true, 1));
}
