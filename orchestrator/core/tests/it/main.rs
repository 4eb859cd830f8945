//! Tests of campaign files, plans and inventories.

mod bad_input;
mod deadline;
mod inventory;
mod journals;
mod plan;
mod schema;
mod settings_as_factors;
mod variants;
