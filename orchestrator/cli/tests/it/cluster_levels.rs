//! Tests of checkpoints on nodes of a lab: with a copy on a partner node, with parity over a group, flushed to shared storage; and of restarts after
//! nodes have lost their checkpoints.

use crate::common::cluster::{LIMIT, OnLab, ssh_site_with};
use cvc_testkit::{Finished, Lab, Tool, campaign::read_json, require, wait_until};
use serde_json::Value;
use std::{fs, time::Duration};

/// Descriptor of the built-in stencil with its own checkpoints, a file for each process. All nodes of a lab share one machine's cores, so waiting
/// ranks yield their core.
const STENCIL: &str = "schema = 1\nname = \"stencil\"\ntitle = \"the stencil kernel with its own checkpoints\"\nkernel = true\n\
    [program]\nnames = [\"kernel-stencil\"]\ninstall = \"part of cvc\"\n\
    [command]\nargs = [\"--size\", \"{{w.size}}\", \"--steps\", \"60\", \"--work\", \"{{w.work}}\", \"--ckpt-every\", \"{{#if own_checkpoint}}14{{else}}0{{/if}}\", \"--ckpt-dir\", \"{{storage}}\", \"--ckpt-layout\", \"{{layout}}\"]\n\
    restart_args = [\"--size\", \"{{w.size}}\", \"--steps\", \"60\", \"--work\", \"{{w.work}}\", \"--ckpt-dir\", \"{{storage}}\", \"--ckpt-layout\", \"{{layout}}\", \"--restart\", \"{{storage}}\"]\n\
    env = { OMPI_MCA_mpi_yield_when_idle = \"1\", MPIR_CVAR_POLLS_BEFORE_YIELD = \"1\" }\n\
    [workloads.small]\nvars = { size = 64, work = 4 }\n[workloads.large]\nvars = { size = 176, work = 1 }\n[workloads.long]\nvars = { size = 64, work = 12 }\n\
    [success]\npattern = '^Verification = SUCCESSFUL'\nforbid = '^Verification = FAILED'\n[progress]\nstep = '^Time step (\\d+)'\n\
    [checkpoint]\nfiles = [\"{{storage}}/kernel-stencil.ckpt{{#if per_process}}.[0-9]*{{/if}}\"]\nper_process = true\nrestartable = true\n\
    time_s = '^Checkpoint \\d+ written: \\d+ bytes in ([0-9.]+) s'\n[io]\ncollective = true\n";

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Keys of a site with a node-local and a shared storage area.
const AREAS: &str = "storage.local = { path = \"/scratch-local\", kind = \"node-local\" }\n\
                     storage.shared = { path = \"/shared/work\", kind = \"shared\" }";

fn stencil(name: &str, factors: &str, levels: &str, libraries: &str) -> OnLab {
    let site = ssh_site_with(4, AREAS, libraries);
    let text = format!(
        "{site}[matrix]\napp = \"stencil\"\nmpi = \"openmpi\"\nstorage = \"local\"\n{factors}\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n\
         [checkpoint]\ntimeout_s = 300\nrestart_check = true\n{levels}\n"
    );
    let lab = Lab::builder().nodes(4).scratch_mib(2048).build();
    let on = OnLab::new(lab, name, &text);
    on.campaign.put("apps/stencil.toml", STENCIL);
    on
}

const OPEN_MPI: &str = "[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n";

fn with_dmtcp() -> String {
    let dmtcp = Tool::Dmtcp.find().expect("the test requires it");
    let prefix = dmtcp.parent().and_then(|bin| bin.parent());
    let prefix = prefix.expect("a prefix").display();
    format!("[sites.lab.dmtcp]\nprefix = \"{prefix}\"\n{OPEN_MPI}")
}

/// Returns the checksum that a program printed.
fn checksum(on: &OnLab, run: &str, file: &str) -> String {
    let path = on.campaign.run_dir(run).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Checksum = "));
    line.unwrap_or_else(|| panic!("{}: {text}", path.display()))
        .to_owned()
}

fn values(records: &[Value], name: &str) -> Vec<f64> {
    let of = records.iter().filter(|record| record["name"] == name);
    of.map(|record| record["value"].as_f64().expect("a number"))
        .collect()
}

/// Returns where the files of a restart came from.
fn from(records: &[Value]) -> &str {
    let mut of = records
        .iter()
        .filter(|record| record["name"] == "level_restarted_ckpt");
    of.next()
        .and_then(|record| record["labels"]["from"].as_str())
        .expect("a restart")
}

