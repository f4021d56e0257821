//! A manifest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::internals::log::fuzz::manifest(bytes));
