//! Expressions that accesses stand in: sites, branches, loops, marks.

use super::*;
use heddledb::Scan;
use heddledb::procedure::ReadProcedure;
use heddledb_analysis::workload::Mode;
use std::ops::ControlFlow::{Break, Continue};

#[test]
fn accesses_are_sites_in_the_order_of_the_text() {
    assert_eq!((Transfer::NAME, Transfer::SITES, Funds::SITES), ("transfer", 4, 1));
    assert_eq!(
        declared::<Transfer>(),
        [
            "read   account cols balance",
            "update account cols balance reads balance",
            "add    account cols balance",
            "insert journal",
        ]
    );
    let declaration = Declaration::of::<Transfer>();
    let sites: Vec<_> =
        declaration.sites().iter().map(|site| (site.table, site.mode, site.reads, site.writes)).collect();
    assert_eq!(
        sites,
        [
            ("account", Mode::Read, 0b10, 0),
            ("account", Mode::Update, 0b10, 0b10),
            ("account", Mode::Add, 0, 0b10),
            ("journal", Mode::Insert, 0b1, 0b1),
        ]
    );
    assert_eq!(declaration.sites()[0].relation, declaration.sites()[2].relation);
    assert_ne!(declaration.sites()[0].relation, declaration.sites()[3].relation);

    let mut session = database();
    assert_eq!(run::<Transfer>(&mut session, (1, 2, 30)).unwrap(), 70);
    assert_eq!(run::<Funds>(&mut session, 2).unwrap(), 130);
    assert_eq!(session.run(|tx| funds(tx, 1)).unwrap(), 70, "it is a function as before");
    assert_eq!(session.read(|snapshot| Funds::look(snapshot, &2)).unwrap(), 130);
}

#[procedure]
fn branches(tx: &mut impl Transaction, id: u64, way: u8) -> Result<i64> {
    let Some(owner) = tx.get_columns(id, Account::owner)? else {
        tx.insert(Account { id, owner: 0, balance: 0, limit: 0 })?;
        return Ok(0);
    };
    let rich = owner > 0 && tx.get_columns(id, MONEY)?.is_some_and(|(balance, _)| balance > 50);
    let found = match way {
        0 => funds(tx, id)?,
        1 if tx.get::<Journal>(id)?.is_some() => 1,
        1 => 2,
        _ => {
            tx.delete::<Account>(id)?;
            3
        }
    };
    if rich {
        tx.set_columns(id, Account::limit, 7)?;
    } else if way > 5 {
        tx.update(id, |account: &mut Account| account.limit = 8)?;
    } else {
        Continue::<()>(()).is_break();
    }
    Ok(found)
}

#[test]
fn branches_stand_side_by_side() {
    assert_eq!(
        declared::<Branches>(),
        [
            "read   account cols owner",
            "if",
            "insert account",
            "end",
            "if",
            "read   account cols balance limit",
            "end",
            "if",
            "read   account cols balance",
            "else",
            "if",
            "read   journal",
            "else",
            "if",
            "else",
            "delete account",
            "end",
            "end",
            "end",
            "if",
            "update account cols limit",
            "else",
            "if",
            "update account reads id owner balance limit",
            "end",
            "end",
        ]
    );
    let mut session = database();
    for (id, way, expected) in [(9, 0, 0), (1, 0, 100), (2, 1, 2), (3, 1, 2), (9, 2, 3)] {
        assert_eq!(run::<Branches>(&mut session, (id, way)).unwrap(), expected, "{id} {way}");
    }
    let limits = [1, 2].map(|id| session.run(|tx| tx.get::<Account>(id)).unwrap().unwrap().limit);
    assert_eq!(limits, [7, 0]);
}

#[procedure]
fn loops(tx: &mut impl Transaction, ids: &[u64]) -> Result<u64> {
    let mut seen = 0;
    tx.prefetch(ids.iter().map(|id| (*id, Account::balance)));
    for id in ids {
        if tx.get_columns(*id, Account::balance)?.is_none() {
            continue;
        }
        tx.add(Account::balance, *id, 1)?;
        seen += 1;
    }
    let mut next = 1;
    while tx.get_columns(next, Account::owner)?.is_some() {
        next += 1;
    }
    loop {
        next -= 1;
        let Some(limit) = tx.get_columns(next, Account::limit)? else { break Ok(seen) };
        for _ in 0..limit {
            transfer(tx, next, next, 0)?;
        }
    }
}

