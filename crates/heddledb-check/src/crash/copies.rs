//! Copies beside writers, judged by history: full ones, continued ones, and directories restored from them to random epochs.
//!
//! Two sessions write on threads of their own and record what they see and do, while a third thread takes copies, with
//! checkpoints in between, closes the database now and then and opens it anew. Each copy says which epoch it is as of. Then the
//! history that belongs to it is all that was committed in epochs up to that one, everything else was lost, and at its end a
//! transaction that reads all rows of the copy. What the copy lacks is a write that this reader overlooks, what it has too much
//! is a read of what was lost, and a part of a transaction is a cycle.
//!
//! Beside the judges there is a comparison that needs none: for each key, what the reader sees is the version with the latest
//! stamp. Under a protocol that is not strict the judges would let a reader be old.

use crate::history::{ABSENT, Attempt, EPOCH_SHIFT, Header, History, Op, Status, Version};
use crate::recorder::{HASHED, Hashed, ORDERED, Ordered, Recorder, STRINGS, Strings};
use crate::workload::draw;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{Backup, Builder, Database, Error, Restore, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The protocol.
    pub kind: Kind,
    /// The seed of all randomness but the scheduler's.
    pub seed: u64,
    /// Copies to be looked at.
    pub copies: u64,
    /// Keys of each table.
    pub keys: u64,
    /// Whether the ordered table is that of strings.
    pub strings: bool,
}

impl Plan {
    fn ordered(&self) -> u8 {
        if self.strings { STRINGS } else { ORDERED }
    }

    /// Names the tables to a database that is about to be opened.
    fn tables(&self, builder: Builder) -> Builder {
        let builder = builder.table::<Hashed>(0);
        if self.strings { builder.table::<Strings>(0) } else { builder.table::<Ordered>(0) }
    }
}

/// What was found in a copy.
pub struct Found {
    /// What it is: `full`, `continued`, or `restored`.
    pub what: &'static str,
    /// The last epoch that it holds.
    pub epoch: u64,
    /// The history up to it, with its reader.
    pub history: History,
    /// The first key whose version is another than the last one that was written, if there is one.
    pub wrong: Option<String>,
}

/// A reader of a copy.
struct Look {
    what: &'static str,
    epoch: u64,
    ops: Vec<Op>,
}

/// Sessions that write.
const WRITERS: usize = 2;
/// Copies that are taken before the database is closed and opened anew.
const COPIES: u64 = 5;

/// Runs a plan.
///
/// # Errors
/// What is unlawful even without a judge.
pub fn run(plan: &Plan) -> Result<Vec<Found>, String> {
    let told = |error: Error| format!("seed {}, {}: {error}", plan.seed, plan.kind);
    let mut random = Random::new(plan.seed);
    let (clock, versions) = (AtomicU64::new(1), AtomicU64::new(1));
    let (disk, mut copy) = (Simulated::new(), Simulated::new());
    let (mut attempts, mut looks) = (Vec::new(), Vec::new());
    let mut has_copy = false;
    while (looks.len() as u64) < plan.copies {
        let builder = Database::builder().protocol(plan.kind).sessions(plan.kind.sessions_max().min(WRITERS));
        let builder = plan.tables(builder).storage(Arc::new(disk.clone()));
        let builder = builder.epoch_interval(Duration::from_micros(300)).recovery_threads(1);
        let builder = builder.log_files(1 + random.below(3) as u8).keep_log(1 << 30);
        let db = builder.open().map_err(told)?;
        let done = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.kind.sessions_max().min(WRITERS))
                .map(|number| {
                    let seed = random.next_u64();
                    let (db, done, clock, versions) = (&db, &done, &clock, &versions);
                    scope.spawn(move || {
                        let session = db.session()?;
                        let number = number as u32;
                        let recorded = Vec::new();
                        Writer { session, number, random: Random::new(seed), clock, versions, recorded }
                            .work(plan, done)
                    })
                })
                .collect();
            let due = (looks.len() as u64 + COPIES).min(plan.copies);
            let mut taken = || -> Result<(), Error> {
                while (looks.len() as u64) < due {
                    std::thread::sleep(Duration::from_micros(random.below(3_000)));
                    if random.below(3) == 0 {
                        db.checkpoint()?;
                    }
                    looks.push(match random.below(4) {
                        0 | 1 if has_copy => {
                            let backup = Backup::to_storage(Arc::new(copy.clone())).incremental();
                            let report = db.backup(backup)?;
                            look(plan, "continued", &copy, report.epoch)?
                        }
                        2 if has_copy => {
                            let restore = Restore::from_storage(Arc::new(copy.clone()));
                            let epochs = restore.reach()?.epochs;
                            let epoch = epochs.start() + random.below(epochs.end() - epochs.start() + 1);
                            let to = Simulated::new();
                            restore.epoch(epoch).to_storage(Arc::new(to.clone()))?;
                            look(plan, "restored", &to, epoch)?
                        }
                        _ => {
                            (copy, has_copy) = (Simulated::new(), true);
                            let report = db.backup(Backup::to_storage(Arc::new(copy.clone())))?;
                            look(plan, "full", &copy, report.epoch)?
                        }
                    });
                }
                Ok(())
            };
            let outcome = taken();
            done.store(true, Ordering::Relaxed);
            let mut recorded = Vec::new();
            for thread in threads {
                recorded.push(thread.join().expect("writers do not panic"));
            }
            outcome.map(|()| recorded)
        });
        for recorded in outcome.map_err(told)? {
            attempts.extend(recorded.map_err(told)?);
        }
    }
    Ok(looks.into_iter().map(|look| found(plan, &attempts, look, clock.load(Ordering::SeqCst))).collect())
}

