//! Takes the lock of a campaign. If another controller holds it, possibly for hours, that is an error. A sweep holds it only while it removes
//! resources, so cvc waits for it.

use cvc_sites::error::CampaignError;

use crate::observe::{Observer, SessionProgress};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, CampaignLock, SILENCE, StoreError};
use std::time::{Duration, Instant};

/// Time within which the holder of a lock that was just taken may still identify itself as a sweep.
const SAYS_WITHIN: Duration = Duration::from_millis(300);
/// Delay between two attempts to take the lock.
const TICK: Duration = Duration::from_millis(100);

/// Takes the lock of a campaign for an operation, as in `cvc run`. Waits while a sweep holds it.
pub(super) async fn take_campaign_lock(
    dir: &CampaignDir,
    operation: &str,
    stop_signal: &StopSignal,
    observer: &mut dyn Observer,
) -> Result<CampaignLock, CampaignError> {
    let (begun, mut stop_signal, mut is_reported) = (Instant::now(), stop_signal.clone(), false);
    // number of signs of life of a holder on another machine, at the last check
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
                // without signs of life the lock is still effective on this machine
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
                    "waiting {silence_s} s for a sign of life from the process that has this campaign on another machine{holder}"
                );
                observer.on(&SessionProgress::Site { what });
            }
        }
        let is_watched = matches!(error, StoreError::Locked { beat: Some(_), .. });
        match CampaignLock::sweeping(&dir.lock()) {
            Some(pid) if !is_reported => {
                is_reported = true;
                let what = format!(
                    "waiting for `cvc sweep` (process {pid}), which removes leftovers of this campaign in a cloud"
                );
                observer.on(&SessionProgress::Site { what });
            }
            Some(_) => {}
            None if is_watched => {}
            None if begun.elapsed() < SAYS_WITHIN => {}
            None => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            // an error means that no further request to stop can arrive
            Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Err(error.into()),
        }
    }
}
