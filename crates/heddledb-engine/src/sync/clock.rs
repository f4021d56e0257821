//! The real machine's clock.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process; monotone.
pub fn real_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
