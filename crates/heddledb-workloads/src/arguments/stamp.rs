//! The arguments of STAMP's applications.

use super::{ApplicationArguments, WorkloadArguments, percentage, theta};
use crate::stamp::bayes::{self, Bayes};
use crate::stamp::genome::{self, Genome};
use crate::stamp::intruder::{self, Intruder};
use crate::stamp::kmeans::{self, Kmeans};
use crate::stamp::labyrinth::{self, Labyrinth};
use crate::stamp::vacation::{self, QUERIES_MAX, Vacation};
use clap::Args;
use heddledb::Result;

/// Arguments of STAMP's vacation.
#[derive(Args, Clone, Debug, Default)]
pub struct VacationArguments {
    /// low or high contention as DRP has it, or hot: ten offers of each type; the arguments below alter it [default: low]
    #[arg(long, value_name = "NAME", value_parser = vacation_preset, help_heading = VACATION)]
    pub contention: Option<vacation::Parameters>,
    /// Offers of each type, and customers; DRP has 1048576 [default: 16384; hot: 1000]
    #[arg(long, short = 'r', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), help_heading = VACATION)]
    pub relations: Option<u64>,
    /// Offers that a task asks for or changes at most [default: 2; high, hot: 4]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=QUERIES_MAX as i64), help_heading = VACATION)]
    pub queries: Option<u16>,
    /// From how many of them a task's are drawn, in percent [default: 90; high, hot: 1]
    #[arg(long, short = 'q', value_name = "PCT", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = VACATION)]
    pub query_range: Option<u32>,
    /// Percentage of tasks that make a reservation [default: 98; high, hot: 90]
    #[arg(long, short = 'u', value_name = "PCT", value_parser = percentage(), help_heading = VACATION)]
    pub users: Option<u32>,
    /// Read and write at once, without deferring
    #[arg(long, help_heading = VACATION)]
    pub eager: bool,
}

const VACATION: &str = "Vacation";

impl WorkloadArguments for VacationArguments {
    type Workload = Vacation;

    fn workload(&self) -> Result<Vacation> {
        let preset = self.contention.unwrap_or(vacation::Parameters::LOW);
        Vacation::new(vacation::Parameters {
            relations: self.relations.unwrap_or(preset.relations),
            queries: self.queries.map_or(preset.queries, usize::from),
            query_pct: self.query_range.unwrap_or(preset.query_pct),
            user_pct: self.users.unwrap_or(preset.user_pct),
            eager: self.eager || preset.eager,
        })
    }
}

/// Arguments of STAMP's k-means.
#[derive(Args, Clone, Debug, Default)]
pub struct KmeansArguments {
    /// low (160 centres) or high (40) contention, as DRP has it; the arguments below alter it [default: high]
    #[arg(long, value_name = "NAME", value_parser = kmeans_preset, help_heading = KMEANS)]
    pub contention: Option<kmeans::Parameters>,
    /// Points; DRP has 262144 [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = KMEANS)]
    pub points: Option<u32>,
    /// The largest number of centres that is tried [default: 40; low: 160]
    #[arg(long, short = 'm', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = KMEANS)]
    pub most: Option<u32>,
    /// The smallest [default: the largest]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = KMEANS)]
    pub least: Option<u32>,
    /// As many points may change in the last phase, as a share of all [default: 0.00001; low: 0.001]
    #[arg(long, value_name = "T", value_parser = theta, help_heading = KMEANS)]
    pub threshold: Option<f64>,
    /// Read and write at once, without deferring
    #[arg(long, help_heading = KMEANS)]
    pub eager: bool,
    /// One worker adds to plain numbers, without a database
    #[arg(long, help_heading = KMEANS)]
    pub plain: bool,
}

const KMEANS: &str = "K-means";

impl ApplicationArguments for KmeansArguments {
    type Application = Kmeans;

    fn application(&self) -> Result<Kmeans> {
        let preset = self.contention.unwrap_or(kmeans::Parameters::HIGH);
        let most = self.most.map_or(preset.most, |most| most as usize);
        let least = if self.most.is_some() { most } else { preset.least };
        Kmeans::new(kmeans::Parameters {
            points: self.points.map_or(preset.points, |points| points as usize),
            most,
            least: self.least.map_or(least, |least| least as usize),
            threshold: self.threshold.unwrap_or(preset.threshold),
            eager: self.eager || preset.eager,
            plain: self.plain || preset.plain,
        })
    }
}

/// Arguments of STAMP's intruder.
#[derive(Args, Clone, Debug, Default)]
pub struct IntruderArguments {
    /// Flows; DRP has 262144 [default: 4096]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), help_heading = INTRUDER)]
    pub flows: Option<u64>,
    /// Packets of a flow at most; DRP has 128 [default: 16]
    #[arg(long, short = 'l', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = INTRUDER)]
    pub packets: Option<u32>,
    /// Percentage of flows that are attacks [default: 10]
    #[arg(long, short = 'a', value_name = "PCT", value_parser = percentage(), help_heading = INTRUDER)]
    pub attacks: Option<u32>,
}

