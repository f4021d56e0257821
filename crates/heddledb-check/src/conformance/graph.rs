//! What only a protocol does that links calls by what they will access ([`Execution::Graph`]): calls that conflict wait
//! instead of failing, and what was not foreseen is right all the same. Under other protocols there is nothing to test.

use super::Test;
use super::procedures::await_from;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Execution, Kind};
use heddledb::{Conflict, Database, ReadTransaction, Result, Scan, Table, Transaction, Txn};
use std::sync::mpsc::channel;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "graph_calls_conflict_with_nobody", run: calls_conflict_with_nobody },
        Test { name: "graph_tells_all_after_a_conflict", run: tells_all_after_a_conflict },
        Test { name: "graph_waits_for_those_before", run: waits_for_those_before },
        Test { name: "graph_keeps_what_was_not_foreseen_right", run: keeps_what_was_not_foreseen_right },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "graph_node", index(NodesByTag(tag)))]
struct Node {
    #[key]
    key: u64,
    value: i64,
    tag: u64,
    #[group(next)]
    next: u64,
}

const NODES: u64 = 8;

/// Nodes 0 to 7, each followed by the next; `None` under a protocol that links no calls.
fn world(kind: Kind) -> Option<(Database, Registered)> {
    if kind.execution() != Execution::Graph {
        return None;
    }
    let db = Database::builder().protocol(kind).open().expect("it opens");
    let mut declaration = Declaration::new("graph");
    declaration.upsert::<Node>();
    let call = db.register_declared(declaration).expect("it is registered");
    let fill = |tx: &mut Txn| {
        (0..NODES)
            .try_for_each(|key| tx.insert(Node { key, value: 0, tag: key % 3, next: (key + 1) % NODES }))
    };
    db.session().and_then(|mut session| session.run(fill)).expect("the table is empty");
    Some((db, call))
}

fn sum(db: &Database) -> i64 {
    let rows = db.session().and_then(|mut session| session.run(|tx| tx.collect(Scan::<Node>::all())));
    rows.expect("it is read").iter().map(|node| node.value).sum()
}

/// Threads that all write the same few rows, in different orders, and add rows with entries of an index.
fn calls_conflict_with_nobody(kind: Kind) {
    const THREADS: u64 = 4;
    const CALLS: u64 = 300;
    let Some((db, call)) = world(kind) else { return };
    let run = |thread: u64| {
        let mut session = db.session().expect("there are sessions");
        for at in 0..CALLS {
            let body = |tx: &mut Txn| {
                tx.at(0);
                for step in 0..4 {
                    let key = (thread + at * (1 + thread) + step * 3) % NODES;
                    tx.update_columns(key, Node::value, |value| *value += 1)?;
                }
                tx.insert(Node { key: 1000 + thread * CALLS + at, value: 0, tag: 9, next: 0 })
            };
            session.call_registered(call, body).expect("it commits");
        }
        session.stats()
    };
    let stats = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(sum(&db), (THREADS * CALLS * 4) as i64);
    assert!(stats.iter().all(|stats| (stats.conflicts_total(), stats.unforeseen) == (0, 0)), "{stats:?}");
}

/// A conflict in the execution that is to tell what a call will access: it is executed again, and tells all.
fn tells_all_after_a_conflict(kind: Kind) {
    let Some((db, call)) = world(kind) else { return };
    let mut executions = 0;
    let mut session = db.session().expect("there are sessions");
    let body = |tx: &mut Txn| {
        tx.at(0);
        executions += 1;
        tx.update_columns(1, Node::value, |value| *value += 1)?;
        if executions == 1 {
            return Err(Conflict::Locked.into());
        }
        tx.update_columns(2, Node::value, |value| *value += 1)
    };
    session.call_registered(call, body).expect("it commits");
    assert_eq!((executions, session.stats().unforeseen, sum(&db)), (3, 0, 2));
}

/// A call that comes while another is under way waits for it where they meet, and not where they do not.
fn waits_for_those_before(kind: Kind) {
    let Some((db, call)) = world(kind) else { return };
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let db = &db;
        let first = scope.spawn(move || {
            let mut executions = 0;
            db.session()?.call_registered(call, |tx| {
                tx.at(0);
                tx.update_columns(1, Node::value, |value| *value += 10)?;
                executions += 1;
                if executions == 2 {
                    told.send(()).expect("the test is there");
                    leaving.recv().expect("the test is there");
                }
                tx.insert(Node { key: 50, value: 5, tag: 0, next: 0 })
            })
        });
        await_from(&telling);
        // Another row: does not wait.
        let mut session = db.session().expect("there are sessions");
        let apart = |tx: &mut Txn| {
            tx.at(0);
            tx.update_columns(2, Node::value, |value| *value += 1)
        };
        session.call_registered(call, apart).expect("it commits beside the other");
        // The row; a row that the first will insert; a range of which it is a part.
        let readers = [0, 1, 2].map(|which| {
            scope.spawn(move || {
                db.session()?.call_registered(call, |tx| {
                    tx.at(0);
                    Ok(match which {
                        0 => tx.get::<Node>(1)?.map(|node| node.value),
                        1 => tx.get::<Node>(50)?.map(|node| node.value),
                        _ => tx.collect(Scan::<Node>::range(40..60))?.first().map(|node| node.value),
                    })
                })
            })
        });
        // Time to go wrong in.
        std::thread::sleep(std::time::Duration::from_millis(20));
        leave.send(()).expect("the first call waits");
        first.join().expect("no panic").expect("it commits");
        let seen = readers.map(|reader| reader.join().expect("no panic").expect("it commits"));
        assert_eq!(seen, [Some(10), Some(5), Some(5)], "they come after it");
    });
    assert_eq!(db.metrics().stats.conflicts_total(), 0);
}

/// Calls that follow a pointer which others move, and closures beside them: what is accessed is not what was announced.
fn keeps_what_was_not_foreseen_right(kind: Kind) {
    const CALLS: u64 = 400;
    let Some((db, call)) = world(kind) else { return };
    // One that is sure to be unforeseen: another row in the second execution.
    let mut executions = 0;
    let mut session = db.session().expect("there are sessions");
    let other = |tx: &mut Txn| {
        tx.at(0);
        executions += 1;
        tx.update_columns(executions, Node::value, |value| *value += 1)
    };
    session.call_registered(call, other).expect("it commits");
    assert!(session.stats().unforeseen > 0);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let db = &db;
            scope.spawn(move || -> Result<()> {
                let mut session = db.session()?;
                for at in 0..CALLS {
                    let mut body = |tx: &mut Txn| {
                        tx.at(0);
                        let next = tx.get_columns(0, Node::next)?.expect("it is there");
                        tx.update_columns(next, Node::value, |value| *value += 1)?;
                        tx.set_columns(0, Node::next, (next + 1 + at % 3) % NODES)
                    };
                    if thread == 0 { session.run(&mut body)? } else { session.call_registered(call, body)? }
                }
                Ok(())
            });
        }
    });
    assert_eq!(sum(&db), 1 + 3 * CALLS as i64);
}
