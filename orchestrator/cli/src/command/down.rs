//! `cvc down`

use super::{campaign_dir, load, load_stored, run, runtime};
use crate::{
    args::DownArgs,
    display::{self, Varying},
    failure::Failure,
};
use cvc_controller::runner::close_campaign;
use cvc_core::stop::{StopRequest, StopSignal};
use tokio::sync::watch;

pub fn down(args: &DownArgs) -> Result<u8, Failure> {
    let dir = campaign_dir(&args.campaign, &args.which, &args.place)?;
    // the copy that is kept with the runs lacks the descriptors that lie beside the file
    let spec = if args.campaign.is_file() {
        load(&args.campaign, &args.which)?
    } else {
        load_stored(&dir).map_err(|_| Failure::Other {
            code: 2,
            message: format!("{} cannot be read by itself", dir.campaign_file()),
            hint: Some("name the campaign file instead: `cvc down FILE`".into()),
        })?
    };
    let closed = runtime()?.block_on(async {
        let (stop_request, stop_signal): (_, StopSignal) = watch::channel(StopRequest::GoOn);
        let options = run::options(&args.place)?;
        let mut observer = display::observer(args.json, Varying::default(), 0.0);
        let closed = close_campaign(&spec, &dir, &options, stop_signal, observer.as_mut()).await;
        drop(stop_request);
        Ok::<_, Failure>(closed?)
    })?;
    if !args.json {
        match closed.as_slice() {
            [] => println!("nothing of {} was open", spec.name),
            sites => println!("nothing of {} is left on {}", spec.name, sites.join(", ")),
        }
    }
    Ok(0)
}
