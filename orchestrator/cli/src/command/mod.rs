//! The commands: each parses nothing and decides little; it calls the library and shows what comes back.

mod costs;
mod doctor;
mod down;
mod install;
mod measure;
mod plan;
mod predict;
mod prices;
mod reference;
mod report;
mod reproduce;
mod run;
mod schema;
mod status;
mod sweep;

use crate::{
    args::{Arguments, Command, SiteOf, Where, Which},
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use clap::CommandFactory;
use comfy_table::{ContentLineStyle, LineStyle, TableStyle};
use cvc_core::{
    campaign::{SiteKind, Spec},
    store::CampaignDir,
};
use cvc_engine::attempt::{Readiness, ReadySite, SiteContext};
use indexmap::IndexMap;
use std::sync::Arc;

/// Carries out the command line; the exit code of what was done.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    match arguments.command {
        Command::Plan(args) => plan::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Report(args) => report::report(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Image(args) => {
            cvc_probe::image::command::run(&args, &mut std::io::stdout().lock()).map_err(Failure::Image)?;
            Ok(0)
        }
        Command::Install(args) => install::install(&args),
        Command::Down(args) => down::down(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Prices(args) => prices::prices(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Schema { of } => schema::schema(of),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "cvc", &mut std::io::stdout());
            Ok(0)
        }
        Command::Reference => reference::reference(),
        Command::Shepherd { job } => {
            cvc_probe::shepherd::main(&job).map_err(|e| Failure::Other {
                code: 4,
                message: format!("{}: {e}", job.display()),
                hint: None,
            })?;
            Ok(0)
        }
    }
}

/// Reads a campaign file, with the descriptors beside it and those that cvc carries.
fn load(file: &Utf8Path, which: &Which) -> Result<Spec, Failure> {
    let embedded = cvc_core::app::embedded::directory()?;
    Ok(cvc_core::campaign::load_variant(file.as_std_path(), which.variant.as_deref(), &[embedded])?)
}

/// The campaign of `SITE [--file FILE]`. Without a file it is the only campaign file of the directory.
fn load_of_site(of: &SiteOf) -> Result<Spec, Failure> {
    let wrong = |message: String, hint: String| Failure::Other { code: 2, message, hint: Some(hint) };
    let file = match &of.file {
        Some(file) => file.clone(),
        None => {
            let mut found = campaign_files(Utf8Path::new("."));
            match found.len() {
                1 => found.swap_remove(0),
                0 => return Err(wrong("there is no campaign file in this directory".into(), "name it: --file FILE".into())),
                _ => {
                    let names: Vec<&str> = found.iter().map(|f| f.as_str()).collect();
                    return Err(wrong(
                        format!("there is more than one campaign file here: {}", names.join(", ")),
                        "name one: --file FILE".into(),
                    ));
                }
            }
        }
    };
    let spec = load(&file, &of.which)?;
    if !spec.sites.contains_key(&of.site) {
        let sites: Vec<&str> = spec.sites.keys().map(String::as_str).collect();
        return Err(wrong(format!("{file} has no site `{}`", of.site), format!("its sites: {}", sites.join(", "))));
    }
    if spec.sites[&of.site].kind == SiteKind::Ec2 {
        return Err(wrong(
            format!("the machines of the site `{}` are only there while its campaign runs", of.site),
            "`cvc run` launches them and installs what they need".into(),
        ));
    }
    Ok(spec)
}

/// The campaign files of a directory: TOML with a schema and sites.
fn campaign_files(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let has = |text: &str, start: &str| text.lines().any(|l| l.trim_start().starts_with(start));
    let is_campaign = |path: &Utf8Path| {
        std::fs::read_to_string(path).is_ok_and(|t| has(&t, "schema") && (has(&t, "[sites.") || has(&t, "[sites]") || has(&t, "sites.")))
    };
    let entries = directory.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|e| e.path().extension() == Some("toml") && is_campaign(e.path()))
        .map(|e| Utf8PathBuf::from(e.file_name()))
        .collect();
    found.sort();
    found
}

/// The campaign as it was run last: the copy of its file that is kept with its runs.
fn load_stored(dir: &CampaignDir) -> Result<Spec, Failure> {
    let embedded = cvc_core::app::embedded::directory()?;
    Ok(cvc_core::campaign::load_variant(dir.campaign_file().as_std_path(), None, &[embedded])?)
}

