//! Panics: bugs of cvc, which must not keep it from giving back what it holds.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// What a panic says.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".into())
}

/// Carries out a piece of work. What it works on may be half changed after a panic: the caller does nothing with it but end what is open.
///
/// # Errors
/// What the panic says, if it panics.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic_text(panic.as_ref()))),
        }
    })
    .await
}

/// Panics when it comes here for the first time, if `CVC_PANIC_AT` names this place. For tests; not in releases.
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

/// Does nothing in a release.
#[cfg(not(debug_assertions))]
pub const fn panic_if_asked(_: &str) {}

#[cfg(test)]
mod tests {
    use super::catch_panic;

    #[tokio::test]
    async fn work_that_panics_after_a_pause_is_an_error_with_its_message() {
        let work = async {
            tokio::task::yield_now().await;
            let nothing: Vec<u8> = Vec::new();
            nothing.first().copied().expect("nothing is there")
        };
        assert_eq!(catch_panic(work).await, Err("nothing is there".to_owned()));
        assert_eq!(catch_panic(async { 3 }).await, Ok(3));
    }
}
