//! `heddle sim shapes`: counters and locks whose curves are known, as a test of the virtual machine.

use crate::report::rate;
use crate::report::table::{align, empty, lines};
use clap::Args;
use heddledb_simulator::shapes::Shape;
use std::time::Duration;

/// Arguments of `heddle sim shapes`.
#[derive(Args, Debug)]
pub struct ShapesArguments {
    /// Numbers of virtual cores, by commas, up to 1024
    #[arg(long, short, value_name = "N,..", value_delimiter = ',', default_value = "1,2,4,16,64,256,1024",
        value_parser = super::arguments::cores)]
    pub cores: Vec<usize>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Operations in a second of virtual time, by all cores. On real machines, too, one shared counter and a queue lock
are flat, locks on one line collapse, and transactions that draw timestamps from one counter stop at its rate.

Examples:
  heddle sim shapes
  heddle sim shapes --cores 1,8,64";

/// Virtual time.
const WINDOW: Duration = Duration::from_millis(2);

/// Prints the table.
pub fn print(arguments: &ShapesArguments) {
    let mut table = empty(false);
    let cores = arguments.cores.iter().map(|cores| format!("{cores} cores"));
    table.set_header(std::iter::once("operations/s".to_owned()).chain(cores));
    for shape in Shape::ALL {
        let rates = arguments.cores.iter().map(|cores| rate(shape.rate(*cores, WINDOW)));
        table.add_row(std::iter::once(shape.name().to_owned()).chain(rates));
    }
    align(&mut table, 1);
    print!("{}", lines(&table));
}
