//! Gives libFuzzer's inputs to the reader `ssh-log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cvc_fuzz::check("ssh-log", bytes));
