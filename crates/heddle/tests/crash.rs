//! A share of what `heddle crash` does in earnest.

use std::process::Command;

#[test]
fn what_was_acknowledged_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_heddle"));
    program.args(["crash", "--cycles", "60", "--seed", "1", "--dir"]).arg(folder.path());
    let output = program.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{error}");
    assert!(told.contains("ok 60 cycles, seed 1") && told.contains("at a checkpoint"), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
