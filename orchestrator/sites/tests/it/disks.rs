//! Tests of the role that sets up disks of EC2 instances, on nodes of a lab with real block devices: from the campaign file to the mounted file
//! systems.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{self, Spec};
use cvc_core::hosts::{HostEntry, HostKeys, SshSettings};
use cvc_core::plan;
use cvc_core::stop::StopRequest;
use cvc_core::store::CampaignDir;
use cvc_sites::install::{self, InstallError, InstallReport, InstallRequest};
use cvc_testkit::{
    Lab, Tool,
    lab::{Disk, Node},
    require,
};
use std::process::Command;
use tokio::sync::watch;

const STORE_LINK: &str =
    "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS0123456789ABCDEF";

/// A fleet whose instances are nodes of a lab.
struct Site {
    // dropped before the disks, which the nodes have mounted
    lab: Lab,
    dir: tempfile::TempDir,
    spec: Spec,
}

impl Site {
    /// Creates a site with these keys of `[sites.s.ec2]`, and a storage area.
    fn new(nodes: u8, keys: &str, area: &str) -> Self {
        let lab = Lab::builder().nodes(nodes).build();
        let dir = tempfile::Builder::new()
            .prefix("cvc-test-")
            .tempdir()
            .expect("a directory");
        let text = format!(
            "schema = 1\nname = \"t\"\n[sites.s]\nkind = \"ec2\"\n\
             [sites.s.ec2]\nregion = \"us-east-1\"\ninstance_types = [\"c5d.xlarge\"]\nnodes = {nodes}\n{keys}\n\
             [sites.s.storage.area]\n{area}\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"{nodes}Nx1P\"\n"
        );
        let apps = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let mut spec = campaign::load_text(
            &dir.path().join("t.toml"),
            &text,
            &[apps.into_std_path_buf()],
        )
        .unwrap_or_else(|e| panic!("{e:?}"));
        // the nodes of the site, as a fleet sets them
        let cluster = spec.sites["s"].cluster.as_mut().expect("several machines");
        let home = Utf8PathBuf::from_path_buf(lab.home()).expect("UTF-8");
        cluster.hosts = lab
            .nodes()
            .map(|node| HostEntry {
                address: Some(node.address().to_string()),
                internal: Some(node.address().to_string()),
                user: Some("ada".into()),
                identity_file: Some(home.join(".ssh/id_ed25519").into_string()),
                ..HostEntry::named(node.name())
            })
            .collect();
        let pinned = Some(home.join(".ssh/known_hosts").into_string());
        cluster.ssh = SshSettings {
            config: Some("/dev/null".into()),
            known_hosts: None,
            host_keys: HostKeys::Strict,
            pinned,
        };
        Self { lab, dir, spec }
    }

    /// Runs the role on the nodes.
    fn set_up(&self) -> Result<InstallReport, InstallError> {
        self.play(false)
    }

    fn play(&self, check: bool) -> Result<InstallReport, InstallError> {
        let plan = plan::build(&self.spec);
        let dir = CampaignDir::at(Utf8Path::from_path(self.dir.path()).expect("UTF-8"));
        let tags = ["storage".to_owned()];
        let request = InstallRequest {
            spec: &self.spec,
            plan: &plan,
            site: "s",
            dir: &dir,
            check,
            tags: &tags,
            only: None,
            update_lock: false,
            limit: std::time::Duration::from_secs(300),
        };
        self.lab.on_network(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let (_wish, mut stop_signal) = watch::channel(StopRequest::GoOn);
            runtime.block_on(install::install(&request, &mut stop_signal, &mut |_| {}))
        })
    }

    /// Runs the role, and checks that it succeeds with this number of changes on each node.
    #[track_caller]
    fn sets_up(&self, changed: impl Fn(u32) -> bool) {
        let report = self.set_up().unwrap_or_else(|e| panic!("{e}"));
        for (host, of_host) in &report.hosts {
            assert!(changed(of_host.changed), "{host}: {of_host:?}");
        }
        assert_eq!(report.hosts.len(), self.lab.nodes().count());
    }

    /// Runs the role, checks that it fails, and returns the message.
    #[track_caller]
    fn fails(&self) -> String {
        self.set_up().expect_err("it cannot be set up").to_string()
    }
}

