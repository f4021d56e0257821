//! Opening a database: calls of the builder in any order, protocols by value and by name, options.

use heddledb::internals::DatabaseInternals;
use heddledb::protocol::Calls;
use heddledb::protocol::Policy;
use heddledb::protocol::{Choice, Dta, Hekaton, Ic3, Isolation, Kind, Locking, Silo, TicToc, Unprotected};
use heddledb::storage::Simulated;
use heddledb::{
    Builder, Conflict, Database, Error, Misuse, ReadTransaction, Result, Table, Transaction, procedure,
};
use std::sync::Arc;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

/// In no builder.
#[derive(Table, Clone, Copy)]
struct Stranger {
    #[key]
    id: u64,
    value: u64,
}

#[procedure]
fn deposit(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    tx.add(Account::balance, id, amount)
}

/// Inserts an account, adds to it, and reads it back.
fn works(db: &Database) {
    let mut session = db.session().unwrap();
    session.run(|tx| tx.upsert(Account { id: 1, balance: 10 })).unwrap();
    session.run(|tx| tx.add(Account::balance, 1, 5)).unwrap();
    assert_eq!(session.run(|tx| tx.get::<Account>(1)).unwrap(), Some(Account { id: 1, balance: 15 }));
}

fn option_error(result: Result<impl Sized>) -> String {
    let error = result.map(|_| ()).unwrap_err();
    match error.misuse() {
        Some(Misuse::Option(what)) => what.clone(),
        _ => panic!("{error}"),
    }
}

fn under(protocol: impl Into<Choice>) -> Builder {
    Database::builder().protocol(protocol).manual_epochs()
}

/// Calls `with` for each order of the calls from `from` on.
fn permute<T>(calls: &mut [T], from: usize, with: &mut impl FnMut(&[T])) {
    if from == calls.len() {
        return with(calls);
    }
    for other in from..calls.len() {
        calls.swap(from, other);
        permute(calls, from + 1, with);
        calls.swap(from, other);
    }
}

#[test]
fn calls_may_come_in_any_order() {
    let mut calls: [fn(Builder) -> Builder; 6] = [
        |builder| builder.protocol(TicToc::default()),
        |builder| builder.table::<Account>(8),
        |builder| builder.procedure::<Deposit>(),
        |builder| builder.sessions(2),
        |builder| builder.isolation(Isolation::Snapshot),
        |builder| builder.storage(Arc::new(Simulated::new())),
    ];
    let mut orders = 0;
    permute(&mut calls, 0, &mut |calls| {
        orders += 1;
        let builder = Database::builder().manual_epochs().recovery_threads(1);
        let db = calls.iter().fold(builder, |builder, call| call(builder)).open().unwrap();
        assert_eq!(db.protocol(), "tictoc");
        assert!(db.recovery().is_some(), "it has files");
        // With files, only tables that were named are there.
        works(&db);
        let mut session = db.session().unwrap();
        let unknown = session.run(|tx| tx.get::<Stranger>(1).map(|_| ())).unwrap_err();
        assert!(matches!(unknown.misuse(), Some(Misuse::Undeclared { .. })), "{unknown}");
        session.call(Deposit, (1, 7)).unwrap();
        assert_eq!(session.run(|tx| tx.get_columns(1, Account::balance)).unwrap(), Some(22));
        assert_eq!(session.isolation(), Isolation::Snapshot);
        let _second = db.session().unwrap();
        let third = db.session().map(|_| ()).unwrap_err();
        assert!(matches!(third.misuse(), Some(Misuse::TooManySessions { limit: 2 })), "{third}");
    });
    assert_eq!(orders, 720);
}

#[test]
fn the_last_protocol_counts() {
    assert_eq!(Database::in_memory().protocol(), "silo");
    let db = under(Hekaton).table::<Account>(8).protocol(Kind::Ic3).protocol(Dta).open().unwrap();
    assert_eq!(db.protocol(), "dta");
    works(&db);
    let builder = under(Unprotected).protocol_named("hekaton").unwrap();
    assert_eq!(builder.sessions(9).open().unwrap().protocol(), "hekaton");
}

/// What a protocol refuses is told when the database is opened, whichever call came first.
#[test]
fn what_a_protocol_refuses_is_told_at_the_end() {
    for refused in [
        Database::builder().sessions(2).protocol(Unprotected),
        Database::builder().protocol(Unprotected).sessions(2),
    ] {
        assert_eq!(option_error(refused.open()), "unprotected allows 1 to 1 sessions, not 2");
    }
    for refused in [
        Database::builder().isolation(Isolation::Snapshot).protocol(Dta),
        Database::builder().protocol(Dta).isolation(Isolation::Snapshot),
    ] {
        let told = option_error(refused.open());
        assert!(told.starts_with("dta does not offer the isolation level snapshot; it offers"), "{told}");
    }
}

