//! Finds campaigns by an argument of the command line: a file, a directory, a campaign or a site.

use crate::error::SessionError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app;
use cvc_core::campaign::{self, KnownHosts, Site, SiteKind, SmallCampaign, Spec, kept_hosts};
use cvc_core::clock;
use cvc_core::inventory::{Inventory, InventoryError, InventoryKind};
use cvc_core::mapping::Mapping;
use cvc_core::plan::Plan;
use cvc_core::point::CheckpointerKind;
use cvc_core::store::{CampaignDir, StoreError, read_text};
use cvc_core::units::duration;
use cvc_journal::CampaignState;
use cvc_sites::inventory::ask;
use jiff::Timestamp;

/// Receives progress messages.
pub type ReportFn<'a> = &'a dyn Fn(&str);

/// Reads a campaign file, with the application descriptors next to it and the built-in ones. Starts no program.
pub fn load(file: &Utf8Path, variant: Option<&str>) -> Result<Spec, SessionError> {
    load_with(file, variant, &KnownHosts::new())
}

fn load_with(
    file: &Utf8Path,
    variant: Option<&str>,
    hosts: &KnownHosts,
) -> Result<Spec, SessionError> {
    let embedded = cvc_core::app::embedded::directory()?;
    Ok(campaign::load_with_hosts(
        file.as_std_path(),
        variant,
        &[embedded],
        hosts,
    )?)
}

/// Returns a campaign that runs cvc's stencil kernel on this machine, with all MPI libraries that this machine may have.
///
/// # Errors
/// The built-in descriptors cannot be written.
pub fn campaign_here(
    name: &str,
    processes: u32,
    checkpointers: &[CheckpointerKind],
) -> Result<Spec, SessionError> {
    let site = Site::local();
    let kernel = app::embedded::directory()?.join("kernel-stencil.toml");
    let campaign = SmallCampaign {
        name: name.to_owned(),
        path: format!("{name}.toml").into(),
        site_name: "local".into(),
        mpi: site.mpi.keys().cloned().collect(),
        site,
        app: app::load::load(&kernel)?,
        class: Some("S".into()),
        mapping: Mapping::one_node(processes),
        checkpointers: checkpointers.to_vec(),
    };
    Ok(campaign.into_spec(|_, _| ())?)
}

/// The kinds of inventories that a command may query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Askable {
    /// Inventories that are text files, for which Ansible starts no program. If Ansible is missing, their hosts stay unknown.
    Texts,
    /// All inventories, including programs that the campaign file names.
    All,
}

/// Reads a campaign file, and queries its inventories for their hosts.
pub fn load_and_ask(
    file: &Utf8Path,
    variant: Option<&str>,
    askable: Askable,
    report: ReportFn<'_>,
) -> Result<Spec, SessionError> {
    ask_inventories(load(file, variant)?, (file, variant), None, askable, report)
}

/// Queries the inventories of sites with unknown hosts (of one site, or of all sites), and reads the campaign file again with the hosts.
fn ask_inventories(
    spec: Spec,
    (file, variant): (&Utf8Path, Option<&str>),
    only: Option<&str>,
    askable: Askable,
    report: ReportFn<'_>,
) -> Result<Spec, SessionError> {
    let mut hosts = KnownHosts::new();
    for (name, inventory) in
        unknown_hosts(&spec).filter(|(name, _)| only.is_none_or(|only| only == *name))
    {
        let path = inventory.path.display();
        match (inventory.kind, askable) {
            (InventoryKind::Text, _) => {}
            (_, Askable::Texts) => continue,
            (InventoryKind::Program, Askable::All) => {
                report(&format!("running the inventory program {path} of {file}"));
            }
            (kind, Askable::All) => report(&format!(
                "querying ansible-inventory for {path} of {file}, which {}",
                kind.describe()
            )),
        }
        let answer = ask(inventory);
        if askable == Askable::Texts && matches!(answer, Err(InventoryError::NeedsAnsible { .. })) {
            continue;
        }
        hosts.insert(name.to_owned(), answer);
    }
    if hosts.is_empty() {
        return Ok(spec);
    }
    // hosts that are already known stay
    let known = spec.sites.iter().filter_map(|(name, site)| {
        let cluster = site.cluster.as_ref().filter(|c| c.inventory.is_some())?;
        (!cluster.hosts.is_empty()).then(|| (name.clone(), Ok(cluster.hosts.clone())))
    });
    hosts.extend(known);
    load_with(file, variant, &hosts)
}

/// Returns the sites whose hosts are unknown, because their inventories were not queried.
pub fn unknown_hosts(spec: &Spec) -> impl Iterator<Item = (&str, &Inventory)> {
    spec.sites
        .iter()
        .filter_map(|(name, site)| Some((name.as_str(), site.cluster.as_ref()?.unknown_hosts()?)))
}

