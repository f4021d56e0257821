//! In steady state a committed transaction allocates nothing, nor does a submitted call.

use heddledb::protocol::{Execution, Kind};
use heddledb::{
    Database, Deferred, Deferring, DeferringTxn, Pending, Result, Scan, Session, Table, Transaction,
    procedure,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system allocator unchanged; counting has no effect on it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Table, Clone, Copy)]
#[table(index(ByOwner(owner)))]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    #[group(hot)]
    balance: i64,
    #[group(hot)]
    count: u64,
}

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Event {
    #[key]
    id: u64,
    payload: [u8; 40],
}

/// One of each kind of operation; a row and its index entry come and go.
fn transaction(tx: &mut impl Transaction, round: u64) -> Result<()> {
    let id = round % 100;
    tx.update_columns(id, Account::balance, |balance| *balance += 1)?;
    tx.update::<Account, _>(id + 100, |row| row.count += 1)?;
    tx.add(Account::balance, id + 200, 5)?;
    tx.set_columns(id + 300, Account::count, round)?;
    tx.find::<ByOwner>(7)?;
    let mut sum = 0;
    tx.scan_columns(Scan::range(id..id + 40), Account::balance, |_, balance| {
        sum += balance;
        ControlFlow::Continue(())
    })?;
    tx.insert(Event { id: round, payload: [1; 40] })?;
    tx.insert(Account { id: 1_000 + round, owner: 9, balance: sum, count: 0 })?;
    if let Some(old) = round.checked_sub(50) {
        assert!(tx.delete::<Event>(old)? && tx.delete::<Account>(1_000 + old)?);
    }
    Ok(())
}

/// The same for intentions, some of which wait for others; a row comes and goes.
fn deferring(tx: &mut DeferringTxn<'_>, round: u64) -> Result<Deferred<Option<i64>>> {
    let id = round % 100;
    let seen = tx.look(id + 50, Account::balance)?;
    let made = tx.defer(id, Account::balance, seen, |balance, seen| {
        *balance += seen.unwrap_or(1) % 7;
        *balance
    })?;
    let is_even = tx.map(made, |made| made.is_some_and(|made| made % 2 == 0))?;
    tx.when(is_even, |tx| {
        tx.defer(id + 200, Account::count, (), |count, ()| *count += 1)?;
        Ok(())
    })?;
    let is_there = tx.map(seen, |seen| seen.is_some())?;
    tx.ensure(is_there, "there is no such account")?;
    tx.put(round, made, move |_| Event { id: round, payload: [2; 40] })?;
    if let Some(old) = round.checked_sub(50) {
        tx.erase::<Event>(old)?;
    }
    Ok(made)
}

#[procedure]
fn deposit(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<i64> {
    tx.update_columns(id, Account::balance, |balance| {
        *balance += amount;
        *balance
    })
}

/// Submits so many calls, of which as many are under way at once as there is room for, and waits for each.
fn submit(session: &mut Session, calls: u64, pending: &mut VecDeque<Pending<i64>>) {
    for at in 0..calls {
        if pending.len() == 16 {
            pending.pop_front().expect("there are some").wait().expect("it commits");
        }
        pending.push_back(session.submit(Deposit, (at % 10, 1)).expect("it is submitted"));
    }
    pending.drain(..).for_each(|call| _ = call.wait().expect("it commits"));
}

/// One test for all: the counter is the process's.
#[test]
fn steady_state_allocates_nothing() {
    for kind in Kind::ALL.iter().copied() {
        let db = Database::builder().protocol(kind).sessions(1).manual_epochs().open();
        let db = db.expect("the settings are lawful");
        let mut session = db.session().expect("a session is free");
        let insert = |id| Account { id, owner: id as u32 % 10, balance: 0, count: 0 };
        session.run(|tx| (0..400).try_for_each(|id| tx.insert(insert(id)))).expect("the rows are new");
        let run = |session: &mut Session, rounds: std::ops::Range<u64>| {
            for round in rounds {
                session.run(|tx| transaction(tx, round)).expect("nobody else is there");
                if round % 10 == 0 {
                    db.advance_epoch();
                }
            }
        };
        let defer = |session: &mut Session, rounds: std::ops::Range<u64>| {
            for round in rounds {
                session.defer(|tx| deferring(tx, round)).expect("nobody else is there");
                if round % 10 == 0 {
                    db.advance_epoch();
                }
            }
        };
        run(&mut session, 0..5_000);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        run(&mut session, 5_000..10_000);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "{kind}: 5000 transactions allocated");
        defer(&mut session, 10_000..15_000);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        defer(&mut session, 15_000..20_000);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "{kind}: 5000 deferring transactions allocated");
        drop(session);
        submitted_calls_allocate_nothing(kind);
    }
}

fn submitted_calls_allocate_nothing(kind: Kind) {
    const CALLS: u64 = 4_000;
    if kind.sessions_max() == 1 {
        return;
    }
    let builder = Database::builder().protocol(kind).sessions(2).executors(1).window(16).manual_epochs();
    let db = builder.procedure::<Deposit>().open().expect("the settings are lawful");
    let mut session = db.session().expect("a session is free");
    let insert = |id| Account { id, owner: 0, balance: 0, count: 0 };
    session.run(|tx| (0..10).try_for_each(|id| tx.insert(insert(id)))).expect("the rows are new");
    // With debug assertions a call is held to what it declares, which allocates.
    let call = |session: &mut Session| {
        for at in 0..CALLS {
            session.call(Deposit, (at % 10, 1)).expect("nobody else is there");
        }
    };
    let mut pending = VecDeque::with_capacity(16);
    call(&mut session);
    submit(&mut session, CALLS, &mut pending);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    call(&mut session);
    let called = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    submit(&mut session, CALLS, &mut pending);
    let submitted = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // What a batch needs is kept, and how many calls come into one is a matter of time: a larger one than ever may still come.
    let larger = if kind.execution() == Execution::Batched { CALLS / 100 } else { 0 };
    assert!(
        (called..=called + larger).contains(&submitted),
        "{kind}: {submitted} allocations, called {called}"
    );
    assert!(cfg!(debug_assertions) || called == 0, "{kind}: calls allocated");
}
