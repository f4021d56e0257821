//! The exact cost of every protocol: what a change to the engine costs shows as a difference here.
//!
//! Each protocol, but for comparators, runs three small workloads on 64 virtual cores from one seed. Nothing in that depends on the
//! machine, the build or the day, so cycles, line transfers and aborts of a transaction are numbers to be
//! kept in a file (`budget.txt`), compared to the last digit, and changed on purpose.

use crate::point::{Broken, Load, Point, Queue, Subject};
use heddledb::protocol::{Isolation, Kind};
use heddledb_check::beside::{cores, each};
use heddledb_engine_simulated::sync::simulation::Settings;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{self, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use std::time::Duration;

/// Virtual cores; protocols that cannot have so many run on as many as they can.
pub const CORES: usize = 64;

/// What the file says above its lines.
const HEADER: &str = "\
# What a transaction costs on 64 virtual cores (unprotected: on one), exactly. A change that alters a line
# explains it; `cargo run -p heddledb-simulator --bin budget -- --write` writes the file anew.
# workload protocol: commits in the window; per committed transaction: cycles, accesses, line transfers,
# upgrades, conflicts
";

/// Runs everything, as many points at once as the machine has cores, and returns the lines of the file; `told` gets each line.
///
/// # Errors
/// A point that broke, or of which a check failed.
pub fn measure(mut told: impl FnMut(&str)) -> Result<String, String> {
    let tpcc = Tpcc::new(tpcc::Parameters { scale: tpcc::Scale::TINY, ..Default::default() });
    let tpcc = tpcc.map_err(|error| error.to_string())?.into();
    let ycsb = |name: &str| {
        let preset = ycsb::Parameters::preset(name).ok_or_else(|| format!("no preset {name}"))?;
        let parameters = ycsb::Parameters { records: 2_000, ..preset };
        Ycsb::new(parameters).map(Subject::from).map_err(|error| error.to_string())
    };
    let (high, scans) = (ycsb("high")?, ycsb("e")?);
    let workloads = [("tpcc", &tpcc, 600), ("ycsb-high", &high, 400), ("ycsb-e", &scans, 300)];
    let of_kind = |kind| workloads.map(|(name, workload, window_us)| (name, kind, workload, window_us));
    let points: Vec<_> = Kind::contenders().into_iter().flat_map(of_kind).collect();
    let mut text = Ok(String::from(HEADER));
    let work = |point: &(&str, Kind, &Subject, u64)| line(point.0, point.1, point.2, point.3);
    each(cores(), &points, work, |line| match (&mut text, line) {
        (Ok(text), Ok(line)) => {
            told(&line);
            *text += &line;
            *text += "\n";
        }
        (Ok(_), Err(error)) => text = Err(error),
        // The first error is told.
        (Err(_), _) => {}
    });
    text
}

fn line(name: &str, kind: Kind, workload: &Subject, window_us: u64) -> Result<String, String> {
    let load = Load {
        cores: CORES.min(kind.sessions_max()),
        seed: 1,
        warmup: Duration::from_micros(window_us / 4),
        window: Duration::from_micros(window_us),
        epoch_interval: Duration::from_micros(20),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: 0,
        queue: Queue::ONE,
    };
    let point = workload.simulate(kind, load, Settings::default());
    let broken = |error: Broken| format!("{name} under {kind}: {error}");
    let point: Point = point.map_err(broken)?;
    if let Some(check) = point.checks.iter().find(|check| !check.ok) {
        return Err(format!("{name} under {kind}: {}: {}", check.name, check.detail));
    }
    // In hundredths, without floating point.
    let each = |sum: u64| {
        let hundredths = sum * 100 / point.transactions.max(1);
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    };
    Ok(format!(
        "{name} {kind}: {}; {} {} {} {} {}",
        point.committed,
        each(point.cycles),
        each(point.counts.accesses),
        each(point.counts.transfers),
        each(point.counts.upgrades),
        each(point.conflicts.iter().sum()),
    ))
}

/// What differs between two files, line by line; nothing where they agree.
#[must_use]
pub fn differences(kept: &str, measured: &str) -> Vec<String> {
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let (kept, measured) = (lines(kept), lines(measured));
    let mut differences = Vec::new();
    for line in &measured {
        if !kept.contains(line) {
            let name = line.split(':').next().unwrap_or_default();
            let before = kept.iter().find(|kept| kept.split(':').next() == Some(name));
            differences.push(match before {
                Some(before) => format!("was {before}\nis  {line}"),
                None => format!("new {line}"),
            });
        }
    }
    let names: Vec<&str> = measured.iter().filter_map(|line| line.split(':').next()).collect();
    let gone = kept.iter().filter(|line| !line.split(':').next().is_some_and(|name| names.contains(&name)));
    differences.extend(gone.map(|line| format!("gone {line}")));
    differences
}
