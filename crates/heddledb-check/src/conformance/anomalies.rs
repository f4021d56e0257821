//! The anomalies of the literature, by name, as programs. Every interleaving of their steps is run.
//!
//! Names after Adya (G0, G1a-c, G-single, G2), Hermitage (OTV, PMP, P4) and Fekete (the read-only
//! anomaly). A protocol without several sessions runs the programs one after another.
//!
//! A script that a lower isolation level prevents says so: `@ Snapshot`, `@ RepeatableRead`. Most of the others are, or
//! may become, write skew.

use super::script::{Op, Op::*, Program, interleave, judge, schedules};
use super::{Hashed, Ordered, Strings, Tables, Test, all_rows, check_index, open_at, reset};
use heddledb::protocol::{Isolation, Kind};

/// The rows before each script.
const INITIAL: &[(u64, i64, i64)] = &[(1, 10, 10), (2, 20, 20), (5, 50, 50)];

/// At most this many interleavings of one script; more are thinned out evenly.
const SCHEDULES_MAX: usize = 140;

/// The programs of a script.
type Programs = &'static [&'static [Op]];

/// A script, and the weakest level that prevents what it is named after.
struct Script {
    name: &'static str,
    prevented_by: Isolation,
    programs: Programs,
}

fn run(kind: Kind, programs: Programs) {
    if let Err(report) = outcome(kind, Isolation::Serializable, programs) {
        panic!("{report}");
    }
}

/// Every level below serializable that the protocol offers: it prevents what it says, and shows what it does not.
fn levels(kind: Kind) {
    for &level in kind.levels() {
        let admits = match level {
            Isolation::Serializable => continue,
            Isolation::Snapshot => "write_skew_g2_item",
            Isolation::RepeatableRead => "read_skew_g_single",
        };
        for script in SCRIPTS {
            if script.prevented_by <= level {
                let outcome = outcome(kind, level, script.programs);
                outcome
                    .unwrap_or_else(|report| panic!("{level} does not prevent {}:\n{report}", script.name));
            } else if script.name == admits {
                let outcome = outcome(kind, level, script.programs);
                assert!(outcome.is_err(), "{level} is said to admit {admits}, and none was seen");
            }
        }
    }
}

/// Runs a script on the tables at a level; what was seen that is not serial.
fn outcome(kind: Kind, level: Isolation, programs: Programs) -> Result<(), String> {
    outcome_on::<Ordered>(kind, level, programs)?;
    outcome_on::<Hashed>(kind, level, programs)?;
    outcome_on::<Strings>(kind, level, programs)
}

fn outcome_on<T: Tables>(kind: Kind, level: Isolation, programs: Programs) -> Result<(), String> {
    let programs: Vec<Program> = programs.iter().map(|ops| ops.to_vec()).collect();
    let db = open_at(kind, level);
    let steps: Vec<usize> = programs.iter().map(|program| program.len() + 1).collect();
    let mut all = if kind.sessions_max() > 1 { schedules(&steps) } else { serial(&steps) };
    let every = all.len().div_ceil(SCHEDULES_MAX) * T::ONE_OF;
    all = all.into_iter().step_by(every).collect();
    // Nobody promises real time at a lower level.
    let strict = level == Isolation::Serializable && kind.strict();
    for (number, schedule) in all.into_iter().enumerate() {
        // Every other time in a new database: without the remains of deleted rows, absence is in
        // the gaps.
        let db = if number % 2 == 0 { db.clone() } else { open_at(kind, level) };
        reset::<T>(&db, INITIAL);
        let outcomes = interleave::<T>(kind, &db, &programs, &schedule);
        let last = all_rows::<T>(&db);
        check_index::<T>(&db, &last);
        judge(strict, T::UNIQUE, INITIAL, &programs, &outcomes, &last).map_err(|report| {
            format!("{} under {kind}: schedule {schedule:?}\n{report}", std::any::type_name::<T>())
        })?;
    }
    Ok(())
}

/// The programs one after another.
fn serial(steps: &[usize]) -> Vec<Vec<usize>> {
    let one = |order: &mut dyn Iterator<Item = usize>| order.flat_map(|who| vec![who; steps[who]]).collect();
    vec![one(&mut (0..steps.len())), one(&mut (0..steps.len()).rev())]
}

