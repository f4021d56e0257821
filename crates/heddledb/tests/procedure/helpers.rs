//! Procedures that are called as helpers, and arguments.

use super::*;

mod elsewhere {
    use super::*;

    #[procedure]
    pub fn twice(tx: &mut impl Transaction, id: u64) -> Result<i64> {
        let before = funds(tx, id)?;
        tx.add(Account::balance, id, before)?;
        funds(tx, id)
    }
}

/// Helpers before, between and after, one of them with arguments that access and that may leave.
#[procedure]
fn helpers(tx: &mut impl Transaction, id: u64) -> Result<i64> {
    #[allow(unused_must_use, reason = "attributes stay where they are")]
    funds(tx, id);
    tx.add(Account::limit, id, 1)?;
    let twice = elsewhere::twice(tx, id)?;
    tx.add(Account::limit, id, 1)?;
    let same = funds(tx, tx.get_columns(id, Account::id)?.ok_or_else(no_account)?)?;
    tx.set_columns(id, Account::limit, tx.get_columns(id, Account::limit)?.unwrap_or(twice - same))?;
    elsewhere::twice(tx, u64::try_from(i64::try_from(id).map_err(Error::user)?).map_err(Error::user)?)?;
    tx.update_columns(id, Account::limit, |limit| *limit)
}

#[test]
fn helpers_are_spliced() {
    assert_eq!((elsewhere::Twice::SITES, Helpers::SITES), (3, 14));
    assert_eq!(
        declared::<Helpers>(),
        [
            "read   account cols balance",
            "add    account cols limit",
            "read   account cols balance",
            "add    account cols balance",
            "read   account cols balance",
            "add    account cols limit",
            "read   account cols id",
            "read   account cols balance",
            "read   account cols limit",
            "update account cols limit",
            "read   account cols balance",
            "add    account cols balance",
            "read   account cols balance",
            "update account cols limit reads limit",
        ]
    );
    let mut session = database();
    assert_eq!(run::<Helpers>(&mut session, 1).unwrap(), 2);
    assert_eq!(run::<Funds>(&mut session, 1).unwrap(), 400);
}

#[procedure]
fn nothing(tx: &mut impl ReadTransaction) -> Result<()> {
    tx.prefetch([(1, Account::balance)].into_iter());
    Ok(())
}

#[procedure]
fn borrows(
    tx: &mut impl ReadTransaction,
    (id, name): (u64, &str),
    others: &[Option<&str>],
    mut mutable: i64,
) -> Result<i64> {
    nothing(tx)?;
    mutable += funds(tx, id)?;
    Ok(mutable + name.len() as i64 + others.len() as i64)
}

#[test]
fn arguments_may_borrow() {
    assert_eq!((Nothing::SITES, Borrows::SITES), (0, 1));
    let mut session = database();
    run::<Nothing>(&mut session, ()).unwrap();
    let text = String::from("four");
    let others = [Some(&text[..]), None];
    assert_eq!(run::<Borrows>(&mut session, ((1, &text), &others, 1000)).unwrap(), 1106);
}
