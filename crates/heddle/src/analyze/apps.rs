//! `heddle analyze --apps`: IC3's study of web applications again (IC3 §6.11, table 2).
//!
//! The paper's numbers stand beside those of the descriptions that come with `heddledb-analysis`, each of
//! which says which sources it rests on. An application without a description has the paper's numbers alone:
//! nothing is guessed.

use super::source::parse;
use crate::failure::Failure;
use heddledb_analysis::study::{Study, study};
use heddledb_analysis::{Options, analyse, builtin};
use std::fmt::Write;

const NOTES: &str = "
all: transaction types; multi: those that access several tables; D-SC: of these, those on a deadlock-prone SC-cycle
over several tables; IC3: those that keep several pieces with C-edges after merging, and so can be interleaved.
The descriptions follow callbacks and validations, so they access more than the blocks themselves, which the paper
analysed by hand. `heddle analyze apps/NAME` shows one; its text cites a file and line for each transaction.
";

/// The table, and what the descriptions rest on.
pub fn table() -> Result<String, Failure> {
    let mut text = String::new();
    let heads: String = ["all", "multi", "D-SC", "IC3"].map(|head| format!("{head:>6}")).concat();
    let _ = writeln!(text, "{:<18} {:<24} {:<24}   described here", "", "", "   in the paper");
    let _ = writeln!(text, "{:<18} {:<24} {heads}   {heads}", "application", "domain");
    let mut rests = String::from("\nThe descriptions rest on\n");
    for one in builtin::APPLICATIONS {
        let _ = write!(text, "{:<18} {:<24} {}", one.name, one.domain, numbers(&one.paper));
        if let Some(description) = one.described {
            let found = builtin::find(description.name)
                .ok_or_else(|| Failure::run(format!("the text {} is missing", description.name)))?;
            let analysis = analyse(&parse(found.name, found.text)?, &Options::default());
            let _ = write!(text, "   {}", numbers(&study(&analysis)));
            let _ = writeln!(rests, "  {:<22} {}", description.name, description.rests_on);
        }
        text.push('\n');
    }
    Ok(text + NOTES + &rests)
}

fn numbers(study: &Study) -> String {
    let number = |number: usize| if number == 0 { "-".into() } else { number.to_string() };
    [study.total, study.multi_table, study.deadlock_prone, study.interleaved]
        .map(|one| format!("{:>6}", number(one)))
        .concat()
}
