//! `cvc image` and `cvc-node image`: options, tables and JSON of the reader of images.

pub mod command;
mod estimate_show;
mod show;
mod tree_show;

pub use tree_show::{Group, GroupOfDirectory, Grouping, Sort};
