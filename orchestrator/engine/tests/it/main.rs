//! Tests of crews of sentinels.

#![expect(clippy::print_stderr, reason = "tests tell what they skip and measure")]

mod crew;
