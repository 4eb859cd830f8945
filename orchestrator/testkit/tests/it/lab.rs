//! Tests of the lab itself: nodes start, reach each other, suffer faults, and disappear without a trace.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use cvc_testkit::{
    Lab, Tool,
    lab::{Image, Line, output_within, program_of},
    require, wait_until,
};
use nix::sys::signal::Signal;

/// Time limit that is long enough even on a busy machine.
const SOON: Duration = Duration::from_secs(90);

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Waits until no other test uses labs, so that durations are those of a machine without other labs.
fn turn() -> cvc_testkit::Turn {
    cvc_testkit::turn("lab", 1)
}

#[test]
fn nodes_start_in_seconds_reach_each_other_and_leave_nothing() {
    require!(Tool::Lab);
    let _turn = turn();
    let begin = Instant::now();
    let lab = Lab::builder().nodes(4).login(true).build();
    let up = begin.elapsed();
    for (from, user) in [("login", "root"), ("n1", "ada"), ("n4", "root")] {
        let finished = lab.ssh(
            &format!("{user}@{from}"),
            "for n in login n1 n2 n3 n4; do ssh -o BatchMode=yes -o StrictHostKeyChecking=yes $n hostname; done; whoami",
        );
        assert_eq!(text(&finished), format!("login\nn1\nn2\nn3\nn4\n{user}\n"));
    }
    let (directory, begin) = (lab.directory().to_owned(), Instant::now());
    drop(lab); // this checks for processes and mounts
    eprintln!(
        "4 nodes and a login node: up in {up:.2?}, gone in {:.2?}",
        begin.elapsed()
    );
    assert!(!directory.exists());
}

#[test]
fn a_lab_has_no_route_out_and_hides_the_machine_where_it_must() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let outside = tempfile::tempdir().expect("a directory");
    let host = std::net::TcpListener::bind("0.0.0.0:0").expect("a port of the machine");
    let port = host.local_addr().expect("its address").port();
    // addresses of the machine itself, which answers them on any of its networks
    let listed = text(
        &Command::new("ip")
            .args(["-4", "-o", "address", "show", "scope", "global"])
            .output()
            .expect("ip"),
    );
    let addresses = listed.lines().filter_map(|l| {
        l.split_whitespace()
            .nth(3)?
            .split('/')
            .next()
            .map(str::to_owned)
    });
    for address in addresses.chain(["127.0.0.1".to_owned()]) {
        let script = format!("exec 3<>/dev/tcp/{address}/{port}");
        let reached = Command::new("bash")
            .args(["-c", &script])
            .status()
            .expect("bash");
        assert!(reached.success(), "{address}");
        assert!(
            !lab.exec(&["bash", "-c", &script]).status.success(),
            "the laptop reached {address}"
        );
        assert!(
            !lab.node("n1")
                .exec(&["bash", "-c", &script])
                .status
                .success(),
            "n1 reached {address}"
        );
    }
    for routes in [
        lab.exec(&["ip", "route"]),
        lab.node("n1").exec(&["ip", "route"]),
    ] {
        assert!(!text(&routes).contains("default"), "{}", text(&routes));
    }
    // the laptop sees the test's directories, nodes do not
    fs::write(outside.path().join("seen"), "").expect("a file");
    let file = outside.path().join("seen").display().to_string();
    assert!(lab.exec(&["test", "-e", &file]).status.success());
    assert!(!lab.node("n1").exec(&["test", "-e", &file]).status.success());
    // only `/shared` is the same directory on all nodes
    lab.node("n1").shell("echo 1 >/shared/a; echo 1 >/scratch-local/a; echo 1 >/etc/a; echo 1 >/dev/shm/a; echo 1 >/tmp/a; sleep 600 & :");
    assert_eq!(
        fs::read_to_string(lab.shared().join("a")).expect("the shared file"),
        "1\n"
    );
    assert_eq!(
        lab.node("n2").shell(
            "cat /shared/a; ls /scratch-local /etc/a /dev/shm /tmp 2>/dev/null | grep -x a || :"
        ),
        "1\n"
    );
    assert!(!Path::new("/etc/a").exists());
    assert_eq!(
        (
            lab.node("n1").processes("sleep 600").len(),
            lab.node("n2").processes("sleep 600").len()
        ),
        (1, 0)
    );
    assert_eq!(lab.processes("sleep 600").len(), 1);
    // of the lab's own processes a node shows only sshd, and orphans that have ended are reaped
    lab.node("n2").shell("sh -c 'sleep 0.1 & sleep 0.1 &'");
    wait_until("the end of the orphans", Duration::from_secs(20), || {
        lab.node("n2").processes("sleep 0.1").is_empty()
    });
    let commands: Vec<String> = lab
        .node("n2")
        .processes("")
        .into_iter()
        .map(|p| p.command)
        .collect();
    assert!(
        commands.len() == 1 && commands[0].starts_with("sshd: "),
        "{commands:?}"
    );
    wait_until("process 1 to reap them", Duration::from_secs(20), || {
        lab.node("n2")
            .shell("cat /proc/[0-9]*/stat 2>/dev/null | awk '$3 == \"Z\"'")
            .is_empty()
    });
}

