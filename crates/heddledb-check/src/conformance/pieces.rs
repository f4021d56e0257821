//! Submitted calls that are executed in pieces, where a protocol does that: what they do has an order all the same, and nobody
//! sees half of a call.

use super::Test;
use super::load::on_threads;
use heddledb::procedure::Announcement;
use heddledb::protocol::{Execution, Kind};
use heddledb::{
    Builder, Database, Error, Misuse, ReadTransaction, Result, Scan, Session, Table, Transaction, procedure,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "pieces_have_an_order", run: have_an_order },
        Test { name: "pieces_scan_and_insert", run: scan_and_insert },
        Test { name: "pieces_remove_and_insert", run: remove_and_insert },
        Test { name: "pieces_give_up_before_others_see_them", run: give_up_before_others_see_them },
        Test { name: "pieces_refuse_what_was_not_told", run: refuse_what_was_not_told },
        Test { name: "pieces_tell_panics", run: tell_panics },
        Test { name: "pieces_tell_panics_of_what_tells", run: tell_panics_of_what_tells },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "pieces_row")]
struct Row {
    #[key]
    key: u64,
    value: i64,
    /// How often it was written.
    version: u64,
    /// How much was added.
    #[group(sum)]
    sum: i64,
}

const ROWS: u64 = 8;
/// Accesses of a call.
const STEPS: usize = 5;

fn builder(kind: Kind) -> Builder {
    let interval = Duration::from_micros(200);
    let builder = Database::builder().protocol(kind).executors(3).sessions(8);
    let builder = builder.epoch_interval(interval).snapshot_interval(interval);
    builder
        .procedure::<PiecesMove>()
        .procedure::<PiecesList>()
        .procedure::<PiecesTry>()
        .procedure::<PiecesPanic>()
        .procedure::<PiecesRenew>()
}

fn filled(kind: Kind) -> Database {
    let db = builder(kind).open().expect("it opens");
    let row = |key| Row { key, value: 0, version: 0, sum: 0 };
    let fill = |tx: &mut heddledb::Txn| (0..ROWS).try_for_each(|key| tx.insert(row(key)));
    db.session().and_then(|mut session| session.run(fill)).expect("the table is empty");
    db
}

/// Whether calls are executed in pieces.
fn in_pieces(kind: Kind) -> bool {
    kind == Kind::Dgcc
}

fn tell_moves(to: &mut Announcement<'_>, keys: [u64; STEPS], amount: i64) {
    let _ = amount;
    for (at, key) in keys.iter().enumerate() {
        to.writes(*key, (Row::value, Row::version));
        to.adds((*key + at as u64) % ROWS, Row::sum);
    }
}

/// Adds to some rows and takes away from others, and tells how often each was written then.
#[procedure(announce = tell_moves)]
fn pieces_move(tx: &mut impl Transaction, keys: [u64; STEPS], amount: i64) -> Result<[u64; STEPS]> {
    let mut versions = [0; STEPS];
    #[later]
    for (at, (key, seen)) in keys.iter().zip(&mut versions).enumerate() {
        let amount = [amount, -amount, 2 * amount, -amount, -amount][at];
        *seen = tx.update_columns(*key, (Row::value, Row::version), |(value, version)| {
            *value += amount;
            *version += 1;
            *version
        })?;
        if *key == 0 {
            std::thread::yield_now();
        }
        tx.add(Row::sum, (*key + at as u64) % ROWS, amount)?;
    }
    Ok(versions)
}

/// The sums of all rows, which are zero whenever no call is half done.
fn sums(tx: &mut impl ReadTransaction) -> Result<[i64; 2]> {
    let mut sums = [0; 2];
    tx.scan_columns(Scan::<Row>::all(), (Row::value, Row::sum), |_, (value, sum)| {
        sums[0] += value;
        sums[1] += sum;
        Continue(())
    })?;
    Ok(sums)
}

fn look(session: &mut Session) {
    let seen = session.run(sums).expect("it is read");
    assert_eq!(seen, [0; 2], "a closure sees half of a call");
    let decided = session.run(|tx| match sums(tx)? {
        [0, 0] => Ok(()),
        _ => Err(Error::user("it was seen in between")),
    });
    decided.expect("a closure decides for half of a call");
}

fn look_back(session: &mut Session) {
    let seen = session.read(|snapshot| sums(snapshot)).expect("it is read");
    assert_eq!(seen, [0; 2], "a snapshot sees half of a call");
}

