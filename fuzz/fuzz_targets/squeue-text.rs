//! Gives libFuzzer's inputs to the reader `squeue-text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("squeue-text", bytes));
