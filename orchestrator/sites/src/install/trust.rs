//! Removes the ssh keys with which a site's nodes log in to each other, which the role `base` has added.

use super::host_lock::targets;
use crate::ssh::SshHost;
use camino::Utf8Path;
use cvc_core::campaign::Site;
use cvc_engine::host::{Host, HostError};
use std::{collections::BTreeMap, time::Duration};
use tracing::Instrument;

/// Time limit for one host.
const LIMIT: Duration = Duration::from_secs(60);
/// Removes the block that the role wrote, and prints whether it did. A block without its end line is kept, because the lines after it may be the
/// user's.
const SCRIPT: &str = "f=$HOME/.ssh/authorized_keys; grep -qx '# BEGIN cvc' \"$f\" 2>/dev/null && grep -qx '# END cvc' \"$f\" || exit 0; \
    t=$(mktemp \"$f.XXXXXX\") && sed '/^# BEGIN cvc$/,/^# END cvc$/d' \"$f\" >\"$t\" && mv \"$t\" \"$f\" && echo removed";

/// Removes the keys on the hosts of a site. Returns the hosts that had such keys. Relative paths of ssh's files refer to `base`.
///
/// # Errors
/// A host cannot be reached, or its file cannot be written. The other hosts are processed nevertheless.
pub async fn remove_trust(
    name: &str,
    site: &Site,
    base: &Utf8Path,
) -> Result<Vec<String>, HostError> {
    let asked: Vec<_> = targets(name, site, base)
        .map(|target| tokio::spawn(remove_on(SshHost::new(target)).in_current_span()))
        .collect();
    let (mut had, mut failed) = (Vec::new(), None);
    for answer in asked {
        match answer.await {
            Ok(Ok(Some(host))) => had.push(host),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => failed = failed.or(Some(error)),
            Err(panic) => {
                failed = failed.or_else(|| {
                    Some(HostError::Ssh {
                        host: name.to_owned(),
                        message: format!("internal error (please report): {panic}"),
                    })
                });
            }
        }
    }
    failed.map_or(Ok(had), Err)
}

/// Removes the keys on a host. Returns the host's name if it had such keys.
async fn remove_on(host: SshHost) -> Result<Option<String>, HostError> {
    let argv = ["sh", "-c", SCRIPT].map(str::to_owned);
    let output = host.ask(&argv, &BTreeMap::new(), LIMIT).await;
    host.disconnect().await;
    let output = output?;
    if output.code != Some(0) {
        let message = format!(
            "cannot remove keys from ~/.ssh/authorized_keys: {}",
            output.stderr.trim()
        );
        return Err(HostError::Ssh {
            host: host.name().to_owned(),
            message,
        });
    }
    Ok((output.stdout.trim() == "removed").then(|| host.name().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script on a file of keys with this text. Returns the resulting text, and the script's output.
    fn removed(text: &str) -> (String, String) {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join(".ssh/authorized_keys");
        std::fs::create_dir(home.path().join(".ssh"))
            .and_then(|()| std::fs::write(&file, text))
            .expect("writes");
        let output = std::process::Command::new("sh")
            .args(["-c", SCRIPT])
            .env("HOME", home.path())
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            std::fs::read_dir(home.path().join(".ssh"))
                .expect("a directory")
                .count(),
            1,
            "nothing is left beside it"
        );
        (
            std::fs::read_to_string(&file).expect("reads"),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    #[test]
    fn only_the_keys_that_cvc_has_let_in_are_removed() {
        let own = "ssh-ed25519 AAAA1 ada@laptop\n";
        let cvc = "# BEGIN cvc\nfrom=\"10.0.0.1\" ssh-ed25519 AAAA2 cvc n1\n# END cvc\n";
        let last = "ssh-rsa AAAA3 # END cvc\n";
        assert_eq!(
            removed(&format!("{own}{cvc}{last}")),
            (format!("{own}{last}"), "removed\n".into())
        );
        assert_eq!(removed(own), (own.into(), String::new()));
        let torn = format!("# BEGIN cvc\n{own}");
        assert_eq!(
            removed(&torn),
            (torn.clone(), String::new()),
            "its end is not known"
        );
    }
}
