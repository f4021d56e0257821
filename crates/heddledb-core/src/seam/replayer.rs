//! The part of the seam by which the calls in a log of commands are made again, when the directory is opened.

use super::Worker;
use crate::error::Result;
use crate::settings::CallLogged;

/// A session on which commits of a log are made again, on one of the engine's workers that logs nothing.
pub trait Replayer {
    /// Makes a call again.
    ///
    /// # Errors
    /// What it returns, or that it panicked: it had done neither.
    fn call(&mut self, call: CallLogged, arguments: &[u8]) -> Result<()>;
    /// Its worker, between calls.
    fn worker(&mut self) -> &mut dyn Worker;
}

/// Makes one of a worker.
pub type MakeReplayer = fn(Box<dyn Worker>) -> Box<dyn Replayer>;
