//! `cvc doctor --overlap`: whether non-blocking MPI-IO proceeds while a program computes, with each MPI library and storage area.

use crate::command::temporary::{self, problem_of};
use crate::{exit_status::ExitStatus, failure::Failure, text::paragraph};
use cvc_controller::runner::Options;
use cvc_core::app::load::load_text;
use cvc_core::campaign::{Site, SiteKind, SmallCampaign, Spec};
use cvc_core::mapping::Mapping;
use cvc_core::plan;
use cvc_core::point::CheckpointerKind;
use cvc_core::source::SourceErrors;
use cvc_core::stop::StopSignal;
use cvc_engine::attempt::ReadySite;
use cvc_session::{Scratch, Trial};
use cvc_show::Table;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};
use std::{io::Write, time::Duration};

/// Time limit of the program, seconds. A call that hangs is reported as a result.
const RUN_S: u32 = 120;
const LIMIT: Duration = Duration::from_secs(RUN_S as u64 + 30);
/// Minimum number of cores for two processes, so that cores are left for the helper threads of a library.
const CORES_FOR_TWO: u32 = 4;
/// Overlap below which a library counts as not overlapping. The overlap of blocking calls is smaller.
const MIN_SHARE: f64 = 0.2;

/// The default MPI call, and the optional one below.
const INDEPENDENT: &str = "iwrite_at";
const COLLECTIVE: &str = "iwrite_all";

const APP: &str = r#"schema = 1
name = "overlap"
title = "cvc's kernel that writes by non-blocking MPI-IO while it computes"
kernel = true
[program]
names = ["kernel-overlap"]
install = "part of cvc"
[command]
args = ["--mib", "64", "--call", "{{class}}", "--dir", "{{storage}}"]
[io]
# so that runs use the layer that the site names
collective = true
[workloads.iwrite_at]
[workloads.iwrite_all]
[success]
pattern = '^Overlap = '
[[figures]]
name = "io_s"
pattern = '^T_io = ([0-9.]+)'
unit = "s"
better = "lower"
required = true
[[figures]]
name = "calc_s"
pattern = '^T_calc = ([0-9.]+)'
unit = "s"
better = "lower"
required = true
[[figures]]
name = "both_s"
pattern = '^T_both = ([0-9.]+)'
unit = "s"
better = "lower"
required = true
[[figures]]
name = "overlap"
pattern = '^Overlap = (-?[0-9.]+)'
unit = "1"
better = "higher"
required = true
"#;

/// Result of one MPI call with a library and a storage area.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
enum OverlapResult {
    /// The call wrote its data.
    Measured {
        /// Time to write alone, seconds.
        io_s: f64,
        /// Time to compute alone, seconds.
        calc_s: f64,
        /// Time for both together, seconds.
        both_s: f64,
        /// Fraction of the shorter time that is hidden: 1 if writing and computing run at the same time, 0 if one waits for the other.
        overlap: f64,
    },
    /// The call crashed, hung or could not write.
    Fails {
        /// The error.
        what: String,
    },
}

impl OverlapResult {
    fn describe(&self) -> String {
        match self {
            Self::Measured { overlap, .. } if *overlap < MIN_SHARE => "does not overlap".into(),
            Self::Measured { overlap, .. } => {
                format!("overlaps {:.0} %", 100.0 * overlap.min(1.0))
            }
            Self::Fails { .. } => "fails".into(),
        }
    }
}

#[derive(Serialize)]
struct OverlapRow {
    site: String,
    mpi: String,
    /// Name and version of the library.
    library: String,
    storage: String,
    call: &'static str,
    processes: u32,
    #[serde(flatten)]
    found: OverlapResult,
}

/// Results of all trials, and combinations that could not be tried.
#[derive(Default)]
pub(super) struct Overlaps {
    rows: Vec<OverlapRow>,
    not_tried: Vec<(String, String)>,
    is_interrupted: bool,
}

