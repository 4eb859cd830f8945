//! Tests of the client with the distribution's Slurm on the nodes of a lab, and of the parsers with recorded answers of Slurm.

use crate::common::lab_host;

use cvc_core::campaign::{Allocation, SlurmLauncher, SlurmSettings};
use cvc_sites::slurm::{
    self, Client, End, JobInfo, JobLookup, JobRequest, JobStage, SlurmClock, SlurmError,
};
use cvc_testkit::{Lab, Tool, require};
use lab_host::LabHost;
use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

fn settings() -> SlurmSettings {
    SlurmSettings {
        nodes: 2,
        partition: None,
        account: None,
        constraint: None,
        nodelist: None,
        exclude: None,
        gpus_per_node: None,
        licenses: None,
        qos: None,
        reservation: None,
        time_limit_s: 300.0,
        exclusive: true,
        allocation: Allocation::Campaign,
        requeue: false,
        queue_limit_s: None,
        launcher: SlurmLauncher::Library,
        sbatch_args: vec![],
    }
}

fn request(name: &str, nodes: u32, script: &str) -> JobRequest {
    JobRequest {
        name: name.to_owned(),
        nodes,
        tasks_per_node: None,
        cpus_per_task: None,
        dir: "/shared".into(),
        argv: ["bash", "-c", script].map(String::from).into(),
        settings: settings(),
    }
}

fn lab() -> (Arc<Lab>, Client) {
    let lab = Arc::new(Lab::builder().nodes(4).login(true).build());
    lab.slurm();
    let client = Client::new(Arc::new(LabHost {
        lab: Arc::clone(&lab),
        node: "login",
    }));
    (lab, client)
}

async fn job(client: &Client, name: &str) -> Option<JobInfo> {
    match client.query(&[name]).await.expect("an answer").remove(name) {
        Some(JobLookup::Known(job)) => Some(*job),
        _ => None,
    }
}

