//! Plants each known bug of concurrency in turn and requires the search in simulation to find it.
//!
//! `cargo run --release -p heddledb-simulator --features mutants --bin hunt` runs them all, each in a process of
//! its own, and exits with 1 if one survives. `... hunt NAME` hunts one; `... hunt replay SPEC NAME`
//! replays what was found of it. `heddle sim hunt` and `heddle sim replay` do the same without a planted bug.

#![forbid(unsafe_code)]

use heddledb::protocol::Kind;
use heddledb::{Mutant, plant};
use heddledb_simulator::search::{Faults, ReplayOptions, Spec, hunt, replay};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A mutant that is not found within this time has survived.
const PATIENCE: Duration = Duration::from_secs(60);
/// Simulations of one protocol and kind of faults before the next has its turn.
const TURN: u64 = 500;

/// The searches that must find a mutant, in turns: those of its room.
fn rooms(mutant: Mutant) -> Vec<(Kind, Faults)> {
    let name = format!("{mutant:?}");
    let is_of = |rooms: &[&str]| rooms.iter().any(|room| name.starts_with(room));
    if mutant == Mutant::TicTocHistoryNotCompared {
        vec![(Kind::TicTocHistory, Faults::None)]
    } else if is_of(&["TicToc"]) {
        vec![(Kind::TicToc, Faults::None), (Kind::TicTocSorted, Faults::None)]
    } else if is_of(&["Locking"]) {
        vec![(Kind::NoWait, Faults::None), (Kind::WaitDie, Faults::None)]
    } else if is_of(&["Detect"]) {
        vec![(Kind::DlDetect, Faults::None)]
    } else if is_of(&["Order"]) {
        vec![(Kind::Ordered2pl, Faults::None)]
    } else if is_of(&["Allocation"]) {
        vec![(Kind::TsAlloc, Faults::None), (Kind::TsAlloc, Faults::Disk)]
    } else if is_of(&["Dta"]) {
        vec![(Kind::Dta, Faults::None)]
    } else if is_of(&["Drp"]) {
        vec![(Kind::Drp, Faults::None), (Kind::Drp, Faults::Stall)]
    } else if is_of(&["HtmPartition"]) {
        vec![(Kind::HtmPartition, Faults::None), (Kind::HtmPartition, Faults::Stall)]
    } else if is_of(&["Htm"]) {
        vec![(Kind::Dbx, Faults::None), (Kind::DbxTc, Faults::None), (Kind::Htm, Faults::Stall)]
    } else if is_of(&["Shelf"]) {
        Faults::ALL.map(|faults| (Kind::DbxTcDeferred, faults)).into()
    } else if is_of(&["Parts"]) {
        vec![(Kind::DbxTcDeferred, Faults::None), (Kind::DbxTc, Faults::None), (Kind::DbxTc, Faults::Disk)]
    } else if is_of(&["Lazy", "Redo"]) {
        [Faults::None, Faults::Disk, Faults::Stall].map(|faults| (Kind::DbxTcLazy, faults)).into()
    } else if is_of(&["Hekaton"]) {
        vec![(Kind::Hekaton, Faults::None), (Kind::Hekaton, Faults::Stall)]
    } else if is_of(&["Ic3"]) {
        vec![(Kind::Ic3, Faults::None), (Kind::Ic3, Faults::Stall), (Kind::Ic3, Faults::Change)]
    } else if is_of(&["Piece", "DecidesInPhase", "Gathered"]) {
        vec![(Kind::Dgcc, Faults::None), (Kind::Dgcc, Faults::Stall)]
    } else if is_of(&["Graph"]) {
        vec![(Kind::Dataflow, Faults::None), (Kind::Dataflow, Faults::Stall)]
    } else if is_of(&["Log", "Recovery"]) {
        vec![(Kind::Silo, Faults::Disk), (Kind::NoWait, Faults::Disk)]
    } else {
        vec![(Kind::Silo, Faults::None)]
    }
}

