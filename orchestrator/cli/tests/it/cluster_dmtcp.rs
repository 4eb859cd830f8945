//! Tests of checkpoints by the real DMTCP on the nodes of a site.

use crate::common::cluster::{OnLab, slurm_site_with, ssh_site_with};
use cvc_testkit::{Lab, Tool, campaign::read_json, require};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Descriptor of the built-in stencil, with sizes that compute for some seconds. All nodes of a lab share one machine's cores, so waiting ranks yield
/// their core.
const STENCIL: &str = "schema = 1\nname = \"stencil\"\ntitle = \"the stencil kernel, some seconds long\"\nkernel = true\n\
    [program]\nnames = [\"kernel-stencil\"]\ninstall = \"part of cvc\"\n\
    [command]\nargs = [\"--size\", \"32\", \"--steps\", \"60\", \"--work\", \"{{w.work}}\", \"--ckpt-every\", \"0\"]\n\
    env = { OMPI_MCA_mpi_yield_when_idle = \"1\", MPIR_CVAR_POLLS_BEFORE_YIELD = \"1\" }\n\
    [workloads.short]\nvars = { work = 120 }\n[workloads.middle]\nvars = { work = 900 }\n[workloads.long]\nvars = { work = 4000 }\n\
    [success]\npattern = '^Verification = SUCCESSFUL'\nforbid = '^Verification = FAILED'\n[progress]\nstep = '^Time step (\\d+)'\n";

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Returns the prefix of a tool that the test requires.
fn root(tool: Tool) -> PathBuf {
    tool.find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()))
        .expect("the test requires it")
}

/// Returns the keys of a site for DMTCP.
fn dmtcp(site: &str) -> String {
    let prefix = root(Tool::Dmtcp);
    format!("[sites.{site}.dmtcp]\nprefix = \"{}\"\n", prefix.display())
}

/// Returns the keys of a site for DMTCP, and for MPI libraries that DMTCP can restart on several nodes.
fn libraries(site: &str) -> String {
    format!(
        "{}[sites.{site}.mpi.mpich]\nfamily = \"mpich\"\nprefix = \"{}\"\n[sites.{site}.mpi.openmpi]\nfamily = \"openmpi\"\n",
        dmtcp(site),
        root(Tool::MpichForRestart).display()
    )
}

/// Keys of a site with a node-local and a shared storage area.
const AREAS: &str = "storage.local = { path = \"/scratch-local\", kind = \"node-local\" }\n\
                     storage.shared = { path = \"/shared/work\", kind = \"shared\" }";

fn lab() -> Lab {
    Lab::builder().nodes(4).scratch_mib(1024).build()
}

fn stencil(lab: Lab, name: &str, factors: &str, run: &str, checkpoint: &str) -> OnLab {
    stencil_on(
        &ssh_site_with(4, AREAS, &libraries("lab")),
        lab,
        name,
        factors,
        run,
        checkpoint,
    )
}

fn stencil_on(
    site: &str,
    lab: Lab,
    name: &str,
    factors: &str,
    run: &str,
    checkpoint: &str,
) -> OnLab {
    let text = format!(
        "{site}[matrix]\napp = \"stencil\"\ncheckpointer = \"dmtcp\"\n{factors}\n[run]\nretries = 0\ntimeout_s = 600\n{run}\n\
         [checkpoint]\ntimeout_s = 300\n{checkpoint}\n"
    );
    let on = OnLab::new(lab, name, &text);
    on.campaign.put("apps/stencil.toml", STENCIL);
    on
}

fn with<'a>(records: &'a [Value], name: &str, labels: &[(&str, &str)]) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|r| r["name"] == name && labels.iter().all(|(k, v)| r["labels"][*k] == *v))
        .collect()
}

