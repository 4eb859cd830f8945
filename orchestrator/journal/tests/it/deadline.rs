//! What an instance does at its first boot: it sets its deadline, and ends when that has passed or cannot be read.

use cvc_core::campaign::Disk;

use cvc_journal::lease::{LaunchOrder, Tags};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A directory in which the script takes place, with programs that stand for those that a test must not call.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a directory"));
        for dir in ["bin", "etc/systemd/system", "run"] {
            fs::create_dir_all(machine.at(dir)).expect("makes");
        }
        // time passes at once, as often as the test wants
        machine.program(
            "sleep",
            "n=$(cat $ROOT/looks); [ $n -gt 0 ] || exit 1; echo $((n - 1)) >$ROOT/looks",
        );
        machine.program("shutdown", "echo shutdown >>$ROOT/ended");
        machine.program("setsid", "echo \"$@\" >>$ROOT/background");
        machine.program("systemctl", "echo \"$@\" >>$ROOT/systemctl");
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.at("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("for all");
    }

    /// Waits for what is started in the background, and returns its command.
    fn background(&self) -> String {
        fs::read_to_string(self.at("background")).expect("a pipe")
    }

    /// Makes a pipe, so that the end of what goes on in the background can be waited for.
    fn expect_background(&self) {
        let made = Command::new("mkfifo")
            .arg(self.at("background"))
            .status()
            .expect("mkfifo");
        assert!(made.success());
    }

    /// Runs a script with its paths below the directory.
    fn run(&self, script: &str) {
        let root = self.0.path().display().to_string();
        let script = ["/etc/", "/usr/local/", "/var/lib/", "/run/"]
            .iter()
            .fold(script.to_owned(), |s, dir| {
                s.replace(dir, &format!("{root}{dir}"))
            });
        let path = format!("{root}/bin:{}", std::env::var("PATH").expect("a path"));
        let ran = Command::new("sh")
            .args(["-c", &script])
            .env("PATH", path)
            .env("ROOT", &root)
            .output()
            .expect("sh");
        assert!(
            ran.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    /// What watches the deadline, when it has looked so often. Returns whether it has ended the machine.
    fn looks(&self, times: u32) -> bool {
        let _ = fs::remove_file(self.at("ended"));
        fs::write(self.at("looks"), times.to_string()).expect("writes");
        // its paths are below the directory since it was written
        let root = self.0.path().display().to_string();
        let script = fs::read_to_string(self.at("usr/local/sbin/cvc-deadline"))
            .expect("a script")
            .replace(&root, "");
        self.run(&script);
        self.at("ended").exists()
    }

    fn deadline(&self) -> i64 {
        fs::read_to_string(self.at("etc/cvc-deadline"))
            .expect("a deadline")
            .trim()
            .parse()
            .expect("seconds")
    }
}

fn user_data(lifetime_s: u64, expires_s: i64) -> String {
    let expires = jiff::Timestamp::from_second(expires_s).expect("a time");
    LaunchOrder {
        tags: Tags {
            expires: Some(expires),
            ..Tags::default()
        },
        region: String::new(),
        profile: None,
        endpoint: None,
        zone: None,
        instance_type: String::new(),
        vcpus: 1,
        count: 1,
        spot: false,
        max_price_usd: None,
        usd_per_hour: None,
        rate: None,
        image: String::new(),
        root_device: String::new(),
        key_name: String::new(),
        group_id: String::new(),
        subnet: None,
        placement_group: None,
        efa: false,
        root: Disk::default(),
        volumes: Vec::new(),
        encrypted: false,
        credits: None,
        lifetime_s,
        config_digest: None,
    }
    .user_data()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[test]
fn a_deadline_that_cannot_be_read_twice_has_passed() {
    let machine = Machine::new();
    machine.run(&user_data(3600, now() + 3600));
    let file = machine.at("etc/cvc-deadline");
    let written = |path: &Path, text: Option<&str>| match text {
        Some(text) => fs::write(path, text).expect("writes"),
        None => fs::remove_file(path).expect("removes"),
    };
    for text in [
        Some(""),
        Some("\n"),
        Some("abc\n"),
        Some("12 34\n"),
        Some("-5\n"),
        Some("99999999999999999999\n"),
        None,
    ] {
        written(&file, text);
        assert!(!machine.looks(1), "{text:?}: it may be being written");
        assert!(machine.looks(2), "{text:?}");
    }
}

#[test]
fn an_instance_ends_after_its_deadline_and_not_before() {
    let machine = Machine::new();
    machine.run(&user_data(3600, now() + 3600));
    assert!(!machine.looks(5));
    fs::write(machine.at("etc/cvc-deadline"), format!("{}\n", now() - 1)).expect("writes");
    assert!(machine.looks(1));
}

#[test]
fn the_time_to_boot_does_not_extend_the_deadline_unless_clocks_disagree() {
    let of = |lifetime_s: u64, ordered: i64| {
        let machine = Machine::new();
        machine.run(&user_data(
            lifetime_s,
            ordered + i64::try_from(lifetime_s).expect("small"),
        ));
        machine.deadline()
    };
    let start = now();
    assert_eq!(of(3600, start - 90), start - 90 + 3600);
    // an hour apart, either way: only the lifetime is certain
    for ordered in [start - 3600, start + 3600] {
        let deadline = of(1800, ordered);
        assert!(
            (start + 1800..=now() + 1800).contains(&deadline),
            "{deadline}"
        );
    }
}

#[test]
fn the_watcher_of_the_deadline_is_restarted_with_and_without_systemd() {
    let machine = Machine::new();
    machine.expect_background();
    machine.run(&user_data(3600, now() + 3600));
    let background = machine.background();
    assert!(
        background.contains("while :; do") && !machine.at("systemctl").exists(),
        "{background}"
    );
    assert!(
        machine
            .at("var/lib/cloud/scripts/per-boot/cvc-deadline")
            .is_file()
    );

    let machine = Machine::new();
    fs::create_dir_all(machine.at("run/systemd/system")).expect("makes");
    machine.run(&user_data(3600, now() + 3600));
    let unit =
        fs::read_to_string(machine.at("etc/systemd/system/cvc-deadline.service")).expect("a unit");
    assert!(unit.contains("Restart=always"), "{unit}");
    let calls = fs::read_to_string(machine.at("systemctl")).expect("calls");
    assert!(
        calls.contains("enable --now cvc-deadline.service") && !machine.at("background").exists(),
        "{calls}"
    );

    // systemd that does not take it
    let machine = Machine::new();
    fs::create_dir_all(machine.at("run/systemd/system")).expect("makes");
    machine.program("systemctl", "exit 1");
    machine.expect_background();
    machine.run(&user_data(3600, now() + 3600));
    assert!(machine.background().contains("cvc-deadline"));
}
