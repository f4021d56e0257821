//! A simulated disk beside a model: what was synced survives, and the rest is what some order of the writes leaves.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Open(usize),
    Rename(usize, usize),
    Remove(usize),
    Write {
        file: usize,
        offset: u64,
        length: usize,
        value: u8,
    },
    Length(usize, u64),
    Sync(usize),
    SyncNames,
    FailedSync(usize),
    FailedSyncNames,
    /// The process is killed, and the next one goes on.
    Kill,
    /// The power is cut, and the next process goes on.
    Cut(u64),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn step() -> impl Strategy<Value = Step> {
    let (name, file) = (0..NAMES.len(), 0..8_usize);
    let write = (file.clone(), 0..3000_u64, 0..1500_usize, 1..=255_u8)
        .prop_map(|(file, offset, length, value)| Step::Write { file, offset, length, value });
    prop_oneof![
        3 => name.clone().prop_map(Step::Create),
        1 => name.clone().prop_map(Step::Open),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name.clone().prop_map(Step::Remove),
        8 => write,
        2 => (file.clone(), 0..4000_u64).prop_map(|(file, bytes)| Step::Length(file, bytes)),
        4 => file.clone().prop_map(Step::Sync),
        2 => Just(Step::SyncNames),
    ]
}

fn step_or_fault() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step(),
        2 => (0..8_usize).prop_map(Step::FailedSync),
        1 => Just(Step::FailedSyncNames),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::Cut),
    ]
}

/// What is known of a byte after a power cut.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// It is this one, or there is none.
    Sure(Option<u8>),
    /// One of those that it ever was; sure at the next sync.
    Open,
    /// One of those that it ever was.
    Never,
}

/// A file as simple as can be, and what is known of it.
#[derive(Clone, Default)]
struct Model {
    view: Vec<u8>,
    known: Vec<Known>,
    /// All values that a byte ever had.
    ever: Vec<BTreeSet<u8>>,
}

impl Model {
    fn reach(&mut self, length: usize) {
        if self.known.len() < length {
            self.known.resize(length, Known::Sure(None));
            self.ever.resize(length, BTreeSet::from([0]));
        }
    }

    fn set_len(&mut self, length: usize) {
        self.reach(length);
        let (old, new) = (self.view.len(), length);
        // What is cut off, or what appears; that appears as zeros only if nothing undecided is below.
        for known in &mut self.known[old.min(new)..] {
            if new < old || *known != Known::Never {
                *known = Known::Open;
            }
        }
        self.view.resize(length, 0);
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.view.len() {
            self.set_len(end);
        }
        self.view[offset..end].copy_from_slice(bytes);
        for at in offset..end {
            self.known[at] = Known::Open;
            self.ever[at].insert(self.view[at]);
        }
    }

    fn sync(&mut self, good: bool) {
        for (at, known) in self.known.iter_mut().enumerate() {
            if *known == Known::Open {
                *known = if good { Known::Sure(self.view.get(at).copied()) } else { Known::Never };
            }
        }
    }

    /// Checks what a power cut left, and goes on with that.
    fn survive(&mut self, found: &[u8]) -> Result<(), TestCaseError> {
        prop_assert!(found.len() <= self.known.len());
        for (at, known) in self.known.iter().enumerate() {
            match (known, found.get(at)) {
                (Known::Sure(sure), found) => prop_assert_eq!(*sure, found.copied(), "synced byte {}", at),
                (_, Some(found)) => prop_assert!(self.ever[at].contains(found), "byte {} is {}", at, found),
                (_, None) => {}
            }
        }
        *self = Self::default();
        self.write(0, found);
        self.sync(true);
        Ok(())
    }
}

/// Names, what is known of them, and all files ever, by number.
#[derive(Default)]
struct Directory {
    view: BTreeMap<usize, usize>,
    /// The names that are not sure, and whether a sync can make them so; with all files they ever meant.
    unsure: BTreeMap<usize, (bool, BTreeSet<Option<usize>>)>,
    files: Vec<Model>,
}

impl Directory {
    fn set(&mut self, name: usize, file: Option<usize>) {
        let old = self.view.get(&name).copied();
        let unsure = self.unsure.entry(name).or_default();
        unsure.0 = true;
        unsure.1.extend([old, file]);
        match file {
            Some(file) => _ = self.view.insert(name, file),
            None => _ = self.view.remove(&name),
        }
    }

    fn sync(&mut self, good: bool) {
        if good {
            self.unsure.retain(|_, unsure| !unsure.0);
        } else {
            self.unsure.values_mut().for_each(|unsure| unsure.0 = false);
        }
    }
}

