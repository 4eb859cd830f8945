//! Tests with `kill -9` of the controller at any moment, followed by `cvc run`: nothing is lost or repeated, and no process is left.

use crate::common::scripted;
use cvc_testkit::{Campaign, Tool, process, require, wait_until};
use nix::sys::signal::Signal;
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

/// Time limit for an event, long enough for a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(90);

/// Two processes that ignore SIGTERM, one of them in its own session, like MPI programs under DMTCP.
const STUBBORN: &str = "trap '' TERM\nsetsid sh -c \"trap '' TERM; sleep 0.15\" &\necho 'Time step 1'\nwait\necho SUCCESS\n";

/// Returns data that show whether a finished run's directory was changed again.
fn finished(c: &Campaign) -> BTreeMap<String, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    for event in c.events("run-finished") {
        let run = event["run"].as_str().expect("a run").to_owned();
        let meta = fs::metadata(c.run_dir(&run).join("outcome.json"))
            .expect("a finished run has its directory");
        found.insert(run, (meta.ino(), meta.mtime(), meta.mtime_nsec()));
    }
    found
}

fn assert_untouched(c: &Campaign, before: &BTreeMap<String, (u64, i64, i64)>, when: &str) {
    let after = finished(c);
    for (run, identity) in before {
        assert_eq!(
            after.get(run),
            Some(identity),
            "{when}: finished run {run} was done again"
        );
    }
}

#[test]
fn killed_at_many_moments_it_resumes_without_loss_or_repetition() {
    require!(Tool::Mpich);
    const RUNS: usize = 24;
    let c = scripted(
        "moments",
        STUBBORN,
        &format!("repeats = {RUNS}\nretries = 0"),
    );
    // delays during the start, during runs, and between runs
    let delays_ms = [1, 12, 45, 90, 140, 180, 215, 260, 310, 390, 475, 555];
    for (i, delay) in delays_ms.into_iter().enumerate() {
        let before = finished(&c);
        let controller = c.start(&["run", "campaign.toml"]);
        if i % 3 == 2 {
            // wait for a new result, because a run that is interrupted with its controller four times fails
            wait_until("a run's end", LIMIT, || finished(&c).len() > before.len());
        }
        let before = finished(&c);
        if i % 3 > 0 {
            // not all controllers are killed while they search for software
            let started = c.events("run-started").len();
            wait_until("a run", LIMIT, || c.events("run-started").len() > started);
        }
        std::thread::sleep(Duration::from_millis(delay));
        controller.kill();
        assert_untouched(&c, &before, &format!("killed after {delay} ms"));
    }
    assert!(
        finished(&c).len() < RUNS,
        "the campaign must not be over before the last kill"
    );
    let before = finished(&c);
    c.run().expect(0);
    assert_untouched(&c, &before, "at the end");
    c.assert_whole(RUNS);
    c.assert_nothing_left();
    let recovered = c.events("run-abandoned").len();
    assert!(recovered >= 4, "kills must have hit runs: {recovered}");
    // an interruption is not a failure and does not count as an attempt
    assert!(c.events("run-intended").iter().all(|e| e["attempt"] == 1));
}

#[test]
fn a_controller_that_is_gone_ends_its_run_at_once_without_being_resumed() {
    require!(Tool::Mpich);
    let c = scripted(
        "orphan",
        "trap '' TERM; echo 'Time step 1'; sleep 600 & wait; sleep 600",
        "repeats = 1",
    );
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the program", LIMIT, || {
        c.processes()
            .iter()
            .any(|(_, line)| line.contains("sleep 600"))
    });
    controller.kill();
    wait_until("the end of the orphans", LIMIT, || c.processes().is_empty());
}