#[test]
fn every_kind_has_a_name() {
    for &kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let named = Database::builder().protocol_named(kind.name()).unwrap().manual_epochs().open().unwrap();
        works(&named);
        let chosen = under(kind).sessions(kind.sessions_max()).open().unwrap();
        works(&chosen);
        assert_eq!((named.protocol(), chosen.protocol()), (kind.name(), kind.name()));
        for db in [&named, &chosen] {
            assert_eq!(db.isolation_levels(), kind.levels(), "{kind}");
        }
        assert_eq!(kind.levels()[0], Isolation::Serializable, "{kind}");
        let told = option_error(under(kind).sessions(kind.sessions_max() + 1).open());
        assert!(told.contains("sessions"), "{kind}: {told}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_all_names() {
    for name in ["ic4", "", "IC3 "] {
        let told = option_error(Database::builder().protocol_named(name));
        let beginning = format!("no protocol is called `{name}`; choose from ");
        let names: Vec<&str> = told.strip_prefix(&beginning).expect(&told).split(", ").collect();
        assert!(names.iter().copied().eq(Kind::ALL.iter().map(|kind| kind.name())), "{told}");
    }
}

#[test]
fn options_are_values() {
    for (builder, kind) in [
        (under(Silo::default()), Kind::Silo),
        (under(TicToc::default()), Kind::TicToc),
        (under(Locking::default()), Kind::NoWait),
        (under(Ic3::default()), Kind::Ic3),
        (under(Dta), Kind::Dta),
        (under(Hekaton), Kind::Hekaton),
        (under(Unprotected), Kind::Unprotected),
    ] {
        let db = builder.open().unwrap();
        works(&db);
        assert_eq!(db.protocol(), under(kind).open().unwrap().protocol());
        assert_eq!(db.isolation_levels(), kind.levels(), "{kind}");
    }
}

/// Options that leave fewer isolation levels.
#[test]
fn options_decide_on_the_isolation_levels() {
    let levels = |protocol: Choice| under(protocol).open().unwrap().isolation_levels();
    assert_eq!(levels(TicToc::default().into()), Isolation::ALL);
    let strict = TicToc { strict: true, ..TicToc::default() };
    for narrow in [
        Choice::from(strict),
        Choice::from(TicToc::OPAQUE),
        Choice::from(Silo::with_calls(Calls::Chopped)),
        Choice::from(Locking::default().chopped()),
    ] {
        assert_eq!(levels(narrow), [Isolation::Serializable]);
    }
    assert!(levels(Silo::default().into()).len() > 1 && levels(Locking::default().into()).len() > 1);
}

/// Additions commute in the analysis unless that was switched off.
#[test]
fn options_of_ic3_reach_the_analysis() {
    let mut options = Ic3::default();
    assert!(options.commutative);
    options.commutative = false;
    for (chosen, commutative) in [(Ic3::default(), true), (options, false), (Ic3::BASIC, false)] {
        let db = under(chosen).procedure::<Deposit>().open().unwrap();
        let plan = db.plan();
        assert_eq!(plan.analysis().expect("a procedure is registered").options.commutative, commutative);
    }
}

/// One transaction holds a lock that another wants: that aborts, or waits for the commit of the first.
#[test]
fn the_policy_of_locking_decides_who_waits() {
    for (policy, waits) in [(Policy::NoWait, false), (Policy::Detect, true)] {
        let db = under(Locking::with_policy(policy)).sessions(3).open().unwrap();
        works(&db);
        let mut holder = db.begin().unwrap();
        holder.update_columns(1, Account::balance, |balance| *balance = 20).unwrap();
        let wants = || {
            let mut session = db.session().unwrap();
            session.attempt(|tx| tx.update_columns(1, Account::balance, |balance| *balance += 1))
        };
        if waits {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(wants);
                holder.commit().unwrap();
                waiting.join().unwrap().unwrap();
            });
        } else {
            let error = wants().unwrap_err();
            assert!(matches!(error, Error::Conflict(Conflict::Locked)), "{error}");
            holder.commit().unwrap();
            wants().unwrap();
        }
        let balance = db.session().unwrap().run(|tx| tx.get_columns(1, Account::balance)).unwrap();
        assert_eq!(balance, Some(21), "{policy:?}");
    }
}

#[test]
fn what_was_accepted_in_silence_is_refused() {
    use heddledb::Durability;
    let error = Database::builder().durability(Durability::Sync).open().err().unwrap();
    assert!(error.to_string().contains("name its directory with `Builder::path`"), "{error}");
    let place = tempfile::tempdir().unwrap();
    // A directory that holds something else: nothing is made in it.
    std::fs::write(place.path().join("letter.txt"), "dear").unwrap();
    let error = Database::builder().path(place.path()).open().err().unwrap();
    assert!(error.to_string().contains("is no database: it holds letter.txt"), "{error}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    std::fs::remove_file(place.path().join("letter.txt")).unwrap();
    std::fs::create_dir(place.path().join("letters")).unwrap();
    assert!(Database::builder().path(place.path()).open().is_err());
    // A parent that is not there.
    let path = place.path().join("a/b");
    let error = Database::builder().path(&path).open().err().unwrap();
    assert!(error.to_string().contains("make it first"), "{error}");
    assert!(!place.path().join("a").exists());
    // One level is made.
    let path = place.path().join("a");
    drop(Database::builder().path(&path).open().unwrap());
    drop(Database::builder().path(&path).open().unwrap());
}
