//! Copies of a database that open: where one goes, how fast, and what came of it.

use crate::settings::Place;
use crate::storage::Storage;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A copy to be taken by `Database::backup`.
///
/// A path is one without further wishes:
///
/// ```
/// use heddledb::{Backup, Database, Table, Transaction};
///
/// #[derive(Table, Clone, Copy)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let directory = folder.path();
/// let db = Database::in_memory();
/// db.session()?.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
/// db.backup(directory.join("monday"))?;
/// let gently = Backup::to(directory.join("tuesday")).bytes_per_second(50 << 20);
/// let report = db.backup(gently.on_progress(|progress| eprintln!("{progress}")))?;
/// assert_eq!(report.rows, 1);
///
/// // A copy is a database.
/// let copy = Database::builder().path(directory.join("monday")).table::<Account>(0).open()?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is copied before `Database::backup`"]
pub struct Backup {
    place: Place,
    incremental: bool,
    bytes_per_second: Option<u64>,
    tell: Option<Arc<dyn Fn(BackupProgress) + Send + Sync>>,
}

impl Backup {
    /// Into a directory of its own, which is made if it is not there, and empty otherwise; its parent must be there.
    pub fn to(path: impl AsRef<Path>) -> Self {
        Self::at(Place::Path(path.as_ref().to_owned()))
    }

    /// Into an empty storage of your own, or a simulated one.
    pub fn to_storage(storage: Arc<dyn Storage>) -> Self {
        Self::at(Place::Storage(storage))
    }

    fn at(place: Place) -> Self {
        Self { place, incremental: false, bytes_per_second: None, tell: None }
    }

    /// Continues the copy that is there with the log since, instead of taking a full one: it holds all that was committed before
    /// the call, then. If it cannot be continued, it stays as it was, and the error says why
    /// ([`LogError::NotContinued`](crate::log::LogError::NotContinued)).
    ///
    /// Needs the log since that copy: `Builder::keep_log` says how much is kept beyond checkpoints. A copy that was opened to be
    /// written is a database of its own from then on.
    pub fn incremental(mut self) -> Self {
        self.incremental = true;
        self
    }

    /// Writes at most so many bytes a second, at least 1, on average since the beginning; as fast as it can unless told.
    /// Meanwhile old versions of rows are kept, as for any snapshot.
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.bytes_per_second = Some(bytes.max(1));
        self
    }

    /// Is told how far the copy has come, after each mebibyte or so, by the threads that write it.
    pub fn on_progress(mut self, tell: impl Fn(BackupProgress) + Send + Sync + 'static) -> Self {
        self.tell = Some(Arc::new(tell));
        self
    }

    /// Whether a copy is continued that is there.
    pub fn is_incremental(&self) -> bool {
        self.incremental
    }

    /// Where it goes.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The most bytes that it writes in a second.
    pub fn pace(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// Tells how far it is.
    pub fn tell(&self, progress: BackupProgress) {
        if let Some(tell) = &self.tell {
            tell(progress);
        }
    }
}

macro_rules! of_paths {
    ($($path:ty)*) => {$(
        impl From<$path> for Backup {
            fn from(path: $path) -> Self {
                Self::to(path)
            }
        }
    )*};
}
of_paths!(&str String &String &Path PathBuf &PathBuf);

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Path(path) => path.display().to_string(),
            Place::Storage(storage) => storage.place(),
        };
        f.debug_struct("Backup")
            .field("place", &place)
            .field("incremental", &self.incremental)
            .field("bytes_per_second", &self.bytes_per_second)
            .finish()
    }
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Tables and indexes that are written whole.
    pub relations: usize,
    /// Tables and indexes in all.
    pub of_relations: usize,
    /// Rows and entries so far.
    pub rows: u64,
    /// Commits so far, where a copy is continued.
    pub transactions: u64,
    /// Bytes of files so far.
    pub bytes: u64,
}

/// `3 of 7 tables and indexes, 120000 rows, 9437184 bytes`; of one that is continued: `1200 transactions, 9437184 bytes`.
impl fmt::Display for BackupProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relations, of_relations, rows, transactions, bytes } = self;
        if *of_relations == 0 {
            return write!(f, "{transactions} transactions, {bytes} bytes");
        }
        write!(f, "{relations} of {of_relations} tables and indexes, {rows} rows, {bytes} bytes")
    }
}

/// What a copy holds, or what was added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The last epoch that it holds.
    pub epoch: u64,
    /// Rows of all tables and indexes; 0 where a copy was continued.
    pub rows: u64,
    /// Commits that were added to a copy that was there.
    pub transactions: u64,
    /// Whether the copy can be continued with the log: it is of a database that has one, which has not failed.
    pub can_continue: bool,
    /// Bytes of its files, or of those that were added.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// `120000 rows in 9437184 bytes, as of epoch 17, in 0.2 s`; of one that was continued: `1200 transactions in ..`.
impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, rows, transactions, bytes, elapsed, .. } = self;
        match rows {
            0 => write!(f, "{transactions} transactions")?,
            rows => write!(f, "{rows} rows")?,
        }
        write!(f, " in {bytes} bytes, as of epoch {epoch}, in {:.1} s", elapsed.as_secs_f64())
    }
}
