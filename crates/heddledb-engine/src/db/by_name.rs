//! Finding a procedure by its name.

use super::procedures::PlanCache;
use crate::error::{Misuse, Result};
use crate::seam::CallByName;

impl PlanCache {
    /// How a procedure is called by name.
    pub fn by_name(&self, name: &str) -> Result<CallByName> {
        match self.names.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => self.names[at].1.ok_or_else(|| Misuse::NotByName { name: name.to_owned() }.into()),
            Err(_) => {
                let callable = self.names.iter().filter(|(_, call)| call.is_some());
                let alike = alike(name, callable.map(|(known, _)| known.as_str()));
                Err(Misuse::NotRegistered { name: name.to_owned(), alike }.into())
            }
        }
    }
}

/// The `names` that are most like `name`, the closest first.
#[cold]
fn alike<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    /// As many as a message can hold.
    const SHOWN: usize = 8;
    /// How much of a name is compared: it may come from anywhere.
    const LETTERS: usize = 64;
    /// The edit distance: how many letters must be inserted, removed or changed.
    fn distance(one: &str, other: &str) -> usize {
        let mut row: Vec<usize> = (0..=other.chars().take(LETTERS).count()).collect();
        for (above, letter) in one.chars().take(LETTERS).enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], above + 1);
            for (at, same) in other.chars().take(LETTERS).map(|wanted| wanted == letter).enumerate() {
                let changed = diagonal + usize::from(!same);
                diagonal = row[at + 1];
                row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
            }
        }
        row[row.len() - 1]
    }
    let mut names: Vec<&str> = names.collect();
    names.sort_by_cached_key(|known| distance(name, known));
    names.iter().take(SHOWN).map(|known| (*known).to_owned()).collect()
}
