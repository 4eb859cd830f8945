//! What a site sets up before launchers, and which nodes of Slurm it asks for: checks, identifiers, plans.

use cvc_core::campaign::{self, Spec};
use cvc_core::plan::{self, Machines};
use rstest::rstest;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps")
}

const MATRIX: &str =
    "[matrix]\napp = ['demo', 'square']\nclass = 'S'\nprocesses = 4\nmpi = ['mpich', 'openmpi']\n";

fn load(sites: &str) -> Result<Spec, String> {
    let text = format!("schema = 1\nname = 'test'\n{sites}\n{MATRIX}");
    campaign::load_text(Path::new("test.toml"), &text, &[apps()]).map_err(|e| e.to_string())
}

/// The identifiers of the points, in the order demo and square with MPICH, then with Open MPI, as far as the order of factors says so.
fn ids(rest: &str) -> HashMap<(String, String), String> {
    let spec = load(&format!("[sites.local]\nkind = 'local'\n{rest}")).expect("it is sound");
    plan::build(&spec)
        .points
        .iter()
        .map(|p| {
            (
                (p.point.app.clone(), p.point.mpi.clone()),
                p.id.as_str().to_owned(),
            )
        })
        .collect()
}

/// Points whose identifier differs from that without an environment.
fn changed(rest: &str) -> Vec<String> {
    let before = ids("");
    let mut changed: Vec<String> = ids(rest)
        .into_iter()
        .filter(|(key, id)| before[key] != *id)
        .map(|((app, mpi), _)| format!("{app} {mpi}"))
        .collect();
    changed.sort();
    changed
}

#[test]
fn an_environment_is_part_of_the_points_that_it_is_for() {
    let libraries = "[sites.local.mpi.mpich]\nfamily = 'mpich'\n[sites.local.mpi.openmpi]\nfamily = 'openmpi'\n";
    assert!(changed("").is_empty());
    assert!(changed(libraries).is_empty());
    assert!(changed("[sites.local.environment]\nmodules = []\n").is_empty());
    assert_eq!(
        changed("[sites.local.environment]\nmodules = ['gcc/12']\n").len(),
        4
    );
    assert_eq!(
        changed(&format!(
            "{libraries}[sites.local.mpi.mpich.environment]\nprologue = ['ulimit -s 100']\n"
        )),
        ["demo mpich", "square mpich"]
    );
    assert_eq!(
        changed("[sites.local.apps.square.environment]\nprologue = ['export A=1']\n"),
        ["square mpich", "square openmpi"]
    );
}

#[test]
fn site_library_and_application_follow_in_this_order() {
    let spec = load(
        "[sites.local]\nkind = 'local'\nenvironment = { modules = ['gcc'], prologue = ['one'] }\n\
         [sites.local.mpi.mpich]\nfamily = 'mpich'\nmodule = 'mpich/4'\nenvironment = { modules = ['ucx'], prologue = ['two'] }\n\
         [sites.local.mpi.openmpi]\nfamily = 'openmpi'\nmodule = 'openmpi/4'\n\
         [sites.local.apps.demo]\nenvironment = { modules = ['hdf5'], prologue = ['three'] }\n",
    )
    .expect("it is sound");
    let site = &spec.sites["local"];
    let of = |mpi, app| {
        let environment = site.run_environment(mpi, app);
        [
            environment.modules.join(" "),
            environment.prologue.join(" "),
        ]
    };
    assert_eq!(
        of("mpich", Some("demo")),
        ["gcc ucx mpich/4 hdf5", "one two three"]
    );
    assert_eq!(of("openmpi", Some("square")), ["gcc openmpi/4", "one"]);
    // a library's own module alone is no environment
    let plain = load(
        "[sites.local]\nkind = 'local'\n[sites.local.mpi.mpich]\nfamily = 'mpich'\nmodule = 'mpich/4'\n[sites.local.mpi.openmpi]\nfamily = 'openmpi'\n",
    );
    assert!(
        plain.expect("it is sound").sites["local"]
            .run_environment("mpich", Some("demo"))
            .is_empty()
    );
}

#[rstest]
#[case::two_names(
    "environment = { modules = ['gcc hdf5'] }",
    "\"gcc hdf5\" is not the name of a module"
)]
#[case::option(
    "environment = { modules = ['-gcc'] }",
    "write \"module unload gcc\" as a line of `prologue`"
)]
#[case::two_lines(
    "environment = { prologue = ['a', \"b\\nc\"] }",
    "write one entry for each line"
)]
#[case::empty("environment = { prologue = [' '] }", "not one line of bash")]
#[case::unknown_key("environment = { module = ['gcc'] }", "unknown")]
#[case::unknown_app(
    "apps = { squares = { environment = { modules = ['gcc'] } } }",
    "did you mean `square`?"
)]
fn a_wrong_environment_is_shown_where_it_stands(#[case] key: &str, #[case] part: &str) {
    let error = load(&format!("[sites.local]\nkind = 'local'\n{key}\n")).expect_err("it is wrong");
    assert!(
        error.contains(part) && error.contains("test.toml:5:"),
        "{error}"
    );
}

