//! Procedures that are called by name, with their arguments and results as bytes.

use heddledb::procedure::NamedProcedure;
use heddledb::protocol::Kind;
use heddledb::{
    Builder, Database, Error, Misuse, ReadTransaction, Result, Scan, Session, Table, Text, Transaction,
    procedure,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
    owner: Text<8>,
}

/// A reason of the procedure's own.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{missing} too little")]
struct Insufficient {
    missing: i64,
}

#[procedure]
fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<i64> {
    let left = tx.update_columns(from, Account::balance, |balance| {
        *balance -= amount;
        *balance
    })?;
    if left < 0 {
        return Err(Error::user(Insufficient { missing: -left }));
    }
    tx.add(Account::balance, to, amount)?;
    Ok(left)
}

/// One parameter: its type is the type of the arguments.
#[procedure]
fn balance(tx: &mut impl ReadTransaction, id: u64) -> Result<Option<i64>> {
    tx.get_columns(id, Account::balance)
}

/// None: no bytes at all.
#[procedure]
fn total(tx: &mut impl ReadTransaction) -> Result<i128> {
    let mut sum = 0;
    tx.scan_columns(Scan::all(), Account::balance, |_, balance| {
        sum += i128::from(balance);
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(sum)
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
enum Wish {
    Rename(Text<8>),
    Raise { by: Option<i32> },
    Nothing,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Report {
    names: Vec<String>,
    raised: u8,
    ratio: f64,
    first: Option<(u16, char, bool)>,
}

/// Types of the user's own, and nested ones.
#[procedure]
fn grant(tx: &mut impl Transaction, wishes: Vec<(u64, Wish)>, title: String) -> Result<Report> {
    let (mut names, mut raised) = (Vec::new(), 0);
    for (id, wish) in &wishes {
        match wish {
            Wish::Rename(owner) => tx.set_columns(*id, Account::owner, *owner)?,
            Wish::Raise { by } => {
                tx.add(Account::balance, *id, i64::from(by.unwrap_or(1)))?;
                raised += 1;
            }
            Wish::Nothing => {}
        }
        let owner = tx.get_columns(*id, Account::owner)?.unwrap_or_default();
        names.push(format!("{title} {owner}"));
    }
    let first = title.chars().next().map(|letter| (title.len() as u16, letter, raised > 0));
    Ok(Report { names, raised, ratio: f64::from(raised) / wishes.len() as f64, first })
}

/// Borrows from the bytes.
#[procedure]
fn open(tx: &mut impl Transaction, id: u64, owner: &str, salt: &[u8], about: (i8, [u16; 2])) -> Result<u64> {
    let owner = Text::new(owner).map_err(Error::user)?;
    tx.insert(Account { id, balance: i64::from(about.0) + i64::from(about.1[1]), owner })?;
    Ok(salt.iter().map(|byte| u64::from(*byte)).sum())
}

/// Arguments that cannot be decoded: by type only.
#[procedure]
fn sum(tx: &mut impl ReadTransaction, ids: &[u64]) -> Result<i64> {
    let mut sum = 0;
    for id in ids {
        sum += tx.get_columns(*id, Account::balance)?.unwrap_or(0);
    }
    Ok(sum)
}

/// A type without serde's traits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sealed(i64);

/// By type only.
#[procedure]
fn sealed_balance(tx: &mut impl ReadTransaction, id: u64) -> Result<Sealed> {
    Ok(Sealed(tx.get_columns(id, Account::balance)?.unwrap_or(0)))
}

/// What can be decoded and not encoded.
#[derive(Deserialize)]
struct Secret;

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not for the world"))
    }
}

#[procedure]
fn conspire(tx: &mut impl Transaction, id: u64) -> Result<Secret> {
    tx.add(Account::balance, id, 1000)?;
    Ok(Secret)
}

/// All whose types have bytes by name, and one by its type only.
fn with_procedures(builder: Builder) -> Builder {
    builder
        .named_procedure::<Transfer>()
        .named_procedure::<Balance>()
        .named_procedure::<Total>()
        .named_procedure::<Grant>()
        .named_procedure::<Open>()
        .procedure::<Sum>()
}

/// Four accounts with a hundred each.
fn filled(db: &Database) -> Session {
    let mut session = db.session().unwrap();
    let account = |id| Account { id, balance: 100, owner: Text::truncated("nobody") };
    session.run(|tx| (1..=4).try_for_each(|id| tx.insert(account(id)))).unwrap();
    session
}

/// A call, encoded here and decoded here.
fn call<Q: NamedProcedure>(session: &mut Session, arguments: Q::Arguments<'_>) -> Result<Q::Output> {
    let bytes = Q::encode_arguments(&arguments)?;
    Q::decode_output(&session.call_named(Q::NAME, &bytes)?)
}

fn misuse<T>(result: Result<T>) -> Misuse {
    result.map(|_| ()).unwrap_err().misuse().cloned().unwrap()
}

fn listed(db: &Database) -> Vec<(String, bool)> {
    db.procedures().into_iter().map(|info| (info.name, info.by_name)).collect()
}

fn balances(session: &mut Session) -> Vec<i64> {
    let rows = session.run(|tx| tx.collect(Scan::<Account>::all())).unwrap();
    rows.iter().map(|row| row.balance).collect()
}

/// The protocols that allow so many sessions at a time.
fn kinds(sessions: usize) -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(move |kind| kind.sessions_max() >= sessions)
}

/// All kinds of types there and back.
#[test]
fn arguments_and_results_travel() {
    for kind in kinds(1) {
        let builder = Database::builder().protocol(kind);
        let db = with_procedures(builder).procedure::<SealedBalance>().open().unwrap();
        let mut session = filled(&db);
        assert_eq!(call::<Transfer>(&mut session, (1, 2, 30)).unwrap(), 70);
        assert_eq!(session.call(Transfer, (1, 2, 30)).unwrap(), 40);
        assert_eq!(call::<Balance>(&mut session, 2).unwrap(), Some(160));
        assert_eq!(call::<Balance>(&mut session, 9).unwrap(), None);
        assert_eq!(call::<Total>(&mut session, ()).unwrap(), 400);
        let wishes = vec![
            (1, Wish::Rename(Text::truncated("Ada"))),
            (2, Wish::Raise { by: Some(-5) }),
            (2, Wish::Raise { by: None }),
            (3, Wish::Nothing),
        ];
        let report = call::<Grant>(&mut session, (wishes, "Grüß".to_owned())).unwrap();
        let expected = Report {
            names: ["Grüß Ada", "Grüß nobody", "Grüß nobody", "Grüß nobody"].map(str::to_owned).to_vec(),
            raised: 2,
            ratio: 0.5,
            first: Some((6, 'G', true)),
        };
        assert_eq!(report, expected);
        assert_eq!(call::<Grant>(&mut session, (vec![], String::new())).unwrap().first, None);
        let (owner, salt) = (String::from("Bo"), vec![1, 2, 255]);
        let opened = call::<Open>(&mut session, (7, &owner, &salt, (-8, [0, 300]))).unwrap();
        assert_eq!(opened, 258);
        let row = session.run(|tx| tx.get::<Account>(7)).unwrap().unwrap();
        assert_eq!(row, Account { id: 7, balance: 292, owner: Text::truncated("Bo") });
        // Those that cannot be called by name are called as before.
        assert_eq!(session.call(Sum, &[1, 2, 9]).unwrap(), 40 + 156);
        assert_eq!(session.call(SealedBalance, 7).unwrap(), Sealed(292));
    }
}

/// A procedure's own reasons, and what the engine refuses, come back as from a typed call.
#[test]
fn errors_come_back_as_values() {
    for kind in kinds(1) {
        let db = Database::builder().protocol(kind);
        let db = db.named_procedure::<Transfer>().named_procedure::<Open>().open().unwrap();
        let mut session = filled(&db);
        let error = call::<Transfer>(&mut session, (1, 2, 130)).unwrap_err();
        assert_eq!(error.user_reason(), Some(&Insufficient { missing: 30 }));
        let error = misuse(call::<Transfer>(&mut session, (1, 9, 10)));
        assert!(matches!(error, Misuse::NotFound { table: "account", .. }), "{error}");
        let error = misuse(call::<Open>(&mut session, (1, "Bo", &[], (0, [0, 0]))));
        assert!(matches!(error, Misuse::DuplicateKey { .. }), "{error}");
        let error = call::<Open>(&mut session, (5, "a long name", &[], (0, [0, 0]))).unwrap_err();
        assert!(matches!(error, Error::User(_)), "{error}");
        assert_eq!(balances(&mut session), [100; 4]);
        assert_eq!(call::<Transfer>(&mut session, (1, 2, 100)).unwrap(), 0);
    }
}

/// A result that has no bytes: nothing happened.
#[test]
fn a_result_that_cannot_be_encoded_aborts() {
    for kind in kinds(1) {
        let db = Database::builder().protocol(kind);
        let db = db.named_procedure::<Conspire>().open().unwrap();
        let mut session = filled(&db);
        let error = misuse(session.call_named("conspire", &[1]));
        assert!(matches!(error, Misuse::Unencodable { part: "result", .. }), "{error}");
        assert_eq!(balances(&mut session), [100; 4]);
    }
}

/// As direct calls are, errors among them.
#[test]
fn calls_by_name_are_submitted() {
    for kind in kinds(2) {
        let db = Database::builder().protocol(kind).executors(1);
        let db = db.named_procedure::<Transfer>().named_procedure::<Conspire>().open().unwrap();
        let mut session = filled(&db);
        let transfer = |amount: i64| Transfer::encode_arguments(&(1, 2, amount)).unwrap();
        let calls: Vec<_> =
            (1..=3).map(|_| session.submit_named("transfer", transfer(10)).unwrap()).collect();
        let left: Vec<i64> =
            calls.into_iter().map(|call| Transfer::decode_output(&call.wait().unwrap()).unwrap()).collect();
        assert_eq!(left, [90, 80, 70]);
        let error = session.submit_named("transfer", transfer(71)).unwrap().wait().unwrap_err();
        assert_eq!(error.user_reason(), Some(&Insufficient { missing: 1 }));
        let error = misuse(session.submit_named("transfer", vec![]).unwrap().wait());
        assert!(matches!(error, Misuse::Undecodable { procedure: "transfer", .. }), "{error}");
        let error = misuse(session.submit_named("conspire", vec![1]).unwrap().wait());
        assert!(matches!(error, Misuse::Unencodable { part: "result", .. }), "{error}");
        let error = misuse(session.submit_named("transfers", vec![]));
        assert!(matches!(&error, Misuse::NotRegistered { alike, .. } if alike[0] == "transfer"), "{error}");
        assert_eq!(balances(&mut session)[..2], [70, 130]);
    }
}

/// Registered by type, then by name; removed; registered again.
#[test]
fn procedures_come_and_go() {
    for kind in kinds(1) {
        let db = Database::builder().protocol(kind).open().unwrap();
        let mut session = filled(&db);
        let bytes = Transfer::encode_arguments(&(1, 2, 1)).unwrap();
        let mut by_name = || session.call_named("transfer", &bytes);
        let unknown = |alike: &[&str]| Misuse::NotRegistered {
            name: "transfer".to_owned(),
            alike: alike.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(db.procedures(), []);
        assert_eq!(misuse(by_name()), unknown(&[]));
        db.register::<Transfer>().unwrap();
        assert_eq!(misuse(by_name()), Misuse::NotByName { name: "transfer".to_owned() });
        assert_eq!(listed(&db), [("transfer".to_owned(), false)]);
        db.register_named::<Transfer>().unwrap();
        assert_eq!(by_name().unwrap(), [198, 1]);
        // Registered already, so this changes nothing.
        db.register::<Transfer>().unwrap();
        db.register_named::<Transfer>().unwrap();
        assert_eq!(by_name().unwrap(), [196, 1]);
        db.register_named::<Balance>().unwrap();
        db.register::<Sum>().unwrap();
        let all = [("balance", true), ("sum", false), ("transfer", true)];
        assert_eq!(listed(&db), all.map(|(name, by_name)| (name.to_owned(), by_name)));
        assert!(db.unregister::<Transfer>().unwrap());
        assert_eq!(misuse(by_name()), unknown(&["balance"]));
        assert!(!db.unregister::<Transfer>().unwrap());
        assert_eq!(listed(&db).len(), 2);
        db.register_named::<Transfer>().unwrap();
        assert_eq!(by_name().unwrap(), [194, 1]);
        assert!(db.unregister::<Transfer>().unwrap());
        // By type only this time: what was said before is forgotten.
        db.register::<Transfer>().unwrap();
        assert_eq!(misuse(by_name()), Misuse::NotByName { name: "transfer".to_owned() });
        assert_eq!(session.call(Transfer, (1, 2, 1)).unwrap(), 96);
    }
}

/// Another session's change is known at the next call.
#[test]
fn a_change_reaches_every_session() {
    for kind in kinds(2) {
        let db = Database::builder().protocol(kind);
        let db = db.named_procedure::<Transfer>().open().unwrap();
        let mut sessions = [filled(&db), db.session().unwrap()];
        for _ in 0..3 {
            for session in &mut sessions {
                call::<Transfer>(session, (1, 2, 1)).unwrap();
            }
            assert!(db.unregister::<Transfer>().unwrap());
            for session in &mut sessions {
                let error = misuse(call::<Transfer>(session, (1, 2, 1)));
                assert!(matches!(error, Misuse::NotRegistered { .. }), "{error}");
            }
            db.register_named::<Transfer>().unwrap();
        }
        assert_eq!(balances(&mut sessions[1])[..2], [94, 106]);
    }
}

/// Calls that conflict, while names come and go.
#[test]
fn calls_beside_calls_and_changes() {
    for kind in kinds(2) {
        const CALLS: i64 = 400;
        let db = Database::builder().protocol(kind).sessions(3);
        let db = db.named_procedure::<Transfer>().named_procedure::<Total>().open().unwrap();
        let mut session = filled(&db);
        let stop = AtomicBool::new(false);
        let calls = |from, to| {
            let mut session = db.session().unwrap();
            let mut done = 0;
            while done < CALLS {
                match call::<Transfer>(&mut session, (from, to, 1)) {
                    Ok(_) => done += 1,
                    Err(error) => assert!(error.user_reason::<Insufficient>().is_some(), "{error}"),
                }
                if done % 16 == 0 {
                    match call::<Total>(&mut session, ()) {
                        Ok(total) => assert_eq!(total, 400),
                        Err(error) => {
                            let error = error.misuse().unwrap();
                            assert!(matches!(error, Misuse::NotRegistered { .. }), "{error}");
                        }
                    }
                }
            }
        };
        thread::scope(|scope| {
            let changing = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(db.unregister::<Total>().unwrap());
                    db.register_named::<Total>().unwrap();
                }
            });
            let calling = [scope.spawn(|| calls(1, 2)), scope.spawn(|| calls(2, 1))];
            for thread in calling {
                thread.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            changing.join().unwrap();
        });
        assert_eq!(balances(&mut session), [100; 4]);
    }
}

