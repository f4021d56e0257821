//! The tables, and the transaction that changes them: as a closure, and as a procedure whose calls a log of commands holds.

use super::plan::{Id, Step, TOUCHED};
use heddledb::table::dynamic::RowValues;
use heddledb::{Error, Migration, Result, Table, Text, Transaction, procedure};

#[derive(Table, Clone, Copy)]
pub struct Ledger {
    #[key]
    cycle: u64,
    #[key]
    session: u8,
    #[key]
    number: u64,
    key0: u64,
    key1: u64,
    key2: u64,
    version0: u64,
    version1: u64,
    version2: u64,
    balance0: i64,
    balance1: i64,
    balance2: i64,
}

impl Ledger {
    pub fn words(&self) -> Vec<u64> {
        let keys = [self.key0, self.key1, self.key2];
        let versions = [self.version0, self.version1, self.version2];
        let balances = [self.balance0, self.balance1, self.balance2].map(i64::cast_unsigned);
        let id = [self.cycle, self.session.into(), self.number];
        [id, keys, versions, balances].concat()
    }
}

#[derive(Table, Clone)]
#[table(index(ByBucket(bucket)))]
pub struct Slot {
    #[key]
    key: u64,
    version: u64,
    writer: u64,
    bucket: u8,
    #[group(money)]
    balance: i64,
    #[group(filling)]
    filling: String,
}

impl Slot {
    pub fn words(&self) -> Vec<u64> {
        // What it is filled with follows from the rest.
        let filled = u64::from(self.filling == filling(self.version, self.writer));
        vec![self.key, self.version, self.writer, self.bucket.into(), self.balance.cast_unsigned(), filled]
    }
}

#[derive(Table, Clone, Copy)]
#[table(hash)]
pub struct Twin {
    #[key]
    key: u64,
    version: u64,
    writer: u64,
    present: bool,
    label: Text<40>,
}

impl Twin {
    fn new(key: u64, version: u64, writer: u64, present: bool) -> Self {
        Self { key, version, writer, present, label: Text::truncated(&label(version, writer)) }
    }

    pub fn words(&self) -> Vec<u64> {
        let labelled = u64::from(self.label.as_str() == label(self.version, self.writer));
        vec![self.key, self.version, self.writer, self.present.into(), labelled]
    }
}

/// A twin as other openings declare it: by a tree, with wider columns and a further one.
#[derive(Table, Clone)]
#[table(name = "twin")]
pub struct WideTwin {
    present: bool,
    version: u128,
    #[key]
    key: u64,
    spare: Option<u32>,
    label: String,
    writer: u64,
}

impl From<Twin> for WideTwin {
    fn from(Twin { key, version, writer, present, label }: Twin) -> Self {
        Self { key, version: version.into(), writer, present, label: label.to_string(), spare: None }
    }
}

impl From<WideTwin> for Twin {
    fn from(WideTwin { key, version, writer, present, label, .. }: WideTwin) -> Self {
        Self { key, version: version as u64, writer, present, label: Text::truncated(&label) }
    }
}

/// Either declaration of the twins.
pub trait Twins: Table<Key = u64> + From<Twin> + Into<Twin> {}
impl Twins for Twin {}
impl Twins for WideTwin {}

/// From one declaration of the twins to the other, as the program of this version.
pub fn migration(version: u64) -> Migration {
    let narrowed = |row: &RowValues| Ok((row.get::<u128>("version")? as u64).into());
    let shortened = |row: &RowValues| Ok(row.get::<&str>("label")?.into());
    let said = Migration::new().drop("twin", "spare").set_with("twin", "version", narrowed);
    let said = said.set_with("twin", "label", shortened);
    let each = said.count();
    said.after(version * each)
}

/// What a twin is labelled with.
fn label(version: u64, writer: u64) -> String {
    format!("{version:016x}-{writer:016x}")
}

/// What a slot is filled with: nothing, what stands in the row, or what is kept beside it.
fn filling(version: u64, writer: u64) -> String {
    let label = label(version, writer);
    let bytes = [0, 9, label.len(), 300, 1500][((version + writer) % 5) as usize];
    let mut text = label.repeat(bytes.div_ceil(label.len()));
    text.truncate(bytes);
    text
}

/// The bucket of a slot in its index.
pub fn bucket(writer: u64) -> u8 {
    (writer % 5) as u8
}

/// Why a transaction gives up that is to.
pub const DOOMED: &str = "doomed";
const TORN: &str = "slot and twin of a key do not agree";

/// The transaction of a step, of twins of a declaration.
macro_rules! take {
    ($(#[$attribute:meta])* $name:ident $(<$type:ident: $bound:ident>)?, $twin:ident) => {
        $(#[$attribute])*
        pub fn $name$(<$type: $bound>)?(tx: &mut impl Transaction, step: Step, id: Id) -> Result<Ledger> {
            let writer = id.word();
            let (mut versions, mut balances, mut present) = ([0; TOUCHED], [0i64; TOUCHED], [false; TOUCHED]);
            for (place, key) in step.keys.into_iter().enumerate() {
                let Some(twin) = tx.get::<$twin>(key)?.map(<$twin as Into<Twin>>::into) else { continue };
                (versions[place], present[place]) = (twin.version, twin.present);
                match tx.get::<Slot>(key)? {
                    Some(slot) if twin.present && slot.version == twin.version && slot.writer == twin.writer => {
                        balances[place] = slot.balance;
                    }
                    None if !twin.present => {}
                    // A conflict, if it was not there for all to see.
                    _ => return Err(Error::user(TORN)),
                }
            }
            let before = balances;
            balances[0] -= step.amount;
            balances[1] += step.amount;
            if step.deletes {
                balances[0] += balances[2];
                balances[2] = 0;
            }
            for (place, key) in step.keys.into_iter().enumerate() {
                let (version, balance) = (versions[place] + 1, balances[place]);
                versions[place] = version;
                let stays = !(step.deletes && place == 2);
                tx.upsert::<$twin>($twin::from(Twin::new(key, version, writer, stays)))?;
                let filling = filling(version, writer);
                if !stays {
                    if tx.delete::<Slot>(key)? != present[place] {
                        return Err(Error::user(TORN));
                    }
                } else if present[place] && !step.whole {
                    let columns = ((Slot::version, Slot::writer, Slot::bucket), Slot::filling);
                    tx.set_columns(key, columns, ((version, writer, bucket(writer)), filling))?;
                    if balance != before[place] {
                        tx.add(Slot::balance, key, balance - before[place])?;
                    }
                } else {
                    tx.upsert(Slot { key, version, writer, bucket: bucket(writer), balance, filling })?;
                }
            }
            let row = Ledger {
                cycle: id.cycle,
                session: id.session as u8,
                number: id.number,
                key0: step.keys[0],
                key1: step.keys[1],
                key2: step.keys[2],
                version0: versions[0],
                version1: versions[1],
                version2: versions[2],
                balance0: balances[0],
                balance1: balances[1],
                balance2: balances[2],
            };
            tx.insert(row)?;
            if step.doomed { Err(Error::user(DOOMED)) } else { Ok(row) }
        }
    };
}

take!(
    /// Takes a step, whatever the twins are.
    take<W: Twins>, W
);
take!(
    /// Takes a step. Its calls may stand in a log.
    #[procedure(version = 1)]
    take_step, Twin
);
