//! Column types of a program's own, options in keys, and what becomes of them when the program changes.

use heddledb::protocol::Kind;
use heddledb::table::dynamic::Value;
use heddledb::table::{ColumnValue, Key};
use heddledb::{Builder, Database, ReadTransaction, Result, RowScan, Scan, Table, Text, Transaction};
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ColumnValue, Key)]
struct SeatId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ColumnValue, Key)]
enum Status {
    Open,
    Held,
    Sold,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByBuyer(buyer)), index(ByStatus(status)), unique(ByCode(code)))]
struct Seat {
    #[key]
    event: Option<u16>,
    #[key]
    id: SeatId,
    #[group(state)]
    status: Status,
    #[group(state)]
    buyer: Option<Text<8>>,
    #[group(state)]
    code: Option<i128>,
    #[group(state)]
    held_for: Duration,
}

fn seat(event: Option<u16>, id: u32) -> Seat {
    let code = Some(i128::from(id) - 2);
    Seat { event, id: SeatId(id), status: Status::Open, buyer: None, code, held_for: Duration::ZERO }
}

/// Some seats, and what becomes of them: under any protocol.
fn sell(db: &Database) -> Result<()> {
    let mut session = db.session()?;
    let ada = Text::truncated("ada");
    session.run(|tx| {
        for (event, id) in [(Some(1), 1), (None, 2), (Some(0), 3), (None, 4)] {
            tx.insert(seat(event, id))?;
        }
        tx.update_columns((None, SeatId(4)), (Seat::status, Seat::buyer), |(status, buyer)| {
            (*status, *buyer) = (Status::Sold, Some(ada));
        })?;
        tx.update_columns((Some(1), SeatId(1)), (Seat::status, Seat::held_for), |(status, held_for)| {
            (*status, *held_for) = (Status::Held, Duration::from_millis(1500));
        })
    })?;
    session.run(|tx| {
        // No event is before every event.
        let keys: Vec<_> = tx.collect(Scan::<Seat>::all())?.iter().map(Table::key).collect();
        let expected = [(None, SeatId(2)), (None, SeatId(4)), (Some(0), SeatId(3)), (Some(1), SeatId(1))];
        assert_eq!(keys, expected);
        assert_eq!(tx.collect(Scan::<Seat>::prefix((None,)))?.len(), 2);
        // The statuses are in the order of their numbers.
        let statuses: Vec<_> = tx.collect(Scan::<ByStatus>::all())?.iter().map(|seat| seat.status).collect();
        assert_eq!(statuses, [Status::Open, Status::Open, Status::Held, Status::Sold]);
        assert_eq!(tx.find::<ByBuyer>(Some(ada))?.unwrap().id, SeatId(4));
        assert_eq!(tx.collect(Scan::<ByBuyer>::prefix((None,)))?.len(), 3);
        let codes: Vec<_> =
            tx.collect(Scan::<ByCode>::all().reverse())?.iter().map(|seat| seat.code).collect();
        assert_eq!(codes, [Some(2), Some(1), Some(0), Some(-1)]);
        assert_eq!(tx.get::<Seat>((Some(1), SeatId(1)))?.unwrap().held_for, Duration::from_millis(1500));
        Ok(())
    })?;
    // Nothing is a value of a unique index like any other.
    session.run(|tx| tx.insert(Seat { code: None, ..seat(Some(9), 9) }))?;
    let second = session.run(|tx| tx.insert(Seat { code: None, ..seat(Some(9), 10) })).unwrap_err();
    assert!(second.to_string().contains("seat.ByCode"), "{second}");
    Ok(())
}

