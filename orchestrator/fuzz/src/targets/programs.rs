//! Targets for users' programs, and for their output.

use cvc_core::app::learn::{learn, steps_of, try_pattern};
use cvc_engine::mpi::needed;
use std::io::Cursor;

pub(crate) const PROGRAM_WORDS: &[&str] = &["\u{7f}ELF", "libmpi.so.40\0", "libmpich.so.12\0"];

/// Checks the reader of the libraries that a program needs.
pub(crate) fn program(data: &[u8]) {
    if let Ok(names) = needed(&mut Cursor::new(data)) {
        assert!(names.iter().all(|name| name.len() < 3 * 4096));
    }
}

pub(crate) const OUTPUT_WORDS: &[&str] = &[
    "step", "iter", "PASSED", "result", " s", "Mop/s", "=", "1e9", "-",
];

/// Checks that each pattern derived from an output matches this output.
pub(crate) fn output(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let learned = learn(&text);
    if let Some(success) = &learned.success {
        assert!(
            try_pattern(&success.pattern, false, &text).is_ok(),
            "{success:?}"
        );
    }
    if let Some(step) = &learned.step {
        assert_eq!(steps_of(&step.pattern, &text), step.steps);
    }
    for figure in &learned.figures {
        assert_eq!(
            try_pattern(&figure.figure.pattern, true, &text),
            Ok(1),
            "{figure:?}"
        );
        assert!(figure.value.is_finite());
    }
}
