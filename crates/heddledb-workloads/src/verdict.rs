//! Collecting what a check compares into one [`Check`].

use crate::Check;
use std::fmt::Display;

/// A check under way: many comparisons, of which the first violation is told.
#[derive(Debug)]
pub(crate) struct Verdict {
    name: String,
    compared: u64,
    violations: u64,
    first: String,
}

impl Verdict {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), compared: 0, violations: 0, first: String::new() }
    }

    /// Requires `condition`; `tell` says where and what was found.
    pub fn require<D: Display>(&mut self, condition: bool, tell: impl FnOnce() -> D) {
        self.compared += 1;
        if !condition {
            self.violations += 1;
            if self.violations == 1 {
                self.first = tell().to_string();
            }
        }
    }

    /// The result.
    pub fn finish(self) -> Check {
        let Self { name, compared, violations, first } = self;
        let detail = match violations {
            0 => format!("{compared} compared"),
            _ => format!("{violations} of {compared} violated, first: {first}"),
        };
        Check { name, ok: violations == 0, detail }
    }
}

/// A check of two sums.
pub(crate) fn equal(name: impl Into<String>, left: (&str, i128), right: (&str, i128)) -> Check {
    let sign = if left.1 == right.1 { "=" } else { "is not" };
    let detail = format!("{} {} {sign} {} {}", left.0, left.1, right.1, right.0);
    Check { name: name.into(), ok: left.1 == right.1, detail }
}
