//! `heddle sim calibrate`: one virtual core against one real one.
//!
//! Each load runs for real on one thread, several times in turn with the others, and once on one virtual core
//! (which always gives the same). If the table of costs is right, a transaction takes as long on both. Real
//! times are of the time that the thread had its core: what other programs took is left out.
//!
//! Only what one core does can be calibrated so. What cores cost each other (transfers, upgrades) stays as the
//! table has it; `--sweep` tells what depends on that.
//!
//! Both use the same few thousand inputs in turn, so that both have them in their caches, or have not, to the
//! same degree. What other programs do to the caches makes real runs slower, never faster: so of the real runs
//! the first quarter counts, from the fastest.
//!
//! Memory for new rows is apart: it is the system that hands it out and clears it, at a price that changes
//! several times over from run to run, with what ran before. What is compared is a transaction's own time; the
//! system's is measured by itself, and the entry `fresh` is what it comes to for a word, over all loads.

use super::costs::{read, render};
use super::fit::{Sample, fit};
use crate::arguments::protocols;
use crate::bench::runner::Job;
use crate::bench::settings::{Driver, LogSettings, Settings as RunnerSettings};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::report::table::{align, empty, lines, paint};
use crate::terminal::terminal_with_colours;
use clap::{Args, Command, FromArgMatches};
use comfy_table::{Attribute, Cell};
use heddledb::protocol::{Isolation, Kind};
use heddledb::{Compression, Durability, LogKind};
use heddledb_simulator::point::{Load as VirtualLoad, Point, Queue, Subject};
use heddledb_simulator::simulation::{Costs, Settings};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::arguments::{TpccArguments, WorkloadArguments, YcsbArguments};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Arguments of `heddle sim calibrate`.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArguments {
    /// Protocols, by commas; `all` runs every one
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "all")]
    pub protocol: Vec<String>,
    /// Loads, by commas, such as tpcc-np,ycsb-high [default: all]
    #[arg(long = "load", value_name = "NAME,..", value_delimiter = ',', value_parser = load)]
    pub loads: Vec<&'static str>,
    /// Real runs of each load; the first quarter from the fastest counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub runs: u8,
    /// Length of a real run, after a warm-up of the same length
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = crate::arguments::seconds)]
    pub seconds: f64,
    /// Seed of the data and the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// A file with costs to start from, as `heddle sim costs` prints it
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Cycles in a microsecond [default: as the processor's clock is measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub mhz: Option<u32>,
    /// Fit the costs to the real times
    #[arg(long)]
    pub fit: bool,
    /// Write the fitted costs to this file
    #[arg(long, value_name = "FILE", requires = "fit")]
    pub out: Option<PathBuf>,
    /// Write the comparison to this file
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// A first try: tables of a hundredth, 1 run of 0.1 seconds
    #[arg(long)]
    pub quick: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle sim calibrate                                # how well the table fits this machine
  heddle sim calibrate --fit --out machine.costs      # a table for this machine ..
  heddle sim tpcc --costs machine.costs               # .. and a simulation with it
  heddle sim calibrate --costs machine.costs --runs 9";

/// What runs: a name, the workload, its arguments, and those of a first try.
const LOADS: [(&str, Which, &str, &str); 7] = [
    ("tpcc", Which::Tpcc, "", "--scale tiny"),
    ("tpcc-np", Which::Tpcc, "--mix np", "--scale tiny"),
    ("tpcc-new-order", Which::Tpcc, "--mix new-order", "--scale tiny"),
    ("ycsb-read-only", Which::Ycsb, "--preset read-only --records 100000", "--records 1000"),
    ("ycsb-medium", Which::Ycsb, "--preset medium --records 100000", "--records 1000"),
    ("ycsb-high", Which::Ycsb, "--preset high --records 100000", "--records 1000"),
    ("ycsb-small", Which::Ycsb, "--preset high --records 1000 --field-bytes 10", "--theta 0.5"),
];

/// Inputs that are drawn ahead, and used in turn.
const POOL: usize = 4_000;

/// Parses the name of a load.
fn load(name: &str) -> Result<&'static str, String> {
    let names = LOADS.map(|(load, ..)| load);
    names.into_iter().find(|load| *load == name).ok_or_else(|| format!("give some of {}", names.join(", ")))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Tpcc,
    Ycsb,
}

