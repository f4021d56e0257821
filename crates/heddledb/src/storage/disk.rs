//! The real disk: a directory of the file system.

use super::{File, Guard, LOCK, Storage, plain};
use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory of the file system.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// Kept open, so that a sync reports every error since the directory was opened.
    directory: fs::File,
}

impl Disk {
    /// The directory at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        // The process may change its working directory later.
        let path = std::path::absolute(path)?;
        make(&path)?;
        let directory = fs::File::open(&path)?;
        Ok(Self { path, directory })
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.path.join(plain(name)?))
    }
}

/// Makes a directory and those above it, and their names durable.
fn make(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let there = path.is_dir();
    if !there {
        make(parent)?;
        match fs::create_dir(path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            outcome => outcome?,
        }
    }
    // Also where it was there: whoever made it may have been killed before this.
    match fs::File::open(parent).and_then(|parent| parent.sync_all()) {
        // Somebody else's; who makes directories in it cares for their names.
        Err(error) if there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
                && plain(&name).is_ok()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(true).create_new(true).open(self.path(name)?)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(true).open(self.path(name)?)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)?)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let file = fs::File::options().write(true).create(true).truncate(false).open(self.path.join(LOCK))?;
        // Belongs to this opening of the file, so it keeps others in this process out as well.
        match file.try_lock() {
            Ok(()) => Ok(Box::new(DiskGuard { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Holds the lock as long as it is open.
struct DiskGuard {
    _file: fs::File,
}

impl Guard for DiskGuard {}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        // Refused by the system as an invalid argument.
        if bytes == 0 {
            return Ok(());
        }
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // The hint is not understood here.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
