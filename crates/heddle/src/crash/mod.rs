//! `heddle crash`: kills a process at work on a directory, again and again, and looks what is left.
//!
//! ```text
//!  parent ---starts---> child: opens the directory, commits, says which commits are durable
//!     |  <--- pipe ------ |
//!     |----- SIGKILL ---> x
//!     |---starts---> child: opens the directory under another protocol, tells all that it finds
//!     compares
//! ```

pub mod child;
mod expect;
mod plan;
mod rows;
mod wire;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::report::table::{align, empty, lines, paint};
use crate::terminal::terminal_with_colours;
use child::Role;
use clap::{Args, ValueEnum};
use expect::{Expected, Said};
use plan::{Copies, LIFE, Moment, Plan};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Write, stdout};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wire::{Message, Opened};

/// Arguments of `heddle crash`.
#[derive(Args, Debug)]
pub struct CrashArguments {
    /// How many times a workload is killed
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub cycles: u64,
    /// Seed of workloads and kills; what they meet is up to the machine
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Where the databases go; what is not removed there is evidence [default: a new folder in the system's]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Log calls as such in three of four cycles, under a protocol that can
    #[arg(long)]
    pub calls: bool,
    /// Run the workload under this command, which must become it, and kill it no more: it ends by
    /// itself, or when its log fails. `tools/faults` gives `fiu-run`
    #[arg(long, value_name = "COMMAND", num_args = 1.., value_terminator = ";", allow_hyphen_values = true)]
    pub under: Vec<String>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
A test tool. Sessions of all durabilities move money between rows of three tables and an index, and tell the
parent what is durable: each commit, a ticket's, or all before a flush. The parent kills the process with
SIGKILL: at its start, at work, in a checkpoint, during recovery. Then it opens the directory under a
protocol drawn anew and compares. Every acknowledged commit must be there as it was; of each session a
prefix; no part of a transaction and none without those that it builds on; no row that nobody wrote; no
deleted row again; sums conserved; and a second recovery must find what the first did. Full copies, copies that
were continued and what is restored of these are cut off and judged in the same way.

kill -9 proves nothing about fsync: what was written stays in the system's page cache when a process dies.
Power cuts are the simulated disk's (`cargo test`), failing writes and syncs those of tools/faults.

Examples:
  heddle crash
  heddle crash --calls --cycles 1000
  heddle crash --cycles 100000 --seed 7 --dir /data/crash

Exit codes: 0 all was as it must be, 1 something was not: its directory is kept, 2 unusable arguments.";

/// How long a child may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// Transactions of each session where it is not killed.
const TRANSACTIONS: u64 = 150;

/// What all cycles came to.
#[derive(Default)]
struct Totals {
    /// By the moment of the kill: cycles, killed, acknowledged, found.
    moments: [[u64; 4]; Moment::NAMES.len()],
    killed_recoveries: u64,
    checkpoints: u64,
    /// Copies that were looked at, and those that were begun and cut off.
    backups: [u64; 2],
    /// How often one was continued.
    continued: u64,
    /// Copies that were restored and looked at, and restores that were killed.
    restored: [u64; 2],
    torn: u64,
    with_checkpoint: u64,
    /// What failed, where that was asked for.
    failures: BTreeMap<String, u64>,
    openings: BTreeMap<&'static str, u64>,
}

/// Runs the command. True if nothing was found.
pub fn crash(arguments: &CrashArguments) -> Result<bool, Failure> {
    let own = arguments.dir.is_none();
    let dir = arguments.dir.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("heddle-crash-{}-{}", std::process::id(), arguments.seed))
    });
    fs::create_dir_all(&dir).map_err(|error| {
        Failure::usage(format!("--dir {} cannot be made ({error}); name another", dir.display()))
    })?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::run(format!("this program's own file cannot be found: {error}")))?;
    let begun = Instant::now();
    let progress = Progress::new(1);
    let bar = progress.phase(if arguments.under.is_empty() { "killing" } else { "failing" });
    let mut totals = Totals::default();
    let mut expected = Expected::default();
    for cycle in 0..arguments.cycles {
        let place = dir.join(format!("life-{:06}", cycle / LIFE));
        if cycle % LIFE == 0 {
            expected = Expected::default();
            clear(&place)?;
        }
        let parent = Parent { arguments, program: &program, dir: &dir, place: &place, cycle };
        if let Err(what) = parent.cycle(&mut expected, &mut totals) {
            drop((bar, progress));
            let place = place.display();
            return Err(Failure::run(format!(
                "seed {}, cycle {cycle} ({}): {what}; kept: {place}, and {place}.as-left as it was before the \
                 last opening",
                arguments.seed,
                Moment::NAMES[Plan::of(arguments.seed, cycle).moment.number()],
            )));
        }
        if cycle % LIFE == LIFE - 1 || cycle + 1 == arguments.cycles {
            clear(&place)?;
            clear(&as_left(&place))?;
        }
        for number in 0..Copies::MAX {
            clear(&Copies::Full.place(&place, number))?;
        }
        clear(&Copies::restored(&place))?;
        bar.share((cycle + 1) as f64 / arguments.cycles as f64);
        bar.message(format!("cycle {}", cycle + 1));
    }
    drop((bar, progress));
    let _ = fs::remove_file(dir.join("stderr"));
    if own {
        let _ = fs::remove_dir(&dir);
    }
    let text = totals.text(arguments, begun.elapsed(), terminal_with_colours(&stdout()));
    let _ = stdout().write_all(text.as_bytes());
    Ok(true)
}