/// A load under a protocol.
struct Pair {
    load: &'static str,
    which: Which,
    /// The workload's arguments.
    words: Vec<String>,
    kind: Kind,
    /// Nanoseconds of a transaction in each real run: its own, and the system's.
    real: Vec<[f64; 2]>,
    point: Point,
}

impl Pair {
    /// The value so many parts of four from the lowest.
    fn quantile(&self, part: usize, quarters: usize) -> f64 {
        let mut rising: Vec<f64> = self.real.iter().map(|real| real[part]).collect();
        rising.sort_by(f64::total_cmp);
        rising.get(rising.len().saturating_sub(1) * quarters / 4).copied().unwrap_or(0.0)
    }

    /// Its own time: the end of the first quarter, from the fastest run.
    fn own_ns(&self) -> f64 {
        self.quantile(0, 1)
    }

    /// The system's: the median.
    fn system_ns(&self) -> f64 {
        self.quantile(1, 2)
    }

    /// Words of fresh memory in a transaction.
    fn fresh(&self) -> f64 {
        self.point.counts.work[FRESH] as f64 / self.point.transactions.max(1) as f64
    }

    /// Own time of a transaction on the virtual core.
    fn virtual_ns(&self, costs: &Costs) -> f64 {
        let cycles = self.point.cycles as f64 / self.point.transactions.max(1) as f64;
        (cycles - self.fresh() * costs.fresh as f64) * 1e3 / costs.mhz as f64
    }

    fn ratio(&self, costs: &Costs) -> f64 {
        self.virtual_ns(costs) / self.own_ns()
    }
}

/// Where [`Counts::work`](heddledb_simulator::simulation::Counts::work) has fresh memory.
const FRESH: usize = 6;

/// The entries that one core's own time depends on, and that are fitted.
const FITTED: [&str; 11] =
    ["same", "hit", "fetch", "memory", "rmw", "attempt", "operation", "node", "row", "check", "word"];

/// How often a transaction of a point did what the entries of [`FITTED`] cost.
fn counts(point: &Point) -> Vec<f64> {
    let counts = &point.counts;
    let memory = [counts.same, counts.hits, counts.fetches, counts.memory, counts.rmws];
    let all = memory.into_iter().chain(counts.work[..FRESH].iter().copied());
    all.map(|count| count as f64 / point.transactions.max(1) as f64).collect()
}

fn of(costs: &Costs, name: &str) -> f64 {
    costs.entries().into_iter().find(|(known, ..)| *known == name).map_or(0.0, |(_, _, value)| value as f64)
}

