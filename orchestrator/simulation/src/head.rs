//! Head nodes as a controller reaches them: commands, files, and the real agent's relay over a connection that fails.

use crate::{
    agent,
    world::{Line, Shared, World},
};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{NewEvents, Relay, RelayMessage, Spool};
use cvc_core::campaign::Cluster;
use cvc_core::store::copy_tree;
use cvc_engine::host::{Host, HostError, Obstacle, Output};
use cvc_sites::remote::{
    Channel, HeadNode, MAKE_SPOOL, NodeReach, Notes, PREPARE_PROGRAM, ProgressReport, REMOVE_SPOOL,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Provides access to the simulated machines.
pub(crate) struct Network {
    pub world: World,
    pub dir: Utf8PathBuf,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a simulated network")
    }
}

impl NodeReach for Network {
    fn head_node(
        &self,
        site: &str,
        cluster: &Cluster,
        _: &Utf8Path,
        _: Notes,
    ) -> Arc<dyn HeadNode> {
        // do not identify a machine by the site, which may be renamed or get another head node
        let name = cluster
            .head
            .as_ref()
            .or(cluster.hosts.first())
            .map_or(site, |head| head.name.as_str())
            .to_owned();
        Arc::new(Head {
            world: self.world.clone(),
            home: self.dir.join(&name),
            name,
            patience: Arc::new(Mutex::new(Duration::from_secs(60))),
        })
    }
}

/// Access to a head node.
#[derive(Clone)]
struct Head {
    world: World,
    name: String,
    /// Directory of the head node's files.
    home: Utf8PathBuf,
    patience: Arc<Mutex<Duration>>,
}

impl Head {
    /// Waits until the machine can be reached, within the controller's patience.
    async fn reached(&self) -> Result<(), HostError> {
        self.world.pause(1..60).await;
        let reachable = self
            .world
            .machine(&self.name, |machine| machine.reachable.clone());
        let begun = Instant::now();
        loop {
            if reachable.get() {
                return Ok(());
            }
            let patience = *self.patience.lock();
            let Some(left) = patience
                .checked_sub(begun.elapsed())
                .filter(|left| !left.is_zero())
            else {
                let message = format!("no answer for {} s", patience.as_secs());
                return Err(HostError::Unreachable {
                    host: self.name.clone(),
                    cause: Obstacle::Silence,
                    message,
                });
            };
            // the patience may change meanwhile
            let _ = tokio::time::timeout(
                left.min(Duration::from_secs(5)),
                reachable.wait_for(|reachable| *reachable),
            )
            .await;
        }
    }

