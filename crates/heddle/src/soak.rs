//! `heddle soak`: does memory stay flat?
//!
//! Rows come and go in tables that keep their size, beside snapshots of every length. Once a second the
//! memory of the process and of the engine is printed; it is read more often, since long snapshots make
//! it go up and down. After a warm-up none of these figures
//! may grow: the median of the last quarter of the readings may lie 5 % above that of the first, or a
//! small amount where the figure itself is small.
//!
//! | thread | what it does |
//! |---|---|
//! | `moving` | adds rows at the head of a window of keys and deletes those at its tail, so that index leaves run empty on one side and fill on the other |
//! | `random` | inserts, overwrites or deletes random rows, behind a B+tree, a hash index, and secondary indexes of both; aborts some |
//! | `adding`, `taking` | one adds rows, the other deletes them: blocks are freed where they were not taken |
//! | `short` | snapshots of a recent moment |
//! | `long` | snapshots that stay open for some time, and are read through now and then |
//! | `checkpoints` | writes one checkpoint after the other, which cuts the log short |
//!
//! Each snapshot is checked: the window of `moving` is whole, and rows agree with their index entries.

mod rows;

use crate::failure::{Failure, chain};
use crate::machine;
use crate::report::bytes;
use crate::report::model::CheckCount;
use crate::report::table::verdict;
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::protocol::Kind;
use heddledb::{Database, Error, Metrics, ReadTransaction, Scan, Session, Transaction};
use rows::{Handed, Hashed, Moving, Ordered, agree, hashed, mark, moving, owner, text};
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `heddle soak`.
#[derive(Args, Clone, Debug)]
pub struct SoakArguments {
    /// Protocols, by commas, one after the other; `all` runs every one that allows several sessions
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "silo,tictoc")]
    pub protocol: Vec<String>,
    /// How long each runs
    #[arg(long, value_name = "S", default_value = "60", value_parser = crate::arguments::seconds)]
    pub seconds: f64,
    /// How long before memory must have stopped growing [default: a quarter of the time]
    #[arg(long, value_name = "S", value_parser = crate::arguments::seconds)]
    pub warmup: Option<f64>,
    /// Rows that each table keeps
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub rows: u64,
    /// How long a long snapshot stays open
    #[arg(long, value_name = "S", default_value = "1", value_parser = crate::arguments::seconds)]
    pub hold: f64,
    /// How old a short snapshot's moment may be, in milliseconds
    #[arg(long, value_name = "MS", default_value = "100")]
    pub interval: u64,
    /// Where the log and the checkpoints go, in a folder that is removed afterwards [default: the system's
    /// folder for temporary files]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Without log and checkpoints
    #[arg(long)]
    pub in_memory: bool,
    /// Seed of the changes
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle soak --seconds 60
  heddle soak --seconds 600 --protocol all --rows 1000000 --hold 5";

/// By how much a figure may grow.
const GROWTH: f64 = 0.05;
/// How often the figures are read, and how many readings go by before one is printed.
const TICK: Duration = Duration::from_millis(100);
const SHOWN: usize = 10;

/// Runs the command. True if no figure grew.
pub fn soak(arguments: &SoakArguments) -> Result<bool, Failure> {
    let mut kinds: Vec<Kind> = Vec::new();
    for name in &arguments.protocol {
        match name.trim() {
            "all" => kinds.extend(Kind::ALL.iter().filter(|kind| kind.sessions_max() >= SESSIONS)),
            name => kinds.push(name.parse().map_err(|error| Failure::usage(format!("{error}, all")))?),
        }
    }
    let mut count = CheckCount::default();
    for kind in kinds {
        if kind.sessions_max() < SESSIONS {
            return Err(Failure::usage(format!("{kind} allows one session, and this needs {SESSIONS}")));
        }
        println!("{kind}");
        let readings = run(kind, arguments).map_err(|error| Failure::run(chain(&error)))?;
        let warmup = arguments.warmup.unwrap_or(arguments.seconds / 4.0);
        let counted: Vec<&Reading> = readings.iter().filter(|reading| reading.seconds >= warmup).collect();
        for figure in Figure::ALL {
            let growth = Growth::of(figure, &counted);
            println!("  {growth}");
            count.all += 1;
            count.failed += usize::from(!growth.flat);
        }
    }
    println!("{}", verdict(count, terminal_with_colours(&std::io::stdout())));
    Ok(count.failed == 0)
}

/// One figure of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Resident,
    Records,
    Versions,
    Values,
    Garbage,
    Nodes,
    Files,
}

