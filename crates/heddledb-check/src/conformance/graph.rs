//! What only a protocol does that links calls by what they will access ([`Execution::is_announced`]): calls that conflict wait
//! instead of failing, and what was not foreseen is right all the same. Under other protocols there is little to test.

use super::Test;
use super::load::on_threads;
use super::procedures::await_from;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::{Announcement, Declaration};
use heddledb::protocol::{Execution, Kind};
use heddledb::{
    Builder, Conflict, Database, Error, ReadTransaction, Result, Scan, Session, Table, Transaction, Txn,
    procedure,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "graph_calls_conflict_with_nobody", run: calls_conflict_with_nobody },
        Test { name: "graph_tells_all_after_a_conflict", run: tells_all_after_a_conflict },
        Test { name: "graph_waits_for_those_before", run: waits_for_those_before },
        Test { name: "graph_keeps_what_was_not_foreseen_right", run: keeps_what_was_not_foreseen_right },
        Test { name: "graph_executes_submitted_calls_in_order", run: executes_submitted_calls_in_order },
        Test { name: "graph_scans_meet_what_is_inserted", run: scans_meet_what_is_inserted },
        Test { name: "graph_believes_what_procedures_tell", run: believes_what_procedures_tell },
        Test { name: "graph_call_gives_up_waiting", run: gives_up_waiting },
        Test { name: "graph_adds_go_side_by_side", run: adds_go_side_by_side },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "graph_node", index(NodesByTag(tag)))]
pub(super) struct Node {
    #[key]
    pub key: u64,
    pub value: i64,
    pub tag: u64,
    #[group(next)]
    pub next: u64,
}

pub(super) const NODES: u64 = 8;

/// Nodes 0 to 7, each followed by the next; `None` under a protocol that links no calls.
fn world(kind: Kind) -> Option<(Database, Registered)> {
    if !kind.execution().is_announced() {
        return None;
    }
    let db = filled(Database::builder().protocol(kind), |key| key % 3);
    let call = registered(&db);
    Some((db, call))
}

/// A database with the nodes, each followed by the next, with these tags.
pub(super) fn filled(builder: Builder, tag: impl Fn(u64) -> u64) -> Database {
    let db = builder.open().expect("it opens");
    let node = |key| Node { key, value: 0, tag: tag(key), next: (key + 1) % NODES };
    let fill = |tx: &mut Txn| (0..NODES).try_for_each(|key| tx.insert(node(key)));
    db.session().and_then(|mut session| session.run(fill)).expect("the table is empty");
    db
}

/// A procedure that may do anything with nodes.
fn registered(db: &Database) -> Registered {
    let mut declaration = Declaration::new("graph");
    declaration.upsert::<Node>();
    db.register_declared(declaration).expect("it is registered")
}

/// No attempt of the session was in conflict, and no access was not foreseen.
fn assert_undisturbed(session: &Session) {
    let stats = session.stats();
    assert_eq!((stats.conflicts_total(), stats.unforeseen), (0, 0), "{stats}");
}

pub(super) fn sum(db: &Database) -> i64 {
    let rows = db.session().and_then(|mut session| session.run(|tx| tx.collect(Scan::<Node>::all())));
    rows.expect("it is read").iter().map(|node| node.value).sum()
}