/// Calls that write the same rows in other orders, each as often as it likes; closures and snapshots look on.
fn have_an_order(kind: Kind) {
    const THREADS: usize = 3;
    const CALLS: usize = 400;
    if kind.execution() != Execution::Batched {
        return;
    }
    let db = filled(kind);
    let over = AtomicBool::new(false);
    let mut calls: Vec<([u64; STEPS], [u64; STEPS])> = Vec::new();
    std::thread::scope(|scope| {
        let looks = [look, look_back].map(|look| {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let mut session = db.session().expect("there are sessions");
                // Relaxed: a flag.
                while !over.load(Ordering::Relaxed) {
                    look(&mut session);
                }
            })
        });
        let all = std::sync::Mutex::new(Vec::new());
        on_threads(kind, &db, THREADS, |session, random, _| {
            let mut submitted = Vec::new();
            for at in 0..CALLS {
                let keys = [(); STEPS].map(|()| random.below(ROWS));
                let amount = random.below(100) as i64;
                let pending = session.submit(PiecesMove, (keys, amount)).expect("it is submitted");
                submitted.push((keys, pending));
                if at % 100 == 99 {
                    let own = session.call(PiecesMove, (keys, 1)).expect("it commits");
                    all.lock().expect("nobody panics").push((keys, own));
                }
            }
            for (keys, pending) in submitted {
                let versions = pending.wait().expect("it commits");
                all.lock().expect("nobody panics").push((keys, versions));
            }
        });
        over.store(true, Ordering::Relaxed);
        calls = all.into_inner().expect("nobody panics");
        looks.into_iter().for_each(|looks| looks.join().expect("it sees whole calls"));
    });
    assert_eq!(calls.len(), THREADS * (CALLS + CALLS / 100));
    let metrics = db.metrics();
    assert_eq!(metrics.stats.unforeseen, 0, "{metrics}");
    let pieces = metrics.graph.expect("calls are gathered").in_pieces;
    assert_eq!(pieces > 0, in_pieces(kind), "{metrics}");
    assert_acyclic(&calls);
}

/// Who wrote a row before another comes before it everywhere.
fn assert_acyclic(calls: &[([u64; STEPS], [u64; STEPS])]) {
    let mut writers: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (call, (keys, versions)) in calls.iter().enumerate() {
        for (key, version) in keys.iter().zip(versions) {
            assert_eq!(writers.insert((*key, *version), call), None, "row {key} was written twice at once");
        }
    }
    let mut after = vec![Vec::new(); calls.len()];
    let mut before = vec![0; calls.len()];
    let pairs = writers.iter().zip(writers.iter().skip(1));
    for ((&(row, version), &one), (&(other_row, other_version), &other)) in pairs {
        if row == other_row {
            assert_eq!(version + 1, other_version, "a write of row {row} is lost");
            if one != other {
                after[one].push(other);
                before[other] += 1;
            }
        }
    }
    let mut free: Vec<usize> = (0..calls.len()).filter(|call| before[*call] == 0).collect();
    let mut ordered = 0;
    while let Some(call) = free.pop() {
        ordered += 1;
        for next in &after[call] {
            before[*next] -= 1;
            if before[*next] == 0 {
                free.push(*next);
            }
        }
    }
    assert_eq!(ordered, calls.len(), "some calls come before each other");
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "pieces_entry")]
struct Entry {
    #[key]
    list: u64,
    #[key]
    number: u64,
}

fn tell_list(to: &mut Announcement<'_>, list: u64, number: u64) {
    to.writes(list, Row::version);
    to.scans(Scan::<Entry>::prefix((list,)));
    to.writes_row::<Entry>((list, number));
    to.scans(Scan::<Entry>::prefix(((list + 1) % 2,)));
}

/// Counts the entries of a list, adds one, and counts those of the other list.
#[procedure(announce = tell_list)]
fn pieces_list(tx: &mut impl Transaction, list: u64, number: u64) -> Result<(u64, usize, usize)> {
    #[later]
    let version = tx.update_columns(list, Row::version, |version| {
        *version += 1;
        *version
    })?;
    let (mut own, mut other) = (0, 0);
    tx.scan(Scan::<Entry>::prefix((list,)), |_| {
        own += 1;
        Continue(())
    })?;
    tx.insert(Entry { list, number })?;
    tx.scan(Scan::<Entry>::prefix(((list + 1) % 2,)), |_| {
        other += 1;
        Continue(())
    })?;
    Ok((version, own, other))
}

