//! How long a thread spins before it yields, where other programs want its core.
//!
//! A yield costs little where no other thread wants the core. Where one does that has nothing to do with what is waited for, a
//! compiler beside the database, it costs a time slice of some milliseconds, and the end of a transaction is some microseconds
//! away. So a thread whose yields took long lately spins longer before the next. Where it was right to yield, as another session had
//! to run on that core, that costs a percent of the slice.
//!
//! Test by hand: `heddle bench ycsb --protocol dataflow --queue 32 --preset high` beside a program that uses a core.

use super::{IN_PLACE, now_ns, yield_now};
use std::cell::Cell;

/// Pauses before a yield, of so many hints each: 20 to 60 us in all.
const PAUSES: u32 = 16;
/// Hints of a pause.
pub const HINTS: u64 = 64;
/// A yield takes that long if another program has had the core.
const LONG_NS: u64 = 500_000;
/// So many short yields until a long one is forgotten.
const REMEMBERED: u32 = 64;

thread_local! {
    /// Of this thread alone, and no decision but how long it spins rests on it. Above 0 where yields took long lately.
    static LONG: Cell<u32> = const { Cell::new(0) };
}

/// Pauses before the first yield of a wait.
pub fn pauses() -> u32 {
    if IN_PLACE && LONG.get() > 0 { PAUSES } else { 0 }
}

/// Yields, and remembers how long that took.
pub fn yield_core() {
    if !IN_PLACE {
        return yield_now();
    }
    let start = now_ns();
    yield_now();
    took(now_ns().saturating_sub(start));
}

fn took(nanoseconds: u64) {
    let long = if nanoseconds >= LONG_NS { REMEMBERED } else { LONG.get().saturating_sub(1) };
    LONG.set(long);
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "simulation"))))]
mod tests {
    use super::*;

    #[test]
    fn a_long_yield_is_remembered_for_some_short_ones() {
        took(0);
        assert_eq!(pauses(), 0);
        took(LONG_NS);
        assert_eq!(pauses(), PAUSES);
        (1..REMEMBERED).for_each(|_| took(LONG_NS - 1));
        assert_eq!(pauses(), PAUSES);
        took(0);
        assert_eq!(pauses(), 0);
    }
}
