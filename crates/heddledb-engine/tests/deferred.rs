//! Deferring transactions at the seam: intentions, operators, verdicts, panics, and ordinary reads beside them.

use heddledb_core::error::{Conflict, Error, Misuse, Result};
use heddledb_core::kind::Drp;
use heddledb_core::procedure::PlanChange;
use heddledb_core::seam::{
    Access, Applied, Body, Ended, Engine, Inserted, Intention, Operators, Part, Range, Visit, Worker,
};
use heddledb_core::settings::{Durability, Limits, LogOptions, Settings};
use heddledb_core::sight::Sight;
use heddledb_core::table::dynamic::TableDefinition;
use heddledb_core::table::{ColumnType, Definition, Direction};
use heddledb_core::words::Words;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Accounts with a balance, and a note in a column group of its own.
static ACCOUNTS: LazyLock<&'static Definition> = LazyLock::new(|| {
    let table = TableDefinition::builder("accounts")
        .key("id", ColumnType::U64)
        .column("balance", ColumnType::U64)
        .column("note", ColumnType::U64)
        .group("note");
    table.build().expect("the table is well-formed").relation().definition()
});

fn open() -> Arc<dyn Engine> {
    let settings = Settings {
        sessions: Some(8),
        relations: vec![(*ACCOUNTS, 100)],
        isolation: Default::default(),
        plan_change: PlanChange::default(),
        epoch_interval: Some(Duration::from_millis(1)),
        snapshot_interval: Duration::from_millis(1),
        place: None,
        durability: Durability::default(),
        log: LogOptions::default(),
        versions: Vec::new(),
        threads: None,
        checkpoint_log_bytes: None,
        checkpoint_replay: None,
        checkpoint_at_close: false,
        salvage: false,
        read_only: false,
        accept_copy: false,
        migration: None,
        tell: None,
        as_found: false,
        limits: Limits::default(),
    };
    heddledb_engine::open(Drp::default().into(), settings).expect("it opens in memory")
}

/// A place that is given back, with its memory, in the end.
struct Place(Option<Box<dyn Worker>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|worker| worker.release());
    }
}

impl Deref for Place {
    type Target = dyn Worker;
    fn deref(&self) -> &Self::Target {
        &**self.0.as_ref().expect("it is given back in the end")
    }
}

impl DerefMut for Place {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut **self.0.as_mut().expect("it is given back in the end")
    }
}

fn worker(engine: &Arc<dyn Engine>) -> Place {
    Place(Some(Arc::clone(engine).worker(Duration::from_secs(1)).expect("a place is free")))
}

fn access(key: &[u64]) -> Access<'_> {
    Access { wanted: Part::whole(*ACCOUNTS), key, site: 0, part: false }
}

/// Where the balance is in a row, and its column group.
fn balance() -> (usize, u32) {
    let groups = ACCOUNTS.layout.groups;
    let main = groups.iter().position(|group| group.name == "main").expect("it is there");
    (groups[main].span.end - 1, 1 << main)
}

/// Inserts accounts with that balance.
fn insert(engine: &Arc<dyn Engine>, ids: std::ops::Range<u64>, amount: u64) {
    let mut worker = worker(engine);
    assert!(worker.begin(0, None));
    for id in ids {
        match worker.insert(&access(&[id])).expect("nobody else is there") {
            Inserted::New(words) => words[balance().0] = amount,
            _ => panic!("account {id} is there"),
        }
    }
    assert_eq!(worker.end(Body::Done { failed: false }).expect("it commits"), Ended::Committed);
}

type Step<'a> = Box<dyn FnMut(&mut Results, bool, &mut [u64]) -> Applied + 'a>;

/// What steps have found, and what they have decided.
struct Results {
    values: Vec<Option<u64>>,
    verdict: Option<bool>,
}

/// Steps, each of which waits for the results of those that it names.
struct Steps<'a> {
    steps: Vec<(Vec<usize>, Step<'a>)>,
    results: Results,
    ready: Vec<u32>,
}

