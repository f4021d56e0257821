//! The real disk: a directory of the file system.
//!
//! Long writes go past the page cache (`O_DIRECT`) where the file system can do that: nobody reads a log
//! while it is written, and filling fresh pages of the cache with it costs more than all else that
//! is done for durability. What is not a whole block, and all short writes, go through the cache.
//!
//! **Copies of a directory that is open.** While the lock is held for writing, the lock file says which file it is: its number
//! in the file system, and when it was made. Nobody can copy that: the lock file in a copy of the directory is another file than
//! the one it speaks of. It is emptied when the lock is given back, so a directory may be copied when nobody has it open. What a
//! killed process has left says the truth, and the directory opens again; so it does after it was moved within its file
//! system, or brought back with the whole of it. Nothing waits for the lock file to be durable: after a power cut it may
//! say nothing, or what it said before, in the same file.

use super::{CopiedWhileOpen, File, Guard, LOCK, Storage, plain};
use std::fs::{self, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A directory of the file system.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// Kept open, so that a sync reports every error since the directory was opened.
    directory: fs::File,
    /// Whether files are opened to be read only.
    is_read_only: bool,
    /// Whether a copy that was made while the directory was open is as good as any.
    accepts_copy: bool,
}

impl Disk {
    /// The directory at `path`, which is made if it is not there. Its parent must be.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        // The process may change its working directory later.
        let path = std::path::absolute(path)?;
        make(&path)?;
        let directory = fs::File::open(&path)?;
        Ok(Self { path, directory, is_read_only: false, accepts_copy: false })
    }

    /// The directory at `path`, which is there, to be read: also one that may not be written to. Its lock keeps out
    /// those that write and not those that read; without a lock file, which a directory has once it was opened to be
    /// written to, it keeps out nobody. Wrap it in [`ReadOnly`](super::ReadOnly) to refuse what else would write.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open_to_read(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let directory = fs::File::open(&path)?;
        Ok(Self { path, directory, is_read_only: true, accepts_copy: false })
    }

    /// Whether a directory is locked, too, that was copied while it was open; it is not unless told.
    #[must_use]
    pub fn accept_copy(mut self, accept: bool) -> Self {
        self.accepts_copy = accept;
        self
    }

    /// Finds out a copy that was made while the directory was open.
    fn refuse_copy(&self, lock: &fs::File) -> io::Result<()> {
        if self.accepts_copy {
            return Ok(());
        }
        let (mut lock_text, mut found) = (lock.take(MARK_BYTES_MAX), String::new());
        // What is no text says nothing.
        let is_text = lock_text.read_to_string(&mut found).is_ok();
        let speaks = is_text && found.starts_with(MARK) && found.ends_with('\n');
        match speaks && found != mark(lock)? {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, CopiedWhileOpen)),
            false => Ok(()),
        }
    }

    /// The name of some file or directory in it of which that is wanted.
    ///
    /// # Errors
    /// What the file system says.
    pub fn any(&self, wanted: impl Fn(&str) -> bool) -> io::Result<Option<String>> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if wanted(&name) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.path.join(plain(name)?))
    }
}

/// What a lock file begins with that says which file it is.
const MARK: &str = "open as ";
/// More than it ever says.
const MARK_BYTES_MAX: u64 = 128;

/// What a lock file says while the lock is held.
fn mark(lock: &fs::File) -> io::Result<String> {
    let data = lock.metadata()?;
    // Numbers are given anew: another file system may have the same. Some do not know when a file was made.
    let since = |made: std::time::SystemTime| made.duration_since(std::time::UNIX_EPOCH).ok();
    let made = data.created().ok().and_then(since).map_or(0, |since| since.as_nanos());
    Ok(format!("{MARK}file {}, made {made}\n", data.ino()))
}

