//! Column groups that no registered procedure writes: protocols that link calls by what they will access
//! ([`Execution::is_announced`](heddledb::protocol::Execution::is_announced)) do not ask who reads them. Under other protocols there is
//! nothing to test.

use super::Test;
use super::load::{lawful, on_threads};
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::Kind;
use heddledb::{Database, ReadTransaction, Result, Scan, Session, Table, Transaction, Txn};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "graph_quiet_reads_are_not_told", run: quiet_reads_are_not_told },
        Test { name: "graph_quiet_scans_are_not_told", run: quiet_scans_are_not_told },
        Test { name: "graph_quiet_groups_stay_right", run: quiet_groups_stay_right },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "graph_quiet", index(QuietByTag(tag)))]
struct Quiet {
    #[key]
    key: u64,
    value: i64,
    #[group(still)]
    still: i64,
    #[group(tags)]
    tag: u64,
}

const ROWS: u64 = 6;

/// A database with the rows and a procedure that reads `still` and entries of the index and writes `value`; `None` under a protocol
/// that links no calls.
fn world(kind: Kind) -> Option<(Database, Registered)> {
    if !kind.execution().is_announced() {
        return None;
    }
    let db = lawful(Database::builder().protocol(kind).open());
    let row = |key| Quiet { key, value: 0, still: 0, tag: key };
    lawful(lawful(db.session()).run(|tx| (0..ROWS).try_for_each(|key| tx.insert(row(key)))));
    let mut reads = Declaration::new("reads what is still");
    reads.get(Quiet::still);
    reads.scan_index::<QuietByTag>();
    reads.update(Quiet::value);
    let reads = lawful(db.register_declared(reads));
    Some((db, reads))
}

/// Makes a call whose executions each read another row, or scan another entry. Returns how often it did what it had not told.
fn foresees(db: &Database, call: Registered, scans: bool) -> u64 {
    let mut session = lawful(db.session());
    let before = session.stats().unforeseen;
    let mut executions = 0;
    let body = |tx: &mut Txn| {
        executions += 1;
        if scans {
            tx.at(1);
            tx.scan_index(Scan::<QuietByTag>::prefix((executions,)), |_, _| ControlFlow::Continue(()))?;
        } else {
            tx.at(0);
            tx.get_columns(executions, Quiet::still)?;
        }
        tx.at(2);
        tx.update_columns(0, Quiet::value, |value| *value += 1)
    };
    lawful(session.call_registered(call, body));
    assert_eq!(executions, 2, "once without effect");
    session.stats().unforeseen - before
}

/// What only closures write need not be told, as long as no procedure that writes it is registered.
fn quiet_reads_are_not_told(kind: Kind) {
    let Some((db, call)) = world(kind) else { return };
    assert_eq!(foresees(&db, call, false), 0);
    let mut writes = Declaration::new("writes");
    writes.set(Quiet::still);
    let writes = lawful(db.register_declared(writes));
    assert_eq!((foresees(&db, call, false), foresees(&db, call, true)), (1, 0));
    lawful(db.unregister_declared(writes));
    assert_eq!(foresees(&db, call, false), 0);
}

/// Nor need a scan of an index whose entries no registered procedure moves.
fn quiet_scans_are_not_told(kind: Kind) {
    let Some((db, call)) = world(kind) else { return };
    assert_eq!(foresees(&db, call, true), 0);
    let mut moves = Declaration::new("moves");
    moves.set(Quiet::tag);
    let moves = lawful(db.register_declared(moves));
    assert_eq!(foresees(&db, call, true), 1);
    lawful(db.unregister_declared(moves));
    assert_eq!(foresees(&db, call, true), 0);
    let mut deletes = Declaration::new("deletes");
    deletes.delete::<Quiet>();
    lawful(db.register_declared(deletes));
    assert_eq!((foresees(&db, call, true), foresees(&db, call, false)), (1, 1));
}

/// Sets the quiet column of two rows.
fn set_both(tx: &mut Txn, to: i64) -> Result<()> {
    tx.at(0);
    tx.set_columns(0, Quiet::still, to)?;
    tx.at(1);
    tx.set_columns(1, Quiet::still, to)
}

/// Calls that read a quiet column of two rows see both before or both after what a closure does to them, and what a procedure does that
/// is registered meanwhile; and when there are no closures any more, none of these calls conflicts.
fn quiet_groups_stay_right(kind: Kind) {
    const CALLS: i64 = 400;
    let Some((db, reads)) = world(kind) else { return };
    let register = || {
        let mut writes = Declaration::new("writes both");
        writes.set(Quiet::still);
        writes.set(Quiet::still);
        lawful(db.register_declared(writes))
    };
    let read = |session: &mut Session| {
        let body = |tx: &mut Txn| {
            tx.at(0);
            let one = tx.get_columns(0, Quiet::still)?;
            tx.at(0);
            let other = tx.get_columns(1, Quiet::still)?;
            tx.at(2);
            tx.update_columns(2, Quiet::value, |value| *value += 1)?;
            Ok((one, other))
        };
        let (one, other) = lawful(session.call_registered(reads, body));
        assert_eq!(one, other);
    };
    let over = AtomicBool::new(false);
    let writes = std::sync::OnceLock::new();
    on_threads(kind, &db, 3, |session, _, thread| match thread {
        0 => {
            for at in 0..CALLS {
                if at == CALLS / 2 {
                    writes.get_or_init(register);
                }
                match writes.get() {
                    Some(writes) => lawful(session.call_registered(*writes, |tx| set_both(tx, -at))),
                    None => read(session),
                }
            }
            over.store(true, Ordering::Release);
        }
        1 => {
            for at in 0.. {
                lawful(session.run(|tx| set_both(tx, at)));
                if over.load(Ordering::Acquire) {
                    break;
                }
            }
        }
        _ => {
            while !over.load(Ordering::Acquire) {
                read(session);
            }
        }
    });
    let Some(writes) = writes.get() else { panic!("it was registered") };
    on_threads(kind, &db, 3, |session, _, thread| {
        for at in 0..CALLS {
            if thread == 0 {
                lawful(session.call_registered(*writes, |tx| set_both(tx, at)));
            } else {
                read(session);
            }
        }
        let stats = session.stats();
        assert_eq!((stats.conflicts_total(), stats.unforeseen), (0, 0), "{stats}");
    });
}
