//! Gives libFuzzer's inputs to the reader `inventory-ini`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("inventory-ini", bytes));
