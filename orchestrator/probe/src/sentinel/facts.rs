//! Facts of this node: kernel, processors, memory, file systems, network.

use super::mounts::{self, MountPlace};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Facts of a node. Unknown facts are missing, never guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Host name of the node.
    pub host: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Name and version of the distribution.
    pub os: Option<String>,
    /// Processors.
    pub cpu: CpuFacts,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Version of the node's C library.
    pub glibc: Option<String>,
    /// Identifier that changes with every start of the kernel. Containers on one machine share it.
    pub boot_id: Option<String>,
    /// File systems of the requested paths.
    pub places: Vec<MountPlace>,
    /// Requested paths whose file system could not be determined, with the reason.
    pub unknown_places: Vec<(PathBuf, String)>,
    /// Network interfaces except the loopback, sorted by name.
    pub interfaces: Vec<Interface>,
}

/// Facts of a node's processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFacts {
    /// Model name of the processor.
    pub model: Option<String>,
    /// Machine architecture, such as `x86_64`.
    pub architecture: String,
    /// Number of hardware threads that this process may use.
    pub usable: u32,
    /// Number of hardware threads that the kernel lists.
    pub threads: u32,
    /// Number of physical cores; `None` if the kernel does not show which threads share a core.
    pub cores: Option<u32>,
    /// Number of sockets.
    pub sockets: Option<u32>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// State of the interface: `up`, `down`, `unknown`, …
    pub state: String,
    /// Speed, megabits per second, if the driver reports it.
    pub speed_mbit: Option<u64>,
    /// Maximum packet size (MTU), bytes.
    pub mtu: Option<u64>,
    /// IPv4 and IPv6 addresses.
    pub addresses: Vec<String>,
}

/// Returns the trimmed content of a file; `None` if the file cannot be read.
pub(super) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|t| t.trim().to_owned())
        .filter(|t| !t.is_empty())
}

/// Returns the value of the first line that starts with a key.
pub(super) fn value<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

/// Collects the facts of this node.
pub(super) fn facts(paths: &[PathBuf]) -> NodeFacts {
    let mut places = Vec::new();
    let mut unknown_places = Vec::new();
    for path in paths {
        match mounts::place(path) {
            Ok(place) => places.push(place),
            Err(why) => unknown_places.push((path.clone(), why.to_string())),
        }
    }
    NodeFacts {
        host: host(),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        os: read("/etc/os-release").and_then(|t| value(&t, "PRETTY_NAME", '=').map(str::to_owned)),
        cpu: cpu(&read("/proc/cpuinfo").unwrap_or_default()),
        memory_bytes: memory_bytes_here(),
        glibc: glibc(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        places,
        unknown_places,
        interfaces: interfaces(),
    }
}

/// Returns the host name of the node.
pub(super) fn host() -> String {
    cvc_os::host_name().unwrap_or_default()
}

/// Returns the size of this machine's memory.
#[must_use]
pub fn memory_bytes_here() -> Option<u64> {
    let meminfo = read("/proc/meminfo")?;
    let size = value(&meminfo, "MemTotal", ':')?.trim_end_matches("kB");
    size.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the facts of this machine's processors.
#[must_use]
pub fn cpu_here() -> CpuFacts {
    cpu(&read("/proc/cpuinfo").unwrap_or_default())
}

/// Parses `/proc/cpuinfo`.
fn cpu(cpuinfo: &str) -> CpuFacts {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut sockets = std::collections::BTreeSet::new();
    let mut cores = std::collections::BTreeSet::new();
    let mut threads = 0;
    for block in cpuinfo.split("\n\n") {
        if value(block, "processor", ':').is_none() {
            continue;
        }
        threads += 1;
        if let Some(socket) = value(block, "physical id", ':') {
            sockets.insert(socket.to_owned());
            if let Some(core) = value(block, "core id", ':') {
                cores.insert((socket.to_owned(), core.to_owned()));
            }
        }
    }
    let some = |n: usize| (n > 0).then(|| count(n));
    CpuFacts {
        model: value(cpuinfo, "model name", ':')
            .or_else(|| value(cpuinfo, "Model", ':'))
            .map(str::to_owned),
        architecture: std::env::consts::ARCH.to_owned(),
        usable: std::thread::available_parallelism().map_or(1, |n| count(n.get())),
        threads,
        cores: some(cores.len()),
        sockets: some(sockets.len()),
    }
}

/// Returns the version of the C library that this node's programs use. This program itself is linked statically.
fn glibc() -> Option<String> {
    let message = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&message.stdout);
    text.trim().strip_prefix("glibc ").map(str::to_owned)
}

fn interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else {
        return found;
    };
    for one in addresses {
        if one
            .flags
            .contains(nix::net::if_::InterfaceFlags::IFF_LOOPBACK)
        {
            continue;
        }
        let at = found
            .iter()
            .position(|i| i.name == one.interface_name)
            .unwrap_or_else(|| {
                found.push(interface(&one.interface_name, one.flags));
                found.len() - 1
            });
        let Some(address) = one.address else { continue };
        let text = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => v4.ip().to_string(),
            (None, Some(v6)) => v6.ip().to_string(),
            (None, None) => continue,
        };
        found[at].addresses.push(text);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn interface(name: &str, flags: nix::net::if_::InterfaceFlags) -> Interface {
    let file = |file: &str| {
        read(
            &Path::new("/sys/class/net")
                .join(name)
                .join(file)
                .to_string_lossy(),
        )
    };
    let up = flags.contains(nix::net::if_::InterfaceFlags::IFF_RUNNING);
    Interface {
        name: name.to_owned(),
        // /sys may be missing, or belong to another network namespace
        state: file("operstate").unwrap_or_else(|| if up { "up" } else { "down" }.to_owned()),
        // the kernel shows -1 for an unknown speed
        speed_mbit: file("speed").and_then(|s| s.parse().ok()),
        mtu: file("mtu").and_then(|s| s.parse().ok()),
        addresses: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_sockets_are_counted_from_what_the_kernel_lists() {
        let block = |cpu: u32, socket: u32, core: u32| {
            format!(
                "processor\t: {cpu}\nmodel name\t: Some CPU @ 2.40GHz\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n"
            )
        };
        let text: String = [
            block(0, 0, 0),
            block(1, 0, 1),
            block(2, 1, 0),
            block(3, 1, 1),
            block(4, 0, 0),
        ]
        .concat();
        let seen = cpu(&text);
        assert_eq!(
            (seen.threads, seen.cores, seen.sockets),
            (5, Some(4), Some(2))
        );
        assert_eq!(seen.model.as_deref(), Some("Some CPU @ 2.40GHz"));
        let arm = cpu("processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nBogoMIPS\t: 50.00\n\n");
        assert_eq!(
            (arm.threads, arm.cores, arm.sockets, arm.model),
            (2, None, None, None)
        );
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = facts(&[
            PathBuf::from("/proc/nothing/here"),
            PathBuf::from("relative"),
        ]);
        assert!(!facts.host.is_empty() && !facts.kernel.is_empty());
        assert!(facts.memory_bytes.is_some_and(|m| m > 1 << 20));
        assert!(facts.cpu.threads >= 1 && facts.cpu.usable >= 1);
        assert_eq!(
            facts
                .places
                .iter()
                .map(|p| p.file_system.as_str())
                .collect::<Vec<_>>(),
            ["proc"]
        );
        assert_eq!(facts.unknown_places.len(), 1);
        let text = serde_json::to_string(&facts).expect("JSON");
        assert_eq!(
            serde_json::from_str::<NodeFacts>(&text).expect("the same"),
            facts
        );
    }
}
