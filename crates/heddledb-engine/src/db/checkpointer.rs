//! The thread that takes checkpoints.

use crate::durability::RedoLog;
use crate::sync::{Condvar, Mutex, lock, thread};
use std::sync::Arc;
use std::time::Duration;

/// How often the log's length is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Takes checkpoints when the log has grown, until it is dropped.
pub(super) struct Checkpointer {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. It takes a checkpoint whenever the log has more than so many bytes.
    pub fn start(log: Arc<RedoLog>, log_bytes: u64, take: impl Fn() + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (flag, signal) = &*stopped;
            let mut guard = lock(flag);
            while !*guard {
                guard = match signal.wait_timeout(guard, LOOK) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
                if !*guard && log.generation_bytes() > log_bytes {
                    drop(guard);
                    take();
                    guard = lock(flag);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Checkpointer {
    /// Waits for the checkpoint that is being taken.
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
