//! What only a protocol that executes calls piece by piece does: most of all, to show what is not committed yet
//! to those and only those who then depend on it. Under other protocols, whose calls are like closures, that leaves little.
//!
//! Each test stops calls between their pieces, by channels: a body may wait, as long as it does and writes the
//! same when it is executed again.

mod world;

pub(super) use self::world::await_from;
use self::world::{FIRST, First, PATIENCE, SECOND, Second, World, always_cut, always_tracks, two_additions};
use super::Test;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::{Declaration, PlanChange, Tracking};
use heddledb::protocol::{Choice, Execution, Kind};
use heddledb::{Conflict, Database, Error, Misuse, ReadTransaction, Result, Transaction, Txn};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "procedures_show_whole_groups", run: show_whole_groups },
        Test { name: "procedures_abort_who_read_and_nobody_else", run: abort_who_read },
        Test { name: "procedures_execute_a_piece_again", run: execute_again },
        Test { name: "procedures_give_up_a_circle", run: give_up_a_circle },
        Test { name: "procedures_commit_piece_by_piece", run: commit_piece_by_piece },
        Test { name: "procedures_await_parts_of_others", run: await_parts_of_others },
        Test { name: "procedures_commit_in_one_epoch", run: commit_in_one_epoch },
        Test { name: "procedures_come_and_go", run: come_and_go },
        Test { name: "procedures_panic_for_a_reason", run: panic_for_a_reason },
        Test { name: "procedures_go_over_beside_a_call", run: go_over_beside_a_call },
        Test { name: "closures_beside_procedures", run: closures_beside },
    ]
}

/// Who changes a column shows the others of its group as an earlier call left them, committed or not.
fn show_whole_groups(kind: Kind) {
    if !always_tracks(kind) {
        return;
    }
    let world = World::new(kind);
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let world = &world;
        let first = scope.spawn(move || {
            let write = |tx: &mut Txn| tx.update_columns(1, First::one, |one| *one = 7);
            world.show_and_wait(&mut world.session(), &told, &leaving, write)
        });
        await_from(&telling);
        let ((told_too, telling_too), (leave_too, leaving_too)) = (channel(), channel());
        let second = scope.spawn(move || {
            let write = |tx: &mut Txn| tx.set_columns(1, First::two, 8);
            world.show_and_wait(&mut world.session(), &told_too, &leaving_too, write)
        });
        await_from(&telling_too);
        let (seen, seeing) = channel();
        let third = scope.spawn(move || {
            world.session().call_registered(world.call, |tx| {
                tx.at(FIRST);
                let row = tx.get::<First>(1)?;
                seen.send(row).expect("the test is there");
                Ok(row)
            })
        });
        let row = First { key: 1, one: 7, two: 8 };
        assert_eq!(await_from(&seeing), Some(row), "what two calls have shown and not committed");
        leave_too.send(true).expect("the second call waits");
        leave.send(true).expect("the first call waits");
        first.join().expect("no panic").expect("the first call commits");
        second.join().expect("no panic").expect("the second call commits");
        assert_eq!(third.join().expect("no panic").expect("the third call commits"), Some(row));
    });
}

/// A call that gives up takes those along that have read what it showed, and neither those that only come
/// after it nor those that read after it was withdrawn.
fn abort_who_read(kind: Kind) {
    if !always_tracks(kind) {
        return;
    }
    let world = World::new(kind);
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let world = &world;
        let first = scope.spawn(move || {
            let write = |tx: &mut Txn| {
                // Row 2 it only reads: who writes it comes after, and has seen nothing.
                tx.get_columns(2, First::one)?;
                tx.update_columns(1, First::one, |one| *one = 7)
            };
            world.show_and_wait(&mut world.session(), &told, &leaving, write)
        });
        await_from(&telling);
        let (seen, seeing) = channel();
        let reader = scope.spawn(move || {
            let mut session = world.session();
            let outcome = session.attempt_registered(world.call, |tx| {
                tx.at(FIRST);
                let one = tx.get_columns(1, First::one)?;
                tx.at(SECOND);
                tx.update_columns(1, Second::value, |value| *value = one.unwrap_or(0))?;
                seen.send(one).expect("the test is there");
                Ok(())
            });
            (outcome, session.stats())
        });
        assert_eq!(await_from(&seeing), Some(7));
        let (written, writing) = channel();
        let follower = scope.spawn(move || {
            world.session().attempt_registered(world.call, |tx| {
                tx.at(FIRST);
                tx.set_columns(2, First::two, 9)?;
                tx.at(SECOND);
                tx.get_columns(2, Second::value)?;
                written.send(()).expect("the test is there");
                Ok(())
            })
        });
        await_from(&writing);
        leave.send(false).expect("the first call waits");
        let gave_up = first.join().expect("no panic");
        assert!(matches!(gave_up, Err(Error::User(_))), "{gave_up:?}");
        let (outcome, stats) = reader.join().expect("no panic");
        assert_eq!(outcome.expect_err("it read what never was").conflict(), Some(Conflict::Cascade));
        assert_eq!(stats.conflicts_by(Conflict::Cascade), 1);
        follower.join().expect("no panic").expect("it has seen nothing of the call that gave up");
    });
    let rows = world.session().run(|tx| Ok((tx.get::<First>(1)?, tx.get::<First>(2)?, tx.get::<Second>(1)?)));
    let rows = rows.expect("nobody else is there");
    assert_eq!(rows.0, Some(First { key: 1, one: 0, two: 0 }));
    assert_eq!(rows.1, Some(First { key: 2, one: 0, two: 9 }));
    assert_eq!(rows.2, Some(Second { key: 1, value: 0 }));
}