/// Waits until a job is in the expected state.
async fn until(
    client: &Client,
    name: &str,
    limit_s: u64,
    is: impl Fn(&JobInfo) -> bool,
) -> JobInfo {
    let begin = Instant::now();
    loop {
        let now = job(client, name).await;
        if let Some(job) = now.as_ref().filter(|j| is(j)) {
            return job.clone();
        }
        assert!(
            begin.elapsed() < Duration::from_secs(limit_s),
            "{name} is not so within {limit_s} s: {now:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_once_runs_and_is_cancelled_by_whomever() {
    require!(Tool::Slurm);
    let (lab, client) = lab();
    assert!(
        client
            .version()
            .await
            .expect("a version")
            .starts_with(|c: char| c.is_ascii_digit())
    );
    let asked = request(
        "cvc-one",
        2,
        "echo here; scontrol show hostnames; sleep 1000",
    );
    let begin = Instant::now();
    let id = client.submit(&asked).await.expect("submits");
    let running = client
        .wait_running("cvc-one", Some(Duration::from_secs(90)), |_| {})
        .await
        .expect("runs");
    eprintln!("submitted and running after {:.2?}", begin.elapsed());
    assert_eq!(
        (&running.id, running.nodes.as_slice()),
        (&id, ["n1".to_owned(), "n2".into()].as_slice())
    );
    assert_eq!(running.time_limit_s, Some(300.0));
    let started = running.start.expect("a start");
    assert!(
        started
            .duration_until(jiff::Timestamp::now())
            .as_secs()
            .abs()
            < 60,
        "{started}"
    );
    // submit once more, as after a lost connection
    assert_eq!(client.submit(&asked).await.expect("is there"), id);
    assert_eq!(
        lab.login().shell("squeue -h -n cvc-one | wc -l").trim(),
        "1"
    );

    let other = request("cvc-two", 2, "sleep 1000");
    client.submit(&other).await.expect("submits");
    client
        .wait_running("cvc-two", None, |_| {})
        .await
        .expect("runs beside the other");
    // the job is cancelled by somebody else
    lab.login().shell("scancel -n cvc-two");
    let ended = until(&client, "cvc-two", 90, |j| {
        matches!(j.stage(), JobStage::Ended(_))
    })
    .await;
    assert_eq!(ended.stage(), JobStage::Ended(End::Cancelled));
    assert_eq!(
        End::Cancelled.cause(),
        Some(cvc_core::outcome::Cause::Cancelled)
    );

    client
        .cancel("cvc-one", Duration::from_secs(90))
        .await
        .expect("cancels");
    assert_eq!(
        lab.login().shell("squeue -h -n cvc-one | wc -l").trim(),
        "0"
    );
    client
        .cancel("cvc-one", Duration::from_secs(90))
        .await
        .expect("again");
    client
        .cancel("cvc-never", Duration::from_secs(90))
        .await
        .expect("what is not there is gone");
    // the job's output, on the shared storage
    let output = fs::read_to_string(lab.shared().join("cvc-one.job.out")).expect("output");
    assert!(output.starts_with("here\nn1\nn2\n"), "{output}");
    // one call for many jobs; an unknown job is not finished
    let found = client
        .query(&["cvc-one", "cvc-two", "cvc-never"])
        .await
        .expect("an answer");
    assert_eq!(found["cvc-never"], JobLookup::Unknown);
    assert!(
        matches!(found["cvc-one"], JobLookup::Known(_))
            && matches!(found["cvc-two"], JobLookup::Known(_))
    );

    // the exit code of a script that ends by itself
    client
        .submit(&request("cvc-code", 1, "exit 3"))
        .await
        .expect("submits");
    let ended = until(&client, "cvc-code", 90, |j| {
        matches!(j.stage(), JobStage::Ended(_))
    })
    .await;
    assert_eq!(
        (ended.stage(), ended.exit.map(|e| e.code)),
        (JobStage::Ended(End::Failed), Some(3))
    );
    // the job is also found if only the list of completed jobs has it
    let ended = lab.login().exec(&[
        "sacct",
        "-c",
        "-n",
        "--parsable2",
        "-o",
        slurm::SACCT_COMPLETION_FORMAT,
    ]);
    let ended = slurm::read_sacct(
        &String::from_utf8_lossy(&ended.stdout),
        &SlurmClock::default(),
    )
    .expect("reads");
    let code = ended
        .iter()
        .rfind(|j| j.name == "cvc-code")
        .expect("the job");
    assert_eq!(code.stage(), JobStage::Ended(End::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_is_refused_or_explained() {
    require!(Tool::Slurm);
    let (lab, client) = lab();
    let mut asked = request("cvc-nowhere", 1, "true");
    asked.settings.partition = Some("nosuch".into());
    let error = client.submit(&asked).await.expect_err("no such partition");
    assert!(matches!(error, SlurmError::Refused { .. }));
    let error = error.to_string();
    assert!(
        error.contains("login: sbatch refused the job cvc-nowhere") && error.contains("sinfo"),
        "{error}"
    );

    let mut asked = request("cvc-long", 1, "true");
    asked.settings.time_limit_s = 9.0 * 3600.0;
    client.submit(&asked).await.expect("Slurm takes it");
    let error = client
        .wait_running("cvc-long", Some(Duration::from_secs(5)), |_| {})
        .await
        .expect_err("never starts")
        .to_string();
    assert!(
        error.contains("PartitionTimeLimit") && error.contains("slurm.time_limit_s"),
        "{error}"
    );

    lab.login()
        .shell("scontrol update nodename=n4 state=drain reason='bad memory'");
    let mut asked = request("cvc-all", 4, "sleep 600");
    asked.settings.requeue = true;
    client.submit(&asked).await.expect("submits");
    let error = client
        .wait_running("cvc-all", Some(Duration::from_secs(8)), |_| {})
        .await
        .expect_err("a node is away")
        .to_string();
    assert!(error.contains("n4 drained (bad memory)"), "{error}");
    lab.login()
        .shell("scontrol update nodename=n4 state=resume");
    client
        .wait_running("cvc-all", Some(Duration::from_secs(90)), |_| {})
        .await
        .expect("runs now");

    // the job returns to the queue: it has not ended, and Slurm counts the restart
    lab.login()
        .shell("scontrol requeue $(squeue -h -n cvc-all -o %i)");
    let again = until(&client, "cvc-all", 90, |j| {
        j.stage() == JobStage::Waiting && j.restarts == Some(1)
    })
    .await;
    assert!(!matches!(again.stage(), JobStage::Ended(_)));
    lab.login()
        .shell("scontrol uhold $(squeue -h -n cvc-all -o %i)");
    // do not wait the two minutes after which Slurm starts the job again: it stays held until it is released
    let error = client
        .wait_running("cvc-all", None, |_| {})
        .await
        .expect_err("held")
        .to_string();
    assert!(error.contains("scontrol release"), "{error}");
    client
        .cancel("cvc-all", Duration::from_secs(90))
        .await
        .expect("cancels");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_away_is_waited_for_and_its_jobs_are_not_doubled() {
    require!(Tool::Slurm);
    let (lab, client) = lab();
    client
        .submit(&request("cvc-before", 2, "sleep 1000"))
        .await
        .expect("submits");
    client
        .wait_running("cvc-before", None, |_| {})
        .await
        .expect("runs");
    tokio::time::sleep(Duration::from_secs(6)).await;
    lab.slurm().stop_controller();
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move {
            let running = job(&client, "cvc-before").await.map(|j| j.stage());
            (
                running,
                client.submit(&request("cvc-after", 1, "sleep 1000")).await,
            )
        })
    };
    tokio::time::sleep(Duration::from_secs(4)).await;
    lab.slurm().start_controller();
    let (stage, submitted) = waiting.await.expect("ends");
    assert_eq!(stage, Some(JobStage::Running));
    submitted.expect("submitted once it answers");
    assert_eq!(
        lab.login().shell("squeue -h -n cvc-after | wc -l").trim(),
        "1"
    );
    // a controller that does not come back gives an error that says so
    lab.slurm().stop_controller();
    let host = Arc::new(LabHost {
        lab: Arc::clone(&lab),
        node: "login",
    });
    let hasty = Client::with_patience(host, Duration::from_secs(2));
    let error = hasty
        .query(&["cvc-before"])
        .await
        .expect_err("nobody answers")
        .to_string();
    assert!(
        error.contains("login: Slurm's controller did not answer squeue")
            && error.contains("scontrol ping"),
        "{error}"
    );
    lab.slurm().start_controller();
    for name in ["cvc-before", "cvc-after"] {
        client
            .cancel(name, Duration::from_secs(90))
            .await
            .expect("cancels");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_is_announced_and_then_kept() {
    require!(Tool::Slurm);
    let (lab, client) = lab();
    let mut asked = request(
        "cvc-limit",
        1,
        "trap 'echo told' TERM; for i in $(seq 400); do sleep 0.5; done",
    );
    asked.settings.time_limit_s = 45.0;
    client.submit(&asked).await.expect("submits");
    let ended = until(&client, "cvc-limit", 150, |j| {
        matches!(j.stage(), JobStage::Ended(_))
    })
    .await;
    assert_eq!(ended.stage(), JobStage::Ended(End::Timeout));
    let output = fs::read_to_string(lab.shared().join("cvc-limit.job.out")).expect("output");
    assert!(output.contains("told"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_forms_of_an_answer_say_the_same_and_lists_are_as_slurm_s() {
    require!(Tool::Slurm);
    let (lab, client) = lab();
    for (name, nodes) in [("cvc-a", 3), ("cvc-b", 4)] {
        client
            .submit(&request(name, nodes, "sleep 1000"))
            .await
            .expect("submits");
    }
    client
        .wait_running("cvc-a", None, |_| {})
        .await
        .expect("runs");
    let say = |argv: &[&str]| String::from_utf8(lab.login().exec(argv).stdout).expect("text");
    let clock = SlurmClock::new("", "+0000").expect("the lab's zone");
    let zone = say(&["date", "+%z"]);
    let clock = SlurmClock::new("", zone.trim()).unwrap_or(clock);
    let mut forms = [
        slurm::read_squeue_json(&say(&["squeue", "--json"])).expect("JSON"),
        slurm::read_squeue_text(
            &say(&[
                "squeue",
                "-h",
                "-a",
                "-t",
                "all",
                "-o",
                slurm::SQUEUE_FORMAT,
            ]),
            &clock,
        )
        .expect("text"),
        slurm::read_scontrol(&say(&["scontrol", "show", "job", "-o"]), &clock).expect("scontrol"),
    ];
    for form in &mut forms {
        form.sort_by_key(|j| j.id.number);
        // the estimated start of waiting jobs may change between two queries
        form.iter_mut()
            .filter(|j| j.stage() == JobStage::Waiting)
            .for_each(|j| (j.start, j.end) = (None, None));
    }
    let plain = |jobs: &[JobInfo]| {
        jobs.iter()
            .map(|j| {
                format!(
                    "{} {} {} {:?} {:?} {:?} {:?} {:?}",
                    j.id, j.name, j.state, j.reason, j.nodes, j.start, j.end, j.time_limit_s
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(plain(&forms[0]).len(), 2);
    assert_eq!(plain(&forms[0]), plain(&forms[1]));
    assert_eq!(plain(&forms[0]), plain(&forms[2]));

    for list in [
        "n[1-3,07-10],gpu-a[1-2]x[0-1]",
        "n1",
        "a[08-11],b,c",
        "n[1,3,5-6]",
    ] {
        let output: Vec<String> = say(&["scontrol", "show", "hostnames", list])
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(
            cvc_core::nodelist::expand(list).expect("a list"),
            output,
            "{list}"
        );
        // Slurm parses our lists, too
        let back: Vec<String> = say(&[
            "scontrol",
            "show",
            "hostnames",
            &cvc_core::nodelist::compress(&output),
        ])
        .lines()
        .map(str::to_owned)
        .collect();
        assert_eq!(back, output, "{list}");
    }
    let nodes = client.nodes().await.expect("nodes");
    let n1 = nodes
        .iter()
        .find(|n| n.name == "n1" && n.partition == "short")
        .expect("n1");
    assert_eq!(
        (n1.cpus, n1.memory_mib, n1.time_limit_s, n1.is_usable()),
        (4, 4000, Some(120.0), true)
    );
}

/// A recorded answer of Slurm 22.05 about jobs in many states.
#[test]
fn recorded_answers_are_read() {
    let json = slurm::read_squeue_json(include_str!("../data/slurm/squeue.json")).expect("reads");
    let clock = SlurmClock::default();
    let text =
        slurm::read_scontrol(include_str!("../data/slurm/scontrol.txt"), &clock).expect("reads");
    let line = |j: &JobInfo| {
        let start = j.start.map(|t| t.to_string()).unwrap_or_default();
        format!(
            "{:>2} {:<12} {:<10} {:?} {:?} {} {start} {:?} {:?}",
            j.id,
            j.name,
            j.state,
            j.stage(),
            j.reason,
            j.nodes.len(),
            j.restarts,
            j.exit
        )
    };
    let table = |jobs: &[JobInfo]| jobs.iter().map(line).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(format!(
        "squeue --json\n{}\n\nscontrol show job -o\n{}",
        table(&json),
        table(&text)
    ));
}

/// Answers of versions since 23.02 and 24.05: numbers that may be unset or infinite, states as lists.
#[test]
fn answers_of_newer_versions_are_read() {
    let job = |more: &str| {
        format!(
            r#"{{ "jobs": [ {{ "job_id": 7, "name": "x", "state_reason": "None", "nodes": "n[1-2]", {more},
                "start_time": {{ "set": true, "infinite": false, "number": 1795284718 }},
                "end_time": {{ "set": true, "infinite": false, "number": 0 }}, "restart_cnt": 2 }} ] }}"#
        )
    };
    let read = |more: &str| {
        slurm::read_squeue_json(&job(more))
            .expect("reads")
            .remove(0)
    };
    let ended = read(
        r#""job_state": ["CANCELLED", "UPDATE_DB"], "time_limit": { "set": true, "infinite": false, "number": 5 },
        "exit_code": { "status": ["SIGNALED"], "return_code": { "set": true, "infinite": false, "number": 0 },
            "signal": { "id": { "set": true, "infinite": false, "number": 15 }, "name": "TERM" } }"#,
    );
    assert_eq!(
        (ended.stage(), ended.time_limit_s, ended.end),
        (JobStage::Ended(End::Cancelled), Some(300.0), None)
    );
    assert_eq!(ended.exit.map(|e| (e.code, e.signal)), Some((0, 15)));
    assert_eq!(ended.start.map(|t| t.as_second()), Some(1_795_284_718));
    let endless = read(
        r#""job_state": ["RUNNING"], "time_limit": { "set": false, "infinite": true, "number": 0 }, "exit_code": 0"#,
    );
    assert_eq!(
        (endless.stage(), endless.time_limit_s, endless.exit),
        (JobStage::Running, None, None)
    );
    assert_eq!((endless.nodes.len(), endless.restarts), (2, Some(2)));
    assert!(
        slurm::read_squeue_json("{\"jobs\": [{}]}")
            .expect_err("no number")
            .to_string()
            .contains("job_id")
    );
    assert!(slurm::read_squeue_json("{\"jobs\": [").is_err());
}

/// Answers of the accounting.
#[test]
fn the_accounting_is_read() {
    let output = "12|TIMEOUT|n[1-2]|2026-11-21T18:11:58|2026-11-21T18:16:58|00:05:00|0:0|cvc|odd name\n\
        12.batch|CANCELLED|n1|2026-11-21T18:11:58|2026-11-21T18:16:58||0:15|batch\n\
        13|CANCELLED by 4711|None assigned|None|2026-11-21T18:16:58|UNLIMITED|0:0|cvc-b\n";
    let jobs = slurm::read_sacct(output, &SlurmClock::default()).expect("reads");
    assert_eq!(jobs.len(), 2);
    assert_eq!(
        (jobs[0].name.as_str(), jobs[0].stage(), jobs[0].time_limit_s),
        ("cvc|odd name", JobStage::Ended(End::Timeout), Some(300.0))
    );
    assert_eq!(
        (
            jobs[1].stage(),
            jobs[1].nodes.len(),
            jobs[1].start,
            jobs[1].time_limit_s
        ),
        (JobStage::Ended(End::Cancelled), 0, None, None)
    );
}
