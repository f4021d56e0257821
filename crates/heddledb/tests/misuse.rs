//! Operations that cannot be met, and savepoints: the transaction goes on, as if they had done nothing but read.

use heddledb::protocol::Kind;
use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::{
    Conflict, Database, Error, Misuse, ReadTransaction, Result, Scan, Table, Transaction, procedure,
};
use std::ops::ControlFlow;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByTeam(team)), unique(ByName(name)), unique(ByRank(rank)))]
struct Player {
    #[key]
    id: u64,
    team: u32,
    name: u64,
    #[group(rank)]
    rank: u64,
}

#[derive(Table, Clone, Copy, Debug)]
#[table(hash)]
struct Count {
    #[key]
    id: u64,
    value: u64,
}

fn player(id: u64) -> Player {
    Player { id, team: (id % 2) as u32, name: 100 + id, rank: 200 + id }
}

fn open(kind: Kind) -> Database {
    let sessions = kind.sessions_max().min(4);
    Database::builder()
        .protocol(kind)
        .sessions(sessions)
        .procedure::<Enrol>()
        .procedure::<Rename>()
        .procedure::<Promote>()
        .open()
        .unwrap()
}

/// The table and its indexes, which must agree.
fn players(tx: &mut impl ReadTransaction) -> Result<Vec<Player>> {
    let rows = tx.collect(Scan::<Player>::all())?;
    let (mut teams, mut names, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
    tx.scan_index(Scan::<ByTeam>::all(), |(team, id), key| {
        assert_eq!(id, key);
        teams.push((team, key));
        ControlFlow::Continue(())
    })?;
    tx.scan_index(Scan::<ByName>::all(), |name, key| {
        names.push((name, key));
        ControlFlow::Continue(())
    })?;
    tx.scan_index(Scan::<ByRank>::all(), |rank, key| {
        ranks.push((rank, key));
        ControlFlow::Continue(())
    })?;
    let sorted = |mut entries: Vec<(u64, u64)>| {
        entries.sort_unstable();
        entries
    };
    assert_eq!(
        sorted(teams.into_iter().map(|(team, id)| (team.into(), id)).collect()),
        sorted(rows.iter().map(|row| (row.team.into(), row.id)).collect())
    );
    assert_eq!(names, sorted(rows.iter().map(|row| (row.name, row.id)).collect()));
    assert_eq!(ranks, sorted(rows.iter().map(|row| (row.rank, row.id)).collect()));
    Ok(rows)
}

fn misuse<T: std::fmt::Debug>(outcome: Result<T>) -> Misuse {
    outcome.unwrap_err().misuse().expect("no other error").clone()
}

#[test]
fn a_transaction_goes_on_after_what_cannot_be_met() {
    for kind in Kind::ALL {
        let db = open(*kind);
        let mut session = db.session().unwrap();
        session.run(|tx| (1..=3).try_for_each(|id| tx.insert(player(id)))).unwrap();
        let seen = session
            .run(|tx| {
                tx.insert(player(4))?;
                assert!(matches!(misuse(tx.insert(player(1))), Misuse::DuplicateKey { .. }));
                assert!(matches!(misuse(tx.insert(player(4))), Misuse::DuplicateKey { .. }));
                assert!(matches!(
                    misuse(tx.update(9, |row: &mut Player| row.team = 1)),
                    Misuse::NotFound { .. }
                ));
                assert!(matches!(misuse(tx.add(Player::rank, 9, 1)), Misuse::NotFound { .. }));
                assert!(matches!(misuse(tx.set_columns(9, Player::team, 1)), Misuse::NotFound { .. }));
                let changed = tx.update(1, |row: &mut Player| row.id = 7);
                assert!(matches!(misuse(changed), Misuse::KeyChanged { .. }));
                players(tx)
            })
            .unwrap();
        assert_eq!(seen, (1..=4).map(player).collect::<Vec<_>>(), "{kind}");
        assert_eq!(session.run(players).unwrap(), seen, "{kind}");
    }
}

/// The row and some of its entries are there before the one is met that another row has.
#[test]
fn what_a_duplicate_entry_refuses_leaves_nothing_behind() {
    for kind in Kind::ALL {
        let db = open(*kind);
        let mut session = db.session().unwrap();
        session.run(|tx| (1..=3).try_for_each(|id| tx.insert(player(id)))).unwrap();
        let seen = session
            .run(|tx| {
                let taken = misuse(tx.insert(Player { rank: 203, ..player(5) }));
                assert_eq!(
                    taken,
                    Misuse::DuplicateEntry {
                        index: "player.ByRank",
                        table: "player",
                        entry: "203".to_owned()
                    }
                );
                // A row that was deleted in this transaction, and whose entries were.
                tx.delete::<Player>(2)?;
                let taken = misuse(tx.insert(Player { name: 101, ..player(2) }));
                assert!(matches!(taken, Misuse::DuplicateEntry { index: "player.ByName", .. }), "{taken}");
                assert_eq!(tx.get::<Player>(2)?, None);
                tx.insert(Player { team: 7, ..player(2) })?;
                // An update of two entries, the second of which is taken; and one by columns.
                tx.update(1, |row: &mut Player| row.team = 5)?;
                let taken =
                    misuse(tx.update(1, |row: &mut Player| (row.team, row.name, row.rank) = (9, 999, 202)));
                assert!(matches!(taken, Misuse::DuplicateEntry { index: "player.ByRank", .. }), "{taken}");
                let taken = misuse(tx.upsert(Player { name: 103, ..player(1) }));
                assert!(matches!(taken, Misuse::DuplicateEntry { index: "player.ByName", .. }), "{taken}");
                let taken = misuse(tx.set_columns(1, Player::rank, 203));
                assert!(matches!(taken, Misuse::DuplicateEntry { index: "player.ByRank", .. }), "{taken}");
                // The key that was refused is free.
                tx.insert(player(5))?;
                players(tx)
            })
            .unwrap();
        let expected =
            [Player { team: 5, ..player(1) }, Player { team: 7, ..player(2) }, player(3), player(5)];
        assert_eq!(seen, expected, "{kind}");
        assert_eq!(session.run(players).unwrap(), expected, "{kind}");
    }
}

#[test]
fn a_savepoint_goes_back_to_where_it_began() {
    for kind in Kind::ALL {
        let db = open(*kind);
        let mut session = db.session().unwrap();
        session.run(|tx| (1..=3).try_for_each(|id| tx.insert(player(id)))).unwrap();
        session
            .run(|tx| {
                tx.update(1, |row: &mut Player| row.team = 8)?;
                let stays = tx.savepoint(|tx| {
                    tx.insert(player(6))?;
                    let gone = tx.savepoint(|tx| {
                        tx.delete::<Player>(1)?;
                        tx.insert(player(7))?;
                        tx.update(6, |row: &mut Player| row.name = 1)?;
                        Err::<(), _>(Error::user("the inner one"))
                    });
                    assert!(matches!(gone, Err(Error::User(_))));
                    // What is refused in a savepoint ends it only if it is handed on.
                    assert!(tx.insert(player(6)).is_err());
                    assert_eq!(tx.get::<Player>(6)?, Some(player(6)));
                    tx.get::<Player>(1)
                })?;
                assert_eq!(stays, Some(Player { team: 8, ..player(1) }));
                let gone = tx.savepoint(|tx| {
                    tx.delete::<Player>(2)?;
                    tx.upsert(Player { team: 9, ..player(3) })?;
                    tx.insert(player(1))
                });
                assert!(matches!(misuse(gone), Misuse::DuplicateKey { .. }));
                tx.insert(player(7))
            })
            .unwrap();
        let expected = [Player { team: 8, ..player(1) }, player(2), player(3), player(6), player(7)];
        assert_eq!(session.run(players).unwrap(), expected, "{kind}");
    }
}

/// After a transaction all of whose writes were taken back, others find everything free.
#[test]
fn nothing_is_held_of_what_was_taken_back() {
    for kind in Kind::ALL.iter().filter(|kind| kind.sessions_max() > 1) {
        let db = open(*kind);
        let (mut one, mut two) = (db.session().unwrap(), db.session().unwrap());
        one.run(|tx| tx.insert(player(1))).unwrap();
        one.run(|tx| {
            let outcome: Result<()> = tx.savepoint(|tx| {
                tx.update(1, |row: &mut Player| row.team = 3)?;
                tx.insert(player(2))?;
                Err(Error::user("in vain"))
            });
            assert!(outcome.is_err());
            tx.upsert(Count { id: 1, value: 1 }).map(|_| ())
        })
        .unwrap();
        two.run(|tx| {
            tx.update(1, |row: &mut Player| row.team = 4)?;
            tx.insert(player(2))
        })
        .unwrap();
        assert_eq!(one.run(players).unwrap(), [Player { team: 4, ..player(1) }, player(2)], "{kind}");
    }
}

/// What the answer of a refused insert rests on is checked at the commit, as what is read.
#[test]
fn a_refusal_that_is_stale_is_a_conflict() {
    for kind in [Kind::Silo, Kind::TicToc, Kind::Dta, Kind::Hekaton, Kind::Ic3] {
        let db = open(kind);
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(player(1)).and_then(|()| tx.insert(player(2)))).unwrap();
        let mut slow = db.begin().unwrap();
        assert!(slow.insert(player(1)).is_err());
        // Something that both write, so that no serial order has the deletion behind it.
        let team = slow.get_columns(2, Player::team).unwrap().unwrap();
        session
            .run(|tx| {
                tx.delete::<Player>(1)?;
                tx.set_columns(2, Player::team, 40)
            })
            .unwrap();
        let outcome = slow.set_columns(2, Player::team, team + 1).and_then(|()| slow.commit());
        assert!(matches!(outcome, Err(Error::Conflict(_))), "{kind}: {outcome:?}");
    }
}

