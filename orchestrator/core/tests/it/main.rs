//! Tests of campaign files, plans and inventories.

mod bad_input;
mod compared_types;
mod inventory;
mod levels;
mod plan;
mod schema;
mod settings_as_factors;
mod site_settings;
mod variants;
