//! Crashes: does a database keep what it promised, wherever the disk fails?
//!
//! A [`Workload`] is a few lives of one directory, drawn from a seed: transactions over two tables with
//! their indexes and one whose sums are also added to later, in several sessions, with every kind of commit, as rows or as calls in the
//! log, flushes and checkpoints, reopened under other protocols, or all under one. It is run once to count the operations of its disk. Then, for each operation, it is
//! run again with a [`Failure`] there, and what is found after the power is back is held against a
//! *ledger* of all commits that is kept outside:
//!
//! 1. what was acknowledged as durable is there;
//! 2. the rows are those after a prefix of the commits, up to the durable epoch that recovery reports;
//!    indexes agree with their tables, though each table is opened with its index now, and without it then, and one
//!    with other columns, to which its rows are migrated;
//! 3. the next recovery finds the same, also if this one was cut off at any operation;
//! 4. what was dropped stays dropped while the database is worked with and crashes again;
//! 5. after a failed write or sync nothing is acknowledged any more;
//! 6. a log that goes on after a failure, with more failures on the way, keeps all that was committed: it is durable
//!    when the log says so, and until then what survives is a prefix;
//! 7. what is opened to be read shows the same, and not an operation of the disk writes;
//! 8. damage at rest is refused with its place, or loses nothing but what a power cut may lose too, or is
//!    salvaged as a prefix;
//! 9. a copy that is taken beside all this holds all that was committed, or does not open, wherever its own disk fails;
//! 10. one that is continued with the log, over crashes, holds all that was committed or is as before; it is refused where its link
//!     to the log is broken, and what is restored from it is what its epochs say.
//!
//! One crash with a recovery and a look is a *point*. Everything is deterministic: a violation tells the
//! workload, the failure and the operation, and [`replay`] runs that again.

pub mod copies;
pub mod damage;
pub mod history;
pub mod kept;
pub mod ledger;
pub mod life;
pub mod model;
mod spot;
pub mod sums;

pub use spot::{Failure, Spot, Violation};

use damage::{Lawful, Map};
use heddledb::LogError;
use heddledb::internals::log::Name;
use heddledb::internals::random::Random;
use heddledb::protocol::Kind;
use heddledb::storage::{Fault, Simulated, Storage};
use ledger::Ledger;
use life::{End, Life, Report, Settings};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Points, by what kind of crash they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations of the disk at which something went wrong.
    pub spots: u64,
    /// Crashes while a workload ran, by failure, in the order of [`Failure::ALL`].
    pub first: [u64; 7],
    /// Crashes while a directory was recovered.
    pub in_recovery: u64,
    /// Crashes after a recovery, at once or after some more work.
    pub again: u64,
    /// Points at which the rows were migrated after the crash; and those at which a recovery was cut that migrates them.
    pub migrated: [u64; 2],
    /// How often a failed log went on.
    pub resumed: u64,
    /// How often a copy was continued, and how often that was refused.
    pub continued: [u64; 2],
    /// Damage that was refused, that lost nothing, that was cut off as a torn tail, that was salvaged.
    pub damage: [u64; 4],
}

impl Counts {
    /// All points.
    pub fn points(&self) -> u64 {
        self.first.iter().sum::<u64>() + self.in_recovery + self.again
    }

    fn add(&mut self, other: &Self) {
        self.spots += other.spots;
        self.in_recovery += other.in_recovery;
        self.again += other.again;
        self.resumed += other.resumed;
        self.migrated.iter_mut().zip(other.migrated).for_each(|(sum, more)| *sum += more);
        self.continued.iter_mut().zip(other.continued).for_each(|(sum, more)| *sum += more);
        self.first.iter_mut().zip(other.first).for_each(|(sum, more)| *sum += more);
        self.damage.iter_mut().zip(other.damage).for_each(|(sum, more)| *sum += more);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, count: u64| writeln!(f, "{name:44} {count:>9}");
        line("operations at which something went wrong", self.spots)?;
        for (failure, count) in Failure::ALL.iter().zip(self.first) {
            line(&format!("points: {}", failure.name()), count)?;
        }
        line("points: cut during a recovery", self.in_recovery)?;
        line("points: again, after a recovery", self.again)?;
        line("points in all", self.points())?;
        line("points with a migration after the crash", self.migrated[0])?;
        line("points cut in an opening with a migration", self.migrated[1])?;
        line("times that a failed log went on", self.resumed)?;
        line("times that a copy was continued", self.continued[0])?;
        line("times that a copy was refused", self.continued[1])?;
        for (name, count) in
            ["refused", "without loss", "cut off as a tail", "salvaged"].iter().zip(self.damage)
        {
            line(&format!("damage {name}"), count)?;
        }
        Ok(())
    }
}

