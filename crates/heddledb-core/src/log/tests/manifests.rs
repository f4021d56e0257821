//! Checkpoints, names, and the manifest.

use super::*;

pub(super) fn checkpoint_part(rows: u64, limit: usize, compression: Compression) -> (Vec<u8>, Checkpoint) {
    let (directory, _, number) = fuzz::NUMBERS;
    let kind = Kind::Checkpoint;
    let mut bytes =
        SegmentHeader { kind, directory, generation: number, file: 0, files: 1 }.encode().to_vec();
    let place = Place { directory, generation: number, file: 0 };
    let (mut encoder, mut words, mut next, mut frames) = (Encoder::new(compression), Vec::new(), 0, 0);
    while next < rows {
        let mut writing = WritingRows::begin(&mut words, 1, 2, 3, false, limit);
        while next < rows && !writing.is_full(&words) {
            writing.row(&mut words, &[0, next]);
            words.extend([next * 2, next * 3, 0]);
            next += 1;
        }
        frames += 1;
        let offset = bytes.len() as u64;
        encoder.encode(&mut bytes, place, offset, &Label::checkpoint(0, frames, 5), &words);
    }
    let parts = vec![Part { bytes: bytes.len() as u64, rows }];
    (bytes, Checkpoint { number, epoch: 5, time: 70, parts })
}

fn read_part(bytes: &[u8], checkpoint: &Checkpoint) -> Result<u64, LogError> {
    let storage = Simulated::new();
    put(&storage, Name::Checkpoint { number: checkpoint.number, part: 0 }, bytes);
    let mut frames = Frames::of_checkpoint(&storage, DIRECTORY, checkpoint, 0)?;
    let (mut words, mut sum) = (Vec::new(), 0);
    while frames.next_frame(&mut words)?.is_some() {
        sum += Rows::new(&words).unwrap().iter().map(|(key, _)| key[1]).sum::<u64>();
    }
    Ok(sum)
}

#[test]
fn checkpoints() {
    for compression in BOTH {
        let (bytes, due) = checkpoint_part(20, 30, compression);
        assert_eq!(read_part(&bytes, &due).unwrap(), 190);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read_part(&bytes, &due), Err(LogError::Damaged { .. })), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(read_part(&bytes[..length], &due).is_err());
            // Also where the manifest agrees about the length.
            let parts = vec![Part { bytes: length as u64, rows: 20 }];
            assert!(read_part(&bytes[..length], &Checkpoint { parts, ..due }).is_err());
        }
        for (rows, epoch, number) in [(19, 5, 9), (21, 5, 9), (20, 4, 9), (20, 5, 8)] {
            let parts = vec![Part { rows, ..due.parts[0] }];
            assert!(read_part(&bytes, &Checkpoint { parts, epoch, number, time: 0 }).is_err());
        }
    }
    let (empty, due) = checkpoint_part(0, 30, Compression::None);
    assert_eq!(read_part(&empty, &due).unwrap(), 0);
    let error = Frames::of_checkpoint(&Simulated::new(), DIRECTORY, &due, 0).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the simulated disk/checkpoint-0000000009-00 is damaged at byte 0: the file is missing; restore the \
         file from a copy: the log no longer holds these rows"
    );
}

#[test]
fn names() {
    let all = [
        Name::Manifest,
        Name::NewManifest,
        Name::Lock,
        Name::Log { generation: 12, file: 3 },
        Name::Checkpoint { number: u64::MAX, part: 63 },
    ];
    for name in all {
        assert_eq!(Name::parse(&name.to_string()), Some(name));
    }
    assert_eq!(all[3].to_string(), "log-0000000012-03");
    for other in
        ["", "log-12-03", "log-0000000012-3", "log-0000000012-03.bak", "log-+000000012-03", "manifest"]
    {
        assert_eq!(Name::parse(other), None);
    }
}

