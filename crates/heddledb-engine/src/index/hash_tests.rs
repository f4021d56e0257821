use super::*;
use crate::index::{Inserted::*, Lookup::*};
use crate::record::tests::record;
use crate::sync::Random;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key<const N: usize>(i: u64) -> [u64; N] {
    std::array::from_fn(|word| if word + 1 == N { i } else { i / 16 })
}

fn insert<const N: usize, const SLOT: usize>(index: &Hash<N, SLOT>, key: [u64; N], new: RecordRef) -> bool {
    matches!(index.insert(&key, &mut |_| new), Added { record, .. } if record == new)
}

fn remove<const N: usize, const SLOT: usize>(
    index: &Hash<N, SLOT>,
    key: [u64; N],
    record: RecordRef,
) -> bool {
    let mut retired = Vec::new();
    let removed = index.remove(&key, record, &mut |_| true, &mut retired);
    assert!(retired.is_empty());
    removed
}

#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
    Fill(u64, u64),
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..keys).prop_map(Step::Get),
        6 => (0..keys, 0..1024u64).prop_map(|(key, record)| Step::Insert(key, record)),
        4 => (0..keys).prop_map(Step::Remove),
        1 => (0..keys, 0..keys / 8).prop_map(|(from, length)| Step::Fill(from, length)),
    ]
}

fn check_against_model<const N: usize, const SLOT: usize>(steps: &[Step]) {
    let index = Hash::<N, SLOT>::new(0);
    let mut model = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Get(i) => match index.get(&key(i)) {
                Found(record) => assert_eq!(model.get(&key::<N>(i)), Some(&record)),
                Missing(_) => assert!(!model.contains_key(&key::<N>(i))),
            },
            Step::Insert(i, r) => {
                assert_eq!(insert(&index, key(i), record(r)), !model.contains_key(&key::<N>(i)));
                model.entry(key(i)).or_insert(record(r));
            }
            Step::Remove(i) => {
                if let Some(record) = model.remove(&key(i)) {
                    assert!(remove(&index, key(i), record));
                }
                assert!(!remove(&index, key(i), record(1)));
            }
            Step::Fill(from, length) => {
                for i in from..from + length {
                    insert(&index, key(i), record(i));
                    model.entry(key(i)).or_insert(record(i));
                }
            }
        }
    }
    for (key, record) in &model {
        assert!(matches!(index.get(key), Found(found) if found == *record));
    }
    for (key, record) in model {
        assert!(remove(&index, key, record));
    }
    assert_eq!(index.nodes(), 0, "empty chains have no overflow");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chains_match_the_model(steps in prop::collection::vec(step(800), 1..if cfg!(miri) { 40 } else { 600 })) {
        check_against_model::<1, 1>(&steps);
        check_against_model::<1, 2>(&steps);
        check_against_model::<3, 2>(&steps);
    }
}

#[test]
fn a_large_table_is_cheap_to_create_and_grows_on() {
    let rows = if cfg!(miri) { 100 } else { 300_000 };
    for expected in [0, rows / 3, rows] {
        let index = Hash::<1>::new(expected as usize);
        for i in 0..rows {
            assert!(insert(&index, [i << 20], record(i)));
        }
        for i in 0..rows {
            assert!(matches!(index.get(&[i << 20]), Found(found) if found == record(i)));
            assert!(matches!(index.get(&[(i << 20) + 1]), Missing(_)));
        }
        assert!((index.nodes() as u64) < rows / 4 + 8, "{} overflow buckets of {rows}", index.nodes());
        for i in 0..rows {
            assert!(remove(&index, [i << 20], record(i)));
        }
        assert_eq!(index.nodes(), 0);
    }
}

#[test]
fn sequential_and_packed_keys_spread() {
    let buckets = 1 << 10;
    let spread = |name: &str, key: &dyn Fn(u64) -> [u64; 1]| {
        let mut counts = vec![0u32; buckets];
        for i in 0..4 * buckets as u64 {
            counts[place(hash(&key(i)), buckets)] += 1;
        }
        // Poisson with mean 4: 16 and more would be rare in a thousand buckets.
        let most = counts.iter().max().unwrap();
        assert!(*most < 18, "{name}: {most} in one bucket");
        let empty = counts.iter().filter(|c| **c == 0).count();
        assert!(empty < 60, "{name}: {empty} buckets empty, of which e^-4 of all, 19, are due");
    };
    spread("sequential", &|i| [i]);
    for shift in [4, 8, 16, 24, 32, 40, 48, 52] {
        spread(&format!("shifted by {shift}"), &|i| [i << shift]);
    }
    spread("two columns", &|i| [((i / 64) << 32) | (i % 64)]);
    spread("three columns", &|i| [((i / 256) << 56) | ((i / 16 % 16) << 48) | (i % 16)]);
}

/// Replays what a transaction does with its own changes.
#[test]
fn own_inserts_tell_what_they_changed() {
    let index = Hash::<1>::new(0);
    for i in 0..if cfg!(miri) { 60 } else { 5000 } {
        let Missing(seen) = index.get(&[i]) else { panic!("{i} was not inserted") };
        let Added { change, splits, .. } = index.insert(&[i], &mut |gap| {
            assert_eq!(gap.version() & 3, 1, "`make` runs under the latch");
            record(i)
        }) else {
            panic!("{i} was not there")
        };
        assert_eq!((seen.gap, seen.version), (change.gap, change.before));
        // What the insert and the splits after it made of the gaps: any may be split again.
        let mut known = vec![(change.gap, change.after)];
        for split in splits.into_iter().flatten() {
            match known.iter_mut().find(|(gap, _)| *gap == split.gap) {
                Some((_, version)) => {
                    assert_eq!(*version, split.before);
                    *version = split.after;
                }
                None => known.push((split.gap, split.after)),
            }
            known.extend(split.split.map(|new| (new.gap, new.version)));
        }
        known.iter().for_each(|(gap, version)| assert_eq!(gap.version(), *version));
    }
}

