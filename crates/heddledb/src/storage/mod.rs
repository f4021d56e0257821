//! Files, behind one trait: the real disk, and one that fails on demand.
//!
//! The log, checkpoints and recovery reach files through [`Storage`] alone, so that their tests can
//! cut the power after any operation. What a disk promises here is what POSIX promises and no more:
//! written bytes and new names may be lost, torn or reordered until [`File::sync`] and
//! [`Storage::sync_names`] return; a failed sync says nothing about any of them.

mod disk;
mod simulated;

pub use disk::Disk;
pub use simulated::{Fault, Simulated};

use std::io;

/// A directory of files. Names are plain: no separators.
pub trait Storage: Send + Sync + 'static {
    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes an empty file, which must not exist, and opens it. Its name is durable after
    /// [`Storage::sync_names`].
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Opens a file.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Gives a file another name, and replaces the file that had it, at once or not at all.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals so far durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Keeps every other process and database out until the guard is dropped.
    fn lock(&self) -> io::Result<Box<dyn Guard>>;
    /// Where the files are, for messages.
    fn place(&self) -> String;
}

/// A lock on a directory; dropping it unlocks.
pub trait Guard: Send + Sync {}

/// An open file. One writer at a time.
pub trait File: Send + Sync {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to the buffer's length at `offset`; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at least one of the bytes at `offset`, and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the file `bytes` long, by cutting it or by adding zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Asks for room up to `bytes` ahead of writing, without a change of the length. A hint.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Makes the content written so far durable, and the length as far as needed to read it.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all of the bytes; goes on after interruptions and short writes.
pub(crate) fn write_all(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
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

/// Reads the whole file.
pub(crate) fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
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
