//! Application descriptors.
pub mod descriptor;
pub mod embedded;
pub mod load;
