//! `cvc doctor --probe`: takes and restarts a small checkpoint with each MPI library, in the same way as runs do.

mod trial;

use crate::command::temporary;
use crate::{exit_status::ExitStatus, failure, text::paragraph};
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::units::counted;
use cvc_engine::{
    attempt::ReadySite,
    mpi::{self, Missing},
};
use cvc_show::Table;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::io::Write;
use trial::{Attempt, Cell, CellFailure, Column, TriedCell, UsedSoftware};

/// A row of the matrix: a library on a site.
struct ProbeRow {
    site: String,
    mpi: String,
    launcher: String,
    nodes: u32,
    is_cluster: bool,
    cells: [Cell; 5],
    failure: Option<CellFailure>,
    hint: String,
    /// Known problems of this library, even if the trial did not meet them.
    warnings: Vec<String>,
}

impl ProbeRow {
    /// Returns the name of the trial for messages.
    fn name(&self) -> String {
        format!(
            "{} on {}, {}",
            self.mpi,
            self.site,
            counted(self.nodes, "node")
        )
    }
}

/// Results of all trials, and combinations that could not be tried.
#[derive(Default)]
pub(super) struct ProbeReport {
    rows: Vec<ProbeRow>,
    /// Missing software, each with its site.
    missing: Vec<(String, Missing)>,
    is_interrupted: bool,
}

/// Tries every MPI library of every site. `sites` contains the sites on this machine.
///
/// # Errors
/// cvc cannot find its own program, or the one for nodes.
pub(super) async fn probe(
    spec: &Spec,
    sites: &IndexMap<String, ReadySite>,
) -> Result<ProbeReport, failure::Failure> {
    let (base, interrupted) = temporary::begin(spec)?;
    let mut probed = ProbeReport::default();
    for (name, site) in &spec.sites {
        let (libraries, missing, nodes) = match (sites.get(name), &site.cluster) {
            (Some(ready), _) => of_machine(ready),
            // software on the nodes of a cluster is checked when the site is opened
            (None, Some(cluster)) if site.kind != SiteKind::Ec2 => (
                site.mpi.keys().cloned().collect(),
                Vec::new(),
                if cluster.nodes() > 1 {
                    vec![1, 2]
                } else {
                    vec![1]
                },
            ),
            _ => {
                let what = "its machines exist only while its campaign runs: nothing was tested"
                    .to_owned();
                probed.missing.push((
                    name.clone(),
                    Missing {
                        what,
                        hint: "run a campaign of one point with restart_check = true".into(),
                    },
                ));
                continue;
            }
        };
        probed
            .missing
            .extend(missing.into_iter().map(|m| (name.clone(), m)));
        for (mpi, nodes) in libraries
            .iter()
            .flat_map(|mpi| nodes.iter().map(move |n| (mpi, *n)))
        {
            let attempt = Attempt {
                spec,
                site: name,
                settings: site,
                mpi,
                nodes,
            };
            let TriedCell {
                cells,
                failure,
                used,
                is_interrupted,
            } = attempt.carry_out(&base, &interrupted).await;
            if is_interrupted {
                probed.is_interrupted = true;
                return Ok(probed);
            }
            let hint = if failure.is_some() {
                hint(&attempt, &cells, used.as_ref())
            } else {
                String::new()
            };
            let (launcher, warnings) = match used {
                Some(used) => (used.launcher, used.warnings),
                None => (
                    sites
                        .get(name)
                        .and_then(|site| launcher_here(site, mpi))
                        .unwrap_or_else(|| "mpiexec".into()),
                    Vec::new(),
                ),
            };
            let is_cluster = site.cluster.is_some();
            probed.rows.push(ProbeRow {
                site: name.clone(),
                mpi: mpi.clone(),
                launcher,
                nodes,
                is_cluster,
                cells,
                failure,
                hint,
                warnings,
            });
        }
    }
    Ok(probed)
}

/// Returns what to try on this machine: its MPI libraries, missing software, and numbers of nodes.
fn of_machine(ready: &ReadySite) -> (Vec<String>, Vec<Missing>, Vec<u32>) {
    let mut missing: Vec<Missing> = ready
        .mpi
        .values()
        .filter_map(|m| m.as_ref().err().cloned())
        .collect();
    let mut there: Vec<String> = ready
        .mpi
        .iter()
        .filter(|(_, m)| m.is_ok())
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(absent) = ready.missing_driven_checkpointer() {
        // without DMTCP nothing can be tried
        missing.insert(0, absent.clone());
        there.clear();
    }
    (there, missing, vec![1])
}

/// Returns the file name of the launcher of a library on this machine.
fn launcher_here(ready: &ReadySite, mpi: &str) -> Option<String> {
    ready
        .mpi
        .get(mpi)?
        .as_ref()
        .ok()?
        .mpiexec
        .file_name()
        .map(str::to_owned)
}

