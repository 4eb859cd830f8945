//! Writes a new campaign file and the descriptor of a program, with explanatory comments.

use super::{
    answers::{Answers, Place, spread},
    own::{OwnProgram, TrialRecord},
};
use crate::{args::Measure, failure::Failure};
use camino::Utf8Path;
use cvc_core::app::{self, LoadedApp};
use cvc_core::units::counted;
use cvc_engine::render::{Template, render};
use cvc_sites::error::CampaignError;
use serde_json::{Value, json};

const CAMPAIGN: Template = Template::new(
    "init/campaign.toml.hbs",
    include_str!("../../../../../templates/init/campaign.toml.hbs"),
);
const DESCRIPTOR: Template = Template::new(
    "init/descriptor.toml.hbs",
    include_str!("../../../../../templates/init/descriptor.toml.hbs"),
);

/// The success pattern for a program without a known one: any output.
pub const ANY_OUTPUT: &str = r"\S";
/// Upper limit of the trial run's duration, seconds, for a checkpoint at half of that duration. It applies to programs that print no steps.
const SHORT_S: f64 = 10.0;

/// Column in which comments begin.
const COMMENTS_AT: usize = 34;

/// Quotes a string for TOML: JSON's escapes are valid in TOML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Formats values for TOML: a single value without brackets, several as a list.
fn list(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    match values.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

fn strings<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    list(values.into_iter().map(quoted))
}

/// Formats strings for TOML as a list, even a single one.
fn array<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "[{}]",
        values
            .into_iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ")
    )
}