fn strategy(on: &OnLab, run: &str) -> String {
    let description = read_json(&on.campaign.run_dir(run).join("run.json"));
    description["point"]["strategy"]
        .as_str()
        .expect("a strategy")
        .to_owned()
}

fn show(on: &OnLab, records: &[Value], run: &str) {
    for record in records {
        let name = record["name"].as_str().unwrap_or_default();
        if name.starts_with("level_") {
            eprintln!(
                "{} {name} {} {}",
                strategy(on, run),
                record["labels"],
                record["value"]
            );
        }
    }
}

/// Runs the campaign to its end; on failure shows the cause.
#[track_caller]
fn run_well(on: &OnLab) {
    let output = on.run();
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
}

#[test]
fn files_of_a_program_outlast_the_loss_of_a_node() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = stencil(
        "levels",
        "class = \"small\"\nmapping = \"4Nx1P\"\ncheckpointer = \"application\"\nstrategy = [\"local\", \"partner\", \"xor\"]",
        "levels = { flush_every = 1, flush_to = \"shared\", lose = [2] }",
        OPEN_MPI,
    );
    run_well(&on);
    on.campaign.assert_whole(3);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        show(&on, &records, &run);
        assert_eq!(
            checksum(&on, &run, "stdout"),
            checksum(&on, &run, "restart.stdout")
        );
        assert_eq!(values(&records, "restart_verified"), [1.0]);
        let (kept, rebuilt) = (
            values(&records, "level_kept_bytes"),
            values(&records, "level_rebuilt_bytes"),
        );
        let sent = values(&records, "level_sent_bytes");
        // on a busy machine some checkpoints are overwritten before they are kept, but not the last one
        assert_eq!(values(&records, "level_flush_s").len(), kept.len());
        assert_eq!(values(&records, "level_restarted_ckpt"), [4.0]);
        let last = *kept.last().expect("one at least");
        match strategy(&on, &run).as_str() {
            "local" => {
                assert_eq!(
                    (from(&records), sent.len(), rebuilt.len()),
                    ("shared", 0, 0)
                );
            }
            // a copy sends all bytes once; parity does so, too, in segments as long as the longest file
            "partner" => {
                assert_eq!((from(&records), &sent), ("partner", &kept));
                assert_eq!(rebuilt, [last / 4.0]);
            }
            "xor" => {
                assert_eq!((from(&records), rebuilt), ("xor", vec![last / 4.0]));
                assert!((sent[0] / kept[0] - 1.0).abs() < 0.01, "{sent:?} {kept:?}");
            }
            other => panic!("{other}"),
        }
    }
    on.assert_nothing_left(&NODES);
    assert_eq!(on.lab.node("n1").shell("ls /shared/work"), "");
}

#[test]
fn the_node_of_the_agent_may_be_the_lost_one_and_what_no_scheme_bears_is_refused() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = stencil(
        "losses",
        "class = \"small\"\nmapping = \"4Nx1P\"\ncheckpointer = \"application\"\nstrategy = [\"partner\", \"xor\"]",
        "levels = { lose = [1] }",
        OPEN_MPI,
    );
    run_well(&on);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        assert_eq!(
            checksum(&on, &run, "stdout"),
            checksum(&on, &run, "restart.stdout")
        );
        assert_eq!(values(&records, "level_rebuilt_bytes").len(), 1);
    }
    // n3 has the copy of n2's checkpoint
    let text = fs::read_to_string(on.campaign.dir().join("campaign.toml")).expect("a campaign");
    on.campaign.put(
        "campaign.toml",
        &text.replace("lose = [1]", "lose = [2, 3]"),
    );
    on.run();
    let failures = on.campaign.failures();
    assert_eq!(failures.len(), 2, "{failures:?}");
    for (cause, detail) in failures {
        assert_eq!(cause, "restart", "{detail}");
        let of_partner =
            detail.contains("n2 has lost its files and n3, its partner, the copy of them");
        let of_group = detail.contains("n2 and n3 of one parity group have lost their files");
        assert!(of_partner || of_group, "{detail}");
        assert!(
            detail.contains("none is flushed to shared storage (flush_every)"),
            "{detail}"
        );
    }
    on.assert_nothing_left(&NODES);
}

