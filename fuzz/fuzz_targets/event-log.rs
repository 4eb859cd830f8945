//! Gives libFuzzer's inputs to the reader `event-log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("event-log", bytes));
