//! Checks the machine on which an agent works while the controller is away: whether its name resolves to a single machine, and whether programs
//! survive a log-out.

use super::{
    check::{CheckState, DoctorCheck},
    node::{SHORT, script},
};
use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::SshHost;

/// Number of connections after the first one. A name that resolves to several machines rarely leads to the same machine three times.
const MORE: usize = 2;

/// Shell script that prints lines `KEY<TAB>VALUE`.
const SCRIPT: &str = r#"
say() { printf '%s\t%s\n' "$1" "$2"; }
say host "$(uname -n)"
say boot "$(cat /proc/sys/kernel/random/boot_id)"
manager='org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager'
say kills "$(busctl get-property $manager KillUserProcesses 2>/dev/null)"
say linger "$(loginctl show-user "$(id -un)" --property=Linger 2>/dev/null)"
"#;

/// A machine's answer about itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    host: String,
    boot: String,
    /// Whether the machine ends a user's processes when the user's last session ends.
    kills: bool,
    /// Whether the processes of this user are kept nevertheless (lingering).
    lingers: bool,
}

/// Checks the head, over several connections.
pub(super) async fn examine(head: &SshHost) -> Vec<DoctorCheck> {
    let first = match ask(head).await {
        Ok(answer) => answer,
        Err(error) => return vec![DoctorCheck::of(head.name(), "head", &error)],
    };
    let mut all = vec![first];
    for _ in 0..MORE {
        let again = SshHost::new(head.target().clone());
        // a failure of a further login is reported by other checks
        all.extend(ask(&again).await.ok());
        again.disconnect().await;
    }
    judge(head.name(), &all)
}

async fn ask(host: &SshHost) -> Result<Answer, HostError> {
    Ok(read(&script(host, SCRIPT, &[], SHORT).await?))
}

fn read(text: &str) -> Answer {
    let value = |key: &str| {
        text.lines()
            .filter_map(|l| l.split_once('\t'))
            .find(|(k, _)| *k == key)
            .map_or("", |(_, v)| v.trim())
    };
    Answer {
        host: value("host").to_owned(),
        boot: value("boot").to_owned(),
        kills: value("kills") == "b true",
        lingers: value("linger") == "Linger=yes",
    }
}

fn judge(name: &str, answers: &[Answer]) -> Vec<DoctorCheck> {
    let Some(first) = answers.first() else {
        return Vec::new();
    };
    let on = |check: DoctorCheck| DoctorCheck {
        host: Some(name.to_owned()),
        ..check
    };
    let mut checks = Vec::new();
    if answers.iter().any(|answer| answer.boot != first.boot) {
        let mut hosts: Vec<&str> = answers.iter().map(|a| a.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let found = format!(
            "the name resolves to several machines ({}), and an agent works on one of them",
            hosts.join(", ")
        );
        checks.push(on(DoctorCheck::new(
            "head",
            CheckState::Bad,
            found,
            format!(
                "write the name of one of them, such as `head = \"{}\"`",
                first.host
            ),
        )));
    } else {
        checks.push(on(DoctorCheck::good(
            "head",
            format!("the name resolves to {} each time", first.host),
        )));
    }
    if first.kills && !first.lingers {
        let found = "this machine ends a user's programs at log-out (KillUserProcesses=yes): runs end with the connection";
        let hint = "keep yours alive: run `loginctl enable-linger` there once (at some sites only the administrator can)";
        checks.push(on(DoctorCheck::new(
            "log-out",
            CheckState::Doubtful,
            found,
            hint,
        )));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(answers: &[Answer]) -> Vec<(String, CheckState)> {
        judge("login", answers)
            .into_iter()
            .map(|check| (check.what, check.state))
            .collect()
    }

    #[test]
    fn a_name_that_leads_to_several_machines_is_found() {
        let of = |host: &str, boot: &str| Answer {
            host: host.into(),
            boot: boot.into(),
            ..Answer::default()
        };
        assert_eq!(
            states(&[of("l1", "a"), of("l1", "a")]),
            [("head".to_owned(), CheckState::Good)]
        );
        // also if both machines have the same host name
        assert_eq!(
            states(&[of("l1", "a"), of("l1", "b")]),
            [("head".to_owned(), CheckState::Bad)]
        );
        let checks = judge("login", &[of("l2", "a"), of("l1", "b"), of("l2", "a")]);
        assert!(
            checks[0].found.contains("(l1, l2)") && checks[0].hint.contains("head = \"l2\""),
            "{checks:?}"
        );
    }

    #[test]
    fn a_machine_that_ends_programs_at_log_out_is_found_unless_the_user_lingers() {
        let text = |linger: &str| format!("host\tl1\nboot\tabc\nkills\tb true\nlinger\t{linger}\n");
        let expected = Answer {
            host: "l1".into(),
            boot: "abc".into(),
            kills: true,
            lingers: false,
        };
        assert_eq!(read(&text("Linger=no")), expected);
        assert_eq!(
            states(&[expected]),
            [
                ("head".to_owned(), CheckState::Good),
                ("log-out".to_owned(), CheckState::Doubtful)
            ]
        );
        assert_eq!(states(&[read(&text("Linger=yes"))]).len(), 1);
        // a machine without systemd
        assert_eq!(
            states(&[read("host\tl1\nboot\tabc\nkills\t\nlinger\t\n")]).len(),
            1
        );
    }
}
