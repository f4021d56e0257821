//! How well the table of costs that is built in fits a real machine.
//!
//! `heddle sim calibrate` runs the same loads on one real core and on one virtual one. What it found for the
//! table in [`Costs::default`] is kept here, and told with every result.

use heddledb_engine_simulated::sync::simulation::Costs;

/// What was found: comments on the machine, and a line for each workload and protocol with a transaction's own
/// nanoseconds on one real core and on a virtual one, the latter by the former, and more.
pub const TABLE: &str = include_str!("calibration.txt");

/// What can be said of results with a table of costs, in a line.
pub fn statement(costs: &Costs) -> String {
    if *costs != Costs::default() {
        return "a table of costs that is not the built-in one: not calibrated".into();
    }
    described(TABLE)
}

/// The same of a table.
fn described(table: &str) -> String {
    let loads = ratios(table).count();
    if loads == 0 {
        return "the built-in table of costs, not calibrated yet".into();
    }
    let (low, high) = range(table);
    let machine = table.lines().find_map(|line| line.strip_prefix("# machine: ")).unwrap_or("unknown");
    format!(
        "calibrated on one core of {machine}; a transaction takes {low:.2} to {high:.2} of its own time there \
         ({loads} loads)"
    )
}

/// The lowest and the highest ratio of a table.
fn range(table: &str) -> (f64, f64) {
    ratios(table).fold((f64::INFINITY, 0.0), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
}

/// The fifth column of each line that is no comment.
fn ratios(table: &str) -> impl Iterator<Item = f64> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_table_is_within_its_bar() {
        let (low, high) = range(TABLE);
        assert!(ratios(TABLE).count() >= 30 && low >= 0.85 && high <= 1.15, "{low} to {high}");
    }

    #[test]
    fn a_table_is_told_in_a_line() {
        let table = "# machine: some processor\n# a comment 7\n\
                     tpcc silo 5000 4500 0.90 300\nycsb silo 1000 1120 1.12 0\n";
        assert_eq!(
            described(table),
            "calibrated on one core of some processor; a transaction takes 0.90 to 1.12 of its own time there \
             (2 loads)"
        );
        assert!(described("# machine: none\n").contains("not calibrated"));
        assert_eq!(statement(&Costs::default()), described(TABLE));
        let other = Costs { hit: 99, ..Costs::default() };
        assert!(statement(&other).contains("not calibrated"));
    }
}
