//! A simulated disk whose operations take virtual time.
//!
//! The disk itself fails as a seed says ([`Simulated`]). Here each operation first lets time pass, so that
//! others run meanwhile and a fate can befall whoever waits; then it happens at once, without accesses of its
//! own, so that nobody dies with the disk in hand.

use heddledb::storage::{File, Guard, Simulated, Storage};
use heddledb_engine_simulated::sync::simulation::free;
use heddledb_engine_simulated::sync::sleep;
use std::io;
use std::time::Duration;

/// The disk.
pub(super) struct Timed {
    pub disk: Simulated,
    pub latency: Duration,
}

struct TimedFile {
    file: Box<dyn File>,
    latency: Duration,
}

fn after<R>(latency: Duration, operation: impl FnOnce() -> R) -> R {
    if !latency.is_zero() {
        sleep(latency);
    }
    free(operation)
}

impl Timed {
    fn file(&self, open: impl FnOnce() -> io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        let file = after(self.latency, open)?;
        Ok(Box::new(TimedFile { file, latency: self.latency }))
    }
}

impl Storage for Timed {
    fn list(&self) -> io::Result<Vec<String>> {
        after(self.latency, || self.disk.list())
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.file(|| self.disk.create(name))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.file(|| self.disk.open(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        after(self.latency, || self.disk.rename(from, to))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        after(self.latency, || self.disk.remove(name))
    }
    fn sync_names(&self) -> io::Result<()> {
        after(self.latency, || self.disk.sync_names())
    }
    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        after(self.latency, || self.disk.lock())
    }
    fn place(&self) -> String {
        self.disk.place()
    }
}

impl File for TimedFile {
    fn len(&self) -> io::Result<u64> {
        after(self.latency, || self.file.len())
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        after(self.latency, || self.file.read_at(buffer, offset))
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        after(self.latency, || self.file.write_at(bytes, offset))
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        after(self.latency, || self.file.set_len(bytes))
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        after(self.latency, || self.file.reserve(bytes))
    }
    fn sync(&self) -> io::Result<()> {
        // What takes long on a real disk.
        after(self.latency * 4, || self.file.sync())
    }
}
