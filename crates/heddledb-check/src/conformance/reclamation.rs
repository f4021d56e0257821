//! A row's lives, when its record was given back between them.

use super::{Hashed, Ordered, Tables, Test};
use heddledb::{Database, Protocol, Transaction};

pub(super) fn tests<P: Protocol>() -> Vec<Test<P>> {
    vec![
        Test { name: "reclamation_stamps_rise_ordered", run: stamps_rise::<P, Ordered> },
        Test { name: "reclamation_stamps_rise_hashed", run: stamps_rise::<P, Hashed> },
    ]
}

/// The writers of a row have rising commit stamps, also where one wrote to the row's old record and
/// the next to a new one. Logs and histories order versions by them.
fn stamps_rise<P: Protocol, T: Tables>(options: &P::Options) {
    let builder = Database::builder().protocol::<P>().options(options.clone()).manual_epochs();
    let db = builder.open().expect("the settings are lawful");
    let mut sessions: Vec<_> =
        (0..P::SESSIONS_MAX.min(3)).map(|_| db.session().expect("a session is free")).collect();
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
            assert!(now > last, "{} round {round}: {what} has stamp {now}, the write before {last}", P::NAME);
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
