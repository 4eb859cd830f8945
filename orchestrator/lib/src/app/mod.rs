//! Application descriptors.
pub mod descriptor;
pub mod load;
