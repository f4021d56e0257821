//! The virtual machine: known shapes, waiting, determinism.

use heddledb_engine_simulated::sync::simulation::{Failure, Settings, clock, counts, free, simulate, steps};
use heddledb_engine_simulated::sync::{AtomicU64, Condvar, Mutex, Ordering, lock, sleep, spin_until, thread};
use heddledb_simulator::shapes::Shape;
use std::sync::Arc;
use std::time::Duration;

const WINDOW: Duration = Duration::from_micros(200);

#[test]
fn a_shared_counter_and_a_queue_lock_are_flat() {
    for shape in [Shape::SharedCounter, Shape::Mcs] {
        let few = shape.rate(4, WINDOW);
        for cores in [16, 64, 256] {
            let ratio = shape.rate(cores, WINDOW) / few;
            assert!((0.8..1.25).contains(&ratio), "{} on {cores} cores: {ratio} of 4", shape.name());
        }
    }
}

#[test]
fn locks_on_one_line_collapse() {
    for shape in [Shape::TestAndSet, Shape::TestAndTestAndSet] {
        let rates = [2, 16, 64, 256].map(|cores| shape.rate(cores, 4 * WINDOW));
        assert!(rates.is_sorted_by(|more, less| less < more), "{}: {rates:?}", shape.name());
        assert!(rates[3] * 10.0 < rates[0], "{}: {rates:?}", shape.name());
    }
}

#[test]
fn timestamps_from_one_counter_scale_until_its_rate() {
    let rates = [1, 8, 256, 1024].map(|cores| Shape::TimestampAllocation.rate(cores, WINDOW));
    let most = Shape::SharedCounter.rate(256, WINDOW);
    assert!(rates[1] > 6.0 * rates[0], "{rates:?}");
    assert!(rates[2] < 1.3 * most && rates[3] < 1.3 * most, "{rates:?} above {most}");
}

#[test]
fn private_counters_scale_perfectly() {
    let [one, many] = [1, 256].map(|cores| Shape::PrivateCounter.rate(cores, WINDOW));
    assert!((many / one - 256.0).abs() < 1.0, "{one} {many}");
}

/// A simulation, or why it has none, that must not.
fn run<R: 'static>(body: impl FnOnce() -> R + 'static) -> R {
    simulate(Settings::default(), body).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn mutexes_and_conditions_wait_in_virtual_time() {
    let begun = std::time::Instant::now();
    let (sum, slept) = run(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waiters: Vec<_> = (0..4)
            .map(|number| {
                let shared = Arc::clone(&shared);
                thread::spawn_worker(number, move || {
                    let (value, changed) = &*shared;
                    let mut guard = lock(value);
                    while *guard == 0 {
                        guard = changed.wait(guard).unwrap();
                    }
                    *guard += 1;
                })
            })
            .collect();
        // A day, which nobody waits for.
        sleep(Duration::from_secs(86_400));
        *lock(&shared.0) = 10;
        shared.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        let sum = *lock(&shared.0);
        (sum, clock())
    });
    assert_eq!(sum, 14);
    assert!(slept >= 86_400 * 2_600_000_000 && begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_timed_wait_ends_at_its_time() {
    let timed_out = run(|| {
        let pair = (Mutex::new(()), Condvar::new());
        let before = heddledb_engine_simulated::sync::now_ns();
        let (guard, result) = pair.1.wait_timeout(lock(&pair.0), Duration::from_millis(3)).unwrap();
        drop(guard);
        (result.timed_out(), heddledb_engine_simulated::sync::now_ns() - before)
    });
    assert!(timed_out.0 && (3_000_000..3_100_000).contains(&timed_out.1), "{timed_out:?}");
}

#[test]
fn a_spinning_core_sleeps_until_its_line_is_written() {
    let spun = run(|| {
        let flag = Arc::new(AtomicU64::new(0));
        let spinner = {
            let flag = Arc::clone(&flag);
            thread::spawn_worker(0, move || {
                spin_until(|| flag.load(Ordering::Acquire) == 1);
                (counts().accesses, counts().waiting_cycles)
            })
        };
        let other = {
            let flag = Arc::clone(&flag);
            thread::spawn_worker(1, move || {
                sleep(Duration::from_millis(10));
                flag.store(1, Ordering::Release);
            })
        };
        other.join().unwrap();
        spinner.join().unwrap()
    });
    assert_eq!(spun.0, 2, "one look before and one after the write");
    assert!(spun.1 > 25_000_000, "{spun:?}");
}

/// An exchange that fails writes the line that it watches, and must not forget to watch it.
#[test]
fn who_waits_with_an_exchange_is_woken() {
    const CORES: usize = 12;
    let body = || {
        let turn = Arc::new(AtomicU64::new(1));
        let takers: Vec<_> = (0..CORES)
            .map(|number| {
                let turn = Arc::clone(&turn);
                thread::spawn_worker(number, move || {
                    let take = || turn.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
                    spin_until(take);
                    turn.store(0, Ordering::Release);
                })
            })
            .collect();
        turn.store(0, Ordering::Release);
        takers.into_iter().for_each(|taker| taker.join().expect("no panic"));
    };
    simulate(Settings::default(), body).expect("all have had their turn");
}

#[test]
fn who_cannot_go_on_is_told() {
    let failure = simulate(Settings::default(), || {
        let (mutex, condition) = (Mutex::new(()), Condvar::new());
        let guard = lock(&mutex);
        drop(condition.wait(guard));
    });
    assert!(matches!(&failure, Err(Failure::Deadlock { .. })), "{failure:?}");
    let settings = Settings { steps_max: 10_000, ..Settings::default() };
    let failure = simulate(settings, || {
        let word = Arc::new(AtomicU64::new(0));
        let busy = thread::spawn_worker(0, move || while word.fetch_add(1, Ordering::Relaxed) < u64::MAX {});
        busy.join().unwrap();
    });
    assert!(matches!(&failure, Err(Failure::Endless { steps: 10_001, .. })), "{failure:?}");
}

#[test]
fn a_panic_of_a_thread_is_its_joiners() {
    let outcome = run(|| thread::spawn_worker(0, || panic!("on purpose")).join().is_err());
    assert!(outcome);
    let failure = simulate(Settings::default(), || panic!("the body's own"));
    assert_eq!(failure, Err::<(), _>(Failure::Panic("the body's own".into())));
}

#[test]
fn free_work_takes_no_time() {
    let (before, after) = run(|| {
        thread::spawn_worker(0, || {
            let word = AtomicU64::new(0);
            let before = (clock(), steps());
            free(|| (0..1_000).for_each(|_| _ = word.fetch_add(1, Ordering::Relaxed)));
            (before, (clock(), steps()))
        })
        .join()
        .unwrap()
    });
    assert_eq!(before, after);
}
