//! Shared parts of the tests of all crates: optional tools, real campaigns in temporary directories, a lab of several nodes on this machine, a cloud
//! whose instances are such nodes, processes left behind, and tables in the repository.
//!
//! Functions of the kit panic on any error, which fails the test.

#![expect(clippy::print_stderr, reason = "tests tell why they fail")]

pub mod campaign;
pub mod cloud;
pub mod lab;
pub mod node_program;
pub mod power_loss;
pub mod process;
pub mod program;
pub mod table;
pub mod tool;
pub mod turn;
mod user_cache;

pub use campaign::{Campaign, Finished, Running, utf8};
pub use cloud::Cloud;
pub use lab::Lab;
pub use node_program::node_program;
pub use process::wait_until;
pub use tool::Tool;
pub use turn::{Turn, turn};
