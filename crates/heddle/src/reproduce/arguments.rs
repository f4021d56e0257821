//! The arguments of `heddle reproduce`, and which figures they choose.

use super::figure::{Figure, Paper};
use super::papers::PAPERS;
use crate::failure::Failure;
use crate::report::outputs::Outputs;
use clap::Args;
use heddledb_analysis::text::nearest;
use std::path::PathBuf;

/// Arguments of `heddle reproduce`.
#[derive(Args, Clone, Debug)]
pub struct ReproduceArguments {
    /// The paper: dbx-tc, dgcc, drp, ic3 or tictoc
    #[arg(value_name = "PAPER", required_unless_present = "list")]
    pub paper: Option<String>,
    /// Only these figures, by commas, such as 12a,16; a number alone means all its parts [default: all]
    #[arg(long, short, value_name = "ID,..", value_delimiter = ',')]
    pub figure: Vec<String>,
    /// A first try: smaller tables, shorter windows and fewer points
    #[arg(long)]
    pub quick: bool,
    /// Seed of the data and the inputs; what is simulated is then the same to the last count
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Points that are simulated at a time, each by one thread; results do not depend on it
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: u8,
    /// Where figures on durability write their logs, in a folder of its own for each run, which is removed
    /// after it [default: the system's folder for temporary files]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// List the papers and their figures
    #[arg(long)]
    pub list: bool,
    /// Write figures and verdicts as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots, claims and verdicts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle reproduce --list
  heddle reproduce ic3 --quick --jobs 2
  heddle reproduce ic3 --figure 12a,16 --html ic3.html
  heddle reproduce ic3 --jobs 2 --json ic3.json --html ic3.html
  heddle reproduce ic3 --figure 18,19 --dir /var/tmp    # durability, on this machine's threads

Each figure is printed as a table, then what the paper says of it, each claim with what was measured and one of
  reproduced           the shape, order or ratio is the paper's
  not reproduced       it is not, and why, as far as that is known
  not reachable here   it cannot be run here, for a reason
Absolute figures are never compared. Figures on many cores run on virtual ones (`heddle sim`), the same on any
machine; figures on durability, and those named `-threads`, run on this machine's threads.

Exit codes: 0 all was run and every check held, 1 a run failed or a check did not hold, 2 unusable arguments.";

impl ReproduceArguments {
    /// Where the report goes.
    pub fn outputs(&self) -> Outputs {
        Outputs { json: self.json.clone(), html: self.html.clone() }
    }

    /// The paper.
    pub fn paper(&self) -> Result<&'static Paper, Failure> {
        let name = self.paper.as_deref().unwrap_or_default();
        PAPERS.iter().find(|paper| paper.name == name).ok_or_else(|| {
            let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
            Failure::usage(format!("no paper is called `{name}`; choose from {}", names.join(", ")))
        })
    }

    /// Those figures that were asked for, in the paper's order.
    pub fn chosen(&self, figures: Vec<Figure>) -> Result<Vec<Figure>, Failure> {
        let asked: Vec<&str> = self.figure.iter().map(|id| id.trim()).collect();
        for id in &asked {
            if !figures.iter().any(|figure| is_meant(figure.id, id)) {
                let known: Vec<&str> = figures.iter().map(|figure| figure.id).collect();
                let guess = nearest(id, known.iter().copied())
                    .map_or(String::new(), |guess| format!(" (did you mean `{guess}`?)"));
                return Err(Failure::usage(format!(
                    "there is no figure `{id}`{guess}; choose from {}",
                    known.join(", ")
                )));
            }
        }
        let wanted =
            |figure: &Figure| asked.is_empty() || asked.iter().any(|asked| is_meant(figure.id, asked));
        Ok(figures.into_iter().filter(wanted).collect())
    }
}

/// Whether a figure is the one that was asked for, or a part of it.
fn is_meant(id: &str, asked: &str) -> bool {
    id.strip_prefix(asked)
        .is_some_and(|part| part.is_empty() || part.starts_with(|first: char| !first.is_ascii_digit()))
        && !asked.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_all_its_parts() {
        for (id, asked, meant) in [
            ("12-length", "12", true),
            ("12a", "12a", true),
            ("12a", "12", true),
            ("12a", "12b", false),
            ("12a", "1", false),
            ("table1", "table1", true),
            ("table1", "table", false),
            ("18a", "", false),
        ] {
            assert_eq!(is_meant(id, asked), meant, "{id} {asked}");
        }
    }
}
