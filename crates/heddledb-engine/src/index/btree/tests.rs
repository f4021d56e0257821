use super::descent::predecessor;
use super::*;
use crate::index::Leaf;
use crate::index::{Direction, Direction::*, Gap, Inserted::*, Lookup::*, Seen};
use crate::record::RecordRef;
use crate::record::tests::record;
use crate::sync::{Ordering, Random};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Entries of a node where nodes come and go; few under Miri, so that it takes few steps.
const CAP: usize = if cfg!(miri) { 8 } else { 30 };

fn key<const N: usize>(i: u64) -> [u64; N] {
    // The words of a long key differ in the first word for distant keys only.
    std::array::from_fn(|word| if word + 1 == N { i } else { i / 16 })
}

/// The entries of a leaf, keys and records.
fn entries<const N: usize>(leaf: &Leaf) -> Vec<([u64; N], RecordRef)> {
    let key = |at| leaf.key(at, N).try_into().expect("as many words as asked for");
    leaf.records().iter().enumerate().map(|(at, record)| (key(at), *record)).collect()
}

/// All entries in `low..=high`, at most `most` at a time.
fn scan_by<const N: usize, const CAP: usize>(
    tree: &BTree<N, CAP>,
    direction: Direction,
    low: [u64; N],
    high: [u64; N],
    most: usize,
) -> (Vec<([u64; N], RecordRef)>, Vec<Seen>) {
    let (mut out, mut seen) = (Leaf::default(), Vec::new());
    let (mut low, mut high) = (low, high);
    loop {
        let (leaf, next) = tree.read_leaf(direction, &low, &high, most, &mut out);
        seen.push(leaf);
        match (direction, next) {
            (_, None) => return (entries(&out), seen),
            (Forward, Some(next)) => {
                assert!(next > low, "a scan advances");
                low = next;
            }
            (Reverse, Some(next)) => {
                assert!(next < high, "a scan advances");
                high = next;
            }
        }
    }
}

/// All entries in `low..=high`, leaf by leaf.
fn scan<const N: usize, const CAP: usize>(
    tree: &BTree<N, CAP>,
    direction: Direction,
    low: [u64; N],
    high: [u64; N],
) -> (Vec<([u64; N], RecordRef)>, Vec<Seen>) {
    scan_by(tree, direction, low, high, usize::MAX)
}

fn insert<const N: usize, const CAP: usize>(tree: &BTree<N, CAP>, key: [u64; N], new: RecordRef) -> bool {
    match tree.insert(&key, &mut |_| new) {
        Exists(..) => false,
        Added { record, change, .. } => {
            assert_eq!(record, new);
            assert_ne!(change.before, change.after);
            true
        }
    }
}

/// Removes; gives the nodes back at once, as if the epoch had passed.
fn remove<const N: usize, const CAP: usize>(tree: &BTree<N, CAP>, key: [u64; N], record: RecordRef) -> bool {
    let mut retired = Vec::new();
    let removed = tree.remove(&key, record, &mut |_| true, &mut retired);
    retired.into_iter().for_each(|node| tree.recycle(node));
    removed
}

#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
    Scan(u64, u64),
    Stream(u64, u64),
    Clear(u64, u64),
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..keys).prop_map(Step::Get),
        6 => (0..keys, 0..1024u64).prop_map(|(key, record)| Step::Insert(key, record)),
        4 => (0..keys).prop_map(Step::Remove),
        2 => (0..keys, 0..keys).prop_map(|(a, b)| Step::Scan(a.min(b), a.max(b))),
        1 => (0..keys, 0..keys / 8).prop_map(|(from, length)| Step::Stream(from, length)),
        1 => (0..keys, 0..keys / 4).prop_map(|(from, length)| Step::Clear(from, length)),
    ]
}

