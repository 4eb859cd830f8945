//! A machine, its ssh settings, and the jump hosts before it.

use super::pins;
use camino::Utf8PathBuf;
use cvc_core::hosts::{HostEntry, SshSettings};

/// A machine and its ssh settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// Name of the machine in the site.
    pub name: String,
    /// The machine's entry in the campaign file or inventory.
    pub entry: HostEntry,
    /// The site's ssh settings, with resolved paths.
    pub ssh: SshSettings,
    /// File with the pinned host keys of the site: [`super::pinned_file`].
    pub pinned: Utf8PathBuf,
}

impl SshTarget {
    /// Creates the target for a host of a site.
    pub fn new(site: &str, entry: &HostEntry, ssh: &SshSettings) -> Self {
        let pinned = ssh
            .pinned
            .as_ref()
            .map_or_else(|| pins::file_of(site), Utf8PathBuf::from);
        Self {
            name: entry.name.clone(),
            entry: entry.clone(),
            ssh: ssh.clone(),
            pinned,
        }
    }

    /// Returns the destination argument for ssh.
    pub(super) fn destination(&self) -> &str {
        self.entry.address.as_deref().unwrap_or(&self.entry.name)
    }

    /// Returns user, port, key and the inventory's options as arguments for ssh.
    pub(super) fn place(&self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(user) = &self.entry.user {
            args.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = self.entry.port {
            args.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(file) = &self.entry.identity_file {
            args.extend([
                "-i".to_owned(),
                cvc_core::paths::expand(file).to_string(),
                "-o".to_owned(),
                "IdentitiesOnly=yes".to_owned(),
            ]);
        }
        for option in &self.entry.ssh_options {
            args.extend(["-o".to_owned(), option.clone()]);
        }
        args
    }
}

/// A machine through which a connection passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The machine as written on the command line or in `ProxyJump`.
    pub written: String,
    /// Name of the machine in known-hosts files.
    pub name: String,
    /// Name or address to which ssh connects.
    pub hostname: String,
    /// User name on the machine.
    pub user: String,
    /// File of pinned keys, if it contains the machine's key.
    pub pinned: Option<Utf8PathBuf>,
    /// The user's known-hosts files that may contain the machine's key.
    pub vouching: Vec<Utf8PathBuf>,
    /// Whether the user's configuration names a command that prints known keys.
    pub has_command: bool,
}
