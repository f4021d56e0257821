//! What must be found: kept by the parent, outside of what is killed.

use super::child::digest;
use super::plan::{Id, KEYS, Step, TOUCHED};
use super::rows::bucket;
use super::wire::Message;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a directory.
#[derive(Clone, Default)]
pub struct Expected {
    /// The digests of the ledger rows that were there at the last look: they stay for ever.
    kept: BTreeMap<Id, u64>,
    /// The digest of everything at the last look.
    pub digest: u64,
}

/// What a workload said before its end.
#[derive(Default)]
pub struct Said {
    /// Whether it had opened the directory.
    pub opened: bool,
    /// Durable commits, with the digests of their ledger rows: session, number, digest.
    pub durable: Vec<(u64, u64, u64)>,
    /// Up to which number everything of a session is durable.
    pub flushed: Vec<(u64, u64)>,
    /// How many transactions each session tried, if it ended by itself.
    pub ended: Option<Vec<u64>>,
}

/// A ledger row.
struct Row {
    id: Id,
    keys: [u64; TOUCHED],
    versions: [u64; TOUCHED],
    balances: [i64; TOUCHED],
    digest: u64,
}

impl Row {
    fn of(words: &[u64]) -> Option<Self> {
        let (&[cycle, session, number], rest) = words.split_first_chunk()?;
        let (keys, rest) = rest.split_first_chunk()?;
        let (versions, rest) = rest.split_first_chunk()?;
        let balances = rest.first_chunk()?.map(u64::cast_signed);
        let id = Id { cycle, session, number };
        Some(Self { id, keys: *keys, versions: *versions, balances, digest: digest(words) })
    }
}

impl Expected {
    /// Compares what was found after `cycle` with what must be there, and keeps it. Says how many
    /// commits are new.
    ///
    /// # Errors
    /// What is wrong.
    pub fn compare(&mut self, seed: u64, cycle: u64, said: &Said, found: &[Message]) -> Result<u64, String> {
        let mut ledger = BTreeMap::new();
        for message in found {
            if let Message::Ledger(words) = message {
                let row = Row::of(words).ok_or("a ledger row is too short")?;
                ledger.insert(row.id, row);
            }
        }
        for (id, digest) in &self.kept {
            match ledger.get(id) {
                None => return Err(format!("{id} was there before and is gone")),
                Some(row) if row.digest != *digest => return Err(format!("{id} has changed")),
                Some(_) => {}
            }
        }
        let new: Vec<&Row> = ledger.values().filter(|row| !self.kept.contains_key(&row.id)).collect();
        self.news(seed, cycle, said, &new)?;
        chains(seed, &ledger, found)?;
        let count = new.len() as u64;
        self.kept = ledger.into_iter().map(|(id, row)| (id, row.digest)).collect();
        Ok(count)
    }

    /// The commits that were not there before.
    fn news(&self, seed: u64, cycle: u64, said: &Said, new: &[&Row]) -> Result<(), String> {
        let mut sessions: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for row in new {
            let id = row.id;
            let step = Step::of(seed, id);
            if id.cycle != cycle || !said.opened {
                return Err(format!("{id} has come out of nowhere"));
            }
            if step.doomed {
                return Err(format!("{id} had aborted and is there"));
            }
            if step.keys != row.keys {
                return Err(format!("{id} has other keys than it was given"));
            }
            sessions.entry(id.session).or_default().insert(id.number, row.digest);
        }
        let is_there = |id: Id| sessions.get(&id.session).and_then(|numbers| numbers.get(&id.number));
        // Of each session a prefix: its commits follow one another.
        for (&session, numbers) in &sessions {
            let last = numbers.last_key_value().map_or(0, |(number, _)| *number);
            for number in 0..last {
                let id = Id { cycle, session, number };
                if is_there(id).is_none() && !Step::of(seed, id).doomed {
                    return Err(format!("{id} is missing, and {last} of the same session is there"));
                }
            }
        }
        for &(session, number, digest) in &said.durable {
            let id = Id { cycle, session, number };
            match is_there(id) {
                None => return Err(format!("{id} was acknowledged and is missing")),
                Some(found) if *found != digest => {
                    return Err(format!("{id} was acknowledged as another one"));
                }
                Some(_) => {}
            }
        }
        let ended = said.ended.iter().flatten().enumerate();
        let ended = ended.filter_map(|(session, tried)| Some((session as u64, tried.checked_sub(1)?)));
        for (session, last) in said.flushed.iter().copied().chain(ended) {
            for number in 0..=last {
                let id = Id { cycle, session, number };
                if is_there(id).is_none() && !Step::of(seed, id).doomed {
                    return Err(format!("{id} was flushed and is missing"));
                }
            }
        }
        Ok(())
    }
}

