//! Many new rows by `upsert` in one transaction on one thread, into a hash table and into a tree in turns.
//!
//! `cargo run --release --example upserts [PROTOCOL] [ROWS] [RUNS]` prints the medians for keys that count up and for keys in
//! random order, and how the hash table's time is to the tree's. Each run is of a database of its own.

use heddledb::{Database, Result, Table, Transaction, protocol::Kind};
use std::time::{Duration, Instant};

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Hashed {
    #[key]
    id: u64,
    value: i64,
}

#[derive(Table, Clone, Copy)]
struct Ordered {
    #[key]
    id: u64,
    value: i64,
}

/// How long one transaction takes that puts a row for each of `keys`.
fn time<T: Table>(protocol: Kind, keys: &[u64], row: impl Fn(u64) -> T) -> Result<Duration> {
    let db = Database::builder().protocol(protocol).table::<T>(0).open()?;
    let mut session = db.session()?;
    let start = Instant::now();
    session.run(|tx| keys.iter().try_for_each(|key| tx.upsert(row(*key)).map(drop)))?;
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let protocol: Kind = arguments.next().as_deref().unwrap_or("silo").parse()?;
    let rows: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let runs: usize = arguments.next().as_deref().unwrap_or("5").parse()?;
    let rising: Vec<u64> = (0..rows).collect();
    // An odd factor: each key once.
    let random: Vec<u64> = rising.iter().map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    println!("{protocol}, {rows} new rows in one transaction, medians of {runs} runs");
    println!("{:<22} {:>9} {:>9} {:>6}", "keys", "hash", "tree", "ratio");
    for (order, keys) in [("that count up", &rising), ("in random order", &random)] {
        let (mut hash, mut tree) = (Vec::new(), Vec::new());
        for _ in 0..runs.max(1) {
            hash.push(time(protocol, keys, |id| Hashed { id, value: 1 })?);
            tree.push(time(protocol, keys, |id| Ordered { id, value: 1 })?);
        }
        let (hash, tree) = (median(hash).as_secs_f64(), median(tree).as_secs_f64());
        println!("{order:<22} {:>6.0} ms {:>6.0} ms {:>6.2}", hash * 1e3, tree * 1e3, hash / tree);
    }
    Ok(())
}
