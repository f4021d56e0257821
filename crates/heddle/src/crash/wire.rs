//! What a child tells its parent, over its standard output: each message in one unbuffered write.
//!
//! ```text
//!  tag, 1 byte | bytes of what follows, 2 | words, or text
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// A message of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The directory is open.
    Opened(Opened),
    /// A commit is durable: session, number, digest of its ledger row.
    Durable(u64, u64, u64),
    /// All commits of a session up to a number are durable.
    Flushed(u64, u64),
    /// A copy is begun, of this number.
    BackupBegun(u64),
    /// It is whole.
    BackupEnded(u64),
    /// A checkpoint is begun.
    CheckpointBegun,
    /// It counts.
    CheckpointEnded,
    /// It failed, and the log did not.
    CheckpointFailed(String),
    /// The log has failed, or the directory could not be opened: by what.
    Failed(String),
    /// Something that must never be.
    Violation(String),
    /// A ledger row.
    Ledger(Vec<u64>),
    /// A slot.
    Slot(Vec<u64>),
    /// A twin.
    Twin(Vec<u64>),
    /// An index entry: bucket, key.
    Entry(u64, u64),
    /// The child ends by itself, and everything is durable: transactions tried by each session.
    Ended(Vec<u64>),
}

/// What was found when a directory was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Of all rows.
    pub digest: u64,
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Torn tails.
    pub torn: u64,
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        let (tag, words): (u8, &[u64]) = match self {
            Self::Opened(opened) => (b'O', &[opened.digest, opened.rows, opened.transactions, opened.torn]),
            Self::Durable(session, number, digest) => (b'A', &[*session, *number, *digest]),
            Self::Flushed(session, number) => (b'F', &[*session, *number]),
            Self::BackupBegun(number) => (b'B', &[*number]),
            Self::BackupEnded(number) => (b'E', &[*number]),
            Self::CheckpointBegun => (b'C', &[]),
            Self::CheckpointEnded => (b'D', &[]),
            Self::Ledger(words) => (b'L', words),
            Self::Slot(words) => (b'S', words),
            Self::Twin(words) => (b'T', words),
            Self::Entry(bucket, key) => (b'I', &[*bucket, *key]),
            Self::Ended(words) => (b'Z', words),
            Self::CheckpointFailed(text) => return frame(b'K', text.as_bytes()),
            Self::Failed(text) => return frame(b'X', text.as_bytes()),
            Self::Violation(text) => return frame(b'V', text.as_bytes()),
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        frame(tag, &bytes)
    }

    fn decode(tag: u8, payload: &[u8]) -> Option<Self> {
        let text = || String::from_utf8_lossy(payload).into_owned();
        let words: Vec<u64> = payload.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Some(match (tag, &words[..]) {
            (b'O', &[digest, rows, transactions, torn]) => {
                Self::Opened(Opened { digest, rows, transactions, torn })
            }
            (b'A', &[session, number, digest]) => Self::Durable(session, number, digest),
            (b'F', &[session, number]) => Self::Flushed(session, number),
            (b'B', &[number]) => Self::BackupBegun(number),
            (b'E', &[number]) => Self::BackupEnded(number),
            (b'C', []) => Self::CheckpointBegun,
            (b'D', []) => Self::CheckpointEnded,
            (b'I', &[bucket, key]) => Self::Entry(bucket, key),
            (b'L', _) => Self::Ledger(words),
            (b'S', _) => Self::Slot(words),
            (b'T', _) => Self::Twin(words),
            (b'Z', _) => Self::Ended(words),
            (b'K', _) => Self::CheckpointFailed(text()),
            (b'X', _) => Self::Failed(text()),
            (b'V', _) => Self::Violation(text()),
            _ => return None,
        })
    }

    /// The next message; `None` at the end, even in the middle of one.
    ///
    /// # Errors
    /// The system's; bytes that are no message.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 3];
        let mut whole = |buffer: &mut [u8]| match from.read_exact(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            outcome => outcome.map(|()| true),
        };
        if !whole(&mut head)? {
            return Ok(None);
        }
        let mut payload = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
        if !whole(&mut payload)? {
            return Ok(None);
        }
        let message = Self::decode(head[0], &payload);
        message.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a child sent no message"))
    }
}

fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    // Short enough that a pipe takes it at once and whole.
    let payload = &payload[..payload.len().min(2000)];
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The pipe to the parent.
pub struct Pipe(File);

impl Pipe {
    /// The standard output, without a buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// Sends a message, at once. Without a parent there is nothing left to do.
    pub fn send(&self, message: &Message) {
        self.send_bytes(&message.encode());
    }

    /// Sends many messages.
    pub fn send_all(&self, messages: impl Iterator<Item = Message>) {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend(message.encode());
        }
        self.send_bytes(&bytes);
    }

    fn send_bytes(&self, bytes: &[u8]) {
        if (&self.0).write_all(bytes).is_err() {
            std::process::exit(5);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let all = [
            Message::Opened(Opened { digest: 1, rows: 2, transactions: 3, torn: 4 }),
            Message::Durable(1, 2, 3),
            Message::CheckpointBegun,
            Message::BackupBegun(2),
            Message::BackupEnded(2),
            Message::Ledger(vec![1, 2, 3, 4]),
            Message::Failed("syncing".into()),
            Message::Ended(vec![]),
            Message::Ended(vec![7]),
            Message::Ended(vec![7, 8]),
        ];
        let mut bytes: Vec<u8> = all.iter().flat_map(Message::encode).collect();
        // A message that was cut off by a kill is none.
        bytes.extend(&Message::Durable(1, 2, 3).encode()[..7]);
        let mut from = &bytes[..];
        for message in &all {
            assert_eq!(Message::read(&mut from).unwrap().as_ref(), Some(message));
        }
        assert_eq!(Message::read(&mut from).unwrap(), None);
        assert!(Message::read(&mut &b"N\0\0"[..]).is_err());
    }
}