#[test]
fn images_of_dmtcp_outlast_the_loss_of_a_node() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let on = stencil(
        "images",
        "class = \"long\"\nmapping = \"4Nx1P\"\ncheckpointer = [\"none\", \"dmtcp\"]\nstrategy = [\"partner\", \"xor\"]",
        "moment = { after_step = 15 }\nlevels = { lose = [3], flush_every = 1, flush = \"behind\", flush_to = \"shared\" }",
        &with_dmtcp(),
    );
    run_well(&on);
    on.campaign.assert_whole(3);
    let (mut whole, mut restarted) = (Vec::new(), Vec::new());
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        if values(&records, "level_safe_s").is_empty() {
            whole.push(checksum(&on, &run, "stdout"));
            continue;
        }
        show(&on, &records, &run);
        restarted.push(checksum(&on, &run, "restart.stdout"));
        assert_eq!(values(&records, "level_safe_s").len(), 1);
        assert_eq!(values(&records, "level_restarted_ckpt"), [1.0]);
        assert_eq!(values(&records, "level_rebuilt_bytes").len(), 1);
        assert_eq!(values(&records, "restart_verified"), [1.0]);
    }
    assert_eq!((whole.len(), restarted.len()), (1, 2));
    assert!(
        restarted.iter().all(|sum| *sum == whole[0]),
        "{restarted:?} {whole:?}"
    );
    on.assert_nothing_left(&NODES);
}

/// Sends `mib` MiB from one node to another by plain TCP, and returns MiB/s.
fn plain_tcp(on: &OnLab, from: &str, to: &str, mib: u32) -> f64 {
    let (from, to) = (on.lab.node(from), on.lab.node(to));
    let address = to.address();
    let receive = format!(
        "import socket\ns = socket.create_server(('{address}', 7777))\nopen('/tmp/listens', 'w')\nc, _ = s.accept()\nb = bytearray(1 << 20)\n\
         while c.recv_into(b): pass\nc.sendall(b'x')"
    );
    let send = format!(
        "import socket, time\ns = socket.create_connection(('{address}', 7777))\nb = bytes(1 << 20)\nt = time.monotonic()\n\
         for _ in range({mib}): s.sendall(b)\ns.shutdown(socket.SHUT_WR)\ns.recv(1)\nprint({mib} / (time.monotonic() - t))"
    );
    std::thread::scope(|scope| {
        let receiver =
            scope.spawn(|| to.shell(&format!("python3 -c \"{receive}\"; rm -f /tmp/listens")));
        to.shell("while [ ! -e /tmp/listens ]; do sleep 0.01; done");
        let rate = from.shell(&format!("python3 -c \"{send}\""));
        receiver.join().expect("ends");
        rate.trim().parse().expect("a rate")
    })
}

/// Measures copies and parity of about 50 MiB on each of four nodes, and for comparison one stream between two nodes.
#[test]
fn copies_and_parity_of_large_files_are_measured() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = stencil(
        "rates",
        "class = \"large\"\nmapping = \"4Nx1P\"\ncheckpointer = \"application\"\nstrategy = [\"partner\", \"xor\"]",
        "levels = { lose = [4] }",
        OPEN_MPI,
    );
    let before = plain_tcp(&on, "n1", "n2", 400);
    run_well(&on);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        show(&on, &records, &run);
        assert_eq!(
            checksum(&on, &run, "stdout"),
            checksum(&on, &run, "restart.stdout")
        );
        let rates = values(&records, "level_sent_mib_s");
        assert!(
            !rates.is_empty() && rates.iter().all(|rate| *rate > 0.0),
            "{rates:?}"
        );
        let kept = values(&records, "level_kept_bytes");
        assert!(kept.iter().all(|bytes| *bytes > 200e6), "{kept:?}");
    }
    let after = plain_tcp(&on, "n1", "n2", 400);
    eprintln!("plain TCP from n1 to n2: {before:.0} MiB/s before, {after:.0} MiB/s after");
    on.assert_nothing_left(&NODES);
}

/// Time limit for an event, long enough for a machine that is busy with other work.
const SOON: Duration = Duration::from_secs(400);

/// Returns a campaign of one run on four of six nodes, which continues after nodes were lost.
fn resumed(name: &str, factors: &str, checkpoint: &str, libraries: &str) -> OnLab {
    let site = ssh_site_with(6, AREAS, libraries);
    let text = format!(
        "{site}[matrix]\napp = \"stencil\"\nmpi = \"openmpi\"\nmapping = \"4Nx1P\"\nstorage = \"local\"\nclass = \"long\"\n{factors}\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n[checkpoint]\ntimeout_s = 300\nresume = true\n{checkpoint}\n"
    );
    let lab = Lab::builder().nodes(6).scratch_mib(2048).build();
    let on = OnLab::new(lab, name, &text);
    let again = STENCIL.replace(
        "restart_args = [",
        "restart_args = [\"--ckpt-every\", \"14\", ",
    );
    on.campaign.put("apps/stencil.toml", &again);
    on
}

