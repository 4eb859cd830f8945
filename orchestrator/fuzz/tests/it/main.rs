//! No damage to a seed breaks a reader.

mod readers;