fn database() -> Session {
    filled(&with_procedures(Database::builder()).open().unwrap())
}

#[test]
fn the_format_is_postcards() {
    assert_eq!(Transfer::encode_arguments(&(1, 300, -2)).unwrap(), [1, 0xAC, 2, 3]);
    assert_eq!(Balance::encode_arguments(&5).unwrap(), [5]);
    assert_eq!(Total::encode_arguments(&()).unwrap(), []);
    assert_eq!(Balance::encode_output(&Some(-1)).unwrap(), [1, 1]);
    let arguments = (7, "Bo", &[9, 8][..], (-1, [1, 2]));
    let bytes = Open::encode_arguments(&arguments).unwrap();
    assert_eq!(bytes, [7, 2, b'B', b'o', 2, 9, 8, 0xFF, 1, 2]);
    assert_eq!(bytes, postcard::to_allocvec(&arguments).unwrap());
    assert_eq!(Open::decode_arguments(&bytes).unwrap(), arguments);
    let wishes =
        (vec![(1, Wish::Rename(Text::truncated("Ada"))), (2, Wish::Raise { by: None })], "x".to_owned());
    let bytes = Grant::encode_arguments(&wishes).unwrap();
    assert_eq!(bytes, [2, 1, 0, 3, b'A', b'd', b'a', 2, 1, 0, 1, b'x']);
    assert_eq!(Grant::decode_arguments(&bytes).unwrap(), wishes);
}

