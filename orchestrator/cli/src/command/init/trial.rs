//! One trial run of the user's program, to learn from its output how it reports success and steps.

use super::{
    ask::{Asker, Question, ask_yes, words, wrong},
    own::{OwnCheckpointFacts, OwnProgram, TrialFacts, TrialRecord},
    text::{self, load_own},
};
use crate::{
    args::Where,
    command::temporary,
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output::note,
    text::paragraph,
};
use camino::Utf8Path;
use cvc_core::app::learn::{self, Learned, LearnedFigure, StepLine, SuccessLine};
use cvc_core::campaign::{Site, SmallCampaign};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan;
use cvc_core::point::CheckpointerKind;
use cvc_core::store::CampaignDir;
use cvc_engine::attempt::read_exit;
use cvc_session::Scratch;
use cvc_session::own_files::{CheckpointEvidence, FileWatch, OwnFiles, guess};
use std::time::Duration;

/// Time limit of the program, seconds.
pub const LIMIT_S: u32 = 60;
/// Time limit of the whole run.
const LIMIT: Duration = Duration::from_secs(LIMIT_S as u64 + 15);
/// Minimum time of a run that leaves room for a checkpoint in its middle, seconds.
const SHORT_S: f64 = 2.0;
/// Maximum number of lines shown of a failed run.
const SHOWN_LINES: usize = 6;

/// Outcome of the trial run.
struct TrialOutcome {
    stdout: String,
    stderr: String,
    wall_s: f64,
    /// Why the run failed; `None` if it succeeded or was stopped at its time limit.
    problem: Option<String>,
    /// Whether the program ended by itself.
    ended: bool,
    /// The files that appear to be the program's own checkpoint.
    checkpoint: Option<OwnFiles>,
}

impl TrialOutcome {
    /// Returns standard output and standard error together, in which patterns are searched.
    fn output(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }
}

/// Settings of the trial run.
#[derive(Clone, Copy)]
pub struct How<'a> {
    pub mpi: &'a str,
    pub processes: u32,
}

/// Runs the program, and applies the facts learned from its output. If it fails and the user gives other arguments, runs it again.
pub fn learn_from_a_run(
    own: &mut OwnProgram,
    how: How<'_>,
    asker: &mut Asker,
) -> Result<(), Failure> {
    let ran = loop {
        let ran = run_once(own, how)?;
        let Some(problem) = &ran.problem else {
            break ran;
        };
        note(paragraph("", &format!("{} failed: {problem}", own.file)));
        for line in last_words(&ran) {
            note(paragraph("  | ", line));
        }
        if !asker.is_terminal() || !yes(asker, "Try again with other arguments or input files?")? {
            note("no success pattern learned: the descriptor accepts any output");
            return Ok(());
        }
        own.add_files_named_in(&format!("{}\n{}", ran.stderr, ran.stdout));
        own.ask(asker, None, &[])?;
    };
    note(paragraph(
        "",
        &match ran.ended {
            true => format!("{} ran for {:.1} s", own.file, ran.wall_s),
            false => format!(
                "{} was ended after {LIMIT_S} s: its final output is unknown",
                own.file
            ),
        },
    ));
    if ran.ended && ran.wall_s < SHORT_S {
        note(paragraph(
            "",
            "that is short for a checkpoint in mid-run: use more steps or a larger problem if you can",
        ));
    }
    let mut learned = learn::learn_both(&ran.stdout, &ran.stderr);
    if !ran.ended {
        // a program that was stopped printed no end, so only a line that verifies a result counts
        learned.success = learned.success.filter(|line| line.verifies);
    }
    let found = ran.checkpoint.clone().map(|files| OwnCheckpointFacts {
        files,
        lines: learned.checkpoints.clone(),
    });
    let Learned {
        success,
        step,
        figures,
        ..
    } = match asker.is_terminal() {
        true => confirm(learned, &ran.output(), asker)?,
        false => {
            report(&learned);
            learned
        }
    };
    let checkpoint = found
        .map(|found| confirm_checkpoint(found, asker))
        .transpose()?
        .flatten();
    own.facts = TrialFacts {
        tried: Some(TrialRecord {
            processes: how.processes,
            mpi: how.mpi.to_owned(),
            wall_s: ran.wall_s,
            on: jiff::Zoned::now().strftime("%-d %B %Y").to_string(),
            ended: ran.ended,
        }),
        success,
        step,
        figures,
        checkpoint,
    };
    Ok(())
}