impl<'a> Steps<'a> {
    fn new() -> Self {
        let results = Results { values: Vec::new(), verdict: Some(true) };
        Self { steps: Vec::new(), results, ready: Vec::new() }
    }

    fn step(
        &mut self,
        after: &[usize],
        step: impl FnMut(&mut Results, bool, &mut [u64]) -> Applied + 'a,
    ) -> u32 {
        self.steps.push((after.to_vec(), Box::new(step)));
        self.results.values.push(None);
        self.steps.len() as u32 - 1
    }
}

impl Operators for Steps<'_> {
    fn is_ready(&self, step: u32) -> bool {
        self.steps[step as usize].0.iter().all(|input| self.results.values[*input].is_some())
    }

    fn apply(&mut self, step: u32, present: bool, row: &mut [u64]) -> Applied {
        assert!(self.results.values[step as usize].is_none(), "step {step} is applied twice");
        let applied = (self.steps[step as usize].1)(&mut self.results, present, row);
        self.results.values[step as usize].get_or_insert(0);
        let waited =
            |other: &u32| self.steps[*other as usize].0.contains(&(step as usize)) && self.is_ready(*other);
        let ready: Vec<u32> = (0..self.steps.len() as u32).filter(waited).collect();
        self.ready.extend(ready);
        applied
    }

    fn take_ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }

    fn verdict(&self) -> Option<bool> {
        self.results.verdict
    }

    fn refusal(&mut self) -> Error {
        Misuse::Option("refused".to_owned()).into()
    }
}

/// Adds to a balance.
fn add(by: u64) -> impl FnMut(&mut Results, bool, &mut [u64]) -> Applied {
    move |_, present, row| {
        assert!(present);
        row[balance().0] = row[balance().0].wrapping_add(by);
        Applied::Changed(balance().1)
    }
}

/// Makes a row, or replaces it.
fn put(amount: u64) -> impl FnMut(&mut Results, bool, &mut [u64]) -> Applied {
    move |_, present, row| {
        row[balance().0] = amount;
        if present { Applied::Changed(ACCOUNTS.layout.all_groups()) } else { Applied::Made }
    }
}

fn erase(_: &mut Results, present: bool, _: &mut [u64]) -> Applied {
    if present { Applied::Removed } else { Applied::Kept }
}

fn look(expected: bool) -> impl FnMut(&mut Results, bool, &mut [u64]) -> Applied {
    move |_, present, _| {
        assert_eq!(present, expected);
        Applied::Kept
    }
}

/// All balances as one transaction reads them, or a conflict.
fn read_all(worker: &mut dyn Worker) -> Result<Vec<(u64, u64)>> {
    assert!(worker.begin(0, None));
    let mut rows = Vec::new();
    let range = Range {
        wanted: Part::whole(*ACCOUNTS),
        bounds: Some((&[0], &[u64::MAX])),
        direction: Direction::Forward,
        limit: usize::MAX,
        site: 0,
    };
    let mut visit = |key: &[u64], sight: Sight<'_>| {
        let value = sight.word(balance().0);
        if sight.stands() {
            rows.push((key[0], value));
            Visit::More
        } else {
            Visit::Torn
        }
    };
    match worker.scan(&range, &mut visit) {
        Ok(()) => worker.end(Body::Done { failed: false }).map(|_| rows),
        Err(error) => Err(worker.end(Body::Gave(error)).expect_err("it gave up")),
    }
}

