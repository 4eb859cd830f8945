//! Parses ansible-playbook's events, which cvc's callback plugin writes as one JSON object per line.

use super::report::{FailedTask, HostReport, InstallEvent, InstallReport, Installed, TaskResult};
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum number of lines of standard error in a failure.
const MAX_LINES: usize = 12;

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Play {},
    Task { task: String },
    Started {},
    Ok(Box<TaskOutcome>),
    Failed(Box<TaskOutcome>),
    Skipped {},
    Unreachable(Box<TaskOutcome>),
    Stats { hosts: BTreeMap<String, HostReport> },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskOutcome {
    host: String,
    task: String,
    at: String,
    changed: bool,
    msg: String,
    stderr: String,
    rc: Option<i64>,
    ignored: bool,
    may_be_rescued: bool,
    installed: BTreeMap<String, Installed>,
}

/// Collects the report of a playbook run from its event lines.
#[derive(Debug)]
pub struct PlaybookReader {
    report: InstallReport,
    /// The last failure of each host. It ended the host's run, unless the final counts show that the host finished.
    last: IndexMap<String, FailedTask>,
    /// Whether the final counts were received.
    pub is_whole: bool,
}

impl PlaybookReader {
    /// Creates a reader for the hosts of a site; `check` is a dry run.
    pub fn new(site: &str, check: bool, hosts: &[String]) -> Self {
        let hosts = hosts
            .iter()
            .map(|h| (h.clone(), HostReport::default()))
            .collect();
        Self {
            report: InstallReport {
                site: site.into(),
                check,
                hosts,
                ..InstallReport::default()
            },
            last: IndexMap::new(),
            is_whole: false,
        }
    }

    /// Parses a line. Returns `None` if the user need not see the event, or if the line was not written by the plugin.
    pub fn line(&mut self, line: &str) -> Option<InstallEvent> {
        let line = serde_json::from_str::<Line>(line).ok()?;
        match line {
            Line::Play {} | Line::Started {} | Line::Skipped {} => None,
            Line::Task { task } => Some(InstallEvent::Task { task }),
            Line::Ok(outcome) => {
                if !outcome.installed.is_empty() {
                    self.report
                        .installed
                        .entry(outcome.host.clone())
                        .or_default()
                        .extend(outcome.installed);
                }
                let result = if outcome.changed {
                    TaskResult::Changed
                } else {
                    TaskResult::Ok
                };
                Some(InstallEvent::Host {
                    host: outcome.host,
                    task: outcome.task,
                    result,
                    detail: String::new(),
                })
            }
            Line::Failed(outcome) if outcome.ignored => None,
            Line::Failed(outcome) => {
                let cut = is_cut(&outcome.msg);
                let caught = outcome.may_be_rescued && !cut;
                Some(self.failed(
                    *outcome,
                    cut,
                    if caught {
                        TaskResult::Caught
                    } else {
                        TaskResult::Failed
                    },
                ))
            }
            Line::Unreachable(outcome) => {
                Some(self.failed(*outcome, true, TaskResult::Unreachable))
            }
            Line::Stats { hosts } => {
                self.is_whole = true;
                for (host, counts) in hosts {
                    self.report.hosts.insert(host, counts);
                }
                Some(InstallEvent::Ended {
                    site: self.report.site.clone(),
                    hosts: self.report.hosts.clone(),
                })
            }
        }
    }

    fn failed(
        &mut self,
        outcome: TaskOutcome,
        unreachable: bool,
        result: TaskResult,
    ) -> InstallEvent {
        let msg = if unreachable {
            why_unreachable(&outcome.msg)
        } else {
            outcome.msg.trim().to_owned()
        };
        let end: Vec<&str> = outcome.stderr.lines().rev().take(MAX_LINES).collect();
        let stderr = end.into_iter().rev().collect::<Vec<_>>().join("\n");
        let at = outcome
            .at
            .rfind("/roles/")
            .map_or(outcome.at.as_str(), |i| &outcome.at[i + 1..])
            .to_owned();
        let result = if unreachable {
            TaskResult::Unreachable
        } else {
            result
        };
        let event = InstallEvent::Host {
            host: outcome.host.clone(),
            task: outcome.task.clone(),
            result,
            detail: msg.clone(),
        };
        self.last.insert(
            outcome.host.clone(),
            FailedTask {
                host: outcome.host,
                task: outcome.task,
                at,
                msg,
                stderr,
                rc: outcome.rc,
                unreachable,
            },
        );
        event
    }

