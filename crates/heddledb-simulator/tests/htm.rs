//! The model of hardware transactions.

use heddledb_engine_simulated::sync::simulation::htm::{
    Abort, Interrupted, Tally, abort, attempt, begin, finish, guard, in_region, is_over, stands, tally,
};
use heddledb_engine_simulated::sync::simulation::{Settings, simulate};
use heddledb_engine_simulated::sync::{
    AtomicU64, Mutex, Ordering, Work, lock, shared_memory, spin, thread, work,
};
use std::sync::Arc;

/// A region on words that live as long as the test.
fn region<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    // SAFETY: every word that the bodies here store to is in an `Arc` that its core holds.
    unsafe { attempt(body) }
}

fn words(count: usize) -> Arc<Vec<AtomicU64>> {
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    shared_memory(words.as_ptr().cast(), size_of_val(&words[..]));
    words
}

/// Runs bodies as workers, side by side.
fn workers<R: 'static>(bodies: Vec<Box<dyn FnOnce() -> R>>) -> Vec<R> {
    let started: Vec<_> =
        bodies.into_iter().enumerate().map(|(number, body)| thread::spawn_worker(number, body)).collect();
    started.into_iter().map(|worker| worker.join().unwrap()).collect()
}

fn run<R: 'static>(body: impl FnOnce() -> R + 'static) -> R {
    simulate(Settings::default(), body).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn regions_are_atomic_and_retries_end() {
    const CORES: usize = 8;
    const ROUNDS: u64 = 200;
    let (sums, tally) = run(|| {
        let cells = words(64);
        let bodies = (0..CORES).map(|number| {
            let cells = Arc::clone(&cells);
            Box::new(move || {
                let mut random = heddledb_engine_simulated::sync::Random::new(number as u64);
                for _ in 0..ROUNDS {
                    let (from, to) = (random.below(64) as usize, random.below(64) as usize);
                    let mut tries = 0;
                    while region(|| {
                        assert!(in_region());
                        cells[from].fetch_sub(1, Ordering::Relaxed);
                        work(Work::Cycles(50));
                        cells[to].fetch_add(1, Ordering::Relaxed);
                    })
                    .is_err()
                    {
                        tries += 1;
                        work(Work::Cycles(random.below(100 << tries.min(8))));
                    }
                }
            }) as Box<dyn FnOnce()>
        });
        workers(bodies.collect());
        let sum = cells.iter().fold(0u64, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)));
        (sum, tally())
    });
    assert_eq!(sums, 0);
    assert_eq!(tally.committed, CORES as u64 * ROUNDS);
    assert!(tally.aborted[0] > 0, "eight cores on eight lines conflict: {tally:?}");
    assert_eq!(tally.begun, tally.committed + tally.aborted.iter().sum::<u64>());
}

#[test]
fn a_read_and_a_write_elsewhere_abort_a_writer_but_a_read_no_reader() {
    let outcome = |region_writes: bool, other_writes: bool| {
        run(move || {
            let cells = words(64);
            let (mine, theirs) = (Arc::clone(&cells), cells);
            let first = move || {
                region(|| {
                    if region_writes {
                        mine[0].store(1, Ordering::Relaxed);
                    } else {
                        mine[0].load(Ordering::Relaxed);
                    }
                    work(Work::Cycles(10_000));
                    mine[32].load(Ordering::Relaxed)
                })
                .map(|_| ())
            };
            let second = move || {
                work(Work::Cycles(1_000));
                // Another word of the same line.
                if other_writes {
                    theirs[1].store(2, Ordering::Relaxed);
                } else {
                    theirs[1].load(Ordering::Relaxed);
                }
                Ok(())
            };
            workers::<Result<(), Abort>>(vec![Box::new(first), Box::new(second)])[0]
        })
    };
    assert_eq!(outcome(false, false), Ok(()));
    assert_eq!(outcome(false, true), Err(Abort::Conflict));
    assert_eq!(outcome(true, false), Err(Abort::Conflict));
    assert_eq!(outcome(true, true), Err(Abort::Conflict));
}

#[test]
fn stores_are_seen_inside_and_gone_after_an_abort() {
    let (inside, after, why) = run(|| {
        let cells = words(16);
        workers::<(u64, u64, Result<(), Abort>)>(vec![Box::new(move || {
            let mut seen = 0;
            let outcome = region(|| {
                cells[0].store(7, Ordering::Relaxed);
                cells[0].fetch_add(1, Ordering::Relaxed);
                seen = cells[0].load(Ordering::Relaxed);
                abort::<42>();
            });
            (seen, cells[0].load(Ordering::Relaxed), outcome)
        })])[0]
    });
    assert_eq!((inside, after, why), (8, 0, Err(Abort::Explicit(42))));
    assert!(!Abort::Explicit(42).may_retry() && Abort::Conflict.may_retry());
}

