//! Threads that execute what is given to them, in the order in which it was given, some of it first.

use crate::sync::{Condvar, Mutex, lock, thread, wait_notified};
use std::collections::VecDeque;
use std::sync::Arc;

/// After so many jobs that came first in a row, one that waits behind them is executed.
const FIRST_IN_A_ROW: u32 = 8;

/// What one of the threads does.
pub trait Work<J>: Send + 'static {
    /// Executes a job. A panic would end the thread, so there must be none.
    fn execute(&mut self, job: J);
    /// There is nothing to execute: completes what was put off, before the thread waits or ends.
    fn rest(&mut self);
}

/// The threads, and the jobs that wait for one of them. Dropping it executes what waits, and ends the threads.
pub struct Executors<J> {
    shared: Arc<Shared<J>>,
    threads: Threads,
}

/// Threads that are waited for when this is dropped.
pub struct Threads(Vec<thread::JoinHandle<()>>);

impl Threads {
    /// Starts a thread for each of these.
    pub fn start<R: FnOnce() + Send + 'static>(runs: impl IntoIterator<Item = R>) -> Self {
        Self(runs.into_iter().map(thread::spawn).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let own = thread::current().id();
        for thread in self.0.drain(..) {
            // One of them may drop this, with what a job held: it ends when it has come to its end.
            if thread.thread().id() != own {
                // The panic hook has reported a panic; there is no more to do here.
                let _ = thread.join();
            }
        }
    }
}

struct Shared<J> {
    queue: Mutex<Queue<J>>,
    /// There is a job, or there will be none.
    changed: Condvar,
}

struct Queue<J> {
    jobs: Waiting<J>,
    /// Threads that wait for a job.
    idle: usize,
    closed: bool,
}

/// What waits, in two classes of which one comes first. Its memory is kept.
#[derive(Debug)]
pub(crate) struct Waiting<J> {
    first: VecDeque<J>,
    others: VecDeque<J>,
    /// How many of the first were taken while others waited, since one of these was.
    in_a_row: u32,
}

impl<J> Default for Waiting<J> {
    fn default() -> Self {
        Self { first: VecDeque::new(), others: VecDeque::new(), in_a_row: 0 }
    }
}

impl<J> Waiting<J> {
    pub fn len(&self) -> usize {
        self.first.len() + self.others.len()
    }

    /// Adds one behind all, or, if it is to be among the first, behind these only.
    pub fn push(&mut self, job: J, first: bool) {
        if first { self.first.push_back(job) } else { self.others.push_back(job) }
    }

    /// Takes the next.
    pub fn take(&mut self) -> Option<J> {
        if self.others.is_empty() {
            self.in_a_row = 0;
            return self.first.pop_front();
        }
        if self.in_a_row < FIRST_IN_A_ROW
            && let Some(job) = self.first.pop_front()
        {
            self.in_a_row += 1;
            return Some(job);
        }
        self.in_a_row = 0;
        self.others.pop_front()
    }
}

impl<J: Send + 'static> Executors<J> {
    /// Starts a thread for each of these.
    pub fn start<W: Work<J>>(works: Vec<W>) -> Self {
        let queue = Queue { jobs: Waiting::default(), idle: 0, closed: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let run = |mut work: W| {
            let shared = Arc::clone(&shared);
            move || shared.run(&mut work)
        };
        let threads = Threads::start(works.into_iter().map(run));
        Self { shared, threads }
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.threads.count()
    }

    /// Has a job executed: behind all that was pushed, or, if it is to be among the first, behind these only.
    pub fn push(&self, job: J, first: bool) {
        let mut queue = lock(&self.shared.queue);
        queue.jobs.push(job, first);
        let wake = queue.idle > 0;
        drop(queue);
        if wake {
            self.shared.changed.notify_one();
        }
    }

    /// How many jobs wait for a thread.
    pub fn waiting(&self) -> usize {
        lock(&self.shared.queue).jobs.len()
    }
}

impl<J> Shared<J> {
    fn run(&self, work: &mut impl Work<J>) {
        loop {
            let job = lock(&self.queue).jobs.take();
            let job = job.or_else(|| {
                work.rest();
                self.wait()
            });
            match job {
                Some(job) => work.execute(job),
                None => return,
            }
        }
    }

    /// Waits for a job; `None` if there will be none.
    fn wait(&self) -> Option<J> {
        let mut queue = lock(&self.queue);
        loop {
            let job = queue.jobs.take();
            if job.is_some() || queue.closed {
                return job;
            }
            queue.idle += 1;
            queue = wait_notified(&self.changed, queue);
            queue.idle -= 1;
        }
    }
}

impl<J> Drop for Executors<J> {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.changed.notify_all();
        // Now the threads are waited for.
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "simulation"))))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Tells the jobs that it executes; number 0 waits until it is told to go on.
    struct Telling(Sender<u32>, Receiver<()>);

    impl Work<u32> for Telling {
        fn execute(&mut self, job: u32) {
            if job == 0 {
                self.1.recv().expect("the test is there");
            }
            self.0.send(job).expect("the test is there");
        }
        fn rest(&mut self) {}
    }

    #[test]
    fn nothing_waits_for_ever_behind_the_first() {
        let ((tell, told), (go, going)) = (channel(), channel());
        let executors = Executors::start(vec![Telling(tell, going)]);
        executors.push(0, false);
        while executors.waiting() > 0 {
            thread::yield_now();
        }
        (1..=3).for_each(|job| executors.push(job, false));
        (10..30).for_each(|job| executors.push(job, true));
        go.send(()).expect("the thread is there");
        drop(executors);
        let executed: Vec<u32> = told.iter().collect();
        let expected = (0..1).chain(10..18).chain([1]).chain(18..26).chain([2]).chain(26..30).chain([3]);
        assert_eq!(executed, expected.collect::<Vec<_>>());
    }

    #[test]
    fn dropping_executes_what_waits() {
        let (tell, told) = channel();
        let executors = Executors::start(vec![
            Telling(tell.clone(), channel().1),
            Telling(tell.clone(), channel().1),
            Telling(tell, channel().1),
        ]);
        (1..=1000).for_each(|job| executors.push(job, job % 3 == 0));
        drop(executors);
        let mut executed: Vec<u32> = told.iter().collect();
        executed.sort_unstable();
        assert_eq!(executed, (1..=1000).collect::<Vec<_>>());
    }
}
