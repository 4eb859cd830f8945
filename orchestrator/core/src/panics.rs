//! Handles panics. A panic is a bug of cvc, but must not prevent cvc from giving back its machines and other resources.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Returns the message of a panic, from its payload.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

/// The error that a task panicked, with the message of the panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(pub String);

/// Runs a future, and catches a panic in it. After a panic the future's data may be inconsistent, so the caller must only close what is open.
///
/// # Errors
/// The message of the panic, if the future panics.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(Panicked(panic_text(panic.as_ref())))),
        }
    })
    .await
}

/// Panics at the first call with the `place` that the variable `CVC_PANIC_AT` names. For tests; not in release builds.
#[cfg(debug_assertions)]
pub fn panic_if_asked(place: &str) {
    use std::sync::atomic::{AtomicBool, Ordering};
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if std::env::var("CVC_PANIC_AT").is_ok_and(|at| at == place) {
        assert!(
            IS_DONE.swap(true, Ordering::Relaxed),
            "asked to panic at {place}"
        );
    }
}

/// Does nothing: a release build ignores `CVC_PANIC_AT`.
#[cfg(not(debug_assertions))]
pub const fn panic_if_asked(_: &str) {}

#[cfg(test)]
mod tests {
    use super::{Panicked, catch_panic};

    #[tokio::test]
    async fn work_that_panics_after_a_pause_is_an_error_with_its_message() {
        let work = async {
            tokio::task::yield_now().await;
            let nothing: Vec<u8> = Vec::new();
            nothing.first().copied().expect("nothing is there")
        };
        assert_eq!(
            catch_panic(work).await,
            Err(Panicked("nothing is there".to_owned()))
        );
        assert_eq!(catch_panic(async { 3 }).await, Ok(3));
    }
}
