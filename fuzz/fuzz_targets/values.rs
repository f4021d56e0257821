//! Rows of a log with their values behind them, and keys: any bits.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heddledb::table::fuzz::values(bytes));
