//! One round: a fresh database, a writer on it, and every reader's turn beside the writer.

use super::arguments::Reader;
use super::report::Turn;
use crate::machine;
use crate::report::model::CheckResult;
use heddledb::protocol::Kind;
use heddledb::table::{Columns, Index, Relation, Scan};
use heddledb::{Database, Error, Onward, ReadTransaction, Session};
use heddledb_workloads::Workload;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One round that is about to be made.
pub struct Round<'a, W> {
    /// The protocol.
    pub kind: Kind,
    /// What the writer runs.
    pub writer: &'a W,
    /// What readers look at.
    pub reader: &'a W,
    /// Who is beside the writer, in this order.
    pub readers: Vec<Reader>,
    /// How old a snapshot's moment may be.
    pub interval: Duration,
    /// Length of a turn.
    pub seconds: Duration,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// The cores for pinning: the writer's, then the reader's.
    pub cores: &'a [usize],
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

/// The turns of a round in their order, and the checks after them.
pub type Outcome = (Vec<(Reader, Turn)>, Vec<CheckResult>);

impl<W: Workload> Round<'_, W> {
    /// Makes the round.
    pub fn run(&self) -> Result<Outcome, Error> {
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

    fn scan_columns<C: Columns, O: Onward>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        mut visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> O,
    ) -> Result<(), Error> {
        self.tx.scan_columns(scan, columns, |key, value| {
            *self.rows += 1;
            visit(key, value)
        })
    }

    fn scan_rows<R: Relation, O: Onward>(
        &mut self,
        scan: Scan<R>,
        mut visit: impl FnMut(R::Key, R::Table) -> O,
    ) -> Result<(), Error> {
        self.tx.scan_rows(scan, |key, row| {
            *self.rows += 1;
            visit(key, row)
        })
    }

    fn scan_index<I: Index, O: Onward>(
        &mut self,
        scan: Scan<I>,
        mut visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> O,
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
