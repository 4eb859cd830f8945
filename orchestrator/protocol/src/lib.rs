//! Models of how cvc deals with clouds, heads and other campaigns, which a model checker explores: every order of steps, with controllers
//! that are killed at any of them. Nothing here is called by cvc. See `docs/design/0009-protocol-model.md`.

mod attempt;
mod budget;
mod fleets;
mod rules;

pub use attempt::Attempts;
pub use budget::Budget;
pub use fleets::Fleets;
pub use rules::{Bound, Rules};
