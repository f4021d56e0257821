use super::*;
use crate::sync::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

fn kind<T>(outcome: io::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// What both disks promise while nothing goes wrong.
fn contract(disk: &dyn Storage) {
    assert_eq!(disk.list().unwrap(), [""; 0]);
    assert_eq!(kind(disk.open("a")), Some(ErrorKind::NotFound));
    assert_eq!(kind(disk.remove("a")), Some(ErrorKind::NotFound));
    assert_eq!(kind(disk.rename("a", "b")), Some(ErrorKind::NotFound));
    for name in ["", ".", "..", ".hidden", "a/b", "LOCK", "a\0"] {
        assert_eq!(kind(disk.create(name)), Some(ErrorKind::InvalidInput), "{name:?}");
        assert_eq!(kind(disk.open(name)), Some(ErrorKind::InvalidInput), "{name:?}");
        assert_eq!(kind(disk.remove(name)), Some(ErrorKind::InvalidInput), "{name:?}");
        assert_eq!(kind(disk.rename(name, "b")), Some(ErrorKind::InvalidInput), "{name:?}");
    }

    // Lengths, gaps, short reads.
    let b = disk.create("b").unwrap();
    let a = disk.create("a").unwrap();
    assert_eq!(kind(disk.create("a")), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(disk.rename("a", "../a")), Some(ErrorKind::InvalidInput));
    assert_eq!(disk.list().unwrap(), ["a", "b"]);
    assert_eq!(a.len().unwrap(), 0);
    write_all(&*a, b"hello", 3).unwrap();
    assert_eq!(read_all(&*a).unwrap(), b"\0\0\0hello");
    let mut buffer = [9; 4];
    assert_eq!(a.read_at(&mut buffer, 6).unwrap(), 2);
    assert_eq!(buffer, *b"lo\x09\x09");
    assert_eq!(a.read_at(&mut buffer, 8).unwrap(), 0);
    assert_eq!(a.read_at(&mut buffer, 1 << 40).unwrap(), 0);
    assert_eq!(a.write_at(b"", 100).unwrap(), 0);
    for bytes in [0, 3, 1 << 16] {
        a.reserve(bytes).unwrap();
        assert_eq!(a.len().unwrap(), 8);
    }
    a.set_len(4).unwrap();
    a.set_len(6).unwrap();
    assert_eq!(read_all(&*a).unwrap(), b"\0\0\0h\0\0");
    a.sync().unwrap();
    disk.sync_names().unwrap();

    // Two handles are one file; a rename replaces at once; a removed file lives while it is open.
    let again = disk.open("a").unwrap();
    write_all(&*again, b"xy", 0).unwrap();
    assert_eq!(read_all(&*a).unwrap(), b"xy\0h\0\0");
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert_eq!(kind(disk.open("a")), Some(ErrorKind::NotFound));
    assert_eq!(read_all(&*disk.open("b").unwrap()).unwrap(), b"xy\0h\0\0");
    write_all(&*b, b"replaced", 0).unwrap();
    assert_eq!(read_all(&*b).unwrap(), b"replaced");
    disk.rename("b", "b").unwrap();
    disk.remove("b").unwrap();
    assert_eq!(read_all(&*again).unwrap(), b"xy\0h\0\0");
    assert_eq!(disk.list().unwrap(), [""; 0]);

    // One lock, which is no file.
    let guard = disk.lock().unwrap();
    assert_eq!(kind(disk.lock()), Some(ErrorKind::WouldBlock));
    assert_eq!(disk.list().unwrap(), [""; 0]);
    drop(guard);
    drop(disk.lock().unwrap());
    assert!(!disk.place().is_empty());
}

#[test]
fn a_directory_keeps_the_contract() {
    let place = tempfile::tempdir().unwrap();
    contract(&Disk::open(place.path()).unwrap());
}

#[test]
fn long_and_short_writes_of_any_place_mix() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::open(place.path()).unwrap();
    let file = disk.create("a").unwrap();
    let (mut expected, mut random) = (vec![0; 1 << 20], Random::new(7));
    let (mut end, bytes) = (0, (0..9 << 20).map(|n: u32| (n / 7) as u8).collect::<Vec<_>>());
    for round in 0..60 {
        // Around the sizes from which a write goes past the page cache, and to which it goes at once.
        let most = [100, 66_000, 80_000, 500_000, 5 << 20][round % 5];
        let length = random.below(most) as usize + 1;
        let from = random.below(1 << 20) as usize;
        // Mostly at the end, as logs are written.
        let at = if round % 4 == 0 { random.below(end as u64 + 1) as usize } else { end };
        write_all(&*file, &bytes[from..from + length], at as u64).unwrap();
        end = end.max(at + length);
        expected.resize(end, 0);
        expected[at..at + length].copy_from_slice(&bytes[from..from + length]);
        if round % 7 == 0 {
            file.sync().unwrap();
        }
    }
    assert!(read_all(&*file).unwrap() == expected);
    assert!(read_all(&*disk.open("a").unwrap()).unwrap() == expected);
}

