//! The user's request to stop a campaign that is running.

use parking_lot::Mutex;
use tokio::sync::watch;

/// A request of the user to a running campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Go on.
    GoOn,
    /// The session's time is over: finish the run under way, then stop. It ends as it would have ended otherwise.
    TimeOver,
    /// Finish the run under way, then stop. What asked for it, as a shutdown does, may have ended the run itself.
    Finish,
    /// Stop at once.
    StopNow,
}

/// Receives the request.
pub type StopSignal = watch::Receiver<StopRequest>;

/// Waits until the user asks to stop at once.
pub async fn stop_now(stop_signal: &mut StopSignal) {
    // the sender lives as long as the program; without it no request can come
    if stop_signal
        .wait_for(|w| *w == StopRequest::StopNow)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Passes requests on to any number of receivers. Each has a channel of its own, so that they hear of a request in the order in which they
/// subscribed: those of one channel would hear of it in any order.
#[derive(Debug)]
pub struct StopRequests(Mutex<(StopRequest, Vec<watch::Sender<StopRequest>>)>);

impl Default for StopRequests {
    fn default() -> Self {
        Self(Mutex::new((StopRequest::GoOn, Vec::new())))
    }
}

impl StopRequests {
    /// Returns a receiver of this and of later requests.
    pub fn subscribe(&self) -> StopSignal {
        let (now, senders) = &mut *self.0.lock();
        senders.retain(|sender| !sender.is_closed());
        let (sender, receiver) = watch::channel(*now);
        senders.push(sender);
        receiver
    }

    /// Returns the request of now.
    pub fn now(&self) -> StopRequest {
        self.0.lock().0
    }

    /// Passes a request on, unless it asks for less than the one before.
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
