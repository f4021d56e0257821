//! Workers that have found nothing to do. Each sleeps in a bed of its own, so that whoever is called meets nobody at a lock when it gets
//! up; and only as many are called as there is something to do for.

use crate::mutant::{Mutant, planted};
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock, wait_notified};
use std::sync::Arc;

/// Those who sleep, or are about to.
#[derive(Default)]
pub(super) struct Sleepers {
    /// The last who came is called first: its cache knows most.
    beds: Mutex<Vec<Arc<Bed>>>,
    /// How many there are. Changed under the lock.
    count: AtomicU32,
}

/// Where a worker sleeps.
#[derive(Debug, Default)]
pub(super) struct Bed {
    called: Mutex<bool>,
    calls: Condvar,
}

impl Sleepers {
    /// Sleeps until called. `look` says whether there is something to do all the same, and is asked when calls cannot be missed any
    /// more; what it says is passed on.
    pub fn sleep<T>(&self, bed: &Arc<Bed>, look: impl FnOnce() -> Option<T>) -> Option<T> {
        self.change(|beds| {
            *lock(&bed.called) = false;
            beds.push(Arc::clone(bed));
        });
        // SeqCst: either this sees what has changed, or who changed it sees that somebody sleeps.
        fence(Ordering::SeqCst);
        let found = look();
        if found.is_some() {
            // If it was called meanwhile, for something else: it goes and looks.
            self.change(|beds| beds.retain(|other| !Arc::ptr_eq(other, bed)));
            return found;
        }
        let mut called = lock(&bed.called);
        while !*called {
            called = wait_notified(&bed.calls, called);
        }
        None
    }

    /// There may be something to do, for so many.
    pub fn call(&self, most: usize) {
        // SeqCst: as in `sleep`.
        fence(Ordering::SeqCst);
        for _ in 0..most {
            // Relaxed: ordered by the fence, or a hint.
            if self.count.load(Ordering::Relaxed) == 0 || planted(Mutant::GatheredNobodyCalled) {
                return;
            }
            // Under the lock, so that it is not the next sleep of this bed that is called off.
            let called = self.change(|beds| beds.pop().inspect(|bed| *lock(&bed.called) = true));
            let Some(bed) = called else { return };
            bed.calls.notify_one();
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Bed>>) -> T) -> T {
        let mut beds = lock(&self.beds);
        let outcome = change(&mut beds);
        // Relaxed: ordered by the fences.
        self.count.store(beds.len() as u32, Ordering::Relaxed);
        outcome
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::models::explore;
    use crate::sync::{AtomicU64, thread};

    /// Whoever sleeps while there is something to do is called, also if it was called before and had found that itself.
    #[test]
    fn nobody_sleeps_for_ever() {
        explore(|| {
            let shared = Arc::new((Sleepers::default(), AtomicU64::new(0)));
            let worker = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (bed, (sleepers, work)) = (Arc::default(), &*shared);
                    for wanted in 1..=2 {
                        let look = || (work.load(Ordering::Relaxed) >= wanted).then_some(());
                        while look().is_none() {
                            sleepers.sleep(&bed, look);
                        }
                    }
                })
            };
            let (sleepers, work) = &*shared;
            for _ in 0..2 {
                work.fetch_add(1, Ordering::Relaxed);
                sleepers.call(1);
            }
            worker.join().expect("it does not panic");
        });
    }
}
