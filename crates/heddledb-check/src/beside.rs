//! Tests beside each other, each on a thread of its own.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// How many threads the machine runs at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does the same with each item, on so many threads, and hands the results to `told` in the order of
/// the items. Where that panics, no other item is begun.
pub fn each<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut told: impl FnMut(R),
) {
    let next = AtomicUsize::new(0);
    let (work, next) = (&work, &next);
    thread::scope(|scope| {
        let (tell, results) = channel();
        for _ in 0..threads.min(items.len()) {
            let tell = tell.clone();
            scope.spawn(move || {
                loop {
                    // Relaxed: it orders nothing, and gives each number once.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if tell.send((at, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(tell);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (at, result) in results {
            early.insert(at, result);
            while let Some(result) = early.remove(&due) {
                told(result);
                due += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let mut results = Vec::new();
        each(3, &items, |item| item * item, |result| results.push(result));
        assert!(results.into_iter().eq(items.iter().map(|item| item * item)));
        each(3, &[], |item: &u64| *item, |_| panic!("there is none"));
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn who_is_told_may_panic() {
        each(3, &[1, 2, 3, 4], |item| *item, |item| assert!(item < 3, "the third"));
    }
}
