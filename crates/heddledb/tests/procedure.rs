//! What `#[procedure]` finds in a body: sites, footprints, loops, branches; and that the body still runs.

use heddledb::procedure::{Checked, Declaration, Procedure, ReadProcedure, workload};
use heddledb::{
    Column, Database, Error, ReadTransaction, Result, Row, Scan, Session, Table, Text, Transaction, procedure,
};
use heddledb_analysis::workload::Mode;
use heddledb_analysis::{Options, analyse, text};
use std::ops::ControlFlow::{Break, Continue};

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    #[group(money)]
    balance: i64,
    #[group(money)]
    limit: i64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(append_only)]
struct Journal {
    #[key]
    id: u64,
    amount: i64,
}

/// With indexes over columns of two groups.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByName(last, first)), unique(ByEmail(email)))]
struct Person {
    #[key]
    id: u32,
    first: Text<8>,
    last: Text<8>,
    #[group(contact)]
    email: Text<20>,
    #[group(visits)]
    visits: i64,
}

/// With columns in an array.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Shelf {
    #[key]
    id: u32,
    quantity: i64,
    #[group(left)]
    left: i64,
    #[group(right)]
    right: i64,
}

impl Shelf {
    const SIDES: [Column<Self, i64>; 2] = [Self::left, Self::right];
}

const MONEY: (Column<Account, i64>, Column<Account, i64>) = (Account::balance, Account::limit);

fn no_account() -> Error {
    Error::user("no such account")
}

/// What the analysis is told, line by line.
fn declared<Q: Procedure>() -> Vec<String> {
    let printed = text::print(&workload("w", [&Declaration::of::<Q>()]));
    let body = printed.split_once(&format!("txn {}\n", Q::NAME)).expect("it is printed").1;
    let body = body.strip_suffix("end\n").expect("it ends");
    body.lines().map(|line| line.trim().to_owned()).collect()
}

fn database() -> Session {
    let db = Database::builder()
        .table::<Account>(8)
        .table::<Journal>(8)
        .table::<Person>(8)
        .table::<Shelf>(8)
        .open()
        .unwrap();
    let mut session = db.session().unwrap();
    let fill = |tx: &mut _| {
        for id in 1..=4 {
            insert(tx, Account { id, owner: id as u32 % 2, balance: 100, limit: 0 })?;
        }
        for (id, first, last) in [(1, "Ada", "Byron"), (2, "Bo", "Byron"), (3, "Cy", "Dow")] {
            let [first, last] = [first, last].map(Text::truncated);
            let email = Text::truncated(&format!("{first}@{last}"));
            insert(tx, Person { id, first, last, email, visits: 0 })?;
        }
        insert(tx, Shelf { id: 1, quantity: 5, left: 2, right: 3 })
    };
    session.run(fill).unwrap();
    session
}

fn insert<T: Transaction, R: Table>(tx: &mut T, row: R) -> Result<()> {
    tx.insert(row)
}

/// Runs a procedure, held to its declaration.
fn run<Q: Procedure>(session: &mut Session, arguments: Q::Arguments<'_>) -> Result<Q::Output> {
    session.run(|tx| Q::run(&mut Checked::of::<Q>(tx), &arguments))
}

/// What is on an account.
#[procedure]
fn funds(tx: &mut impl ReadTransaction, id: u64) -> Result<i64> {
    tx.get_columns(id, Account::balance)?.ok_or_else(no_account)
}

