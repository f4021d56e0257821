//! Whether a call is cut into its pieces, or executed as one.
//!
//! A piece that commits on its own is over earlier, and alone is executed again after a conflict. Where calls do not meet that is nothing, and
//! each commit costs. So calls of a procedure are executed as one for as long as hardly any of those fails: meets others, or has no room
//! in a region. Where more do they are cut, but for one in some that probes, and in more the more of these fail. One that fails is cut when
//! it is executed again.
//!
//! The plan allows it: what merges neighbouring pieces leaves no SC-cycle that was not there before, as a cycle through the merged piece is one
//! through its parts, which hang together. Measured: `docs/decisions/2026-11-28-calls-are-cut-where-they-meet.md`.

use crate::rate::{ALWAYS, Rate};

/// So many of those that are executed as one may fail.
const LIMIT: u32 = ALWAYS / 8;
/// Calls that are cut for each that probes: at least, and at most.
const PAUSE_MIN: u32 = 16;
const PAUSE_MAX: u32 = 256;

/// One worker's procedures, by their numbers in the plan.
#[derive(Default)]
pub(super) struct Joining(Vec<Joined>);

/// The calls of a procedure that were executed as one.
#[derive(Clone, Copy, Default)]
struct Joined {
    fails: Rate,
    /// Calls that are cut for each that probes, and how many of these are left.
    pause: u32,
    left: u32,
}

impl Joining {
    /// Whether the next call of a procedure is executed as one.
    pub fn joins(&mut self, number: usize) -> bool {
        if self.0.len() <= number {
            self.0.resize(number + 1, Joined::default());
        }
        let joined = &mut self.0[number];
        if joined.fails.0 > LIMIT && joined.left > 0 {
            joined.left -= 1;
            return false;
        }
        true
    }

    /// One was, and failed or did not.
    pub fn note(&mut self, number: usize, failed: bool) {
        let joined = &mut self.0[number];
        joined.fails.note(failed);
        let pause = if failed { joined.pause * 4 } else { joined.pause / 2 };
        joined.pause = pause.clamp(PAUSE_MIN, PAUSE_MAX);
        joined.left = joined.pause;
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    /// How many of so many calls of a procedure are executed as one, if each of those fails, or none does.
    fn joined(joining: &mut Joining, number: usize, calls: u32, fails: bool) -> u32 {
        (0..calls).fold(0, |sum, _| {
            let joins = joining.joins(number);
            if joins {
                joining.note(number, fails);
            }
            sum + u32::from(joins)
        })
    }

    #[test]
    fn what_meets_others_is_cut_until_it_does_no_more() {
        let mut joining = Joining::default();
        assert_eq!(joined(&mut joining, 2, 100, false), 100);
        assert_eq!(joined(&mut joining, 2, 2, true), 2, "once says little");
        joined(&mut joining, 2, 2 * PAUSE_MAX, true);
        assert_eq!(joined(&mut joining, 2, 10 * (PAUSE_MAX + 1), true), 10, "one in some probes");
        assert_eq!(joined(&mut joining, 0, 10, false), 10, "another procedure");
        assert!(
            joined(&mut joining, 2, 4 * PAUSE_MAX, false) > PAUSE_MAX,
            "those that do well bring it back"
        );
        assert_eq!(joined(&mut joining, 2, 100, false), 100);
    }
}
