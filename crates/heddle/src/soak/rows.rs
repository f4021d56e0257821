//! What `heddle soak` lets come and go.

use heddledb::table::UpTo;
use heddledb::{Error, ReadTransaction, Scan, Table};
use std::ops::ControlFlow;

/// A row of the window: keys rise, and are used once.
#[derive(Table, Clone, Copy, Debug)]
pub struct Moving {
    #[key]
    pub id: u64,
    #[group(value)]
    pub value: u64,
    #[group(filling)]
    pub filling: [u8; 40],
}

/// A row that comes and goes, behind a B+tree.
#[derive(Table, Clone, Copy, Debug)]
#[table(index(ByOwner(owner)))]
pub struct Ordered {
    #[key]
    pub id: u64,
    pub owner: u32,
    #[group(value)]
    pub value: u64,
}

/// The same behind a hash index, with texts.
#[derive(Table, Clone, Debug)]
#[table(hash)]
#[table(index(ByMark(mark(max = 40))))]
pub struct Hashed {
    #[key]
    pub id: u64,
    /// Not in its row, and changed again and again.
    pub mark: String,
    #[group(text)]
    pub text: String,
    #[group(value)]
    pub value: u64,
}

/// A row that one worker adds and another takes.
#[derive(Table, Clone, Copy, Debug)]
pub struct Handed {
    #[key]
    pub id: u64,
    pub value: u64,
}

pub fn moving(id: u64) -> Moving {
    Moving { id, value: 0, filling: [id as u8; 40] }
}

/// Changes with the round, so that index entries move.
pub fn owner(id: u64, round: u64) -> u32 {
    ((id ^ round.wrapping_mul(0x9E37_79B9)) % 97) as u32
}

/// The owner as a text.
pub fn mark(owner: u32) -> String {
    format!("this is the mark of owner {owner}")
}

/// The row of `Hashed` that goes with one of `Ordered`.
pub fn hashed(id: u64, owner: u32, round: u64) -> Hashed {
    Hashed { id, mark: mark(owner), text: text(round), value: round }
}

/// Of up to a kilobyte.
pub fn text(round: u64) -> String {
    "text ".repeat((round % 200) as usize)
}

/// A row has its twin in the other table, and both have their index entries.
pub fn agree(tx: &mut impl ReadTransaction, row: &Ordered) -> Result<(), Error> {
    let twin = tx.get::<Hashed>(row.id)?;
    let same = twin.as_ref().is_some_and(|twin| (&*twin.mark, twin.value) == (&*mark(row.owner), row.value));
    let mut entries = 0;
    tx.scan_index(Scan::<ByOwner>::range((row.owner, row.id)..=(row.owner, row.id)), |_, _| {
        entries += 1;
        ControlFlow::Continue(())
    })?;
    let key: (UpTo<str, 40>, u64) = (mark(row.owner).into(), row.id);
    tx.scan_index(Scan::<ByMark>::range(key..=key), |_, _| {
        entries += 1;
        ControlFlow::Continue(())
    })?;
    if same && entries == 2 {
        return Ok(());
    }
    Err(Error::user(format!("{row:?} has the twin {twin:?} and {entries} index entries")))
}
