//! What only a protocol that executes calls in two phases does ([`Execution::Sequenced`]): later phases meet, and each
//! access comes after those that were announced before it and conflict. Under other protocols there is nothing to test.
//!
//! A body runs to its end at least twice: in the first execution it does its now phase and announces the rest.

use super::Test;
use super::procedures::await_from;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Execution, Kind};
use heddledb::{Database, Error, Misuse, ReadTransaction, Result, Scan, Session, Table, Transaction, Txn};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "phases_later_ones_meet", run: later_phases_meet },
        Test { name: "phases_wait_for_what_was_announced", run: wait_for_what_was_announced },
        Test { name: "phases_keep_the_order_of_turns", run: keep_the_order_of_turns },
        Test { name: "phases_refuse_what_was_not_announced", run: refuse_what_was_not_announced },
    ]
}

/// What now phases access.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "phase_now")]
struct Now {
    #[key]
    key: u64,
    value: i64,
}

/// What later phases access.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "phase_later", index(LaterByTag(tag)))]
struct Later {
    #[key]
    key: u64,
    value: i64,
    tag: u64,
}

/// The sites of every procedure here.
const NOW: u16 = 0;
const LATER: u16 = 1;

struct World {
    db: Database,
    call: Registered,
}

impl World {
    /// Rows 1 to 4 of both tables; `None` under a protocol that knows no phases.
    fn new(kind: Kind) -> Option<Self> {
        if kind.execution() != Execution::Sequenced {
            return None;
        }
        let db = Database::builder().protocol(kind).open().expect("it opens");
        let mut declaration = Declaration::new("phases");
        declaration.upsert::<Now>();
        declaration.later();
        declaration.upsert::<Later>();
        let call = db.register_declared(declaration).expect("it is registered");
        let fill = |tx: &mut Txn| {
            (1..5).try_for_each(|key| {
                tx.insert(Now { key, value: 0 })?;
                tx.insert(Later { key, value: 0, tag: 100 + key })
            })
        };
        db.session().and_then(|mut session| session.run(fill)).expect("the tables are empty");
        Some(Self { db, call })
    }

    fn session(&self) -> Session {
        self.db.session().expect("there are sessions")
    }

    /// Calls a body that is told which of its executions it is, from 1. Returns the time of the commit too.
    fn call<R>(&self, mut body: impl FnMut(&mut Txn, u32) -> Result<R>) -> Result<(R, u64)> {
        let (mut session, mut execution) = (self.session(), 0);
        let result = session.call_registered(self.call, |tx| {
            execution += 1;
            body(tx, execution)
        })?;
        Ok((result, session.last_commit()))
    }

    /// While a call stands in its later phase, in which it adds 10 to row 1 and 7 to row 4, gives row 2 another tag,
    /// deletes row 3 and inserts row 9, another begins, which must see all that; and `meanwhile` runs. Returns the times of the two.
    fn beside<R: Send>(
        &self,
        other: impl FnMut(&mut Txn, u32) -> Result<R> + Send,
        meanwhile: impl FnOnce(),
    ) -> (R, [u64; 2]) {
        let ((told, telling), (leave, leaving)) = (channel(), channel());
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                self.call(|tx, execution| {
                    tx.at(NOW);
                    tx.add(Now::value, 1, 1)?;
                    tx.at(LATER);
                    tx.add(Later::value, 1, 10)?;
                    if execution == 2 {
                        tell_and_wait(&told, &leaving);
                    }
                    tx.add(Later::value, 4, 7)?;
                    tx.update_columns(2, Later::tag, |tag| *tag = 200)?;
                    tx.delete::<Later>(3)?;
                    tx.insert(Later { key: 9, value: 9, tag: 109 })
                })
            });
            await_from(&telling);
            let other = scope.spawn(move || self.call(other));
            meanwhile();
            // Time to go wrong in.
            std::thread::sleep(Duration::from_millis(10));
            leave.send(()).expect("the first call waits");
            let first = first.join().expect("no panic").expect("it commits");
            let (seen, time) = other.join().expect("no panic").expect("it commits");
            (seen, [first.1, time])
        })
    }
}

