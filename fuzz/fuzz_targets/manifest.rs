//! Gives libFuzzer's inputs to the reader `manifest`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("manifest", bytes));
