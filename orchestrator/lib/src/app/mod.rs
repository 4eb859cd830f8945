//! Application descriptors.
pub mod descriptor;
