//! `cvc init`

pub(super) mod answers;
mod ask;
pub(super) mod own;
pub(super) mod text;
mod trial;

use crate::{
    args::{InitArgs, InitSite, Measure},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output::emit,
    text::paragraph,
};
use answers::{Answers, Place, choose_counts, describe_counts, is_legal};
use ask::{Asker, Question, some, words, wrong};
use camino::{Utf8Path, Utf8PathBuf};
use clap::ValueEnum;
use cvc_core::app::{self, LoadedApp};
use cvc_core::campaign::{self, Spec};
use cvc_core::plan::{self, Plan};
use cvc_core::point::CheckpointerKind;
use cvc_core::source::{SourceErrors, suggestion};
use cvc_core::store::{StoreError, write_output};
use cvc_core::units::counted;
use cvc_engine::attempt::Readiness;
use cvc_session::{Scratch, SoftwareGap, ask_sites, campaigns::campaign_here};
use own::OwnProgram;
use std::{collections::BTreeMap, fs, path::PathBuf};
use text::{load_own, write_descriptor};

/// Names of the MPI libraries that every site accepts without further keys in the campaign file.
const LIBRARIES: [&str; 2] = ["mpich", "openmpi"];
/// Default maximum number of processes: on this machine if it has fewer cores than this, and per node on other sites. Even a single core can show the
/// effect of several processes.
const USUAL_PROCESSES: u32 = 4;

/// Software of this machine.
struct LocalSoftware {
    mpi: Vec<String>,
    has_driven: bool,
}

pub fn init(args: &InitArgs) -> Result<ExitStatus, Failure> {
    let apps = Apps::next_to(&args.file)?;
    if args.app == ["list"] {
        for name in &apps.names {
            emit(format_args!(
                "{name:<26} {}",
                apps.load(name)?.descriptor.title
            ));
        }
        return Ok(ExitStatus::Done);
    }
    refuse_existing(&args.file, args.force)?;
    if args.try_it && args.site.is_some_and(|site| site != InitSite::Local) {
        return Err(wrong(
            "--try runs the program on this machine, and the campaign runs elsewhere",
            "leave --try out, and test the descriptor there with a campaign of one point",
        ));
    }
    let here = look_around()?;
    let Some(answers) = gather(args, &apps, &here)? else {
        return Err(wrong(
            "missing information for a campaign",
            "--yes uses the defaults",
        ));
    };
    let text = text::write_campaign(&answers)?;
    let (spec, plan) = check(&text, answers.own.as_ref(), &apps)?;
    if let Some(own) = &answers.own {
        fs::create_dir_all(&apps.directory).map_err(StoreError::io("make", &apps.directory))?;
        let path = apps.descriptor_of(own);
        // relative paths in the descriptor are relative to the directory's path without links
        let real = apps.directory.canonicalize_utf8().ok();
        let text = write_descriptor(own, real.as_deref())?;
        write_output(&path, text.as_bytes())?;
        let about = match &own.facts.success {
            Some(found) if found.verifies => {
                format!("a run succeeds if it prints `{}`", found.line)
            }
            Some(_) | None => "check its success pattern before you trust a run".to_owned(),
        };
        emit(paragraph("", &format!("wrote {path}: {about}")));
    }
    write_output(&args.file, text.as_bytes())?;
    emit(format_args!(
        "wrote {}: {}, {}",
        args.file,
        counted(plan.points.len(), "point"),
        counted(plan.runs.len(), "run")
    ));
    report_missing(&spec, &plan, &answers, &here)?;
    emit(format_args!("next: cvc plan {}", args.file));
    Ok(ExitStatus::Done)
}

/// Fails if the path exists and `force` is not set. Devices and pipes are always accepted.
///
/// # Errors
/// The path exists.
pub fn refuse_existing(path: &Utf8Path, force: bool) -> Result<(), Failure> {
    if force || !(path.is_file() || path.is_dir()) {
        Ok(())
    } else {
        Err(wrong(
            format!("{path} exists"),
            "give another name, or --force to replace it",
        ))
    }
}

