//! Gives libFuzzer's inputs to the reader that `CVC_FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<&cvc_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("CVC_FUZZ_TARGET").expect("CVC_FUZZ_TARGET is a target's name");
    cvc_fuzz::target(&name).unwrap_or_else(|| panic!("unknown target `{name}`"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.check)(bytes));
