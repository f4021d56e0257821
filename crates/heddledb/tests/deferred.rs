//! Deferring transactions, under every protocol.

use heddledb::protocol::Kind;
use heddledb::table::{ColumnType, ColumnValue, Words, WordsMut};
use heddledb::{Database, Deferring, Error, Misuse, ReadTransaction, Scan, Session, Table, Transaction};

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
    #[group(other)]
    count: u64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByOwner(owner)))]
struct Owned {
    #[key]
    id: u64,
    owner: u64,
}

fn each(test: impl Fn(Kind, &mut Session)) {
    for kind in Kind::ALL.iter().copied() {
        let db = Database::builder().protocol(kind).sessions(1).open().unwrap();
        let mut session = db.session().unwrap();
        session
            .run(|tx| (0..4).try_for_each(|id| tx.insert(Account { id, balance: 100, count: 0 })))
            .unwrap();
        test(kind, &mut session);
    }
}

fn balance(session: &mut Session, id: u64) -> Option<i64> {
    session.run(|tx| tx.get_columns(id, Account::balance)).unwrap()
}

#[test]
fn each_operation_does_what_its_eager_twin_does() {
    each(|kind, session| {
        let values = session
            .defer(|tx| {
                let seen = tx.look(1, Account::balance)?;
                let none = tx.look(9, Account::balance)?;
                let left = tx.defer(1, Account::balance, seen, |balance, seen| {
                    *balance += seen.unwrap_or(0);
                    *balance
                })?;
                let missing = tx.defer(9, Account::balance, (), |balance, ()| *balance += 1)?;
                tx.put(7, left, |left| Account { id: 7, balance: left.unwrap_or(0), count: 3 })?;
                let gone = (tx.erase::<Account>(2)?, tx.erase::<Account>(8)?);
                let rich = tx.map(left, |left| left > Some(150))?;
                tx.when(rich, |tx| tx.defer(3, Account::count, (), |count, ()| *count = 5).map(|_| ()))?;
                let poor = tx.map(rich, |rich| !rich)?;
                tx.when(poor, |tx| {
                    tx.defer(3, Account::balance, (), |balance, ()| *balance = 0).map(|_| ())
                })?;
                Ok((vec![seen, none, left], missing, gone))
            })
            .unwrap();
        assert_eq!(values, (vec![Some(100), None, Some(200)], None, (true, false)), "{kind}");
        let rows = [1, 2, 3, 7].map(|id| session.run(|tx| tx.get::<Account>(id)).unwrap());
        let row = |id, balance, count| Some(Account { id, balance, count });
        assert_eq!(rows, [row(1, 200, 0), None, row(3, 100, 5), row(7, 200, 3)], "{kind}");
    });
}

#[test]
fn a_refusal_has_no_effect_and_is_not_passed_over() {
    each(|kind, session| {
        let refused = session.defer(|tx| {
            let left = tx.defer(1, Account::balance, (), |balance, ()| {
                *balance -= 130;
                *balance
            })?;
            let enough = tx.map(left, |left| left >= Some(0))?;
            drop(tx.ensure(enough, "insufficient funds"));
            Ok(())
        });
        let Err(Error::User(why)) = refused else { panic!("{kind}: {refused:?}") };
        assert_eq!(why.to_string(), "insufficient funds");
        assert_eq!(balance(session, 1), Some(100), "{kind}");
    });
}

#[test]
fn misuse_is_told() {
    each(|kind, session| {
        let told = |outcome: Result<(), Error>| match outcome {
            Err(Error::Misuse(misuse)) => *misuse,
            other => panic!("{kind}: {other:?}"),
        };
        let mut kept = None;
        session
            .defer(|tx| {
                kept = Some(tx.look(1, Account::balance)?);
                Ok(())
            })
            .unwrap();
        let kept = kept.unwrap();
        let elsewhere = session.defer(|tx| tx.map(kept, |_| ()).map(|_| ()));
        assert_eq!(told(elsewhere), Misuse::DeferredElsewhere);
        let outside = session.defer(|tx| {
            let (holds, mut inner) = (tx.map((), |()| true)?, None);
            tx.when(holds, |tx| {
                inner = Some(tx.map((), |()| 1)?);
                Ok(())
            })?;
            tx.map(inner.unwrap(), |_| ()).map(|_| ())
        });
        assert_eq!(told(outside), Misuse::DeferredOutOfCondition);
        let eager = session.defer(|tx| {
            let holds = tx.map((), |()| true)?;
            tx.when(holds, |tx| tx.get::<Account>(1).map(|_| ()))
        });
        assert_eq!(told(eager), Misuse::EagerUnderCondition);
        let indexed = session.defer(|tx| tx.defer(1, Owned::owner, (), |owner, ()| *owner = 5).map(|_| ()));
        assert!(matches!(told(indexed), Misuse::NotDeferrable { table: "owned", .. }));
        let other = session.defer(|tx| tx.put(5, (), |()| Account { id: 6, balance: 0, count: 0 }));
        assert!(matches!(told(other), Misuse::PutElsewhere { .. }));
        assert_eq!(balance(session, 1), Some(100), "{kind}");
    });
}

/// A number that is stored as a text which has no room in a row: a `Copy` value all the same.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spelled(u64);

impl ColumnValue for Spelled {
    const TYPE: ColumnType = String::TYPE;
    fn load(source: &impl Words, offset: usize) -> Self {
        Self(String::load(source, offset).trim_start_matches('.').parse().unwrap_or(u64::MAX))
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        format!("{:.>40}", self.0).store(target, offset);
    }
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Noted {
    #[key]
    id: u64,
    note: Spelled,
    count: u64,
}

#[test]
fn values_of_any_length_that_can_be_copied() {
    for kind in Kind::ALL.iter().copied() {
        let db = Database::builder().protocol(kind).sessions(1).table::<Noted>(0).open().unwrap();
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(Noted { id: 1, note: Spelled(17), count: 0 })).unwrap();
        let seen = session.defer(|tx| {
            tx.defer(1, Noted::count, (), |count, ()| *count += 1)?;
            let seen = tx.look(1, Noted::note)?;
            tx.put(2, seen, |seen| Noted { id: 2, note: seen.unwrap_or(Spelled(0)), count: 1 })?;
            tx.insert_with(seen, |seen| Noted { id: 3, note: seen.unwrap_or(Spelled(0)), count: 2 })?;
            tx.put(4, (), |()| Noted { id: 4, note: Spelled(4), count: 4 })?;
            Ok(seen)
        });
        assert_eq!(seen.unwrap(), Some(Spelled(17)), "{kind}");
        let gone = session.defer(|tx| {
            tx.defer(1, Noted::note, (), |note, ()| note.0 += 1)?;
            tx.defer(2, Noted::count, (), |count, ()| *count += 1)?;
            tx.erase::<Noted>(4)
        });
        assert!(gone.unwrap(), "{kind}");
        let rows = session.run(|tx| tx.collect(Scan::<Noted>::all())).unwrap();
        let due = [(1, 18, 1), (2, 17, 2), (3, 17, 2)];
        assert_eq!(rows, due.map(|(id, note, count)| Noted { id, note: Spelled(note), count }), "{kind}");
        let check = db.check().unwrap();
        assert!(check.is_whole(), "{kind}: {check}");
    }
}
