//! Gives libFuzzer's inputs to the reader `line-file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("line-file", bytes));
