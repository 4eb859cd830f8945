//! Questions as people write them: `npb-bt.D 2Nx32P mpich gzip aggregators=2 cb=16MiB`.

use super::{
    error::PredictError,
    observation::Observation,
    setting::{RunSetting, mpi_kind_of_name},
};
use cvc_core::app::{
    descriptor::{Descriptor, illegal_count},
    embedded, load,
};
use cvc_core::mapping::Mapping;
use cvc_core::point::Compression;
use cvc_core::source::{Explained, suggestion};
use cvc_core::units::ByteSize;
use cvc_model::{MpiKind, nas};
use serde::Serialize;
use std::{borrow::Cow, collections::BTreeSet, path::PathBuf};

/// A setting whose checkpoint is asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// For which the checkpoint is asked.
    #[serde(flatten)]
    pub setting: RunSetting,
    /// Whether the program writes collectively, so that some of its ranks may be aggregators.
    pub collective: bool,
    /// A note about the library that was chosen for an ambiguous name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_as: Option<String>,
}

/// Names that a question may use.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'a> {
    /// Directories with application descriptors.
    pub apps: &'a [PathBuf],
    /// What was observed: its applications, classes and libraries are known too.
    pub observations: &'a [Observation],
}

impl KnownNames<'_> {
    /// A question that begins with a mapping, with the program and library of the observations.
    fn completed<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, PredictError> {
        let place = text.split_whitespace().next().unwrap_or_default();
        let is_number = !place.is_empty() && place.bytes().all(|b| b.is_ascii_digit());
        if self.observations.is_empty() || !is_number && place.parse::<Mapping>().is_err() {
            return Ok(text.into());
        }
        let programs: BTreeSet<(String, &str)> = self
            .observations
            .iter()
            .map(|o| {
                (
                    format!("{}.{}", o.setting.app, o.setting.class),
                    &*o.setting.mpi_name,
                )
            })
            .collect();
        let rest = text.trim_start().strip_prefix(place).unwrap_or_default();
        let full = |(program, mpi): &(String, &str)| format!("{program} {place} {mpi}{rest}");
        match programs.first() {
            Some(only) if programs.len() == 1 => Ok(full(only).into()),
            _ => Err(PredictError::Question {
                text: text.to_owned(),
                message: "the observations are of several programs or MPI libraries".into(),
                hint: format!(
                    "name one: {}",
                    programs
                        .iter()
                        .map(|p| format!("`{}`", full(p)))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            }),
        }
    }
}

impl Question {
    /// The question that an observation answers.
    pub fn of(observation: &Observation) -> Self {
        let setting = observation.setting.clone();
        Self {
            collective: collective(&setting.app),
            setting,
            taken_as: None,
        }
    }

    /// Whether an observation was made at the very setting.
    pub(crate) fn is_of(&self, o: &Observation) -> bool {
        self.setting.is_same_as(&o.setting)
    }

    /// Whether its data can be told without a run: the arrays of the program are known.
    pub fn is_known_without_runs(&self) -> bool {
        nas::Problem::of(&self.setting.app, &self.setting.class).is_some()
    }

