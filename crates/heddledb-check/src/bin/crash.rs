//! Cuts the power, kills, fills and damages, at every operation of the disk, until there were enough.
//!
//! `cargo run --release -p heddledb-check --bin crash` runs 200,000 points; `... crash POINTS [SEED [PROTOCOL]]` so
//! many, from that workload on, with all lives under that protocol. `HEDDLE_CRASH=17/cut/43`, or `dbx-tc/17/cut/43`, replays the
//! points of one operation.

#![forbid(unsafe_code)]

use heddledb::protocol::Kind;
use heddledb_check::beside;
use heddledb_check::crash::{Failure, Spot, explore, replay};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const POINTS: u64 = 200_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Result<Vec<u64>, _> = arguments.iter().take(2).map(|text| text.parse()).collect();
    let under: Result<Option<Kind>, _> = arguments.get(2).map(|name| name.parse()).transpose();
    let (Ok(numbers), Ok(under), 0..=3) = (numbers, under, arguments.len()) else {
        eprintln!("usage: crash [POINTS [SEED [PROTOCOL]]]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let outcome = match std::env::var("HEDDLE_CRASH") {
        Ok(text) => match text.parse::<Spot>() {
            Ok(spot) => replay(spot),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
        Err(_) => {
            let points = numbers.first().copied().unwrap_or(POINTS);
            let threads = beside::cores();
            let told = Mutex::new(Instant::now());
            let first = numbers.get(1).copied().unwrap_or(1);
            explore(&Failure::ALL, under, first, points, threads, &|done| {
                let mut told = told.lock().expect("nobody panics with it");
                if told.elapsed() > Duration::from_secs(1) {
                    *told = Instant::now();
                    let rate = done as f64 / start.elapsed().as_secs_f64();
                    eprint!("\r{done} of {points} points, {rate:.0} a second ");
                    let _ = std::io::stderr().flush();
                }
            })
        }
    };
    match outcome {
        Ok(counts) => {
            println!("\n{counts}{:44} {:>9.1}", "seconds", start.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("\n{violation}");
            ExitCode::FAILURE
        }
    }
}
