//! Rehearsed interruptions: another process writes requests to interrupt a node into the campaign's directory, and the running session writes its
//! answers there.

use super::{record::CampaignRecord, resources::Resources};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{CampaignDir, StoreError, remove_all, write_whole};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

/// Delay between two checks for requests.
const LOOK: Duration = Duration::from_secs(1);

/// A request to terminate a node after a notice, as a cloud would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterruptRequest {
    /// Site of the node.
    pub site: String,
    /// The node.
    pub node: String,
    /// Time from the notice to the termination, seconds.
    pub notice_s: f64,
}

/// A pending request, with the path of its answer.
#[derive(Clone, Debug)]
pub struct PendingInterrupt {
    request: Utf8PathBuf,
    answer: Utf8PathBuf,
}

/// The answer of the session: the action taken, or the reason for none.
pub type InterruptAnswer = Result<String, String>;

impl PendingInterrupt {
    /// Leaves a request for the session of a campaign.
    ///
    /// # Errors
    /// The request cannot be written.
    pub fn leave(dir: &CampaignDir, request: &InterruptRequest) -> Result<Self, StoreError> {
        let requests = requests_of(dir);
        fs::create_dir_all(&requests).map_err(StoreError::io("make", &requests))?;
        let name = format!(
            "{}-{}",
            cvc_core::clock::wall().as_microsecond(),
            std::process::id()
        );
        let pending = Self {
            request: requests.join(format!("{name}.json")),
            answer: requests.join(format!("{name}.answer")),
        };
        let text = serde_json::to_vec(request).unwrap_or_default();
        write_whole(&pending.request, &text)?;
        Ok(pending)
    }

    /// Returns the answer, once it exists.
    #[must_use]
    pub fn answer(&self) -> Option<InterruptAnswer> {
        let text = fs::read(&self.answer).ok()?;
        let answer = serde_json::from_slice(&text);
        Some(answer.unwrap_or_else(|error| Err(error.to_string())))
    }
}

impl Drop for PendingInterrupt {
    fn drop(&mut self) {
        let _ = remove_all(&self.request);
        let _ = remove_all(&self.answer);
        // fails if other requests still wait for their answers
        if let Some(requests) = self.request.parent() {
            let _ = fs::remove_dir(requests);
        }
    }
}

fn requests_of(dir: &CampaignDir) -> Utf8PathBuf {
    dir.root().join("interrupt")
}

/// Waits until there are requests without an answer. The runner calls this function again after each event. Therefore the check comes before the
/// delay: otherwise frequent events could postpone the requests forever.
pub(super) async fn wait_for_requests(dir: &CampaignDir) {
    while waiting(dir).is_empty() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the requests that have no answer yet.
fn waiting(dir: &CampaignDir) -> Vec<Utf8PathBuf> {
    let Ok(entries) = requests_of(dir).read_dir_utf8() else {
        return Vec::new();
    };
    let all: BTreeSet<Utf8PathBuf> = entries.flatten().map(|e| e.into_path()).collect();
    let has_answer = |path: &Utf8Path| all.contains(&path.with_extension("answer"));
    let is_request = |path: &&Utf8PathBuf| path.extension() == Some("json") && !has_answer(path);
    all.iter().filter(is_request).cloned().collect()
}

impl CampaignRecord<'_> {
    /// Removes requests to an earlier session: their senders no longer wait.
    pub(super) fn forget_interrupts(&self) {
        let _ = remove_all(&requests_of(&self.dir));
    }
}

impl Resources<'_> {
    /// Answers the requests that arrived since the last check.
    pub(super) fn look_for_interrupts(&mut self) {
        for path in waiting(&self.record.dir) {
            let request = fs::read(&path)
                .map_err(|error| error.to_string())
                .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
            let answer = request.and_then(|request| self.interrupt(&request));
            if let Ok(what) = &answer {
                self.record.say(what.clone());
            }
            let text = serde_json::to_vec(&answer).unwrap_or_default();
            if let Err(error) = write_whole(&path.with_extension("answer"), &text) {
                self.record.say(error.to_string());
                // if the request stayed, it would be answered again
                let _ = remove_all(&path);
            }
        }
    }

    /// Announces that a node will be taken away, and terminates it when the notice has passed.
    fn interrupt(&self, request: &InterruptRequest) -> InterruptAnswer {
        let InterruptRequest {
            site,
            node,
            notice_s,
        } = request;
        let remote = self.sites.remote(site).ok_or_else(|| {
            let kinds = "only sites of several machines that are open can be interrupted";
            format!("the site `{site}` is not open in this session: {kinds}")
        })?;
        let fleet = self.sites.fleets.get(site).map(Arc::clone);
        remote.rehearse_notice(node, *notice_s, fleet.is_none())?;
        if let Some(fleet) = fleet {
            let (node, notice) = (node.clone(), Duration::from_secs_f64(*notice_s));
            self.sites.reporter().spawn_detached(async move {
                tokio::time::sleep(notice).await;
                if let Err(error) = fleet.take_node(&node).await {
                    tracing::error!(%error, node, "the instance could not be terminated");
                }
            });
        }
        Ok(format!(
            "{site}: a rehearsed notice goes to {node}, which is taken after {notice_s:.0} s"
        ))
    }
}
