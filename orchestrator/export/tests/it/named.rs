//! A campaign with names of hosts, users and accounts, addresses and secrets in all places where they can occur.

use crate::{common, made::Made};
use camino::Utf8PathBuf;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Names that must not be in an artefact.
pub const NAMES: [&str; 20] = [
    "graphene",
    "nancy",
    "grid-uni",
    "lovelace",
    "babbage",
    "hopper",
    "quenya",
    "10.77.3.",
    "2001:db8",
    "02:42:ac",
    "123456789012",
    "i-0a1b2c3d",
    "sg-0feedbee",
    "laptop-of-ada",
    "my-aws-profile",
    "my-ssh-key",
    "SeCrEt-VaLuE",
    "tok-98765-xyz",
    "hunter2hunter2",
    "PRIVATE KEY",
];

const CAMPAIGN: &str = r#"
[campaign]
name = "made-up"
# asked quenya@login.nancy.grid-uni.org for an account
[sites.made-up]
kind = "ssh"
user = "lovelace"
identity_file = "/home/lovelace/.ssh/id_ed25519"
hosts = ["graphene-1.nancy.grid-uni.org", { name = "graphene-2", address = "10.77.3.2" }]
head = { name = "graphene-1", user = "lovelace" }
storage.scratch.path = "/srv/lovelace/scratch"
[sites.made-up.mpi.mpich.env]
API_TOKEN = "tok-98765-xyz"
db_password = "hunter2hunter2"
"#;

/// Writes a campaign that ran on a cluster and in a cloud, with names in all places where they can occur.
pub fn campaign_with_names(dir: &Path) {
    let made = common::campaign(dir);
    fs::write(dir.join("campaign.toml"), CAMPAIGN).expect("a campaign file");
    fs::write(
        dir.join("cvc.lock"),
        "format = 1\n[sites.made-up]\nhosts = [\"graphene-1\", \"graphene-2\"]\n\
         [sites.made-up.components.dmtcp]\nversion = \"3.0\"\npath = \"/home/lovelace/dmtcp\"\n",
    )
    .expect("a lock");
    fs::write(
        dir.join("hosts.json"),
        json!([{ "name": "graphene-1", "user": "babbage" }]).to_string(),
    )
    .expect("hosts");
    // rewrites the journal, with more entries after the first lines
    let old = fs::read_to_string(dir.join("journal.jsonl")).expect("a journal");
    let mut lines: Vec<Value> = old
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let more = [
        json!({ "event": "site-opened", "site": "made-up", "place": {
            "kind": "ssh", "base": "/home/lovelace/.cvc",
            "head": { "name": "graphene-1", "address": "graphene-1.nancy.grid-uni.org", "user": "lovelace" },
            "ssh": { "config": "/home/babbage/.ssh/config", "host_keys": "strict" } } }),
        json!({ "event": "lease-intended", "lease": "c5-1", "site": "c5", "nodes": 1, "order": {
            "tags": { "owner": "hopper@laptop-of-ada", "campaign": "made-up", "site": "c5", "fleet": "f" },
            "region": "us-east-1", "profile": "my-aws-profile", "instance_type": "c5.xlarge", "vcpus": 4, "count": 1, "spot": false,
            "usd_per_hour": 0.18, "image": "ami-1", "root_device": "/dev/xvda", "key_name": "my-ssh-key",
            "group_id": "sg-0feedbee0feedbee0", "efa": false, "root": {}, "volumes": [], "lifetime_s": 14400 } }),
        json!({ "event": "lease-acquired", "lease": "c5-1", "by": { "instances": ["i-0a1b2c3d4e5f60718"] } }),
        json!({ "event": "lease-lost", "lease": "c5-1", "instances": ["i-0a1b2c3d4e5f60718"],
            "why": "arn:aws:ec2:us-east-1:123456789012:instance/i-0a1b2c3d4e5f60718 at 10.77.3.9 and 2001:db8::17 is gone" }),
        json!({ "event": "lease-released", "lease": "c5-1", "how": "ec2-10-77-3-9 said: 02:42:ac:11:00:02" }),
    ];
    let at = lines[1]["at"].clone();
    for (n, mut entry) in more.into_iter().enumerate() {
        entry["at"] = at.clone();
        lines.insert(2 + n, entry);
    }
    let mut text = String::new();
    let mut named = false;
    for (n, line) in lines.iter_mut().enumerate() {
        line["seq"] = json!(n + 1);
        if line["event"] == "run-intended" {
            line["nodes"] = json!({ "set": 1 });
            if !std::mem::replace(&mut named, true) {
                line["nodes"]["names"] = json!("graphene-[1-2]");
            }
        }
        if line["outcome"]["result"] == "failed" {
            line["outcome"]["detail"] = json!(
                "ssh: lovelace@graphene-7: refused\nbabbage\nMY_SECRET=SeCrEt-VaLuE graphene-[1-2] GRAPHENE-2"
            );
        }
        let json = serde_json::to_vec(line).expect("JSON");
        let line = cvc_core::store::line_file::with_sum(json).expect("a line");
        text.push_str(std::str::from_utf8(&line).expect("text"));
    }
    fs::write(dir.join("journal.jsonl"), text).expect("a journal");
    for run in &made.plan.runs {
        let of_run = dir.join(format!("runs/{}", run.id));
        let Ok(text) = fs::read(of_run.join("facts.json")) else {
            continue;
        };
        let mut facts: Value = serde_json::from_slice(&text).expect("JSON");
        facts["node"] = json!({ "host": "laptop-of-ada", "cpu": "Made-Up 3000", "cores": 8, "memory": "64 GB" });
        facts["node_names"] = json!("graphene-1 graphene-2");
        facts["env"] = json!({ "API_TOKEN": "tok-98765-xyz", "HOME": "/home/lovelace" });
        facts["nodes"] = json!([{
            "name": "graphene-1", "host": "graphene-1.nancy.grid-uni.org", "cpu": "Xeon of Old", "cores": 16,
            "memory_bytes": 68_719_476_736_u64, "kernel": "5.10.0-23-amd64",
            "interfaces": ["eth0 10000 Mbit/s 10.77.3.1 2001:db8::1 02:42:ac:11:00:02"],
        }]);
        fs::write(of_run.join("facts.json"), facts.to_string()).expect("facts");
        fs::write(
            of_run.join("stderr.log"),
            "lovelace@graphene-1 hunter2hunter2",
        )
        .expect("a log");
        let records = fs::read_to_string(of_run.join("records.jsonl")).expect("records");
        let records = records.replace("\"stdout.log\"", "\"/home/lovelace/graphene-1/stdout.log\"");
        fs::write(of_run.join("records.jsonl"), records).expect("records");
    }
}

/// Writes a report that names the machines, and a file next to it.
pub fn report(made: &Made) -> Utf8PathBuf {
    let dir = made.path("report");
    fs::create_dir_all(dir.join("csv")).expect("a directory");
    fs::write(dir.join("report.html"), "<p>on graphene-1, by lovelace</p>").expect("a report");
    fs::write(dir.join("csv/x.csv"), "host\r\nGraphene-2\r\n").expect("a table");
    fs::write(dir.join("core.dump"), "hopper").expect("something else");
    dir
}
