//! `cvc reproduce`

use super::{measure, report::formats};
use crate::{
    args::ReproduceArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{shown, table},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_analysis::report;
use cvc_core::campaign::Format;
use cvc_paper::paper::{self, Counts, Measurements, Paper, Reproduction};
use cvc_paper::rerun;
use std::{io::Write, path::PathBuf};

pub fn reproduce(args: &ReproduceArgs) -> Result<ExitStatus, Failure> {
    let dirs = directories(args)?;
    let Some(name) = &args.paper else {
        list_papers(&mut output::shown(), &dirs)?;
        return Ok(ExitStatus::Done);
    };
    let folder = folder(name, &dirs)?;
    let paper = paper::load(folder.as_std_path())?;
    if args.list {
        list_tables(&mut output::shown(), &paper)?;
        return Ok(ExitStatus::Done);
    }
    let only = tables(&paper, &args.table)?;
    let to = args
        .to
        .clone()
        .unwrap_or_else(|| Utf8Path::new("reports/papers").join(&paper.id));
    // before anything runs or is printed
    std::fs::create_dir_all(&to).map_err(|e| Failure::Other {
        status: ExitStatus::Store,
        message: format!("cannot create {to}: {e}"),
        hint: Some("--to names a directory for the report".into()),
    })?;
    let (measurements, sections, from) = match measure::measured(&folder, &paper, &args.measure)? {
        measure::Outcome::Nothing => (Measurements::new(), Vec::new(), Vec::new()),
        measure::Outcome::Interrupted => return Ok(ExitStatus::Interrupted),
        measure::Outcome::Joined {
            definition,
            mut joined,
            from,
        } => {
            joined
                .tables
                .retain(|t| only.is_empty() || only.contains(&t.table.as_str()));
            let measurements = joined.measurements();
            let sections = if from.is_empty() {
                Vec::new()
            } else {
                rerun::sections(&paper, &joined, definition.note.as_deref())
            };
            (measurements, sections, from)
        }
    };
    let judged = paper::judge(&paper, &only, &measurements);
    let mut report = paper::report(&judged);
    report.sections.extend(sections);
    let wanted = if args.format.is_empty() {
        Format::ALL.to_vec()
    } else {
        formats(&args.format)
    };
    let files = report::write_all(&report, &to, &wanted)?;
    let mut out = output::told();
    summary(&mut out, &judged)?;
    for dir in &from {
        writeln!(out, "measured by {}", shown(dir))?;
    }
    for file in files.iter().filter(|f| f.extension() != Some("csv")) {
        writeln!(out, "{}", shown(file))?;
    }
    if wanted.contains(&Format::Csv) {
        writeln!(out, "{}", shown(&to.join("csv")))?;
    }
    Ok(ExitStatus::Done)
}

/// The directories that are searched for papers, in this order.
fn directories(args: &ReproduceArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut dirs = Vec::new();
    if let Some(given) = &args.papers {
        if !given.is_dir() {
            let hint = "--papers names a directory with a folder for each paper".to_owned();
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: format!("unknown directory {given}"),
                hint: Some(hint),
            });
        }
        dirs.push(given.clone().into_std_path_buf());
    }
    dirs.extend(
        ["experiments/papers", "papers"]
            .into_iter()
            .map(PathBuf::from)
            .filter(|d| d.is_dir()),
    );
    dirs.push(paper::embedded::directory()?);
    Ok(dirs)
}

/// The folder of a paper, given by its path or the paper's name.
fn folder(paper: &Utf8Path, dirs: &[PathBuf]) -> Result<Utf8PathBuf, Failure> {
    if paper.join("paper.toml").is_file() {
        return Ok(paper.to_owned());
    }
    let found = paper::find(paper.as_str(), dirs).and_then(|p| Utf8PathBuf::from_path_buf(p).ok());
    found.ok_or_else(|| Failure::Other {
        status: ExitStatus::Usage,
        message: format!("unknown paper `{paper}`"),
        hint: Some(format!(
            "built in: {}; for another one, give the folder that has its paper.toml",
            paper::known(dirs).join(", ")
        )),
    })
}

/// Identifiers of the requested tables.
fn tables<'p>(paper: &'p Paper, asked: &[String]) -> Result<Vec<&'p str>, Failure> {
    let find = |id: &String| {
        paper
            .table(id)
            .map(|t| t.definition.id.as_str())
            .ok_or_else(|| {
                let known: Vec<&str> = paper
                    .tables
                    .iter()
                    .map(|t| t.definition.id.as_str())
                    .collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                Failure::Other {
                    status: ExitStatus::Usage,
                    message: format!("{} has no table `{id}`", paper.id),
                    hint: Some(format!("its tables: {known}")),
                }
            })
    };
    asked.iter().map(find).collect()
}

fn list_papers(out: &mut impl Write, dirs: &[PathBuf]) -> Result<(), Failure> {
    let mut rows = table(["paper", "tables", "title"], &["title"]);
    for name in paper::known(dirs) {
        let Some(folder) = paper::find(&name, dirs) else {
            continue;
        };
        let paper = paper::load(&folder)?;
        rows.add_row([name, paper.tables.len().to_string(), paper.title]);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    Ok(())
}

fn list_tables(out: &mut impl Write, paper: &Paper) -> Result<(), Failure> {
    let mut rows = table(["table", "page", "rows", "about"], &["about"]);
    for t in &paper.tables {
        let d = &t.definition;
        rows.add_row([
            d.id.clone(),
            d.page.map(|p| p.to_string()).unwrap_or_default(),
            t.rows().len().to_string(),
            d.caption.clone(),
        ]);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    Ok(())
}

fn summary(out: &mut impl Write, judged: &Reproduction) -> Result<(), Failure> {
    let mut rows = table(
        [
            "table",
            "cells",
            "equal",
            "inferred",
            "within",
            "differs",
            "printed wrong",
            "cannot",
            "measured here",
            "agree",
            "known why",
        ],
        &[],
    );
    let line = |name: &str, c: &Counts| {
        let counts = [
            c.judged,
            c.equal,
            c.inferred,
            c.within,
            c.differs,
            c.wrong,
            c.cannot,
            c.measured,
            c.agree,
            c.explained,
        ];
        std::iter::once(name.to_owned())
            .chain(counts.map(|n| n.to_string()))
            .collect::<Vec<_>>()
    };
    for t in &judged.tables {
        rows.add_row(line(&t.definition.id, &t.counts));
    }
    if judged.tables.len() > 1 {
        let total = judged
            .tables
            .iter()
            .fold(Counts::default(), |sum, t| sum.plus(t.counts));
        rows.add_row(line("all", &total));
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    Ok(())
}