#[test]
fn a_simulated_disk_keeps_the_contract() {
    contract(&Simulated::new());
}

#[test]
fn opening_makes_the_directory_and_finds_it_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("some/where");
    let first = Disk::open(&path).unwrap();
    write_all(&*first.create("a").unwrap(), b"kept", 0).unwrap();
    let guard = first.lock().unwrap();
    let second: Arc<dyn Storage> = Arc::new(Disk::open(&path).unwrap());
    assert_eq!(kind(second.lock()), Some(ErrorKind::WouldBlock));
    drop((guard, first));
    let _guard = second.lock().unwrap();
    assert_eq!(second.list().unwrap(), ["a"]);
    assert_eq!(read_all(&*second.open("a").unwrap()).unwrap(), b"kept");
    // A file in its place.
    assert!(Disk::open(path.join("a")).is_err());
}

/// A child that was just forked has a copy of every open file until it runs its program.
#[test]
fn a_lock_ends_while_processes_are_started() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::open(place.path()).unwrap();
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            for _ in 0..100 {
                std::process::Command::new("true").status().unwrap();
            }
        });
        while !starter.is_finished() {
            drop(disk.lock().unwrap());
        }
    });
}

#[test]
fn locks_end_with_the_process() {
    let disk = Simulated::new();
    let _guard = disk.lock().unwrap();
    assert!(disk.clone().lock().is_err());
    let (cut, killed) = (disk.after_power_cut(1), disk.after_kill());
    let guards = (cut.lock().unwrap(), killed.lock().unwrap());
    drop(_guard);
    assert!(cut.lock().is_err() && killed.lock().is_err());
    drop(guards);
}

/// Every kind of operation, numbered from 0 after the two creations, with its outcome.
fn workload(disk: &dyn Storage) -> Vec<(u64, io::Result<usize>)> {
    let mut outcomes = Vec::new();
    let mut done = |outcome: io::Result<usize>| {
        outcomes.push((outcomes.len() as u64, outcome));
    };
    let (Ok(a), Ok(b)) = (disk.create("a"), disk.create("b")) else { return outcomes };
    done(a.write_at(&[1; 100], 0));
    done(a.sync().map(|()| 0));
    done(b.reserve(10).map(|()| 0));
    done(b.write_at(&[2; 100], 0));
    done(b.set_len(50).map(|()| 0));
    done(b.len().map(|bytes| bytes as usize));
    done(b.read_at(&mut [0; 40], 0));
    done(b.sync().map(|()| 0));
    done(disk.rename("b", "a").map(|()| 0));
    done(disk.sync_names().map(|()| 0));
    done(disk.list().map(|names| names.len()));
    done(disk.open("a").map(|_| 0));
    done(disk.lock().map(|_| 0));
    done(disk.remove("a").map(|()| 0));
    outcomes
}