/// Calls that scan what others insert: the numbers of entries follow from one order of all calls.
fn scan_and_insert(kind: Kind) {
    const CALLS: u64 = 150;
    if kind.execution() != Execution::Batched {
        return;
    }
    let db = filled(kind);
    let seen = std::sync::Mutex::new(Vec::new());
    on_threads(kind, &db, 3, |session, _, thread| {
        let thread = thread as u64;
        let submitted: Vec<_> = (0..CALLS)
            .map(|at| {
                let list = (at + thread) % 2;
                let pending = session.submit(PiecesList, (list, thread * CALLS + at));
                (list, pending.expect("it is submitted"))
            })
            .collect();
        for (list, pending) in submitted {
            let (version, own, other) = pending.wait().expect("it commits");
            assert_eq!(own as u64 + 1, version, "it counts those that came before");
            let numbers = if list == 0 { (own + 1, other) } else { (other, own + 1) };
            seen.lock().expect("nobody panics").push(numbers);
        }
    });
    // In one order of all calls both numbers rise.
    let mut seen = seen.into_inner().expect("nobody panics");
    seen.sort_unstable();
    assert!(seen.iter().zip(&seen[1..]).all(|(one, other)| one.1 <= other.1 && one != other), "{seen:?}");
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "pieces_tagged", index(PiecesByTag(tag)))]
struct Tagged {
    #[key]
    key: u64,
    tag: u64,
}

fn tell_renew(to: &mut Announcement<'_>, row: Tagged) {
    to.inserts(&row);
    to.inserts(&row);
    to.adds(row.key, Row::sum);
}

/// Removes a row that has entries in an index, and adds it again.
#[procedure(announce = tell_renew)]
fn pieces_renew(tx: &mut impl Transaction, row: Tagged) -> Result<bool> {
    #[later]
    let was_there = tx.delete::<Tagged>(row.key)?;
    tx.insert::<Tagged>(row)?;
    tx.add(Row::sum, row.key, 1)?;
    Ok(was_there)
}

/// An operation that comes to a row several times, as the removal of one with entries does, is one access.
fn remove_and_insert(kind: Kind) {
    const CALLS: u64 = 200;
    if kind.execution() != Execution::Batched {
        return;
    }
    let db = filled(kind);
    on_threads(kind, &db, 3, |session, _, _| {
        let submitted: Vec<_> =
            (0..CALLS).map(|at| session.submit(PiecesRenew, Tagged { key: at % 2, tag: 7 })).collect();
        for pending in submitted {
            pending.and_then(|pending| pending.wait()).expect("it commits");
        }
    });
    let rows = db.session().and_then(|mut session| session.run(|tx| tx.collect(Scan::<Tagged>::all())));
    assert_eq!(rows.expect("it is read").len(), 2);
}

fn tell_try(to: &mut Announcement<'_>, keys: [u64; 3], most: i64, told: usize, _: bool) {
    let _ = most;
    keys.iter().take(told).for_each(|key| to.writes(*key, Row::value));
}

/// Adds one to three rows, unless the first has reached `most`; or gives up when it must not any more.
#[procedure(announce = tell_try)]
fn pieces_try(tx: &mut impl Transaction, keys: [u64; 3], most: i64, told: usize, late: bool) -> Result<()> {
    let _ = told;
    let first = tx.update_columns(keys[0], Row::value, |value| {
        *value += 1;
        *value
    })?;
    if first > most {
        return Err(Error::user("it is full"));
    }
    #[later]
    tx.update_columns(keys[1], Row::value, |value| *value += 1)?;
    tx.update_columns(keys[2], Row::value, |value| *value += 1)?;
    if late {
        return Err(Error::user("it is late"));
    }
    Ok(())
}

fn values(db: &Database) -> Vec<i64> {
    let rows = db.session().and_then(|mut session| session.run(|tx| tx.collect(Scan::<Row>::all())));
    rows.expect("it is read").iter().map(|row| row.value).collect()
}

/// Who gives up before its mark has done nothing.
fn give_up_before_others_see_them(kind: Kind) {
    const CALLS: i64 = 300;
    const MOST: i64 = 50;
    if !kind.execution().is_announced() {
        return;
    }
    let db = filled(kind);
    let full = std::sync::atomic::AtomicU64::new(0);
    on_threads(kind, &db, 3, |session, _, thread| {
        let at = |call: i64| (thread as i64 + call) as u64 % 3;
        let submit = |call| {
            let keys = [at(call), 3 + at(call + 1), 6];
            session.submit(PiecesTry, (keys, MOST, 3, false)).expect("it is submitted")
        };
        let submitted: Vec<_> = (0..CALLS).map(submit).collect();
        for pending in submitted {
            match pending.wait() {
                Ok(()) => {}
                Err(Error::User(_)) => _ = full.fetch_add(1, Ordering::Relaxed),
                Err(error) => panic!("{error}"),
            }
        }
    });
    let values = values(&db);
    assert_eq!((&values[..3], values[6]), (&[MOST; 3][..], 3 * MOST), "{values:?}");
    assert_eq!(values[3..6].iter().sum::<i64>(), 3 * MOST, "{values:?}");
    assert_eq!(full.into_inner() as i64, 3 * CALLS - 3 * MOST);
}

