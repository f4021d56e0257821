//! `heddle bench snapshots`: what readers cost a writer.
//!
//! One worker writes all the time. Beside it, on another core, one reader after the other does its
//! part for a fraction of a second: none, one that computes, one that reads memory at the pace of a
//! snapshot's reader without touching the engine, readers on snapshots, and the same serializable.
//! The writer's rate beside each is compared with its rate beside none, and beside the memory's reader,
//! **within one round**: a fresh database on which every reader has its turn. The order changes from
//! round to round, and what is told are medians over the rounds.
//!
//! Rates are per second that the writer ran on its core, so that other programs disturb little; the
//! share of time that it did run is told beside it.

use super::arguments::Outputs;
use crate::failure::{Failure, chain};
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{CheckResult, Machine, median};
use crate::report::{bytes, percent, rate, table};
use crate::terminal::terminal_with_colours;
use clap::{Args, ValueEnum};
use comfy_table::{Attribute, Cell};
use heddledb::protocol::Kind;
use heddledb::table::{Columns, Index, Relation, Scan};
use heddledb::{Database, Error, ReadTransaction, Session};
use heddledb_workloads::Workload;
use heddledb_workloads::tpcc::{self, Mix, Scale, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::{black_box, spin_loop};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `heddle bench snapshots`.
#[derive(Args, Clone, Debug)]
pub struct SnapshotsArguments {
    /// What the writer runs: tpcc (New-Order and Payment) or ycsb (16 increments)
    #[arg(long, value_enum, default_value = "tpcc")]
    pub workload: Writes,
    /// Protocols, by commas
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "silo,tictoc")]
    pub protocol: Vec<String>,
    /// How old a snapshot's moment may be, in milliseconds, by commas
    #[arg(long, value_name = "MS,..", value_delimiter = ',', default_value = "1000")]
    pub interval: Vec<u64>,
    /// Who is beside the writer, by commas
    #[arg(long, value_enum, value_name = "READER,..", value_delimiter = ',', default_values_t = Reader::ALL)]
    pub reader: Vec<Reader>,
    /// Rounds: fresh databases on which every reader has its turn
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Length of a turn
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = super::arguments::seconds)]
    pub seconds: f64,
    /// Seed of the data and the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Warehouses (tpcc)
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub warehouses: u16,
    /// Rows: full or tiny (tpcc)
    #[arg(long, value_name = "SIZE", default_value = "full", value_parser = heddledb_workloads::arguments::scale)]
    pub scale: Scale,
    /// Records (ycsb)
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(32..=1_000_000_000))]
    pub records: u64,
    /// Skew of the keys (ycsb)
    #[arg(long, value_name = "T", default_value = "0.9", value_parser = heddledb_workloads::arguments::theta)]
    pub theta: f64,
    /// Bytes of each of a record's ten columns, which share a column group: 100 or 10 (ycsb)
    #[arg(long, value_name = "N", default_value = "10", value_parser = heddledb_workloads::arguments::field_bytes)]
    pub field_bytes: usize,
    /// Write the report as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle bench snapshots
  heddle bench snapshots --protocol silo --interval 10,100,1000 --rounds 15 --json snapshots.json
  heddle bench snapshots --workload ycsb --theta 0.8 --reader none,memory-sweeps,sweeps";

/// What the writer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writes {
    /// TPC-C's New-Order and Payment; readers look by Order-Status and Stock-Level.
    Tpcc,
    /// YCSB increments; readers look by key.
    Ycsb,
}

/// Who is beside the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reader {
    /// Nobody
    None,
    /// Computes and touches no memory
    Spin,
    /// Reads as much memory as `looks` did, without touching the engine
    MemoryLooks,
    /// Short transactions on snapshots of a recent moment
    Looks,
    /// The same on one snapshot that stays open for the whole turn
    LooksHeld,
    /// The same serializable
    LooksSerializable,
    /// Reads as much memory as `sweeps` did, without touching the engine
    MemorySweeps,
    /// Reads through most of the database, on a snapshot each time
    Sweeps,
    /// The same serializable
    SweepsSerializable,
}