fn check_against_model<const N: usize, const CAP: usize>(steps: &[Step]) {
    let tree = BTree::<N, CAP>::new(Fold::Max);
    let mut model = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Get(i) => match tree.get(&key(i)) {
                Found(record) => assert_eq!(model.get(&key::<N>(i)), Some(&record)),
                Missing(_) => assert!(!model.contains_key(&key::<N>(i))),
            },
            Step::Insert(i, r) => {
                let new = insert(&tree, key(i), record(r));
                assert_eq!(new, !model.contains_key(&key::<N>(i)));
                model.entry(key(i)).or_insert(record(r));
            }
            Step::Remove(i) => {
                assert!(!remove(&tree, key(i), record(1023)) || model.remove(&key(i)) == Some(record(1023)));
                if let Some(record) = model.remove(&key(i)) {
                    assert!(remove(&tree, key(i), record));
                }
                assert!(!remove(&tree, key(i), record(1)));
            }
            Step::Scan(a, b) => {
                let most = 1 + (a + b) as usize % (CAP + 2);
                let (forward, _) = scan_by(&tree, Forward, key(a), key(b), most);
                let mut expected: Vec<_> = model.range(key(a)..=key(b)).map(|(k, r)| (*k, *r)).collect();
                assert_eq!(forward, expected);
                let (reverse, _) = scan_by(&tree, Reverse, key(a), key(b), most);
                expected.reverse();
                assert_eq!(reverse, expected);
            }
            Step::Stream(from, length) => {
                for i in from..from + length {
                    insert(&tree, key(i), record(i));
                    model.entry(key(i)).or_insert(record(i));
                }
            }
            Step::Clear(from, length) => {
                for i in from..from + length {
                    if let Some(record) = model.remove(&key(i)) {
                        assert!(remove(&tree, key(i), record));
                    }
                }
            }
        }
    }
    let (all, _) = scan(&tree, Forward, [0; N], [u64::MAX; N]);
    assert!(all.iter().map(|(k, r)| (k, r)).eq(model.iter()));
    for (key, record) in model {
        assert!(remove(&tree, key, record));
    }
    assert_eq!(tree.nodes(), 1, "an emptied tree is one leaf");
}

/// Keys that come and go in nodes as they are: streams of them, an eighth, split some.
const REAL_KEYS: u64 = if cfg!(miri) { 400 } else { 2000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_nodes_match_the_model(steps in prop::collection::vec(step(300), 1..if cfg!(miri) { 40 } else { 600 })) {
        check_against_model::<1, 4>(&steps);
        check_against_model::<3, 5>(&steps);
    }

    #[test]
    fn real_nodes_match_the_model(steps in prop::collection::vec(step(REAL_KEYS), 1..if cfg!(miri) { 20 } else { 600 })) {
        check_against_model::<1, 30>(&steps);
        check_against_model::<2, 30>(&steps);
    }
}

#[test]
fn the_ends_of_the_key_space_are_keys() {
    let tree = BTree::<2, 4>::new(Fold::Max);
    let keys: Vec<[u64; 2]> =
        vec![[0, 0], [0, u64::MAX], [1, 0], [1, 1], [u64::MAX, 0], [u64::MAX, u64::MAX]];
    for (i, key) in keys.iter().enumerate().rev() {
        assert!(insert(&tree, *key, record(i as u64)));
    }
    let (all, _) = scan(&tree, Forward, keys[0], keys[5]);
    assert_eq!(all.iter().map(|e| e.0).collect::<Vec<_>>(), keys);
    let (all, _) = scan(&tree, Reverse, keys[0], keys[5]);
    assert!(all.iter().rev().map(|e| e.0).eq(keys.iter().copied()));
    let (none, _) = scan(&tree, Forward, keys[5], keys[0]);
    assert!(none.is_empty());
    assert_eq!(predecessor([1u64, 0]), [0, u64::MAX]);
}

/// Replays what a transaction does with its own changes: all that it has seen stays as it is.
#[test]
fn own_inserts_keep_own_scans_valid() {
    let tree = BTree::<1, 4>::new(Fold::Max);
    let mut random = Random::new(7);
    for _ in 0..40 {
        insert(&tree, [random.below(4000) * 2], record(0));
    }
    let (_, mut seen) = scan(&tree, Forward, [0], [u64::MAX]);
    for _ in 0..if cfg!(miri) { 60 } else { 1000 } {
        let Added { change, .. } = tree.insert(&[random.below(8000)], &mut |_| record(1)) else { continue };
        let held = seen.iter_mut().find(|seen| seen.gap == change.gap).expect("every gap was seen");
        assert_eq!(held.version, change.before);
        held.version = change.after;
        seen.extend(change.split);
        for seen in &seen {
            assert_eq!(seen.gap.version(), seen.version);
        }
    }
    let (_, now) = scan(&tree, Forward, [0], [u64::MAX]);
    assert_eq!(now.len(), seen.len(), "the splits were all told");
}

