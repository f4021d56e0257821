//! Calls of one session that meet, in batches: each sees what those before it have done, all of them, and nothing of those behind it.

use super::Test;
use super::graph::{GraphRaise, Node, filled};
use heddledb::protocol::{Execution, Kind};
use heddledb::{Database, ReadTransaction, Result, Scan, Transaction, procedure};
use std::time::Duration;

/// In whose midst others may begin.
const PAUSE: Duration = Duration::from_micros(500);

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "graph_orders_all_who_share_a_row", run: orders_all_who_share_a_row },
        Test { name: "graph_orders_scans_of_all_widths", run: orders_scans_of_all_widths },
    ]
}

#[procedure]
fn graph_add_later(tx: &mut impl Transaction, key: u64, pauses: u32) -> Result<()> {
    std::thread::sleep(PAUSE * pauses);
    tx.add(Node::value, key, 1)?;
    Ok(())
}

/// In batches, who reads a row sees the additions of all whom its session has submitted before, however long they take, and of none behind
/// it, however soon they could begin.
fn orders_all_who_share_a_row(kind: Kind) {
    const ROUNDS: usize = 12;
    const SHARE: u32 = 5;
    if kind.execution() != Execution::Batched {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3);
    let db = filled(builder.procedure::<GraphAddLater>().procedure::<GraphRaise>(), |_| 0);
    let mut session = db.session().expect("there are sessions");
    session.set_window(ROUNDS * (1 + SHARE as usize));
    let (mut adds, mut raises) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // The first is the slowest.
        let share = (0..SHARE).map(|at| session.submit(GraphAddLater, (1, SHARE - 1 - at)));
        adds.extend(share.map(|call| call.expect("it is submitted")));
        raises.push(session.submit(GraphRaise, (1, 3)).expect("it is submitted"));
    }
    for (round, call) in (1..).zip(raises) {
        assert_eq!(call.wait().expect("it commits"), round * i64::from(1 + SHARE), "round {round}");
    }
    adds.into_iter().for_each(|call| call.wait().expect("it commits"));
}

#[procedure]
fn graph_insert_later(tx: &mut impl Transaction, key: u64, pauses: u32) -> Result<()> {
    std::thread::sleep(PAUSE * pauses);
    tx.insert(Node { key, value: 0, tag: 9, next: 0 })?;
    Ok(())
}

/// How many nodes there are from a key on, and before 2000.
#[procedure]
fn graph_count(tx: &mut impl ReadTransaction, from: u64) -> Result<u64> {
    Ok(tx.collect(Scan::<Node>::range(from..2000))?.len() as u64)
}

/// In batches, a scan finds the rows of all whom its session has submitted before, whatever narrower scans there are beside it.
fn orders_scans_of_all_widths(kind: Kind) {
    const ROUNDS: u64 = 12;
    if kind.execution() != Execution::Batched {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3);
    let db = filled(builder.procedure::<GraphInsertLater>().procedure::<GraphCount>(), |_| 0);
    let mut session = db.session().expect("there are sessions");
    session.set_window(4 * ROUNDS as usize);
    let (mut counts, mut rest) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        rest.push(session.submit(GraphCount, 1700).expect("it is submitted"));
        let inserts = [(2 * round, 4), (2 * round + 1, 0)];
        let inserts = inserts.map(|(at, pauses)| session.submit(GraphInsertLater, (1100 + at, pauses)));
        counts.push((inserts, session.submit(GraphCount, 1000).expect("it is submitted")));
    }
    for (round, (inserts, count)) in (1..).zip(counts) {
        inserts.into_iter().for_each(|call| call.and_then(|call| call.wait()).expect("it commits"));
        assert_eq!(count.wait().expect("it commits"), 2 * round);
    }
    rest.into_iter().for_each(|call| assert_eq!(call.wait().expect("it commits"), 0));
}
