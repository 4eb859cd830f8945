//! Finds campaigns by what the command line names: a file, a directory, a campaign or a site.

use crate::{
    args::{SiteOf, Where, Which},
    display::duration,
    exit_status::ExitStatus,
    failure::Failure,
    output::note,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{self, KnownHosts, SiteKind, Spec, kept_hosts},
    clock,
    inventory::{self, InventoryProgram},
    journal::CampaignState,
    store::CampaignDir,
};
use jiff::Timestamp;

/// Reads a campaign file, with the descriptors beside it and those that cvc carries. It starts nothing.
pub fn load(file: &Utf8Path, which: &Which) -> Result<Spec, Failure> {
    load_with(file, which, &KnownHosts::new())
}

fn load_with(file: &Utf8Path, which: &Which, hosts: &KnownHosts) -> Result<Spec, Failure> {
    let embedded = cvc_core::app::embedded::directory()?;
    Ok(campaign::load_with_hosts(file.as_std_path(), which.variant.as_deref(), &[embedded], hosts)?)
}

/// Reads a campaign file for a command that starts what the file names, and asks the inventories that only programs can read for their
/// hosts.
pub fn load_and_ask(file: &Utf8Path, which: &Which) -> Result<Spec, Failure> {
    ask_inventories(load(file, which)?, file, which, None)
}

/// Asks for the hosts that are unknown, of one site or of all, and reads the file again with them.
fn ask_inventories(spec: Spec, file: &Utf8Path, which: &Which, only: Option<&str>) -> Result<Spec, Failure> {
    let mut hosts = KnownHosts::new();
    for (name, inventory) in unknown_hosts(&spec).filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let path = inventory.path.display();
        match inventory.reason {
            inventory::IS_PROGRAM => note(format_args!("running the inventory program {path} of {file}")),
            reason => note(format_args!("asking ansible-inventory for {path} of {file}, which {reason}")),
        }
        hosts.insert(name.to_owned(), inventory.ask());
    }
    if hosts.is_empty() { Ok(spec) } else { load_with(file, which, &hosts) }
}

/// The sites whose hosts nobody has asked for.
pub fn unknown_hosts(spec: &Spec) -> impl Iterator<Item = (&str, &InventoryProgram)> {
    spec.sites.iter().filter_map(|(name, site)| Some((name.as_str(), site.cluster.as_ref()?.unknown_hosts()?)))
}

