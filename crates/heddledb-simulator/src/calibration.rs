//! How well the table of costs that is built in fits a real machine.
//!
//! `heddle sim calibrate` runs the same loads on one real core and on one virtual one. What it found for the
//! table in [`Costs::default`] is kept here, and told with every result.

use heddledb::simulation::Costs;

/// What was found: comments on the machine, and a line for each workload and protocol with the nanoseconds of a
/// transaction on one real core and on a virtual one, and the latter by the former.
pub const TABLE: &str = include_str!("calibration.txt");

/// What can be said of results with a table of costs, in a line.
pub fn statement(costs: &Costs) -> String {
    if *costs != Costs::default() {
        return "a table of costs that is not the built-in one: not calibrated".into();
    }
    let (low, high) = range(TABLE);
    let machine = TABLE.lines().find_map(|line| line.strip_prefix("# machine: ")).unwrap_or("unknown");
    format!(
        "calibrated on one core of {machine}; a transaction takes {low:.2} to {high:.2} of its real time there \
         ({} loads)",
        ratios(TABLE).count()
    )
}

/// The lowest and the highest ratio of a table.
fn range(table: &str) -> (f64, f64) {
    ratios(table).fold((f64::INFINITY, 0.0), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
}

/// The last column of each line that is no comment.
fn ratios(table: &str) -> impl Iterator<Item = f64> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().last()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_table_is_within_its_bar() {
        let (low, high) = range(TABLE);
        assert!(low >= 0.85 && high <= 1.15, "{low} to {high}");
        assert!(ratios(TABLE).count() >= 30);
        assert!(statement(&Costs::default()).starts_with("calibrated on one core of "));
        let other = Costs::default().scaled(2, 1);
        assert!(statement(&other).contains("not calibrated"));
    }
}