/// A piece whose reads have changed is executed again; what the pieces before it did stands, and is not done
/// twice.
fn execute_again(kind: Kind) {
    // Where calls are chopped, a closure would wait for the call that it runs in.
    if kind.execution() != Execution::Pieces || kind.tracking() == Tracking::Contended {
        return;
    }
    let world = World::new(kind);
    let mut session = world.session();
    let (mut first, mut second, mut disturbed) = (0, 0, false);
    let sum = session.call_registered(world.call, |tx| {
        first += 1;
        tx.at(FIRST);
        let one = tx.update_columns(1, First::one, |one| {
            *one += 1;
            *one
        })?;
        tx.at(SECOND);
        second += 1;
        let value = tx.get_columns(1, Second::value)?.unwrap_or(0);
        if !std::mem::replace(&mut disturbed, true) {
            // Another changes what this piece has read; it may, as this one has shown nothing there.
            world.session().run(|tx| tx.update_columns(1, Second::value, |value| *value += 10))?;
        }
        tx.insert(Second { key: 9, value: value + one })?;
        Ok(value + one)
    });
    assert_eq!(sum.expect("it commits"), 11, "what it returned is of the second execution");
    assert_eq!((first, second), (2, 2), "the body was executed twice");
    assert_eq!(session.stats().piece_retries, 1);
    assert_eq!(session.stats().conflicts_total(), 0);
    let rows = session.run(|tx| Ok((tx.get_columns(1, First::one)?, tx.get_columns(9, Second::value)?)));
    assert_eq!(rows.expect("nobody else is there"), (Some(1), Some(11)));
}

/// Two calls that come to depend on each other do not wait for each other for ever, where nothing keeps them
/// from it.
fn give_up_a_circle(kind: Kind) {
    if kind.tracking() != Tracking::Each {
        return;
    }
    let world = World::new(kind);
    let (one_told, one_telling) = channel();
    let (two_told, two_telling) = channel();
    let conflicts = std::thread::scope(|scope| {
        let world = &world;
        // Each shows a write, waits for the other's, and writes there too.
        let call = |mine: u64, theirs: u64, told: Sender<()>, telling: Receiver<()>| {
            scope.spawn(move || {
                let (mut session, mut met) = (world.session(), false);
                let outcome = session.call_registered(world.call, |tx| {
                    tx.at(FIRST);
                    tx.update_columns(mine, First::one, |one| *one += 1)?;
                    tx.at(FIRST);
                    tx.get_columns(mine, First::two)?;
                    if !std::mem::replace(&mut met, true) {
                        told.send(()).expect("the other thread is there");
                        await_from(&telling);
                    }
                    tx.at(FIRST);
                    tx.update_columns(theirs, First::one, |one| *one += 1)?;
                    tx.at(SECOND);
                    tx.get_columns(1, Second::value).map(|_| ())
                });
                outcome.expect("it commits at last");
                session.stats().conflicts_total()
            })
        };
        let calls = [call(1, 2, one_told, two_telling), call(2, 1, two_told, one_telling)];
        calls.map(|call| call.join().expect("no panic")).iter().sum::<u64>()
    });
    assert!(conflicts > 0, "each came first somewhere");
    let sums = world.session().run(|tx| Ok((tx.get_columns(1, First::one)?, tx.get_columns(2, First::one)?)));
    assert_eq!(sums.expect("nobody else is there"), (Some(2), Some(2)));
}