/// Runs the steps on a simulated disk beside the models.
fn run(steps: &[Step], last: u64) -> Result<(), TestCaseError> {
    let mut disk = Simulated::new();
    let mut model = Directory::default();
    let mut handles: Vec<(usize, Box<dyn File>)> = Vec::new();
    for step in steps.iter().cloned().chain([Step::Cut(last)]) {
        match step {
            Step::Create(name) => match disk.create(NAMES[name]) {
                Ok(file) => {
                    prop_assert!(!model.view.contains_key(&name));
                    let number = model.files.len();
                    model.files.push(Model::default());
                    model.set(name, Some(number));
                    handles.push((number, file));
                }
                Err(_) => prop_assert!(model.view.contains_key(&name)),
            },
            Step::Open(name) => match disk.open(NAMES[name]) {
                Ok(file) => handles.push((model.view[&name], file)),
                Err(_) => prop_assert!(!model.view.contains_key(&name)),
            },
            Step::Rename(from, to) => {
                let file = model.view.get(&from).copied();
                prop_assert_eq!(disk.rename(NAMES[from], NAMES[to]).is_ok(), file.is_some());
                if file.is_some() {
                    model.set(from, None);
                    model.set(to, file);
                }
            }
            Step::Remove(name) => {
                let there = model.view.contains_key(&name);
                prop_assert_eq!(disk.remove(NAMES[name]).is_ok(), there);
                if there {
                    model.set(name, None);
                }
            }
            Step::SyncNames => {
                disk.sync_names().unwrap();
                model.sync(true);
            }
            Step::FailedSyncNames => {
                disk.fail(disk.operations(), Fault::Error);
                prop_assert!(disk.sync_names().is_err());
                model.sync(false);
            }
            Step::Kill => {
                disk = disk.after_kill();
                handles.clear();
            }
            Step::Cut(seed) => {
                let next = disk.after_power_cut(seed);
                let found = next.numbers();
                for (name, text) in NAMES.iter().enumerate() {
                    let (old, new) = (model.view.get(&name).copied(), found.get(*text).copied());
                    match model.unsure.get(&name) {
                        Some((_, ever)) => prop_assert!(ever.contains(&new)),
                        None => prop_assert_eq!(old, new, "synced name {}", text),
                    }
                    if let Some(number) = new {
                        model.files[number].survive(&next.bytes(text))?;
                    }
                }
                let numbers =
                    NAMES.iter().enumerate().filter_map(|(name, text)| Some((name, *found.get(*text)?)));
                model.view = numbers.collect();
                model.unsure.clear();
                disk = next;
                handles.clear();
            }
            Step::Write { file, .. } | Step::Length(file, _) | Step::Sync(file) | Step::FailedSync(file) => {
                let count = handles.len();
                if count == 0 {
                    continue;
                }
                let (number, handle) = &handles[file % count];
                let file = &mut model.files[*number];
                match step {
                    Step::Write { offset, length, value, .. } => {
                        write_all(&**handle, &vec![value; length], offset).unwrap();
                        file.write(offset as usize, &vec![value; length]);
                    }
                    Step::Length(_, length) => {
                        handle.set_len(length).unwrap();
                        file.set_len(length as usize);
                    }
                    Step::Sync(_) => {
                        handle.sync().unwrap();
                        file.sync(true);
                    }
                    _ => {
                        disk.fail(disk.operations(), Fault::Error);
                        prop_assert!(handle.sync().is_err());
                        file.sync(false);
                    }
                }
            }
        }
        let names: Vec<_> = model.view.keys().map(|&name| NAMES[name]).collect();
        prop_assert_eq!(disk.list().unwrap(), names);
        for (&name, &file) in &model.view {
            prop_assert_eq!(&disk.bytes(NAMES[name]), &model.files[file].view);
        }
        for (number, handle) in &handles {
            prop_assert_eq!(&read_all(&**handle).unwrap(), &model.files[*number].view);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without faults, a simulated disk is a map of byte vectors, and a cut keeps what was synced.
    #[test]
    fn synced_bytes_and_names_survive(steps in prop::collection::vec(step(), 0..60), seed in any::<u64>()) {
        run(&steps, seed)?;
    }

    /// The same with failed syncs, and with processes that go on after a kill or a cut.
    #[test]
    fn lives_follow_each_other(steps in prop::collection::vec(step_or_fault(), 0..60), seed in any::<u64>()) {
        run(&steps, seed)?;
    }
}