#[test]
fn faults_arrive_where_they_are_asked_for() {
    let plain = Simulated::new();
    let expected: Vec<_> = workload(&plain).into_iter().map(|(at, outcome)| (at, outcome.unwrap())).collect();
    // The two creations come first.
    assert_eq!(plain.operations(), expected.len() as u64 + 2);
    for at in 0..expected.len() as u64 {
        for (fault, error) in [
            (Fault::Error, ErrorKind::Other),
            (Fault::Full, ErrorKind::StorageFull),
            (Fault::Interrupted, ErrorKind::Interrupted),
            (Fault::PowerCut, ErrorKind::Other),
            (Fault::Short, ErrorKind::Other),
        ] {
            let disk = Simulated::new();
            disk.fail(at + 2, fault);
            let outcomes = workload(&disk);
            assert_eq!(disk.operations(), plain.operations(), "failed operations count");
            assert_eq!(disk.is_off(), fault == Fault::PowerCut);
            for (number, outcome) in outcomes {
                let normal = expected[number as usize].1;
                let failed = if fault == Fault::PowerCut { number >= at } else { number == at };
                match outcome {
                    Err(found) if failed && fault != Fault::Short => assert_eq!(found.kind(), error),
                    Ok(found) if failed && fault == Fault::Short => {
                        let half = [0, 3].contains(&number) || number == 6;
                        assert_eq!(found, if half { normal / 2 } else { normal });
                    }
                    // Later ones may fail because of it, but not by it; earlier ones are as ever.
                    outcome if number < at => assert_eq!(outcome.unwrap(), normal),
                    outcome => assert_ne!(kind(outcome), Some(error), "{fault:?} at {at}, seen at {number}"),
                }
            }
        }
    }
    for at in 0..2 {
        let disk = Simulated::new();
        disk.fail(at, Fault::Error);
        assert!(workload(&disk).is_empty());
    }
}

#[test]
fn whole_writes_and_reads_outlive_interruptions_and_halves() {
    let disk = Simulated::new();
    let bytes: Vec<u8> = (0..200).collect();
    for (at, fault) in
        [(1, Fault::Short), (2, Fault::Interrupted), (3, Fault::Short), (5, Fault::Interrupted)]
    {
        disk.fail(at, fault);
        disk.fail(at + 6, fault);
    }
    let file = disk.create("a").unwrap();
    write_all(&*file, &bytes, 0).unwrap();
    assert_eq!(disk.operations(), 5);
    assert_eq!(read_all(&*file).unwrap(), bytes);
    disk.fail(disk.operations(), Fault::Error);
    assert!(write_all(&*file, &bytes, 0).is_err());
}

#[test]
fn a_full_disk_writes_what_has_room() {
    let disk = Simulated::new();
    disk.limit(150);
    let (a, b) = (disk.create("a").unwrap(), disk.create("b").unwrap());
    assert_eq!(a.write_at(&[1; 100], 0).unwrap(), 100);
    assert_eq!(kind(b.reserve(51)), Some(ErrorKind::StorageFull));
    b.reserve(50).unwrap();
    assert_eq!(b.write_at(&[2; 100], 0).unwrap(), 50);
    assert_eq!(kind(b.write_at(&[2; 50], 50)), Some(ErrorKind::StorageFull));
    assert_eq!(kind(write_all(&*b, &[2; 100], 25)), Some(ErrorKind::StorageFull));
    assert_eq!(kind(b.write_at(&[2], u64::MAX)), Some(ErrorKind::StorageFull));
    assert_eq!(kind(b.set_len(51)), Some(ErrorKind::StorageFull));
    assert_eq!(a.write_at(&[3; 100], 0).unwrap(), 100);
    disk.remove("a").unwrap();
    assert_eq!(b.write_at(&[4; 100], 50).unwrap(), 100);
    assert_eq!(disk.bytes("b").len(), 150);
    assert_eq!(kind(disk.after_kill().open("b").unwrap().set_len(151)), Some(ErrorKind::StorageFull));
}

#[test]
fn damage_at_rest_is_found_now_and_after_a_cut() {
    let disk = Simulated::new();
    let file = disk.create("a").unwrap();
    disk.sync_names().unwrap();
    write_all(&*file, &[0; 2000], 0).unwrap();
    file.sync().unwrap();
    write_all(&*file, &[0; 500], 1000).unwrap();
    disk.flip("a", 8 * 700 + 3);
    disk.overwrite("a", 900, &[7; 200]);
    let mut expected = vec![0; 2000];
    expected[700] = 8;
    expected[900..1100].fill(7);
    assert_eq!(read_all(&*file).unwrap(), expected);
    for seed in 0..50 {
        assert_eq!(disk.after_power_cut(seed).bytes("a"), expected);
    }
    assert_eq!(disk.after_kill().bytes("a"), expected);
}

