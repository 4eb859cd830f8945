//! What is expected of a plan: time, space and money, and what machines have too little of.

use crate::bench::{Begun, Bench, CLOUD, LOCAL, TWO_POINTS};
use cvc_core::ids::PointId;
use cvc_core::record::{Record, Source, Unit, names};
use cvc_session::{CampaignSession, Expectations, ShortResource, Shortage, SoftwareGap};
use indexmap::IndexMap;
use std::collections::HashMap;

fn expectations(session: &CampaignSession) -> Expectations {
    session.expectations(&session.plan, &IndexMap::new())
}

fn obstacles<'s>(session: &'s CampaignSession, of: &Expectations) -> HashMap<&'s PointId, String> {
    of.obstacles(&session.spec, &session.plan, &IndexMap::new())
}

#[test]
fn instances_are_too_small_for_more_processes_than_they_have_processors() {
    let matrix = "app = 'demo'\nclass = 'S'\nmapping = ['1Nx2P', '2Nx2P', '1Nx3P']\n";
    let session = Bench::new(CLOUD, matrix, "").look();
    let expected = expectations(&session);
    assert_eq!(expected.machines.cores_of("cloud"), Some(2));
    let obstacles = obstacles(&session, &expected);
    let of: Vec<(&PointId, &str)> = obstacles
        .iter()
        .map(|(id, why)| (*id, why.as_str()))
        .collect();
    let three = &session.plan.points[2].id;
    assert_eq!(
        of,
        [(
            three,
            "1Nx3P puts more processes on a node than the 2 vCPUs of c5.large; set oversubscribe = true for the site to allow it"
        )]
    );
    let oversubscribed = CLOUD.replace("[budget]", "oversubscribe = true\n[budget]");
    let session = Bench::new(&oversubscribed, matrix, "").look();
    let expected = expectations(&session);
    assert!(self::obstacles(&session, &expected).is_empty());
}

#[test]
fn points_that_cannot_run_cost_nothing() {
    let matrix = "app = 'demo'\nclass = ['S', 'W']\nmapping = '1Nx2P'\n";
    let session = Bench::new(CLOUD, matrix, "").look();
    let expected = expectations(&session);
    let usd = |obstacles: &HashMap<&PointId, String>| {
        let cost = expected.cost(&session.spec, &session.plan, obstacles);
        cost.usd.expect("known prices")
    };
    let all = usd(&HashMap::new());
    let ids: Vec<&PointId> = session.plan.points.iter().map(|p| &p.id).collect();
    let none = ids.iter().map(|id| (*id, "no".to_owned())).collect();
    let one = [(ids[1], "no".to_owned())].into();
    assert!(all > usd(&one) && usd(&one) > 0.0, "{all} {}", usd(&one));
    assert_eq!(usd(&none), 0.0);
}

#[test]
fn sites_whose_cores_are_unknown_are_named_once() {
    let far = "[sites.far]\nkind = 'ssh'\nhosts = ['n1', 'n2']\n";
    let unused = "[sites.unused]\nkind = 'ssh'\nhosts = ['n3']\n";
    let matrix = format!("{TWO_POINTS}site = ['here', 'far']\n");
    let session = Bench::new(&format!("{LOCAL}{far}{unused}"), &matrix, "").look();
    let expected = expectations(&session);
    let mut said = expected.without_cores(&session.spec, &session.plan);
    said.sort();
    let of = |site: &str| {
        format!(
            "cores of nodes of the site {site} are not known: time not estimated; hint: cores = N in [sites.{site}]"
        )
    };
    assert_eq!(said, [of("far"), of("here")]);
    let known = far.replace("hosts", "cores = 4\nhosts");
    let session = Bench::new(&format!("{LOCAL}{known}"), &matrix, "").look();
    let expected = expectations(&session);
    assert_eq!(expected.machines.cores_of("far"), Some(4));
    let said = expected.without_cores(&session.spec, &session.plan);
    assert_eq!(said, [of("here")]);
}

