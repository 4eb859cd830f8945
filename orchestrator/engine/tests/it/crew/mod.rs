//! Crews of real sentinel processes: every way in which a line can begin, break or fall silent.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

mod console;
mod faults;
mod nodes;
mod process;
mod start;
mod times;
mod work;