/// Runs the command. True always: a table that fits badly is a finding, no failure.
pub fn calibrate(arguments: &CalibrateArguments) -> Result<bool, Failure> {
    let (kinds, _) = protocols(&arguments.protocol, Kind::ALL)?;
    let mut costs = match &arguments.costs {
        Some(path) => read(path)?,
        None => Costs::default(),
    };
    let clock = Clock::calibrate();
    if arguments.fit || arguments.mhz.is_some() {
        let measured = (1e3 / clock.nanoseconds(1_000_000) * 1e6).round() as u64;
        costs.mhz = arguments.mhz.map_or(measured, u64::from);
    }
    let (runs, seconds) = if arguments.quick { (1, 0.1) } else { (arguments.runs, arguments.seconds) };
    let length = Duration::from_secs_f64(seconds);
    let settings = RunnerSettings {
        driver: Driver::Closed,
        warmup: length,
        seconds: length,
        crew: 1,
        pool: POOL,
        seed: arguments.seed,
        read_only: heddledb_workloads::ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        log: LogSettings {
            directory: std::env::temp_dir(),
            files: 1,
            compression: Compression::None,
            kind: LogKind::Values,
            checkpoint: false,
            recover: false,
            recovery_threads: None,
        },
        cores: machine::cores(),
        clock,
    };
    let chosen: Vec<_> = LOADS
        .into_iter()
        .filter(|(load, ..)| arguments.loads.is_empty() || arguments.loads.contains(load))
        .collect();
    let progress = Progress::weighed((usize::from(runs) + 1) as u64 * (chosen.len() * kinds.len()) as u64);
    let mut pairs = Vec::new();
    for (load, which, given, small) in chosen {
        let words = words(given, if arguments.quick { small } else { "" });
        for &kind in &kinds {
            let point = match which {
                Which::Tpcc => virtually::<TpccArguments>(&words, kind, arguments, costs),
                Which::Ycsb => virtually::<YcsbArguments>(&words, kind, arguments, costs),
            }?;
            progress.weight_done(&format!("{load}, {kind}: one virtual core"), 1);
            pairs.push(Pair { load, which, words: words.clone(), kind, real: Vec::new(), point });
        }
    }
    // In turn, so that a machine that gets slower does so for all alike.
    for run in 1..=runs {
        for pair in &mut pairs {
            let words = &pair.words;
            let title = format!("{}, {}", pair.load, pair.kind);
            let real = match pair.which {
                Which::Tpcc => really::<TpccArguments>(words, pair.kind, &settings, &title, &progress),
                Which::Ycsb => really::<YcsbArguments>(words, pair.kind, &settings, &title, &progress),
            }?;
            pair.real.push(real);
            let [own, system] = real;
            let line = format!("run {run} of {runs}: {title}: {own:.0} ns, and {system:.0} ns in the system");
            progress.weight_done(&line, 1);
        }
    }
    drop(progress);
    report(arguments, &pairs, &costs)?;
    Ok(true)
}

fn words(given: &str, more: &str) -> Vec<String> {
    given.split_whitespace().chain(more.split_whitespace()).map(str::to_owned).collect()
}

/// The arguments of a workload from words.
fn parsed<A: Args + FromArgMatches>(words: &[String]) -> Result<A, Failure> {
    let command = A::augment_args(Command::new("load").no_binary_name(true).args_override_self(true));
    let matches = command.try_get_matches_from(words).and_then(|matches| A::from_arg_matches(&matches));
    matches.map_err(|error| Failure::run(format!("a load has wrong arguments: {error}")))
}

/// Nanoseconds of a transaction on one real core: its own, and the system's.
fn really<A: WorkloadArguments>(
    words: &[String],
    kind: Kind,
    settings: &RunnerSettings,
    title: &str,
    progress: &Progress,
) -> Result<[f64; 2], Failure> {
    let broken = |error: String| Failure::run(format!("{title}: {error}"));
    let workload = Arc::new(parsed::<A>(words)?.workload().map_err(|error| broken(error.to_string()))?);
    let durability = Durability::None;
    let job = Job { kind, workload: &workload, settings, threads: 1, durability, run: 1, title, progress };
    let run = job.run();
    if let Some(check) = run.checks.iter().find(|check| !check.ok) {
        return Err(broken(format!("{}: {}", check.name, check.detail)));
    }
    let transactions = run.committed + run.user_aborts;
    if transactions == 0 {
        return Err(broken("no transaction ended; give more --seconds".into()));
    }
    let both = run.seconds * run.core_share * 1e9 / transactions as f64;
    Ok([both * (1.0 - run.system_share), both * run.system_share])
}

/// One virtual core.
fn virtually<A: WorkloadArguments>(
    words: &[String],
    kind: Kind,
    arguments: &CalibrateArguments,
    costs: Costs,
) -> Result<Point, Failure>
where
    Subject: From<A::Workload>,
{
    let broken = |error: String| Failure::run(format!("one virtual core, {kind}: {error}"));
    let workload = parsed::<A>(words)?.workload().map_err(|error| broken(error.to_string()))?;
    let window = Duration::from_millis(if arguments.quick { 5 } else { 100 });
    let load = VirtualLoad {
        cores: 1,
        seed: arguments.seed,
        warmup: window / 2,
        window,
        epoch_interval: Duration::from_millis(10),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: POOL,
        queue: Queue::ONE,
    };
    let settings = Settings { costs, ..Settings::default() };
    let point = Subject::from(workload).simulate(kind, load, settings);
    let point = point.map_err(|error| broken(error.to_string()))?;
    match point.checks.iter().find(|check| !check.ok) {
        Some(check) => Err(broken(format!("{}: {}", check.name, check.detail))),
        None if point.transactions == 0 => Err(broken("no transaction ended".into())),
        None => Ok(point),
    }
}

