//! Running what was deferred, when its turn has come.
//!
//! The rows come in the order of their ranks. When a row's turn has come in all its queues, its words are copied, since
//! the record has only what is committed, and nobody but the first of the queue changes it. Then its steps are applied,
//! as far as their inputs are known; a step that becomes ready is named by the plan, and its row goes on. So all steps have been applied
//! when the last row's turn has come, in whatever order the rows come.
//!
//! A step that makes a row to be inserted has no turn to wait for: it is applied when its inputs are known.
//!
//! Nothing is installed before that. So a step may panic, and a verdict may come late, and the transaction ends without
//! effect ([`Queued::end`](super::queue::Queued::end)); no one behind it has seen anything.

use super::Drp;
use super::queue::{Queued, stamp_of};
use super::rank::last_of;
use super::slots::Slots;
use crate::error::Conflict;
use crate::intentions::Plan;
use crate::mutant::{Mutant, planted};
use crate::record::{RecordData, data_base};
use crate::seam::Operators;
use crate::stamp;
use crate::sync::{Ordering, Suspender, Work, point, work};
use crate::words::Words;

/// Applies all steps of a plan whose rows are those of the items from number `first` on. False, if the verdict is
/// against the transaction.
pub(super) fn evaluate(
    queued: &Queued,
    slots: &Slots,
    suspender: Option<&Suspender>,
    first: usize,
    plan: &mut Plan,
    operators: &mut dyn Operators,
) -> Result<bool, Conflict> {
    let mut insert = 0;
    while insert < plan.inserts().len() {
        insert += plan.make(insert, operators);
    }
    for number in 0..queued.items.len() {
        let item = queued.items[number];
        let Some(at) = (item.row as usize).checked_sub(first) else { continue };
        queued.wait_turn(slots, number, suspender)?;
        let row = &plan.rows()[at];
        if last_of(row.layout, row.group_numbers()) != Some(item.group.into()) {
            continue;
        }
        point("turn");
        load(plan, at);
        plan.apply(at, operators);
        while let Some(step) = operators.take_ready() {
            if let Some(insert) = plan.insert_of(step) {
                plan.make(insert, operators);
                continue;
            }
            let row = plan.row_of(step);
            if plan.rows()[row].loaded {
                plan.apply(row, operators);
            }
        }
        if is_refused(operators) {
            return Ok(false);
        }
    }
    // Where the last that became ready made rows, or nothing was queued for.
    if is_refused(operators) {
        return Ok(false);
    }
    assert!(plan.is_done(), "a step waits for what does not come");
    assert!(operators.verdict().is_some(), "all is applied, and no verdict");
    Ok(true)
}

/// Whether the verdict is known to be against the transaction.
fn is_refused(operators: &dyn Operators) -> bool {
    operators.verdict() == Some(false) && !planted(Mutant::DrpVerdictIgnored)
}

/// Copies a row whose turn has come.
fn load(plan: &mut Plan, at: usize) {
    let row = &plan.rows()[at];
    let (record, base) = (row.record, data_base::<Drp>(row.layout));
    let group = row.group_numbers().next().unwrap_or(0);
    work(Work::Words(row.layout.words));
    // Acquire: what was installed by one that has ended, whose tail was found free, or whose item was done, is
    // acquired already.
    let stamp = stamp_of(&record, group).load(Ordering::Acquire);
    let data = RecordData::new(record, base);
    plan.load(at, !stamp::is_absent(stamp), |word| data.word(word));
}