/// Where each piece commits on its own, what has committed stands, and who gives up then is told so; but what comes
/// before the promise not to give up is undone as a whole, and so is a call that is executed as one.
fn commit_piece_by_piece(kind: Kind) {
    if !kind.execution().commits_pieces() {
        return;
    }
    if kind.joins_pieces() {
        who_gives_up_is_told(kind.into(), true);
    }
    who_gives_up_is_told(always_cut(kind), false);
}

/// What stands of a call of two pieces that gives up, where it is executed as one or is not.
fn who_gives_up_is_told(protocol: Choice, as_one: bool) {
    let world = World::new(protocol);
    assert!(world.db.unregister_declared(world.call).expect("no transaction stays open"));
    let register = |declared| world.db.register_declared(declared).expect("it is registered");
    let (promises, may) = (register(two_additions("promises", true)), register(two_additions("may", false)));
    let mut session = world.session();
    let mut give_up = |which: Registered, at: u16| {
        session.call_registered(which, |tx| {
            tx.at(0);
            tx.add(First::one, 1, 1)?;
            if at == 0 {
                return Err(Error::user("it gives up"));
            }
            tx.at(1);
            tx.add(Second::value, 1, 1)?;
            if at == 1 { Err(Error::user("it gives up")) } else { Ok(()) }
        })
    };
    let stands = |outcome: Result<()>| match outcome {
        Err(Error::Misuse(misuse)) => matches!(*misuse, Misuse::PiecesStand { .. }),
        _ => false,
    };
    assert!(matches!(give_up(promises, 0), Err(Error::User(_))), "nothing has committed yet");
    assert_eq!(world.sums(), (0, 0));
    assert!(matches!(give_up(may, 1), Err(Error::User(_))), "it is one piece");
    assert_eq!(world.sums(), (0, 0));
    assert_eq!(stands(give_up(promises, 1)), !as_one, "the first piece has committed");
    let first = i64::from(!as_one);
    assert_eq!(world.sums(), (first, 0));
    give_up(promises, 2).expect("it commits");
    give_up(may, 2).expect("it commits");
    assert_eq!(world.sums(), (first + 2, 2));
    // A site that is not declared is refused, because nothing says where it belongs.
    let nowhere = session.call_registered(may, |tx| {
        tx.at(2);
        tx.get_columns(1, First::one)
    });
    assert!(matches!(nowhere, Err(Error::Misuse(misuse)) if *misuse == Misuse::NoSite { site: 2 }));
}

/// What the application orders after another call may come when that has parts yet to commit: its body asks to be executed again, however
/// often, and does not stand in the way of the other, whose part conflicts as often.
fn await_parts_of_others(kind: Kind) {
    // With lazy numbers nothing is ordered by the application alone.
    if kind.execution() != Execution::Chopped || kind == Kind::DbxTcLazy {
        return;
    }
    const OFTEN: u32 = 200;
    const AT_MOST: u32 = 100_000;
    let world = World::new(always_cut(kind));
    assert!(world.db.unregister_declared(world.call).expect("no transaction stays open"));
    let register = |declared| world.db.register_declared(declared).expect("it is registered");
    let mut follows = Declaration::new("follows");
    follows.causal();
    follows.get(First::one);
    follows.no_abort();
    follows.causal();
    follows.get(Second::value);
    let (both, follows) = (register(two_additions("both", true)), register(follows));
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let world = &world;
        let first = scope.spawn(move || {
            let mut executed = 0;
            world.session().call_registered(both, |tx| {
                tx.at(0);
                tx.add(First::one, 1, 1)?;
                // When it is executed again its first piece has committed, and its second has accessed nothing.
                if executed == 1 {
                    told.send(()).expect("the test is there");
                    await_from(&leaving);
                }
                tx.at(1);
                tx.add(Second::value, 1, 1)?;
                executed += 1;
                if executed < OFTEN { Err(Conflict::ReadChanged.into()) } else { Ok(()) }
            })
        });
        await_from(&telling);
        let mut executed = 0;
        let follower = world.session().call_registered(follows, |tx| {
            tx.at(0);
            let one = tx.get_columns(1, First::one)?;
            tx.at(1);
            let value = tx.get_columns(1, Second::value)?;
            executed += 1;
            if executed == OFTEN {
                leave.send(()).expect("the first call waits");
            }
            match one == value {
                false if executed < AT_MOST => Err(Conflict::Accessed.into()),
                _ => Ok((one, value)),
            }
        });
        assert_eq!(follower.expect("it commits"), (Some(1), Some(1)), "after {executed} executions");
        assert!(executed > OFTEN);
        first.join().expect("no panic").expect("it commits");
    });
}