/// Returns owner and type of the file system mounted at a path.
fn mounted(node: &Node, place: &str) -> String {
    node.shell(&format!("findmnt -n -o SOURCE,FSTYPE --mountpoint {place} | tr -s ' ' | tr '\\n' ' '; stat -c %U {place}"))
}

#[test]
fn blank_disks_are_formatted_and_mounted_and_a_second_time_changes_nothing() {
    require!(Tool::Disks, Tool::Ansible);
    let disks: Vec<Disk> = (0..5).map(|_| Disk::new(1024)).collect();
    let site = Site::new(
        2,
        "volumes = [{ mount = \"/data\", size_gib = 1 }, { mount = \"/more/data/\", size_gib = 1 }]\ninstance_store = \"/own\"",
        "path = \"/data/runs\"",
    );
    // device names as on Xen
    let (n1, n2) = (site.lab.node("n1"), site.lab.node("n2"));
    disks[0].attach(n1, "/dev/xvdf");
    disks[1].attach(n1, "/dev/xvdg");
    disks[2].attach(n1, "/dev/xvdb");
    // device names as on Nitro, where udev links the requested names of volumes; their order differs from the kernel's
    disks[3].attach(n2, "/dev/nvme2n1");
    disks[4].attach(n2, "/dev/nvme1n1");
    n2.shell("ln -s nvme2n1 /dev/sdf; ln -s nvme1n1 /dev/sdg");
    let store = Disk::new(64);
    store.attach(n2, "/dev/nvme3n1");
    n2.shell(&format!("mkdir -p /dev/disk/by-id; ln -s ../../nvme3n1 {STORE_LINK}; ln -s ../../nvme3n1 {STORE_LINK}-ns-1"));

    // a dry run changes nothing
    let looked = site.play(true).unwrap_or_else(|e| panic!("{e}"));
    assert!(looked.hosts.values().all(|h| h.is_done()), "{looked:?}");
    assert!(
        disks
            .iter()
            .chain([&store])
            .all(|d| d.beginning().iter().all(|b| *b == 0)),
        "something was written"
    );

    site.sets_up(|changed| changed > 0);
    assert_eq!(mounted(n1, "/data"), "/dev/xvdf ext4 ada\n");
    assert_eq!(mounted(n1, "/more/data"), "/dev/xvdg ext4 ada\n");
    assert_eq!(mounted(n1, "/own"), "/dev/xvdb ext4 ada\n");
    assert_eq!(mounted(n2, "/data"), "/dev/nvme2n1 ext4 ada\n");
    assert_eq!(mounted(n2, "/more/data"), "/dev/nvme1n1 ext4 ada\n");
    assert_eq!(mounted(n2, "/own"), "/dev/nvme3n1 ext4 ada\n");
    for node in [n1, n2] {
        assert_eq!(
            node.shell("stat -c %U /data/runs; grep -c ^UUID= /etc/fstab"),
            "ada\n3\n"
        );
        node.shell("su ada -c 'echo kept >/data/runs/file'");
    }

    site.sets_up(|changed| changed == 0);
    // as after a reboot without fstab: cvc's file system is mounted again with its files
    n1.shell("umount /data");
    site.sets_up(|changed| changed <= 1);
    assert_eq!(n1.shell("cat /data/runs/file"), "kept\n");
}

