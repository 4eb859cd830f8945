//! Gives libFuzzer's inputs to the reader that `CVC_READER` names, one of `cvc_fuzz::TARGETS`.

#![no_main]

use cvc_fuzz::{Target, target};
use std::sync::LazyLock;

static READER: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("CVC_READER").expect("CVC_READER names a reader");
    target(&name).unwrap_or_else(|| panic!("CVC_READER: unknown reader `{name}`"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (READER.check)(bytes));