/// Prints the comparison and what was fitted, and writes the files.
fn report(arguments: &CalibrateArguments, pairs: &[Pair], costs: &Costs) -> Result<(), Failure> {
    let colours = terminal_with_colours(&std::io::stdout());
    let ratios = |ratio: &dyn Fn(&Pair) -> f64| {
        pairs
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), pair| (low.min(ratio(pair)), high.max(ratio(pair))))
    };
    let fitted = arguments.fit.then(|| fitted(pairs, costs));
    let after =
        |pair: &Pair| fitted.as_ref().map_or(0.0, |fitted| predicted(pair, costs, fitted) / pair.own_ns());
    let mut table = empty(colours);
    let mut titles = vec!["load", "protocol", "real ns", "spread", "virtual ns", "ratio", "and the system"];
    if fitted.is_some() {
        titles.push("ratio when fitted");
    }
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for pair in pairs {
        let (low, high) = pair
            .real
            .iter()
            .map(|[own, _]| *own)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
        let mut row =
            vec![pair.load.to_owned(), pair.kind.name().to_owned(), format!("{:.0}", pair.own_ns())];
        row.push(crate::report::percent((high - low) / pair.own_ns()));
        row.push(format!("{:.0}", pair.virtual_ns(costs)));
        row.push(format!("{:.2}", pair.ratio(costs)));
        row.push(format!("{:.0}", pair.system_ns()));
        if fitted.is_some() {
            row.push(format!("{:.2}", after(pair)));
        }
        table.add_row(row);
    }
    align(&mut table, 2);
    let (low, high) = ratios(&|pair| pair.ratio(costs));
    let mut text = lines(&table);
    let _ = writeln!(text, "\nvirtual by real time: from {low:.2} to {high:.2} over {} loads", pairs.len());
    if let Some(fitted) = &fitted {
        let (low, high) = ratios(&after);
        let _ = writeln!(text, "with the fitted costs: from {low:.2} to {high:.2}\n");
        for (name, value) in FITTED.iter().chain(&["fresh"]).map(|name| (name, of(fitted, name))) {
            let before = of(costs, name);
            let change = if before == value {
                String::new()
            } else {
                paint(&format!(" (was {before})"), "1", colours)
            };
            let _ = writeln!(text, "{name} = {value}{change}");
        }
    }
    print!("{text}");
    let here = machine::describe();
    let about = format!("{}, {} cores", here.cpu, here.cores);
    if let (Some(path), Some(fitted)) = (&arguments.out, &fitted) {
        let (low, high) = ratios(&after);
        let head = [
            format!("calibrated on one core of {about}"),
            format!(
                "{}; virtual by real time from {low:.2} to {high:.2} over {} loads",
                today(),
                pairs.len()
            ),
        ];
        write(path, &render(fitted, &head))?;
    }
    if let Some(path) = &arguments.table {
        let mut text = format!("# machine: {about}\n# date: {}\n", today());
        let _ = writeln!(
            text,
            "# workload, protocol, own ns of a transaction on a real core and on a virtual one, virtual by real; ns in the\n\
             # system on a real one; how often it did on the virtual one what costs {}, fresh",
            FITTED.join(", ")
        );
        for pair in pairs {
            let (real, ours, ratio) = (pair.own_ns(), pair.virtual_ns(costs), pair.ratio(costs));
            let did = counts(&pair.point).into_iter().chain([pair.fresh()]);
            let did: Vec<String> = did.map(|count| format!("{count:.1}")).collect();
            let (load, kind) = (pair.load, pair.kind.name());
            let (system, did) = (pair.system_ns(), did.join(" "));
            let _ = writeln!(
                text,
                "{load:<16} {kind:<14} {real:>6.0} {ours:>6.0} {ratio:>5.2} {system:>5.0}  {did}"
            );
        }
        write(path, &text)?;
    }
    Ok(())
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    let refused = |error| Failure::run(format!("{} cannot be written: {error}", path.display()));
    std::fs::write(path, text).map_err(refused)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// A pair's own time as a sample, in cycles.
