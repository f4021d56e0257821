use super::*;
use crate::stamp;
use crate::storage::{Simulated, write_all};
use crate::sync::Random;
use proptest::prelude::*;

// ---------------------------------------------------------------------------------------------
// A generation to damage

const DIRECTORY: u64 = fuzz::NUMBERS.0;
const NUMBER: u64 = fuzz::NUMBERS.1;

/// A round: for each file the frames of it, as numbers of transactions.
type Plan<'a> = &'a [&'a [&'a [usize]]];

/// Three files; rounds in which one, two and all take part, with two frames of one file.
const PLAN: Plan = &[
    &[&[2], &[1], &[1]],
    &[&[], &[1, 2], &[]],
    &[&[1], &[], &[2]],
    &[&[], &[3], &[1]],
    &[&[2], &[], &[]],
    &[&[1], &[1], &[1]],
];

/// A generation as it was written.
#[derive(Clone)]
struct Built {
    files: Vec<Vec<u8>>,
    /// For each round and file, where its frames end.
    ends: Vec<Vec<usize>>,
    /// For each round and file, what was logged.
    logged: Vec<Vec<Vec<Logged>>>,
    end: Option<End>,
}

type Logged = (u64, Vec<(u16, u16, bool, Vec<u64>, Vec<u64>)>);

fn header(file: usize, files: usize) -> [u8; SEGMENT_HEADER_BYTES] {
    let (file, files) = (file as u8, files as u8);
    SegmentHeader { kind: Kind::Log, directory: DIRECTORY, generation: NUMBER, file, files }.encode()
}

fn closed(round: u64) -> u64 {
    round * 2
}

/// The transaction number `number`, of round `round`.
fn transaction(out: &mut Vec<u64>, round: u64, number: u64) -> Logged {
    let time = stamp::floor(closed(round)) + number;
    let mut entry = Writing::begin(out, time | stamp::LOCK | stamp::ABSENT);
    let mut writes = Vec::new();
    for write in 0..number % 3 + 1 {
        let (present, key) = (write != 1, vec![number, write]);
        let data = if present { vec![number * 31 + write; (number % 4) as usize] } else { vec![] };
        entry.write(out, write as u16 + 1, 1 << write, present, &key, data.len());
        out.extend_from_slice(&data);
        writes.push((write as u16 + 1, 1 << write, present, key, data));
    }
    entry.end(out);
    (time, writes)
}

fn build(plan: Plan, compression: Compression) -> Built {
    let count = plan[0].len();
    let mut encoder = Encoder::new(compression);
    let mut files = (0..count).map(|file| header(file, count).to_vec()).collect::<Vec<_>>();
    let (mut ends, mut logged, mut number) = (Vec::new(), Vec::new(), 0);
    for (round, of_files) in (1..).zip(plan) {
        let members = (0..count).filter(|file| !of_files[*file].is_empty()).map(|file| 1 << file).sum();
        let mut of_round = Vec::new();
        for (file, frames) in of_files.iter().enumerate() {
            let mut transactions = Vec::new();
            for (part, count) in frames.iter().enumerate() {
                let mut words = Vec::new();
                for _ in 0..*count {
                    number += 1;
                    transactions.push(transaction(&mut words, round, number));
                }
                let (part, parts, highest) = (part as u16, frames.len() as u16, closed(round));
                let label =
                    Label { kind: Kind::Log, round, closed: closed(round), highest, members, part, parts };
                let place = Place { directory: DIRECTORY, generation: NUMBER, file: file as u8 };
                let offset = files[file].len() as u64;
                encoder.encode(&mut files[file], place, offset, &label, &words);
            }
            of_round.push(transactions);
        }
        ends.push(files.iter().map(Vec::len).collect());
        logged.push(of_round);
    }
    Built { files, ends, logged, end: None }
}

impl Built {
    fn rounds(&self) -> u64 {
        self.ends.len() as u64
    }

    fn generation(&self) -> Generation {
        Generation { number: NUMBER, files: self.files.len() as u8, end: self.end }
    }