#[test]
fn stamps_follow_their_range() {
    let tree = BTree::<1, 4>::new(Fold::Max);
    let Missing(whole) = tree.get(&[5]) else { unreachable!() };
    whole.gap.stamp().fetch_max(10, Ordering::SeqCst);
    for i in 0..100 {
        tree.insert(&[i], &mut |gap| {
            assert_eq!(gap.stamp().load(Ordering::SeqCst), 10, "a split copies the stamp");
            record(i)
        });
    }
    // The stamp of a removal in one leaf reaches whatever leaf takes over its range.
    for i in 40..60 {
        let mut retired = Vec::new();
        let mut raise = |gap: &Gap| {
            gap.stamp().fetch_max(100 + i, Ordering::SeqCst);
            true
        };
        assert!(tree.remove(&[i], record(i), &mut raise, &mut retired));
        let Missing(seen) = tree.get(&[i]) else { panic!("{i} was removed") };
        assert!(seen.gap.stamp().load(Ordering::SeqCst) >= 100 + i);
        retired.into_iter().for_each(|node| tree.recycle(node));
    }
}

#[test]
fn a_missing_key_is_seen_until_its_gap_changes() {
    let tree = BTree::<1, 4>::new(Fold::Max);
    insert(&tree, [10], record(0));
    let Missing(seen) = tree.get(&[5]) else { unreachable!() };
    assert_eq!(seen.gap.version(), seen.version);
    assert!(!insert(&tree, [10], record(1)), "an insert of a key that exists changes nothing");
    assert!(!remove(&tree, [10], record(1)), "nor does a remove of another record");
    assert_eq!(seen.gap.version(), seen.version);
    insert(&tree, [5], record(2));
    assert_ne!(seen.gap.version(), seen.version);
}

#[test]
fn a_panic_under_the_latch_changes_nothing() {
    let tree = BTree::<1, 4>::new(Fold::Max);
    for i in 0..4 {
        insert(&tree, [i], record(i));
    }
    let Missing(seen) = tree.get(&[9]) else { unreachable!() };
    let attempt = std::panic::AssertUnwindSafe(|| tree.insert(&[9], &mut |_| panic!("as planned")));
    assert!(std::panic::catch_unwind(attempt).is_err());
    assert_eq!(seen.gap.version(), seen.version);
    assert!(insert(&tree, [9], record(9)));
}

#[test]
fn ascending_streams_leave_full_leaves() {
    let rows = if cfg!(miri) { 100 } else { 20_000 };
    let tree = BTree::<1, 30>::new(Fold::Max);
    for i in 0..rows {
        insert(&tree, [i], record(i));
    }
    assert!(tree.nodes() as u64 <= rows / 28 + 4, "{} nodes for one stream", tree.nodes());

    let tree = BTree::<1, 30>::new(Fold::Max);
    for i in 0..rows / 10 {
        for stream in 0..10 {
            insert(&tree, [(stream << 32) | i], record(i));
        }
    }
    assert!(tree.nodes() as u64 <= rows / 26 + 30, "{} nodes for ten streams", tree.nodes());
}

