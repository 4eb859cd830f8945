//! Gives libFuzzer's inputs to the reader `descriptor`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("descriptor", bytes));
