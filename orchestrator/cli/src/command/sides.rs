//! The sides of a comparison that a command line names: campaigns, sites of campaigns, saved baselines.

use super::records::warn_of_index;
use crate::{
    args::{Where, Which},
    exit_status::ExitStatus,
    failure::Failure,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_analysis::comparison::Side;
use cvc_core::{
    ids::is_id,
    store::{StoreError, write_whole},
};
use cvc_index::Index;
use cvc_session::campaigns::campaign_dir;
use std::{
    collections::{HashMap, hash_map::Entry},
    fs,
    rc::Rc,
};

/// Name of the directory with baselines, next to the directory with campaigns.
const BASELINES: &str = "baselines";

/// A side of a comparison, with the index that it is read from.
#[derive(Clone)]
pub(super) struct OpenSide {
    pub side: Side,
    index: Rc<Index>,
    baselines: Utf8PathBuf,
}

impl OpenSide {
    /// Returns the time of the last line in the side's journal, UTC.
    pub(super) fn date(&self) -> Option<String> {
        self.index
            .meta()
            .ok()
            .and_then(|mut meta| meta.remove("last_entry"))
    }
}

/// Opens the sides that the command line names.
pub(super) fn open(
    names: &[String],
    which: &Which,
    place: &Where,
) -> Result<Vec<OpenSide>, Failure> {
    let earlier = |(i, name)| names[..i].contains(name).then_some(name);
    if let Some(twice) = names.iter().enumerate().find_map(earlier) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{twice} is given twice and cannot differ from itself"),
            hint: Some(
                "give another campaign or baseline; `cvc aa-test` compares repeats of one campaign"
                    .into(),
            ),
        });
    }
    let baselines = place
        .campaigns
        .parent()
        .unwrap_or(Utf8Path::new(""))
        .join(BASELINES);
    let mut read = HashMap::new();
    names
        .iter()
        .map(|name| one(name, which, place, &baselines, &mut read))
        .collect()
}

/// Returns the sites of a campaign as sides.
///
/// # Errors
/// The campaign has results of one site only.
pub(super) fn sites_of(alone: &OpenSide) -> Result<Vec<OpenSide>, Failure> {
    let sites = alone.side.sites();
    if sites.len() < 2 {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{} has results of one site only", alone.side.name()),
            hint: Some("give a second campaign, or a baseline saved with --save".into()),
        });
    }
    Ok(sites
        .iter()
        .filter_map(|site| {
            Some(OpenSide {
                side: alone.side.of_site(site, site)?,
                index: Rc::clone(&alone.index),
                baselines: alone.baselines.clone(),
            })
        })
        .collect())
}

fn one(
    name: &str,
    which: &Which,
    place: &Where,
    baselines: &Utf8Path,
    read: &mut HashMap<Utf8PathBuf, OpenSide>,
) -> Result<OpenSide, Failure> {
    let opened = |side: Side, index: Index| OpenSide {
        side,
        index: Rc::new(index),
        baselines: baselines.to_owned(),
    };
    if let Some(baseline) = name.strip_prefix('@') {
        let index = read_baseline(baseline, baselines)?;
        warn_of_index(Utf8Path::new(name), &index)?;
        return Ok(opened(Side::of_campaign(name, &index)?, index));
    }
    let find = |text: &str| {
        campaign_dir(
            Utf8Path::new(text),
            which.variant.as_deref(),
            &place.campaigns,
        )
    };
    let (dir, site) = match (find(name), name.rsplit_once(':')) {
        (Ok(dir), _) => (dir, None),
        (Err(_), Some((campaign, site))) if !site.contains('/') => (find(campaign)?, Some(site)),
        (Err(error), _) => return Err(error.into()),
    };
    let campaign = dir.root().file_name().unwrap_or(name);
    // two sites of the same campaign share its index
    let whole = match read.entry(dir.root().to_owned()) {
        Entry::Occupied(whole) => whole.into_mut(),
        Entry::Vacant(place) => {
            // the index is temporary, because the campaign may be running
            let index = Index::in_temporary_file(dir.root())?;
            warn_of_index(dir.root(), &index)?;
            place.insert(opened(Side::of_campaign(campaign, &index)?, index))
        }
    };
    let Some(site) = site else {
        return Ok(whole.clone());
    };
    match whole.side.of_site(site, format!("{campaign}:{site}")) {
        Some(side) => Ok(OpenSide {
            side,
            ..whole.clone()
        }),
        None => Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{campaign} has no results of a site `{site}`"),
            hint: Some(format!("its sites: {}", whole.side.sites().join(", "))),
        }),
    }
}

fn read_baseline(name: &str, baselines: &Utf8Path) -> Result<Index, Failure> {
    let file = baselines.join(format!("{name}.sqlite"));
    if !is_id(name) || !file.exists() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("there is no baseline @{name} in {baselines}"),
            hint: Some(match saved(baselines).as_slice() {
                [] => "save one: cvc compare CAMPAIGN --save NAME".to_owned(),
                names => format!("saved are: {}", names.join(", ")),
            }),
        });
    }
    Ok(Index::open_file(file)?)
}

/// Returns the names of the saved baselines.
fn saved(baselines: &Utf8Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(baselines)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(format!("@{}", name.strip_suffix(".sqlite")?))
        })
        .collect();
    names.sort();
    names
}

/// Saves the results of a side as a baseline with this name, and replaces an existing one.
pub(super) fn save(side: &OpenSide, name: &str) -> Result<Utf8PathBuf, Failure> {
    if !is_id(name) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("invalid baseline name `{name}`"),
            hint: Some("use 1 to 64 letters, digits, `-` or `_`".into()),
        });
    }
    let from = side.index.path();
    let bytes = fs::read(from).map_err(StoreError::io("read", from))?;
    fs::create_dir_all(&side.baselines).map_err(StoreError::io("create", &side.baselines))?;
    let file = side.baselines.join(format!("{name}.sqlite"));
    write_whole(&file, &bytes)?;
    Ok(file)
}