/// Visits from where the last one was find what visits from the root find, whatever happens in between.
#[test]
fn visits_from_near_match_the_model() {
    let tree = BTree::<2, 6>::new(Fold::Max);
    let (mut model, mut random) = (BTreeMap::new(), Random::new(5));
    let mut nears = [(TreeFinger::default(), 0), (TreeFinger::default(), 500)];
    for step in 0..if cfg!(miri) { 300 } else { 50_000 } {
        let (near, at) = &mut nears[step % 2];
        *at = if random.below(10) == 0 { random.below(1000) } else { *at + random.below(4) };
        let found = match tree.get_near(&key(*at), near) {
            Found(record) => Some(record),
            Missing(_) => None,
        };
        assert_eq!(found, model.get(at).copied(), "step {step}");
        match random.below(5) {
            0 | 1 => match tree.insert_near(&key(*at), near, &mut |_| record(*at)) {
                Exists(there, _) => assert_eq!(Some(there), found),
                Added { .. } => assert!(model.insert(*at, record(*at)).is_none()),
            },
            2 => assert_eq!(insert(&tree, key(*at), record(*at)), model.insert(*at, record(*at)).is_none()),
            _ => {
                // Elsewhere too, so that leaves merge and go away.
                let gone = if step % 3 == 0 { *at } else { random.below(1000) };
                assert_eq!(remove(&tree, key(gone), record(gone)), model.remove(&gone).is_some());
            }
        }
    }
    let (all, _) = scan(&tree, Forward, [0; 2], [u64::MAX; 2]);
    assert!(all.iter().map(|(key, record)| (&key[1], record)).eq(&model));
}

/// Random keys that come and go, few of many: leaves must not get ever sparser.
#[test]
fn churn_at_random_keys_takes_bounded_memory() {
    let tree = BTree::<2, CAP>::new(Fold::Max);
    let mut random = Random::new(3);
    let (live, rounds) = if cfg!(miri) { (50, 300) } else { (3000, 400_000) };
    let mut keys = Vec::new();
    for round in 0..rounds {
        if keys.len() >= live {
            let gone = keys.swap_remove(random.below(keys.len() as u64) as usize);
            assert!(remove(&tree, key(gone), record(gone)), "{gone} was there");
        }
        let new = random.below(1 << 40);
        if insert(&tree, key(new), record(new)) {
            keys.push(new);
        }
        // Without merges it is one for ten.
        assert!(
            tree.nodes() <= live * 5 / (2 * CAP) + 4,
            "{} nodes for {live} keys in round {round}",
            tree.nodes()
        );
    }
    keys.sort_unstable();
    let (all, _) = scan(&tree, Forward, [0; 2], [u64::MAX; 2]);
    assert!(all.iter().map(|(key, _)| key[1]).eq(keys));
}

/// A transaction that has seen a merged leaf, or the one that it was merged into, is told.
#[test]
fn a_merge_is_seen_and_keeps_the_stamp() {
    let tree = BTree::<1, 8>::new(Fold::Max);
    (0..64).for_each(|i| assert!(insert(&tree, [i], record(i))));
    let middle = |tree: &BTree<1, 8>| match tree.get(&[30]) {
        Missing(seen) => seen,
        found => panic!("{found:?}"),
    };
    assert!(remove(&tree, [30], record(30)));
    let before = tree.nodes();
    middle(&tree).gap.stamp().fetch_max(77, Ordering::SeqCst);
    let mut changed = 0;
    for i in (0..64).filter(|i| i % 8 > 1 && *i != 30) {
        let seen = middle(&tree);
        let (entries, _) = scan(&tree, Forward, [0], [63]);
        assert!(remove(&tree, [i], record(i)));
        let (rest, _) = scan(&tree, Reverse, [0], [63]);
        assert_eq!(rest.len() + 1, entries.len());
        let now = middle(&tree);
        changed += u64::from(now.gap != seen.gap);
        assert!(now.gap == seen.gap || seen.gap.version() != seen.version, "a leaf is gone unseen");
        assert!(now.gap.stamp().load(Ordering::SeqCst) >= 77, "the stamp is lost");
    }
    let after = tree.nodes();
    assert!(changed > 0 && after + 3 <= before, "{after} of {before} nodes, {changed} merges at 30");
}

#[test]
fn a_moving_window_takes_bounded_memory() {
    let (steps, window) = if cfg!(miri) { (200, 20) } else { (300_000, 1000) };
    for streams in [1, 7] {
        let tree = BTree::<1, CAP>::new(Fold::Max);
        let small = BTree::<1, 4>::new(Fold::Max);
        let mut most = (0, 0);
        for i in 0..steps {
            let at = |i: u64| [((i % streams) << 40) | (i / streams)];
            insert(&tree, at(i), record(i));
            insert(&small, at(i), record(i));
            if i >= window {
                assert!(remove(&tree, at(i - window), record(i - window)));
                assert!(remove(&small, at(i - window), record(i - window)));
            }
            most = (most.0.max(tree.nodes()), most.1.max(small.nodes()));
        }
        assert!(most.0 <= window as usize * 2 / CAP + 40, "{} nodes", most.0);
        assert!(most.1 as u64 <= window + 40, "{} small nodes", most.1);
    }
}

