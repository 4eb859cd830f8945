//! Measures the load of the machine.

use std::{
    fs,
    time::{Duration, Instant},
};

/// Minimum idle fraction of the processors for starting more tests than there are processors.
const IDLE: f64 = 0.35;

/// Minimum time between two decisions, so that the load includes tests that were just started.
const WINDOW: Duration = Duration::from_millis(700);

/// Minimum available memory for starting one more test, KiB.
const MEMORY_KIB: u64 = 1 << 20;

/// Processor time at the last decision.
pub struct Load {
    since: Instant,
    times: Option<(u64, u64)>,
}

impl Load {
    /// Starts measuring.
    pub fn watch() -> Self {
        Self {
            since: Instant::now(),
            times: times(&fs::read_to_string("/proc/stat").unwrap_or_default()),
        }
    }

    /// Returns whether the machine had idle capacity since the last decision, and starts a new measurement. Returns `false` if the last decision was
    /// too recent.
    pub fn is_low(&mut self) -> bool {
        if self.since.elapsed() < WINDOW {
            return false;
        }
        let before = std::mem::replace(self, Self::watch());
        let idle = before
            .times
            .zip(self.times)
            .is_some_and(|(before, now)| idle_share(before, now) >= IDLE);
        idle && available_kib(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
            .is_none_or(|kib| kib >= MEMORY_KIB)
    }

    /// Returns the fraction of the processors' time that was busy since the start.
    pub fn busy(&self) -> Option<f64> {
        let now = times(&fs::read_to_string("/proc/stat").unwrap_or_default())?;
        Some(1.0 - idle_share(self.times?, now))
    }
}

fn idle_share(before: (u64, u64), now: (u64, u64)) -> f64 {
    let (idle, all) = (
        now.0.saturating_sub(before.0),
        now.1.saturating_sub(before.1),
    );
    if all == 0 {
        0.0
    } else {
        idle as f64 / all as f64
    }
}

/// Parses idle time (including waiting for disks) and total time from `/proc/stat`.
fn times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time
    let times: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .map_while(|t| t.parse().ok())
        .collect();
    Some((times.get(3)? + times.get(4)?, times.iter().sum()))
}

fn available_kib(meminfo: &str) -> Option<u64> {
    meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_disks_counts_as_idle() {
        let before = times("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 1 1 1\n").expect("times");
        let now = times("cpu  140 0 60 840 60 0 0 0 9 9\n").expect("times");
        assert_eq!(before, (850, 1000));
        assert!((idle_share(before, now) - 0.5).abs() < 1e-9);
        assert_eq!((times("intr 1"), idle_share(now, now)), (None, 0.0));
    }

    #[test]
    fn available_memory_is_parsed() {
        assert_eq!(
            available_kib("MemTotal: 16 kB\nMemAvailable:   12345 kB\n"),
            Some(12345)
        );
        assert_eq!(available_kib("MemTotal: 16 kB\n"), None);
    }
}
