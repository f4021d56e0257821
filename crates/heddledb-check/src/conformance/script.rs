//! Small transactions, interleaved step by step, judged against every serial order.
//!
//! A [`Program`] is a few operations. The driver gives each program a transaction on a thread of its
//! own and hands out the steps in a given order; a step that has to wait (only lock waits do) is
//! overtaken by the others. Afterwards the committed programs are replayed on a plain map in every
//! order: one of these must give each of them the answers that it got, and the final state. For a
//! strict protocol the order must also agree with real time. So no script states what it expects:
//! anything serializable will do, and nothing else.

use super::Tables;
use heddledb::protocol::{Isolation, Kind};
use heddledb::{Database, Error, OwnedTransaction, Result, Scan, Transaction};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Keys of the scripts lie in `0..KEYS`.
pub const KEYS: u64 = 8;

/// One operation on rows `(key, value, other)`, where `value` is indexed and `other` lies in a column
/// group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read both columns.
    Get(u64),
    /// Read the column `other` alone.
    GetOther(u64),
    /// Insert `(key, value, value)`.
    Insert(u64, i64),
    /// Insert or replace.
    Upsert(u64, i64),
    /// Read `value`, add to it, write it back.
    Increment(u64, i64),
    /// The same for `other`.
    IncrementOther(u64, i64),
    /// Overwrite `other` blindly.
    SetOther(u64, i64),
    /// Add to `other` without reading.
    AddOther(u64, i64),
    /// Delete.
    Delete(u64),
    /// Scan keys `low..=high` (read each key on a table without order).
    Scan(u64, u64),
    /// The same, descending, at most two rows.
    ScanLastTwo(u64, u64),
    /// All entries of the secondary index with `value` in the range.
    ScanIndex(i64, i64),
    /// The first key with this `value`, through the index.
    Find(i64),
    /// Write `value` of the second key as the sum of all values seen so far in this transaction.
    StoreSum(u64),
    /// Give up.
    Abort,
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Rows `(key, value, other)`; a read column alone leaves the other 0.
    Rows(Vec<(u64, i64, i64)>),
    /// Whether there was a row.
    There(bool),
    /// A value after a change; `None` where there was no row.
    Value(Option<i64>),
}

/// The operations of one transaction; a commit follows.
pub type Program = Vec<Op>;

/// The rows as a plain map.
type Model = BTreeMap<u64, (i64, i64)>;

fn rows(model: &Model, low: u64, high: u64) -> Vec<(u64, i64, i64)> {
    if low > high { Vec::new() } else { model.range(low..=high).map(|(k, (v, o))| (*k, *v, *o)).collect() }
}

/// Runs an operation on the model. `sum` is the transaction's sum of values seen.
fn apply(model: &mut Model, op: Op, sum: &mut i64) -> Answer {
    let answer = match op {
        Op::Get(key) => Answer::Rows(rows(model, key, key)),
        Op::GetOther(key) => {
            Answer::Rows(model.get(&key).map(|(_, other)| (key, 0, *other)).into_iter().collect())
        }
        Op::Insert(key, value) => {
            let free = !model.contains_key(&key);
            if free {
                model.insert(key, (value, value));
            }
            Answer::There(!free)
        }
        Op::Upsert(key, value) => Answer::There(model.insert(key, (value, value)).is_some()),
        Op::Increment(key, by) => Answer::Value(model.get_mut(&key).map(|row| {
            row.0 += by;
            row.0
        })),
        Op::IncrementOther(key, by) => Answer::Value(model.get_mut(&key).map(|row| {
            row.1 += by;
            row.1
        })),
        Op::SetOther(key, value) => Answer::There(model.get_mut(&key).map(|row| row.1 = value).is_some()),
        Op::AddOther(key, by) => Answer::There(model.get_mut(&key).map(|row| row.1 += by).is_some()),
        Op::Delete(key) => Answer::There(model.remove(&key).is_some()),
        Op::Scan(low, high) => Answer::Rows(rows(model, low, high)),
        Op::ScanLastTwo(low, high) => {
            let mut found = rows(model, low, high);
            found.reverse();
            found.truncate(2);
            Answer::Rows(found)
        }
        Op::ScanIndex(low, high) => {
            let mut entries: Vec<_> = model
                .iter()
                .filter(|(_, row)| (low..=high).contains(&row.0))
                .map(|(k, row)| (*k, row.0, 0))
                .collect();
            entries.sort_by_key(|(key, value, _)| (*value, *key));
            Answer::Rows(entries)
        }
        Op::Find(value) => Answer::Rows(
            model.iter().find(|(_, row)| row.0 == value).map(|(k, _)| (*k, value, 0)).into_iter().collect(),
        ),
        Op::StoreSum(key) => Answer::Value(model.get_mut(&key).map(|row| {
            row.0 = *sum;
            row.0
        })),
        Op::Abort => Answer::There(false),
    };
    *sum += seen_in(&answer);
    answer
}

