//! The conformance suite under every protocol.

use heddledb::Protocol;
use heddledb::protocol::{Kind, Visitor};
use heddledb_check::conformance::suite;

struct RunSuite;

impl Visitor for RunSuite {
    type Output = ();

    fn visit<P: Protocol>(self, options: P::Options) {
        let only = std::env::var("HEDDLE_TEST").ok();
        for test in suite::<P>() {
            if only.as_deref().is_none_or(|name| test.name.contains(name)) {
                let start = std::time::Instant::now();
                println!("{} {:?}: {}", P::NAME, options, test.name);
                (test.run)(&options);
                println!("  passed in {:?}", start.elapsed());
            }
        }
    }
}

macro_rules! conformance {
    ($($name:ident $kind:ident;)*) => {
        $(
            #[test]
            fn $name() {
                Kind::$kind.visit(RunSuite);
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
    one_writer OneWriter;
}
