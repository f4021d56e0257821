//! The register of the papers.

use super::figure::Paper;
use super::{dbx_tc, dgcc, drp, ic3, tictoc};

/// The papers.
pub const PAPERS: &[Paper] = &[dbx_tc::PAPER, dgcc::PAPER, drp::PAPER, ic3::PAPER, tictoc::PAPER];