/// Some lives of one directory.
#[derive(Clone, Debug)]
pub struct Workload {
    under: Option<Kind>,
    seed: u64,
    lives: Vec<(Settings, u64)>,
}

/// Draws of different kinds from one seed.
fn draw(seed: u64, salt: u64) -> Random {
    Random::new(Random::new(seed).next_u64() ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

impl Workload {
    /// The workload of a seed, under a protocol or several.
    pub fn new(seed: u64, under: Option<Kind>) -> Self {
        let mut random = draw(seed, 1);
        let lives = 1 + random.below(3);
        let life = |_| (Settings::draw(&mut random, under), 4 + random.below(24));
        Self { under, seed, lives: (0..lives).map(life).collect() }
    }

    /// Runs it; nothing fails before operation `fails_at`. True if it came to its end.
    fn run(&self, disk: &Simulated, fails_at: u64, ledger: &mut Ledger) -> Result<bool, String> {
        for (number, &(settings, steps)) in self.lives.iter().enumerate() {
            let random = draw(self.seed, 100 + number as u64);
            let life = Life { disk, settings, random, steps, fails_at, ledger };
            match life.live().map_err(|what| format!("in life {number}, {what}"))? {
                End::Closed(_) => {}
                End::Refused(error) if disk.operations() <= fails_at => {
                    return Err(format!("in life {number}, it was not opened again: {error}"));
                }
                End::Refused(_) | End::Stopped => return Ok(false),
            }
        }
        Ok(true)
    }

    /// How many operations its disk does.
    ///
    /// # Errors
    /// A violation without any failure.
    pub fn operations(&self) -> Result<u64, Violation> {
        let disk = Simulated::new();
        let spot = Spot { under: self.under, workload: self.seed, failure: Failure::Cut, at: u64::MAX };
        let end = guarded(spot, || self.run(&disk, u64::MAX, &mut Ledger::default()))?;
        if end { Ok(disk.operations()) } else { Err(Violation { spot, what: "it stopped".to_owned() }) }
    }
}

/// Panics are violations too.
fn guarded<R>(spot: Spot, run: impl FnOnce() -> Result<R, String>) -> Result<R, Violation> {
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("it panicked: {}", text.unwrap_or_default()))
    });
    outcome.map_err(|what| Violation { spot, what })
}

/// The points of one spot.
struct Family {
    under: Option<Kind>,
    random: Random,
    counts: Counts,
}

/// Power cuts drawn after each crash.
const CUTS: u64 = 3;
/// In one of so many spots every operation of the recovery is a point too.
const RECOVERIES: u64 = 12;
/// The same after a kill.
const KILL_RECOVERIES: u64 = 2;
/// Crashes after the first, with some work before each.
const MORE_CRASHES: u64 = 3;
/// Damages drawn at each spot.
const DAMAGES: u64 = 4;

/// Runs the points of a spot.
///
/// # Errors
/// The first promise that was broken.
pub fn replay(spot: Spot) -> Result<Counts, Violation> {
    let salt = 1_000 + spot.at * 8 + spot.failure as u64;
    let mut family =
        Family { under: spot.under, random: draw(spot.workload, salt), counts: Counts::default() };
    family.counts.spots = 1;
    guarded(spot, || family.run(spot))?;
    Ok(family.counts)
}

