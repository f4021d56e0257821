//! `heddle htm`: hardware transactional memory, of this processor and of the model.

mod probe;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Arguments of `heddle htm`.
#[derive(Args, Debug)]
pub struct HtmArguments {
    #[command(subcommand)]
    command: HtmCommand,
}

#[derive(Subcommand, Debug)]
enum HtmCommand {
    /// Measure how many cache lines a region has room for
    #[command(after_help = probe::EXAMPLES)]
    Probe(probe::ProbeArguments),
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle htm probe
  heddle htm probe --model";

/// Runs the command.
pub fn htm(arguments: &HtmArguments, command: String) -> Result<(), Failure> {
    match &arguments.command {
        HtmCommand::Probe(arguments) => probe::probe(arguments, command),
    }
}
