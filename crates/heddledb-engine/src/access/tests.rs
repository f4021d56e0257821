use super::*;
use crate::arena::Arena;
use crate::sync::Random;
use crate::table::{Group, RANK};

static LAYOUT: Layout = Layout {
    name: "test",
    groups: &[
        Group { name: "one", span: Span { start: 0, end: 1 }, rank: RANK, held: false },
        Group { name: "two", span: Span { start: 1, end: 2 }, rank: RANK, held: false },
    ],
    words: 2,
    slots: &[],
};

/// `coverage` remembers where it was; its answers must not depend on that.
#[test]
fn coverage_answers_as_covers_does_in_any_order() {
    let mut arena = Arena::default();
    let records: Vec<RecordRef> = (0..200).map(|_| arena.allocate(0, 8)).collect();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut writes = WriteSet::default();
        let mut asked = Vec::new();
        for record in &records[..random.below(200) as usize] {
            let groups = random.below(4) as GroupSet;
            if groups != 0 {
                let vacancy = writes.find_or_vacancy(*record).expect_err("not written yet");
                writes.start(vacancy, *record, &LAYOUT, 0, &[seed], groups, true);
            }
            asked.push(*record);
            // Some twice, some out of turn.
            if random.below(4) == 0 {
                asked.push(records[random.below(200) as usize]);
            }
        }
        let mut coverage = writes.coverage();
        for record in asked {
            let group = random.below(2) as usize;
            assert_eq!(coverage(record, group), writes.covers(record, group), "seed {seed}");
        }
    }
}

#[test]
fn a_vacancy_is_where_the_record_is_found_afterwards() {
    let mut arena = Arena::default();
    let records: Vec<RecordRef> = (0..500).map(|_| arena.allocate(0, 8)).collect();
    let mut map = RecordMap::default();
    for _ in 0..3 {
        for (value, record) in records.iter().enumerate() {
            let vacancy = map.find(*record).expect_err("not put yet");
            map.fill(vacancy, *record, value);
            assert_eq!(map.find(records[value / 2]).ok(), Some(value / 2));
        }
        assert!(records.iter().enumerate().all(|(value, record)| map.get(*record) == Some(value)));
        map.clear();
        assert!(records.iter().all(|record| map.get(*record).is_none()));
    }
}

#[test]
fn a_write_that_was_taken_back_as_begun_leaves_nothing() {
    let mut arena = Arena::default();
    let records: Vec<RecordRef> = (0..20).map(|_| arena.allocate(0, 8)).collect();
    let span = Span { start: 1, end: 2 };
    let mut writes = WriteSet::default();
    let mut kept: Vec<(RecordRef, u64)> = Vec::new();
    for (number, record) in records.iter().enumerate() {
        let vacancy = writes.find_or_vacancy(*record).expect_err("not written yet");
        let at = writes.begin_replaced(*record, &LAYOUT, 0, &[number as u64], 1 << 1, span);
        writes.scratch(at, span.end)[span.start] = number as u64;
        if number % 3 == 1 {
            writes.take_back_begun();
        } else {
            writes.enter(*record, vacancy);
            kept.push((*record, number as u64));
        }
        let written = |record: &&RecordRef| writes.covers(**record, 1);
        assert!(records.iter().filter(written).eq(kept.iter().map(|(record, _)| record)));
        assert_eq!(writes.writes().len(), kept.len());
    }
    for (at, (record, number)) in kept.iter().enumerate() {
        assert_eq!((writes.find(*record), writes.key(&writes.writes()[at])), (Some(at), &[*number][..]));
        let to = writes.reserve(1);
        writes.overlay(at, span.start, to, 1);
        assert_eq!(writes.scratch(to, 1), [*number]);
    }
}