/// Reads the campaign that has a site, with the hosts of this site; queries the site's inventory if necessary. Without `file`, reads the only
/// campaign file of the current directory.
///
/// # Errors
/// The file is missing, invalid, or has no such site.
pub fn load_of_site(
    site: &str,
    file: Option<&Utf8Path>,
    variant: Option<&str>,
    report: ReportFn<'_>,
) -> Result<Spec, SessionError> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => only_campaign_file(Utf8Path::new("."), "name it: --file FILE")?,
    };
    let spec = load(&file, variant)?;
    let spec = ask_inventories(spec, (&file, variant), Some(site), Askable::All, report)?;
    if !spec.sites.contains_key(site) {
        let sites: Vec<&str> = spec.sites.keys().map(String::as_str).collect();
        return Err(SessionError::asked(
            format!("{file} has no site `{site}`"),
            format!("its sites: {}", sites.join(", ")),
        ));
    }
    Ok(spec)
}

/// Checks that the machines of a site exist independently of campaigns.
///
/// # Errors
/// The machines are cloud instances, which exist only during a campaign.
pub fn is_standing(spec: &Spec, site: &str) -> Result<(), SessionError> {
    match spec.sites.get(site) {
        Some(found) if found.kind == SiteKind::Ec2 => Err(SessionError::ImpossibleRequest {
            message: format!("the machines of the site `{site}` exist only while its campaign runs"),
            hint: "`cvc run` launches them and installs their software; `cvc doctor` checks the requirements".into(),
        }),
        _ => Ok(()),
    }
}

/// Returns the campaign file that a path names: the path itself or, if it is a directory, the only campaign file in it.
///
/// # Errors
/// The directory contains no campaign file, or several.
pub fn campaign_file(path: &Utf8Path) -> Result<Utf8PathBuf, SessionError> {
    match path.is_dir() {
        true => only_campaign_file(path, "name it: FILE"),
        false => Ok(path.to_owned()),
    }
}

