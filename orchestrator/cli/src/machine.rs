//! What commands need of this machine: a runtime, its clouds.

use crate::{args::Where, exit_status::ExitStatus, failure::Failure};
use cvc_session::Machine;
use std::sync::Arc;

/// The runtime of a command: one thread.
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

/// The clouds of a cvc that was built with them.
#[cfg(feature = "ec2")]
pub fn clouds() -> Option<Arc<dyn cvc_cloud::provider::Clouds>> {
    Some(Arc::new(cvc_ec2::Ec2::default()))
}

/// The clouds of a cvc that was built without any.
#[cfg(not(feature = "ec2"))]
pub fn clouds() -> Option<Arc<dyn cvc_cloud::provider::Clouds>> {
    None
}

/// Where sessions take place.
pub fn machine(place: &Where) -> Machine {
    Machine {
        campaigns: place.campaigns.clone(),
        clouds: clouds(),
    }
}