#[test]
fn a_text_must_fit_and_hold_no_nul() {
    for (text, fits) in [("", true), ("12345678", true), ("123456789", false), ("a\0b", false)] {
        let bytes = postcard::to_allocvec(text).unwrap();
        let decoded = postcard::from_bytes::<Text<8>>(&bytes);
        assert_eq!(decoded.ok(), fits.then(|| Text::truncated(text)), "{text:?}");
    }
}

#[test]
fn messages_say_what_was_expected() {
    let mut session = database();
    let mut told = |name: &str, bytes: &[u8]| session.call_named(name, bytes).unwrap_err().to_string();
    assert_eq!(
        told("transfr", &[]),
        "procedure transfr is not registered, but transfer, grant, balance, open, total can be called by name; \
         name it with `Builder::procedure` or `Database::register`, or, to call it by its name, with \
         `Builder::named_procedure` or `Database::register_named`"
    );
    assert_eq!(
        told("sum", &[]),
        "procedure sum cannot be called by name; register it with `Builder::named_procedure` or \
         `Database::register_named`"
    );
    assert_eq!(
        told("transfer", &[1, 2]),
        "the arguments of procedure transfer cannot be decoded as `(u64, u64, i64)`: the bytes end too early; \
         encode that very type, with `NamedProcedure` or in postcard's format"
    );
    assert!(told("transfer", &[1, 2, 3, 4]).contains(": 1 of 4 bytes are left over;"));
    assert!(told("total", &[0]).contains("`()`: 1 of 1 bytes are left over"));
    assert!(told("balance", &[0xFF; 11]).contains("`u64`: an integer is too large for its type"));
    assert!(told("open", &[1, 2, 0xFF, 0xFF, 0, 0, 0, 0]).contains("a text is not UTF-8"));
    // The name is longer than its column.
    let long = [&[1, 1, 0, 9][..], b"123456789", &[1, b'x']].concat();
    assert!(told("grant", &long).contains("a value was refused by its type"));
    let error = Balance::decode_output(&[7]).unwrap_err().to_string();
    assert!(error.starts_with(
        "the result of procedure balance cannot be decoded as `core::option::Option<i64>`: an option is"
    ));
    let error = Conspire::encode_output(&Secret).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "cannot be encoded: a value was refused by its type; change how the type is serialized"
        )
    );
    // What comes from elsewhere may be long.
    assert!(told(&"x".repeat(1 << 20), &[]).ends_with("`Database::register_named`"));
}