/// The applications that a new campaign file may name: those in the directory `apps` next to the file, and those that cvc includes.
struct Apps {
    /// The directory `apps` next to the campaign file.
    directory: Utf8PathBuf,
    dirs: Vec<PathBuf>,
    names: Vec<String>,
}

impl Apps {
    fn next_to(file: &Utf8Path) -> Result<Self, Failure> {
        let directory = file.parent().unwrap_or(Utf8Path::new("")).join("apps");
        let dirs = vec![
            directory.clone().into_std_path_buf(),
            app::embedded::directory()?,
        ];
        Ok(Self {
            names: app::load::known(&dirs),
            directory,
            dirs,
        })
    }

    /// Returns the path for the descriptor of a user's own program.
    fn descriptor_of(&self, own: &OwnProgram) -> Utf8PathBuf {
        self.directory.join(format!("{}.toml", own.name))
    }

    fn load(&self, name: &str) -> Result<LoadedApp, Failure> {
        match app::load::find(name, &self.dirs) {
            Some(path) => Ok(app::load::load(&path)?),
            None => {
                let known = suggestion(name, "applications", self.names.iter().map(String::as_str));
                Err(wrong(format!("--app: unknown application `{name}`"), known))
            }
        }
    }
}

/// Detects the MPI libraries and checkpointers of this machine.
fn look_around() -> Result<LocalSoftware, Failure> {
    let driven = CheckpointerKind::all_driven().map(|(kind, _)| kind);
    let checkpointers: Vec<_> = std::iter::once(CheckpointerKind::None)
        .chain(driven)
        .collect();
    let spec = campaign_here("here", 1, &checkpointers)?;
    let sites = runtime()?.block_on(ask_sites(&spec, |_| Readiness::Look, |_| ()));
    let plan = plan::build(&spec);
    let runs = |mpi: &str, driven: bool| {
        let of = plan
            .points
            .iter()
            .map(|p| &p.point)
            .find(|p| p.mpi == mpi && p.checkpointer.is_driven() == driven);
        of.is_some_and(|point| {
            sites
                .get(&point.site)
                .is_some_and(|site| site.obstacle(point).is_none())
        })
    };
    let mpi: Vec<String> = LIBRARIES
        .iter()
        .filter(|mpi| runs(mpi, false))
        .map(|mpi| (*mpi).to_owned())
        .collect();
    Ok(LocalSoftware {
        has_driven: LIBRARIES.iter().any(|mpi| runs(mpi, true)),
        mpi,
    })
}

/// Gets all answers; `None` if required answers are missing.
fn gather(args: &InitArgs, apps: &Apps, here: &LocalSoftware) -> Result<Option<Answers>, Failure> {
    let mut asker = Asker::new(args.yes);
    let question = Question::new(
        "--measure",
        "What to measure? Any of: sizes, restart, overhead, compression, aggregators, scaling",
    )
    .suggesting("sizes");
    let measures = asker.given_or(some(&args.measure), &question, |text| {
        let words = words(text);
        let measures = words
            .iter()
            .map(|word| of_word::<Measure>("--measure", word));
        measures.collect()
    })?;
    let place = place(args, &mut asker)?;
    let chosen = choose(args, &mut asker, apps)?;
    asker.finish()?;
    let (Some(measures), Some(place), Some(chosen)) = (measures, place, chosen) else {
        return Ok(None);
    };
    let (own, loaded) = match chosen {
        CampaignProgram::Own(own) => {
            let loaded = vec![load_own(&own)?];
            (Some(own), loaded)
        }
        CampaignProgram::Apps(loaded) => (None, loaded),
    };
    let mut answers = Answers {
        name: campaign_name(&args.file, own.as_ref()),
        measures,
        // other machines are checked when they are first used, so DMTCP is assumed there
        has_driven: here.has_driven || place != Place::Local,
        place,
        apps: loaded,
        own,
        class: None,
        processes: Vec::new(),
        mpi: Vec::new(),
    };
    refuse_without_collective_io(&answers)?;
    answers.class = class(args, &mut asker, &answers)?;
    answers.processes = processes(args, &mut asker, &answers)?;
    answers.mpi = libraries(args, &mut asker, &answers, here)?;
    if let Some(own) = &mut answers.own {
        own.find_by_library(&answers.mpi);
    }
    asker.finish()?;
    try_own(args, &mut asker, &mut answers, here)?;
    Ok(Some(answers))
}

