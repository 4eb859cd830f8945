//! `cvc interrupt`

use crate::{args::InterruptArgs, exit_status::ExitStatus, failure::Failure, output::emit};
use cvc_controller::runner::{InterruptRequest, PendingInterrupt};
use cvc_core::store::CampaignLock;
use cvc_session::campaigns::campaign_dir;
use std::time::{Duration, Instant};

/// Time between two checks for the answer.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for the answer. A session checks for requests every second, but not while it opens or closes sites.
const LIMIT: Duration = Duration::from_secs(30);

pub fn interrupt(args: &InterruptArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    if !CampaignLock::is_held(&dir.lock())? {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!("no session of {} is running", dir.root()),
            hint: Some("start `cvc run` in another terminal first".into()),
        });
    }
    let request = InterruptRequest {
        site: args.site.clone(),
        node: args.node.clone(),
        notice_s: args.notice,
    };
    let pending = PendingInterrupt::leave(&dir, &request)?;
    let begun = Instant::now();
    loop {
        match pending.answer() {
            Some(Ok(what)) => {
                emit(&what);
                return Ok(ExitStatus::Done);
            }
            Some(Err(message)) => {
                return Err(Failure::Other {
                    status: ExitStatus::Usage,
                    message,
                    hint: None,
                });
            }
            None if begun.elapsed() > LIMIT => {
                return Err(Failure::Other {
                    status: ExitStatus::Host,
                    message: format!(
                        "the session of {} has not answered for {} s",
                        dir.root(),
                        LIMIT.as_secs()
                    ),
                    hint: Some("it answers while runs are active".into()),
                });
            }
            None => std::thread::sleep(LOOK),
        }
    }
}
