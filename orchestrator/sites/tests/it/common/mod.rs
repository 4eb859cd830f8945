//! Machines that tests reach by ssh.

pub mod lab_host;
pub mod laptop;
