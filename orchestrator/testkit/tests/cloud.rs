//! The cloud itself, asked by curl from the laptop.

use std::time::Duration;

use cvc_testkit::{Cloud, Lab, Tool, lab::output_within, require, wait_until};

/// Asks EC2 of the cloud; the status and the body. `None` if the connection was closed without an answer.
fn ask(lab: Option<&Lab>, cloud: &Cloud, parameters: &[(&str, &str)]) -> Option<(u16, String)> {
    let mut curl = lab.map_or_else(|| std::process::Command::new("curl"), |lab| lab.command("curl"));
    let scope = "Authorization: AWS4-HMAC-SHA256 Credential=AKIACVCTESTKITMADEUP/20260101/us-east-1/ec2/aws4_request, Signature=0";
    curl.args(["-s", "-m", "60", "-w", "\n%{http_code}", "-H", scope, "--data-urlencode", "Version=2016-11-15", &cloud.endpoint()]);
    for (name, value) in parameters {
        curl.args(["--data-urlencode", &format!("{name}={value}")]);
    }
    let output = output_within(curl, Duration::from_secs(60));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n')?;
    status.parse().ok().filter(|s| *s != 0).map(|status| (status, body.to_owned()))
}

/// What stands in elements of this name.
fn all(body: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    body.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).map(str::to_owned).collect()
}

#[track_caller]
fn good(answer: Option<(u16, String)>) -> String {
    match answer {
        Some((200, body)) => body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn instances_are_nodes() {
    require!(Tool::Lab, Tool::Moto);
    let begin = std::time::Instant::now();
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    eprintln!("lab and cloud: {:.2?}", begin.elapsed());
    let key = lab.directory().join("key");
    assert!(lab.exec(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &key.display().to_string()]).status.success());
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    use base64::prelude::{BASE64_STANDARD, Engine};
    good(ask(
        Some(&lab),
        &cloud,
        &[("Action", "ImportKeyPair"), ("KeyName", "k"), ("PublicKeyMaterial", &BASE64_STANDARD.encode(&public))],
    ));
    let script = BASE64_STANDARD
        .encode("#!/bin/sh\nid -un >/root/user-data\nsetsid sh -c 'while [ ! -e /etc/off ]; do sleep 0.1; done; poweroff' &\n");
    let image = cloud.image("x86_64");
    let launch = [
        ("Action", "RunInstances"),
        ("ImageId", &image),
        ("InstanceType", "c5.large"),
        ("KeyName", "k"),
        ("MinCount", "1"),
        ("MaxCount", "2"),
        ("UserData", &script),
        ("ClientToken", "t1"),
        ("InstanceInitiatedShutdownBehavior", "terminate"),
    ];
    let begin = std::time::Instant::now();
    let said = good(ask(Some(&lab), &cloud, &launch));
    let ids = all(&said, "instanceId");
    assert_eq!(ids.len(), 2, "{said}");
    assert_eq!(all(&said, "name"), ["pending", "pending"]);
    wait_until("running", Duration::from_secs(30), || cloud.instances().iter().all(|i| i.state == "running"));
    eprintln!("2 instances: {:.2?} {:?}", begin.elapsed(), cloud.instances());
    for instance in cloud.instances() {
        let to = format!("admin@{}", instance.address);
        let said = lab.exec(&[
            "ssh",
            "-i",
            &key.display().to_string(),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
            &to,
            "hostname; sudo id -un; sudo cat /root/user-data",
        ]);
        eprintln!("{said:?}");
    }
    cloud.node(&ids[0]).shell("touch /etc/off");
    wait_until("off", Duration::from_secs(10), || cloud.instances()[0].state == "terminated");
    good(ask(Some(&lab), &cloud, &[("Action", "TerminateInstances"), ("InstanceId.1", &ids[1])]));
    wait_until("terminated", Duration::from_secs(10), || cloud.instances()[1].state == "terminated");
    good(ask(Some(&lab), &cloud, &[("Action", "DeleteKeyPair"), ("KeyName", "k")]));
    eprintln!("{}", cloud.troubles());
    cloud.assert_nothing_left();
}
