//! What `#[derive(Table)]` refuses, and what it says.

#[test]
fn refused_tables() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
