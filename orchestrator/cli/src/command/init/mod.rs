//! `cvc init`

mod answers;
mod ask;
mod own;
mod text;
mod trial;

use crate::{
    args::{InitArgs, InitSite, Measure},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output::{note, tell},
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
use cvc_session::{Scratch, ask_sites, campaigns::campaign_here};
use own::OwnProgram;
use std::{collections::BTreeMap, fs, path::PathBuf};
use text::{load_own, write_descriptor};

/// The libraries that a site has without further keys.
const LIBRARIES: [&str; 2] = ["mpich", "openmpi"];
/// Fewest processes that a campaign on one machine takes by default: also a machine with one core can show what more of them change.
const USUAL_PROCESSES: u32 = 4;

/// What this machine has.
struct Here {
    mpi: Vec<String>,
    has_dmtcp: bool,
}

pub fn init(args: &InitArgs) -> Result<ExitStatus, Failure> {
    let apps = Apps::next_to(&args.file)?;
    if args.app == ["list"] {
        for name in &apps.names {
            tell(format_args!(
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
            "leave --try out, and try the descriptor there with a campaign of one point",
        ));
    }
    let here = look_around()?;
    let Some(answers) = gather(args, &apps, &here)? else {
        return Err(wrong(
            "not enough is known to write a campaign",
            "--yes takes the defaults",
        ));
    };
    let text = text::write_campaign(&answers)?;
    let (spec, plan) = check(&text, answers.own.as_ref(), &apps)?;
    if let Some(own) = &answers.own {
        fs::create_dir_all(&apps.directory).map_err(StoreError::io("make", &apps.directory))?;
        let path = apps.descriptor_of(own);
        // relative paths in it are from where it really is
        let real = apps.directory.canonicalize_utf8().ok();
        let text = write_descriptor(own, real.as_deref())?;
        write_output(&path, text.as_bytes())?;
        let about = match &own.facts.success {
            Some(found) if found.verifies => format!("a run succeeds by the line `{}`", found.line),
            Some(_) | None => "look at its success pattern before you trust a run".to_owned(),
        };
        tell(paragraph("", &format!("wrote {path}: {about}")));
    }
    write_output(&args.file, text.as_bytes())?;
    tell(format_args!(
        "wrote {}: {}, {}",
        args.file,
        counted(plan.points.len(), "point"),
        counted(plan.runs.len(), "run")
    ));
    report_missing(&spec, &plan, &answers, &here)?;
    tell(format_args!("next: cvc plan {}", args.file));
    Ok(ExitStatus::Done)
}

fn refuse_existing(path: &Utf8Path, force: bool) -> Result<(), Failure> {
    // a device or a pipe is written to, and stays
    if force || !(path.is_file() || path.is_dir()) {
        Ok(())
    } else {
        Err(wrong(
            format!("{path} exists"),
            "give another name, or --force to replace it",
        ))
    }
}

/// The applications that a campaign file in this place may name.
struct Apps {
    /// The directory next to the campaign file.
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

    /// Where the descriptor of a program of the user's own is written.
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

/// Finds out which MPI libraries and which checkpointers this machine has.
fn look_around() -> Result<Here, Failure> {
    let checkpointers = [CheckpointerKind::None, CheckpointerKind::Dmtcp];
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
    Ok(Here {
        has_dmtcp: LIBRARIES.iter().any(|mpi| runs(mpi, true)),
        mpi,
    })
}

/// Gets all answers; `None` if some are missing.
fn gather(args: &InitArgs, apps: &Apps, here: &Here) -> Result<Option<Answers>, Failure> {
    let mut asker = Asker::new(args.yes);
    let question = Question::new(
        "--measure",
        "What is to be measured? Any of: sizes, restart, overhead, compression, aggregators, scaling",
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
        Chosen::Own(own) => {
            let loaded = vec![load_own(&own)?];
            (Some(own), loaded)
        }
        Chosen::Apps(loaded) => (None, loaded),
    };
    let mut answers = Answers {
        name: campaign_name(&args.file, own.as_ref()),
        measures,
        // other machines are asked when they are used
        has_dmtcp: here.has_dmtcp || place != Place::Local,
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
    asker.finish()?;
    try_own(args, &mut asker, &mut answers, here)?;
    Ok(Some(answers))
}

/// What the campaign runs.
enum Chosen {
    Own(OwnProgram),
    Apps(Vec<LoadedApp>),
}

/// Asks what the campaign runs, and a program of the user's own for its arguments and input files.
fn choose(args: &InitArgs, asker: &mut Asker, apps: &Apps) -> Result<Option<Chosen>, Failure> {
    let load_all = |names: &[String]| -> Result<Chosen, Failure> {
        let loaded: Result<_, _> = names.iter().map(|name| apps.load(name)).collect();
        Ok(Chosen::Apps(loaded?))
    };
    let given = match &args.program {
        Some(path) => Some(Chosen::Own(OwnProgram::at(path)?)),
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
        Some(Chosen::Own(own)) => {
            refuse_existing(&apps.descriptor_of(own), args.force)?;
            own.report_library();
            // typed behind its name
            let typed = (!own.args.is_empty()).then(|| own.typed_args());
            own.ask(
                asker,
                typed.as_deref().or(args.args.as_deref()),
                &args.input,
            )?;
        }
        Some(Chosen::Apps(loaded)) => {
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
                    "--app command needs a command line, which only a campaign file says",
                    "--program PATH writes a descriptor of your program",
                ));
            }
        }
        None => {}
    }
    Ok(chosen)
}

/// A program by its path; also with its arguments behind it.
fn choose_program(text: &str) -> Result<Chosen, Failure> {
    let whole = OwnProgram::at(text.into());
    let mut words = match (&whole, cvc_core::words::split(text)) {
        (Err(_), Ok(words)) if words.len() > 1 => words.into_iter(),
        _ => return whole.map(Chosen::Own),
    };
    let path = words.next().unwrap_or_default();
    let mut own = OwnProgram::at(path.as_str().into())?;
    own.args = words.collect();
    Ok(Chosen::Own(own))
}

/// Fewest processes of a trial run, where they are among those of the campaign: a program that needs several shows it.
const TRIED_PROCESSES: u32 = 2;

/// Runs the user's program once, if that is wanted and possible, and takes over what its output shows.
fn try_own(
    args: &InitArgs,
    asker: &mut Asker,
    answers: &mut Answers,
    here: &Here,
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
    let mpi = answers.mpi.iter().find(|mpi| here.mpi.contains(mpi));
    let is_wanted = answers.place == Place::Local && !args.no_try;
    let Some(mpi) = mpi.filter(|_| is_wanted).cloned() else {
        if args.try_it {
            return Err(wrong(
                format!(
                    "--try: the library of this campaign is not here: {}",
                    answers.mpi.join(", ")
                ),
                "`cvc doctor` shows what is missing; or leave --try out",
            ));
        }
        return Ok(());
    };
    let question = format!(
        "Run {} once now, with {processes} processes and for {} s at most, to learn how it shows success and steps?",
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

/// The name of a campaign: that of its file; where that says nothing, of the program or the directory.
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

/// The value that a word of an option stands for.
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
            "Which machines? Names as ssh knows them",
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

/// Refuses aggregators for programs in which they have nothing to act on.
fn refuse_without_collective_io(answers: &Answers) -> Result<(), Failure> {
    if answers.writes_only_checkpoints() && answers.uses_dmtcp() {
        return Err(wrong(
            "--measure aggregators: a program that is named does collective I/O only in its own checkpoints, which these measures replace by DMTCP's",
            "write two campaigns: one with aggregators, one with the others; or name programs with I/O of their own, such as btio-full",
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

/// The workload of all applications.
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
    let usual = if answers.uses_dmtcp() { "W" } else { "S" };
    match known
        .iter()
        .find(|class| *class == &usual)
        .or(known.first())
    {
        None => Err(wrong(
            "--app: these applications have no workload in common",
            "choose one of them; the others need a campaign of their own",
        )),
        Some(_)
            if known.len() == 1 && others.is_empty() && first.descriptor.workloads.len() == 1 =>
        {
            Ok(None)
        }
        Some(default) => {
            let names: Vec<&str> = known.iter().map(|class| class.as_str()).collect();
            let text = format!("Which size of the problem? One of: {}", names.join(", "));
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
                    "{name} takes {}, {range} in all",
                    describe_counts(rule.rule)
                );
                return Err(wrong(
                    format!(
                        "--processes: {name} does not run with {}",
                        if *count == 1 {
                            "1 process".to_owned()
                        } else {
                            format!("{count} processes")
                        }
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
            "--app: no number of processes suits all of these applications",
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
        "How many processes in all? One number or several",
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
    here: &Here,
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
        let given: Vec<String> = parse(args.mpi.clone())?;
        if let (Some(linked), Some(own)) = (linked, &answers.own)
            && given.iter().any(|mpi| mpi != linked)
        {
            note(paragraph(
                "",
                &format!(
                    "--mpi names another library than {linked}, with which {} is linked: its runs will fail, unless the program is in a directory of its own for each library (docs/applications.md)",
                    own.file
                ),
            ));
        }
        return Ok(given);
    }
    // the program itself has answered
    if let Some(linked) = linked {
        return Ok(vec![linked.to_owned()]);
    }
    let default = match &answers.place {
        // a program of one's own was compiled with one of them
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

/// Loads and plans what is to be written, as `cvc plan` will.
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

/// An error of the file as one of the answers that it was made from: the user has not seen the file.
fn describe_wrong_answers(SourceErrors(errors): SourceErrors) -> Failure {
    let error = errors.into_iter().next();
    let message = error.as_ref().map_or_else(
        || "the campaign is not valid".to_owned(),
        |e| e.message.clone(),
    );
    let hint = error
        .and_then(|e| e.hint)
        .unwrap_or_else(|| "change the answers".into());
    wrong(
        format!("these answers do not make a campaign: {message}"),
        format!("{hint}; nothing was written"),
    )
}

/// Reports which points cannot run on this machine yet, and what DMTCP's absence means.
fn report_missing(spec: &Spec, plan: &Plan, answers: &Answers, here: &Here) -> Result<(), Failure> {
    if answers.place.kind() != InitSite::Local {
        let site = spec.sites.keys().next().map_or("SITE", String::as_str);
        let how = match answers.place.kind() {
            InitSite::Ec2 => "`cvc run` installs what is needed on the instances".to_owned(),
            InitSite::Local | InitSite::Ssh | InitSite::Slurm => {
                format!("`cvc doctor {site} --file FILE` asks the machines what they have")
            }
        };
        tell(how);
        return Ok(());
    }
    if !here.has_dmtcp {
        tell(paragraph(
            "",
            if answers.uses_dmtcp() {
                "DMTCP was not found: until it is installed, nothing is checkpointed, and these points are skipped (docs/dmtcp.md)"
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
        tell(paragraph(
            "",
            &format!("cannot run yet, {points}: {reason}"),
        ));
    }
    Ok(())
}
