//! The `heddle` command.
#![deny(unsafe_code)]
mod clock;
mod machine;
mod progress;
mod report;
fn main() {}
