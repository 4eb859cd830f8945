//! Rules that recompute a cell from the paper's own inputs. There is one file for each family of tables.
//!
//! A rule reads other cells through [`CellContext`] and returns the number without rounding; it does not compare the number with the printed one.
//! The inputs that a rule reads are recorded, so that [`judge`](super::judge) can compute the effect of their rounding, and can repeat the rule
//! with known misprints in the inputs corrected.
//!
//! To add a rule, write a file here with a type that implements [`Rule`], and list it in [`RULES`]. Its name can then be used in `paper.toml`.

mod asynchronous;
mod because;
mod cloud;
mod delegation;
mod example;
mod general;
mod io;
mod io_phase;
mod locator;
mod models;
mod registry;
mod rule;
mod sizes;
mod text;

pub use because::NotRecomputable;
pub use locator::CellContext;
pub(super) use locator::Reads;
pub use registry::{MODELS, RULES, WrongUse, model, rule};
pub(super) use registry::{check, check_model};
pub use rule::{ModelRule, Rule};
