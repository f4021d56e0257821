//! The parameters of the workloads as arguments of a command line (feature `arguments`).
//!
//! They stand here, beside the workloads, because commands run these on the plain engine and on virtual
//! cores: each has the workloads' types for its own engine, and both read the same arguments.
//!
//! What is not given stays as the workload has it by default, or as its preset has it, so that the
//! defaults stand in one place.

use crate::Workload;
use crate::array::{self, Array};
use crate::micro::{self, Micro, Reads};
use crate::stamp::Application;
use crate::stamp::bayes::{self, Bayes};
use crate::stamp::genome::{self, Genome};
use crate::stamp::intruder::{self, Intruder};
use crate::stamp::kmeans::{self, Kmeans};
use crate::stamp::labyrinth::{self, Labyrinth};
use crate::stamp::vacation::{self, QUERIES_MAX, Vacation};
use crate::tpcc::{self, Binding, Mix, Mode, Scale, Tpcc};
use crate::tpce::{self, Tpce};
use crate::ycsb::{self, KeyOrder, Write, Ycsb};
use clap::Args;
use heddledb::Result;

/// Arguments that make a workload.
pub trait WorkloadArguments: Args + Clone + std::fmt::Debug {
    /// What they make.
    type Workload: Workload;

    /// The workload.
    ///
    /// # Errors
    /// What does not go together.
    fn workload(&self) -> Result<Self::Workload>;
}

/// Arguments that make an application.
pub trait ApplicationArguments: Args + Clone + std::fmt::Debug {
    /// What they make.
    type Application: Application;

    /// The application.
    ///
    /// # Errors
    /// What does not go together.
    fn application(&self) -> Result<Self::Application>;
}

/// Arguments of TPC-C.
#[derive(Args, Clone, Debug, Default)]
pub struct TpccArguments {
    /// Warehouses; few make it contended [default: 1]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = TPCC)]
    pub warehouses: Option<u16>,
    /// full, np (New-Order and Payment), new-order, payment, or five percentages as in
    /// 45/43/4/4/4 [default: full]
    #[arg(long, value_name = "MIX", help_heading = TPCC)]
    pub mix: Option<Mix>,
    /// How workers choose the warehouse: home (each its own) or random [default: home]
    #[arg(long, value_name = "NAME", help_heading = TPCC)]
    pub binding: Option<Binding>,
    /// spec, or the deviations of a published implementation: dbx1000, sto [default: spec]
    #[arg(long, value_name = "NAME", help_heading = TPCC)]
    pub mode: Option<Mode>,
    /// Percentage of order lines that another warehouse supplies [default: 1]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCC)]
    pub remote_items: Option<u32>,
    /// Percentage of payments by customers of another warehouse [default: 15]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCC)]
    pub remote_payments: Option<u32>,
    /// Percentage of New-Orders that roll back [default: 1]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCC)]
    pub rollbacks: Option<u32>,
    /// Rows: full (the standard) or tiny (a hundredth) [default: full]
    #[arg(long, value_name = "SIZE", value_parser = scale, help_heading = TPCC)]
    pub scale: Option<Scale>,
    /// Payment reads and writes the year-to-date sums instead of adding to them unread
    #[arg(long, help_heading = TPCC)]
    pub read_sums: bool,
    /// Delivery looks for the oldest order from the district's first instead of the last delivered
    #[arg(long, help_heading = TPCC)]
    pub full_delivery_scan: bool,
    /// Order-Status asks for a district's last order instead of a customer's, as a procedure among those that
    /// write (IC3's rendezvous pieces)
    #[arg(long, help_heading = TPCC)]
    pub last_order_status: bool,
    /// New-Order, Payment and Delivery write down what they change, which is done at the commit
    #[arg(long, help_heading = TPCC)]
    pub deferred: bool,
    /// Percentage of New-Orders that read and write at once all the same, with --deferred [default: 0]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCC)]
    pub wild: Option<u32>,
}

const TPCC: &str = "TPC-C";

impl WorkloadArguments for TpccArguments {
    type Workload = Tpcc;

