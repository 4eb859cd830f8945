//! A directory on this machine with files about a fleet: the private key, pinned host keys, and a configuration for ssh.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::hosts::{HostKeys, SshSettings};
use cvc_core::ids::below;
use cvc_core::store::{StoreError, write_whole};
use cvc_engine::host::{output_within, tool};
use cvc_sites::error::CampaignError;
use std::{fs, io::ErrorKind, os::unix::fs::DirBuilderExt, process::Stdio, time::Duration};

/// Time limit of ssh-keygen.
const LIMIT: Duration = Duration::from_secs(60);

/// The directory for one site's keys, in the directory of a campaign.
#[derive(Clone, Debug)]
pub(super) struct KeyPlace {
    dir: Utf8PathBuf,
}

impl KeyPlace {
    pub fn new(campaign: &Utf8Path, site: &str) -> Self {
        Self {
            dir: below(&Self::all(campaign), site),
        }
    }

    /// Returns the directory that contains the key directories of all sites of a campaign.
    pub fn all(campaign: &Utf8Path) -> Utf8PathBuf {
        campaign.join("cloud")
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// Returns the path of the private key.
    pub fn key(&self) -> Utf8PathBuf {
        self.dir.join("id_ed25519")
    }

    fn config(&self) -> Utf8PathBuf {
        self.dir.join("ssh_config")
    }

    fn known_hosts(&self) -> Utf8PathBuf {
        self.dir.join("known_hosts")
    }

    /// Returns the path of the file in which cvc records which instances are set up.
    pub fn set_up(&self) -> Utf8PathBuf {
        self.dir.join("set-up.json")
    }

    /// Creates the directory and a key pair, unless they exist. Returns the public key.
    pub async fn make(&self, comment: &str) -> Result<String, CampaignError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(StoreError::io("make", &self.dir))?;
        let (key, public) = (self.key(), self.key().with_extension("pub"));
        // the public key is written last: without it the pair is incomplete
        if !public.exists() {
            let _ = fs::remove_file(&key);
            let mut command = tool("ssh-keygen");
            command.args([
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                comment,
                "-f",
                key.as_str(),
            ]);
            command.stdin(Stdio::null());
            let site = self.dir.file_name().unwrap_or_default();
            let failed = |why: String| CampaignError::Site {
                site: site.to_owned(),
                problem: format!("cannot make a key with ssh-keygen: {why}"),
            };
            let made = output_within(&mut command, LIMIT).await;
            let made = made
                .map_err(|_| failed("it did not end in time".into()))?
                .map_err(|e| match e.kind() {
                    ErrorKind::NotFound => failed(format!(
                        "{e}; install OpenSSH's client (Debian: openssh-client)"
                    )),
                    _ => failed(e.to_string()),
                })?;
            if !made.status.success() {
                return Err(failed(
                    String::from_utf8_lossy(&made.stderr).trim().to_owned(),
                ));
            }
        }
        // Writes the configuration of ssh. Other rules of the user's configuration stay effective, for example jump hosts, but not the user's known
        // hosts, because clouds reuse addresses.
        let user = cvc_core::paths::expand("~/.ssh/config");
        let text = format!(
            "# written by cvc for its own connections\nIdentityFile \"{key}\"\nIdentitiesOnly yes\nUserKnownHostsFile none\n\
             GlobalKnownHostsFile none\nInclude \"{user}\"\n"
        );
        write_whole(&self.config(), text.as_bytes())?;
        let line = fs::read_to_string(&public).map_err(StoreError::io("read", &public))?;
        Ok(line.trim().to_owned())
    }

    /// Returns the ssh settings for the instances: only this key is used, and a host key is accepted at the first contact and then pinned.
    pub fn ssh(&self) -> SshSettings {
        SshSettings {
            config: Some(self.config().into_string()),
            known_hosts: None,
            host_keys: HostKeys::AcceptNew,
            pinned: Some(self.known_hosts().into_string()),
        }
    }

    /// Removes the pinned host key of an address whose instance has ended: the next instance with this address has another key.
    pub fn forget_host(&self, address: &str) -> Result<(), StoreError> {
        let file = self.known_hosts();
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(());
        };
        let of_it = |line: &&str| {
            line.split(' ')
                .next()
                .is_some_and(|names| names.split(',').any(|name| name == address))
        };
        let kept: Vec<&str> = text.lines().filter(|l| !of_it(l)).collect();
        write_whole(&file, (kept.join("\n") + "\n").as_bytes())
    }

    /// Removes the directory once no instance with this key is left.
    pub fn remove(&self) -> Result<(), StoreError> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir).map_err(StoreError::io("remove", &self.dir))?;
        }
        if let Some(parent) = self.dir.parent() {
            // fails if other sites use the parent directory
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}