fn clear(place: &Path) -> Result<(), Failure> {
    remove(place).map_err(|error| Failure::run(format!("{} cannot be removed: {error}", place.display())))
}

/// Removes a folder if it is there.
fn remove(place: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn as_left(place: &Path) -> PathBuf {
    place.with_extension("as-left")
}

/// One cycle's view.
struct Parent<'a> {
    arguments: &'a CrashArguments,
    program: &'a Path,
    dir: &'a Path,
    place: &'a Path,
    cycle: u64,
}

/// A copy that was taken beside a workload.
struct Copy<'a> {
    place: PathBuf,
    /// The first one that went there, and the last one that became whole.
    first: u64,
    last: u64,
    /// What was known before that workload.
    kept: &'a Expected,
}

impl Copy<'_> {
    /// Complains if what was found lacks something that was acknowledged before the copy of a number was begun, or the cause of something.
    fn judge(&self, parent: &Parent, number: u64, ran: &Ran, found: &[Message]) -> Result<(), String> {
        let before = ran.messages.iter().take_while(|message| **message != Message::BackupBegun(number));
        let durable = before.filter_map(|message| match message {
            Message::Durable(session, number, digest) => Some((*session, *number, *digest)),
            _ => None,
        });
        let said = Said { opened: true, durable: durable.collect(), ..Said::default() };
        self.kept.clone().compare(parent.arguments.seed, parent.cycle, &said, found).map(drop)
    }
}

/// A child that has ended.
struct Ran {
    messages: Vec<Message>,
    status: ExitStatus,
    killed: bool,
}

