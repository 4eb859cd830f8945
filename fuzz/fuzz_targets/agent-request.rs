//! Gives libFuzzer's inputs to the reader `agent-request`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("agent-request", bytes));
