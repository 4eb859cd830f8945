//! Gives libFuzzer's inputs to the reader `ansible-answer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("ansible-answer", bytes));
