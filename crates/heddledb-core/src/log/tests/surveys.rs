//! What a survey finds of whole, torn and damaged generations.

use super::*;

#[test]
fn a_whole_generation() {
    for compression in BOTH {
        let built = build(PLAN, compression);
        let survey = built.survey().unwrap();
        assert_eq!((survey.rounds, survey.closed, survey.highest), (6, 12, 12));
        assert_eq!(survey.files.iter().map(|file| file.frames).collect::<Vec<_>>(), [4, 5, 4]);
        assert!(survey.files.iter().zip(&built.files).all(|(file, bytes)| file.bytes == bytes.len() as u64));
        assert_eq!((&survey.torn, &survey.lost), (&None, &None));
        built.expect_prefix_of(&built, &survey);
        assert_eq!(survey, built.salvage().unwrap());
    }
}

#[test]
fn zeros_behind_are_the_end() {
    let mut built = build(PLAN, Compression::None);
    let whole = built.survey().unwrap();
    built.files[1].extend([0; 1_000_003]);
    assert_eq!(built.survey().unwrap(), whole);
}

#[test]
fn empty_generations() {
    let plan: Plan = &[&[&[1], &[1]]];
    let mut built = build(plan, Compression::None);
    for (first, second) in [(64, 64), (64, 10), (0, 64), (0, 0)] {
        let full = build(plan, Compression::None);
        built.files = vec![full.files[0][..first].to_vec(), full.files[1][..second].to_vec()];
        let survey = built.survey().unwrap();
        assert_eq!((survey.rounds, survey.closed, &survey.torn), (0, 0, &None), "{first} {second}");
        // Headers are durable before the first round, so this one was damaged.
        if second < 64 {
            built.files[0] = full.files[0].clone();
            assert_eq!(damaged(built.survey()).1, 0);
        }
    }
    built = build(plan, Compression::None);
    built.files[0][70] ^= 1;
    built.files[0].truncate(80);
    built.files[1].truncate(64);
    let survey = built.survey().unwrap();
    assert_eq!((survey.rounds, survey.torn.unwrap().bytes), (0, 13), "up to the last that is not zero");
    // The same with a bad header: then it was not the first round that was torn.
    built.files[1].truncate(63);
    damaged(built.survey());
}

/// Whatever is damaged, many threads find what one finds.
#[test]
fn a_survey_on_several_threads() {
    let (whole, mut random) = (build(PLAN, Compression::Lz4), Random::new(11));
    for attempt in 0..300 {
        let mut built = whole.clone();
        let file = &mut built.files[attempt % 3];
        let at = random.below(file.len() as u64) as usize;
        match attempt % 4 {
            0 => {}
            1 => file[at] ^= 1 << random.below(8),
            2 => file.truncate(at),
            _ => file[at..].iter_mut().take(50).for_each(|byte| *byte = 0),
        }
        let (storage, generation) = (built.put(), built.generation());
        for salvage in [false, true] {
            let found = |threads| {
                survey(&storage, DIRECTORY, &generation, salvage, threads).map_err(|error| error.to_string())
            };
            assert_eq!(found(3), found(1), "attempt {attempt}");
        }
    }
}

/// Every bit of every file, flipped.
#[test]
fn flipped_bits() {
    for compression in BOTH {
        let whole = build(PLAN, compression);
        let last = whole.rounds() - 1;
        for file in 0..whole.files.len() {
            for bit in 0..whole.files[file].len() * 8 {
                let mut built = whole.clone();
                built.files[file][bit / 8] ^= 1 << (bit % 8);
                if bit / 8 >= whole.ends[last as usize - 1][file] {
                    // In the last round: it is torn.
                    let survey = built.survey().unwrap();
                    assert_eq!((survey.rounds, survey.lost.is_none()), (last, true));
                    let torn = survey.torn.as_ref().unwrap();
                    assert!(torn.file.ends_with(&format!("log-0000000007-0{file}")), "{torn:?}");
                    assert_eq!(torn.offset, whole.ends[last as usize - 1][file] as u64);
                    built.expect_prefix_of(&whole, &survey);
                } else {
                    let (name, offset, _) = damaged(built.survey());
                    assert!(name.ends_with(&format!("log-0000000007-0{file}")), "{name}");
                    assert!(offset <= bit as u64 / 8);
                    let survey = built.salvage().unwrap();
                    let lost = survey.lost.as_ref().unwrap();
                    let expected = whole.ends.iter().filter(|ends| ends[file] <= bit / 8).count() as u64;
                    // A header says nothing about the rounds.
                    let expected = if bit / 8 < 64 { whole.rounds() } else { expected };
                    assert_eq!((survey.rounds, lost.rounds), (expected, whole.rounds() - expected));
                    built.expect_prefix_of(&whole, &survey);
                }
            }
        }
    }
}

