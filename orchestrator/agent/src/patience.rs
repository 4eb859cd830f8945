//! Patience with a file system that fails for a moment: shared storage does, after a file was replaced on another machine (ESTALE), or while a
//! server is away (EIO).

use cvc_core::store::StoreError;
use std::{io::ErrorKind, time::Duration};
use tokio::time::Instant;

/// For how long errors of reading are not taken for final. Each success begins it anew.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// Time of the first error after the last success.
    failing_since: Option<Instant>,
}

impl Patience {
    pub(super) fn of(limit: Duration) -> Self {
        Self {
            limit,
            failing_since: None,
        }
    }

    /// What was read; `None` if it is to be tried again.
    ///
    /// # Errors
    /// When it does not exist, or has failed for too long.
    pub(super) fn bear<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        self.bear_at(Instant::now(), read)
    }

    fn bear_at<T>(
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

/// Whether an error says that a file does not exist, which no second attempt changes.
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
    fn a_short_failure_is_borne_and_a_long_one_is_not() {
        let (mut patience, begin) = (Patience::of(Duration::from_secs(20)), Instant::now());
        let at = |s| begin + Duration::from_secs(s);
        for (code, from) in [(nix::libc::ESTALE, 0), (nix::libc::EIO, 30)] {
            assert!(matches!(patience.bear_at(at(from), error(code)), Ok(None)));
            assert!(matches!(
                patience.bear_at(at(from + 19), error(code)),
                Ok(None)
            ));
            assert!(
                matches!(patience.bear_at(at(from + 25), Ok(())), Ok(Some(()))),
                "it begins anew"
            );
        }
        assert!(matches!(
            patience.bear_at(at(60), error(nix::libc::EIO)),
            Ok(None)
        ));
        patience
            .bear_at(at(80), error(nix::libc::EIO))
            .expect_err("for too long");
    }

    #[test]
    fn what_does_not_exist_is_not_waited_for() {
        Patience::of(Duration::from_secs(20))
            .bear(error(nix::libc::ENOENT))
            .expect_err("it is gone");
    }
}