/// The program that the campaign runs.
enum CampaignProgram {
    Own(OwnProgram),
    Apps(Vec<LoadedApp>),
}

/// Asks for the program of the campaign. For a user's own program, also asks for its arguments and input files.
fn choose(
    args: &InitArgs,
    asker: &mut Asker,
    apps: &Apps,
) -> Result<Option<CampaignProgram>, Failure> {
    let load_all = |names: &[String]| -> Result<CampaignProgram, Failure> {
        let loaded: Result<_, _> = names.iter().map(|name| apps.load(name)).collect();
        Ok(CampaignProgram::Apps(loaded?))
    };
    let given = match &args.program {
        Some(path) => Some(CampaignProgram::Own(OwnProgram::from_path(path)?)),
        None => some(&args.app).map(|names| load_all(&names)).transpose()?,
    };
    let question = Question::new(
        "--app or --program",
        "Which program? The path of one of your own, as in ./solver, or names of applications, which `cvc init --app list` lists",
    )
    .suggesting("kernel-stencil");
    let mut chosen = asker.given_or(given, &question, |text| {
        match own::is_path(text, &apps.names) {
            true => choose_program(text),
            false => load_all(&words(text)),
        }
    })?;
    match &mut chosen {
        Some(CampaignProgram::Own(own)) => {
            refuse_existing(&apps.descriptor_of(own), args.force)?;
            own.report_library();
            // arguments that the user typed after the program's name
            let typed = (!own.args.is_empty()).then(|| own.typed_args());
            own.ask(
                asker,
                typed.as_deref().or(args.args.as_deref()),
                &args.input,
            )?;
            own.ask_processes(asker, &args.processes)?;
            refuse_existing(&apps.descriptor_of(own), args.force)?;
        }
        Some(CampaignProgram::Apps(loaded)) => {
            let of_own = [
                ("--args", args.args.is_some()),
                ("--input", !args.input.is_empty()),
                ("--try", args.try_it),
            ];
            if let Some((option, _)) = of_own.into_iter().find(|(_, given)| *given) {
                return Err(wrong(
                    format!("{option} is for a program of your own"),
                    format!("add --program, or leave {option} out"),
                ));
            }
            if loaded.iter().any(|app| app.descriptor.name == "command") {
                return Err(wrong(
                    "--app command needs a command line, which only a campaign file can give",
                    "--program PATH writes a descriptor of your program",
                ));
            }
        }
        None => {}
    }
    Ok(chosen)
}

/// Parses the path of a program, optionally followed by the program's arguments.
fn choose_program(text: &str) -> Result<CampaignProgram, Failure> {
    let whole = OwnProgram::from_path(text.into());
    let mut words = match (&whole, cvc_core::words::split(text)) {
        (Err(_), Ok(words)) if words.len() > 1 => words.into_iter(),
        _ => return whole.map(CampaignProgram::Own),
    };
    let path = words.next().unwrap_or_default();
    let mut own = OwnProgram::from_path(path.as_str().into())?;
    own.args = words.collect();
    Ok(CampaignProgram::Own(own))
}

/// Preferred minimum number of processes of a trial run, which then shows errors that occur only with several processes. If all process counts of the
/// campaign are smaller, the trial run uses the last one.
const TRIED_PROCESSES: u32 = 2;

