//! A directory that can only be read.

use heddledb::storage::{File, Guard, Storage};
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Is told how many bytes have been read.
pub type Tell = Arc<dyn Fn(u64) + Send + Sync>;

/// A directory of the file system whose files are only read: every change is refused.
pub struct ReadOnly {
    path: PathBuf,
    read: Arc<AtomicU64>,
    tell: Tell,
}

impl ReadOnly {
    /// The directory at `path`; `tell` hears of everything that is read.
    pub fn new(path: &Path, tell: Tell) -> Self {
        Self { path: path.to_owned(), read: Arc::default(), tell }
    }

    /// The length of a file; 0 if it cannot be told.
    pub fn length(&self, name: &str) -> u64 {
        fs::metadata(self.path.join(name)).map_or(0, |data| data.len())
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the directory is only being looked at"))
}

impl Storage for ReadOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::open(self.path.join(name))?;
        Ok(Box::new(ReadOnlyFile { file, read: Arc::clone(&self.read), tell: Arc::clone(&self.tell) }))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn sync_names(&self) -> io::Result<()> {
        refused()
    }

    /// Locks as a database does, but makes no file to lock: without one nobody has the directory open.
    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let file = match fs::File::open(self.path.join("LOCK")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Box::new(Held { _file: None }));
            }
            file => file?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Box::new(Held { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Keeps databases out as long as it is there.
struct Held {
    _file: Option<fs::File>,
}

impl Guard for Held {}

struct ReadOnlyFile {
    file: fs::File,
    read: Arc<AtomicU64>,
    tell: Tell,
}

impl File for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, offset)?;
        // Relaxed: a figure to show.
        (self.tell)(self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64);
        Ok(bytes)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        refused()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }
}
