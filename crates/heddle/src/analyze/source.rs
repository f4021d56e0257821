//! Where a workload comes from: a text that comes with the command, a file, or the standard input.

use crate::failure::Failure;
use heddledb_analysis::text::nearest;
use heddledb_analysis::{Workload, builtin, text};
use std::fs;
use std::io::{Read, stdin};

/// Reads a workload: its label for messages, and itself.
pub fn load(source: &str) -> Result<(String, Workload), Failure> {
    if let Some(found) = builtin::find(source) {
        return Ok((source.to_owned(), parse(source, found.text)?));
    }
    if source == "-" {
        let mut text = String::new();
        let read = stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::usage(format!("the standard input cannot be read: {error}")))?;
        return Ok(("standard input".into(), parse("-", &text)?));
    }
    let bytes = fs::read(source).map_err(|error| {
        let names: Vec<&str> = builtin::ALL.iter().map(|one| one.name).collect();
        let meant = match nearest(source, names.iter().copied()) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        let allowed = format!("give a file, or one of {}", names.join(", "));
        Failure::usage(format!("`{source}` cannot be read ({error}): {allowed}{meant}"))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column =
            String::from_utf8_lossy(valid).chars().rev().take_while(|&letter| letter != '\n').count() + 1;
        Failure::usage(format!("{source}:{line}:{column}: this is no UTF-8 text"))
    })?;
    Ok((source.to_owned(), parse(source, &text)?))
}

/// Parses a workload that has at least one transaction; `label` names it in the message of a refusal.
pub fn parse(label: &str, content: &str) -> Result<Workload, Failure> {
    let workload = text::parse(content).map_err(|error| Failure::usage(format!("{label}:{error}")))?;
    if workload.transactions.is_empty() {
        return Err(Failure::usage(format!("{label}: there is no transaction; `txn NAME` opens one")));
    }
    Ok(workload)
}

/// The types that were asked for.
pub fn select(workload: Workload, types: &[String]) -> Result<Workload, Failure> {
    let wanted: Vec<String> = types.iter().map(|name| name.to_lowercase()).collect();
    let known: Vec<&str> = workload.transactions.iter().map(|one| one.name.as_str()).collect();
    if let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::usage(format!("no type is called `{name}`; choose from {}", known.join(", "))));
    }
    Ok(if wanted.is_empty() { workload } else { workload.only(&wanted) })
}