macro_rules! anomalies {
    ($($(#[doc = $doc:literal])* $name:ident $(@ $level:ident)?: $([$($op:expr),* $(,)?])*;)*) => {
        $(
            $(#[doc = $doc])*
            fn $name(kind: Kind) {
                run(kind, &[$(&[$($op),*]),*]);
            }
        )*

        const SCRIPTS: &[Script] = &[$(Script {
            name: stringify!($name),
            prevented_by: anomalies!(@level $($level)?),
            programs: &[$(&[$($op),*]),*],
        }),*];

        pub(super) fn tests() -> Vec<Test> {
            vec![$(Test { name: stringify!($name), run: $name },)* Test { name: "levels", run: levels }]
        }
    };
    (@level) => { Isolation::Serializable };
    (@level $level:ident) => { Isolation::$level };
}

anomalies! {
    /// G0: writes of two transactions interleave.
    dirty_write_g0 @ RepeatableRead: [SetOther(1, 1), SetOther(2, 1)] [SetOther(1, 2), SetOther(2, 2)];
    /// G1a: a value of an aborted transaction is read.
    aborted_read_g1a @ RepeatableRead: [Increment(1, 100), Abort] [Get(1), Get(1)];
    /// G1b: a value is read that its writer replaced.
    intermediate_read_g1b @ RepeatableRead: [Increment(1, 100), Increment(1, -99)] [Get(1), Get(1)];
    /// G1c: each transaction reads what the other wrote.
    circular_information_flow_g1c: [Increment(1, 1), Get(2)] [Increment(2, 1), Get(1)];
    /// OTV: a transaction's writes are seen, then vanish.
    observed_transaction_vanishes_otv @ Snapshot: [Increment(1, 1), Increment(2, 1)] [Increment(1, 2), Increment(2, 2)] [Get(1), Get(2)];
    /// PMP: a predicate is read twice around an insert.
    predicate_many_preceders_pmp @ Snapshot: [Scan(0, 8), Scan(0, 8)] [Insert(3, 30)];
    /// PMP through the secondary index.
    predicate_many_preceders_by_index @ Snapshot: [ScanIndex(0, 100), Scan(0, 8)] [Insert(3, 30)];
    /// P4: two read-modify-writes, one lost.
    lost_update_p4 @ RepeatableRead: [Increment(1, 1)] [Increment(1, 2)];
    /// P4 with the read apart from the write.
    lost_update_after_read @ RepeatableRead: [Get(1), StoreSum(1)] [Get(1), StoreSum(1)];
    /// P4 on a column without an index, whose entries would conflict first.
    lost_update_without_index @ RepeatableRead: [IncrementOther(1, 1)] [IncrementOther(1, 2)];
    /// P4 where what was read is overwritten blindly.
    lost_update_by_blind_write @ RepeatableRead: [GetOther(1), SetOther(1, 5)] [GetOther(1), SetOther(1, 6)];
    /// G-single: a read before and a read after another transaction's writes.
    read_skew_g_single @ Snapshot: [Get(1), Get(2)] [Increment(1, 1), Increment(2, -1)];
    /// G-single with a predicate read.
    read_skew_by_predicate @ Snapshot: [Scan(0, 8), Get(5)] [Increment(1, 1), Increment(5, 1)];
    /// G-single with a write that rests on the skewed reads.
    read_skew_then_write @ Snapshot: [Get(1), Get(2), StoreSum(5)] [Increment(1, 1), Increment(2, -1)];
    /// G2-item: write skew.
    write_skew_g2_item: [Get(1), Get(2), StoreSum(1)] [Get(1), Get(2), StoreSum(2)];
    /// G2: write skew over a predicate.
    write_skew_by_predicate_g2: [Scan(0, 8), Insert(3, 1)] [Scan(0, 8), Insert(4, 1)];
    /// Write skew over absent keys.
    write_skew_by_absence: [Get(3), Insert(4, 1)] [Get(4), Insert(3, 1)];
    /// Write skew through the secondary index.
    write_skew_by_index: [ScanIndex(0, 100), Insert(3, 1)] [ScanIndex(0, 100), Insert(4, 1)];
    /// Fekete's read-only anomaly.
    read_only_anomaly: [Get(1), Get(2), StoreSum(1)] [Increment(2, 20)] [Get(1), Get(2)];
    /// A row appears in a range that was read.
    phantom_insert: [Scan(2, 5), StoreSum(1)] [Insert(3, 30), Get(1)];
    /// A row disappears from a range that was read.
    phantom_delete: [Scan(1, 5), StoreSum(1)] [Delete(2), Get(1)];
    /// A row's value moves in a range that was read.
    phantom_update: [Scan(1, 5), StoreSum(1)] [Increment(2, 5), Get(1)];
    /// An update moves a row into and out of ranges of the secondary index.
    phantom_update_by_index: [ScanIndex(15, 25), StoreSum(1)] [Increment(2, 100), Get(1)];
    /// The same, into the range.
    phantom_move_into_index_range: [ScanIndex(60, 200), StoreSum(1)] [Increment(2, 100), Get(1)];
    /// A scan with a limit, from the end.
    phantom_at_the_end_of_a_limited_scan: [ScanLastTwo(0, 8), StoreSum(1)] [Insert(6, 60), Get(1)];
    /// An empty range fills.
    phantom_in_an_empty_range: [Scan(6, 8), Increment(1, 1)] [Get(1), Insert(7, 70)];
    /// An absent key is read, then inserted by another.
    absent_read: [Get(3), StoreSum(1)] [Insert(3, 30), Get(1)];
    /// TicToc's trap: a scan ordered after a stale read by an insert.
    phantom_with_stale_read: [Increment(1, 1), Scan(2, 8)] [Get(1), Insert(3, 3)];
    /// The same with an absent key instead of a range.
    absent_read_with_stale_read: [Increment(1, 1), Get(3)] [Get(1), Insert(3, 3)];
    /// The same, where the other deletes.
    delete_with_stale_read: [Increment(1, 1), Scan(2, 8)] [Get(1), Delete(2)];
    /// Two inserts of one key.
    insert_twice @ RepeatableRead: [Insert(3, 1), Get(1)] [Insert(3, 2), Get(1)];
    /// An insert and a delete of one key, and a reader.
    insert_against_delete: [Insert(3, 1), Get(2)] [Delete(3), Increment(2, 1)] [Get(3)];
    /// A delete and an update of one row.
    delete_against_update @ Snapshot: [Delete(1), Get(2)] [Increment(1, 1), Increment(2, 1)];
    /// A delete and a blind write of one row.
    delete_against_blind_write @ RepeatableRead: [Delete(1)] [SetOther(1, 7)];
    /// A delete, a new insert, and a reader of both moments.
    delete_and_reinsert @ RepeatableRead: [Delete(1), Insert(1, 99)] [Get(1), Get(2)] [Increment(1, 1)];
    /// Own writes, deletes and inserts are seen by the transaction's own reads and scans.
    own_writes @ RepeatableRead: [Insert(3, 1), Increment(3, 1), Get(3), Delete(1), Get(1), Scan(0, 8), ScanIndex(0, 99), Insert(1, 5), Scan(0, 8)] [Get(1)];
    /// Own blind writes and adds are seen by own reads.
    own_blind_writes @ RepeatableRead: [SetOther(1, 3), GetOther(1), AddOther(1, 4), GetOther(1), IncrementOther(1, 1), Get(1)] [AddOther(1, 100)];
    /// An own insert does not invalidate the own scan, a foreign one does.
    own_insert_into_own_scan @ Snapshot: [Scan(0, 8), Insert(3, 3), Scan(0, 8)] [Insert(4, 4)];
    /// Upserts of the same key.
    upserts @ RepeatableRead: [Upsert(3, 1), Get(3)] [Upsert(3, 2), Upsert(1, 9)];
    /// Commutative adds, and a reader.
    adds_commute @ Snapshot: [AddOther(1, 1), AddOther(2, 1)] [AddOther(2, 2), AddOther(1, 2)] [GetOther(1), GetOther(2)];
    /// Add and read-modify-write of the same column.
    add_against_update: [AddOther(1, 1), Get(2)] [IncrementOther(1, 10), Increment(2, 1)];
    /// Writers of different column groups of one row, and a reader of both.
    column_groups @ RepeatableRead: [IncrementOther(1, 1), Get(2)] [Increment(1, 1), Get(2)] [Get(1)];
    /// Write skew between the two column groups of one row.
    column_group_write_skew: [GetOther(1), Increment(1, 5)] [Get(1), IncrementOther(1, 5)];
    /// Finding through the index while the entry moves.
    find_by_index: [Find(20), StoreSum(1)] [Increment(2, 1), Get(1)];
    /// An insert finds a row there that another deletes, and what follows rests on that.
    refused_insert: [Insert(1, 5), Increment(2, 1)] [Get(2), Delete(1)];
    /// An update finds no row where another inserts one, and what follows rests on that.
    refused_update: [Increment(3, 5), Increment(2, 1)] [Get(2), Insert(3, 30)];
    /// The same without a look, and a commutative addition.
    refused_blind_writes: [SetOther(3, 5), AddOther(4, 1), Increment(2, 1)] [Get(2), Insert(3, 30), Insert(4, 40)];
    /// What was seen in a savepoint counts, though its insert is taken back.
    savepoint_saw_absence: [Save, Insert(3, 3), RollBack, Increment(1, 1)] [Get(1), Insert(3, 30)];
    /// So it does where nothing was read but by a blind write.
    savepoint_saw_presence: [Save, AddOther(2, 3), RollBack, Increment(1, 1)] [Get(1), Delete(2)];
    /// A savepoint's writes are taken back, and what was before it stays; then the transaction goes on.
    savepoint_own_writes: [Increment(1, 1), Save, Increment(1, 5), Delete(2), Insert(3, 3), RollBack, Scan(0, 8), ScanIndex(0, 99), Increment(1, 1), Insert(3, 7)] [Get(1), Get(3)];
    /// Savepoints within each other.
    savepoints_nested: [SetOther(1, 1), Save, SetOther(1, 2), Save, SetOther(1, 3), Delete(5), RollBack, GetOther(1), Keep, Save, Insert(5, 1), RollBack, Scan(0, 8)] [GetOther(1), AddOther(1, 1)];
    /// A savepoint that is taken back after it was read from an index.
    savepoint_in_index: [ScanIndex(15, 25), Save, Increment(1, 10), ScanIndex(15, 25), RollBack, StoreSum(5)] [Increment(2, 100), Get(5)];
    /// A user abort of inserts, updates and deletes leaves nothing.
    user_abort @ RepeatableRead: [Insert(3, 3), Increment(1, 1), Delete(2), Abort] [Scan(0, 8), Insert(4, 4)];
}
