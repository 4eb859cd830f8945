//! An agent on a node of the lab, led by the test: commands by lines on its standard input, what happens by lines on its standard output.

use super::process::{ROLE, is_role};
use cvc_lib::crew::{Crew, Member, Settings, whole};
use cvc_testkit::{Lab, lab::Node};
use std::{
    collections::BTreeMap,
    fmt::Debug,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// For what is not to fail, also on a machine with other work.
const LIMIT: Duration = Duration::from_secs(30);

/// Where this test program lies on the nodes.
const PROGRAM: &str = "/shared/crew-test";

/// Times of crews in the lab.
pub const SETTINGS: Settings = Settings { beat_s: 0.25, lost_after_s: 3.0, start_limit_s: 20.0 };

/// What the agent said, and when that was heard.
#[derive(Debug)]
pub struct Event {
    pub text: String,
    pub at: Instant,
}

/// The test's end of the agent.
pub struct Console {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Event>,
}

impl Console {
    /// Starts an agent on a node, with sentinels on all nodes of the lab: its own in its process, the others by ssh.
    pub fn start(lab: &Lab, head: &Node) -> Self {
        let program = lab.shared().join("crew-test");
        if !program.exists() {
            std::fs::copy(std::env::current_exe().unwrap(), program).unwrap();
        }
        let nodes: Vec<&str> = lab.nodes().map(Node::name).collect();
        let mut command = head.command(PROGRAM);
        command.args(["--exact", "console::as_a_console", "--nocapture"]);
        command.env(ROLE, "console").env("CVC_TEST_CREW_NODES", nodes.join(",")).env("CVC_TEST_CREW_HEAD", head.name());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, events) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let Some(text) = line.strip_prefix("> ") else { continue };
                if tell.send(Event { text: text.to_owned(), at: Instant::now() }).is_err() {
                    return;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, events }
    }

    pub fn say(&mut self, command: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    /// Waits for something that starts so; what it says after that. What else is said meanwhile is passed over.
    #[track_caller]
    pub fn hears(&self, start: &str) -> Event {
        let begin = Instant::now();
        let mut others = Vec::new();
        loop {
            match self.events.recv_timeout(LIMIT.saturating_sub(begin.elapsed())) {
                Ok(event) => match event.text.strip_prefix(start) {
                    Some(rest) => return Event { text: rest.trim().to_owned(), ..event },
                    None => others.push(event.text),
                },
                Err(why) => panic!("`{start}` was not heard ({why}), but {others:?}"),
            }
        }
    }

    /// Says something, and waits for the answer.
    #[track_caller]
    pub fn ask(&mut self, command: &str, start: &str) -> String {
        self.say(command);
        self.hears(start).text
    }

    /// Closes the crew, and waits for that.
    #[track_caller]
    pub fn close(&mut self) {
        self.stdin = None;
        self.hears("closed");
    }

    /// Nothing is lost for so long.
    #[track_caller]
    pub fn is_quiet(&self, time: Duration) {
        match self.events.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tell(what: impl AsRef<str>) {
    // not by println!, so that a line is one write
    std::io::stdout().write_all(format!("> {}\n", what.as_ref()).as_bytes()).unwrap();
}

fn told<T: Debug>(answers: Vec<(String, Result<T, cvc_lib::crew::CrewError>)>) -> String {
    let told = answers.into_iter().map(|(host, answer)| match answer {
        Ok(answer) => format!("{host} {answer:?}"),
        Err(error) if error.is_lost() => format!("{host} is lost"),
        Err(error) => format!("{host} failed: {error}"),
    });
    told.collect::<Vec<_>>().join("; ")
}

/// No test by itself: the agent.
#[test]
fn as_a_console() {
    if is_role("console") {
        tokio::runtime::Runtime::new().unwrap().block_on(agent());
        std::process::exit(0);
    }
}

async fn agent() {
    let names = std::env::var("CVC_TEST_CREW_NODES").unwrap();
    let head = std::env::var("CVC_TEST_CREW_HEAD").unwrap();
    let sentinel = format!("exec env {ROLE}=sentinel {PROGRAM} --exact process::as_a_sentinel --nocapture");
    let members = names.split(',').map(|name| Member {
        name: name.to_owned(),
        argv: (name != head).then(|| ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", name, &sentinel].map(str::to_owned).to_vec()),
    });
    let begin = Instant::now();
    let crew = Crew::start(members.collect(), SETTINGS).await.unwrap_or_else(|e| panic!("{e}"));
    tell(format!("ready {}", begin.elapsed().as_micros()));
    let mut lost = crew.lost();
    tokio::spawn(async move {
        let mut before = BTreeMap::new();
        while lost.changed().await.is_ok() {
            let now = lost.borrow_and_update().clone();
            for (host, reason) in now.iter().filter(|(host, _)| !before.contains_key(*host)) {
                tell(format!("lost {host}: {reason}"));
            }
            before = now;
        }
    });
    while let Some(line) = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await.unwrap() {
        obey(&crew, &line.unwrap()).await;
    }
    crew.close().await;
    tell("closed");
}

async fn obey(crew: &Crew, line: &str) {
    let names = crew.names();
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["guard", marker] => {
            let dirs = [PathBuf::from("/tmp/cvc-lab-run")];
            tell(format!("guarded {}", told(crew.guard(&names, marker, &dirs, LIMIT).await)));
        }
        ["ranks", marker] => {
            let ranks = crew.ranks(&names, marker, LIMIT).await;
            let ranks = ranks.into_iter().map(|(host, r)| (host, r.map(|r| r.iter().map(|p| p.rank).collect::<Vec<_>>())));
            tell(format!("ranks {}", told(ranks.collect())));
        }
        ["end", marker] => {
            let ended = crew.end(&names, marker, &[], 0.3, LIMIT).await;
            let ended = ended.into_iter().map(|(host, e)| (host, e.map(|e| (e.ended.len(), e.left.len()))));
            tell(format!("ended {}", told(ended.collect())));
        }
        ["clock", times] => {
            let times: u32 = times.parse().unwrap();
            let begin = Instant::now();
            for _ in 0..times {
                whole(crew.ask_all(&names, cvc_probe::sentinel::Request::Clock, LIMIT).await).unwrap();
            }
            tell(format!("clocks {}", (begin.elapsed() / times).as_micros()));
        }
        ["hosts"] => {
            let facts = crew.facts(&names, &["/shared".into(), "/scratch-local".into()], LIMIT).await;
            let facts = facts.into_iter().map(|(host, f)| {
                (host, f.map(|f| (f.host, f.places.iter().map(|p| p.file_system.clone()).collect::<Vec<_>>(), f.interfaces.len())))
            });
            tell(format!("hosts {}", told(facts.collect())));
        }
        ["revive"] => tell(format!("revived {}", crew.revive().await.join(" "))),
        _ => panic!("`{line}` is no command"),
    }
}
