//! A disk that loses power, tears, forgets, lies and runs full, as a seed says.
//!
//! Each file has a content that is certain to survive, and a list of the changes since. At a power
//! cut every change that no sync has decided is kept, dropped or torn by a draw, independently of
//! the others, so that changes also seem reordered; decided ones in between are kept. What a failed
//! sync was to save stays undecided whatever is synced later, although readers see it.
//!
//! Changes of names are alike, but never torn, and one is kept only with all earlier ones of the
//! same names: a cut may keep a removal and lose an older creation, as file systems with several
//! journals do, but not make up a directory that no order of changes could have made.
//!
//! Contents are shared until written, so a disk after a cut costs what was written to it.

use super::edit::Edit;
use super::{File, Guard, Storage, plain};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What goes wrong at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The power fails before it; every later operation fails too.
    PowerCut,
    /// The device reports an error. A write may have written a part, and what a sync was to save
    /// stays undecided; else nothing was done.
    Error,
    /// There is no room. Nothing was written; what a sync was to save stays undecided.
    Full,
    /// A signal came in between; nothing was done.
    Interrupted,
    /// A read or write of several bytes does half of them. Other operations are not concerned.
    Short,
}

/// A simulated directory. A handle: its clones are the same disk.
#[derive(Clone)]
pub struct Simulated {
    state: Arc<Mutex<State>>,
}

struct State {
    operations: u64,
    /// Those among them that would change something, or make a change durable.
    writes: u64,
    faults: BTreeMap<u64, Fault>,
    off: bool,
    locked: bool,
    /// What the clock on the wall says before any operation.
    clock: Duration,
    /// Bytes that all files together may have.
    limit: u64,
    names: Names,
    /// By number, which a file keeps in all disks that come from this one.
    files: Vec<Content>,
}

/// How sure it is that a change survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Until the next sync.
    Open,
    /// A sync has failed: for ever.
    Undecided,
    /// It is kept, but stands behind an undecided one.
    Durable,
}

/// The changes since the last state that is certain, oldest first.
type Changes<T> = Vec<(Fate, T)>;

/// Gives the open changes their fate. Those that are certain now and first in order.
fn settle<T>(changes: &mut Changes<T>, fate: Fate) -> impl Iterator<Item = T> {
    changes.iter_mut().filter(|change| change.0 == Fate::Open).for_each(|change| change.0 = fate);
    let certain = changes.iter().position(|change| change.0 != Fate::Durable).unwrap_or(changes.len());
    changes.drain(..certain).map(|change| change.1)
}

/// Names and the files that they mean.
#[derive(Clone, Default)]
struct Names {
    certain: BTreeMap<String, usize>,
    changes: Changes<Renaming>,
    /// What a reader finds.
    view: BTreeMap<String, usize>,
}

#[derive(Clone)]
enum Renaming {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

/// The content of a file.
#[derive(Clone, Default)]
struct Content {
    certain: Arc<Vec<u8>>,
    changes: Changes<Edit>,
    /// What a reader finds.
    view: Arc<Vec<u8>>,
}

/// The room of a new disk: enough for any test, and a wild offset does not take all memory.
const LIMIT: u64 = 1 << 30;
/// What the clock of a new disk says: 1 January 2026.
const FIRST_CLOCK: Duration = Duration::from_secs(1_767_225_600);
/// How long an operation takes by that clock.
const OPERATION: Duration = Duration::from_millis(1);

impl Simulated {
    /// An empty directory.
    pub fn new() -> Self {
        Self::of(Names::default(), Vec::new(), LIMIT, FIRST_CLOCK)
    }

    fn of(names: Names, files: Vec<Content>, limit: u64, clock: Duration) -> Self {
        let state = State {
            operations: 0,
            writes: 0,
            faults: BTreeMap::new(),
            off: false,
            locked: false,
            clock,
            limit,
            names,
            files,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets so much time pass by the disk's clock. It begins with the year 2026, an operation takes a millisecond, and what
    /// a crash leaves goes on from there.
    pub fn pass(&self, time: Duration) {
        self.state().clock += time;
    }

    /// Puts the disk's clock back by so much.
    pub fn set_back(&self, time: Duration) {
        let mut state = self.state();
        state.clock = state.clock.saturating_sub(time);
    }

    /// Makes operation number `at`, counted from 0, go wrong.
    pub fn fail(&self, at: u64, fault: Fault) {
        self.state().faults.insert(at, fault);
    }

    /// Gives all files together room for `bytes`. A write that needs more is short, and fails when
    /// not even its first byte finds room.
    pub fn limit(&self, bytes: u64) {
        self.state().limit = bytes;
    }

    /// Operations so far: every call of [`Storage`] and [`File`] but [`Storage::place`], failed ones
    /// too. The number of the next one.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How many of the operations would change something, or make a change durable: all but to list, to open, to lock,
    /// to take a length and to read.
    pub fn writes(&self) -> u64 {
        self.state().writes
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
    /// survived a cut at this moment. It has no faults, no lock, and counts from 0. This disk stays
    /// as it is.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = Random::new(seed);
        let names = state.names.survivors(&mut random);
        let mut files = vec![Content::default(); state.files.len()];
        for &number in names.values() {
            files[number] = Content::safe(state.files[number].survivor(&mut random));
        }
        let names = Names { certain: names.clone(), changes: Vec::new(), view: names };
        Self::of(names, files, state.limit, state.now())
    }

    /// What the next process finds when this one is killed: a new disk with all that was written,
    /// of which as much is certain to survive a power cut as before. It has no faults, no lock, and
    /// counts from 0. This disk stays as it is.
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        Self::of(state.names.clone(), state.files.clone(), state.limit, state.now())
    }

    /// Flips a bit of a file at rest.
    ///
    /// # Panics
    /// Without such a file or bit.
    pub fn flip(&self, name: &str, bit: u64) {
        self.damage(name, bit / 8, 1, |_, byte| *byte ^= 1 << (bit % 8));
    }

    /// Puts other bytes into a file at rest: a block that was written to the wrong place, or an old
    /// one that a lost write should have replaced.
    ///
    /// # Panics
    /// Without such a file, or beyond its end.
    pub fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) {
        self.damage(name, offset, bytes.len(), |at, byte| *byte = bytes[at]);
    }

