//! Reads `sacct --parsable2`: a line for each job and step, with fields separated by `|`.

use super::{
    found::{AccountedJob, ClusterJobs},
    values::{count, elapsed_s, memory_mib, of_node, of_tres},
};
use crate::error::ImportError;
use cvc_core::source::SourceText;
use std::collections::{HashMap, HashSet};

/// Command that creates a sufficient export, for hints.
const COMMAND: &str = "sacct --allusers --parsable2 --format=JobID,JobName,State,AllocNodes,AllocCPUS,ReqMem,AllocTRES,ElapsedRaw,Start --starttime 2026-01-01";
/// Columns from which the elapsed time of a job is determined, best first.
const TIMES: [&str; 4] = ["elapsedraw", "elapsed", "cputimeraw", "cputime"];
/// Columns from which the number of processors of a job is determined, best first.
const CPUS: [&str; 5] = ["alloccpus", "ncpus", "alloctres", "reqcpus", "reqtres"];

/// A row, by column name.
struct Fields<'t> {
    columns: &'t HashMap<String, usize>,
    values: Vec<&'t str>,
}

impl<'t> Fields<'t> {
    /// Returns the value of a column; `None` if there is no such column or it is empty.
    fn get(&self, column: &str) -> Option<&'t str> {
        let value = self.values.get(*self.columns.get(column)?)?.trim();
        (!value.is_empty()).then_some(value)
    }

    fn tres(&self, name: &str) -> Option<&'t str> {
        ["alloctres", "reqtres"]
            .iter()
            .find_map(|column| of_tres(self.get(column)?, name))
    }

    fn job(&self, id: &str, line: &str) -> AccountedJob {
        let number = |columns: [&str; 2]| columns.iter().find_map(|c| count(self.get(c)?));
        // the value of a job that started is above zero
        let started = |value: Option<u32>| value.filter(|v| *v > 0);
        let cpus = started(number(["alloccpus", "ncpus"]))
            .or_else(|| started(count(self.tres("cpu")?)))
            .or_else(|| count(self.get("reqcpus")?));
        let nodes = started(number(["allocnodes", "nnodes"]))
            .or_else(|| started(count(self.tres("node")?)))
            .or_else(|| count(self.get("reqnodes")?));
        let memory = self.tres("mem").or_else(|| self.get("reqmem"));
        let of_cpus = |seconds: f64| Some(seconds / f64::from(cpus.filter(|c| *c > 0)?));
        let raw = |column: &str| self.get(column)?.parse::<u32>().ok().map(f64::from);
        AccountedJob {
            id: id.to_owned(),
            name: self.get("jobname").unwrap_or_default().to_owned(),
            state: self.get("state").unwrap_or_default().to_owned(),
            nodes,
            cpus,
            gpus: self.gpus(),
            memory_mib: memory
                .and_then(memory_mib)
                .map(|(mib, of)| of_node(mib, of, nodes, cpus)),
            elapsed_s: raw("elapsedraw")
                .or_else(|| elapsed_s(self.get("elapsed")?))
                .or_else(|| of_cpus(raw("cputimeraw")?))
                .or_else(|| of_cpus(elapsed_s(self.get("cputime")?)?)),
            attempt: match (self.get("start"), self.get("submit")) {
                (None, None) => line.to_owned(),
                (start, submit) => format!("{start:?} {submit:?}"),
            },
        }
    }

    /// Returns the number of GPUs of the job, from a list of resources or from `gpu:2`.
    fn gpus(&self) -> u32 {
        let of_list = self.tres("gres/gpu").and_then(count);
        let of_gres = || {
            let list = self.get("allocgres").or_else(|| self.get("reqgres"))?;
            let entry = list.split(',').find(|e| {
                let name = e.split(':').find(|part| *part != "gres");
                name == Some("gpu")
            })?;
            // an entry without a number means one
            Some(entry.rsplit(':').next().and_then(count).unwrap_or(1))
        };
        of_list.or_else(of_gres).unwrap_or(0)
    }
}

pub(super) fn read(source: &SourceText) -> Result<ClusterJobs, ImportError> {
    let mut lines = source
        .text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let header = lines.next().unwrap_or_default();
    let separator = ['|', ';', '\t', ',']
        .into_iter()
        .find(|separator| header.contains(*separator))
        .unwrap_or('|');
    let columns: HashMap<String, usize> = header
        .split(separator)
        .enumerate()
        .filter(|(_, name)| !name.trim().is_empty())
        .map(|(i, name)| (name.trim().to_ascii_lowercase(), i))
        .collect();
    let has = |names: &[&str]| names.iter().any(|name| columns.contains_key(*name));
    let lacks = [
        (!has(&["jobid", "jobidraw"])).then_some("JobID"),
        (!has(&TIMES)).then_some("ElapsedRaw or Elapsed"),
        (!has(&CPUS)).then_some("AllocCPUS, NCPUS or AllocTRES"),
    ];
    let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
    if !lacks.is_empty() {
        let message = format!("the first line names no column {}", lacks.join(", nor "));
        return Err(source
            .error(
                Some(0..header.len()),
                message,
                format!("export with its header: {COMMAND}"),
            )
            .into());
    }
    let count_of_fields = header.split(separator).count();
    let mut found = ClusterJobs::default();
    let mut seen = HashSet::new();
    for line in lines.filter(|line| *line != header) {
        let fields = Fields {
            columns: &columns,
            values: line.split(separator).collect(),
        };
        if fields.values.len() != count_of_fields {
            found.leave_out(format!(
                "with another number of fields than the first line (a `{separator}` in a name?)"
            ));
            continue;
        }
        let Some(id) = fields.get("jobid").or_else(|| fields.get("jobidraw")) else {
            found.leave_out("without a number");
            continue;
        };
        if id.contains('.') {
            found.steps += 1;
            continue;
        }
        found.add(fields.job(id, line), &mut seen);
    }
    Ok(found)
}
