//! The check: every value is as loaded or as committed, and counts agree with the ledgers.

use super::table::{Fields, counter, loaded, tagged};
use super::{BEYOND, Ledger, Write, Ycsb};
use crate::Check;
use crate::verdict::{Verdict, equal};
use heddledb::{Database, ReadTransaction, Result, Scan, Session};
use std::ops::ControlFlow::Continue;

impl Ycsb {
    pub(super) fn check_shape<R: Fields>(&self, db: &Database, ledgers: &[Ledger]) -> Result<Vec<Check>> {
        const ROWS: u64 = 64;
        let records = self.parameters.records;
        let mut session = db.session()?;
        let mut intact =
            Verdict::new("every column holds what was loaded or what a committed transaction wrote");
        let mut per_row = Verdict::new("the number in each row = committed increments of that row");
        let mut present = Verdict::new("every record that was loaded is there");
        let (mut rows, mut sum) = (0i128, 0i128);
        let end = self.next_key.load() + BEYOND;
        for first in (0..end).step_by(ROWS as usize) {
            let chunk: Vec<Option<R>> =
                session.run(|tx| (first..end.min(first + ROWS)).map(|key| tx.get(key)).collect())?;
            for (key, row) in (first..).zip(chunk) {
                let Some(row) = row else {
                    present.require(key >= records, || format!("record {key} is missing"));
                    continue;
                };
                rows += 1;
                let fields = row.values();
                for (column, field) in fields.iter().enumerate() {
                    intact.require(self.explains::<R>(ledgers, key, column, field), || {
                        format!("row {key}, column {column}: {field:?}", field = field.as_ref())
                    });
                }
                if self.parameters.write == Write::Increment {
                    let number = counter(&fields[0]);
                    sum += i128::from(number);
                    let committed =
                        || ledgers.iter().filter_map(|ledger| ledger.per_row.get(key as usize)).sum::<u64>();
                    if self.parameters.per_row {
                        per_row.require(number == committed(), || {
                            format!("row {key}: {number}, committed {}", committed())
                        });
                    }
                }
            }
        }

        let total =
            |part: fn(&Ledger) -> u64| ledgers.iter().map(|ledger| i128::from(part(ledger))).sum::<i128>();
        let mut checks = vec![intact.finish(), present.finish()];
        let inserts = ("committed inserts", total(|ledger| ledger.inserts));
        checks.push(equal("ledger: rows", ("rows beyond those loaded", rows - i128::from(records)), inserts));
        if self.parameters.write == Write::Increment {
            let increments = ("committed increments", total(|ledger| ledger.increments));
            checks.push(equal("ledger: increments", ("sum of the numbers in column 0", sum), increments));
        }
        if self.parameters.per_row {
            checks.push(per_row.finish());
        }
        if self.parameters.ordered() {
            checks.push(self.check_order::<R>(&mut session, rows)?);
        }
        Ok(checks)
    }

    /// Whether a column's value is as loaded, incremented, or a committed transaction's.
    fn explains<R: Fields>(&self, ledgers: &[Ledger], key: u64, column: usize, field: &R::Field) -> bool {
        let as_loaded = field.as_ref()[8..] == loaded::<R>(key, column).as_ref()[8..];
        let number = counter(field);
        match self.parameters.write {
            Write::Increment => as_loaded && (column == 0 || number == 0),
            Write::Blind if number == 0 => as_loaded,
            Write::Blind => {
                let committed = ledgers.iter().flat_map(|ledger| &ledger.tags);
                field.as_ref() == tagged::<R>(number).as_ref()
                    && committed.into_iter().any(|(first, end)| (*first..*end).contains(&number))
            }
        }
    }

    /// The scan of everything meets the keys in order, and as many as there are.
    fn check_order<R: Fields>(&self, session: &mut Session, rows: i128) -> Result<Check> {
        const ROWS: usize = 1024;
        let mut order = Verdict::new("a scan of everything meets every row once, in order");
        let (mut next, mut met) = (0, 0);
        loop {
            let keys = session.run(|tx| {
                let mut keys = Vec::with_capacity(ROWS);
                tx.scan_columns(Scan::range(next..).limit(ROWS), R::FIELDS[0], |key, _| {
                    keys.push(key);
                    Continue(())
                })?;
                Ok(keys)
            })?;
            let Some(last) = keys.last() else { break };
            for pair in keys.windows(2) {
                order.require(pair[0] < pair[1], || format!("key {} after {}", pair[1], pair[0]));
            }
            order.require(keys[0] >= next, || format!("key {} in a scan from {next}", keys[0]));
            met += keys.len() as i128;
            next = last + 1;
        }
        order.require(met == rows, || format!("{met} rows met, {rows} there"));
        Ok(order.finish())
    }
}