/// Every length of every file.
#[test]
fn truncated_files() {
    let whole = build(PLAN, Compression::None);
    for file in 0..whole.files.len() {
        for length in 0..whole.files[file].len() {
            let mut built = whole.clone();
            built.files[file].truncate(length);
            let kept = whole.ends.iter().take_while(|ends| ends[file] <= length).count() as u64;
            if kept < whole.rounds() - 1 || length < 64 {
                damaged(built.survey());
                let survey = built.salvage().unwrap();
                assert_eq!(survey.rounds, kept);
                built.expect_prefix_of(&whole, &survey);
            } else {
                let survey = built.survey().unwrap();
                assert_eq!(survey.rounds, kept);
                assert!(survey.torn.is_some(), "the other files have their frames of the last round");
                built.expect_prefix_of(&whole, &survey);
            }
        }
    }
}

/// Every length of a single file: a prefix, since nothing says that there was more.
#[test]
fn a_single_file_cut_anywhere() {
    let whole = build(&[&[&[2]], &[&[1, 1]], &[&[3]]], Compression::None);
    for length in 64..=whole.files[0].len() {
        let mut built = whole.clone();
        built.files[0].truncate(length);
        let survey = built.survey().unwrap();
        let kept = whole.ends.iter().take_while(|ends| ends[0] <= length).count();
        assert_eq!(survey.rounds, kept as u64);
        let behind = length - if kept == 0 { 64 } else { whole.ends[kept - 1][0] };
        assert_eq!(survey.torn.is_some(), behind != 0);
        assert!(survey.torn.is_none_or(|torn| (1..=behind as u64).contains(&torn.bytes)));
        built.expect_prefix_of(&whole, &built.survey().unwrap());
        // Cut, and the rest of its last sector or more became zeros.
        built.files[0].resize(whole.files[0].len() + 512, 0);
        let survey = built.survey().unwrap();
        assert!(survey.rounds >= kept as u64);
        built.expect_prefix_of(&whole, &survey);
    }
}

#[test]
fn a_frame_of_the_last_round_is_missing() {
    let whole = build(PLAN, Compression::None);
    for lacking in 1..8usize {
        let mut built = whole.clone();
        for file in (0..3).filter(|file| lacking >> file & 1 == 1) {
            built.files[file].truncate(whole.ends[4][file]);
        }
        let survey = built.survey().unwrap();
        assert_eq!((survey.rounds, survey.closed), (5, 10));
        assert_eq!(survey.torn.is_some(), lacking != 7, "none of its frames is like none begun");
        assert_eq!(survey.highest, if lacking == 7 { 10 } else { 12 });
        built.expect_prefix_of(&whole, &survey);
    }
}

#[test]
fn a_frame_of_an_earlier_round_is_missing() {
    let whole = build(PLAN, Compression::None);
    for round in 0..5 {
        for file in 0..3 {
            let start = if round == 0 { 64 } else { whole.ends[round - 1][file] };
            let (mut cut, mut zeroed) = (whole.clone(), whole.clone());
            // A file without any of the round lacks nothing.
            if start == whole.ends[round][file] {
                continue;
            }
            cut.files[file].drain(start..whole.ends[round][file]);
            zeroed.files[file][start..whole.ends[round][file]].fill(0);
            for built in [cut, zeroed] {
                let (name, offset, _) = damaged(built.survey());
                assert!(name.ends_with(&format!("-0{file}")), "{name}");
                assert_eq!(offset, start as u64);
                let survey = built.salvage().unwrap();
                assert_eq!(survey.rounds, round as u64);
                let lost = survey.lost.as_ref().unwrap();
                assert_eq!((lost.rounds, lost.highest), (6 - round as u64, 12));
                built.expect_prefix_of(&whole, &survey);
            }
        }
    }
}

#[test]
fn a_missing_file_is_damage() {
    let whole = build(PLAN, Compression::None);
    for file in 0..3u8 {
        let storage = whole.put();
        storage.remove(&Name::Log { generation: NUMBER, file }.to_string()).unwrap();
        let result = survey(&storage, DIRECTORY, &whole.generation(), false, 1);
        let (name, ..) = damaged(result);
        assert!(name.ends_with(&format!("-0{file}")), "{name}");
        // Round 2 is file 1's alone, but file 1 has nothing of round 1.
        assert_eq!(survey(&storage, DIRECTORY, &whole.generation(), true, 1).unwrap().rounds, 0);
    }
    let storage = Simulated::new();
    let (_, _, what) = damaged(survey(&storage, DIRECTORY, &whole.generation(), false, 1));
    assert!(what.contains("missing"), "{what}");
}

