//! The journal: the truth of a campaign. Append-only JSON lines, synced before an outside effect and after it.

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
pub use problem::EventProblem;
pub use state::{Attempt, CampaignState, Decision, Fetched, IllegalEvent, RunHistory, RunState};