fn tell_and_wait(told: &Sender<()>, leaving: &Receiver<()>) {
    told.send(()).expect("the other is there");
    await_from(leaving);
}

/// Two calls whose now phases conflict, and whose later phases do not, are in these at once.
fn later_phases_meet(kind: Kind) {
    let Some(world) = World::new(kind) else { return };
    let (one_told, one_telling) = channel();
    let (two_told, two_telling) = channel();
    std::thread::scope(|scope| {
        let world = &world;
        let call = |key: u64, told: Sender<()>, telling: Receiver<()>| {
            scope.spawn(move || {
                world.call(|tx, execution| {
                    tx.at(NOW);
                    tx.update_columns(1, Now::value, |value| *value += 1)?;
                    tx.at(LATER);
                    if execution == 2 {
                        tell_and_wait(&told, &telling);
                    }
                    tx.update_columns(key, Later::value, |value| *value += 1)?;
                    Ok(execution)
                })
            })
        };
        for call in [call(1, one_told, two_telling), call(2, two_told, one_telling)] {
            let (executions, _) = call.join().expect("no panic").expect("it commits");
            assert_eq!(executions, 2, "once to announce, once to do it");
        }
    });
    let sums = world.session().run(|tx| {
        let later = |tx: &mut Txn, key| tx.get_columns(key, Later::value);
        Ok((tx.get_columns(1, Now::value)?, later(tx, 1)?, later(tx, 2)?))
    });
    assert_eq!(sums.expect("nobody else is there"), (Some(2), Some(1), Some(1)));
}

