//! A recorded history: what each transaction saw and did, when, and with what outcome.
//!
//! **File format**, JSON Lines, version 1. The first line is a header:
//!
//! ```json
//! {"format":"heddledb-history","version":1,"protocol":"silo","strict":true,"seed":7}
//! ```
//!
//! Each further line is one attempt of a transaction:
//!
//! ```json
//! {"session":0,"begin":12,"end":15,"status":"committed","stamp":1073741825,
//!  "ops":[{"read":[0,17,5]},{"write":[0,17,99]},{"delete":[1,3]},{"scan":[0,10,13,[[11,7]]]}]}
//! ```
//!
//! `begin` and `end` are numbers of one clock shared by all sessions: `end` of one below `begin` of
//! another means that it had finished before. `stamp` is the engine's commit stamp: of two committed
//! writers of a row, the later has the greater. An operation names a table number and a key; a
//! version is a number above 0 that no other write of the history uses; 0 as a read version means
//! absent.
//!
//! A history may span crashes ([`crate::crash::history`]): an attempt whose outcome nobody was told has the
//! status `survived` or `lost`, by what the next recovery said.
//!
//! **What a reader of files refuses**, besides lines of another shape: an attempt that ends before it
//! begins, a written version 0, a committed writer without a stamp, a scan whose lowest key is above
//! its highest, and attempts of one session that overlap. What is refused is a mistake of whoever
//! recorded; what the database may have done wrong is the checkers' to tell.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// A table number and a key.
pub type Row = (u8, u64);

/// Identifies one write. 0 stands for absence.
pub type Version = u64;

/// Bits of a stamp below its epoch.
pub const EPOCH_SHIFT: u32 = 24;

/// The version of a row that is not there.
pub const ABSENT: Version = 0;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It took effect.
    Committed,
    /// It had no effect.
    Aborted,
    /// It took effect, but nobody was told that it is durable; the database crashed and was recovered
    /// with it.
    Survived,
    /// The same, but recovered without it, as if it had never been.
    Lost,
}

impl Status {
    /// Whether it is part of what happened.
    pub fn took_effect(self) -> bool {
        matches!(self, Self::Committed | Self::Survived)
    }
}

/// One operation of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Table, key, version seen ([`ABSENT`] where there was no row).
    Read(u8, u64, Version),
    /// Table, key, version written: an insert or an update.
    Write(u8, u64, Version),
    /// Table, key: the row is gone.
    Delete(u8, u64),
    /// Table, lowest and highest key, rows seen with their versions: every other key between them
    /// was absent.
    Scan(u8, u64, u64, Vec<(u64, Version)>),
}

/// One attempt of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The session that ran it.
    pub session: u32,
    /// When its first operation was about to start.
    pub begin: u64,
    /// When its outcome was known.
    pub end: u64,
    /// The outcome.
    pub status: Status,
    /// The commit stamp; 0 if it aborted or wrote nothing.
    pub stamp: u64,
    /// What it did, in order.
    pub ops: Vec<Op>,
}

