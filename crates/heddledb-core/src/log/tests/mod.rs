//! Tests of the format: a generation that is damaged in every way, entries and frames, checkpoints and the manifest, and
//! the inputs of the fuzz targets.

mod built;
mod commands;
mod corpus;
mod entries;
mod manifests;
mod surveys;

use self::built::*;
use super::*;
use crate::random::Random;
use crate::stamp;
use crate::storage::{Simulated, write_all};
use proptest::prelude::*;
