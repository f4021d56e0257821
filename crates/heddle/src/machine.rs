//! What a figure was measured on, and how workers are kept on one core each.

use crate::report::model::Machine;
use heddledb::{Error, Misuse};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A folder of its own below `parent`, which is made if it is not there; removed when it goes out of scope.
pub fn folder(parent: &Path, prefix: &str) -> Result<TempDir, Error> {
    let make = || {
        fs::create_dir_all(parent)?;
        tempfile::Builder::new().prefix(prefix).tempdir_in(parent)
    };
    make().map_err(|error| {
        Misuse::System(format!("no folder for the log can be made in {}: {error}", parent.display())).into()
    })
}

/// Describes this machine. What cannot be learnt is `unknown` or zero; nothing names the host or
/// its paths.
pub fn describe() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Machine {
        cpu: field("model name").unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH)),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: memory_gib().unwrap_or(0.0),
        os: operating_system(),
        virtual_machine: field("flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        huge_pages: huge_pages().unwrap_or_else(|| "unknown".into()),
        rustc: env!("HEDDLE_RUSTC").into(),
        target: env!("HEDDLE_TARGET").into(),
        profile: env!("HEDDLE_PROFILE").into(),
        heddle: env!("CARGO_PKG_VERSION").into(),
    }
}

fn memory_gib() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((kibibytes / 1024.0 / 1024.0 * 10.0).round() / 10.0)
}

fn operating_system() -> String {
    let name = fs::read_to_string("/etc/os-release").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(line.trim_matches('"').to_owned())
    });
    let name = name.unwrap_or_else(|| std::env::consts::OS.into());
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(kernel) => format!("{name}, kernel {}", kernel.trim()),
        Err(_) => name,
    }
}

/// The setting for transparent huge pages: the word in brackets.
fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let inside = text.split_once('[')?.1.split_once(']')?.0;
    Some(inside.to_owned())
}

/// The cores that this process may use, one hardware thread of every physical core first.
///
/// Call it before any thread is pinned: a pinned thread sees only its own core.
pub fn cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut siblings_seen = BTreeSet::new();
    let (mut first, second): (Vec<usize>, Vec<usize>) = allowed.into_iter().partition(|core| {
        let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        siblings_seen.insert(fs::read_to_string(path).unwrap_or_else(|_| core.to_string()))
    });
    first.extend(second);
    first
}

/// Keeps the calling thread on `core`. A refusal is passed over: the figures are then noisier, not
/// wrong.
pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// How long the calling thread has run on a core.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// How much of that it was in the system, which hands out and clears memory. Counted in hundredths of a second.
pub fn thread_time_in_system() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // After the name, which is in parentheses and may hold anything: the thirteenth field is system time.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split_whitespace().nth(12).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_and_a_name() {
        let machine = describe();
        assert!(machine.cores > 0 && !machine.cpu.is_empty() && machine.rustc.starts_with("rustc"));
        let cores = cores();
        assert_eq!(cores.iter().collect::<BTreeSet<_>>().len(), cores.len());
    }
}
