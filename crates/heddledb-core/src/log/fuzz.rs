//! What the fuzz targets and the test of their corpus call: any bytes as files of the log.
//!
//! ```text
//!  segments     flags | files | rounds | epoch | bytes of file 0, 2 | bytes of file 1, 2 | the files
//!  checkpoint   flags | epoch | rows, 2 | the part
//!  manifest     flags | the manifest
//! ```
//!
//! With the flag [`MEND`] all checksums are made right first, since hardly any mutation gets past
//! them. Every function panics where an answer contradicts another one.

use super::frame::{self, MAGIC, Place};
use super::manifest::{self, ManifestFlaw};
use super::segment::{self, Name, SEGMENT_HEADER_BYTES};
use super::{Checkpoint, End, Entries, Frames, Generation, LogKind, Lost, Manifest, Part, Rows, survey};
use crate::storage::{File, Guard, Storage};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The directory id, generation and number of checkpoint of all inputs.
pub const NUMBERS: (u64, u64, u64) = (0x5EED, 7, 9);
/// Flag: make the checksums right.
pub const MEND: u8 = 1;
/// Flag: salvage.
pub const SALVAGE: u8 = 2;
/// Flag: the generation is closed.
pub const CLOSED: u8 = 4;
/// Flag: the last file is missing.
pub const MISSING: u8 = 8;

/// Takes a generation of up to three files as recovery does.
pub fn segments(input: &[u8]) {
    let Some((&[flags, files, rounds, epoch, a, b, c, d], mut rest)) = input.split_first_chunk() else {
        return;
    };
    let (directory, number, _) = NUMBERS;
    let files = 1 + files % 3;
    let mut storage = Memory::default();
    for file in 0..files {
        let length = [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), u16::MAX][usize::from(file)];
        let is_last = file + 1 == files;
        let length = if is_last { rest.len() } else { rest.len().min(length.into()) };
        let (bytes, behind) = rest.split_at(length);
        rest = behind;
        let mut bytes = bytes.to_vec();
        if flags & MEND != 0 {
            mend(&mut bytes, Place { directory, generation: number, file });
        }
        if !(is_last && flags & MISSING != 0) {
            storage.add(Name::Log { generation: number, file }, bytes);
        }
    }
    let end = End { rounds: rounds.into(), epoch: epoch.into() };
    let generation =
        Generation { number, files, kind: LogKind::Values, end: (flags & CLOSED != 0).then_some(end) };
    let Ok(found) = survey(&storage, directory, &generation, flags & SALVAGE != 0, 1) else { return };
    assert!(flags & SALVAGE != 0 || found.lost.is_none(), "salvage without being asked");
    assert!(found.torn.is_none() || found.lost.is_none(), "both torn and damaged");

    let mut words = Vec::new();
    for (file, surveyed) in (0..).zip(&found.files) {
        let mut taken = 0;
        let opened = Frames::of_log(&storage, directory, &generation, &found, file);
        let mut frames = opened.expect("the storage does not fail");
        // A payload that does not decompress is seen here first.
        while let Ok(Some(header)) = frames.next_frame(&mut words) {
            taken += 1;
            assert!(header.label.round <= found.rounds && header.label.closed <= found.closed);
            assert_eq!(words.len(), header.words as usize);
            let mut length = 0;
            for entry in Entries::new(&words) {
                let Ok(entry) = entry else { break };
                let writes = entry.writes().map(|write| 1 + write.key.len() + write.data.len());
                assert_eq!(entry.writes().count(), entry.len());
                let due = match entry.command() {
                    None => 2 + writes.sum::<usize>(),
                    Some(command) => {
                        4 + command.arguments().len().div_ceil(8) + command.cells().count().div_ceil(2)
                    }
                };
                assert_eq!(entry.words().len(), due);
                length += due;
                assert!(length <= words.len());
            }
        }
        assert!(taken <= surveyed.frames);
    }
    // Closed where it was found to end, it is the same, and whole.
    let closed = Generation { end: Some(End { rounds: found.rounds, epoch: found.closed }), ..generation };
    if let Ok(again) = survey(&storage, directory, &closed, true, 1) {
        assert_eq!((again.rounds, again.closed), (found.rounds, found.closed));
        assert_eq!(again.files, found.files);
        assert!(again.torn.is_none() && again.lost.is_none_or(|Lost { rounds, .. }| rounds == 0));
    }
}