#[test]
fn two_labs_do_not_see_each_other() {
    require!(Tool::Lab);
    let _turn = turn();
    let (one, two) = (
        Lab::builder().nodes(2).build(),
        Lab::builder().nodes(2).build(),
    );
    one.node("n2").poweroff();
    one.node("n1").shell("echo one >/shared/who");
    assert_eq!(text(&two.ssh("n1", "ssh n2 hostname; ls /shared")), "n2\n");
    drop(one);
    assert_eq!(text(&two.ssh("n2", "ssh n1 hostname")), "n1\n");
}

#[test]
fn a_test_that_panics_or_is_killed_leaves_nothing() {
    require!(Tool::Lab);
    if std::env::var_os("CVC_LAB_INNER").is_some() {
        let lab = Lab::builder().nodes(2).build();
        lab.node("n1").shell("sleep 4711 & :");
        println!("directory {}", lab.directory().display());
        assert_ne!(
            std::env::var_os("CVC_LAB_INNER").expect("just seen"),
            "panic",
            "on purpose"
        );
        std::thread::sleep(Duration::from_secs(600));
    }
    let _turn = turn();
    for way in ["panic", "kill"] {
        let mut inner = Command::new(std::env::current_exe().expect("this test"));
        inner
            .args([
                "--exact",
                "lab::a_test_that_panics_or_is_killed_leaves_nothing",
                "--nocapture",
            ])
            .env("CVC_LAB_INNER", way);
        let log = tempfile::NamedTempFile::new().expect("a file");
        let appending = || {
            fs::File::options()
                .append(true)
                .open(log.path())
                .expect("its file")
        };
        let mut inner = inner
            .stdout(appending())
            .stderr(appending())
            .spawn()
            .expect("starts");
        let printed = || fs::read_to_string(log.path()).expect("its output");
        let mut directory = None;
        wait_until("the inner lab", SOON, || {
            directory = printed()
                .lines()
                .find_map(|l| l.split_once("directory ").map(|(_, d)| d.to_owned()));
            directory.is_some()
        });
        if way == "kill" {
            inner.kill().expect("a process");
        }
        assert!(!inner.wait().expect("its end").success(), "{}", printed());
        let directory = directory.expect("just seen");
        // a killed test cannot wait until its lab has ended
        wait_until(&format!("nothing to be left after {way}"), SOON, || {
            !Path::new(&directory).exists()
                && cvc_testkit::process::of_directory(Path::new(&directory)).is_empty()
                && !fs::read_to_string("/proc/self/mountinfo")
                    .expect("mounts")
                    .contains(&directory)
        });
    }
}

#[test]
fn killing_a_command_kills_its_program_and_other_signals_reach_it_once() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(1).build();
    let mut child = lab.command("sleep").arg("4712").spawn().expect("starts");
    wait_until("the program", SOON, || {
        lab.processes("sleep 4712").len() == 1
    });
    child.kill().expect("a process");
    child.wait().expect("its end");
    wait_until("its end", SOON, || lab.processes("sleep 4712").is_empty());
    let mut child = lab.command("sleep").arg("4713").spawn().expect("starts");
    wait_until("the program", SOON, || {
        lab.processes("sleep 4713").len() == 1
    });
    cvc_testkit::process::signal(program_of(&child), Signal::SIGTERM);
    let status = child.wait().expect("its end");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    let mut code = lab.command("sh");
    code.args(["-c", "exit 7"]).current_dir("/usr");
    assert_eq!(output_within(code, SOON).status.code(), Some(7));
    let mut place = lab.command("pwd");
    place.current_dir("/usr");
    assert_eq!(text(&output_within(place, SOON)), "/usr\n");
    assert!(lab.command("no-such-program").spawn().is_err());
}