#[test]
fn a_failed_sync_decides_nothing_for_ever() {
    for fault in [Fault::Error, Fault::Full] {
        let disk = Simulated::new();
        let file = disk.create("a").unwrap();
        disk.sync_names().unwrap();
        write_all(&*file, &[1; 3000], 0).unwrap();
        disk.fail(disk.operations(), fault);
        assert!(file.sync().is_err());
        // What comes later and is synced is safe.
        write_all(&*file, &[2; 100], 1000).unwrap();
        file.sync().unwrap();
        assert!(read_all(&*file).unwrap().iter().all(|&byte| byte > 0), "the running process sees it");
        for disk in [disk.clone(), disk.after_kill()] {
            let found: Vec<_> = (0..100).map(|seed| disk.after_power_cut(seed).bytes("a")).collect();
            assert!(found.iter().all(|bytes| bytes[1000..1100] == [2; 100]));
            assert!(found.iter().any(|bytes| bytes[..1000] == [1; 1000]), "kept");
            assert!(found.iter().any(|bytes| bytes[..1000] == [0; 1000]), "lost");
            assert!(
                found.iter().any(|bytes| bytes[..512] == [1; 512] && bytes[512..1000] == [0; 488]),
                "torn"
            );
        }
    }
    // Names likewise.
    let disk = Simulated::new();
    disk.create("a").unwrap();
    disk.fail(1, Fault::Error);
    assert!(disk.sync_names().is_err());
    disk.create("b").unwrap();
    disk.sync_names().unwrap();
    let found: BTreeSet<_> = (0..50).map(|seed| disk.after_power_cut(seed).list().unwrap()).collect();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [vec!["a".to_owned(), "b".into()], vec!["b".into()]]);
    // An interrupted one has done nothing, and may be done again.
    let disk = Simulated::new();
    let file = disk.create("a").unwrap();
    disk.sync_names().unwrap();
    write_all(&*file, &[1; 3000], 0).unwrap();
    disk.fail(disk.operations(), Fault::Interrupted);
    assert_eq!(kind(file.sync()), Some(ErrorKind::Interrupted));
    file.sync().unwrap();
    assert!((0..50).all(|seed| disk.after_power_cut(seed).bytes("a") == [1; 3000]));
}

#[test]
fn a_cut_can_reorder_tear_and_forget() {
    let disk = Simulated::new();
    let file = disk.create("a").unwrap();
    disk.sync_names().unwrap();
    file.set_len(4096).unwrap();
    file.sync().unwrap();
    write_all(&*file, &[1; 1024], 0).unwrap();
    write_all(&*file, &[2; 1024], 1024).unwrap();
    write_all(&*file, &[3; 1024], 4096).unwrap();
    let whole = |bytes: &[u8], value| bytes.len() == 1024 && bytes.iter().all(|&byte| byte == value);
    let found: Vec<_> = (0..2000).map(|seed| disk.after_power_cut(seed).bytes("a")).collect();
    let any = |what: &dyn Fn(&[u8]) -> bool| assert!(found.iter().any(|bytes| what(bytes)));
    any(&|found| whole(&found[..1024], 1) && whole(&found[1024..2048], 2) && whole(&found[4096..], 3));
    any(&|found| whole(&found[..1024], 1) && whole(&found[1024..2048], 0));
    // The later one alone.
    any(&|found| whole(&found[..1024], 0) && whole(&found[1024..2048], 2));
    // The second sector alone.
    any(&|found| found[..512] == [0; 512] && found[512..1024] == [1; 512]);
    // In the middle of a sector.
    any(&|found| found[..1024].iter().filter(|&&byte| byte == 1).count() % 512 != 0);
    // The length without the bytes, and nothing of either.
    any(&|found| whole(&found[4096..], 0));
    any(&|found| found.len() == 4096);
    assert_eq!(disk.after_power_cut(7).bytes("a"), disk.after_power_cut(7).bytes("a"));
}

