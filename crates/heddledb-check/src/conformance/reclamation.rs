//! A row's lives, when its record was given back between them.

use super::{Hashed, Ordered, Tables, Test};
use heddledb::protocol::Kind;
use heddledb::{Database, ReadTransaction, Transaction};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "reclamation_stamps_rise_ordered", run: stamps_rise::<Ordered> },
        Test { name: "reclamation_stamps_rise_hashed", run: stamps_rise::<Hashed> },
        Test { name: "reclamation_after_scans", run: scans_are_forgotten },
    ]
}

/// The writers of a row have rising commit stamps, also where one wrote to the row's old record and
/// the next to a new one. Logs and histories order versions by them.
fn stamps_rise<T: Tables>(kind: Kind) {
    let builder = Database::builder().protocol(kind).manual_epochs();
    let db = builder.open().expect("the settings are lawful");
    let mut sessions: Vec<_> =
        (0..kind.sessions_max().min(3)).map(|_| db.session().expect("a session is free")).collect();
    let count = sessions.len();
    let mut stamp = |session: usize, value: Option<i64>| {
        let session = &mut sessions[session % count];
        let outcome = session.run(|tx| match value {
            Some(value) => tx.insert(T::row(1, value, value)),
            None => tx.delete::<T::Row>(1).map(|_| ()),
        });
        outcome.expect("nobody is in the way");
        session.last_commit()
    };
    for round in 0..20 {
        let mut last = 0;
        let mut rises = |now: u64, what: &str| {
            assert!(now > last, "{kind} round {round}: {what} has stamp {now}, the write before {last}");
            last = now;
        };
        rises(stamp(0, Some(1)), "the first insert");
        rises(stamp(0, None), "the first delete");
        // Now session 0 is about to give the record back ..
        (0..6).for_each(|_| _ = db.advance_epoch());
        // .. and the row comes and goes once more before it does.
        rises(stamp(1, Some(2)), "the second insert");
        rises(stamp(1, None), "the second delete");
        stamp(0, None);
        rises(stamp(2, Some(3)), "the insert after reclamation");
        rises(stamp(2, None), "the last delete");
        (0..round % 7).for_each(|_| _ = db.advance_epoch());
    }
}

/// What a transaction has scanned leads it, and none after it, to the records: one of them may be another row's by then.
fn scans_are_forgotten(kind: Kind) {
    type Row = <Ordered as Tables>::Row;
    let builder = Database::builder().protocol(kind).manual_epochs();
    let db = builder.open().expect("the settings are lawful");
    let mut session = db.session().expect("a session is free");
    for round in 0..8_i64 {
        let outcome = session.run(|tx| {
            (1..=3).try_for_each(|key| tx.insert(Ordered::row(key, round, round)))?;
            let rows = Ordered::scan(tx, 0, 9, round % 2 == 1, 9)?;
            // In the leaf that was scanned, and not in it.
            tx.delete::<Row>(2)?;
            tx.insert(Ordered::row(4, round, round))?;
            Ok((
                rows.len(),
                tx.get::<Row>(1)?.is_some(),
                tx.get::<Row>(2)?.is_some(),
                tx.get::<Row>(4)?.is_some(),
            ))
        });
        assert_eq!(outcome.expect("nobody is in the way"), (3, true, false, true), "{kind} round {round}");
        (0..6).for_each(|_| _ = db.advance_epoch());
        // Gives the record of row 2 back, and takes it for another.
        session.run(|tx| tx.insert(Ordered::row(9, 90, 90))).expect("nobody is in the way");
        session.run(|tx| tx.insert(Ordered::row(2, 20, 20))).expect("nobody is in the way");
        let found = session.run(|tx| Ok((tx.get::<Row>(9)?, tx.get::<Row>(2)?, tx.get::<Row>(4)?)));
        let (nine, two, four) = found.expect("nobody is in the way");
        let values = [nine, two, four].map(|row| row.map(|row| Ordered::parts(&row).1));
        assert_eq!(values, [Some(90), Some(20), Some(round)], "{kind} round {round}");
        let cleared = session.run(|tx| {
            let keys = [1, 2, 3, 4, 9];
            keys.into_iter().try_fold(0, |count, key| Ok(count + u32::from(tx.delete::<Row>(key)?)))
        });
        assert_eq!(cleared.expect("nobody is in the way"), 5, "{kind} round {round}");
        (0..round % 3).for_each(|_| _ = db.advance_epoch());
    }
}
