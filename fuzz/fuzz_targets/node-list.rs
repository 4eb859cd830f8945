//! Gives libFuzzer's inputs to the reader `node-list`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("node-list", bytes));
