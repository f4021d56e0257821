//! The `heddle` command: benchmarks of HeddleDB, a judge of transaction histories, and a look into its files.

#![deny(unsafe_code)]

mod analyze;
mod arguments;
mod bench;
mod check;
mod clock;
mod crash;
mod database;
mod date;
mod failure;
mod history;
mod htm;
mod log;
mod machine;
mod progress;
mod report;
mod reproduce;
mod sim;
mod soak;
mod terminal;

use analyze::AnalyzeArguments;
use bench::arguments::BenchArguments;
use check::CheckArguments;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use crash::CrashArguments;
use crash::child::ChildArguments;
use database::backup::BackupArguments;
use database::export::ExportArguments;
use database::import::ImportArguments;
use database::restore::RestoreArguments;
use database::schema::SchemaArguments;
use database::verify::VerifyArguments;
use failure::{FOUND, Failure};
use history::HistoryArguments;
use htm::HtmArguments;
use log::LogArguments;
use reproduce::arguments::ReproduceArguments;
use sim::SimArguments;
use soak::SoakArguments;
use std::ffi::OsString;
use std::process::ExitCode;
use terminal::terminal_with_colours;

/// Benchmarks and checks of HeddleDB, an in-memory serializable transaction engine
#[derive(Parser, Debug)]
#[command(name = "heddle", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  heddle bench --list
  heddle bench tpcc --quick
  heddle bench tpcc --protocol silo,tictoc --threads 1,2 --seed 7 --json out.json --html out.html
  heddle bench ycsb --theta 0.9 --reads 50 --ops 16 --records 1000000 --protocol all
  heddle bench snapshots --interval 10,100,1000
  heddle sim tpcc --quick
  heddle sim tpcc --protocol all --cores 1,2,4,8,16,32,64,128,256,1024 --html sim.html
  heddle reproduce ic3 --quick --jobs 2 --html ic3.html
  heddle htm probe
  heddle analyze tpcc --html tpcc.html
  heddle history --protocol silo --transactions 100000 --threads 2 --seed 7 --out history.jsonl
  heddle check history.jsonl
  heddle soak --seconds 60
  heddle log verify bank
  heddle schema bank
  heddle verify bank
  heddle backup bank backups/monday
  heddle backup --incremental bank backups/monday
  heddle restore backups/monday bank-at-ten --at 2026-11-24T10:00:00Z
  heddle export bank --out bank-today
  heddle crash --cycles 200