    /// Simulates a command.
    async fn carry_out(&self, argv: &[&str]) -> Output {
        let output = |code: i32, stdout: &str, stderr: &str| Output {
            code: Some(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let done = |result: io::Result<()>| {
            result.map_or_else(|e| output(1, "", &e.to_string()), |()| output(0, "", ""))
        };
        match *argv {
            ["sh", "-c", MAKE_SPOOL, "sh", root] => {
                done(fs::create_dir_all(Utf8Path::new(root).join("in")))
            }
            ["sh", "-c", REMOVE_SPOOL, "sh", root] => {
                self.world
                    .tell(format!("{}: the spool is removed", self.name));
                done(remove_with_parents(Utf8Path::new(root)))
            }
            ["sh", "-c", PREPARE_PROGRAM, "sh", bin, there, _] => match fs::create_dir_all(bin) {
                Ok(()) if Utf8Path::new(there).exists() => output(0, "there\n", ""),
                made => done(made),
            },
            [_, "start", root] => {
                match agent::start(&self.world, &self.name, Utf8Path::new(root)).await {
                    Ok(()) => output(0, "", ""),
                    Err(problem) => output(1, "", &problem),
                }
            }
            [_, "end", root] => {
                let root = Utf8Path::new(root);
                let is_alive = || {
                    self.world
                        .machine(&self.name, |machine| machine.agents.contains_key(root))
                };
                let mut waits = 0;
                while is_alive() && waits < 100 {
                    waits += 1;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                if is_alive() {
                    return output(1, "", "an agent works there");
                }
                self.world
                    .lock()
                    .live
                    .retain(|_, live| live.machine != self.name || live.root != root);
                output(0, "", "")
            }
            [_, "alive", root] => {
                let is_alive = self.world.machine(&self.name, |machine| {
                    machine.agents.contains_key(Utf8Path::new(root))
                });
                output(i32::from(!is_alive), "", "")
            }
            ["tail", ..] => output(0, "", ""),
            _ => {
                self.world.is_wrong(format!("unknown command {argv:?}"));
                output(127, "", "not found")
            }
        }
    }
}

/// Removes a spool and the empty directories above it, like [`REMOVE_SPOOL`].
fn remove_with_parents(root: &Utf8Path) -> io::Result<()> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for up in root
        .ancestors()
        .skip(1)
        .take_while(|up| up.file_name() != Some("spool"))
    {
        if fs::remove_dir(up).is_err() {
            break;
        }
    }
    Ok(())
}

#[async_trait]
impl Host for Head {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(
        &self,
        argv: &[String],
        _: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Output, HostError> {
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        HeadNode::run(self, &argv, limit).await
    }

    async fn put(&self, content: &[u8], to: &Utf8Path) -> Result<(), HostError> {
        self.reached().await?;
        let error = |source| HostError::File {
            host: self.name.clone(),
            action: "write",
            path: to.to_string(),
            source,
        };
        let staging = Utf8PathBuf::from(format!("{to}.new"));
        fs::write(&staging, content)
            .and_then(|()| fs::rename(&staging, to))
            .map_err(error)
    }

    async fn get(&self, from: &Utf8Path) -> Result<Vec<u8>, HostError> {
        self.reached().await?;
        let error = |source| HostError::File {
            host: self.name.clone(),
            action: "read",
            path: from.to_string(),
            source,
        };
        fs::read(from).map_err(error)
    }
}

#[async_trait]
impl HeadNode for Head {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(self.clone())
    }

    async fn connect(&self) -> Result<(), HostError> {
        self.reached().await
    }

    fn set_patience(&self, patience: Duration) {
        *self.patience.lock() = patience;
    }

    async fn run(&self, argv: &[&str], _: Duration) -> Result<Output, HostError> {
        loop {
            self.reached().await?;
            let output = self.carry_out(argv).await;
            // the answer may be lost with the connection; then the command is repeated
            if !self.world.happens(0.03) {
                return Ok(output);
            }
        }
    }

    async fn expand(&self, path: &str) -> Result<Utf8PathBuf, HostError> {
        self.reached().await?;
        Ok(self
            .home
            .join(path.trim_start_matches("~/").trim_start_matches('/')))
    }

    async fn upload(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        _: ProgressReport<'_>,
    ) -> Result<(), HostError> {
        self.reached().await?;
        let error = |source| HostError::File {
            host: self.name.clone(),
            action: "write",
            path: to.to_string(),
            source,
        };
        fs::copy(from, to).map(|_| ()).map_err(error)
    }

    async fn download(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        _: u64,
        _: ProgressReport<'_>,
        _: &mut u64,
    ) -> Result<(), HostError> {
        self.reached().await?;
        self.world.pause(1..500).await;
        if self.world.happens(0.03) {
            let message = "the connection broke".to_owned();
            return Err(HostError::Lost {
                host: self.name.clone(),
                during: format!("while {from} was fetched"),
                message,
            });
        }
        let error = |e: cvc_core::store::StoreError| HostError::Lost {
            host: self.name.clone(),
            during: format!("while {from} was fetched"),
            message: e.to_string(),
        };
        copy_tree(from, to).map_err(error)
    }

    async fn channel(&self, argv: &[String]) -> Result<Box<dyn Channel>, HostError> {
        self.reached().await?;
        let [_, attach, root, from, ..] = argv else {
            return Err(no_program(&self.name, argv));
        };
        let (true, Ok(from)) = (attach == "attach", from.parse()) else {
            return Err(no_program(&self.name, argv));
        };
        let state = Shared::new(Line::Fine);
        let (requests, asked) = mpsc::unbounded_channel();
        let (events, heard) = mpsc::unbounded_channel();
        let line = TheirEnd {
            world: self.world.clone(),
            name: self.name.clone(),
            events,
            last: Instant::now(),
        };
        let relay = tokio::spawn(relay(
            line,
            Utf8PathBuf::from(root),
            from,
            Queue {
                items: asked,
                next: None,
            },
            state.clone(),
        ));
        self.world.machine(&self.name, |machine| {
            machine.connections.push(state.clone());
            machine.relays.retain(|relay| !relay.is_finished());
            machine.relays.push(relay.abort_handle());
        });
        let queue = Queue {
            items: heard,
            next: None,
        };
        Ok(Box::new(OurEnd {
            world: self.world.clone(),
            requests,
            queue,
            state,
            last: Instant::now(),
        }))
    }
}

fn no_program(name: &str, argv: &[String]) -> HostError {
    HostError::NoProgram {
        host: name.to_owned(),
        program: argv.join(" "),
    }
}

/// A line in transit, with its arrival time.
type Item = (Instant, Vec<u8>);

/// Lines in transit.
struct Queue {
    items: mpsc::UnboundedReceiver<Item>,
    next: Option<Item>,
}

impl Queue {
    /// Returns the next line that arrives; `None` if the other end has closed. The future may be dropped and the method called again.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if self.next.is_none() {
            self.next = Some(self.items.recv().await?);
        }
        if let Some((at, _)) = &self.next {
            tokio::time::sleep_until(*at).await;
        }
        self.next.take().map(|(_, line)| line)
    }
}

/// The controller's end of a connection.
struct OurEnd {
    world: World,
    requests: mpsc::UnboundedSender<Item>,
    queue: Queue,
    state: Shared<Line>,
    last: Instant,
}

/// Returns a random arrival time for a message that is sent now. Messages do not overtake each other: `last` is the arrival time of the previous one.
fn arrival(world: &World, last: &mut Instant) -> Instant {
    *last = (*last).max(Instant::now() + world.ms(0..40));
    *last
}

