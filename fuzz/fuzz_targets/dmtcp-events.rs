//! Gives libFuzzer's inputs to the reader `dmtcp-events`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("dmtcp-events", bytes));
