//! Tests of instances that are nodes of a lab.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine};
use cvc_testkit::{
    Cloud, Lab, Tool,
    lab::{Image, Node, output_within},
    require, wait_until,
};

use super::{Client, all};

/// Creates a key on the laptop and imports it as `key`.
fn key(lab: &Lab, client: &Client) -> PathBuf {
    let file = lab.directory().join("key");
    let made = lab.exec(&[
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-f",
        &file.display().to_string(),
    ]);
    assert!(made.status.success(), "{made:?}");
    client.import_key(
        "key",
        &fs::read_to_string(file.with_extension("pub")).expect("a key"),
    );
    file
}

fn ssh(lab: &Lab, key: Option<&PathBuf>, to: &str, command: &str) -> Output {
    let mut ssh = lab.command("ssh");
    ssh.args([
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        "-o",
        "ConnectTimeout=3",
    ]);
    if let Some(key) = key {
        ssh.args(["-o", "IdentitiesOnly=yes", "-i"]).arg(key);
    }
    ssh.args([to, command]);
    output_within(ssh, Duration::from_secs(60))
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn wait_for(cloud: &Cloud, state: &str) {
    wait_until(state, Duration::from_secs(60), || {
        cloud.instances().iter().all(|i| i.state == state)
    });
}

#[test]
fn instances_are_nodes_that_accept_only_their_key() {
    require!(Tool::Lab, Tool::Moto);
    let begin = Instant::now();
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    eprintln!("a lab and a cloud: {:.2?}", begin.elapsed());
    let client = Client::of(&cloud, Some(&lab));
    let key = key(&lab, &client);
    let script = BASE64_STANDARD.encode("#!/bin/sh\necho as $(id -un)\ntouch /root/done\n");
    let begin = Instant::now();
    let ids = client.launch(
        "2",
        &[
            ("UserData", &script),
            ("Placement.AvailabilityZone", "us-east-1b"),
        ],
    );
    assert_eq!(client.states(&[]), ["pending"; 2]);
    wait_for(&cloud, "running");
    eprintln!("2 instances reachable: {:.2?}", begin.elapsed());
    let instances = cloud.instances();
    for (instance, other) in instances.iter().zip(instances.iter().rev()) {
        let (to, name) = (
            format!("admin@{}", instance.address),
            format!("ip-{}", instance.address.to_string().replace('.', "-")),
        );
        assert_eq!(
            text(&ssh(&lab, Some(&key), &to, "hostname; id -un; sudo id -un")),
            format!("{name}\nadmin\nroot\n")
        );
        assert!(
            !ssh(&lab, None, &to, "true").status.success(),
            "the lab's own key opens {name}"
        );
        assert!(
            !ssh(
                &lab,
                Some(&key),
                &format!("root@{}", instance.address),
                "true"
            )
            .status
            .success()
        );
        let connects = format!(
            "timeout 5 bash -c 'exec 3<>/dev/tcp/{}/22' && getent hosts {name}",
            other.address
        );
        assert!(ssh(&lab, Some(&key), &to, &connects).status.success());
        wait_until("the user data", Duration::from_secs(20), || {
            cloud
                .node(&instance.id)
                .exec(&["test", "-e", "/root/done"])
                .status
                .success()
        });
        let console = all(
            &client.ask("GetConsoleOutput", &[("InstanceId", &instance.id)]),
            "output",
        )
        .remove(0);
        let console =
            String::from_utf8(BASE64_STANDARD.decode(console).expect("base64")).expect("a text");
        let of_host = cloud
            .node(&instance.id)
            .shell("ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key | cut -d' ' -f1,2");
        assert!(
            console.contains("as root") && console.contains(of_host.trim()),
            "{console}"
        );
    }
    let described = client.ask("DescribeInstances", &[]);
    assert_eq!(
        all(&described, "ipAddress"),
        instances
            .iter()
            .map(|i| i.address.to_string())
            .collect::<Vec<_>>()
    );
    client.ask(
        "TerminateInstances",
        &[("InstanceId.1", &ids[0]), ("InstanceId.2", &ids[1])],
    );
    wait_for(&cloud, "terminated");
    assert!(
        !ssh(
            &lab,
            Some(&key),
            &format!("admin@{}", instances[0].address),
            "true"
        )
        .status
        .success()
    );
    client.ask("DeleteKeyPair", &[("KeyName", "key")]);
    cloud.assert_nothing_left();
}

#[test]
fn an_instance_that_switches_itself_off_is_terminated_or_stopped_as_requested() {
    require!(Tool::Lab, Tool::Moto);
    let lab = Lab::builder().nodes(0).build();
    let cloud = Cloud::start(&lab);
    let client = Client::of(&cloud, Some(&lab));
    let key = key(&lab, &client);
    let deadline = "#!/bin/sh\ndate -d '+2 seconds' +%s >/etc/cvc-deadline\n\
        setsid sh -c 'while [ \"$(date +%s)\" -lt \"$(cat /etc/cvc-deadline)\" ]; do sleep 0.2; done; poweroff' </dev/null >/dev/null 2>&1 &\n";
    let script = BASE64_STANDARD.encode(deadline);
    let terminated = client
        .launch(
            "1",
            &[
                ("UserData", &script),
                ("InstanceInitiatedShutdownBehavior", "terminate"),
            ],
        )
        .remove(0);
    let stopped = client.launch("1", &[]).remove(0);
    wait_until("both", Duration::from_secs(60), || {
        cloud.instances().iter().all(|i| i.state != "pending")
    });
    let address = cloud.instances()[1].address;
    // the connection may break before the command ends
    let _ = ssh(
        &lab,
        Some(&key),
        &format!("admin@{address}"),
        "sudo shutdown -h now",
    );
    let state = |n: usize| cloud.instances()[n].state.clone();
    wait_until("the deadline", Duration::from_secs(30), || {
        state(0) == "terminated" && state(1) == "stopped"
    });
    let described = client.ask("DescribeInstances", &[("InstanceId.1", &terminated)]);
    assert!(
        described.contains("<code>Client.InstanceInitiatedShutdown</code>"),
        "{described}"
    );
    assert_eq!(cloud.alive().volumes.len(), 1);
    client.ask("TerminateInstances", &[("InstanceId.1", &stopped)]);
    wait_for(&cloud, "terminated");
}

#[test]
fn a_spot_instance_gets_a_notice_and_loses_power() {
    require!(Tool::Lab, Tool::Moto);
    let lab = Lab::builder().nodes(0).build();
    let cloud = Cloud::start(&lab);
    let client = Client::of(&cloud, Some(&lab));
    let key = key(&lab, &client);
    let id = client
        .launch("1", &[("InstanceMarketOptions.MarketType", "spot")])
        .remove(0);
    wait_for(&cloud, "running");
    let to = format!("admin@{}", cloud.instances()[0].address);
    let ask = |script: &str| {
        // use bash alone, which a minimal image has
        let script = format!(
            "request() {{ exec 3<>/dev/tcp/169.254.169.254/80; printf \"$1 $2 HTTP/1.0\\r\\n$3\\r\\n\\r\\n\" >&3; cat <&3 | tr -d '\\r'; exec 3<&-; }}; {script}"
        );
        text(&ssh(
            &lab,
            Some(&key),
            &to,
            &format!("bash -c '{}'", script.replace('\'', "'\\''")),
        ))
    };
    let token = "token=$(request PUT /latest/api/token \"X-aws-ec2-metadata-token-ttl-seconds: 60\" | tail -n 1)";
    let get = |path: &str| {
        ask(&format!(
            "{token}; request GET /latest/meta-data/{path} \"X-aws-ec2-metadata-token: $token\""
        ))
    };
    assert!(ask("request GET /latest/meta-data/instance-id \"A: b\"").starts_with("HTTP/1.0 401"));
    assert!(
        get("instance-id").ends_with(&format!("\n{id}")),
        "{}",
        get("instance-id")
    );
    assert!(get("placement/availability-zone").ends_with("\nus-east-1a"));
    assert!(get("spot/instance-action").starts_with("HTTP/1.0 404"));
    // the metadata service runs again after the machine was switched off and on
    cloud.node(&id).restart();
    wait_until("the service", Duration::from_secs(20), || {
        get("instance-type").ends_with("\nc5.large")
    });
    let begin = Instant::now();
    cloud.interrupt(&id, Duration::from_secs(8));
    assert!(
        get("spot/instance-action").contains("{\"action\":\"terminate\",\"time\":\""),
        "{}",
        get("spot/instance-action")
    );
    assert_eq!(cloud.instances()[0].state, "running");
    wait_for(&cloud, "terminated");
    assert!(begin.elapsed() >= Duration::from_secs(8));
    let described = client.ask("DescribeInstances", &[]);
    assert!(
        described.contains("<code>Server.SpotInstanceTermination</code>"),
        "{described}"
    );
    assert_eq!(cloud.alive().spot_requests, Vec::<String>::new());
}

#[test]
fn some_instances_are_never_reachable_and_others_break() {
    require!(Tool::Lab, Tool::Moto);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let client = Client::of(&cloud, Some(&lab));
    let key = key(&lab, &client);
    cloud.never_reachable(1);
    let ids = client.launch("2", &[]);
    wait_for(&cloud, "running");
    let reaches = |n: usize| {
        ssh(
            &lab,
            Some(&key),
            &format!("admin@{}", cloud.instances()[n].address),
            "true",
        )
        .status
        .success()
    };
    assert!(!reaches(0) && reaches(1));
    assert_eq!(client.states(&[]), ["running"; 2]);
    // a fault of the machine does not end the instance
    cloud.node(&ids[1]).poweroff();
    let checks = |id: &str| {
        all(
            &client.ask("DescribeInstanceStatus", &[("InstanceId.1", id)]),
            "status",
        )
    };
    wait_until("the checks", Duration::from_secs(20), || {
        checks(&ids[1]).contains(&"impaired".to_owned())
    });
    assert_eq!(client.states(&[]), ["running"; 2]);
    client.ask(
        "TerminateInstances",
        &[("InstanceId.1", &ids[0]), ("InstanceId.2", &ids[1])],
    );
    wait_for(&cloud, "terminated");
}

#[test]
fn instances_start_from_the_image_of_the_lab_and_the_lab_may_end_first() {
    require!(Tool::LabImage, Tool::Moto);
    let lab = Lab::builder().nodes(1).image(Image::Base).build();
    let cloud = Cloud::start(&lab);
    let client = Client::of(&cloud, Some(&lab));
    let key = key(&lab, &client);
    client.launch("1", &[]);
    wait_for(&cloud, "running");
    let to = format!("admin@{}", cloud.instances()[0].address);
    let finished = ssh(
        &lab,
        Some(&key),
        &to,
        "command -v cc || sudo apt-get -q update >/dev/null && sudo apt-get -q install -y make >/dev/null && make --version",
    );
    assert!(text(&finished).contains("GNU Make"), "{}", text(&finished));
    drop(lab);
    drop(cloud);
}

/// Returns the backing files in /sys of the loop devices behind these devices of a node.
fn loops(node: &Node, devices: &[&str]) -> Vec<String> {
    let numbers = node.shell(&format!("stat -Lc %Lr {}", devices.join(" ")));
    numbers
        .lines()
        .map(|n| format!("/sys/block/loop{n}/loop/backing_file"))
        .collect()
}

/// Counts the backing files that still exist.
fn in_use(loops: &[String]) -> usize {
    loops.iter().filter(|file| Path::new(file).exists()).count()
}

#[test]
fn volumes_are_block_devices_of_their_size_and_disappear_with_the_instance() {
    require!(Tool::Lab, Tool::Moto, Tool::LoopDevices);
    let lab = Lab::builder().nodes(0).build();
    let cloud = Cloud::start(&lab);
    let client = Client::of(&cloud, Some(&lab));
    key(&lab, &client);
    let volume = [
        ("BlockDeviceMapping.1.DeviceName", "/dev/sdf"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "3"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
    ];
    // one type with NVMe and one instance store, and one without NVMe and with two instance stores
    let ids = ["c5d.large", "c3.xlarge"].map(|kind| {
        client
            .launch(
                "1",
                &[volume[0], volume[1], volume[2], ("InstanceType", kind)],
            )
            .remove(0)
    });
    wait_for(&cloud, "running");
    let [nitro, xen] = [&ids[0], &ids[1]].map(|id| cloud.node(id));
    let of_nitro = loops(&nitro, &["/dev/nvme1n1", "/dev/nvme2n1"]);
    let of_xen = loops(&xen, &["/dev/xvdb", "/dev/xvdc", "/dev/xvdf"]);
    assert_eq!((in_use(&of_nitro), in_use(&of_xen)), (2, 3));
    let size = "bytes() { cat /sys/dev/block/$(stat -Lc '%Hr:%Lr' $1)/size; };";
    assert_eq!(
        nitro.shell(&format!("{size} bytes /dev/sdf; readlink -f /dev/sdf; bytes /dev/nvme2n1; ls /dev/disk/by-id | cut -d_ -f1-4")),
        format!("{}\n/dev/nvme1n1\n{}\nnvme-Amazon_EC2_NVMe_Instance\nnvme-Amazon_Elastic_Block_Store\n", 3 << 21, 4_000_000_000_u64 / 512)
    );
    assert_eq!(
        xen.shell(&format!("{size} bytes /dev/xvdf; ls /dev/xvd*")),
        format!("{}\n/dev/xvdb\n/dev/xvdc\n/dev/xvdf\n", 3 << 21)
    );
    nitro.shell("mkfs.ext4 -q /dev/nvme1n1; mkdir /data; mount /dev/sdf /data; echo kept >/data/file; umount /data");
    nitro.restart();
    wait_until("the disk", Duration::from_secs(20), || {
        nitro.exec(&["test", "-b", "/dev/sdf"]).status.success()
    });
    assert_eq!(
        nitro.shell("mount /dev/sdf /data; cat /data/file"),
        "kept\n"
    );
    client.ask("TerminateInstances", &[("InstanceId.1", &ids[0])]);
    wait_until("the end of the disks", Duration::from_secs(20), || {
        in_use(&of_nitro) == 0
    });
    assert_eq!(in_use(&of_xen), 3);
    xen.shell("mkfs.ext4 -q /dev/xvdf; mkdir /data; mount /dev/xvdf /data");
    drop(xen);
    drop(cloud);
    drop(lab);
    wait_until("the end of all disks", Duration::from_secs(20), || {
        in_use(&of_xen) == 0
    });
}
