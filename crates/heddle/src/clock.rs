//! The clock of the measuring loop.
//!
//! A transaction may take less than a microsecond, so reading the time must cost nanoseconds. On
//! x86-64 the time-stamp counter is read (about 10 ns, against 25 ns for [`Instant`] here), if
//! the kernel says that it ticks evenly; elsewhere [`Instant`] is. Readings are **ticks**: they are
//! kept as they are while the clock runs, and turned into nanoseconds afterwards.
//!
//! This is the one module of the program with unsafe code.

#![expect(unsafe_code, reason = "the intrinsic that reads the time-stamp counter is declared unsafe")]

use std::time::{Duration, Instant};

/// How long the counter is watched to learn its rate. An `Instant` is good to well below 1 µs, so
/// the rate is good to about one part in 20 000.
const CALIBRATION: Duration = Duration::from_millis(20);

/// A steady clock with cheap readings. Readings of different threads may differ by the skew of
/// their cores' counters, so only differences of one thread's readings should be used.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
    nanoseconds_per_tick: f64,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The time-stamp counter.
    #[cfg(target_arch = "x86_64")]
    Counter,
    /// Nanoseconds since this moment.
    Instant(Instant),
}

impl Clock {
    /// Picks the source and measures its rate. Takes 20 ms where the counter is used.
    pub fn calibrate() -> Self {
        #[cfg(target_arch = "x86_64")]
        if counter_is_steady() {
            let (begin, first) = (Instant::now(), counter());
            while begin.elapsed() < CALIBRATION {
                std::hint::spin_loop();
            }
            let (elapsed, last) = (begin.elapsed(), counter());
            let ticks = last.saturating_sub(first);
            if ticks > 0 {
                let nanoseconds_per_tick = elapsed.as_nanos() as f64 / ticks as f64;
                return Self { source: Source::Counter, nanoseconds_per_tick };
            }
        }
        Self { source: Source::Instant(Instant::now()), nanoseconds_per_tick: 1.0 }
    }

    /// The time now, in ticks.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Counter => counter(),
            Source::Instant(origin) => origin.elapsed().as_nanos() as u64,
        }
    }

    /// A number of ticks in nanoseconds.
    pub fn nanoseconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanoseconds_per_tick
    }

    /// The ticks of a duration.
    pub fn ticks(&self, duration: Duration) -> u64 {
        (duration.as_nanos() as f64 / self.nanoseconds_per_tick) as u64
    }
}

/// The time-stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: `rdtsc` reads a register and touches no memory; every x86-64 processor has it. Where
    // a kernel forbids it to user programs `counter_is_steady` does not find the flags that it
    // needs, or the process is ended by a signal, which is not undefined behaviour.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// True if the kernel reports a counter with a constant rate.
#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" constant_tsc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_instant() {
        let clock = Clock::calibrate();
        let (begin, first) = (Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(50));
        let ticks = clock.now() - first;
        let elapsed = begin.elapsed().as_nanos() as f64;
        let share = clock.nanoseconds(ticks) / elapsed;
        assert!((0.95..1.05).contains(&share), "the clock ran at {share} of the rate of Instant");
        let back = clock.ticks(Duration::from_nanos(clock.nanoseconds(1_000_000) as u64));
        assert!(back.abs_diff(1_000_000) < 10);
    }
}
