//! How long a directory takes to open that holds a log of many commits of one row each.
//!
//! `cargo run --release --example reopens [COMMITS] [FOLDER] [RUNS]` makes them, each in a round of the log of its own as far as the
//! disk lets it, in an empty folder that does not exist, and opens it with one thread and with two in turns. Prints the best time and
//! the median of each, for rows that count up, for rows in random order, and for a thousand rows.

use heddledb::{Database, Durability, Result, Table, Transaction};
use std::path::{Path, PathBuf};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

/// The row of a commit, by the commit's number.
type Key = fn(u64) -> u64;

fn open(folder: &Path, threads: usize) -> Result<Database> {
    Database::builder()
        .table::<Account>(0)
        .path(folder)
        .durability(Durability::Sync)
        .recovery_threads(threads)
        .open()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let commits: u64 = arguments.next().as_deref().unwrap_or("200000").parse()?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("heddledb-reopens");
    let runs: usize = arguments.next().as_deref().unwrap_or("5").parse()?;
    let keys: [(&str, Key); 3] = [
        ("rows that count up", |number| number),
        ("rows in random order", |number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        ("a thousand rows", |number| number % 1_000),
    ];
    println!("{commits} commits of one row each; best (median) of {runs}");
    for (name, key) in keys {
        let db = open(&folder, 1)?;
        let mut session = db.session()?;
        for number in 0..commits {
            let row = Account { id: key(number), balance: number as i64 };
            session.run(|tx| tx.upsert(row))?;
        }
        drop((session, db));
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..runs.max(1) {
            for (threads, times) in (1..).zip(&mut times) {
                let db = open(&folder, threads)?;
                times.push(db.recovery().expect("there was a log").elapsed);
            }
        }
        print!("{name:<22}");
        for (threads, mut times) in (1..).zip(times) {
            times.sort();
            let (best, median) = (times[0], times[times.len() / 2]);
            print!("  {threads} thread(s) {:.3} s ({:.3})", best.as_secs_f64(), median.as_secs_f64());
        }
        println!();
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}
