//! Plants each known bug in turn and requires the conformance suite to catch it.
//!
//! `cargo run --release -p heddledb-check --features mutants --bin mutants` runs them all, each in a
//! process of its own and two at once for each core and one more, and exits with 1 if one survives.
//! `... mutants NAME` runs one, `... mutants NAME SECONDS` for so long: also one of those that only a
//! search in simulation has to find, which the run of all leaves out ([`Mutant::is_rare`]). Those of hardware regions (`Htm..`) show
//! only where there are some: `HEDDLEDB_RTM=on ... mutants HtmNotLocked 60`.

#![forbid(unsafe_code)]

use heddledb::protocol::Kind;
use heddledb::{Mutant, plant};
use heddledb_check::beside;
use heddledb_check::conformance::suite;
use heddledb_check::crash::{self, Failure};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A mutant that is not caught within this time has survived. Long, since a race may need many rounds of the suite to
/// happen, and only a survivor costs it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A suite that has begun no other test for this long does not end.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Runs the suite under a protocol: first the tests whose names start so, as those of a mutant's own subject.
fn run_suite(kind: Kind, first: &str) {
    let mut tests = suite();
    tests.sort_by_key(|test| !test.name.starts_with(first));
    for test in tests {
        eprintln!("{kind}: {}", test.name);
        (test.run)(kind);
    }
}

/// Whether a bug is the crash tests' to catch.
fn is_of_durability(mutant: Mutant) -> bool {
    let name = format!("{mutant:?}");
    let rooms = [
        "Log",
        "Recovery",
        "Backup",
        "Copy",
        "Restore",
        "Checkpoint",
        "IndexBuilt",
        "IndexUnbuilt",
        "IndexRemoved",
        "Migration",
    ];
    rooms.iter().any(|room| name.starts_with(room)) && !name.starts_with("Locking")
}

/// Crashes, from another workload on in each round: damage last, since it shows too easily that recovery
/// is not what it was.
fn run_crashes(round: u64) {
    const POINTS: u64 = 20_000;
    let lawful = |failures: &[Failure]| {
        let progress = |points| eprintln!("{points} points");
        let outcome = crash::explore(failures, None, 1 + round * 1_000, POINTS, 2, &progress);
        outcome.unwrap_or_else(|violation| panic!("{violation}"));
    };
    eprintln!("crash: points at every operation of the disk");
    lawful(&Failure::ALL.map(|failure| if failure == Failure::Damage { Failure::Cut } else { failure }));
    eprintln!("crash: damage at rest");
    lawful(&[Failure::Damage]);
}

