//! Small transactions, interleaved step by step, judged against every serial order.
//!
//! A [`Program`] is a few operations. The driver gives each program a transaction on a thread of its
//! own and hands out the steps in a given order; a step that has to wait (only lock waits do) is
//! overtaken by the others. Afterwards the committed programs are replayed on a plain map in every
//! order: one of these must give each of them the answers that it got, and the final state. For a
//! strict protocol the order must also agree with real time. So no script states what it expects:
//! anything serializable will do, and nothing else.

use super::{Number, Tables};
use heddledb::internals::Savepoint;
use heddledb::protocol::{Isolation, Kind};
use heddledb::{Database, Error, Misuse, OwnedTransaction, Result, Transaction};
use std::collections::BTreeMap;
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
    /// Open a savepoint.
    Save,
    /// Go back to the savepoint that was opened last, or do nothing.
    RollBack,
    /// Close the savepoint that was opened last, or do nothing.
    Keep,
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
    /// Nothing was done, because another row has an equal entry in a unique index.
    Taken,
}

/// The operations of one transaction; a commit follows.
pub type Program = Vec<Op>;

/// The rows as a plain map.
type Model = BTreeMap<u64, (i64, i64)>;

fn rows(model: &Model, low: u64, high: u64) -> Vec<(u64, i64, i64)> {
    if low > high { Vec::new() } else { model.range(low..=high).map(|(k, (v, o))| (*k, *v, *o)).collect() }
}

/// A transaction on the model.
struct Serial<'a> {
    model: &'a mut Model,
    /// Whether no two rows may have equal values, or equal others.
    unique: bool,
    /// The sum of values seen.
    sum: i64,
    saved: Vec<Model>,
}

impl Serial<'_> {
    /// Makes a row `(value, other)`, unless another has one of them.
    fn put(&mut self, key: u64, row: (i64, i64), answer: Answer) -> Answer {
        let alike =
            |(of, (value, other)): (&u64, &(i64, i64))| *of != key && (*value == row.0 || *other == row.1);
        if self.unique && self.model.iter().any(alike) {
            return Answer::Taken;
        }
        self.model.insert(key, row);
        answer
    }

    /// Changes a row that is there.
    fn change(&mut self, key: u64, change: impl FnOnce(&mut (i64, i64)) -> Answer) -> Option<Answer> {
        let mut row = *self.model.get(&key)?;
        let answer = change(&mut row);
        Some(self.put(key, row, answer))
    }

    fn apply(&mut self, op: Op) -> Answer {
        let sum = self.sum;
        let (absent, valueless) = (|| Answer::There(false), || Answer::Value(None));
        let answer = match op {
            Op::Get(key) => Answer::Rows(rows(self.model, key, key)),
            Op::GetOther(key) => {
                Answer::Rows(self.model.get(&key).map(|(_, other)| (key, 0, *other)).into_iter().collect())
            }
            Op::Insert(key, _) if self.model.contains_key(&key) => Answer::There(true),
            Op::Insert(key, value) => self.put(key, (value, value), Answer::There(false)),
            Op::Upsert(key, value) => {
                let there = self.model.contains_key(&key);
                self.put(key, (value, value), Answer::There(there))
            }
            Op::Increment(key, by) => self.change(key, |row| add(&mut row.0, by)).unwrap_or_else(valueless),
            Op::IncrementOther(key, by) => {
                self.change(key, |row| add(&mut row.1, by)).unwrap_or_else(valueless)
            }
            Op::SetOther(key, value) => self.change(key, |row| set(&mut row.1, value)).unwrap_or_else(absent),
            Op::AddOther(key, by) => self
                .change(key, |row| {
                    let now = row.1 + by;
                    set(&mut row.1, now)
                })
                .unwrap_or_else(absent),
            Op::Delete(key) => Answer::There(self.model.remove(&key).is_some()),
            Op::Scan(low, high) => Answer::Rows(rows(self.model, low, high)),
            Op::ScanLastTwo(low, high) => {
                let mut found = rows(self.model, low, high);
                found.reverse();
                found.truncate(2);
                Answer::Rows(found)
            }
            Op::ScanIndex(low, high) => {
                let within = |(_, row): &(&u64, &(i64, i64))| (low..=high).contains(&row.0);
                let mut entries: Vec<_> =
                    self.model.iter().filter(within).map(|(k, row)| (*k, row.0, 0)).collect();
                entries.sort_by_key(|(key, value, _)| (*value, *key));
                Answer::Rows(entries)
            }
            Op::Find(value) => {
                let found = self.model.iter().find(|(_, row)| row.0 == value);
                Answer::Rows(found.map(|(k, _)| (*k, value, 0)).into_iter().collect())
            }
            Op::StoreSum(key) => self
                .change(key, |row| {
                    row.0 = 0;
                    add(&mut row.0, sum)
                })
                .unwrap_or_else(valueless),
            Op::Save => {
                self.saved.push(self.model.clone());
                Answer::There(true)
            }
            Op::RollBack => {
                let saved = self.saved.pop();
                Answer::There(saved.map(|saved| *self.model = saved).is_some())
            }
            Op::Keep => Answer::There(self.saved.pop().is_some()),
            Op::Abort => Answer::There(false),
        };
        self.sum += seen_in(&answer);
        answer
    }
}

