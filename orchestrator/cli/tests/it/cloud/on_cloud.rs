//! Campaigns on instances of the test kit's cloud; the instances are nodes of a lab.

use crate::common::cluster::{LIMIT, OnLab, libraries};
use cvc_testkit::{Campaign, Cloud, Finished, Lab, Running, Tool, wait_until};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

/// A lab with a cloud, and a campaign of the lab's laptop.
pub struct OnCloud {
    // declared first, so that the cloud is dropped before the lab that it uses
    pub cloud: Cloud,
    pub on: OnLab,
}

/// Sets the variables with which a campaign finds the cloud.
pub fn know(campaign: &mut Campaign, cloud: &Cloud) {
    for (variable, value) in cloud.environment() {
        campaign.env(&variable, &value);
    }
    // the path in which the set-up installs Ansible
    let ansible = Tool::Ansible.find().expect("the test requires it");
    let path = format!(
        "{}:{}",
        ansible.parent().expect("a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    campaign.env("PATH", &path);
    // an owner that separates the instances from those of other tests
    campaign.env("CVC_OWNER", "ada@laptop");
}

/// Returns an ec2 site named `cloud`. `ec2` contains further keys of its table, `keys` contains further keys of the site.
pub fn ec2_site(cloud: &Cloud, nodes: u32, keys: &str, ec2: &str) -> String {
    format!(
        "[sites.cloud]\nkind = \"ec2\"\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 6\n{keys}\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
         instance_types = [\"c5.xlarge\"]\nnodes = {nodes}\nimage = \"{}\"\n{ec2}\n{}",
        cloud.image("x86_64"),
        libraries("cloud")
    )
}

impl OnCloud {
    /// Returns a campaign on this lab and cloud.
    pub fn new(lab: Lab, cloud: Cloud, name: &str, text: &str) -> Self {
        let mut on = OnLab::new(lab, name, text);
        know(&mut on.campaign, &cloud);
        // use separate cached prices
        let cache = on.campaign.dir().join("cache");
        on.campaign
            .env("XDG_CACHE_HOME", cache.to_str().expect("UTF-8"));
        Self { cloud, on }
    }

    /// Replaces the campaign by a new one on the same lab and cloud, in a new directory.
    pub fn restart_fresh(&mut self, name: &str, text: &str) {
        self.on.campaign = OnLab::campaign(name, text);
        know(&mut self.on.campaign, &self.cloud);
    }

    /// Creates this file in `/shared` so that runs, which have another user, can append to it.
    pub fn count_in(&self, file: &str) {
        let shared = self.on.lab.shared();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("for all users")
        };
        fs::write(shared.join(file), "").expect("writes");
        open(&shared.join(file), 0o666);
        open(&shared, 0o1777);
    }

    /// Runs `cvc` on the laptop to its end.
    #[track_caller]
    pub fn cvc(&self, args: &[&str]) -> Finished {
        self.cvc_with(args, &[])
    }

    /// Runs `cvc` with further environment variables.
    #[track_caller]
    pub fn cvc_with(&self, args: &[&str], env: &[(&str, &str)]) -> Finished {
        let output = self.start_with(args, env).wait(LIMIT);
        if std::env::var_os("CVC_TEST_SAID").is_some() {
            eprintln!(
                "cvc {args:?} {env:?}: {:?}\n{}\n{}",
                output.code, output.stdout, output.stderr
            );
        }
        output
    }

    /// Starts `cvc` with further environment variables.
    pub fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        let mut command = self.on.command(args);
        command.envs(env.iter().copied());
        Running::start(command)
    }

    /// Kills a `cvc run` by SIGKILL. The process that entered the lab dies first and cvc with it, so the lock is free a moment later.
    pub fn kill(&self, cvc: Running) {
        cvc.kill();
        wait_until("the end of cvc", Duration::from_secs(20), || {
            self.on.lab.processes("cvc run campaign.toml").is_empty()
        });
    }

    /// Runs `cvc run` for the campaign, to its end.
    #[track_caller]
    pub fn run(&self) -> Finished {
        self.cvc(&["run", "campaign.toml"])
    }

    /// Checks that nothing is left in the cloud, and no key on this machine.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.cloud.assert_nothing_left();
        let keys = self.on.campaign.root().join("cloud");
        assert!(!keys.exists(), "{}", keys.display());
    }
}