impl Reader {
    /// All, each memory's reader before those that it is the measure of.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Spin,
        Self::MemoryLooks,
        Self::Looks,
        Self::LooksHeld,
        Self::LooksSerializable,
        Self::MemorySweeps,
        Self::Sweeps,
        Self::SweepsSerializable,
    ];

    /// The name in reports.
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spin => "spin",
            Self::MemoryLooks => "memory-looks",
            Self::Looks => "looks",
            Self::LooksHeld => "looks-held",
            Self::LooksSerializable => "looks-serializable",
            Self::MemorySweeps => "memory-sweeps",
            Self::Sweeps => "sweeps",
            Self::SweepsSerializable => "sweeps-serializable",
        }
    }

    /// Whose pace a memory's reader keeps.
    fn pace(self) -> Option<Self> {
        match self {
            Self::MemoryLooks => Some(Self::Looks),
            Self::MemorySweeps => Some(Self::Sweeps),
            _ => None,
        }
    }

    /// The memory's reader that an engine's reader is compared with.
    fn memory(self) -> Option<Self> {
        match self {
            Self::Looks | Self::LooksHeld | Self::LooksSerializable => Some(Self::MemoryLooks),
            Self::Sweeps | Self::SweepsSerializable => Some(Self::MemorySweeps),
            _ => None,
        }
    }
}

/// All that was found: the top level of the JSON file.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotsReport {
    /// The command that gives such a report.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// What the writer ran.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// Seconds of a turn, rounds.
    pub settings: BTreeMap<String, f64>,
    /// The workload's parameters.
    pub parameters: BTreeMap<String, String>,
    /// One entry for each protocol, interval and reader.
    pub results: Vec<Beside>,
    /// The checks after each round that failed, or none.
    pub failed: Vec<CheckResult>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// The writer beside one reader: medians over the rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Beside {
    /// The protocol.
    pub protocol: String,
    /// How old a snapshot's moment may be.
    pub interval_ms: u64,
    /// Who was beside it.
    pub reader: String,
    /// The writer's transactions in a second on its core.
    pub writer_tps: f64,
    /// The share of the time that it had its core.
    pub core_share: f64,
    /// Its rate as a share of that beside nobody: quartiles.
    pub of_none: Option<[f64; 3]>,
    /// Its rate as a share of that beside the memory's reader: quartiles.
    pub of_memory: Option<[f64; 3]>,
    /// The reader's completed transactions in a second.
    pub looks: f64,
    /// The rows that it read in a second, those of given-up attempts included.
    pub rows: f64,
    /// Old versions that the writer kept for each of its transactions.
    pub versions_kept: f64,
    /// Bytes of old versions at the end of a turn.
    pub version_bytes: f64,
    /// The turns in the order of the rounds.
    pub turns: Vec<Turn>,
}

/// One reader's turn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Turn {
    /// The writer's transactions in a second on its core.
    pub writer_tps: f64,
    /// The share of the time that it had its core.
    pub core_share: f64,
    /// The reader's completed transactions in a second.
    pub looks: f64,
    /// The rows that it read in a second.
    pub rows: f64,
    /// Old versions that the writer kept for each of its transactions.
    pub versions_kept: f64,
    /// Bytes of old versions at the end.
    pub version_bytes: f64,
}

/// Runs the command. True if every check held.
pub fn snapshots(arguments: &SnapshotsArguments, command: String) -> Result<bool, Failure> {
    let outputs = Outputs { json: arguments.json.clone(), html: None };
    outputs.probe()?;
    let usage = |error: Error| Failure::usage(chain(&error));
    let report = match arguments.workload {
        Writes::Tpcc => {
            let (warehouses, scale) = (arguments.warehouses, arguments.scale);
            let writer = tpcc::Parameters { warehouses, scale, mix: Mix::NP, ..tpcc::Parameters::default() };
            let reader = tpcc::Parameters { mix: Mix([0, 0, 50, 0, 50]), ..writer };
            let (writer, reader) = (Tpcc::new(writer).map_err(usage)?, Tpcc::new(reader).map_err(usage)?);
            measure(arguments, &writer, &reader, command)?
        }
        Writes::Ycsb => {
            let SnapshotsArguments { records, theta, field_bytes, .. } = *arguments;
            let base = ycsb::Parameters { records, theta, field_bytes, ..ycsb::Parameters::default() };
            let writer = Ycsb::new(ycsb::Parameters { read_pct: 0, ..base }).map_err(usage)?;
            let reader = Ycsb::new(ycsb::Parameters { read_pct: 100, ..base }).map_err(usage)?;
            measure(arguments, &writer, &reader, command)?
        }
    };
    publish(&report, &outputs)?;
    Ok(report.failed.is_empty())
}

