//! Schema texts of a directory.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::table::fuzz::schemas(bytes));