    /// For people: `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        self.setting.label()
    }

    /// The library, for messages.
    pub(crate) fn label_of_library(&self) -> String {
        match self.setting.compression.program() {
            Some(program) => format!("{} and {program}", self.setting.mpi_name),
            None => self.setting.mpi_name.clone(),
        }
    }

    /// Processes on each node, if all nodes have the same number.
    pub fn load(&self) -> Option<u32> {
        self.setting.load()
    }

    /// Reads `APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB]`; a number alone is that many processes on one node. Program and
    /// library may be left out where all observations have the same.
    ///
    /// # Errors
    /// The first thing that is wrong, with its hint.
    pub fn parse(text: &str, known: KnownNames<'_>) -> Result<Self, PredictError> {
        let text = &*known.completed(text)?;
        let wrong = |message: String, hint: String| PredictError::Question {
            text: text.to_owned(),
            message,
            hint,
        };
        let form = || {
            "write APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB], as in `npb-bt.D 2Nx32P mpich-ch3`".to_owned()
        };
        let mut words = text.split_whitespace();
        let (Some(program), Some(place), Some(library)) =
            (words.next(), words.next(), words.next())
        else {
            return Err(wrong(
                "expected a program, a mapping and an MPI library".into(),
                form(),
            ));
        };
        let (app, class) = program
            .rsplit_once('.')
            .filter(|(app, class)| !app.is_empty() && !class.is_empty())
            .ok_or_else(|| wrong(format!("`{program}` has no class"), form()))?;
        let explained =
            |problem: Explained| wrong(problem.message, problem.hint.unwrap_or_else(form));
        let descriptor = application(app, known).map_err(explained)?;
        check_class(app, class, descriptor.as_ref(), known).map_err(explained)?;
        let mapping = if place.bytes().all(|b| b.is_ascii_digit()) {
            let processes = place.parse::<u32>().ok().filter(|p| *p > 0);
            let processes = processes.ok_or_else(|| {
                wrong(
                    format!("`{place}` is not a valid number of processes"),
                    form(),
                )
            })?;
            format!("1Nx{processes}P").parse::<Mapping>()
        } else {
            place.parse::<Mapping>()
        }
        .map_err(|why| {
            wrong(
                why,
                "a number alone is that many processes on one node".into(),
            )
        })?;
        if let Some(why) = descriptor
            .as_ref()
            .and_then(|d| illegal_count(app, &d.processes, mapping.processes()))
        {
            return Err(wrong(
                why,
                "choose a mapping with a number of processes that the program allows".into(),
            ));
        }
        let library = library_of(library, known).map_err(explained)?;
        let mut question = Self {
            setting: RunSetting {
                app: app.to_owned(),
                class: class.to_owned(),
                mapping,
                mpi_name: library.name,
                mpi: library.kind,
                compression: Compression::None,
                aggregators: None,
                cb_buffer: None,
            },
            collective: descriptor
                .as_ref()
                .map_or_else(|| collective(app), |d| d.io.collective),
            taken_as: library.taken_as,
        };
        let mut given: Vec<&str> = Vec::new();
        for word in words {
            let option = word.split_once('=').map_or(word, |(option, _)| option);
            if given.contains(&option) {
                return Err(wrong(
                    format!("duplicate option `{option}`"),
                    "write it once".into(),
                ));
            }
            given.push(option);
            question.option(word).map_err(explained)?;
        }
        if !question.collective
            && (question.setting.aggregators.is_some() || question.setting.cb_buffer.is_some())
        {
            let message = format!(
                "{app} does not write collectively: aggregators and buffers have no effect on it"
            );
            return Err(wrong(message, "leave out `aggregators=` and `cb=`".into()));
        }
        Ok(question)
    }

    /// A word after the library.
    fn option(&mut self, word: &str) -> Result<(), Explained> {
        match word.split_once('=') {
            None if word != "none"
                && let Ok(compression) = word.parse::<Compression>() =>
            {
                if let Some(other) = self.setting.compression.program() {
                    return Err(Explained::new(
                        format!("`{word}` after `{other}`: images go through one of them"),
                        "write gzip or pigz",
                    ));
                }
                self.setting.compression = compression;
            }
            Some(("aggregators", count)) => {
                let count = count.parse::<u32>().ok().filter(|n| *n > 0);
                let invalid = || {
                    Explained::new(
                        format!("`{word}` has no valid number of aggregators"),
                        "write a number, 1 or more",
                    )
                };
                let count = count.ok_or_else(invalid)?;
                if count > self.setting.mapping.processes() {
                    let message = format!(
                        "{count} aggregators for {} processes",
                        self.setting.mapping.processes()
                    );
                    return Err(Explained::new(
                        message,
                        "there can be at most one aggregator for each process",
                    ));
                }
                self.setting.aggregators = Some(count);
            }
            Some(("cb", size)) => {
                let size = size
                    .parse::<ByteSize>()
                    .map_err(|why| Explained::new(why, "write it as in cb=16MiB"))?;
                self.setting.cb_buffer = Some(size);
            }
            _ => {
                return Err(Explained {
                    message: format!("unknown option `{word}`"),
                    hint: None,
                });
            }
        }
        Ok(())
    }
}

/// Whether a program writes collectively, where only its name is at hand: as the descriptor that cvc carries says; of a name that has none,
/// whether it is that of
/// BT-IO FULL.
pub(crate) fn collective(app: &str) -> bool {
    embedded::descriptor(app).map_or_else(
        || app.starts_with("btio") && !app.contains("simple"),
        |d| d.io.collective,
    )
}

/// A library that a question is about.
struct Library {
    name: String,
    kind: MpiKind,
    taken_as: Option<String>,
}

/// Name of the library of the published sizes.
const PUBLISHED_MPICH: &str = "mpich-ch3";

