//! `cvc serve`

use crate::{args::ServeArgs, exit_status::ExitStatus, failure::Failure, output::emit};
use camino::Utf8PathBuf;
use cvc_serve::{Served, Server};
use cvc_session::campaigns::campaign_dir;

pub fn serve(args: &ServeArgs) -> Result<ExitStatus, Failure> {
    let campaign = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    let name = campaign.root().file_name().unwrap_or("campaign").to_owned();
    let report = args
        .report
        .clone()
        .unwrap_or_else(|| Utf8PathBuf::from("reports").join(name))
        .join("report.html");
    let server =
        Server::listen(args.port.unwrap_or(0), Served { campaign, report }).map_err(|error| {
            Failure::Other {
                status: ExitStatus::Host,
                message: error.to_string(),
                hint: Some("leave --port out to use any free port".into()),
            }
        })?;
    emit(server.address());
    // Ctrl-C ends the process: there is nothing to clean up
    server.run(|| false);
    Ok(ExitStatus::Done)
}
