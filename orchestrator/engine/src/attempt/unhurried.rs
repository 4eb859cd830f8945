//! Work that may take long, beside everything else.

use crate::run::RunError;

/// Does what may take long, such as hashing or removing very much, beside everything else: the one thread of a controller or an agent has other
/// things to see to, like heartbeats, signals and deadlines.
pub(super) async fn unhurried<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|error| RunError::Broken(error.to_string()))
}
