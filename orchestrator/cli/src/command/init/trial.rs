//! One run of the user's program, to learn from its output how it shows success and steps.

use super::{
    ask::{Asker, Question, words, wrong},
    own::{OwnProgram, TrialFacts, Tried},
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
use cvc_core::app::learn::{self, Learned, LearnedFigure, StepLine, SuccessLine};
use cvc_core::campaign::{Site, SmallCampaign};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan;
use cvc_core::point::CheckpointerKind;
use cvc_engine::attempt::read_exit;
use cvc_session::Scratch;
use std::time::Duration;

/// Time limit of the program, seconds.
pub const LIMIT_S: u32 = 60;
/// Time limit of the whole run.
const LIMIT: Duration = Duration::from_secs(LIMIT_S as u64 + 15);
/// Shorter runs leave no room for a checkpoint in their middle, seconds.
const SHORT_S: f64 = 2.0;
/// Lines of a failed run that are shown.
const SHOWN_LINES: usize = 6;

/// What came of the run.
struct Ran {
    stdout: String,
    stderr: String,
    wall_s: f64,
    /// Why it did not succeed; `None` also if it was ended after its time.
    problem: Option<String>,
    /// Whether it came to its end.
    ended: bool,
}

/// How the program is run.
#[derive(Clone, Copy)]
pub struct How<'a> {
    pub mpi: &'a str,
    pub processes: u32,
}

/// Runs the program, again with other arguments if it fails and the user wants to, and takes over what its output shows.
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
            note("nothing was learned from it: the descriptor accepts any output");
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
                "{} was not over after {LIMIT_S} s and was ended: what it prints at its end is not known",
                own.file
            ),
        },
    ));
    if ran.ended && ran.wall_s < SHORT_S {
        note(paragraph(
            "",
            "that is short for a checkpoint in the middle of a run: give it more steps or a larger problem if you can",
        ));
    }
    let mut learned = learn::learn(&ran.stdout);
    if !ran.ended {
        // the last line that it printed is none that shows an end
        learned.success = learned.success.filter(|line| line.verifies);
    }
    let Learned {
        success,
        step,
        figures,
    } = match asker.is_terminal() {
        true => confirm(learned, &ran.stdout, asker)?,
        false => {
            report(&learned);
            learned
        }
    };
    own.facts = TrialFacts {
        tried: Some(Tried {
            processes: how.processes,
            mpi: how.mpi.to_owned(),
            wall_s: ran.wall_s,
            on: jiff::Zoned::now().strftime("%-d %B %Y").to_string(),
            ended: ran.ended,
        }),
        success,
        step,
        figures,
    };
    Ok(())
}

/// A question that is answered by yes or no, with yes as the default.
pub fn yes(asker: &mut Asker, text: &str) -> Result<bool, Failure> {
    let question = Question::new("--try", text).usual("yes");
    let answer = asker.ask(&question, |text| match text.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err(wrong(
            format!("`{text}` is neither yes nor no"),
            "type y or n",
        )),
    })?;
    Ok(answer.unwrap_or(false))
}

/// Reports to a script what a terminal is asked to confirm.
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

/// Asks whether what was found means what it seems to.
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
        "Which of these numbers are to be kept? Their names, or none",
    )
    .usual(names.join(","));
    let kept = asker.ask(&question, |text| {
        let mut words = words(text);
        words.retain(|word| word != "none");
        match words.iter().find(|word| !names.contains(word)) {
            Some(word) => Err(wrong(
                format!("no number is called `{word}`"),
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

/// A regular expression that is found in the output.
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

/// The first line of the output that a pattern finds.
fn first_line(pattern: &str, output: &str) -> String {
    let is_found = |line: &&str| learn::try_pattern(pattern, false, line).is_ok();
    output
        .lines()
        .find(is_found)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The last lines of a failed run: of its errors, else of its output.
fn last_words(ran: &Ran) -> Vec<&str> {
    let text = if ran.stderr.trim().is_empty() {
        &ran.stdout
    } else {
        &ran.stderr
    };
    // launchers surround what they say by rules
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    // the program speaks first, its launcher last; ranks say the same
    let mut said: Vec<&str> = Vec::new();
    for line in lines {
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said.truncate(SHOWN_LINES);
    said
}

/// Runs the program once, as a campaign of one run would, in a temporary directory.
fn run_once(own: &OwnProgram, how: How<'_>) -> Result<Ran, Failure> {
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
            app_dirs: vec![own.directory.to_string()],
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
    let trial = runtime()?.block_on(async {
        let interrupted = temporary::listen();
        temporary::carry_out((&spec, &plan), &scratch, &name, &base, LIMIT, &interrupted).await
    });
    if trial.is_interrupted {
        return Err(Failure::Other {
            status: ExitStatus::Interrupted,
            message: "stopped: the trial run was ended, and nothing was written".into(),
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
    Ok(Ran {
        stdout: trial.text("stdout"),
        stderr: trial.text("stderr"),
        wall_s: read_exit(&trial.directory()).map_or(0.0, |exit| exit.wall_s),
        problem: trial.problem.or(failed),
        ended: !is_late && trial.late.is_none(),
    })
}