/// A snapshot sees all pieces of a call or none, where each commits on its own and the epoch moves on in between.
fn commit_in_one_epoch(kind: Kind) {
    if !kind.execution().commits_pieces() {
        return;
    }
    let builder = Database::builder().protocol(always_cut(kind));
    let db = builder.manual_epochs().open().expect("it opens");
    let both = db.register_declared(two_additions("both", true)).expect("it is registered");
    let mut session = db.session().expect("there are sessions");
    let fill = |tx: &mut Txn| {
        tx.insert(First { key: 1, one: 0, two: 0 })?;
        tx.insert(Second { key: 1, value: 0 })
    };
    session.run(fill).expect("the tables are empty");
    let seen = std::thread::scope(|scope| {
        let (db, mut looking, mut begun) = (&db, None, None);
        let call = session.call_registered(both, |tx| {
            tx.at(0);
            tx.add(First::one, 1, 1)?;
            tx.at(1);
            tx.add(Second::value, 1, 1)?;
            // The first piece has committed. A snapshot of this moment waits for the call to end, and moves the
            // epoch on as far as that lets it.
            let epoch = *begun.get_or_insert_with(|| db.metrics().epoch);
            looking.get_or_insert_with(|| {
                scope.spawn(|| {
                    let mut snapshot = db.snapshot().expect("no transaction stays open");
                    let one = snapshot.get_columns(1, First::one).expect("a snapshot never fails");
                    (one, snapshot.get_columns(1, Second::value).expect("a snapshot never fails"))
                })
            });
            while db.metrics().epoch == epoch {
                std::thread::yield_now();
            }
            Ok(())
        });
        call.expect("it commits");
        looking.expect("it was begun").join().expect("no panic")
    });
    // A call that adds at its end has no epoch before.
    let sums = Some(i64::from(!kind.numbers_lazily()));
    assert_eq!(seen, (sums, sums), "the snapshot stands behind the whole call, or before it");
}

/// Procedures are registered and removed while calls of others run.
fn come_and_go(kind: Kind) {
    if kind.sessions_max() == 1 {
        return;
    }
    for how in [PlanChange::Barrier, PlanChange::Transition] {
        come_and_go_by(kind, how);
    }
}

/// Tells threads to end when it is dropped.
struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

fn come_and_go_by(kind: Kind, how: PlanChange) {
    const CHANGES: usize = 30;
    let world = World::changing(kind, how);
    let done = std::sync::atomic::AtomicBool::new(false);
    let calls = std::thread::scope(|scope| {
        let (world, done) = (&world, &done);
        // Where this thread fails, the others end too.
        let ends = Ends(done);
        let worker = || {
            scope.spawn(move || {
                let (mut session, mut calls) = (world.session(), 0);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let call = session.call_registered(world.call, |tx| {
                        tx.at(FIRST);
                        let one = tx.update_columns(1, First::one, |one| {
                            *one += 1;
                            *one
                        })?;
                        tx.at(SECOND);
                        tx.update_columns(1, Second::value, |value| {
                            *value += 1;
                            *value
                        })
                        .map(|value| (one, value))
                    });
                    let (one, value) = call.expect("it commits at last");
                    assert_eq!(one, value, "both pieces are in one order");
                    calls += 1;
                }
                calls
            })
        };
        let workers = [worker(), worker()];
        for change in 0..CHANGES {
            // In the other order, so that it forces the pieces of all together while it is there.
            let mut declaration = Declaration::new(format!("backwards_{change}"));
            declaration.upsert::<Second>();
            declaration.upsert::<First>();
            let which = world.db.register_declared(declaration).expect("it is registered");
            let call = world.session().call_registered(which, |tx| {
                tx.at(0);
                let value = tx.get_columns(1, Second::value)?;
                tx.at(1);
                Ok((tx.get_columns(1, First::one)?, value))
            });
            let (one, value) = call.expect("it commits at last");
            assert_eq!(one, value, "it sees both or none");
            assert!(world.db.unregister_declared(which).expect("no transaction stays open"));
            let refused = world.session().call_registered(which, |_| Ok(()));
            assert!(refused.is_err(), "it is no longer known");
        }
        drop(ends);
        workers.map(|worker| worker.join().expect("no panic")).iter().sum::<i64>()
    });
    assert_eq!(world.sums(), (calls, calls));
}

