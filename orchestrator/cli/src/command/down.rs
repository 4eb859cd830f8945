//! `cvc down`

use crate::{
    args::DownArgs,
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output::emit,
    session_log,
};
use cvc_controller::{observe::SessionProgress, runner::close_campaign};
use cvc_core::campaign::SiteKind;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_journal::CampaignState;
use cvc_session::campaigns::{campaign_dir, load_stored, load_with_kept_hosts, unknown_hosts};
use cvc_sites::error::CampaignError;
use cvc_sites::install::{remove_storage, remove_trust};
use tokio::sync::watch;
use tracing::Instrument;

pub fn down(args: &DownArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    // prefer the original file: the campaign's copy lacks the descriptors that were next to the original
    let spec = if args.campaign.is_file() {
        load_with_kept_hosts(&args.campaign, args.which.variant.as_deref(), &dir)?
    } else {
        load_stored(&dir).map_err(|_| Failure::Other {
            status: ExitStatus::Usage,
            message: format!("{} cannot be read by itself", dir.campaign_file()),
            hint: Some("give the campaign file instead: `cvc down FILE`".into()),
        })?
    };
    let open = CampaignState::read(&dir.journal())?.open_sites;
    if let Some((site, inventory)) = unknown_hosts(&spec).find(|(site, _)| open.contains(*site)) {
        let path = inventory.path.display();
        return Err(Failure::Other {
            status: ExitStatus::Host,
            message: format!(
                "the hosts of the open site `{site}` are unknown: its inventory {path} {}",
                inventory.why_unknown()
            ),
            hint: Some(inventory.hint()),
        });
    }
    session_log::begin(&dir);
    let closing = async {
        let (stop_request, mut stop_signal): (_, StopSignal) = watch::channel(StopRequest::GoOn);
        let options = machine(&args.place).options()?;
        let mut observer = display::observer(args.json, Varying::default(), 0.0);
        let closed = close_campaign(
            &spec,
            &dir,
            &options,
            &args.forget,
            stop_signal.clone(),
            observer.as_mut(),
        )
        .await;
        let closed = closed?;
        let mut taken_down = Vec::new();
        for (name, site) in spec.sites.iter().filter(|_| args.storage) {
            let mut on = |event| observer.on(&SessionProgress::Install(event));
            let base = spec.directory();
            let areas = remove_storage(name, site, base, &dir, &mut stop_signal, &mut on)
                .await
                .map_err(CampaignError::from)?;
            taken_down.extend(areas.into_iter().map(|area| (name.clone(), area)));
        }
        drop(stop_request);
        let mut without_keys = Vec::new();
        for (name, site) in spec
            .sites
            .iter()
            .filter(|(_, site)| args.keys && site.kind == SiteKind::Ssh)
        {
            let hosts = remove_trust(name, site, spec.directory())
                .await
                .map_err(CampaignError::from)?;
            without_keys.push((name.clone(), hosts));
        }
        Ok::<_, Failure>((closed, without_keys, taken_down))
    };
    let (closed, without_keys, taken_down) = runtime()?
        .block_on(closing.instrument(tracing::info_span!("campaign", name = %spec.name)))?;
    if !args.json {
        match closed.as_slice() {
            [] => emit(format_args!("{} had nothing running", spec.name)),
            sites => emit(format_args!(
                "nothing of {} is left on {}",
                spec.name,
                sites.join(", ")
            )),
        }
        for (site, area) in taken_down {
            emit(format_args!(
                "{site}: the file system of the storage area {area} is gone"
            ));
        }
        for (site, hosts) in without_keys {
            match hosts.as_slice() {
                [] => emit(format_args!("{site}: no host accepts keys of cvc")),
                hosts => emit(format_args!(
                    "{site}: keys of the other nodes removed on {}",
                    hosts.join(", ")
                )),
            }
        }
    }
    Ok(ExitStatus::Done)
}