    fn workload(&self) -> Result<Tpcc> {
        let default = tpcc::Parameters::default();
        Tpcc::new(tpcc::Parameters {
            warehouses: self.warehouses.unwrap_or(default.warehouses),
            mix: self.mix.unwrap_or(default.mix),
            binding: self.binding.unwrap_or(default.binding),
            mode: self.mode.unwrap_or(default.mode),
            remote_item_pct: self.remote_items.unwrap_or(default.remote_item_pct),
            remote_payment_pct: self.remote_payments.unwrap_or(default.remote_payment_pct),
            rollback_pct: self.rollbacks.unwrap_or(default.rollback_pct),
            scale: self.scale.unwrap_or(default.scale),
            commutative: default.commutative && !self.read_sums,
            delivery_hint: default.delivery_hint && !self.full_delivery_scan,
            last_order_status: self.last_order_status || default.last_order_status,
            deferred: self.deferred || default.deferred,
            wild_pct: self.wild.unwrap_or(default.wild_pct),
        })
    }
}

/// Arguments of YCSB.
#[derive(Args, Clone, Debug, Default)]
pub struct YcsbArguments {
    /// A named workload, which the arguments below alter: a to f, read-only, medium, high
    /// [default: high]
    #[arg(long, value_name = "NAME", value_parser = preset, help_heading = YCSB)]
    pub preset: Option<ycsb::Parameters>,
    /// Skew of the keys: 0 is uniform, below 1 [default: 0.9]
    #[arg(long, value_name = "T", value_parser = theta, help_heading = YCSB)]
    pub theta: Option<f64>,
    /// Percentage of reads; the rest are writes [default: 50]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = YCSB)]
    pub reads: Option<u32>,
    /// Accesses of a transaction [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = YCSB)]
    pub ops: Option<u16>,
    /// Records [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000_000), help_heading = YCSB)]
    pub records: Option<u64>,
    /// Bytes of each of a record's ten columns: 100 or 10 [default: 100]
    #[arg(long, value_name = "N", value_parser = field_bytes, help_heading = YCSB)]
    pub field_bytes: Option<usize>,
    /// Access the keys of a transaction in ascending order
    #[arg(long, help_heading = YCSB)]
    pub sorted: bool,
    /// Spread the frequent keys over the key space
    #[arg(long, help_heading = YCSB)]
    pub scramble: bool,
    /// Overwrite columns without reading them, instead of counting up
    #[arg(long, help_heading = YCSB)]
    pub blind_writes: bool,
}

const YCSB: &str = "YCSB";

impl WorkloadArguments for YcsbArguments {
    type Workload = Ycsb;

    fn workload(&self) -> Result<Ycsb> {
        let preset = self.preset.unwrap_or_default();
        Ycsb::new(ycsb::Parameters {
            records: self.records.unwrap_or(preset.records),
            field_bytes: self.field_bytes.unwrap_or(preset.field_bytes),
            operations: self.ops.map_or(preset.operations, usize::from),
            read_pct: self.reads.unwrap_or(preset.read_pct),
            theta: self.theta.unwrap_or(preset.theta),
            scramble: self.scramble || preset.scramble,
            key_order: if self.sorted { KeyOrder::Sorted } else { preset.key_order },
            write: if self.blind_writes { Write::Blind } else { preset.write },
            ..preset
        })
    }
}

/// Arguments of IC3's microbenchmark.
#[derive(Args, Clone, Debug, Default)]
pub struct MicroArguments {
    /// Pieces of a transaction, each on a table of its own [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=micro::table::PIECES as i64), help_heading = MICRO)]
    pub pieces: Option<u16>,
    /// Rows of each table; IC3 has a million [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(8..=1_000_000_000), help_heading = MICRO)]
    pub rows: Option<u64>,
    /// From how many rows the first record of a piece is drawn: 10 is a contention rate of 10 %, as many
    /// as there are rows is none [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = MICRO)]
    pub scope: Option<u64>,
    /// Percentage of transactions that give up after one of their pieces [default: 0]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = MICRO)]
    pub user_aborts: Option<u32>,
    /// Percentage of accesses that only read [default: 0]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = MICRO)]
    pub reads: Option<u32>,
    /// Where in a piece they stand: among, before or after the updates [default: among]
    #[arg(long, value_name = "NAME", help_heading = MICRO)]
    pub read_place: Option<Reads>,
    /// Half of the transactions go through the tables from the last to the first
    #[arg(long, help_heading = MICRO)]
    pub reversed: bool,
}

const MICRO: &str = "Microbenchmark";

impl WorkloadArguments for MicroArguments {
    type Workload = Micro;

    fn workload(&self) -> Result<Micro> {
        let default = micro::Parameters::default();
        Micro::new(micro::Parameters {
            pieces: self.pieces.map_or(default.pieces, usize::from),
            rows: self.rows.unwrap_or(default.rows),
            scope: self.scope.unwrap_or(default.scope),
            user_abort_pct: self.user_aborts.unwrap_or(default.user_abort_pct),
            read_pct: self.reads.unwrap_or(default.read_pct),
            reads: self.read_place.unwrap_or(default.reads),
            reversed: self.reversed || default.reversed,
        })
    }
}