fn seen_in(answer: &Answer) -> i64 {
    match answer {
        Answer::Rows(rows) => rows.iter().map(|(_, value, other)| value + other).sum(),
        _ => 0,
    }
}

/// The same on the engine.
fn execute<T: Tables>(tx: &mut impl Transaction, op: Op, sum: &mut i64) -> Result<Answer> {
    let row = |row: T::Row| T::parts(&row);
    let answer = match op {
        Op::Get(key) => Answer::Rows(tx.get::<T::Row>(key)?.map(row).into_iter().collect()),
        Op::GetOther(key) => {
            Answer::Rows(tx.get_columns(key, T::OTHER)?.map(|other| (key, 0, other)).into_iter().collect())
        }
        Op::Insert(key, value) => {
            // Asked first: a failed insert would end the transaction.
            let there = tx.get::<T::Row>(key)?.is_some();
            if !there {
                tx.insert(T::row(key, value, value))?;
            }
            Answer::There(there)
        }
        Op::Upsert(key, value) => Answer::There(tx.upsert(T::row(key, value, value))?),
        Op::Increment(key, by) => match tx.get_columns(key, T::VALUE)? {
            Some(_) => Answer::Value(Some(tx.update_columns(key, T::VALUE, |value| {
                *value += by;
                *value
            })?)),
            None => Answer::Value(None),
        },
        Op::IncrementOther(key, by) => match tx.get_columns(key, T::OTHER)? {
            Some(_) => Answer::Value(Some(tx.update_columns(key, T::OTHER, |other| {
                *other += by;
                *other
            })?)),
            None => Answer::Value(None),
        },
        // Asked by the other column, so that what is overwritten is not read.
        Op::SetOther(key, value) => match tx.get_columns(key, T::VALUE)? {
            Some(_) => {
                tx.set_columns(key, T::OTHER, value)?;
                Answer::There(true)
            }
            None => Answer::There(false),
        },
        Op::AddOther(key, by) => match tx.get_columns(key, T::VALUE)? {
            Some(_) => {
                tx.add(T::OTHER, key, by)?;
                Answer::There(true)
            }
            None => Answer::There(false),
        },
        Op::Delete(key) => Answer::There(tx.delete::<T::Row>(key)?),
        Op::Scan(low, high) => Answer::Rows(T::scan(tx, low, high, false, usize::MAX)?),
        Op::ScanLastTwo(low, high) => Answer::Rows(T::scan(tx, low, high, true, 2)?),
        Op::ScanIndex(low, high) => {
            let mut entries = Vec::new();
            let scan = Scan::<T::ByValue>::range((low, 0)..=(high, u64::MAX));
            tx.scan_index(scan, |(value, key), target| {
                assert_eq!(key, target, "an index entry leads to the row that it was made for");
                entries.push((key, value, 0));
                ControlFlow::Continue(())
            })?;
            Answer::Rows(entries)
        }
        Op::Find(value) => {
            Answer::Rows(tx.find_key::<T::ByValue>(value)?.map(|key| (key, value, 0)).into_iter().collect())
        }
        Op::StoreSum(key) => match tx.get_columns(key, T::VALUE)? {
            Some(_) => {
                let store = *sum;
                Answer::Value(Some(tx.update_columns(key, T::VALUE, |value| {
                    *value = store;
                    store
                })?))
            }
            None => Answer::Value(None),
        },
        Op::Abort => return Err(Error::user("the program gives up")),
    };
    *sum += seen_in(&answer);
    Ok(answer)
}

