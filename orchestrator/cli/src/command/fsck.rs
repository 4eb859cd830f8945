//! `cvc fsck`: checks the files of a campaign, and repairs them.

use crate::{
    args::FsckArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, shown},
};
use cvc_core::store::CampaignDir;
use cvc_core::units::counted;
use cvc_journal::fsck::{self, FsckFindings, Problem, Remedy, Repaired};
use cvc_session::campaigns::campaign_dir_even_damaged;
use serde_json::{Value, json};
use std::io::Write;

pub fn fsck(args: &FsckArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir_even_damaged(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    let found = check(&dir)?;
    let repaired = match args.repair && found.problems.iter().any(|p| p.remedy.is_some()) {
        true => Some(fsck::repair(&dir, &found)?),
        false => None,
    };
    // only errors that were not repaired count
    let still = if repaired.is_some() {
        check(&dir)?
    } else {
        found.clone()
    };
    let mut out = output::shown_as(args.json);
    if args.json {
        output::print_json(&output::versioned(as_json(
            &found,
            repaired.as_ref(),
            &still,
        )))?;
    } else {
        show(&mut out, args, &found, repaired.as_ref())?;
    }
    Ok(if still.is_damaged() {
        ExitStatus::Store
    } else {
        ExitStatus::Done
    })
}

/// Checks a campaign, and shows a bar on a terminal while its directories are read.
fn check(dir: &CampaignDir) -> Result<FsckFindings, Failure> {
    let bar = output::bar();
    bar.set_template("{bar:16.green/dim} {pos}/{len} run directories checked");
    let found = fsck::check(dir, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    Ok(found?)
}

fn place(problem: &Problem) -> String {
    let path = shown(&problem.path);
    problem
        .line
        .map_or_else(|| path.to_string(), |line| format!("{path}, line {line}"))
}

/// Describes how a problem is repaired; `None` if it cannot be.
fn remedy(problem: &Problem) -> Option<&'static str> {
    Some(match problem.remedy.as_ref()? {
        Remedy::RewriteJournal => {
            "rewrite the journal with its complete entries; keep the old one next to it"
        }
        Remedy::AcceptJournal => "continue the journal from its present end",
        Remedy::RecordRun(..) => "record in the journal that it ended",
        Remedy::RepeatRun { .. } => {
            "repeat it with the next `cvc run`; its files are kept next to it"
        }
    })
}

fn show(
    out: &mut impl Write,
    args: &FsckArgs,
    found: &FsckFindings,
    repaired: Option<&Repaired>,
) -> std::io::Result<()> {
    let (entries, directories) = (
        counted(found.entries, "entry"),
        counted(found.directories, "run directory"),
    );
    writeln!(out, "{entries} of the journal and {directories} checked")?;
    for problem in &found.problems {
        let kind = if problem.is_damage { "damaged" } else { "note" };
        writeln!(out, "\n{kind}: {}: {}", place(problem), problem.what)?;
        writeln!(out, "{}", paragraph("  ", &problem.consequence))?;
        if let Some(remedy) = remedy(problem).filter(|_| repaired.is_none()) {
            writeln!(out, "{}", paragraph("  ", &format!("repair: {remedy}")))?;
        }
    }
    if let Some(repaired) = repaired {
        writeln!(out, "\nrepaired:")?;
        if let Some(old) = &repaired.old_journal {
            writeln!(
                out,
                "  the journal was rewritten; the damaged one is {}",
                shown(old)
            )?;
        }
        if !repaired.recorded.is_empty() {
            writeln!(
                out,
                "  {} written into the journal",
                counted(repaired.recorded.len(), "run")
            )?;
        }
        for (run, aside) in &repaired.to_repeat {
            let aside = aside.as_ref().map_or_else(String::new, |path| {
                format!("; its remaining files are in {}", shown(path))
            });
            writeln!(out, "  run {run} will be repeated{aside}")?;
        }
    }
    let damaged = found.problems.iter().filter(|p| p.is_damage).count();
    match (damaged, repaired) {
        (0, _) => writeln!(out, "nothing is damaged"),
        (_, Some(_)) => writeln!(out, "\n`cvc run` continues from here"),
        (_, None) => writeln!(
            out,
            "\n{}; `cvc fsck {} --repair` repairs what it can",
            counted(damaged, "problem"),
            args.campaign
        ),
    }
}

fn as_json(found: &FsckFindings, repaired: Option<&Repaired>, still: &FsckFindings) -> Value {
    let problems: Vec<Value> = found
        .problems
        .iter()
        .map(|p| {
            json!({
                "path": p.path, "line": p.line, "problem": p.what, "consequence": p.consequence,
                "damage": p.is_damage, "repair": remedy(p),
            })
        })
        .collect();
    let repaired = repaired.map(|r| {
        let to_repeat: Vec<Value> = r
            .to_repeat
            .iter()
            .map(|(run, kept)| json!({ "run": run, "kept": kept }))
            .collect();
        json!({ "old_journal": r.old_journal, "recorded": r.recorded, "to_repeat": to_repeat })
    });
    json!({
        "entries": found.entries, "directories": found.directories, "problems": problems,
        "repaired": repaired, "damaged": still.is_damaged(),
    })
}
