//! No damage to a seed breaks a reader.

#![expect(clippy::print_stderr, reason = "tests tell which input broke a reader")]

mod readers;
