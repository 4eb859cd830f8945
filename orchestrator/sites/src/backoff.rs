//! Growing delays between attempts, for all retries of the controller.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;

/// Delays that double from a minimum up to a maximum.
#[derive(Debug)]
pub struct Delays {
    backoff: ExponentialBackoff,
    first: Duration,
    longest: Duration,
}

impl Delays {
    /// Creates delays that begin with `first` and double up to `longest`.
    pub fn doubling(first: Duration, longest: Duration) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(longest)
            .with_factor(2.0)
            .without_max_times();
        Self {
            backoff: builder.build(),
            first,
            longest,
        }
    }

    /// Returns the next delay.
    pub fn next_delay(&mut self) -> Duration {
        self.backoff.next().unwrap_or(self.longest)
    }

    /// Waits for the next delay.
    pub async fn pause(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }

    /// Begins with the first delay again; to be called after a success.
    pub fn reset(&mut self) {
        *self = Self::doubling(self.first, self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_begin_again_after_a_success() {
        let mut delays = Delays::doubling(Duration::from_millis(500), Duration::from_secs(3));
        let mut next = |n: usize| {
            (0..n)
                .map(|_| delays.next_delay().as_millis())
                .collect::<Vec<_>>()
        };
        assert_eq!(next(5), [500, 1000, 2000, 3000, 3000]);
        assert!(next(200).iter().all(|ms| *ms == 3000), "without end");
        delays.reset();
        assert_eq!(delays.next_delay(), Duration::from_millis(500));
    }
}