/// Asks whether files are the program's own checkpoint. Without a terminal, files that were only written repeatedly are left out.
fn confirm_checkpoint(
    found: OwnCheckpointFacts,
    asker: &mut Asker,
) -> Result<Option<OwnCheckpointFacts>, Failure> {
    let about = found.describe();
    let is_sure = found.files.evidence != CheckpointEvidence::Rewritten;
    if !asker.is_terminal() {
        note(paragraph(
            "",
            &match is_sure {
                true => format!("its own checkpoint: {about}"),
                false => format!("may be its own checkpoint, left out of the descriptor: {about}"),
            },
        ));
        return Ok(is_sure.then_some(found));
    }
    let text = format!("It wrote {about}. Is that its own checkpoint?");
    let taken = ask_yes(asker, "--try", &text, is_sure)?;
    Ok(taken.then_some(found))
}

/// Asks a yes/no question with yes as default.
pub fn yes(asker: &mut Asker, text: &str) -> Result<bool, Failure> {
    ask_yes(asker, "--try", text, true)
}

/// Without a terminal: reports the facts that a user would confirm.
fn report(learned: &Learned) {
    let line = |what: &str, found: Option<&str>| {
        note(paragraph(
            "",
            &match found {
                Some(line) => format!("{what}: {line}"),
                None => format!("{what}: not found in its output"),
            },
        ));
    };
    line("success", learned.success.as_ref().map(|s| s.line.as_str()));
    line("step", learned.step.as_ref().map(|s| s.line.as_str()));
    for figure in &learned.figures {
        line(&figure.figure.name, Some(&figure.line));
    }
}

/// Asks the user to confirm the facts learned.
fn confirm(learned: Learned, output: &str, asker: &mut Asker) -> Result<Learned, Failure> {
    let found = learned.success.as_ref();
    let text = match found {
        Some(line) if line.verifies => format!(
            "It printed `{}`. Regular expression that shows a right result?",
            line.line
        ),
        Some(line) => format!(
            "No line confirms a right result; `{}` shows its end. Regular expression that shows success?",
            line.line
        ),
        None => "No line shows success. Regular expression of one that does?".to_owned(),
    };
    let question = Question::new("--try", &text)
        .usual(found.map_or(text::ANY_OUTPUT.to_owned(), |line| line.pattern.clone()));
    let pattern = asker.ask(&question, |text| usable(text, false, output))?;
    let success = match (pattern, learned.success) {
        (Some(pattern), Some(line)) if pattern == line.pattern => Some(line),
        (Some(pattern), _) if pattern == text::ANY_OUTPUT => None,
        (Some(pattern), _) => Some(SuccessLine {
            line: first_line(&pattern, output),
            pattern,
            verifies: true,
        }),
        (None, found) => found,
    };
    let found = learned.step.as_ref();
    let text = match found {
        Some(step) => format!(
            "It counts steps: `{}` and {} more. Regular expression whose group is the step, or none?",
            step.line,
            step.steps.len().saturating_sub(1)
        ),
        None => {
            "No line counts steps. Regular expression whose group is the step, or none?".to_owned()
        }
    };
    let question = Question::new("--try", &text)
        .usual(found.map_or("none".to_owned(), |step| step.pattern.clone()));
    let pattern = asker.ask(&question, |text| match text {
        "none" => Ok(None),
        text => usable(text, true, output).map(Some),
    })?;
    let step = pattern.flatten().map(|pattern| StepLine {
        line: first_line(&pattern, output),
        steps: learn::steps_of(&pattern, output),
        pattern,
    });
    let figures = match learned.figures.is_empty() {
        true => Vec::new(),
        false => confirm_figures(learned.figures, asker)?,
    };
    Ok(Learned {
        success,
        step,
        figures,
        checkpoints: learned.checkpoints,
    })
}

fn confirm_figures(
    figures: Vec<LearnedFigure>,
    asker: &mut Asker,
) -> Result<Vec<LearnedFigure>, Failure> {
    for figure in &figures {
        note(paragraph(
            "  ",
            &format!("{}: {}", figure.figure.name, figure.line),
        ));
    }
    let names: Vec<String> = figures.iter().map(|f| f.figure.name.clone()).collect();
    let question = Question::new(
        "--try",
        "Which of these numbers should be recorded? Their names, or none",
    )
    .usual(names.join(","));
    let kept = asker.ask(&question, |text| {
        let mut words = words(text);
        words.retain(|word| word != "none");
        match words.iter().find(|word| !names.contains(word)) {
            Some(word) => Err(wrong(
                format!("unknown number `{word}`"),
                format!("names: {}", names.join(", ")),
            )),
            None => Ok(words),
        }
    })?;
    let kept = kept.unwrap_or_default();
    Ok(figures
        .into_iter()
        .filter(|figure| kept.contains(&figure.figure.name))
        .collect())
}