#[test]
fn a_killed_node_closes_its_connections_and_a_silent_one_does_not() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let session = |node: &str| {
        let mut ssh = lab.command("ssh");
        let child = ssh.args([node, "sleep 600"]).spawn().expect("starts");
        wait_until("the session", SOON, || {
            lab.node(node).processes("sleep 600").len() == 1
        });
        child
    };
    let (mut of_killed, mut of_silent) = (session("n1"), session("n2"));
    lab.node("n1").kill();
    // the command of the session would run for ten minutes
    wait_until("the end of the session", SOON, || {
        of_killed.try_wait().expect("its state").is_some()
    });
    assert_eq!(of_killed.wait().expect("its end").code(), Some(255));
    lab.node("n2").poweroff();
    std::thread::sleep(Duration::from_secs(3));
    assert!(
        of_silent.try_wait().expect("its state").is_none(),
        "the session noticed a silent node"
    );
    of_silent.kill().expect("a process");
    of_silent.wait().expect("its end");
    let late = lab.exec(&["ssh", "-o", "ConnectTimeout=1", "n2", "true"]);
    assert_eq!(late.status.code(), Some(255), "{}", text(&late));
    assert!(!lab.node("n1").is_up() && !lab.node("n2").is_up());
    for node in lab.nodes() {
        node.restart();
        assert_eq!(
            text(&lab.ssh(node.name(), "hostname")),
            format!("{}\n", node.name())
        );
    }
}

#[test]
fn a_node_restarts_as_itself_or_as_another() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let node = lab.node("n1");
    node.shell("echo kept >/root/file; echo lost >/scratch-local/file");
    node.restart();
    assert_eq!(
        text(&lab.ssh("n1", "cat /root/file; ls /scratch-local")),
        "kept\n"
    );
    node.restart_with_new_key();
    let refused = lab.ssh("n1", "true");
    assert_eq!(refused.status.code(), Some(255));
    assert!(
        text(&refused).contains("REMOTE HOST IDENTIFICATION HAS CHANGED"),
        "{}",
        text(&refused)
    );
    assert_eq!(
        text(&lab.ssh("n2", "ssh n1 'hostname; ls /root/file 2>/dev/null'")),
        "n1\n"
    );
    lab.trust(node);
    assert_eq!(text(&lab.ssh("n1", "hostname")), "n1\n");
}

