//! The corpus of the fuzz targets.

use super::manifests::{checkpoint_part, manifest};
use super::*;

/// Inputs that go deep: whole, torn, damaged and closed generations, checkpoints, manifests.
fn corpus() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut inputs = Vec::new();
    let mut segments = |name: &str, flags: u8, rounds: u8, built: &Built| {
        let length = |file: usize| built.files.get(file).map_or(0, Vec::len).to_le_bytes();
        let ([a, b, ..], [c, d, ..]) = (length(0), length(1));
        let mut bytes = vec![flags, built.files.len() as u8 - 1, rounds, rounds * 2, a, b, c, d];
        bytes.extend(built.files.concat());
        inputs.push(("segments", name.to_owned(), bytes));
    };
    for (kind, compression) in [("plain", Compression::None), ("lz4", Compression::Lz4)] {
        let whole = build(PLAN, compression);
        segments(&format!("{kind}-whole"), 0, 0, &whole);
        segments(&format!("{kind}-mended"), fuzz::MEND, 0, &whole);
        segments(&format!("{kind}-closed"), fuzz::CLOSED | fuzz::MEND, 4, &whole);
        segments(&format!("{kind}-missing"), fuzz::MISSING | fuzz::SALVAGE, 0, &whole);
        let mut torn = whole.clone();
        torn.files[1].truncate(whole.ends[5][1] - 20);
        segments(&format!("{kind}-torn"), 0, 0, &torn);
        let mut damaged = whole.clone();
        damaged.files[1][whole.ends[2][1] + 77] ^= 8;
        segments(&format!("{kind}-damaged"), fuzz::SALVAGE, 0, &damaged);
        let single = build(&[&[&[2]], &[&[1, 3]], &[&[0]]], compression);
        segments(&format!("{kind}-single"), fuzz::MEND | fuzz::SALVAGE, 0, &single);
    }
    let empty = Built { files: vec![header(0, 1).to_vec()], ..build(PLAN, Compression::None) };
    segments("empty", fuzz::MEND, 0, &empty);
    for (name, rows, limit, compression) in [
        ("plain", 20, 30, Compression::None),
        ("lz4", 200, 400, Compression::Lz4),
        ("one", 1, 0, Compression::None),
        ("empty", 0, 0, Compression::None),
    ] {
        let (bytes, due) = checkpoint_part(rows, limit, compression);
        for flags in [0, fuzz::MEND] {
            let mut input = vec![flags, due.epoch as u8, rows as u8, 0];
            input.extend(&bytes);
            inputs.push(("checkpoint", format!("{name}-{flags}"), input));
        }
    }
    let bare = Manifest { relations: Vec::new(), checkpoint: None, generations: Vec::new(), ..manifest() };
    let formats = [
        ("full", manifest().encode()),
        ("bare", bare.encode()),
        ("full-1", manifest().encode_as(1)),
        ("bare-1", bare.encode_as(1)),
        ("full-2", manifest().encode_as(2)),
        ("bare-2", bare.encode_as(2)),
        ("full-3", manifest().encode_as(3)),
        ("bare-3", bare.encode_as(3)),
        ("full-4", manifest().encode_as(4)),
        ("bare-4", bare.encode_as(4)),
    ];
    for (name, bytes) in formats {
        for flags in [0, fuzz::MEND] {
            let mut input = vec![flags];
            input.extend(&bytes);
            inputs.push(("manifest", format!("{name}-{flags}"), input));
        }
    }
    inputs
}

fn corpus_directory(target: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Writes the corpus anew: `cargo test -p heddledb-core --lib log::tests::corpus::write_corpus -- --ignored`.
#[test]
#[ignore = "writes into the source tree"]
fn write_corpus() {
    for (target, name, bytes) in corpus() {
        let directory = corpus_directory(target);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

/// All saved inputs, whoever found them, pass the targets' functions; and files that an earlier build
/// wrote are still read as they were meant.
#[test]
fn saved_corpus() {
    type Target = (&'static str, fn(&[u8]));
    let targets: [Target; 3] =
        [("segments", fuzz::segments), ("checkpoint", fuzz::checkpoint), ("manifest", fuzz::manifest)];
    for (target, run) in targets {
        let mut count = 0;
        for entry in std::fs::read_dir(corpus_directory(target)).unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 4, "{target} has {count} inputs");
    }
    // Compressed bytes may change with the compressor; these may not.
    for (target, name, bytes) in corpus() {
        if !name.starts_with("lz4") {
            let saved = std::fs::read(corpus_directory(target).join(&name)).unwrap();
            assert_eq!(saved, bytes, "the format has changed: {target}/{name}");
        }
    }
    let plain = build(PLAN, Compression::None);
    for (name, is_built, times) in [
        ("lz4-whole", Compression::Lz4.is_built(), time_of(6)),
        ("format1-lz4-whole", Compression::Lz4.is_built(), 0),
        ("format1-plain-whole", true, 0),
    ] {
        let saved = std::fs::read(corpus_directory("segments").join(name)).unwrap();
        let length = |at: usize| usize::from(u16::from_le_bytes([saved[at], saved[at + 1]]));
        let (first, second) = (length(4), length(6));
        let files = &saved[8..];
        let mut built = plain.clone();
        built.files = vec![
            files[..first].to_vec(),
            files[first..first + second].to_vec(),
            files[first + second..].to_vec(),
        ];
        match built.survey() {
            Ok(survey) => {
                assert_eq!((survey.rounds, survey.time), (6, times), "{name}");
                assert_eq!(built.taken(&survey), plain.first(6), "{name}");
            }
            Err(error) => assert!(!is_built, "{name}: {error}"),
        }
    }
}
