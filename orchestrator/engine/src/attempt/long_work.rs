//! Runs long work in a separate thread.

use crate::run::RunError;

/// Runs long work, such as hashing or removing much data, in a separate thread, because the single thread of a controller or an agent has to handle
/// heartbeats, signals and deadlines.
pub(super) async fn long_work<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| RunError::Broken(error.to_string()))
}
