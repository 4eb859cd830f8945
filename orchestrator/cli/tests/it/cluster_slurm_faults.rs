//! Tests of faults on Slurm sites: in each case the right cause is reported, no run is lost or run twice, nothing keeps running or stays in the
//! queue, and the campaign continues if possible.

use crate::{
    cluster_faults::steps::{SECOND, SOON, STEPS, ends, interrupt, interrupt_twice, on_lab, turn},
    common::cluster::OnLab,
};
use cvc_testkit::{Lab, Running, Tool, require, wait_until};

const NODES: [&str; 2] = ["n1", "n2"];
const ALL: [&str; 3] = ["login", "n1", "n2"];

/// Returns a campaign of one script on two nodes of Slurm.
fn slurm(name: &str, slurm_keys: &str, run: &str) -> OnLab {
    let lab = Lab::builder().nodes(2).login(true).build();
    lab.slurm();
    on_lab(lab, name, &text(slurm_keys, run), STEPS)
}

fn text(slurm_keys: &str, run: &str) -> String {
    let mpich5 = Tool::Mpich5.find().expect("the test requires it");
    format!(
        "[sites.slurm]\nkind = \"slurm\"\nlogin = \"login\"\nbase = \"/shared/cvc\"\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 4\n\
         [sites.slurm.slurm]\nnodes = 2\n{slurm_keys}\n[sites.slurm.mpi.mpich5]\nfamily = \"mpich\"\nmpiexec = \"{}\"\n\
         [matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\n[run]\n{run}\ntimeout_s = 200\n",
        mpich5.display()
    )
}

impl OnLab {
    /// Runs a command on the login node.
    #[track_caller]
    fn login(&self, script: &str) -> String {
        self.lab.login().shell(script).trim().to_owned()
    }

    /// Returns the jobs that have not ended: number, state, reason.
    fn queue(&self) -> String {
        self.login("squeue -h -o '%i %T %r'")
    }

    /// Submits a job of another user on all nodes, so that all later jobs wait.
    fn block(&self) -> String {
        let job = self.login("cd /shared && sbatch --parsable -N2 --exclusive -J other -o /dev/null --wrap 'exec sleep 600'");
        wait_until("the other's job", SOON, || {
            self.queue().contains(&format!("{job} RUNNING"))
        });
        job
    }

    /// Returns the number of the campaign's last job.
    fn job(&self) -> String {
        let acquired = self.campaign.events("lease-acquired");
        acquired
            .last()
            .and_then(|e| e["by"]["job"].as_str())
            .expect("a job")
            .to_owned()
    }

    /// Starts `cvc run`, and waits until this many jobs were submitted in total.
    #[track_caller]
    fn begin_and_wait_job(&self, jobs: usize) -> Running {
        let cvc = self.begin();
        wait_until("a job", SOON, || {
            self.campaign.events("lease-acquired").len() >= jobs
        });
        cvc
    }

    /// Checks that `jobs` jobs were submitted in total and released one by one, and that nothing of them is left on the nodes, in the queue, or on
    /// shared storage.
    #[track_caller]
    fn assert_given_back(&self, jobs: usize, nodes: &[&str]) {
        self.assert_clean(nodes);
        assert_eq!(self.queue(), "");
        assert_eq!(self.login("ls -A /shared/cvc/spool 2>/dev/null || :"), "");
        assert_eq!(self.names("lease-intended").len(), jobs);
        assert_eq!(self.names("lease-intended"), self.names("lease-released"));
    }

    /// Returns the leases in events of this kind.
    fn names(&self, kind: &str) -> Vec<String> {
        let mut all: Vec<String> = self
            .campaign
            .events(kind)
            .iter()
            .map(|e| e["lease"].as_str().expect("a lease").to_owned())
            .collect();
        all.sort_unstable();
        all
    }

    /// Checks that each of `runs` runs began once.
    #[track_caller]
    fn assert_each_begun_once(&self, runs: usize) {
        assert!(
            self.start_counts().len() == runs && self.start_counts().values().all(|n| *n == 1),
            "{:?}",
            self.start_counts()
        );
    }
}

#[test]
fn a_job_cancelled_by_somebody_is_replaced_and_the_run_repeated_within_its_retries() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("cancelled", "", "repeats = 2\nretries = 1");
    let cvc = on.begin();
    on.wait_start(1);
    on.login(&format!("scancel {}", on.job()));
    on.go_all();
    ends(cvc, 0);
    let why = on.only_failure("cancelled");
    assert!(why.contains("was cancelled by another user"), "{why}");
    on.assert_runs(2);
    assert_eq!(on.starts().len(), 3);
    on.assert_given_back(2, &ALL);
}