/// Runs the user's program once, if the user agrees and its MPI library is on this machine, and adds the facts learned to the answers.
fn try_own(
    args: &InitArgs,
    asker: &mut Asker,
    answers: &mut Answers,
    here: &LocalSoftware,
) -> Result<(), Failure> {
    let Some(own) = &mut answers.own else {
        return Ok(());
    };
    let counts = &answers.processes;
    let processes = counts
        .iter()
        .find(|count| **count >= TRIED_PROCESSES)
        .or(counts.last())
        .copied()
        .unwrap_or(1);
    // a program started by the launcher of another library is several runs of one process
    let linked = own.library();
    let mut usable = answers.mpi.iter().filter(|mpi| here.mpi.contains(mpi));
    let mpi = usable.find(|mpi| linked.is_none_or(|linked| *mpi == linked));
    let is_wanted = answers.place == Place::Local && !args.no_try;
    let Some(mpi) = mpi.filter(|_| is_wanted).cloned() else {
        if args.try_it {
            let other = linked.filter(|linked| !answers.mpi.iter().any(|mpi| mpi == linked));
            return Err(match other {
                Some(other) => wrong(
                    format!(
                        "--try: {} is linked with {other}, which --mpi does not name",
                        own.file
                    ),
                    format!("add {other} to --mpi, or leave --try out"),
                ),
                None => wrong(
                    format!(
                        "--try: the MPI library of this campaign is not installed here: {}",
                        linked.map_or_else(|| answers.mpi.join(", "), str::to_owned)
                    ),
                    "`cvc doctor` shows what is missing; or leave --try out",
                ),
            });
        }
        return Ok(());
    };
    let question = format!(
        "Run {} once now, with {processes} processes and for at most {} s, to learn how it shows success and steps?",
        own.file,
        trial::LIMIT_S
    );
    if !args.try_it && !(asker.is_terminal() && trial::yes(asker, &question)?) {
        return Ok(());
    }
    let how = trial::How {
        mpi: &mpi,
        processes,
    };
    trial::learn_from_a_run(own, how, asker)?;
    answers.apps = vec![load_own(own)?];
    Ok(())
}

/// Returns the campaign's name: the name of its file, or, if that is `campaign`, the name of the program or of the directory.
fn campaign_name(file: &Utf8Path, own: Option<&OwnProgram>) -> String {
    let stem = file.file_stem().unwrap_or_default().to_lowercase();
    if stem != "campaign" {
        return stem;
    }
    let directory = || {
        let parent = file.parent().filter(|p| !p.as_str().is_empty());
        let directory = parent.unwrap_or(Utf8Path::new(".")).canonicalize_utf8();
        directory.ok()?.file_name().map(own::plain)
    };
    own.map(OwnProgram::plain_name)
        .or_else(directory)
        .filter(|name| !name.is_empty())
        .unwrap_or(stem)
}

/// Parses the value of an option; an unknown value is an error that lists the known ones.
fn of_word<T: ValueEnum>(option: &str, word: &str) -> Result<T, Failure> {
    T::from_str(word, false).map_err(|_| {
        let known: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|v| Some(v.to_possible_value()?.get_name().to_owned()))
            .collect();
        wrong(
            format!("{option}: unknown value `{word}`"),
            suggestion(word, "one of", known.iter().map(String::as_str)),
        )
    })
}

