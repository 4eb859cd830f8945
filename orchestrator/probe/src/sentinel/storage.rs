//! Parallel file systems: the counters that they keep of their clients, and their servers that are in service.

use super::{error::SentinelError, mounts};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The counters of a mounted file system, in the file system's own format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterText {
    /// Type of the file system.
    pub file_system: String,
    /// The counters; `None` if the file system has none.
    pub text: Option<String>,
}

/// How a node finds the servers of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum ServersOf {
    /// The servers that are connected to this port of the node. With MooseFS the node is the metadata server, and the chunk servers are connected to
    /// it.
    Port {
        /// The port.
        port: u16,
    },
    /// The servers of a GlusterFS volume.
    Volume {
        /// Name of the volume.
        name: String,
    },
}

/// The servers that are in service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServersFound {
    /// Reason why the servers are unknown, such as a queried server that does not run; `None` if they are known.
    pub silent: Option<String>,
    /// Addresses of the data servers.
    pub addresses: BTreeSet<String>,
}

/// Source of a file system's counters: a file or the output of a program.
#[derive(Debug, PartialEq)]
enum CounterPlace {
    File(PathBuf),
    Program(Vec<String>),
}

/// Returns the source of a mounted file system's counters; `None` if it has none.
fn counter_place(place: &mounts::MountPlace) -> Option<CounterPlace> {
    let program =
        |words: &[&str]| CounterPlace::Program(words.iter().map(|w| (*w).to_owned()).collect());
    match place.file_system.as_str() {
        "nfs" | "nfs4" => Some(CounterPlace::File("/proc/self/mountstats".into())),
        "lustre" => Some(program(&[
            "lctl",
            "get_param",
            "llite.*.stats",
            "mdc.*.md_stats",
        ])),
        "fuse.glusterfs" => {
            let (_, volume) = place.source.split_once(":/")?;
            let volume = volume.split('/').next()?;
            Some(program(&[
                "gluster",
                "volume",
                "profile",
                volume,
                "info",
                "cumulative",
            ]))
        }
        fuse if fuse.starts_with("fuse") && place.source.starts_with("mfs#") => {
            Some(CounterPlace::File(place.mount_point.join(".stats")))
        }
        _ => None,
    }
}

/// Reads the counters of the file system of a path.
pub(super) fn counters(path: &Path) -> Result<CounterText, SentinelError> {
    let place = mounts::place(path)?;
    let text = match counter_place(&place) {
        None => None,
        Some(CounterPlace::File(file)) => {
            let read = fs::read_to_string(&file);
            Some(read.map_err(|error| SentinelError::Read { path: file, error })?)
        }
        Some(CounterPlace::Program(words)) => Some(said_by(&words)?),
    };
    Ok(CounterText {
        file_system: place.file_system,
        text,
    })
}