/// What became of one program.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answers, one per operation, of a committed program; `None` if it aborted.
    pub answers: Option<Vec<Answer>>,
    /// When its first step began and its commit ended, in steps of the driver.
    interval: (usize, usize),
}

enum Command {
    Step(Op),
    Commit,
}

/// A program's thread: answers each command with whether the program is still alive.
fn actor<T: Tables>(db: Database, commands: Receiver<Command>, done: Sender<Reply>) {
    let mut running: Option<OwnedTransaction> = None;
    let (mut answers, mut sum, mut alive) = (Vec::new(), 0, true);
    for command in commands {
        let reply = match command {
            _ if !alive => Reply::Dead,
            Command::Step(op) => {
                let tx =
                    running.get_or_insert_with(|| db.begin().expect("there is a session for each program"));
                match execute::<T>(&mut **tx, op, &mut sum) {
                    Ok(answer) => {
                        answers.push(answer);
                        Reply::Alive
                    }
                    Err(error) => {
                        // What it saw just before may have gone: steps overlap where one takes long.
                        let mut stands =
                            || tx.isolation() == Isolation::Serializable && tx.validate().is_ok();
                        let lawful = error.misuse().is_none() || !stands();
                        assert!(lawful, "scripts do nothing unlawful, yet: {error}");
                        Reply::Dead
                    }
                }
            }
            Command::Commit => match running.take().map(OwnedTransaction::commit) {
                Some(Ok(())) => Reply::Committed(std::mem::take(&mut answers)),
                Some(Err(error)) => {
                    assert!(error.is_retryable(), "a commit fails by conflict only: {error}");
                    Reply::Dead
                }
                None => Reply::Committed(Vec::new()),
            },
        };
        if matches!(reply, Reply::Dead) {
            alive = false;
            running = None;
        }
        if done.send(reply).is_err() {
            return;
        }
    }
}

enum Reply {
    Alive,
    Dead,
    Committed(Vec<Answer>),
}

/// How long a step may take before it counts as waiting for a lock.
const STEP_WAITS: Duration = Duration::from_millis(4);
/// How long all steps may take at the end before the run counts as stuck.
const STUCK: Duration = Duration::from_secs(20);

/// Runs programs with their steps (each ends with a commit) in the order that `schedule` names.
///
/// # Panics
/// When the transactions do not end.
pub fn interleave<T: Tables>(
    kind: Kind,
    db: &Database,
    programs: &[Program],
    schedule: &[usize],
) -> Vec<Outcome> {
    struct Actor {
        commands: Sender<Command>,
        replies: Receiver<Reply>,
        sent: usize,
        received: usize,
        waiting: bool,
        outcome: Outcome,
    }
    impl Actor {
        fn take(&mut self, reply: Reply, now: usize) {
            self.received += 1;
            self.waiting = false;
            if let Reply::Committed(answers) = reply {
                self.outcome.answers = Some(answers);
                self.outcome.interval.1 = now;
            }
        }
    }
    std::thread::scope(|scope| {
        let mut actors: Vec<Actor> = programs
            .iter()
            .map(|_| {
                let ((commands, inbox), (done, replies)) = (channel(), channel());
                let db = db.clone();
                scope.spawn(move || actor::<T>(db, inbox, done));
                let outcome = Outcome { answers: None, interval: (usize::MAX, usize::MAX) };
                Actor { commands, replies, sent: 0, received: 0, waiting: false, outcome }
            })
            .collect();
        for (now, &who) in schedule.iter().enumerate() {
            let actor = &mut actors[who];
            let command = match programs[who].get(actor.sent) {
                Some(op) => Command::Step(*op),
                None => Command::Commit,
            };
            actor.outcome.interval.0 = actor.outcome.interval.0.min(now);
            actor.sent += 1;
            actor.commands.send(command).expect("the actor lives as long as its channel");
            for actor in &mut actors {
                while actor.received < actor.sent {
                    // One that is known to wait for a lock is only looked at. With one session
                    // there is nobody to wait for, however long a step takes.
                    let patience = match kind.sessions_max() {
                        1 => STUCK,
                        _ if actor.waiting => Duration::ZERO,
                        _ => STEP_WAITS,
                    };
                    match actor.replies.recv_timeout(patience) {
                        Ok(reply) => actor.take(reply, now),
                        Err(_) => {
                            actor.waiting = true;
                            break;
                        }
                    }
                }
            }
        }
        let end = schedule.len();
        for actor in &mut actors {
            while actor.received < actor.sent {
                match actor.replies.recv_timeout(STUCK) {
                    Ok(reply) => actor.take(reply, end),
                    Err(error) => panic!("transactions are stuck ({error}): {programs:?} {schedule:?}"),
                }
            }
        }
        actors.into_iter().map(|actor| actor.outcome).collect()
    })
}