/// Every part of a message from its beginning is refused, and so is a message with more behind it.
#[test]
fn cut_and_prolonged_messages_are_refused() {
    fn refuses<Q: NamedProcedure>(session: &mut Session, arguments: Q::Arguments<'_>) {
        let mut bytes = Q::encode_arguments(&arguments).unwrap();
        for cut in 0..bytes.len() {
            let error = misuse(session.call_named(Q::NAME, &bytes[..cut]));
            assert!(matches!(error, Misuse::Undecodable { part: "arguments", .. }), "{error}");
        }
        bytes.push(0);
        let error = misuse(session.call_named(Q::NAME, &bytes));
        assert!(matches!(error, Misuse::Undecodable { part: "arguments", .. }), "{error}");
    }
    let mut session = database();
    refuses::<Transfer>(&mut session, (u64::MAX, 300, i64::MIN));
    refuses::<Balance>(&mut session, 1 << 40);
    refuses::<Total>(&mut session, ());
    let wishes = vec![(1, Wish::Rename(Text::truncated("Ada"))), (2, Wish::Raise { by: Some(i32::MAX) })];
    refuses::<Grant>(&mut session, (wishes, "title".to_owned()));
    refuses::<Open>(&mut session, (7, "Bo", &[1, 2, 3], (-8, [0, 300])));
    assert_eq!(balances(&mut session), [100; 4]);
}

