//! `cvc install`, and `--install` of `cvc run`

use crate::{
    args::InstallArgs,
    campaigns::load_of_site,
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output, session_log,
    text::{shown, table},
};
use cvc_controller::{
    install::{self, InstallEvent, InstallReport, Lock, Request},
    observe::{Observer, Progress},
};
use cvc_core::{
    campaign::{SiteKind, Spec},
    plan::{self, Plan},
    stop::{StopRequest, StopSignal},
    store::{CampaignDir, CampaignLock, StoreError},
};
use std::io::Write;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::Instrument;

pub fn install(args: &InstallArgs) -> Result<ExitStatus, Failure> {
    let spec = load_of_site(&args.of)?;
    let plan = plan::build(&spec);
    let dir = CampaignDir::new(&args.place.campaigns, &plan.campaign);
    let limit = (!args.limit.is_empty()).then(|| args.limit.join(":"));
    let request = Request {
        spec: &spec,
        plan: &plan,
        site: &args.of.site,
        dir: &dir,
        check: args.check,
        tags: &args.tags,
        only: limit.as_deref(),
        update_lock: args.update_lock,
        limit: install::LIMIT,
    };
    if let Some(to) = &args.inventory_only {
        return write_only(&request, to);
    }
    if !args.check {
        session_log::begin(&dir);
    }
    let installing = async {
        let (stop_request, mut stop_signal) = watch::channel(StopRequest::GoOn);
        tokio::spawn(listen(stop_request));
        let mut observer = display::observer(args.json, Varying::default(), 0.0);
        one(&request, &mut stop_signal, observer.as_mut()).await
    };
    let report = runtime()?.block_on(installing.instrument(tracing::info_span!("campaign", name = %plan.campaign)))?;
    if !args.json && !args.check {
        show(&report, &dir)?;
    }
    Ok(ExitStatus::Done)
}

/// Stops at once on Ctrl-C or SIGTERM. Finished work stays and is not repeated.
async fn listen(stop_request: watch::Sender<StopRequest>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else { return };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // once everything is done nobody waits for the stop request
    let _ = stop_request.send(StopRequest::StopNow);
}

/// Writes inventory, variables and roles for running ansible-playbook by hand.
fn write_only(request: &Request<'_>, to: &camino::Utf8Path) -> Result<ExitStatus, Failure> {
    let Some(site) = request.spec.sites.get(request.site) else { return Ok(ExitStatus::Done) };
    let files = install::write(request, site, &Lock::read(request.dir)?, to)?;
    let mut out = output::shown();
    writeln!(out, "ansible-playbook -i {} --extra-vars @{} {}", shown(&files.inventory), shown(&files.vars), files.roles.join("site.yml"))?;
    Ok(ExitStatus::Done)
}

async fn one(request: &Request<'_>, stop_signal: &mut StopSignal, observer: &mut dyn Observer) -> Result<InstallReport, Failure> {
    let mut on = |event: InstallEvent| observer.on(&Progress::Install(event));
    // two at once would be in each other's way on the hosts, and in cvc.lock
    let _lock = if request.check {
        None
    } else {
        std::fs::create_dir_all(request.dir.root()).map_err(StoreError::io("make", request.dir.root()))?;
        Some(CampaignLock::take_waiting(&request.dir.lock(), "cvc install")?)
    };
    Ok(install::install(request, stop_signal, &mut on).await?)
}

fn show(report: &InstallReport, dir: &CampaignDir) -> Result<(), Failure> {
    let lock = Lock::read(dir)?;
    let Some(site) = lock.sites.get(&report.site) else { return Ok(()) };
    let mut table = table(["component", "version", "from", "at"], &["at"]);
    for (name, component) in &site.components {
        let from = if component.package.is_empty() {
            component.source.clone()
        } else {
            format!("{} {}", component.package, component.package_version)
        };
        table.add_row([name, &component.version, &from, &component.path]);
    }
    output::tell(format_args!("{}\nlocked in {}", table.trim_fmt(), shown(&Lock::file(dir))));
    Ok(())
}

/// Installs on every site that the plan uses.
pub(super) async fn all(
    spec: &Spec,
    plan: &Plan,
    dir: &CampaignDir,
    update_lock: bool,
    stop_signal: &mut StopSignal,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    // instances are set up once they are launched for the campaign
    let there = spec.sites.iter().filter(|(_, s)| s.kind != SiteKind::Ec2).map(|(name, _)| name);
    for site in there.filter(|s| plan.points.iter().any(|p| p.point.site == **s)) {
        let request = Request { spec, plan, site, dir, check: false, tags: &[], only: None, update_lock, limit: install::LIMIT };
        one(&request, stop_signal, observer).await?;
    }
    Ok(())
}
