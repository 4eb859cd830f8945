//! Disks of instances other than the root: volumes and instance stores, which are loop devices over sparse files.
//!
//! A device has the size of its volume. On an instance type with NVMe its name is `/dev/nvme1n1`, with the links that udev makes by model and by
//! requested name; on other types it is `/dev/xvdf`.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, symlink},
    },
    path::Path,
};

use nix::{
    libc,
    sys::stat::{Mode, SFlag, mknod},
};
use xmltree::Element;

use super::{
    machine::{Machine, PlannedDisk},
    query::Parameters,
    world::World,
    xml,
};
use crate::lab::Node;

/// Maximum size of instance stores: the metadata of a new file system must fit into memory.
const STORE_GB: u64 = 4;

/// Returns the disks of a new instance except the root. `asked` are the parameters of the launch, `item` is moto's description of the instance.
pub(super) fn plan(
    world: &World,
    machine: &Machine,
    asked: &Parameters,
    item: &Element,
) -> Vec<PlannedDisk> {
    let Ok(answer) = world.moto.ask(
        &machine.region,
        "DescribeInstanceTypes",
        &[("InstanceType.1", &machine.kind)],
    ) else {
        return Vec::new();
    };
    let Some(of_type) = xml::items(&answer, "instanceTypeSet").next() else {
        return Vec::new();
    };
    let is_nvme = xml::text(of_type, "hypervisor").as_deref() == Some("nitro");
    let root = xml::text(item, "rootDeviceName").unwrap_or_default();
    let mut disks = Vec::new();
    let nvme = |disks: &Vec<PlannedDisk>| format!("nvme{}n1", disks.len() + 1);
    for mapping in xml::items(item, "blockDeviceMapping") {
        let name = xml::text(mapping, "deviceName").unwrap_or_default();
        if name == root {
            continue;
        }
        let of_name = |m: &Parameters| m.get("DeviceName") == Some(name.as_str());
        let size = asked
            .members("BlockDeviceMapping")
            .into_values()
            .find(of_name)
            .and_then(|m| m.get("Ebs.VolumeSize")?.parse::<u64>().ok());
        let short = name.trim_start_matches("/dev/").to_owned();
        let volume = xml::text_at(mapping, &["ebs", "volumeId"])
            .unwrap_or_default()
            .replace('-', "");
        let by_model = format!("disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume}");
        disks.push(PlannedDisk {
            device: if is_nvme {
                nvme(&disks)
            } else {
                short.replacen("sd", "xvd", 1)
            },
            links: if is_nvme {
                vec![by_model, short]
            } else {
                Vec::new()
            },
            bytes: size.unwrap_or(8) << 30,
        });
    }
    let mut of_xen = 'b'..='y';
    for store in of_type
        .get_child("instanceStorageInfo")
        .into_iter()
        .flat_map(|info| xml::items(info, "disks"))
    {
        let number = |name: &str| {
            xml::text(store, name)
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0)
        };
        for n in 0..number("count") {
            let serial = format!("AWS{}{n:02}", machine.id.trim_start_matches("i-"));
            disks.push(PlannedDisk {
                device: if is_nvme {
                    nvme(&disks)
                } else {
                    format!("xvd{}", of_xen.next().unwrap_or('z'))
                },
                links: if is_nvme {
                    vec![format!(
                        "disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_{serial}"
                    )]
                } else {
                    Vec::new()
                },
                bytes: number("sizeInGB").min(STORE_GB) * 1_000_000_000 / 512 * 512,
            });
        }
    }
    disks
}

/// Creates loop devices for disks. A device disappears when its file is closed (even by a crash of the test) and no node has the device mounted.
pub(super) fn attach(node: &Node, disks: &[PlannedDisk]) -> Vec<(PlannedDisk, File)> {
    let directory = node.store().join("disks");
    fs::create_dir_all(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let one = |disk: &PlannedDisk| {
        let device = make_loop_device(&directory.join(&disk.device), disk.bytes)
            .unwrap_or_else(|e| panic!("{} of {}: {e}", disk.device, node.name()));
        (disk.clone(), device)
    };
    disks.iter().map(one).collect()
}

/// Creates the device files on a node that has just been switched on.
pub(super) fn plug(node: &Node, disks: &[(PlannedDisk, File)]) {
    for (disk, device) in disks {
        let number = device
            .metadata()
            .unwrap_or_else(|e| panic!("{}: {e}", disk.device))
            .rdev();
        let path = node.path(&format!("/dev/{}", disk.device));
        let made = mknod(
            &path,
            SFlag::S_IFBLK,
            Mode::from_bits_truncate(0o660),
            number,
        )
        .map_err(io::Error::from);
        let linked = made.and_then(|()| {
            disk.links.iter().try_for_each(|link| {
                let (path, up) = (
                    node.path(&format!("/dev/{link}")),
                    "../".repeat(link.matches('/').count()),
                );
                fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                symlink(format!("{up}{}", disk.device), path)
            })
        });
        linked.unwrap_or_else(|e| panic!("{} of {}: {e}", disk.device, node.name()));
    }
}

// from <linux/loop.h>
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
/// Flag: the device disappears with its last user.
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of Linux.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of Linux.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Makes a loop device over a new sparse file.
#[expect(unsafe_code, reason = "loop devices are made by ioctls")]
fn make_loop_device(file: &Path, bytes: u64) -> io::Result<File> {
    let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let store = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(file)?;
    store.set_len(bytes)?;
    let control = open(Path::new("/dev/loop-control"))?;
    // retry, because another process may take the free device first
    for _ in 0..100 {
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let device = open(Path::new(&format!("/dev/loop{number}")))?;
        let mut config: LoopConfig = unsafe { std::mem::zeroed() };
        config.fd = u32::try_from(store.as_raw_fd()).map_err(io::Error::other)?;
        config.info.flags = LO_FLAGS_AUTOCLEAR;
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } == 0 {
            return Ok(device);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
    }
    Err(io::Error::other(
        "other processes took every free loop device",
    ))
}

/// Returns whether this machine has loop devices.
pub(crate) fn loop_devices_exist() -> bool {
    Path::new("/dev/loop-control").exists() && Path::new("/dev/loop0").exists()
}
