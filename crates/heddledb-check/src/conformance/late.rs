//! Rows that deferring transactions insert under keys which they know only at the commit.

use super::Test;
use super::load::{lawful, on_threads};
use heddledb::protocol::Kind;
use heddledb::{
    Database, Deferring, Error, Misuse, ReadTransaction, Result, Scan, Session, Table, Transaction,
};
use std::ops::ControlFlow::Continue;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "late_inserts_are_counted", run: are_counted },
        Test { name: "late_inserts_that_are_there_are_refused", run: are_refused },
        Test { name: "late_inserts_are_read_by_their_own", run: are_read_by_their_own },
        Test { name: "late_verdicts_rest_on_what_stands", run: verdicts },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq, Eq)]
struct List {
    #[key]
    id: u64,
    next: u64,
    wrong: u64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq, Eq)]
#[table(index(EntryByOwner(owner)), unique(EntryByTicket(ticket)))]
struct Entry {
    #[key]
    list: u64,
    #[key]
    number: u64,
    owner: u64,
    ticket: u64,
    #[group(uses)]
    uses: u64,
}

const LISTS: u64 = 2;

fn open(kind: Kind) -> Database {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(16));
    let db = lawful(builder.table::<List>(64).table::<Entry>(1 << 14).open());
    lawful(
        lawful(db.session())
            .run(|tx| (0..LISTS).try_for_each(|id| tx.insert(List { id, next: 0, wrong: 0 }))),
    );
    db
}

fn entries(tx: &mut impl ReadTransaction, list: u64) -> Result<u64> {
    let mut entries = 0;
    tx.scan_columns(Scan::prefix((list,)), Entry::owner, |_, _| {
        entries += 1;
        Continue::<()>(())
    })?;
    Ok(entries)
}

/// Appends an entry; twice, if the first one's number is even and `twice`.
fn append(session: &mut Session, list: u64, owner: u64, twice: bool) -> Result<u64> {
    session.defer(|tx| {
        let number = tx.defer(list, List::next, (), move |next, ()| {
            let number = *next;
            *next += 1 + u64::from(twice && number % 2 == 0);
            number
        })?;
        let number = tx.map(number, |number| number.unwrap_or(u64::MAX))?;
        let entry = move |number| Entry { list, number, owner, ticket: number * LISTS + list, uses: 0 };
        tx.insert_with(number, entry)?;
        let again = tx.map(number, move |number| twice && number % 2 == 0)?;
        tx.when(again, |tx| tx.insert_with(number, move |number| entry(number + 1)))?;
        Ok(number)
    })
}

/// The entries of a list are as many as its row says, however it is asked: by who is behind the one that appends in a queue,
/// and has looked for the entries before, too.
fn are_counted(kind: Kind) {
    const ROUNDS: usize = 500;
    let db = open(kind);
    on_threads(kind, &db, 4, |session, random, thread| {
        for round in 0..ROUNDS {
            let list = random.below(LISTS);
            match round % 8 {
                // What was counted is compared when the list's turn has come.
                0 => lawful(session.defer(|tx| {
                    let found = entries(tx, list)?;
                    tx.defer(list, (List::next, List::wrong), (), move |(next, wrong), ()| {
                        *wrong += u64::from(*next != found);
                    })?;
                    Ok(())
                })),
                // The next one is not there, and the last one is.
                1 => lawful(session.run(|tx| {
                    let next = tx.get_columns(list, List::next)?.expect("a list");
                    let is_there = tx.get::<Entry>((list, next))?.is_some();
                    let was_there = next == 0 || tx.get::<Entry>((list, next - 1))?.is_some();
                    let found = entries(tx, list)?;
                    if is_there || !was_there || found != next {
                        tx.update_columns(list, List::wrong, |wrong| *wrong += 1)?;
                    }
                    Ok(())
                })),
                // As an ordinary transaction does it.
                2 => lawful(session.run(|tx| {
                    let number = tx.update_columns(list, List::next, |next| {
                        *next += 1;
                        *next - 1
                    })?;
                    let ticket = number * LISTS + list;
                    tx.insert(Entry { list, number, owner: thread as u64, ticket, uses: 0 })
                })),
                // The last one goes again.
                3 => lawful(session.run(|tx| {
                    let next = tx.get_columns(list, List::next)?.expect("a list");
                    if next > 0 {
                        let was_there = tx.delete::<Entry>((list, next - 1))?;
                        tx.update_columns(list, (List::next, List::wrong), |(next, wrong)| {
                            *next -= 1;
                            *wrong += u64::from(!was_there);
                        })?;
                    }
                    Ok(())
                })),
                // Intentions on an entry that is there, or is not.
                4 => {
                    let number = random.below(ROUNDS as u64);
                    lawful(session.defer(|tx| {
                        tx.defer((list, number), Entry::uses, (), |uses, ()| *uses += 1)?;
                        Ok(())
                    }));
                }
                part => {
                    lawful(append(session, list, thread as u64, part == 5));
                }
            }
        }
    });
    let mut session = lawful(db.session());
    lawful(session.run(|tx| {
        for list in 0..LISTS {
            let row = tx.get::<List>(list)?.expect("a list");
            assert_eq!((row.wrong, entries(tx, list)?), (0, row.next), "{kind}: {row:?}");
            for number in 0..row.next {
                let entry = tx.find::<EntryByTicket>(number * LISTS + list)?;
                assert_eq!(entry.map(|entry| (entry.list, entry.number)), Some((list, number)), "{kind}");
            }
        }
        Ok(())
    }));
    let report = lawful(db.check());
    assert!(report.is_whole(), "{kind}: {report:?}");
}