    /// Changes bytes of a file, in all that may survive of it.
    fn damage(&self, name: &str, offset: u64, length: usize, change: impl Fn(usize, &mut u8)) {
        let mut state = self.state();
        let Some(&number) = state.names.view.get(name) else { panic!("no file {name}") };
        let (file, offset) = (&mut state.files[number], offset as usize);
        let end = offset.saturating_add(length);
        assert!(end <= file.view.len(), "file {name} has {} bytes, not {end}", file.view.len());
        let apply = |start: usize, bytes: &mut [u8]| {
            for (at, byte) in bytes.iter_mut().enumerate() {
                if (offset..end).contains(&(start + at)) {
                    change(start + at - offset, byte);
                }
            }
        };
        apply(0, Arc::make_mut(&mut file.view).as_mut_slice());
        apply(0, Arc::make_mut(&mut file.certain).as_mut_slice());
        for (_, edit) in &mut file.changes {
            if let Edit::Write { offset, bytes } = edit {
                apply(*offset, Arc::make_mut(bytes));
            }
        }
    }

    /// The bytes of a file, as a reader finds them. Not an operation.
    ///
    /// # Panics
    /// Without such a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        let Some(&number) = state.names.view.get(name) else { panic!("no file {name}") };
        state.files[number].view.to_vec()
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Simulated")
            .field("operations", &state.operations)
            .field("off", &state.off)
            .field("files", &state.names.view.keys())
            .finish_non_exhaustive()
    }
}

impl Renaming {
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

    /// The names that it changes; one of them twice where it is one.
    fn names(&self) -> [&str; 2] {
        match self {
            Self::Create(name, _) | Self::Remove(name) => [name, name],
            Self::Rename(from, to) => [from, to],
        }
    }
}

impl Names {
    fn change(&mut self, change: Renaming) {
        change.apply(&mut self.view);
        self.changes.push((Fate::Open, change));
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        self.view.get(plain(name)?).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Names after a power cut: those of some first changes, or of any.
    fn survivors(&self, random: &mut Random) -> BTreeMap<String, usize> {
        let first = random.below(2) == 0;
        let kept = random.below(self.changes.len() as u64 + 1) as usize;
        let mut needed = BTreeSet::new();
        let mut chosen = Vec::new();
        for (at, (fate, change)) in self.changes.iter().enumerate().rev() {
            let drawn = if first { at < kept } else { random.below(2) == 0 };
            let names = change.names();
            if *fate == Fate::Durable || drawn || names.iter().any(|name| needed.contains(name)) {
                needed.extend(names);
                chosen.push(change);
            }
        }
        let mut names = self.certain.clone();
        chosen.iter().rev().for_each(|change| change.apply(&mut names));
        names
    }
}

impl Content {
    fn safe(bytes: Arc<Vec<u8>>) -> Self {
        Self { certain: bytes.clone(), changes: Vec::new(), view: bytes }
    }

    fn change(&mut self, edit: Edit) {
        edit.apply(Arc::make_mut(&mut self.view));
        self.changes.push((Fate::Open, edit));
    }

    fn settle(&mut self, fate: Fate) {
        for edit in settle(&mut self.changes, fate) {
            edit.apply(Arc::make_mut(&mut self.certain));
        }
    }

