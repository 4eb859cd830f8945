//! Real disks for nodes: loop devices over sparse files.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::{command::run_checked, node::Node, requirements};
use crate::program::{absent, admin_path};

const LIMIT: Duration = Duration::from_secs(30);

/// A disk. It is removed from the machine when this value is dropped and no node has it mounted.
#[derive(Debug)]
pub struct Disk {
    device: PathBuf,
    file: PathBuf,
    _directory: TempDir,
}

impl Disk {
    /// Makes a blank disk of this size that is not attached to any node.
    #[track_caller]
    pub fn new(mib: u64) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("cvc-disk-")
            .tempdir()
            .expect("a directory");
        let file = directory.path().join("disk");
        File::create(&file)
            .and_then(|f| f.set_len(mib << 20))
            .expect("a file for a disk");
        let mut losetup = Command::new("losetup");
        losetup
            .args(["--find", "--show"])
            .arg(&file)
            .env("PATH", admin_path());
        let device = run_checked("losetup", losetup, LIMIT).trim().into();
        Self {
            device,
            file,
            _directory: directory,
        }
    }

    /// Returns the path of the disk's device on this machine.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Attaches the disk to a node under a device name, such as `/dev/xvdf`. A disk may have several names.
    #[track_caller]
    pub fn attach(&self, node: &Node, name: &str) {
        let number = std::fs::metadata(&self.device).expect("a device").rdev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        node.shell(&format!(
            "mkdir -p $(dirname {name}) && mknod -m 660 {name} b {major} {minor}"
        ));
    }

    /// Reads the first MiB of the disk.
    #[track_caller]
    pub fn beginning(&self) -> Vec<u8> {
        let mut begin = Vec::new();
        File::open(&self.file)
            .and_then(|f| f.take(1 << 20).read_to_end(&mut begin))
            .expect("the file of a disk");
        begin
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut losetup = Command::new("losetup");
        losetup
            .arg("--detach")
            .arg(&self.device)
            .env("PATH", admin_path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // if it is still mounted, the kernel detaches it later
        let _ = losetup.status();
    }
}

/// Returns a description of what this machine lacks for disks, if anything.
pub(crate) fn missing() -> Option<String> {
    let without_loop = || {
        Some("/dev/loop-control does not exist".to_owned())
            .filter(|_| !Path::new("/dev/loop-control").exists())
    };
    let without_file_system = || {
        Some("the kernel has no ext4".to_owned()).filter(|_| {
            !std::fs::read_to_string("/proc/filesystems")
                .unwrap_or_default()
                .contains("\text4")
        })
    };
    requirements::missing()
        .or_else(|| absent(&["losetup", "blkid", "mkfs.ext4", "findmnt"]))
        .or_else(without_loop)
        .or_else(without_file_system)
}
