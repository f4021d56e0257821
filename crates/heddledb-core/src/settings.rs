//! The settings of a database that is about to be opened, whatever its protocol.

use crate::error::{Misuse, Result};
use crate::isolation::Isolation;
use crate::log::{Compression, FILES_MAX, LogKind};
use crate::metrics::Tell;
use crate::migration::Migration;
use crate::procedure::PlanChange;
use crate::storage::Storage;
use crate::table::Definition;
use std::any::{Any, TypeId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When a commit counts as done.
///
/// | | returns | survives the process's death | survives power loss |
/// |---|---|---|---|
/// | `None` | when it is in memory | at best | at best |
/// | `Epoch` | when it is in memory | unless it is some epochs old | unless it is some epochs old |
/// | `Sync` | when it is on the disk | yes | yes |
///
/// In all modes what survives is a prefix: never a part of a transaction, never one without those that it
/// depends on. A database opened with `None` writes no log at all, so what survives is its last checkpoint.
/// A single commit's `None` only waives the wait; it is logged all the same, since later ones build on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing is promised.
    None,
    /// Durable soon: with its epoch, some epochs later.
    #[default]
    Epoch,
    /// Durable when the commit returns.
    Sync,
}

/// Settings of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// How many files it is written to at once.
    pub files: u8,
    /// Whether, and how, it is compressed.
    pub compression: Compression,
    /// A worker whose buffer has this many words waits for a round.
    pub buffer_words: usize,
    /// Whether the files of a round are written at once, by a thread for each.
    pub at_once: bool,
    /// What it says of a commit.
    pub kind: LogKind,
    /// Of what checkpoints have made superfluous, so many bytes are kept for copies.
    pub keep_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        let (kind, compression) = (LogKind::Values, Compression::None);
        Self { files: 1, compression, buffer_words: 4 << 20, at_once: true, kind, keep_bytes: 0 }
    }
}

/// What a `Builder` was told.
pub struct Settings {
    /// As many as the protocol allows, up to [`Settings::SESSIONS`], unless told.
    pub sessions: Option<usize>,
    /// Relations that are made at once, sized for so many rows.
    pub relations: Vec<(&'static Definition, usize)>,
    /// The level of transactions that choose none.
    pub isolation: Isolation,
    /// How procedures are registered while others run.
    pub plan_change: PlanChange,
    /// How often the epoch advances; `None` where the user advances it.
    pub epoch_interval: Option<Duration>,
    /// How old the moment of a recent snapshot may be.
    pub snapshot_interval: Duration,
    /// Where the files are; `None` for a database in memory.
    pub place: Option<Place>,
    /// When commits count as done.
    pub durability: Durability,
    /// Of the log.
    pub log: LogOptions,
    /// The procedures whose calls may be logged as such, and made again.
    pub versions: Vec<Versioned>,
    /// Of recovery and checkpoints; as many as there are cores unless told.
    pub threads: Option<usize>,
    /// The log's length after which a checkpoint is taken.
    pub checkpoint_log_bytes: Option<u64>,
    /// The estimated time of a replay after which a checkpoint is taken.
    pub checkpoint_replay: Option<Duration>,
    /// Whether a checkpoint is taken when the database is closed.
    pub checkpoint_at_close: bool,
    /// Whether a damaged log is opened as far as it is whole.
    pub salvage: bool,
    /// Whether files are read and nothing is written.
    pub read_only: bool,
    /// Whether files are opened that were copied while they were open.
    pub accept_copy: bool,
    /// What becomes of tables that are stored otherwise; without it they are refused.
    pub migration: Option<Migration>,
    /// Is told how far opening has come.
    pub tell: Option<Tell>,
    /// Whether indexes are left as the files have them: none is built or removed. For tools that judge a directory.
    pub as_found: bool,
    /// For how long, and how often, something is tried.
    pub limits: Limits,
}

/// A procedure whose calls may be logged as such.
#[derive(Clone, Copy, Debug)]
pub struct Versioned {
    /// The procedure's type.
    pub id: TypeId,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// Of its text.
    pub fingerprint: u64,
    /// A call on a session, of arguments as bytes.
    pub call: CallLogged,
}

/// A call of one procedure on a session, its arguments as bytes.
pub type CallLogged = fn(session: &mut dyn Any, arguments: &[u8]) -> Result<()>;

/// For how long, and how often, something is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Further attempts after a conflict.
    pub retries: u32,
    /// One wait of a transaction for another.
    pub lock: Option<Duration>,
    /// The life of an owned transaction.
    pub transaction: Option<Duration>,
    /// The wait for a free session.
    pub session: Duration,
}

/// How long a free session is waited for.
const SESSION_WAIT: Duration = Duration::from_secs(10);

impl Default for Limits {
    fn default() -> Self {
        Self { retries: u32::MAX, lock: None, transaction: None, session: SESSION_WAIT }
    }
}

/// Where files are.
#[derive(Clone)]
pub enum Place {
    /// In a directory.
    Path(PathBuf),
    /// In a storage of the user's.
    Storage(Arc<dyn Storage>),
}

/// For how long a moment is recent enough for `Session::read`.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);
/// How often the epoch advances.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);
/// The log's length after which a checkpoint is taken.
const CHECKPOINT_LOG_BYTES: u64 = 1 << 30;
/// The estimated time of a replay after which a checkpoint is taken.
const CHECKPOINT_REPLAY: Duration = Duration::from_secs(5);

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
            versions: Vec::new(),
            threads: None,
            checkpoint_log_bytes: Some(CHECKPOINT_LOG_BYTES),
            checkpoint_replay: Some(CHECKPOINT_REPLAY),
            checkpoint_at_close: false,
            salvage: false,
            accept_copy: false,
            migration: None,
            read_only: false,
            tell: None,
            as_found: false,
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// Sessions of a database unless it is told otherwise.
    pub const SESSIONS: usize = 128;

    /// Refuses what no protocol could meet.
    pub fn check(&self) -> Result<()> {
        let option = |what: String| Err(Misuse::Option(what).into());
        if self.durability == Durability::Sync && self.place.is_none() {
            let what = "a database without files can make nothing durable at its commit; name its directory with \
                        `Builder::path`, or leave `Durability::Sync` out";
            return option(what.to_owned());
        }
        if self.log.kind == LogKind::Commands && (self.place.is_none() || self.durability == Durability::None)
        {
            return option(
                "a database without files, or with `Durability::None`, has no log that could hold calls; name its directory with \
                 `Builder::path` and choose another durability, or leave `LogKind::Commands` out"
                    .to_owned(),
            );
        }
        if self.log.files == 0 || self.log.files > FILES_MAX {
            return option(format!("a log has 1 to {FILES_MAX} files, not {}", self.log.files));
        }
        if self.read_only && self.place.is_none() {
            return option(
                "a database in memory has nothing to read; name its directory with `path`".to_owned(),
            );
        }
        if !self.log.compression.is_built() {
            let name = self.log.compression.name();
            return option(format!("this build has no compression by {name}; enable the feature `{name}`"));
        }
        Ok(())
    }
}
