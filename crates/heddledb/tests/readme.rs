//! What the README shows is there: its first program is the example `accounts`, and the examples it names exist.

use std::path::{Path, PathBuf};

fn readme() -> String {
    std::fs::read_to_string(crate_folder().join("../../README.md")).unwrap()
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn example(name: &str) -> PathBuf {
    crate_folder().join("examples").join(name).with_extension("rs")
}

#[test]
fn the_first_program_is_an_example() {
    let readme = readme();
    let (_, rest) = readme.split_once("```rust\n").expect("a program in the README");
    let (program, _) = rest.split_once("```").expect("its end");
    let source = std::fs::read_to_string(example("accounts")).unwrap();
    let (_, source) = source.split_once("\n\n").expect("a line that says what it is, above the program");
    assert_eq!(program, source, "README.md and examples/accounts.rs differ");
}

#[test]
fn examples_that_are_named_exist() {
    let readme = readme();
    let named: Vec<&str> = readme
        .split("--example ")
        .skip(1)
        .filter_map(|rest| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next())
        .collect();
    assert!(!named.is_empty(), "the README names an example");
    let missing: Vec<_> = named.iter().filter(|name| !example(name).is_file()).collect();
    assert!(missing.is_empty(), "README.md names examples that are not there: {missing:?}");
}
