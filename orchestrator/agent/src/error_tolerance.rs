//! Tolerates a file system that fails temporarily. Shared storage may fail after a file was replaced on another machine (ESTALE), or while a server
//! is unavailable (EIO).

use cvc_core::store::StoreError;
use std::{io::ErrorKind, time::Duration};
use tokio::time::Instant;

/// Time limit until a read error becomes final. Each successful reading restarts it.
#[derive(Debug)]
pub(super) struct ErrorTolerance {
    limit: Duration,
    /// Time of the first error after the last successful reading.
    failing_since: Option<Instant>,
}

impl ErrorTolerance {
    pub(super) fn of(limit: Duration) -> Self {
        Self {
            limit,
            failing_since: None,
        }
    }

    /// Returns the content; `None` if the reading must be retried later.
    ///
    /// # Errors
    /// The file does not exist, or reading it has failed for too long.
    pub(super) fn tolerate<T>(
        &mut self,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.tolerate_at(Instant::now(), read)
    }

    fn tolerate_at<T>(
        &mut self,
        now: Instant,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => {
                self.failing_since = None;
                Ok(Some(value))
            }
            Err(error) if is_missing(&error) => Err(error),
            Err(error) => {
                let since = *self.failing_since.get_or_insert(now);
                if now.duration_since(since) < self.limit {
                    Ok(None)
                } else {
                    Err(error)
                }
            }
        }
    }
}

/// Returns whether the error is a missing file, for which retrying is useless.
pub(super) fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn error(code: i32) -> Result<(), StoreError> {
        Err(StoreError::io("read", "agent.json")(
            io::Error::from_raw_os_error(code),
        ))
    }

    #[test]
    fn a_short_failure_is_tolerated_and_a_long_one_is_not() {
        let (mut tolerance, begin) = (ErrorTolerance::of(Duration::from_secs(20)), Instant::now());
        let at = |s| begin + Duration::from_secs(s);
        for (code, from) in [(nix::libc::ESTALE, 0), (nix::libc::EIO, 30)] {
            assert!(matches!(
                tolerance.tolerate_at(at(from), error(code)),
                Ok(None)
            ));
            assert!(matches!(
                tolerance.tolerate_at(at(from + 19), error(code)),
                Ok(None)
            ));
            assert!(
                matches!(tolerance.tolerate_at(at(from + 25), Ok(())), Ok(Some(()))),
                "a success resets it"
            );
        }
        assert!(matches!(
            tolerance.tolerate_at(at(60), error(nix::libc::EIO)),
            Ok(None)
        ));
        tolerance
            .tolerate_at(at(80), error(nix::libc::EIO))
            .expect_err("for too long");
    }

    #[test]
    fn missing_files_are_not_waited_for() {
        ErrorTolerance::of(Duration::from_secs(20))
            .tolerate(error(nix::libc::ENOENT))
            .expect_err("it is gone");
    }
}
