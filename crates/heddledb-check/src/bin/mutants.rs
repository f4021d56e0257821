//! Plants each known bug in turn and requires the conformance suite to catch it.
//!
//! `cargo run --release -p heddledb-check --features mutants --bin mutants` runs them all, each in a
//! process of its own, and exits with 1 if one survives. `... mutants NAME` runs one, `... mutants NAME
//! SECONDS` for so long: also one of those that only a search in simulation has to find, which the run of all
//! leaves out ([`Mutant::is_rare`]).

#![forbid(unsafe_code)]

use heddledb::protocol::{Kind, Visitor};
use heddledb::{Mutant, Protocol, plant};
use heddledb_check::conformance::suite;
use heddledb_check::crash::{self, Failure};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A mutant that is not caught within this time has survived.
const PATIENCE: Duration = Duration::from_secs(60);

struct RunSuite;

impl Visitor for RunSuite {
    type Output = ();

    fn visit<P: Protocol>(self, options: P::Options) {
        for test in suite::<P>() {
            eprintln!("{}: {}", P::NAME, test.name);
            (test.run)(&options);
        }
    }
}

/// Whether a bug is the crash tests' to catch.
fn is_of_durability(mutant: Mutant) -> bool {
    let name = format!("{mutant:?}");
    ["Log", "Recovery", "Checkpoint"].iter().any(|room| name.starts_with(room))
        && !name.starts_with("Locking")
}

/// Crashes, from another workload on in each round: damage last, since it shows too easily that recovery
/// is not what it was.
fn run_crashes(round: u64) {
    const POINTS: u64 = 20_000;
    let lawful = |failures: &[Failure]| {
        let outcome = crash::explore(failures, 1 + round * 1_000, POINTS, 2, &|_| {});
        outcome.unwrap_or_else(|violation| panic!("{violation}"));
    };
    eprintln!("crash: points at every operation of the disk");
    lawful(&Failure::ALL.map(|failure| if failure == Failure::Damage { Failure::Cut } else { failure }));
    eprintln!("crash: damage at rest");
    lawful(&[Failure::Damage]);
}

/// The kinds whose suite must catch a mutant, any of them: those of its room, or all for the floors
/// that every protocol shares.
fn rooms(mutant: Mutant) -> &'static [Kind] {
    let name = format!("{mutant:?}");
    // Under `unprotected` nothing runs beside a snapshot.
    if ["Silo", "Snapshot", "Tree"].iter().any(|room| name.starts_with(room)) {
        &[Kind::Silo]
    } else if mutant == Mutant::TicTocReadsNotOpaque {
        &[Kind::TicTocOpaque]
    } else if mutant == Mutant::TicTocHistoryNotCompared {
        &[Kind::TicTocHistory]
    } else if name.starts_with("TicToc") {
        &[Kind::TicToc]
    } else if name.starts_with("Ic3") {
        &[Kind::Ic3]
    } else if name.starts_with("Hekaton") {
        &[Kind::Hekaton]
    } else if name.starts_with("Sequenced") {
        &[Kind::DeterministicLazy]
    } else if name.starts_with("Locking") {
        &[Kind::NoWait]
    } else if name.starts_with("Detect") {
        &[Kind::DlDetect]
    } else if name.starts_with("Order") {
        &[Kind::Ordered2pl]
    } else if name.starts_with("Allocation") {
        &[Kind::TsAlloc]
    } else if name.starts_with("Dta") {
        &[Kind::Dta]
    } else {
        &[Kind::Unprotected]
    }
}

/// How a planted bug ended.
enum End {
    Caught(String),
    Hung,
    Survived,
}

/// Runs the suite with one bug in a child process.
fn hunt(name: &str) -> std::io::Result<End> {
    let log = std::env::temp_dir().join(format!("heddle-mutant-{name}-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe()?)
        .arg(name)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let start = Instant::now();
    let end = loop {
        match child.try_wait()? {
            Some(status) if status.success() => break End::Survived,
            Some(_) => {
                let text = std::fs::read_to_string(&log)?;
                let test = text.lines().rfind(|line| {
                    Kind::ALL.iter().any(|k| line.starts_with(k.name()))
                        || ["locking: ", "crash: "].iter().any(|name| line.starts_with(name))
                });
                break End::Caught(test.unwrap_or("the suite").to_owned());
            }
            None if start.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                break End::Hung;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    std::fs::remove_file(&log)?;
    Ok(end)
}

fn main() -> ExitCode {
    let by_name = |name: &str| Mutant::ALL.iter().copied().find(|mutant| format!("{mutant:?}") == name);
    if let Some(name) = std::env::args().nth(1) {
        let Some(mutant) = by_name(&name) else {
            eprintln!("no mutant is called {name}; choose from {:?}", Mutant::ALL);
            return ExitCode::from(2);
        };
        plant(Some(mutant));
        // A race may need more than one run to happen.
        let start = Instant::now();
        let seconds = std::env::args().nth(2).and_then(|text| text.parse().ok());
        let patience = seconds.map_or(PATIENCE / 2, Duration::from_secs);
        let mut rounds = 0..;
        while is_of_durability(mutant) && start.elapsed() < patience {
            run_crashes(rounds.next().expect("there is no last round"));
        }
        while start.elapsed() < patience {
            rooms(mutant).iter().for_each(|kind| kind.visit(RunSuite));
        }
        return ExitCode::SUCCESS;
    }
    let mut survivors = 0;
    let required = || Mutant::ALL.iter().filter(|mutant| !mutant.is_rare());
    for mutant in required() {
        let (name, start) = (format!("{mutant:?}"), Instant::now());
        let verdict = match hunt(&name) {
            Ok(End::Caught(test)) => format!("caught by {test}"),
            Ok(End::Hung) => "caught: the suite does not end".to_owned(),
            Ok(End::Survived) => {
                survivors += 1;
                "SURVIVED".to_owned()
            }
            Err(error) => {
                survivors += 1;
                format!("not run: {error}")
            }
        };
        println!("{name:32} {:6.1} s  {verdict}", start.elapsed().as_secs_f64());
    }
    println!("{} mutants, {survivors} survived", required().count());
    ExitCode::from(u8::from(survivors > 0))
}
