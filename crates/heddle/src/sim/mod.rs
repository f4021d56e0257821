//! `heddle sim`: workloads on virtual cores.
//!
//! `bench` shows what this machine does; it has as many cores as it has, and its figures vary. Here the same
//! engine runs on up to a thousand virtual cores of one real one: every access to shared memory is charged to
//! its core's clock by a model of the caches. The outcome follows from the seed and the table of costs alone,
//! to the last count, on any machine.
//!
//! | room | what |
//! |---|---|
//! | `arguments` | what is to be simulated |
//! | `points` | the simulations, and their report |
//! | `costs` | tables of costs as files |
//! | `calibrate` | one virtual core against a real one |
//! | `fit` | costs that fit what was measured |
//! | `shapes` | counters and locks whose curves are known |
//! | `search` | searches for bugs, and one of their runs step by step; `blocks`: in processes of their own |

pub mod arguments;
mod blocks;
mod calibrate;
mod costs;
mod fit;
pub mod points;
mod search;
mod shapes;

use crate::bench::publish;
use crate::failure::Failure;
use arguments::{Plan, Simulated};
use calibrate::CalibrateArguments;
use clap::{Args, Subcommand};
use costs::CostsArguments;
use heddledb_simulator::point::Subject;
use heddledb_workloads::arguments::{
    ApplicationArguments, ArrayArguments, ArticlesArguments, BayesArguments, GenomeArguments,
    IntruderArguments, KmeansArguments, LabyrinthArguments, MicroArguments, TpccArguments, TpceArguments,
    VacationArguments, WorkloadArguments, YcsbArguments,
};
use search::{HuntArguments, ReplayArguments};
use shapes::ShapesArguments;

