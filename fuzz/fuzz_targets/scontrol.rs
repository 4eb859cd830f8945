//! Gives libFuzzer's inputs to the reader `scontrol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("scontrol", bytes));