#[test]
fn links_can_be_cut_slow_lossy_and_narrow() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let node = lab.node("n1");
    const CONNECT: &str = "exec 3<>/dev/tcp/$0/22";
    let answers = |host: &str| {
        lab.exec(&["timeout", "1", "bash", "-c", CONNECT, host])
            .status
            .success()
    };
    // on a busy machine a single attempt may take longer than a second
    let comes = |host: &str| wait_until(host, SOON, || answers(host));
    comes("n1");
    node.link(false);
    comes("n2");
    assert!(!answers("n1"));
    node.link(true);
    comes("n1");
    node.reachable_from_laptop(false);
    assert!(!answers("n1"));
    assert!(
        lab.node("n2")
            .exec(&["timeout", "30", "bash", "-c", CONNECT, "n1"])
            .status
            .success()
    );
    node.reachable_from_laptop(true);
    comes("n1");
    // a session that is already open survives the change of the cable
    let mut ssh = lab.command("ssh");
    ssh.args(["n1", "sleep 6; echo still here"])
        .stdout(std::process::Stdio::piped());
    let session = ssh.spawn().expect("starts");
    wait_until("the session", SOON, || {
        !node.processes("sleep 6").is_empty()
    });
    node.wire(Line {
        delay: Duration::from_millis(50),
        ..Line::default()
    });
    // round trip: never faster than both delays, and hardly slower on an idle machine
    let mut fastest = f64::MAX;
    let mut connects = 0;
    wait_until("a connection without another delay", SOON, || {
        let begin = Instant::now();
        if answers("n1") {
            fastest = begin.elapsed().as_secs_f64().min(fastest);
            connects += 1;
        }
        connects >= 5 && fastest < 0.3
    });
    assert!(fastest >= 0.1, "{fastest}");
    assert_eq!(
        text(&session.wait_with_output().expect("its end")),
        "still here\n"
    );
    node.wire(Line {
        loss: 1.0,
        ..Line::default()
    });
    assert!(!answers("n1"));
    node.wire(Line {
        loss: 0.3,
        ..Line::default()
    });
    let received = || {
        node.shell("cat /sys/class/net/eth0/statistics/rx_packets")
            .trim()
            .parse::<u32>()
            .expect("a count")
    };
    let before = received();
    assert!(
        lab.exec(&[
            "bash",
            "-c",
            "for i in {1..500}; do echo >/dev/udp/10.77.0.11/9; done"
        ])
        .status
        .success()
    );
    let mut arrived = 0;
    wait_until("the last packet", SOON, || {
        std::thread::sleep(Duration::from_millis(300));
        let so_far = received() - before;
        std::mem::replace(&mut arrived, so_far) == so_far && so_far > 0
    });
    assert!(
        (300..400).contains(&arrived),
        "{arrived} of 500 packets arrived over a line that loses 30 %"
    );
    node.wire(Line {
        mbit_per_s: Some(8.0),
        ..Line::default()
    });
    let begin = Instant::now();
    assert!(
        lab.exec(&[
            "sh",
            "-c",
            "head -c 2000000 /dev/zero | ssh n1 'cat >/dev/null'"
        ])
        .status
        .success()
    );
    assert!(
        (1.9..SOON.as_secs_f64()).contains(&begin.elapsed().as_secs_f64()),
        "2 MB at 8 Mbit/s took {:?}",
        begin.elapsed()
    );
    node.wire(Line::default());
    node.restart();
    assert_eq!(text(&lab.ssh("n1", "hostname")), "n1\n");
}

#[test]
fn an_sshd_is_stopped_killed_and_started_again() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder().nodes(1).build();
    let node = lab.node("n1");
    let mut ssh = lab.command("ssh");
    let mut session = ssh.args(["n1", "sleep 600"]).spawn().expect("starts");
    wait_until("the session", SOON, || {
        node.processes("sleep 600").len() == 1
    });
    node.sshd_stop();
    let refused = lab.ssh("n1", "true");
    assert!(
        refused.status.code() == Some(255) && text(&refused).contains("refused"),
        "{}",
        text(&refused)
    );
    assert!(session.try_wait().expect("its state").is_none());
    node.sshd_start();
    assert_eq!(text(&lab.ssh("n1", "hostname")), "n1\n");
    node.sshd_kill();
    assert_eq!(session.wait().expect("its end").code(), Some(255));
    assert_eq!(lab.ssh("n1", "true").status.code(), Some(255));
    node.sshd_start();
    assert_eq!(text(&lab.ssh("n1", "hostname")), "n1\n");
}

#[test]
fn a_full_disk_affects_its_node_alone_and_full_shared_storage_all_nodes() {
    require!(Tool::Lab);
    let _turn = turn();
    let lab = Lab::builder()
        .nodes(2)
        .scratch_mib(8)
        .disk_mib(32)
        .shared_mib(8)
        .build();
    let node = lab.node("n1");
    for directory in ["/scratch-local", "/var/lib", "/shared"] {
        let is_free = |name: &str| {
            lab.node(name)
                .exec(&[
                    "sh",
                    "-c",
                    &format!("echo x >{directory}/probe && rm {directory}/probe"),
                ])
                .status
                .success()
        };
        assert!(is_free("n1"));
        node.fill(directory);
        assert!(
            !is_free("n1") && is_free("n2") != (directory == "/shared"),
            "{directory}"
        );
        node.unfill(directory);
        assert!(is_free("n1"), "{directory}");
    }
}

/// Compiles the ring program with a library's compiler into the shared directory.
fn ring(lab: &Lab, compiler: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/ring.c");
    let built = lab.directory().join("ring");
    let done = Command::new(compiler)
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", compiler.display()));
    assert!(done.status.success(), "{}", text(&done));
    fs::copy(&built, lab.shared().join("ring")).expect("the program on shared storage");
}