/// Makes all rounds.
fn measure<W: Workload>(
    arguments: &SnapshotsArguments,
    writer: &W,
    reader: &W,
    command: String,
) -> Result<SnapshotsReport, Failure> {
    let mut kinds: Vec<Kind> = Vec::new();
    for name in &arguments.protocol {
        let kind: Kind = name.trim().parse().map_err(|error| Failure::usage(format!("{error}")))?;
        if kind.sessions_max() < 2 {
            return Err(Failure::usage(format!("{kind} cannot have a reader beside the writer")));
        }
        kinds.push(kind);
    }
    let cores = machine::cores();
    let mut notes = Vec::new();
    if cores.len() < 2 {
        notes.push("there is one core for both, so these figures are of sharing it".to_owned());
    }
    let mut readers = arguments.reader.clone();
    readers.dedup();
    let configurations: Vec<(Kind, u64)> =
        kinds.iter().flat_map(|kind| arguments.interval.iter().map(|ms| (*kind, *ms))).collect();
    let mut results: Vec<Vec<Beside>> = configurations
        .iter()
        .map(|(kind, ms)| {
            let beside = |reader: &Reader| Beside {
                protocol: kind.name().into(),
                interval_ms: *ms,
                reader: reader.name().into(),
                ..Beside::default()
            };
            readers.iter().map(beside).collect()
        })
        .collect();
    let mut failed = Vec::new();
    let rounds = usize::from(arguments.rounds);
    let progress = Progress::new(rounds * configurations.len());
    for round in 0..rounds {
        for ((kind, ms), results) in configurations.iter().zip(&mut results) {
            let title = format!("round {} of {rounds}: {kind}, interval {ms} ms", round + 1);
            let bar = progress.phase(&title);
            let job = Round {
                kind: *kind,
                writer,
                reader,
                readers: order(&readers, round),
                interval: Duration::from_millis(*ms),
                seconds: Duration::from_secs_f64(arguments.seconds),
                seed: arguments.seed.wrapping_add(round as u64),
                cores: &cores,
            };
            let (turns, checks) = job.run().map_err(|error| Failure::run(chain(&error)))?;
            drop(bar);
            for (reader, turn) in turns {
                let at = readers.iter().position(|other| *other == reader).expect("it was asked for");
                results[at].turns.push(turn);
            }
            let broken = checks.into_iter().filter(|check| !check.ok);
            failed.extend(broken.map(|check| CheckResult {
                name: format!("{title}: {}", check.name),
                ok: false,
                detail: check.detail,
            }));
            progress.finished(&title);
        }
    }
    drop(progress);
    for results in &mut results {
        summarise(&readers, results);
    }
    let settings = [("seconds", arguments.seconds), ("rounds", rounds as f64)];
    Ok(SnapshotsReport {
        command,
        machine: machine::describe(),
        workload: writer.name().into(),
        seed: arguments.seed,
        settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        parameters: writer.parameters().into_iter().collect(),
        results: results.into_iter().flatten().collect(),
        failed,
        notes,
    })
}

