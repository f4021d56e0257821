//! Random small programs in random interleavings.

use super::script::{KEYS, Op, Program, interleave, judge};
use super::{Hashed, Ordered, Strings, Tables, Test, Unique, all_rows, check_index, open, reset};
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "random_programs_ordered", run: many::<Ordered> },
        Test { name: "random_programs_hashed", run: many::<Hashed> },
        Test { name: "random_programs_unique", run: many::<Unique> },
        Test { name: "random_programs_strings", run: many::<Strings> },
    ]
}

/// Cases of one run; `HEDDLE_SEED` replays a single one, `HEDDLE_CASES` changes the number.
const CASES: u64 = 1_500;

/// The seeds of `cases` cases, or as many as `HEDDLE_CASES` says, or the one in `HEDDLE_SEED`.
pub(super) fn seeds(cases: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("HEDDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEDDLE_CASES").unwrap_or(cases),
    }
}

fn many<T: Tables>(kind: Kind) {
    let db = open(kind);
    // Every other case in a new database: without the remains of deleted rows, absence is in the gaps.
    let case = |seed| one::<T>(kind, &if seed % 2 == 0 { db.clone() } else { open(kind) }, seed);
    seeds(CASES / T::ONE_OF as u64).for_each(case);
}

fn one<T: Tables>(kind: Kind, db: &heddledb::Database, seed: u64) {
    let random = &mut Random::new(seed);
    let mut initial = Vec::new();
    for key in 0..=KEYS {
        if random.below(2) == 0 {
            let row = (key, random.below(6) as i64 * 10, random.below(100) as i64);
            let alike = |other: &(u64, i64, i64)| other.1 == row.1 || other.2 == row.2;
            if !T::UNIQUE || !initial.iter().any(alike) {
                initial.push(row);
            }
        }
    }
    let count = 2 + random.below(2) as usize;
    let programs: Vec<Program> = (0..count).map(|_| program(random)).collect();
    let schedule = schedule(random, &programs, kind.sessions_max() > 1);
    reset::<T>(db, &initial);
    let outcomes = interleave::<T>(kind, db, &programs, &schedule);
    let last = all_rows::<T>(db);
    check_index::<T>(db, &last);
    if let Err(report) = judge(kind.strict(), T::UNIQUE, &initial, &programs, &outcomes, &last) {
        let table = std::any::type_name::<T>();
        panic!("HEDDLE_SEED={seed} on {table} under {kind}: schedule {schedule:?}\n{report}");
    }
}

fn program(random: &mut Random) -> Program {
    let steps = 1 + random.below(5);
    let mut program: Program = (0..steps).map(|_| operation(random)).collect();
    // Some have savepoints: from one step to a later one, or to the end.
    for _ in 0..random.below(3) {
        let from = random.below(program.len() as u64) as usize;
        program.insert(from, Op::Save);
        let to = from + 1 + random.below((program.len() - from) as u64) as usize;
        program.insert(to, if random.below(3) == 0 { Op::Keep } else { Op::RollBack });
    }
    program
}

fn operation(random: &mut Random) -> Op {
    let key = random.below(KEYS + 1);
    let value = random.below(6) as i64 * 10;
    let (low, high) = (random.below(KEYS + 1), random.below(KEYS + 1));
    match random.below(30) {
        0..6 => Op::Get(key),
        6 => Op::GetOther(key),
        7..10 => Op::Insert(key, value),
        10 => Op::Upsert(key, value),
        11..14 => Op::Increment(key, value + 1),
        14 => Op::IncrementOther(key, 1),
        15 => Op::SetOther(key, value),
        16 => Op::AddOther(key, 1),
        17..20 => Op::Delete(key),
        20..23 => Op::Scan(low.min(high), low.max(high)),
        23 => Op::ScanLastTwo(low.min(high), low.max(high)),
        24 | 25 => Op::ScanIndex(value, value + 10),
        26 => Op::Find(value),
        27 | 28 => Op::StoreSum(key),
        _ => Op::Abort,
    }
}

/// A random order of the programs' steps, their commits included.
fn schedule(random: &mut Random, programs: &[Program], interleaved: bool) -> Vec<usize> {
    let mut left: Vec<usize> = programs.iter().map(|program| program.len() + 1).collect();
    let mut order = Vec::new();
    while left.iter().any(|steps| *steps > 0) {
        let mut who = random.below(programs.len() as u64) as usize;
        while left[who] == 0 {
            who = (who + 1) % left.len();
        }
        let steps = if interleaved { 1 } else { left[who] };
        order.extend(std::iter::repeat_n(who, steps));
        left[who] -= steps;
    }
    order
}
