//! The files of a generation: survey, frames, entries.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::internals::log::fuzz::segments(bytes));