/// Judges what programs answered, and the final rows, against every serial order.
///
/// # Errors
/// A description of what no serial order explains.
pub fn judge(
    strict: bool,
    initial: &[(u64, i64, i64)],
    programs: &[Program],
    outcomes: &[Outcome],
    last: &[(u64, i64, i64)],
) -> Result<(), String> {
    let initial: Model = initial.iter().map(|(key, value, other)| (*key, (*value, *other))).collect();
    let committed: Vec<usize> = (0..programs.len()).filter(|&who| outcomes[who].answers.is_some()).collect();
    let explains = |order: &[usize]| {
        let mut model = initial.clone();
        let agrees = order.iter().all(|&who| {
            let mut sum = 0;
            let expected = programs[who].iter().map(|op| apply(&mut model, *op, &mut sum));
            outcomes[who].answers.as_deref().is_some_and(|got| expected.eq(got.iter().cloned()))
        });
        agrees && rows(&model, 0, u64::MAX) == last
    };
    let in_time = |order: &[usize]| {
        let ends_before = |a: usize, b: usize| outcomes[a].interval.1 < outcomes[b].interval.0;
        order
            .iter()
            .enumerate()
            .all(|(at, &later)| order[..at].iter().all(|&earlier| !ends_before(later, earlier)))
    };
    let mut order = committed.clone();
    if permutations(&mut order, 0, &mut |order| (!strict || in_time(order)) && explains(order)) {
        return Ok(());
    }
    let mut report = format!("no {}serial order explains it\n", if strict { "real-time " } else { "" });
    report += &format!("  initial: {initial:?}\n");
    for (who, program) in programs.iter().enumerate() {
        report += &format!("  T{who}: {program:?}\n     -> {:?}\n", outcomes[who]);
    }
    Err(report + &format!("  final:   {last:?}"))
}

/// True if `accept` holds for some order of `order[from..]`.
fn permutations(order: &mut Vec<usize>, from: usize, accept: &mut impl FnMut(&[usize]) -> bool) -> bool {
    if from == order.len() {
        return accept(order);
    }
    for at in from..order.len() {
        order.swap(from, at);
        if permutations(order, from + 1, accept) {
            return true;
        }
        order.swap(from, at);
    }
    false
}

/// Every order in which the steps of programs with these many steps can be taken.
pub fn schedules(steps: &[usize]) -> Vec<Vec<usize>> {
    fn extend(left: &mut Vec<usize>, so_far: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if left.iter().all(|steps| *steps == 0) {
            all.push(so_far.clone());
        }
        for who in 0..left.len() {
            if left[who] > 0 {
                left[who] -= 1;
                so_far.push(who);
                extend(left, so_far, all);
                so_far.pop();
                left[who] += 1;
            }
        }
    }
    let mut all = Vec::new();
    extend(&mut steps.to_vec(), &mut Vec::new(), &mut all);
    all
}