fn place(args: &InitArgs, asker: &mut Asker) -> Result<Option<Place>, Failure> {
    let question = Question::new(
        "--site",
        "Where? local (this machine), ssh (machines that you reach by ssh), slurm, ec2",
    )
    .suggesting("local");
    let kind = asker.given_or(args.site, &question, |text| {
        of_word::<InitSite>("--site", text)
    })?;
    let mut many = |given: &[String], text: &str, option: &str| {
        let question = Question::new(option, text);
        asker.given_or(some(given), &question, |text| Ok(words(text)))
    };
    let unused = |option: &str, kinds: &str| {
        wrong(
            format!("{option} is for the site {kinds}"),
            format!("add --site, or leave {option} out"),
        )
    };
    let Some(kind) = kind else { return Ok(None) };
    if kind != InitSite::Ssh && !args.hosts.is_empty() {
        return Err(unused("--hosts", "ssh"));
    }
    if kind != InitSite::Slurm && (args.login.is_some() || args.partition.is_some()) {
        return Err(unused(
            if args.login.is_some() {
                "--login"
            } else {
                "--partition"
            },
            "slurm",
        ));
    }
    if kind != InitSite::Ec2 && (args.region.is_some() || !args.instance_types.is_empty()) {
        return Err(unused(
            if args.region.is_some() {
                "--region"
            } else {
                "--instance-types"
            },
            "ec2",
        ));
    }
    if !matches!(kind, InitSite::Slurm | InitSite::Ec2) && args.nodes.is_some() {
        return Err(unused("--nodes", "slurm or ec2"));
    }
    Ok(match kind {
        InitSite::Local => Some(Place::Local),
        InitSite::Ssh => many(
            &args.hosts,
            "Which machines? Names that ssh accepts",
            "--hosts",
        )?
        .map(|hosts| Place::Ssh { hosts }),
        InitSite::Slurm => {
            let nodes = nodes(args, asker)?;
            nodes.map(|nodes| Place::Slurm {
                nodes,
                login: args.login.clone(),
                partition: args.partition.clone(),
            })
        }
        InitSite::Ec2 => {
            let region = many(
                args.region.as_slice(),
                "Which region, as in us-east-1?",
                "--region",
            )?;
            let types = many(
                &args.instance_types,
                "Which instance types, in order of preference, as in c5.xlarge?",
                "--instance-types",
            )?;
            let nodes = nodes(args, asker)?;
            match (region.and_then(|r| r.into_iter().next()), types, nodes) {
                (Some(region), Some(instance_types), Some(nodes)) => Some(Place::Ec2 {
                    region,
                    instance_types,
                    nodes,
                }),
                _ => None,
            }
        }
    })
}

fn nodes(args: &InitArgs, asker: &mut Asker) -> Result<Option<u32>, Failure> {
    let question = Question::new("--nodes", "How many nodes at most?").suggesting("2");
    asker.given_or(args.nodes, &question, |text| match text.parse::<u32>() {
        Ok(nodes @ 1..=10_000) => Ok(nodes),
        Ok(_) | Err(_) => Err(wrong(
            format!("--nodes: `{text}` is not a number of nodes"),
            "write a number from 1 to 10000",
        )),
    })
}

/// Refuses to measure aggregators for programs without collective I/O.
fn refuse_without_collective_io(answers: &Answers) -> Result<(), Failure> {
    if answers.writes_only_checkpoints() && answers.uses_driven() {
        return Err(wrong(
            "--measure aggregators: an application does collective I/O only in its own checkpoints, which these measurements replace by DMTCP's",
            "write two campaigns, one with aggregators and one with the others; or choose programs with their own I/O, such as btio-full",
        ));
    }
    if !answers.measures(Measure::Aggregators)
        || answers.apps.iter().any(|app| app.descriptor.io.collective)
    {
        return Ok(());
    }
    let names: Vec<&str> = answers
        .apps
        .iter()
        .map(|app| app.descriptor.name.as_str())
        .collect();
    let hint =
        "choose one that does, such as kernel-stencil or btio-full, or leave `aggregators` out";
    Err(wrong(
        format!(
            "--measure aggregators: no collective I/O in {}",
            names.join(", ")
        ),
        hint,
    ))
}

/// Returns the workload class for all applications.
fn class(args: &InitArgs, asker: &mut Asker, answers: &Answers) -> Result<Option<String>, Failure> {
    let Some((first, others)) = answers.apps.split_first() else {
        return Ok(None);
    };
    let shared = |class: &&String| {
        others
            .iter()
            .all(|app| app.descriptor.workloads.contains_key(*class))
    };
    let known: Vec<&String> = first.descriptor.workloads.keys().filter(shared).collect();
    let parse = |text: &str| {
        if known.iter().any(|class| *class == text) {
            return Ok(Some(text.to_owned()));
        }
        let list = suggestion(
            text,
            "workloads that all applications have",
            known.iter().map(|class| class.as_str()),
        );
        Err(wrong(format!("--class: unknown workload `{text}`"), list))
    };
    if let Some(class) = &args.class {
        return parse(class);
    }
    let usual = if answers.uses_driven() { "W" } else { "S" };
    match known
        .iter()
        .find(|class| *class == &usual)
        .or(known.first())
    {
        None => Err(wrong(
            "--app: these applications have no workload in common",
            "choose one of them; write separate campaigns for the others",
        )),
        Some(_)
            if known.len() == 1 && others.is_empty() && first.descriptor.workloads.len() == 1 =>
        {
            Ok(None)
        }
        Some(default) => {
            let names: Vec<&str> = known.iter().map(|class| class.as_str()).collect();
            let text = format!("Which problem size? One of: {}", names.join(", "));
            let question = Question::new("--class", &text).usual((*default).clone());
            Ok(asker.ask(&question, parse)?.flatten())
        }
    }
}

