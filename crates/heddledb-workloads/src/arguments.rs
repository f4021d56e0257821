//! The parameters of the workloads as arguments of a command line (feature `arguments`).
//!
//! They stand here, beside the workloads, because commands run these on the plain engine and on virtual
//! cores: each has the workloads' types for its own engine, and both read the same arguments.
//!
//! What is not given stays as the workload has it by default, or as its preset has it, so that the
//! defaults stand in one place.

mod stamp;

pub use stamp::{
    BayesArguments, GenomeArguments, IntruderArguments, KmeansArguments, LabyrinthArguments,
    VacationArguments,
};

use crate::Workload;
use crate::array::{self, Array};
use crate::articles::{self, Articles};
use crate::micro::{self, Micro, Reads};
use crate::stamp::Application;
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
    /// Delivery adds to the customers' balances unread, and puts that off where the protocol does, instead of reading and writing them
    #[arg(long, help_heading = TPCC)]
    pub delivery_adds: bool,
    /// Delivery looks for the oldest order from the district's first instead of the last delivered
    #[arg(long, help_heading = TPCC)]
    pub full_delivery_scan: bool,
    /// New-Order looks its items up first, so that it knows whether it gives up before it comes to what others want
    #[arg(long, help_heading = TPCC)]
    pub items_first: bool,
    /// New-Order has its items first and comes to its district behind the stocks; the order and its lines it enters last, which lets a protocol that
    /// chops leave them to pieces of their own. With --delivery-adds, which waits for them
    #[arg(long, help_heading = TPCC)]
    pub orders_last: bool,
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
            delivery_adds: self.delivery_adds,
            delivery_hint: default.delivery_hint && !self.full_delivery_scan,
            items_first: self.items_first,
            orders_last: self.orders_last,
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), help_heading = ARRAY)]
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

/// Arguments of Articles.
#[derive(Args, Clone, Debug, Default)]
pub struct ArticlesArguments {
    /// Articles [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = ARTICLES)]
    pub articles: Option<u32>,
    /// Users [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = ARTICLES)]
    pub users: Option<u32>,
    /// How articles and users are chosen: uniform, zipf, or powerlaw, by which H-Store has every second transaction meet
    /// in one article [default: uniform]
    #[arg(long, value_name = "NAME", help_heading = ARTICLES)]
    pub keys: Option<articles::Keys>,
    /// Skew of keys by zipf: 0 is uniform, below 1 [default: 0.9]
    #[arg(long, value_name = "T", value_parser = theta, help_heading = ARTICLES)]
    pub theta: Option<f64>,
    /// An article with so many comments gets no more [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = ARTICLES)]
    pub comment_cap: Option<u32>,
    /// Where AddComment inserts: insert-last, after it has counted, or as-written, between reading the count and
    /// writing it, as in H-Store [default: insert-last]
    #[arg(long, value_name = "NAME", help_heading = ARTICLES)]
    pub order: Option<articles::Order>,
    /// Whether GetArticle and GetComments are procedures among those that write (called), or none (apart). Beside
    /// --read-only snapshot the analysis need not know of them, and AddComment is chopped in two [default: called]
    #[arg(long, value_name = "NAME", help_heading = ARTICLES)]
    pub readers: Option<articles::Readers>,
}

const ARTICLES: &str = "Articles";

impl WorkloadArguments for ArticlesArguments {
    type Workload = Articles;

    fn workload(&self) -> Result<Articles> {
        let default = articles::Parameters::default();
        let keys = self.keys.unwrap_or(default.keys);
        Articles::new(articles::Parameters {
            articles: self.articles.unwrap_or(default.articles),
            users: self.users.unwrap_or(default.users),
            keys: self.theta.map_or(Ok(keys), |theta| keys.with_theta(theta))?,
            comment_cap: self.comment_cap.unwrap_or(default.comment_cap),
            order: self.order.unwrap_or(default.order),
            readers: self.readers.unwrap_or(default.readers),
        })
    }
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