#[test]
fn images_are_found_on_every_node_and_shared_memory_falls_with_fewer_ranks_on_a_node() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::MpichForRestart, Tool::OpenMpi);
    let factors = "class = \"long\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", \"1Nx3P+1Nx1P\"]\nmpi = [\"mpich\", \"openmpi\"]";
    let on = stencil(
        lab(),
        "sizes",
        factors,
        "repeats = 1",
        "moment = \"size-only\"",
    );
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
    on.campaign.assert_whole(8);
    let mut shared_memory: BTreeMap<(String, String), f64> = BTreeMap::new();
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let point = read_json(&on.campaign.run_dir(&run).join("run.json"))["point"].clone();
        let text = |key: &str| {
            point[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key} in {point}"))
                .to_owned()
        };
        let loads: &[usize] = match text("mapping").as_str() {
            "1Nx4P" => &[4],
            "2Nx2P" => &[2, 2],
            "4Nx1P" => &[1; 4],
            "1Nx3P+1Nx1P" => &[3, 1],
            other => panic!("{other}"),
        };
        // ranks are numbered in the order of the nodes
        let mut rank = 0;
        for (node, load) in NODES.iter().zip(loads) {
            assert_eq!(
                with(&records, "image_bytes", &[("node", node)])
                    .iter()
                    .filter(|r| r["labels"]["rank"].is_string())
                    .count(),
                *load,
                "{run} {node}"
            );
            for _ in 0..*load {
                let name = rank.to_string();
                let found = with(
                    &records,
                    "zone_bytes",
                    &[
                        ("node", node),
                        ("rank", &name),
                        ("rule", "structural"),
                        ("zone", "SHMEM"),
                    ],
                );
                assert_eq!(found.len(), 1, "{run}: rank {name} on {node}");
                let bytes = found[0]["value"].as_f64().expect("a number");
                let key = (text("mpi"), text("mapping"));
                let most = shared_memory.entry(key).or_default();
                *most = most.max(bytes);
                rank += 1;
            }
        }
        assert_eq!(
            with(&records, "ckpt_files", &[("kind", "rank")])[0]["value"],
            4.0,
            "{run}"
        );
        let facts = read_json(&on.campaign.run_dir(&run).join("facts.json"));
        let nodes = facts["nodes"]
            .as_array()
            .unwrap_or_else(|| panic!("nodes in {facts}"));
        assert_eq!(
            nodes
                .iter()
                .map(|n| n["name"].as_str().unwrap_or_default())
                .collect::<Vec<_>>(),
            NODES[..loads.len()],
            "{run}"
        );
        for node in nodes {
            assert_eq!(node["host"], node["name"]);
            assert_eq!(node["storage"], "tmpfs tmpfs on /scratch-local", "{node}");
            assert!(
                node["kernel"].is_string()
                    && node["glibc"].is_string()
                    && node["memory_bytes"].is_u64(),
                "{node}"
            );
            assert!(
                node["interfaces"].as_array().is_some_and(|i| i
                    .iter()
                    .any(|i| i.as_str().is_some_and(|i| i.starts_with("eth0")))),
                "{node}"
            );
        }
    }
    let of = |mapping: &str| shared_memory[&("mpich".to_owned(), mapping.to_owned())] / 1048576.0;
    assert!(
        of("1Nx4P") > of("1Nx3P+1Nx1P")
            && of("1Nx3P+1Nx1P") > of("2Nx2P")
            && of("2Nx2P") > of("4Nx1P"),
        "{shared_memory:?}"
    );
    for (mapping, ranks) in [("1Nx4P", 4.0), ("1Nx3P+1Nx1P", 3.0), ("2Nx2P", 2.0)] {
        // the image of each rank contains the shared segment of nemesis for its node; a rank that is alone on its node has none
        let (segment, formula) = (of(mapping) - of("4Nx1P"), ranks * (ranks + 63.0) / 16.0);
        assert!(
            (segment / formula - 1.0).abs() < 0.15,
            "{mapping}: {segment} MiB, expected {formula}"
        );
    }
    let report =
        fs::read_to_string(on.campaign.dir().join("reports/sizes/report.md")).expect("the report");
    assert!(report.contains("1Nx3P+1Nx1P"), "{report}");
    on.assert_nothing_left(&NODES);
}

#[test]
fn a_series_on_storage_of_each_node_is_that_on_shared_storage() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let on = stencil_on(
        &ssh_site_with(4, AREAS, &dmtcp("lab")),
        lab(),
        "series",
        "class = \"middle\"\nmapping = \"2Nx2P\"\nmpi = \"openmpi\"\nstorage = [\"local\", \"shared\"]",
        "repeats = 1",
        "moment = { every_s = 0.5, count = 3 }",
    );
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
    on.campaign.assert_whole(2);
    let mut sizes = Vec::new();
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let of = |name: &str, labels: &[(&str, &str)]| {
            let found = with(&records, name, labels);
            assert_eq!(found.len(), 1, "{run}: {name} {labels:?}");
            found[0]["value"].as_f64().expect("a number")
        };
        assert_eq!(of("series_checkpoints", &[]), 3.0);
        let bytes = of("series_bytes", &[("ckpt", "1")]);
        // the data are the images of all ranks and launchers on all nodes; the only other files are those that DMTCP saved
        let sum = |name: &str, labels: &[(&str, &str)]| -> f64 {
            let all = with(&records, name, labels).into_iter();
            all.map(|r| r["value"].as_f64().expect("a number")).sum()
        };
        let first = [("ckpt", "1")];
        let data = sum("zone_bytes", &[("ckpt", "1"), ("rule", "owner")]);
        let saved = sum("ckpt_bytes", &[("ckpt", "1"), ("kind", "aux")]);
        assert!(
            data > 0.0 && (data..=data + saved + 1.0).contains(&bytes),
            "{run}: {bytes} of {data} and {saved}"
        );
        assert!(sum("area_headers", &first) > 0.0);
        let changed = of("series_changed_bytes", &[("ckpt", "3"), ("since", "2")]);
        assert!(changed > 0.0 && changed < bytes, "{run}: {changed}");
        let zones = sum(
            "series_zone_changed_bytes",
            &[("ckpt", "3"), ("since", "2")],
        );
        assert!(
            zones > 0.0 && zones <= changed,
            "{run}: {zones} of {changed}"
        );
        sizes.push(bytes);
    }
    assert!((sizes[0] / sizes[1] - 1.0).abs() < 0.02, "{sizes:?}");
}