/// Any byte of a message, changed to any other: an error or another message, never a panic.
#[test]
fn damaged_messages_do_not_panic() {
    let mut session = database();
    let wishes = vec![(1, Wish::Rename(Text::truncated("Ada"))), (2, Wish::Raise { by: Some(-70) })];
    let mut bytes = Grant::encode_arguments(&(wishes, "title".to_owned())).unwrap();
    for at in 0..bytes.len() {
        let whole = bytes[at];
        for damaged in 0..=u8::MAX {
            bytes[at] = damaged;
            let decoded = Grant::decode_arguments(&bytes).is_ok();
            let called = session.call_named("grant", &bytes);
            let refused =
                matches!(called.as_ref().map_err(Error::misuse), Err(Some(Misuse::Undecodable { .. })));
            assert_eq!(decoded, !refused, "{bytes:?}");
        }
        bytes[at] = whole;
    }
}

proptest! {
    /// Whatever arrives is refused or understood; what was understood means the same when it is written again.
    #[test]
    fn any_bytes_are_refused_or_understood(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        fn check<Q: NamedProcedure>(bytes: &[u8]) {
            if let Ok(arguments) = Q::decode_arguments(bytes) {
                let once = Q::encode_arguments(&arguments).unwrap();
                let twice = Q::encode_arguments(&Q::decode_arguments(&once).unwrap()).unwrap();
                assert_eq!(once, twice);
            }
            let _ = Q::decode_output(bytes);
        }
        check::<Transfer>(&bytes);
        check::<Balance>(&bytes);
        check::<Total>(&bytes);
        check::<Grant>(&bytes);
        check::<Open>(&bytes);
    }

    #[test]
    fn all_values_come_back(
        wishes in prop::collection::vec((any::<u64>(), prop_oneof![
            "[a-zü]{0,4}".prop_map(|name| Wish::Rename(Text::truncated(&name))),
            any::<Option<i32>>().prop_map(|by| Wish::Raise { by }),
            Just(Wish::Nothing),
        ]), 0..6),
        title in any::<String>(),
        ids in any::<(u64, u64, i64)>(),
        salt in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let granted = (wishes, title);
        prop_assert_eq!(&Grant::decode_arguments(&Grant::encode_arguments(&granted)?)?, &granted);
        prop_assert_eq!(Transfer::decode_arguments(&Transfer::encode_arguments(&ids)?)?, ids);
        let opened = (ids.0, &granted.1[..], &salt[..], (ids.2 as i8, [ids.1 as u16, 7]));
        let bytes = Open::encode_arguments(&opened)?;
        prop_assert_eq!(Open::decode_arguments(&bytes)?, opened);
    }
}
