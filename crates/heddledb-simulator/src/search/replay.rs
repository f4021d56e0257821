//! A simulation again, with every step written down.
//!
//! ```text
//!   step   virtual us  who        what
//!     17        0.412  worker 1   reads   history_ordered[1] stamp: epoch 1 #3
//!     18        0.413  worker 1   -- committed at 0x1000004
//! ```
//!
//! Words have the names that the engine gives them; others are numbered in the order in which they are first
//! touched. An address in a word is not printed, since it is another in each run: the same spec gives the
//! same text, byte for byte.

use super::{Spec, Verdict, play, verdict};
use heddledb_engine_simulated::sync::simulation::{Costs, Fate, Kind, Observed, What, Who};
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// What of a replay is written down.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The first step.
    pub from: Option<u64>,
    /// The last step.
    pub to: Option<u64>,
    /// Only this worker.
    pub worker: Option<usize>,
    /// Only accesses to words whose names contain this, and what is said of it.
    pub record: Option<String>,
    /// Accesses to words without a name, too.
    pub unnamed: bool,
}

impl Options {
    fn shows(&self, step: &Observed) -> bool {
        let worker = self.worker.is_none_or(|worker| step.who == Some(Who::Worker(worker)));
        let within =
            self.from.is_none_or(|from| step.step >= from) && self.to.is_none_or(|to| step.step <= to);
        let wanted = |text: &str| self.record.as_deref().is_none_or(|record| text.contains(record));
        let of_interest = match &step.what {
            What::Access { name, .. } => wanted(name) && (self.unnamed || !name.starts_with("word ")),
            What::Note(text) => wanted(text),
            What::Point(_) | What::Waits => self.record.is_none(),
            What::Fate(_) => true,
        };
        worker && within && of_interest && step.who.is_some()
    }
}

/// Runs a simulation again and writes what happens to `sink`: what it is, its steps, its verdict.
///
/// # Errors
/// Those of the sink.
pub fn replay(spec: Spec, options: &Options, sink: &mut dyn Write) -> io::Result<Verdict> {
    let lines: Rc<RefCell<Vec<String>>> = Rc::default();
    let (told, wanted, costs) = (Rc::clone(&lines), options.clone(), Costs::default());
    let observer = Box::new(move |step: &Observed| {
        if wanted.shows(step) {
            told.borrow_mut().push(line(step, &costs));
        }
    });
    let (scenario, run) = play(spec, Some(observer));
    let verdict = verdict(spec, &scenario, &run, true);
    writeln!(sink, "{spec}")?;
    write!(sink, "{scenario}")?;
    writeln!(sink, "\n    step  virtual us  who        what")?;
    for line in lines.borrow().iter() {
        writeln!(sink, "{line}")?;
    }
    writeln!(sink, "\nhistory:")?;
    for (number, entry) in run.record.entries.borrow().iter().enumerate() {
        let attempt = &entry.attempt;
        writeln!(
            sink,
            "T{number} session {} from {} to {} {:?} stamp {:#x}: {:?}",
            attempt.session, attempt.begin, attempt.end, attempt.status, attempt.stamp, attempt.ops
        )?;
    }
    if let Some(failure) = &run.failure {
        writeln!(sink, "\nended: {failure}")?;
    }
    match &verdict.violation {
        Some(what) => writeln!(sink, "\nverdict after {} steps: {what}", verdict.steps)?,
        None => writeln!(sink, "\nverdict after {} steps: lawful", verdict.steps)?,
    }
    Ok(verdict)
}

fn line(step: &Observed, costs: &Costs) -> String {
    let who = match step.who {
        Some(Who::Worker(number)) => format!("worker {number}"),
        Some(Who::Service(number)) => format!("service {number}"),
        None => "the body".to_owned(),
    };
    let what = match &step.what {
        What::Access { name, kind, before, after } => access(name, *kind, *before, *after),
        What::Point(name) => format!("-- at the point `{name}`"),
        What::Note(text) => format!("-- {text}"),
        What::Waits => "-- waits".to_owned(),
        What::Fate(Fate::Stall(cycles)) => format!("-- IS STALLED for {cycles} cycles, or steps"),
        What::Fate(Fate::Kill) => "-- IS KILLED".to_owned(),
    };
    let time = costs.nanoseconds(step.clock) as f64 / 1_000.0;
    format!("{:8} {time:11.3}  {who:10} {what}", step.step)
}

fn access(name: &str, kind: Kind, before: u64, after: u64) -> String {
    let (old, new) = (value(name, before), value(name, after));
    match kind {
        Kind::Load => format!("reads   {name}: {old}"),
        Kind::Store => format!("writes  {name}: {old} -> {new}"),
        Kind::Update if before == after => format!("leaves  {name}: {old}"),
        Kind::Update => format!("updates {name}: {old} -> {new}"),
    }
}

/// A word as text. Addresses of the program lie between 2^44 and 2^48; no other word does, unless a test
/// counts that far.
fn value(name: &str, word: u64) -> String {
    const LOCK: u64 = 1 << 63;
    const ABSENT: u64 = 1 << 62;
    if (1 << 44..1 << 48).contains(&word) {
        return "(an address)".to_owned();
    }
    if word == u64::MAX {
        return if name.starts_with("epoch") { "none" } else { "sealed" }.to_owned();
    }
    let is_time = name.contains("] stamp") || name.contains("] rts");
    if !is_time {
        return if word < 1 << 32 { word.to_string() } else { format!("{word:#x}") };
    }
    let time = word & (ABSENT - 1);
    let mut text = format!("epoch {} #{}", time >> 24, time & ((1 << 24) - 1));
    if word & ABSENT != 0 {
        text += ", absent";
    }
    if word & LOCK != 0 {
        text += ", locked";
    }
    text
}