/// The library by its name in the observations, or by what its name says. `mpich` alone says too little: papers mean MPICH 3, and so do
/// people who have runs with one MPICH. The error is a message and its hint.
fn library_of(name: &str, known: KnownNames<'_>) -> Result<Library, Explained> {
    let observed = |name: &str| {
        known
            .observations
            .iter()
            .find(|o| o.setting.mpi_name == name)
            .map(|o| o.setting.mpi)
    };
    let plain = |kind| Library {
        name: name.to_owned(),
        kind,
        taken_as: None,
    };
    if let Some(kind) = observed(name) {
        return Ok(plain(kind));
    }
    if name.eq_ignore_ascii_case("mpich") {
        let family = known
            .observations
            .iter()
            .filter(|o| o.setting.mpi != MpiKind::OpenMpi)
            .map(|o| o.setting.mpi_name.as_str());
        let family = names(family);
        let taken = |other: &str, kind, why: String| Library {
            name: other.to_owned(),
            kind,
            taken_as: Some(why),
        };
        return match (family.as_slice(), known.observations) {
            ([only], _) => {
                let kind = observed(only).unwrap_or(MpiKind::Nemesis);
                let what = if kind == MpiKind::Nemesis {
                    "ch3:nemesis"
                } else {
                    "ch4"
                };
                let why = format!(
                    "{name}: no library of that name was observed; using {only} ({what}), the only MPICH that was"
                );
                Ok(taken(only, kind, why))
            }
            ([], []) => {
                let why = format!(
                    "{name}: using {PUBLISHED_MPICH} (ch3:nemesis), the MPICH 3 of the published sizes; no sizes of ch4 are published"
                );
                Ok(taken(PUBLISHED_MPICH, MpiKind::Nemesis, why))
            }
            ([], _) => Ok(plain(MpiKind::Mpich)),
            (several, _) => {
                let message = format!("{name}: no library of that name was observed");
                Err(Explained::new(
                    message,
                    format!("write one of {}", several.join(", ")),
                ))
            }
        };
    }
    mpi_kind_of_name(name).map(plain).ok_or_else(|| {
        let names = names(
            known
                .observations
                .iter()
                .map(|o| o.setting.mpi_name.as_str())
                .chain([PUBLISHED_MPICH, "mpich", "openmpi"]),
        );
        Explained::new(
            format!("unknown MPI library `{name}`"),
            suggestion(name, "known libraries", names.iter().copied()),
        )
    })
}

/// The names in order, each once.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The descriptor of an application; none if it is only known from observations.
fn application(app: &str, known: KnownNames<'_>) -> Result<Option<Descriptor>, Explained> {
    if let Some(path) = load::find(app, known.apps) {
        return Ok(load::load(&path).ok().map(|loaded| loaded.descriptor));
    }
    if known.observations.iter().any(|o| o.setting.app == app) {
        return Ok(None);
    }
    let described = load::known(known.apps);
    let names = names(
        described
            .iter()
            .map(String::as_str)
            .chain(known.observations.iter().map(|o| o.setting.app.as_str())),
    );
    Err(Explained::new(
        format!("unknown application `{app}`"),
        suggestion(app, "known applications", names),
    ))
}

fn check_class(
    app: &str,
    class: &str,
    descriptor: Option<&Descriptor>,
    known: KnownNames<'_>,
) -> Result<(), Explained> {
    let observed = known
        .observations
        .iter()
        .filter(|o| o.setting.app == app)
        .map(|o| o.setting.class.as_str());
    let described = descriptor
        .into_iter()
        .flat_map(|d| d.workloads.keys().map(String::as_str));
    let all = names(observed.chain(described));
    if all.contains(&class) {
        return Ok(());
    }
    Err(Explained::new(
        format!("{app} has no class `{class}`"),
        suggestion(class, "its classes", all),
    ))
}

#[cfg(test)]
mod tests {
    use super::{KnownNames, Observation, Question, collective};
    use cvc_core::point::Compression;
    use cvc_core::units::ByteSize;
    use cvc_model::MpiKind;
    use std::path::PathBuf;