/// The campaign of `SITE [--file FILE]`, with the hosts of this site: its inventory is asked if need be. Without a file it is the only campaign file of the directory.
pub fn load_of_site(of: &SiteOf) -> Result<Spec, Failure> {
    let wrong = |message: String, hint: String| Failure::Other { status: ExitStatus::Usage, message, hint: Some(hint) };
    let file = match &of.file {
        Some(file) => file.clone(),
        None => {
            let mut found = campaign_files(Utf8Path::new("."));
            match found.len() {
                1 => found.swap_remove(0),
                0 => return Err(wrong("no campaign file in this directory".into(), "name it: --file FILE".into())),
                _ => {
                    let names: Vec<&str> = found.iter().map(|f| f.as_str()).collect();
                    return Err(wrong(
                        format!("several campaign files in this directory: {}", names.join(", ")),
                        "name one: --file FILE".into(),
                    ));
                }
            }
        }
    };
    let spec = ask_inventories(load(&file, &of.which)?, &file, &of.which, Some(&of.site))?;
    if !spec.sites.contains_key(&of.site) {
        let sites: Vec<&str> = spec.sites.keys().map(String::as_str).collect();
        return Err(wrong(format!("{file} has no site `{}`", of.site), format!("its sites: {}", sites.join(", "))));
    }
    if spec.sites[&of.site].kind == SiteKind::Ec2 {
        return Err(wrong(
            format!("the machines of the site `{}` exist only while its campaign runs", of.site),
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

/// The campaign as it was last run, from the copy of its file and the list of its hosts beside its runs.
pub fn load_stored(dir: &CampaignDir) -> Result<Spec, Failure> {
    load_with(&dir.campaign_file(), &Which { variant: None }, &kept_hosts(dir)?)
}

/// A campaign file, with the hosts that the campaign last ran on where only a program could tell others.
pub fn load_with_kept_hosts(file: &Utf8Path, which: &Which, dir: &CampaignDir) -> Result<Spec, Failure> {
    let spec = load(file, which)?;
    let mut hosts = if unknown_hosts(&spec).next().is_some() { kept_hosts(dir)? } else { KnownHosts::new() };
    hosts.retain(|site, _| unknown_hosts(&spec).any(|(name, _)| name == site));
    if hosts.is_empty() { Ok(spec) } else { load_with(file, which, &hosts) }
}

/// The directory of a campaign, given by its file (and variant), its directory or its name.
pub fn campaign_dir(campaign: &Utf8Path, which: &Which, place: &Where) -> Result<CampaignDir, Failure> {
    find_campaign(campaign, which, place, |dir| dir.journal().is_file())
}

/// The same for a campaign that may have lost its journal.
pub fn campaign_dir_even_damaged(campaign: &Utf8Path, which: &Which, place: &Where) -> Result<CampaignDir, Failure> {
    find_campaign(campaign, which, place, |dir| dir.journal().is_file() || dir.runs().is_dir())
}

fn find_campaign(campaign: &Utf8Path, which: &Which, place: &Where, is_one: impl Fn(&CampaignDir) -> bool) -> Result<CampaignDir, Failure> {
    let missing = |dir: &Utf8Path| Failure::Other {
        status: ExitStatus::Store,
        message: format!("{dir} is not a campaign: it has no journal"),
        hint: Some("`cvc run FILE` makes one; --campaigns says where campaigns are kept".into()),
    };
    let dir = if campaign.is_file() {
        CampaignDir::new(&place.campaigns, &load(campaign, which)?.name)
    } else if let Some(variant) = &which.variant {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("--variant {variant} needs a campaign file, and {campaign} is not one"),
            hint: Some(format!("leave --variant out; the directory of a variant is called NAME-{variant}")),
        });
    } else if campaign.is_dir() {
        CampaignDir::at(campaign)
    } else {
        CampaignDir::at(&place.campaigns.join(campaign))
    };
    if is_one(&dir) { Ok(dir) } else { Err(missing(dir.root())) }
}

/// Warns if the last entry of a campaign's journal is ahead of the clock: times go on from there.
pub fn warn_of_clock(state: &CampaignState) {
    if let Some(warning) = clock_warning(state, Timestamp::now()) {
        note(warning);
    }
}

fn clock_warning(state: &CampaignState, wall: Timestamp) -> Option<String> {
    let (_, last) = state.span?;
    let ahead = duration(clock::ahead(last, wall)?.as_secs_f64());
    Some(format!(
        "warning: the journal's last entry, of {last:.0}, is {ahead} ahead of this machine's clock, and times go on from there\n  \
         hint: set the clock if it is wrong now; if it was wrong then, times of this campaign stay ahead, and durations are right"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::journal::{Entry, Event};
    use jiff::SignedDuration;

    #[test]
    fn a_journal_from_the_future_is_remarked_on() {
        let wall: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let of = |seconds: i64| {
            let event = Event::Opened { format: 3, campaign: "c".into(), cvc: String::new(), lineage: None };
            let entry = Entry { seq: 1, at: wall + SignedDuration::from_secs(seconds), event };
            clock_warning(&CampaignState::of(&[entry]).expect("a journal"), wall)
        };
        assert_eq!(of(0), None);
        assert_eq!(of(-86_400), None);
        let warning = of(400 * 86_400).expect("400 days ahead");
        assert!(warning.contains("2027-02-05T00:00:00Z") && warning.contains("400 days ahead"), "{warning}");
        assert_eq!(clock_warning(&CampaignState::default(), wall), None);
    }
}
