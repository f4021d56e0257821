//! Files that can be read and nothing else.

use super::{File, Guard, Storage};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// A storage through which nothing is written: what would change it fails with
/// [`io::ErrorKind::ReadOnlyFilesystem`].
pub struct ReadOnly(Arc<dyn Storage>);

impl ReadOnly {
    /// The same files, to be read.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self(storage)
    }
}

/// What everything says that would write.
fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for ReadOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(ReadOnlyFile(self.0.open(name)?)))
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

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        self.0.lock()
    }

    fn place(&self) -> String {
        self.0.place()
    }

    fn clock(&self) -> SystemTime {
        self.0.clock()
    }
}

struct ReadOnlyFile(Box<dyn File>);

impl File for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
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
