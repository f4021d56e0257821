//! A manifest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::log::fuzz::manifest(bytes));