fn any_manifest() -> impl Strategy<Value = Manifest> {
    let groups = proptest::collection::vec(0..100u32, 1..=16);
    let standing = proptest::sample::select(vec![
        Standing::Whole,
        Standing::Unbuilt,
        Standing::Removed,
        Standing::Unknown,
    ]);
    let relation = (".{0,9}", ".{0,40}", 1..=8u8, groups, standing);
    let relations = proptest::collection::vec(relation, 0..5).prop_map(|relations| {
        let entry = |(id, (name, schema, key_words, groups, standing))| RelationEntry {
            id,
            name,
            schema,
            key_words,
            groups,
            standing,
        };
        (3..).zip(relations).map(entry).collect()
    });
    let part = (any::<u64>(), any::<u64>()).prop_map(|(bytes, rows)| Part { bytes, rows });
    let checkpoint = (any::<u64>(), any::<u64>(), proptest::collection::vec(part, 1..5))
        .prop_map(|(number, epoch, parts)| Checkpoint { number, epoch, time: epoch / 3, parts });
    let end = (any::<u64>(), any::<u64>()).prop_map(|(rounds, epoch)| End { rounds, epoch });
    let generation = (1..=64u8, proptest::option::of(end));
    let generations = proptest::collection::vec(generation, 0..5).prop_map(|generations| {
        (7..)
            .zip(generations)
            .map(|(number, (files, end))| Generation { number, files, kind: LogKind::Values, end })
            .collect()
    });
    let kept = proptest::collection::vec(1..=64u8, 0..4).prop_map(|files| {
        let end = Some(End { rounds: 5, epoch: u64::MAX });
        (2..)
            .zip(files)
            .map(|(number, files)| Generation { number, files, kind: LogKind::Values, end })
            .collect()
    });
    let origin = proptest::option::of(any::<[u64; 6]>()).prop_map(|words| {
        words.map(|[directory, from, through, rounds, time, epoch]| Origin {
            directory,
            from,
            through,
            rounds,
            time,
            epoch,
        })
    });
    let whole = (relations, proptest::option::of(checkpoint), generations, kept, origin);
    (any::<(u64, u64)>(), 0..=12u64, whole).prop_map(
        |((directory, floor), log_from, (relations, checkpoint, generations, kept, origin))| Manifest {
            directory,
            next_generation: 12,
            floor,
            relations,
            checkpoint,
            generations,
            log_from,
            kept,
            origin,
            procedures: vec![ProcedureEntry {
                id: 3,
                name: "pay".to_owned(),
                version: 2,
                fingerprint: floor,
            }],
            changes: floor,
        },
    )
}

pub(super) fn manifest() -> Manifest {
    let relation = |id: u16, name: &str| RelationEntry {
        id,
        name: name.to_owned(),
        schema: format!("table {name} (id u64, balance i64)"),
        key_words: 1,
        groups: vec![1, 2, 4],
        standing: if id == 0 { Standing::Whole } else { Standing::Unbuilt },
    };
    Manifest {
        directory: DIRECTORY,
        next_generation: 9,
        floor: 33,
        relations: vec![relation(0, "account"), relation(1, "histories")],
        checkpoint: Some(Checkpoint {
            number: 9,
            epoch: 12,
            time: 34,
            parts: vec![Part { bytes: 640, rows: 12 }],
        }),
        generations: vec![
            Generation {
                number: 7,
                files: 3,
                kind: LogKind::Commands,
                end: Some(End { rounds: 6, epoch: 12 }),
            },
            Generation { number: 8, files: 2, kind: LogKind::Values, end: None },
        ],
        log_from: 5,
        kept: vec![Generation {
            number: 6,
            files: 1,
            kind: LogKind::Values,
            end: Some(End { rounds: 2, epoch: u64::MAX }),
        }],
        origin: Some(Origin { directory: 3, from: 4, through: 5, rounds: 6, time: 8, epoch: 7 }),
        procedures: vec![ProcedureEntry { id: 0, name: "transfer".to_owned(), version: 1, fingerprint: 77 }],
        changes: 4,
    }
}

proptest! {
    #[test]
    fn manifests_come_back(manifest in any_manifest()) {
        let storage = Simulated::new();
        manifest.replace(&storage).unwrap();
        prop_assert_eq!(Manifest::read(&storage).unwrap(), Some(manifest));
    }
}

#[test]
fn damaged_manifests() {
    let bytes = manifest().encode();
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest());
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&bytes).is_err());
        // A right checksum over something else: some manifest or an error.
        manifest::seal(&mut bytes);
        if let Ok(manifest) = Manifest::decode(&bytes) {
            assert_eq!(manifest.encode(), bytes);
        }
    }
    for length in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..length]).is_err());
        let mut bytes = bytes[..length].to_vec();
        if length >= 24 {
            manifest::seal(&mut bytes);
            assert!(Manifest::decode(&bytes).is_err());
        }
    }
}

#[test]
fn manifest_files() {
    let storage = Simulated::new();
    assert_eq!(Manifest::read(&storage).unwrap(), None);
    put(&storage, Name::NewManifest, b"left by a crash");
    assert_eq!(Manifest::read(&storage).unwrap(), None);
    manifest().replace(&storage).unwrap();
    assert_eq!(Manifest::read(&storage).unwrap(), Some(manifest()));
    assert_eq!(storage.list().unwrap(), ["MANIFEST"]);

    storage.flip("MANIFEST", 300);
    assert_eq!(
        Manifest::read(&storage).unwrap_err().to_string(),
        "the simulated disk/MANIFEST is damaged at byte 0: its checksum is wrong; restore the file from a \
         copy: it says which other files count"
    );
    put(&storage, Name::Log { generation: 7, file: 0 }, b"");
    storage.remove("MANIFEST").unwrap();
    let message = Manifest::read(&storage).unwrap_err().to_string();
    assert!(message.contains("missing") && message.contains("log-0000000007-00"), "{message}");

    let two = manifest().relations[0].clone();
    let refused = Manifest { relations: vec![two.clone(), two], ..manifest() };
    assert!(refused.replace(&Simulated::new()).is_err());
}

