//! Why a command did not do what was asked: one line that names the causes too, and an exit code.
//!
//! No error is shown in the form that `Debug` gives it: what a user reads is what the errors say of
//! themselves.

use std::error::Error;
use std::fmt;

/// The exit code when a check failed, a run broke off, or an anomaly was found.
pub const FOUND: u8 = 1;
/// The exit code for arguments or input that cannot be used.
pub const UNUSABLE: u8 = 2;

/// A failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong, and what is allowed.
    pub message: String,
    /// The exit code, never zero.
    pub code: u8,
}

impl Failure {
    /// Arguments or input that cannot be used.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: UNUSABLE }
    }

    /// Something went wrong on the way.
    pub fn run(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FOUND }
    }

    /// The line on the error stream; `colours` asks for escape sequences.
    pub fn line(&self, colours: bool) -> String {
        let head = if colours { "\x1b[31;1merror\x1b[0m" } else { "error" };
        format!("{head}: {self}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// What an error says, then what each of its sources says, from the outermost to the root.
///
/// A source that an outer message already quotes is not repeated.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// An error with a source, that quotes it or does not.
    #[derive(Debug)]
    struct Outer {
        quotes: bool,
        source: Inner,
    }

    #[derive(Debug)]
    struct Inner(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.quotes {
                true => write!(f, "the log cannot be opened ({})", self.source),
                false => f.write_str("the log cannot be opened"),
            }
        }
    }

    impl fmt::Display for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the manifest cannot be read")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.source)
        }
    }

    impl Error for Inner {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn outer(quotes: bool) -> Outer {
        Outer { quotes, source: Inner(io::Error::other("no such device")) }
    }

    #[test]
    fn an_error_is_told_with_its_sources_and_each_of_them_once() {
        let told = "the log cannot be opened: the manifest cannot be read: no such device";
        assert_eq!(chain(&outer(false)), told);
        let told = "the log cannot be opened (the manifest cannot be read): no such device";
        assert_eq!(chain(&outer(true)), told);
        assert_eq!(chain(&Failure::run("alone")), "alone");
    }

    #[test]
    fn a_failure_is_a_line_of_text_and_not_its_debug_form() {
        let failure = Failure::run(chain(&outer(false)));
        let line = failure.line(false);
        assert_eq!(line, "error: the log cannot be opened: the manifest cannot be read: no such device");
        for form in ["Outer", "Inner", "Failure", "{", "Custom", "Os"] {
            assert!(!line.contains(form), "{form} is in {line}");
        }
        assert_eq!(failure.line(true), line.replacen("error", "\x1b[31;1merror\x1b[0m", 1));
        assert!(failure.code != 0 && Failure::usage("").code != 0);
    }
}