impl Family {
    fn run(&mut self, spot: Spot) -> Result<(), String> {
        let (disk, mut ledger) = (Simulated::new(), Ledger::default());
        disk.fail(spot.at, spot.failure.fault());
        let fails_at = if spot.failure.is_harmless() { u64::MAX } else { spot.at };
        let ended = Workload::new(spot.workload, spot.under).run(&disk, fails_at, &mut ledger)?;
        self.counts.resumed += ledger.resumed;
        self.counts.continued[0] += ledger.continued;
        self.counts.continued[1] += ledger.refused;
        if spot.failure.is_harmless() && !ended {
            return Err("it stopped, though nothing failed".to_owned());
        }
        if spot.failure == Failure::Damage {
            return self.damage(&disk, &ledger);
        }
        // Recovery trusts more after a kill, when the system's memory is there, than it may after a cut.
        let odds = if spot.failure == Failure::Kill { KILL_RECOVERIES } else { RECOVERIES };
        let is_thorough = spot.at % odds == spot.workload % odds;
        let killed = !matches!(spot.failure, Failure::Cut) && !spot.failure.is_harmless();
        if killed {
            self.first(spot, &disk.after_kill(), ledger.clone(), "after a kill", is_thorough)?;
        }
        if spot.failure != Failure::Kill {
            for number in 0..CUTS {
                let seed = self.random.next_u64();
                let left = disk.after_power_cut(seed);
                let name = format!("after power cut {number}");
                self.first(spot, &left, ledger.clone(), &name, is_thorough && number == 0)?;
            }
        }
        Ok(())
    }

    /// The first crash has left a disk.
    fn first(
        &mut self,
        spot: Spot,
        disk: &Simulated,
        mut ledger: Ledger,
        name: &str,
        is_thorough: bool,
    ) -> Result<(), String> {
        let told = |what: String| format!("{name}: {what}");
        if is_thorough {
            self.in_recovery(disk, &ledger).map_err(told)?;
        }
        let read = self.read(disk, &ledger).map_err(|what| format!("{name}, opened to be read: {what}"))?;
        let migrated = ledger.migrated;
        let report = self.recover(disk, &mut ledger).map_err(told)?;
        self.meets(migrated, &ledger);
        if read.is_some_and(|read| read.durable != report.durable) {
            return Err(format!("{name}: {read:?} was found to be read, then {report:?}"));
        }
        self.counts.first[spot.failure as usize] += 1;
        // It was open, so what was seen is durable.
        let mut then = ledger.clone();
        let left = disk.after_power_cut(self.random.next_u64());
        let again = self.recover(&left, &mut then);
        let again = again.map_err(|what| format!("{name}, recovery and a power cut: {what}"))?;
        if again.durable < report.durable || (again.durable != report.durable && !report.changed) {
            let (first, second) = (report.durable, again.durable);
            return Err(format!("{name}: epoch {first} was durable, after the next recovery {second}"));
        }
        self.meets(ledger.migrated, &then);
        self.counts.again += 1;
        self.go_on(&disk.after_kill(), ledger).map_err(|what| format!("{name} and a recovery, {what}"))
    }

    /// Cuts the power at each operation of a recovery.
    fn in_recovery(&mut self, disk: &Simulated, ledger: &Ledger) -> Result<(), String> {
        let settings = Settings::draw(&mut self.random, self.under);
        let random = Random::new(self.random.next_u64());
        for at in 0.. {
            let copy = disk.after_kill();
            copy.fail(at, Fault::PowerCut);
            let random = random.clone();
            let ledger_then = &mut ledger.clone();
            let life = Life { disk: &copy, settings, random, steps: 0, fails_at: at, ledger: ledger_then };
            let told = |what: String| format!("operation {at} of the recovery cut off: {what}");
            let end = life.live().map_err(told)?;
            if let End::Closed(_) = end
                && !copy.is_off()
            {
                // So were those before, that were cut off.
                self.counts.migrated[1] += if ledger_then.migrated > ledger.migrated { at } else { 0 };
                return Ok(());
            }
            // If it was open, what was seen is durable; if not, what it would have dropped may be gone.
            let mut after = ledger_then.clone();
            let left = copy.after_power_cut(self.random.next_u64());
            self.recover(&left, &mut after).map_err(told)?;
            self.meets(ledger_then.migrated, &after);
            self.counts.in_recovery += 1;
        }
        Ok(())
    }