/// The readers in the order of a round: rotated, and every other round backwards.
fn order(readers: &[Reader], round: usize) -> Vec<Reader> {
    let mut order = readers.to_vec();
    order.rotate_left(round / 2 * 2 % readers.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Fills the medians in from the turns.
fn summarise(readers: &[Reader], results: &mut [Beside]) {
    let turns: Vec<Vec<Turn>> = results.iter().map(|beside| beside.turns.clone()).collect();
    let turns_of =
        |reader: Reader| readers.iter().position(|other| *other == reader).map(|at| turns[at].as_slice());
    for (reader, result) in readers.iter().zip(results) {
        let over = |figure: fn(&Turn) -> f64| median(result.turns.iter().map(figure).collect());
        result.writer_tps = over(|turn| turn.writer_tps);
        result.core_share = over(|turn| turn.core_share);
        result.looks = over(|turn| turn.looks);
        result.rows = over(|turn| turn.rows);
        result.versions_kept = over(|turn| turn.versions_kept);
        result.version_bytes = over(|turn| turn.version_bytes);
        let ratios = |other: &[Turn]| {
            let pairs = result.turns.iter().zip(other);
            quartiles(pairs.map(|(turn, other)| turn.writer_tps / other.writer_tps.max(1e-9)).collect())
        };
        result.of_none = turns_of(Reader::None).map(ratios);
        result.of_memory = reader.memory().and_then(turns_of).map(ratios);
    }
}

/// The lower quartile, the median, the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    [at(0.25), median(values.clone()), at(0.75)]
}

/// One round that is about to be made.
struct Round<'a, W> {
    kind: Kind,
    writer: &'a W,
    reader: &'a W,
    readers: Vec<Reader>,
    interval: Duration,
    seconds: Duration,
    seed: u64,
    cores: &'a [usize],
}

/// Inputs that a thread draws ahead and uses in turn.
const POOL: usize = 20_000;
/// How long a reader runs before the writer is measured beside it.
const SETTLE: Duration = Duration::from_millis(60);
/// How long the writer runs alone at first.
const WARM_UP: Duration = Duration::from_millis(200);
/// Lines of memory that a row costs: that of its place in the index, and its own.
const LINES_PER_ROW: u64 = 2;
/// Rows after which a memory's reader looks at the time.
const BATCH: u64 = 64;
/// Tells the writer to end; below it, the signal counts the marks that are asked for.
const STOP: u64 = u64::MAX;

/// Where the writer stood when it saw a signal.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    on_core: Duration,
    commits: u64,
}

/// The reader's turn: what it does, and until when.
struct Post<'a> {
    stop: &'a AtomicBool,
    rows: u64,
    looks: u64,
}

impl Post<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl<W: Workload> Round<'_, W> {
    /// Makes the round: every reader's turn, and the checks after them.
    fn run(&self) -> Result<(Vec<(Reader, Turn)>, Vec<CheckResult>), Error> {
        let builder = Database::builder().protocol(self.kind).snapshot_interval(self.interval);
        let db = self.writer.tables(builder.sessions(4)).open()?;
        self.writer.load(&db, self.seed, &|_| ())?;
        let memory = vec![1u64; (db.metrics().record_bytes / 8).clamp(1 << 17, 1 << 25)];
        let session = db.session()?;
        let signal = AtomicU64::new(0);
        let (turns, ledger) = thread::scope(|scope| {
            let name = thread::Builder::new().name("writer".into());
            let writing = name.spawn_scoped(scope, || self.write(session, &signal)).map_err(Error::user)?;
            let turns = self.turns(&db, &memory, &signal);
            signal.store(STOP, Ordering::Relaxed);
            let written = writing.join().unwrap_or_else(|_| Err(Error::user("the writer panicked")));
            let ((turns, deltas), (ledger, marks)) = (turns?, written?);
            let measured = turns.into_iter().enumerate().map(|(at, (reader, mut turn))| {
                let (begin, end) = (marks[2 * at], marks[2 * at + 1]);
                let commits = (end.commits - begin.commits) as f64;
                let on_core = (end.on_core - begin.on_core).as_secs_f64();
                turn.writer_tps = commits / on_core.max(1e-9);
                turn.core_share = (on_core / (end.at - begin.at).as_secs_f64().max(1e-9)).min(1.0);
                turn.versions_kept = deltas[at] as f64 / commits.max(1.0);
                (reader, turn)
            });
            // Turns before the first round's own only set the pace.
            let turns: Vec<_> = measured.collect();
            Ok::<_, Error>((turns, ledger))
        })?;
        let paces = turns.len() - self.readers.len();
        let checks = self.writer.check(&db, &[ledger])?;
        let checks = checks.into_iter().map(|check| CheckResult {
            name: check.name,
            ok: check.ok,
            detail: check.detail,
        });
        Ok((turns.into_iter().skip(paces).collect(), checks.collect()))
    }
}

