//! Maintains the connection to an agent, which carries events and requests. Restores it whenever it is lost.

use crate::backoff::Delays;

use crate::progress::SiteReporter;

use crate::remote::{
    agent_state::{AgentEnd, AgentState, MissingEvents},
    head_node::{Channel, HeadNode, SHORT, get},
};
use camino::Utf8PathBuf;
use cvc_agent::{RelayLine, RelayMessage, read_relay_line};
use cvc_core::panics::panic_if_asked;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time without data after which the relay counts as lost; it sends a heartbeat every two seconds.
const SILENCE: Duration = Duration::from_secs(15);
/// Maximum number of consecutive starts of an agent without any new event.
const MAX_STARTS: u32 = 5;
/// Delay before the second attempt; it doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Time without an event after which the existence of the spool is checked. An agent whose spool was removed has ended by then.
const GONE_AFTER: Duration = Duration::from_secs(180);

/// Delay before a refused request is sent again.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);

/// Parameters of a connection to an agent.
pub(super) struct Connection {
    pub head_node: Arc<dyn HeadNode>,
    pub program: Utf8PathBuf,
    pub root: Utf8PathBuf,
    /// Whether agent and relay run on the same machine. Only then can the relay see whether the agent is alive, and start it again.
    pub agent_is_here: bool,
    pub agent_state: Arc<AgentState>,
    pub reporter: SiteReporter,
    /// Number of the last event received when an agent was last started, and number of starts since that event.
    pub starts: Mutex<(u64, u32)>,
}

impl Connection {
    /// Maintains the connection until this future is dropped.
    pub async fn work(&self) {
        panic_if_asked("connection");
        let mut delays = Delays::doubling(FIRST_PAUSE, MAX_PAUSE);
        let mut away: Option<Instant> = None;
        let mut missed: Option<MissingEvents> = None;
        loop {
            let from = self.agent_state.state().seq;
            let mut argv = vec![
                self.program.to_string(),
                "attach".into(),
                self.root.to_string(),
                from.to_string(),
            ];
            if self.agent_is_here {
                argv.push("--agent-is-here".into());
            }
            let why = match self.head_node.channel(&argv).await {
                Ok(channel) => {
                    self.agent_state.change(|s| s.outbox.begin_anew());
                    let (heard, why) = self.converse(channel, &mut missed).await;
                    if heard {
                        delays.reset();
                        away = None;
                    }
                    why
                }
                Err(error) => error.to_string(),
            };
            if away.is_none() {
                self.reporter.note(format!(
                    "{}: lost the connection to the agent, trying again: {why}",
                    self.head_node.name()
                ));
            }
            let since = *away.get_or_insert_with(Instant::now);
            if since.elapsed() > GONE_AFTER && self.spool_is_gone().await {
                let detail = format!(
                    "{} on {} was removed, with the runs under way",
                    self.root,
                    self.head_node.name()
                );
                self.reporter.note(detail.clone());
                self.agent_state.change(|s| {
                    s.over.get_or_insert(AgentEnd {
                        cause: None,
                        detail,
                    });
                });
                // no answer will arrive; attempts with this agent get another agent
                return std::future::pending().await;
            }
            delays.pause().await;
        }
    }

    /// Returns whether the spool was removed by a user, or by another controller that did not notice this controller. Returns false if `cvc-node` is
    /// missing too, because then the whole file system may be missing.
    async fn spool_is_gone(&self) -> bool {
        let alive = [self.program.as_str(), "alive", self.root.as_str()];
        self.agent_is_here
            && self
                .head_node
                .run(&alive, SHORT)
                .await
                .is_ok_and(|output| output.code == Some(1))
            && get(&*self.head_node, &self.root.join("orders.json"))
                .await
                .is_ok_and(|orders| orders.is_none())
    }

