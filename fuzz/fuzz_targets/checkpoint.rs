//! A part of a checkpoint: frames, rows.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::internals::log::fuzz::checkpoint(bytes));
