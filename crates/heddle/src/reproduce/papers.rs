//! The register of the papers.

use super::figure::Paper;
use super::{ic3, tictoc};

/// The papers.
pub const PAPERS: &[Paper] = &[ic3::PAPER, tictoc::PAPER];