    /// Works on a recovered disk for a while and crashes again, several times: nothing that was dropped may
    /// come back.
    fn go_on(&mut self, disk: &Simulated, mut ledger: Ledger) -> Result<(), String> {
        let (mut disk, ledger) = (disk.clone(), &mut ledger);
        for crash in 1..=MORE_CRASHES {
            let (at, migrated) = (30 + self.random.below(150), ledger.migrated);
            disk.fail(at, Fault::PowerCut);
            let settings = Settings::draw(&mut self.random, self.under);
            let random = Random::new(self.random.next_u64());
            let steps = 4 + self.random.below(24);
            let life = Life { disk: &disk, settings, random, steps, fails_at: at, ledger };
            match life.live().map_err(|what| format!("more work, {crash}: {what}"))? {
                End::Refused(error) if disk.operations() <= at => {
                    return Err(format!("more work, {crash}: it was not opened again: {error}"));
                }
                _ => {}
            }
            disk = disk.after_power_cut(self.random.next_u64());
            // The next life recovers it; the last is only looked at.
            if crash == MORE_CRASHES {
                self.recover(&disk, ledger).map_err(|what| format!("{crash} more crashes: {what}"))?;
            }
            self.meets(migrated, ledger);
            self.counts.again += 1;
        }
        Ok(())
    }

    /// Counts a point if rows were migrated at it, so many times having been known before.
    fn meets(&mut self, before: u64, ledger: &Ledger) {
        self.counts.migrated[0] += u64::from(ledger.migrated > before);
    }

    /// Opens a disk to be read, and looks; nothing is found where there is no manifest yet.
    fn read(&mut self, disk: &Simulated, ledger: &Ledger) -> Result<Option<Report>, String> {
        let settings = Settings::for_a_look(&mut self.random).reading(disk);
        let random = Random::new(self.random.next_u64());
        let (ledger, is_there) =
            (&mut ledger.clone(), disk.list().is_ok_and(|names| names.contains(&manifest())));
        let end = (Life { disk, settings, random, steps: 0, fails_at: u64::MAX, ledger }).live()?;
        match end {
            _ if disk.writes() != 0 => Err(format!("the disk was written to {} times", disk.writes())),
            End::Closed(report) if report.lost == 0 && is_there => Ok(Some(report)),
            End::Refused(_) if !is_there => Ok(None),
            End::Refused(error) => Err(format!("it was not opened: {error}")),
            other => Err(format!("it ended strangely: {other:?}")),
        }
    }

    /// Opens a disk, looks, and closes it.
    fn recover(&mut self, disk: &Simulated, ledger: &mut Ledger) -> Result<Report, String> {
        let settings = Settings::for_a_look(&mut self.random);
        let random = Random::new(self.random.next_u64());
        match (Life { disk, settings, random, steps: 0, fails_at: u64::MAX, ledger }).live()? {
            End::Closed(report) if report.lost == 0 => Ok(report),
            End::Refused(error) => Err(format!("it was not opened: {error}")),
            other => Err(format!("it ended strangely: {other:?}")),
        }
    }

    /// Damages what a crash has left.
    fn damage(&mut self, disk: &Simulated, ledger: &Ledger) -> Result<(), String> {
        let base = disk.after_power_cut(self.random.next_u64());
        let map = Map::of(&base.after_kill()).map_err(|error| format!("it cannot be mapped: {error}"))?;
        let Some(map) = map else { return Ok(()) };
        // Without damage it holds this, and none of it may be lost.
        let ledger = &mut ledger.clone();
        let is_torn = self.recover(&base.after_kill(), ledger)?.torn > 0;
        for _ in 0..DAMAGES {
            let copy = base.after_kill();
            let drawn = map.damage(&copy, &mut self.random).map_err(|error| error.to_string())?;
            let Some(damage) = drawn else { continue };
            let told = |what: String| format!("{damage:?}: {what}");
            self.damaged(&copy, ledger, &damage, is_torn).map_err(told)?;
            self.counts.first[Failure::Damage as usize] += 1;
        }
        Ok(())
    }

