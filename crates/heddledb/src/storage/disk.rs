//! The real disk: a directory of the file system.

use super::{File, Guard, Storage};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fdatasync, flock, fsync};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

/// The name of the file that a process locks; it stays empty.
const LOCK: &str = "lock";

impl Disk {
    /// The directory at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let directory = path.as_ref().to_owned();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
                && name != LOCK
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(true).create_new(true).open(self.path(name))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(true).open(self.path(name))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(fsync(fs::File::open(&self.directory)?)?)
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let file = fs::File::options().write(true).create(true).truncate(false).open(self.path(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(DiskGuard { _file: file })),
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn place(&self) -> String {
        self.directory.display().to_string()
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

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // The hint is not understood here.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }
}
