//! Tests of both disks: what they promise while nothing goes wrong, faults and power cuts one by one; and, in `model`,
//! random lives of a simulated disk beside a model of what is known of it.

mod model;

use super::*;
use crate::random::Random;
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
    let path = place.path().join("somewhere");
    let error = Disk::open(path.join("below")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("somewhere; make it first"), "{error}");
    assert!(!path.exists());
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
