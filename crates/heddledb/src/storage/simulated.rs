//! A disk that loses power, tears, forgets, lies and runs full, as a seed says.
//!
//! Each file has the content that is certain to survive and the operations since; at a power cut
//! every one of those is kept, dropped or torn by a draw, independently of the others, so that they
//! also seem reordered. Names are alike, but in order: the cut keeps some first ones of them.

use super::{File, Guard, Storage};
use crate::sync::Random;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What goes wrong at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power fails before it; every later operation fails too.
    PowerCut,
    /// The device reports an error. After a sync, what was to be synced is forgotten by the system
    /// and may or may not be on the disk.
    Error,
    /// There is no room.
    Full,
    /// A signal came in between; nothing was done.
    Interrupted,
    /// A write or read does a part only.
    Short,
}

/// A simulated directory. A cheap handle.
#[derive(Clone)]
pub struct Simulated {
    state: Arc<Mutex<State>>,
}

struct State {
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    off: bool,
    locked: bool,
    /// The names that survive, and what was done to names since.
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    names: BTreeMap<String, usize>,
    files: Vec<Content>,
}

#[derive(Clone)]
enum NameChange {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

/// The content of a file.
#[derive(Default)]
struct Content {
    /// What is certain to survive.
    durable: Vec<u8>,
    /// What came after.
    pending: Vec<Pending>,
    /// What a failed sync left undecided for good: the system counts it as written.
    forgotten: Vec<Pending>,
    /// What a reader finds.
    view: Vec<u8>,
}

enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// The atom of a disk write.
const SECTOR: usize = 512;

impl Simulated {
    /// An empty directory.
    pub fn new() -> Self {
        Self::of(BTreeMap::new(), Vec::new())
    }

    fn of(names: BTreeMap<String, usize>, files: Vec<Content>) -> Self {
        let state = State {
            operations: 0,
            faults: BTreeMap::new(),
            off: false,
            locked: false,
            durable_names: names.clone(),
            name_changes: Vec::new(),
            names,
            files,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes operation number `at`, counted from 0, go wrong.
    pub fn fail(&self, at: u64, fault: Fault) {
        self.state().faults.insert(at, fault);
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// True after the power was cut.
    pub fn is_off(&self) -> bool {
        self.state().off
    }

    /// Cuts the power now.
    pub fn cut_power(&self) {
        self.state().off = true;
    }

    /// What is found when the power is back: a new disk, drawn with `seed` from what may have
    /// survived. This disk stays as it is.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = Random::new(seed);
        let mut names = state.durable_names.clone();
        let kept = random.below(state.name_changes.len() as u64 + 1) as usize;
        state.name_changes[..kept].iter().for_each(|change| change.apply(&mut names));
        // Files keep their numbers; those without a name are unreachable.
        let files = state.files.iter().map(|content| content.survive(&mut random)).collect();
        Self::of(names, files)
    }

    /// The same content, all of it safe: the disk of a process that was killed.
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        let files = state.files.iter().map(|content| Content::safe(content.view.clone())).collect();
        Self::of(state.names.clone(), files)
    }

    /// Flips a bit of a file at rest.
    ///
    /// # Panics
    /// Without such a file or bit.
    pub fn flip(&self, name: &str, bit: u64) {
        let mut state = self.state();
        let number = state.names[name];
        let file = &mut state.files[number];
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        file.view[byte] ^= mask;
        if let Some(byte) = file.durable.get_mut(byte) {
            *byte ^= mask;
        }
    }

    /// The bytes of a file.
    ///
    /// # Panics
    /// Without such a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[state.names[name]].view.clone()
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create(name, file) => _ = names.insert(name.clone(), *file),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove(name) => _ = names.remove(name),
        }
    }
}

