//! Entries, frames and rows: what was written comes back, and no other bytes are taken for it.

use super::*;
use std::ops::RangeInclusive;

#[derive(Clone, Debug)]
struct AnyWrite {
    relation: u16,
    groups: u32,
    present: bool,
    key: Vec<u64>,
    data: Vec<u64>,
}

fn any_write() -> impl Strategy<Value = AnyWrite> {
    let words = proptest::collection::vec(any::<u64>(), 0..20);
    let key = proptest::collection::vec(any::<u64>(), 1..=8);
    let groups: RangeInclusive<u32> = 0..=(1 << GROUPS_MAX) - 1;
    (any::<u16>(), groups, any::<bool>(), key, words).prop_map(|(relation, groups, present, key, data)| {
        AnyWrite { relation, groups, present, key, data: if present { data } else { Vec::new() } }
    })
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
    Label {
        kind: Kind::Log,
        round,
        closed: 3,
        highest: 4,
        time: (1 << 40) + 5,
        members: 1 << 5,
        part: 0,
        parts: 1,
    }
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
    fn rows_with_values_come_back(lengths in proptest::collection::vec(0..9usize, 1..40), cut in 1..9usize) {
        let mut words = Vec::new();
        let mut writing = WritingRows::begin(&mut words, 8, 1, 2, true, 1 << 20);
        let row = |(number, length): (usize, &usize)| vec![number as u64; 2 + length];
        for (number, length) in lengths.iter().enumerate() {
            let start = writing.row(&mut words, &[number as u64]);
            words.extend(row((number, length)));
            writing.end_row(&mut words, start);
        }
        let read = Rows::new(&words).unwrap();
        prop_assert_eq!((read.len() as u64, read.with_values), (writing.rows(), true));
        let back: Vec<Vec<u64>> = read.iter().map(|(_, data)| data.to_vec()).collect();
        prop_assert_eq!(back, lengths.iter().enumerate().map(row).collect::<Vec<_>>());
        // Cut off within the last row, of which there are at least so many words.
        prop_assert!(Rows::new(&words[..words.len() - cut.min(3)]).is_err());
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
            let mut writing = WritingRows::begin(&mut words, 8, key_words, data_words, false, limit);
            let first = written;
            while written < rows && !writing.is_full(&words) {
                let (key, data) = row(written);
                writing.row(&mut words, &key);
                words.extend(data);
                written += 1;
            }
            prop_assert_eq!(writing.rows(), written - first);
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
        ("an entry has fewer writes than it says", &[5, size(2, (1 << 31) - 1)]),
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
        ("a list of rows has a malformed head", &[3 | 1 << 16 | 1 << 25]),
        ("a row is cut off", &[3 | 1 << 16 | 1 << 24, 7]),
        ("a row is cut off", &[3 | 1 << 16 | 1 << 24, 7, 1]),
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
