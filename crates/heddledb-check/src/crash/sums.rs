//! Sums between which calls move amounts: twice, at once and put off, where the protocol does that. In whatever a crash leaves both
//! agree.

use heddledb::internals::random::Random;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::{Builder, Database, ReadTransaction, Result, Session, Table, Transaction, procedure};

/// A row of the table of sums.
#[derive(Table, Clone, Copy, Debug, PartialEq, Eq)]
#[table(name = "crash_sum")]
pub struct Sum {
    #[key]
    id: u32,
    #[group(late)]
    late: i64,
    #[group(now)]
    now: i64,
}

/// Keys of the table.
const SUMS: usize = 3;
/// A key that no row has.
const NONE: u32 = 99;

/// All rows.
pub type Sums = [Option<Sum>; SUMS];

/// What a transaction does with sums.
#[derive(Clone, Copy, Debug)]
pub enum Summing {
    /// Inserts a row, or replaces it.
    Put(Sum),
    /// Deletes a row; it may not be there.
    Take(u32),
    /// Moves an amount between two rows that are there.
    Move {
        /// From this one.
        from: u32,
        /// To this one.
        to: u32,
        /// What is moved.
        amount: i64,
    },
}

/// Moves an amount.
#[procedure(version = 1)]
pub fn crash_move(tx: &mut impl Transaction, from: u32, to: u32, amount: i64) -> Result<()> {
    #[no_abort]
    #[piece]
    {
        #[deferred]
        tx.add(Sum::late, from, -amount)?;
        tx.add(Sum::now, from, -amount)?;
    }
    #[piece]
    {
        tx.add(Sum::now, to, amount)?;
        #[deferred]
        tx.add(Sum::late, to, amount)?;
    }
    Ok(())
}

/// With the table, and the procedure.
pub fn declare(builder: Builder) -> Builder {
    builder.table::<Sum>(0).procedure::<CrashMove>()
}

/// All rows as a transaction sees them.
///
/// # Errors
/// Those of the reads.
pub fn read(tx: &mut impl ReadTransaction) -> Result<Sums> {
    let mut sums = Sums::default();
    for (id, row) in (0..).zip(&mut sums) {
        *row = tx.get::<Sum>(id)?;
    }
    Ok(sums)
}

impl Summing {
    /// Something that is lawful with these rows.
    pub fn draw(random: &mut Random, sums: &Sums) -> Self {
        let (id, value) = (random.below(SUMS as u64) as u32, random.below(1_000) as i64 - 500);
        match random.below(12) {
            0 => Self::Take(id),
            1 => Self::Put(Sum { id, late: value, now: value }),
            _ => Self::draw_move(random, sums).unwrap_or(Self::Put(Sum { id, late: value, now: value })),
        }
    }

    /// A move between rows that are there, if there are two.
    pub fn draw_move(random: &mut Random, sums: &Sums) -> Option<Self> {
        let there: Vec<u32> = sums.iter().flatten().map(|row| row.id).collect();
        let first = random.below(there.len().max(1) as u64) as usize;
        let second = first + 1 + random.below(there.len().saturating_sub(1).max(1) as u64) as usize;
        let (from, to) = (*there.get(first)?, there[second % there.len()]);
        (from != to).then(|| Self::Move { from, to, amount: 1 + random.below(100) as i64 })
    }

    /// What it makes of the rows.
    pub fn apply(self, sums: &mut Sums) {
        match self {
            Self::Put(row) => sums[row.id as usize] = Some(row),
            Self::Take(id) => sums[id as usize] = None,
            Self::Move { from, to, amount } => {
                for (id, more) in [(from, -amount), (to, amount)] {
                    sums[id as usize]
                        .iter_mut()
                        .for_each(|row| (row.late, row.now) = (row.late + more, row.now + more));
                }
            }
        }
    }

    /// Does it in a transaction.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn execute(self, tx: &mut impl Transaction) -> Result<()> {
        match self {
            Self::Put(row) => tx.upsert(row).map(|_| ()),
            Self::Take(id) => tx.delete::<Sum>(id).map(|_| ()),
            Self::Move { from, to, amount } => {
                [(from, -amount), (to, amount)].into_iter().try_for_each(|(id, more)| {
                    tx.add(Sum::late, id, more)?;
                    tx.add(Sum::now, id, more)
                })
            }
        }
    }

    /// Calls it, if it is a move, or else runs it.
    ///
    /// # Errors
    /// As for [`Self::execute`].
    pub fn call(self, session: &mut Session) -> Result<()> {
        match self {
            Self::Move { from, to, amount } => session.call(CrashMove, (from, to, amount)),
            other => session.run(|tx| other.execute(tx)),
        }
    }
}

/// Registers what [`beside`] calls.
///
/// # Errors
/// As for [`Database::register`].
pub fn register_stay(db: &Database) -> Result<Registered> {
    let mut stays = Declaration::new("crash_stay");
    stays.get(Sum::now);
    db.register_declared(stays)
}

/// Runs `moves` while a call of another session is under way, so that nothing that they put off is made before its end.
///
/// # Errors
/// Those of that call.
pub fn beside(stays: Registered, session: &mut Session, mut moves: impl FnMut()) -> Result<()> {
    let mut moved = false;
    session.call_registered(stays, |tx| {
        tx.at(0);
        tx.get_columns(NONE, Sum::now)?;
        if !std::mem::replace(&mut moved, true) {
            moves();
        }
        Ok(())
    })
}