/// The kind whose suite must catch a mutant: its own, or the simplest for the floors that every protocol shares; and how
/// the names of the tests begin that are the likeliest to.
fn room(mutant: Mutant) -> (Kind, &'static str) {
    let name = format!("{mutant:?}");
    let of = |rooms: &[&str]| rooms.iter().any(|room| name.starts_with(room));
    // Under `unprotected` nothing runs beside a snapshot.
    if of(&["Snapshot"]) {
        (Kind::Silo, "snapshots")
    } else if mutant == Mutant::AddCarries {
        (Kind::Unprotected, "halves")
    } else if of(&["Value"]) {
        (Kind::Silo, "values")
    } else if of(&["Schema"]) {
        (Kind::Silo, "schemas")
    } else if of(&["SiloForeignLock"]) {
        (Kind::Silo, "histories")
    } else if of(&["Sight", "SiloStamp"]) {
        (Kind::Silo, "rows")
    } else if of(&["DrpVerdict"]) {
        (Kind::Drp, "deferred")
    } else if of(&["DrpDecidedBeforeMade", "DrpTaken", "DrpPresent", "DrpApplied"]) {
        (Kind::Drp, "late")
    } else if mutant == Mutant::SiloReadsNotOpaque {
        (Kind::Tl2, "opaque")
    } else if mutant == Mutant::DrpReadsNotOpaque {
        (Kind::DrpOpaque, "opaque")
    } else if of(&["Silo", "Tree", "TakenBack", "AnyInsert"]) {
        (Kind::Silo, "")
    } else if mutant == Mutant::TicTocReadsNotOpaque {
        (Kind::TicTocOpaque, "opaque")
    } else if mutant == Mutant::TicTocHistoryNotCompared {
        (Kind::TicTocHistory, "")
    } else if of(&["TicTocForeignLock"]) {
        (Kind::TicToc, "histories")
    } else if of(&["TicToc"]) {
        (Kind::TicToc, "")
    } else if of(&["Ic3"]) {
        (Kind::Ic3, "procedures")
    } else if of(&["Hekaton"]) {
        (Kind::Hekaton, "")
    } else if of(&["Shelf"]) {
        (Kind::DbxTcDeferred, "shelves")
    } else if of(&["Lazy", "Redo"]) {
        (Kind::DbxTcLazy, "lazy")
    } else if of(&["HtmPartition"]) {
        (Kind::HtmPartition, "")
    } else if of(&["HtmLock"]) {
        (Kind::Htm, "")
    } else if of(&["Htm"]) {
        (Kind::DbxTc, "")
    } else if of(&["Parts"]) {
        (Kind::ChoppingOcc, "procedures")
    } else if of(&["Sequenced"]) {
        (Kind::DeterministicLazy, "phases")
    } else if of(&["Piece", "DecidesInPhase"]) {
        (Kind::Dgcc, "pieces")
    } else if of(&["Gathered"]) {
        (Kind::Dgcc, "graph")
    } else if of(&["Graph"]) {
        (Kind::Dataflow, "graph")
    } else if of(&["Command"]) {
        (Kind::Dgcc, "commands")
    } else if of(&["Locking"]) {
        (Kind::NoWait, "")
    } else if of(&["Detect"]) {
        (Kind::DlDetect, "")
    } else if of(&["Order"]) {
        (Kind::Ordered2pl, "")
    } else if of(&["Allocation"]) {
        (Kind::TsAlloc, "")
    } else if of(&["Drp"]) {
        (Kind::Drp, "")
    } else if of(&["Dta"]) {
        (Kind::Dta, "")
    } else {
        (Kind::Unprotected, "")
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
    let (mut written, mut since) = (0, Instant::now());
    let end = loop {
        let length = std::fs::metadata(&log)?.len();
        if length > written {
            (written, since) = (length, Instant::now());
        }
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
            None if since.elapsed() > STANDSTILL => {
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
        let patience = seconds.map_or(PATIENCE, Duration::from_secs);
        let mut rounds = 0..;
        while is_of_durability(mutant) && start.elapsed() < patience {
            run_crashes(rounds.next().expect("there is no last round"));
        }
        let (kind, first) = room(mutant);
        while start.elapsed() < patience {
            run_suite(kind, first);
        }
        return ExitCode::SUCCESS;
    }
    let mut required: Vec<Mutant> = Mutant::ALL.iter().copied().filter(|mutant| !mutant.is_rare()).collect();
    // Some of these take longest, so none of them is the last.
    required.sort_by_key(|mutant| !is_of_durability(*mutant));
    let try_one = |mutant: &Mutant| {
        let (name, start) = (format!("{mutant:?}"), Instant::now());
        let (verdict, survives) = match hunt(&name) {
            Ok(End::Caught(test)) => (format!("caught by {test}"), false),
            Ok(End::Hung) => ("caught: the suite does not end".to_owned(), false),
            Ok(End::Survived) => ("SURVIVED".to_owned(), true),
            Err(error) => (format!("not run: {error}"), true),
        };
        (format!("{name:32} {:6.1} s  {verdict}", start.elapsed().as_secs_f64()), survives)
    };
    let mut survivors = 0;
    // More than there are cores: some only stand still, and most wait for half of the time.
    beside::each(2 * beside::cores() + 1, &required, try_one, |(line, survives)| {
        println!("{line}");
        survivors += u32::from(survives);
    });
    println!("{} mutants, {survivors} survived", required.len());
    ExitCode::from(u8::from(survivors > 0))
}
