//! Gives libFuzzer's inputs to the reader `campaign-file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("campaign-file", bytes));