impl Content {
    fn safe(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), view: bytes, ..Self::default() }
    }

    fn survive(&self, random: &mut Random) -> Self {
        let mut bytes = self.durable.clone();
        for pending in self.forgotten.iter().chain(&self.pending) {
            match pending {
                Pending::Length(length) if random.below(2) == 0 => bytes.resize(*length, 0),
                Pending::Length(_) => {}
                Pending::Write { offset, bytes: written } => match random.below(4) {
                    0 => put(&mut bytes, *offset, written),
                    1 => {}
                    // Torn: some sectors, or the bytes up to any one.
                    2 => {
                        for (number, sector) in written.chunks(SECTOR).enumerate() {
                            if random.below(2) == 0 {
                                put(&mut bytes, offset + number * SECTOR, sector);
                            }
                        }
                    }
                    _ => {
                        let kept = random.below(written.len() as u64 + 1) as usize;
                        put(&mut bytes, *offset, &written[..kept]);
                    }
                },
            }
        }
        Self::safe(bytes)
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    if bytes.len() < offset + written.len() {
        bytes.resize(offset + written.len(), 0);
    }
    bytes[offset..offset + written.len()].copy_from_slice(written);
}

impl State {
    /// Counts an operation. The fault that it is to suffer, unless it fails by that alone.
    fn operation(&mut self) -> io::Result<Option<Fault>> {
        let fault = self.faults.get(&self.operations).copied();
        self.operations += 1;
        self.off |= fault == Some(Fault::PowerCut);
        match fault {
            _ if self.off => Err(io::Error::other("the power is off")),
            Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            fault => Ok(fault),
        }
    }

    /// The same where an error has no further effect and nothing can be short.
    fn plain(&mut self) -> io::Result<()> {
        match self.operation()? {
            Some(Fault::Error) => Err(io::Error::other("the device failed")),
            _ => Ok(()),
        }
    }

    fn rename(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for Simulated {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.plain()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.plain()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = state.files.len();
        state.files.push(Content::default());
        state.rename(NameChange::Create(name.to_owned(), number));
        Ok(Box::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.plain()?;
        let number = state.number(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.plain()?;
        state.number(from)?;
        state.rename(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.plain()?;
        state.number(name)?;
        state.rename(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.plain()?;
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let mut state = self.state();
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(SimulatedGuard(self.clone())))
    }

    fn place(&self) -> String {
        "the simulated disk".to_owned()
    }
}

struct SimulatedGuard(Simulated);

impl Guard for SimulatedGuard {}

impl Drop for SimulatedGuard {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

struct SimulatedFile {
    disk: Simulated,
    number: usize,
}

impl File for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.plain()?;
        Ok(state.files[self.number].view.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.operation()?;
        if fault == Some(Fault::Error) {
            return Err(io::Error::other("the device failed"));
        }
        let view = &state.files[self.number].view;
        let from = (offset as usize).min(view.len());
        let mut count = buffer.len().min(view.len() - from);
        if fault == Some(Fault::Short) && count > 1 {
            count /= 2;
        }
        buffer[..count].copy_from_slice(&view[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.operation()?;
        let count = if fault.is_some() && bytes.len() > 1 { bytes.len() / 2 } else { bytes.len() };
        let (written, offset) = (bytes[..count].to_vec(), offset as usize);
        let file = &mut state.files[self.number];
        put(&mut file.view, offset, &written);
        file.pending.push(Pending::Write { offset, bytes: written });
        // After an error, nobody knows how much was written.
        if fault == Some(Fault::Error) { Err(io::Error::other("the device failed")) } else { Ok(count) }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.plain()?;
        let file = &mut state.files[self.number];
        file.view.resize(bytes as usize, 0);
        file.pending.push(Pending::Length(bytes as usize));
        Ok(())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        self.disk.state().plain()
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.operation()?;
        let file = &mut state.files[self.number];
        if fault == Some(Fault::Error) {
            let pending = std::mem::take(&mut file.pending);
            file.forgotten.extend(pending);
            return Err(io::Error::other("the device failed to sync"));
        }
        for pending in std::mem::take(&mut file.pending) {
            match pending {
                Pending::Write { offset, bytes } => put(&mut file.durable, offset, &bytes),
                Pending::Length(length) => file.durable.resize(length, 0),
            }
        }
        Ok(())
    }
}