/// Arguments of `heddle sim`.
#[derive(Args, Debug)]
pub struct SimArguments {
    /// What is done.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// What is simulated.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// TPC-C: order entry in warehouses
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(Box<Simulated<TpccArguments>>),
    /// TPC-E: the read-write transactions of a brokerage house
    #[command(after_help = TPCE_EXAMPLES)]
    Tpce(Box<Simulated<TpceArguments>>),
    /// YCSB: reads and writes of records drawn from a zipfian distribution
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(Box<Simulated<YcsbArguments>>),
    /// IC3's microbenchmark: pieces of four updates, each on a table of its own
    #[command(after_help = MICRO_EXAMPLES)]
    Micro(Box<Simulated<MicroArguments>>),
    /// H-Store's Articles: a news site whose comments are shown and added
    #[command(after_help = ARTICLES_EXAMPLES)]
    Articles(Box<Simulated<ArticlesArguments>>),
    /// DRP's array: transactions that increment fifty elements each
    #[command(after_help = ARRAY_EXAMPLES)]
    Array(Box<Simulated<ArrayArguments>>),
    /// STAMP's vacation: a travel agency
    #[command(after_help = VACATION_EXAMPLES)]
    Vacation(Box<Simulated<VacationArguments>>),
    /// STAMP's k-means, run to its end
    #[command(after_help = APPLICATION_EXAMPLES)]
    Kmeans(Box<Simulated<KmeansArguments>>),
    /// STAMP's intruder, run to its end
    #[command(after_help = APPLICATION_EXAMPLES)]
    Intruder(Box<Simulated<IntruderArguments>>),
    /// STAMP's genome, run to its end
    #[command(after_help = APPLICATION_EXAMPLES)]
    Genome(Box<Simulated<GenomeArguments>>),
    /// STAMP's labyrinth, run to its end
    #[command(after_help = APPLICATION_EXAMPLES)]
    Labyrinth(Box<Simulated<LabyrinthArguments>>),
    /// STAMP's bayes, run to its end
    #[command(after_help = APPLICATION_EXAMPLES)]
    Bayes(Box<Simulated<BayesArguments>>),
    /// Search for bugs: small simulations from seeds, judged
    #[command(after_help = search::HUNT_EXAMPLES)]
    Hunt(HuntArguments),
    /// Run one of them again, and tell who did what to which record, step by step
    #[command(after_help = search::REPLAY_EXAMPLES)]
    Replay(ReplayArguments),
    /// Counters and locks whose curves are known: is the virtual machine sane?
    #[command(after_help = shapes::EXAMPLES)]
    Shapes(ShapesArguments),
    /// Print the table of costs, as a file for `--costs`
    #[command(after_help = costs::EXAMPLES)]
    Costs(CostsArguments),
    /// Compare one virtual core with one real one, and fit the table of costs
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(CalibrateArguments),
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle sim tpcc --quick
  heddle sim tpcc --protocol all --cores 1,2,4,8,16,32,64,128,256,1024 --html sim.html --json sim.json
  heddle sim ycsb --preset high --records 100000 --cores 1,16,256
  heddle sim shapes
  heddle sim hunt --protocol tictoc
  heddle sim replay silo/4711
  heddle sim costs > machine.costs
  heddle sim calibrate";

const TPCC_EXAMPLES: &str = "\
Examples:
  heddle sim tpcc --quick
  heddle sim tpcc --protocol all --cores 1,2,4,8,16,32,64,128,256,1024 --html sim.html --json sim.json
  heddle sim tpcc --cores 1,16,64 --sweep           # how much do conclusions depend on the costs?
  heddle sim tpcc --cores 1,48,96 --sockets 2 --cores-per-socket 48
  heddle sim tpcc --mix np --warehouses 4 --mode dbx1000 --cores 64,80 --jobs 2";

const TPCE_EXAMPLES: &str = "\
Examples:
  heddle sim tpce --quick --customers 100
  heddle sim tpce --customers 1000 --security-range 1 --cores 1,16,64 --protocol all";

const YCSB_EXAMPLES: &str = "\
Examples:
  heddle sim ycsb --quick --records 100000
  heddle sim ycsb --preset high --records 100000 --cores 1,16,256 --protocol all
  heddle sim ycsb --preset b --records 100000 --costs machine.costs --json -";

const MICRO_EXAMPLES: &str = "\
Examples:
  heddle sim micro --quick --rows 1000
  heddle sim micro --rows 10000 --scope 10 --cores 1,16,64 --protocol all";

const ARTICLES_EXAMPLES: &str = "\
Examples:
  heddle sim articles --quick --articles 10000
  heddle sim articles --articles 10000 --keys powerlaw --comment-cap 1000000 --cores 1,16,64 --protocol silo,ic3";

const ARRAY_EXAMPLES: &str = "\
Examples:
  heddle sim array --quick --protocol drp,silo
  heddle sim array --shared --theta 0.9 --cores 1,16,64 --protocol drp,silo";

const VACATION_EXAMPLES: &str = "\
Examples:
  heddle sim vacation --quick --contention hot --protocol drp,silo
  heddle sim vacation --contention high --cores 1,16,64 --protocol all";

const APPLICATION_EXAMPLES: &str = "\
Examples:
  heddle sim kmeans --points 2048 --cores 1,16,32 --protocol drp,tl2
  heddle sim kmeans --points 2048 --plain --cores 1 --protocol unprotected   # what speed-ups are over
  heddle sim intruder --flows 500 --cores 1,4 --protocol drp,tl2
  heddle sim genome --segments 4096 --cores 1,4 --protocol silo
  heddle sim labyrinth --size 16x16x3 --pairs 24 --cores 1,4 --protocol drp,tl2
  heddle sim bayes --variables 12 --cores 1,4 --protocol drp,tl2

All cores run the program to its end: there are no windows, and a rate is of the whole run.";

/// Runs the command. True if every check held.
pub fn sim(arguments: &SimArguments, command: String) -> Result<bool, Failure> {
    match &arguments.command {
        SimCommand::Tpcc(tpcc) => run(tpcc, command),
        SimCommand::Tpce(tpce) => run(tpce, command),
        SimCommand::Ycsb(ycsb) => run(ycsb, command),
        SimCommand::Micro(micro) => run(micro, command),
        SimCommand::Articles(articles) => run(articles, command),
        SimCommand::Array(array) => run(array, command),
        SimCommand::Vacation(vacation) => run(vacation, command),
        SimCommand::Kmeans(kmeans) => complete(kmeans, command),
        SimCommand::Intruder(intruder) => complete(intruder, command),
        SimCommand::Genome(genome) => complete(genome, command),
        SimCommand::Labyrinth(labyrinth) => complete(labyrinth, command),
        SimCommand::Bayes(bayes) => complete(bayes, command),
        SimCommand::Hunt(arguments) => search::hunt(arguments),
        SimCommand::Replay(arguments) => search::replay(arguments),
        SimCommand::Shapes(arguments) => {
            shapes::print(arguments);
            Ok(true)
        }
        SimCommand::Costs(arguments) => costs::print(arguments).map(|()| true),
        SimCommand::Calibrate(arguments) => calibrate::calibrate(arguments),
    }
}

fn run<W: WorkloadArguments>(simulated: &Simulated<W>, command: String) -> Result<bool, Failure>
where
    Subject: From<W::Workload>,
{
    measure(&simulated.workload()?.into(), &simulated.common.plan()?, &command)
}

fn complete<A: ApplicationArguments>(simulated: &Simulated<A>, command: String) -> Result<bool, Failure>
where
    Subject: From<A::Application>,
{
    let application = simulated.application()?;
    let common = &simulated.common;
    if common.window.is_some() || common.warmup.is_some() {
        return Err(Failure::usage("an application is run to its end: leave out --window and --warmup"));
    }
    measure(&application.into(), &common.plan()?, &command)
}

fn measure(subject: &Subject, plan: &Plan, command: &str) -> Result<bool, Failure> {
    plan.outputs.probe()?;
    let report = points::measure(subject, plan, unhurried(command));
    publish(&report, &plan.outputs)?;
    Ok(!report.failed())
}

/// The command without `--jobs`, on which nothing depends.
pub fn unhurried(command: &str) -> String {
    let mut words = Vec::new();
    let mut rest = command.split(' ');
    while let Some(word) = rest.next() {
        match word {
            "--jobs" | "-j" => drop(rest.next()),
            word if word.starts_with("--jobs=") || word.starts_with("-j") => {}
            word => words.push(word),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{html, table};
    use crate::{Cli, Command};
    use clap::Parser;

    /// JSON and page of a small simulation.
    fn files(arguments: &str) -> [String; 3] {
        let line = format!("heddle sim {arguments}");
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Sim(sim) = cli.command else { panic!("not a simulation") };
        let (subject, common): (Subject, _) = match &sim.command {
            SimCommand::Tpcc(tpcc) => (tpcc.workload().unwrap().into(), &tpcc.common),
            SimCommand::Tpce(tpce) => (tpce.workload().unwrap().into(), &tpce.common),
            SimCommand::Ycsb(ycsb) => (ycsb.workload().unwrap().into(), &ycsb.common),
            SimCommand::Micro(micro) => (micro.workload().unwrap().into(), &micro.common),
            SimCommand::Articles(articles) => (articles.workload().unwrap().into(), &articles.common),
            SimCommand::Array(array) => (array.workload().unwrap().into(), &array.common),
            SimCommand::Vacation(vacation) => (vacation.workload().unwrap().into(), &vacation.common),
            SimCommand::Kmeans(kmeans) => (kmeans.application().unwrap().into(), &kmeans.common),
            SimCommand::Intruder(intruder) => (intruder.application().unwrap().into(), &intruder.common),
            SimCommand::Genome(genome) => (genome.application().unwrap().into(), &genome.common),
            SimCommand::Labyrinth(labyrinth) => (labyrinth.application().unwrap().into(), &labyrinth.common),
            SimCommand::Bayes(bayes) => (bayes.application().unwrap().into(), &bayes.common),
            _ => panic!("no workload"),
        };
        let report = points::measure(&subject, &common.plan().unwrap(), unhurried(&line));
        assert!(!report.failed(), "{}", table::render(&report, false));
        let json = serde_json::to_string_pretty(&report).unwrap();
        [json, html::page(&report), table::render(&report, false)]
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_whatever_the_jobs() {
        let line = "tpcc --scale tiny --protocol silo,wait-die --cores 1,5 --window 200us --seed 3";
        let first = files(line);
        assert_eq!(files(line), first);
        assert_eq!(files(&format!("{line} --jobs 2")), first);
        assert_eq!(files(&format!("{line} -j4")), first);
        let other = files(&line.replace("seed 3", "seed 4"));
        assert_ne!(other[0], first[0]);
    }

    #[test]
    fn every_workload_repeats() {
        for line in [
            "micro --pieces 3 --rows 100 --scope 10 --user-aborts 10 --reversed --protocol tictoc --cores 3",
            "tpce --customers 20 --security-range 2 --protocol silo --cores 3",
            "articles --articles 60 --users 5 --keys powerlaw --protocol silo,ic3,chopping-occ --cores 3",
            "array --elements 500 --accesses 5 --shared --theta 0.9 --protocol drp --cores 3",
            "vacation --contention hot --relations 100 --protocol drp,silo --cores 3",
        ] {
            let line = format!("{line} --window 500us");
            assert_eq!(files(&line), files(&line));
        }
    }

    /// Run to their end, with checks, by cores that meet.
    #[test]
    fn every_application_repeats() {
        for line in [
            "kmeans --points 60 --most 5 --protocol drp,tl2 --cores 3",
            "kmeans --points 60 --most 5 --plain --protocol unprotected --cores 1",
            "genome --gene 120 --segments 300 --protocol silo --cores 3",
            "labyrinth --size 7x6x2 --pairs 10 --protocol tl2 --cores 3",
            "bayes --variables 6 --records 60 --protocol drp --cores 3",
        ] {
            assert_eq!(files(line), files(line));
        }
        // Its costs depend on where memory lies, by a line here and there; not what it does.
        files("intruder --flows 30 --packets 4 --protocol drp --cores 3");
        let [json, ..] = files("kmeans --points 60 --most 5 --protocol drp --cores 3");
        let report: crate::report::model::Report = serde_json::from_str(&json).unwrap();
        let run = &report.results[0].runs[0];
        // Two phases at least, each with a transaction for each point and for each three.
        assert!(run.committed >= 2 * (60 + 20 + 3) && run.seconds > 0.0, "{run:?}");
    }

    #[test]
    fn nothing_of_this_machine_is_in_the_files() {
        let here = crate::machine::describe();
        let files = files("ycsb --records 500 --protocol tictoc --cores 2 --window 50us");
        for file in &files[..2] {
            for word in [&here.os, &here.rustc, &here.target] {
                assert!(!file.contains(word), "{word}");
            }
        }
        assert!(files[0].contains("\"os\": \"simulated\""));
    }
}
