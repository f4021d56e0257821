//! A generation to damage.

use super::*;

pub(super) const DIRECTORY: u64 = fuzz::NUMBERS.0;
pub(super) const NUMBER: u64 = fuzz::NUMBERS.1;

/// A round: for each file the frames of it, as numbers of transactions.
pub(super) type Plan<'a> = &'a [&'a [&'a [usize]]];

/// Three files; rounds in which one, two and all take part, with two frames of one file.
pub(super) const PLAN: Plan = &[
    &[&[2], &[1], &[1]],
    &[&[], &[1, 2], &[]],
    &[&[1], &[], &[2]],
    &[&[], &[3], &[1]],
    &[&[2], &[], &[]],
    &[&[1], &[1], &[1]],
];

/// A generation as it was written.
#[derive(Clone)]
pub(super) struct Built {
    pub(super) files: Vec<Vec<u8>>,
    /// For each round and file, where its frames end.
    pub(super) ends: Vec<Vec<usize>>,
    /// For each round and file, what was logged.
    pub(super) logged: Vec<Vec<Vec<Logged>>>,
    pub(super) end: Option<End>,
}

pub(super) type Logged = (u64, Vec<(u16, u32, bool, Vec<u64>, Vec<u64>)>);

pub(super) fn header(file: usize, files: usize) -> [u8; SEGMENT_HEADER_BYTES] {
    let (file, files) = (file as u8, files as u8);
    SegmentHeader { kind: Kind::Log, directory: DIRECTORY, generation: NUMBER, file, files }.encode()
}

/// When a round was taken: of so many bits that all of the header's are needed.
pub(super) fn time_of(round: u64) -> u64 {
    (1 << 47) + round * 3
}

pub(super) fn closed(round: u64) -> u64 {
    round * 2
}

/// The transaction number `number`, of round `round`.
pub(super) fn transaction(out: &mut Vec<u64>, round: u64, number: u64) -> Logged {
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

pub(super) fn build(plan: Plan, compression: Compression) -> Built {
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
                let label = Label {
                    kind: Kind::Log,
                    round,
                    closed: closed(round),
                    highest,
                    time: time_of(round),
                    members,
                    part,
                    parts,
                };
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
    pub(super) fn rounds(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn generation(&self) -> Generation {
        Generation { number: NUMBER, files: self.files.len() as u8, kind: LogKind::Values, end: self.end }
    }

    pub(super) fn put(&self) -> Simulated {
        let storage = Simulated::new();
        for (file, bytes) in (0..).zip(&self.files) {
            put(&storage, Name::Log { generation: NUMBER, file }, bytes);
        }
        storage
    }

    pub(super) fn survey(&self) -> Result<Survey, LogError> {
        survey(&self.put(), DIRECTORY, &self.generation(), false, 1)
    }

    pub(super) fn salvage(&self) -> Result<Survey, LogError> {
        survey(&self.put(), DIRECTORY, &self.generation(), true, 1)
    }

    /// What recovery takes.
    pub(super) fn taken(&self, survey: &Survey) -> Vec<Vec<Logged>> {
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
                assert_eq!(self.taken_by_stretches(survey, file, &mut frames), taken);
                taken
            })
            .collect()
    }

    /// The same of one file, stretch by stretch, the last one first; the stretches follow one another.
    fn taken_by_stretches(&self, survey: &Survey, file: u8, frames: &mut Frames) -> Vec<Logged> {
        let (mut taken, mut words) = (Vec::new(), Vec::new());
        let mut ends = survey.files[usize::from(file)].bytes;
        for stretch in survey.stretches.iter().rev().filter(|stretch| stretch.file == file) {
            assert!(stretch.bytes.end == ends && !stretch.bytes.is_empty());
            ends = stretch.bytes.start;
            frames.seek(&stretch.bytes);
            let mut own_entries = Vec::new();
            while frames.next_frame(&mut words).unwrap().is_some() {
                own_entries.extend(Entries::new(&words).map(|entry| own(entry.unwrap())));
            }
            taken.splice(0..0, own_entries);
        }
        assert_eq!(ends, SEGMENT_HEADER_BYTES as u64);
        taken
    }

    /// What was logged in the first rounds.
    pub(super) fn first(&self, rounds: u64) -> Vec<Vec<Logged>> {
        let of_file =
            |file: usize| self.logged[..rounds as usize].iter().flat_map(move |of| of[file].clone());
        (0..self.files.len()).map(|file| of_file(file).collect()).collect()
    }

    /// Checks that a survey takes a prefix of what was logged, and nothing else.
    #[track_caller]
    pub(super) fn expect_prefix_of(&self, whole: &Built, survey: &Survey) {
        assert!(survey.rounds <= whole.rounds());
        assert_eq!(self.taken(survey), whole.first(survey.rounds));
        let closed_epoch = if survey.rounds == 0 { 0 } else { closed(survey.rounds) };
        assert_eq!(survey.closed, closed_epoch);
    }
}

pub(super) fn own(entry: Entry) -> Logged {
    let own =
        |write: Write| (write.relation, write.groups, write.present, write.key.to_vec(), write.data.to_vec());
    (entry.time(), entry.writes().map(own).collect())
}

pub(super) fn put(storage: &Simulated, name: Name, bytes: &[u8]) {
    let file = storage.create(&name.to_string()).unwrap();
    write_all(&*file, bytes, 0).unwrap();
}

pub(super) fn damaged(result: Result<Survey, LogError>) -> (String, u64, String) {
    match result {
        Err(LogError::Damaged { file, offset, what }) => (file, offset, what),
        other => panic!("{other:?}"),
    }
}

pub(super) const BOTH: [Compression; 2] = [Compression::None, Compression::Lz4];