impl Figure {
    const ALL: [Self; 7] = [
        Self::Resident,
        Self::Records,
        Self::Versions,
        Self::Values,
        Self::Garbage,
        Self::Nodes,
        Self::Files,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Records => "records",
            Self::Versions => "old versions",
            Self::Values => "values",
            Self::Garbage => "garbage",
            Self::Nodes => "index nodes",
            Self::Files => "files",
        }
    }

    /// Growth by less is no matter, whatever the share.
    fn slack(self) -> f64 {
        match self {
            Self::Resident => 4e6,
            Self::Records | Self::Versions | Self::Values => 256e3,
            Self::Garbage => 2000.0,
            Self::Nodes => 20.0,
            // Before or after a checkpoint, of which there are several between two readings.
            Self::Files => 8e6,
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Garbage | Self::Nodes => format!("{value:.0}"),
            _ => bytes(value),
        }
    }
}

/// All figures at one time.
#[derive(Clone, Debug)]
struct Reading {
    seconds: f64,
    changes: u64,
    values: [f64; 7],
}

impl Reading {
    fn take(begin: Instant, changes: u64, metrics: &Metrics, folder: Option<&Path>) -> Self {
        let nodes: usize = metrics.index_nodes.iter().map(|(_, nodes)| nodes).sum();
        let Metrics { record_bytes, version_bytes, value_bytes, garbage, .. } = *metrics;
        let engine = [record_bytes, version_bytes, value_bytes, garbage, nodes];
        let [records, versions, texts, garbage, nodes] = engine.map(|value| value as f64);
        Self {
            seconds: begin.elapsed().as_secs_f64(),
            changes,
            values: [resident(), records, versions, texts, garbage, nodes, folder.map_or(0.0, size)],
        }
    }
}

/// Bytes of the process in memory.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * rustix::param::page_size() as f64
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> f64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // One that is removed in between has no bytes.
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len() as f64).sum()
}

/// How a figure moved after the warm-up.
#[derive(Debug)]
struct Growth {
    figure: Figure,
    first: f64,
    last: f64,
    flat: bool,
}

impl Growth {
    fn of(figure: Figure, readings: &[&Reading]) -> Self {
        let values: Vec<f64> = readings.iter().map(|reading| reading.values[figure as usize]).collect();
        let quarter = values.len().div_ceil(4);
        let middle = |part: &[f64]| crate::report::model::median(part.to_vec());
        let first = middle(&values[..quarter]);
        let last = middle(&values[values.len() - quarter..]);
        let flat = last <= first * (1.0 + GROWTH) || last - first <= figure.slack();
        Self { figure, first, last, flat }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, first, last, flat } = self;
        let verdict = if *flat { "ok" } else { "GREW" };
        let share = if *first > 0.0 { (last / first - 1.0) * 100.0 } else { 0.0 };
        let (name, first, last) = (figure.name(), figure.show(*first), figure.show(*last));
        write!(f, "{verdict:<4} {name:<13}{first} -> {last} ({share:+.1} %)")
    }
}

/// Sessions that the threads need.
const SESSIONS: usize = 6;
/// Rows of one transaction of `moving`.
const STRIDE: u64 = 8;
/// Changes in a second of each thread, so that what waits for reclamation is always as much.
const PACE: u64 = 20_000;

/// What one thread does with its session.
type Body = fn(&Churn, Session) -> Result<(), Error>;

