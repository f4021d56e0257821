//! A directory that is opened and stays as it is: what the database writes to it is kept in memory.

use heddledb::storage::{File, Guard, ReadOnly, Storage};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory whose files are read, with files in memory over them. A file of the directory may only be written with
/// what it holds, as recovery does with its last round.
pub struct Overlay {
    below: ReadOnly,
    /// The files that are in memory; `None` for one of the directory that is gone.
    over: Mutex<BTreeMap<String, Option<InMemory>>>,
}

#[derive(Clone, Default)]
struct InMemory(Arc<Mutex<Vec<u8>>>);

/// A file of the directory.
struct Below(Box<dyn File>);

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done by a panic in here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the directory is only being checked"))
}

impl Overlay {
    /// Over a directory.
    pub fn new(below: ReadOnly) -> Self {
        Self { below, over: Mutex::default() }
    }
}

impl Storage for Overlay {
    fn list(&self) -> io::Result<Vec<String>> {
        let over = held(&self.over);
        let mut names = self.below.list()?;
        names.retain(|name| !over.contains_key(name));
        names.extend(over.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()));
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        if self.list()?.iter().any(|there| there == name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = InMemory::default();
        held(&self.over).insert(name.to_owned(), Some(file.clone()));
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        match held(&self.over).get(name) {
            Some(Some(file)) => Ok(Box::new(file.clone())),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => Ok(Box::new(Below(self.below.open(name)?))),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut over = held(&self.over);
        let Some(Some(file)) = over.get(from).cloned() else { return refused() };
        over.insert(from.to_owned(), None);
        over.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        held(&self.over).insert(name.to_owned(), None);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        self.below.lock()
    }

    fn place(&self) -> String {
        self.below.place()
    }
}

impl File for InMemory {
    fn len(&self) -> io::Result<u64> {
        Ok(held(&self.0).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = held(&self.0);
        let there = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)).unwrap_or(&[]);
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = held(&self.0);
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end = from + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(new);
        Ok(new.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        held(&self.0).resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for Below {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut there = vec![0; bytes.len()];
        let read = self.0.read_at(&mut there, offset)?;
        if read > 0 && there[..read] == bytes[..read] { Ok(read) } else { refused() }
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
