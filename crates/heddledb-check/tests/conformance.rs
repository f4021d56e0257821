//! The conformance suite under every protocol.

use heddledb::protocol::Kind;
use heddledb_check::conformance::suite;

fn run_suite(kind: Kind) {
    let only = std::env::var("HEDDLE_TEST").ok();
    for test in suite() {
        if only.as_deref().is_none_or(|name| test.name.contains(name)) {
            let start = std::time::Instant::now();
            println!("{kind}: {}", test.name);
            (test.run)(kind);
            println!("  passed in {:?}", start.elapsed());
        }
    }
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
