//! What commands need on this machine: an async runtime, and access to clouds.

use crate::{args::Where, exit_status::ExitStatus, failure::Failure};
use cvc_session::Machine;
use std::sync::Arc;

/// Returns a runtime with one thread.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Other {
            status: ExitStatus::Internal,
            message: format!("cannot start: {e}"),
            hint: None,
        })
}

/// Returns access to the clouds that this build supports.
#[cfg(feature = "ec2")]
pub fn clouds() -> Option<Arc<dyn cvc_cloud::provider::Clouds>> {
    Some(Arc::new(cvc_ec2::Ec2::default()))
}

/// Returns `None`, because this build supports no clouds.
#[cfg(not(feature = "ec2"))]
pub fn clouds() -> Option<Arc<dyn cvc_cloud::provider::Clouds>> {
    None
}

/// Returns the machine on which sessions run, with its directory of campaigns.
pub fn machine(place: &Where) -> Machine {
    Machine {
        campaigns: place.campaigns.clone(),
        clouds: clouds(),
    }
}