/// Checks the output of the ring: one rank per node, in order, and a token that passed through all of them.
fn assert_ring(finished: &Output, nodes: usize, rounds: usize) {
    let output = text(finished);
    assert!(finished.status.success(), "{}: {output}", finished.status);
    for rank in 0..nodes {
        assert!(
            output.contains(&format!("rank {rank} of {nodes} on n{}\n", rank + 1)),
            "{output}"
        );
    }
    assert!(
        output.contains(&format!("token {}\n", nodes * rounds)),
        "{output}"
    );
}

#[test]
fn open_mpi_works_across_nodes() {
    require!(Tool::Lab, Tool::OpenMpi);
    let _turn = turn();
    let Some(compiler) = cvc_testkit::program::on_path("mpicc.openmpi") else {
        return cvc_testkit::tool::skipped("open_mpi_works_across_nodes", "mpicc.openmpi");
    };
    let lab = Lab::builder().nodes(4).build();
    ring(&lab, &compiler);
    let launcher = Tool::OpenMpi.find().expect("just seen");
    let begin = Instant::now();
    let finished = lab.ssh(
        "n1",
        &format!(
            "{} --allow-run-as-root --host n1,n2,n3,n4 --map-by ppr:1:node --bind-to none --mca mpi_yield_when_idle 1 \
             --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 -n 4 /shared/ring 20",
            launcher.display()
        ),
    );
    eprintln!("Open MPI, 4 nodes: {:.2?}", begin.elapsed());
    assert_ring(&finished, 4, 20);
}

#[test]
fn mpich_works_across_nodes() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let lab = Lab::builder().nodes(4).build();
    let launcher = Tool::Mpich5.find().expect("just seen");
    ring(&lab, &launcher.with_file_name("mpicc"));
    let begin = Instant::now();
    let finished = lab.ssh(
        "ada@n1",
        &format!(
            "{} -launcher ssh -hosts n1,n2,n3,n4 -ppn 1 -n 4 /shared/ring 20",
            launcher.display()
        ),
    );
    eprintln!("MPICH 5, 4 nodes: {:.2?}", begin.elapsed());
    assert_ring(&finished, 4, 20);
}

#[test]
fn slurm_runs_jobs_on_four_nodes() {
    require!(Tool::Lab, Tool::Slurm);
    let _turn = turn();
    let lab = Lab::builder().nodes(4).login(true).build();
    let begin = Instant::now();
    let slurm = lab.slurm();
    eprintln!("Slurm on 4 nodes: idle after {:.2?}", begin.elapsed());
    let mut hosts: Vec<String> =
        text(&lab.ssh("ada@login", "srun -N4 -n4 --ntasks-per-node=1 hostname"))
            .lines()
            .map(str::to_owned)
            .collect();
    hosts.sort();
    assert_eq!(hosts, ["n1", "n2", "n3", "n4"], "{}", slurm.logs());
    if let Some(launcher) = Tool::Mpich5.find() {
        ring(&lab, &launcher.with_file_name("mpicc"));
        assert_ring(
            &lab.ssh(
                "login",
                "srun --mpi=pmi2 -N4 -n4 --ntasks-per-node=1 /shared/ring 5",
            ),
            4,
            5,
        );
    }
    if let (Some(_), Some(compiler)) = (
        Tool::OpenMpi.find(),
        cvc_testkit::program::on_path("mpicc.openmpi"),
    ) {
        ring(&lab, &compiler);
        let srun = "OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_mpi_yield_when_idle=1 srun --mpi=pmix -N4 -n4 --ntasks-per-node=1 /shared/ring 5";
        assert_ring(&lab.ssh("login", srun), 4, 5);
    }
    // a controller that has just started may refuse steps, so the job finishes its step before the controller stops
    let script = "srun hostname | sort; until [ -e go ]; do sleep 0.1; done; echo on";
    let job = text(&lab.ssh(
        "ada@login",
        &format!("cd /shared; sbatch --parsable -N2 -o out --wrap '{script}'"),
    ));
    assert!(job.trim().parse::<u32>().is_ok(), "{job}");
    let out = || fs::read_to_string(lab.shared().join("out")).unwrap_or_default();
    wait_until("the job's step", SOON, || out() == "n1\nn2\n");
    slurm.stop_controller();
    assert!(!lab.ssh("login", "timeout 2 squeue").status.success());
    fs::write(lab.shared().join("go"), "").expect("go");
    wait_until("the job's output", SOON, || out() == "n1\nn2\non\n");
    slurm.start_controller();
    slurm.stop_node(lab.node("n4"));
    lab.node("n4").restart();
    slurm.start_node(lab.node("n4"));
    lab.node("n3").restart_with_new_key();
    slurm.start_node(lab.node("n3"));
    slurm.wait_idle(4);
    assert_eq!(text(&lab.ssh("login", "srun -w n3,n4 -N2 -n2 true")), "");
}