impl Parent<'_> {
    fn cycle(&self, expected: &mut Expected, totals: &mut Totals) -> Result<(), String> {
        let seed = self.arguments.seed;
        let plan = Plan::of(seed, self.cycle);
        let fails = !self.arguments.under.is_empty();
        let moment = if fails { Moment::End } else { plan.moment };
        let ran = self.run(Role::Work, moment, &self.arguments.under)?;
        let (said, opened) = self.said(&ran, totals, fails)?;
        if let Some(opened) = opened
            && opened.digest != expected.digest
        {
            return Err("opening the directory again found something else than the time before".to_owned());
        }
        self.link().map_err(|error| format!("the files cannot be linked: {error}"))?;
        for moment in &plan.killed_recoveries {
            let ran = self.run(Role::Look, Moment::Start(*moment), &[])?;
            totals.killed_recoveries += u64::from(ran.killed);
            ran.check(&[0])?;
        }
        let (opened, found) = self.look()?;
        let kept = expected.clone();
        let new = expected.compare(seed, self.cycle, &said, &found)?;
        self.copies(&plan, &ran, &kept, totals)?;
        expected.digest = opened.digest;
        let [cycles, killed, acknowledged, commits] = &mut totals.moments[moment.number()];
        *cycles += 1;
        *killed += u64::from(ran.killed);
        *acknowledged += said.commits();
        *commits += new;
        totals.torn += opened.torn;
        totals.with_checkpoint += u64::from(opened.rows > 0);
        *totals.openings.entry(plan.look.kind.name()).or_default() += 1;
        Ok(())
    }

    /// Opens the directory, and hears all that is in it.
    fn look(&self) -> Result<(Opened, Vec<Message>), String> {
        let looked = self.run(Role::Look, Moment::End, &[])?;
        looked.check(&[0])?;
        let mut found = looked.messages;
        if found.pop() != Some(Message::Ended(Vec::new())) {
            return Err("the child that looked did not come to its end".to_owned());
        }
        match found.first() {
            Some(Message::Opened(opened)) => Ok((*opened, found)),
            _ => Err("the child that looked did not open the directory".to_owned()),
        }
    }

    /// Looks at the copies: each is a whole one, as of a moment when it was taken, or there is none.
    fn copies(&self, plan: &Plan, ran: &Ran, kept: &Expected, totals: &mut Totals) -> Result<(), String> {
        let ended = |number| ran.messages.contains(&Message::BackupEnded(number));
        match plan.copies {
            Copies::None => Ok(()),
            Copies::Full => (0..Copies::MAX).try_for_each(|number| {
                let place = plan.copies.place(self.place, number);
                let copy = Copy { place, first: number, last: number, kept };
                self.copy(&copy, ran, totals).map(drop).map_err(|what| format!("backup {number}: {what}"))
            }),
            Copies::Continued => {
                let last = (0..Copies::MAX).rev().find(|number| ended(*number)).unwrap_or(0);
                let copy = Copy { place: plan.copies.place(self.place, 0), first: 0, last, kept };
                let told = |what: String| format!("the backup that was continued {last} times: {what}");
                self.restored(plan, &copy, ran, totals).map_err(|what| told(format!("restored: {what}")))?;
                if self.copy(&copy, ran, totals).map_err(told)? {
                    totals.continued += (1..=last).filter(|number| ended(*number)).count() as u64;
                }
                Ok(())
            }
        }
    }

    /// Looks at a copy, if there is one: it holds all that was acknowledged before it was begun, and nothing of which it lacks
    /// the cause. One that was cut off has no manifest.
    fn copy(&self, copy: &Copy, ran: &Ran, totals: &mut Totals) -> Result<bool, String> {
        if !ran.messages.contains(&Message::BackupBegun(copy.first)) {
            return Ok(false);
        }
        if !Copies::is_whole(&copy.place) {
            totals.backups[1] += 1;
            return match ran.messages.contains(&Message::BackupEnded(copy.last)) {
                true => Err("it was whole, and is gone".to_owned()),
                false => Ok(false),
            };
        }
        let (_, found) = Parent { place: &copy.place, ..*self }.look()?;
        copy.judge(self, copy.last, ran, &found)?;
        totals.backups[0] += 1;
        Ok(true)
    }

    /// Restores a copy, perhaps after a restore that is killed, and looks at what came of it.
    fn restored(&self, plan: &Plan, copy: &Copy, ran: &Ran, totals: &mut Totals) -> Result<(), String> {
        if !Copies::is_whole(&copy.place) {
            return Ok(());
        }
        let place = Copies::restored(self.place);
        let parent = Parent { place: &copy.place, ..*self };
        if let Some(moment) = plan.killed_restore {
            let ran = parent.run(Role::Restore, Moment::Start(moment), &[])?;
            ran.check(&[0])?;
            totals.restored[1] += u64::from(ran.killed);
        }
        // What a killed one left opens, or has no manifest.
        if !Copies::is_whole(&place) {
            remove(&place).map_err(|error| format!("{} cannot be removed: {error}", place.display()))?;
            parent.run(Role::Restore, Moment::End, &[])?.check(&[0])?;
        }
        let (_, found) = Parent { place: &place, ..*self }.look()?;
        let at_least = if plan.restores_latest { copy.last } else { copy.first };
        copy.judge(self, at_least, ran, &found)?;
        totals.restored[0] += 1;
        Ok(())
    }

    /// What a workload said; complains about what none may say.
    fn said(&self, ran: &Ran, totals: &mut Totals, fails: bool) -> Result<(Said, Option<Opened>), String> {
        ran.check(if fails { &[0, child::FAILED] } else { &[0] })?;
        let mut said = Said::default();
        let (mut found, mut failed) = (None, None);
        for message in &ran.messages {
            match message {
                Message::Opened(opened) => (said.opened, found) = (true, Some(*opened)),
                Message::Durable(session, number, digest) => said.durable.push((*session, *number, *digest)),
                Message::Flushed(session, number) => said.flushed.push((*session, *number)),
                Message::Ended(tried) => said.ended = Some(tried.clone()),
                Message::CheckpointEnded => totals.checkpoints += 1,
                Message::CheckpointFailed(what) if fails => {
                    *totals.failures.entry(what.clone()).or_default() += 1;
                }
                Message::Failed(what) if fails => failed = Some(what.clone()),
                Message::CheckpointFailed(what) | Message::Failed(what) => {
                    return Err(format!("the log failed though nothing was made to fail: {what}"));
                }
                _ => {}
            }
        }
        if let Some(what) = failed {
            *totals.failures.entry(what).or_default() += 1;
        }
        Ok((said, found))
    }

    /// Starts a child, kills it when it is time, and hears it to its end.
    fn run(&self, role: Role, moment: Moment, under: &[String]) -> Result<Ran, String> {
        let io = |doing: &'static str| move |error: std::io::Error| format!("{doing} failed: {error}");
        let stderr = File::create(self.dir.join("stderr")).map_err(io("making a file"))?;
        let mut command = match under.split_first() {
            None => Command::new(self.program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(self.program);
                command
            }
        };
        let role = role.to_possible_value().expect("no role is hidden");
        command.args(["crash-child", "--role", role.get_name(), "--dir"]).arg(self.place);
        command.args(["--seed", &self.arguments.seed.to_string(), "--cycle", &self.cycle.to_string()]);
        if self.arguments.calls {
            command.arg("--calls");
        }
        if !under.is_empty() {
            command.args(["--transactions", &TRANSACTIONS.to_string()]);
        }
        let begun = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", command.get_program().display()))?;
        let mut pipe = child.stdout.take().ok_or("a child has no standard output")?;
        let (send, hear) = channel();
        let reader = std::thread::spawn(move || -> std::io::Result<()> {
            while let Some(message) = Message::read(&mut pipe)? {
                // Whoever hears goes away only with an error of its own.
                let _ = send.send(message);
            }
            Ok(())
        });
        let mut messages = Vec::new();
        let mut checkpoints = 0;
        let mut killed = false;
        let mut due = begun + PATIENCE;
        let mut kills = false;
        if let Moment::Start(after) = moment {
            (due, kills) = (begun + after, true);
        }
        loop {
            match hear.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(message) => {
                    checkpoints += u64::from(message == Message::CheckpointBegun);
                    let after = match (moment, &message) {
                        (Moment::Work(after), Message::Opened(_)) => Some(after),
                        (Moment::Checkpoint(number, after), Message::CheckpointBegun) => {
                            (checkpoints == number).then_some(after)
                        }
                        _ => None,
                    };
                    if let Some(after) = after {
                        (due, kills) = (Instant::now() + after, true);
                    }
                    messages.push(message);
                }
                Err(RecvTimeoutError::Timeout) if killed => return Err("a killed child lives on".to_owned()),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill().map_err(io("killing a child"))?;
                    if !kills {
                        let _ = child.wait();
                        return Err(format!("a child hung for {} s", PATIENCE.as_secs()));
                    }
                    (killed, due) = (true, Instant::now() + PATIENCE);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().map_err(io("waiting for a child"))?;
        reader.join().map_err(|_| "the reader panicked")?.map_err(io("reading from a child"))?;
        let stderr = fs::read_to_string(self.dir.join("stderr")).map_err(io("reading a file"))?;
        if !stderr.trim().is_empty() {
            return Err(format!("a child said: {}", stderr.trim().replace('\n', " / ")));
        }
        Ok(Ran { messages, status, killed: killed && status.signal() == Some(9) })
    }

    /// Keeps the files as they are now. Nothing writes to them any more: an opening makes new ones.
    fn link(&self) -> std::io::Result<()> {
        let kept = as_left(self.place);
        remove(&kept)?;
        fs::create_dir(&kept)?;
        let files = match fs::read_dir(self.place) {
            // It was killed before it made the directory.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        for file in files {
            let file = file?;
            fs::hard_link(file.path(), kept.join(file.file_name()))?;
        }
        Ok(())
    }
}

