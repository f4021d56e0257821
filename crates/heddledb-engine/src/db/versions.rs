//! The procedures whose calls are logged as such, and by which number.

use crate::log::{LogError, ProcedureEntry};
use crate::settings::{CallLogged, Versioned};
use std::any::TypeId;

/// The versioned procedures of the program, by their numbers in the files.
#[derive(Default)]
pub(super) struct Versions(Vec<(u16, Versioned)>);

impl Versions {
    /// Finds each procedure among those that the files list, and lists it there if it is new, or another version of one. A number
    /// is never used again: a copy may have commands that the directory has no more.
    pub fn new(programs: &[Versioned], listed: &mut Vec<ProcedureEntry>) -> Self {
        let mut known = Vec::new();
        for procedure in programs {
            let Versioned { name, version, fingerprint, .. } = *procedure;
            let is_it = |entry: &&ProcedureEntry| {
                (&entry.name[..], entry.version, entry.fingerprint) == (name, version, fingerprint)
            };
            let id = match listed.iter().find(is_it) {
                Some(entry) => entry.id,
                None => {
                    let Some(id) =
                        listed.iter().map(|entry| entry.id).max().map_or(Some(0), |id| id.checked_add(1))
                    else {
                        // All numbers are used: it is logged by what it writes.
                        continue;
                    };
                    listed.push(ProcedureEntry { id, name: name.to_owned(), version, fingerprint });
                    id
                }
            };
            known.push((id, *procedure));
        }
        Self(known)
    }

    /// The number of a procedure by its type, if it has one.
    pub fn of(&self, id: TypeId) -> Option<u16> {
        self.0.iter().find(|(_, known)| known.id == id).map(|(number, _)| *number)
    }

    /// How a procedure is called again that has this number among those that the files list.
    pub fn call(
        &self,
        number: u16,
        listed: &[ProcedureEntry],
        place: &dyn Fn() -> String,
    ) -> Result<(&'static str, CallLogged), LogError> {
        if let Some((_, known)) = self.0.iter().find(|(id, _)| *id == number) {
            return Ok((known.name, known.call));
        }
        let told = |version, fingerprint| format!("version {version}, fingerprint {fingerprint:016x}");
        let entry = listed.iter().find(|entry| entry.id == number);
        let procedure = entry.map_or_else(|| format!("number {number}"), |entry| entry.name.clone());
        let own = self.0.iter().find(|(_, known)| known.name == procedure);
        Err(LogError::ProcedureChanged {
            place: place(),
            procedure,
            stored: entry.map_or_else(
                || "which the manifest does not list".to_owned(),
                |entry| told(entry.version, entry.fingerprint),
            ),
            found: own.map_or_else(
                || "none of that name with a version".to_owned(),
                |(_, known)| told(known.version, known.fingerprint),
            ),
        })
    }
}
