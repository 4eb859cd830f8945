//! The root file system of a node.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use nix::fcntl::{Flock, FlockArg};

use super::{cache, command::run_checked, requirements};
use crate::program::absent;

/// The root file system of a node when it starts; changes are kept in memory and vanish with the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The root file system of this machine: nodes have the programs that are installed here, at the same paths. Needs no build.
    Host,
    /// A minimal system of the machine's distribution with python3, sshd and sudo, for tests that install packages. Its apt knows one closed
    /// repository: mpich, openmpi-bin, their development packages, gcc, g++, make and, if the set-up has installed it, mpich5 (in
    /// `/opt/mpich5`). Built on first use by mmdebstrap, from the sources of the machine's own apt, in one to three minutes, and kept in
    /// [`super::cache`].
    Base,
}

impl Image {
    /// Returns the lower layers of the node's overlay.
    pub(super) fn root(self) -> String {
        match self {
            Self::Host => "/".into(),
            Self::Base => base().join("root").display().to_string(),
        }
    }

    /// Returns the directory of the closed apt repository, if the image has one.
    pub(super) fn packages(self) -> Option<String> {
        match self {
            Self::Host => None,
            Self::Base => Some(base().join("apt").display().to_string()),
        }
    }

    /// Lists directories of the machine that an overlay of `/` does not show: other disks, and tools below directories that nodes replace.
    pub(super) fn bound(self) -> Vec<String> {
        match self {
            Self::Host => {
                let mut folders =
                    disks(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
                folders.extend(
                    tools()
                        .into_iter()
                        .filter(|p| is_hidden(p))
                        .map(|p| p.display().to_string()),
                );
                folders
            }
            Self::Base => Vec::new(),
        }
    }

    /// Lists directories that nodes open to all users, so that `ada` reaches a tool in root's home.
    pub(super) fn open(self) -> Vec<String> {
        match self {
            Self::Host => {
                let above: BTreeSet<PathBuf> = tools()
                    .iter()
                    .flat_map(|p| p.ancestors())
                    .map(Path::to_owned)
                    .collect();
                let is_closed =
                    |p: &PathBuf| fs::metadata(p).is_ok_and(|m| m.permissions().mode() & 0o1 == 0);
                above
                    .into_iter()
                    .filter(is_closed)
                    .map(|p| p.display().to_string())
                    .collect()
            }
            Self::Base => Vec::new(),
        }
    }
}

/// Returns the directory of the base image; the first caller on this machine builds the image, once for each recipe.
fn base() -> PathBuf {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let cache = cache::cache();
        fs::create_dir_all(&cache).unwrap_or_else(|e| panic!("{}: {e}", cache.display()));
        let lock = File::create(cache.join("base.lock"))
            .unwrap_or_else(|e| panic!("{}: {e}", cache.display()));
        let _lock = Flock::lock(lock, FlockArg::LockExclusive)
            .unwrap_or_else(|(_, e)| panic!("the lock of {}: {e}", cache.display()));
        let mpich5 = Some(cache.join("mpich5")).filter(|p| p.is_dir());
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let recipe = format!("{}{system}{mpich5:?}", include_str!("image.sh"));
        let image = cache.join(format!("base-{:016x}", digest(recipe.as_bytes())));
        if !image.is_dir() {
            build(&cache, &image, mpich5.as_deref());
        }
        image
    })
    .clone()
}

/// Builds the image under a temporary name and renames it at the end, so that an image with the final name is always complete.
fn build(cache: &Path, image: &Path, mpich5: Option<&Path>) {
    let partial = cache.join("base.new");
    // left by a killed test
    let _ = fs::remove_dir_all(&partial);
    let script = tempfile::Builder::new()
        .suffix(".sh")
        .tempfile()
        .expect("a file");
    fs::write(script.path(), include_str!("image.sh")).expect("the recipe");
    let mut command = Command::new("bash");
    command
        .arg(script.path())
        .arg(&partial)
        .arg(mpich5.unwrap_or(Path::new("")));
    let _ = std::io::stderr()
        .write_all(b"building the base image of labs, once: one to three minutes\n");
    run_checked(
        "building the base image",
        command,
        Duration::from_secs(1200),
    );
    fs::rename(&partial, image).unwrap_or_else(|e| panic!("{}: {e}", image.display()));
}

/// Returns the FNV-1a hash, which suffices to distinguish recipes.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns a description of what this machine lacks to build the base image, if anything.
pub(crate) fn missing() -> Option<String> {
    requirements::missing()
        .or_else(|| absent(&["mmdebstrap", "apt-ftparchive", "apt-get", "dpkg-deb"]))
}

/// Lists the directories of tools that the environment names or the set-up installs.
fn tools() -> Vec<PathBuf> {
    let variables = [
        "CVC_DMTCP_ROOT",
        "CVC_MPICH_ROOT",
        "CVC_MPICH_CH3",
        "CVC_MPICH5",
        "CVC_NPB_DIR",
    ];
    let all = variables
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from)
        .chain([cache::cache().join("mpich5")]);
    all.filter(|p| p.is_absolute() && p.is_dir()).collect()
}

/// Returns whether nodes hide this path behind a directory of their own.
fn is_hidden(path: &Path) -> bool {
    [env::temp_dir().as_path(), Path::new("/tmp")]
        .iter()
        .any(|t| path.starts_with(t))
}

/// Returns the mount points of real disks other than the root, without directories that nodes replace.
fn disks(mounts: &str) -> Vec<String> {
    let own = [
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/tmp",
        "/var/tmp",
        "/boot",
        "/etc",
        "/root/.ssh",
    ];
    let of_disks = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        let kind = after.split(' ').next()?;
        let is_disk = matches!(
            kind,
            "ext2"
                | "ext3"
                | "ext4"
                | "xfs"
                | "btrfs"
                | "zfs"
                | "overlay"
                | "f2fs"
                | "virtiofs"
                | "9p"
        );
        // a backslash escapes blanks; no tool is installed in such a directory
        (is_disk
            && point != "/"
            && !point.contains('\\')
            && !own.iter().any(|o| Path::new(point).starts_with(o)))
        .then(|| point.to_owned())
    });
    of_disks.collect()
}

#[cfg(test)]
mod tests {
    use super::disks;

    #[test]
    fn only_other_disks_are_bound_into_nodes() {
        let mounts = "27 1 254:0 / / rw - ext4 /dev/vda rw\n30 27 0:2 / /proc rw - proc proc rw\n31 27 254:1 / /home rw shared:1 - xfs /dev/vdb rw\n\
            32 27 254:0 /etc/hosts /etc/hosts rw - ext4 /dev/vda rw\n33 27 0:9 / /run/user/0 rw - tmpfs tmpfs rw\n34 27 254:3 / /tmp/x rw - ext4 /dev/vdc rw\n";
        assert_eq!(disks(mounts), ["/home"]);
    }
}
