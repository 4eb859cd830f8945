//! Costs of runs and sites: prices with their source and date, rates of nodes, and what a campaign has spent. Only [`refresh`] asks a
//! cloud; an unknown price stays unknown and is never zero.

mod book;
mod cache;
mod expected;
pub mod machines;
mod rate;
mod table;

pub use book::{DiskSize, MONTH_HOURS, PriceBook, cache_file, refresh, transfer_cost};
pub use expected::{Expected, SETUP_S, SiteCost, expected, known_cores};

pub use machines::{MachineFacts, ROOT_GIB};
pub use rate::{dearest_rate, instance_rate, planned_rate, present_rate};

#[cfg(test)]
mod tests;
