//! Gives libFuzzer's inputs to the reader `inventory-yaml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("inventory-yaml", bytes));