/// Aligns comments that follow a key and three blanks.
fn align(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let parts = line.rsplit_once("   # ");
        match parts.map(|(code, about)| (code.trim_end(), about)) {
            Some((code, about)) if !code.is_empty() => {
                format!("{code:<COMMENTS_AT$} # {about}\n")
            }
            Some(_) | None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Writes the campaign file.
pub fn write_campaign(answers: &Answers) -> Result<String, Failure> {
    let words = |words: &[String]| array(words.iter().map(String::as_str));
    let (mut ssh, mut slurm, mut ec2) = (Value::Null, Value::Null, Value::Null);
    let site = match &answers.place {
        Place::Local => "local",
        Place::Ssh { hosts } => {
            ssh = json!({ "hosts": words(hosts) });
            "machines"
        }
        Place::Slurm {
            nodes,
            login,
            partition,
        } => {
            slurm = json!({ "nodes": nodes, "login": login.as_deref().map(quoted), "partition": partition.as_deref().map(quoted) });
            "cluster"
        }
        Place::Ec2 {
            region,
            instance_types,
            nodes,
        } => {
            ec2 = json!({ "region": quoted(region), "instance_types": words(instance_types), "nodes": nodes });
            "cloud"
        }
    };
    let (checkpointer, about) = match answers.uses_driven() {
        true => ("dmtcp", "docs/dmtcp.md"),
        false => ("application", "the program writes its own checkpoints"),
    };
    let compares = answers.measures(Measure::Overhead);
    let zip = zip(answers, checkpointer);
    let names = answers.apps.iter().map(|app| app.descriptor.name.as_str());
    let nodes = answers.place.nodes();
    let mappings: Vec<String> = answers
        .processes
        .iter()
        .map(|p| spread(*p, nodes))
        .collect();
    let restarts = answers.measures(Measure::Restart);
    let values = json!({
        "name": quoted(&answers.name),
        "description": quoted(&describe(answers)),
        "site": site,
        "local": answers.place == Place::Local,
        "ssh": ssh,
        "slurm": slurm,
        "ec2": ec2,
        "app_dirs": answers.own.as_ref().map(|own| array([own.app_dir()])),
        "needs_programs": answers.own.is_none() && answers.apps.iter().any(|app| !app.descriptor.kernel),
        "apps": zip.is_none().then(|| strings(names)),
        "class": answers.class.as_deref().map(quoted),
        "mapping": (nodes > 1).then(|| strings(mappings.iter().map(String::as_str))),
        "processes": list(answers.processes.iter().map(ToString::to_string)),
        "mpi": strings(answers.mpi.iter().map(String::as_str)),
        "checkpointer": match compares {
            // the checkpointer is a column of the zip
            true if answers.writes_only_checkpoints() => None,
            true => Some(array(["none", checkpointer])),
            false => Some(quoted(checkpointer)),
        },
        "about": if compares { format!("without against with; {about}") } else { about.to_owned() },
        "compression": answers.measures(Measure::Compression),
        "restarts_some": answers.restarts_some(),
        "aggregators": answers.measures(Measure::Aggregators) && zip.is_none(),
        "zip": zip,
        "checkpoint": answers.uses_driven() || restarts,
        "moment": answers.uses_driven().then(|| moment(answers)),
        "restart_check": restarts && !answers.restarts_some(),
    });
    let text = render(CAMPAIGN, &values).map_err(CampaignError::from)?;
    Ok(align(&text))
}

/// Returns the factors that vary together, if any. Aggregators act only on programs with collective I/O. If the only collective I/O is a program's
/// own checkpoint, runs without checkpoints get no level of aggregators.
fn zip(answers: &Answers, checkpointer: &str) -> Option<Value> {
    let own_only = answers.writes_only_checkpoints() && answers.measures(Measure::Overhead);
    let all_collective = answers.apps.iter().all(|app| app.descriptor.io.collective);
    if !answers.measures(Measure::Aggregators) || (!own_only && all_collective) {
        return None;
    }
    let mut rows = Vec::new();
    for app in &answers.apps {
        let name = app.descriptor.name.as_str();
        if own_only {
            rows.push((name, "none", "\"default\""));
        }
        match app.descriptor.io.collective {
            true => rows.extend(["1", "2"].map(|value| (name, checkpointer, value))),
            false => rows.push((name, checkpointer, "\"default\"")),
        }
    }
    let aggregators: Vec<&str> = rows.iter().map(|(_, _, value)| *value).collect();
    Some(json!({
        "apps": array(rows.iter().map(|(name, ..)| *name)),
        "checkpointers": own_only.then(|| array(rows.iter().map(|(_, by, _)| *by))),
        "aggregators": format!("[{}]", aggregators.join(", ")),
    }))
}

/// Returns the line that sets when DMTCP takes the checkpoint.
fn moment(answers: &Answers) -> String {
    let facts = answers.own.as_ref().map(|own| &own.facts);
    let steps = facts
        .and_then(|facts| facts.step.as_ref())
        .map_or(&[][..], |step| &step.steps);
    let middle = steps
        .get(steps.len().saturating_sub(1) / 2)
        .filter(|s| **s > 0);
    let tried = facts
        .and_then(|facts| facts.tried.as_ref())
        .filter(|t| t.ended);
    match (answers.prints_steps(), answers.runs_on()) {
        (true, false) => {
            "moment = \"size-only\"             # after the first step; then the run is killed, which saves its time".into()
        }
        (true, true) => match middle {
            Some(step) => format!(
                "moment = {{ after_step = {step} }}   # about the middle of the steps that the trial run printed; or {{ at_s = 5 }}"
            ),
            None => "moment = { after_step = 1 }      # by the program's own output; or { at_s = 5 }".into(),
        },
        (false, _) => match tried.filter(|tried| (0.1..SHORT_S).contains(&tried.wall_s)) {
            Some(tried) => format!(
                "moment = {{ at_s = {:.1} }}   # seconds after the program began to compute: about half of the trial run",
                (tried.wall_s / 2.0).max(0.1)
            ),
            None => "moment = { at_s = 5 }            # seconds after the program began to compute: well before its end".into(),
        },
    }
}

/// Describes the campaign in one line.
fn describe(answers: &Answers) -> String {
    let words = answers.measures.iter().map(|m| match m {
        Measure::Sizes => "size and time of checkpoints",
        Measure::Restart => "restarts",
        Measure::Overhead => "overhead of checkpoints",
        Measure::Compression => "compression",
        Measure::Aggregators => "I/O aggregators",
        Measure::Scaling => "process counts",
    });
    let names: Vec<&str> = answers
        .apps
        .iter()
        .map(|app| app.descriptor.name.as_str())
        .collect();
    format!(
        "{}: {}",
        names.join(", "),
        words.collect::<Vec<_>>().join(", ")
    )
}

/// Quotes a regular expression for TOML: in single quotes, without escapes.
fn pattern(text: &str) -> String {
    if text.contains('\'') || text.chars().any(char::is_control) {
        quoted(text)
    } else {
        format!("'{text}'")
    }
}

/// Formats a text for a comment: on one line, in back quotes.
fn line_of(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("`{text}`")
}

/// Describes the trial run that facts in a descriptor come from.
fn from_trial(tried: &TrialRecord) -> String {
    let library = match tried.mpi.as_str() {
        "mpich" => "MPICH",
        "openmpi" => "Open MPI",
        other => other,
    };
    let processes = counted(tried.processes, "process");
    format!("a trial run of {} with {processes} and {library}", tried.on)
}

/// Returns a path as written in a descriptor in `directory`: relative if it is below the directory's parent.
fn shown_from(directory: Option<&Utf8Path>, path: &Utf8Path) -> String {
    directory
        .and_then(Utf8Path::parent)
        .and_then(|above| path.strip_prefix(above).ok())
        .map_or_else(|| path.to_string(), |below| format!("../{below}"))
}

/// Returns the descriptor of a user's own program. `directory` is its absolute future directory; with `None`, all paths are absolute.
pub fn write_descriptor(own: &OwnProgram, directory: Option<&Utf8Path>) -> Result<String, Failure> {
    let facts = &own.facts;
    let ended = facts.tried.as_ref().filter(|tried| tried.ended);
    let args = own.arguments();
    let inputs = own.inputs.iter().map(|input| {
        json!({ "path": quoted(input.file_name().unwrap_or_default()), "source": quoted(&shown_from(directory, input)) })
    });
    let figures = facts.figures.iter().map(|learned| {
        let figure = &learned.figure;
        let is_scaled = (figure.scale - 1.0).abs() > f64::EPSILON;
        json!({
            "line": line_of(&learned.line), "name": quoted(&figure.name), "pattern": pattern(&figure.pattern),
            "unit": json!(figure.unit).to_string(), "better": json!(figure.better).to_string(),
            "scale": is_scaled.then(|| format!("{:<32}", format!("scale = {:?}", figure.scale))),
        })
    });
    let values = json!({
        "name": quoted(&own.name),
        "file": quoted(&own.file),
        "install": quoted(&format!("your own program, expected in {}", own.app_dir())),
        "args": format!("{:<32}", format!("args = {}", array(args.iter().map(String::as_str)))),
        "fixed_processes": own.fixed_processes,
        "is_fortran": own.is_fortran,
        "inputs": inputs.collect::<Vec<_>>(),
        "from": facts.tried.as_ref().map(from_trial),
        "wall_s": ended.map(|tried| format!("{:.1}", tried.wall_s)),
        "core_s": ended.map(|tried| format!("{:.1}", (tried.wall_s * f64::from(tried.processes)).max(0.1))),
        "any_output": pattern(ANY_OUTPUT),
        "success": facts.success.as_ref().map(|found| {
            json!({ "line": line_of(&found.line), "verifies": found.verifies, "pattern": pattern(&found.pattern) })
        }),
        "step": facts.step.as_ref().map(|step| {
            json!({ "line": line_of(&step.line), "more": step.steps.len().saturating_sub(1), "pattern": pattern(&step.pattern) })
        }),
        "figures": figures.collect::<Vec<_>>(),
        "checkpoint": facts.checkpoint.as_ref().map(|own| {
            let section = own.files.descriptor();
            json!({
                "about": own.describe().chars().filter(|c| !c.is_control()).collect::<String>(),
                "files": array(section.files.iter().map(String::as_str)),
                "line": own.lines.as_ref().map(|lines| line_of(&lines.line)),
                "time_s": own.lines.as_ref().and_then(|lines| lines.time_s.as_deref()).map(pattern),
            })
        }),
    });
    Ok(render(DESCRIPTOR, &values).map_err(CampaignError::from)?)
}

/// Returns the descriptor of a user's own program as cvc will load it.
pub fn load_own(own: &OwnProgram) -> Result<LoadedApp, Failure> {
    let path = format!("{}.toml", own.name);
    let text = write_descriptor(own, None)?;
    Ok(app::load::load_text(path.as_ref(), &text)?)
}

#[cfg(test)]
mod tests {
    use super::{pattern, shown_from};
    use camino::Utf8Path;

    #[test]
    fn patterns_are_in_single_quotes_if_they_have_none() {
        assert_eq!(pattern(r"^a\s+(\d+)"), r"'^a\s+(\d+)'");
        assert_eq!(pattern("it's"), "\"it's\"");
    }

    #[test]
    fn files_near_the_descriptor_are_named_from_there() {
        let apps = Utf8Path::new("/home/me/heat/apps");
        let shown = |path: &str| shown_from(Some(apps), Utf8Path::new(path));
        assert_eq!(shown("/home/me/heat/in/heat.nml"), "../in/heat.nml");
        assert_eq!(shown("/data/mesh.dat"), "/data/mesh.dat");
    }
}