#[test]
fn memory_is_short_where_earlier_runs_stored_more_than_an_instance_has() {
    let matrix = "app = 'demo'\nclass = 'S'\nmapping = '1Nx2P'\ncheckpointer = 'dmtcp'\n";
    let bench = Bench::new(CLOUD, matrix, "[run]\nrepeats = 1\n");
    let session = bench.look();
    let run = session.plan.runs[0].id.clone();
    let stored = |bytes: f64| -> Vec<Shortage> {
        let record = Record {
            run: run.clone(),
            name: names::CKPT_STORED_BYTES.to_owned(),
            value: bytes,
            unit: Unit::Bytes,
            source: Source::FileSize,
            artefact: None,
            labels: [("ckpt".to_owned(), "1".to_owned())].into(),
        };
        let text = serde_json::to_string(&record).expect("JSON") + "\n";
        bench.write(&format!("campaigns/c/runs/{run}/records.jsonl"), &text);
        let plan = serde_json::to_string(&session.plan).expect("JSON");
        bench.write("campaigns/c/plan.json", &plan);
        let lines = [
            r#"{"seq":1,"at":"2030-01-01T00:00:01Z","event":"opened","format":1,"campaign":"c","cvc":"0.1.0"}"#.to_owned(),
            format!(r#"{{"seq":2,"at":"2030-01-01T00:00:02Z","event":"run-intended","run":"{run}","attempt":1}}"#),
            format!(
                r#"{{"seq":3,"at":"2030-01-01T00:00:03Z","event":"run-finished","run":"{run}","attempt":1,"outcome":{{"result":"succeeded"}}}}"#
            ),
        ];
        bench.write("campaigns/c/journal.jsonl", &(lines.join("\n") + "\n"));
        let expected = expectations(&session);
        let shortages = expected.shortages(
            &session.spec,
            &session.plan,
            &obstacles(&session, &expected),
        );
        let all = obstacles_of_all(&session);
        let none = expected.shortages(&session.spec, &session.plan, &all);
        assert!(none.is_empty(), "of points that can run");
        shortages
            .into_iter()
            .filter(|short| short.resource == ShortResource::Memory)
            .collect()
    };
    // earlier runs are taken with a margin of 5 %; it has 4 GiB
    let there = 4u64 << 30;
    assert_eq!(stored(there as f64 / 1.06), []);
    let short = stored(there as f64 / 1.04);
    assert_eq!(short.len(), 1);
    let short = &short[0];
    assert_eq!(
        (short.site.as_str(), short.of.as_str()),
        ("cloud", "c5.large")
    );
    assert_eq!((short.points, short.there_bytes), (1, there));
    assert!(short.needed_bytes > there && short.needed_bytes < there / 100 * 102);
}

fn obstacles_of_all(session: &CampaignSession) -> HashMap<&PointId, String> {
    let points = session.plan.points.iter();
    points.map(|p| (&p.id, "no".to_owned())).collect()
}

#[test]
fn a_shortage_names_the_resource_and_the_amount() {
    let memory = Shortage {
        resource: ShortResource::Memory,
        site: "cloud".into(),
        of: "c5.large".into(),
        points: 1,
        needed_bytes: 5 << 30,
        there_bytes: 4 << 30,
    };
    let text = memory.describe();
    assert!(
        text.starts_with("NOT ENOUGH MEMORY: 1 point of the site cloud needs up to "),
        "{text}"
    );
    assert!(text.contains("a larger instance type"), "{text}");
    let disk = Shortage {
        resource: ShortResource::Disk,
        points: 2,
        needed_bytes: 8 << 30,
        ..memory
    };
    let text = disk.describe();
    assert!(
        text.starts_with("NOT ENOUGH DISK: 2 points of the site cloud need up to "),
        "{text}"
    );
    // a quarter more, and 4 GiB for the system
    assert!(
        text.contains("a disk of 14 GiB for the site (`size_gib`)"),
        "{text}"
    );
}

/// What disks of 10 GiB are too small for with much output, and the peaks of the points.
fn short_disks(settings: &str, mapping: &str) -> (Vec<Shortage>, Vec<u64>) {
    let disk = CLOUD.replace(
        "nodes = 4",
        &format!("nodes = 4, root = {{ size_gib = 10 }}{settings}"),
    );
    let disk = disk.replace("kind = 'ec2'", "kind = 'ec2'\nbase = '/scratch/cvc'");
    let matrix = format!("app = 'big'\nclass = 'S'\nmapping = {mapping}\n");
    let bench = Bench::new(&disk, &matrix, "");
    let demo = std::fs::read_to_string(bench.path("apps/demo.toml")).expect("an application");
    let big = demo
        .replace("name = \"demo\"", "name = \"big\"")
        .replace("output_mib = 2.0", "output_mib = 30000.0");
    bench.write("apps/big.toml", &big);
    let session = bench.look();
    let expected = expectations(&session);
    let mut found = expected.shortages(&session.spec, &session.plan, &HashMap::new());
    found.retain(|short| short.resource == ShortResource::Disk);
    let peaks = expected.estimates.points.iter().map(|p| p.peak_bytes);
    (found, peaks.collect())
}

#[test]
fn a_disk_is_short_where_the_files_of_runs_do_not_fit() {
    let (disks, peaks) = short_disks("", "'2Nx1P'");
    assert_eq!(disks.len(), 1, "{disks:?}");
    // system and software take 3 of 10
    assert_eq!(disks[0].there_bytes, 7 << 30);
    assert!(
        disks[0].of.contains(" of c5.large, without 3 GiB"),
        "{}",
        disks[0].of
    );
    assert_eq!(
        disks[0].needed_bytes,
        peaks[0] / 2,
        "each of two nodes has half of it"
    );
    // the node that exports its disk has the files of all
    let (disks, peaks) = short_disks(", nfs = '/scratch'", "'2Nx1P'");
    assert_eq!(disks[0].needed_bytes, peaks[0]);
}

#[test]
fn a_shortage_is_reported_once_with_the_point_that_needs_the_most() {
    let (disks, peaks) = short_disks("", "['1Nx1P', '2Nx1P']");
    assert_eq!((disks.len(), disks[0].points), (1, 2), "{disks:?}");
    assert_eq!(disks[0].needed_bytes, peaks[0].max(peaks[1] / 2));
    assert!(peaks[0] > peaks[1] / 2, "the first one is the larger");
}

#[test]
fn a_campaign_that_has_not_begun_is_estimated_all_the_same() {
    let begun = Begun::new();
    let expected = expectations(&begun.session);
    assert_eq!(expected.estimates.points.len(), 2);
    assert!(expected.spaces.is_empty(), "nothing is checkpointed");
}

#[test]
fn software_that_a_plain_image_cannot_get_is_said_with_the_way_to_get_it() {
    let matrix = "app = 'npb-bt'\nclass = 'S'\nmapping = '1Nx1P'\nmpi = 'mpich'\ncheckpointer = ['none', 'dmtcp']\n";
    let gaps = |site: &str| {
        let session = Bench::new(site, matrix, "").look();
        SoftwareGap::find(&session.spec, &session.plan)
    };
    let plain = gaps(CLOUD);
    let [gap] = plain.as_slice() else {
        panic!("{plain:?}")
    };
    assert_eq!(
        (gap.names.join(" "), gap.is_certain),
        ("npb-bt DMTCP".to_owned(), true)
    );
    assert!(
        gap.describe().contains("the image debian-12 has no Spack"),
        "{}",
        gap.describe()
    );
    let with = |keys: &str| gaps(&CLOUD.replace("kind = 'ec2'", &format!("kind = 'ec2'\n{keys}")));
    // the campaign says where it is, or that Spack is there
    assert!(with("app_dirs = ['/opt/npb']\ndmtcp = { prefix = '/opt/dmtcp' }").is_empty());
    let own = with("install = { spack = '/opt/spack' }");
    assert!(
        !own[0].is_certain && own[0].found.contains("must have them, or Spack"),
        "{own:?}"
    );
    assert!(gaps(LOCAL).is_empty(), "this machine is asked");
}