/// Where calls are in pieces what a call has not told is refused, and so is giving up when others may have seen it; elsewhere the
/// one is right all the same, and the other is without effect.
fn refuse_what_was_not_told(kind: Kind) {
    if !kind.execution().is_announced() {
        return;
    }
    let db = filled(kind);
    let mut session = db.session().expect("there are sessions");
    let mut call = |told, late| {
        // Whoever comes behind makes the first let go.
        let arguments = [([1, 2, 3], told, late), ([1, 4, 5], 3, false)];
        let pending = arguments.map(|(keys, told, late)| {
            session.submit(PiecesTry, (keys, i64::MAX, told, late)).expect("it is submitted")
        });
        pending.map(|pending| pending.wait())
    };
    let [refused, behind] = call(2, false);
    behind.expect("the one before it has ended");
    match refused {
        Err(Error::Misuse(misuse)) => {
            let is_told = matches!(*misuse, Misuse::Unforeseen { .. } | Misuse::PiecesStand { .. });
            assert!(in_pieces(kind) && is_told && misuse.to_string().contains("pieces_row"), "{misuse}");
        }
        other => assert!(!in_pieces(kind) && other.is_ok(), "{other:?}"),
    }
    assert!(in_pieces(kind) || values(&db)[1..4] == [2, 1, 1]);
    let before = values(&db);
    let [late, behind] = call(3, true);
    behind.expect("the one before it has ended");
    let added = values(&db)[2] - before[2];
    match late {
        Err(Error::Misuse(misuse)) => {
            assert!(in_pieces(kind) && matches!(*misuse, Misuse::PiecesStand { .. }), "{misuse}");
        }
        Err(Error::User(_)) => assert_eq!(added, 0, "it has done nothing"),
        other => panic!("it gives up: {other:?}"),
    }
}

/// Where a call panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Panics {
    Never,
    /// In the function that tells what it will access, when it has told a part.
    Telling,
    /// Before its mark, when it has written a row.
    BeforeMark,
    /// Behind its mark: in the midst of an access, or at the end.
    InAccess,
    AtEnd,
}

fn tell_panic(to: &mut Announcement<'_>, keys: [u64; 3], panics: Panics) {
    to.writes(keys[0], (Row::value, Row::version));
    assert!(panics != Panics::Telling, "it panics: {panics:?}");
    keys[1..].iter().for_each(|key| to.writes(*key, (Row::value, Row::version)));
}

/// Adds one to three rows, and tells their new values.
#[procedure(announce = tell_panic)]
fn pieces_panic(tx: &mut impl Transaction, keys: [u64; 3], panics: Panics) -> Result<[i64; 3]> {
    let first = tx.update_columns(keys[0], (Row::value, Row::version), |(value, version)| {
        *version += 1;
        *value += 1;
        *value
    })?;
    assert!(panics != Panics::BeforeMark, "it panics: {panics:?}");
    #[later]
    let second = tx.update_columns(keys[1], (Row::value, Row::version), |(value, version)| {
        *version += 1;
        assert!(panics != Panics::InAccess, "it panics: {panics:?}");
        *value += 1;
        *value
    })?;
    let third = tx.update_columns(keys[2], (Row::value, Row::version), |(value, version)| {
        *version += 1;
        *value += 1;
        *value
    })?;
    assert!(panics != Panics::AtEnd, "it panics: {panics:?}");
    Ok([first, second, third])
}

/// What became of a call that may panic; the panic must be its own.
fn outcome(panics: Panics, wait: impl FnOnce() -> Result<[i64; 3]>) -> Option<[i64; 3]> {
    match catch_unwind(AssertUnwindSafe(wait)) {
        Ok(values) => Some(values.expect("it commits")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            assert_eq!(text, Some(&*format!("it panics: {panics:?}")));
            None
        }
    }
}

