//! The text of a new campaign file and of the descriptor of a program, with comments that teach.

use super::{
    answers::{Answers, Place, spread},
    own::{OwnProgram, Tried},
};
use crate::args::Measure;
use camino::Utf8Path;
use std::fmt::Write;

/// The success pattern of a program of which nothing is known.
pub const ANY_OUTPUT: &str = r"\S";
/// Shorter runs get a checkpoint in their middle, seconds.
const SHORT_S: f64 = 10.0;

/// Column of comments.
const COMMENTS_AT: usize = 34;

/// A string as TOML writes it: JSON's escapes are among TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// One value as it is, several as a list.
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

/// The same, but always as a list.
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

/// The campaign file.
pub fn write_campaign(answers: &Answers) -> String {
    let mut text = String::from(
        "# Written by `cvc init`: change what you like. All keys: docs/campaign-file.md; `cvc plan` shows what would run.\n",
    );
    let mut line = |args: std::fmt::Arguments<'_>| {
        for written in args.to_string().split('\n') {
            // comments stand below each other; after a key they follow three blanks
            match written
                .rsplit_once("   # ")
                .map(|(code, about)| (code.trim_end(), about))
            {
                Some((code, about)) if !code.is_empty() => {
                    // writing to a string does not fail
                    let _ = writeln!(text, "{code:<COMMENTS_AT$} # {about}");
                }
                Some(_) | None => {
                    text.push_str(written);
                    text.push('\n');
                }
            }
        }
    };
    line(format_args!("schema = 1   # version of this format"));
    line(format_args!(
        "name = {}{}",
        quoted(&answers.name),
        "   # runs are kept in campaigns/NAME, the report in reports/NAME"
    ));
    line(format_args!(
        "description = {}\n",
        quoted(&describe(answers))
    ));
    let site = match answers.place {
        Place::Local => "local",
        Place::Ssh { .. } => "machines",
        Place::Slurm { .. } => "cluster",
        Place::Ec2 { .. } => "cloud",
    };
    line(format_args!("[sites.{site}]"));
    match &answers.place {
        Place::Local => line(format_args!(
            "kind = \"local\"                   # this machine"
        )),
        Place::Ssh { hosts } => {
            line(format_args!(
                "kind = \"ssh\"                     # docs/clusters-ssh.md"
            ));
            line(format_args!(
                "hosts = {}   # as `ssh NAME` knows them; the first one launches MPI",
                array(hosts.iter().map(String::as_str))
            ));
        }
        Place::Slurm { login, .. } => {
            line(format_args!(
                "kind = \"slurm\"                   # docs/clusters-slurm.md"
            ));
            match login {
                Some(login) => line(format_args!(
                    "login = {}   # where sbatch is called",
                    quoted(login)
                )),
                None => line(format_args!(
                    "# login = \"...\"                  # where sbatch is called; without it, here"
                )),
            }
            line(format_args!(
                "base = \"~/.cvc\"                  # cvc's own files: seen by the login node and all nodes"
            ));
        }
        Place::Ec2 { .. } => line(format_args!(
            "kind = \"ec2\"                     # instances are launched and released by `cvc run`: docs/ec2.md"
        )),
    }
    match &answers.own {
        Some(own) => line(format_args!(
            "app_dirs = [{}]   # where the program is",
            quoted(&own.directory)
        )),
        None if answers.apps.iter().any(|app| !app.descriptor.kernel) => {
            line(format_args!(
                "# app_dirs = [\"~/programs\"]       # where programs are that are not on PATH; first in mpich/ or openmpi/ below"
            ));
        }
        None => {}
    }
    match &answers.place {
        Place::Local | Place::Ssh { .. } => {}
        Place::Slurm {
            nodes, partition, ..
        } => {
            line(format_args!(
                "\n[sites.{site}.slurm]\nnodes = {nodes}                        # at most; points that need more are left out"
            ));
            match partition {
                Some(partition) => line(format_args!("partition = {}", quoted(partition))),
                None => line(format_args!(
                    "# partition = \"...\"              # left to Slurm"
                )),
            }
            line(format_args!("time_limit_s = 3600              # of a job"));
        }
        Place::Ec2 {
            region,
            instance_types,
            nodes,
        } => {
            line(format_args!(
                "\n[sites.{site}.ec2]\nregion = {}",
                quoted(region)
            ));
            line(format_args!(
                "instance_types = {}   # in order of preference",
                array(instance_types.iter().map(String::as_str))
            ));
            line(format_args!(
                "nodes = {nodes}                        # at most; no more are launched than the points need"
            ));
            line(format_args!(
                "\n[budget]                         # cvc does not spend more, over all sessions: docs/ec2.md\nusd = 10"
            ));
        }
    }
    write_matrix(answers, &mut line);
    line(format_args!(
        "\n[run]\nrepeats = 3                      # of each point: fewer than 3 give no useful interval"
    ));
    line(format_args!(
        "timeout_s = 600                  # time limit of one run"
    ));
    if answers.uses_dmtcp() || answers.measures(Measure::Restart) {
        line(format_args!("\n[checkpoint]"));
        if answers.uses_dmtcp() {
            line(format_args!("{}", moment(answers)));
        }
        if answers.measures(Measure::Restart) && !answers.restarts_some() {
            line(format_args!(
                "restart_check = true             # restart from the last checkpoint; the program must verify again"
            ));
        }
    }
    text
}