/// Returns how to correct a failed trial: from known problems of the library, otherwise from the step that failed.
fn hint(attempt: &Attempt<'_>, cells: &[Cell; 5], used: Option<&UsedSoftware>) -> String {
    if let Some(used) = used.filter(|used| !used.warnings.is_empty()) {
        return used.warnings.join("; ");
    }
    let failed = Column::ALL
        .into_iter()
        .zip(cells)
        .find(|(_, cell)| matches!(cell, Cell::Fails { .. }))
        .map(|(column, _)| column);
    let family = attempt
        .settings
        .mpi
        .get(attempt.mpi)
        .map(|m| mpi::launcher(m.family));
    match failed {
        Some(Column::Starts) => match family {
            Some(family) if attempt.nodes > 1 => {
                format!("check whether a run without DMTCP starts on these nodes (cvc doctor {}); {}", attempt.site, family.hang_hint())
            }
            _ => "check whether a program with this library starts without cvc and DMTCP; the log names the cause".into(),
        },
        Some(Column::CheckpointTaken | Column::ImagesComplete) => {
            "check the space and speed of the storage area; DMTCP 4.2 or newer and a ch3 or ch4:ofi build of MPICH, or Open MPI, are known to work".into()
        }
        Some(Column::Restarts | Column::ResultVerified) => {
            "try again while the machine is idle; if that fails as well, measure sizes only with this library (moment = \"size-only\"), or use a ch3 or ch4:ofi build of MPICH, or Open MPI, with DMTCP 4.2 or newer".into()
        }
        None => format!("fix the reported cause, then try again; `cvc doctor` checks the site `{}` without a run", attempt.site),
    }
}

impl ProbeReport {
    /// Returns the exit code of the command.
    pub(super) fn status(&self) -> ExitStatus {
        let failed = |cluster: bool| {
            self.rows
                .iter()
                .any(|r| r.failure.is_some() && r.is_cluster == cluster)
        };
        if self.is_interrupted {
            ExitStatus::Interrupted
        } else if self.rows.is_empty() || failed(false) {
            ExitStatus::Installation
        } else if failed(true) {
            ExitStatus::Host
        } else {
            ExitStatus::Done
        }
    }

    /// Prints the matrix, and below it why a step failed.
    pub(super) fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        let none = "no checkpoint could be tested";
        temporary::show_none(out, self.is_interrupted, self.rows.is_empty(), none)?;
        if !self.rows.is_empty() {
            let titles = Column::ALL.map(Column::title);
            let mut matrix = Table::plain(
                ["site", "MPI library", "launcher", "nodes"]
                    .into_iter()
                    .chain(titles),
            );
            for row in &self.rows {
                let mut cells = vec![
                    row.site.clone(),
                    row.mpi.clone(),
                    row.launcher.clone(),
                    row.nodes.to_string(),
                ];
                cells.extend(row.cells.iter().map(|cell| match cell {
                    Cell::Works { seconds } => format!("ok {seconds:.1} s"),
                    Cell::Fails { seconds } => format!("-- {seconds:.1} s"),
                    Cell::NotReached => "..".into(),
                }));
                matrix.row(cells);
            }
            writeln!(out, "{}", matrix)?;
        }
        for row in self
            .rows
            .iter()
            .filter(|row| row.failure.is_none() && !row.warnings.is_empty())
        {
            let known = row.warnings.join("; ");
            writeln!(
                out,
                "\n{}",
                paragraph(
                    "",
                    &format!(
                        "{}: two processes worked, but larger runs may not: {known}",
                        row.name()
                    )
                )
            )?;
        }
        for row in &self.rows {
            let Some(CellFailure { what, log }) = &row.failure else {
                continue;
            };
            writeln!(
                out,
                "\n{}",
                paragraph("", &format!("{}: {what}", row.name()))
            )?;
            if let Some((name, lines)) = log {
                writeln!(out, "  last lines of {name}:")?;
                for line in lines {
                    writeln!(out, "    {line}")?;
                }
            }
            writeln!(out, "{}", paragraph("  ", &format!("hint: {}", row.hint)))?;
        }
        if !self.missing.is_empty() {
            writeln!(out, "\nnot tried:")?;
        }
        for (site, missing) in &self.missing {
            writeln!(
                out,
                "{}",
                paragraph("  ", &format!("site {site}: {}", missing.what))
            )?;
            writeln!(
                out,
                "{}",
                paragraph("    ", &format!("hint: {}", missing.hint))
            )?;
        }
        Ok(())
    }

    /// Returns the matrix as JSON.
    pub(super) fn to_json(&self) -> Value {
        let cells = |row: &ProbeRow| -> serde_json::Map<String, Value> {
            let name =
                |column: Column| json!(column).as_str().unwrap_or_default().replace('-', "_");
            Column::ALL
                .into_iter()
                .zip(row.cells)
                .map(|(column, cell)| (name(column), json!(cell)))
                .collect()
        };
        let rows = self.rows.iter().map(|row| {
            let failure = row.failure.as_ref().map(|f| {
                let log = f.log.as_ref().map(|(name, lines)| json!({ "file": name, "last_lines": lines }));
                json!({ "what": f.what, "log": log, "hint": row.hint })
            });
            json!({ "site": row.site, "mpi": row.mpi, "launcher": row.launcher, "nodes": row.nodes, "works": row.failure.is_none(), "cells": cells(row), "failure": failure, "warnings": row.warnings })
        });
        let missing = self
            .missing
            .iter()
            .map(|(site, m)| json!({ "site": site, "what": m.what, "hint": m.hint }));
        json!({ "probe": rows.collect::<Vec<_>>(), "not_tried": missing.collect::<Vec<_>>(), "interrupted": self.is_interrupted })
    }
}
