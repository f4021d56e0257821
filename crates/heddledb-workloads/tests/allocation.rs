//! A committed transaction of a workload allocates nothing of its own.
//!
//! The engine does allocate now and then (blocks of the arena, nodes of an index, buffers that grow
//! at first), so the count is taken after a warm-up and may not reach one in twenty transactions.

use heddledb::protocol::Kind;
use heddledb::{Database, Transaction};
use heddledb_workloads::Workload;
use heddledb_workloads::tpcc::{Mix, Scale, Tpcc};
use heddledb_workloads::{articles, micro, tpcc, tpce, ycsb};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// `None` while nothing is counted.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get().map(|count| count + 1));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations within the bodies of `rounds` transactions.
fn allocations<W: Workload>(workload: &W, rounds: usize) -> u64 {
    let db = workload.tables(Database::builder().protocol(Kind::Silo).sessions(1)).open().unwrap();
    workload.load(&db, 1, &|_| ()).unwrap();
    let mut session = db.session().unwrap();
    let mut generator = workload.generator(0, 1, 2);
    let mut input = W::Input::default();
    let mut total = 0;
    for round in 0..rounds * 2 {
        workload.draw(&mut generator, &mut input);
        let committed = session.run(|tx| {
            COUNT.set(Some(0));
            let output = execute(workload, tx, &input);
            let count = COUNT.take().unwrap_or_default();
            output.map(|output| (output, count))
        });
        let Ok((output, count)) = committed else { continue };
        workload.committed(&mut generator, &input, &output);
        if round >= rounds {
            total += count;
        }
    }
    total
}

fn execute<W: Workload, T: Transaction>(
    workload: &W,
    tx: &mut T,
    input: &W::Input,
) -> heddledb::Result<W::Output> {
    workload.execute(tx, input)
}

#[test]
fn transactions_do_not_allocate() {
    const COUNT: usize = 2000;
    for kind in 0..5 {
        let mut mix = [0; 5];
        mix[kind] = 100;
        let parameters = tpcc::Parameters { scale: Scale::TINY, mix: Mix(mix), ..Default::default() };
        let tpcc = Tpcc::new(parameters).unwrap();
        let found = allocations(&tpcc, COUNT);
        assert!(found < COUNT as u64 / 20, "{}: {found} allocations", tpcc.kinds()[kind]);
    }
    for (name, _) in ycsb::Parameters::PRESETS {
        let parameters = ycsb::Parameters { records: 1000, ..ycsb::Parameters::preset(name).unwrap() };
        let found = allocations(&ycsb::Ycsb::new(parameters).unwrap(), COUNT);
        assert!(found < COUNT as u64 / 20, "ycsb {name}: {found} allocations");
    }
    for limit_pct in [0, 100] {
        let parameters = tpce::Parameters { customers: 100, limit_pct, ..Default::default() };
        let found = allocations(&tpce::Tpce::new(parameters).unwrap(), COUNT);
        assert!(found < COUNT as u64 / 20, "tpce, {limit_pct} % limit orders: {found} allocations");
    }
    for order in [articles::Order::InsertLast, articles::Order::AsWritten] {
        let parameters = articles::Parameters { articles: 1000, order, ..Default::default() };
        let found = allocations(&articles::Articles::new(parameters).unwrap(), COUNT);
        assert!(found < COUNT as u64 / 20, "articles, {}: {found} allocations", order.name());
    }
    let parameters = micro::Parameters { rows: 1000, ..Default::default() };
    let found = allocations(&micro::Micro::new(parameters).unwrap(), COUNT);
    assert!(found < COUNT as u64 / 20, "micro: {found} allocations");
}