/// Makes a directory, and its name durable.
fn make(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let there = path.is_dir();
    if !there {
        if !parent.exists() {
            // Mostly a path with a slip in it, which a directory that is made would hide.
            let what =
                format!("there is no directory {}; make it first, or name another path", parent.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
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
        let path = self.path(name)?;
        let file = fs::File::options().read(true).write(true).create_new(true).open(&path)?;
        // Long writes go to files that were just made.
        Ok(Box::new(DiskFile { file, direct: Mutex::new(Direct::open(&path).ok()) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = fs::File::options().read(true).write(!self.is_read_only).open(self.path(name)?)?;
        Ok(Box::new(DiskFile { file, direct: Mutex::new(None) }))
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
        if self.is_read_only {
            let file = match fs::File::open(self.path.join(LOCK)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Box::new(NoGuard)),
                opened => opened?,
            };
            return match file.try_lock_shared() {
                Ok(()) => {
                    self.refuse_copy(&file)?;
                    Ok(Box::new(DiskGuard { file, is_marked: false }))
                }
                Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => Err(error),
            };
        }
        let mut options = fs::File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.path.join(LOCK))?;
        // Belongs to this opening of the file, so it keeps others in this process out as well.
        match file.try_lock() {
            Ok(()) => {
                self.refuse_copy(&file)?;
                file.set_len(0)?;
                super::write_all(
                    &DiskFile { file: file.try_clone()?, direct: Mutex::new(None) },
                    mark(&file)?.as_bytes(),
                    0,
                )?;
                Ok(Box::new(DiskGuard { file, is_marked: true }))
            }
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Where there is nothing to lock.
struct NoGuard;

impl Guard for NoGuard {}

/// Holds the lock.
struct DiskGuard {
    file: fs::File,
    /// Whether the file says which one it is.
    is_marked: bool,
}

impl Guard for DiskGuard {}

impl Drop for DiskGuard {
    fn drop(&mut self) {
        if self.is_marked {
            // If this fails, a copy is refused that could be opened.
            let _ = self.file.set_len(0);
        }
        // Closing alone would not do while a child process that was just forked has a copy of the file.
        // If this fails, the lock ends with the last copy.
        let _ = self.file.unlock();
    }
}

struct DiskFile {
    file: fs::File,
    /// Nothing where the file was not made by this opening, or the file system has no such thing.
    direct: Mutex<Option<Direct>>,
}

/// A file opened for writes past the page cache, of whole blocks from an aligned buffer.
struct Direct {
    file: fs::File,
    /// Has the bytes of a write, from its first address that is a multiple of [`BLOCK`].
    buffer: Vec<u8>,
}

/// What offsets, lengths and addresses of direct writes are multiples of; no device asks for more.
const BLOCK: usize = 4096;
/// Shorter writes are not worth a turn of the device each.
const DIRECT_MIN: usize = 64 << 10;
/// Longer writes are done in part.
const DIRECT_MAX: usize = 4 << 20;

impl Direct {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;

        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = fs::File::options().write(true).custom_flags(flags).open(path)?;
        Ok(Self { file, buffer: Vec::new() })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes the whole blocks that `bytes` begin with, or some of them.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let length = (bytes.len() / BLOCK * BLOCK).min(DIRECT_MAX);
        self.buffer.resize(self.buffer.len().max(length + BLOCK), 0);
        let address = self.buffer.as_ptr().addr();
        let skip = address.next_multiple_of(BLOCK) - address;
        let aligned = &mut self.buffer[skip..skip + length];
        aligned.copy_from_slice(&bytes[..length]);
        self.file.write_at(aligned, offset)
    }
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if bytes.len() >= DIRECT_MIN {
            let mut direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(way) = &mut *direct {
                let into = (offset % BLOCK as u64) as usize;
                if into != 0 {
                    return self.file.write_at(&bytes[..BLOCK - into], offset);
                }
                match way.write_at(bytes, offset) {
                    // The file system asks for more than it says when a file is opened. Nothing was done.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => *direct = None,
                    written => return written,
                }
            }
        }
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        // Refused by the system as an invalid argument.
        if bytes == 0 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
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
        self.file.sync_data()
    }
}