/// Waits until these nodes have the manifest of a checkpoint. `id` is the checkpoint's number, or `*` for any.
fn wait_kept(on: &OnLab, nodes: &[&str], id: &str) {
    let list = format!("ls /scratch-local/*/*/.cvc-levels/{id}/manifest.json 2>/dev/null || :");
    for node in nodes {
        wait_until(&format!("a checkpoint on {node}"), SOON, || {
            !on.lab.node(node).shell(&list).is_empty()
        });
    }
}

/// Waits until a continued program has printed a step.
fn wait_continued(on: &OnLab, attempt: u32) {
    let list = format!(
        "cd /root/.cvc/spool/*/*/runs && grep -ls '\"resumed_from\": {}' *.partial/run.json | xargs -r dirname | \
         xargs -rI DIR grep -hs '^Time step' DIR/stdout || :",
        attempt - 1
    );
    wait_until(&format!("a step of attempt {attempt}"), SOON, || {
        !on.lab.node("n1").shell(&list).is_empty()
    });
}

/// Runs a campaign, calls `meanwhile` during it, and prints the output and the failures.
fn run_while(on: &OnLab, meanwhile: impl FnOnce(&OnLab)) -> Finished {
    let cvc = on.start(&["run", "campaign.toml"]);
    meanwhile(on);
    let output = cvc.wait(LIMIT);
    eprintln!("{}\n{}", output.stdout, output.stderr);
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output
}

/// Returns the steps that an attempt printed.
fn steps(on: &OnLab, run: &str) -> Vec<u32> {
    let path = on.campaign.run_dir(run).join("stdout");
    let printed = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let steps = printed
        .lines()
        .filter_map(|line| line.strip_prefix("Time step ")?.parse().ok());
    steps.collect()
}

/// Returns the only run with its last attempt, and how many earlier attempts lost a node.
fn the_run(on: &OnLab) -> (String, usize) {
    let names = on.campaign.run_names();
    let run = names.iter().find(|name| !name.contains('.'));
    let run = run.expect("the run").clone();
    let failures = on.campaign.failures();
    assert!(
        failures.iter().all(|(cause, _)| cause == "node-lost"),
        "{failures:?}"
    );
    (run, failures.len())
}

/// Checks that the last attempt of the only run continued from one of the run's checkpoints, and returns its records.
fn assert_continued(on: &OnLab, losses: usize) -> Vec<Value> {
    let (run, lost) = the_run(on);
    assert_eq!(lost, losses);
    assert_eq!(on.campaign.events("checkpoint-kept").len(), losses);
    let description = read_json(&on.campaign.run_dir(&run).join("run.json"));
    assert_eq!(description["resumed_from"], losses);
    let printed = steps(on, &run);
    let first = *printed.first().expect("steps");
    assert!(first > 14 && first % 14 == 1, "{printed:?}");
    assert_eq!(printed.last(), Some(&60));
    let records = on.campaign.records(&run);
    show(on, &records, &run);
    records
}

const OWN: &str = "checkpointer = \"application\"";

#[test]
fn a_run_continues_from_a_copy_of_what_a_lost_node_had() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = format!("{OWN}\nstrategy = \"partner\"");
    let on = resumed("copied", &factors, "", OPEN_MPI);
    let output = run_while(&on, |on| {
        wait_kept(on, &NODES, "*");
        on.lab.node("n3").poweroff();
    });
    output.expect(0);
    let records = assert_continued(&on, 1);
    assert_eq!(from(&records), "partner");
    let (kept, rebuilt) = (
        values(&records, "level_kept_bytes"),
        values(&records, "level_rebuilt_bytes"),
    );
    assert_eq!(rebuilt, [kept.last().expect("further checkpoints") / 4.0]);
    on.assert_nothing_left(&["n1", "n2", "n4", "n5", "n6"]);
}

#[test]
fn parity_is_made_anew_on_the_spare_node_before_another_one_is_lost() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = format!("{OWN}\nstrategy = \"xor\"");
    let on = resumed("parity", &factors, "", OPEN_MPI);
    let output = run_while(&on, |on| {
        wait_kept(on, &NODES, "*");
        on.lab.node("n3").poweroff();
        wait_continued(on, 2);
        on.lab.node("n2").poweroff();
    });
    output.expect(0);
    let records = assert_continued(&on, 2);
    assert_eq!(from(&records), "xor");
    assert_eq!(values(&records, "level_rebuilt_bytes").len(), 1);
    let (run, _) = the_run(&on);
    let second = on.campaign.run_dir(&format!("{run}.failed-2"));
    assert_eq!(read_json(&second.join("run.json"))["resumed_from"], 1);
    on.assert_nothing_left(&["n1", "n4", "n5", "n6"]);
}