#[test]
fn files_of_another_place_are_refused() {
    let whole = build(PLAN, Compression::None);
    // Two files swapped.
    let mut built = whole.clone();
    built.files.swap(0, 1);
    damaged(built.survey());
    // Right headers, frames of another file.
    for file in 0..2 {
        built.files[file][..64].copy_from_slice(&header(file, 3));
    }
    let (_, offset, what) = damaged(built.survey());
    assert_eq!(offset, 64, "{what}");
    // The files under another generation's name, or in another directory.
    let storage = Simulated::new();
    for (file, bytes) in (0..).zip(&whole.files) {
        put(&storage, Name::Log { generation: NUMBER + 1, file }, bytes);
    }
    damaged(survey(&storage, DIRECTORY, &Generation { number: NUMBER + 1, ..whole.generation() }, false, 1));
    damaged(survey(&whole.put(), DIRECTORY + 1, &whole.generation(), false, 1));
    // A whole round repeated behind the last: frames know their offsets.
    let mut built = whole.clone();
    for file in 0..3 {
        let round = whole.files[file][whole.ends[4][file]..].to_vec();
        built.files[file].extend(round);
    }
    let survey = built.survey().unwrap();
    assert_eq!(survey.rounds, 6);
    built.expect_prefix_of(&whole, &survey);
}

#[test]
fn closed_generations_end_where_the_manifest_says() {
    let whole = build(PLAN, Compression::None);
    for rounds in 0..=6 {
        let mut built = whole.clone();
        built.end = Some(End { rounds, epoch: closed(rounds) });
        let survey = built.survey().unwrap();
        assert_eq!((survey.rounds, &survey.torn), (rounds, &None));
        built.expect_prefix_of(&whole, &survey);
        // Whatever stands behind.
        for file in 0..3 {
            let end = if rounds == 0 { 64 } else { whole.ends[rounds as usize - 1][file] };
            built.files[file][end..].fill(0xA5);
        }
        assert_eq!(built.survey().unwrap(), survey);
    }
    let mut built = whole.clone();
    built.end = Some(End { rounds: 7, epoch: 14 });
    let (.., what) = damaged(built.survey());
    assert!(what.contains("round 7"), "{what}");
    // A torn round that the manifest counts is damage.
    built.end = Some(End { rounds: 6, epoch: 12 });
    built.files[0].pop();
    damaged(built.survey());
    assert_eq!(built.salvage().unwrap().lost.unwrap().rounds, 1);
}

#[test]
fn frames_must_agree() {
    let label =
        Label { kind: Kind::Log, round: 1, closed: 5, highest: 5, time: 7, members: 3, part: 0, parts: 1 };
    let make = |labels: &[&[Label]]| {
        let mut files = Vec::new();
        for (file, labels) in labels.iter().enumerate() {
            let mut bytes = header(file, labels.len().max(2)).to_vec();
            for label in *labels {
                let place = Place { directory: DIRECTORY, generation: NUMBER, file: file as u8 };
                let offset = bytes.len() as u64;
                Encoder::new(Compression::None).encode(&mut bytes, place, offset, label, &[]);
            }
            bytes[..64].copy_from_slice(&header(file, 2));
            files.push(bytes);
        }
        Built { files, ends: Vec::new(), logged: Vec::new(), end: None }.survey()
    };
    let next = Label { round: 2, ..label };
    assert_eq!(make(&[&[label], &[label]]).unwrap().rounds, 1);
    assert_eq!(make(&[&[label, next], &[label, next]]).unwrap().rounds, 2);
    // Closed epochs differ, or fall.
    damaged(make(&[&[label], &[Label { closed: 6, ..label }]]));
    let (falls, earlier) = (Label { closed: 4, ..next }, Label { time: 6, ..next });
    damaged(make(&[&[label, falls], &[label, falls]]));
    // Times do.
    damaged(make(&[&[label], &[Label { time: 8, ..label }]]));
    damaged(make(&[&[label, earlier], &[label, earlier]]));
    // Members differ, or are no files.
    let (one, three) = (Label { members: 2, ..label }, Label { members: 7, ..label });
    damaged(make(&[&[label], &[one]]));
    damaged(make(&[&[three], &[three]]));
    // Rounds or parts out of order.
    damaged(make(&[&[label, label], &[label]]));
    damaged(make(&[&[next, label], &[label]]));
    damaged(make(&[&[Label { part: 1, parts: 2, ..label }], &[label]]));
    // A part is missing.
    let part = Label { parts: 2, ..label };
    assert_eq!(make(&[&[part], &[label]]).unwrap().torn.unwrap().what, "the next frame is missing");
    let last = Label { part: 1, ..part };
    assert_eq!(make(&[&[part, last], &[label]]).unwrap().rounds, 1);
    damaged(make(&[&[part, next], &[label, next]]));
    // A frame of a checkpoint in a log.
    damaged(make(&[&[Label { kind: Kind::Checkpoint, members: 1, ..label }], &[]]));
}

