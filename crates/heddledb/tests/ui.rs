//! What `#[derive(Table)]` and `#[procedure]` refuse, and what they say.

#[test]
fn refused_tables() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn refused_procedures() {
    trybuild::TestCases::new().compile_fail("tests/ui/procedure/*.rs");
}
