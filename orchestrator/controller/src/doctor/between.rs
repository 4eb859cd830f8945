//! Checks between nodes: ssh without a password, and whether storage is shared.

use super::{
    check::{CheckState, DoctorCheck},
    facts,
    node::{DoctorNode, SHORT, script},
};
use cvc_core::campaign::Site;
use cvc_core::ids::short_digest;
use cvc_engine::host::Host;
use cvc_sites::ssh::SshHost;
use std::time::Duration;

/// Maximum number of nodes for which every pair of nodes is tested. With more nodes, the head tests its connections to all nodes, and each node only
/// its connection to the next one.
const MAX_PAIRS_OF: usize = 16;
/// Time limit for one node to test its connections to the others.
const LIMIT: Duration = Duration::from_secs(180);
/// Number of checks, 0.25 s apart, within which a node must see a new file. Network file systems may show it late.
const LATE: usize = 20;

const REACH: &str = r#"
for h; do
    said=$(ssh -n -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=2 -o ServerAliveCountMax=2 "$h" true 2>&1) && continue
    printf '%s\t%s\n' "$h" "$(printf '%s\n' "$said" | tail -n 1 | tr -d '\r')"
done"#;

/// Checks whether nodes reach each other by ssh, as MPI's launchers need.
pub(super) async fn ssh(head: &SshHost, nodes: &[DoctorNode]) -> Vec<DoctorCheck> {
    let all: Vec<String> = nodes.iter().map(|n| n.among.clone()).collect();
    let many = nodes.len() > MAX_PAIRS_OF;
    let mut asking = vec![(head.clone(), all.clone())];
    for (i, node) in nodes
        .iter()
        .enumerate()
        .filter(|(_, n)| n.name() != head.name())
    {
        let to = if many {
            vec![all[(i + 1) % all.len()].clone()]
        } else {
            all.clone()
        };
        asking.push((node.host.clone(), to));
    }
    let pairs: usize = asking.iter().map(|(_, to)| to.len()).sum();
    let asked: Vec<_> = asking
        .into_iter()
        .map(|(host, to)| {
            tokio::spawn(async move {
                (
                    host.name().to_owned(),
                    script(&host, REACH, &to, LIMIT).await,
                )
            })
        })
        .collect();
    let (mut checks, mut failed) = (Vec::new(), Vec::new());
    for answer in asked {
        match answer.await {
            Ok((from, Ok(message))) => {
                failed.extend(
                    message
                        .lines()
                        .filter_map(|l| l.split_once('\t'))
                        .map(|(to, why)| format!("{from} to {to}: {why}")),
                );
            }
            Ok((from, Err(error))) => {
                checks.push(DoctorCheck::of(&from, "ssh between nodes", &error))
            }
            Err(panic) => checks.push(DoctorCheck::new(
                "ssh between nodes",
                CheckState::Bad,
                panic.to_string(),
                "",
            )),
        }
    }
    let hint = "on all nodes: the user's key in ~/.ssh/authorized_keys of the others, and their host keys in ~/.ssh/known_hosts or /etc/ssh/ssh_known_hosts (ssh-keyscan); names that do not resolve need `internal` in the campaign file";
    checks.push(if failed.is_empty() {
        DoctorCheck::good(
            "ssh between nodes",
            format!("{pairs} connections, without a password"),
        )
    } else {
        let more = failed.len().saturating_sub(4);
        failed.truncate(4);
        let more = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        DoctorCheck::new(
            "ssh between nodes",
            CheckState::Bad,
            failed.join("; ") + &more,
            hint,
        )
    });
    checks
}

const WRITE: &str = r#"case $1 in '~') p=$HOME ;; '~/'*) p=$HOME/${1#??} ;; *) p=$1 ;; esac
mkdir -p "$p" && printf %s "$3" >"$p/$2""#;
const READ: &str = r#"case $1 in '~') p=$HOME ;; '~/'*) p=$HOME/${1#??} ;; *) p=$1 ;; esac
n=$4
until [ -e "$p/$2" ] || [ "$n" -le 0 ]; do n=$((n - 1)); ls "$p" >/dev/null 2>&1; sleep 0.25; done
cat "$p/$2" 2>/dev/null || :"#;
const REMOVE: &str = r#"case $1 in '~') p=$HOME ;; '~/'*) p=$HOME/${1#??} ;; *) p=$1 ;; esac
rm -f "$p/$2""#;

/// Checks whether storage areas are shared as declared: writes a file on the first node and looks for it on the others.
pub(super) async fn storage(nodes: &[DoctorNode], site: &Site) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let Some((first, others)) = nodes.split_first() else {
        return checks;
    };
    for (name, shared, path) in facts::areas(site).filter(|_| !others.is_empty()) {
        let what = format!("storage {name}");
        let token = short_digest(
            format!(
                "{}{:?}{path}",
                std::process::id(),
                std::time::SystemTime::now()
            )
            .as_bytes(),
        );
        let args = |late: usize| {
            vec![
                path.to_owned(),
                format!(".cvc-doctor-{token}"),
                token.clone(),
                late.to_string(),
            ]
        };
        if let Err(error) = script(&first.host, WRITE, &args(0), SHORT).await {
            checks.push(DoctorCheck::of(first.name(), &what, &error));
            continue;
        }
        let (mut sees, mut blind) = (Vec::new(), Vec::new());
        for node in others {
            match script(
                &node.host,
                READ,
                &args(if shared { LATE } else { 0 }),
                SHORT,
            )
            .await
            {
                Ok(message) if message == token => sees.push(node.name()),
                Ok(_) => blind.push(node.name()),
                Err(error) => checks.push(DoctorCheck::of(node.name(), &what, &error)),
            }
        }
        // if removing fails, a few bytes are left, with a name that shows their origin
        let _ = script(&first.host, REMOVE, &args(0), SHORT).await;
        checks.push(match (shared, sees.is_empty(), blind.is_empty()) {
            (true, _, true) => DoctorCheck::good(what, format!("{path} is shared by all nodes")),
            (true, _, false) => {
                let found = format!(
                    "{path} is declared as shared, but {} do not see what {} writes",
                    blind.join(", "),
                    first.name()
                );
                DoctorCheck::new(
                    what,
                    CheckState::Bad,
                    found,
                    "mount it on all nodes, or set `kind = \"node-local\"`",
                )
            }
            (false, true, _) => DoctorCheck::good(what, format!("{path} is local to each node")),
            (false, false, _) => {
                let found = format!(
                    "{path} is declared as node-local, but {} see what {} writes",
                    sees.join(", "),
                    first.name()
                );
                DoctorCheck::new(
                    what,
                    CheckState::Bad,
                    found,
                    "set `kind = \"shared\"`, or give a path on a local disk",
                )
            }
        });
    }
    checks
}