#[test]
fn sets_are_as_large_as_a_cache_and_as_narrow() {
    let lines = |count: usize, stride: usize, writes: bool| {
        run(move || {
            let cells = words(8 * stride * count + 8);
            workers::<Result<(), Abort>>(vec![Box::new(move || {
                region(|| {
                    for line in 0..count {
                        let cell = &cells[8 * line * stride];
                        if writes {
                            cell.store(1, Ordering::Relaxed)
                        } else {
                            _ = cell.load(Ordering::Relaxed)
                        }
                    }
                })
            })])[0]
        })
    };
    assert_eq!(lines(512, 1, true), Ok(()), "64 sets of 8 lines");
    assert_eq!(lines(520, 1, true), Err(Abort::Capacity));
    assert_eq!(lines(8, 64, true), Ok(()));
    assert_eq!(lines(9, 64, true), Err(Abort::Capacity), "all in one set");
    assert_eq!(lines(4_000, 1, false), Ok(()), "more room for reads");
    assert_eq!(lines(17, 1_024, false), Err(Abort::Capacity));
}

#[test]
fn waiting_and_long_regions_abort() {
    let outcomes = run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let cells = words(8);
        workers::<[Result<(), Abort>; 2]>(vec![Box::new(move || {
            let waiting = region(|| *lock(&mutex) += 1);
            assert_eq!(*lock(&mutex), 0, "and the mutex is free");
            let long = region(|| {
                work(Work::Cycles(10_000_000));
                cells[0].store(1, Ordering::Relaxed);
            });
            [waiting, long]
        })])[0]
    });
    assert_eq!(outcomes, [Err(Abort::Unfriendly), Err(Abort::Interrupt)]);
}

#[test]
fn regions_nest_flat_and_panics_go_on() {
    let (nested, panicked) = run(|| {
        let cells = words(8);
        workers::<(Result<(), Abort>, bool)>(vec![Box::new(move || {
            let nested = region(|| {
                cells[0].store(1, Ordering::Relaxed);
                let inner = region(abort::<3>);
                assert!(inner.is_ok(), "never reached: the whole is aborted");
            });
            assert_eq!(cells[0].load(Ordering::Relaxed), 0);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                region(|| std::panic::resume_unwind(Box::new("its own")))
            }));
            (nested, panicked.is_err())
        })])
        .remove(0)
    });
    assert_eq!((nested, panicked), (Err(Abort::Explicit(3)), true));
}

/// A region that stays open from operation to operation: the one that finds it aborted ends, and so do those that follow.
#[test]
fn an_open_region_ends_where_it_is_aborted() {
    let (outcome, other) = run(|| {
        let cells = words(64);
        let (mine, theirs) = (Arc::clone(&cells), Arc::clone(&cells));
        let open = move || {
            // SAFETY: the words live as long as the test; the region ends here.
            unsafe { begin() }.unwrap();
            guard(|| mine[0].store(7, Ordering::Relaxed)).unwrap();
            assert_eq!(stands(), Ok(()));
            let sight = mine[0].load(Ordering::Relaxed);
            assert_eq!(sight, 7, "its own stores are seen");
            work(Work::Cycles(10_000));
            // Another core has read the line meanwhile.
            assert_eq!(guard(|| mine[8].load(Ordering::Relaxed)), Err(Interrupted));
            assert!(is_over());
            assert_eq!(guard(|| unreachable!("it is over")), Err::<(), _>(Interrupted));
            // What is on the way to the end has no effect.
            mine[16].store(7, Ordering::Relaxed);
            let ended = finish(|| ()).unwrap_err();
            assert!(!in_region() && !is_over());
            vec![ended]
        };
        let reader = move || {
            work(Work::Cycles(5_000));
            let seen = theirs[0].load(Ordering::Relaxed);
            assert_eq!(seen, 0, "a region's store is nobody else's");
            Vec::new()
        };
        let outcomes = workers::<Vec<Abort>>(vec![Box::new(open), Box::new(reader)]);
        let sum: u64 = cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum();
        (outcomes[0].clone(), sum)
    });
    assert_eq!((outcome, other), (vec![Abort::Conflict], 0));
}

/// A spin hint ends a region, as the processor's pause does.
#[test]
fn spinning_aborts() {
    let outcome = run(|| workers::<Result<(), Abort>>(vec![Box::new(|| region(|| spin(1)))])[0]);
    assert_eq!(outcome, Err(Abort::Unfriendly));
}

#[test]
fn outside_a_simulation_there_is_no_such_hardware() {
    assert_eq!(region(|| 1), Err(Abort::Unfriendly));
    assert_eq!(tally(), Tally::default());
}