#[test]
fn a_removal_can_outlive_an_older_creation() {
    let disk = Simulated::new();
    disk.create("old").unwrap();
    disk.sync_names().unwrap();
    disk.create("draft").unwrap();
    disk.rename("draft", "new").unwrap();
    disk.remove("old").unwrap();
    let found: BTreeSet<_> =
        (0..200).map(|seed| disk.after_power_cut(seed).list().unwrap().join(" ")).collect();
    let expected = ["", "draft", "draft old", "new", "new old", "old"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Open(usize),
    Rename(usize, usize),
    Remove(usize),
    Write {
        file: usize,
        offset: u64,
        length: usize,
        value: u8,
    },
    Length(usize, u64),
    Sync(usize),
    SyncNames,
    FailedSync(usize),
    FailedSyncNames,
    /// The process is killed, and the next one goes on.
    Kill,
    /// The power is cut, and the next process goes on.
    Cut(u64),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn step() -> impl Strategy<Value = Step> {
    let (name, file) = (0..NAMES.len(), 0..8_usize);
    let write = (file.clone(), 0..3000_u64, 0..1500_usize, 1..=255_u8)
        .prop_map(|(file, offset, length, value)| Step::Write { file, offset, length, value });
    prop_oneof![
        3 => name.clone().prop_map(Step::Create),
        1 => name.clone().prop_map(Step::Open),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name.clone().prop_map(Step::Remove),
        8 => write,
        2 => (file.clone(), 0..4000_u64).prop_map(|(file, bytes)| Step::Length(file, bytes)),
        4 => file.clone().prop_map(Step::Sync),
        2 => Just(Step::SyncNames),
    ]
}

fn step_or_fault() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step(),
        2 => (0..8_usize).prop_map(Step::FailedSync),
        1 => Just(Step::FailedSyncNames),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::Cut),
    ]
}

/// What is known of a byte after a power cut.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// It is this one, or there is none.
    Sure(Option<u8>),
    /// One of those that it ever was; sure at the next sync.
    Open,
    /// One of those that it ever was.
    Never,
}

/// A file as simple as can be, and what is known of it.
#[derive(Clone, Default)]
struct Model {
    view: Vec<u8>,
    known: Vec<Known>,
    /// All values that a byte ever had.
    ever: Vec<BTreeSet<u8>>,
}

impl Model {
    fn reach(&mut self, length: usize) {
        if self.known.len() < length {
            self.known.resize(length, Known::Sure(None));
            self.ever.resize(length, BTreeSet::from([0]));
        }
    }

    fn set_len(&mut self, length: usize) {
        self.reach(length);
        let (old, new) = (self.view.len(), length);
        // What is cut off, or what appears; that appears as zeros only if nothing undecided is below.
        for known in &mut self.known[old.min(new)..] {
            if new < old || *known != Known::Never {
                *known = Known::Open;
            }
        }
        self.view.resize(length, 0);
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.view.len() {
            self.set_len(end);
        }
        self.view[offset..end].copy_from_slice(bytes);
        for at in offset..end {
            self.known[at] = Known::Open;
            self.ever[at].insert(self.view[at]);
        }
    }

    fn sync(&mut self, good: bool) {
        for (at, known) in self.known.iter_mut().enumerate() {
            if *known == Known::Open {
                *known = if good { Known::Sure(self.view.get(at).copied()) } else { Known::Never };
            }
        }
    }

    /// Checks what a power cut left, and goes on with that.
    fn survive(&mut self, found: &[u8]) -> Result<(), TestCaseError> {
        prop_assert!(found.len() <= self.known.len());
        for (at, known) in self.known.iter().enumerate() {
            match (known, found.get(at)) {
                (Known::Sure(sure), found) => prop_assert_eq!(*sure, found.copied(), "synced byte {}", at),
                (_, Some(found)) => prop_assert!(self.ever[at].contains(found), "byte {} is {}", at, found),
                (_, None) => {}
            }
        }
        *self = Self::default();
        self.write(0, found);
        self.sync(true);
        Ok(())
    }
}

/// Names, what is known of them, and all files ever, by number.
#[derive(Default)]
struct Directory {
    view: BTreeMap<usize, usize>,
    /// The names that are not sure, and whether a sync can make them so; with all files they ever meant.
    unsure: BTreeMap<usize, (bool, BTreeSet<Option<usize>>)>,
    files: Vec<Model>,
}

impl Directory {
    fn set(&mut self, name: usize, file: Option<usize>) {
        let old = self.view.get(&name).copied();
        let unsure = self.unsure.entry(name).or_default();
        unsure.0 = true;
        unsure.1.extend([old, file]);
        match file {
            Some(file) => _ = self.view.insert(name, file),
            None => _ = self.view.remove(&name),
        }
    }

    fn sync(&mut self, good: bool) {
        if good {
            self.unsure.retain(|_, unsure| !unsure.0);
        } else {
            self.unsure.values_mut().for_each(|unsure| unsure.0 = false);
        }
    }
}