/// Whether the search has to find it: what needs a damaged disk, many lives, a checkpoint, rows whose columns share a
/// group, rows that are read in place, a lower isolation level, or somebody who acts on what was seen before the
/// commit, is for others.
fn is_required(mutant: Mutant) -> bool {
    let name = format!("{mutant:?}");
    let others = matches!(
        mutant,
        Mutant::Ic3ImageWithoutLastWriter
            | Mutant::Ic3VerdictBeforeWait
            | Mutant::TicTocSnapshotOverwrites
            | Mutant::TicTocUpdateLost
            | Mutant::LockingUpdateLost
            | Mutant::TicTocReadsNotOpaque
            | Mutant::SiloReadsNotOpaque
            | Mutant::DrpReadsNotOpaque
            // A refused transaction that takes effect is as lawful to a judge of histories as any.
            | Mutant::DrpVerdictIgnored
            | Mutant::HekatonNewerOverwritten
            // The commit validates, whoever was waited for: slow, and lawful.
            | Mutant::GraphCallsNotAwaited
            | Mutant::GraphQuietThoughWritten
            | Mutant::GatheredOpenIgnored
            // Calls access what they have told.
            | Mutant::PieceUnforeseen
            // A snapshot must stand at the epoch between two pieces: the suite, with an epoch every few microseconds, finds it.
            | Mutant::PieceInOwnEpoch
            | Mutant::PartsInOwnEpochs
            // A simulation reads nothing in place.
            | Mutant::SightNotChecked
    );
    if others {
        return false;
    }
    !(["Recovery", "Checkpoint", "Sight"].iter().any(|room| name.starts_with(room))
        || name.starts_with("Log") && !name.starts_with("Locking"))
}

/// Searches with one bug until it is found or time is up. What to print.
fn find(mutant: Mutant) -> Option<String> {
    plant(Some(mutant));
    let rooms = rooms(mutant);
    let (begun, mut simulations, mut steps) = (Instant::now(), 0, 0);
    for turn in 0.. {
        for (kind, faults) in &rooms {
            let outcome = hunt(*kind, *faults, turn * TURN, TURN);
            simulations += outcome.progress.simulations;
            steps += outcome.progress.steps;
            if let Some(finding) = outcome.finding {
                let seconds = begun.elapsed().as_secs_f64();
                return Some(format!(
                    "{seconds:6.2} s  {simulations:6} simulations {steps:9} steps  {}  {}",
                    format_args!("hunt replay {} {mutant:?}", finding.smallest),
                    finding.smallest_violation.lines().next().unwrap_or_default()
                ));
            }
        }
        if begun.elapsed() > PATIENCE {
            return None;
        }
    }
    None
}

fn all() -> std::io::Result<ExitCode> {
    let mut survivors = 0;
    let program = std::env::current_exe()?;
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        let output = Command::new(&program).arg(&name).stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let missed = !output.status.success();
        survivors += u32::from(missed && is_required(*mutant));
        let rare = if mutant.is_rare() { " (rare)" } else { "" };
        match text.lines().last() {
            Some(line) if !missed => println!("{:32} {line}", name + rare),
            _ if is_required(*mutant) => println!("{name:32} SURVIVED"),
            _ => println!("{name:32} not found; the crash tests' to find"),
        }
    }
    println!("{survivors} survived");
    Ok(ExitCode::from(u8::from(survivors > 0)))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let by_name = |name: &str| Mutant::ALL.iter().copied().find(|mutant| format!("{mutant:?}") == name);
    let Some(first) = arguments.first() else {
        return all().unwrap_or_else(|error| {
            eprintln!("the hunt cannot start itself again: {error}");
            ExitCode::from(2)
        });
    };
    if let Some(mutant) = by_name(first) {
        return match find(mutant) {
            Some(line) => {
                println!("{line}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    if first == "replay" {
        let mutant = arguments.get(2).and_then(|name| by_name(name));
        let (Some(spec), Some(mutant)) = (arguments.get(1), mutant) else {
            eprintln!(
                "name what to replay and the mutant, as in `hunt replay silo/4711 SiloReadsNotValidated`"
            );
            return ExitCode::from(2);
        };
        plant(Some(mutant));
        return match spec.parse::<Spec>() {
            Ok(spec) => match replay(spec, &ReplayOptions::default(), &mut std::io::stdout().lock()) {
                Ok(_) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            },
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        };
    }
    eprintln!("no mutant is called {first}; choose from {:?}", Mutant::ALL);
    ExitCode::from(2)
}