/// Each key is a factor, every combination of their values a point.
fn write_matrix(answers: &Answers, line: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    let names = || answers.apps.iter().map(|app| app.descriptor.name.as_str());
    let is_collective = |name: &str| {
        answers
            .apps
            .iter()
            .any(|app| app.descriptor.name == name && app.descriptor.io.collective)
    };
    // with aggregators that act on own checkpoints only, what is without a checkpoint has none of them
    let own_only = answers.writes_only_checkpoints() && answers.measures(Measure::Overhead);
    let pairs = answers.measures(Measure::Aggregators) && (own_only || !names().all(is_collective));
    line(format_args!(
        "\n[matrix]                         # every combination of these values is a point"
    ));
    if !pairs {
        line(format_args!(
            "app = {}   # docs/applications.md",
            strings(names())
        ));
    }
    if let Some(class) = &answers.class {
        line(format_args!(
            "class = {}                      # size of the problem",
            quoted(class)
        ));
    }
    if answers.place.nodes() > 1 {
        let mappings: Vec<String> = answers
            .processes
            .iter()
            .map(|p| spread(*p, answers.place.nodes()))
            .collect();
        line(format_args!(
            "mapping = {}   # 2Nx4P: 4 processes on each of 2 nodes",
            strings(mappings.iter().map(String::as_str))
        ));
    } else {
        line(format_args!(
            "processes = {}",
            list(answers.processes.iter().map(ToString::to_string))
        ));
    }
    line(format_args!(
        "mpi = {}   # docs/mpi.md",
        strings(answers.mpi.iter().map(String::as_str))
    ));
    let checkpointer = if answers.uses_dmtcp() {
        "dmtcp"
    } else {
        "application"
    };
    let about = if answers.uses_dmtcp() {
        "docs/dmtcp.md"
    } else {
        "the program writes its own checkpoints"
    };
    if own_only {
        // in the zip below
    } else if answers.measures(Measure::Overhead) {
        line(format_args!(
            "checkpointer = [\"none\", \"{checkpointer}\"]   # without against with; {about}"
        ));
    } else {
        line(format_args!(
            "checkpointer = \"{checkpointer}\"   # {about}"
        ));
    }
    if answers.measures(Measure::Compression) {
        line(format_args!(
            "compression = [\"none\", \"gzip\"]   # of DMTCP's images"
        ));
    }
    if answers.restarts_some() {
        line(format_args!(
            "restart_check = [false, true]    # restarted runs end at their checkpoint: only the others have a wall time"
        ));
    }
    if answers.measures(Measure::Aggregators) && !pairs {
        line(format_args!(
            "aggregators = [1, 2]             # of collective I/O, in all: docs/mpi.md"
        ));
    }
    if pairs {
        let (mut apps, mut checkpointers, mut aggregators) = (Vec::new(), Vec::new(), Vec::new());
        for name in names() {
            let with = if is_collective(name) {
                &["1", "2"][..]
            } else {
                &["\"default\""]
            };
            let without = own_only.then_some(("none", "\"default\""));
            for (by, value) in without
                .into_iter()
                .chain(with.iter().map(|value| (checkpointer, *value)))
            {
                apps.push(name);
                checkpointers.push(by);
                aggregators.push(value);
            }
        }
        line(format_args!(
            "\n[[zip]]                          # values that belong together: aggregators only where there is collective I/O"
        ));
        line(format_args!("app = {}", array(apps)));
        if own_only {
            line(format_args!(
                "checkpointer = {}   # without against with; {about}",
                array(checkpointers)
            ));
        }
        line(format_args!("aggregators = [{}]", aggregators.join(", ")));
    }
}

