//! Keeps the line to an agent: events in, requests out, again and again when the connection is lost.

use crate::{
    progress::Speaker,
    remote::{
        agent_state::{Hub, Over},
        head_node::{Channel, Gate, SHORT},
    },
};
use camino::Utf8PathBuf;
use cvc_engine::agent::{Numbered, RelaySaid};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The relay says every two seconds that it is alive: after so long it is not.
const SILENCE: Duration = Duration::from_secs(15);
/// An agent that ends at once is not started for ever.
const MOST_STARTS: u32 = 5;
/// Between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What a pump needs.
pub(super) struct Pump {
    pub gate: Gate,
    pub program: Utf8PathBuf,
    pub root: Utf8PathBuf,
    /// Whether the agent is on the machine where the relay is: only then can it say whether the agent is alive, and start it again.
    pub agent_is_here: bool,
    pub hub: Arc<Hub>,
    pub speaker: Speaker,
    /// Number of the last event when an agent was started last, and how often since.
    pub starts: Mutex<(u64, u32)>,
}

impl Pump {
    /// Works until it is dropped.
    pub async fn work(self) {
        let mut pause = FIRST_PAUSE;
        let mut away: Option<Instant> = None;
        loop {
            let from = self.hub.state().seq;
            let mut argv = vec![self.program.to_string(), "attach".into(), self.root.to_string(), from.to_string()];
            if self.agent_is_here {
                argv.push("--agent-is-here".into());
            }
            let why = match self.gate.channel(&argv).await {
                Ok(channel) => {
                    self.hub.change(|s| s.sent = 0);
                    let (heard, why) = self.converse(channel).await;
                    if heard {
                        pause = FIRST_PAUSE;
                        away = None;
                    }
                    why
                }
                Err(error) => error.to_string(),
            };
            if away.is_none() {
                self.speaker.note(format!("{}: the line to the agent is gone, trying again: {why}", self.gate.name()));
            }
            away.get_or_insert_with(Instant::now);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Speaks as long as the line holds: whether anything came, and why it ended.
    async fn converse(&self, mut channel: Channel) -> (bool, String) {
        let mut heard = false;
        let mut begun = Vec::new();
        let mut deadline = Instant::now() + SILENCE;
        loop {
            let unsent = {
                let state = self.hub.state();
                state.asked.get(state.sent).and_then(|named| serde_json::to_vec(named).ok())
            };
            if let Some(mut line) = unsent {
                line.push(b'\n');
                match tokio::time::timeout(SILENCE, channel.send(&line)).await {
                    Ok(Ok(())) => self.hub.change(|s| s.sent += 1),
                    Ok(Err(error)) => return (heard, error.to_string()),
                    Err(_) => return (heard, "nothing can be sent".into()),
                }
                continue;
            }
            tokio::select! {
                () = self.hub.outgoing.notified() => {}
                () = tokio::time::sleep_until(deadline) => return (heard, format!("nothing was heard for {} s", SILENCE.as_secs())),
                line = channel.line(&mut begun) => match line {
                    Ok(Some(line)) => {
                        heard = true;
                        deadline = Instant::now() + SILENCE;
                        self.take_in(&line).await;
                    }
                    Ok(None) => return (heard, format!("it ended: {}", channel.said().trim())),
                    Err(error) => return (heard, error.to_string()),
                },
            }
        }
    }

    async fn take_in(&self, line: &[u8]) {
        if let Ok(numbered) = serde_json::from_slice::<Numbered>(line) {
            if let Some(told) = self.hub.hear(numbered) {
                self.speaker.note(told);
            }
        } else if let Ok(said) = serde_json::from_slice::<RelaySaid>(line) {
            // the relay says this after the events that there were
            self.hub.change(|s| s.replayed = true);
            match said {
                RelaySaid::Alive { agent: Some(false), .. } => self.agent_is_gone().await,
                RelaySaid::Alive { silent_s, .. } => self.hub.change(|s| s.silent_s = silent_s),
                RelaySaid::Refused { name, problem } => {
                    self.speaker.note(format!("{}: request {name} was refused: {problem}", self.gate.name()))
                }
            }
        }
    }

    /// Whether agents were started again and again without one of them having told anything new.
    fn too_often(&self) -> bool {
        let seq = self.hub.state().seq;
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        *starts = if starts.0 == seq { (seq, starts.1 + 1) } else { (seq, 1) };
        starts.1 > MOST_STARTS
    }

    /// The agent was killed, or its machine was: another takes over what it was at.
    async fn agent_is_gone(&self) {
        let (closed, unable, over) = {
            let state = self.hub.state();
            (state.closed.is_some(), state.unable.is_some(), state.closing || state.over.is_some())
        };
        if over || unable {
            return;
        }
        if !closed {
            self.speaker.note(format!("{}: the agent is gone; another is started", self.gate.name()));
        }
        if self.too_often() {
            let tail = self.gate.run(&["tail", "-n", "5", self.root.join("agent.log").as_str()], SHORT).await;
            let said = tail.map(|o| o.stdout.trim().replace('\n', "; ")).unwrap_or_default();
            let detail = format!("the agent on {} does not stay alive, see agent.log in {}: {said}", self.gate.name(), self.root);
            self.speaker.note(detail.clone());
            self.hub.change(|s| s.over = Some(Over { cause: None, detail }));
            return;
        }
        let started = self.gate.run(&[self.program.as_str(), "start", self.root.as_str()], SHORT).await;
        match started {
            Ok(output) if output.code == Some(0) => {}
            Ok(output) => self.speaker.note(format!("{}: the agent cannot be started: {}", self.gate.name(), output.stderr.trim())),
            Err(error) => self.speaker.note(error.to_string()),
        }
    }
}
