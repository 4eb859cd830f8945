//! An agent on a node of the lab, led by the test: commands by lines on its standard input, what happens by lines on its standard output.

use super::process::{ROLE, is_role};
use cvc_engine::crew::{Crew, Member, Settings, whole};
use cvc_testkit::{Lab, lab::Node};
use std::{
    collections::BTreeMap,
    fmt::Debug,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// For what is not to fail, also on a machine with other work.
const LIMIT: Duration = Duration::from_secs(30);

/// Where this test program lies on the nodes.
const PROGRAM: &str = "/shared/crew-test";

/// Times of crews in the lab.
pub const SETTINGS: Settings = Settings { beat_s: 0.25, lost_after_s: 3.0, start_limit_s: 20.0, close_limit_s: 20.0 };

/// What the agent said, and when that was heard.
#[derive(Debug)]
pub struct Event {
    pub text: String,
    pub at: Instant,
}

/// The test's end of the agent.
pub struct Console {
    /// Unless it is a job of Slurm.
    child: Option<Child>,
    stdin: Option<Box<dyn Write>>,
    events: Receiver<Event>,
}

impl Console {
    /// Starts an agent on a node, with sentinels on all nodes of the lab: its own in its process, the others by ssh.
    pub fn start(lab: &Lab, head: &Node) -> Self {
        put_program(lab);
        let mut command = head.command(PROGRAM);
        command.args(["--exact", "console::as_a_console", "--nocapture"]).envs(environment(lab, head, "ssh"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { events: listen(stdout), stdin: Some(Box::new(stdin)), child: Some(child) }
    }

    /// Submits an agent as a job on all nodes of the lab, which starts its sentinels by srun. The batch script is run by the first node. `more`
    /// is started beside it, by a shell, in the same script.
    pub fn submit(lab: &Lab, more: &str) -> Self {
        put_program(lab);
        let head = lab.node("n1");
        let variables: String = environment(lab, head, "srun").iter().map(|(k, v)| format!("export {k}='{v}'\n")).collect();
        let nodes = lab.nodes().count();
        let script = format!(
            "#!/bin/sh\n#SBATCH -N {nodes} --exclusive -o /shared/job.out\n{variables}({more}) </dev/null &\n\
             {PROGRAM} --exact console::as_a_console --nocapture </shared/to >/shared/from\n"
        );
        std::fs::write(lab.shared().join("job.sh"), script).unwrap();
        head.shell("mkfifo /shared/to /shared/from");
        let said = lab.ssh("login", "cd /shared && sbatch --parsable job.sh");
        assert!(said.status.success(), "{said:?}");
        // each waits for the other end
        let to = std::fs::OpenOptions::new().write(true).open(lab.shared().join("to")).unwrap();
        let from = std::fs::File::open(lab.shared().join("from")).unwrap();
        Self { events: listen(from), stdin: Some(Box::new(to)), child: None }
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
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// This test program, where all nodes see it.
fn put_program(lab: &Lab) {
    let program = lab.shared().join("crew-test");
    if !program.exists() {
        std::fs::copy(std::env::current_exe().unwrap(), program).unwrap();
    }
}

fn environment(lab: &Lab, head: &Node, by: &str) -> Vec<(&'static str, String)> {
    let nodes: Vec<&str> = lab.nodes().map(Node::name).collect();
    vec![
        (ROLE, "console".into()),
        ("CVC_TEST_CREW_NODES", nodes.join(",")),
        ("CVC_TEST_CREW_HEAD", head.name().into()),
        ("CVC_TEST_CREW_BY", by.into()),
    ]
}

fn listen(stdout: impl Read + Send + 'static) -> Receiver<Event> {
    let (tell, events) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Some(text) = line.strip_prefix("> ") else { continue };
            if tell.send(Event { text: text.to_owned(), at: Instant::now() }).is_err() {
                return;
            }
        }
    });
    events
}

fn tell(what: impl AsRef<str>) {
    // not by println!, so that a line is one write
    std::io::stdout().write_all(format!("> {}\n", what.as_ref()).as_bytes()).unwrap();
}

fn told<T: Debug>(answers: Vec<(String, Result<T, cvc_engine::crew::CrewError>)>) -> String {
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
    let by = std::env::var("CVC_TEST_CREW_BY").unwrap();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let sentinel = words(&format!("env {ROLE}=sentinel {PROGRAM} --exact process::as_a_sentinel --nocapture"));
    let members = names.split(',').map(|name| {
        let way = match by.as_str() {
            "ssh" => format!("ssh -o BatchMode=yes -o ConnectTimeout=5 {name}"),
            _ => format!("srun --overlap -N1 -n1 --cpu-bind=none --mpi=none --quiet --unbuffered -w {name}"),
        };
        Member { name: name.to_owned(), argv: (name != head).then(|| [words(&way), sentinel.clone()].concat()) }
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
            tell(format!("guarded {}", told(crew.guard(&names, marker, &dirs, &[], LIMIT).await)));
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