#[test]
fn a_run_continues_from_shared_storage_where_nodes_cannot_bear_the_loss() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = format!("{OWN}\nstrategy = \"local\"");
    let levels = "levels = { flush_every = 1, flush_to = \"shared\" }";
    let on = resumed("flushed", &factors, levels, OPEN_MPI);
    let output = run_while(&on, |on| {
        let list = "ls /shared/work/*/*.flushed/*/manifest.json 2>/dev/null || :";
        wait_until("a flushed checkpoint", SOON, || {
            !on.lab.node("n1").shell(list).is_empty()
        });
        on.lab.node("n4").poweroff();
    });
    output.expect(0);
    let records = assert_continued(&on, 1);
    assert_eq!(from(&records), "shared");
    on.assert_nothing_left(&["n1", "n2", "n3", "n5", "n6"]);
    assert_eq!(on.lab.node("n1").shell("ls /shared/work"), "");
}

#[test]
fn what_a_program_writes_upon_a_notice_is_kept_on_nodes_before_one_is_taken() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = format!("{OWN}\nstrategy = \"partner\"");
    let on = resumed("noticed", &factors, "", OPEN_MPI);
    let path = on.campaign.dir().join("apps/stencil.toml");
    let text = fs::read_to_string(&path).expect("a descriptor");
    let with_signal = text.replace(
        "restartable = true\n",
        "restartable = true\nsignal = \"USR1\"\n",
    );
    on.campaign.put("apps/stencil.toml", &with_signal);
    let output = run_while(&on, |on| {
        let printed = "grep -hs '^Time step 16$' /root/.cvc/spool/*/*/runs/*.partial/stdout || :";
        wait_until("step 16", SOON, || {
            !on.lab.node("n1").shell(printed).is_empty()
        });
        let args = [
            "interrupt",
            "lab",
            "--node",
            "n2",
            "--notice",
            "60s",
            "campaign.toml",
        ];
        on.start(&args).wait(SOON).expect(0);
    });
    output.expect(0);
    let failures = on.campaign.failures();
    assert!(
        failures.len() == 1 && failures[0].0 == "reclaimed",
        "{failures:?}"
    );
    let names = on.campaign.run_names();
    let run = names.iter().find(|name| !name.contains('.'));
    let run = run.expect("the run");
    // not from the checkpoint of step 14
    let printed = steps(&on, run);
    assert!(printed[0] > 16, "{printed:?}");
    assert_eq!(printed.last(), Some(&60));
    let records = on.campaign.records(run);
    show(&on, &records, run);
    assert_eq!(from(&records), "partner");
    assert_eq!(values(&records, "level_rebuilt_bytes").len(), 1);
    on.assert_nothing_left(&["n1", "n2", "n3", "n4", "n5", "n6"]);
}

#[test]
fn a_loss_that_no_level_bears_is_named_and_nothing_is_left() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = format!("{OWN}\nstrategy = \"local\"");
    let on = resumed("unborne", &factors, "", OPEN_MPI);
    run_while(&on, |on| {
        wait_kept(on, &NODES, "*");
        on.lab.node("n3").poweroff();
    });
    let failures = on.campaign.failures();
    let [(cause, detail)] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert_eq!(cause, "node-lost");
    for part in [
        "n3: ",
        "no checkpoint can be restarted: checkpoint ",
        "n3 has lost its files, and with `local` no other node has them",
        "none is flushed to shared storage (flush_every)",
    ] {
        assert!(detail.contains(part), "{detail}");
    }
    assert_eq!(on.campaign.events("checkpoint-kept").len(), 0);
    on.assert_nothing_left(&["n1", "n2", "n4", "n5", "n6"]);
}

#[test]
fn images_on_nodes_continue_on_a_spare_node() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let factors = "checkpointer = \"dmtcp\"\nstrategy = \"xor\"";
    let moment = "moment = { every_s = 4, count = 2, compare = false }";
    let on = resumed("spare", factors, moment, &with_dmtcp());
    let output = run_while(&on, |on| {
        wait_kept(on, &NODES, "*");
        on.lab.node("n3").poweroff();
    });
    output.expect(0);
    let (run, losses) = the_run(&on);
    assert_eq!(losses, 1);
    let printed = steps(&on, &run);
    assert!(printed[0] > 1, "{printed:?}");
    assert_eq!(printed.last(), Some(&60));
    let records = on.campaign.records(&run);
    show(&on, &records, &run);
    assert_eq!(from(&records), "xor");
    assert_eq!(values(&records, "level_rebuilt_bytes").len(), 1);
    on.assert_nothing_left(&["n1", "n2", "n4", "n5", "n6"]);
}
