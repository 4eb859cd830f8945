//! The commands: each parses nothing and decides little; it calls the library and shows the result.

mod aa_test;
mod advise;
mod compare;
mod costs;
mod delta;
mod doctor;
mod down;
mod expected_json;
mod explain;
mod export;
mod fsck;
mod image;
mod import;
mod init;
mod install;
mod measure;
mod plan;
mod plan_view;
mod predict;
mod prices;
mod progress;
mod records;
mod reference;
mod report;
mod reproduce;
mod run;
mod schema;
mod serve;
mod sides;
mod space;
mod status;
mod sweep;
mod temporary;
mod trace;

use crate::{
    args::{Arguments, Command},
    exit_status::ExitStatus,
    failure::Failure,
    help, output,
};
use cvc_core::paths;
use std::io::Write;

/// Runs the command and returns its exit code.
pub fn dispatch(arguments: Arguments) -> Result<ExitStatus, Failure> {
    let needs_no_file = matches!(
        arguments.command,
        Command::Schema { .. }
            | Command::Completions { .. }
            | Command::Reference { .. }
            | Command::Shepherd
    );
    if !needs_no_file {
        require_home()?;
    }
    match arguments.command {
        Command::Init(args) => init::init(&args),
        Command::Plan(args) => plan::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Fsck(args) => fsck::fsck(&args),
        Command::Report(args) => report::report(&args),
        Command::AaTest(args) => aa_test::test(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Import(args) => import::import(&args),
        Command::Export(args) => export::export(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Image(args) => image::image(&args),
        Command::Delta(args) => delta::delta(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Install(args) => install::install(&args),
        Command::Down(args) => down::down(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Prices(args) => prices::prices(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Schema { of } => schema::schema(of),
        Command::Completions { shell } => {
            // it panics where it cannot write
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut help::command(), "cvc", &mut script);
            output::shown().write_all(&script)?;
            Ok(ExitStatus::Done)
        }
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

/// Commands keep files below the user's home.
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
