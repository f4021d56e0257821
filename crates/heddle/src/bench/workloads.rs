//! The parameters of the workloads as arguments.
//!
//! What is not given stays as the workload has it by default, or as its preset has it, so that the
//! defaults stand in one place.

use super::arguments::Common;
use crate::failure::Failure;
use clap::Args;
use heddledb_workloads::tpcc::{self, Binding, Mix, Mode, Scale, Tpcc};

/// Arguments of `heddle bench tpcc`.
#[derive(Args, Clone, Debug)]
pub struct TpccArguments {
    /// What all workloads share.
    #[command(flatten)]
    pub common: Common,
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
}

const TPCC: &str = "TPC-C";

impl TpccArguments {
    /// The workload.
    pub fn workload(&self) -> Result<Tpcc, Failure> {
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
        })
        .map_err(|error| Failure::usage(error.to_string()))
    }
}

fn percentage() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=100)
}

fn scale(text: &str) -> Result<Scale, String> {
    match text {
        "full" => Ok(Scale::FULL),
        "tiny" => Ok(Scale::TINY),
        _ => Err("give full or tiny".into()),
    }
}
