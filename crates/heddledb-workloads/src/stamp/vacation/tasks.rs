//! Vacation's tasks, each at once and deferred.
//!
//! **Deferred** a task knows all keys that it may touch. A reservation looks at each offer that it asks for, makes out the
//! dearest of each type, and takes of what is free, each under the condition that it is the dearest; so it never conflicts
//! where rows are handed on. An update puts and erases rows under conditions likewise. Who deletes a customer looks first, in a
//! transaction of its own, what that one holds, since nothing else says which rows these are; what it then intends with them is
//! under the condition that the customer still holds these and no others. If not, it begins anew.

use super::schema::{Agency, Offer, Type};
use super::{Change, Output, Query};
use heddledb::{Deferred, Deferring, ReadTransaction, Result, Transaction};

/// How many an update adds or takes away.
pub(super) const STEP: i64 = 100;

/// Of each type the dearest offer that was asked for, the first of several, by its place among the queries.
fn dearest<const N: usize>(types: [Option<Type>; N], prices: [Option<i64>; N]) -> [Option<usize>; 3] {
    Type::ALL.map(|of| {
        let mut best = None;
        for at in 0..N {
            if let (true, Some(price)) = (types[at] == Some(of), prices[at])
                && best.is_none_or(|(_, other)| price > other)
            {
                best = Some((at, price));
            }
        }
        best.map(|(at, _)| at)
    })
}

/// Takes one, if one is free.
fn take(offer: &mut Offer) -> bool {
    let takes = offer.free >= 1;
    if takes {
        offer.used += 1;
        offer.free -= 1;
    }
    takes
}

/// The most queries of a task.
pub const QUERIES_MAX: usize = 8;

/// The types of the queries, and none behind them.
fn types(queries: &[Query]) -> [Option<Type>; QUERIES_MAX] {
    std::array::from_fn(|at| queries.get(at).map(|query| query.of))
}

/// Makes a reservation, at once.
pub(super) fn reserve(tx: &mut impl Transaction, customer: u64, queries: &[Query]) -> Result<Output> {
    let mut prices = [None; QUERIES_MAX];
    for (price, query) in prices.iter_mut().zip(queries) {
        *price = Agency::offers.get(tx, query.of.key(query.id))?.map(|offer| offer.price);
    }
    let mut output = Output::default();
    let kept = dearest(types(queries), prices);
    if kept.iter().any(Option::is_some) && Agency::customers.get(tx, customer)?.is_none() {
        Agency::customers.insert(tx, customer, 0)?;
    }
    for at in kept.into_iter().flatten() {
        let (Query { of, id }, Some(price)) = (queries[at], prices[at]) else { continue };
        let entry = (customer, of as u8, id);
        if Agency::held.get(tx, entry)?.is_some() {
            continue;
        }
        if Agency::offers.update(tx, of.key(id), take)? == Some(true) {
            Agency::held.insert(tx, entry, price)?;
            output.reserved += 1;
        }
    }
    if output.reserved > 0 {
        Agency::customers.update(tx, customer, |holds| *holds += output.reserved)?;
    }
    Ok(output)
}

/// Makes a reservation at the commit. What it gives is how many were reserved, for each query.
pub(super) fn reserve_later(
    tx: &mut impl Deferring,
    customer: u64,
    queries: &[Query],
) -> Result<Vec<Deferred<i64>>> {
    let none = tx.map((), |()| None::<i64>)?;
    let mut prices = [none; QUERIES_MAX];
    for (price, query) in prices.iter_mut().zip(queries) {
        let offer = Agency::offers.look(tx, query.of.key(query.id))?;
        *price = tx.map(offer, |offer| offer.map(|offer| offer.price))?;
    }
    let types = types(queries);
    let kept = tx.map(prices, move |prices| dearest(types, prices))?;
    let any = tx.map(kept, |kept| kept.iter().any(Option::is_some))?;
    let zero = tx.map((), |()| 0)?;
    let mut reserved = [zero; QUERIES_MAX];
    // In the order of types, as at once: entries and offers of different ones are different rows.
    for (at, &Query { of, id }) in queries.iter().enumerate() {
        let entry = (customer, of as u8, id);
        let held = Agency::held.look(tx, entry)?;
        let wanted =
            tx.map((kept, held), move |(kept, held)| kept[of as usize] == Some(at) && held.is_none())?;
        let took =
            Agency::offers.update_later(tx, of.key(id), wanted, |offer, wanted| wanted && take(offer))?;
        let took = tx.map(took, |took| took == Some(true))?;
        let price = prices[at];
        tx.when(took, |tx| Agency::held.insert_later(tx, entry, price, |price| price.unwrap_or(0)))?;
        reserved[at] = tx.map(took, i64::from)?;
    }
    let holds = Agency::customers.look(tx, customer)?;
    tx.when(any, |tx| {
        Agency::customers.insert_later(tx, customer, (holds, reserved), |(holds, reserved)| {
            holds.unwrap_or(0) + reserved.iter().sum::<i64>()
        })
    })?;
    Ok(reserved.into())
}

