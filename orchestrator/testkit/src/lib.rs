//! Shared by the tests of all crates: tools that may be missing, real campaigns in directories of their own, several nodes on this machine,
//! a cloud whose instances are such nodes, processes that were left, tables.
//!
//! A test kit may panic: that is how a test says that it failed.

pub mod campaign;
pub mod cloud;
pub mod lab;
pub mod node_program;
pub mod process;
pub mod program;
pub mod table;
pub mod tool;
pub mod turn;

pub use campaign::{Campaign, Finished, Running, utf8};
pub use cloud::Cloud;
pub use lab::Lab;
pub use node_program::node_program;
pub use process::wait_until;
pub use tool::Tool;
pub use turn::{Turn, turn};