fn restart(mpi: &str) {
    let factors = format!(
        "class = \"short\"\nmapping = \"2Nx2P\"\nmpi = \"{mpi}\"\nstorage = [\"local\", \"shared\"]"
    );
    let repeats: usize = std::env::var("CVC_TEST_REPEATS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    let on = stencil(
        lab(),
        "restart",
        &factors,
        &format!("repeats = {repeats}"),
        "moment = { after_step = 15 }\nrestart_check = true",
    );
    let output = on.run();
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
    on.campaign.assert_whole(2 * repeats);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        assert_eq!(
            with(&records, "restart_verified", &[])[0]["value"],
            1.0,
            "{run}"
        );
        let restarted = fs::read_to_string(on.campaign.run_dir(&run).join("restart.stdout"))
            .expect("its output");
        assert!(
            restarted.contains("Verification = SUCCESSFUL") && !restarted.contains("Time step 1\n"),
            "{run}: {restarted}"
        );
    }
    on.assert_nothing_left(&NODES);
}

#[test]
fn a_restart_on_two_nodes_verifies_with_mpich() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::MpichForRestart, Tool::OpenMpi);
    restart("mpich");
}

#[test]
fn a_restart_on_two_nodes_verifies_with_open_mpi() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::MpichForRestart, Tool::OpenMpi);
    restart("openmpi");
}

#[test]
fn inside_a_slurm_job_ranks_are_started_by_ssh_or_the_point_is_refused() {
    require!(
        Tool::Lab,
        Tool::Slurm,
        Tool::Dmtcp,
        Tool::MpichForRestart,
        Tool::OpenMpi
    );
    let lab = Lab::builder().nodes(4).login(true).build();
    let slurm = lab.slurm();
    slurm.wait_idle(4);
    let site = slurm_site_with("", "", &libraries("slurm"));
    let factors = "class = \"long\"\nmapping = \"2Nx2P\"\nmpi = [\"mpich\", \"openmpi\"]";
    let on = stencil_on(
        &site,
        lab,
        "slurm",
        factors,
        "repeats = 1",
        "moment = \"size-only\"",
    );
    let output = on.run();
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let nodes: Vec<&str> = (0..4)
            .map(|rank| {
                with(&records, "image_bytes", &[("rank", &rank.to_string())])[0]["labels"]["node"]
                    .as_str()
                    .unwrap_or_default()
            })
            .collect();
        assert!(
            nodes[0] == nodes[1]
                && nodes[2] == nodes[3]
                && nodes[0] != nodes[2]
                && nodes.iter().all(|n| NODES.contains(n)),
            "{nodes:?}"
        );
    }
    on.assert_nothing_left(&["login", "n1", "n2", "n3", "n4"]);
    // close the nodes to each other's ssh
    for node in NODES {
        on.lab.node(node).shell("rm /root/.ssh/id_ed25519");
    }
    on.campaign.put(
        "campaign.toml",
        &fs::read_to_string(on.campaign.dir().join("campaign.toml"))
            .expect("text")
            .replace("name = \"slurm\"\n[sites", "name = \"refused\"\n[sites"),
    );
    let output = on.run();
    eprintln!("{:?} {}\n{}", output.code, output.stdout, output.stderr);
    assert_ne!(output.code, Some(0));
    assert!(
        output.stderr.contains("on other nodes by ssh, not by srun"),
        "{}",
        output.stderr
    );
}

