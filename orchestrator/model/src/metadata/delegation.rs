//! The published formula for delegation.

use crate::{check::at_least_one, fit::FitError};

/// Returns the number of operations with delegation, where all processes write their regions of one large file: clients·(servers + 1) + 1, which
/// are servers·clients GETCONFIG, clients GETATTR and one CREATE. Source: Arteaga and Zhao, Towards Scalable Application Checkpointing with
/// Parallel File System Delegation, slides.
///
/// # Errors
/// There are no metadata servers or no clients.
pub fn delegation_operations(servers: u32, clients: u32) -> Result<u64, FitError> {
    at_least_one("the number of metadata servers", servers)?;
    at_least_one("the number of clients", clients)?;
    Ok(u64::from(clients) * (u64::from(servers) + 1) + 1)
}