impl Ran {
    /// Complains about an end that is neither a kill nor one of these exit codes, and about violations.
    fn check(&self, codes: &[u8]) -> Result<(), String> {
        for message in &self.messages {
            if let Message::Violation(what) = message {
                return Err(what.clone());
            }
        }
        let is_fine = self.killed || codes.iter().any(|code| self.status.code() == Some((*code).into()));
        if is_fine { Ok(()) } else { Err(format!("a child ended with {}", self.status)) }
    }
}

impl Said {
    /// How many commits were acknowledged.
    fn commits(&self) -> u64 {
        self.durable.len() as u64
    }
}

impl Totals {
    fn text(&self, arguments: &CrashArguments, elapsed: Duration, colours: bool) -> String {
        let mut table = empty(colours);
        table.set_header(["killed", "cycles", "by the signal", "acknowledged commits", "commits found"]);
        for (name, figures) in Moment::NAMES.iter().zip(&self.moments).filter(|(_, figures)| figures[0] > 0) {
            table
                .add_row(std::iter::once((*name).to_owned()).chain(figures.map(|figure| figure.to_string())));
        }
        align(&mut table, 1);
        let mut text = lines(&table);
        let list = |pairs: Vec<String>| pairs.join(", ");
        let openings = self.openings.iter().map(|(name, count)| format!("{name} {count}")).collect();
        text += &format!(
            "\n{} recoveries killed, {} torn tails cut off, {} checkpoints told, {} openings from a checkpoint\n\
             {} backups looked at, {} cut off, continued {} times; {} restored, {} restores killed\n\
             looked at under {}\n",
            self.killed_recoveries,
            self.torn,
            self.checkpoints,
            self.with_checkpoint,
            self.backups[0],
            self.backups[1],
            self.continued,
            self.restored[0],
            self.restored[1],
            list(openings)
        );
        if !arguments.under.is_empty() {
            let faults: u64 = self.failures.values().sum();
            let failures = self.failures.iter().map(|(what, count)| format!("{what} {count}")).collect();
            text += &format!("{faults} failures came through: {}\n", list(failures));
        }
        let [cycles, _, acknowledged, _] =
            self.moments.iter().fold([0; 4], |sum, figures| std::array::from_fn(|at| sum[at] + figures[at]));
        text += &format!(
            "{} {cycles} cycles, seed {}, in {:.1} s: all {acknowledged} acknowledged commits were there, and \
             everything else was as it must be\n",
            paint("ok", "32;1", colours),
            arguments.seed,
            elapsed.as_secs_f64()
        );
        text
    }
}