/// Threads that all write the same few rows, in different orders, and add rows with entries of an index.
fn calls_conflict_with_nobody(kind: Kind) {
    const THREADS: usize = 4;
    const CALLS: u64 = 300;
    let Some((db, call)) = world(kind) else { return };
    on_threads(kind, &db, THREADS, |session, _, thread| {
        let thread = thread as u64;
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
        assert_undisturbed(session);
    });
    assert_eq!(sum(&db), THREADS as i64 * CALLS as i64 * 4);
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
        // Another row: does not wait, but for the end of a batch.
        if kind.execution() == Execution::Graph {
            let mut session = db.session().expect("there are sessions");
            let apart = |tx: &mut Txn| {
                tx.at(0);
                tx.update_columns(2, Node::value, |value| *value += 1)
            };
            session.call_registered(call, apart).expect("it commits beside the other");
        }
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
        std::thread::sleep(Duration::from_millis(20));
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
    let metrics = db.metrics();
    assert!(matches!(&metrics.unforeseen[..], [(_, 1..)]), "named: {metrics}");
    assert!(metrics.to_string().contains("unforeseen: in "), "{metrics}");
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

#[procedure]
pub(super) fn graph_raise(tx: &mut impl Transaction, first: u64, second: u64) -> Result<i64> {
    tx.update_columns(second, Node::value, |value| *value += 1)?;
    tx.update_columns(first, Node::value, |value| {
        *value += 1;
        *value
    })
}

/// Calls that several sessions submit, and of their own: none conflicts, and where calls of batches meet they keep the order in
/// which their session has submitted them.
fn executes_submitted_calls_in_order(kind: Kind) {
    const THREADS: usize = 3;
    const CALLS: u64 = 300;
    const ALL: u64 = THREADS as u64 * (CALLS + CALLS.div_ceil(50));
    if !kind.execution().is_announced() {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3).procedure::<GraphRaise>();
    let db = filled(builder, |_| 0);
    on_threads(kind, &db, THREADS, |session, _, thread| {
        let mut pending = Vec::new();
        for at in 0..CALLS {
            let first = (thread as u64 + at % 3) % NODES;
            let call = session.submit(GraphRaise, (first, (first + 1 + at % 2) % NODES));
            pending.push((first, call.expect("it is submitted")));
            if at % 50 == 0 {
                session.call(GraphRaise, (at % NODES, (at + 1) % NODES)).expect("it commits");
            }
        }
        let mut last = [0; NODES as usize];
        for (first, call) in pending {
            let value = call.wait().expect("it commits");
            let before = std::mem::replace(&mut last[first as usize], value);
            assert!(kind.execution() != Execution::Batched || before < value, "{before} before {value}");
        }
    });
    assert_eq!(sum(&db), 2 * ALL as i64);
    let metrics = db.metrics();
    assert_eq!((metrics.stats.conflicts_total(), metrics.stats.unforeseen), (0, 0), "{metrics}");
    if let Some(graph) = metrics.graph {
        assert_eq!((graph.calls, graph.queued), (ALL, 0), "{metrics}");
        // Each batch has a first call that waits for none, and ever longer chains of the rest where they meet.
        assert!(graph.waited <= ALL - graph.batches && graph.waited <= graph.edges, "{metrics}");
        assert!((graph.batches..=ALL).contains(&graph.depth), "{metrics}");
    }
}

/// Calls that scan a range, and calls that insert into it: no phantom makes one of them fail. Nothing is removed: that a removed row
/// leaves the index later is a change of the index that no call has told.
fn scans_meet_what_is_inserted(kind: Kind) {
    const THREADS: usize = 3;
    const CALLS: u64 = 200;
    let Some((db, call)) = world(kind) else { return };
    on_threads(kind, &db, THREADS, |session, _, thread| {
        let thread = thread as u64;
        for at in 0..CALLS {
            let body = |tx: &mut Txn| {
                tx.at(0);
                if (thread + at).is_multiple_of(3) {
                    let nodes = tx.collect(Scan::<Node>::range(1000..2000))?;
                    let count = i64::try_from(nodes.len()).expect("they are few");
                    let sum: i64 = nodes.iter().map(|node| node.value).sum();
                    assert_eq!(sum, count, "each has one");
                    return Ok(());
                }
                let key = 1000 + thread * CALLS + at;
                tx.insert(Node { key, value: 1, tag: 9, next: 0 })
            };
            session.call_registered(call, body).expect("it commits");
        }
        assert_undisturbed(session);
    });
}

/// How often bodies were executed.
#[derive(Clone, Default)]
pub(super) struct Executions(pub Arc<AtomicU64>);

/// Tells all that the procedure accesses, but for the last row, which it tells if it is honest.
fn tell_accesses(to: &mut Announcement<'_>, key: u64, row: Node, honest: bool, _: Executions) {
    to.writes(key, Node::value);
    to.reads((key + 1) % NODES, Node::next);
    to.inserts(&row);
    to.scans(Scan::<NodesByTag>::prefix((row.tag,)));
    if honest {
        to.writes_row::<Node>((key + 2) % NODES);
    }
}

#[procedure(announce = tell_accesses)]
fn graph_told(
    tx: &mut impl Transaction,
    key: u64,
    row: Node,
    honest: bool,
    executions: Executions,
) -> Result<usize> {
    // Relaxed: a count, looked at when all have ended.
    executions.0.fetch_add(1, Ordering::Relaxed);
    let _ = honest;
    tx.update_columns(key, Node::value, |value| *value += 1)?;
    tx.get_columns((key + 1) % NODES, Node::next)?;
    tx.insert::<Node>(row)?;
    tx.update_columns((key + 2) % NODES, Node::value, |value| *value += 1)?;
    let mut alike = 0;
    tx.scan_index(Scan::<NodesByTag>::prefix((row.tag,)), |_, _| {
        alike += 1;
        ControlFlow::Continue(())
    })?;
    Ok(alike)
}

/// Where a procedure tells what it will access, its body is executed once; and what it does not tell is right all the same.
fn believes_what_procedures_tell(kind: Kind) {
    const THREADS: usize = 3;
    const CALLS: u64 = 150;
    const ALL: u64 = THREADS as u64 * CALLS;
    if !kind.execution().is_announced() {
        return;
    }
    for honest in [true, false] {
        let db = filled(Database::builder().protocol(kind).procedure::<GraphTold>(), |_| 99);
        let executions = Executions::default();
        on_threads(kind, &db, THREADS, |session, _, thread| {
            for at in 0..CALLS {
                let row = Node { key: 1000 + thread as u64 * CALLS + at, value: 0, tag: at % 5, next: 0 };
                let arguments = ((thread as u64 + at) % NODES, row, honest, executions.clone());
                assert!(
                    session.call(GraphTold, arguments).expect("it commits") > 0,
                    "its own row is among them"
                );
            }
        });
        assert_eq!(sum(&db), 2 * ALL as i64);
        let stats = db.metrics().stats;
        let executed = executions.0.load(Ordering::Relaxed);
        assert_eq!(executed, ALL + stats.conflicts_total(), "{stats}");
        if honest {
            // A scan looks at the gap behind its last key, too, into which the first entry of the next tag may come.
            let gaps = stats.conflicts_by(Conflict::Phantom);
            assert_eq!((stats.conflicts_total(), stats.unforeseen), (gaps, 0), "{stats}");
        } else {
            assert!(stats.unforeseen >= ALL, "{stats}");
        }
    }
}

/// A session's own call that waits for too long gives up, and its place goes to another session, whose call has a turn of its own.
/// In batches those behind it wait for those before it all the same.
fn gives_up_waiting(kind: Kind) {
    if kind.execution() != Execution::Batched {
        return;
    }
    let builder = Database::builder().protocol(kind).sessions(2).retries(1).procedure::<GraphRaise>();
    let db = filled(builder.lock_timeout(Duration::from_millis(5)), |_| 0);
    let call = registered(&db);
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let db = &db;
        let first = scope.spawn(move || {
            let mut executions = 0;
            db.session()?.call_registered(call, |tx| {
                tx.at(0);
                executions += 1;
                if executions == 2 {
                    told.send(()).expect("the test is there");
                    leaving.recv().expect("the test is there");
                }
                tx.update_columns(1, Node::value, |value| *value += 1)
            })
        });
        await_from(&telling);
        let outcomes =
            [(); 2].map(|()| db.session().and_then(|mut session| session.call(GraphRaise, (1, 2))));
        leave.send(()).expect("the first call waits");
        first.join().expect("no panic").expect("it commits");
        for outcome in outcomes {
            let error = outcome.expect_err("the row is another's");
            assert!(matches!(&error, Error::GaveUp(why) if why.conflict == Conflict::TimedOut), "{error}");
        }
    });
    let mut session = db.session().expect("its place is free");
    assert_eq!(session.call(GraphRaise, (1, 2)).expect("nobody is in the way"), 2);
    assert_eq!(sum(&db), 3);
}

