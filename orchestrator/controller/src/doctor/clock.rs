//! Compares clocks: a node's answer against the middle of the round trip.

use super::{
    check::{Check, State},
    node::Node,
};
use cvc_engine::host::HostError;
use cvc_sites::ssh::SshHost;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// Maximum difference of clocks, seconds. Beyond it, times of different nodes cannot be compared.
const MAX_S: f64 = 0.5;
/// Number of questions; the quickest answer counts.
const QUESTIONS: usize = 5;
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn skew(nodes: &[Node]) -> Vec<Check> {
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
            Err(error) => checks.push(Check::of(node.name(), "clock", &error)),
        }
    }
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
        checks.push(Check::good(
            "clocks",
            format!(
                "against this machine: {}",
                text(&offsets.iter().collect::<Vec<_>>())
            ),
        ));
    } else {
        let hint = "start a time service there (chronyd, systemd-timesyncd), or check this machine's own clock";
        checks.push(Check::new(
            "clocks",
            State::Doubtful,
            format!("more than {MAX_S} s from this machine's: {}", text(&far)),
            hint,
        ));
    }
    checks
}

/// Seconds by which its clock is ahead, and the uncertainty: half of the round trip.
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
        // a lost connection shows at the end
        let sent = stdin.write_all(b"\n").await;
        if sent.is_err() || pipe.stdout.read_line(&mut line).await.unwrap_or(0) == 0 {
            break;
        }
        let heard = now();
        let way = (heard - asked) / 2.0;
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
