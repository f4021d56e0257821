//! The register of the papers.

use super::figure::Paper;
use super::{dgcc, drp, ic3, tictoc};

/// The papers.
pub const PAPERS: &[Paper] = &[dgcc::PAPER, drp::PAPER, ic3::PAPER, tictoc::PAPER];
