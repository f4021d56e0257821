//! What every protocol costs on 64 virtual cores is what the file says, to the last digit.
//!
//! This is also the proof that a simulation depends on nothing but its seed: the file was written by another
//! process, on another machine, with memory elsewhere.

use heddledb_simulator::budget::{differences, measure};

#[test]
fn costs_are_as_budgeted() {
    let measured = measure(|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let differences = differences(include_str!("../budget.txt"), &measured);
    assert!(
        differences.is_empty(),
        "a change of cost is to be explained, and then written with \
         `cargo run -p heddledb-simulator --bin budget -- --write`:\n{}",
        differences.join("\n")
    );
}

#[test]
fn differences_are_told() {
    let kept = "# a comment\na x: 1; 2\nb x: 3; 4\nc x: 5; 6\n";
    assert!(differences(kept, kept).is_empty());
    let found = differences(kept, "a x: 1; 2\nb x: 3; 5\nd x: 7; 8\n");
    assert_eq!(found, ["was b x: 3; 4\nis  b x: 3; 5", "new d x: 7; 8", "gone c x: 5; 6"]);
}
