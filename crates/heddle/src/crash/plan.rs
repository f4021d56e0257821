//! What happens in each cycle, drawn from the seed: parent and child draw the same.

use heddledb::Compression;
use heddledb::protocol::Kind;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keys that the transactions fight over.
pub const KEYS: u64 = 16;
/// Keys of one transaction.
pub const TOUCHED: usize = 3;
/// Cycles on one directory, before a new one is begun.
pub const LIFE: u64 = 10;

/// Numbers that look random, the same for the same seed (splitmix64).
pub struct Random(u64);

impl Random {
    /// Those that belong to a seed and a few numbers.
    pub fn new(seed: u64, numbers: &[u64]) -> Self {
        let mut random = Self(seed);
        for number in numbers {
            random.0 = random.next() ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True so many times out of a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// A time up to `most` microseconds.
    pub fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most + 1))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// When the workload is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long after its process was started: before or during recovery, as a rule.
    Start(Duration),
    /// So long after the directory was open.
    Work(Duration),
    /// So long after that checkpoint was begun.
    Checkpoint(u64, Duration),
    /// Never: it ends by itself.
    End,
}

impl Moment {
    /// The names, in the order of [`Moment::number`].
    pub const NAMES: [&'static str; 4] = ["at start", "at work", "at a checkpoint", "not at all"];

    /// Its place in tables.
    pub fn number(self) -> usize {
        match self {
            Self::Start(_) => 0,
            Self::Work(_) => 1,
            Self::Checkpoint(..) => 2,
            Self::End => 3,
        }
    }
}

/// How a session learns that its commits are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Each commit waits.
    Sync,
    /// So many commits are under way, each with a ticket.
    Pipelined(u64),
    /// Now and then everything is flushed.
    Epoch,
}

/// How a directory is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The protocol.
    pub kind: Kind,
    /// Files of the log.
    pub files: u8,
    /// Whether the log is compressed.
    pub compression: Compression,
    /// Threads of recovery and checkpoints.
    pub threads: usize,
}

impl Opening {
    fn draw(random: &mut Random) -> Self {
        Self {
            kind: random.one_of(Kind::ALL),
            files: random.one_of(&[1, 1, 2, 3]),
            compression: random.one_of(&[Compression::None, Compression::Lz4]),
            threads: random.one_of(&[1, 2, 3]),
        }
    }
}

/// Which copies are taken beside a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// None.
    None,
    /// Full ones, each in a place of its own.
    Full,
    /// One, which is then continued.
    Continued,
}

impl Copies {
    /// So many are begun, if the workload lives long enough.
    pub const MAX: u64 = 4;

    /// Where the one of a number goes.
    pub fn place(self, directory: &Path, number: u64) -> PathBuf {
        let place = if self == Self::Continued { 0 } else { number };
        directory.with_extension(format!("backup-{place}"))
    }

    /// Whether the one there is whole, or what is restored: the manifest comes last.
    pub fn is_whole(place: &Path) -> bool {
        place.join("MANIFEST").exists()
    }

    /// Where what is restored of them goes.
    pub fn restored(directory: &Path) -> PathBuf {
        directory.with_extension("restored")
    }
}

/// A cycle: a workload that is killed, recoveries that are killed, one that is not.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the workload opens the directory.
    pub work: Opening,
    /// Its sessions.
    pub sessions: Vec<Habit>,
    /// Whether a thread takes one checkpoint after the other.
    pub checkpoints: bool,
    /// After how many bytes of log the database takes one by itself.
    pub checkpoint_after: u64,
    /// When it is killed.
    pub moment: Moment,
    /// How long after their start recoveries are killed before one is let through.
    pub killed_recoveries: Vec<Duration>,
    /// How the directory is opened to look at it.
    pub look: Opening,
    /// Whether that opening keeps no log.
    pub look_without_log: bool,
    /// Which copies are taken.
    pub copies: Copies,
    /// How long after its start a restore of what was continued is killed, before one is let through.
    pub killed_restore: Option<Duration>,
    /// Whether that is as of the latest commit.
    pub restores_latest: bool,
}

