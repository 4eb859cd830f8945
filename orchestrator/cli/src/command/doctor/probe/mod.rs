//! `cvc doctor --probe`: a small checkpoint and its restart with each MPI library, as runs take them.

mod trial;

use crate::command::temporary;
use crate::{args::Where, exit_status::ExitStatus, failure, machine::machine, text::paragraph};
use cvc_controller::runner::find_node_program;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::plan;
use cvc_core::units::counted;
use cvc_engine::{
    attempt::ReadySite,
    mpi::{self, Missing},
};
use cvc_show::Table;
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::io::Write;
use trial::{Attempt, Cell, Column, Failure, Tried, Used};

/// A row of the matrix.
struct Row {
    site: String,
    mpi: String,
    launcher: String,
    nodes: u32,
    is_cluster: bool,
    cells: [Cell; 5],
    failure: Option<Failure>,
    hint: String,
    /// What is known of this library even where the trial has shown no trouble.
    warnings: Vec<String>,
}

impl Row {
    /// What was tried, in messages.
    fn name(&self) -> String {
        format!(
            "{} on {}, {}",
            self.mpi,
            self.site,
            counted(self.nodes, "node")
        )
    }
}

/// What was tried, and what could not be.
#[derive(Default)]
pub(super) struct Probed {
    rows: Vec<Row>,
    /// What is missing on which site.
    missing: Vec<(String, Missing)>,
    is_interrupted: bool,
}

/// Tries every MPI library of every site. `sites` are those of this machine.
///
/// # Errors
/// When cvc does not find its own program, or the one for nodes.
pub(super) async fn probe(
    spec: &Spec,
    sites: &IndexMap<String, ReadySite>,
) -> Result<Probed, failure::Failure> {
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    if spec.sites.values().any(|s| s.cluster.is_some()) {
        find_node_program(spec, &plan::build(spec), &base)?;
    }
    let interrupted = temporary::listen();
    let mut probed = Probed::default();
    for (name, site) in &spec.sites {
        let (libraries, missing, nodes) = match (sites.get(name), &site.cluster) {
            (Some(ready), _) => of_machine(ready),
            // what its nodes have is seen when the site is opened
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
                let what =
                    "its machines exist only while its campaign runs: nothing was tried".to_owned();
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
            let Tried {
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
            probed.rows.push(Row {
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

/// Libraries to try on this machine, what is missing, and the numbers of nodes.
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
        // without it nothing can be tried
        missing.insert(0, absent.clone());
        there.clear();
    }
    (there, missing, vec![1])
}

/// The launcher of a library of this machine, as it is called there.
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

/// How to correct a trial that failed: what is known of the library, else by how far it came.
fn hint(attempt: &Attempt<'_>, cells: &[Cell; 5], used: Option<&Used>) -> String {
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
                format!("see whether a run without DMTCP starts on these nodes (cvc doctor {}); {}", attempt.site, family.hang_hint())
            }
            _ => "see whether a program of this library starts without cvc and without DMTCP; the log tells who refused".into(),
        },
        Some(Column::CheckpointTaken | Column::ImagesComplete) => {
            "see the space and the speed of the storage area; DMTCP 4.2 or newer and a ch3 or ch4:ofi build of MPICH, or Open MPI, are known to work".into()
        }
        Some(Column::Restarts | Column::ResultVerified) => {
            "try again while the machine is idle; if that fails as well, measure sizes only with this library (moment = \"size-only\"), or use a ch3 or ch4:ofi build of MPICH, or Open MPI, with DMTCP 4.2 or newer".into()
        }
        None => format!("correct what the message names, then try again; `cvc doctor` checks the site `{}` without a run", attempt.site),
    }
}

impl Probed {
    /// The exit code.
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

    /// Shows the matrix, and below it why something does not work.
    pub(super) fn show(&self, out: &mut impl Write) -> std::io::Result<()> {
        if self.is_interrupted {
            writeln!(
                out,
                "stopped: the trial under way was ended, and nothing of it is left"
            )?;
        }
        if self.rows.is_empty() && !self.is_interrupted {
            writeln!(out, "no checkpoint could be tried")?;
        }
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
            let Some(Failure { what, log }) = &row.failure else {
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

    /// The matrix for scripts.
    pub(super) fn to_json(&self) -> Value {
        let cells = |row: &Row| -> serde_json::Map<String, Value> {
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
