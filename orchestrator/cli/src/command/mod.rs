//! The commands. Each calls the library and prints the result; parsing and decisions are elsewhere.

mod aa_test;
mod advise;
mod bandwidth;
mod compare;
mod costs;
mod delta;
mod demo;
mod doctor;
mod down;
mod estimate;
mod expected_json;
mod explain;
mod export;
mod fsck;
mod help;
pub(crate) mod image;
mod import;
mod init;
mod install;
mod interrupt;
mod jobs;
mod measure;
mod metadata;
mod phases;
mod plan;
mod plan_view;
mod predict;
mod prices;
mod progress;
mod records;
mod reference;
mod report;
mod report_bug;
mod reproduce;
mod run;
mod run_checks;
mod schema;
mod serve;
mod sides;
mod space;
mod status;
mod strategy;
mod sweep;
mod temporary;
mod trace;
mod tryout;

use crate::{
    args::{Arguments, Command},
    complete,
    exit_status::ExitStatus,
    failure::Failure,
    output,
};
use cvc_core::paths;
use std::io::Write;

/// Runs the command and returns its exit code.
pub fn dispatch(arguments: Arguments) -> Result<ExitStatus, Failure> {
    let Some(command) = arguments.command else {
        return help::first_screen();
    };
    let needs_no_file = matches!(
        command,
        Command::Schema { .. }
            | Command::Completions { .. }
            | Command::Help { .. }
            | Command::Reference { .. }
            | Command::Shepherd
    );
    if !needs_no_file {
        require_home()?;
    }
    match command {
        Command::Demo(args) => demo::demo(&args),
        Command::Init(args) => init::init(&args),
        Command::Try(args) => tryout::try_command(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Fsck(args) => fsck::fsck(&args),
        Command::ReportBug(args) => report_bug::report_bug(&args),
        Command::Report(args) => report::report(&args),
        Command::AaTest(args) => aa_test::test(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Jobs(args) => jobs::jobs(&args),
        Command::Import(args) => import::import(&args),
        Command::Export(args) => export::export(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Image(args) => image::image(&args),
        Command::Delta(args) => delta::delta(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Phases(args) => phases::phases(&args),
        Command::Estimate(args) => estimate::estimate(&args),
        Command::Metadata(args) => metadata::metadata(&args),
        Command::Install(args) => install::install(&args),
        Command::Down(args) => down::down(&args),
        Command::Interrupt(args) => interrupt::interrupt(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Bandwidth(args) => bandwidth::bandwidth(&args),
        Command::Strategy(args) => strategy::strategy(&args),
        Command::Prices(args) => prices::prices(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Schema { of } => schema::schema(of),
        Command::Completions { shell } => {
            if let Some(script) = complete::script(shell) {
                output::shown().write_all(&script?)?;
            }
            Ok(ExitStatus::Done)
        }
        Command::Help { words } => help::help(&words),
        Command::Reference { man: None } => reference::print(),
        Command::Reference { man: Some(dir) } => reference::write_manual(&dir),
        Command::Shepherd => {
            cvc_probe::shepherd::main().map_err(|e| Failure::Other {
                status: ExitStatus::Host,
                message: e.to_string(),
                hint: None,
            })?;
            Ok(ExitStatus::Done)
        }
    }
}

/// Returns an error if a command stores files below the user's home and no home is known.
fn require_home() -> Result<(), Failure> {
    if paths::home().is_some() {
        return Ok(());
    }
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!(
            "your home directory is unknown: HOME is not set, and the system's list of users has no number {}",
            nix::unistd::getuid()
        ),
        hint: Some("set HOME to a directory that you may write".into()),
    })
}