/// Arguments of TPC-E.
#[derive(Args, Clone, Debug, Default)]
pub struct TpceArguments {
    /// Customers: up to 1000, or a multiple of that; five times as many accounts, 0.685 times as many
    /// securities [default: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000), help_heading = TPCE)]
    pub customers: Option<u32>,
    /// How many of the securities are traded; few make it contended [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = TPCE)]
    pub security_range: Option<u32>,
    /// How many Trade-Orders are drawn to how many Trade-Updates [default: 101/20]
    #[arg(long, value_name = "N/N", help_heading = TPCE)]
    pub mix: Option<tpce::Mix>,
    /// Percentage of orders that wait for a price [default: 40]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCE)]
    pub limit_orders: Option<u32>,
    /// Percentage of orders that roll back [default: 1]
    #[arg(long, value_name = "PCT", value_parser = percentage(), help_heading = TPCE)]
    pub rollbacks: Option<u32>,
    /// Trades are numbered by one counter that all workers share, instead of a range for each
    #[arg(long, help_heading = TPCE)]
    pub shared_trade_ids: bool,
}

const TPCE: &str = "TPC-E";

impl WorkloadArguments for TpceArguments {
    type Workload = Tpce;

    fn workload(&self) -> Result<Tpce> {
        let default = tpce::Parameters::default();
        Tpce::new(tpce::Parameters {
            customers: self.customers.unwrap_or(default.customers),
            security_range: self.security_range.or(default.security_range),
            mix: self.mix.unwrap_or(default.mix),
            limit_pct: self.limit_orders.unwrap_or(default.limit_pct),
            rollback_pct: self.rollbacks.unwrap_or(default.rollback_pct),
            shared_trade_ids: self.shared_trade_ids || default.shared_trade_ids,
        })
    }
}

/// Arguments of DRP's array.
#[derive(Args, Clone, Debug, Default)]
pub struct ArrayArguments {
    /// Elements of the array; DRP has a million [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000_000), help_heading = ARRAY)]
    pub elements: Option<u64>,
    /// Elements that a transaction increments, all different [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = ARRAY)]
    pub accesses: Option<u16>,
    /// Workers draw from the whole array, and not each from a part of its own
    #[arg(long, help_heading = ARRAY)]
    pub shared: bool,
    /// Skew of a shared array: 0 is uniform, below 1 [default: 0]
    #[arg(long, value_name = "T", value_parser = theta, help_heading = ARRAY)]
    pub theta: Option<f64>,
    /// Increment at once, without deferring
    #[arg(long, help_heading = ARRAY)]
    pub eager: bool,
    /// One worker increments plain numbers, without a database
    #[arg(long, help_heading = ARRAY)]
    pub plain: bool,
}

const ARRAY: &str = "Array";

impl WorkloadArguments for ArrayArguments {
    type Workload = Array;

    fn workload(&self) -> Result<Array> {
        let default = array::Parameters::default();
        Array::new(array::Parameters {
            elements: self.elements.unwrap_or(default.elements),
            accesses: self.accesses.map_or(default.accesses, usize::from),
            shared: self.shared || default.shared,
            theta: self.theta.unwrap_or(default.theta),
            eager: self.eager || default.eager,
            plain: self.plain || default.plain,
        })
    }
}

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

fn preset(name: &str) -> Result<ycsb::Parameters, String> {
    ycsb::Parameters::preset(name).ok_or_else(|| {
        let names = ycsb::Parameters::PRESETS.map(|(name, _)| name);
        format!("give one of {}", names.join(", "))
    })
}

/// Parses a skew.
///
/// # Errors
/// What is allowed.
pub fn theta(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(theta) if (0.0..1.0).contains(&theta) => Ok(theta),
        _ => Err("give a number from 0 to below 1, such as 0.9".into()),
    }
}

/// Parses the size of a column.
///
/// # Errors
/// What is allowed.
pub fn field_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ (10 | 100)) => Ok(bytes),
        _ => Err("give 10 or 100".into()),
    }
}

fn percentage() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=100)
}

/// Parses a scale.
///
/// # Errors
/// What is allowed.
pub fn scale(text: &str) -> Result<Scale, String> {
    match text {
        "full" => Ok(Scale::FULL),
        "tiny" => Ok(Scale::TINY),
        _ => Err("give full or tiny".into()),
    }
}