/// Runs a program that needs root, with sudo if this user is not root. Returns its output.
fn said_by(words: &[String]) -> Result<String, SentinelError> {
    let mut command = if nix::unistd::geteuid().is_root() {
        Command::new(&words[0])
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", &words[0]]);
        sudo
    };
    command
        .args(&words[1..])
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    let failed = |message: String| SentinelError::Program {
        command: words.join(" "),
        message,
    };
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let text = [&output.stderr[..], &output.stdout[..]].concat();
        return Err(failed(String::from_utf8_lossy(&text).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds the servers that are in service.
pub(super) fn servers(of: &ServersOf) -> ServersFound {
    match of {
        ServersOf::Port { port } => {
            let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
            connected(&table, *port)
        }
        ServersOf::Volume { name } => {
            let words = ["gluster", "volume", "status", name, "--xml"].map(str::to_owned);
            match said_by(&words) {
                Ok(text) => ServersFound {
                    silent: None,
                    addresses: online(&text),
                },
                Err(error) => ServersFound {
                    silent: Some(error.to_string()),
                    ..ServersFound::default()
                },
            }
        }
    }
}

/// States in `/proc/net/tcp`: of an established connection, and of a listening port.
const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";

/// Returns the remote addresses of connections to a port of this node, from a table in the format of `/proc/net/tcp`.
fn connected(table: &str, port: u16) -> ServersFound {
    let mut found = ServersFound::default();
    let mut is_listening = false;
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, here, there, state, ..] = fields[..] else {
            continue;
        };
        if here
            .rsplit_once(':')
            .and_then(|(_, of)| u16::from_str_radix(of, 16).ok())
            != Some(port)
        {
            continue;
        }
        is_listening |= state == LISTENING;
        if state == ESTABLISHED
            && let Some(address) = there.split(':').next().and_then(address)
        {
            found.addresses.insert(address.to_string());
        }
    }
    if !is_listening {
        found.silent = Some(format!("nothing listens on port {port}"));
    }
    found
}

/// Parses an address as the kernel writes it, in the machine's byte order.
fn address(hex: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(hex, 16)
        .ok()
        .filter(|_| hex.len() == 8)?;
    Some(Ipv4Addr::from(number.to_ne_bytes()))
}

/// Returns the hosts of the bricks that are online, from the output of `gluster volume status --xml`.
fn online(xml: &str) -> BTreeSet<String> {
    let element = |node: &str, tag: &str| {
        let (_, rest) = node.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once("</")?.0.trim().to_owned())
    };
    xml.split("<node>")
        .skip(1)
        // nodes of daemons (self-heal, quota) have a word instead of a path: they are not bricks
        .filter(|node| element(node, "path").is_some_and(|path| path.starts_with('/')))
        .filter(|node| element(node, "status").as_deref() == Some("1"))
        .filter_map(|node| element(node, "hostname"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file_system: &str, source: &str) -> mounts::MountPlace {
        mounts::MountPlace {
            path: "/mnt/x/run".into(),
            existing: "/mnt/x".into(),
            file_system: file_system.into(),
            source: source.into(),
            mount_point: "/mnt/x".into(),
            device: 1,
            inode: 1,
        }
    }

    #[test]
    fn counters_are_where_each_file_system_has_them() {
        let file = |path: &str| Some(CounterPlace::File(path.into()));
        assert_eq!(
            counter_place(&place("fuse", "mfs#10.0.0.1:9421")),
            file("/mnt/x/.stats")
        );
        assert_eq!(
            counter_place(&place("nfs4", "n1:/export")),
            file("/proc/self/mountstats")
        );
        let words = "gluster volume profile cvc-x info cumulative";
        let words = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            counter_place(&place("fuse.glusterfs", "10.0.0.1:/cvc-x/below")),
            Some(CounterPlace::Program(words))
        );
        for (kind, source) in [
            ("ext4", "/dev/sda1"),
            ("fuse.sshfs", "n1:/export"),
            ("fuse.glusterfs", "odd"),
        ] {
            assert_eq!(counter_place(&place(kind, source)), None, "{kind}");
        }
    }

    #[test]
    fn chunk_servers_are_the_other_ends_of_connections_to_the_port() {
        let hex = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (here, n2, n3) = (
            hex([10, 77, 0, 11]),
            hex([10, 77, 0, 12]),
            hex([10, 77, 0, 13]),
        );
        let table = format!(
            "  sl  local_address rem_address   st tx_queue\n\
             0: 00000000:24CC 00000000:0000 0A 0\n\
             1: {here}:24CC {n2}:A000 01 0\n\
             2: {here}:24CC {n2}:A001 01 0\n\
             3: {here}:24CD {n3}:A002 01 0\n\
             4: {here}:24CC {n3}:A003 06 0\n\
             5: {here}\n"
        );
        let found = connected(&table, 9420);
        assert_eq!(found.silent, None);
        assert_eq!(found.addresses, BTreeSet::from(["10.77.0.12".to_owned()]));
        let silent = connected(&table, 9422);
        assert!(silent.silent.is_some() && silent.addresses.is_empty());
    }

    #[test]
    fn bricks_that_are_online_are_distinguished_from_others_and_from_daemons() {
        let node = |host: &str, path: &str, status: u8| {
            format!(
                "<node><hostname>{host}</hostname><path>{path}</path><peerid>x</peerid><status>{status}</status></node>"
            )
        };
        let text = [
            node("10.77.0.11", "/a/brick", 1),
            node("10.77.0.12", "/a/brick", 0),
            node("Self-heal Daemon", "localhost", 1),
        ]
        .concat();
        assert_eq!(online(&text), BTreeSet::from(["10.77.0.11".to_owned()]));
        assert!(online("<node><hostname>cut").is_empty());
    }
}