/// Reads all rows of a copy.
fn look(plan: &Plan, what: &'static str, copy: &Simulated, epoch: u64) -> Result<Look, Error> {
    let builder = Database::builder().manual_epochs().recovery_threads(1).read_only(true);
    let builder = plan.tables(builder).storage(Arc::new(copy.clone()));
    let (db, mut ops, mut version) = (builder.open()?, Vec::new(), 0);
    db.session()?.run(|tx| {
        ops.clear();
        let mut recorder = Recorder::new(tx, &mut ops, &mut version);
        recorder.scan(plan.ordered(), 0, plan.keys + 8, false, usize::MAX)?;
        (0..plan.keys + 8).try_for_each(|key| recorder.read(HASHED, key).map(|_| ()))
    })?;
    Ok(Look { what, epoch, ops })
}

/// The history that belongs to a copy.
fn found(plan: &Plan, attempts: &[Attempt], look: Look, now: u64) -> Found {
    let Look { what, epoch, ops } = look;
    let mut history = Vec::new();
    let mut last: BTreeMap<(u8, u64), (u64, Version)> = BTreeMap::new();
    for attempt in attempts {
        let is_held = attempt.status == Status::Committed && attempt.stamp >> EPOCH_SHIFT <= epoch;
        if attempt.status == Status::Committed && attempt.stamp == 0 {
            // It only read, maybe later.
            continue;
        }
        if is_held {
            for op in &attempt.ops {
                let (Op::Write(table, key, _) | Op::Delete(table, key), version) = (op, version_of(op))
                else {
                    continue;
                };
                let entry = last.entry((*table, *key)).or_default();
                if attempt.stamp >= entry.0 {
                    *entry = (attempt.stamp, version);
                }
            }
            history.push(attempt.clone());
            continue;
        }
        // What it saw may be of later epochs, too. That nobody sees what it wrote is judged.
        let is_write = |op: &&Op| matches!(op, Op::Write(..) | Op::Delete(..));
        let ops: Vec<Op> = attempt.ops.iter().filter(is_write).cloned().collect();
        let status = if attempt.status == Status::Committed { Status::Lost } else { attempt.status };
        history.push(Attempt { ops, status, ..attempt.clone() });
    }
    let mut seen: BTreeMap<(u8, u64), Version> = BTreeMap::new();
    for op in &ops {
        match op {
            Op::Read(table, key, version) => _ = seen.insert((*table, *key), *version),
            Op::Scan(table, _, _, rows) => {
                seen.extend(rows.iter().map(|(key, version)| ((*table, *key), *version)));
            }
            _ => {}
        }
    }
    let keys = (0..plan.keys + 8).flat_map(|key| [(plan.ordered(), key), (HASHED, key)]);
    let wrong = keys.into_iter().find_map(|place| {
        let due = last.get(&place).map_or(ABSENT, |(_, version)| *version);
        let saw = seen.get(&place).copied().unwrap_or(ABSENT);
        (due != saw)
            .then(|| format!("table {} key {}: version {saw}, and {due} is the last", place.0, place.1))
    });
    let (begin, end) = (now + 1, now + 2);
    let session = WRITERS as u32;
    history.push(Attempt { session, begin, end, status: Status::Committed, stamp: 0, ops });
    let header = Header::new(plan.kind.name(), plan.kind.strict(), plan.seed);
    Found { what, epoch, history: History { header, attempts: history }, wrong }
}

/// The version that a write leaves.
fn version_of(op: &Op) -> Version {
    match op {
        Op::Write(.., version) => *version,
        _ => ABSENT,
    }
}

/// A session that writes, on its thread.
struct Writer<'a> {
    session: Session,
    number: u32,
    random: Random,
    clock: &'a AtomicU64,
    /// How many ranges of versions are in use.
    versions: &'a AtomicU64,
    recorded: Vec<Attempt>,
}

/// Commits of a session in a life, at most: a history is to be judged in milliseconds.
const COMMITS: usize = 600;

impl Writer<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn work(mut self, plan: &Plan, done: &AtomicBool) -> Result<Vec<Attempt>, Error> {
        let mut version = self.versions.fetch_add(1, Ordering::SeqCst) << 32;
        while !done.load(Ordering::Relaxed) && self.recorded.len() < COMMITS {
            let steps = draw(&mut self.random, plan.ordered(), 0, plan.keys);
            let mut ops = Vec::new();
            let begin = self.now();
            let outcome = self.session.attempt(|tx| {
                ops.clear();
                let mut recorder = Recorder::new(tx, &mut ops, &mut version);
                steps.iter().try_for_each(|step| step.run(&mut recorder))
            });
            let end = self.now();
            let status = match outcome {
                Ok(()) => Status::Committed,
                Err(Error::Conflict(_) | Error::User(_) | Error::Misuse(_)) => Status::Aborted,
                Err(error) => return Err(error),
            };
            let wrote = ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Delete(..)));
            let stamp = if wrote && status == Status::Committed { self.session.last_commit() } else { 0 };
            self.recorded.push(Attempt { session: self.number, begin, end, status, stamp, ops });
            // A session that goes on and on leaves the others no turn where there are two cores.
            std::thread::yield_now();
        }
        Ok(self.recorded)
    }
}
