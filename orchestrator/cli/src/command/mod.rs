//! The commands: each parses nothing and decides little; it calls the library and shows what comes back.

mod doctor;
mod plan;
mod report;
mod run;
mod schema;
mod status;

use crate::{
    args::{Arguments, Command, Where},
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use clap::CommandFactory;
use cvc_lib::{
    run::{ReadySite, Readiness},
    spec::Spec,
    store::CampaignDir,
};
use indexmap::IndexMap;

/// Carries out the command line; the exit code of what was done.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    match arguments.command {
        Command::Plan(args) => plan::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Report(args) => report::report(&args),
        Command::Image(args) => {
            cvc_probe::image::command::run(&args, &mut std::io::stdout().lock()).map_err(Failure::Image)?;
            Ok(0)
        }
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Schema { of } => schema::schema(of),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "cvc", &mut std::io::stdout());
            Ok(0)
        }
        Command::Shepherd { job } => {
            cvc_probe::shepherd::main(&job)
                .map_err(|e| Failure::Other { code: 4, message: format!("{}: {e}", job.display()), help: None })?;
            Ok(0)
        }
    }
}

/// Reads a campaign file, with the descriptors beside it and those that cvc carries.
fn load(file: &Utf8Path) -> Result<Spec, Failure> {
    let embedded = cvc_lib::app::embedded::directory()?;
    Ok(cvc_lib::spec::load(file.as_std_path(), &[embedded])?)
}

/// The directory of a campaign that is named by its file, its directory or its name.
fn campaign_dir(campaign: &Utf8Path, place: &Where) -> Result<CampaignDir, Failure> {
    let missing = |dir: &Utf8Path| Failure::Other {
        code: 7,
        message: format!("{dir} is no campaign: it has no journal"),
        help: Some("`cvc run FILE` makes one; --campaigns says where campaigns are kept".into()),
    };
    let dir = if campaign.is_file() {
        CampaignDir::new(&place.campaigns, &load(campaign)?.name)
    } else if campaign.is_dir() {
        CampaignDir::at(campaign)
    } else {
        CampaignDir::at(&place.campaigns.join(campaign))
    };
    if dir.journal().is_file() { Ok(dir) } else { Err(missing(dir.root())) }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Other { code: 1, message: format!("cannot start: {e}"), help: None })
}

/// Asks every site of a campaign what it has.
async fn ask_sites(spec: &Spec, readiness: Readiness, mut note: impl FnMut(String)) -> IndexMap<String, ReadySite> {
    let mut sites = IndexMap::new();
    for name in spec.sites.keys() {
        if let Some(site) = ReadySite::ask(spec, name, readiness, &mut note).await {
            sites.insert(name.clone(), site);
        }
    }
    sites
}

/// A path as messages show it: relative to where the user is, if it lies below.
fn shown(path: &Utf8Path) -> Utf8PathBuf {
    let here = std::env::current_dir().ok().and_then(|d| Utf8PathBuf::from_path_buf(d).ok());
    here.and_then(|h| path.strip_prefix(h).ok().map(Utf8Path::to_owned)).unwrap_or_else(|| path.to_owned())
}

/// A text table in the style of all tables.
fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(header);
    table
}
