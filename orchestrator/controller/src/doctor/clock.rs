//! Compares the clocks of nodes with this machine's: a node's time against the middle of the query's round trip.

use super::{
    check::{CheckState, DoctorCheck},
    node::DoctorNode,
};
use cvc_engine::host::HostError;
use cvc_sites::ssh::SshHost;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// Maximum difference of clocks, seconds. Beyond it, times of different nodes cannot be compared.
const MAX_S: f64 = 0.5;
/// Number of queries; the fastest answer counts.
const QUESTIONS: usize = 5;
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn skew(nodes: &[DoctorNode]) -> Vec<DoctorCheck> {
    let mut offsets = Vec::new();
    let mut checks = Vec::new();
    for node in nodes {
        let lost = || HostError::Timeout {
            host: node.name().to_owned(),
            argv: vec!["date".into()],
            limit_s: LIMIT.as_secs_f64(),
        };
        match tokio::time::timeout(LIMIT, offset(&node.host))
            .await
            .map_err(|_| lost())
            .and_then(|o| o)
        {
            Ok(offset) => offsets.push((node.name(), offset)),
            Err(error) => checks.push(DoctorCheck::of(node.name(), "clock", &error)),
        }
    }
    checks.push(compare(&offsets));
    checks
}

/// Compares clocks. `offsets` has for each host how far its clock is ahead, and the uncertainty, seconds.
fn compare(offsets: &[(&str, (f64, f64))]) -> DoctorCheck {
    let far: Vec<&(&str, (f64, f64))> = offsets
        .iter()
        .filter(|(_, (offset, way))| offset.abs() - way > MAX_S)
        .collect();
    let text = |of: &[&(&str, (f64, f64))]| {
        of.iter()
            .map(|(name, (offset, way))| format!("{name} {offset:+.3} s (±{way:.3})"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if far.is_empty() {
        DoctorCheck::good(
            "clocks",
            format!(
                "against this machine: {}",
                text(&offsets.iter().collect::<Vec<_>>())
            ),
        )
    } else {
        let hint = "start a time service there (chronyd, systemd-timesyncd), or check this machine's own clock";
        DoctorCheck::new(
            "clocks",
            CheckState::Doubtful,
            format!("more than {MAX_S} s from this machine's: {}", text(&far)),
            hint,
        )
    }
}

/// Returns by how much a host's clock is ahead, and the uncertainty (half of the round trip), seconds.
async fn offset(host: &SshHost) -> Result<(f64, f64), HostError> {
    let argv = ["sh", "-c", "while read -r l; do date +%s.%N; done"].map(str::to_owned);
    let mut pipe = host.pipe(&argv).await?;
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |d| d.as_secs_f64())
    };
    let mut best: Option<(f64, f64)> = None;
    for _ in 0..QUESTIONS {
        let Some(stdin) = pipe.stdin.as_mut() else {
            break;
        };
        let (mut line, asked) = (String::new(), now());
        // a lost connection is reported at the end
        let sent = stdin.write_all(b"\n").await;
        if sent.is_err() || pipe.stdout.read_line(&mut line).await.unwrap_or(0) == 0 {
            break;
        }
        let received = now();
        let way = (received - asked) / 2.0;
        if let Ok(there) = line.trim().parse::<f64>()
            && best.is_none_or(|(_, least)| way < least)
        {
            best = Some((there - (asked + way), way));
        }
    }
    let (_, message) = pipe.wait().await?;
    best.ok_or_else(|| HostError::Ssh {
        host: cvc_engine::host::Host::name(host).to_owned(),
        message: format!("`date +%s.%N` printed no time {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_or_behind_by_more_than_is_uncertain_is_named() {
        let near = [("n1", (0.4, 0.01)), ("n2", (-0.5, 0.0))];
        let check = compare(&near);
        assert_eq!(check.state, CheckState::Good);
        assert!(
            check
                .found
                .ends_with("n1 +0.400 s (±0.010), n2 -0.500 s (±0.000)"),
            "{}",
            check.found
        );
        // a slow answer makes the offset uncertain
        assert_eq!(compare(&[("n1", (1.0, 0.6))]).state, CheckState::Good);
        for (offset, shown) in [(0.7, "n2 +0.700 s"), (-0.7, "n2 -0.700 s")] {
            let check = compare(&[near[0], ("n2", (offset, 0.1))]);
            assert_eq!(check.state, CheckState::Doubtful);
            assert!(
                check.found.contains(shown) && !check.found.contains("n1"),
                "{}",
                check.found
            );
        }
    }
}
