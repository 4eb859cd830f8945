//! Gives libFuzzer's inputs to the reader `sentinel-answer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("sentinel-answer", bytes));
