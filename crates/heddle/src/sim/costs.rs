//! Files with tables of costs: `name = value` lines, and comments from a `#` on.

use crate::failure::Failure;
use clap::Args;
use heddledb_simulator::simulation::{Costs, L1};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The highest value of an entry.
const VALUE_MAX: u64 = 1 << 30;

/// Arguments of `heddle sim costs`.
#[derive(Args, Clone, Debug)]
pub struct CostsArguments {
    /// Print the table with what this file changes in it
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// With the room that regions have in this first-level cache: 8-way or 12-way
    #[arg(long, value_name = "CACHE")]
    pub l1: Option<L1>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle sim costs > machine.costs      # the table that is used, each entry with what it means
  heddle sim tpcc --costs machine.costs # after some values were changed";

/// Prints the table as a file.
pub fn print(arguments: &CostsArguments) -> Result<(), Failure> {
    let costs = match &arguments.costs {
        Some(path) => read(path)?,
        None => Costs::default(),
    };
    let costs = arguments.l1.map_or(costs, |l1| l1.of(costs));
    print!("{}", render(&costs, &[]));
    Ok(())
}

/// A table as a file, with comments at its head.
pub fn render(costs: &Costs, head: &[String]) -> String {
    let mut text = String::new();
    for line in head {
        let _ = writeln!(text, "# {line}");
    }
    text += "# Costs of a virtual machine, in cycles of a core where not said otherwise.\n";
    for (name, about, value) in costs.entries() {
        let entry = format!("{name} = {value}");
        let _ = writeln!(text, "{entry:<30} # {about}");
    }
    text
}

/// Reads a table from a file. What it does not name is as by default.
pub fn read(path: &Path) -> Result<Costs, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{shown} cannot be read ({error}); `heddle sim costs` prints such a file"))
    })?;
    parse(&text).map_err(|message| Failure::usage(format!("{shown}, {message}")))
}

/// Reads a table from text; a refusal names the line.
fn parse(text: &str) -> Result<Costs, String> {
    let mut costs = Costs::default();
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let Some((name, value)) = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
        else {
            return Err(format!("line {number}: `{entry}` is no entry; write name = value, such as hit = 4"));
        };
        let Some(known) = costs.entries().into_iter().map(|(known, ..)| known).find(|known| *known == name)
        else {
            let near = nearest(name, costs.entries().into_iter().map(|(known, ..)| known));
            return Err(format!("line {number}: there is no cost `{name}`; did you mean `{near}`?"));
        };
        if let Some((_, before)) = seen.iter().find(|(seen, _)| *seen == known) {
            return Err(format!("line {number}: {name} stands in line {before} already; keep one of them"));
        }
        let least = Costs::least(known);
        match value.parse() {
            Ok(value) if (least..=VALUE_MAX).contains(&value) => {
                let set = costs.set(known, value);
                debug_assert!(set, "{known} is an entry");
            }
            _ => {
                return Err(format!(
                    "line {number}: {name} cannot be `{value}`; give a whole number from {least} to {VALUE_MAX}"
                ));
            }
        }
        seen.push((known, number));
    }
    Ok(costs)
}

/// The name that takes the fewest changes of letters.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|known| distance(name, known)).unwrap_or_default()
}

/// How many letters have to be added, taken away or exchanged (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.iter().enumerate() {
            let exchange = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = exchange.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_table_is_read_back() {
        let mut costs = Costs::default();
        assert!(costs.set("transfer_far", 777));
        let text = render(&costs, &["on some machine".into()]);
        assert!(text.starts_with("# on some machine\n"), "{text}");
        assert_eq!(parse(&text), Ok(costs));
    }

    #[test]
    fn what_is_not_named_stays() {
        let costs = parse("\n# nothing\n  hit=9 # nine\n").unwrap();
        assert_eq!(costs, Costs { hit: 9, ..Costs::default() });
    }

    #[test]
    fn refusals_name_the_line_and_what_is_allowed() {
        let cases = [
            ("hit = 4\ntransfre = 3", "line 2: there is no cost `transfre`; did you mean `transfer`?"),
            ("Wörd = 3", "did you mean `word`?"),
            ("hit 4", "line 1: `hit 4` is no entry; write name = value"),
            ("\nhit = 4.5", "line 2: hit cannot be `4.5`; give a whole number from 0 to 1073741824"),
            ("hit = -1", "line 1: hit cannot be `-1`"),
            ("mhz = 0", "line 1: mhz cannot be `0`; give a whole number from 1 to"),
            ("hit = 1\nrmw = 2\nhit = 1", "line 3: hit stands in line 1 already"),
        ];
        for (text, expected) in cases {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
