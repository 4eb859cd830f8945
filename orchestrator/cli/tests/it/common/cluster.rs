//! Campaigns on the nodes of a lab, controlled from the lab's laptop.

use cvc_testkit::{Campaign, Finished, Lab, Running, Tool};
use std::{process::Command, time::Duration};

/// Time limit of a whole campaign on a lab; all labs share one machine's cores.
pub const LIMIT: Duration = Duration::from_secs(900);

/// A lab, and a campaign of its laptop.
pub struct OnLab {
    pub lab: Lab,
    pub campaign: Campaign,
}

/// Returns the keys of a site for the two MPI libraries that work between nodes.
pub fn libraries(site: &str) -> String {
    let mpich5 = Tool::Mpich5
        .find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()))
        .expect("the test requires it");
    format!(
        "[sites.{site}.mpi.mpich5]\nfamily = \"mpich\"\nprefix = \"{}\"\n[sites.{site}.mpi.openmpi]\nfamily = \"openmpi\"\n",
        mpich5.display()
    )
}

/// Returns an ssh site of `nodes` nodes of a lab.
pub fn ssh_site(nodes: usize, keys: &str) -> String {
    ssh_site_with(nodes, keys, &libraries("lab"))
}

/// Returns an ssh site with other libraries (tables of the site).
pub fn ssh_site_with(nodes: usize, keys: &str, libraries: &str) -> String {
    let hosts: Vec<String> = (1..=nodes).map(|n| format!("\"n{n}\"")).collect();
    format!(
        "[sites.lab]\nkind = \"ssh\"\nhosts = [{}]\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 6\n{keys}\n{libraries}",
        hosts.join(", ")
    )
}

impl OnLab {
    /// Returns a campaign with this text on this lab.
    pub fn new(lab: Lab, name: &str, text: &str) -> Self {
        Self {
            lab,
            campaign: Self::campaign(name, text),
        }
    }

    /// Returns a campaign with this text for any lab.
    pub fn campaign(name: &str, text: &str) -> Campaign {
        let mut campaign = Campaign::new(env!("CARGO_BIN_EXE_cvc"), name, text);
        campaign.env(
            "CVC_NODE_PROGRAM",
            cvc_testkit::node_program().to_str().expect("UTF-8"),
        );
        campaign
    }

    /// Returns the command `cvc` on the laptop.
    pub fn command(&self, args: &[&str]) -> Command {
        Self::command_of(&self.lab, &self.campaign, args)
    }

    /// Returns the command `cvc` for a campaign on a lab's laptop.
    pub fn command_of(lab: &Lab, campaign: &Campaign, args: &[&str]) -> Command {
        let here = campaign.command(args);
        let mut command = lab.command(here.get_program());
        command.args(here.get_args()).current_dir(campaign.dir());
        // the laptop's state is in its home directory
        for (name, value) in here
            .get_envs()
            .filter(|(name, _)| *name != "XDG_STATE_HOME")
        {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Starts `cvc` on the laptop.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Runs `cvc run` for the campaign, to its end.
    #[track_caller]
    pub fn run(&self) -> Finished {
        self.start(&["run", "campaign.toml"]).wait(LIMIT)
    }

    /// Panics if a process or a file of cvc or of its runs is left on a node.
    #[track_caller]
    pub fn assert_nothing_left(&self, nodes: &[&str]) {
        for name in nodes {
            let node = self.lab.node(name);
            for pattern in [
                "cvc-node",
                "kernel-",
                "hydra",
                "orted",
                "mpiexec",
                "mpirun",
                "script.sh",
            ] {
                // A relay or shepherd may still be ending after it has reported its end.
                let what = format!("the end of every {pattern:?} on {name}");
                cvc_testkit::wait_until(&what, Duration::from_secs(10), || {
                    node.processes(pattern).is_empty()
                });
            }
            let files = node.shell("ls -d /root/.cvc/spool/*/* /tmp/cvc-* /scratch-local/* /dev/shm/* 2>/dev/null || :");
            assert_eq!(files, "", "{name}");
        }
    }
}

/// Returns a Slurm site of the four nodes of a lab with a login node.
pub fn slurm_site(keys: &str, slurm_keys: &str) -> String {
    slurm_site_with(keys, slurm_keys, &libraries("slurm"))
}

/// Returns such a Slurm site with other libraries (tables of the site).
pub fn slurm_site_with(keys: &str, slurm_keys: &str, libraries: &str) -> String {
    format!(
        "[sites.slurm]\nkind = \"slurm\"\nlogin = \"login\"\nbase = \"/shared/cvc\"\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 6\n{keys}\n\
         [sites.slurm.slurm]\nnodes = 4\n{slurm_keys}\n{libraries}"
    )
}
