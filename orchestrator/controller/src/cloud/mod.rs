//! Machines of a cloud as a site: what a provider must be able to do, fleets that are acquired and released in an order that leaks nothing,
//! and what is found by tags alone. Nothing here knows a cloud's library.

mod acquire;
mod error;
mod fleet;
mod key_dir;
mod provider;
mod readiness;
mod release;
mod sweep;
mod warm_pool;

pub use error::{Left, ProviderError, Trouble};
pub(crate) use fleet::{Fleet, Wanted};

pub use provider::{
    Account, Clouds, FleetOrder, Health, ImageFacts, Instance, InstanceState, Offer, Prepared, Provider, Quota, Resource, ResourceKind,
    TypeFacts,
};
pub use sweep::{Busy, Found, Known, Looked, Removed, Sweep, register, tolerate};