#[test]
fn other_versions() {
    let built = build(PLAN, Compression::None);
    let storage = built.put();
    let mut bytes = header(1, 3);
    bytes[8] = 3;
    let check = segment::check(&bytes);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    let file = storage.open("log-0000000007-01").unwrap();
    write_all(&*file, &bytes, 0).unwrap();
    let error = survey(&storage, DIRECTORY, &built.generation(), true, 1).unwrap_err();
    assert!(matches!(error, LogError::Version { found: 3, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the simulated disk/log-0000000007-01 has format version 3, this build reads versions 1 to 2; \
         open it with the release that wrote it"
    );
}

#[test]
fn messages() {
    let mut built = build(PLAN, Compression::None);
    built.files[1][130] ^= 4;
    let message = built.survey().unwrap_err().to_string();
    assert_eq!(
        message,
        "the simulated disk/log-0000000007-01 is damaged at byte 64: round 1 is not whole, though round 6 \
         was begun: the checksum of a frame is wrong; restore the file from a copy, or open with salvage to \
         give up every round from there on"
    );
}

/// Each round is shown with its time; what is not whole is not.
#[test]
fn rounds_have_times() {
    let mut built = build(PLAN, Compression::None);
    built.files[0].truncate(built.ends[5][0] - 1);
    let mut moments = Vec::new();
    let mut see = |moment| moments.push(moment);
    let found = survey_moments(&built.put(), DIRECTORY, &built.generation(), false, 1, &mut see).unwrap();
    let moment = |round| Moment { round, closed: closed(round), time: time_of(round) };
    assert_eq!(moments, (1..=5).map(moment).collect::<Vec<_>>());
    assert_eq!((found.rounds, found.time), (5, time_of(5)));
}

/// A tail of more than a window, and frames of more than one.
#[test]
fn long_files() {
    let mut words = Vec::new();
    let mut encoder = Encoder::new(Compression::None);
    let mut bytes = header(0, 1).to_vec();
    let place = Place { directory: DIRECTORY, generation: NUMBER, file: 0 };
    let mut starts = Vec::new();
    for round in 1..=4 {
        words.clear();
        (0..3000).for_each(|number| _ = transaction(&mut words, round, number * 7));
        while words.len() < 90_000 {
            transaction(&mut words, round, 2);
        }
        let label = Label {
            kind: Kind::Log,
            round,
            closed: closed(round),
            highest: 1,
            time: 0,
            members: 1,
            part: 0,
            parts: 1,
        };
        starts.push(bytes.len());
        let offset = bytes.len() as u64;
        encoder.encode(&mut bytes, place, offset, &label, &words);
    }
    let whole = Built { files: vec![bytes], ends: Vec::new(), logged: Vec::new(), end: None };
    assert_eq!(whole.survey().unwrap().rounds, 4);
    // Damage far in front of the next frame, at several distances from the windows' edges.
    for at in (0..600).map(|step| starts[1] + step * 1201).filter(|at| *at < starts[3]) {
        let mut built = whole.clone();
        built.files[0][at] ^= 0x10;
        let expected = if at < starts[2] { starts[1] } else { starts[2] };
        assert_eq!(damaged(built.survey()).1, expected as u64);
    }
    let mut built = whole.clone();
    built.files[0][starts[3] + 70] ^= 1;
    let survey = built.survey().unwrap();
    assert_eq!((survey.rounds, survey.torn.unwrap().offset), (3, starts[3] as u64));
}

/// A later round is seen wherever it stands, also across the edge of what is scanned at once.
#[test]
fn a_scan_sees_every_word() {
    let place = Place { directory: DIRECTORY, generation: NUMBER, file: 0 };
    let label =
        Label { kind: Kind::Log, round: 3, closed: 6, highest: 6, time: 6, members: 1, part: 0, parts: 1 };
    for offset in (0..160).step_by(8).flat_map(|step| [64 + step, 64 + (256 << 10) - 80 + step]) {
        let mut bytes = header(0, 1).to_vec();
        bytes.resize(offset, 0);
        Encoder::new(Compression::None).encode(&mut bytes, place, offset as u64, &label, &[]);
        let built = Built { files: vec![bytes], ends: Vec::new(), logged: Vec::new(), end: None };
        assert!(damaged(built.survey()).2.contains("round 3 was begun"), "at {offset}");
    }
}
