//! The map of ARCHITECTURE.md holds: a room uses only rooms below it, and no two files of a folder use each other.
//!
//! What only tests use does not count, nor does what a room shows again (`pub use`): that is for users, not its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates in which the rooms are, and the rooms of each, the lowest first.
const FLOORS: [(&str, &str); 3] = [
    (
        "heddledb-core",
        "mutant random parallel shared stamp storage log error words values table migration transaction procedure isolation kind \
         sight metrics check settings backup copies seam deferred objects reading",
    ),
    (
        "heddledb-engine",
        "sync executors rate record version arena epoch heap access footprint batches intentions durability snapshot index commit protocol db open",
    ),
    ("heddledb", "front"),
];

/// By which a room of another crate, or of the same, is used.
const PREFIXES: [&str; 3] = ["crate::", "heddledb_core::", "heddledb_engine::"];

/// The longest that a source file may be, in lines.
const LINES_MAX: usize = 600;

/// The sources below a folder, tests left out.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.ends_with("tests") || name == "models" || name == "fuzz" {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A source without its tests, comments and re-exports.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut code = String::new();
    let mut shown_again = false;
    for line in text.lines() {
        if line.starts_with("#[cfg(") && line.contains("test") {
            break;
        }
        let line = line.split("//").next().unwrap();
        shown_again |=
            line.trim_start().starts_with("pub use") || line.trim_start().starts_with("pub(crate) use");
        if !shown_again {
            code.push_str(line);
            code.push('\n');
        }
        shown_again &= !line.contains(';');
    }
    code
}

/// The names that follow a prefix like `crate::`.
fn names_after<'a>(code: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        match rest.strip_prefix('{') {
            None => drop(names.insert(&rest[..end(rest)])),
            Some(list) => {
                // Only the first name of each path in the braces.
                let (mut depth, mut start) = (0, 0);
                for (at, letter) in list.char_indices() {
                    let part = list[start..at].trim_start();
                    match letter {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        '}' | ',' if depth == 0 => {
                            names.insert(&part[..end(part)]);
                            start = at + 1;
                            if letter == '}' {
                                break;
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// The folder of all crates.
fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn a_room_uses_only_rooms_below_it() {
    let rooms: Vec<&str> = FLOORS.iter().flat_map(|(_, rooms)| rooms.split_whitespace()).collect();
    let mut wrong = Vec::new();
    for (name, own) in FLOORS {
        let (root, mut files) = (crates().join(name).join("src"), Vec::new());
        sources(&root, &mut files);
        for path in &files {
            let relative = path.strip_prefix(&root).unwrap();
            let room = relative.components().next().unwrap().as_os_str().to_str().unwrap();
            let room = room.trim_end_matches(".rs");
            if room == "lib" {
                continue;
            }
            assert!(
                own.split_whitespace().any(|known| known == room),
                "{room} is a new room of {name}: say where it is in FLOORS"
            );
            let floor = rooms.iter().position(|known| *known == room).unwrap();
            let code = code(path);
            for used in PREFIXES.iter().flat_map(|prefix| names_after(&code, prefix)) {
                let below = rooms.iter().position(|known| *known == used);
                if below.is_some_and(|below| below > floor) {
                    wrong.push(format!("{name}: {} uses {used}, which is above it", relative.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_two_files_of_a_folder_use_each_other() {
    let (mut files, mut circles) = (Vec::new(), Vec::new());
    FLOORS.iter().for_each(|(name, _)| sources(&crates().join(name).join("src"), &mut files));
    let folders: BTreeSet<&Path> = files.iter().map(|path| path.parent().unwrap()).collect();
    for folder in folders {
        // Who uses whom among the files and folders of this one.
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in files.iter().filter(|path| path.starts_with(folder)) {
            let relative = path.strip_prefix(folder).unwrap();
            let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
            let name = first.trim_end_matches(".rs");
            if name == "mod" || name == "lib" {
                continue;
            }
            // From a file below, `super` is said once more.
            let depth = relative.components().count() - usize::from(relative.ends_with("mod.rs"));
            let prefix = "super::".repeat(depth);
            let code = code(path);
            let used = names_after(&code, &prefix);
            uses.entry(name.to_owned()).or_default().extend(used.into_iter().map(str::to_owned));
        }
        for (one, others) in &uses {
            for other in others.iter().filter(|other| *other != one) {
                if uses.get(other).is_some_and(|back| back.contains(one)) && one < other {
                    circles.push(format!("{}: {one} and {other} use each other", folder.display()));
                }
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(crates()).unwrap() {
        let source = folder.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let long = |path: &PathBuf| {
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        (lines > LINES_MAX).then(|| format!("{} has {lines} lines", path.display()))
    };
    let long: Vec<String> = files.iter().filter_map(long).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
