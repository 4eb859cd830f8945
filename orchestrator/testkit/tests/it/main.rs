//! Tests of the test kit itself: the lab, the cloud, and tables; and of the workspace's dependencies.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests tell what they skip and measure"
)]

mod cloud;
mod dependencies;
mod lab;
mod table;
