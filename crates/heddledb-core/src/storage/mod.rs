//! Files, behind one trait: the real disk, and one that fails on demand.
//!
//! The log, checkpoints and recovery reach files through [`Storage`] alone, so that their tests can
//! cut the power after any operation. What a disk promises here is what POSIX promises and no more:
//! written bytes and new names may be lost, torn or reordered until [`File::sync`] and
//! [`Storage::sync_names`] return, and a sync that failed has decided nothing: what it was to save
//! may be lost even if a later sync succeeds.
//!
//! Any call may fail with [`io::ErrorKind::Interrupted`]; then nothing was done.

mod disk;
mod edit;
mod read_only;
mod simulated;
#[cfg(test)]
mod tests;

pub use disk::Disk;
pub use read_only::ReadOnly;
pub use simulated::{Fault, Simulated};

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory of files. Names are plain: not empty, no separators, no leading dot, not `LOCK`.
pub trait Storage: Send + Sync + 'static {
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Those of the disk.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file and opens it. Its name is durable after [`Storage::sync_names`].
    ///
    /// # Errors
    /// `AlreadyExists` where there is such a file; those of the disk.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file to read and write.
    ///
    /// # Errors
    /// `NotFound` without such a file; those of the disk.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, and replaces the file that had it, at once or not at all.
    ///
    /// # Errors
    /// `NotFound` without a file `from`; those of the disk.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Who has it open keeps it.
    ///
    /// # Errors
    /// `NotFound` without such a file; those of the disk.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals so far durable; not the content of the files.
    ///
    /// # Errors
    /// Those of the disk; then those changes stay undecided.
    fn sync_names(&self) -> io::Result<()>;

    /// Keeps every other user of the directory out, of this process too, until the guard is dropped.
    ///
    /// # Errors
    /// `WouldBlock` while another holds the lock; [`CopiedWhileOpen`] within where the directory is found out to be such a
    /// copy; those of the disk.
    fn lock(&self) -> io::Result<Box<dyn Guard>>;

    /// Where the files are, for messages.
    fn place(&self) -> String;

    /// The clock on the wall, by which the log says when it was written.
    fn clock(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// What a storage's clock says, in milliseconds since 1970.
pub fn now_ms(storage: &dyn Storage) -> u64 {
    let since = storage.clock().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).min(MS_MAX)
}

/// The latest time that a log can name: in 8921 years.
pub const MS_MAX: u64 = (1 << 48) - 1;

/// The directory was copied file by file while it was locked, so its files may be of different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was copied while a database had it open")]
pub struct CopiedWhileOpen;

/// A lock on a directory; dropping it unlocks, and so does the end of the process.
pub trait Guard: Send + Sync {}

/// An open file. Writers of the same bytes must take turns.
#[expect(clippy::len_without_is_empty, reason = "a file is not a collection")]
pub trait File: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Those of the disk.
    fn len(&self) -> io::Result<u64>;

    /// Reads at `offset`, perhaps less than the buffer holds; 0 bytes only at the end of the file.
    ///
    /// # Errors
    /// Those of the disk.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`, perhaps a part only, and says how many bytes. A gap before it reads as
    /// zeros.
    ///
    /// # Errors
    /// `StorageFull` if nothing could be written for lack of room; those of the disk, and then nobody
    /// knows what was written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the file `bytes` long, by cutting it or by adding zeros.
    ///
    /// # Errors
    /// Those of the disk.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Asks for room up to `bytes` ahead of writing, without a change of the length. A hint: a disk
    /// that cannot do it succeeds.
    ///
    /// # Errors
    /// `StorageFull` if there is no such room; those of the disk.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

    /// Makes content and length durable as they are; not the name.
    ///
    /// # Errors
    /// Those of the disk; then what was written since the last sync stays undecided, and syncing
    /// again does not help.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all of the bytes; goes on after interruptions and short writes.
///
/// # Errors
/// Those of [`File::write_at`]; then a part may be written.
pub fn write_all(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the whole file; goes on after interruptions and short reads.
///
/// # Errors
/// Those of [`File::len`] and [`File::read_at`].
pub fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = loop {
        match file.len() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            length => break length?,
        }
    };
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut at = 0;
    while at < bytes.len() {
        match file.read_at(&mut bytes[at..], at as u64) {
            // Shorter than it was a moment ago: what is there.
            Ok(0) => bytes.truncate(at),
            Ok(read) => at += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The name of the file that [`Disk`] locks; it is never listed.
const LOCK: &str = "LOCK";

/// The name, if it may name a file.
fn plain(name: &str) -> io::Result<&str> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) || name == LOCK {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} cannot name a file here")));
    }
    Ok(name)
}
