//! Gives libFuzzer's inputs to the reader `relay-line`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("relay-line", bytes));