fn sample(pair: &Pair, costs: &Costs) -> Sample {
    let counts = counts(&pair.point);
    let total = pair.point.cycles as f64 / pair.point.transactions.max(1) as f64;
    let told: f64 = counts.iter().zip(FITTED).map(|(count, name)| count * of(costs, name)).sum();
    let fixed = total - told - pair.fresh() * costs.fresh as f64;
    Sample { fixed, counts, cycles: pair.own_ns() * costs.mhz as f64 / 1e3 }
}

/// The table with the entries that fit best, in whole cycles.
fn fitted(pairs: &[Pair], costs: &Costs) -> Costs {
    let samples: Vec<Sample> = pairs.iter().map(|pair| sample(pair, costs)).collect();
    let present: Vec<f64> = FITTED.iter().map(|name| of(costs, name)).collect();
    let mut fitted = *costs;
    for (name, value) in FITTED.iter().zip(fit(&samples, &present)) {
        let set = fitted.set(name, value.round() as u64);
        debug_assert!(set, "{name} is an entry");
    }
    let (system, words) = pairs.iter().fold((0.0, 0.0), |(system, words), pair| {
        (system + pair.system_ns() * costs.mhz as f64 / 1e3, words + pair.fresh())
    });
    if words > 0.0 {
        fitted.fresh = (system / words).round() as u64;
    }
    fitted
}

/// Nanoseconds of a transaction on a virtual core that ran with `costs`, had it run with `others`.
fn predicted(pair: &Pair, costs: &Costs, others: &Costs) -> f64 {
    let with: Vec<f64> = FITTED.iter().map(|name| of(others, name)).collect();
    sample(pair, costs).predicted(&with) * 1e3 / others.mhz as f64
}

/// The date, in universal time.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(since.as_secs() / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// The date so many days after the first of January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is the last of its year; an era is 400 of them.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let january = month >= 10;
    (year + era * 400 + u64::from(january), if january { month - 9 } else { month + 3 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_good_arguments_on_both_engines() {
        for (load, which, given, small) in LOADS {
            for more in ["", small] {
                let words = words(given, more);
                match which {
                    Which::Tpcc => {
                        assert!(parsed::<TpccArguments>(&words).unwrap().workload().is_ok(), "{load}");
                    }
                    Which::Ycsb => {
                        assert!(parsed::<YcsbArguments>(&words).unwrap().workload().is_ok(), "{load}");
                    }
                }
            }
        }
    }

    #[test]
    fn days_have_dates() {
        assert_eq!(
            [0, 59, 11_016, 20_513].map(date),
            [(1970, 1, 1), (1970, 3, 1), (2000, 2, 29), (2026, 3, 1)]
        );
    }

    #[test]
    fn what_is_fitted_are_times_and_counted_in_their_order() {
        let mut point = Point { transactions: 1, ..Point::default() };
        point.counts.same = 1;
        point.counts.hits = 2;
        point.counts.fetches = 3;
        point.counts.memory = 4;
        point.counts.rmws = 5;
        point.counts.work = [6, 7, 8, 9, 10, 11, 12];
        assert_eq!(counts(&point), (1..=11).map(f64::from).collect::<Vec<_>>());
        assert_eq!(
            Pair {
                load: "",
                which: Which::Tpcc,
                words: Vec::new(),
                kind: Kind::Silo,
                real: Vec::new(),
                point: point.clone()
            }
            .fresh(),
            12.0
        );
        let work = heddledb_simulator::simulation::Counts::WORK;
        assert_eq!((&FITTED[5..], "fresh"), (&work[..FRESH], work[FRESH]));
        assert!(FITTED.iter().all(|name| Costs::is_time(name)));
    }
}