    /// Returns the report, with the failures of the hosts that did not finish.
    pub fn finish(mut self) -> InstallReport {
        for (host, counts) in &mut self.report.hosts {
            if self.is_whole && counts.is_done() {
                continue;
            }
            let nameless = || FailedTask {
                host: host.clone(),
                msg: "it does not say why".into(),
                ..FailedTask::default()
            };
            let counted = self.is_whole.then(nameless);
            if let Some(task) = self.last.shift_remove(host).or(counted) {
                // a lost connection that Ansible counts as a failed task
                if task.unreachable && counts.unreachable == 0 {
                    (counts.unreachable, counts.failed) = (1, 0);
                }
                self.report.failed.push(task);
            }
        }
        self.report
    }
}

/// Returns whether a failure is a connection that was lost while Ansible waited for sudo.
fn is_cut(msg: &str) -> bool {
    msg.contains("waiting for privilege escalation prompt")
        || msg.contains("closed while waiting for privilege escalation")
}

/// Returns the reason without Ansible's prefix. If the connection was lost, Ansible's message about privileges is omitted too.
fn why_unreachable(msg: &str) -> String {
    if is_cut(msg) {
        return "its connection was cut or is silent".into();
    }
    let text = msg.trim();
    let text = text.strip_prefix("Task failed: ").unwrap_or(text);
    let text = text
        .strip_prefix("Failed to connect to the host via ssh: ")
        .unwrap_or(text)
        .trim();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("Warning: Permanently added"))
        .collect();
    if lines.is_empty() {
        "ssh gave no reason".into()
    } else {
        lines.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<InstallEvent>, InstallReport) {
        let mut reader = PlaybookReader::new("s", false, &["n1".into(), "n2".into()]);
        let events = lines.iter().filter_map(|l| reader.line(l)).collect();
        (events, reader.finish())
    }

    #[test]
    fn a_cut_line_under_sudo_is_no_matter_of_privileges() {
        let failed = r#"{"event":"failed","host":"n1","task":"t","msg":"Timeout (12s) waiting for privilege escalation prompt: "}"#;
        let stats = r#"{"event":"stats","hosts":{"n1":{"ok":1,"failures":1},"n2":{"ok":2}}}"#;
        let (events, report) = read(&[failed, stats]);
        let TaskResult::Unreachable = (match &events[0] {
            InstallEvent::Host { result, .. } => *result,
            other => panic!("{other:?}"),
        }) else {
            panic!("{events:?}")
        };
        assert_eq!(
            report.hosts["n1"],
            HostReport {
                ok: 1,
                unreachable: 1,
                ..HostReport::default()
            }
        );
        let text = report.to_string();
        assert!(
            text.contains("n1 cannot be reached")
                && !text.contains("privilege")
                && text.contains("the other hosts are done: n2"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_that_was_caught_does_not_fail_the_host() {
        let failed = r#"{"event":"failed","host":"n1","task":"apt","msg":"No package matching","may_be_rescued":true}"#;
        let stats = r#"{"event":"stats","hosts":{"n1":{"ok":3,"failures":0,"rescued":1}}}"#;
        let (events, report) = read(&[failed, stats]);
        assert!(
            matches!(
                &events[0],
                InstallEvent::Host {
                    result: TaskResult::Caught,
                    ..
                }
            ),
            "{events:?}"
        );
        assert_eq!(report.failed, []);
    }

    #[test]
    fn lines_of_others_are_passed_over_and_a_playbook_that_died_is_not_whole() {
        let mut reader = PlaybookReader::new("s", false, &["n1".into()]);
        assert_eq!(reader.line("[WARNING]: something"), None);
        assert_eq!(reader.line("{\"event\":\"later kind\"}"), None);
        let failed = r#"{"event":"failed","host":"n1","task":"t","at":"/x/ansible/roles/mpi/tasks/main.yml:3","msg":"m","rc":2,"stderr":"a\nb"}"#;
        assert!(reader.line(failed).is_some() && !reader.is_whole);
        let report = reader.finish();
        assert_eq!(report.failed[0].at, "roles/mpi/tasks/main.yml:3");
        assert!(report.to_string().contains("stderr: b"), "{report}");
    }
}
