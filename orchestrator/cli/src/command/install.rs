//! `cvc install`

use crate::{
    args::{InstallArgs, SiteOf},
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output, session_log,
    text::shown,
};
use cvc_core::campaign::Spec;
use cvc_core::plan::{self};
use cvc_core::stop::StopRequest;
use cvc_core::store::CampaignDir;
use cvc_session::{
    campaigns::{is_standing, load_of_site},
    install_one,
};
use cvc_show::Table;
use cvc_sites::install::{self, InstallReport, InstallRequest, Lock};
use std::io::Write;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::Instrument;

pub fn install(args: &InstallArgs) -> Result<ExitStatus, Failure> {
    let spec = of_site(&args.of)?;
    is_standing(&spec, &args.of.site)?;
    let plan = plan::build(&spec);
    let dir = CampaignDir::new(&args.place.campaigns, &plan.campaign);
    let limit = (!args.limit.is_empty()).then(|| args.limit.join(":"));
    let request = InstallRequest {
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
        install_one(&request, &mut stop_signal, observer.as_mut()).await
    };
    let report = runtime()?
        .block_on(installing.instrument(tracing::info_span!("campaign", name = %plan.campaign)))?;
    if !args.json && !args.check {
        show(&report, &dir)?;
    }
    Ok(ExitStatus::Done)
}

/// Returns a campaign with the given site.
pub(super) fn of_site(of: &SiteOf) -> Result<Spec, Failure> {
    Ok(load_of_site(
        &of.site,
        of.file.as_deref(),
        of.which.variant.as_deref(),
        &|what| output::note(what),
    )?)
}

/// Requests to stop at once on SIGINT or SIGTERM. Finished steps are kept and not repeated by the next installation.
async fn listen(stop_request: watch::Sender<StopRequest>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // at the end the stop request has no receiver
    let _ = stop_request.send(StopRequest::StopNow);
}

/// Writes inventory, variables and roles, so that the user can run ansible-playbook.
fn write_only(request: &InstallRequest<'_>, to: &camino::Utf8Path) -> Result<ExitStatus, Failure> {
    let Some(site) = request.spec.sites.get(request.site) else {
        return Ok(ExitStatus::Done);
    };
    let files = install::write(request, site, &Lock::read(request.dir)?, to)?;
    let mut out = output::shown();
    writeln!(
        out,
        "ansible-playbook -i {} --extra-vars @{} {}",
        shown(&files.inventory),
        shown(&files.vars),
        files.roles.join("site.yml")
    )?;
    Ok(ExitStatus::Done)
}

fn show(report: &InstallReport, dir: &CampaignDir) -> Result<(), Failure> {
    let lock = Lock::read(dir)?;
    let Some(site) = lock.sites.get(&report.site) else {
        return Ok(());
    };
    let mut table = Table::plain(["component", "version", "from", "at"]).wrap(&["at"]);
    for (name, component) in &site.components {
        let from = if component.package.is_empty() {
            component.source.clone()
        } else {
            format!("{} {}", component.package, component.package_version)
        };
        table.row([name, &component.version, &from, &component.path]);
    }
    output::emit(format_args!(
        "{}\nlocked in {}",
        table,
        shown(&Lock::file(dir))
    ));
    Ok(())
}