/// Tries every MPI library with every storage area of every site. `sites` contains the sites on this machine.
///
/// # Errors
/// cvc cannot find its own program, or the one for nodes.
pub(super) async fn measure(
    spec: &Spec,
    sites: &IndexMap<String, ReadySite>,
    has_collective: bool,
) -> Result<Overlaps, Failure> {
    let (base, interrupted) = temporary::begin(spec)?;
    let mut all = Overlaps::default();
    let calls = [INDEPENDENT]
        .into_iter()
        .chain(has_collective.then_some(COLLECTIVE));
    for (name, site) in &spec.sites {
        if site.kind == SiteKind::Ec2 {
            let why = "its machines exist only while its campaign runs";
            all.not_tried.push((format!("site {name}"), why.to_owned()));
            continue;
        }
        let ready = sites.get(name);
        for mpi in site.mpi.keys() {
            if let Some(Err(missing)) = ready.and_then(|ready| ready.mpi.get(mpi)) {
                let what = format!("MPI library {mpi} of site {name}");
                all.not_tried.push((what, missing.to_string()));
                continue;
            }
            let pairs = site
                .storage
                .keys()
                .flat_map(|storage| calls.clone().map(move |call| (storage, call)));
            for (storage, call) in pairs {
                let attempt = OverlapTrial {
                    spec,
                    name,
                    site,
                    ready,
                    mpi,
                    storage,
                    call,
                };
                match attempt.carry_out(&base, &interrupted).await {
                    Some(row) => all.rows.push(row),
                    None => {
                        all.is_interrupted = true;
                        return Ok(all);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// A trial of an MPI library with a storage area.
struct OverlapTrial<'a> {
    spec: &'a Spec,
    name: &'a str,
    site: &'a Site,
    /// The opened site, if it is this machine.
    ready: Option<&'a ReadySite>,
    mpi: &'a str,
    storage: &'a str,
    call: &'static str,
}

impl OverlapTrial<'_> {
    /// Returns the number of processes: two, or one on a machine with too few cores for the helper threads of a library. A collective call always has
    /// two, because with one process it shows nothing.
    fn processes(&self) -> u32 {
        match self.ready {
            Some(ready) if ready.cores < CORES_FOR_TWO && self.call != COLLECTIVE => 1,
            _ => 2,
        }
    }

    /// Returns the campaign of the trial: the site's settings with only one library and one storage area, and one run.
    fn campaign(&self) -> Result<Spec, SourceErrors> {
        let mut site = self.site.clone();
        site.mpi.retain(|name, _| name == self.mpi);
        site.storage.retain(|name, _| name == self.storage);
        // on one core both ranks share it
        site.oversubscribe |= site.cluster.is_none();
        let campaign = SmallCampaign {
            name: "doctor-overlap".into(),
            path: self.spec.path.clone(),
            site_name: self.name.to_owned(),
            site,
            app: load_text("overlap.toml".as_ref(), APP)?,
            class: Some(self.call.to_owned()),
            mapping: Mapping::one_node(self.processes()),
            mpi: vec![self.mpi.to_owned()],
            checkpointers: vec![CheckpointerKind::None],
        };
        campaign.into_spec(|run, _| {
            run.repeats = 1;
            run.retries = 0;
            run.timeout_s = f64::from(RUN_S);
        })
    }

    /// Runs the trial, and removes its files; `None` if the user stopped it.
    async fn carry_out(&self, base: &Options, interrupted: &StopSignal) -> Option<OverlapRow> {
        let name = format!("{} in {} of {}", self.mpi, self.storage, self.name);
        let here = self.ready.and_then(|ready| ready.mpi.get(self.mpi));
        let here = here.and_then(|found| Some(found.as_ref().ok()?.describe()));
        let row = |found, library| OverlapRow {
            site: self.name.to_owned(),
            mpi: self.mpi.to_owned(),
            library,
            storage: self.storage.to_owned(),
            call: self.call,
            processes: self.processes(),
            found,
        };
        let named = here.clone().unwrap_or_else(|| self.mpi.to_owned());
        let fails = |what: String| Some(row(OverlapResult::Fails { what }, named.clone()));
        let spec = match self.campaign() {
            Ok(spec) => spec,
            Err(errors) => return fails(errors.to_string()),
        };
        let plan = plan::build(&spec);
        if let Some(excluded) = plan.excluded.first() {
            return fails(excluded.reason.to_string());
        }
        let scratch = match Scratch::new("cvc-doctor-") {
            Ok(scratch) => scratch,
            Err(error) => return fails(error.to_string()),
        };
        let campaign = (&spec, &plan);
        let trial = temporary::carry_out(campaign, &scratch, &name, base, LIMIT, interrupted).await;
        if trial.is_interrupted {
            return None;
        }
        let library = here
            .or_else(|| library_of(&trial))
            .unwrap_or_else(|| self.mpi.to_owned());
        let found = judge(&trial);
        match scratch.close() {
            Ok(()) => Some(row(found, library)),
            Err(error) => fails(error.to_string()),
        }
    }
}

/// Describes the library that a run used.
fn library_of(trial: &Trial) -> Option<String> {
    let facts: Value = serde_json::from_str(&trial.text("facts.json")).ok()?;
    facts["mpi"].as_str().map(str::to_owned)
}

fn judge(trial: &Trial) -> OverlapResult {
    let fails = |what: String| OverlapResult::Fails { what };
    if let Some(problem) = problem_of(trial) {
        return fails(problem);
    }
    let records = trial.records();
    let measured = || {
        Some(OverlapResult::Measured {
            io_s: records.value("io_s")?,
            calc_s: records.value("calc_s")?,
            both_s: records.value("both_s")?,
            overlap: records.value("overlap")?,
        })
    };
    measured().unwrap_or_else(|| fails("the run gave no result".to_owned()))
}

impl Overlaps {
    /// Returns the exit code. A library that fails is a result, not an error.
    pub(super) fn status(&self) -> ExitStatus {
        if self.is_interrupted {
            ExitStatus::Interrupted
        } else if self.rows.is_empty() {
            ExitStatus::Installation
        } else {
            ExitStatus::Done
        }
    }

    /// Prints the measurements, and below them why something failed or was not tried.
    pub(super) fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        let none = "no MPI library could be tried";
        temporary::show_none(out, self.is_interrupted, self.rows.is_empty(), none)?;
        if !self.rows.is_empty() {
            let head = [
                "site", "storage", "library", "call", "writes", "computes", "both", "result",
            ];
            let mut table = Table::plain(head);
            for row in &self.rows {
                let times = match &row.found {
                    OverlapResult::Measured {
                        io_s,
                        calc_s,
                        both_s,
                        ..
                    } => [io_s, calc_s, both_s].map(|s| format!("{s:.3} s")),
                    OverlapResult::Fails { .. } => [(); 3].map(|()| "..".to_owned()),
                };
                let mut cells = vec![
                    row.site.clone(),
                    row.storage.clone(),
                    row.library.clone(),
                    row.call.to_owned(),
                ];
                cells.extend(times);
                cells.push(row.found.describe());
                table.row(cells);
            }
            writeln!(out, "{table}")?;
        }
        for row in &self.rows {
            if let OverlapResult::Fails { what } = &row.found {
                let text = format!("{} with {}: {what}", row.call, row.library);
                writeln!(out, "\n{}", paragraph("", &text))?;
            }
        }
        if !self.not_tried.is_empty() {
            writeln!(out, "\nnot tried:")?;
        }
        for (what, why) in &self.not_tried {
            writeln!(out, "{}", paragraph("  ", &format!("{what}: {why}")))?;
        }
        Ok(())
    }

    /// Returns the same results as JSON.
    pub(super) fn to_json(&self) -> Value {
        let not_tried = self
            .not_tried
            .iter()
            .map(|(what, why)| json!({ "what": what, "why": why }));
        json!({ "overlap": self.rows, "not_tried": not_tried.collect::<Vec<_>>(), "interrupted": self.is_interrupted })
    }
}