/// Even keys stay for ever, odd ones come and go. Every look must find all the even ones, in order
/// and once, and a gap whose version stands must still hold what it held.
fn check_concurrently<const CAP: usize>(seed: u64, keys: u64, steps: u64) {
    let tree = BTree::<1, CAP>::new(Fold::Max);
    let limbo = std::sync::Mutex::new(Vec::new());
    for i in 0..keys / 2 {
        insert(&tree, [i * 2], record(0));
    }
    let writer = |id: u64, shared: bool| {
        let mut random = Random::new(seed * 100 + id);
        let mut retired = Vec::new();
        for step in 0..steps {
            // Own keys, or keys fought over with the other writer.
            let slot = random.below(keys / 8);
            let key = [slot * 8 + if shared { 5 } else { 1 + id * 2 }];
            let own = record(id + 1);
            let burst = if step % 16 == 0 { 8 } else { 1 };
            for i in 0..burst {
                let key = [(key[0] + i * 8) % keys];
                match tree.insert(&key, &mut |gap| {
                    assert_eq!(gap.version() & 3, 1, "seed {seed}: `make` runs under the latch");
                    own
                }) {
                    Added { change, .. } => assert!(change.after > change.before),
                    Exists(other, _) => assert!(shared || other == own, "seed {seed}"),
                }
            }
            for i in 0..burst {
                let key = [(key[0] + i * 8) % keys];
                let removed = tree.remove(&key, own, &mut |_| true, &mut retired);
                assert!(shared || removed || burst > 1, "seed {seed}: own key {key:?} was there");
            }
        }
        limbo.lock().unwrap().append(&mut retired);
    };
    let reader = |id: u64| {
        let mut random = Random::new(seed * 100 + 50 + id);
        for _ in 0..steps / 8 {
            let even = random.below(keys / 2) * 2;
            assert!(matches!(tree.get(&[even]), Found(r) if r == record(0)), "seed {seed}: lost {even}");
            let low = random.below(keys);
            let high = low + random.below(keys - low);
            let direction = if random.below(2) == 0 { Forward } else { Reverse };
            let most = 1 + random.below(8) as usize;
            let (mut found, _) = scan_by(&tree, direction, [low], [high], most);
            if direction == Reverse {
                found.reverse();
            }
            assert!(found.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}");
            let evens = found.iter().map(|e| e.0[0]).filter(|k| k % 2 == 0);
            assert!(
                evens.eq((low..=high).filter(|k| k % 2 == 0 && *k < keys)),
                "seed {seed}: {low}..={high}"
            );

            let (mut first, mut second) = (Leaf::default(), Leaf::default());
            let (seen, next) = tree.read_leaf(direction, &[low], &[high], most, &mut first);
            let (again, next_again) = tree.read_leaf(direction, &[low], &[high], most, &mut second);
            if seen.gap.version() == seen.version {
                // The range may have grown by a neighbour, hence a prefix.
                assert!(again == seen && entries::<1>(&second).starts_with(&entries(&first)), "seed {seed}");
                assert!(next == next_again || next.is_some(), "seed {seed}");
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
    limbo.into_inner().unwrap().into_iter().for_each(|node| tree.recycle(node));
    // The shared writers race: what one added the other may have left.
    for i in 0..keys {
        if let Found(found) = tree.get(&[i]) {
            assert!(remove(&tree, [i], found));
        }
    }
    assert_eq!(tree.nodes(), 1, "seed {seed}");
}

#[test]
fn concurrent_changes_lose_nothing() {
    let (seeds, steps) = if cfg!(miri) { (1, 16) } else { (8, 20_000) };
    for seed in 0..seeds {
        check_concurrently::<4>(seed, if cfg!(miri) { 32 } else { 256 }, steps);
        if !cfg!(miri) {
            check_concurrently::<30>(seed, 4096, steps / 8);
        }
    }
}
