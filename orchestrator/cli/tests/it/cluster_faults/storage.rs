//! Tests of storage areas and of full disks.

use crate::{
    cluster_faults::steps::{SOON, STEPS, ends, interrupt_twice, on_lab, scripted, site, turn},
    common::cluster::libraries,
};
use cvc_testkit::{Campaign, Lab, Tool, require, wait_until};
use std::process::Command;

const LOCAL: &str = "[sites.lab.storage.local]\npath = \"/scratch-local\"\nkind = \"node-local\"\n";
const SHARED: &str = "[sites.lab.storage.shared]\npath = \"/shared/area\"\nkind = \"shared\"\n";

#[test]
fn a_disk_that_is_full_on_one_node_fails_the_run_before_and_in_it() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "full",
        LOCAL,
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 1\nretries = 0\ntimeout_s = 60",
    );
    on.go_all();
    on.lab.node("n2").fill("/scratch-local");
    ends(on.begin(), 10);
    let detail = on.only_failure("disk-full");
    assert!(detail.contains("n2"), "{detail}");
    assert!(on.starts().is_empty(), "nothing was started");
    on.lab.node("n2").unfill("/scratch-local");
    on.assert_clean(&["n1", "n2"]);

    let writes = format!(
        "[ \"$PMI_RANK\" = 0 ] || dd if=/dev/zero of=\"${{0%/*}}/../data.$PMI_RANK\" bs=1M count=100 || exit 1\n{STEPS}"
    );
    on.set_script(&writes);
    ends(on.start(&["run", "--retry-failed", "campaign.toml"]), 10);
    let (cause, detail) = on.campaign.failures().pop().expect("a failure");
    assert!(cause == "disk-full", "{cause}: {detail}");
    on.lab
        .node("n2")
        .shell("rm -f /scratch-local/full-*/data.*; rmdir /scratch-local/full-* 2>/dev/null || :");
    on.assert_clean(&["n1", "n2"]);

    on.set_script(STEPS);
    ends(on.start(&["run", "--retry-failed", "campaign.toml"]), 0);
    on.assert_clean(&["n1", "n2"]);
}

/// Returns the descriptor of a short stencil that does not say how much it writes, so that its run starts even on a full disk.
fn silent_stencil() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/apps/kernel-stencil.toml");
    let text = std::fs::read_to_string(path).expect("the kernel's descriptor");
    let lines = text
        .lines()
        .filter(|l| {
            !["output_mib", "bytes", "writes", "reads"]
                .iter()
                .any(|key| l.starts_with(key))
        })
        .map(|l| match l {
            "name = \"kernel-stencil\"" => "name = \"silent\"".to_owned(),
            l => l.replace(
                "n = 64, steps = 120, work = 40, every = 32",
                "n = 64, steps = 8, work = 1, every = 4",
            ),
        });
    let outputs = "[[outputs]]\nfiles = [\"kernel-stencil.ckpt\"]\nsize = '^Checkpoint \\d+ written: (\\d+) bytes'\ntake = \"last\"\n";
    lines.collect::<Vec<_>>().join("\n") + "\n" + outputs
}