    /// Exchanges events and requests while the connection lasts. Returns whether any data arrived, and why the connection ended.
    ///
    /// Missing events are recorded in `missed`, and requested again over a new connection. Events that are missing a second time are skipped.
    async fn converse(
        &self,
        mut channel: Box<dyn Channel>,
        missed: &mut Option<MissingEvents>,
    ) -> (bool, String) {
        let mut heard = false;
        let mut begun = Vec::new();
        let mut deadline = Instant::now() + SILENCE;
        loop {
            let unsent = {
                let state = self.agent_state.state();
                state
                    .outbox
                    .unsent()
                    .and_then(|(number, named)| Some((number, serde_json::to_vec(named).ok()?)))
            };
            if let Some((number, mut line)) = unsent {
                line.push(b'\n');
                match tokio::time::timeout(SILENCE, channel.send(&line)).await {
                    Ok(Ok(())) => self.agent_state.change(|s| s.outbox.sent(number)),
                    Ok(Err(error)) => return (heard, error.to_string()),
                    Err(_) => return (heard, "cannot send requests".into()),
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.agent_state.outgoing.notified() => {}
                () = tokio::time::sleep_until(deadline) => return (heard, format!("no heartbeat for {} s", SILENCE.as_secs())),
                line = channel.line(&mut begun) => match line {
                    Ok(Some(line)) => {
                        heard = true;
                        deadline = Instant::now() + SILENCE;
                        if let Err(missing) = self.process_line(&line, *missed).await {
                            *missed = Some(missing);
                            return (heard, missing.to_string());
                        }
                    }
                    Ok(None) => return (heard, format!("it ended: {}", channel.stderr_tail().trim())),
                    Err(error) => return (heard, error.to_string()),
                },
            }
        }
    }

    /// Processes a line. Damaged lines are detected by gaps in the numbering.
    async fn process_line(
        &self,
        line: &[u8],
        missed: Option<MissingEvents>,
    ) -> Result<(), MissingEvents> {
        match read_relay_line(line) {
            RelayLine::Event(numbered) => {
                let message = match self.agent_state.apply_event((*numbered).clone()) {
                    Err(missing) => {
                        self.skip_missing(missing, missed)?;
                        self.agent_state.apply_event(*numbered)?
                    }
                    Ok(message) => message,
                };
                if let Some(message) = message {
                    self.reporter.note(message);
                }
            }
            RelayLine::Message(RelayMessage::Alive {
                agent,
                silent_s,
                last,
            }) => {
                // the relay sends this number after all earlier events
                if let Some(missing) = self.agent_state.missing_up_to(last) {
                    self.skip_missing(missing, missed)?;
                }
                self.agent_state.change(|s| s.replayed = true);
                match agent {
                    Some(false) => self.agent_is_gone().await,
                    Some(true) | None => self.agent_state.change(|s| s.silent_s = silent_s),
                }
            }
            RelayLine::Message(RelayMessage::Written { name }) => {
                self.agent_state.change(|s| s.outbox.remove(&name))
            }
            RelayLine::Message(RelayMessage::Refused { name, problem }) => {
                self.reporter.note(format!(
                    "{}: request {name} was refused: {problem}",
                    self.head_node.name()
                ));
                // wait: the disk may have space again later
                tokio::time::sleep(REFUSED_PAUSE).await;
                self.agent_state.change(|s| s.outbox.begin_anew());
                self.agent_state.outgoing.notify_one();
            }
            RelayLine::Damaged => self.skip_missing(self.agent_state.damaged(), missed)?,
            RelayLine::Noise => {}
        }
        Ok(())
    }

    /// Skips events that are missing a second time. Returns an error if they are missing for the first time, so that they are requested again.
    fn skip_missing(
        &self,
        missing: MissingEvents,
        missed: Option<MissingEvents>,
    ) -> Result<(), MissingEvents> {
        if missed != Some(missing) {
            return Err(missing);
        }
        self.reporter.note(format!(
            "{}: {missing}, even when requested again; continuing without them",
            self.head_node.name()
        ));
        self.agent_state.do_without(missing);
        Ok(())
    }

    /// Returns whether agents were started too often without any new event.
    fn too_often(&self) -> bool {
        let seq = self.agent_state.state().seq;
        let mut starts = self.starts.lock();
        *starts = if starts.0 == seq {
            (seq, starts.1 + 1)
        } else {
            (seq, 1)
        };
        starts.1 > MAX_STARTS
    }

    /// Starts another agent after the old one or its machine was killed. The new agent continues the old one's work.
    async fn agent_is_gone(&self) {
        let (closed, unable, over) = {
            let state = self.agent_state.state();
            (
                state.closed.is_some(),
                state.unable.is_some(),
                state.closing || state.over.is_some(),
            )
        };
        if over || unable {
            return;
        }
        if !closed {
            self.reporter.note(format!(
                "{}: the agent is gone; starting another",
                self.head_node.name()
            ));
        }
        if self.too_often() {
            let tail = self
                .head_node
                .run(
                    &["tail", "-n", "5", self.root.join("agent.log").as_str()],
                    SHORT,
                )
                .await;
            let message = tail
                .map(|o| o.stdout.trim().replace('\n', "; "))
                .unwrap_or_default();
            let detail = format!(
                "the agent on {} does not stay alive, see agent.log in {}: {message}",
                self.head_node.name(),
                self.root
            );
            self.reporter.note(detail.clone());
            self.agent_state.change(|s| {
                s.over = Some(AgentEnd {
                    cause: None,
                    detail,
                })
            });
            return;
        }
        let started = self
            .head_node
            .run(&[self.program.as_str(), "start", self.root.as_str()], SHORT)
            .await;
        match started {
            Ok(output) if output.code == Some(0) => {}
            Ok(output) => self.reporter.note(format!(
                "{}: cannot start the agent: {}",
                self.head_node.name(),
                output.stderr.trim()
            )),
            Err(error) => self.reporter.note(error.to_string()),
        }
    }
}
