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
//!
//! | room | what |
//! |---|---|
//! | here | the command: which rounds are made, in which order |
//! | `arguments` | its arguments, and who may be beside the writer |
//! | `round` | one round: the writer, and every reader's turn |
//! | `report` | what is told of them: medians, a table, the JSON file |

pub mod arguments;
mod report;
mod round;

use crate::failure::{Failure, chain};
use crate::machine;
use crate::progress::Progress;
use crate::report::model::CheckResult;
use crate::report::outputs::{Outputs, publish};
use arguments::{Reader, SnapshotsArguments, Writes};
use heddledb::Error;
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use heddledb_workloads::tpcc::{self, Mix, Tpcc};
use heddledb_workloads::ycsb::{self, Ycsb};
use report::{Beside, SnapshotsReport, summarise};
use round::Round;
use std::time::Duration;

/// Runs the command. True if every check held.
pub fn snapshots(arguments: &SnapshotsArguments, command: String) -> Result<bool, Failure> {
    let outputs = Outputs { json: arguments.json.clone(), html: None };
    outputs.probe()?;
    let usage = |error: Error| Failure::usage(chain(&error));
    let found = match arguments.workload {
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
    publish(&outputs, |colours| report::render(&found, colours), &found, String::new)?;
    Ok(found.check_count().failed == 0)
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
    let (mut made, mut failed) = (0, Vec::new());
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
            made += checks.len();
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
        checks: made,
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
}