#[test]
fn a_run_in_a_job_that_is_put_back_into_the_queue_does_not_count_and_is_done_again_by_the_same_job()
{
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("requeued", "requeue = true", "repeats = 2\nretries = 0");
    let cvc = on.begin();
    on.wait_start(1);
    let job = on.job();
    on.login(&format!("scontrol requeue {job}"));
    wait_until("it to wait", SOON, || on.queue().contains("PENDING"));
    wait_until("it to be told", SOON, || {
        cvc.stderr_so_far().contains("was requeued")
    });
    // otherwise Slurm would wait for two minutes
    on.login(&format!("scontrol update JobId={job} StartTime=now"));
    on.wait_start(2);
    on.go_all();
    ends(cvc, 0);
    assert!(
        on.campaign.failures().is_empty(),
        "{:?}",
        on.campaign.failures()
    );
    on.campaign.assert_whole(2);
    assert!(
        on.campaign
            .events("run-intended")
            .iter()
            .all(|e| e["attempt"] == 1)
    );
    assert_eq!(on.starts().len(), 3, "{:?}", on.starts());
    assert_eq!(on.starts()[0], on.starts()[1]);
    on.assert_given_back(1, &ALL);
}

#[test]
fn a_run_that_needs_longer_than_a_job_may_take_fails_and_one_that_was_cut_off_by_it_does_not() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("limit", "time_limit_s = 60", "repeats = 3\nretries = 0");
    // the first run has a whole job; the second runs within the next job, whose rest is too short for the third: that is repeated in a separate job
    on.go(2);
    on.go(4);
    let output = ends(on.begin(), 10);
    let why = on.only_failure("timeout");
    assert!(
        why.contains("slurm.time_limit_s") && why.contains("60 s"),
        "{why}"
    );
    let starts = on.starts();
    assert!(
        starts.len() == 4 && starts[2] == starts[3] && on.start_counts().len() == 3,
        "{starts:?}\n{}",
        output.stderr
    );
    on.assert_runs(2);
    on.assert_given_back(3, &ALL);
}

#[test]
fn a_drained_node_is_named_while_the_job_waits_and_does_not_disturb_one_that_has_it() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("drained", "queue_limit_s = 12", "repeats = 2\nretries = 0");
    let drain = "scontrol update NodeName=n2 State=DRAIN Reason='a bad disk'";
    on.login(drain);
    let output = ends(on.begin(), 3);
    for word in [
        "got no nodes within 1",
        "sinfo -R",
        "n2 drained (a bad disk)",
        " waits: ",
    ] {
        assert!(output.stderr.contains(word), "no {word}: {}", output.stderr);
    }
    on.assert_given_back(1, &ALL);
    on.login("scontrol update NodeName=n2 State=RESUME");
    let cvc = on.begin();
    on.wait_start(1);
    on.login(drain);
    on.go_all();
    ends(cvc, 0);
    on.campaign.assert_whole(2);
    on.assert_each_begun_once(2);
    on.assert_given_back(2, &ALL);
}

#[test]
fn a_node_whose_power_goes_inside_a_job_fails_the_run_and_the_next_job_waits_for_it() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("power", "", "repeats = 2\nretries = 1");
    // wait eight times as long for lost nodes, longer than Slurm takes to end the job of such a node, which is about half a minute
    on.campaign.rewrite(
        &text("", "repeats = 2\nretries = 1").replace("lost_after_s = 4", "lost_after_s = 10"),
    );
    let cvc = on.begin();
    on.wait_start(1);
    on.lab.node("n2").poweroff();
    on.wait_finished(1);
    let why = on.only_failure("node-lost");
    assert!(why.contains("n2"), "{why}");
    wait_until("another job", 2 * SOON, || {
        on.campaign.events("lease-acquired").len() == 2
    });
    on.lab.node("n2").restart();
    on.lab.slurm().start_node(on.lab.node("n2"));
    on.wait_start(2);
    on.go_all();
    ends(cvc, 0);
    on.assert_runs(2);
    on.assert_given_back(2, &ALL);
}

#[test]
fn a_controller_killed_while_its_job_waits_or_runs_finds_it_again() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("killed", "", "repeats = 3\nretries = 0");
    let other = on.block();
    let cvc = on.begin_and_wait_job(1);
    std::thread::sleep(SECOND);
    cvc.kill();
    let cvc = on.begin_and_wait_job(2);
    on.login(&format!("scancel {other}"));
    on.wait_start(1);
    cvc.kill();
    // the run ends while no controller is running
    on.go(1);
    wait_until("its end", SOON, || {
        NODES.iter().all(|n| on.script_on(n) == 0)
    });
    let cvc = on.begin();
    on.wait_start(2);
    assert_eq!(on.names("lease-intended").len(), 1, "one job in all");
    assert_eq!(on.queue().lines().count(), 1);
    cvc.kill();
    // the job ends, too, with the results in it
    on.go(2);
    wait_until("its end", SOON, || {
        NODES.iter().all(|n| on.script_on(n) == 0)
    });
    std::thread::sleep(SECOND);
    on.login(&format!("scancel {}", on.job()));
    wait_until("the end of the job", SOON, || on.queue().is_empty());
    let cvc = on.begin();
    on.wait_start(3);
    on.assert_each_begun_once(3);
    cvc.kill();
    // the file is edited: the job that uses the old file is cancelled first
    on.set_script(&STEPS.replace("echo SUCCESS", "echo 'the new one'; echo SUCCESS"));
    let cvc = on.begin();
    on.wait_start(4);
    on.wait_ranks(&NODES);
    on.go_all();
    let ended = 2 + 3;
    wait_until("the last run", SOON, || {
        on.campaign.events("run-finished").len() >= ended
    });
    cvc.kill();
    // nothing is left to run: the job of the killed controller is cancelled
    let output = ends(on.begin(), 0);
    assert!(
        output.stderr.contains("nothing is left to run")
            || on.campaign.events("site-closed").len() == 1,
        "{}",
        output.stderr
    );
    assert_eq!(on.queue(), "");
    on.assert_clean(&ALL);
    assert_eq!(on.names("lease-intended"), on.names("lease-released"));
}

