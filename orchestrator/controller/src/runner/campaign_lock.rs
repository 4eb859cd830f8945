//! The lock of a campaign. Another controller has it for hours, and that is an error; a sweep has it for as long as it removes something.

use cvc_sites::error::CampaignError;

use crate::observe::{Observer, Progress};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, CampaignLock, SILENCE, StoreError};
use std::time::{Duration, Instant};

/// Time in which a sweep that has just taken the lock says that it is one.
const SAYS_WITHIN: Duration = Duration::from_millis(300);
/// Delay between two tries.
const TICK: Duration = Duration::from_millis(100);

/// Takes the lock of a campaign for an operation, as in `cvc run`, and waits for a sweep that has it.
pub(super) async fn take_campaign_lock(
    dir: &CampaignDir,
    operation: &str,
    stop_signal: &StopSignal,
    observer: &mut dyn Observer,
) -> Result<CampaignLock, CampaignError> {
    let (begun, mut stop_signal, mut is_told) = (Instant::now(), stop_signal.clone(), false);
    // the signs of life of a holder on another machine
    let mut watched: Option<u64> = None;
    loop {
        let taken = match watched.filter(|_| begun.elapsed() >= SILENCE) {
            Some(beat) => CampaignLock::take_over(&dir.lock(), operation, beat),
            None => CampaignLock::take(&dir.lock(), operation),
        };
        let error = match taken {
            Err(error @ StoreError::Locked { .. }) => error,
            other => {
                let mut lock = other?;
                // without them the lock holds where it reaches
                let _ = lock.give_signs_of_life(operation);
                return Ok(lock);
            }
        };
        if let StoreError::Locked {
            holder,
            beat: Some(beat),
            ..
        } = &error
        {
            if watched.is_some_and(|before| before != *beat) {
                return Err(error.into());
            }
            if watched.replace(*beat).is_none() {
                let silence_s = SILENCE.as_secs();
                let what = format!(
                    "waiting {silence_s} s for a sign of life of who has this campaign on another machine{holder}"
                );
                observer.on(&Progress::Site { what });
            }
        }
        let is_watched = matches!(error, StoreError::Locked { beat: Some(_), .. });
        match CampaignLock::sweeping(&dir.lock()) {
            Some(pid) if !is_told => {
                is_told = true;
                let what = format!(
                    "waiting for `cvc sweep` (process {pid}), which removes what this campaign has left in a cloud"
                );
                observer.on(&Progress::Site { what });
            }
            Some(_) => {}
            None if is_watched => {}
            None if begun.elapsed() < SAYS_WITHIN => {}
            None => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            // an error means that nobody can ask for a stop any more
            Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Err(error.into()),
        }
    }
}
