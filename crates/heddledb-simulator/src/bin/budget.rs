//! Compares what every protocol costs with what is kept in `budget.txt`, or writes that file.
//!
//! `cargo run -p heddledb-simulator --bin budget` compares, and exits with 1 where they differ;
//! `... budget -- --write` writes.

#![forbid(unsafe_code)]

use heddledb_simulator::budget::{differences, measure};
use std::process::ExitCode;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/budget.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let write = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("usage: budget [--write]");
            return ExitCode::from(2);
        }
    };
    let outcome = measure(|line| println!("{line}")).and_then(|measured| {
        if write {
            return std::fs::write(FILE, measured).map_err(|error| format!("{FILE}: {error}"));
        }
        let kept = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
        match differences(&kept, &measured)[..] {
            [] => Ok(()),
            ref differences => Err(differences.join("\n")),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
