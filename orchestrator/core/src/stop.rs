//! The user's request to stop a running campaign.

use parking_lot::Mutex;
use tokio::sync::watch;

/// What the user requests from a running campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Continue.
    GoOn,
    /// The session's time is over: finish the active run, then stop. The run was not affected by the cause of this request.
    TimeOver,
    /// Finish the active run, then stop. The cause of the request, for example a shutdown, may also have ended the run.
    Finish,
    /// Stop immediately.
    StopNow,
}

/// Receiver of the user's requests.
pub type StopSignal = watch::Receiver<StopRequest>;

/// Waits until the user requests an immediate stop.
pub async fn stop_now(stop_signal: &mut StopSignal) {
    // the sender exists until the program ends; without it no request can arrive
    if stop_signal
        .wait_for(|w| *w == StopRequest::StopNow)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Passes requests on to any number of receivers. Each receiver has its own channel, so that receivers get a request in the order in which they
/// subscribed; with one common channel the order would be arbitrary.
#[derive(Debug)]
pub struct StopRequests(Mutex<(StopRequest, Vec<watch::Sender<StopRequest>>)>);

impl Default for StopRequests {
    fn default() -> Self {
        Self(Mutex::new((StopRequest::GoOn, Vec::new())))
    }
}

impl StopRequests {
    /// Returns a receiver of the current request and of later ones.
    pub fn subscribe(&self) -> StopSignal {
        let (now, senders) = &mut *self.0.lock();
        senders.retain(|sender| !sender.is_closed());
        let (sender, receiver) = watch::channel(*now);
        senders.push(sender);
        receiver
    }

    /// Returns the current request.
    pub fn now(&self) -> StopRequest {
        self.0.lock().0
    }

    /// Passes a request on, unless it is weaker than the current one.
    pub fn request(&self, request: StopRequest) {
        let (now, senders) = &mut *self.0.lock();
        if request > *now {
            *now = request;
            for sender in senders {
                sender.send_replace(request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_subscribes_hears_the_strongest_request_of_now_and_later() {
        let requests = StopRequests::default();
        let first = requests.subscribe();
        requests.request(StopRequest::StopNow);
        requests.request(StopRequest::Finish);
        let second = requests.subscribe();
        assert_eq!(
            [*first.borrow(), *second.borrow(), requests.now()],
            [StopRequest::StopNow; 3]
        );
        drop((first, second));
        requests.subscribe();
        assert_eq!(
            requests.0.lock().1.len(),
            1,
            "those that are gone are forgotten"
        );
    }
}