/// Lets rows come and go under a protocol for as long as it is told, and reads the figures.
fn run(kind: Kind, arguments: &SoakArguments) -> Result<Vec<Reading>, Error> {
    let builder = Database::builder().protocol(kind).sessions(SESSIONS);
    let builder = builder.snapshot_interval(Duration::from_millis(arguments.interval));
    let builder = builder.table::<Moving>(0).table::<Ordered>(0).table::<Hashed>(0).table::<Handed>(0);
    let folder = match arguments.in_memory {
        true => None,
        false => {
            let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
            Some(machine::folder(&parent, "heddle-soak-")?)
        }
    };
    let folder = folder.as_ref().map(tempfile::TempDir::path);
    let db = match folder {
        Some(path) => builder.path(path).checkpoint_after(None).open()?,
        None => builder.open()?,
    };
    let churn = Churn {
        rows: arguments.rows,
        seed: arguments.seed,
        hold: Duration::from_secs_f64(arguments.hold),
        stop: AtomicBool::new(false),
        changes: AtomicU64::new(0),
        added: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        checked: AtomicU64::new(0),
    };
    let bodies: [Body; SESSIONS] =
        [Churn::moving, Churn::random, Churn::adding, Churn::taking, Churn::short, Churn::long];
    churn.fill(&mut db.session()?)?;
    thread::scope(|scope| {
        let sessions = bodies.iter().map(|_| db.session()).collect::<Result<Vec<_>, _>>()?;
        let threads: Vec<_> = bodies
            .iter()
            .zip(sessions)
            .map(|(body, session)| {
                let churn = &churn;
                scope.spawn(move || {
                    let outcome = body(churn, session);
                    churn.stop.store(true, Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let checkpoints = folder.map(|_| scope.spawn(|| churn.checkpoints(&db)));
        let readings = churn.watch(&db, arguments.seconds, folder);
        churn.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(Error::user("a thread panicked")))?;
        }
        let written = checkpoints.map_or(Ok(Ok(0)), |thread| thread.join());
        let written = written.unwrap_or_else(|_| Err(Error::user("a thread panicked")))?;
        let whole = churn.checked.load(Ordering::Relaxed);
        println!("  {whole} snapshots were whole, {written} checkpoints written");
        Ok(readings)
    })
}

/// What the threads share. Relaxed throughout: figures, and a flag that is seen soon enough.
struct Churn {
    rows: u64,
    seed: u64,
    hold: Duration,
    stop: AtomicBool,
    changes: AtomicU64,
    /// The next key of `Handed` to add, and to take.
    added: AtomicU64,
    taken: AtomicU64,
    checked: AtomicU64,
}

impl Churn {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads the figures once a second, and prints them.
    fn watch(&self, db: &Database, seconds: f64, folder: Option<&Path>) -> Vec<Reading> {
        let (begin, mut readings, mut before) = (Instant::now(), Vec::<Reading>::new(), (0.0, 0));
        let names = Figure::ALL.map(|figure| format!("{:>13}", figure.name())).join("");
        println!("  {:>7}{:>12}{names}{:>14}", "seconds", "changes/s", "oldest");
        while begin.elapsed().as_secs_f64() < seconds && !self.stopped() {
            thread::sleep(TICK);
            let metrics = db.metrics();
            let reading = Reading::take(begin, self.changes.load(Ordering::Relaxed), &metrics, folder);
            readings.push(reading.clone());
            if !readings.len().is_multiple_of(SHOWN) {
                continue;
            }
            let pace = (reading.changes - before.1) as f64 / (reading.seconds - before.0);
            let shown =
                Figure::ALL.map(|figure| format!("{:>13}", figure.show(reading.values[figure as usize])));
            let oldest =
                metrics.oldest_snapshot.map_or("-".into(), |age| format!("{:.2} s", age.as_secs_f64()));
            println!("  {:>7.0}{pace:>12.0}{}{oldest:>14}", reading.seconds, shown.join(""));
            before = (reading.seconds, reading.changes);
        }
        readings
    }

    /// Writes checkpoints, a few in a second, and returns how many.
    fn checkpoints(&self, db: &Database) -> Result<u64, Error> {
        let mut written = 0;
        while !self.stopped() {
            db.checkpoint()?;
            written += 1;
            thread::sleep(TICK / 4);
        }
        Ok(written)
    }

    fn fill(&self, session: &mut Session) -> Result<(), Error> {
        for first in (0..self.rows).step_by(STRIDE as usize) {
            session.run(|tx| (first..first + STRIDE).try_for_each(|id| tx.insert(moving(id))))?;
        }
        for id in 0..self.rows / 2 {
            session.run(|tx| {
                tx.insert(Ordered { id: 2 * id, owner: owner(2 * id, 0), value: 0 })?;
                tx.insert(hashed(2 * id, owner(2 * id, 0), 0))
            })?;
        }
        Ok(())
    }

    /// Calls `body` until told to stop, `PACE` times a second at most; it returns how many rows it changed.
    fn churn(&self, mut body: impl FnMut(u64) -> Result<u64, Error>) -> Result<(), Error> {
        let (begin, mut changes) = (Instant::now(), 0);
        for round in 0.. {
            if self.stopped() {
                break;
            }
            let more = body(round)?;
            changes += more;
            self.changes.fetch_add(more, Ordering::Relaxed);
            let due = Duration::from_secs_f64(changes as f64 / PACE as f64);
            let ahead = due.saturating_sub(begin.elapsed());
            if ahead > Duration::from_millis(1) {
                thread::sleep(ahead);
            } else if more == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// A window over rising keys.
    fn moving(&self, mut session: Session) -> Result<(), Error> {
        self.churn(|round| {
            let tail = round * STRIDE;
            // A window more or less long, so that leaves fill differently.
            session.run(|tx| {
                for id in tail..tail + STRIDE {
                    tx.insert(moving(id + self.rows.next_multiple_of(STRIDE)))?;
                    tx.delete::<Moving>(id)?;
                    if id % 3 == 0 {
                        let middle = id + self.rows / 2;
                        tx.update_columns(middle, Moving::value, |value| *value += 1)?;
                    }
                }
                Ok(())
            })?;
            Ok(2 * STRIDE)
        })
    }

    /// Rows at random keys, in two tables with a secondary index each.
    fn random(&self, mut session: Session) -> Result<(), Error> {
        let mut word = self.seed;
        self.churn(|round| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (word >> 33) % self.rows;
            let outcome = session.run(|tx| {
                let there = tx.get_columns(id, Ordered::value)?;
                match there {
                    Some(_) if round % 4 == 0 => {
                        let new = owner(id, round);
                        tx.update::<Ordered, _>(id, |row| (row.owner, row.value) = (new, round))?;
                        tx.set_columns(id, (Hashed::mark, Hashed::text), (mark(new), text(round)))?;
                        tx.set_columns(id, Hashed::value, round)?;
                    }
                    Some(_) => {
                        tx.delete::<Ordered>(id)?;
                        tx.delete::<Hashed>(id)?;
                    }
                    None => {
                        tx.insert(Ordered { id, owner: owner(id, round), value: round })?;
                        tx.insert(hashed(id, owner(id, round), round))?;
                    }
                }
                if round % 16 == 15 { Err(Error::user("never mind")) } else { Ok(()) }
            });
            match outcome {
                Ok(()) | Err(Error::User(_)) => Ok(4),
                Err(error) => Err(error),
            }
        })
    }

    /// Adds what `taking` takes.
    fn adding(&self, mut session: Session) -> Result<(), Error> {
        self.churn(|_| {
            let next = self.added.load(Ordering::Relaxed);
            if next >= self.taken.load(Ordering::Relaxed) + self.rows {
                return Ok(0);
            }
            session.run(|tx| (next..next + STRIDE).try_for_each(|id| tx.insert(Handed { id, value: id })))?;
            self.added.store(next + STRIDE, Ordering::Relaxed);
            Ok(STRIDE)
        })
    }

    /// Takes what `adding` adds.
    fn taking(&self, mut session: Session) -> Result<(), Error> {
        self.churn(|_| {
            let next = self.taken.load(Ordering::Relaxed);
            if next + STRIDE > self.added.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let all = session.run(|tx| {
                (next..next + STRIDE).try_fold(true, |all, id| Ok(tx.delete::<Handed>(id)? && all))
            })?;
            if !all {
                return Err(Error::user(format!("a row from {next} on was added, and is not there")));
            }
            self.taken.store(next + STRIDE, Ordering::Relaxed);
            Ok(STRIDE)
        })
    }

    /// Snapshots of a recent moment, read in part.
    fn short(&self, mut session: Session) -> Result<(), Error> {
        let mut word = self.seed;
        while !self.stopped() {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = (word >> 33) % self.rows;
            session.read(|snapshot| {
                let next = snapshot.collect(Scan::<Ordered>::range(id..).limit(20))?;
                next.iter().try_for_each(|row| agree(snapshot, row))
            })?;
            self.checked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Snapshots that stay open, with a pause after each, read through at the end.
    fn long(&self, mut session: Session) -> Result<(), Error> {
        while !self.stopped() {
            let mut snapshot = session.snapshot()?;
            let begin = Instant::now();
            while begin.elapsed() < self.hold && !self.stopped() {
                thread::sleep(Duration::from_millis(20));
            }
            let (mut first, mut rows) = (None, 0);
            snapshot.scan(Scan::<Moving>::all(), |row| {
                first.get_or_insert(row.id);
                rows += 1;
                ControlFlow::Continue(())
            })?;
            let window = self.rows.next_multiple_of(STRIDE);
            if rows != window || first.is_some_and(|first| first % STRIDE != 0) {
                return Err(Error::user(format!("a window of {window} rows has {rows}, from {first:?}")));
            }
            let all = snapshot.collect(Scan::<Ordered>::all())?;
            all.iter().try_for_each(|row| agree(&mut snapshot, row))?;
            drop(snapshot);
            self.checked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(values: impl Iterator<Item = f64>, figure: Figure) -> Growth {
        let readings: Vec<Reading> =
            values.map(|value| Reading { seconds: 1.0, changes: 0, values: [value; 7] }).collect();
        Growth::of(figure, &readings.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_leak_grows_and_a_wave_does_not() {
        let leak = growth((0..40).map(|at| 1e8 + 1e6 * f64::from(at)), Figure::Records);
        assert!(!leak.flat, "{leak}");
        let wave = growth((0..40).map(|at| 1e8 + 5e7 * f64::from(at % 3)), Figure::Records);
        assert!(wave.flat, "{wave}");
        let small = growth((0..40).map(f64::from), Figure::Garbage);
        assert!(small.flat, "{small}");
    }

    #[test]
    fn the_process_has_memory() {
        assert!(resident() > 1e5);
    }
}
