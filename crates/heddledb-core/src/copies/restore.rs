//! A directory is made of another, as of an earlier moment.
//!
//! **Mechanism.** A moment is an epoch: that of the last round that was taken no later. The checkpoint's rows are written anew,
//! and the log's commits of epochs up to that one; last a manifest, as in a copy. What the files say is checked on the way, and
//! the directory that is read stays as it is.

use super::fresh_manifest;
use super::increment::limit;
use super::place::{open_copy, open_empty, refuse_unless_empty};
use super::transfer::{Carried, Carrier, Window};
use crate::error::Result;
use crate::log::{
    Checkpoint, Compression, Encoder, Frames, Kind, Label, LogError, Manifest, Moment, Name,
    SEGMENT_HEADER_BYTES, SegmentHeader, Survey, again, lock_storage, remove_unlisted, survey_moments,
};
use crate::mutant::{Mutant, planted};
use crate::settings::Place;
use crate::storage::{ReadOnly, Storage, write_all};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A directory to be made of a copy, or of a database that is closed, as of a moment.
///
/// ```
/// use heddledb::{Backup, Database, Restore, Table, Transaction};
///
/// #[derive(Table, Clone, Copy)]
/// struct Account {
///     #[key]
///     id: u64,
///     balance: i64,
/// }
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let directory = folder.path();
/// let db = Database::builder().path(directory.join("bank")).table::<Account>(0).open()?;
/// db.backup(directory.join("copy"))?;
/// db.session()?.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
/// let report = db.backup(Backup::to(directory.join("copy")).incremental())?;
/// assert_eq!(report.transactions, 1);
///
/// let restore = Restore::from(directory.join("copy"));
/// let reach = restore.reach()?;
/// restore.epoch(*reach.epochs.start()).to(directory.join("before"))?;
///
/// let before = Database::builder().path(directory.join("before")).table::<Account>(0).open()?;
/// assert!(before.session()?.run(|tx| heddledb::ReadTransaction::get::<Account>(tx, 1))?.is_none());
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is restored before `to`"]
pub struct Restore {
    from: Place,
    until: Until,
    tell: Option<Arc<dyn Fn(RestoreProgress) + Send + Sync>>,
}

/// As of when.
#[derive(Clone, Copy)]
enum Until {
    Latest,
    Time(SystemTime),
    Epoch(u64),
}

impl Restore {
    /// Of the directory of a copy, or of a database that is closed; as of its latest commit, unless told.
    pub fn from(path: impl AsRef<Path>) -> Self {
        Self::of(Place::Path(path.as_ref().to_owned()))
    }

    /// Of a storage of your own, or a simulated one.
    pub fn from_storage(storage: Arc<dyn Storage>) -> Self {
        Self::of(Place::Storage(storage))
    }

    fn of(from: Place) -> Self {
        Self { from, until: Until::Latest, tell: None }
    }

    /// As of this moment. It holds nothing that was committed later. It lacks nothing that was committed earlier but perhaps
    /// the last two epochs before the moment: 20 milliseconds, unless [`Builder::epoch_interval`] says otherwise.
    ///
    /// [`Builder::epoch_interval`]: https://docs.rs/heddledb/latest/heddledb/struct.Builder.html#method.epoch_interval
    pub fn at(self, moment: SystemTime) -> Self {
        Self { until: Until::Time(moment), ..self }
    }

    /// As of the end of this epoch: with exactly the commits of epochs up to it.
    pub fn epoch(self, epoch: u64) -> Self {
        Self { until: Until::Epoch(epoch), ..self }
    }