    fn damaged(
        &mut self,
        disk: &Simulated,
        ledger: &Ledger,
        damage: &damage::Damage,
        is_torn: bool,
    ) -> Result<(), String> {
        let (settings, seed) = (Settings::for_a_look(&mut self.random), self.random.next_u64());
        let open = |disk: &Simulated, settings: Settings, ledger: &mut Ledger| {
            Life { disk, settings, random: Random::new(seed), steps: 0, fails_at: u64::MAX, ledger }.live()
        };
        let mut strict = ledger.clone();
        if let Lawful::Cut(epoch) = damage.lawful {
            strict.forgive(epoch);
        }
        let salvaging = disk.after_kill();
        match open(disk, settings, &mut strict)? {
            End::Closed(report) => {
                let kind = if damage.lawful == Lawful::Refused { 1 } else { 2 };
                if damage.shows && report.torn == 0 && strict.is_shorter(ledger) {
                    return Err("commits were lost without a word".to_owned());
                }
                self.counts.damage[kind] += 1;
                Ok(())
            }
            End::Stopped => Err("it stopped".to_owned()),
            End::Refused(error) => {
                // Where a round is gone from a file, or another is torn, it may look as if another lacked it.
                let about =
                    if damage.shows && !is_torn { &damage.name[..] } else { generation(&damage.name) };
                match &*error {
                    LogError::Damaged { file, .. } if file.contains(about) => {}
                    other => return Err(format!("the error does not name the file: {other}")),
                }
                self.counts.damage[0] += 1;
                let mut salvaged = ledger.clone();
                salvaged.forgive(damage.salvaged.unwrap_or(0));
                let settings = settings.salvaging();
                match open(&salvaging, settings, &mut salvaged)? {
                    End::Refused(_) if damage.salvaged.is_none() => return Ok(()),
                    End::Closed(report) if report.lost > 0 => {}
                    other => return Err(format!("salvage of {error} ended with {other:?}")),
                }
                self.counts.damage[3] += 1;
                self.recover(&salvaging, &mut salvaged).map_err(|what| format!("after salvage: {what}"))?;
                Ok(())
            }
        }
    }
}

/// The name of the manifest.
fn manifest() -> String {
    Name::Manifest.to_string()
}

/// A log file's name without the number of the file, which comes last.
fn generation(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(front, _)| front)
}

/// Runs all spots of `failures` in workloads from seed `first` on, all lives under a protocol or each under another, until there are
/// `points` points or a promise is broken; calls `progress` with the points so far now and then.
///
/// # Errors
/// The first promise that was broken.
pub fn explore(
    failures: &[Failure],
    under: Option<Kind>,
    first: u64,
    points: u64,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Counts, Violation> {
    let (next, done, stop) = (AtomicU64::new(first), AtomicU64::new(0), AtomicBool::new(false));
    let outcome = Mutex::new(Ok(Counts::default()));
    let one = |workload: u64| -> Result<(), Violation> {
        let operations = Workload::new(workload, under).operations()?;
        for at in 0..operations {
            for &failure in failures {
                if stop.load(Ordering::Relaxed) || done.load(Ordering::Relaxed) >= points {
                    return Ok(());
                }
                let counts = replay(Spot { under, workload, failure, at })?;
                done.fetch_add(counts.points(), Ordering::Relaxed);
                if let Ok(sum) = outcome.lock().expect("nobody panics with it").as_mut() {
                    sum.add(&counts);
                }
            }
            progress(done.load(Ordering::Relaxed));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && done.load(Ordering::Relaxed) < points {
                    if let Err(violation) = one(next.fetch_add(1, Ordering::Relaxed)) {
                        stop.store(true, Ordering::Relaxed);
                        let mut outcome = outcome.lock().expect("nobody panics with it");
                        if outcome.is_ok() {
                            *outcome = Err(violation);
                        }
                    }
                }
            });
        }
    });
    outcome.into_inner().expect("nobody panicked with it")
}