    fn parse(text: &str) -> Result<Question, String> {
        let apps = [PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/apps"
        ))];
        Question::parse(
            text,
            KnownNames {
                apps: &apps,
                observations: &[],
            },
        )
        .map_err(|e| format!("{e}\n  hint: {}", e.hint().unwrap_or("-")))
    }

    #[test]
    fn a_question_in_words() {
        let q = parse("btio-full.C 6Nx4P+1Nx1P openmpi gzip aggregators=2 cb=16MiB")
            .expect("a question");
        assert_eq!(
            (
                q.setting.app.as_str(),
                q.setting.class.as_str(),
                q.setting.mapping.processes(),
                q.setting.mpi
            ),
            ("btio-full", "C", 25, MpiKind::OpenMpi)
        );
        assert_eq!(
            (
                q.setting.compression,
                q.setting.aggregators,
                q.setting.cb_buffer
            ),
            (Compression::Gzip, Some(2), Some(ByteSize(16 << 20)))
        );
        assert_eq!((q.load(), q.collective), (None, true));
        let q = parse("npb-bt.D 64 mpich-ch3").expect("a question");
        assert_eq!(
            (
                q.setting.mapping.to_string().as_str(),
                q.setting.mpi,
                q.load()
            ),
            ("1Nx64P", MpiKind::Nemesis, Some(64))
        );
    }

    #[test]
    fn the_descriptor_tells_which_programs_write_collectively() {
        let of = [
            "btio-full",
            "flash-io",
            "kernel-amr",
            "btio-simple",
            "npb-bt",
            "lammps",
        ]
        .map(collective);
        assert_eq!(of, [true, true, true, false, false, false]);
        assert!(
            collective("btio") && !collective("solver"),
            "programs without a descriptor"
        );
    }

    #[test]
    fn mpich_alone_is_the_one_that_was_observed_or_the_one_of_the_papers() {
        let table = |libraries: &[&str]| {
            let rows: String = libraries
                .iter()
                .map(|l| format!("npb-bt,A,4,{l},1\n"))
                .collect();
            crate::predict::csv::parse(
                camino::Utf8Path::new("t.csv"),
                &format!("app,class,processes,mpi,lb_mib\n{rows}"),
            )
            .expect("a table")
        };
        let apps = [PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../experiments/apps"
        ))];
        let ask = |of: &[Observation]| {
            Question::parse(
                "npb-bt.D 2Nx32P mpich",
                KnownNames {
                    apps: &apps,
                    observations: of,
                },
            )
            .map(|q| (q.setting.mpi_name, q.setting.mpi, q.taken_as))
        };
        let (name, kind, why) = ask(&[]).expect("the papers' MPICH");
        assert_eq!((name.as_str(), kind), ("mpich-ch3", MpiKind::Nemesis));
        assert!(why.expect("a warning").contains("ch3:nemesis"));
        let (name, kind, why) = ask(&table(&["my-ch3", "openmpi"])).expect("the only one");
        assert_eq!((name.as_str(), kind), ("my-ch3", MpiKind::Nemesis));
        assert!(
            why.expect("a warning")
                .contains("no library of that name was observed")
        );
        let (name, kind, why) = ask(&table(&["mpich", "mpich-ch3"])).expect("by its name");
        assert_eq!((name.as_str(), kind, why), ("mpich", MpiKind::Mpich, None));
        let several = ask(&table(&["mpich-ch3", "mpich-4.2"])).expect_err("two of them");
        assert!(
            several
                .hint()
                .is_some_and(|h| h.contains("mpich-4.2, mpich-ch3")),
            "{several}"
        );
    }

    #[test]
    fn each_wrong_question_is_refused_with_its_hint() {
        let wrong = [
            "",
            "npb-bt.A 4",
            "npb-bt 4 openmpi",
            "npb-bt.A 24 openmpi",
            "npb-cg.A 9 openmpi",
            "npb-bd.A 4 openmpi",
            "npb-bt.Z 4 openmpi",
            "npb-bt.A 0 openmpi",
            "npb-bt.A 4P openmpi",
            "npb-bt.A 2Nx0P openmpi",
            "npb-bt.A 99999999999 openmpi",
            "npb-bt.A 4 mpi",
            "npb-bt.A 4 openmpi bzip",
            "npb-bt.A 4 openmpi aggregators=2",
            "btio-full.A 4 openmpi aggregators=0",
            "btio-full.A 4 openmpi aggregators=9",
            "btio-full.A 4 openmpi cb=16MB",
            "npb-bt.A 4 openmpi gzip gzip",
            "npb-bt.A 4 openmpi gzip pigz",
            "btio-full.A 4 openmpi aggregators=1 aggregators=2",
        ];
        // the list of applications grows
        let short = |message: String| {
            message
                .split("known applications")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let message: Vec<String> = wrong
            .iter()
            .map(|text| short(parse(text).expect_err(text)))
            .collect();
        insta::assert_snapshot!(message.join("\n"));
    }
}