/// Where the key of a row, or of its entry in a unique index, is in use, the insert is refused, and nothing is done.
fn are_refused(kind: Kind) {
    let db = open(kind);
    let mut session = lawful(db.session());
    let entry = |number, ticket| Entry { list: 0, number, owner: 1, ticket, uses: 0 };
    lawful(session.run(|tx| tx.insert(entry(3, 33))));
    for round in 0..3u64 {
        for (number, ticket) in [(3, 40 + round), (5 + round, 33)] {
            let outcome = session.defer(|tx| {
                let next = tx.defer(0, List::next, (), |next, ()| {
                    *next += 1;
                    *next
                })?;
                tx.insert_with(next, move |_| entry(number, ticket))
            });
            let Err(Error::Misuse(misuse)) = outcome else { panic!("{kind}: {outcome:?}") };
            let is_told = match *misuse {
                Misuse::DuplicateKey { .. } => number == 3,
                Misuse::DuplicateEntry { .. } => ticket == 33,
                _ => false,
            };
            assert!(is_told, "{kind}: {misuse}");
        }
        let (row, all) = lawful(session.run(|tx| Ok((tx.get::<List>(0)?, entries(tx, 0)?))));
        assert_eq!((row.map(|row| row.next), all), (Some(round), 1 + round), "{kind}");
        lawful(append_at(&mut session, 10 + round));
    }
}

/// Inserts an entry of this number, and counts.
fn append_at(session: &mut Session, number: u64) -> Result<()> {
    session.defer(|tx| {
        let next = tx.defer(0, List::next, (), |next, ()| {
            *next += 1;
            *next
        })?;
        tx.insert_with(next, move |_| Entry { list: 0, number, owner: 2, ticket: 100 + number, uses: 0 })
    })
}

/// A transaction sees what it inserts, and conflicts with itself as in one that inserts at once.
fn are_read_by_their_own(kind: Kind) {
    let db = open(kind);
    let mut session = lawful(db.session());
    let mut there = 0;
    for round in 0..8u64 {
        let outcome = session.defer(|tx| {
            let old = tx.look(round % LISTS, List::next)?;
            let entry = move |_| Entry { list: 7, number: round, owner: 3, ticket: round, uses: 0 };
            tx.insert_with(old, entry)?;
            if round & 1 != 0 {
                assert_eq!(tx.get::<Entry>((7, round))?, Some(entry(Some(0))), "{kind}");
            }
            if round & 2 != 0 {
                assert_eq!(entries(tx, 7)?, there + 1, "{kind}");
            }
            if round & 4 != 0 {
                let uses = tx.defer((7, round), Entry::uses, (), |uses, ()| *uses += 1)?;
                let is_there = tx.map(uses, |uses| uses.is_some())?;
                tx.ensure(is_there, "it was inserted before")?;
                tx.insert_with(old, entry)?;
            }
            Ok(())
        });
        match outcome {
            Ok(()) => there += 1,
            Err(Error::Misuse(misuse)) if round & 4 != 0 => {
                assert!(matches!(*misuse, Misuse::DuplicateKey { .. }), "{kind}: {misuse}");
            }
            Err(error) => panic!("{kind}, round {round}: {error}"),
        }
        assert_eq!(lawful(session.run(|tx| entries(tx, 7))), there, "{kind}, round {round}");
    }
    assert_eq!(there, 4, "{kind}");
}

/// A verdict may rest on what the body has read at once, as of several moments. Then it is a conflict, and not the caller's.
fn verdicts(kind: Kind) {
    let db = open(kind);
    on_threads(kind, &db, 4, |session, random, thread| {
        for round in 0..400u64 {
            if thread < 2 {
                let (one, other) = if thread == 0 { (0, 1) } else { (1, 0) };
                lawful(session.run(|tx| {
                    tx.update_columns(one, List::next, |next| *next = next.wrapping_add(1))?;
                    tx.update_columns(other, List::next, |next| *next = next.wrapping_sub(1))
                }));
                continue;
            }
            let panics = random.below(2) == 0;
            let read = |tx: &mut heddledb::DeferringTxn<'_>, list| {
                Ok::<_, Error>(tx.get_columns(list, List::next)?.expect("a list"))
            };
            lawful(session.defer(|tx| {
                let first = read(tx, 0)?;
                std::thread::yield_now();
                let sum = first.wrapping_add(read(tx, 1)?);
                let list = 10 + thread as u64;
                let seen = tx.look((list, round), Entry::owner)?;
                let is_sum = tx.map(seen, move |_| sum == 0)?;
                if !panics {
                    tx.ensure(is_sum, "the sum is zero at every moment")?;
                }
                tx.insert_with((seen, is_sum), move |(_, is_sum)| {
                    assert!(is_sum || !panics, "the sum is zero at every moment");
                    let ticket = (list << 32) + round;
                    Entry { list, number: 1_000 + round, owner: 4, ticket, uses: 0 }
                })
            }));
        }
    });
    let mut session = lawful(db.session());
    for thread in 2..4.min(kind.sessions_max() as u64) {
        assert_eq!(lawful(session.run(|tx| entries(tx, 10 + thread))), 400, "{kind}");
    }
}