/// Takes a part of a checkpoint as recovery does.
pub fn checkpoint(input: &[u8]) {
    let Some((&[flags, epoch, low, high], bytes)) = input.split_first_chunk() else { return };
    let (directory, _, number) = NUMBERS;
    let mut bytes = bytes.to_vec();
    if flags & MEND != 0 {
        mend(&mut bytes, Place { directory, generation: number, file: 0 });
    }
    let rows = u64::from(u16::from_le_bytes([low, high]));
    let parts = vec![Part { bytes: bytes.len() as u64, rows }];
    let checkpoint = Checkpoint { number, epoch: epoch.into(), time: 0, parts };
    let mut storage = Memory::default();
    storage.add(Name::Checkpoint { number, part: 0 }, bytes);
    let Ok(mut frames) = Frames::of_checkpoint(&storage, directory, &checkpoint, 0) else { return };
    let (mut words, mut taken) = (Vec::new(), 0);
    loop {
        match frames.next_frame(&mut words) {
            Err(_) => return,
            Ok(None) => break,
            Ok(Some(_)) => {
                let list = Rows::new(&words).expect("it was checked");
                assert_eq!(list.iter().count(), list.len());
                for (key, data) in list.iter() {
                    assert_eq!((key.len(), data.len()), (list.key_words, list.data_words));
                }
                taken += list.len() as u64;
            }
        }
    }
    assert_eq!(taken, rows);
}

/// Takes a manifest. What is taken is written back as it was.
pub fn manifest(input: &[u8]) {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if flags & MEND != 0 && bytes.len() >= 24 {
        manifest::seal(&mut bytes);
    }
    match Manifest::decode(&bytes) {
        // An older format says nothing of some of what is written today.
        Ok(manifest) if u32::from(bytes[8]) < super::MANIFEST_FORMAT => {
            assert_eq!(manifest.encode_as(bytes[8].into()), bytes)
        }
        Ok(manifest) => assert_eq!(manifest.encode(), bytes),
        Err(ManifestFlaw::Bad { at, .. }) => assert!(at <= bytes.len()),
        Err(ManifestFlaw::Version(found)) => assert!(found == 0 || found > super::MANIFEST_FORMAT),
    }
}

/// Makes the checksums of a segment right, as far as its frames follow each other.
fn mend(bytes: &mut [u8], place: Place) {
    if let Some(header) = bytes.first_chunk_mut() {
        let check = segment::check(header);
        header[12..16].copy_from_slice(&check.to_le_bytes());
    }
    let mut at = SEGMENT_HEADER_BYTES;
    while let Some(rest) = bytes.get_mut(at..)
        && let Some(&[magic, _, stored]) = rest.as_chunks().0.first_chunk::<3>()
    {
        let length = (u32::from_le_bytes(stored) as usize).next_multiple_of(8) + frame::FRAME_HEADER_BYTES;
        match rest.get_mut(..length) {
            Some(frame) if magic == MAGIC.to_le_bytes() => frame::seal(frame, place, at as u64),
            _ => return,
        }
        at += length;
    }
}

/// Files in memory, to be read only.
#[derive(Default)]
struct Memory(BTreeMap<String, Bytes>);

impl Memory {
    fn add(&mut self, name: Name, bytes: Vec<u8>) {
        self.0.insert(name.to_string(), Bytes(bytes.into()));
    }
}

#[derive(Clone)]
struct Bytes(Arc<[u8]>);

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(bytes.clone()))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        refused()
    }

    fn sync_names(&self) -> io::Result<()> {
        refused()
    }

    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        refused()
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

impl File for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = self.0.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let count = buffer.len().min(self.0.len() - from);
        buffer[..count].copy_from_slice(&self.0[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        refused()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }
}