/// Deletes a customer with all that is held.
pub(super) fn delete_customer(tx: &mut impl Transaction, customer: u64) -> Result<Output> {
    let mut output = Output::default();
    if Agency::customers.get(tx, customer)?.is_none() {
        return Ok(output);
    }
    let mut held = Vec::new();
    Agency::held.for_each_of(tx, (customer,), |(_, of, id), price| held.push((of, id, price)))?;
    for (of, id, price) in held {
        output.bill += price;
        output.released += 1;
        Agency::offers.update(tx, (of, id), |offer| {
            offer.used -= 1;
            offer.free += 1;
        })?;
        Agency::held.remove(tx, (customer, of, id))?;
    }
    Agency::customers.remove(tx, customer)?;
    Ok(output)
}

/// What a customer holds, by type and number; nothing, if there is no such customer.
pub(super) fn held_by(tx: &mut impl ReadTransaction, customer: u64) -> Result<Option<Vec<(u8, u64)>>> {
    if Agency::customers.get(tx, customer)?.is_none() {
        return Ok(None);
    }
    let mut held = Vec::new();
    Agency::held.for_each_of(tx, (customer,), |(_, of, id), _| held.push((of, id)))?;
    Ok(Some(held))
}

/// Deletes a customer at the commit, if what was found is held, and nothing else. What it gives is whether it is so, and what each costs.
pub(super) fn delete_later(
    tx: &mut impl Deferring,
    customer: u64,
    found: &[(u8, u64)],
) -> Result<(Deferred<bool>, Vec<Deferred<i64>>)> {
    let (count, mut prices) = (found.len() as i64, Vec::with_capacity(found.len()));
    let holds = Agency::customers.look(tx, customer)?;
    let mut stands = tx.map(holds, move |holds| holds == Some(count))?;
    for &(of, id) in found {
        let price = Agency::held.look(tx, (customer, of, id))?;
        stands = tx.map((stands, price), |(stands, price)| stands && price.is_some())?;
        prices.push(tx.map(price, |price| price.unwrap_or(0))?);
    }
    tx.when(stands, |tx| {
        for &(of, id) in found {
            Agency::offers.update_later(tx, (of, id), (), |offer, ()| {
                offer.used -= 1;
                offer.free += 1;
            })?;
            Agency::held.remove_later(tx, (customer, of, id))?;
        }
        Agency::customers.remove_later(tx, customer).map(drop)
    })?;
    Ok((stands, prices))
}

/// What becomes of an offer, and by how many the total grows.
fn changed(before: Option<Offer>, of: Type, add: bool, price: i64) -> (Option<Offer>, i64) {
    match (before, add) {
        (None, true) => (Some(Offer { used: 0, free: STEP, total: STEP, price }), STEP),
        (None, false) => (None, 0),
        (Some(offer), true) => {
            (Some(Offer { free: offer.free + STEP, total: offer.total + STEP, price, ..offer }), STEP)
        }
        (Some(offer), false) if of == Type::Flight => {
            if offer.used == 0 {
                (None, -offer.total)
            } else {
                (before, 0)
            }
        }
        (Some(offer), false) if offer.free < STEP => (before, 0),
        (Some(offer), false) => {
            let less = Offer { free: offer.free - STEP, total: offer.total - STEP, ..offer };
            (Some(less).filter(|less| less.total > 0), -STEP)
        }
    }
}

/// Updates offers, at once.
pub(super) fn update(tx: &mut impl Transaction, changes: &[Change]) -> Result<Output> {
    let mut output = Output::default();
    for &Change { query: Query { of, id }, add, price } in changes {
        let key = of.key(id);
        let before = Agency::offers.get(tx, key)?;
        let (after, grown) = changed(before, of, add, price);
        match after {
            Some(offer) if before != after => drop(Agency::offers.insert(tx, key, offer)?),
            None if before.is_some() => drop(Agency::offers.remove(tx, key)?),
            _ => {}
        }
        output.grown += grown;
    }
    Ok(output)
}

/// Updates offers at the commit. What it gives is by how many the total grew, for each.
pub(super) fn update_later(tx: &mut impl Deferring, changes: &[Change]) -> Result<Vec<Deferred<i64>>> {
    let mut grown = Vec::with_capacity(changes.len());
    for &Change { query: Query { of, id }, add, price } in changes {
        let key = of.key(id);
        let before = Agency::offers.look(tx, key)?;
        let change = tx.map(before, move |before| changed(before, of, add, price))?;
        if add {
            let make = |(after, _): (Option<Offer>, i64)| after.unwrap_or_default();
            Agency::offers.insert_later(tx, key, change, make)?;
        } else {
            let goes =
                tx.map((before, change), |(before, (after, _))| before.is_some() && after.is_none())?;
            tx.when(goes, |tx| Agency::offers.remove_later(tx, key).map(drop))?;
            let stays =
                tx.map((before, change), |(before, (after, _))| after.is_some() && after != before)?;
            tx.when(stays, |tx| {
                Agency::offers
                    .update_later(tx, key, change, |offer, (after, _)| *offer = after.unwrap_or(*offer))
                    .map(drop)
            })?;
        }
        grown.push(tx.map(change, |(_, grown)| grown)?);
    }
    Ok(grown)
}
