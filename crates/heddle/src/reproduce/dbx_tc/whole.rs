//! Section 2.2: whole transactions in regions.

use super::settings::{Level, MOST, System, WHOLE, small_note};
use crate::failure::Failure;
use crate::report::percent;
use crate::reproduce::figure::{Claim, Content, Figure, Finding, Scope, above, near};
use crate::reproduce::settings::{CORES, times};
use heddledb_simulator::simulation::Costs;

/// The names of the paper's levels, and the levels.
const LEVELS: [(&str, Level); 3] = [("NT1W", Level::High), ("2T1W", Level::Medium), ("1T1W", Level::Low)];
const LOW: &str = "1T1W";
const HIGH: &str = "NT1W";

/// So few lines of stores as figure 1b finds room for: nine of ten regions with 448 bytes at random places abort.
pub fn little_room(costs: Costs) -> Costs {
    Costs { htm_write_sets: 1, htm_write_ways: 6, ..costs }
}

/// Why regions have room enough here.
const ROOMY: &str = "a region ends before anything is installed, so it stores one line for each row and none for columns, old versions and \
                     index nodes, and the model has room for 8 lines in each set whatever else is in the cache: none is short of room. What \
                     aborts regions is that others ask for their lines, or that they wait. Figure 1c-why has the room that figure 1b measures";

/// What capacity aborts do.
fn serial() -> Claim {
    Claim::new("Capacity aborts lead to almost serial execution.", |results| {
        let regions = results.regions(LOW, MOST)?;
        let software = regions.software_share();
        let measured = format!(
            "8 cores: {} of the regions have no room, {} of the transactions are executed under the lock",
            percent(regions.capacity as f64 / regions.begun() as f64),
            percent(software)
        );
        Ok(Finding::new(regions.capacity > 0 && software >= 0.5, measured))
    })
}

/// Figure 1c.
pub fn figure_1c(scope: &Scope) -> Result<Figure, Failure> {
    let curves = LEVELS.map(|(name, level)| WHOLE.at_level(scope, level, name));
    Ok(Figure {
        id: "1c",
        title: "TPC-C, whole transactions in regions, by cores and contention",
        section: "§2.2",
        axis: CORES,
        content: Content::Points(curves.into_iter().collect::<Result<_, _>>()?),
        notes: small_note(),
        claims: vec![
            Claim::new("The scalability is poor even under low contention.", |results| {
                let ratio = results.over(LOW, MOST, 1.0)?;
                Ok(Finding::new(ratio <= MOST / 2.0, format!("8 cores make {} of one", times(ratio))))
            })
            .otherwise(ROOMY),
            Claim::new("88 % of transactions fall back to the lock on one thread.", |results| {
                let share = results.regions(LOW, 1.0)?.software_share();
                Ok(Finding::new(near(share, 0.88), percent(share)))
            })
            .otherwise(ROOMY),
            serial().otherwise(ROOMY),
            Claim::new("It is slightly better under high contention, since there is less data.", |results| {
                let ratio = results.at(HIGH, MOST)? / results.at(LOW, MOST)?;
                Ok(Finding::new(above(ratio, 1.0), format!("{} of low contention", times(ratio))))
            })
            .otherwise("without capacity aborts there is little that is executed under the lock with low contention; with high contention, conflicts"),
        ],
    })
}

/// Figure 1c with as little room as figure 1b finds.
pub fn figure_1c_why(scope: &Scope) -> Result<Figure, Failure> {
    let little = System { costs: little_room, ..WHOLE };
    let curves = LEVELS.map(|(name, level)| little.at_level(scope, level, name));
    let mut notes = small_note();
    notes.push("Six lines for the stores of a region, where figure 1c has 64 sets of 8.".into());
    Ok(Figure {
        id: "1c-why",
        title: "Figure 1c with room for six lines of stores",
        section: "§2.2",
        axis: CORES,
        content: Content::Points(curves.into_iter().collect::<Result<_, _>>()?),
        notes,
        claims: vec![
            Claim::new("The scalability is poor even under low contention.", |results| {
                let ratio = results.over(LOW, MOST, 1.0)?;
                Ok(Finding::new(ratio <= MOST / 2.0, format!("8 cores make {} of one", times(ratio))))
            }),
            Claim::new("88 % of transactions fall back to the lock on one thread.", |results| {
                let share = results.regions(LOW, 1.0)?.software_share();
                Ok(Finding::new(near(share, 0.88), percent(share)))
            })
            .otherwise("Payments and transactions that only read store six lines or fewer, as nothing is installed in a region"),
            serial(),
        ],
    })
}