Exit codes: 0 all well, 1 a check failed or an anomaly was found, 2 unusable arguments or input.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a workload under several protocols and numbers of threads, and check the results
    Bench(Box<BenchArguments>),
    /// Run a workload on virtual cores: up to a thousand of them, the same result on any machine
    #[command(after_help = sim::EXAMPLES)]
    Sim(SimArguments),
    /// Run a paper's evaluation again, figure by figure, and judge each of its claims
    #[command(after_help = reproduce::arguments::EXAMPLES)]
    Reproduce(ReproduceArguments),
    /// Tell what hardware transactional memory there is, and how much fits in a region
    #[command(after_help = htm::EXAMPLES)]
    Htm(HtmArguments),
    /// Tell which parts of transactions may interleave, and which SC-cycle forces the rest together
    #[command(after_help = analyze::EXAMPLES)]
    Analyze(AnalyzeArguments),
    /// Record what random transactions saw and did under a protocol
    #[command(after_help = history::EXAMPLES)]
    History(HistoryArguments),
    /// Judge a recorded history, and tell the cycle if it is not serializable
    #[command(after_help = check::EXAMPLES)]
    Check(CheckArguments),
    /// Let rows come and go beside snapshots, and see that memory does not grow
    #[command(after_help = soak::EXAMPLES)]
    Soak(SoakArguments),
    /// Look at the files of a database, or check them
    #[command(after_help = log::EXAMPLES)]
    Log(LogArguments),
    /// Check a database's directory: every file, and each index against its table
    #[command(after_help = database::verify::EXAMPLES, visible_alias = "check-database")]
    Verify(VerifyArguments),
    /// Show the tables of a database, their columns and indexes
    #[command(after_help = database::schema::EXAMPLES)]
    Schema(SchemaArguments),
    /// Take a copy of a database that is closed, or continue one with its log
    #[command(after_help = database::backup::EXAMPLES)]
    Backup(BackupArguments),
    /// Make a database of a copy, as of an earlier moment
    #[command(after_help = database::restore::EXAMPLES)]
    Restore(RestoreArguments),
    /// Write the rows of a database as CSV or JSON Lines
    #[command(after_help = database::export::EXAMPLES)]
    Export(ExportArguments),
    /// Read rows from CSV or JSON Lines into a table
    #[command(after_help = database::import::EXAMPLES)]
    Import(ImportArguments),
    /// Kill a process at work on a database, again and again, and check what is left (a test tool)
    #[command(after_help = crash::EXAMPLES)]
    Crash(CrashArguments),
    /// What `heddle crash` starts
    #[command(hide = true)]
    CrashChild(ChildArguments),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        // Help and version come as errors that bring their own text and exit code.
        Err(error) if !error.use_stderr() || error.kind() == SHORT_OF_WORDS => error.exit(),
        Err(error) => return refuse(&Failure::usage(one_line(&error))),
    };
    let outcome = match &cli.command {
        Command::Bench(bench) => bench::bench(bench, command(&arguments)),
        Command::Sim(simulated) => sim::sim(simulated, command(&arguments)),
        Command::Reproduce(paper) => reproduce::reproduce(paper, command(&arguments)),
        Command::Htm(probe) => htm::htm(probe, command(&arguments)).map(|()| true),
        Command::Analyze(arguments) => analyze::analyze(arguments),
        Command::History(history) => history::history(history).map(|()| true),
        Command::Check(check) => check::check(check),
        Command::Soak(arguments) => soak::soak(arguments),
        Command::Log(log) => log::log(log),
        Command::Verify(verify) => database::verify::verify(verify),
        Command::Export(export) => database::export::export(export).map(|()| true),
        Command::Import(import) => database::import::import(import).map(|()| true),
        Command::Schema(schema) => database::schema::schema(schema).map(|()| true),
        Command::Backup(backup) => database::backup::backup(backup).map(|()| true),
        Command::Restore(restore) => database::restore::restore(restore).map(|()| true),
        Command::Crash(crash) => crash::crash(crash),
        Command::CrashChild(child) => {
            return crash::child::child(child).unwrap_or_else(|failure| refuse(&failure));
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(failure) => refuse(&failure),
    }
}

/// `heddle` alone: clap then prints the help.
const SHORT_OF_WORDS: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// Says why a command failed; its exit code.
fn refuse(failure: &Failure) -> ExitCode {
    eprintln!("{}", failure.line(terminal_with_colours(&std::io::stderr())));
    ExitCode::from(failure.code)
}

/// clap's message without its paragraphs on usage and help.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let told =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = told.filter(|line| !line.is_empty()).collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

