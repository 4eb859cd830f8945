//! The journal: the truth of a campaign.
pub mod event;