/// A Slurm site with these keys.
fn slurm(keys: &str) -> Result<Spec, String> {
    load(&format!(
        "[sites.cluster]\nkind = 'slurm'\ncores = 4\n[sites.cluster.slurm]\nnodes = 2\n{keys}\n"
    ))
}

#[rstest]
#[case::path("nodelist = '/home/me/nodes'", "is not a list of nodes")]
#[case::bracket("exclude = 'n[1-'", "is not a list of nodes")]
#[case::blank("exclude = 'n1, n2'", "is not a list of nodes")]
#[case::empty("licenses = ''", "`licenses` is empty")]
#[case::both("nodelist = 'n[1-2]'\nexclude = 'n2'", "`n2` is in `nodelist` as well")]
#[case::many("nodelist = 'n[1-3]'", "has 3 nodes, but a job has at most 2")]
#[case::no_gpu("gpus_per_node = 0", "write a number above 0")]
#[case::no_type("gpus_per_node = ':2'", "\"a100:2\"")]
#[case::negative("gpus_per_node = -1", "a number of GPUs")]
fn wrong_nodes_are_shown_where_they_stand(#[case] keys: &str, #[case] part: &str) {
    let error = slurm(keys).expect_err("it is wrong");
    assert!(
        error.contains(part) && error.contains("test.toml:"),
        "{error}"
    );
}

#[test]
fn nodes_gpus_and_licences_are_asked_for_as_sbatch_has_them() {
    let spec = slurm("nodelist = 'n[1-2]'\nexclude = 'n7'\ngpus_per_node = 'a100:2'\nlicenses = 'matlab:2'\nconstraint = 'rome'").expect("it is sound");
    let settings = spec.sites["cluster"]
        .cluster
        .as_ref()
        .and_then(|c| c.slurm.as_ref())
        .expect("settings");
    let words = |nodes| -> Vec<String> {
        let options = settings.placement(nodes);
        options
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    };
    assert!(
        words(1).contains(&"nodelist=n1".to_owned()),
        "a smaller job"
    );
    assert_eq!(
        words(2),
        [
            "constraint=rome",
            "nodelist=n[1-2]",
            "exclude=n7",
            "gpus-per-node=a100:2",
            "licenses=matlab:2"
        ]
    );
    let id = |keys: &str| {
        plan::build(&slurm(keys).expect("it is sound")).points[0]
            .id
            .clone()
    };
    // equal nodes are not part of a point, GPUs are
    assert_eq!(id(""), id("exclude = 'n7'"));
    assert_ne!(id(""), id("gpus_per_node = 1"));
}

#[test]
fn a_job_that_is_shorter_than_a_run_is_reported_with_the_limit_to_write() {
    let text = |limit: u32| {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let text = format!(
            "schema = 1\nname = 'test'\n[sites.cluster]\nkind = 'slurm'\ncores = 16\n[sites.cluster.slurm]\nnodes = 1\ntime_limit_s = {limit}\n\
             [matrix]\napp = 'npb-bt'\nclass = 'C'\nmapping = '1Nx16P'\nmpi = 'mpich'\n"
        );
        let spec =
            campaign::load_text(Path::new("test.toml"), &text, &[ours]).expect("it is sound");
        let plan = plan::build(&spec);
        let machines = Machines {
            cores: HashMap::from([("cluster".to_owned(), 16)]),
            ..Machines::default()
        };
        plan::estimate(&spec, &plan, &machines, &HashMap::new()).beyond_jobs(&spec, &plan)
    };
    let texts = text(60);
    let [told] = texts.as_slice() else {
        panic!("{texts:?}")
    };
    for part in [
        "NOT ENOUGH TIME: runs of 1 point of the site cluster are expected to take up to 1 min 0",
        "a job of Slurm ends after 1 min",
        "time_limit_s = 180 in [sites.cluster.slurm]",
    ] {
        assert!(told.contains(part), "no `{part}` in {told}");
    }
    assert!(text(180).is_empty());
}