/// When DMTCP takes the checkpoint.
fn moment(answers: &Answers) -> String {
    let told = answers.own.as_ref().map(|own| &own.told);
    let steps = told
        .and_then(|told| told.step.as_ref())
        .map_or(&[][..], |step| &step.steps);
    let middle = steps
        .get(steps.len().saturating_sub(1) / 2)
        .filter(|s| **s > 0);
    let tried = told
        .and_then(|told| told.tried.as_ref())
        .filter(|t| t.ended);
    match (answers.tells_steps(), answers.runs_on()) {
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

/// One line about the campaign.
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

/// A regular expression as TOML takes it best: in single quotes, where nothing is escaped.
fn pattern(text: &str) -> String {
    if text.contains('\'') || text.chars().any(char::is_control) {
        quoted(text)
    } else {
        format!("'{text}'")
    }
}

/// Text in a comment: on one line, in back quotes.
fn line_of(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("`{text}`")
}

/// Where what a descriptor says was learned.
fn from_trial(tried: &Tried) -> String {
    let library = match tried.mpi.as_str() {
        "mpich" => "MPICH",
        "openmpi" => "Open MPI",
        other => other,
    };
    let processes = match tried.processes {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    };
    format!("a trial run of {} with {processes} and {library}", tried.on)
}

/// A path as it is written in a descriptor below `directory`: relative to it if it lies in the directory above.
fn shown_from(directory: Option<&Utf8Path>, path: &Utf8Path) -> String {
    directory
        .and_then(Utf8Path::parent)
        .and_then(|above| path.strip_prefix(above).ok())
        .map_or_else(|| path.to_string(), |below| format!("../{below}"))
}

/// The descriptor of a program of the user's own. `directory`, absolute, is where it is going to be; `None` writes whole paths.
pub fn write_descriptor(own: &OwnProgram, directory: Option<&Utf8Path>) -> String {
    let told = &own.told;
    let mut text = format!(
        "# Written by `cvc init`: tell cvc what it should know of your program. All keys: docs/applications.md.\n\
         schema = 1\nname = {}\ntitle = {}\n\n[program]\nnames = [{}]\ninstall = {}\n\n",
        quoted(&own.name),
        quoted(&own.file),
        quoted(&own.file),
        quoted(&format!("your own program, expected in {}", own.directory)),
    );
    let mut line = |args: std::fmt::Arguments<'_>| {
        // writing to a string does not fail
        let _ = writeln!(text, "{args}");
    };
    let args = own.arguments();
    line(format_args!("[command]"));
    line(format_args!(
        "{:<32} # what follows the program's name",
        format!("args = {}", array(args.iter().map(String::as_str)))
    ));
    if own.is_fortran {
        line(format_args!(
            "# a program of gfortran: without this, its lines arrive late"
        ));
        line(format_args!(
            "env = {{ GFORTRAN_UNBUFFERED_PRECONNECTED = \"1\" }}"
        ));
    }
    if own.inputs.is_empty() {
        line(format_args!(
            "# [[command.files]]              # an input file: every run gets a copy of it in its working directory\n\
             # path = \"mesh.dat\"\n# source = \"../mesh.dat\"         # from the directory of this file"
        ));
    }
    for input in &own.inputs {
        line(format_args!(
            "\n[[command.files]]                # every run gets a copy in its working directory\npath = {}\nsource = {}",
            quoted(input.file_name().unwrap_or_default()),
            quoted(&shown_from(directory, input))
        ));
    }
    line(format_args!(
        "\n[processes]\nrule = \"any\"                     # any, square, power-of-two, near-square, cube\n"
    ));
    line(format_args!(
        "[workloads.any]                  # several sizes: one table each, with `vars` for args\ntitle = \"as it is\""
    ));
    match told.tried.as_ref().filter(|tried| tried.ended) {
        Some(tried) => line(format_args!(
            "# seconds on one core, for the plan; from {}, which took {:.1} s\ncore_s = {:.1}",
            from_trial(tried),
            tried.wall_s,
            (tried.wall_s * f64::from(tried.processes)).max(0.1)
        )),
        None => line(format_args!(
            "# core_s = 60.0                  # seconds on one core, for the plan"
        )),
    }
    line(format_args!(
        "# data_mib = 100.0               # memory of all processes, for the plan\n\n[success]"
    ));
    let from = told.tried.as_ref().map(from_trial).unwrap_or_default();
    match &told.success {
        Some(found) => {
            line(format_args!("# From {from}: {}.", line_of(&found.line)));
            if !found.verifies {
                line(format_args!(
                    "# It shows that the program came to its end. Better: a line that it prints when its result is right."
                ));
            }
            line(format_args!("pattern = {}", pattern(&found.pattern)));
        }
        None => line(format_args!(
            "# Exit code 0 is not enough. Better: a line that the program prints when its result is right.\npattern = {}",
            pattern(ANY_OUTPUT)
        )),
    }
    line(format_args!(
        "forbid = 'MPI_ABORT|MPI_Abort|[Ss]egmentation fault'\n"
    ));
    match &told.step {
        Some(step) => line(format_args!(
            "# From {from}: {} and {} more. Checkpoints can be taken after a step, if it is printed at once.\n[progress]\nstep = {}",
            line_of(&step.line),
            step.steps.len().saturating_sub(1),
            pattern(&step.pattern)
        )),
        None => line(format_args!(
            "# [progress]                     # with it, checkpoints can be taken after a step: moment = {{ after_step = 1 }}\n\
             # step = '^Time step\\s+(\\d+)'"
        )),
    }
    for learned in &told.figures {
        let figure = &learned.figure;
        let word = |value: serde_json::Value| value.to_string();
        line(format_args!(
            "\n[[figures]]                      # from the same run: {}\nname = {}\npattern = {}\nunit = {}\nbetter = {}",
            line_of(&learned.line),
            quoted(&figure.name),
            pattern(&figure.pattern),
            word(serde_json::json!(figure.unit)),
            word(serde_json::json!(figure.better)),
        ));
        if (figure.scale - 1.0).abs() > f64::EPSILON {
            line(format_args!(
                "{:<32} # from the printed number to the unit",
                format!("scale = {:?}", figure.scale)
            ));
        }
    }
    text
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
