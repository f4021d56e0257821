//! Reading with ease: rows by an index, page by page, with visitors that may fail; under every protocol.

use heddledb::protocol::Kind;
use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::{
    Database, Error, Onward, ReadTransaction, Result, RowScan, RowTable, Scan, Session, Table, Transaction,
};
use std::ops::ControlFlow;
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByOwner(owner)), unique(ByNumber(number)))]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    number: u64,
    #[group(money)]
    balance: i64,
}

/// Shows that somebody has counted the accounts.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Count {
    #[key]
    owner: u32,
    accounts: u64,
}

/// Owners take turns, and numbers go down, so that neither index has the order of the keys.
fn account(id: u64) -> Account {
    Account { id, owner: (id % 3) as u32, number: 10_000 - id, balance: id as i64 }
}

fn ids(rows: &[Account]) -> Vec<u64> {
    rows.iter().map(|row| row.id).collect()
}

fn of_owner(owner: u64, rows: u64) -> Vec<u64> {
    (0..rows).filter(|id| id % 3 == owner).collect()
}

/// One with so many accounts.
fn database(kind: Kind, rows: u64) -> (Database, Session) {
    let db = Database::builder().protocol(kind).lock_timeout(Duration::from_millis(50)).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| (0..rows).try_for_each(|id| tx.insert(account(id)))).unwrap();
    (db, session)
}