/// As [`read_all`], as often as it takes.
fn all(worker: &mut dyn Worker) -> Vec<(u64, u64)> {
    loop {
        match read_all(worker) {
            Ok(rows) => return rows,
            Err(Error::Conflict(_)) => worker.back_off(3),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_hot_row_is_never_a_conflict() {
    const EACH: u64 = 20_000;
    let engine = open();
    insert(&engine, 1..2, 0);
    let count = |mut worker: Place| {
        for _ in 0..EACH {
            assert!(worker.begin(0, None) && worker.defers());
            let mut steps = Steps::new();
            let step = steps.step(&[], add(1));
            worker.defer(&access(&[1]), Intention::Change, step).expect("it is only written down");
            assert_eq!(worker.end_deferred(&mut steps).expect("it commits"), Ended::Committed);
        }
        worker.stats()
    };
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let worker = worker(&engine);
            std::thread::spawn(move || count(worker))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no assertion fails").conflicts_total(), 0);
    }
    assert_eq!(all(&mut *worker(&engine)), [(1, 4 * EACH)]);
}

/// Money goes from an account to another, if the first step finds enough; readers see the whole of it or nothing.
#[test]
fn transfers_keep_the_sum_and_a_verdict_keeps_accounts_above_zero() {
    const COUNT: u64 = 6;
    let engine = open();
    insert(&engine, 0..COUNT, 100);
    let transfer = |mut worker: Place, seed: u64| {
        let (mut random, mut refused) = (heddledb_core::random::Random::new(seed), 0);
        for _ in 0..5_000 {
            let (from, to, amount) = (random.below(COUNT), random.below(COUNT), random.below(120));
            assert!(worker.begin(0, None));
            let mut steps = Steps::new();
            steps.results.verdict = None;
            let first = steps.step(&[], |results, present, row| {
                assert!(present);
                results.verdict = Some(row[balance().0] >= amount);
                results.values[0] = Some(row[balance().0]);
                row[balance().0] = row[balance().0].wrapping_sub(amount);
                Applied::Changed(balance().1)
            });
            let second = steps.step(&[0], |results, present, row| {
                assert!(present && results.values[0].is_some(), "its input is known");
                row[balance().0] = row[balance().0].wrapping_add(amount);
                Applied::Changed(balance().1)
            });
            worker.defer(&access(&[from]), Intention::Change, first).expect("written down");
            worker.defer(&access(&[to]), Intention::Change, second).expect("written down");
            assert!(worker.has_intentions_on(*ACCOUNTS, Some(&[to])));
            match worker.end_deferred(&mut steps) {
                Ok(Ended::Committed) => {}
                Err(Error::Misuse(why)) if matches!(&*why, Misuse::Option(why) if why == "refused") => {
                    refused += 1
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(worker.stats().conflicts_total(), 0);
        refused
    };
    let movers: Vec<_> = (0..3)
        .map(|seed| {
            let worker = worker(&engine);
            std::thread::spawn(move || transfer(worker, seed))
        })
        .collect();
    let mut reader = worker(&engine);
    while !movers.iter().all(|mover| mover.is_finished()) {
        if let Ok(rows) = read_all(&mut *reader) {
            assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), COUNT * 100, "{rows:?}");
            assert!(rows.iter().all(|row| row.1 <= COUNT * 100), "below zero: {rows:?}");
        }
    }
    let refused: u64 = movers.into_iter().map(|mover| mover.join().expect("no assertion fails")).sum();
    assert!(refused > 0, "some had too little");
    assert_eq!(all(&mut *reader).iter().map(|row| row.1).sum::<u64>(), COUNT * 100);
}

#[test]
fn rows_come_and_go() {
    use Intention::{Change, Erase, Look, Put};
    let engine = open();
    let mut worker = worker(&engine);
    let mut run = |steps: Vec<(u64, Intention, Step<'_>)>| {
        assert!(worker.begin(0, None));
        let mut all_steps = Steps::new();
        for (key, intention, step) in steps {
            let step = all_steps.step(&[], step);
            worker.defer(&access(&[key]), intention, step).expect("written down");
        }
        assert_eq!(worker.end_deferred(&mut all_steps).expect("it commits"), Ended::Committed);
        all(&mut *worker)
    };
    let rows = run(vec![
        (1, Look, Box::new(look(false))),
        (1, Put, Box::new(put(5))),
        (1, Look, Box::new(look(true))),
        (1, Change, Box::new(add(2))),
    ]);
    assert_eq!(rows, [(1, 7)]);
    assert_eq!(run(vec![(2, Look, Box::new(look(false))), (3, Erase, Box::new(erase))]), [(1, 7)]);
    let rows = run(vec![(2, Put, Box::new(put(9))), (1, Erase, Box::new(erase)), (3, Put, Box::new(put(4)))]);
    assert_eq!(rows, [(2, 9), (3, 4)]);
    let rows = run(vec![
        (2, Erase, Box::new(erase)),
        (2, Put, Box::new(put(1))),
        (4, Put, Box::new(put(8))),
        (4, Erase, Box::new(erase)),
    ]);
    assert_eq!(rows, [(2, 1), (3, 4)]);
    // Records that were made for nothing, or are absent now, leave the index again.
    for _ in 0..40 {
        engine.advance_epoch();
        run(vec![(2, Look, Box::new(look(true)))]);
    }
    assert_eq!(engine.metrics().garbage, 0, "all of it is reclaimed");
}

#[test]
fn a_panic_of_a_step_has_no_effect() {
    let engine = open();
    insert(&engine, 1..3, 10);
    let mut worker = worker(&engine);
    assert!(worker.begin(0, None));
    let mut steps = Steps::new();
    let first = steps.step(&[], add(1));
    let second = steps.step(&[], |_, _, _| panic!("a step panics"));
    worker.defer(&access(&[1]), Intention::Change, first).expect("written down");
    worker.defer(&access(&[2]), Intention::Change, second).expect("written down");
    let outcome = catch_unwind(AssertUnwindSafe(|| worker.end_deferred(&mut steps).map(drop)));
    assert_eq!(outcome.expect_err("it panics").downcast_ref(), Some(&"a step panics"));
    assert_eq!(all(&mut *worker), [(1, 10), (2, 10)]);
    assert!(worker.begin(0, None));
    let mut steps = Steps::new();
    let step = steps.step(&[], add(5));
    worker.defer(&access(&[2]), Intention::Change, step).expect("written down");
    assert_eq!(worker.end_deferred(&mut steps).expect("nothing is held"), Ended::Committed);
    assert_eq!(all(&mut *worker), [(1, 10), (2, 15)]);
}

/// Each of two transactions reads the one row at once, and defers a change of the other that rests on it: write skew.
#[test]
fn what_is_read_at_once_is_certified_beside_intentions() {
    let engine = open();
    insert(&engine, 0..2, 0);
    let run = |mut worker: Place, own: u64| {
        let mut commits = 0;
        while commits < 3_000 {
            assert!(worker.begin(0, None));
            let read = worker.get(&access(&[1 - own])).map(|sight| {
                let sight = sight.expect("it is there");
                (sight.word(balance().0), sight.stands())
            });
            let seen = match read {
                Ok((seen, true)) => seen,
                Ok((_, false)) => {
                    worker.abort();
                    continue;
                }
                Err(error) => {
                    worker.end(Body::Gave(error)).expect_err("it gave up");
                    continue;
                }
            };
            let mut steps = Steps::new();
            let step = steps.step(&[], |_, _, row| {
                row[balance().0] = seen + 1;
                Applied::Changed(balance().1)
            });
            worker.defer(&access(&[own]), Intention::Change, step).expect("written down");
            match worker.end_deferred(&mut steps) {
                Ok(_) => commits += 1,
                Err(Error::Conflict(Conflict::Locked | Conflict::ReadChanged)) => {}
                Err(error) => panic!("{error}"),
            }
            // One is always made of the other, so they are equal only in the beginning.
            let rows = all(&mut *worker);
            assert!(rows[0].1 != rows[1].1 || rows[0].1 == 0, "both rest on one state: {rows:?}");
        }
    };
    let threads: Vec<_> = (0..2)
        .map(|own| {
            let worker = worker(&engine);
            std::thread::spawn(move || run(worker, own))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
}
