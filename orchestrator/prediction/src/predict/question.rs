//! Questions in text form: `npb-bt.D 2Nx32P mpich gzip aggregators=2 cb=16MiB`.

use super::{
    error::PredictError,
    observation::Observation,
    setting::{RunSetting, mpi_kind_of_name},
};
use cvc_core::app::{
    descriptor::{Descriptor, illegal_count},
    embedded, load,
    size::ProblemSize,
};
use cvc_core::mapping::Mapping;
use cvc_core::point::Compression;
use cvc_core::source::{Explained, suggestion};
use cvc_core::units::ByteSize;
use cvc_model::{MpiKind, nas};
use serde::Serialize;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// A setting whose checkpoint is to be predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// The setting whose checkpoint is to be predicted.
    #[serde(flatten)]
    pub setting: RunSetting,
    /// Whether the program uses collective writes, so that some of its ranks may be aggregators.
    pub collective: bool,
    /// A note about the library that was chosen for an ambiguous name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_as: Option<String>,
}

/// Names that a question may contain.
#[derive(Clone, Copy, Debug)]
pub struct KnownNames<'a> {
    /// Directories with application descriptors.
    pub apps: &'a [PathBuf],
    /// The observations, whose applications, classes and libraries may also be used.
    pub observations: &'a [Observation],
}

impl KnownNames<'_> {
    /// Completes a question that begins with a mapping or a number: adds the program and the library, if all observations have the same.
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
    /// Returns the question for the setting of an observation.
    pub fn of(observation: &Observation) -> Self {
        let setting = observation.setting.clone();
        Self {
            collective: collective(&setting.app),
            setting,
            taken_as: None,
        }
    }

    /// Returns whether an observation was made at exactly this setting.
    pub(crate) fn is_of(&self, o: &Observation) -> bool {
        self.setting.is_same_as(&o.setting)
    }

    /// Returns whether the size of the program's data can be predicted without a run, because its arrays are known.
    pub fn is_known_without_runs(&self) -> bool {
        nas::Problem::of(&self.setting.app, &self.setting.class).is_some()
    }

    /// Returns the question's text, such as `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        self.setting.label()
    }

    /// Returns the name of the library, with the compression program if there is one, for messages.
    pub(crate) fn label_of_library(&self) -> String {
        match self.setting.compression.program() {
            Some(program) => format!("{} and {program}", self.setting.mpi_name),
            None => self.setting.mpi_name.clone(),
        }
    }

    /// Returns the number of processes on each node, if all nodes have the same number.
    pub fn load(&self) -> Option<u32> {
        self.setting.load()
    }

    /// Parses `APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB]`. A number instead of a mapping is that many processes on one node.
    /// Program and library may be omitted if all observations have the same.
    ///
    /// # Errors
    /// The first problem, with its hint.
    pub fn parse(text: &str, known: KnownNames<'_>) -> Result<Self, PredictError> {
        let text = &*known.completed(text)?;
        let wrong = |message: String, hint: String| PredictError::Question {
            text: text.to_owned(),
            message,
            hint,
        };
        let form = || {
            "write APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB], as in `npb-bt.D 2Nx32P mpich-ch3` or `kernel-stencil.n=80 4 mpich`".to_owned()
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
        // a size may contain a point
        let name = program.split('=').next().unwrap_or_default();
        let (app, class) = name
            .rfind('.')
            .map(|point| (&program[..point], &program[point + 1..]))
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
                why.to_string(),
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
        let processes = mapping.processes();
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
                size: size_of(descriptor.as_ref(), app, class, processes),
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

    /// Parses one word after the library.
    fn option(&mut self, word: &str) -> Result<(), Explained> {
        match word.split_once('=') {
            None if word != "none"
                && let Ok(compression) = word.parse::<Compression>() =>
            {
                if let Some(other) = self.setting.compression.program() {
                    return Err(Explained::new(
                        format!(
                            "`{word}` after `{other}`: images are compressed by one program only"
                        ),
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
                    .map_err(|why| Explained::new(why.to_string(), "write it as in cb=16MiB"))?;
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

/// Returns whether a program uses collective writes: by the descriptor built into cvc or, if there is none, by whether the name is that of BT-IO
/// FULL.
pub(crate) fn collective(app: &str) -> bool {
    embedded::descriptor(app).map_or_else(
        || app.starts_with("btio") && !app.contains("simple"),
        |d| d.io.collective,
    )
}

/// The MPI library in a question.
struct Library {
    name: String,
    kind: MpiKind,
    taken_as: Option<String>,
}

/// Name of the library with which the published sizes were measured.
const PUBLISHED_MPICH: &str = "mpich-ch3";

/// Returns the library with this name in the observations, or else the one that the name stands for. `mpich` alone is ambiguous: papers mean MPICH
/// 3, and users with runs of one MPICH mean that one. The error is a message and its hint.
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

/// Returns the names sorted, without duplicates.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the descriptor of an application; `None` if the application only occurs in observations.
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
    // without a descriptor, the size of a problem is the product of the values that the class sets
    let vars = |class: &str| -> Vec<String> {
        let parts = class.split(',').filter_map(|part| part.split_once('='));
        parts.map(|(var, _)| var.to_owned()).collect()
    };
    let is_sized = || {
        let (mut classes, asked) = (observed.clone(), vars(class));
        !asked.is_empty() && classes.any(|class| vars(class) == asked)
    };
    let unknown = match descriptor.map(|d| d.workload(class)) {
        Some(Ok(_)) => return Ok(()),
        Some(Err(unknown)) => Some(unknown),
        None if is_sized() => return Ok(()),
        None => None,
    };
    let all = names(observed.chain(described));
    if all.contains(&class) {
        return Ok(());
    }
    Err(match unknown {
        Some(unknown) if class.contains('=') => unknown,
        _ => Explained::new(
            format!("{app} has no class `{class}`"),
            suggestion(class, "its classes", all) + &size_hint(descriptor),
        ),
    })
}

/// Returns the hint on how to write a size that no class has.
fn size_hint(descriptor: Option<&Descriptor>) -> String {
    let sizes = descriptor.and_then(|d| d.size.as_ref());
    sizes.map_or_else(String::new, |sizes| {
        format!("; or give a size, as in `{}`", sizes.example())
    })
}

/// Returns the problem size of a class: from the given descriptor, from the one built into cvc, or from the name of the class.
fn size_of(
    descriptor: Option<&Descriptor>,
    app: &str,
    class: &str,
    processes: u32,
) -> Option<ProblemSize> {
    descriptor
        .and_then(|d| d.problem_size(class, processes))
        .or_else(|| ProblemSize::by_embedded(app, class, processes))
}

/// Sets the problem sizes of observations whose applications have descriptors in these directories.
pub fn add_sizes(observations: &mut [Observation], apps: &[PathBuf]) {
    let mut described: BTreeMap<String, Option<Descriptor>> = BTreeMap::new();
    for o in observations.iter_mut() {
        let RunSetting {
            app,
            class,
            mapping,
            size,
            ..
        } = &mut o.setting;
        let found = described.entry(app.clone()).or_insert_with(|| {
            let path = load::find(app, apps)?;
            Some(load::load(&path).ok()?.descriptor)
        });
        if let Some(of) = found
            .as_ref()
            .and_then(|d| d.problem_size(class, mapping.processes()))
        {
            *size = Some(of);
        }
    }
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
    fn the_descriptor_shows_which_programs_write_collectively() {
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
        // shortens the message, because the list of applications may grow
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
