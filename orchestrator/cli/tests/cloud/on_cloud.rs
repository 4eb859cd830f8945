//! Campaigns on instances of the test kit's cloud, which are nodes of a lab.

use crate::common::cluster::{LIMIT, OnLab, libraries};
use cvc_testkit::{Cloud, Finished, Lab, Running, Tool};

/// A lab, its cloud, and a campaign of the lab's laptop.
pub struct OnCloud {
    // the cloud goes before the lab in which it lives
    pub cloud: Cloud,
    pub on: OnLab,
}

/// An ec2 site named `cloud`; `ec2` are further keys of its table, `keys` of the site.
pub fn ec2_site(cloud: &Cloud, nodes: u32, keys: &str, ec2: &str) -> String {
    format!(
        "[sites.cloud]\nkind = \"ec2\"\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 6\n{keys}\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
         instance_types = [\"c5.xlarge\"]\nnodes = {nodes}\nimage = \"{}\"\n{ec2}\n{}",
        cloud.image("x86_64"),
        libraries("cloud")
    )
}

impl OnCloud {
    /// A campaign whose text depends on the cloud.
    pub fn new(lab: Lab, cloud: Cloud, name: &str, text: &str) -> Self {
        let mut on = OnLab::new(lab, name, text);
        for (variable, value) in cloud.environment() {
            on.campaign.env(&variable, &value);
        }
        // where the set-up has put it
        let ansible = Tool::Ansible.find().expect("the test requires it");
        let path = format!("{}:{}", ansible.parent().expect("a directory").display(), std::env::var("PATH").unwrap_or_default());
        on.campaign.env("PATH", &path);
        // no other test's instances
        on.campaign.env("CVC_OWNER", "ada@laptop");
        Self { cloud, on }
    }

    /// Starts `cvc` with further environment.
    pub fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        let mut command = self.on.command(args);
        command.envs(env.iter().copied());
        Running::start(command)
    }

    /// `cvc run` of the campaign, to its end.
    #[track_caller]
    pub fn run(&self) -> Finished {
        let said = self.on.start(&["run", "campaign.toml"]).wait(LIMIT);
        if std::env::var_os("CVC_TEST_SAID").is_some() {
            eprintln!("{}\n{}", said.stdout, said.stderr);
        }
        said
    }

    /// Nothing in the cloud, and no key here.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.cloud.assert_nothing_left();
        let keys = self.on.campaign.root().join("cloud");
        assert!(!keys.exists(), "{}", keys.display());
    }
}