#[test]
fn what_is_not_blank_is_left_alone_and_named() {
    require!(Tool::Disks, Tool::Ansible);
    let disk = Disk::new(1024);
    let site = Site::new(
        2,
        "volumes = [{ mount = \"/data\", size_gib = 1 }]",
        "path = \"/data/runs\"",
    );
    let (n1, n2) = (site.lab.node("n1"), site.lab.node("n2"));
    let good = Disk::new(1024);
    good.attach(n1, "/dev/xvdf");

    // the volume does not exist
    let finished = site.fails();
    assert!(
        finished.contains("n2: the volume /dev/sdf for /data is not there")
            && finished.contains("the other hosts are done: n1"),
        "{finished}"
    );

    // the volume contains files of another user
    disk.attach(n2, "/dev/xvdf");
    n2.shell(
        "mkfs.ext4 -q -L photos /dev/xvdf; mount /dev/xvdf /mnt; echo dear >/mnt/file; umount /mnt",
    );
    let before = disk.beginning();
    let finished = site.fails();
    assert!(
        finished.contains("n2: volume /dev/sdf (/dev/xvdf) for /data is not blank: it has ext4 labelled photos; it is left alone"),
        "{finished}"
    );
    assert_eq!(disk.beginning(), before);
    n2.shell("mount /dev/xvdf /mnt && grep -q dear /mnt/file");
    // the same volume while it is in use
    assert!(site.fails().contains("it has ext4 labelled photos"));
    n2.shell("umount /mnt");

    // a volume with a partition table, which has one partition of 1 MiB
    let table = "\\0\\0\\0\\0\\203\\0\\0\\0\\0\\010\\0\\0\\0\\010\\0\\0";
    n2.shell(&format!(
        "wipefs -q -a /dev/xvdf; printf '{table}' | dd of=/dev/xvdf bs=1 seek=446 2>/dev/null; printf '\\125\\252' | dd of=/dev/xvdf bs=1 seek=510 2>/dev/null"
    ));
    let finished = site.fails();
    assert!(
        finished.contains("is not blank: it has partitions (dos); it is left alone"),
        "{finished}"
    );

    // a volume other than the requested one
    n2.shell("wipefs -q -a /dev/xvdf; rm /dev/xvdf");
    let other = Disk::new(512);
    other.attach(n2, "/dev/xvdf");
    let finished = site.fails();
    assert!(
        finished.contains("n2: volume /dev/sdf (/dev/xvdf) for /data is of 0.5 GiB and not of 1"),
        "{finished}"
    );

    // another file system is mounted at the mount point
    n2.shell("rm /dev/xvdf; mkdir -p /data; mount -t tmpfs somebodys /data");
    disk.attach(n2, "/dev/xvdf");
    let finished = site.fails();
    assert!(
        finished.contains("cannot be mounted at /data: somebodys is mounted there"),
        "{finished}"
    );
    n2.shell("umount /data");
    site.sets_up(|_| true);
    assert_eq!(mounted(n2, "/data"), "/dev/xvdf ext4 ada\n");
}

#[test]
fn several_disks_of_the_machine_are_one_or_none() {
    require!(Tool::Disks, Tool::Ansible);
    let (first, second) = (Disk::new(64), Disk::new(64));
    let site = Site::new(1, "instance_store = \"/own\"", "path = \"/own/runs\"");
    let n1 = site.lab.node("n1");
    let finished = site.fails();
    assert!(
        finished.contains("n1: no instance store for /own"),
        "{finished}"
    );
    first.attach(n1, "/dev/xvdb");
    second.attach(n1, "/dev/xvdc");
    // some old instance types come with a file system on the disk
    n1.shell("mkfs.ext3 -q /dev/xvdb");
    let before = first.beginning();
    let finished = site.fails();
    assert!(
        finished.contains(
            "instance store (/dev/xvdb, /dev/xvdc) for /own: /dev/xvdb has ext3; it is left alone"
        ),
        "{finished}"
    );
    assert_eq!(first.beginning(), before);
    assert!(second.beginning().iter().all(|b| *b == 0));
}

#[test]
fn the_name_of_a_volume_is_read_from_its_controller() {
    require!(Tool::Python);
    let role = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ansible/roles/storage/files");
    // identify data of an NVMe controller: model number from byte 24, vendor-specific data from byte 3072
    let script = r#"
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import disks
def identity(model, name):
    data = bytearray(4096)
    data[24:64] = model.ljust(40).encode()
    data[3072:3104] = name
    return bytes(data)
for name in (b"sdf".ljust(32), b"/dev/sdf".ljust(32), b"xvdf".ljust(32, b"\0"), bytes(32)):
    print(disks.letter(disks.name_in(identity("Amazon Elastic Block Store", name))))
print(disks.name_in(identity("Amazon EC2 NVMe Instance Storage", b"sdf".ljust(32))))
# no controller of that kind
print(repr(disks.asked("/dev/null")), repr(disks.asked("/dev/nothing")))
"#;
    let python = Tool::Python.find().expect("found before");
    let finished = Command::new(python)
        .args(["-c", script, role.as_str()])
        .output()
        .expect("python3");
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    assert_eq!(
        text,
        "f\nf\nf\n\n\n'' ''\n",
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
}