#[test]
fn types_of_ones_own_under_every_protocol() {
    for kind in Kind::ALL {
        let db = Database::builder().protocol(*kind).sessions(1).table::<Seat>(16).open().unwrap();
        sell(&db).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

fn builder(path: &Path) -> Builder {
    Database::builder().manual_epochs().path(path)
}

#[test]
fn rows_with_types_of_ones_own_are_rows_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seats");
    let db = builder(&path).table::<Seat>(16).open().unwrap();
    sell(&db).unwrap();
    drop(db);

    // A program that works by values.
    let seats = heddledb::table::dynamic::TableDefinition::of::<Seat>().unwrap();
    let db = builder(&path).define(seats, 16).open().unwrap();
    let table = db.define(seats, 16).unwrap();
    let mut session = db.session().unwrap();
    session
        .run(|tx| {
            let mut rows = tx.rows(&table)?;
            let sold = rows.find("ByBuyer", &["ada".into()])?.unwrap();
            assert_eq!(sold["status"], "Sold".into());
            assert_eq!(sold["event"], Value::Null);
            let held = rows.collect(RowScan::prefix(&["Held".into()]).by("ByStatus"))?;
            assert_eq!(held[0]["held_for"], Duration::from_millis(1500).into());
            rows.update(&[Value::Null, 2u32.into()], |row| row.set("status", Status::Held))
        })
        .unwrap();
    let wrong = session
        .run(|tx| tx.rows(&table)?.update(&[Value::Null, 2u32.into()], |row| row.set("status", "Lost")));
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains(r#"expected u8{Open=0,Held=1,Sold=2}, given "Lost""#), "{wrong}");
    drop((session, db));

    let db = builder(&path).table::<Seat>(16).open().unwrap();
    let row = db.session().unwrap().run(|tx| tx.get::<Seat>((None, SeatId(2)))).unwrap().unwrap();
    assert_eq!(row.status, Status::Held);
}

/// A ticket as three versions of a program have it.
macro_rules! version {
    ($version:ident: $($variant:ident = $number:literal),*; $($index:tt)*) => {
        mod $version {
            use heddledb::Table;
            use heddledb::table::{ColumnValue, Key};

            #[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
            pub enum State {
                $($variant = $number),*
            }

            #[derive(Table, Clone, Copy, Debug, PartialEq)]
            #[table($($index)*)]
            pub struct Ticket {
                #[key]
                pub id: u64,
                pub state: State,
                pub before: Option<State>,
            }
        }
    };
}
version!(first: New = 0, Paid = 1; index(ByState(state)), index(ByBefore(before)));
// Another place in the declaration is no other number.
version!(second: Refunded = 2, New = 0, Paid = 1; index(ByState(state)));
version!(other: New = 0, Refunded = 1, Paid = 2; index(ByState(state)));

#[test]
fn an_enum_may_be_given_more_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tickets");
    let db = builder(&path).table::<first::Ticket>(16).open().unwrap();
    let ticket = first::Ticket { id: 1, state: first::State::Paid, before: Some(first::State::New) };
    db.session().unwrap().run(|tx| tx.insert(ticket)).unwrap();
    drop(db);

    // Numbers that mean something else now.
    let refused = builder(&path).table::<other::Ticket>(16).open().err().unwrap().to_string();
    assert!(
        refused.contains("u8{New=0,Paid=1}") && refused.contains("u8{New=0,Refunded=1,Paid=2}"),
        "{refused}"
    );

    // One more, and an index less on the way.
    let db = builder(&path).table::<second::Ticket>(16).open().unwrap();
    let mut session = db.session().unwrap();
    let ticket = session.run(|tx| tx.get::<second::Ticket>(1)).unwrap().unwrap();
    assert_eq!((ticket.state, ticket.before), (second::State::Paid, Some(second::State::New)));
    let refunded = second::State::Refunded;
    session.run(|tx| tx.insert(second::Ticket { id: 2, state: refunded, before: None })).unwrap();
    db.check().unwrap();
    drop((session, db));

    // The old program does not know what it would read.
    let refused = builder(&path).table::<first::Ticket>(16).open().err().unwrap().to_string();
    assert!(refused.contains("Refunded=2"), "{refused}");
    let db = builder(&path).table::<second::Ticket>(16).open().unwrap();
    let found = db.session().unwrap().run(|tx| tx.find::<second::ByState>(refunded)).unwrap().unwrap();
    assert_eq!(found.id, 2);
}

#[test]
fn before_its_first_checkpoint_too_an_old_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tickets");
    drop(builder(&path).table::<first::Ticket>(16).open().unwrap());
    // Opened, and nothing written.
    drop(builder(&path).table::<second::Ticket>(16).open().unwrap());
    let refused = builder(&path).table::<first::Ticket>(16).open().err().unwrap().to_string();
    assert!(refused.contains("Refunded=2"), "{refused}");
}