/// Returns a valid regular expression that matches the output, or an error.
fn usable(pattern: &str, is_number: bool, output: &str) -> Result<String, Failure> {
    if pattern == text::ANY_OUTPUT && !is_number {
        return Ok(pattern.to_owned());
    }
    match learn::try_pattern(pattern, is_number, output) {
        Ok(_) => Ok(pattern.to_owned()),
        Err(problem) => Err(wrong(
            format!("`{pattern}`: {problem}"),
            "`\\d+` is a number, `\\s+` white space, `.*` anything",
        )),
    }
}

/// Returns the first line of the output that matches a pattern.
fn first_line(pattern: &str, output: &str) -> String {
    let is_found = |line: &&str| learn::try_pattern(pattern, false, line).is_ok();
    output
        .lines()
        .find(is_found)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the last lines of a failed run: of standard error, or of standard output if that is empty.
fn last_words(ran: &TrialOutcome) -> Vec<&str> {
    let text = if ran.stderr.trim().is_empty() {
        &ran.stdout
    } else {
        &ran.stderr
    };
    // leave out the rules with which launchers frame their messages
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    // the program's lines come before its launcher's; ranks repeat lines
    let mut said: Vec<&str> = Vec::new();
    for line in lines {
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said.truncate(SHOWN_LINES);
    said
}

/// Runs the program once in a temporary directory, as a campaign of one run.
fn run_once(own: &OwnProgram, how: How<'_>) -> Result<TrialOutcome, Failure> {
    let bare = OwnProgram {
        facts: TrialFacts::default(),
        ..own.clone()
    };
    let scratch = Scratch::new("cvc-init-")?;
    let campaign = SmallCampaign {
        name: "trial".into(),
        path: scratch.path().join("trial.toml").into(),
        site_name: "local".into(),
        site: Site {
            app_dirs: vec![own.app_dir().to_owned()],
            ..Site::local()
        },
        app: load_own(&bare)?,
        class: None,
        mapping: Mapping::one_node(how.processes),
        mpi: vec![how.mpi.to_owned()],
        checkpointers: vec![CheckpointerKind::None],
    };
    let spec = campaign.into_spec(|run, _| {
        run.repeats = 1;
        run.retries = 0;
        run.timeout_s = f64::from(LIMIT_S);
        run.keep_outputs = true;
    })?;
    let plan = plan::build(&spec);
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let name = format!(
        "trial run of {} with {} processes, at most {LIMIT_S} s",
        own.file, how.processes
    );
    let campaigns = scratch.path().join("campaigns");
    let watch = FileWatch::start(CampaignDir::new(&campaigns, &plan.campaign));
    let trial = runtime()?.block_on(async {
        let interrupted = temporary::listen();
        temporary::carry_out((&spec, &plan), &scratch, &name, &base, LIMIT, &interrupted).await
    });
    let seen = watch.finish();
    if trial.is_interrupted {
        return Err(Failure::Other {
            status: ExitStatus::Interrupted,
            message: "stopped: the trial run was ended; nothing was written".into(),
            hint: None,
        });
    }
    let (is_late, failed) = match trial.outcome() {
        Some(Outcome::Failed {
            cause: Cause::Timeout,
            ..
        }) => (true, None),
        Some(Outcome::Failed { detail, .. }) => (false, Some(detail.clone())),
        Some(Outcome::Succeeded) | None => (false, None),
    };
    let is_input = |path: &Utf8Path| {
        path == "hosts"
            || own
                .inputs
                .iter()
                .any(|input| input.file_name() == Some(path.as_str()))
    };
    Ok(TrialOutcome {
        checkpoint: guess(&seen, &is_input),
        stdout: trial.text("stdout"),
        stderr: trial.text("stderr"),
        wall_s: read_exit(&trial.directory()).map_or(0.0, |exit| exit.wall_s),
        problem: trial.problem.or(failed),
        ended: !is_late && trial.late.is_none(),
    })
}