#[test]
fn with_a_job_for_each_run_a_controller_that_was_killed_finds_that_of_its_run() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("each", "allocation = \"run\"", "repeats = 2\nretries = 0");
    let other = on.block();
    let cvc = on.begin_and_wait_job(1);
    std::thread::sleep(SECOND);
    cvc.kill();
    let cvc = on.begin_and_wait_job(2);
    on.login(&format!("scancel {other}"));
    on.wait_start(1);
    cvc.kill();
    let cvc = on.begin_and_wait_job(3);
    std::thread::sleep(2 * SECOND);
    assert_eq!(on.queue().lines().count(), 1, "{}", on.queue());
    cvc.kill();
    // the job ends while no controller is running
    on.go(1);
    wait_until("its end", SOON, || {
        NODES.iter().all(|n| on.script_on(n) == 0)
    });
    std::thread::sleep(SECOND);
    on.login(&format!("scancel {}", on.job()));
    wait_until("the end of the job", SOON, || on.queue().is_empty());
    let cvc = on.begin();
    on.wait_start(2);
    cvc.kill();
    // the file is edited so that the run no longer exists, and its job is cancelled
    on.campaign
        .rewrite(&text("allocation = \"run\"", "repeats = 1\nretries = 0"));
    ends(on.begin(), 0);
    on.campaign.assert_whole(1);
    on.assert_each_begun_once(2);
    on.assert_given_back(2, &ALL);
}

#[test]
fn ctrl_c_while_a_job_waits_cancels_it_and_twice_in_a_run_as_well() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("ctrl-c", "", "repeats = 2\nretries = 0");
    let other = on.block();
    let cvc = on.begin_and_wait_job(1);
    std::thread::sleep(SECOND);
    interrupt(&cvc);
    let output = ends(cvc, 130);
    assert!(
        output.stderr.contains("2 runs are left"),
        "{}",
        output.stderr
    );
    assert_eq!(
        on.queue().lines().count(),
        1,
        "the other's alone: {}",
        on.queue()
    );
    on.login(&format!("scancel {other}"));
    wait_until("its end", SOON, || on.queue().is_empty());
    on.assert_given_back(1, &ALL);
    let cvc = on.begin();
    on.wait_start(1);
    interrupt_twice(&cvc);
    let output = ends(cvc, 130);
    assert!(
        output.stderr.contains("2 runs are left"),
        "{}",
        output.stderr
    );
    on.assert_given_back(2, &ALL);
}

#[test]
fn slurms_controller_may_be_away_or_forget_everything() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let on = slurm("away", "", "repeats = 3\nretries = 0");
    let cvc = on.begin();
    on.wait_start(1);
    on.lab.slurm().stop_controller();
    std::thread::sleep(20 * SECOND);
    assert!(NODES.iter().all(|n| on.script_on(n) > 0), "the run goes on");
    // the next run starts at once, although Slurm's controller does not know yet that its nodes have returned
    on.lab.slurm().start_controller();
    on.go(1);
    on.wait_start(2);
    // a run that starts while Slurm's controller is down waits for it
    on.lab.slurm().stop_controller();
    on.go(2);
    wait_until("the end of the second", SOON, || {
        on.campaign.events("run-finished").len() == 2
    });
    wait_until("the third to wait", SOON, || {
        on.login("cat /shared/cvc/spool/*/slurm/*/events.jsonl")
            .contains("waiting for Slurm")
    });
    on.lab.slurm().start_controller();
    on.wait_start(3);
    assert_eq!(on.names("lease-intended").len(), 1);
    on.assert_each_begun_once(3);
    on.lab.slurm().kill_controller();
    on.login("rm -rf /var/spool/slurmctld/*");
    on.lab.slurm().start_controller();
    on.go_all();
    ends(cvc, 0);
    on.assert_runs(3);
    on.assert_clean(&ALL);
    assert_eq!(on.queue(), "");
    assert_eq!(on.names("lease-intended"), on.names("lease-released"));
}
