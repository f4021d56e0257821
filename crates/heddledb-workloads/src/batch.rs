//! Loading tables.

use heddledb::{Result, Session, Table, Transaction};

/// Rows of one table on their way into the database, some hundred in a transaction.
pub(crate) struct Batch<T>(Vec<T>);

impl<T: Table> Batch<T> {
    const ROWS: usize = 256;

    pub fn new() -> Self {
        Self(Vec::with_capacity(Self::ROWS))
    }

    pub fn push(&mut self, session: &mut Session, row: T) -> Result<()> {
        self.0.push(row);
        if self.0.len() == Self::ROWS { self.flush(session) } else { Ok(()) }
    }

    pub fn flush(&mut self, session: &mut Session) -> Result<()> {
        session.run(|tx| self.0.iter().try_for_each(|row| tx.insert(row.clone())))?;
        self.0.clear();
        Ok(())
    }
}