fn deployed(area: &str, deploy: &str) -> Result<Spec, String> {
    load(&format!(
        "[sites.lab]\nkind = 'ssh'\nhosts = ['n1', 'n2', 'n3']\n[sites.lab.storage.mfs]\n{area}\ndeploy = {{ {deploy} }}\n"
    ))
}

#[test]
fn a_file_system_to_deploy_has_defaults_and_is_part_of_its_points_only() {
    let area = "path = '/mnt/mfs'\nkind = 'shared'";
    let spec = deployed(
        area,
        "file_system = 'moosefs', metadata = ['n1'], data = ['n1', 'n3']",
    )
    .expect("it is sound");
    let deployment = spec.sites["lab"].storage["mfs"].deploy.clone();
    let deployment = deployment.expect("a file system");
    assert_eq!(
        (deployment.copies, deployment.directory.as_str()),
        (1, "/var/lib/cvc")
    );
    assert_eq!(deployment.informant(), Some("n1"));
    let ids = |text: &str| {
        let spec = load(text).expect("it is sound");
        let points = plan::build(&spec).points;
        points.iter().map(|p| p.id.clone()).collect::<Vec<_>>()
    };
    let site =
        format!("[sites.lab]\nkind = 'ssh'\nhosts = ['n1']\n[sites.lab.storage.a]\n{area}\n");
    let counted = format!("{site}count_operations = true\n");
    let off = format!("{site}count_operations = false\n");
    assert_eq!(ids(&site), ids(&off));
    assert_ne!(ids(&site), ids(&counted));
}

#[rstest]
#[case::no_host("", "metadata = ['n1'], data = ['n9']", "`n9` is no host of the site")]
#[case::twice("", "metadata = ['n1'], data = ['n2', 'n2']", "`n2` is given twice")]
#[case::none("", "metadata = ['n1'], data = []", "`data` names no host")]
#[case::masters("", "data = ['n2']", "MooseFS has one metadata server")]
#[case::stripe(
    "",
    "metadata = ['n1'], data = ['n2'], stripe = '64MiB'",
    "MooseFS has no stripes to set"
)]
#[case::copies(
    "",
    "metadata = ['n1'], data = ['n2'], copies = 2",
    "2 copies need 2 hosts, and `data` names 1"
)]
#[case::zero("", "metadata = ['n1'], data = ['n2'], copies = 0", "`copies` is 0")]
#[case::local_kind(
    "kind = 'node-local'",
    "metadata = ['n1'], data = ['n2']",
    "kind = \"shared\""
)]
#[case::relative(
    "path = 'mfs'",
    "metadata = ['n1'], data = ['n2']",
    "needs an absolute `path`"
)]
#[case::directory(
    "",
    "metadata = ['n1'], data = ['n2'], directory = 'x'",
    "`directory` is \"x\""
)]
#[case::unknown("", "metadata = ['n1'], data = ['n2'], servers = 2", "unknown")]
fn a_wrong_file_system_is_shown_where_it_stands(
    #[case] area: &str,
    #[case] deploy: &str,
    #[case] part: &str,
) {
    let mut lines = vec!["path = '/mnt/mfs'", "kind = 'shared'"];
    let key = area.split(' ').next().unwrap_or_default();
    lines.retain(|line| key.is_empty() || !line.starts_with(key));
    lines.push(area);
    let error = deployed(
        &lines.join("\n"),
        &format!("file_system = 'moosefs', {deploy}"),
    )
    .expect_err("it is wrong");
    assert!(error.contains(part), "{error}");
}

#[test]
fn stripes_and_hosts_of_glusterfs_and_other_kinds_of_sites_are_checked() {
    let area = "path = '/mnt/gl'\nkind = 'shared'";
    for (keys, part) in [
        ("data = ['n1'], stripe = '1MiB'", "a stripe of 1MiB"),
        (
            "data = ['n1'], metadata = ['n2']",
            "GlusterFS has no metadata servers",
        ),
        (
            "data = ['n1', 'n2', 'n3'], copies = 2",
            "3 is not a multiple of 2",
        ),
    ] {
        let error = deployed(area, &format!("file_system = 'glusterfs', {keys}"));
        let error = error.expect_err("it is wrong");
        assert!(error.contains(part), "{error}");
    }
    deployed(
        area,
        "file_system = 'glusterfs', data = ['n1', 'n2'], copies = 2, stripe = '64MiB'",
    )
    .expect("it is sound");
    let local = format!(
        "[sites.here]\nkind = 'local'\n[sites.here.storage.a]\n{area}\ndeploy = {{ file_system = 'glusterfs', data = ['n1'] }}\n"
    );
    let error = load(&local).expect_err("it has no hosts");
    assert!(error.contains("only sites of kind `ssh` have"), "{error}");
}
