//! Files that can only be read, and that tell how much of them was.

use heddledb::storage::{self, File, Guard, Storage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Is told how many bytes have been read.
pub type Tell = Arc<dyn Fn(u64) + Send + Sync>;

/// A storage whose files are only read, every change being refused, and whose reads are told.
pub struct ReadOnly {
    below: storage::ReadOnly,
    read: Arc<AtomicU64>,
    tell: Tell,
}

impl ReadOnly {
    /// The same files, to be read; `tell` hears of everything that is.
    pub fn new(storage: Arc<dyn Storage>, tell: Tell) -> Self {
        Self { below: storage::ReadOnly::new(storage), read: Arc::default(), tell }
    }
}

impl Storage for ReadOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.below.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = self.below.open(name)?;
        Ok(Box::new(ToldFile { file, read: Arc::clone(&self.read), tell: Arc::clone(&self.tell) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.below.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.below.sync_names()
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        self.below.lock()
    }

    fn place(&self) -> String {
        self.below.place()
    }
}

/// A file whose reads are told.
struct ToldFile {
    file: Box<dyn File>,
    read: Arc<AtomicU64>,
    tell: Tell,
}

impl File for ToldFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, offset)?;
        // Relaxed: a figure to show.
        (self.tell)(self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64);
        Ok(bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