#[procedure]
fn transfer<T>(tx: &mut T, from: u64, to: u64, amount: i64) -> Result<i64>
where
    T: Transaction,
{
    if funds(tx, from)? < amount {
        return Err(Error::user("too little"));
    }
    let left = tx.update_columns(from, Account::balance, |balance| {
        *balance -= amount;
        *balance
    })?;
    tx.add(Account::balance, to, amount)?;
    tx.insert(Journal { id: from * 1000 + to, amount })?;
    Ok(left)
}

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
    database.scan(Scan::range(id + 1..), |account: Account| {
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
fn shelves(tx: &mut impl Transaction, id: u32, side: usize) -> Result<i64> {
    use heddledb::Row as Everything;
    const BOTH: (Column<Shelf, i64>, Column<Shelf, i64>) = (Shelf::left, Shelf::right);
    let side = Shelf::SIDES[side];
    let all = tx.get_columns(id, (Shelf::quantity, (side, Shelf::SIDES)))?;
    let (left, right) = tx.get_columns(id, BOTH)?.ok_or_else(no_account)?;
    tx.set_columns(id, side, left + right)?;
    let row = Shelf { id: id + 1, ..tx.get_columns(id, Row::<Shelf>::new())?.ok_or_else(no_account)? };
    tx.upsert(row)?;
    let _: Everything<Shelf> = Row::new();
    Ok(all.map_or(0, |(quantity, (one, [left, right]))| quantity + one + left + right))
}

#[test]
fn an_element_of_an_array_may_be_any() {
    assert_eq!(
        declared::<Shelves>(),
        [
            "read   shelf cols quantity left right",
            "read   shelf cols left right",
            "update shelf cols left right",
            "read   shelf",
            "insert shelf reads id quantity left right",
        ]
    );
    let declaration = Declaration::of::<Shelves>();
    assert_eq!(declaration.sites()[2].writes, 0b110);
    let mut session = database();
    assert_eq!(run::<Shelves>(&mut session, (1, 1)).unwrap(), 5 + 3 + 2 + 3);
    let row = session.run(|tx| tx.get::<Shelf>(2)).unwrap();
    assert_eq!(row, Some(Shelf { id: 2, quantity: 5, left: 2, right: 5 }));
}

#[procedure]
fn people(tx: &mut impl Transaction, last: Text<8>) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    tx.scan_index::<ByName>(Scan::prefix((last,)), |_, id| {
        ids.push(id);
        Continue(())
    })?;
    tx.scan_index(Scan::<ByName>::all().limit(1), |_, _| Break(()))?;
    let first = tx.find_key::<ByName>((last, Text::truncated("Ada")))?;
    let by_email = tx.find::<ByEmail>(Text::truncated("Cy@Dow"))?;
    if let (Some(id), Some(person)) = (first, by_email) {
        tx.update_columns(id, Person::first, |_| ())?;
        tx.add(Person::visits, person.id, 1)?;
    }
    tx.scan(Scan::<Person>::all(), |person| {
        ids.push(person.id);
        Continue(())
    })?;
    let rows = tx.collect(Scan::<Person>::range(2..))?;
    tx.first::<Person>(Scan::all())?;
    tx.scan_columns(Scan::range(..3), Person::visits, |_, _| Continue(()))?;
    for row in rows {
        tx.delete::<Person>(row.id)?;
    }
    Ok(ids)
}

#[test]
fn secondary_indexes_are_part_of_their_table() {
    let all = "reads id first last email visits";
    assert_eq!(
        declared::<People>(),
        [
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByName cols first last",
            "scan   person by idx person.ByEmail",
            "if",
            // The entries move with the row, so all of it is read and written.
            &format!("update person {all}"),
            "add    person cols visits",
            "end",
            "scan   person",
            "scan   person",
            "scan   person",
            "scan   person cols visits",
            "loop",
            &format!("delete person {all}"),
            "end",
        ]
    );
    let declaration = Declaration::of::<People>();
    let sites = declaration.sites();
    assert_eq!(sites[0].reads, 0b1, "the columns of the name");
    assert_eq!((sites[3].reads, sites[4].writes, sites[5].writes), (0b111, 0b111, 0b100));
    assert!(sites[0].index.is_some() && sites[0].index == sites[2].index && sites[0].index != sites[3].index);
    assert!(sites.iter().all(|site| site.relation == sites[0].relation && site.index != Some(site.relation)));
    let mut session = database();
    let ids = run::<People>(&mut session, Text::truncated("Byron")).unwrap();
    assert_eq!(ids, [1, 2, 1, 2, 3]);
    assert_eq!(session.run(|tx| tx.collect(Scan::<Person>::all())).unwrap().len(), 1);
}

#[procedure]
fn marked(tx: &mut impl Transaction, id: u64) -> Result<i64> {
    let mut sum = 0;
    #[piece]
    {
        sum += tx.get_columns(id, Account::balance)?.unwrap_or(0);
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
            "add    account cols balance",
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

#[test]
fn tables_are_described() {
    let declaration = Declaration::of::<Transfer>();
    let printed = text::print(&workload("w", [&declaration]));
    assert!(
        printed.starts_with(
            "workload w\n\
             table account key id cols owner balance limit group main id owner group money balance limit\n\
             table journal appendonly key id cols amount group main id amount\n"
        ),
        "{printed}"
    );
    assert_eq!(text::parse(&printed).map(|workload| text::print(&workload)), Ok(printed));
}

#[test]
fn pieces_follow_from_the_bodies() {
    #[procedure]
    fn pay(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
        tx.update_columns(id, Account::balance, |balance| *balance -= amount)?;
        tx.update_columns(1, Shelf::quantity, |quantity| *quantity += 1)
    }

    #[procedure]
    fn refund(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
        tx.update_columns(1, Shelf::quantity, |quantity| *quantity -= 1)?;
        tx.update_columns(id, Account::balance, |balance| *balance += amount)?;
        tx.insert(Journal { id, amount })
    }

    let pieces = |procedures: &[Declaration]| {
        let analysis = analyse(&workload("w", procedures), &Options::default());
        let of_type =
            |one: &heddledb_analysis::analysis::TypeAnalysis| (one.pieces.len(), one.conflict_pieces());
        analysis.types.iter().map(of_type).collect::<Vec<_>>()
    };
    let (pay, refund) = (Declaration::of::<Pay>(), Declaration::of::<Refund>());
    // Alone, each is cut at every access. Together they go opposite ways.
    assert_eq!(pieces(std::slice::from_ref(&pay)), [(2, 2)]);
    assert_eq!(pieces(std::slice::from_ref(&refund)), [(3, 2)]);
    assert_eq!(pieces(&[pay, refund]), [(1, 1), (2, 1)]);
}

#[test]
fn a_declaration_by_hand_is_as_good() {
    let mut by_hand = Declaration::new("transfer");
    by_hand.get(Account::balance);
    by_hand.update(Account::balance);
    by_hand.add(Account::balance);
    by_hand.insert::<Journal>();
    let derived = Declaration::of::<Transfer>();
    assert_eq!((by_hand.sites(), by_hand.transaction()), (derived.sites(), derived.transaction()));
    by_hand.set_readonly(true);
    assert!(by_hand.readonly() && !by_hand.transaction().on_snapshot(), "it writes");
}

#[test]
#[should_panic(expected = "procedure `transfer` does not do at site 0 what it declares")]
fn another_access_than_declared_is_noticed() {
    let mut session = database();
    let mut wrong = Declaration::new("transfer");
    wrong.get(Account::limit);
    let _ = session.run(|tx| transfer(&mut Checked::new(tx, wrong.clone()), 1, 2, 30));
}

#[test]
#[should_panic(expected = "procedure `transfer` accesses account outside its sites")]
fn an_access_outside_all_sites_is_noticed() {
    let mut session = database();
    let _ = session.run(|tx| Checked::of::<Transfer>(tx).get::<Account>(1));
}

#[test]
#[should_panic(expected = "procedure `by_hand` declares 1 sites and says that it has 2")]
fn a_wrong_number_of_sites_is_noticed() {
    struct ByHand;
    impl Procedure for ByHand {
        const NAME: &'static str = "by_hand";
        const SITES: u16 = 2;
        type Arguments<'a> = ();
        type Output = ();
        fn declare(declaration: &mut Declaration) {
            declaration.get_row::<Account>();
        }
        fn run<T: Transaction>(_: &mut T, (): &()) -> Result<()> {
            Ok(())
        }
    }
    Declaration::of::<ByHand>();
}
