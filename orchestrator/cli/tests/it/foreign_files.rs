//! Tests of campaign files and directories of other users: which commands start the programs that they name, and which of the user's secrets these
//! receive.

use crate::common::{SITE, campaign};
use cvc_testkit::{Campaign, Running, campaign::LIMIT};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

const SECRETS: [(&str, &str); 4] = [
    ("AWS_SECRET_ACCESS_KEY", "s3cr3t-1"),
    ("GITHUB_TOKEN", "s3cr3t-2"),
    ("DB_PASSWORD", "s3cr3t-3"),
    ("DEPLOY_KEY", "s3cr3t-4"),
];

/// A campaign on a site whose inventory is a program, which writes its environment into a file at each start.
struct Foreign {
    campaign: Campaign,
    starts: PathBuf,
}

impl Foreign {
    fn new(name: &str) -> Self {
        let text = format!(
            "{SITE}[sites.lab]\nkind = \"ssh\"\ninventory = \"inv.sh\"\n\
             [matrix]\nsite = \"lab\"\napp = \"script\"\nmapping = [\"1Nx1P\", \"3Nx1P\"]\nmpi = \"mpich\"\n"
        );
        let mut campaign = campaign(name, &text);
        campaign.script_app("script", "echo SUCCESS", "");
        let starts = campaign.dir().join("starts");
        fs::create_dir(&starts).expect("makes");
        let program = |name: &str, text: String| {
            let path = campaign.put(name, &text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
        };
        program(
            "inv.sh",
            format!(
                "#!/bin/sh\nenv > {}/$$\necho '127.0.0.1'\n",
                starts.display()
            ),
        );
        // the replacement of the user's tool, which only starts the inventory
        program(
            "tools/ansible-inventory",
            "#!/bin/sh\nhost=$(sh \"$2\") || exit 1\n\
             echo '{\"_meta\": {\"hostvars\": {\"'$host'\": {\"ansible_port\": 1}}}, \"all\": {\"hosts\": [\"'$host'\"]}}'\n"
                .into(),
        );
        let path = std::env::var("PATH").expect("PATH");
        let tools = campaign.dir().join("tools").display().to_string();
        campaign.env("PATH", &format!("{tools}:{path}"));
        // nothing listens at the host's port, so that this program is never started there
        campaign.env("CVC_NODE_PROGRAM", "/bin/true");
        for (name, value) in SECRETS {
            campaign.env(name, value);
        }
        Self { campaign, starts }
    }

    /// Returns the environment of each start of the inventory.
    fn starts(&self) -> Vec<String> {
        let files = fs::read_dir(&self.starts).expect("a directory").flatten();
        files
            .map(|file| fs::read_to_string(file.path()).expect("reads"))
            .collect()
    }

    #[track_caller]
    fn assert_started_without_secrets(&self, starts: usize) {
        let found = self.starts();
        assert_eq!(found.len(), starts);
        for environment in found {
            assert!(
                environment.contains("PATH=") && !environment.contains("s3cr3t"),
                "{environment}"
            );
        }
    }

    /// Makes the directory of a campaign that another user made elsewhere, with the inventory in it.
    fn publish(&self) {
        let root = self.campaign.root();
        for directory in ["runs", "apps"] {
            fs::create_dir_all(root.join(directory)).expect("makes");
        }
        for file in ["campaign.toml", "inv.sh", "apps/script.toml"] {
            fs::copy(self.campaign.dir().join(file), root.join(file)).expect("copies");
        }
        let plan = self
            .campaign
            .cvc(&["plan", "campaign.toml", "--json"])
            .expect(0)
            .stdout;
        fs::write(root.join("plan.json"), plan).expect("writes");
        fs::write(root.join("journal.jsonl"), "").expect("writes");
    }
}

#[test]
fn no_command_but_run_doctor_and_install_starts_what_a_campaign_file_names() {
    let foreign = Foreign::new("foreign");
    let c = &foreign.campaign;
    foreign.publish();
    let dir = "campaigns/foreign";
    let commands: [&[&str]; 17] = [
        &["plan", "campaign.toml"],
        &["plan", "campaign.toml", "--json"],
        &["plan", "campaigns/foreign/campaign.toml"],
        &["prices", "campaign.toml"],
        &["status", "campaign.toml"],
        &["status", dir],
        &["report", "campaign.toml", "--to", "r1"],
        &["report", dir, "--to", "r2"],
        &["aa-test", dir],
        &["fsck", "campaign.toml"],
        &["fsck", dir],
        &["fsck", dir, "--repair"],
        &["down", "campaign.toml"],
        &["down", dir],
        &["predict", "--from", dir],
        &["image", dir],
        &["sweep", "--dry-run"],
    ];
    for command in commands {
        let finished = Running::start(c.command(command)).wait(LIMIT);
        assert_ne!(finished.code, None, "{command:?}: {}", finished.stderr);
        assert_eq!(
            foreign.starts(),
            Vec::<String>::new(),
            "{command:?} started it"
        );
    }
    for command in [["report", dir], ["down", dir], ["down", "campaign.toml"]] {
        c.cvc(&command).expect(0);
    }
}

#[test]
fn a_plan_tells_that_it_does_not_know_the_nodes_of_an_inventory_program() {
    let foreign = Foreign::new("unknown");
    let plan = foreign.campaign.cvc(&["plan", "campaign.toml"]).expect(0);
    let told = plan.stdout.replace('\n', " ");
    assert!(
        told.contains("nodes of the site lab: unknown") && told.contains("inv.sh"),
        "{}",
        plan.stdout
    );
    assert!(
        told.contains("hint: ") && told.contains("--list --yaml --output hosts.yml"),
        "{}",
        plan.stdout
    );
    let json = foreign
        .campaign
        .cvc(&["plan", "campaign.toml", "--json"])
        .expect(0);
    assert!(
        json.stderr.contains("nodes of the site lab: unknown"),
        "{}",
        json.stderr
    );
    foreign.assert_started_without_secrets(0);
}

#[test]
fn doctor_run_and_install_start_an_inventory_once_say_so_and_keep_secrets_from_it() {
    let foreign = Foreign::new("asked");
    let c = &foreign.campaign;
    let commands: [&[&str]; 4] = [
        &["doctor", "campaign.toml"],
        &["doctor", "lab"],
        &["install", "lab", "--inventory-only", "out"],
        &["run", "campaign.toml"],
    ];
    for (i, command) in commands.iter().enumerate() {
        let finished = c.cvc(command);
        let told = finished
            .stderr
            .matches("running the inventory program")
            .count();
        assert_eq!(told, 1, "{command:?}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("inv.sh of campaign.toml"),
            "{}",
            finished.stderr
        );
        foreign.assert_started_without_secrets(i + 1);
    }
    // with one host, points that need three nodes are excluded after the inventory was queried
    let plan = fs::read_to_string(c.root().join("plan.json")).expect("a plan");
    assert!(plan.contains("the site `lab` has 1"), "{plan}");
    // closing the campaign does not need the inventory, because its hosts were stored
    let kept = fs::read_to_string(c.root().join("hosts.json")).expect("hosts");
    assert!(
        kept.contains("127.0.0.1") && kept.contains("\"port\": 1"),
        "{kept}"
    );
    for campaign in ["campaign.toml", "campaigns/asked"] {
        let down = c.cvc(&["down", campaign]);
        assert!(!down.stderr.contains("inventory"), "{}", down.stderr);
    }
    foreign.assert_started_without_secrets(commands.len());
}

#[test]
fn an_inventory_that_fails_is_told_at_its_place() {
    let foreign = Foreign::new("broken");
    foreign.campaign.put(
        "tools/ansible-inventory",
        "#!/bin/sh\necho 'it is broken' >&2\nexit 3\n",
    );
    let refused = foreign.campaign.run().expect(2);
    assert!(
        refused.stderr.contains("campaign.toml:7:13") && refused.stderr.contains("it is broken"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_plan_starts_no_launcher_and_no_checkpointer_that_the_file_names() {
    let mut c = campaign("named", "");
    let started = c.dir().join("started");
    let program = format!("#!/bin/sh\ntouch {}\n", started.display());
    for name in [
        "evil/bin/mpiexec",
        "evil/bin/mpicc",
        "evil/bin/dmtcp_launch",
        "modules/bin/bash",
    ] {
        fs::set_permissions(c.put(name, &program), fs::Permissions::from_mode(0o755))
            .expect("a program");
    }
    let evil = c.dir().join("evil").display().to_string();
    c.rewrite(&format!(
        "[sites.local]\nkind = \"local\"\ndmtcp = {{ prefix = \"{evil}\" }}\n\
         [sites.local.mpi.a]\nfamily = \"mpich\"\nprefix = \"{evil}\"\n\
         [sites.local.mpi.b]\nfamily = \"openmpi\"\nmpiexec = \"{evil}/bin/mpiexec\"\n\
         [sites.local.mpi.c]\nfamily = \"mpich\"\nmodule = \"evil\"\n\
         [sites.local.mpi.d]\nfamily = \"mpich\"\nmpiexec = \"{evil}/bin/mpiexec\"\nenv = {{ LD_PRELOAD = \"{evil}/evil.so\" }}\n\
         [matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\nmpi = [\"a\", \"b\", \"c\", \"d\"]\ncheckpointer = \"dmtcp\"\n"
    ));
    // modules are loaded by the user's bash, which must not be started either
    let path = format!(
        "{}:{}",
        c.dir().join("modules/bin").display(),
        std::env::var("PATH").expect("PATH")
    );
    c.env("PATH", &path);
    let plan = c.cvc(&["plan", "campaign.toml"]).expect(0);
    assert!(!started.exists(), "{}", plan.stdout);
    let told = plan.stdout.replace('\n', " ");
    assert!(
        told.contains("a, b, c, d, DMTCP of the site local: found but not started"),
        "{}",
        plan.stdout
    );
    c.cvc(&["doctor", "campaign.toml"]);
    assert!(
        started.exists(),
        "the programs of this test are not what would be started"
    );
}