/// Runs the steps on a simulated disk beside the models.
fn run(steps: &[Step], last: u64) -> Result<(), TestCaseError> {
    let mut disk = Simulated::new();
    let mut model = Directory::default();
    let mut handles: Vec<(usize, Box<dyn File>)> = Vec::new();
    for step in steps.iter().cloned().chain([Step::Cut(last)]) {
        match step {
            Step::Create(name) => match disk.create(NAMES[name]) {
                Ok(file) => {
                    prop_assert!(!model.view.contains_key(&name));
                    let number = model.files.len();
                    model.files.push(Model::default());
                    model.set(name, Some(number));
                    handles.push((number, file));
                }
                Err(_) => prop_assert!(model.view.contains_key(&name)),
            },
            Step::Open(name) => match disk.open(NAMES[name]) {
                Ok(file) => handles.push((model.view[&name], file)),
                Err(_) => prop_assert!(!model.view.contains_key(&name)),
            },
            Step::Rename(from, to) => {
                let file = model.view.get(&from).copied();
                prop_assert_eq!(disk.rename(NAMES[from], NAMES[to]).is_ok(), file.is_some());
                if file.is_some() {
                    model.set(from, None);
                    model.set(to, file);
                }
            }
            Step::Remove(name) => {
                let there = model.view.contains_key(&name);
                prop_assert_eq!(disk.remove(NAMES[name]).is_ok(), there);
                if there {
                    model.set(name, None);
                }
            }
            Step::SyncNames => {
                disk.sync_names().unwrap();
                model.sync(true);
            }
            Step::FailedSyncNames => {
                disk.fail(disk.operations(), Fault::Error);
                prop_assert!(disk.sync_names().is_err());
                model.sync(false);
            }
            Step::Kill => {
                disk = disk.after_kill();
                handles.clear();
            }
            Step::Cut(seed) => {
                let next = disk.after_power_cut(seed);
                let found = next.numbers();
                for (name, text) in NAMES.iter().enumerate() {
                    let (old, new) = (model.view.get(&name).copied(), found.get(*text).copied());
                    match model.unsure.get(&name) {
                        Some((_, ever)) => prop_assert!(ever.contains(&new)),
                        None => prop_assert_eq!(old, new, "synced name {}", text),
                    }
                    if let Some(number) = new {
                        model.files[number].survive(&next.bytes(text))?;
                    }
                }
                let numbers =
                    NAMES.iter().enumerate().filter_map(|(name, text)| Some((name, *found.get(*text)?)));
                model.view = numbers.collect();
                model.unsure.clear();
                disk = next;
                handles.clear();
            }
            Step::Write { file, .. } | Step::Length(file, _) | Step::Sync(file) | Step::FailedSync(file) => {
                let count = handles.len();
                if count == 0 {
                    continue;
                }
                let (number, handle) = &handles[file % count];
                let file = &mut model.files[*number];
                match step {
                    Step::Write { offset, length, value, .. } => {
                        write_all(&**handle, &vec![value; length], offset).unwrap();
                        file.write(offset as usize, &vec![value; length]);
                    }
                    Step::Length(_, length) => {
                        handle.set_len(length).unwrap();
                        file.set_len(length as usize);
                    }
                    Step::Sync(_) => {
                        handle.sync().unwrap();
                        file.sync(true);
                    }
                    _ => {
                        disk.fail(disk.operations(), Fault::Error);
                        prop_assert!(handle.sync().is_err());
                        file.sync(false);
                    }
                }
            }
        }
        let names: Vec<_> = model.view.keys().map(|&name| NAMES[name]).collect();
        prop_assert_eq!(disk.list().unwrap(), names);
        for (&name, &file) in &model.view {
            prop_assert_eq!(&disk.bytes(NAMES[name]), &model.files[file].view);
        }
        for (number, handle) in &handles {
            prop_assert_eq!(&read_all(&**handle).unwrap(), &model.files[*number].view);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without faults, a simulated disk is a map of byte vectors, and a cut keeps what was synced.
    #[test]
    fn synced_bytes_and_names_survive(steps in prop::collection::vec(step(), 0..60), seed in any::<u64>()) {
        run(&steps, seed)?;
    }

    /// The same with failed syncs, and with processes that go on after a kill or a cut.
    #[test]
    fn lives_follow_each_other(steps in prop::collection::vec(step_or_fault(), 0..60), seed in any::<u64>()) {
        run(&steps, seed)?;
    }
}
