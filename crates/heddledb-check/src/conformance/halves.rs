//! Additions to columns of 4 bytes, of which two share a word: nothing is carried from one into the other.

use super::Test;
use super::load::{lawful, on_threads};
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{Builder, Database, ReadTransaction, Result, Table, Transaction, procedure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "halves_of_a_word_are_added_to", run: are_added_to },
        Test { name: "halves_of_a_word_survive", run: survive },
    ]
}

/// Two sums in a word, one of which is about to overflow.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "half")]
struct Half {
    #[key]
    key: u64,
    #[group(sums)]
    low: i32,
    #[group(sums)]
    high: u32,
    #[group(other)]
    other: u64,
}

const ROWS: u64 = 2;
const FIRST: Half = Half { key: 0, low: i32::MAX - 3, high: 5, other: 0 };

/// Adds to one half of one row, and to the other half of another.
#[procedure]
fn halves_add(tx: &mut impl Transaction, one: u64, by: i32, other: u64) -> Result<()> {
    #[no_abort]
    #[deferred]
    tx.add(Half::low, one, by)?;
    #[deferred]
    tx.add(Half::high, other, by.cast_unsigned())
}

fn builder(kind: Kind) -> Builder {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.table::<Half>(0).procedure::<HalvesAdd>()
}

fn filled(builder: Builder) -> Database {
    let db = lawful(builder.open());
    lawful(
        lawful(db.session())
            .run(|tx| (0..ROWS).try_for_each(|key| tx.upsert(Half { key, ..FIRST }).map(|_| ()))),
    );
    db
}

/// Sums to compare with.
#[derive(Default)]
struct Model([[AtomicU32; 2]; ROWS as usize]);

impl Model {
    fn add(&self, row: u64, half: usize, by: u32) {
        // Relaxed: read when all threads have ended.
        self.0[row as usize][half].fetch_add(by, Ordering::Relaxed);
    }

    fn check(&self, tx: &mut impl ReadTransaction) -> Result<()> {
        for (key, [low, high]) in (0..).zip(&self.0) {
            let [low, high] = [low, high].map(|half| half.load(Ordering::Relaxed));
            let (low, high) = (FIRST.low.wrapping_add(low.cast_signed()), FIRST.high.wrapping_add(high));
            assert_eq!(tx.get(key)?, Some(Half { key, low, high, ..FIRST }));
        }
        Ok(())
    }
}

/// Calls and closures add, to both signs; a closure sees its own additions.
fn load(kind: Kind, db: &Database) -> Model {
    let model = Model::default();
    on_threads(kind, db, 2, |session, random, _| {
        for round in 0..300 {
            let [one, other] = [(); 2].map(|()| random.below(ROWS));
            let by = random.below(9) as i32 - 4;
            if round % 3 > 0 {
                lawful(session.call(HalvesAdd, (one, by, other)));
                model.add(one, 0, by.cast_unsigned());
                model.add(other, 1, by.cast_unsigned());
                continue;
            }
            let twice = by.wrapping_mul(2);
            lawful(session.run(|tx| {
                let was = tx.get::<Half>(one)?.expect("no row is removed");
                (0..2).try_for_each(|_| tx.add(Half::low, one, by))?;
                tx.add(Half::high, one, by.cast_unsigned())?;
                let (low, high) = (was.low.wrapping_add(twice), was.high.wrapping_add_signed(by));
                let sums = tx.get_columns(one, (Half::low, Half::high))?;
                assert_eq!(sums, Some((low, high)), "a transaction does not see what it adds");
                Ok(())
            }));
            model.add(one, 0, twice.cast_unsigned());
            model.add(one, 1, by.cast_unsigned());
        }
    });
    model
}

fn are_added_to(kind: Kind) {
    let db = filled(builder(kind));
    let model = load(kind, &db);
    lawful(lawful(db.session()).run(|tx| model.check(tx)));
}

fn survive(kind: Kind) {
    let storage = Simulated::new();
    let builder = || builder(kind).storage(Arc::new(storage.clone()));
    let db = filled(builder());
    let model = load(kind, &db);
    drop(db);
    let db = lawful(builder().open());
    lawful(lawful(db.session()).run(|tx| model.check(tx)));
}