fn add(to: &mut i64, by: i64) -> Answer {
    *to += by;
    Answer::Value(Some(*to))
}

fn set(place: &mut i64, value: i64) -> Answer {
    *place = value;
    Answer::There(true)
}

fn seen_in(answer: &Answer) -> i64 {
    match answer {
        Answer::Rows(rows) => rows.iter().map(|(_, value, other)| value + other).sum(),
        _ => 0,
    }
}

/// What a program's transaction keeps beside the database.
#[derive(Default)]
struct Seen {
    /// The sum of values seen.
    sum: i64,
    saved: Vec<Savepoint>,
}

/// The answer of an upsert, which may be refused for an index entry, and never for its key.
fn put(replaced: Result<bool>) -> Result<Answer> {
    replaced.map(Answer::There).or_else(|error| match error.misuse() {
        Some(Misuse::DuplicateEntry { .. }) => Ok(Answer::Taken),
        _ => Err(error),
    })
}

/// The answer of an operation that writes; that it cannot be met is one, too.
fn answered(outcome: Result<Answer>, refused: Answer) -> Result<Answer> {
    outcome.or_else(|error| match error.misuse() {
        Some(Misuse::NotFound { .. } | Misuse::DuplicateKey { .. }) => Ok(refused),
        Some(Misuse::DuplicateEntry { .. }) => Ok(Answer::Taken),
        _ => Err(error),
    })
}

/// The same on the engine.
fn execute<T: Tables>(tx: &mut impl Transaction, op: Op, seen: &mut Seen) -> Result<Answer> {
    let row = |row: T::Row| T::parts(&row);
    let sum = seen.sum;
    let (there, not_there, valueless) = (Answer::There(true), Answer::There(false), Answer::Value(None));
    let answer = match op {
        Op::Get(key) => Answer::Rows(tx.get::<T::Row>(key)?.map(row).into_iter().collect()),
        Op::GetOther(key) => {
            Answer::Rows(tx.get_columns(key, T::OTHER)?.map(|other| (key, 0, other)).into_iter().collect())
        }
        Op::Insert(key, value) => answered(tx.insert(T::row(key, value, value)).map(|()| not_there), there)?,
        Op::Upsert(key, value) => put(tx.upsert(T::row(key, value, value)))?,
        Op::Increment(key, by) => answered(T::change(tx, key, |value| add(value, by)), valueless)?,
        Op::IncrementOther(key, by) => {
            answered(tx.update_columns(key, T::OTHER, |other| add(other, by)), valueless)?
        }
        Op::SetOther(key, value) => {
            answered(tx.set_columns(key, T::OTHER, value).map(|()| there), not_there)?
        }
        Op::AddOther(key, by) => answered(tx.add(T::OTHER, key, by).map(|()| there), not_there)?,
        Op::Delete(key) => Answer::There(tx.delete::<T::Row>(key)?),
        Op::Scan(low, high) => Answer::Rows(T::scan(tx, low, high, false, usize::MAX)?),
        Op::ScanLastTwo(low, high) => Answer::Rows(T::scan(tx, low, high, true, 2)?),
        Op::ScanIndex(low, high) => Answer::Rows(
            T::entries(tx, low..=high)?.into_iter().map(|(value, key)| (key, value, 0)).collect(),
        ),
        Op::Find(value) => Answer::Rows(
            tx.find_key::<T::ByValue>(T::Value::of(value).entry())?
                .map(|key| (key, value, 0))
                .into_iter()
                .collect(),
        ),
        Op::StoreSum(key) => {
            let store = |value: &mut i64| {
                *value = sum;
                Answer::Value(Some(sum))
            };
            answered(T::change(tx, key, store), valueless)?
        }
        Op::Save => {
            seen.saved.push(tx.save()?);
            there
        }
        Op::RollBack => {
            let savepoint = seen.saved.pop();
            savepoint.map_or(Ok(()), |savepoint| tx.roll_back(savepoint))?;
            Answer::There(savepoint.is_some())
        }
        Op::Keep => {
            let savepoint = seen.saved.pop();
            savepoint.into_iter().for_each(|savepoint| tx.keep(savepoint));
            Answer::There(savepoint.is_some())
        }
        Op::Abort => return Err(Error::user("the program gives up")),
    };
    seen.sum += seen_in(&answer);
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
    let (mut answers, mut seen, mut alive) = (Vec::new(), Seen::default(), true);
    for command in commands {
        let reply = match command {
            _ if !alive => Reply::Dead,
            Command::Step(op) => {
                let tx =
                    running.get_or_insert_with(|| db.begin().expect("there is a session for each program"));
                match execute::<T>(&mut **tx, op, &mut seen) {
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
            if schedule.get(now + 1) == Some(&who) {
                // Nobody does anything in between.
                continue;
            }
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

/// Judges what programs answered, and the final rows, against every serial order; `unique` says whether no two rows may
/// have equal values, or equal others.
///
/// # Errors
/// A description of what no serial order explains.
pub fn judge(
    strict: bool,
    unique: bool,
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
            let mut serial = Serial { model: &mut model, unique, sum: 0, saved: Vec::new() };
            let expected = programs[who].iter().map(|op| serial.apply(*op));
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
