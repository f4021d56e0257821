//! What it costs to read a text of 1 KB that lies outside of its row, beside one that is in the row: nanoseconds a transaction.
//!
//! `cargo run --release -p heddledb --example long_texts`. With `string`, `text` or `bytes` behind it only that kind is read, as
//! often as a further argument says, which is for counting instructions. With `--check` it fails where a `String` is read more slowly than
//! 0.7 of the bytes in a row, or takes more than 64 bytes beside its text.

use heddledb::table::SLOT_BYTES;
use heddledb::{Database, Error, ReadTransaction, Result, Session, Table, Text, Transaction};
use std::hint::black_box;
use std::time::Instant;

const BYTES: usize = 1024;
const ROWS: u64 = 1_000;
const READS: u64 = 200_000;
const ROUNDS: usize = 7;

#[derive(Table, Clone)]
struct Outside {
    #[key]
    id: u64,
    text: String,
}

#[derive(Table, Clone)]
struct InRow {
    #[key]
    id: u64,
    text: Text<BYTES>,
}

#[derive(Table, Clone)]
struct Plain {
    #[key]
    id: u64,
    text: [u8; BYTES],
}

/// A way to read the text of a row, and to look at its first byte.
type Read = fn(&mut Session, u64) -> Result<u8>;

const KINDS: [(&str, Read); 3] = [
    ("string", |session, id| {
        session
            .run(|tx| Ok(black_box(tx.get_columns(id, Outside::text)?).map_or(0, |text| text.as_bytes()[0])))
    }),
    ("text", |session, id| {
        session.run(|tx| Ok(black_box(tx.get_columns(id, InRow::text)?).map_or(0, |text| text.as_bytes()[0])))
    }),
    ("bytes", |session, id| {
        session.run(|tx| Ok(black_box(tx.get_columns(id, Plain::text)?).map_or(0, |text| text[0])))
    }),
];

/// Nanoseconds for each of so many reads.
fn time(read: Read, session: &mut Session, reads: u64) -> Result<f64> {
    let begin = Instant::now();
    for number in 0..reads {
        assert_eq!(read(session, number * 7919 % ROWS)?, b'x');
    }
    Ok(begin.elapsed().as_nanos() as f64 / reads as f64)
}

fn main() -> Result<()> {
    let text = "x".repeat(BYTES);
    let db = Database::in_memory();
    let mut session = db.session()?;
    for id in 0..ROWS {
        session.run(|tx| {
            tx.insert(Outside { id, text: text.clone() })?;
            tx.insert(InRow { id, text: Text::truncated(&text) })?;
            tx.insert(Plain { id, text: [b'x'; BYTES] })
        })?;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let checks = arguments.get(1).is_some_and(|argument| argument == "--check");
    if let Some(kind) = arguments.get(1).filter(|_| !checks) {
        let reads = arguments.get(2).and_then(|reads| reads.parse().ok()).unwrap_or(READS);
        for (_, read) in KINDS.iter().filter(|(name, _)| name == kind) {
            time(*read, &mut session, reads)?;
        }
        return Ok(());
    }
    let mut nanoseconds = KINDS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, read), all) in KINDS.iter().zip(&mut nanoseconds) {
            all.push(time(*read, &mut session, READS)?);
        }
    }
    let medians = nanoseconds.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    });
    for ((name, _), median) in KINDS.iter().zip(medians) {
        println!("{name:>6}: {median:.0} ns a read, the median of {ROUNDS}");
    }
    let [string, _, plain] = medians;
    let each = db.metrics().value_bytes / ROWS as usize + SLOT_BYTES;
    println!("string / bytes: {:.2} of the speed; {each} bytes for a text of {BYTES}", plain / string);
    match checks && (plain / string < 0.7 || each > BYTES + 64) {
        true => Err(Error::user("a String costs too much")),
        false => Ok(()),
    }
}
