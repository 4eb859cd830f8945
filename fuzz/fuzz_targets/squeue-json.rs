//! Gives libFuzzer's inputs to the reader `squeue-json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("squeue-json", bytes));
