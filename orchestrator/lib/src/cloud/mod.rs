//! Machines of a cloud as a site: what a provider must be able to do, fleets that are acquired and released in an order that leaks nothing,
//! and what is found by tags alone. Nothing here knows a cloud's library.

mod acquire;
mod error;
mod fleet;
mod kept;
mod order;
mod place;
mod provider;
mod reach;
mod release;
mod sweep;

pub use error::{Left, ProviderError, Trouble};
pub(crate) use fleet::{Fleet, Wanted};
pub use order::{LaunchOrder, Tags, owner};
pub use provider::{
    Account, Clouds, FleetOrder, Health, ImageFacts, Instance, InstanceState, Offer, Prepared, Provider, Quota, Quote, Resource,
    ResourceKind, TypeFacts,
};
pub use sweep::{Busy, Found, Known, Looked, Removed, Sweep, register, tolerate};