#[procedure]
fn enrol(tx: &mut impl Transaction, id: u64, name: u64, rank: u64) -> Result<u64> {
    let inserted = tx.insert::<Player>(Player { id, team: 0, name, rank });
    let told = match inserted {
        Ok(()) => 0,
        Err(Error::Misuse(misuse)) => match *misuse {
            Misuse::DuplicateKey { .. } => 1,
            Misuse::DuplicateEntry { index, .. } => {
                if index == "player.ByName" {
                    2
                } else {
                    3
                }
            }
            other => return Err(other.into()),
        },
        Err(error) => return Err(error),
    };
    tx.upsert::<Count>(Count { id, value: told })?;
    Ok(told)
}

#[procedure]
fn rename(tx: &mut impl Transaction, id: u64, name: u64) -> Result<bool> {
    let renamed = tx.update_columns(id, Player::name, |place| *place = name);
    let done = match renamed {
        Ok(()) => true,
        Err(Error::Misuse(_)) => false,
        Err(error) => return Err(error),
    };
    tx.upsert::<Count>(Count { id: 1_000 + id, value: name })?;
    Ok(done)
}

#[procedure]
fn promote(tx: &mut impl Transaction, id: u64) -> Result<bool> {
    let added = tx.add(Count::value, id, 1);
    match added {
        Ok(()) => Ok(true),
        Err(Error::Misuse(_)) => {
            tx.upsert::<Count>(Count { id, value: 1 })?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Calls of procedures, which some protocols execute in pieces and some again, on several threads: what is refused is
/// told again as it was.
#[test]
fn calls_go_on_after_what_cannot_be_met() {
    const CALLS: u64 = 400;
    for kind in Kind::ALL {
        let db = open(*kind);
        let threads = kind.sessions_max().min(3) as u64;
        let told: Vec<u64> = std::thread::scope(|scope| {
            let db = &db;
            let enrols = |thread: u64| {
                move || {
                    let mut session = db.session().unwrap();
                    let mut enrolled = 0;
                    for call in 0..CALLS {
                        let (id, name) = (call % 40, (call * 7 + thread) % 23);
                        enrolled += u64::from(session.call(Enrol, (id, name, call % 31)).unwrap() == 0);
                        session.call(Rename, (call % 37, (call * 5 + thread) % 23)).unwrap();
                        session.call(Promote, 2_000 + call % 5).unwrap();
                    }
                    enrolled
                }
            };
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(enrols(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut session = db.session().unwrap();
        let rows = session.run(players).unwrap();
        assert_eq!(rows.len() as u64, told.iter().sum::<u64>(), "{kind}");
        let counts = session.run(|tx| {
            (0..5)
                .try_fold(0, |sum, id| Ok(sum + tx.get::<Count>(2_000 + id)?.map_or(0, |count| count.value)))
        });
        assert_eq!(counts.unwrap(), CALLS * threads, "{kind}");
    }
}

#[test]
fn rows_of_values_go_on_too() {
    let table = TableDefinition::builder("people")
        .key("id", ColumnType::U64)
        .column("name", ColumnType::U64)
        .column("rank", ColumnType::U64)
        .unique("PeopleByName", ["name"])
        .unique("PeopleByRank", ["rank"])
        .build()
        .unwrap();
    for kind in Kind::ALL {
        let db = open(*kind);
        let people = db.define(table, 10).unwrap();
        let mut session = db.session().unwrap();
        let row = |id: u64, name: u64, rank: u64| [Value::from(id), name.into(), rank.into()];
        session
            .run(|tx| {
                let mut rows = tx.rows(&people)?;
                rows.insert(&row(1, 11, 21))?;
                rows.insert(&row(2, 12, 22))?;
                assert!(matches!(misuse(rows.insert(&row(1, 1, 1))), Misuse::DuplicateKey { .. }));
                assert!(matches!(misuse(rows.insert(&row(3, 13, 22))), Misuse::DuplicateEntry { .. }));
                assert!(matches!(misuse(rows.insert(&row(3, 13, 22)[..2])), Misuse::WrongCount { .. }));
                let change = rows.update(&[2u64.into()], |row| {
                    row.set("name", 99u64)?;
                    row.set("rank", 21u64)
                });
                assert!(matches!(misuse(change), Misuse::DuplicateEntry { .. }));
                let own = rows.update(&[2u64.into()], |_| Err::<(), _>(Error::user("not so")));
                assert!(matches!(own, Err(Error::User(_))));
                assert!(matches!(misuse(rows.update(&[9u64.into()], |_| Ok(()))), Misuse::NotFound { .. }));
                rows.insert(&row(3, 13, 23))
            })
            .unwrap();
        let found = session.run(|tx| {
            let mut rows = tx.rows(&people)?;
            let names = [11u64, 12, 13, 99].map(|name| rows.find("PeopleByName", &[name.into()]));
            names.into_iter().map(|row| Ok(row?.map(|row| row["id"].clone()))).collect::<Result<Vec<_>>>()
        });
        assert_eq!(found.unwrap(), [Some(1u64.into()), Some(2u64.into()), Some(3u64.into()), None], "{kind}");
    }
}

/// What a transaction looked up and then inserted itself does not count as another's, though its inserts make the table
/// grow under its looks.
#[test]
fn many_upserts_into_a_hash_table_conflict_with_nobody() {
    const ROWS: u64 = 20_000;
    for kind in Kind::ALL {
        let db = open(*kind);
        let mut session = db.session().unwrap();
        let before = session.stats().conflicts_total();
        session
            .run(|tx| {
                for id in 0..ROWS {
                    if id % 2 == 0 {
                        tx.upsert(Count { id, value: id })?;
                    } else if tx.get::<Count>(id)?.is_none() {
                        tx.insert(Count { id, value: id })?;
                    }
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(session.stats().conflicts_total() - before, 0, "{kind}");
        let there = session
            .run(|tx| (0..ROWS).try_fold(0, |sum, id| Ok(sum + u64::from(tx.get::<Count>(id)?.is_some()))));
        assert_eq!(there.unwrap(), ROWS, "{kind}");
    }
}

/// A body with an error type of its own: its decisions come back, and conflicts are retried though it wraps them.
#[test]
fn errors_of_a_type_of_the_users() {
    #[derive(Debug)]
    enum Own {
        Poor,
        Database(Error),
    }
    impl From<Error> for Own {
        fn from(error: Error) -> Self {
            Self::Database(error)
        }
    }
    for kind in Kind::ALL {
        let db = open(*kind);
        let mut session = db.session().unwrap();
        let outcome: Result<(), Own> = session.try_run(|tx| {
            tx.insert(player(1))?;
            Err(Own::Poor)
        });
        assert!(matches!(outcome, Err(Own::Poor)), "{kind}");
        let outcome: Result<(), Own> = session.try_run(|tx| Ok(tx.add(Count::value, 1, 1)?));
        assert!(matches!(outcome, Err(Own::Database(Error::Misuse(_)))), "{kind}");
        let mut rounds = 0;
        let outcome: Result<u64, Own> = session.try_run(|tx| {
            rounds += 1;
            tx.upsert(Count { id: 1, value: rounds })?;
            if rounds < 3 { Err(Own::Database(Conflict::Locked.into())) } else { Ok(rounds) }
        });
        // That is no conflict of the database's, so it is the body's own.
        assert!(matches!(outcome, Err(Own::Database(Error::Conflict(_)))), "{kind}");
    }
}

/// The error that a user gave is the source, and a boxed one passes by `?`.
#[test]
fn errors_tell_what_they_are_made_of() {
    use std::error::Error as _;
    let mut session = Database::in_memory().session().unwrap();
    let outcome: Result<()> = session.run(|_| {
        let number: std::result::Result<u64, Box<dyn std::error::Error + Send + Sync>> =
            "x".parse::<u64>().map_err(Into::into);
        number?;
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert!(error.source().unwrap().is::<std::num::ParseIntError>());
    let outcome: Result<()> = session.run(|_| {
        heddledb::Text::<3>::new("too long")?;
        Ok(())
    });
    assert!(outcome.unwrap_err().user_reason::<heddledb::table::TextError>().is_some());
}

#[test]
fn a_table_whose_rows_are_too_long_is_refused() {
    let table = |bytes: usize| {
        let text = ColumnType::Text(bytes);
        TableDefinition::builder("page").key("id", ColumnType::U64).column("text", text).build().unwrap()
    };
    let db = Database::in_memory();
    assert!(
        db.define(table(2 << 20), 0).is_err_and(|error| error.to_string().contains("2097152 bytes in place"))
    );
    let pages = db.define(table(1 << 20), 0).unwrap();
    let row = [1u64.into(), Value::from("a page")];
    db.session().unwrap().run(|tx| tx.rows(&pages)?.insert(&row)).unwrap();
}
