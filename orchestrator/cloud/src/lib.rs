//! Cloud machines as a site: fleets that are acquired and released in an order that leaks nothing, and resources found by tags alone. No code here
//! depends on a cloud's library; clouds are used through [`crate::provider`].

mod acquire;
pub mod cost;
mod fleet;
mod fleet_machines;
mod key_dir;
mod loss;
pub mod provider;
mod readiness;
mod reconcile;
mod release;
mod slots;
mod sweep;
mod upkeep;
mod warm_pool;

pub use fleet::{Fleet, NewFleet};
pub use fleet_machines::FleetMachines;
pub use loss::LossReason;
pub use upkeep::Upkeep;

pub use sweep::{
    ActiveCampaign, CampaignFleets, FoundResource, Removed, Sweep, SweepFindings, register,
};
