//! Costs of runs and sites: prices with their source and date, rates of nodes, and the spending of a campaign. Only [`refresh`] queries a cloud; an
//! unknown price stays unknown and is never zero.

mod book;
mod cache;
mod expected;
mod jobs;
pub mod machines;
mod rate;
mod table;

pub use book::{DiskSize, MONTH_HOURS, PriceBook, cache_file, refresh, transfer_cost};
pub use expected::{Expected, SETUP_S, SiteCost, expected, known_cores};

pub use jobs::{
    JobCost, JobCosts, JobRun, JobSize, PricedType, Processor, TimeBasis, TypeTotal, price_jobs,
    priced_types,
};
pub use machines::{MachineFacts, ROOT_GIB};
pub use rate::{dearest_rate, instance_rate, planned_rate, present_rate};

#[cfg(test)]
mod tests;
