use heddledb::protocol::Kind;
use heddledb::simulation::*;
use heddledb_simulator::point::*;
use heddledb_workloads::{ReadOnly, tpcc, ycsb};
use std::sync::Arc;
use std::time::{Duration, Instant};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |name: &str, default: u64| {
        args.iter().position(|a| a == name).map_or(default, |i| args[i + 1].parse().unwrap())
    };
    let text = |name: &str, default: &str| {
        args.iter().position(|a| a == name).map_or(default.to_owned(), |i| args[i + 1].clone())
    };
    let cores: Vec<usize> = text("--cores", "1,2,4,16,64").split(',').map(|x| x.parse().unwrap()).collect();
    let kinds: Vec<Kind> =
        text("--protocol", "silo,tictoc,no-wait,wait-die").split(',').map(|x| x.parse().unwrap()).collect();
    for kind in kinds {
        for &cores in &cores {
            if cores > kind.sessions_max() {
                continue;
            }
            let load = Load {
                cores,
                seed: get("--seed", 1),
                warmup: Duration::from_micros(get("--warmup", 200)),
                window: Duration::from_micros(get("--window", 2000)),
                epoch_interval: Duration::from_millis(10),
                read_only: ReadOnly::Serializable,
            };
            let settings = Settings::default();
            let begun = Instant::now();
            let p = if text("--workload", "tpcc") == "tpcc" {
                let base = tpcc::Parameters::default();
                let parameters = tpcc::Parameters {
                    warehouses: get("--warehouses", 1) as u16,
                    mix: text("--mix", "full").parse().unwrap(),
                    mode: text("--mode", "spec").parse().unwrap(),
                    binding: text("--binding", "home").parse().unwrap(),
                    scale: if text("--scale", "full") == "tiny" {
                        tpcc::Scale::TINY
                    } else {
                        tpcc::Scale::FULL
                    },
                    commutative: get("--commutative", 1) == 1,
                    ..base
                };
                let workload = Arc::new(tpcc::Tpcc::new(parameters).unwrap());
                kind.visit(Run { workload, load, settings })
            } else {
                let preset = ycsb::Parameters::preset(&text("--preset", "high")).unwrap();
                let workload = Arc::new(
                    ycsb::Ycsb::new(ycsb::Parameters { records: get("--records", 100000), ..preset })
                        .unwrap(),
                );
                kind.visit(Run { workload, load, settings })
            };
            let p = match p {
                Ok(p) => p,
                Err(e) => {
                    println!("{kind} {cores} BROKEN {e}");
                    continue;
                }
            };
            let t = p.transactions.max(1) as f64;
            let bad: Vec<_> = p.checks.iter().filter(|c| !c.ok).collect();
            let conflicts: u64 = p.conflicts.iter().sum();
            println!(
                "{kind:10} {cores:5} {:10.0} tx/s aborts/tx {:.3} cycles/tx {:.0} work {:.0} acc {:.0} same {:.0} hit {:.0} fetch {:.1} mem {:.1} xfer {:.2} upg {:.2} queue {:.0} wait {:.0} steps {}M {:?} {:?} bad {:?}",
                p.committed as f64 / p.seconds,
                conflicts as f64 / t,
                p.cycles as f64 / t,
                p.counts.work_cycles as f64 / t,
                p.counts.accesses as f64 / t,
                p.counts.same as f64 / t,
                p.counts.hits as f64 / t,
                p.counts.fetches as f64 / t,
                p.counts.memory as f64 / t,
                p.counts.transfers as f64 / t,
                p.counts.upgrades as f64 / t,
                p.counts.queueing_cycles as f64 / t,
                p.counts.waiting_cycles as f64 / t,
                p.steps / 1_000_000,
                begun.elapsed(),
                p.counts.work.map(|w| (w as f64 / t) as u64),
                bad
            );
        }
    }
}