    fn put(&self) -> Simulated {
        let storage = Simulated::new();
        for (file, bytes) in (0..).zip(&self.files) {
            put(&storage, Name::Log { generation: NUMBER, file }, bytes);
        }
        storage
    }

    fn survey(&self) -> Result<Survey, LogError> {
        survey(&self.put(), DIRECTORY, &self.generation(), false, 1)
    }

    fn salvage(&self) -> Result<Survey, LogError> {
        survey(&self.put(), DIRECTORY, &self.generation(), true, 1)
    }

    /// What recovery takes.
    fn taken(&self, survey: &Survey) -> Vec<Vec<Logged>> {
        let storage = self.put();
        (0..self.files.len() as u8)
            .map(|file| {
                let generation = self.generation();
                let mut frames = Frames::of_log(&storage, DIRECTORY, &generation, survey, file).unwrap();
                let (mut words, mut taken, mut count) = (Vec::new(), Vec::new(), 0);
                while frames.next_frame(&mut words).unwrap().is_some() {
                    count += 1;
                    taken.extend(Entries::new(&words).map(|entry| own(entry.unwrap())));
                }
                assert_eq!(count, survey.files[usize::from(file)].frames);
                taken
            })
            .collect()
    }

    /// What was logged in the first rounds.
    fn first(&self, rounds: u64) -> Vec<Vec<Logged>> {
        let of_file =
            |file: usize| self.logged[..rounds as usize].iter().flat_map(move |of| of[file].clone());
        (0..self.files.len()).map(|file| of_file(file).collect()).collect()
    }

    /// Checks that a survey takes a prefix of what was logged, and nothing else.
    #[track_caller]
    fn expect_prefix_of(&self, whole: &Built, survey: &Survey) {
        assert!(survey.rounds <= whole.rounds());
        assert_eq!(self.taken(survey), whole.first(survey.rounds));
        let closed_epoch = if survey.rounds == 0 { 0 } else { closed(survey.rounds) };
        assert_eq!(survey.closed, closed_epoch);
    }
}

fn own(entry: Entry) -> Logged {
    let own =
        |write: Write| (write.relation, write.groups, write.present, write.key.to_vec(), write.data.to_vec());
    (entry.time(), entry.writes().map(own).collect())
}

fn put(storage: &Simulated, name: Name, bytes: &[u8]) {
    let file = storage.create(&name.to_string()).unwrap();
    write_all(&*file, bytes, 0).unwrap();
}

fn damaged(result: Result<Survey, LogError>) -> (String, u64, String) {
    match result {
        Err(LogError::Damaged { file, offset, what }) => (file, offset, what),
        other => panic!("{other:?}"),
    }
}