impl Attempt {
    /// Whether it can have been recorded; if not, why.
    fn sane(&self) -> Result<(), String> {
        if self.end < self.begin {
            return Err(format!("it ends at {}, before it begins at {}", self.end, self.begin));
        }
        for op in &self.ops {
            match op {
                Op::Write(table, key, ABSENT) => {
                    return Err(format!(
                        "it writes version 0 to table {table} key {key}; 0 means absent, so take a number above"
                    ));
                }
                Op::Write(..) | Op::Delete(..) if self.status.took_effect() && self.stamp == 0 => {
                    return Err("a committed writer needs the stamp of its commit, above 0".into());
                }
                Op::Scan(_, low, high, _) if low > high => {
                    return Err(format!("a scan's lowest key {low} is above its highest {high}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Always `heddledb-history`.
    pub format: String,
    /// Always 1.
    pub version: u32,
    /// The protocol that ran.
    pub protocol: String,
    /// Whether it claims strict serializability.
    pub strict: bool,
    /// The seed of the workload.
    pub seed: u64,
}

impl Header {
    const FORMAT: &str = "heddledb-history";

    /// A header of this version.
    pub fn new(protocol: &str, strict: bool, seed: u64) -> Self {
        Self { format: Self::FORMAT.into(), version: 1, protocol: protocol.into(), strict, seed }
    }
}

/// A whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What it is of.
    pub header: Header,
    /// All attempts, in any order.
    pub attempts: Vec<Attempt>,
}

/// Why a file is no history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// It could not be read.
    #[error("the history cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A line is not what the format says.
    #[error("line {line} is not {expected}: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What should stand there.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl History {
    /// Reads a history.
    ///
    /// # Errors
    /// [`HistoryError`], with the line.
    pub fn read(input: impl BufRead) -> Result<Self, HistoryError> {
        let mut header: Option<Header> = None;
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut lines: Vec<usize> = Vec::new();
        for (number, text) in input.lines().enumerate() {
            let text = text?;
            let bad = |expected, reason: String| HistoryError::Line { line: number + 1, expected, reason };
            if text.trim().is_empty() {
                continue;
            }
            if header.is_some() {
                let expected = "an attempt of a transaction";
                let attempt: Attempt =
                    serde_json::from_str(&text).map_err(|error| bad(expected, error.to_string()))?;
                attempt.sane().map_err(|reason| bad(expected, reason))?;
                attempts.push(attempt);
                lines.push(number + 1);
                continue;
            }
            let expected = "a history's header (`{\"format\":\"heddledb-history\",\"version\":1,..}`)";
            let first: Header =
                serde_json::from_str(&text).map_err(|error| bad(expected, error.to_string()))?;
            if first.format != Header::FORMAT || first.version != 1 {
                return Err(bad(expected, format!("format {} version {}", first.format, first.version)));
            }
            header = Some(first);
        }
        let empty =
            || HistoryError::Line { line: 1, expected: "a history's header", reason: "it is empty".into() };
        let header = header.ok_or_else(empty)?;
        let mut order: Vec<usize> = (0..attempts.len()).collect();
        order.sort_by_key(|at| (attempts[*at].session, attempts[*at].begin, attempts[*at].end));
        for pair in order.windows(2) {
            let (a, b) = (&attempts[pair[0]], &attempts[pair[1]]);
            if a.session == b.session && b.begin < a.end {
                let reason = format!(
                    "it begins at {}, but session {}'s attempt of line {} lasts until {}; a session runs one at a time",
                    b.begin, b.session, lines[pair[0]], a.end
                );
                let expected = "an attempt of its session alone";
                return Err(HistoryError::Line { line: lines[pair[1]], expected, reason });
            }
        }
        Ok(Self { header, attempts })
    }

    /// Writes a history.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, output: impl Write) -> io::Result<()> {
        let mut output = io::BufWriter::new(output);
        serde_json::to_writer(&mut output, &self.header)?;
        output.write_all(b"\n")?;
        for attempt in &self.attempts {
            serde_json::to_writer(&mut output, attempt)?;
            output.write_all(b"\n")?;
        }
        output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> History {
        let ops = vec![
            Op::Read(0, 1, ABSENT),
            Op::Write(0, 1, 9),
            Op::Delete(1, 3),
            Op::Scan(0, 1, 4, vec![(1, 9)]),
        ];
        let attempt = Attempt { session: 1, begin: 2, end: 5, status: Status::Committed, stamp: 77, ops };
        History { header: Header::new("silo", true, 3), attempts: vec![attempt] }
    }

    #[test]
    fn files_are_read_as_written() {
        let mut file = Vec::new();
        sample().write(&mut file).unwrap();
        assert_eq!(History::read(&file[..]).unwrap(), sample());
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let mut file = Vec::new();
        sample().write(&mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        let says = |text: &str| History::read(text.as_bytes()).unwrap_err().to_string();
        assert!(says("").contains("line 1"));
        assert!(
            says(&text.replace("heddledb-history", "other")).starts_with("line 1 is not a history's header")
        );
        let error = says(&text.replace("committed", "perhaps"));
        assert!(error.starts_with("line 2 is not an attempt") && error.contains("perhaps"), "{error}");
        assert!(error.contains("`committed`") && error.contains("`aborted`"), "{error}");
        let refused = |from: &str, to: &str, why: &str| {
            assert!(text.contains(from), "{text}");
            let error = says(&text.replace(from, to));
            assert!(error.starts_with("line 2 is not an attempt") && error.contains(why), "{error}");
        };
        refused("\"end\":5", "\"end\":1", "before it begins at 2");
        refused("[0,1,9]}", "[0,1,0]}", "version 0");
        refused("\"stamp\":77", "\"stamp\":0", "stamp");
        refused("[0,1,4,[[1,9]]]", "[0,5,4,[[1,9]]]", "lowest key 5");
        refused("delete", "remove", "unknown variant `remove`");
        let twice = format!("{text}\n{}", text.lines().last().unwrap());
        let error = says(&twice);
        assert!(error.starts_with("line 4 is not") && error.contains("line 2 lasts until 5"), "{error}");
    }
}