fn processes(args: &InitArgs, asker: &mut Asker, answers: &Answers) -> Result<Vec<u32>, Failure> {
    let fewest = if answers.measures(Measure::Aggregators) {
        2
    } else {
        1
    };
    let check = |counts: Vec<u32>| {
        for count in &counts {
            let illegal = |app: &&LoadedApp| !is_legal(std::slice::from_ref(*app), *count);
            if let Some(app) = answers.apps.iter().find(illegal) {
                let (name, rule) = (&app.descriptor.name, &app.descriptor.processes);
                let range = rule.max.map_or_else(
                    || format!("at least {}", rule.min),
                    |max| format!("{} to {max}", rule.min),
                );
                let hint = format!(
                    "{name} runs with {}, {range} in total",
                    describe_counts(rule.rule)
                );
                return Err(wrong(
                    format!(
                        "--processes: {name} does not run with {}",
                        counted(count, "process")
                    ),
                    hint,
                ));
            }
        }
        if counts.iter().all(|count| *count < fewest) {
            return Err(wrong(
                "--measure aggregators needs at least 2 processes",
                "give --processes 2 or more",
            ));
        }
        let mut once = counts;
        once.sort_unstable();
        once.dedup();
        Ok(once)
    };
    if !args.processes.is_empty() {
        return check(args.processes.clone());
    }
    let cores =
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let most = match &answers.place {
        Place::Local => cores.clamp(USUAL_PROCESSES, 64),
        Place::Ssh { .. } | Place::Slurm { .. } | Place::Ec2 { .. } => answers
            .place
            .nodes()
            .saturating_mul(USUAL_PROCESSES)
            .min(1024),
    };
    let counts = choose_counts(
        &answers.apps,
        most,
        answers.measures(Measure::Scaling),
        fewest,
    );
    if counts.is_empty() {
        return Err(wrong(
            "--app: no process count suits all of these applications",
            "choose one of them",
        ));
    }
    let default = counts
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let question = Question::new(
        "--processes",
        "How many processes in total? One number or several",
    )
    .usual(default);
    let parse = |text: &str| {
        let number = |word: &String| {
            let counts = word
                .parse::<u32>()
                .ok()
                .filter(|n| (1..=100_000).contains(n));
            counts.ok_or_else(|| {
                wrong(
                    format!("--processes: `{word}` is not a number of processes"),
                    "write numbers, as in 1,2,4",
                )
            })
        };
        check(words(text).iter().map(number).collect::<Result<_, _>>()?)
    };
    Ok(asker.ask(&question, parse)?.unwrap_or_default())
}

fn libraries(
    args: &InitArgs,
    asker: &mut Asker,
    answers: &Answers,
    here: &LocalSoftware,
) -> Result<Vec<String>, Failure> {
    let parse = |words: Vec<String>| match words
        .iter()
        .find(|word| !LIBRARIES.contains(&word.as_str()))
    {
        Some(word) => Err(wrong(
            format!("--mpi: unknown library `{word}`"),
            suggestion(word, "libraries", LIBRARIES),
        )),
        None => {
            let named = LIBRARIES.iter().filter(|l| words.iter().any(|w| w == *l));
            Ok(named.map(|l| (*l).to_owned()).collect())
        }
    };
    let linked = answers.own.as_ref().and_then(OwnProgram::library);
    if !args.mpi.is_empty() {
        return parse(args.mpi.clone());
    }
    // the library was read from the program's file
    if let Some(linked) = linked {
        return Ok(vec![linked.to_owned()]);
    }
    let default = match &answers.place {
        // a user's own program was compiled with only one of the libraries
        Place::Local if !here.mpi.is_empty() && answers.own.is_none() => here.mpi.join(","),
        Place::Local if !here.mpi.is_empty() => here.mpi.last().cloned().unwrap_or_default(),
        Place::Local | Place::Ssh { .. } | Place::Slurm { .. } | Place::Ec2 { .. } => {
            "openmpi".into()
        }
    };
    let question = Question::new("--mpi", "Which MPI libraries? mpich, openmpi").usual(default);
    let answer = asker.ask(&question, |text| parse(words(text)))?;
    Ok(answer.unwrap_or_default())
}