const BOTH: [Compression; 2] = [Compression::None, Compression::Lz4];

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
    let label = Label { kind: Kind::Log, round: 1, closed: 5, highest: 5, members: 3, part: 0, parts: 1 };
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
    let falls = Label { closed: 4, ..next };
    damaged(make(&[&[label, falls], &[label, falls]]));
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
    bytes[8] = 2;
    let check = segment::check(&bytes);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    let file = storage.open("log-0000000007-01").unwrap();
    write_all(&*file, &bytes, 0).unwrap();
    let error = survey(&storage, DIRECTORY, &built.generation(), true, 1).unwrap_err();
    assert!(matches!(error, LogError::Version { found: 2, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the simulated disk/log-0000000007-01 has format version 2, this build reads version 1; \
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
    let label = Label { kind: Kind::Log, round: 3, closed: 6, highest: 6, members: 1, part: 0, parts: 1 };
    for offset in (0..160).step_by(8).flat_map(|step| [64 + step, 64 + (256 << 10) - 80 + step]) {
        let mut bytes = header(0, 1).to_vec();
        bytes.resize(offset, 0);
        Encoder::new(Compression::None).encode(&mut bytes, place, offset as u64, &label, &[]);
        let built = Built { files: vec![bytes], ends: Vec::new(), logged: Vec::new(), end: None };
        assert!(damaged(built.survey()).2.contains("round 3 was begun"), "at {offset}");
    }
}

// ---------------------------------------------------------------------------------------------
// Entries and rows

#[derive(Clone, Debug)]
struct AnyWrite {
    relation: u16,
    groups: u16,
    present: bool,
    key: Vec<u64>,
    data: Vec<u64>,
}

fn any_write() -> impl Strategy<Value = AnyWrite> {
    let words = proptest::collection::vec(any::<u64>(), 0..20);
    let key = proptest::collection::vec(any::<u64>(), 1..=8);
    (any::<u16>(), any::<u16>(), any::<bool>(), key, words).prop_map(
        |(relation, groups, present, key, data)| AnyWrite {
            relation,
            groups,
            present,
            key,
            data: if present { data } else { Vec::new() },
        },
    )
}

fn any_payload() -> impl Strategy<Value = Vec<(u64, Vec<AnyWrite>)>> {
    proptest::collection::vec((0..1u64 << 62, proptest::collection::vec(any_write(), 0..6)), 0..12)
}

fn write_payload(transactions: &[(u64, Vec<AnyWrite>)]) -> Vec<u64> {
    let mut words = Vec::new();
    for (time, writes) in transactions {
        let start = words.len();
        let mut entry = Writing::begin(&mut words, *time);
        for write in writes {
            let AnyWrite { relation, groups, present, key, data } = write;
            entry.write(&mut words, *relation, *groups, *present, key, data.len());
            words.extend_from_slice(data);
        }
        assert_eq!(entry.end(&mut words), words.len() - start);
    }
    words
}

fn label(round: u64) -> Label {
    Label { kind: Kind::Log, round, closed: 3, highest: 4, members: 1 << 5, part: 0, parts: 1 }
}

const PLACE: Place = Place { directory: 77, generation: 3, file: 5 };

proptest! {
    #[test]
    fn entries_come_back(transactions in any_payload()) {
        let words = write_payload(&transactions);
        let read = Entries::new(&words).collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(read.len(), transactions.len());
        for (entry, (time, writes)) in read.iter().zip(&transactions) {
            prop_assert_eq!((entry.time(), entry.len()), (*time, writes.len()));
            prop_assert_eq!(entry.epoch(), stamp::epoch(*time));
            for (write, due) in entry.writes().zip(writes) {
                let AnyWrite { relation, groups, present, key, data } = due;
                prop_assert_eq!(write, Write { relation: *relation, groups: *groups, present: *present, key, data });
            }
        }
    }

    /// A payload cut at any word gives the whole entries before the cut, and an error unless the cut
    /// was between entries.
    #[test]
    fn cut_entries(transactions in any_payload(), cut in any::<proptest::sample::Index>()) {
        let words = write_payload(&transactions);
        let cut = cut.index(words.len() + 1);
        let read = Entries::new(&words[..cut]).collect::<Vec<_>>();
        let whole = read.iter().take_while(|entry| entry.is_ok()).count();
        for (entry, (time, _)) in read.iter().take(whole).zip(&transactions) {
            prop_assert_eq!(entry.unwrap().time(), *time);
        }
        let used = write_payload(&transactions[..whole]).len();
        prop_assert_eq!(read.len(), whole + usize::from(used != cut));
        if let Some(Err(malformed)) = read.last() {
            prop_assert_eq!(malformed.at, used);
        }
    }

    #[test]
    fn any_words_are_entries_or_not(words in proptest::collection::vec(
        prop_oneof![0..40u64, any::<u64>(), (1..9u64, 0..9u64, 0..3u64).prop_map(|(key, data, writes)|
            key << 32 | data << 37 | 1 << 36 | writes << 32)], 0..60,
    )) {
        for entry in Entries::new(&words).flatten() {
            prop_assert_eq!(entry.writes().count(), entry.len());
        }
        if let Ok(rows) = Rows::new(&words) {
            prop_assert_eq!(rows.iter().count(), rows.len());
        }
    }

    #[test]
    fn rows_come_back(key_words in 1..9u8, data_words in 0..12u32, rows in 1..60u64, limit in 0..120usize) {
        let row = |number: u64| -> (Vec<u64>, Vec<u64>) {
            ((0..key_words.into()).map(|word| word ^ number).collect(),
             (0..data_words.into()).map(|word| word * number).collect())
        };
        let (mut words, mut back) = (Vec::new(), Vec::new());
        let mut written = 0;
        while written < rows {
            let mut writing = WritingRows::begin(&mut words, 8, key_words, data_words, limit);
            let first = written;
            while written < rows && !writing.is_full(&words) {
                let (key, data) = row(written);
                writing.row(&mut words, &key);
                words.extend(data);
                written += 1;
            }
            prop_assert_eq!(writing.rows(&words), written - first);
            prop_assert!(words.len() <= limit || written - first == 1);
            let read = Rows::new(&words).unwrap();
            prop_assert_eq!((read.relation, read.key_words, read.data_words),
                (8, usize::from(key_words), data_words as usize));
            back.extend(read.iter().map(|(key, data)| (key.to_vec(), data.to_vec())));
        }
        prop_assert_eq!(back, (0..rows).map(row).collect::<Vec<_>>());
    }

    #[test]
    fn frames_come_back(
        words in proptest::collection::vec(prop_oneof![0..4u64, any::<u64>()], 0..300),
        before in 0..50usize, round in 1..u64::MAX, lz4 in any::<bool>(),
    ) {
        let mut out = vec![0xEE; before * 8];
        let mut encoder = Encoder::new(BOTH[usize::from(lz4)]);
        let header = encoder.encode(&mut out, PLACE, 4096, &label(round), &words);
        let frame = &out[before * 8..];
        prop_assert_eq!(frame.len() as u64, header.bytes());
        let (mut decoder, mut back) = (Decoder::new(), vec![1, 2, 3]);
        prop_assert_eq!(decoder.decode(frame, PLACE, 4096, &mut back), Ok(Some(header)));
        prop_assert_eq!((&back, header.label), (&words, label(round)));
        // Elsewhere it is no frame.
        let elsewhere = [
            (Place { directory: 78, ..PLACE }, 4096), (Place { generation: 4, ..PLACE }, 4096),
            (Place { file: 6, ..PLACE }, 4096), (PLACE, 4104),
        ];
        for (place, offset) in elsewhere {
            let wrong = decoder.decode(frame, place, offset, &mut back);
            prop_assert!(matches!(wrong, Err(Flaw::Bad(_))));
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let found = Decoder::new().decode(&bytes, PLACE, 64, &mut Vec::new());
        prop_assert!(matches!(found, Err(_) | Ok(None)));
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
        prop_assert!(Manifest::decode(&bytes).is_err());
    }
}

#[test]
fn malformed_entries() {
    let head = |key: u64, present: u64, data: u64| 9 | 1 << 16 | key << 32 | present << 36 | data << 37;
    let size = |words: u64, writes: u64| words | writes << 32;
    let table: &[(&str, &[u64])] = &[
        ("an entry is cut off", &[5]),
        ("an entry is cut off", &[5, size(3, 0)]),
        ("an entry is shorter than its head", &[5, size(0, 0)]),
        ("an entry is shorter than its head", &[5, size(1, 0), 0]),
        ("a commit time has state bits", &[stamp::LOCK | 5, size(2, 0)]),
        ("a commit time has state bits", &[stamp::ABSENT | 5, size(2, 0)]),
        ("an entry has words behind its last write", &[5, size(3, 0), 0]),
        ("an entry has fewer writes than it says", &[5, size(4, 2), head(1, 1, 0), 7]),
        ("an entry has fewer writes than it says", &[5, size(2, u32::MAX.into())]),
        ("a key has no words or more than 8", &[5, size(3, 1), head(0, 1, 0)]),
        ("a key has no words or more than 8", &[5, size(12, 1), head(9, 1, 0), 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("a deleted row has data", &[5, size(5, 1), head(1, 0, 1), 7, 8]),
        ("a key is cut off", &[5, size(4, 1), head(2, 1, 0), 7]),
        ("a row is cut off", &[5, size(5, 1), head(1, 1, 2), 7, 8]),
    ];
    for (what, words) in table {
        // Behind a right entry.
        let words = [&[4, size(2, 0)], *words].concat();
        let read = Entries::new(&words).map(|entry| entry.map(|_| ())).collect::<Vec<_>>();
        assert_eq!(read, [Ok(()), Err(Malformed { at: 2, what })]);
    }
    let rows: &[(&str, &[u64])] = &[
        ("a list of rows has no head", &[]),
        ("a list of rows has a malformed head", &[3]),
        ("a list of rows has a malformed head", &[3 | 9 << 16]),
        ("a list of rows has a malformed head", &[3 | 1 << 16 | 1 << 24]),
        ("a row is cut off", &[3 | 1 << 16 | 1 << 32, 7]),
        ("a row is cut off", &[3 | 1 << 16 | u64::from(u32::MAX) << 32, 7]),
    ];
    for (what, words) in rows {
        assert_eq!(Rows::new(words).unwrap_err(), Malformed { at: 0, what });
    }
}

#[test]
fn zeros_are_no_frame_and_compress_well() {
    let mut words = Vec::new();
    let mut decoder = Decoder::new();
    assert_eq!(decoder.decode(&[0; 64], PLACE, 64, &mut words), Ok(None));
    assert_eq!(decoder.decode(&[0; 63], PLACE, 64, &mut words), Ok(None));
    assert_eq!(decoder.decode(&[], PLACE, 64, &mut words), Ok(None));
    // As much as can be, and as dense.
    let zeros = vec![0; PAYLOAD_WORDS_MAX];
    let mut out = Vec::new();
    let header = Encoder::new(Compression::Lz4).encode(&mut out, PLACE, 64, &label(1), &zeros);
    assert_eq!(header.compression == Compression::Lz4, Compression::Lz4.is_built());
    assert_eq!(decoder.decode(&out, PLACE, 64, &mut words), Ok(Some(header)));
    assert_eq!(words, zeros);
}

/// A frame that says lz4, for builds with and without it.
#[test]
fn a_compressed_frame() {
    // Literals only, which every build can make: token 15, 113 more, 128 bytes.
    let mut stored = vec![0xF0, 113];
    stored.extend([7; 128]);
    let mut bytes = vec![0; 64 + stored.len().next_multiple_of(8)];
    let mut plain = Vec::new();
    let label = Label { members: 1, ..label(1) };
    let place = Place { directory: DIRECTORY, generation: NUMBER, file: 0 };
    // 256 words would be 2048 bytes: not what it decompresses to.
    for (words, is_right) in [(17u32, false), (256, false)] {
        Encoder::new(Compression::None).encode(&mut plain, place, 64, &label, &[]);
        bytes[..64].copy_from_slice(&plain[..64]);
        bytes[8..12].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&words.to_le_bytes());
        bytes[53] = Compression::Lz4 as u8;
        bytes[64..64 + stored.len()].copy_from_slice(&stored);
        frame::seal(&mut bytes, place, 64);
        let found = Decoder::new().decode(&bytes, place, 64, &mut Vec::new());
        if Compression::Lz4.is_built() {
            assert_eq!(found.is_ok(), is_right, "{found:?}");
        } else {
            assert_eq!(found, Err(Flaw::Compression(Compression::Lz4)));
            let mut files = vec![header(0, 1).to_vec()];
            files[0].extend(&bytes);
            let built = Built { files, ends: Vec::new(), logged: Vec::new(), end: None };
            let error = built.survey().unwrap_err();
            assert_eq!(
                error.to_string(),
                "the simulated disk/log-0000000007-00 is compressed with lz4 from byte 64; open it with a \
                 build that has the feature `lz4`"
            );
        }
        plain.clear();
    }
}

// ---------------------------------------------------------------------------------------------
// Checkpoints

fn checkpoint_part(rows: u64, limit: usize, compression: Compression) -> (Vec<u8>, Checkpoint) {
    let (directory, _, number) = fuzz::NUMBERS;
    let kind = Kind::Checkpoint;
    let mut bytes =
        SegmentHeader { kind, directory, generation: number, file: 0, files: 1 }.encode().to_vec();
    let place = Place { directory, generation: number, file: 0 };
    let (mut encoder, mut words, mut next, mut frames) = (Encoder::new(compression), Vec::new(), 0, 0);
    while next < rows {
        let mut writing = WritingRows::begin(&mut words, 1, 2, 3, limit);
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
    (bytes, Checkpoint { number, epoch: 5, parts })
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
            assert!(read_part(&bytes, &Checkpoint { parts, epoch, number }).is_err());
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

// ---------------------------------------------------------------------------------------------
// Names and manifest

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
    let relation = (".{0,9}", ".{0,40}", 1..=8u8, groups);
    let relations = proptest::collection::vec(relation, 0..5).prop_map(|relations| {
        let entry =
            |(id, (name, schema, key_words, groups))| RelationEntry { id, name, schema, key_words, groups };
        (3..).zip(relations).map(entry).collect()
    });
    let part = (any::<u64>(), any::<u64>()).prop_map(|(bytes, rows)| Part { bytes, rows });
    let checkpoint = (any::<u64>(), any::<u64>(), proptest::collection::vec(part, 1..5))
        .prop_map(|(number, epoch, parts)| Checkpoint { number, epoch, parts });
    let end = (any::<u64>(), any::<u64>()).prop_map(|(rounds, epoch)| End { rounds, epoch });
    let generation = (1..=64u8, proptest::option::of(end));
    let generations = proptest::collection::vec(generation, 0..5).prop_map(|generations| {
        (7..).zip(generations).map(|(number, (files, end))| Generation { number, files, end }).collect()
    });
    (any::<(u64, u64)>(), relations, proptest::option::of(checkpoint), generations).prop_map(
        |((directory, floor), relations, checkpoint, generations)| Manifest {
            directory,
            next_generation: 12,
            floor,
            relations,
            checkpoint,
            generations,
        },
    )
}

fn manifest() -> Manifest {
    let relation = |id: u16, name: &str| RelationEntry {
        id,
        name: name.to_owned(),
        schema: format!("table {name} (id u64, balance i64)"),
        key_words: 1,
        groups: vec![1, 2, 4],
    };
    Manifest {
        directory: DIRECTORY,
        next_generation: 9,
        floor: 33,
        relations: vec![relation(0, "account"), relation(1, "histories")],
        checkpoint: Some(Checkpoint { number: 9, epoch: 12, parts: vec![Part { bytes: 640, rows: 12 }] }),
        generations: vec![
            Generation { number: 7, files: 3, end: Some(End { rounds: 6, epoch: 12 }) },
            Generation { number: 8, files: 2, end: None },
        ],
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

// ---------------------------------------------------------------------------------------------
// The corpus of the fuzz targets

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
    for (name, manifest) in [("full", manifest()), ("bare", bare)] {
        for flags in [0, fuzz::MEND] {
            let mut input = vec![flags];
            input.extend(manifest.encode());
            inputs.push(("manifest", format!("{name}-{flags}"), input));
        }
    }
    inputs
}

fn corpus_directory(target: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Writes the corpus anew: `cargo test -p heddledb --lib log::tests::write_corpus -- --ignored`.
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
    let saved = std::fs::read(corpus_directory("segments").join("lz4-whole")).unwrap();
    let plain = build(PLAN, Compression::None);
    let mut built = plain.clone();
    let (first, second) = (
        usize::from(u16::from_le_bytes([saved[4], saved[5]])),
        usize::from(u16::from_le_bytes([saved[6], saved[7]])),
    );
    let files = &saved[8..];
    built.files = vec![
        files[..first].to_vec(),
        files[first..first + second].to_vec(),
        files[first + second..].to_vec(),
    ];
    match built.survey() {
        Ok(survey) => {
            assert_eq!(survey.rounds, 6);
            assert_eq!(built.taken(&survey), plain.first(6));
        }
        Err(error) => assert!(!Compression::Lz4.is_built(), "{error}"),
    }
}
