//! Tests of EC2 as a provider.

#![expect(clippy::print_stderr, reason = "tests tell what they skip and measure")]

mod cloud;
