//! Gives libFuzzer's inputs to the reader `journal`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("journal", bytes));
