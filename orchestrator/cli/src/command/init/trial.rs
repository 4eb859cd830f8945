//! One run of the user's program, to learn from its output how it shows success and steps.

use super::{
    ask::{Asker, Question, wrong},
    own::{OwnProgram, Told, Tried},
    text,
};
use crate::{
    args::Where,
    command::temporary::{self, Limits, OPENING, toml_key},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output::note,
    text::paragraph,
};
use camino::Utf8Path;
use cvc_core::app::learn::{self, Learned, LearnedFigure, StepLine, SuccessLine};
use cvc_core::campaign;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan;
use cvc_core::store::StoreError;
use cvc_engine::attempt::read_exit;
use std::{fs, time::Duration};

/// Time limit of the program, seconds.
pub const LIMIT_S: u32 = 60;
const LIMITS: Limits = Limits {
    opening: OPENING,
    run: Duration::from_secs(LIMIT_S as u64 + 15),
};
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

/// Runs the program, again with other arguments if it fails and the user wants to, and takes over what its output tells.
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
            tell(&learned);
            learned
        }
    };
    own.told = Told {
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
    let question = Question {
        text,
        option: "--try",
        default: Some("yes".into()),
        decides: false,
    };
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

/// What a script is told: on a terminal the same is asked.
fn tell(learned: &Learned) {
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
            "No line tells of a right result; `{}` shows its end. Regular expression that shows success?",
            line.line
        ),
        None => "No line tells of success. Regular expression of one that does?".to_owned(),
    };
    let question = Question {
        text: &text,
        option: "--try",
        default: Some(found.map_or(text::ANY_OUTPUT.to_owned(), |line| line.pattern.clone())),
        decides: false,
    };
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
    let question = Question {
        text: &text,
        option: "--try",
        default: Some(found.map_or("none".to_owned(), |step| step.pattern.clone())),
        decides: false,
    };
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
    let question = Question {
        text: "Which of these numbers are to be kept? Their names, or none",
        option: "--try",
        default: Some(names.join(",")),
        decides: false,
    };
    let kept = asker.ask(&question, |text| {
        let words: Vec<String> = text
            .split([',', ' '])
            .filter(|w| !w.is_empty() && *w != "none")
            .map(str::to_owned)
            .collect();
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
    let broken = |message: String| Failure::Other {
        status: ExitStatus::Store,
        message,
        hint: None,
    };
    let directory = tempfile::Builder::new()
        .prefix("cvc-init-")
        .tempdir()
        .map_err(|error| broken(format!("cannot make a temporary directory: {error}")))?;
    let place = Utf8Path::from_path(directory.path())
        .ok_or_else(|| broken("the temporary directory has no UTF-8 name".into()))?;
    let descriptor = place.join(format!("{}.toml", own.name));
    let bare = OwnProgram {
        told: Told::default(),
        ..own.clone()
    };
    fs::write(&descriptor, text::write_descriptor(&bare, None))
        .map_err(StoreError::io("write", &descriptor))?;
    let campaign = format!(
        "schema = 1\nname = \"trial\"\n[sites.local]\nkind = \"local\"\napp_dirs = [{}]\noversubscribe = true\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = {LIMIT_S}\nkeep_outputs = true\n\
         [matrix]\napp = {}\nprocesses = {}\nmpi = {}\ncheckpointer = \"none\"\n",
        toml_key(&own.directory),
        toml_key(&own.name),
        how.processes,
        toml_key(how.mpi),
    );
    let spec = campaign::load_text(
        place.join("trial.toml").as_std_path(),
        &campaign,
        &[place.as_std_path().to_owned()],
    )?;
    let plan = plan::build(&spec);
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let name = format!(
        "trial run of {} with {} processes, at most {LIMIT_S} s",
        own.file, how.processes
    );
    let carried = runtime()?.block_on(async {
        let mut interrupted = temporary::listen();
        temporary::carry_out(&spec, &plan, place, name, &base, LIMITS, &mut interrupted).await
    });
    if carried.is_interrupted {
        return Err(Failure::Other {
            status: ExitStatus::Interrupted,
            message: "stopped: the trial run was ended, and nothing was written".into(),
            hint: None,
        });
    }
    let seen = carried.seen.directory(&carried.dir);
    let read = |name: &str| {
        fs::read(seen.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    let (is_late, failed) = match &carried.seen.ended {
        Some((_, Outcome::Succeeded)) => (false, None),
        Some((
            _,
            Outcome::Failed {
                cause: Cause::Timeout,
                ..
            },
        )) => (true, None),
        Some((_, Outcome::Failed { detail, .. })) => (false, Some(detail.clone())),
        None => (false, None),
    };
    let never = || "it did not start".to_owned();
    let problem = match (&carried.error, &carried.seen.skipped) {
        (Some(error), _) => Some(error.clone()),
        (None, Some(reason)) => Some(reason.clone()),
        (None, None) if carried.seen.run.is_none() => Some(never()),
        (None, None) => failed,
    };
    Ok(Ran {
        stdout: read("stdout"),
        stderr: read("stderr"),
        wall_s: read_exit(&seen).map_or(0.0, |exit| exit.wall_s),
        problem,
        ended: !is_late && carried.late.is_none(),
    })
}