#[test]
fn loops_are_blocks() {
    assert_eq!(
        declared::<Loops>(),
        [
            "loop",
            "read   account cols balance",
            "add    account cols balance",
            "end",
            "loop",
            "read   account cols owner",
            "end",
            "loop",
            "read   account cols limit",
            "loop",
            "read   account cols balance",
            "update account cols balance reads balance",
            "add    account cols balance",
            "insert journal",
            "end",
            "end",
        ]
    );
}

#[test]
fn loops_still_run() {
    assert_eq!(run::<Loops>(&mut database(), &[1, 9, 2]).unwrap(), 2);
}

/// Forms of expressions that accesses stand in.
#[procedure]
fn forms(database: &mut impl Transaction, id: u64) -> Result<i64> {
    struct Pair(i64, i64);
    let columns = Account::balance;
    let (mut sum, mut left) = (0, 3);
    while let Some(balance) = database.get_columns(id, columns)?
        && left > 0
    {
        left -= 1;
        sum += balance;
    }
    if let Some(owner) = database.get_columns(id, Account::owner)?
        && let Some(person) = database.get::<Person>(owner)?
        && !database.delete::<Account>(id + 100)?
    {
        let columns = Person::visits;
        sum += i64::from(person.id);
        database.add(columns, owner, 1)?;
    }
    let found = 'found: {
        if database.get_columns(id, (columns,))?.is_none() {
            break 'found 0;
        }
        [funds(database, id)?, funds(database, id)?][usize::from(sum > 0)]
    };
    let pair = Pair(database.get_columns(id, Account::limit)?.unwrap_or(-1), -(found as i32) as i64);
    let account = Account { id: id + 7, owner: 0, balance: sum, limit: pair.1 };
    database.insert(account)?;
    database.scan(Scan::<Account>::range(id + 1..), |account| {
        sum += account.balance;
        Break(())
    })?;
    let mut raise = || sum += pair.0;
    raise();
    return database.update_columns(
        match database.get_columns(id, Account::id)? {
            Some(id) => id,
            None => return Err(no_account()),
        },
        Account::limit,
        |limit| {
            *limit = sum;
            sum
        },
    );
}

#[test]
fn accesses_may_stand_anywhere() {
    assert_eq!(
        declared::<Forms>(),
        [
            "loop",
            "read   account cols balance",
            "end",
            "read   account cols owner",
            "if",
            "read   person",
            "end",
            "if",
            "delete account",
            "end",
            "if",
            "add    person cols visits",
            "end",
            "read   account cols balance",
            "read   account cols balance",
            "read   account cols balance",
            "read   account cols limit",
            "insert account",
            "scan   account",
            "read   account cols id",
            "update account cols limit reads limit",
        ]
    );
    assert_eq!(run::<Forms>(&mut database(), 1).unwrap(), 401);
}

#[procedure]
fn marked(tx: &mut impl Transaction, id: u64) -> Result<i64> {
    let mut sum = 0;
    #[piece]
    {
        sum += tx.get_columns(id, Account::balance)?.unwrap_or(0);
        #[deferred]
        tx.add(Account::balance, id, 1)?;
    }
    #[causal]
    let owner = tx.get_columns(id, Account::owner)?;
    #[causal]
    tx.insert(Journal { id, amount: 0 })?;
    #[causal]
    sum += tx.get_columns(id, Account::limit)?.unwrap_or(0);
    #[no_abort]
    #[later]
    tx.get_columns(id, Account::limit)?;
    Ok(sum + i64::from(owner.unwrap_or(0)))
}

#[procedure]
fn calls_marked(tx: &mut impl Transaction, id: u64) -> Result<i64> {
    marked(tx, id)
}

#[test]
fn marks_are_understood_and_removed() {
    assert_eq!(
        declared::<Marked>(),
        [
            "piece",
            "read   account cols balance",
            "add    account cols balance deferred",
            "end",
            "read   account cols owner causal",
            "insert journal causal",
            "read   account cols limit causal",
            "read   account cols limit no_abort",
        ]
    );
    assert_eq!(Declaration::of::<Marked>().later_from(), Some(5));
    // What a procedure promises of itself is no promise of who calls it.
    assert_eq!(Declaration::of::<CallsMarked>().later_from(), None);
    assert!(declared::<CallsMarked>().iter().all(|line| !line.contains("no_abort")));
    assert_eq!(run::<Marked>(&mut database(), 1).unwrap(), 101);
}
