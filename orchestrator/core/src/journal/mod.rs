//! The journal: the truth of a campaign. Append-only JSON lines, synced before an outside effect and after it.

pub mod event;
mod file;
mod state;

pub use event::{Acquired, Entry, Event};
pub use file::{FORMAT, Journal, read};
pub use state::{Attempt, CampaignState, IllegalEvent, Lease, RunHistory, RunState};