#[test]
fn controller_and_shepherd_killed_together_the_leftovers_are_ended_on_resume() {
    require!(Tool::Mpich);
    // the first attempt would never end; later ones end at once
    let script = "trap '' TERM\nif [ -e $CVC_TEST_MARK ]; then echo SUCCESS; exit 0; fi\ntouch $CVC_TEST_MARK\n\
                  setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" &\nwhile :; do sleep 1; done\n";
    let c = scripted("together", "", "repeats = 2\nretries = 0");
    c.script_app(
        "script",
        &script.replace(
            "$CVC_TEST_MARK",
            c.dir().join("mark").to_str().expect("UTF-8"),
        ),
        "",
    );
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the program", LIMIT, || c.dir().join("mark").exists());
    wait_until("the journal", LIMIT, || !c.events("run-started").is_empty());
    let shepherd = c.events("run-started")[0]["pid"].as_i64().expect("a pid");
    // stop the shepherd, so that it cannot notice the death of the controller, and then kill both
    process::signal(shepherd as i32, Signal::SIGSTOP);
    controller.kill();
    process::signal(shepherd as i32, Signal::SIGKILL);
    std::thread::sleep(Duration::from_millis(100));
    let alive = c.processes();
    assert!(
        alive.iter().any(|(_, line)| line.contains("mpiexec")),
        "the launcher must be alive for this test: {alive:?}"
    );
    c.run().expect(0);
    c.assert_whole(2);
    c.assert_nothing_left();
    assert!(
        c.events("run-abandoned")[0]["ended"]
            .as_array()
            .is_some_and(|e| e.len() >= 3),
        "{:?}",
        c.events("run-abandoned")
    );
}

#[test]
fn shared_memory_files_of_a_cut_off_mpi_program_are_removed() {
    require!(Tool::Mpich);
    // a segment as left by a rank whose library was killed before it could unlink it
    let segment = format!("/dev/shm/mpich_shm_cvctest{}", std::process::id());
    let python = "import mmap,time; f=open('SEGMENT','w+b'); f.truncate(4096); m=mmap.mmap(f.fileno(),4096); print('Time step 1',flush=True); time.sleep(600)";
    require!(Tool::Python);
    let script = format!(
        "exec python3 -c \"{}\"",
        python.replace("SEGMENT", &segment)
    );
    for shepherd_too in [false, true] {
        let c = scripted("segments", &script, "repeats = 1\nretries = 0");
        let controller = c.start(&["run", "campaign.toml"]);
        let out = || {
            c.run_names().iter().any(|r| {
                fs::read_to_string(c.run_dir(r).join("stdout"))
                    .is_ok_and(|t| t.contains("Time step 1"))
            })
        };
        wait_until("the program", LIMIT, out);
        if shepherd_too {
            process::signal(
                c.events("run-started")[0]["pid"].as_i64().expect("a pid") as i32,
                Signal::SIGKILL,
            );
        }
        controller.kill();
        c.put("bin/script.sh", "sleep 0.05; echo SUCCESS");
        c.run().expect(0);
        wait_until("the end of the orphans", LIMIT, || c.processes().is_empty());
        assert!(
            !Path::new(&segment).exists(),
            "{segment} is left, shepherd killed too: {shepherd_too}"
        );
    }
}

#[test]
fn a_shepherd_that_is_killed_alone_fails_its_run_and_leaves_nothing() {
    require!(Tool::Mpich);
    let c = scripted(
        "shepherd",
        "trap '' TERM; echo 'Time step 1'; sleep 600",
        "repeats = 1\nretries = 0",
    );
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the program", LIMIT, || {
        c.processes()
            .iter()
            .any(|(_, line)| line.contains("sleep 600"))
    });
    wait_until("the journal", LIMIT, || !c.events("run-started").is_empty());
    process::signal(
        c.events("run-started")[0]["pid"].as_i64().expect("a pid") as i32,
        Signal::SIGKILL,
    );
    controller.wait(LIMIT).expect(10);
    let (cause, detail) = &c.failures()[0];
    assert_eq!(cause, "ended-from-outside", "{detail}");
    assert!(detail.contains("its shepherd) was killed"), "{detail}");
    c.assert_nothing_left();
}