/// Loads and plans the new campaign, as `cvc plan` will.
fn check(text: &str, own: Option<&OwnProgram>, apps: &Apps) -> Result<(Spec, Plan), Failure> {
    let scratch = Scratch::new("cvc-init-")?;
    let mut dirs = apps.dirs.clone();
    if let Some(own) = own {
        let tried = scratch.path().join(format!("{}.toml", own.name));
        fs::write(&tried, write_descriptor(own, None)?).map_err(StoreError::io("write", &tried))?;
        dirs.insert(0, scratch.path().as_std_path().to_owned());
    }
    let spec = campaign::load_text(
        scratch.path().join("campaign.toml").as_std_path(),
        text,
        &dirs,
    )
    .map_err(describe_wrong_answers)?;
    let plan = plan::build(&spec);
    match plan.excluded.first().filter(|_| plan.points.is_empty()) {
        Some(excluded) => {
            let hint = "change --processes, --nodes or --app; nothing was written";
            Err(wrong(
                format!("no point of this campaign can run: {}", excluded.reason),
                hint,
            ))
        }
        None => Ok((spec, plan)),
    }
}

/// Describes an error of the generated campaign file as an error in the answers, because the user has not seen the file.
fn describe_wrong_answers(SourceErrors(errors): SourceErrors) -> Failure {
    let error = errors.into_iter().next();
    let message = error.as_ref().map_or_else(
        || "the campaign is not valid".to_owned(),
        |e| e.message.clone(),
    );
    let hint = error
        .and_then(|e| e.hint)
        .unwrap_or_else(|| "change your answers".into());
    wrong(
        format!("invalid answers: {message}"),
        format!("{hint}; nothing was written"),
    )
}

/// Reports which points cannot run on this machine yet, and the consequences if DMTCP is missing.
fn report_missing(
    spec: &Spec,
    plan: &Plan,
    answers: &Answers,
    here: &LocalSoftware,
) -> Result<(), Failure> {
    if answers.place.kind() != InitSite::Local {
        let site = spec.sites.keys().next().map_or("SITE", String::as_str);
        let how = match answers.place.kind() {
            InitSite::Ec2 => "`cvc run` installs what is needed on the instances".to_owned(),
            InitSite::Local | InitSite::Ssh | InitSite::Slurm => {
                format!("`cvc doctor {site} --file FILE` checks the software of its machines")
            }
        };
        emit(how);
        for gap in SoftwareGap::find(spec, plan) {
            emit(paragraph("", &gap.describe()));
        }
        return Ok(());
    }
    if !here.has_driven {
        emit(paragraph(
            "",
            if answers.uses_driven() {
                "DMTCP was not found: until it is installed, these points are skipped (docs/dmtcp.md)"
            } else {
                "DMTCP was not found: the programs write their own checkpoints (docs/dmtcp.md)"
            },
        ));
    }
    let sites = runtime()?.block_on(ask_sites(spec, |_| Readiness::Look, |_| ()));
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for planned in &plan.points {
        if let Some(reason) = sites
            .get(&planned.point.site)
            .and_then(|site| site.obstacle(&planned.point))
        {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, points) in reasons {
        let points = counted(points, "point");
        emit(paragraph(
            "",
            &format!("cannot run yet, {points}: {reason}"),
        ));
    }
    Ok(())
}