    /// The bytes after a power cut. Often some first changes and a torn one, as most disks leave
    /// them; else every change has its own luck.
    fn survivor(&self, random: &mut Random) -> Arc<Vec<u8>> {
        let mut bytes = self.certain.clone();
        if self.changes.is_empty() {
            return bytes;
        }
        let into = Arc::make_mut(&mut bytes);
        let count = self.changes.len() as u64;
        let (kept, lucky) = match random.below(8) {
            0 => (0, 0..0),
            1 => (count, 0..0),
            2 | 3 => {
                let kept = random.below(count);
                (kept, kept..kept + 1)
            }
            _ => (0, 0..count),
        };
        for (at, (fate, edit)) in (0..).zip(&self.changes) {
            if *fate == Fate::Durable || at < kept {
                edit.apply(into);
            } else if lucky.contains(&at) {
                edit.try_luck(into, random);
            }
        }
        bytes
    }
}

impl State {
    /// Counts an operation. The fault that it has to suffer in its own way: an error that may leave
    /// something behind, or half of the bytes.
    fn operation(&mut self) -> io::Result<Option<Fault>> {
        let fault = self.faults.get(&self.operations).copied();
        self.operations += 1;
        self.off |= fault == Some(Fault::PowerCut);
        match fault {
            _ if self.off => Err(io::Error::other("the power is off")),
            Some(Fault::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
            fault => Ok(fault),
        }
    }

    /// What its clock says, since 1970.
    fn now(&self) -> Duration {
        self.clock + OPERATION * u32::try_from(self.operations).unwrap_or(u32::MAX)
    }

    /// The same where an error leaves nothing behind and there are no halves.
    fn simple(&mut self) -> io::Result<()> {
        self.operation()?.and_then(error).map_or(Ok(()), Err)
    }

    /// Bytes that a file may grow by.
    fn room(&self) -> u64 {
        let used = self.names.view.values().map(|&number| self.files[number].view.len() as u64).sum();
        self.limit.saturating_sub(used)
    }
}

/// The error that a fault reports, if it is one.
fn error(fault: Fault) -> Option<io::Error> {
    match fault {
        Fault::Error => Some(io::Error::other("the device failed")),
        Fault::Full => Some(io::ErrorKind::StorageFull.into()),
        _ => None,
    }
}

impl Storage for Simulated {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.simple()?;
        Ok(state.names.view.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.writes += 1;
        state.simple()?;
        if state.names.view.contains_key(plain(name)?) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = state.files.len();
        state.files.push(Content::default());
        state.names.change(Renaming::Create(name.to_owned(), number));
        Ok(Box::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.simple()?;
        let number = state.names.number(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.writes += 1;
        state.simple()?;
        state.names.number(from)?;
        state.names.change(Renaming::Rename(from.to_owned(), plain(to)?.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.writes += 1;
        state.simple()?;
        state.names.number(name)?;
        state.names.change(Renaming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.writes += 1;
        let error = state.operation()?.and_then(error);
        let fate = if error.is_some() { Fate::Undecided } else { Fate::Durable };
        let Names { certain, changes, .. } = &mut state.names;
        settle(changes, fate).for_each(|change| change.apply(certain));
        error.map_or(Ok(()), Err)
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        let mut state = self.state();
        state.simple()?;
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(SimulatedGuard(self.clone())))
    }

    fn place(&self) -> String {
        "the simulated disk".to_owned()
    }

    fn clock(&self) -> SystemTime {
        UNIX_EPOCH + self.state().now()
    }
}

/// Holds the lock of its own disk, not of those that come from it.
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
        state.simple()?;
        Ok(state.files[self.number].view.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.operation()?;
        if let Some(error) = fault.and_then(error) {
            return Err(error);
        }
        let view = &state.files[self.number].view;
        let from = offset.min(view.len() as u64) as usize;
        let mut count = buffer.len().min(view.len() - from);
        if fault == Some(Fault::Short) && count > 1 {
            count /= 2;
        }
        buffer[..count].copy_from_slice(&view[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.writes += 1;
        let fault = state.operation()?;
        let mut count = match fault {
            Some(Fault::Full) => 0,
            // A part of one byte is the whole after a short write, and nothing after an error.
            Some(Fault::Short) => bytes.len().div_ceil(2),
            Some(Fault::Error) => bytes.len() / 2,
            _ => bytes.len(),
        };
        let end = offset.saturating_add(count as u64);
        let growth = end.saturating_sub(state.files[self.number].view.len() as u64);
        count = count.saturating_sub(growth.saturating_sub(state.room()) as usize);
        if count > 0 {
            let bytes = Arc::from(&bytes[..count]);
            state.files[self.number].change(Edit::Write { offset: offset as usize, bytes });
        }
        match fault.and_then(error) {
            Some(error) => Err(error),
            None if count == 0 && !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(count),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.writes += 1;
        state.simple()?;
        if bytes.saturating_sub(state.files[self.number].view.len() as u64) > state.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.files[self.number].change(Edit::Length(bytes as usize));
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.writes += 1;
        state.simple()?;
        // Found out, not kept: the room may be gone when it is needed.
        if bytes.saturating_sub(state.files[self.number].view.len() as u64) > state.room() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.writes += 1;
        let error = state.operation()?.and_then(error);
        let fate = if error.is_some() { Fate::Undecided } else { Fate::Durable };
        state.files[self.number].settle(fate);
        error.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
impl Simulated {
    /// The names and their files' numbers, which stay the same in disks that come from this one.
    pub(super) fn numbers(&self) -> BTreeMap<String, usize> {
        self.state().names.view.clone()
    }
}