/// The directory of a campaign that is named by its file (and variant), its directory or its name.
fn campaign_dir(campaign: &Utf8Path, which: &Which, place: &Where) -> Result<CampaignDir, Failure> {
    let missing = |dir: &Utf8Path| Failure::Other {
        code: 7,
        message: format!("{dir} is no campaign: it has no journal"),
        hint: Some("`cvc run FILE` makes one; --campaigns says where campaigns are kept".into()),
    };
    let dir = if campaign.is_file() {
        CampaignDir::new(&place.campaigns, &load(campaign, which)?.name)
    } else if let Some(variant) = &which.variant {
        return Err(Failure::Other {
            code: 2,
            message: format!("--variant {variant} beside {campaign}, which is no campaign file"),
            hint: Some(format!("leave --variant out; the directory of a variant is called NAME-{variant}")),
        });
    } else if campaign.is_dir() {
        CampaignDir::at(campaign)
    } else {
        CampaignDir::at(&place.campaigns.join(campaign))
    };
    if dir.journal().is_file() { Ok(dir) } else { Err(missing(dir.root())) }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| Failure::Other {
        code: 1,
        message: format!("cannot start: {e}"),
        hint: None,
    })
}

/// Asks every site of a campaign that is this machine what it has.
async fn ask_sites(spec: &Spec, readiness: Readiness, mut note: impl FnMut(String)) -> IndexMap<String, ReadySite> {
    let mut sites = IndexMap::new();
    for (name, site) in &spec.sites {
        if site.kind == SiteKind::Local
            && let Some(context) = SiteContext::of(spec, name)
        {
            sites.insert(name.clone(), ReadySite::ask(Arc::new(context), readiness, &mut note).await);
        }
    }
    sites
}

/// What launches instances, in a cvc that was built with it.
#[cfg(feature = "ec2")]
fn clouds() -> Option<Arc<dyn cvc_controller::provider::Clouds>> {
    Some(Arc::new(cvc_ec2::Ec2::default()))
}

/// What launches instances: this cvc was built without.
#[cfg(not(feature = "ec2"))]
fn clouds() -> Option<Arc<dyn cvc_controller::provider::Clouds>> {
    None
}

/// A path as messages show it: relative to where the user is, if it lies below.
fn shown(path: &Utf8Path) -> Utf8PathBuf {
    let here = std::env::current_dir().ok().and_then(|d| Utf8PathBuf::from_path_buf(d).ok());
    here.and_then(|h| path.strip_prefix(h).ok().map(Utf8Path::to_owned)).unwrap_or_else(|| path.to_owned())
}

const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// A text table in the style of all tables: no lines but one below the header, so that it fits on narrow terminals and can be cut by scripts.
/// Words are never broken; columns named in `free` hold text that may be wrapped between words.
fn table<'a>(header: impl IntoIterator<Item = &'a str>, free: &[&str]) -> comfy_table::Table {
    let header: Vec<&str> = header.into_iter().collect();
    let mut table = comfy_table::Table::new();
    table.load_style(STYLE);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(&header);
    let last = header.len().saturating_sub(1);
    for (number, (column, name)) in table.column_iter_mut().zip(&header).enumerate() {
        column.set_padding((0, if number == last { 0 } else { 1 }));
        if !free.contains(name) {
            column.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Text below an indentation, wrapped between words where standard output is a terminal.
fn paragraph(indent: &str, text: &str) -> String {
    let width = comfy_table::Table::new().set_content_arrangement(comfy_table::ContentArrangement::Dynamic).width();
    wrap(indent, text, width.map(usize::from))
}

fn wrap(indent: &str, text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{indent}{text}") };
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let line = lines.last().cloned().unwrap_or_default();
        let begins = line.trim().is_empty();
        if !begins && line.chars().count() + 1 + word.chars().count() > width {
            // what follows stands a little to the right, so that items of a list are told apart
            lines.push(format!("{indent}  {word}"));
        } else if let Some(last) = lines.last_mut() {
            if !begins {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn text_is_wrapped_between_words_and_only_on_terminals() {
        assert_eq!(wrap("  ", "one two three", Some(9)), "  one two\n    three");
        assert_eq!(wrap("  ", "a-word-that-is-too-long b", Some(9)), "  a-word-that-is-too-long\n    b");
        assert_eq!(wrap("  ", "one two three", None), "  one two three");
    }
}