    /// Is told how far it has come, after each frame of rows and each mebibyte or so of log.
    pub fn on_progress(self, tell: impl Fn(RestoreProgress) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Arc::new(tell)), ..self }
    }

    /// Which moments it can be restored to.
    ///
    /// # Errors
    /// [`LogError`]: there is no database; it is open, or damaged; the system's.
    pub fn reach(&self) -> Result<Reach> {
        let source = open_copy(&self.from, true)?;
        let _locked = lock_storage(&*source)?;
        Ok(reach(&*source, &existing(&*source)?)?)
    }

    /// Makes the directory, which is missing or empty. It is a database of its own.
    ///
    /// # Errors
    /// As for [`Restore::reach`]; [`LogError::NoSuchMoment`]; [`LogError::NotEmpty`]. What was written of it is removed then.
    pub fn to(&self, path: impl AsRef<Path>) -> Result<RestoreReport> {
        self.write(&Place::Path(path.as_ref().to_owned()))
    }

    /// Makes it in an empty storage of your own, or a simulated one.
    ///
    /// # Errors
    /// As for [`Restore::to`].
    pub fn to_storage(&self, storage: Arc<dyn Storage>) -> Result<RestoreReport> {
        self.write(&Place::Storage(storage))
    }

    fn write(&self, to: &Place) -> Result<RestoreReport> {
        let source: Arc<dyn Storage> = Arc::new(ReadOnly::new(open_copy(&self.from, true)?));
        let _locked = lock_storage(&*source)?;
        let manifest = existing(&*source)?;
        let looked = look(&*source, &manifest, self.until)?;
        let place = open_empty(to)?;
        let _place_locked = lock_storage(&*place)?;
        refuse_unless_empty(&*place)?;
        let tell = |progress| self.tell.iter().for_each(|tell| tell(progress));
        let restored =
            Restoring { source: &*source, manifest: &manifest, to: &*place, looked: &looked, tell: &tell };
        let report = restored.write().inspect_err(|_| {
            // What cannot be removed opens for nobody, for it has no manifest: that is removed first.
            let _ = again(|| place.remove(&Name::Manifest.to_string()));
            let _ = remove_unlisted(&*place, [None, None]);
        })?;
        Ok(report)
    }
}

impl fmt::Debug for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.from {
            Place::Path(path) => path.display().to_string(),
            Place::Storage(storage) => storage.place(),
        };
        f.debug_struct("Restore").field("from", &place).finish_non_exhaustive()
    }
}

/// Which moments a directory can be restored to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reach {
    /// The epochs: from that of its checkpoint to its last one.
    pub epochs: std::ops::RangeInclusive<u64>,
    /// The times that these ends are of, if its files say that; those of an older format do not.
    pub times: Option<(SystemTime, SystemTime)>,
}

/// `epochs 17 to 203, 2026-11-24T10:00:00.000Z to 2026-11-24T11:30:12.345Z`.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epochs {} to {}", self.epochs.start(), self.epochs.end())?;
        match self.times {
            Some((first, last)) => write!(f, ", {} to {}", instant(first), instant(last)),
            None => write!(f, ", at times that its files do not say"),
        }
    }
}

/// How far a restore has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreProgress {
    /// Bytes that are written.
    pub bytes: u64,
    /// Bytes of the rows and of the log that it is made of: the most that may be written, but for some hundreds of bytes.
    pub of_bytes: u64,
    /// Commits of the log so far.
    pub transactions: u64,
}

/// `9437184 of at most 12582912 bytes, 1200 transactions`.
impl fmt::Display for RestoreProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, of_bytes, transactions } = self;
        write!(f, "{bytes} of at most {of_bytes} bytes, {transactions} transactions")
    }
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The last epoch that the new directory holds.
    pub epoch: u64,
    /// All that it holds was committed before this; unknown in an older format.
    pub time: Option<SystemTime>,
    /// Commits of the log; those before are in its rows.
    pub transactions: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// `epoch 44, 2026-11-24T10:00:00.000Z: 17 transactions on top of its rows, 9437184 bytes`.
impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, time, transactions, bytes } = self;
        write!(f, "epoch {epoch}")?;
        if let Some(time) = time {
            write!(f, ", {}", instant(*time))?;
        }
        write!(f, ": {transactions} transactions on top of its rows, {bytes} bytes")
    }
}

/// A time in UTC, to the millisecond: `2026-11-24T10:00:00.000Z`.
pub fn instant(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years are taken to begin on 1 March, so that a leap day is the last of its year; day 0 is 1 March of the year 0.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!(
        "{:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        era * 400 + year + next,
        since.subsec_millis()
    )
}

