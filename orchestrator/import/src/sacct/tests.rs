use super::*;
use cvc_core::source::SourceText;

fn read(name: &str, text: &str) -> ClusterJobs {
    read_jobs(&source(name, text)).unwrap_or_else(|e| panic!("{e}"))
}

fn source(name: &str, text: &str) -> SourceText {
    SourceText {
        path: name.into(),
        text: text.into(),
    }
}

fn left_out(found: &ClusterJobs) -> Vec<(&str, usize)> {
    found
        .left_out
        .iter()
        .map(|(why, n)| (why.as_str(), *n))
        .collect()
}

const TABLE: &str = "\
JobID|JobName|State|AllocNodes|AllocCPUS|ReqMem|Elapsed|Timelimit|Start
101|heat|COMPLETED|2|64|4Gn|1-02:03:04|UNLIMITED|2026-03-01T10:00:00
101.batch|batch|COMPLETED|1|32||1-02:03:04||2026-03-01T10:00:00
101.0|heat|COMPLETED|2|64||1-02:03:00||2026-03-01T10:00:01
102_3|sweep|FAILED|1|4|2Gc|10:00|01:00:00|2026-03-01T10:00:00
102_[4-9]|sweep|PENDING|0|0|2Gc|00:00:00|01:00:00|Unknown
103|never|CANCELLED by 1000|0|0|16G|00:00:00|01:00:00|None
104|cut|CANCELLED by 1000|1|8|16G|00:30:00|01:00:00|2026-03-01T10:00:00
105|now|RUNNING|1|8|16G|00:30:00|01:00:00|2026-03-01T10:00:00
106|again|REQUEUED|4|16|16G|00:10:00|01:00:00|2026-03-01T10:00:00
106|again|COMPLETED|4|16|16G|01:00:00|01:00:00|2026-03-01T12:00:00
107+0|coupled|COMPLETED|1|4|1500M|01:00:00|01:00:00|2026-03-01T12:00:00
107+1|coupled|COMPLETED|2|8|1500M|01:00:00|01:00:00|2026-03-01T12:00:00
104|cut|CANCELLED by 1000|1|8|16G|00:30:00|01:00:00|2026-03-01T10:00:00
108|a|b|COMPLETED|1|8|16G|00:30:00|01:00:00|2026-03-01T10:00:00
";

#[test]
fn jobs_of_a_table_count_once_and_what_does_not_count_has_a_reason() {
    let found = read("jobs.txt", TABLE);
    let short: Vec<(&str, u32, u32, Option<f64>, f64)> = found
        .jobs
        .iter()
        .map(|j| (j.id.as_str(), j.nodes, j.cpus, j.memory_mib, j.elapsed_s))
        .collect();
    assert_eq!(
        short,
        [
            ("101", 2, 64, Some(4096.0), 93_784.0),
            ("102_3", 1, 4, Some(8192.0), 600.0),
            ("104", 1, 8, Some(16_384.0), 1800.0),
            ("106", 4, 16, Some(4096.0), 600.0),
            ("106", 4, 16, Some(4096.0), 3600.0),
            ("107+0", 1, 4, Some(1500.0), 3600.0),
            ("107+1", 2, 8, Some(750.0), 3600.0),
        ]
    );
    assert_eq!(found.steps, 2);
    assert_eq!(
        left_out(&found),
        [
            ("not ended: PENDING", 1),
            ("never started, or ended at once", 1),
            ("not ended: RUNNING", 1),
            ("repeated in the export", 1),
            (
                "with another number of fields than the first line (a `|` in a name?)",
                1
            ),
        ]
    );
    assert_eq!(found.jobs[2].state, "CANCELLED");
}

#[test]
fn any_columns_do_that_suffice() {
    let lists = read(
        "jobs.txt",
        "State|AllocTRES|JobIDRaw|ElapsedRaw|\nCOMPLETED|billing=8,cpu=8,mem=31.25G,node=2|7|90|\nCOMPLETED|cpu=8,gres/gpu:a100=2,gres/gpu=2,node=1|8|90|\n",
    );
    assert_eq!(lists.jobs.len(), 1);
    let job = &lists.jobs[0];
    assert_eq!(
        (job.nodes, job.cpus, job.memory_mib),
        (2, 8, Some(16_000.0))
    );
    assert_eq!(
        left_out(&lists),
        [("with GPUs: cvc has no instance types with GPUs", 1)]
    );
    let by_processor = read("jobs.txt", "JobID|NCPUS|CPUTimeRAW\n7|4|400\n8|1K|2000\n");
    let times: Vec<f64> = by_processor.jobs.iter().map(|j| j.elapsed_s).collect();
    assert_eq!(times, [100.0, 2.0]);
    let odd = read(
        "jobs.csv",
        "JobID,NCPUS,Elapsed,ReqMem\n7,4,INVALID,?\n8,x,00:01:00,0n\n",
    );
    assert_eq!(
        left_out(&odd),
        [
            ("without a time that can be read", 1),
            ("without a number of processors", 1)
        ]
    );
}