fn only_campaign_file(directory: &Utf8Path, hint: &str) -> Result<Utf8PathBuf, SessionError> {
    let mut found = campaign_files(directory);
    let place = match directory.as_str() {
        "." => "this directory",
        other => other,
    };
    let message = match found.as_slice() {
        [_] => {
            return Ok(match directory.as_str() {
                "." => found.swap_remove(0),
                _ => directory.join(found.swap_remove(0)),
            });
        }
        [] => format!("no campaign file in {place}"),
        several => format!(
            "several campaign files in {place}: {}",
            several
                .iter()
                .map(|file| file.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Err(SessionError::asked(message, hint))
}

/// Returns the campaign file of this name that launches instances, in one of these directories; files that cannot be read are skipped.
pub fn launching_file(name: &str, directories: &[&Utf8Path]) -> Option<Utf8PathBuf> {
    let launches = |file: &Utf8PathBuf| {
        load(file, None).is_ok_and(|spec| {
            spec.name.as_str() == name && spec.sites.values().any(|site| site.ec2.is_some())
        })
    };
    let files = directories.iter().flat_map(|directory| {
        campaign_files(directory)
            .into_iter()
            .map(|file| directory.join(file))
    });
    files.into_iter().find(launches)
}

/// Returns the campaign files of a directory: TOML files with a schema and sites.
fn campaign_files(directory: &Utf8Path) -> Vec<Utf8PathBuf> {
    let has = |text: &str, start: &str| text.lines().any(|l| l.trim_start().starts_with(start));
    let is_campaign = |path: &Utf8Path| {
        std::fs::read_to_string(path).is_ok_and(|t| {
            has(&t, "schema") && (has(&t, "[sites.") || has(&t, "[sites]") || has(&t, "sites."))
        })
    };
    let entries = directory.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|e| e.path().extension() == Some("toml") && is_campaign(e.path()))
        .map(|e| Utf8PathBuf::from(e.file_name()))
        .collect();
    found.sort();
    found
}

/// Reads a campaign as it was last run, from the campaign file and the list of hosts that are stored in its directory.
pub fn load_stored(dir: &CampaignDir) -> Result<Spec, SessionError> {
    load_with(&dir.campaign_file(), None, &kept_hosts(dir)?)
}

/// Reads a campaign file. Sites with inventories get the hosts from the campaign's last run. For sites without stored hosts, inventories that are
/// text files are queried.
pub fn load_with_kept_hosts(
    file: &Utf8Path,
    variant: Option<&str>,
    dir: &CampaignDir,
) -> Result<Spec, SessionError> {
    let mut spec = load(file, variant)?;
    if unknown_hosts(&spec).next().is_some() {
        spec = load_with(file, variant, &kept_hosts(dir)?)?;
    }
    ask_inventories(spec, (file, variant), None, Askable::Texts, &|_| ())
}

/// Returns the directory of a campaign. `campaign` is its file, its directory or its name; `variant` is a variant of the file.
pub fn campaign_dir(
    campaign: &Utf8Path,
    variant: Option<&str>,
    campaigns: &Utf8Path,
) -> Result<CampaignDir, SessionError> {
    find_campaign(campaign, variant, campaigns, |dir| dir.journal().is_file())
}

/// Like [`campaign_dir`], but also finds a campaign that has lost its journal.
pub fn campaign_dir_even_damaged(
    campaign: &Utf8Path,
    variant: Option<&str>,
    campaigns: &Utf8Path,
) -> Result<CampaignDir, SessionError> {
    find_campaign(campaign, variant, campaigns, |dir| {
        dir.journal().is_file() || dir.runs().is_dir()
    })
}

/// Reads the plan of a campaign.
///
/// # Errors
/// The file cannot be read, or is not a plan.
pub fn read_plan(dir: &CampaignDir) -> Result<Plan, StoreError> {
    let path = dir.plan();
    serde_json::from_str(&read_text(&path)?)
        .map_err(|error| StoreError::damaged(&path, error.line(), error.to_string()))
}

fn find_campaign(
    campaign: &Utf8Path,
    variant: Option<&str>,
    campaigns: &Utf8Path,
    is_one: impl Fn(&CampaignDir) -> bool,
) -> Result<CampaignDir, SessionError> {
    let only_file;
    let campaign = if campaign == "." && !is_one(&CampaignDir::at(campaign)) {
        only_file = campaign_file(campaign)?;
        &only_file
    } else {
        campaign
    };
    let named = CampaignDir::at(&campaigns.join(campaign));
    let is_named = is_name(campaign) && is_one(&named);
    let is_toml = campaign.extension() == Some("toml");
    // a program may have the same name as the campaign that measures it
    let dir = if campaign.is_file() && (is_toml || variant.is_some() || !is_named) {
        CampaignDir::new(campaigns, &load(campaign, variant)?.name)
    } else if let Some(variant) = variant {
        return Err(SessionError::asked(
            format!("--variant {variant} needs a campaign file, and {campaign} is not one"),
            format!("leave --variant out; the directory of a variant is called NAME-{variant}"),
        ));
    } else {
        return by_directory(campaign, named, is_named, is_one);
    };
    if is_one(&dir) {
        Ok(dir)
    } else {
        Err(SessionError::NoCampaign(vec![dir.root().to_owned()]))
    }
}

/// Returns whether a path may be the name of a campaign. Paths such as `./x`, `x/` and `a/x` name directories instead.
fn is_name(campaign: &Utf8Path) -> bool {
    campaign.file_name() == Some(campaign.as_str())
}

/// Returns the campaign in the directory at this path, or else the campaign with this name. A directory at this path that is not a campaign is
/// ignored.
fn by_directory(
    campaign: &Utf8Path,
    named: CampaignDir,
    is_named: bool,
    is_one: impl Fn(&CampaignDir) -> bool,
) -> Result<CampaignDir, SessionError> {
    let here = CampaignDir::at(campaign);
    let real = |dir: &CampaignDir| dir.root().canonicalize_utf8().ok();
    match (campaign.is_dir() && is_one(&here), is_named) {
        (true, true) if real(&here) != real(&named) => Err(SessionError::asked(
            format!(
                "{campaign} is ambiguous: ./{campaign} and {} are campaigns",
                named.root()
            ),
            format!("write ./{campaign} or {}", named.root()),
        )),
        (true, _) => Ok(here),
        (false, true) => Ok(named),
        (false, false) => {
            let mut looked = Vec::new();
            if campaign.is_dir() || !is_name(campaign) {
                looked.push(campaign.to_owned());
            }
            if is_name(campaign) && real(&here).is_none_or(|here| real(&named) != Some(here)) {
                looked.push(named.root().to_owned());
            }
            Err(SessionError::NoCampaign(looked))
        }
    }
}

/// Returns a warning if the last entry of a campaign's journal is later than the clock shows. The journal's times then continue from that entry.
pub fn clock_warning(state: &CampaignState, wall: Timestamp) -> Option<String> {
    let (_, last) = state.span?;
    let ahead = duration(clock::ahead(last, wall)?.as_secs_f64());
    Some(format!(
        "warning: the journal's last entry, of {last:.0}, is {ahead} ahead of this machine's clock, and times continue from there\n  hint: set the clock if it \
         is wrong now; if it was wrong then, times of this campaign stay ahead, but durations are correct"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_journal::{Entry, Event};
    use jiff::SignedDuration;

    #[test]
    fn a_journal_from_the_future_is_remarked_on() {
        let wall: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let of = |seconds: i64| {
            let event = Event::Opened {
                format: 3,
                campaign: "c".into(),
                cvc: String::new(),
                lineage: None,
            };
            let entry = Entry {
                seq: 1,
                at: wall + SignedDuration::from_secs(seconds),
                event,
            };
            clock_warning(&CampaignState::of(&[entry]).expect("a journal"), wall)
        };
        assert_eq!(of(0), None);
        assert_eq!(of(-86_400), None);
        let warning = of(400 * 86_400).expect("400 days ahead");
        assert!(
            warning.contains("2027-02-05T00:00:00Z") && warning.contains("400 days ahead"),
            "{warning}"
        );
        assert_eq!(clock_warning(&CampaignState::default(), wall), None);
    }
}