/// A panic because of what was seen is heard only if it was so: the piece may have been executed before that of one whom
/// the call comes after. (Where pieces wait before they execute, this one waits, and the other goes on after a while.)
fn panic_for_a_reason(kind: Kind) {
    if !matches!(kind.tracking(), Tracking::Always | Tracking::Each) {
        return;
    }
    let world = World::new(kind);
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let world = &world;
        let first = scope.spawn(move || {
            world.raise_both(|| {
                told.send(()).expect("the test is there");
                let _ = leaving.recv_timeout(Duration::from_millis(200));
            })
        });
        await_from(&telling);
        let mut leave = Some(leave);
        let both = world.session().call_registered(world.call, |tx| {
            tx.at(FIRST);
            let one = tx.update_columns(1, First::one, |one| {
                *one += 1;
                *one
            })?;
            tx.at(SECOND);
            let value = tx.update_columns(1, Second::value, |value| {
                *value += 1;
                *value
            })?;
            if let Some(leave) = leave.take() {
                // When this one waits, so that it has been judged before the other goes on.
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    let _ = leave.send(());
                });
            }
            if one != value {
                // A panic that nobody is told of on the way: that would take time.
                std::panic::resume_unwind(Box::new("never to be heard"));
            }
            Ok((one, value))
        });
        first.join().expect("no panic").expect("the first call commits");
        assert_eq!(both.expect("they were never unequal"), (2, 2));
    });
    assert_eq!(world.sums(), (2, 2));
}

/// While a call of the plan before stays open, others begin, go on and commit, and keep to the order in which it and they
/// met: under the plan in between too, where two of their pieces are one.
fn go_over_beside_a_call(kind: Kind) {
    if !always_tracks(kind) {
        return;
    }
    let world = World::changing(kind, PlanChange::Transition);
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    std::thread::scope(|scope| {
        let world = &world;
        // It has executed its first piece, and not its second.
        let first = scope.spawn(move || {
            world.raise_both(|| {
                told.send(()).expect("the test is there");
                await_from(&leaving);
            })
        });
        await_from(&telling);
        let before = world.db.plan();
        let change = scope.spawn(move || {
            let mut declaration = Declaration::new("backwards");
            declaration.upsert::<Second>();
            declaration.upsert::<First>();
            world.db.register_declared(declaration).expect("the first call ends in time")
        });
        let begun = std::time::Instant::now();
        while std::sync::Arc::ptr_eq(&world.db.plan(), &before) {
            assert!(begun.elapsed() < PATIENCE, "the plan in between comes at once");
            std::thread::yield_now();
        }
        assert!(!change.is_finished(), "it waits for the first call");
        // Nobody who has nothing to do with the first call waits for it.
        let apart = world.session().call_registered(world.call, |tx| {
            tx.at(FIRST);
            tx.update_columns(2, First::one, |one| *one += 1)?;
            tx.at(SECOND);
            tx.update_columns(2, Second::value, |value| *value += 1)
        });
        apart.expect("it commits");
        // Who comes after the first call at one table does at the other.
        let after = scope.spawn(move || {
            world.session().call_registered(world.call, |tx| {
                tx.at(FIRST);
                let one = tx.get_columns(1, First::one)?;
                tx.at(SECOND);
                Ok((one, tx.get_columns(1, Second::value)?))
            })
        });
        std::thread::sleep(Duration::from_millis(20));
        leave.send(()).expect("the first call waits");
        first.join().expect("no panic").expect("it commits");
        assert_eq!(after.join().expect("no panic").expect("it commits"), (Some(1), Some(1)));
        change.join().expect("no panic");
    });
    assert_eq!(world.sums(), (1, 1));
}

/// Closures that write what calls access, both ways round: each takes effect at one moment.
fn closures_beside(kind: Kind) {
    const ROUNDS: i64 = 2_000;
    if kind.sessions_max() == 1 {
        return;
    }
    let world = World::new(kind);
    std::thread::scope(|scope| {
        let world = &world;
        scope.spawn(move || {
            let mut session = world.session();
            for _ in 0..ROUNDS {
                let call = session.call_registered(world.call, |tx| {
                    tx.at(FIRST);
                    tx.update_columns(1, First::one, |one| *one += 1)?;
                    tx.at(SECOND);
                    tx.update_columns(1, Second::value, |value| *value += 1)
                });
                call.expect("it commits at last");
            }
        });
        scope.spawn(move || {
            let mut session = world.session();
            for _ in 0..ROUNDS {
                let closure = session.run(|tx| {
                    let value = tx.update_columns(1, Second::value, |value| {
                        *value += 1;
                        *value
                    })?;
                    let one = tx.update_columns(1, First::one, |one| {
                        *one += 1;
                        *one
                    })?;
                    Ok((one, value))
                });
                let (one, value) = closure.expect("it commits at last");
                assert_eq!(one, value, "a closure sees a call as a whole");
            }
        });
    });
    assert_eq!(world.sums(), (2 * ROUNDS, 2 * ROUNDS));
}
