//! Tests that secrets do not appear anywhere: the account's secret, its session token, and the private key of the instances.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    cluster_faults::steps::{SECOND, STEPS},
    common::cluster::LIMIT,
};
use cvc_testkit::{Cloud, Lab, Tool, cloud, cloud::Fault, require, wait_until};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const MATRIX: &str = "[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 120\n";

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|w| w == needle.as_bytes())
}

/// Returns the files below a directory that contain one of these texts.
fn files_with(directory: &Path, needles: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(|k| k.is_dir()) {
            found.extend(files_with(&path, needles));
        } else if kind.is_ok_and(|k| k.is_file())
            && fs::read(&path).is_ok_and(|bytes| needles.iter().any(|n| holds(&bytes, n)))
        {
            found.push(path);
        }
    }
    found
}

/// Looks at all processes repeatedly.
struct Watch {
    found: Arc<Mutex<Found>>,
    over: Arc<AtomicBool>,
    looking: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Found {
    needles: Vec<String>,
    /// A directory whose path identifies the processes of this test.
    mine: String,
    /// Programs of the test that were seen, by the ends of their paths.
    seen: BTreeSet<String>,
    /// Command lines of processes with a secret in their environment or in their arguments.
    in_environment: BTreeSet<Vec<String>>,
    in_arguments: BTreeSet<Vec<String>>,
}

impl Watch {
    fn start(mine: &Path, needles: &[String]) -> Self {
        let mine = mine.to_str().expect("UTF-8").to_owned();
        let found = Arc::new(Mutex::new(Found {
            mine,
            needles: needles.to_vec(),
            ..Found::default()
        }));
        let over = Arc::new(AtomicBool::new(false));
        let looking = thread::spawn({
            let (found, over) = (Arc::clone(&found), Arc::clone(&over));
            move || {
                while !over.load(Ordering::Relaxed) {
                    look(&mut found.lock().expect("no panic"));
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        Self {
            found,
            over,
            looking: Some(looking),
        }
    }

    fn also(&self, needle: String) {
        self.found.lock().expect("no panic").needles.push(needle);
    }

    fn end(mut self) -> Found {
        self.over.store(true, Ordering::Relaxed);
        self.looking.take().expect("once").join().expect("no panic");
        std::mem::take(&mut *self.found.lock().expect("no panic"))
    }
}

fn look(found: &mut Found) {
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let is_other = entry
            .file_name()
            .to_str()
            .is_some_and(|n| n != own && n.bytes().all(|b| b.is_ascii_digit()));
        if !is_other {
            continue;
        }
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        // read in this order: a process that executes another program in between has no secret in the second, unless it was passed
        let (arguments, environment) = (read("cmdline"), read("environ"));
        let again = read("cmdline");
        if again != arguments {
            continue;
        }
        let words: Vec<String> = arguments
            .split(|b| *b == 0)
            .map(|w| String::from_utf8_lossy(w).into_owned())
            .collect();
        if holds(&arguments, &found.mine) {
            found.seen.extend(
                words
                    .iter()
                    .take(2)
                    .filter_map(|w| Some(w.rsplit('/').next()?.to_owned())),
            );
        }
        if found.needles.iter().any(|n| holds(&arguments, n)) {
            found.in_arguments.insert(words.clone());
        }
        if found.needles.iter().any(|n| holds(&environment, n)) {
            found.in_environment.insert(words);
        }
    }
}

#[test]
fn secrets_are_in_no_file_and_no_process_but_cvc_itself_whatever_goes_wrong() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let text = format!("{}{MATRIX}", ec2_site(&cloud, 2, "", "install = false"));
    let mut cloud = OnCloud::new(lab, cloud, "secrets", &text);
    // a number that no other test uses
    let number = std::process::id();
    let secret = format!("{}{number}", cloud::SECRET_KEY);
    let token = format!("cvcTestKitSessionTokenThatMustBeNowhere{number}==");
    let cache = cloud.on.campaign.dir().join("cache");
    for (name, value) in [
        ("AWS_SECRET_ACCESS_KEY", secret.as_str()),
        ("AWS_SESSION_TOKEN", &token),
        ("XDG_CACHE_HOME", cache.to_str().expect("UTF-8")),
    ] {
        cloud.on.campaign.env(name, value);
    }
    cloud.count_in("starts");
    cloud.on.set_script(STEPS);
    let mut needles = vec![secret, token];
    let watch = Watch::start(cloud.on.campaign.dir(), &needles);
    let mut output: Vec<(Option<i32>, String)> = Vec::new();
    let mut run = |cloud: &OnCloud| {
        let one = cloud.run();
        output.push((one.code, format!("{}{}", one.stdout, one.stderr)));
    };

    // the call is refused before any resource exists
    cloud.cloud.expire_credentials();
    run(&cloud);
    cloud.cloud.restore_credentials();
    cloud.cloud.fault(Fault::throttle("RunInstances").times(2));
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    let place = cloud.on.campaign.root().join("cloud/cloud");
    let (key, mode) = (place.join("id_ed25519"), |path: &Path| {
        fs::metadata(path).expect("metadata").permissions().mode() & 0o7777
    });
    assert_eq!((mode(&place), mode(&key)), (0o700, 0o600));
    // the line of the key that contains only secret data
    let text = fs::read_to_string(&key).expect("a key");
    let line = text.lines().nth(4).expect("a line of the key").to_owned();
    assert_eq!(line.len(), 70, "{}", text.lines().count());
    watch.also(line.clone());
    needles.push(line);
    for instance in cloud.cloud.instances() {
        assert!(
            !needles
                .iter()
                .any(|n| holds(instance.user_data.as_deref().unwrap_or_default(), n))
        );
        let node = cloud.cloud.node(&instance.id);
        // directories of this test; the rest belongs to the machine
        let directories = [
            "/root/.cvc",
            "/root/.ssh",
            "/root/.ansible",
            "/home",
            "/tmp",
            "/etc",
            "/var/lib/cloud",
            "/var/log",
            "/shared",
        ];
        for directory in directories {
            assert_eq!(
                files_with(&node.path(directory), &needles),
                Vec::<PathBuf>::new()
            );
        }
    }
    // the controller dies and the next one is refused, so that the launched instances are left
    let first = cvc.stderr_so_far();
    cloud.kill(cvc);
    cloud.cloud.expire_credentials();
    run(&cloud);
    cloud.cloud.restore_credentials();
    cloud.cloud.fault(Fault::throttle("*").times(3));
    cloud.on.go_all();
    run(&cloud);
    let down = cloud
        .on
        .start(&["down", "campaign.toml"])
        .wait(LIMIT)
        .expect(0);
    output.push((None, format!("{}{}{first}", down.stdout, down.stderr)));
    let swept = cloud.cvc(&["sweep", "--json"]).expect(0);
    output.push((None, format!("{}{}", swept.stdout, swept.stderr)));
    wait_until("the end of all processes", 20 * SECOND, || {
        cloud.on.campaign.processes().is_empty()
    });
    let found = watch.end();

    assert_eq!(
        output.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
        [Some(3), Some(9), Some(0), None, None],
        "{output:#?}"
    );
    assert!(
        output[0].1.contains("expired") && output[1].1.contains("expired"),
        "{output:#?}"
    );
    cloud.on.assert_runs(2);
    cloud.assert_nothing_left();
    for (_, text) in &output {
        assert!(!needles.iter().any(|n| holds(text.as_bytes(), n)), "{text}");
    }
    // journal, runs, report, plan, lock, files for ssh and Ansible, caches
    for directory in [
        cloud.on.campaign.dir().to_owned(),
        cloud.on.lab.home(),
        cloud.on.lab.shared(),
    ] {
        assert_eq!(files_with(&directory, &needles), Vec::<PathBuf>::new());
    }
    assert!(cloud.on.campaign.root().join("journal.jsonl").is_file() && cache.is_dir());
    let calls = format!("{:?}", cloud.cloud.calls());
    assert!(
        !needles.iter().any(|n| holds(calls.as_bytes(), n)),
        "the secret is never sent, and the token in a header alone"
    );

    assert_eq!(found.in_arguments, BTreeSet::new());
    // the watcher does find a secret that is present
    let cvc = env!("CARGO_BIN_EXE_cvc");
    let of_cvc = |words: &&Vec<String>| {
        words.iter().any(|w| w == cvc) && !words.iter().any(|w| w == "shepherd")
    };
    assert!(
        found.in_environment.iter().any(|words| words[0] == cvc),
        "{:#?}",
        found.in_environment
    );
    let others: Vec<_> = found
        .in_environment
        .iter()
        .filter(|words| !of_cvc(words))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    for program in ["ssh", "ansible-playbook"] {
        assert!(
            found.seen.contains(program),
            "{program} was not seen: {:?}",
            found.seen
        );
    }
}