#[async_trait]
impl Channel for OurEnd {
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        match self.state.get() {
            Line::Closed => Err(io::ErrorKind::BrokenPipe.into()),
            // the line goes into a buffer and is lost
            Line::Silent => Ok(()),
            Line::Fine => {
                let at = arrival(&self.world, &mut self.last);
                self.requests
                    .send((at, line.to_vec()))
                    .map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    async fn line(&mut self, _: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        tokio::select! {
            biased;
            () = self.state.wait_for(|line| *line == Line::Closed) => Ok(None),
            line = async {
                let line = self.queue.next().await;
                // data that arrive over a silent connection are lost
                self.state.wait_for(|line| *line != Line::Silent).await;
                line
            } => Ok(line),
        }
    }

    fn stderr_tail(&self) -> String {
        "the line broke".to_owned()
    }
}

impl Drop for OurEnd {
    fn drop(&mut self) {
        self.state.set(Line::Closed);
    }
}

/// The relay's end of a connection.
struct TheirEnd {
    world: World,
    name: String,
    events: mpsc::UnboundedSender<Item>,
    last: Instant,
}

impl TheirEnd {
    /// Sends a line, which may be damaged in transit.
    fn send(&mut self, mut line: Vec<u8>) {
        let damaged = self.world.machine(&self.name, |machine| {
            let damaged = machine.damage > 0;
            machine.damage -= u32::from(damaged);
            damaged
        });
        if damaged && self.world.happens(0.5) {
            return;
        }
        if damaged {
            let mut state = self.world.lock();
            let at = state.rng.usize(0..line.len().max(2) - 1);
            let bit = 1 << state.rng.u32(0..8);
            if let Some(byte) = line.get_mut(at)
                && *byte ^ bit != b'\n'
            {
                *byte ^= bit;
            }
        }
        let at = arrival(&self.world, &mut self.last);
        // ignore errors: a controller that has ended receives nothing
        let _ = self.events.send((at, line));
    }

    fn say(&mut self, message: &RelayMessage) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        self.send(line);
    }
}

/// Minimum and maximum delay between checks of the spool: shorter while events arrive.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(3);

/// Runs the relay of a connection until it notices that the connection is closed, or the spool is removed.
async fn relay(
    mut line: TheirEnd,
    root: Utf8PathBuf,
    from: u64,
    mut requests: Queue,
    state: Shared<Line>,
) {
    let (world, name) = (line.world.clone(), line.name.clone());
    let (mut relay, spool) = (Relay::new(&root, from), Spool::at(&root));
    let mut active = Instant::now();
    let mut ends = None;
    loop {
        let mut new = Vec::new();
        while let Ok(NewEvents::Sent) = relay.send_new(&mut new) {
            active = Instant::now();
        }
        for event in new.split_inclusive(|byte| *byte == b'\n') {
            world.tell(format!("{name}: {}", shown(event)));
            line.send(event.to_vec());
        }
        let is_alive =
            |_: &Spool| Some(world.machine(&name, |machine| machine.agents.contains_key(&root)));
        match relay.beat(is_alive) {
            Ok(Some(alive)) => {
                // set the file's time by the simulated clock
                let touched = File::options()
                    .write(true)
                    .open(spool.controller())
                    .and_then(|file| file.set_modified(world.file_time(&name)));
                if touched.is_err() {
                    return;
                }
                line.say(&alive);
            }
            Ok(None) => {}
            // the spool was removed
            Err(_) => return,
        }
        let pause = (active.elapsed() / 20).clamp(SHORTEST, LONGEST);
        tokio::select! {
            biased;
            () = state.wait_for(|line| *line != Line::Fine), if ends.is_none() => {
                // a server notices a closed connection at once, or only when its keep-alive requests remain unanswered; until then it carries out the
                // commands that have arrived
                let late = world.happens(0.4);
                ends = Some(Instant::now() + if late { world.ms(1_000..90_000) } else { Duration::ZERO });
            }
            Some(request) = requests.next() => {
                active = Instant::now();
                world.tell(format!("{name}: {}", shown(&request)));
                if let Some(answer) = Relay::take(&spool, &request) {
                    line.say(&answer);
                }
                if let Some(arrivals) = world.machine(&name, |machine| machine.agents.get(&root).map(|agent| Arc::clone(&agent.arrivals))) {
                    arrivals.notify_one();
                }
            }
            () = tokio::time::sleep(pause) => {}
        }
        if ends.is_some_and(|ends| ends <= Instant::now()) {
            return;
        }
    }
}

/// Describes an event or a request for the story, without times and random names.
fn shown(line: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    let (number, what) = (&value["seq"], value.get("request").unwrap_or(&value));
    let run = what["run"]
        .as_str()
        .or_else(|| what["planned"]["id"].as_str())
        .unwrap_or("-");
    match what["do"].as_str() {
        Some(request) => format!("request to {request} {run} {}", what["dispatch"]),
        None => format!(
            "event {number} {} {run} {}",
            what["event"].as_str().unwrap_or("-"),
            what["dispatch"]
        ),
    }
}
