//! The same work on many items at once.

/// Runs `work` on all items at once, each on a thread of its own; a single one on the caller's. Returns their
/// results, in order, or the first error; a panic goes on in the caller.
pub fn in_parallel<T: Send, R: Send, E: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(usize, T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let mut items: Vec<T> = items.into_iter().collect();
    if items.len() == 1 {
        return items.drain(..).map(|one| work(0, one)).collect();
    }
    let work = &work;
    let outcomes: Vec<Result<R, E>> = std::thread::scope(|scope| {
        let spawn = |(number, item)| scope.spawn(move || work(number, item));
        let threads: Vec<_> = items.into_iter().enumerate().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect()
}
