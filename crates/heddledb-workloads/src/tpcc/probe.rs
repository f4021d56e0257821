//! A check for during a run: a transaction that must never commit having seen a violation.

use super::DISTRICTS;
use super::check::missing;
use super::schema::{District, NewOrder, Warehouse};
use heddledb::{ReadTransaction, Result, Scan};
use std::ops::ControlFlow::Continue;

/// What [`probe`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The warehouse.
    pub w_id: u16,
    /// W_YTD.
    pub w_ytd: i64,
    /// sum(D_YTD).
    pub d_ytd: i64,
    /// Of each district: smallest and largest NO_O_ID and the number of NEW_ORDER rows.
    pub waiting: [(u32, u32, u32); DISTRICTS as usize],
}

impl Probe {
    /// The first violation of condition 1 or 3. If the transaction has committed, there must be none.
    pub fn violation(&self) -> Option<String> {
        let Self { w_id, w_ytd, d_ytd, .. } = self;
        if w_ytd != d_ytd {
            return Some(format!("condition 1: warehouse {w_id}: W_YTD {w_ytd}, sum(D_YTD) {d_ytd}"));
        }
        let broken = |(min, max, count): &(u32, u32, u32)| *count != 0 && max - min + 1 != *count;
        (1..).zip(self.waiting).find(|(_, district)| broken(district)).map(
            |(d_id, (min, max, count)): (u8, _)| {
                format!("condition 3: district ({w_id}, {d_id}): NO_O_ID from {min} to {max}, {count} rows")
            },
        )
    }
}

/// Reads what conditions 1 and 3 need for a warehouse, in one transaction among others or on a snapshot.
///
/// # Errors
/// Those of the transaction's methods.
pub fn probe<T: ReadTransaction>(tx: &mut T, w_id: u16) -> Result<Probe> {
    let mut probe = Probe { w_id, ..Probe::default() };
    probe.w_ytd = tx.get_columns(w_id, Warehouse::ytd)?.ok_or_else(|| missing("warehouse"))?;
    for (d_id, (min, max, count)) in (1..=DISTRICTS).zip(&mut probe.waiting) {
        probe.d_ytd += tx.get_columns((w_id, d_id), District::ytd)?.ok_or_else(|| missing("district"))?;
        tx.scan_columns(Scan::prefix((w_id, d_id)), NewOrder::o_id, |_, o_id| {
            if *count == 0 {
                *min = o_id;
            }
            (*max, *count) = (o_id, *count + 1);
            Continue(())
        })?;
    }
    Ok(probe)
}
