//! Why a command did not do what was asked: one line, and an exit code.

/// The exit code when a check failed, a run broke off, or an anomaly was found.
pub const FOUND: u8 = 1;
/// The exit code for arguments or input that cannot be used.
pub const UNUSABLE: u8 = 2;

/// A failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong, and what is allowed.
    pub message: String,
    /// The exit code.
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
}
