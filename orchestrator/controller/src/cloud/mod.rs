//! Machines of a cloud as a site: fleets that are acquired and released in an order that leaks nothing, and what is found by tags alone.
//! Nothing here knows a cloud's library: clouds are reached through [`crate::provider`].

mod acquire;
mod fleet;
mod fleet_machines;
mod key_dir;
mod loss;
mod readiness;
mod reconcile;
mod release;
mod slots;
mod sweep;
mod upkeep;
mod warm_pool;

pub(crate) use fleet::{Fleet, Wanted};
pub(crate) use fleet_machines::FleetMachines;
pub(crate) use loss::LossReason;
pub(crate) use upkeep::Upkeep;

pub use sweep::{ActiveCampaign, Found, Known, Removed, Sweep, SweepFindings, register};