#[test]
fn stamps_follow_their_keys() {
    let index = Hash::<1>::new(0);
    let keys = 2 * BUCKETS_MIN as u64;
    for i in 0..keys {
        let Missing(seen) = index.get(&[i]) else { unreachable!() };
        seen.gap.stamp().fetch_max(100 + i, Ordering::SeqCst);
    }
    for i in 1000..1000 + 20 * keys {
        insert(&index, [i], record(0));
    }
    for i in 0..keys {
        let Missing(seen) = index.get(&[i]) else { unreachable!() };
        assert!(seen.gap.stamp().load(Ordering::SeqCst) >= 100 + i);
    }
}

#[test]
fn a_panic_under_the_latch_changes_nothing() {
    let index = Hash::<1>::new(0);
    let Missing(seen) = index.get(&[9]) else { unreachable!() };
    let attempt = std::panic::AssertUnwindSafe(|| index.insert(&[9], &mut |_| panic!("as planned")));
    assert!(std::panic::catch_unwind(attempt).is_err());
    assert_eq!(seen.gap.version(), seen.version);
    assert!(insert(&index, [9], record(9)));
}

/// Even keys stay for ever, odd ones come and go while the table grows.
fn check_concurrently<const SLOT: usize>(seed: u64, keys: u64, steps: u64) {
    let index = Hash::<1, SLOT>::new(0);
    for i in 0..keys / 2 {
        insert(&index, [i * 2], record(0));
    }
    let writer = |id: u64, shared: bool| {
        let mut random = Random::new(seed * 100 + id);
        for step in 0..steps {
            let key = [random.below(keys / 8) * 8 + if shared { 5 } else { 1 + id * 2 }];
            let own = record(id + 1);
            match index.insert(&key, &mut |_| own) {
                Added { change, .. } => assert!(change.after > change.before),
                Exists(..) => assert!(shared, "seed {seed}: own key {key:?} was removed"),
            }
            assert!(index.remove(&key, own, &mut |_| true, &mut Vec::new()) || shared, "seed {seed}");
            // New keys, so that buckets split throughout.
            insert(&index, [(1 << 40) | (id << 32) | (u64::from(shared) << 33) | step], record(9));
        }
    };
    let reader = |id: u64| {
        let mut random = Random::new(seed * 100 + 50 + id);
        for _ in 0..steps * 4 {
            let even = random.below(keys / 2) * 2;
            assert!(matches!(index.get(&[even]), Found(r) if r == record(0)), "seed {seed}: lost {even}");
            let odd = [random.below(keys / 2) * 2 + 1];
            if let Missing(seen) = index.get(&odd) {
                let again = index.get(&odd);
                if seen.gap.version() == seen.version {
                    assert!(matches!(again, Missing(s) if s == seen), "seed {seed}: {odd:?} came unseen");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| writer(0, false));
        scope.spawn(|| writer(1, false));
        scope.spawn(|| writer(0, true));
        scope.spawn(|| writer(1, true));
        scope.spawn(|| reader(0));
    });
    for step in 0..steps {
        for writer in 0..4 {
            let key = [(1 << 40) | (writer << 32) | step];
            assert!(remove(&index, key, record(9)), "seed {seed}: lost {key:?}");
        }
    }
    for i in 0..keys {
        if let Found(found) = index.get(&[i]) {
            assert!(remove(&index, [i], found));
        }
    }
    assert_eq!(index.nodes(), 0, "seed {seed}");
}

#[test]
fn concurrent_changes_lose_nothing() {
    let (seeds, steps) = if cfg!(miri) { (1, 12) } else { (8, 10_000) };
    for seed in 0..seeds {
        check_concurrently::<1>(seed, if cfg!(miri) { 16 } else { 128 }, steps);
        if !cfg!(miri) {
            check_concurrently::<2>(seed, 4096, steps);
        }
    }
}

/// One to which keys are added in regions counts and grows when it is tended: chains stay as short as elsewhere.
#[test]
#[cfg_attr(miri, ignore = "many keys")]
fn an_index_for_regions_grows_when_it_is_tended() {
    const KEYS: u64 = 10_000;
    let in_region = |index: &Hash<1>, key: [u64; 1], new| {
        matches!(index.insert_untended(&key, &mut |_| new), Added { .. })
    };
    let (plain, tended) = (Hash::<1>::new(0), Hash::<1>::new(0).with_spares());
    for i in 0..KEYS {
        assert!(insert(&plain, [i], record(i)) && in_region(&tended, [i], record(i)));
        tended.tend(&[i]);
    }
    assert!((0..KEYS).all(|i| matches!(tended.get(&[i]), Found(found) if found == record(i))));
    assert!(tended.nodes() < 2 * plain.nodes(), "{} of {}", tended.nodes(), plain.nodes());
    // What is removed before it is counted.
    assert!(in_region(&tended, [KEYS], record(KEYS)) && remove(&tended, [KEYS], record(KEYS)));
    tended.tend(&[KEYS]);
}