/// The manifest of a directory that is to have one.
fn existing(storage: &dyn Storage) -> Result<Manifest, LogError> {
    Manifest::read(storage)?.ok_or_else(|| {
        let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no database here");
        LogError::io(storage, "reading", &Name::Manifest.to_string())(nothing)
    })
}

/// Which moments a directory can be restored to. Checks its log.
///
/// # Errors
/// Damage; the system's.
pub fn reach(storage: &dyn Storage, manifest: &Manifest) -> Result<Reach, LogError> {
    Ok(look(storage, manifest, Until::Latest)?.reach)
}

/// What there is, and what was chosen of it.
struct Looked {
    reach: Reach,
    surveys: Vec<Survey>,
    epoch: u64,
    /// In milliseconds since 1970; 0 where nobody knows.
    time: u64,
}

fn look(storage: &dyn Storage, manifest: &Manifest, until: Until) -> Result<Looked, LogError> {
    let base = manifest.checkpoint.as_ref().map_or((0, 0), |checkpoint| (checkpoint.epoch, checkpoint.time));
    let asked = match until {
        Until::Time(time) => Some(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()),
        _ => None,
    };
    let is_due = |time: u64| time != 0 && asked.is_some_and(|asked| u128::from(time) <= asked);
    // The epoch and the time of what is looked for, of the last moment, and the first time.
    let mut found = is_due(base.1).then_some(base);
    let (mut last, mut first_time) = (base, base.1);
    let mut surveys = Vec::new();
    for generation in &manifest.generations {
        let mut see = |moment: Moment| {
            let closed = moment.closed.min(limit(generation));
            // A round that closes no further epoch may still be later.
            if closed < last.0 {
                return;
            }
            last = (closed, moment.time.max(last.1));
            if first_time == 0 {
                first_time = moment.time;
            }
            if is_due(moment.time) {
                found = Some((closed, moment.time));
            }
        };
        surveys.push(survey_moments(storage, manifest.directory, generation, false, 1, &mut see)?);
    }
    let time = |ms: u64| UNIX_EPOCH + Duration::from_millis(ms);
    let times = (first_time != 0).then(|| (time(first_time), time(last.1)));
    let reach = Reach { epochs: base.0..=last.0, times };
    let outside = |asked: String, [first, last]: [String; 2]| LogError::NoSuchMoment {
        place: storage.place(),
        asked,
        first,
        last,
    };
    let (epoch, time) = match until {
        Until::Latest => last,
        Until::Epoch(epoch) if reach.epochs.contains(&epoch) => (epoch, 0),
        Until::Epoch(epoch) => {
            let ends = [base.0, last.0].map(|end| format!("epoch {end}"));
            return Err(outside(format!("epoch {epoch}"), ends));
        }
        Until::Time(asked) => match (found, reach.times) {
            (Some(found), Some((_, end))) if asked <= end => found,
            (_, Some((first, last))) => return Err(outside(instant(asked), [first, last].map(instant))),
            (_, None) => {
                let ends =
                    [base.0, last.0].map(|end| format!("epoch {end} at a time that its files do not say"));
                return Err(outside(instant(asked), ends));
            }
        },
    };
    Ok(Looked { reach, surveys, epoch, time })
}

/// A directory on its way into another.
struct Restoring<'a> {
    source: &'a dyn Storage,
    manifest: &'a Manifest,
    to: &'a dyn Storage,
    looked: &'a Looked,
    tell: &'a dyn Fn(RestoreProgress),
}