impl Plan {
    /// The plan of a cycle.
    pub fn of(seed: u64, cycle: u64) -> Self {
        let mut random = Random::new(seed, &[1, cycle]);
        let random = &mut random;
        let work = Opening::draw(random);
        let moment = match random.below(100) {
            0..15 => Moment::Start(random.micros(8_000)),
            15..65 => Moment::Work(random.micros(20_000)),
            // Long enough for the database's own checkpoints, which it thinks of every 200 ms.
            65..67 => Moment::Work(Duration::from_millis(220) + random.micros(200_000)),
            67..92 => Moment::Checkpoint(1 + random.below(3), random.micros(6_000)),
            _ => Moment::End,
        };
        let habit = |random: &mut Random| match random.below(4) {
            0 | 1 => Habit::Sync,
            2 => Habit::Pipelined(1 + random.below(32)),
            _ => Habit::Epoch,
        };
        let all = vec![Habit::Sync, Habit::Pipelined(1 + random.below(32)), Habit::Epoch];
        let sessions = if work.kind.sessions_max() >= all.len() { all } else { vec![habit(random)] };
        Self {
            work,
            sessions,
            checkpoints: matches!(moment, Moment::Checkpoint(..)) || random.percent(20),
            checkpoint_after: 1 << (10 + random.below(8)),
            moment,
            killed_recoveries: (0..random.below(20).saturating_sub(16))
                .map(|_| random.micros(8_000))
                .collect(),
            look: Opening::draw(random),
            look_without_log: random.percent(15),
            copies: [Copies::Full, Copies::Continued, Copies::None][(cycle / 3 % 3) as usize],
            killed_restore: random.percent(50).then(|| random.micros(6_000)),
            restores_latest: random.percent(50),
        }
    }
}

/// Who made a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id {
    /// The cycle.
    pub cycle: u64,
    /// The session in it.
    pub session: u64,
    /// The number of its transaction, from 0.
    pub number: u64,
}

impl Id {
    /// In one word.
    pub fn word(self) -> u64 {
        self.cycle << 32 | self.session << 24 | self.number
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "transaction {} of session {} of cycle {}", self.number, self.session, self.cycle)
    }
}

/// What a transaction does, as far as it does not depend on what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its keys, all different.
    pub keys: [u64; TOUCHED],
    /// Goes from the first key to the second.
    pub amount: i64,
    /// Whether the third key's row is deleted, and its balance goes to the first.
    pub deletes: bool,
    /// Whether rows that are there are overwritten whole, instead of by column groups.
    pub whole: bool,
    /// Whether it aborts when all is written.
    pub doomed: bool,
}

impl Step {
    /// The step of a transaction.
    pub fn of(seed: u64, id: Id) -> Self {
        let mut random = Random::new(seed, &[2, id.cycle, id.session, id.number]);
        let mut keys = [0; TOUCHED];
        for place in 0..TOUCHED {
            keys[place] = loop {
                let key = random.below(KEYS);
                if !keys[..place].contains(&key) {
                    break key;
                }
            };
        }
        Self {
            keys,
            amount: random.below(1000) as i64 - 500,
            deletes: random.percent(30),
            whole: random.percent(40),
            doomed: random.percent(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_the_same_for_the_same_seed_and_cover_everything() {
        let mut moments = [0; Moment::NAMES.len()];
        let mut killed_recoveries = 0;
        for cycle in 0..1000 {
            let plan = Plan::of(7, cycle);
            assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::of(7, cycle)));
            moments[plan.moment.number()] += 1;
            killed_recoveries += plan.killed_recoveries.len();
            assert!(plan.sessions.len() <= plan.work.kind.sessions_max());
        }
        assert!(moments.iter().all(|count| *count > 40) && killed_recoveries > 40, "{moments:?}");
        let step = Step::of(7, Id { cycle: 1, session: 2, number: 3 });
        assert!(step.keys[0] != step.keys[1] && step.keys[1] != step.keys[2]);
    }
}
