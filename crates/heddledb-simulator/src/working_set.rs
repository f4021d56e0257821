//! How much shared memory a transaction reads and writes, by kind (DBX-TC §2.2, table 1).
//!
//! One worker executes a workload's transactions one after another, and an observer is told of each of its accesses. Counted are words
//! of eight bytes, each once for a transaction, however often that comes to it: of rows (data, and what stands in front of them), of the
//! nodes of indexes, and of all else that is shared and has no name, such as first buckets of hash indexes, old versions and epochs. What a transaction has for itself
//! (its arguments, its write set, its stack) is no shared memory, and does not count.

use crate::point::Broken;
use heddledb::protocol::Kind;
use heddledb::{Database, Error};
use heddledb_engine_simulated::sync::simulation::{
    Kind as Access, Observed, Settings, What, Who, free, simulate,
};
use heddledb_engine_simulated::sync::thread;
use heddledb_workloads::Workload;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a word.
const WORD: u64 = 8;

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// That were read.
    pub read: u64,
    /// That were written.
    pub written: u64,
    /// That were read, written or both.
    pub all: u64,
}

/// What the committed transactions of a kind have accessed, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// What they are called.
    pub kind: &'static str,
    /// How many there were.
    pub transactions: u64,
    /// Of rows.
    pub rows: Bytes,
    /// Of nodes of indexes, but for the first buckets of hash indexes.
    pub nodes: Bytes,
    /// Of anything shared.
    pub shared: Bytes,
}

impl WorkingSet {
    /// Of one transaction, in the mean.
    pub fn mean(&self, bytes: u64) -> f64 {
        bytes as f64 / self.transactions.max(1) as f64
    }
}

/// What was done to a word.
#[derive(Clone, Copy, Default)]
struct Done {
    read: bool,
    written: bool,
}

/// The words that a transaction has come to, by their names.
type Words = BTreeMap<String, Done>;

/// Executes so many transactions under a protocol: what each kind accesses, in the workload's order.
///
/// # Errors
/// [`Broken`].
pub fn working_sets<W: Workload>(
    kind: Kind,
    workload: W,
    seed: u64,
    transactions: usize,
) -> Result<Vec<WorkingSet>, Broken> {
    // Those of the transaction that is under way, if one is.
    let (words, under_way): (Rc<RefCell<Words>>, Rc<Cell<bool>>) = Default::default();
    let (told, counts) = (Rc::clone(&words), Rc::clone(&under_way));
    let observer = Box::new(move |step: &Observed| {
        if !counts.get() || !matches!(step.who, Some(Who::Worker(_))) {
            return;
        }
        let What::Access { name, kind, before, after } = &step.what else { return };
        let mut told = told.borrow_mut();
        let done = match told.get_mut(name) {
            Some(done) => done,
            None => told.entry(name.clone()).or_default(),
        };
        done.read |= *kind != Access::Store;
        // An exchange that failed has written nothing.
        done.written |= *kind == Access::Store || (*kind == Access::Update && before != after);
    });
    let settings = Settings { observer: Some(observer), ..Settings::default() };
    let workload = Arc::new(workload);
    Ok(simulate(settings, move || {
        let builder = crate::builder().protocol(kind).sessions(1);
        let db = workload.tables(builder).open()?;
        workload.load(&db, seed, &|_| {})?;
        let of_worker = db.clone();
        let worker = thread::spawn_worker(0, move || {
            execute(&*workload, &of_worker, seed, transactions, &words, &under_way)
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })??)
}

fn execute<W: Workload>(
    workload: &W,
    db: &Database,
    seed: u64,
    transactions: usize,
    words: &RefCell<Words>,
    under_way: &Cell<bool>,
) -> Result<Vec<WorkingSet>, Error> {
    let kinds = workload.kinds().iter().copied();
    let mut sets: Vec<WorkingSet> = kinds.map(|kind| WorkingSet { kind, ..WorkingSet::default() }).collect();
    let mut session = free(|| db.session())?;
    let mut generator = workload.generator(0, 1, seed);
    let (mut input, mut ledger) = (W::Input::default(), W::Ledger::default());
    for _ in 0..transactions {
        free(|| workload.draw(&mut generator, &mut input));
        words.borrow_mut().clear();
        under_way.set(true);
        let outcome = workload.call(&mut session, &input);
        under_way.set(false);
        match outcome {
            Ok(output) => {
                sets[workload.kind(&input)].add(&words.borrow());
                workload.committed(&mut generator, &input, &output);
                workload.record(&mut ledger, &input, output);
            }
            Err(Error::User(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sets)
}

impl WorkingSet {
    /// Adds a transaction.
    fn add(&mut self, words: &Words) {
        self.transactions += 1;
        for (name, done) in words {
            self.shared.add(*done);
            if name.starts_with("index node") {
                self.nodes.add(*done);
            } else if name.contains('[') {
                self.rows.add(*done);
            }
        }
    }
}

impl Bytes {
    fn add(&mut self, done: Done) {
        self.read += WORD * u64::from(done.read);
        self.written += WORD * u64::from(done.written);
        self.all += WORD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb_workloads::tpcc::{Parameters, Scale, Tpcc};

    /// TPC-C with few rows: who only reads writes no row, and nothing depends on anything but the seed.
    #[test]
    fn each_kind_has_its_own() {
        let sets = || {
            let tpcc = Tpcc::new(Parameters { scale: Scale::TINY, ..Parameters::default() }).unwrap();
            working_sets(Kind::Htm, tpcc, 1, 300).unwrap()
        };
        let found = sets();
        for set in &found {
            assert!(set.transactions > 0 && set.rows.read > 0 && set.nodes.read > 0, "{set:?}");
            let Bytes { read, written, all } = set.shared;
            assert!(read.max(written) <= all && all <= read + written, "{set:?}");
            assert!(set.rows.all + set.nodes.all <= all && all % WORD == 0, "{set:?}");
        }
        let [new_order, payment, order_status, delivery, stock_level] = &found[..] else {
            panic!("{found:?}")
        };
        for reader in [order_status, stock_level] {
            assert_eq!((reader.rows.written, reader.nodes.written), (0, 0), "{reader:?}");
        }
        let written = |set: &WorkingSet| set.mean(set.rows.written);
        assert!(written(delivery) > written(payment) && written(new_order) > written(payment));
        assert_eq!(sets(), found);
    }
}
