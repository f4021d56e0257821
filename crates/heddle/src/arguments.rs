//! Arguments that several commands share.

use crate::failure::Failure;
use std::fmt::Display;
use std::str::FromStr;

/// Parses a length of time.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.01..=86_400.0).contains(&value) => Ok(value),
        _ => Err("give seconds from 0.01 to 86400, such as 5 or 0.5".into()),
    }
}

/// Refuses a protocol that does not offer the isolation level.
pub fn refuse_levels<K: Copy + Display, L: PartialEq + Display + 'static>(
    kinds: &[K],
    level: L,
    levels: impl Fn(K) -> &'static [L],
) -> Result<(), Failure> {
    for &kind in kinds {
        let offered = levels(kind);
        if !offered.contains(&level) {
            let names: Vec<String> = offered.iter().map(L::to_string).collect();
            let names = names.join(", ");
            return Err(Failure::usage(format!(
                "{kind} does not offer --isolation {level}; it offers {names}"
            )));
        }
    }
    Ok(())
}

/// The protocols of these names in the order given, each once, and whether `all` was among them.
pub fn protocols<K>(names: &[String], every: &[K]) -> Result<(Vec<K>, bool), Failure>
where
    K: Copy + PartialEq + FromStr<Err: Display>,
{
    let mut kinds = Vec::new();
    let mut all = false;
    for name in names.iter().map(|name| name.trim()) {
        let named = if name == "all" {
            all = true;
            every.to_vec()
        } else {
            vec![name.parse().map_err(|error| Failure::usage(format!("{error}, all")))?]
        };
        for kind in named {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    Ok((kinds, all))
}
