//! The register of the papers.

use super::figure::Paper;
use super::{drp, ic3, tictoc};

/// The papers.
pub const PAPERS: &[Paper] = &[drp::PAPER, ic3::PAPER, tictoc::PAPER];
