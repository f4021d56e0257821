//! Where a report goes: a table to the terminal, its JSON and its page to files, as wanted.

use crate::failure::Failure;
use crate::terminal::terminal_with_colours;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the report goes besides the terminal.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The JSON file, or `-`.
    pub json: Option<PathBuf>,
    /// The page.
    pub html: Option<PathBuf>,
}

impl Outputs {
    /// True if the standard output is taken by the JSON.
    pub fn json_to_stdout(&self) -> bool {
        self.json.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// Opens the files once, so that a wrong name is found before the runs and not after them.
    pub fn probe(&self) -> Result<(), Failure> {
        for (flag, path) in [("--json", &self.json), ("--html", &self.html)] {
            let Some(path) = path else { continue };
            if path.as_os_str() == "-" {
                if flag == "--html" {
                    return Err(Failure::usage("--html needs a file's name; only --json can go to -"));
                }
                continue;
            }
            OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                let path = path.display();
                Failure::usage(format!(
                    "{flag} {path} cannot be written ({error}); name a file in a folder that exists"
                ))
            })?;
        }
        if self.json.is_some() && self.json == self.html {
            return Err(Failure::usage("--json and --html name the same file; give each its own"));
        }
        Ok(())
    }
}

/// Prints a table, which is given whether there are colours, and writes a document's JSON and page, as wanted.
pub fn publish(
    outputs: &Outputs,
    table: impl FnOnce(bool) -> String,
    document: &impl Serialize,
    page: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if outputs.json_to_stdout() {
        eprint!("{}", table(terminal_with_colours(&std::io::stderr())));
    } else {
        let text = table(terminal_with_colours(&std::io::stdout()));
        // A reader that went away, such as `head`, is no failure of the command.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    if let Some(path) = &outputs.json {
        let mut text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::run(format!("the report cannot be written as JSON: {error}")))?;
        text.push('\n');
        if outputs.json_to_stdout() {
            let _ = std::io::stdout().write_all(text.as_bytes());
        } else {
            write(path, &text)?;
        }
    }
    if let Some(path) = &outputs.html {
        write(path, &page())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::run(format!("{} cannot be written: {error}", path.display())))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
