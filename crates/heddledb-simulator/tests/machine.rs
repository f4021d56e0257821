//! The virtual machine itself: known shapes, determinism, waiting, faults.

use heddledb::simulation::*;
use heddledb::sync::{self, AtomicU64, Ordering, thread};
use std::sync::Arc;

#[test]
fn one_shared_counter_is_flat() {
    let rate = |cores: usize| {
        simulate(Settings::default(), move || {
            let counter = Arc::new(AtomicU64::new(0));
            let workers: Vec<_> = (0..cores)
                .map(|number| {
                    let counter = Arc::clone(&counter);
                    thread_worker(number, move || {
                        while clock() < 260_000 {
                            counter.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            (counter.load(Ordering::Relaxed), steps())
        })
        .unwrap()
    };
    let start = std::time::Instant::now();
    for cores in [1, 2, 4, 16, 64, 256, 1024] {
        let begun = std::time::Instant::now();
        let (count, steps) = rate(cores);
        println!("{cores} {count} {steps} {:?}", begun.elapsed());
    }
    println!("{:?}", start.elapsed());
    let _ = sync::now_ns();
}

fn thread_worker<T: 'static>(number: usize, body: impl FnOnce() -> T + 'static) -> thread::JoinHandle<T> {
    thread::spawn_worker(number, body)
}