/// A power cut, or an interruption, at any operation of a replacement leaves one of the two.
#[test]
fn manifest_replacement_is_atomic() {
    use crate::storage::Fault;
    let (old, new) = (manifest(), Manifest { floor: 90, ..manifest() });
    for fault in [Fault::PowerCut, Fault::Interrupted, Fault::Short, Fault::Error, Fault::Full] {
        for at in 0.. {
            let storage = Simulated::new();
            old.replace(&storage).unwrap();
            let before = storage.operations();
            storage.fail(before + at, fault);
            let result = new.replace(&storage);
            if matches!(fault, Fault::Interrupted | Fault::Short) {
                assert!(result.is_ok());
            }
            for seed in 0..8 {
                let found = Manifest::read(&storage.after_power_cut(seed)).unwrap().unwrap();
                assert!(found == new || result.is_err() && found == old);
            }
            if storage.operations() - before <= at {
                break;
            }
        }
    }
}

#[test]
fn relation_sizes() {
    let relation = &manifest().relations[0];
    assert_eq!(relation.row_words(), 7);
    assert_eq!([0, 1, 6, 7].map(|groups| relation.data_words(groups)), [Some(0), Some(1), Some(6), Some(7)]);
    assert_eq!(relation.data_words(8), None);
}

#[test]
fn manifests_of_format_1() {
    let mut written = manifest();
    let index = |id, name: &str, words: &str| RelationEntry {
        id,
        name: name.to_owned(),
        schema: format!("{words} over owner; id: u64, owner: u32; key id; ordered"),
        ..written.relations[0].clone()
    };
    let indexes = [index(7, "account.ByOwner", "index"), index(8, "account.ByNumber", "unique index")];
    written.relations.extend(indexes);
    let read = Manifest::decode(&written.encode_as(1)).unwrap();
    let standings: Vec<_> = read.relations.iter().map(|entry| entry.standing).collect();
    assert_eq!(standings, [Standing::Whole, Standing::Whole, Standing::Unknown, Standing::Unknown]);
    assert_eq!(read.relations[2].index_of(), Some(("account", "ByOwner")));
    assert_eq!(read.relations[3].table_schema(), Some("id: u64, owner: u32; key id; ordered"));
    assert_eq!((read.relations[0].index_of(), read.relations[0].table_schema()), (None, None));
    // All else is as it was, and what is written from now on keeps the standings.
    assert_eq!(read.encode_as(1), written.encode_as(1));
    assert_eq!(Manifest::decode(&read.encode()).unwrap(), read);
    assert!(Manifest::decode(&written.encode_as(6)).is_err());
}

#[test]
fn manifests_of_format_2() {
    let written = manifest();
    let read = Manifest::decode(&written.encode_as(2)).unwrap();
    let checkpoint = written.checkpoint.clone().map(|checkpoint| Checkpoint { time: 0, ..checkpoint });
    // Nobody knows when; the log is whole from its first generation on, or begins with the next.
    let due = Manifest { checkpoint, log_from: 7, kept: Vec::new(), origin: None, ..of_values(&written) };
    assert_eq!(read, due);
    let without = Manifest { generations: Vec::new(), ..written };
    assert_eq!(Manifest::decode(&without.encode_as(2)).unwrap().log_from, 9);
}

/// As a directory without commands has it.
fn of_values(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    manifest.generations.iter_mut().for_each(|generation| generation.kind = LogKind::Values);
    manifest.procedures.clear();
    manifest.changes = 0;
    manifest
}

#[test]
fn manifests_of_format_3() {
    let written = manifest();
    assert_eq!(Manifest::decode(&written.encode_as(3)).unwrap(), of_values(&written));
    let twice = [&written.procedures[..], &written.procedures[..]].concat();
    assert!(Manifest { procedures: twice, ..written }.replace(&Simulated::new()).is_err());
}

#[test]
fn manifests_of_format_4() {
    let written = manifest();
    let due = Manifest { changes: 0, ..written.clone() };
    assert_eq!(Manifest::decode(&written.encode_as(4)).unwrap(), due);
}

#[test]
fn what_is_listed_counts() {
    let mut manifest = manifest();
    let listed = |manifest: &Manifest, name: &str| manifest.lists(Name::parse(name).unwrap());
    for (name, counts) in [
        ("MANIFEST", true),
        ("MANIFEST.new", false),
        ("LOCK", true),
        ("log-0000000005-00", false),
        ("log-0000000006-00", true),
        ("log-0000000006-01", false),
        ("log-0000000007-02", true),
        ("log-0000000008-01", true),
        ("checkpoint-0000000009-00", true),
        ("checkpoint-0000000009-01", false),
        ("checkpoint-0000000008-00", false),
    ] {
        assert_eq!(listed(&manifest, name), counts, "{name}");
    }
    manifest.break_log();
    assert_eq!((manifest.next_generation, manifest.log_from), (10, 10));
    assert!(!listed(&manifest, "log-0000000006-00") && listed(&manifest, "log-0000000007-00"));
    let kept = Generation { number: 1, files: 1, kind: LogKind::Values, end: None };
    let refused = Manifest { kept: vec![kept], ..manifest.clone() };
    assert!(refused.replace(&Simulated::new()).is_err());
    assert!(Manifest { log_from: 11, ..manifest }.replace(&Simulated::new()).is_err());
}