/// The command line as a reader would repeat it: without the program's path and output files.
fn command(arguments: &[OsString]) -> String {
    let mut words = vec!["heddle".to_owned()];
    let mut rest = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = rest.next() {
        match word.as_ref() {
            "--json" | "--html" => drop(rest.next()),
            word if word.starts_with("--json=") || word.starts_with("--html=") => {}
            word => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::arguments::{Plan, WorkloadArguments};
    use clap::CommandFactory;
    use heddledb::protocol::Kind;
    use sim::SimCommand;

    /// The plan of a benchmark, or the message of the refusal.
    fn plan(line: &str) -> Result<Plan, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| one_line(&error))?;
        let Command::Bench(bench) = cli.command else { return Err("not a benchmark".into()) };
        let plan = match &bench.workload {
            Some(WorkloadArguments::Tpcc(tpcc)) => tpcc.workload().and_then(|_| tpcc.common.plan()),
            Some(WorkloadArguments::Recovery(tpcc)) => {
                tpcc.workload().and_then(|_| tpcc.common.recovery().plan())
            }
            Some(WorkloadArguments::Tpce(tpce)) => tpce.workload().and_then(|_| tpce.common.plan()),
            Some(WorkloadArguments::Ycsb(ycsb)) => ycsb.workload().and_then(|_| ycsb.common.plan()),
            Some(WorkloadArguments::Micro(micro)) => micro.workload().and_then(|_| micro.common.plan()),
            Some(WorkloadArguments::Articles(articles)) => {
                articles.workload().and_then(|_| articles.common.plan())
            }
            Some(WorkloadArguments::Array(array)) => array.workload().and_then(|_| array.common.plan()),
            Some(WorkloadArguments::Vacation(vacation)) => {
                vacation.workload().and_then(|_| vacation.common.plan())
            }
            Some(WorkloadArguments::Kmeans(kmeans)) => {
                kmeans.application().and_then(|_| kmeans.common.plan())
            }
            Some(WorkloadArguments::Intruder(intruder)) => {
                intruder.application().and_then(|_| intruder.common.plan())
            }
            Some(WorkloadArguments::Genome(genome)) => {
                genome.application().and_then(|_| genome.common.plan())
            }
            Some(WorkloadArguments::Labyrinth(labyrinth)) => {
                labyrinth.application().and_then(|_| labyrinth.common.plan())
            }
            Some(WorkloadArguments::Bayes(bayes)) => bayes.application().and_then(|_| bayes.common.plan()),
            Some(WorkloadArguments::Snapshots(_)) | None => return Err("no workload".into()),
        };
        plan.map_err(|failure| failure.message)
    }

    /// The plan of a simulation, or the message of the refusal.
    fn simulation(line: &str) -> Result<sim::arguments::Plan, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| one_line(&error))?;
        let Command::Sim(sim) = cli.command else { return Err("not a simulation".into()) };
        let plan = match &sim.command {
            SimCommand::Tpcc(tpcc) => tpcc.workload().and_then(|_| tpcc.common.plan()),
            SimCommand::Tpce(tpce) => tpce.workload().and_then(|_| tpce.common.plan()),
            SimCommand::Ycsb(ycsb) => ycsb.workload().and_then(|_| ycsb.common.plan()),
            SimCommand::Micro(micro) => micro.workload().and_then(|_| micro.common.plan()),
            SimCommand::Articles(articles) => articles.workload().and_then(|_| articles.common.plan()),
            _ => return Err("no workload".into()),
        };
        plan.map_err(|failure| failure.message)
    }

    fn configurations(line: &str) -> Vec<String> {
        let plan = plan(line).unwrap();
        plan.configurations().map(|one| format!("{} {}", one.kind, one.threads)).collect()
    }

    #[test]
    fn a_plan_has_every_combination_after_the_baseline() {
        let line = "heddle bench tpcc --protocol tictoc,silo --threads 2,1";
        assert_eq!(configurations(line), ["unprotected 1", "tictoc 1", "tictoc 2", "silo 1", "silo 2"]);
        assert_eq!(configurations("heddle bench tpcc --protocol silo --no-baseline"), ["silo 1"]);
        let line = "heddle bench ycsb --records 100 --protocol unprotected,silo,silo";
        assert_eq!(configurations(line), ["unprotected 1", "silo 1"]);
    }

    #[test]
    fn all_passes_over_what_cannot_run_and_says_so() {
        let plan = plan("heddle bench tpcc --protocol all --threads 2").unwrap();
        assert!(plan.asked.iter().all(|one| one.kind != Kind::Unprotected));
        assert_eq!(plan.asked.len(), Kind::ALL.len() - 1);
        assert!(
            plan.notes[0].starts_with("unprotected on 2 threads was passed over: it can use 1 thread only")
        );
    }

    #[test]
    fn quick_is_a_preset_that_arguments_override() {
        let quick = plan("heddle bench tpcc --quick").unwrap();
        assert_eq!((quick.runs, quick.settings.seconds.as_secs()), (1, 1));
        let quick = plan("heddle bench tpcc --quick --runs 2").unwrap();
        assert_eq!((quick.runs, quick.settings.seconds.as_secs()), (2, 1));
        let plain = plan("heddle bench tpcc").unwrap();
        assert_eq!((plain.runs, plain.settings.seconds.as_secs()), (3, 5));
    }

    #[test]
    fn refusals_are_one_line_that_says_what_is_allowed() {
        let cases = [
            ("bench tpcc --protocol foo", "no protocol is called `foo`; choose from unprotected, silo"),
            (
                "bench tpcc --protocol unprotected --threads 2",
                "unprotected cannot run on 2 threads: it can use 1 thread only",
            ),
            ("bench tpcc --threads 0", "whole numbers from 1, such as 1,2,4"),
            ("bench tpcc --threads two", "whole numbers from 1, such as 1,2,4"),
            ("bench tpcc --seconds 0", "seconds from 0.01 to 86400"),
            ("bench tpcc --seconds NaN", "seconds from 0.01 to 86400"),
            ("bench tpcc --warmup -1", "unexpected argument '-1'"),
            ("bench tpcc --runs 0", "a whole number from 1 to 1000"),
            ("bench tpcc --pool x", "a whole number from 0 to 10000000"),
            ("bench tpcc --warehouses 0", "0 is not in 1..=65535"),
            ("bench tpcc --mix half", "full, np, new-order, payment, or five percentages"),
            ("bench tpcc --mode fast", "give spec, dbx1000 or sto"),
            ("bench tpcc --binding near", "give home or random"),
            ("bench tpcc --rollbacks 101", "101 is not in 0..=100"),
            ("bench tpcc --scale huge", "give full or tiny"),
            ("bench ycsb --theta 1", "a number from 0 to below 1"),
            ("bench ycsb --preset z", "give one of read-only, medium, high, a, b, c, d, e, f"),
            ("bench ycsb --reads 101", "101 is not in 0..=100"),
            ("bench ycsb --ops 0", "0 is not in 1..=1000"),
            ("bench ycsb --records 3 --ops 2", "at least one access, and twice as many records"),
            ("bench ycsb --field-bytes 11", "give 10 or 100"),
            ("bench ycsb --preset d --reads 99", "add up to more than 100"),
            ("bench tpce --customers 1500", "or a multiple of 1000 up to 100000"),
            ("bench tpce --customers 100 --security-range 69", "100 customers have 68 securities"),
            ("bench tpce --mix 0/0", "how many Trade-Orders to how many Trade-Updates"),
            ("bench micro --pieces 65", "65 is not in 1..=64"),
            ("bench micro --scope 200000", "the scope is 1 to the number of rows, 100000"),
            ("bench micro --read-place between", "give among, before or after"),
            ("bench articles --keys pareto", "give uniform, zipf or powerlaw"),
            ("bench articles --theta 0.5", "give --keys zipf with --theta"),
            ("bench articles --keys zipf --theta 1", "a number from 0 to below 1"),
            ("bench articles --order first", "give insert-last or as-written"),
            ("bench articles --readers away", "give called or apart"),
            ("bench articles --comment-cap 0", "0 is not in 1.."),
            ("bench tpcd", "unrecognized subcommand 'tpcd'"),
            ("bench tpcc --speed 3", "unexpected argument '--speed'"),
        ];
        for (line, expected) in cases {
            let message = plan(&format!("heddle {line}")).map(|plan| plan.notes).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
            assert!(!message.contains('\n'), "{line}: {message}");
        }
    }

    #[test]
    fn a_simulation_has_its_points_and_windows() {
        let points = |line: &str| -> Vec<String> {
            let plan = simulation(line).unwrap();
            let told = |point: &sim::arguments::Configuration| {
                format!("{} {} x{}", point.kind, point.cores, point.factor.value())
            };
            plan.points.iter().map(told).collect()
        };
        let line = "heddle sim tpcc --protocol tictoc,silo --cores 16,1";
        assert_eq!(points(line), ["tictoc 1 x1", "tictoc 16 x1", "silo 1 x1", "silo 16 x1"]);
        let line = "heddle sim ycsb --records 100 --protocol silo --cores 8 --sweep";
        assert_eq!(points(line), ["silo 8 x1", "silo 8 x0.5", "silo 8 x2"]);
        assert_eq!(
            points("heddle sim tpcc --protocol silo --quick"),
            ["silo 1 x1", "silo 4 x1", "silo 16 x1"]
        );

        let all = simulation("heddle sim tpcc --protocol all --cores 1,8,64 --sweep").unwrap();
        assert_eq!(all.points.len(), 3 * (3 * (Kind::contenders().len() - 1) + 1));
        assert_eq!(all.notes, ["unprotected on 8, 64 cores was passed over: it can use 1 core only"]);

        let plan = simulation("heddle sim tpcc").unwrap();
        let windows =
            [1, 16, 1024].map(|cores| (plan.window(cores).as_micros(), plan.warmup(cores).as_micros()));
        assert_eq!(windows, [(20_000, 5_000), (10_000, 2_500), (4_000, 1_000)]);
        let plan = simulation("heddle sim tpcc --window 3ms --warmup 0ms --quick").unwrap();
        assert_eq!((plan.window(64).as_micros(), plan.warmup(64).as_micros()), (3_000, 0));
    }

    #[test]
    fn refusals_of_simulations_say_what_is_allowed() {
        let cases = [
            ("sim tpcc --protocol foo", "no protocol is called `foo`; choose from unprotected, silo"),
            ("sim tpcc --protocol unprotected --cores 1,2", "unprotected on 2 cores: it can use 1 core only"),
            ("sim tpcc --cores 0", "whole numbers from 1 to 1024"),
            ("sim tpcc --cores 1025", "whole numbers from 1 to 1024"),
            ("sim tpcc --window 2", "a number with its unit ns, us, ms or s"),
            ("sim tpcc --window 0ms", "give 1us or more"),
            ("sim tpcc --warmup 3h", "a number with its unit ns, us, ms or s"),
            ("sim tpcc --sockets 9", "a whole number from 1 to 8"),
            ("sim tpcc --sockets 2", "--sockets 2 needs --cores-per-socket"),
            (
                "sim tpcc --sockets 2 --cores-per-socket 4 --cores 9",
                "9 cores are more than the machine has: 2 sockets of 4 are 8",
            ),
            ("sim tpcc --jobs 0", "0 is not in 1..=64"),
            ("sim tpcc --costs /nowhere/at.all", "cannot be read"),
            ("sim tpcc --warehouses 0", "0 is not in 1..=65535"),
            ("sim ycsb --theta 1", "a number from 0 to below 1"),
            ("sim ycsb --records 3 --ops 2", "at least one access, and twice as many records"),
            ("sim ycsb --read-only never", "give serializable or snapshot"),
            ("sim tpce --customers 9", "9 is not in 10..=100000"),
            ("sim micro --rows 100 --scope 99", "leaves out 8 of them at least"),
            ("sim articles --articles 0", "0 is not in 1..=100000000"),
            ("sim tpcc --seconds 3", "unexpected argument '--seconds'"),
            ("sim tpcd", "unrecognized subcommand 'tpcd'"),
        ];
        for (line, expected) in cases {
            let message = simulation(&format!("heddle {line}")).map(|plan| plan.notes).unwrap_err();
            assert!(message.contains(expected), "{line}: {message}");
            assert!(!message.contains('\n'), "{line}: {message}");
        }
    }

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_is_shown_without_files() {
        let words =
            ["/somewhere/heddle", "bench", "tpcc", "--json", "a/b.json", "--html=c.html", "--seed", "7"];
        assert_eq!(command(&words.map(OsString::from)), "heddle bench tpcc --seed 7");
    }
}
