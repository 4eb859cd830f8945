//! Targets for mount tables, and for the lines between agents and sentinels.

use cvc_engine::{ckpt::dmtcp::merged, crew::read_sentinel_line};
use cvc_probe::sentinel::{self, AgentMessage, SentinelAnswer, SentinelRequest};
use std::path::{Component, PathBuf};

pub(crate) const MOUNT_WORDS: &[&str] = &[
    " - ",
    "\\040",
    "\\134",
    "\\777",
    "\\",
    " ",
    "\n",
    "36 35 98:0 / /mnt rw - ext4 /dev/sda1 rw\n",
    "master:1",
];

/// Checks the parser of `/proc/self/mountinfo`.
pub(crate) fn mountinfo(data: &[u8]) {
    let mounts = sentinel::read_mounts(data);
    assert!(mounts.len() <= data.split(|byte| *byte == b'\n').count());
    let bytes: usize = mounts.iter().map(|m| m.point.as_os_str().len()).sum();
    assert!(
        bytes <= data.len(),
        "an escape is shorter than what stands there"
    );
}

pub(crate) const REQUEST_WORDS: &[&str] = &[
    "{\"id\":1,\"do\":\"",
    "\"do\":\"remove\"",
    "\"do\":\"end\"",
    "\"do\":\"make\"",
    "\"dirs\":",
    "\"files\":",
    "\"grace_s\":1e308",
    "{\"hello\":{\"beat_s\":-1,\"silence_s\":1e400}}",
    "{\"ping\":1}",
    "/tmp/..",
    "/tmp/cvc/../x",
    "\"/\"",
    "[[",
    "null",
    "\\ud800",
];

/// Checks the parser of lines from an agent. No request is carried out.
pub(crate) fn sentinel_request(data: &[u8]) {
    match sentinel::read_agent_line(data) {
        AgentMessage::Nothing => {}
        AgentMessage::Hello(hello) => {
            assert!(hello.beat_s.is_finite() && hello.silence_s.is_none_or(f64::is_finite))
        }
        AgentMessage::Wrong(_, problem) => assert!(!problem.is_empty()),
        AgentMessage::Request(_, request) => {
            let json = serde_json::to_string(&request).expect("JSON");
            let back: SentinelRequest = serde_json::from_str(&json).expect("reads its own JSON");
            // a number with a fraction may change in its last digit
            assert!(
                back == request || matches!(request, SentinelRequest::End { .. }),
                "{back:?} from {request:?}"
            );
            let removed: Vec<PathBuf> = match &request {
                SentinelRequest::Remove { dirs, files } => {
                    dirs.iter().chain(files).cloned().collect()
                }
                SentinelRequest::Make { remove, .. } | SentinelRequest::Guard { remove, .. } => {
                    remove.clone()
                }
                _ => Vec::new(),
            };
            for path in removed
                .iter()
                .filter(|path| sentinel::removable(path).is_ok())
            {
                let plain =
                    path.is_absolute() && !path.components().any(|c| c == Component::ParentDir);
                assert!(
                    plain && path.components().count() >= 3,
                    "{} may be removed",
                    path.display()
                );
            }
        }
    }
}

pub(crate) const ANSWER_WORDS: &[&str] = &[
    "{\"id\":1,\"ok\":",
    "\"error\":\"x\"",
    "{\"beat\":1,\"at_ns\":",
    "\"hello\":",
    "\"file_bytes\":18446744073709551615",
    "\"bytes\":18446744073709551615",
    "\"stored\":18446744073709551615",
    "\"role\":\"rank\"",
    "\"images\":",
    "null",
    "[[[[",
    "\"0x\"",
];

/// Checks the parser of lines from a sentinel.
pub(crate) fn sentinel_answer(data: &[u8]) {
    let Some(message) = read_sentinel_line(data) else {
        return;
    };
    let json = serde_json::to_string(&message).expect("JSON");
    let back = read_sentinel_line(json.as_bytes()).expect("reads its own JSON");
    assert_eq!(serde_json::to_string(&back).expect("JSON"), json);
    let (Some(SentinelAnswer::Images(one)), Some(SentinelAnswer::Images(other))) =
        (message.ok, back.ok)
    else {
        return;
    };
    let views = [("n1".to_owned(), *one), ("n2".to_owned(), *other)];
    let Ok(merged) = merged::merge(&views, &["n1", "n2"], |_, seen| seen.first().copied()) else {
        return;
    };
    assert!(merged.stored_bytes >= merged.all.file_bytes);
    assert!(
        merged.images.len() <= views[0].1.images.len(),
        "both see the same files"
    );
}