const INTRUDER: &str = "Intruder";

impl ApplicationArguments for IntruderArguments {
    type Application = Intruder;

    fn application(&self) -> Result<Intruder> {
        let default = intruder::Parameters::default();
        Intruder::new(intruder::Parameters {
            flows: self.flows.unwrap_or(default.flows),
            packets: self.packets.unwrap_or(default.packets),
            attack_pct: self.attacks.unwrap_or(default.attack_pct),
        })
    }
}

/// Arguments of STAMP's genome.
#[derive(Args, Clone, Debug, Default)]
pub struct GenomeArguments {
    /// Bases of the gene; DRP has 16384 [default: 256]
    #[arg(long, short = 'g', value_name = "N", value_parser = clap::value_parser!(u32).range(16..=1 << 20), help_heading = GENOME)]
    pub gene: Option<u32>,
    /// Bases of a segment, up to 64; DRP has 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=64), help_heading = GENOME)]
    pub segment: Option<u32>,
    /// Segments; DRP has 16777216 [default: 16384]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = GENOME)]
    pub segments: Option<u32>,
}

const GENOME: &str = "Genome";

impl ApplicationArguments for GenomeArguments {
    type Application = Genome;

    fn application(&self) -> Result<Genome> {
        let default = genome::Parameters::default();
        Genome::new(genome::Parameters {
            gene: self.gene.map_or(default.gene, |gene| gene as usize),
            segment: self.segment.map_or(default.segment, |segment| segment as usize),
            segments: self.segments.map_or(default.segments, |segments| segments as usize),
        })
    }
}

/// Arguments of STAMP's labyrinth.
#[derive(Args, Clone, Debug, Default)]
pub struct LabyrinthArguments {
    /// Cells of the grid in each direction; STAMP's large one is 512x512x7 [default: 32x32x3]
    #[arg(long, value_name = "XxYxZ", value_parser = size, help_heading = LABYRINTH)]
    pub size: Option<[u64; 3]>,
    /// Pairs of points to be connected; with the large grid 512 [default: 96]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LABYRINTH)]
    pub pairs: Option<u32>,
}

const LABYRINTH: &str = "Labyrinth";

impl ApplicationArguments for LabyrinthArguments {
    type Application = Labyrinth;

    fn application(&self) -> Result<Labyrinth> {
        let default = labyrinth::Parameters::default();
        Labyrinth::new(labyrinth::Parameters {
            size: self.size.unwrap_or(default.size),
            pairs: self.pairs.unwrap_or(default.pairs),
        })
    }
}

/// Arguments of STAMP's bayes.
#[derive(Args, Clone, Debug, Default)]
pub struct BayesArguments {
    /// Variables of the network [default: 32]
    #[arg(long, short = 'v', value_name = "N", value_parser = clap::value_parser!(u32).range(2..=bayes::VARIABLES_MAX as i64), help_heading = BAYES)]
    pub variables: Option<u32>,
    /// Records that it is learned from; DRP has 4096 [default: 1024]
    #[arg(long, short = 'r', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000), help_heading = BAYES)]
    pub records: Option<u32>,
    /// Parents of a variable at most in the network that they are drawn from; DRP has 10 [default: 2]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(0..=bayes::PARENTS_MAX as i64), help_heading = BAYES)]
    pub parents: Option<u32>,
    /// How likely each of these is one; DRP has 40 [default: 20]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = BAYES)]
    pub parent_share: Option<u32>,
    /// Parents of a variable at most in what is learned; DRP has 8 [default: 2]
    #[arg(long, short = 'e', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=bayes::PARENTS_MAX as i64), help_heading = BAYES)]
    pub learned: Option<u32>,
}

const BAYES: &str = "Bayes";

impl ApplicationArguments for BayesArguments {
    type Application = Bayes;

    fn application(&self) -> Result<Bayes> {
        let default = bayes::Parameters::default();
        Bayes::new(bayes::Parameters {
            variables: self.variables.unwrap_or(default.variables),
            records: self.records.unwrap_or(default.records),
            parents: self.parents.unwrap_or(default.parents),
            parent_pct: self.parent_share.unwrap_or(default.parent_pct),
            learned: self.learned.unwrap_or(default.learned),
        })
    }
}

/// Parses the size of a grid.
fn size(text: &str) -> Result<[u64; 3], String> {
    let lengths: Vec<u64> = text.split('x').map_while(|length| length.parse().ok()).collect();
    let refusal = || "give three lengths, such as 32x32x3".to_owned();
    if text.split('x').count() != lengths.len() {
        Err(refusal())
    } else {
        lengths.try_into().map_err(|_| refusal())
    }
}

fn kmeans_preset(name: &str) -> Result<kmeans::Parameters, String> {
    match name {
        "low" => Ok(kmeans::Parameters::LOW),
        "high" => Ok(kmeans::Parameters::HIGH),
        _ => Err("give low or high".into()),
    }
}

fn vacation_preset(name: &str) -> Result<vacation::Parameters, String> {
    vacation::Parameters::preset(name).ok_or_else(|| "give low, high or hot".into())
}