/// Goes through the versions of every key, and compares the last with slot, twin and index.
fn chains(seed: u64, ledger: &BTreeMap<Id, Row>, found: &[Message]) -> Result<(), String> {
    // By key and version: who wrote it, and the balance after it.
    let mut written: BTreeMap<(u64, u64), (Id, i64)> = BTreeMap::new();
    for row in ledger.values() {
        for place in 0..TOUCHED {
            let (key, version) = (row.keys[place], row.versions[place]);
            if let Some((other, _)) = written.insert((key, version), (row.id, row.balances[place])) {
                return Err(format!("{} and {other} both wrote version {version} of key {key}", row.id));
            }
        }
    }
    let mut last: BTreeMap<u64, (u64, Id, i64)> = BTreeMap::new();
    for (&(key, version), &(id, balance)) in &written {
        let before = last.insert(key, (version, id, balance)).map_or(0, |(version, ..)| version);
        if version != before + 1 {
            return Err(format!("{id} wrote version {version} of key {key}, and {} is missing", before + 1));
        }
    }
    for row in ledger.values() {
        let before = |place: usize| match row.versions[place] {
            1 => 0,
            version => written[&(row.keys[place], version - 1)].1,
        };
        let sum: i64 = (0..TOUCHED).map(|place| row.balances[place] - before(place)).sum();
        if sum != 0 {
            return Err(format!("{} made {sum} out of nothing", row.id));
        }
    }
    let mut slots = BTreeMap::new();
    let mut twins = BTreeMap::new();
    let mut entries = BTreeSet::new();
    for message in found {
        match message {
            Message::Slot(words) => _ = slots.insert(words[0], words.clone()),
            Message::Twin(words) => _ = twins.insert(words[0], words.clone()),
            Message::Entry(bucket, key) => _ = entries.insert((*key, *bucket)),
            _ => {}
        }
    }
    if let Some(key) = slots.keys().chain(twins.keys()).find(|key| **key >= KEYS || !last.contains_key(key)) {
        return Err(format!("key {key} has a row, and nobody wrote it"));
    }
    let due: BTreeSet<(u64, u64)> = slots.values().map(|slot| (slot[0], slot[3])).collect();
    if due != entries {
        return Err(format!("the index has {entries:?}, the slots {due:?}"));
    }
    for (key, (version, id, balance)) in last {
        let step = Step::of(seed, id);
        let deleted = step.deletes && step.keys[2] == key;
        let writer = id.word();
        if twins.get(&key) != Some(&vec![key, version, writer, u64::from(!deleted), 1]) {
            return Err(format!("the twin of key {key} is not as {id} left it: {:?}", twins.get(&key)));
        }
        let due = vec![key, version, writer, bucket(writer).into(), balance.cast_unsigned(), 1];
        match slots.get(&key) {
            Some(_) if deleted => {
                return Err(format!("the slot of key {key} was deleted by {id} and is there"));
            }
            None if deleted => {}
            found if found == Some(&due) => {}
            found => return Err(format!("the slot of key {key} is not as {id} left it: {found:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::child::tests::{after, everything_after};
    use super::*;

    const SEED: u64 = 7;

    /// What is said of a database after so many transactions, with one change to it.
    fn complaint(change: impl FnOnce(&mut Vec<Message>)) -> String {
        let mut found = everything_after(SEED, 60);
        change(&mut found);
        let said = Said { opened: true, durable: after(SEED, 60), ended: Some(vec![60]), ..Said::default() };
        Expected::default()
            .compare(SEED, 0, &said, &found)
            .map_or_else(|what| what, |count| count.to_string())
    }

    fn nth(found: &[Message], number: usize, is_it: impl Fn(&Message) -> bool) -> usize {
        found.iter().enumerate().filter(|(_, message)| is_it(message)).nth(number).expect("there is one").0
    }

    fn words(message: &mut Message) -> &mut Vec<u64> {
        match message {
            Message::Ledger(words) | Message::Slot(words) | Message::Twin(words) => words,
            _ => panic!("no row"),
        }
    }

    #[test]
    fn what_is_right_is_found_right() {
        let commits = after(SEED, 60).len();
        assert_eq!(complaint(|_| {}), commits.to_string());
        let mut expected = Expected::default();
        let said = Said { opened: true, durable: after(SEED, 30), ..Said::default() };
        // More than was acknowledged is fine, and stays.
        expected.compare(SEED, 0, &said, &everything_after(SEED, 60)).unwrap();
        let gone = expected.compare(SEED, 1, &Said::default(), &everything_after(SEED, 30)).unwrap_err();
        assert!(gone.contains("was there before and is gone"), "{gone}");
    }

    #[test]
    fn every_kind_of_loss_is_found() {
        let is_ledger = |message: &Message| matches!(message, Message::Ledger(_));
        let is_slot = |message: &Message| matches!(message, Message::Slot(_));
        let is_twin = |message: &Message| matches!(message, Message::Twin(_));
        let is_entry = |message: &Message| matches!(message, Message::Entry(..));
        let last = after(SEED, 60).len() - 1;
        let remove = |number: usize, is_it: &dyn Fn(&Message) -> bool| {
            complaint(|found| drop(found.remove(nth(found, number, is_it))))
        };
        let change = |number: usize, is_it: &dyn Fn(&Message) -> bool, word: usize| {
            complaint(|found| {
                let at = nth(found, number, is_it);
                words(&mut found[at])[word] ^= 64;
            })
        };
        let cases = [
            (remove(last, &is_ledger), "was acknowledged and is missing"),
            (remove(5, &is_ledger), "is missing, and"),
            (change(5, &is_ledger, 3), "has other keys than it was given"),
            (change(5, &is_ledger, 9), "acknowledged as another one"),
            (change(last, &is_ledger, 0), "out of nowhere"),
            (change(2, &is_slot, 4), "the slot of key"),
            (change(2, &is_slot, 5), "the slot of key"),
            (change(2, &is_twin, 1), "the twin of key"),
            (remove(2, &is_entry), "the index has"),
            (remove(2, &is_twin), "the twin of key"),
        ];
        for (said, due) in cases {
            assert!(said.contains(due), "{due}: {said}");
        }
        // A row that was deleted.
        let said = complaint(|found| {
            let key = (0..KEYS)
                .find(|key| {
                    found
                        .iter()
                        .any(|m| matches!(m, Message::Twin(words) if words[0] == *key && words[3] == 0))
                })
                .expect("some row is deleted");
            found.push(Message::Slot(vec![key, 1, 1, 1, 0, 1]));
            found.push(Message::Entry(1, key));
        });
        assert!(said.contains("was deleted by"), "{said}");
    }
}