#[test]
fn ompio_on_a_full_disk_is_found_out() {
    require!(Tool::Lab, Tool::Mpich5, Tool::OpenMpi);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).shared_mib(1).build();
    let text = format!(
        "{}{SHARED}[matrix]\napp = \"silent\"\nclass = \"W\"\nmapping = \"2Nx1P\"\nmpi = \"openmpi\"\ncheckpointer = \"application\"\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n",
        site(2, "")
            .split("[sites.lab.mpi")
            .next()
            .expect("a site")
            .to_owned()
            + &libraries("lab")
    );
    let on = on_lab(lab, "ompio", &text, STEPS);
    on.campaign.put("apps/silent.toml", &silent_stencil());
    ends(on.begin(), 10);
    let detail = on.only_failure("disk-full");
    assert_eq!(
        on.campaign.events("run-started").len(),
        1,
        "it was begun: {detail}"
    );
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn areas_are_a_factor_and_one_that_is_not_what_it_is_called_is_refused() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let wrong = "[sites.lab.storage.wrong]\npath = \"/scratch-local/wrong\"\nkind = \"shared\"\n";
    let lab = Lab::builder().nodes(2).build();
    let text = format!(
        "{}{LOCAL}{SHARED}{wrong}[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\nstorage = [\"local\", \"shared\", \"wrong\"]\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n",
        site(2, "")
    );
    let writes = "echo \"$0\" >>/shared/starts\necho x >\"${0%/*}/out.$PMI_RANK\"\necho SUCCESS\n";
    let on = on_lab(lab, "areas", &text, writes);
    let output = ends(on.begin(), 0);
    on.campaign.assert_whole(2);
    assert!(
        output.stderr.contains("storage area wrong")
            && output.stderr.contains("correct its `kind`"),
        "{}",
        output.stderr
    );
    let starts = on.starts();
    for area in ["/scratch-local/areas-", "/shared/area/areas-"] {
        assert_eq!(
            starts.iter().filter(|s| s.starts_with(area)).count(),
            2,
            "{starts:?}"
        );
    }
    on.assert_clean(&["n1", "n2"]);
    let left = std::fs::read_dir(on.lab.shared().join("area"))
        .map(|d| d.flatten().count())
        .unwrap_or(0);
    assert_eq!(left, 0, "outputs are not kept");
}

/// A script whose output does not fit on a small disk.
const LOUD: &str = "echo \"$CVC_RUN\" >>/shared/starts\nhead -c 12000000 /dev/urandom | od -An -tx1 -w64\necho SUCCESS\n";

/// A disk of 20 MiB for the runs of a campaign on the laptop; unmounted at the end, even if the test fails.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts the disk. Must be called before the lab is created, which sees only earlier mounts.
    fn mount() -> Self {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        disk.mount_with("size=20m");
        disk
    }

    /// Makes the campaign, which has not begun, store its runs on the disk.
    fn take_runs_of(&self, campaign: &Campaign) {
        std::fs::create_dir_all(campaign.root()).expect("a campaign's directory");
        std::os::unix::fs::symlink(self.0.path(), campaign.root().join("runs")).expect("a link");
    }

    fn grow(&self) {
        self.mount_with("remount,size=400m");
    }

    fn mount_with(&self, options: &str) {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "cvc-test"])
            .arg(self.0.path())
            .status();
        assert!(mounted.is_ok_and(|s| s.success()), "mount {options}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn results_wait_on_the_site_while_the_laptop_has_no_room_for_them() {
    require!(Tool::Lab, Tool::Mpich5, Tool::Tmpfs);
    let _turn = turn();
    let disk = SmallDisk::mount();
    let on = scripted(
        1,
        "no-room",
        "",
        LOUD,
        "processes = 1",
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    disk.take_runs_of(&on.campaign);
    let cvc = on.begin();
    wait_until("it to wait for room", SOON, || {
        cvc.stderr_so_far().contains("no space for its results")
    });
    disk.grow();
    ends(cvc, 0);
    on.campaign.assert_whole(2);
    assert_eq!(on.starts().len(), 2, "no run was repeated");
    on.assert_clean(&["n1"]);
}

#[test]
fn results_stay_on_the_site_when_the_laptop_gets_no_room_for_them() {
    require!(Tool::Lab, Tool::Mpich5, Tool::Tmpfs);
    let _turn = turn();
    let disk = SmallDisk::mount();
    let on = scripted(
        1,
        "never-room",
        "",
        LOUD,
        "processes = 1",
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    disk.take_runs_of(&on.campaign);
    let cvc = on.begin();
    wait_until("it to wait for room", SOON, || {
        cvc.stderr_so_far().contains("no space for its results")
    });
    interrupt_twice(&cvc);
    let output = ends(cvc, 7);
    assert!(
        output.stderr.contains("cannot be written here")
            && output.stderr.contains("hint: make room"),
        "{}",
        output.stderr
    );
    assert!(
        output
            .stderr
            .contains("results stay there; the next `cvc run` fetches them"),
        "{}",
        output.stderr
    );
    disk.grow();
    ends(on.begin(), 0);
    on.campaign.assert_whole(1);
    assert_eq!(on.starts().len(), 1, "the run was not repeated");
    on.assert_clean(&["n1"]);
}