/// Calls that panic among others. Who has not come to its mark has done nothing. Who has come further has done nothing of what it did
/// since others last waited for it; what it had let go of before stands where calls are in pieces, and nowhere else. All others
/// commit, each once, and whoever waits for a call hears its own panic.
fn tell_panics(kind: Kind) {
    const CALLS: usize = 300;
    if !kind.execution().is_announced() {
        return;
    }
    let db = filled(kind);
    let calls = std::sync::Mutex::new(Vec::new());
    on_threads(kind, &db, 3, |session, random, _| {
        let submitted: Vec<_> = (0..CALLS)
            .map(|_| {
                let panics = match random.below(8) {
                    0 => Panics::BeforeMark,
                    1 => Panics::InAccess,
                    2 => Panics::AtEnd,
                    _ => Panics::Never,
                };
                // Whose second row is another's first waits in the midst, or makes the other one wait.
                let first = random.below(2);
                let pending = session.submit(PiecesPanic, ([first, 2, 3], panics)).expect("it is submitted");
                (first as usize, panics, pending)
            })
            .collect();
        for (first, panics, pending) in submitted {
            let values = outcome(panics, || pending.wait());
            calls.lock().expect("nobody panics").push((first, panics, values));
        }
    });
    let calls = calls.into_inner().expect("nobody panics");
    assert_eq!(calls.len(), 3 * CALLS);
    let pieces = db.metrics().graph.map_or(0, |graph| graph.in_pieces);
    assert_eq!(pieces > 0, in_pieces(kind), "some are in pieces where that is done");
    let count = |is: &dyn Fn(usize, Panics) -> bool| {
        calls.iter().filter(|(first, panics, _)| is(*first, *panics)).count() as i64
    };
    let never = |_, panics| panics == Panics::Never;
    assert!(calls.iter().all(|(_, panics, values)| values.is_some() == (*panics == Panics::Never)));
    let rows = db.session().and_then(|mut session| session.run(|tx| tx.collect(Scan::<Row>::all())));
    let rows = rows.expect("it is read");
    assert!(rows.iter().all(|row| row.value == row.version as i64), "an access is half done: {rows:?}");
    let mut stands = 0;
    for first in 0..2 {
        let done = count(&|row, panics| row == first && panics == Panics::Never);
        let late = count(&|row, panics| row == first && matches!(panics, Panics::InAccess | Panics::AtEnd));
        let value = rows[first].value;
        assert!((done..=done + late).contains(&value), "row {first}: {done}, {late}: {rows:?}");
        stands += value - done;
    }
    assert_eq!(stands > 0, in_pieces(kind), "{rows:?}");
    let at_end = count(&|_, panics| panics == Panics::AtEnd);
    let done = count(&never);
    let second = rows[2].value;
    assert!(second - done <= stands && (done..=done + at_end).contains(&second), "{rows:?}");
    // Nobody waits for it any more when it has come to its last access.
    assert_eq!(rows[3].value, done, "{rows:?}");
    // Each saw what those before it had done, and nothing of those that panicked but what stands.
    for at in 0..3 {
        let row = |first: usize| if at == 0 { first } else { at + 1 };
        let of_call = |(first, _, values): &(usize, Panics, Option<[i64; 3]>)| {
            values.map(|values| (row(*first), values[at]))
        };
        let mut seen: Vec<_> = calls.iter().filter_map(of_call).collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "an update of row {at} is lost");
        assert!(seen.iter().all(|(row, value)| *value <= rows[*row].value), "{rows:?}");
    }
}

/// Where a call is to tell what it will access, and that panics, it is not executed: whoever waits for it hears of that panic. Elsewhere
/// nobody asks.
fn tell_panics_of_what_tells(kind: Kind) {
    if kind.sessions_max() == 1 {
        return;
    }
    let is_asked = kind.execution().is_announced();
    let db = filled(kind);
    let mut session = db.session().expect("there are sessions");
    let mut done = 0;
    for at in 0..40 {
        let panics = if at % 4 == 0 { Panics::Telling } else { Panics::Never };
        let pending = [Panics::Never, panics, Panics::Never].map(|panics| {
            let pending = session.submit(PiecesPanic, ([0, 1, 2], panics)).expect("it is submitted");
            (panics, pending)
        });
        for (panics, pending) in pending {
            let ended = outcome(panics, || pending.wait());
            assert_eq!(ended.is_none(), is_asked && panics == Panics::Telling);
            done += i64::from(ended.is_some());
        }
        let own = outcome(panics, || session.call(PiecesPanic, ([0, 1, 2], panics)));
        assert_eq!(own.is_none(), is_asked && panics == Panics::Telling);
        done += i64::from(own.is_some());
    }
    assert_eq!(values(&db)[..3], [done; 3]);
    assert_eq!(db.metrics().stats.unforeseen, 0, "nobody is executed who has not told all");
}