/// An access comes after what another has announced before it, in a now phase as in a later one, by a key, a scan or an
/// index, of a row that is changed, moved, deleted or inserted.
fn wait_for_what_was_announced(kind: Kind) {
    /// All rows, and those of an index that have a tag of the tens that are given.
    fn all(tx: &mut Txn) -> Result<Vec<(u64, i64)>> {
        let mut rows = Vec::new();
        tx.scan_columns(Scan::<Later>::all(), Later::value, |key, value| {
            rows.push((key, value));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
    let after = [(1, 10), (2, 0), (4, 7), (9, 9)];
    for site in [NOW, LATER] {
        let world = || World::new(kind);
        let Some(here) = world() else { return };
        let (value, _) = here.beside(
            |tx, _| {
                tx.at(site);
                tx.get_columns(4, Later::value)
            },
            || {},
        );
        assert_eq!(value, Some(7), "read at site {site}");

        let here = world().expect("as before");
        let (rows, _) = here.beside(
            |tx, _| {
                tx.at(site);
                all(tx)
            },
            || {},
        );
        assert_eq!(rows, after, "scanned at site {site}");

        let here = world().expect("as before");
        let add = |tx: &mut Txn, _| {
            tx.at(site);
            tx.update_columns(4, Later::value, |value| {
                *value += 1;
                *value
            })
        };
        assert_eq!(here.beside(add, || {}).0, 8, "updated at site {site}");

        // The row is there only when the first has ended: what comes later is done with the turn then.
        let here = world().expect("as before");
        let add = |tx: &mut Txn, _| {
            tx.at(site);
            tx.update_columns(9, Later::value, |value| {
                *value += 1;
                *value
            })
        };
        assert_eq!(here.beside(add, || {}).0, 10, "an inserted row at site {site}");

        let here = world().expect("as before");
        let insert = |tx: &mut Txn, _| {
            tx.at(site);
            tx.insert(Later { key: 3, value: 3, tag: 103 })
        };
        here.beside(insert, || {});
        assert_eq!(here.session().run(all).expect("nobody else is there")[2], (3, 3), "at site {site}");

        // Which entry goes with the row is known when the first has moved it.
        let here = world().expect("as before");
        let delete = |tx: &mut Txn, _| {
            tx.at(site);
            tx.delete::<Later>(2)
        };
        assert!(here.beside(delete, || {}).0, "deleted at site {site}");
        let left = here.session().run(|tx| {
            let mut tags = Vec::new();
            tx.scan_index(Scan::<LaterByTag>::all(), |tag, _| {
                tags.push(tag);
                ControlFlow::Continue(())
            })?;
            Ok(tags)
        });
        assert_eq!(
            left.expect("nobody else is there"),
            [(101, 1), (104, 4), (109, 9)],
            "entries, at site {site}"
        );
    }
}

/// Times follow the turns, whatever ends first, and those of closures too.
fn keep_the_order_of_turns(kind: Kind) {
    let Some(world) = World::new(kind) else { return };
    let bump = |tx: &mut Txn| {
        tx.update_columns(1, Now::value, |value| {
            *value += 1;
            *value
        })
    };
    let (mut third, mut values) = (0, Vec::new());
    let second = |tx: &mut Txn, _| {
        tx.at(NOW);
        bump(tx)
    };
    let meanwhile = || {
        // While the first stands in its later phase, this has its turn, and may write much.
        let (value, time) = world
            .call(|tx, _| {
                tx.at(NOW);
                bump(tx)
            })
            .expect("it commits");
        values.push(value);
        third = time;
    };
    let (value, [first, second]) = world.beside(second, meanwhile);
    values.push(value);
    values.sort_unstable();
    assert_eq!(values, [2, 3], "all of them have followed the first");
    assert!(first < second && first < third && second != third, "{first} {second} {third}");
    let mut session = world.session();
    assert_eq!(session.run(bump).expect("nobody else is there"), 4);
    let closure = session.last_commit();
    assert!(closure > second.max(third));
    let (_, fourth) = world
        .call(|tx, _| {
            tx.at(NOW);
            bump(tx)
        })
        .expect("it commits");
    assert!(fourth > closure);
}

/// A row that a later phase comes to for what it has read there is refused, because others may be there.
fn refuse_what_was_not_announced(kind: Kind) {
    let Some(world) = World::new(kind) else { return };
    let refused = |outcome: Result<((), u64)>| match outcome {
        Err(Error::Misuse(misuse)) => match *misuse {
            Misuse::PiecesStand { why } => why.contains("phase_later") && why.contains("#[later]"),
            _ => false,
        },
        _ => false,
    };
    let point = world.call(|tx, execution| {
        tx.at(NOW);
        tx.add(Now::value, 1, 1)?;
        tx.at(LATER);
        tx.add(Later::value, execution.into(), 1)
    });
    assert!(refused(point));
    let scan = world.call(|tx, execution| {
        tx.at(LATER);
        let keys = Scan::<Later>::range(..u64::from(execution));
        tx.scan_columns(keys, Later::value, |_, _| ControlFlow::Continue(()))
    });
    assert!(refused(scan));
    // To write what one has only said to read is refused as well; to write what one scans is not.
    let write = world.call(|tx, execution| {
        tx.at(LATER);
        if execution == 1 { tx.get_columns(1, Later::value).map(|_| ()) } else { tx.add(Later::value, 1, 1) }
    });
    assert!(refused(write));
    let found = world.call(|tx, execution| {
        tx.at(LATER);
        tx.scan_columns(Scan::<Later>::all(), Later::value, |_, _| ControlFlow::Continue(()))?;
        if execution == 1 { Ok(()) } else { tx.set_columns(1, Later::value, 5) }
    });
    found.expect("it commits");
    let values =
        world.session().run(|tx| Ok((tx.get_columns(1, Now::value)?, tx.get_columns(1, Later::value)?)));
    assert_eq!(values.expect("nobody else is there"), (Some(1), Some(5)));
}