/// Prints the sizes of images of NAS BT as a table on standard error.
#[test]
fn images_of_nas_bt_over_nodes() {
    require!(
        Tool::Lab,
        Tool::Dmtcp,
        Tool::MpichForRestart,
        Tool::OpenMpi,
        Tool::Npb
    );
    let npb = Tool::Npb.find().expect("the test requires it");
    let libraries = libraries("lab").replace("[sites.lab.mpi.mpich]", "[sites.lab.mpi.mpich-ch3]");
    let class = std::env::var("CVC_TEST_CLASS").unwrap_or_else(|_| "W".into());
    let text = format!(
        "{}[matrix]\napp = \"npb-bt\"\ncheckpointer = \"dmtcp\"\nclass = \"{class}\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", \"3Nx1P+1Nx1P\"]\n\
         mpi = [\"mpich-ch3\", \"openmpi\"]\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n[checkpoint]\ntimeout_s = 300\nmoment = \"size-only\"\n",
        ssh_site_with(
            4,
            &format!("app_dirs = [\"{}\"]\n{AREAS}", npb.display()),
            &libraries
        )
    );
    let on = OnLab::new(lab(), "bt", &text);
    let output = on.run();
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output.expect(0);
    on.campaign.assert_whole(8);
    let mut lines = Vec::new();
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let point = read_json(&on.campaign.run_dir(&run).join("run.json"))["point"].clone();
        for rank in 0..4 {
            let rank = rank.to_string();
            let mib = |name: &str, labels: &[(&str, &str)]| {
                let all: Vec<(&str, &str)> = labels
                    .iter()
                    .copied()
                    .chain([("rank", rank.as_str())])
                    .collect();
                let found = with(&records, name, &all);
                assert_eq!(found.len(), 1, "{run}: {name} of rank {rank}");
                found[0]["value"].as_f64().expect("a number") / 1048576.0
            };
            let zone = |zone: &str| mib("zone_bytes", &[("zone", zone), ("rule", "structural")]);
            let subs: Vec<String> = with(
                &records,
                "sub_zone_bytes",
                &[("rank", &rank), ("zone", "SHMEM")],
            )
            .iter()
            .map(|r| {
                format!(
                    "{} {:.3}",
                    r["labels"]["sub"].as_str().unwrap_or_default(),
                    r["value"].as_f64().unwrap_or_default() / 1048576.0
                )
            })
            .collect();
            let node =
                with(&records, "image_bytes", &[("rank", &rank)])[0]["labels"]["node"].clone();
            lines.push(format!(
                "{} {} rank {rank} on {node}: image {:.3} DTAPP {:.3} LB {:.3} SHMEM {:.3} MiB ({})",
                point["mpi"],
                point["mapping"],
                mib("image_bytes", &[]),
                zone("DTAPP"),
                zone("LB"),
                zone("SHMEM"),
                subs.join(", ")
            ));
        }
    }
    lines.sort();
    eprintln!("{}", lines.join("\n"));
    on.assert_nothing_left(&NODES);
}

/// Each node stores, restores and compares its own images; the program restarts from the last state of all nodes.
#[test]
fn a_program_is_restarted_from_deltas_that_each_node_made_on_storage_of_its_own() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let openmpi = format!(
        "{}[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n",
        dmtcp("lab")
    );
    let on = stencil_on(
        &ssh_site_with(4, AREAS, &openmpi),
        Lab::builder()
            .nodes(4)
            .scratch_mib(2048)
            .shared_mib(4096)
            .build(),
        "deltas",
        "class = \"long\"\nmapping = \"2Nx2P\"\nmpi = \"openmpi\"\nstorage = [\"local\", \"shared\"]",
        "repeats = 1",
        "restart_check = true\nmoment = { every_s = 1, count = 3 }\n\
         deltas = { methods = [\"incremental\", \"full\"], codecs = [\"lz4\"], keep = true }",
    );
    on.run().expect(0);
    on.campaign.assert_whole(2);
    for run in on.campaign.run_names() {
        let records = on.campaign.records(&run);
        let values = |name: &str, labels: &[(&str, &str)]| -> Vec<f64> {
            let found = with(&records, name, labels);
            found.iter().filter_map(|r| r["value"].as_f64()).collect()
        };
        assert_eq!(values("restart_verified", &[]), [1.0]);
        for method in ["incremental", "full"] {
            for name in ["series_file_bytes", "series_store_s", "series_restore_s"] {
                let found = values(name, &[("method", method)]);
                assert_eq!(found.len(), 3, "{name} {method} {records:?}");
                assert!(found.iter().all(|v| *v > 0.0), "{name}: {found:?}");
            }
        }
        let restarted = values("series_restarted_bytes", &[("ckpt", "3")]);
        // the series of both nodes are kept, and together they are the state from which the program restarted
        let point = read_json(&on.campaign.run_dir(&run).join("run.json"))["point"].clone();
        let kept = on.campaign.run_dir(&run).join("deltas");
        let parts: Vec<PathBuf> = if point["storage"] == "local" {
            vec![kept.join("n1"), kept.join("n2")]
        } else {
            vec![kept]
        };
        let mut content = 0.0;
        for part in parts {
            let series = cvc_delta::Series::open(&part).expect("the series");
            assert_eq!(series.states().len(), 3);
            content += series.states()[2].content_bytes as f64;
            for state in 1..=3 {
                series.verify(state, None, &|_| {}).expect("whole");
            }
        }
        assert_eq!(restarted, [content]);
    }
    on.assert_nothing_left(&NODES);
}
