//! Recompute rules: how a cell comes out of the paper's own inputs. One file for each family of tables.
//!
//! A rule reads other cells through [`CellContext`] and gives the number without rounding; comparing it with print is not its business. Which inputs a
//! rule reads is noted, so that [`judge`](super::judge) can tell how far the rounding of the printed inputs reaches, and can try again with
//! inputs corrected that are known to be misprints.
//!
//! To add a rule: a file here with a type that implements [`Rule`], and a line in [`RULES`]. `paper.toml` then names it.

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
pub use registry::{MODELS, RULES, model, rule};
pub(super) use registry::{check, check_model};
pub use rule::{ModelRule, Rule};
