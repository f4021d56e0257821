//! Indexes that are added to tables with rows, and removed from them.

mod added;
mod checked;
mod crashes;

use heddledb::storage::{Simulated, Storage};
use heddledb::{Builder, Database, ReadTransaction, Transaction};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The table without indexes, and with some: one name, one row.
mod plain {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person")]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

mod indexed {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person", index(ByCity(city)), unique(ByMail(mail)))]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

/// The same index name over other columns.
mod changed {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person", index(ByCity(visits, city)))]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

/// A table with a hash index.
mod hashed {
    use heddledb::Table;

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "point", hash)]
    pub struct Plain {
        #[key]
        pub x: u32,
        #[key]
        pub y: i16,
        pub colour: u8,
    }

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "point", hash, index(ByColour(colour)))]
    pub struct Indexed {
        #[key]
        pub x: u32,
        #[key]
        pub y: i16,
        pub colour: u8,
    }
}

fn builder(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).storage(Arc::new(disk.clone()))
}

fn mail(id: u64) -> heddledb::Text<24> {
    heddledb::Text::truncated(&format!("{id}@example.org"))
}

fn person(id: u64) -> plain::Person {
    plain::Person { id, mail: mail(id), city: (id % 7) as u32, visits: id / 2 }
}

/// A directory with so many persons, and no index.
fn without_indexes(rows: u64) -> Simulated {
    let disk = Simulated::new();
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    let mut session = db.session().unwrap();
    for id in 0..rows {
        session.run(|tx| tx.insert(person(id))).unwrap();
    }
    drop((session, db));
    disk
}

fn open_indexed(disk: &Simulated) -> Database {
    builder(disk).table::<indexed::Person>(0).open().unwrap()
}

/// The entries of both indexes, with the rows that they lead to.
type Entries = (Vec<(u32, u64)>, Vec<(String, u64)>);

/// Those that are there.
fn entries(db: &Database) -> Entries {
    let mut session = db.session().unwrap();
    session
        .run(|tx| {
            let (mut cities, mut mails) = (Vec::new(), Vec::new());
            tx.scan_index(heddledb::Scan::<indexed::ByCity>::all(), |(city, _), id| {
                cities.push((city, id));
                ControlFlow::Continue(())
            })?;
            tx.scan_index(heddledb::Scan::<indexed::ByMail>::all(), |mail, id| {
                mails.push((mail.as_str().to_owned(), id));
                ControlFlow::Continue(())
            })?;
            Ok((cities, mails))
        })
        .unwrap()
}

/// Those that rows with these keys should have.
fn due(ids: impl Iterator<Item = u64> + Clone) -> Entries {
    let mut cities: Vec<_> = ids.clone().map(|id| ((id % 7) as u32, id)).collect();
    let mut mails: Vec<_> = ids.map(|id| (mail(id).as_str().to_owned(), id)).collect();
    cities.sort_unstable();
    mails.sort_unstable();
    (cities, mails)
}

/// The names and the contents of all files.
fn contents(disk: &Simulated) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = heddledb::storage::read_all(&*disk.open(&name).unwrap()).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}