impl<W: Workload> Round<'_, W> {
    /// The writer: runs until told to stop, and marks where it stands when asked.
    fn write(&self, mut session: Session, signal: &AtomicU64) -> Result<(W::Ledger, Vec<Mark>), Error> {
        if let [core, _, ..] = *self.cores {
            machine::pin(core);
        }
        let mut generator = self.writer.generator(0, 1, self.seed);
        let mut pool = vec![W::Input::default(); POOL];
        pool.iter_mut().for_each(|input| self.writer.draw(&mut generator, input));
        let (mut ledger, mut marks, mut commits, mut next) = (W::Ledger::default(), Vec::new(), 0, 0);
        loop {
            match signal.load(Ordering::Relaxed) {
                STOP => return Ok((ledger, marks)),
                asked if asked as usize > marks.len() => {
                    marks.push(Mark { at: Instant::now(), on_core: machine::thread_time(), commits });
                }
                _ => {}
            }
            let input = &mut pool[next];
            next = (next + 1) % POOL;
            self.writer.refresh(&mut generator, input);
            match session.run(|tx| self.writer.execute(tx, input)) {
                Ok(output) => {
                    self.writer.committed(&mut generator, input, &output);
                    self.writer.record(&mut ledger, input, output);
                    commits += 1;
                }
                Err(Error::User(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Every reader's turn, and before them those that only set the pace. With each, how many versions
    /// were kept in its window.
    #[expect(clippy::type_complexity, reason = "two lists, taken apart at once")]
    fn turns(
        &self,
        db: &Database,
        memory: &[u64],
        signal: &AtomicU64,
    ) -> Result<(Vec<(Reader, Turn)>, Vec<u64>), Error> {
        thread::sleep(WARM_UP);
        let mut paces: Vec<Reader> = self.readers.iter().filter_map(|reader| reader.pace()).collect();
        paces.dedup();
        let (mut turns, mut kept): (Vec<(Reader, Turn)>, Vec<u64>) = (Vec::new(), Vec::new());
        for reader in paces.into_iter().chain(self.readers.iter().copied()) {
            let pace = reader.pace().and_then(|pace| {
                turns.iter().rev().find(|(other, _)| *other == pace).map(|(_, turn)| turn.rows)
            });
            let stop = AtomicBool::new(false);
            let session = db.session()?;
            let (turn, versions) = thread::scope(|scope| {
                let name = thread::Builder::new().name("reader".into());
                let reading = name.spawn_scoped(scope, || {
                    if let [_, core, ..] = *self.cores {
                        machine::pin(core);
                    }
                    let begin = Instant::now();
                    let mut post = Post { stop: &stop, rows: 0, looks: 0 };
                    self.read(reader, session, &mut post, memory, pace.unwrap_or(0.0))?;
                    let seconds = begin.elapsed().as_secs_f64();
                    Ok::<_, Error>((post.looks as f64 / seconds, post.rows as f64 / seconds))
                });
                let reading = reading.map_err(Error::user)?;
                thread::sleep(SETTLE);
                let before = db.metrics().versions_kept;
                signal.fetch_add(1, Ordering::Relaxed);
                thread::sleep(self.seconds);
                signal.fetch_add(1, Ordering::Relaxed);
                let metrics = db.metrics();
                stop.store(true, Ordering::Relaxed);
                let read = reading.join().unwrap_or_else(|_| Err(Error::user("the reader panicked")));
                read.map(|(looks, rows)| {
                    let version_bytes = metrics.version_bytes as f64;
                    let turn = Turn { looks, rows, version_bytes, ..Turn::default() };
                    (turn, metrics.versions_kept - before)
                })
            })?;
            turns.push((reader, turn));
            kept.push(versions);
            // The next one finds no snapshot open, and no old versions.
            thread::sleep(self.interval.min(Duration::from_millis(200)) + SETTLE);
        }
        Ok((turns, kept))
    }

    /// A reader, until it is told to stop.
    fn read(
        &self,
        reader: Reader,
        mut session: Session,
        post: &mut Post<'_>,
        memory: &[u64],
        pace: f64,
    ) -> Result<(), Error> {
        let mut generator = self.reader.generator(1, 2, self.seed);
        let mut input = W::Input::default();
        match reader {
            Reader::None => {
                while !post.stopped() {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            Reader::Spin => {
                let mut word = self.seed;
                while !post.stopped() {
                    (0..1000).for_each(|_| word = black_box(scatter(word)));
                }
            }
            Reader::MemoryLooks | Reader::MemorySweeps => read_memory(post, memory, pace),
            Reader::Looks => {
                while !post.stopped() {
                    self.reader.draw(&mut generator, &mut input);
                    unless_stopped(session.read(|snapshot| self.look(snapshot, &input, post)), post)?;
                }
            }
            Reader::LooksHeld => {
                let mut snapshot = session.snapshot()?;
                while !post.stopped() {
                    self.reader.draw(&mut generator, &mut input);
                    unless_stopped(self.look(&mut snapshot, &input, post), post)?;
                }
            }
            Reader::LooksSerializable => {
                while !post.stopped() {
                    self.reader.draw(&mut generator, &mut input);
                    unless_stopped(session.run(|tx| self.look(tx, &input, post)), post)?;
                }
            }
            Reader::Sweeps => {
                while !post.stopped() {
                    unless_stopped(session.read(|snapshot| self.sweep(snapshot, post)), post)?;
                }
            }
            Reader::SweepsSerializable => {
                while !post.stopped() {
                    unless_stopped(session.run(|tx| self.sweep(tx, post)), post)?;
                }
            }
        }
        Ok(())
    }

    fn look<T: ReadTransaction>(
        &self,
        tx: &mut T,
        input: &W::Input,
        post: &mut Post<'_>,
    ) -> Result<(), Error> {
        if post.stopped() {
            return Err(stopped());
        }
        black_box(self.reader.look(&mut Counted { tx, rows: &mut post.rows }, input)?);
        Ok(())
    }

    fn sweep<T: ReadTransaction>(&self, tx: &mut T, post: &mut Post<'_>) -> Result<(), Error> {
        if post.stopped() {
            return Err(stopped());
        }
        black_box(self.reader.sweep(&mut Counted { tx, rows: &mut post.rows })?);
        Ok(())
    }
}

/// Ends a transaction that might be retried for ever.
fn stopped() -> Error {
    Error::user("the turn is over")
}

fn unless_stopped(outcome: Result<(), Error>, post: &mut Post<'_>) -> Result<(), Error> {
    match outcome {
        Ok(()) => post.looks += 1,
        Err(Error::User(_)) if post.stopped() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Reads lines of memory at random, as many as `pace` rows a second have.
fn read_memory(post: &mut Post<'_>, memory: &[u64], pace: f64) {
    const LINE: usize = 8;
    let lines = (memory.len() / LINE) as u64;
    let (begin, mut word, mut sum) = (Instant::now(), 1, 0);
    while !post.stopped() {
        if post.rows as f64 > pace * begin.elapsed().as_secs_f64() {
            spin_loop();
            continue;
        }
        for _ in 0..BATCH * LINES_PER_ROW {
            word = scatter(word);
            let line = (u128::from(word) * u128::from(lines)) >> 64;
            sum ^= memory[line as usize * LINE];
        }
        post.rows += BATCH;
        black_box(sum);
    }
}

/// A step of a generator of random words.
fn scatter(word: u64) -> u64 {
    let mut next = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    next = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    next ^ (next >> 27)
}

/// Counts the rows that are read.
struct Counted<'a, T> {
    tx: &'a mut T,
    rows: &'a mut u64,
}

impl<T: ReadTransaction> ReadTransaction for Counted<'_, T> {
    fn get_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
    ) -> Result<Option<C::Value>, Error> {
        *self.rows += 1;
        self.tx.get_columns(key, columns)
    }

    fn prefetch<C: Columns>(&mut self, rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone) {
        self.tx.prefetch(rows);
    }

    fn scan_columns<C: Columns>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        mut visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.tx.scan_columns(scan, columns, |key, value| {
            *self.rows += 1;
            visit(key, value)
        })
    }

    fn scan_index<I: Index>(
        &mut self,
        scan: Scan<I>,
        mut visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.tx.scan_index(scan, |key, primary| {
            *self.rows += 1;
            visit(key, primary)
        })
    }

    fn find_key<I: Index>(
        &mut self,
        columns: I::Columns,
    ) -> Result<Option<<I::Table as Relation>::Key>, Error> {
        *self.rows += 1;
        self.tx.find_key::<I>(columns)
    }
}

/// Prints the table and writes the file.
fn publish(report: &SnapshotsReport, outputs: &Outputs) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::run(format!("the report cannot be written as JSON: {error}")))?;
    // A reader that went away, such as `head`, is no failure of the benchmark.
    if outputs.json_to_stdout() {
        eprint!("{}", render(report, terminal_with_colours(&std::io::stderr())));
        let _ = writeln!(std::io::stdout(), "{json}");
        return Ok(());
    }
    let text = render(report, terminal_with_colours(&std::io::stdout()));
    let _ = std::io::stdout().write_all(text.as_bytes());
    match &outputs.json {
        Some(path) => super::write(path, &format!("{json}\n")),
        None => Ok(()),
    }
}

/// The report as text.
fn render(report: &SnapshotsReport, colours: bool) -> String {
    let mut text = table::machine(&report.machine);
    let join = |pairs: &mut dyn Iterator<Item = String>| pairs.collect::<Vec<_>>().join(", ");
    let parameters = join(&mut report.parameters.iter().map(|(name, value)| format!("{name} {value}")));
    let settings = join(&mut report.settings.iter().map(|(name, value)| format!("{name} {value}")));
    let _ = writeln!(text, "{}: {parameters}\nseed {}, {settings}\n", report.workload, report.seed);
    let mut table = table::empty(colours);
    let titles = [
        "protocol",
        "interval",
        "beside",
        "writer tx/s",
        "of none",
        "quartiles",
        "of memory",
        "quartiles",
        "on core",
        "reader tx/s",
        "rows/s",
        "kept/tx",
        "old versions",
    ];
    table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for result in &report.results {
        let share =
            |ratios: Option<[f64; 3]>| ratios.map_or("-".into(), |[_, middle, _]| format!("{middle:.3}"));
        let spread = |ratios: Option<[f64; 3]>| {
            ratios.map_or("-".into(), |[low, _, high]| format!("{low:.2}-{high:.2}"))
        };
        table.add_row([
            result.protocol.clone(),
            format!("{} ms", result.interval_ms),
            result.reader.clone(),
            rate(result.writer_tps),
            share(result.of_none),
            spread(result.of_none),
            share(result.of_memory),
            spread(result.of_memory),
            percent(result.core_share),
            rate(result.looks),
            rate(result.rows),
            format!("{:.2}", result.versions_kept),
            bytes(result.version_bytes),
        ]);
    }
    table::align(&mut table, 3);
    text.push_str(&table::lines(&table));
    text.push('\n');
    for check in &report.failed {
        let head = table::paint("FAILED", "31;1", colours);
        let _ = writeln!(text, "{head} {}: {}", check.name, check.detail);
    }
    if report.failed.is_empty() {
        let _ = writeln!(text, "{} all checks held after every round", table::paint("ok", "32;1", colours));
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_has_every_place_in_the_order() {
        let all = Reader::ALL;
        let firsts: Vec<Reader> = (0..18).map(|round| order(&all, round)[0]).collect();
        assert!(firsts.contains(&Reader::None) && firsts.contains(&Reader::SweepsSerializable));
        assert!(all.iter().filter(|reader| firsts.contains(reader)).count() > 7, "{firsts:?}");
        assert!((0..18).all(|round| all.iter().all(|reader| order(&all, round).contains(reader))));
    }

    #[test]
    fn ratios_are_within_a_round() {
        let readers = [Reader::None, Reader::MemoryLooks, Reader::Looks];
        let beside = |rates: [f64; 3]| Beside {
            turns: rates.map(|writer_tps| Turn { writer_tps, ..Turn::default() }).to_vec(),
            ..Beside::default()
        };
        let mut results = [beside([100.0, 50.0, 10.0]), beside([80.0, 40.0, 8.0]), beside([40.0, 20.0, 8.0])];
        summarise(&readers, &mut results);
        assert_eq!(results[2].of_none, Some([0.4, 0.4, 0.8]));
        assert_eq!(results[2].of_memory, Some([0.5, 0.5, 1.0]));
        assert_eq!((results[1].of_memory, results[0].of_none), (None, Some([1.0; 3])));
    }
}
