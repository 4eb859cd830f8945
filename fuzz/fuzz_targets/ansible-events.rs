//! Gives libFuzzer's inputs to the reader `ansible-events`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("ansible-events", bytes));
