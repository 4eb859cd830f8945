//! Gives libFuzzer's inputs to the reader `checkpoint-dir`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("checkpoint-dir", bytes));
