//! The conformance suite under every protocol.

use heddledb::protocol::Kind;
use heddledb_check::conformance::{Test, suite};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Tests of one protocol that run beside each other: many wait, for locks above all.
const BESIDE: usize = 2;

fn run_suite(kind: Kind) {
    let only = std::env::var("HEDDLE_TEST").ok();
    let mut tests = suite();
    tests.retain(|test| only.as_deref().is_none_or(|name| test.name.contains(name)));
    let left = Mutex::new(tests.into_iter());
    let take = || left.lock().expect("nobody panics with it").next();
    let some = || {
        while let Some(Test { name, run }) = take() {
            let start = Instant::now();
            println!("{kind}: {name}");
            if let Err(panic) = catch_unwind(|| run(kind)) {
                println!("{kind}: {name} has failed");
                // Whoever runs beside it ends with its own.
                while take().is_some() {}
                resume_unwind(panic);
            }
            println!("{kind}: {name} passed in {:?}", start.elapsed());
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..BESIDE).map(|_| scope.spawn(some)).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

macro_rules! conformance {
    ($($name:ident $kind:ident;)*) => {
        $(
            #[test]
            fn $name() {
                run_suite(Kind::$kind);
            }
        )*

        /// A kind that is not listed here would not be tested.
        #[test]
        fn every_kind_is_listed() {
            assert_eq!(&[$(Kind::$kind),*][..], Kind::ALL);
        }
    };
}

conformance! {
    unprotected Unprotected;
    silo Silo;
    tictoc TicToc;
    tictoc_sorted TicTocSorted;
    tictoc_no_wait TicTocNoWait;
    tictoc_opaque TicTocOpaque;
    tictoc_history TicTocHistory;
    tictoc_packed TicTocPacked;
    no_wait NoWait;
    wait_die WaitDie;
    dl_detect DlDetect;
    ordered_2pl Ordered2pl;
    ts_alloc TsAlloc;
    dta Dta;
    hekaton Hekaton;
    nested_occ NestedOcc;
    chopping_occ ChoppingOcc;
    chopping_2pl Chopping2pl;
    deterministic_lazy DeterministicLazy;
    datm Datm;
    ic3 Ic3;
    ic3_basic Ic3Basic;
    ic3_optimistic Ic3Optimistic;
    ic3_no_rendezvous Ic3NoRendezvous;
    ic3_contended Ic3Contended;
    drp Drp;
    drp_opaque DrpOpaque;
    deferred_2pl Deferred2pl;
    tl2 Tl2;
    dataflow Dataflow;
    dgcc Dgcc;
    dgcc_levels DgccLevels;
    dbx_tc DbxTc;
    dbx_tc_deferred DbxTcDeferred;
    dbx_tc_lazy DbxTcLazy;
    dbx Dbx;
    htm Htm;
    htm_partition HtmPartition;
    one_writer OneWriter;
}
