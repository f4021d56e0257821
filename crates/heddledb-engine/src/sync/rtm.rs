//! Hardware transactional memory of the processor: Intel's RTM.
//!
//! [`begin`] returns once when the region has begun, and again, with the reason, if it is aborted before [`finish`]: then the
//! registers and all memory are as they were when it began. So whoever calls it goes on from there as if nothing had happened
//! since; what is to outlive an abort must be written outside of regions.
//!
//! **Never inside**: a wait (`PAUSE` aborts), a call of the system, the first touch of a page. Each aborts,
//! and nothing more: the caller executes in software what does not succeed here. Sessions that share a thread switch between
//! attempts only, so not while a region is open.
//!
//! **Detection** is by trial: a processor may say that it has RTM, and abort every region (microcode that turns it off). The
//! names of processors decide nothing.

#![allow(unsafe_code)]

pub use super::abort::{Abort, Interrupted};
// What runs can take effect, and is not over: an abort goes to where the region began.
pub use super::no_htm::{MODELLED, guard, is_asked_for, is_over, stands};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// What `xbegin` leaves where it was when the region has begun.
const STARTED: u32 = u32::MAX;
/// Regions of the trial, of which half must take effect.
const TRIALS: u32 = 1_000;
/// The leaf of features, and the bit there that says that every region aborts.
const FEATURES: u32 = 7;
const ALWAYS_ABORTS: u32 = 1 << 11;

/// Whether this processor executes regions: it says so, and most of a thousand small ones have taken effect.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| says_so() && trial())
}

/// Whether the processor says that it has RTM, so that its instructions are none that it does not know.
fn says_so() -> bool {
    std::arch::is_x86_feature_detected!("rtm") && __cpuid_count(FEATURES, 0).edx & ALWAYS_ABORTS == 0
}

fn trial() -> bool {
    let mut word = 0u64;
    let committed = (0..TRIALS).filter(|_| {
        // SAFETY: the processor has RTM, and the region is ended below.
        let begun = unsafe { begin() };
        begun.is_ok() && finish(|| word = word.wrapping_add(1)).is_ok()
    });
    committed.count() as u32 >= TRIALS / 2
}

/// Begins a region.
///
/// # Errors
/// Why the region that this call had begun was aborted: this is its second return.
///
/// # Safety
/// [`is_available`] has said yes, and this thread is in no region. [`finish`] follows on the same thread, whatever happens.
#[inline(always)]
pub unsafe fn begin() -> Result<(), Abort> {
    let status: u32;
    // SAFETY: the processor knows the instruction. After an abort it goes on behind it with all registers but `eax`, and all
    // memory, as they were when it was executed: to the compiler one return with another value. Memory and flags count as
    // changed, since neither is promised otherwise.
    unsafe { asm!("xbegin 2f", "2:", inout("eax") STARTED => status, options(nostack)) };
    if status == STARTED { Ok(()) } else { Err(reason(status)) }
}

/// What the bits of a status say.
#[cold]
fn reason(status: u32) -> Abort {
    const EXPLICIT: u32 = 1;
    const RETRY: u32 = 1 << 1;
    const CONFLICT: u32 = 1 << 2;
    const CAPACITY: u32 = 1 << 3;
    const DEBUG: u32 = 1 << 4;
    const NESTED: u32 = 1 << 5;
    if status & EXPLICIT != 0 {
        Abort::Explicit((status >> 24) as u8)
    } else if status & CAPACITY != 0 {
        Abort::Capacity
    } else if status & (DEBUG | NESTED) != 0 {
        Abort::Unfriendly
    } else if status & (CONFLICT | RETRY) != 0 {
        Abort::Conflict
    } else {
        Abort::Interrupt
    }
}

/// Runs `body` as the rest of the region that [`begin`] began, and ends it: all that was done in it takes effect at once.
///
/// # Errors
/// None: an abort goes to where the region began.
#[inline(always)]
pub fn finish<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    let result = body();
    // SAFETY: the caller is in a region, by the contract of `begin`. Memory counts as changed, so that nothing of the region
    // is moved behind its end.
    unsafe { asm!("xend", options(nostack)) };
    Ok(result)
}

/// Whether this thread is in a region.
///
/// # Safety
/// [`is_available`] has said yes.
#[inline(always)]
pub unsafe fn is_inside() -> bool {
    let inside: u8;
    // SAFETY: the processor knows the instruction, which changes flags only.
    unsafe { asm!("xtest", "setnz {}", out(reg_byte) inside, options(nomem, nostack)) };
    inside != 0
}

/// Aborts the region that runs this, with a code. Outside of one nothing happens.
#[inline(always)]
pub fn abort<const CODE: u8>() {
    // SAFETY: the processor has RTM, since a region was begun; outside of a region the instruction does nothing.
    unsafe { asm!("xabort {code}", code = const CODE, options(nostack)) };
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "simulation"))))]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_status_are_reasons() {
        assert_eq!(reason(0), Abort::Interrupt);
        assert_eq!(reason(0x2a00_0001), Abort::Explicit(0x2a));
        assert_eq!(reason(0b0110), Abort::Conflict);
        assert_eq!(reason(0b0010), Abort::Conflict);
        assert_eq!(reason(0b1000), Abort::Capacity);
        assert_eq!(reason(0b10_0000), Abort::Unfriendly);
    }

    #[test]
    fn what_a_region_did_is_there_or_not() {
        if !is_available() {
            println!("no RTM: skipped");
            return;
        }
        let (mut committed, mut word) = (0, 0u64);
        for round in 0..10_000u64 {
            let before = word;
            // SAFETY: regions are available, and each is ended here.
            match unsafe { begin() } {
                Ok(()) => {
                    word = round;
                    if round % 3 == 0 {
                        abort::<7>();
                    }
                    assert!(finish(|| ()).is_ok());
                    assert_ne!(round % 3, 0, "an aborted region goes on");
                    assert_eq!(word, round);
                    committed += 1;
                }
                Err(why) => {
                    assert_eq!(word, before, "{why}");
                    assert!(
                        round % 3 != 0
                            || matches!(why, Abort::Explicit(7) | Abort::Interrupt | Abort::Conflict)
                    );
                }
            }
        }
        assert!(committed > 3_000, "{committed}");
    }
}