#[test]
fn an_export_that_does_not_suffice_is_refused_with_the_command_that_does() {
    let refused = |text: &str| {
        let error = read_jobs(&source("jobs.txt", text)).expect_err("not enough");
        (error.to_string(), error.hint().unwrap_or_default())
    };
    let (message, hint) = refused("JobID|JobName|State\n1|a|COMPLETED\n");
    assert!(
        message.contains("ElapsedRaw or Elapsed, nor AllocCPUS"),
        "{message}"
    );
    assert!(hint.contains("sacct --allusers --parsable2"), "{hint}");
    assert!(
        refused("1|a|COMPLETED|3\n2|b|COMPLETED|4\n")
            .0
            .contains("no column JobID")
    );
    assert!(refused("JobID|NCPUS|Elapsed\n").0.contains("no job"));
    assert!(refused("{\"errors\": []}").0.contains("no list `jobs`"));
    assert!(refused("{\"jobs\": [").0.contains("not JSON"));
    refused("");
}

/// Reads the same job as written by Slurm 21.08 and by Slurm 23.11.
#[test]
fn json_of_several_versions_is_the_same_job() {
    let old = r#"{"metadata": {"Slurm": {"version": {"major": 21}}}, "jobs": [{
        "job_id": 12, "name": "heat", "state": {"current": "COMPLETED", "reason": "None"}, "allocation_nodes": 2,
        "array": {"job_id": 10, "task_id": 2}, "het": {"job_id": null, "job_offset": null},
        "required": {"CPUs": 64, "memory": 9223372036854776832},
        "time": {"elapsed": 5400, "start": 1646128800, "submission": 1646128700, "limit": 4320},
        "tres": {"allocated": [{"type": "cpu", "name": null, "id": 1, "count": 64}, {"type": "node", "name": null, "id": 4, "count": 2}]},
        "steps": [{}, {}]}]}"#;
    let new = r#"{"jobs": [{
        "job_id": 12, "name": "heat", "state": {"current": ["COMPLETED"], "reason": "None"}, "allocation_nodes": 2,
        "array": {"job_id": 10, "task_id": {"set": true, "infinite": false, "number": 2}},
        "het": {"job_id": 0, "job_offset": {"set": false, "infinite": false, "number": 0}},
        "required": {"CPUs": 64, "memory_per_cpu": {"set": true, "infinite": false, "number": 1024},
            "memory_per_node": {"set": false, "infinite": false, "number": 0}},
        "time": {"elapsed": 5400, "start": 1646128800, "submission": 1646128700, "limit": {"set": false, "infinite": true, "number": 0}},
        "tres": {"allocated": [{"type": "cpu", "name": "", "id": 1, "count": 64}, {"type": "node", "name": "", "id": 4, "count": 2}]},
        "steps": [{}, {}]}]}"#;
    let (old, new) = (read("old.json", old), read("new.json", new));
    assert_eq!(old, new);
    assert_eq!(old.steps, 2);
    assert_eq!(
        old.jobs,
        [ClusterJob {
            id: "10_2".into(),
            name: "heat".into(),
            state: "COMPLETED".into(),
            nodes: 2,
            cpus: 64,
            memory_mib: Some(32_768.0),
            elapsed_s: 5400.0,
        }]
    );
    let others = r#"{"jobs": [
        {"job_id": 1, "state": {"current": ["RUNNING"]}, "time": {"elapsed": 5}, "required": {"CPUs": 1}},
        {"job_id": 2, "state": {"current": ["CANCELLED"]}, "time": {"elapsed": 0}, "required": {"CPUs": 1}},
        {"job_id": 3, "state": ["COMPLETED"], "time": {"elapsed": 9}, "het": {"job_id": 3, "job_offset": {"set": true, "infinite": false, "number": 0}},
         "tres": {"allocated": [{"type": "cpu", "name": "", "count": 2}, {"type": "mem", "name": "", "count": 600}]}},
        {"job_id": 4, "state": {"current": ["FAILED"]}, "time": {"elapsed": 9},
         "tres": {"allocated": [{"type": "cpu", "name": "", "count": 2}, {"type": "gres", "name": "gpu:a100", "count": 1}]}},
        {"name": "x"}, 7]}"#;
    let others = read("others.json", others);
    assert_eq!(others.jobs.len(), 1);
    assert_eq!(
        (others.jobs[0].id.as_str(), others.jobs[0].memory_mib),
        ("3+0", Some(600.0))
    );
    assert_eq!(
        others.left_out.values().sum::<usize>(),
        5,
        "{:?}",
        others.left_out
    );
}
