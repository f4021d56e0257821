//! The settings of a database that is about to be opened, whatever its protocol.

use crate::durability::{Durability, LogOptions};
use crate::error::{Misuse, Result};
use crate::isolation::Isolation;
use crate::log::FILES_MAX;
use crate::metrics::Tell;
use crate::procedure::PlanChange;
use crate::storage::Storage;
use crate::table::Definition;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a [`Builder`](crate::Builder) was told.
pub(crate) struct Settings {
    /// As many as the protocol allows, up to [`Settings::SESSIONS`], unless told.
    pub sessions: Option<usize>,
    /// Relations that are made at once, sized for so many rows.
    pub relations: Vec<(&'static Definition, usize)>,
    pub isolation: Isolation,
    pub plan_change: PlanChange,
    pub epoch_interval: Option<Duration>,
    pub snapshot_interval: Duration,
    pub place: Option<Place>,
    pub durability: Durability,
    pub log: LogOptions,
    /// Of recovery and checkpoints; as many as there are cores unless told.
    pub threads: Option<usize>,
    pub checkpoint_log_bytes: Option<u64>,
    pub salvage: bool,
    pub tell: Option<Tell>,
}

/// Where the files are.
pub(crate) enum Place {
    Path(PathBuf),
    Storage(Arc<dyn Storage>),
}

/// For how long a moment is recent enough for [`Session::read`](crate::Session::read).
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);
/// How often the epoch advances.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);
/// The log's length after which a checkpoint is taken.
const CHECKPOINT_LOG_BYTES: u64 = 1 << 30;
impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions: None,
            relations: Vec::new(),
            isolation: Isolation::default(),
            plan_change: PlanChange::default(),
            epoch_interval: Some(EPOCH_INTERVAL),
            snapshot_interval: SNAPSHOT_INTERVAL,
            place: None,
            durability: Durability::Epoch,
            log: LogOptions::default(),
            threads: None,
            checkpoint_log_bytes: Some(CHECKPOINT_LOG_BYTES),
            salvage: false,
            tell: None,
        }
    }
}

impl Settings {
    /// Sessions of a database unless it is told otherwise.
    pub const SESSIONS: usize = 128;

    /// Refuses what no protocol could meet.
    pub fn check(&self) -> Result<()> {
        let option = |what: String| Err(Misuse::Option(what).into());
        if self.log.files == 0 || self.log.files > FILES_MAX {
            return option(format!("a log has 1 to {FILES_MAX} files, not {}", self.log.files));
        }
        if !self.log.compression.is_built() {
            let name = self.log.compression.name();
            return option(format!("this build has no compression by {name}; enable the feature `{name}`"));
        }
        Ok(())
    }
}