/// What every reader of the accounts must find.
fn reads(reader: &mut impl ReadTransaction, rows: u64) -> Result<()> {
    for owner in 0..3 {
        let scan = Scan::<ByOwner>::prefix((owner as u32,));
        let mut expected = of_owner(owner, rows);
        assert_eq!(ids(&reader.collect(scan)?), expected);
        assert_eq!(reader.first(scan)?.map(|row| row.id), expected.first().copied());
        expected.reverse();
        let found = reader.collect(scan.reverse())?;
        assert_eq!(ids(&found), expected);
        assert!(found.iter().all(|row| *row == account(row.id)), "whole rows");
        for limit in [0, 1, 15, 16, 17, 40, usize::MAX] {
            let found = reader.collect(scan.reverse().limit(limit))?;
            assert_eq!(ids(&found), expected[..limit.min(expected.len())], "limit {limit}");
        }
    }
    let by_number = reader.collect(Scan::<ByNumber>::all())?;
    assert_eq!(ids(&by_number), (0..rows).rev().collect::<Vec<_>>());
    let mut keys = Vec::new();
    reader.scan_rows(Scan::<ByNumber>::range(..=9_999), |key, row| {
        assert_eq!(key, row.number);
        keys.push(key);
        if keys.len() == 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    assert_eq!(keys.len() as u64, rows.saturating_sub(1).min(30));
    reader.scan_rows(Scan::<Account>::all(), |key, row| assert_eq!(row, account(key)))
}

#[test]
fn a_visitor_of_a_snapshot_reads_on_in_it() {
    for kind in Kind::ALL {
        // More rows than the first page, and than the second.
        let (db, mut session) = database(*kind, 100);
        let mut snapshot = session.snapshot().unwrap();
        if kind.sessions_max() > 1 {
            // Of a later moment, which the snapshot does not show.
            let mut other = db.session().unwrap();
            other
                .run(|tx| (0..100).step_by(2).try_for_each(|id| tx.delete::<Account>(id).map(drop)))
                .unwrap();
        }
        for limit in [0, 1, 15, 16, 17, 80, 81, usize::MAX] {
            for scan in [Scan::<ByNumber>::all(), Scan::all().reverse()] {
                let expected = snapshot.collect(scan.limit(limit)).unwrap();
                let mut found = Vec::new();
                let visit = |snapshot: &mut heddledb::Snapshot<'_>, row: Account| {
                    assert_eq!(snapshot.get::<Account>(row.id)?, Some(row), "{kind:?}");
                    let of_owner = snapshot.collect(Scan::<ByOwner>::prefix((row.owner,)))?;
                    assert_eq!(ids(&of_owner), self::of_owner(row.owner.into(), 100), "{kind:?}");
                    found.push(row);
                    Ok(())
                };
                snapshot.scan_with(scan.limit(limit), visit).unwrap();
                assert_eq!(found, expected, "{kind:?}, limit {limit}");
            }
        }
        let mut seen = 0;
        let failed = snapshot.scan_with(Scan::<Account>::all(), |_, row| {
            seen += 1;
            if row.id == 20 { Err(Error::user("enough")) } else { Ok(()) }
        });
        assert!(failed.is_err_and(|error| error.to_string() == "enough") && seen == 21);
        let mut seen = 0;
        let broken = |_: &mut heddledb::Snapshot<'_>, _: Account| {
            seen += 1;
            if seen == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        snapshot.scan_with(Scan::<Account>::all(), broken).unwrap();
        assert_eq!(seen, 5);
    }
}

#[test]
fn rows_are_read_by_an_index() {
    for kind in Kind::ALL {
        // More entries than one batch has, and than two have, and at a batch's end.
        for rows in [0, 1, 3 * 16, 3 * 16 + 1, 3 * (16 + 64), 400] {
            let (_db, mut session) = database(*kind, rows);
            session.run(|tx| reads(tx, rows)).unwrap();
            session.snapshot().and_then(|mut snapshot| reads(&mut snapshot, rows)).unwrap();
        }
    }
}

#[test]
fn own_writes_are_seen_by_an_index() {
    for kind in Kind::ALL {
        let (_db, mut session) = database(*kind, 60);
        session
            .run(|tx| {
                tx.insert(Account { owner: 1, ..account(100) })?;
                tx.update(0, |row: &mut Account| row.owner = 1)?;
                tx.update(1, |row: &mut Account| row.owner = 2)?;
                tx.add(Account::balance, 4, 1_000)?;
                tx.delete::<Account>(7)?;
                let rows = tx.collect(Scan::<ByOwner>::prefix((1,)))?;
                let mut expected = of_owner(1, 60);
                expected.retain(|id| ![1, 7].contains(id));
                expected.insert(0, 0);
                expected.push(100);
                assert_eq!(ids(&rows), expected, "{kind}");
                assert_eq!(rows[1].balance, 1_004, "{kind}");
                Ok(())
            })
            .unwrap();
    }
}

/// All pages of a scan, each of which begins behind the one before.
fn pages<R: heddledb::table::Relation<Table = Account>>(
    reader: &mut impl ReadTransaction,
    scan: Scan<R>,
) -> Result<Vec<Vec<u64>>> {
    let mut page = reader.page(scan)?;
    let mut pages = Vec::new();
    loop {
        pages.push(ids(&page.rows));
        let Some(next) = page.next else { return Ok(pages) };
        page = reader.page(scan.after(next))?;
    }
}

#[test]
fn pages_make_up_the_whole() {
    for kind in Kind::ALL {
        let (_db, mut session) = database(*kind, 50);
        for size in [1, 7, 10, 49, 50, 51, usize::MAX] {
            session
                .run(|tx| {
                    let whole: Vec<u64> = (5..=40).collect();
                    let found = pages(tx, Scan::<Account>::range(5..=40).limit(size))?;
                    assert_eq!(found, whole.chunks(size).map(<[u64]>::to_vec).collect::<Vec<_>>());
                    let found = pages(tx, Scan::<ByNumber>::range(9_960..=9_995).limit(size).reverse())?;
                    assert_eq!(found, whole.chunks(size).map(<[u64]>::to_vec).collect::<Vec<_>>());
                    let found = pages(tx, Scan::<ByOwner>::prefix((2,)).limit(size))?;
                    assert_eq!(found.concat(), of_owner(2, 50));
                    Ok(())
                })
                .unwrap();
        }
        let empty = session.run(|tx| tx.page(Scan::<Account>::range(70..).limit(3))).unwrap();
        assert!(empty.rows.is_empty() && empty.next.is_none());
    }
}

#[test]
fn what_comes_after_a_key_stays_within_the_range() {
    let (_db, mut session) = database(Kind::Silo, 20);
    let mut found = |scan| ids(&session.run(|tx| tx.collect::<Account>(scan)).unwrap());
    let scan = Scan::<Account>::range(5..10);
    assert_eq!(found(scan.after(7)), [8, 9]);
    assert_eq!(found(scan.after(7).reverse()), [6, 5], "the direction may be said later");
    assert_eq!(found(scan.reverse().after(7)), [6, 5]);
    assert_eq!(found(scan.after(2)), [5, 6, 7, 8, 9]);
    assert_eq!(found(scan.reverse().after(15)), [9, 8, 7, 6, 5]);
    assert_eq!(found(scan.after(9)), [0; 0]);
    assert_eq!(found(scan.after(15)), [0; 0]);
    assert_eq!(found(scan.reverse().after(5)), [0; 0]);
    assert_eq!(found(Scan::<Account>::all().after(u64::MAX)), [0; 0]);
    assert_eq!(found(Scan::<Account>::all().reverse().after(0)), [0; 0]);
    assert_eq!(found(scan.after(5).after(8)), [9], "the last one holds");
    let counted = session.run(|tx| {
        let mut counted = (0, 0);
        tx.scan_columns(scan.after(7), Account::balance, |_, _| counted.0 += 1)?;
        tx.scan_index(Scan::<ByNumber>::all().after(9_997), |_, _| counted.1 += 1)?;
        Ok(counted)
    });
    assert_eq!(counted.unwrap(), (2, 3));
}

#[test]
fn a_visitor_says_how_to_go_on() {
    fn visited<O: Onward>(
        session: &mut Session,
        by_index: bool,
        say: impl Fn(u64) -> O,
    ) -> (u64, Option<String>) {
        session
            .run(|tx| {
                let mut seen = 0;
                let mut visit = |row: Account| {
                    seen += 1;
                    say(row.id)
                };
                let result = match by_index {
                    true => tx.scan(Scan::<ByOwner>::prefix((0,)), &mut visit),
                    false => tx.scan(Scan::<Account>::all(), &mut visit),
                };
                // The transaction goes on after a visitor's error, and commits.
                tx.upsert(Count { owner: 0, accounts: seen })?;
                Ok((seen, result.err().map(|error| error.to_string())))
            })
            .unwrap()
    }
    for kind in Kind::ALL {
        let (_db, mut session) = database(*kind, 60);
        for (by_index, all, some) in [(false, 60, 31), (true, 20, 11)] {
            let session = &mut session;
            assert_eq!(visited(session, by_index, |_| ()), (all, None));
            assert_eq!(visited(session, by_index, |_| Ok(())), (all, None));
            let stop = |id| if id == 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            assert_eq!(visited(session, by_index, stop), (some, None));
            assert_eq!(visited(session, by_index, |id| Ok(stop(id))), (some, None));
            let fail = |id| if id == 30 { Err(Error::user("thirty")) } else { Ok(()) };
            let (seen, told) = visited(session, by_index, fail);
            assert_eq!(seen, some, "{kind}");
            assert!(told.unwrap().contains("thirty"));
            let count = session.run(|tx| tx.get::<Count>(0)).unwrap();
            assert_eq!(count, Some(Count { owner: 0, accounts: some }));
        }
    }
}

/// One counts the accounts by an index and writes the count; another finds no count and adds an account.
/// Either came first, so at most one of them can commit.
#[test]
fn no_row_appears_by_an_index_unnoticed() {
    // Below the first batch's end, and behind it.
    for (kind, rows) in Kind::ALL.iter().flat_map(|kind| [(*kind, 6), (*kind, 300)]) {
        if kind == Kind::Unprotected {
            continue;
        }
        let (db, mut other) = database(kind, rows);
        let mut tx = db.begin().unwrap();
        let counted = tx.collect(Scan::<ByOwner>::prefix((1,))).map(|rows| rows.len() as u64);
        let added = other.run_within(Duration::from_millis(100), |tx| {
            if tx.get::<Count>(1)?.is_some() {
                return Ok(false);
            }
            tx.insert(Account { owner: 1, ..account(1_000) }).map(|()| true)
        });
        let written = counted.and_then(|accounts| tx.insert(Count { owner: 1, accounts }));
        let committed = written.is_ok() && tx.commit().is_ok();
        assert!(!(committed && added.is_ok_and(|added| added)), "{kind} with {rows} rows");
    }
}

fn numbers(db: &Database) -> RowTable {
    let table = TableDefinition::builder("numbers")
        .key("id", ColumnType::U64)
        .column("parity", ColumnType::U8)
        .index("ByParity", ["parity"])
        .build()
        .unwrap();
    let table = db.define(table, 100).unwrap();
    let row = |id: u64| [Value::U64(id), Value::U8((id % 2) as u8)];
    let insert = |id| db.session()?.run(|tx| tx.rows(&table)?.insert(&row(id)));
    (0..30).try_for_each(insert).unwrap();
    table
}

#[test]
fn rows_of_values_are_read_page_by_page() {
    let db = Database::in_memory();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    let mut all = |scan: RowScan<'_>| {
        let mut pages: Vec<Vec<u64>> = Vec::new();
        let mut next: Option<Vec<Value>> = None;
        loop {
            let scan = next.as_deref().map_or(scan, |key| scan.after(key));
            let page = session.run(|tx| tx.rows(&table)?.page(scan)).unwrap();
            pages.push(page.rows.iter().map(|row| row.get("id").unwrap()).collect());
            next = page.next;
            if next.is_none() {
                return pages;
            }
        }
    };
    assert_eq!(all(RowScan::all().limit(20)), [(0..20).collect::<Vec<_>>(), (20..30).collect()]);
    let (low, high) = ([Value::U64(3)], [Value::U64(8)]);
    let range = RowScan::range(&low[..]..=&high[..]).limit(4);
    assert_eq!(all(range), [vec![3, 4, 5, 6], vec![7, 8]]);
    assert_eq!(all(range.reverse()), [vec![8, 7, 6, 5], vec![4, 3]]);
    let odd = [Value::U8(1)];
    let by_parity = RowScan::prefix(&odd).by("ByParity").limit(8);
    assert_eq!(all(by_parity).concat(), (0..30).filter(|id| id % 2 == 1).collect::<Vec<_>>());
    let outside = [Value::U64(20)];
    assert_eq!(all(range.after(&outside)), [vec![0; 0]]);
}

#[test]
fn a_visitor_of_rows_of_values_may_fail() {
    let db = Database::in_memory();
    let table = numbers(&db);
    let told = db.session().unwrap().run(|tx| {
        tx.rows(&table)?.scan(RowScan::all(), |row| match row.get::<u64>("id")? {
            7 => Err(Error::user("seven")),
            _ => Ok(()),
        })
    });
    assert!(told.unwrap_err().to_string().contains("seven"));
}
