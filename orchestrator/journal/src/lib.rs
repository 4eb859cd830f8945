//! The journal, the authoritative record of a campaign: append-only JSON lines, synced before and after each outside effect.

pub mod budget_share;
pub mod event;
mod file;
pub mod fsck;
pub mod lease;
mod leases;
mod lineage;
mod mark;
mod node_set;
mod place;
pub mod price;
mod problem;
pub mod spending;
mod state;

pub use event::{Acquired, Entry, Event};
pub(crate) use file::newer_format;
pub use file::{FORMAT, Journal, read, read_each};
pub use leases::{Lease, apply_to_leases};
pub use lineage::Lineage;
pub(crate) use mark::{Mark, forget_mark};
pub use node_set::{NodeSets, WrittenNodes};
pub use place::SitePlace;
pub use problem::{EventProblem, IllegalEvent};
pub use state::{Attempt, CampaignState, Fetched, PointDecision, RunHistory, RunState};