impl Restoring<'_> {
    fn write(&self) -> Result<RestoreReport, LogError> {
        let Looked { surveys, epoch, time, .. } = self.looked;
        let mut manifest = fresh_manifest();
        manifest.relations = self.manifest.relations.clone();
        manifest.procedures.clone_from(&self.manifest.procedures);
        manifest.changes = self.manifest.changes;
        manifest.floor = epoch + 1;
        let parts = self.manifest.checkpoint.iter().flat_map(|checkpoint| &checkpoint.parts);
        let log = surveys.iter().flat_map(|survey| &survey.files);
        let of_bytes = parts.map(|part| part.bytes).chain(log.map(|file| file.bytes)).sum();
        let (mut bytes, mut transactions, mut after) = (0, 0, 0);
        if let Some(checkpoint) = &self.manifest.checkpoint {
            let mut parts = checkpoint.parts.clone();
            for (number, part) in parts.iter_mut().enumerate() {
                let told =
                    |part| (self.tell)(RestoreProgress { bytes: bytes + part, of_bytes, transactions: 0 });
                part.bytes = self.part(manifest.directory, checkpoint, number as u8, &told)?;
                bytes += part.bytes;
            }
            after = checkpoint.epoch;
            manifest.checkpoint = Some(Checkpoint { parts, ..*checkpoint });
        }
        if *epoch > after {
            let later = u64::from(planted(Mutant::RestoreAnEpochTooLate));
            let window = Window { after, up_to: epoch + later };
            let mut told = |Carried { transactions, bytes: carried }| {
                (self.tell)(RestoreProgress { bytes: bytes + carried, of_bytes, transactions });
            };
            let mut carrier = Carrier::create(self.to, &manifest, window, &mut told)?;
            self.mark()?;
            for (generation, survey) in self.manifest.generations.iter().zip(surveys) {
                carrier.generation(self.source, self.manifest.directory, generation, survey)?;
            }
            let (generation, carried) = carrier.finish(*time)?;
            bytes += carried.bytes;
            transactions = carried.transactions;
            manifest.next_generation = generation.number + 1;
            manifest.generations = vec![generation];
        }
        manifest.replace(self.to)?;
        let time = (*time != 0).then(|| UNIX_EPOCH + Duration::from_millis(*time));
        Ok(RestoreReport { epoch: *epoch, time, transactions, bytes })
    }

    /// Makes the name of a file durable, without which nobody would know of a directory that was cut off: files without a
    /// manifest are refused.
    fn mark(&self) -> Result<(), LogError> {
        let to = self.to;
        again(|| to.sync_names()).map_err(LogError::io(to, "syncing the names of", ""))
    }

    /// Writes a part of the checkpoint anew, frame by frame. Returns its length. `told` is called with what is written of it.
    fn part(
        &self,
        directory: u64,
        checkpoint: &Checkpoint,
        part: u8,
        told: &dyn Fn(u64),
    ) -> Result<u64, LogError> {
        let mut frames = Frames::of_checkpoint(self.source, self.manifest.directory, checkpoint, part)?;
        let place = crate::log::Place { directory, generation: checkpoint.number, file: part };
        let name = Name::Checkpoint { number: checkpoint.number, part }.to_string();
        let failed = |doing| LogError::io(self.to, doing, &name);
        let file = again(|| self.to.create(&name)).map_err(failed("creating"))?;
        if part == 0 {
            self.mark()?;
        }
        let header = SegmentHeader {
            kind: Kind::Checkpoint,
            directory,
            generation: checkpoint.number,
            file: part,
            files: checkpoint.parts.len() as u8,
        };
        let (mut encoder, mut words) = (Encoder::new(Compression::None), Vec::new());
        let (mut bytes, mut at, mut number) = (header.encode().to_vec(), 0, 0);
        loop {
            write_all(&*file, &bytes, at).map_err(failed("writing"))?;
            at += bytes.len() as u64;
            bytes.clear();
            told(at);
            if frames.next_frame(&mut words)?.is_none() {
                break;
            }
            number += 1;
            let label = Label::checkpoint(part, number, checkpoint.epoch);
            encoder.encode(&mut bytes, place, at, &label, &words);
        }
        again(|| file.sync()).map_err(failed("syncing"))?;
        Ok(at)
    }
}

const _: () = assert!(SEGMENT_HEADER_BYTES == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_799_001, "2000-02-29T23:59:59.001Z"),
            (1_764_000_000_123, "2025-11-24T16:00:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(instant(UNIX_EPOCH + Duration::from_millis(ms)), text);
        }
    }
}
