//! What runs and sites cost: prices with their source and date, rates of nodes, and what a campaign has spent. Nothing here asks a cloud but
//! [`refresh`]; a price that is not known stays unknown, and is never zero.

mod book;
mod cache;
mod expected;
mod price;
mod rate;
mod spent;
mod table;

pub use book::{DiskSize, MONTH_HOURS, PriceBook, cache_file, refresh, transfer_cost};
pub use expected::{Expected, SETUP_S, SiteCost, expected, known_cores};
pub use price::{Price, PriceFrom, UnknownPrice};
pub use rate::{LEAST_S, NodeRate, ROOT_GIB, RatePart};
pub use spent::{Spent, attempts_cost, campaign_cost, lease_cost, total};
pub use table::TypePrice;

#[cfg(test)]
mod tests;
