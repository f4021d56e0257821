//! What two indexes cost that are added to a table with rows, and what looking through them costs.
//!
//! `cargo run --release --example indexing [ROWS] [FOLDER] [RUNS]` makes a table in an empty folder that does not exist, and opens it
//! with and without the indexes in turns, with one thread and with two. Prints the medians of how long the opening took without them,
//! of how much longer it took with them, and of a check of the database.

use heddledb::{Database, Result, Table, Transaction};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The table without indexes, and with two: one name, one row.
mod plain {
    #[derive(heddledb::Table, Clone, Copy)]
    #[table(name = "person")]
    pub struct Person {
        #[key]
        pub id: u64,
        pub number: u64,
        pub city: u32,
    }
}

mod indexed {
    #[derive(heddledb::Table, Clone, Copy)]
    #[table(name = "person", index(ByCity(city)), unique(ByNumber(number)))]
    pub struct Person {
        #[key]
        pub id: u64,
        pub number: u64,
        pub city: u32,
    }
}

/// Opens the folder, and returns how long that took.
fn open<T: Table>(folder: &Path, threads: usize) -> Result<(Database, Duration)> {
    let start = Instant::now();
    let db = Database::builder().table::<T>(0).path(folder).recovery_threads(threads).open()?;
    Ok((db, start.elapsed()))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("heddledb-indexing");
    let runs: usize = arguments.next().as_deref().unwrap_or("5").parse()?;
    let (db, _) = open::<plain::Person>(&folder, 1)?;
    let mut session = db.session()?;
    for first in (0..rows).step_by(1_000) {
        session.run(|tx| {
            (first..rows.min(first + 1_000)).try_for_each(|id| {
                let number = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                tx.insert(plain::Person { id, number, city: (number >> 54) as u32 })
            })
        })?;
    }
    drop(session);
    db.checkpoint()?;
    drop(db);
    println!("{rows} rows, two indexes; medians of {runs}");
    let mut times: [[Vec<Duration>; 3]; 2] = Default::default();
    for _ in 0..runs.max(1) {
        for (threads, [without, with, checks]) in (1..).zip(&mut times) {
            // The first removes the indexes that were built before.
            open::<plain::Person>(&folder, threads)?;
            without.push(open::<plain::Person>(&folder, threads)?.1);
            let (db, opening) = open::<indexed::Person>(&folder, threads)?;
            with.push(opening);
            let start = Instant::now();
            assert!(db.check()?.is_whole(), "an index does not agree with its table");
            checks.push(start.elapsed());
        }
    }
    for (threads, [without, with, checks]) in (1..).zip(times) {
        let without = median(without);
        println!(
            "{threads} thread(s): opened in {without:.3} s, the indexes built in {:.3} s, checked in {:.3} s",
            median(with) - without,
            median(checks)
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