#[procedure]
fn graph_add(tx: &mut impl Transaction, first: u64, second: u64) -> Result<()> {
    tx.add(Node::value, first, 1)?;
    tx.add(Node::value, second, 2)?;
    Ok(())
}

/// Calls that only add to a row wait for none of their like; whoever reads it or replaces it waits for them, and they for it.
fn adds_go_side_by_side(kind: Kind) {
    const CALLS: u64 = 200;
    if !kind.execution().is_announced() {
        return;
    }
    let builder = Database::builder().protocol(kind).executors(3);
    let db = filled(builder.procedure::<GraphAdd>().procedure::<GraphRaise>(), |_| 0);
    on_threads(kind, &db, 3, |session, _, _| {
        let pending: Vec<_> = (0..CALLS).map(|_| session.submit(GraphAdd, (1, 2))).collect();
        pending.into_iter().for_each(|call| call.and_then(|call| call.wait()).expect("it commits"));
    });
    assert_eq!(sum(&db), 3 * 3 * CALLS as i64);
    let metrics = db.metrics();
    assert_eq!((metrics.stats.conflicts_total(), metrics.stats.unforeseen), (0, 0), "{metrics}");
    if let Some(graph) = metrics.graph {
        let alone = (graph.waited, graph.depth - graph.batches);
        assert_eq!((graph.calls, graph.edges, alone), (3 * CALLS, 0, (0, 0)), "{metrics}");
    }
    on_threads(kind, &db, 3, |session, _, _| {
        let mut last = 0;
        for _ in 0..CALLS {
            let adds = [(); 2].map(|()| session.submit(GraphAdd, (1, 2)).expect("it is submitted"));
            let value = session.call(GraphRaise, (1, 3)).expect("it commits");
            adds.into_iter().for_each(|call| call.wait().expect("it commits"));
            assert!(last < value, "{last} before {value}");
            last = value;
        }
    });
    assert_eq!(sum(&db), 3 * (3 + 2 * 3 + 2) * CALLS as i64);
    let metrics = db.metrics();
    assert_eq!((metrics.stats.conflicts_total(), metrics.stats.unforeseen), (0, 0), "{metrics}");
}