#[test]
fn glusterfs_is_shared_by_all_nodes_and_loses_files_with_a_brick() {
    require!(Tool::Lab, Tool::Gluster);
    let _turn = turn();
    let lab = Lab::builder().nodes(3).scratch_mib(128).build();
    let begin = Instant::now();
    lab.gluster(&["n1", "n2"]);
    eprintln!(
        "GlusterFS on 3 nodes: mounted after {:.2?}",
        begin.elapsed()
    );
    lab.node("n3")
        .shell("for i in 1 2 3 4 5 6 7 8 9; do echo $i >/gluster/f$i; done");
    for node in lab.nodes() {
        assert_eq!(node.shell("cat /gluster/f*"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        assert_eq!(node.shell("stat -f -c %T /gluster"), "fuseblk\n");
    }
    let bricks = |node: &str| {
        lab.node(node)
            .shell("ls /scratch-local/brick | wc -l")
            .trim()
            .parse::<u32>()
            .expect("a count")
    };
    assert!(bricks("n1") > 0 && bricks("n2") > 0 && bricks("n1") + bricks("n2") == 9);
    lab.node("n2").kill();
    wait_until("the loss of the brick's files", SOON, || {
        lab.node("n3").shell("ls /gluster | wc -l").trim() == bricks("n1").to_string()
    });
}

#[test]
fn packages_are_installed_on_minimal_nodes_from_a_closed_repository() {
    require!(Tool::LabImage);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).image(Image::Base).build();
    assert_eq!(text(&lab.ssh("n1", "ssh n2 hostname")), "n2\n");
    assert!(
        !lab.ssh("n1", "command -v cc || command -v mpiexec")
            .status
            .success()
    );
    let installed =
        lab.ssh("ada@n1", "sudo apt-get -q update && sudo apt-get -q install -y --no-install-recommends make && make --version");
    assert!(
        installed.status.success() && text(&installed).contains("GNU Make"),
        "{}",
        text(&installed)
    );
    assert!(!lab.ssh("n2", "command -v make").status.success());
    if Tool::Mpich5
        .find()
        .is_some_and(|p| p.starts_with(cvc_testkit::lab::cache()))
    {
        let finished = lab.ssh("n2", "apt-get -q update && apt-get -q install -y mpich5 && /opt/mpich5/bin/mpiexec -n 2 hostname");
        assert!(
            finished.status.success() && text(&finished).contains("\nn2\nn2\n"),
            "{}",
            text(&finished)
        );
    }
}

#[test]
fn slurm_accounts_for_jobs() {
    require!(Tool::Slurm, Tool::SlurmAccounting);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).login(true).build();
    let begin = Instant::now();
    let slurm = lab.slurm_with_accounting();
    eprintln!(
        "Slurm with accounting on 2 nodes: idle after {:.2?}",
        begin.elapsed()
    );
    let job = text(&lab.ssh(
        "ada@login",
        "cd /shared; sbatch --parsable -A lab -N2 --wrap 'srun false'",
    ))
    .trim()
    .to_owned();
    let states = || {
        text(&lab.ssh(
            "ada@login",
            &format!("sacct -n -P -X -j {job} -o JobID,State,NNodes,ExitCode"),
        ))
    };
    wait_until("the job's account", SOON, || states().contains("FAILED"));
    assert_eq!(
        states(),
        format!("{job}|FAILED|2|1:0\n"),
        "{}",
        slurm.logs()
    );
}
