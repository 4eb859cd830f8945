//! An agent on a node of the lab, led by the test: commands by lines on its standard input, what happens by lines on its standard output.

use super::process::{HELPER, LIMIT};
use cvc_testkit::{Lab, lab::Node};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// Where the helper lies on the nodes.
pub const PROGRAM: &str = "/shared/crew-helper";

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
        command.args(role(lab, head, "ssh"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            events: listen(stdout),
            stdin: Some(Box::new(stdin)),
            child: Some(child),
        }
    }

    /// Submits an agent as a job on all nodes of the lab, which starts its sentinels by srun. The batch script is run by the first node. `more`
    /// is started beside it, by a shell, in the same script.
    pub fn submit(lab: &Lab, more: &str) -> Self {
        put_program(lab);
        let head = lab.node("n1");
        let nodes = lab.nodes().count();
        let script = format!(
            "#!/bin/sh\n#SBATCH -N {nodes} --exclusive -o /shared/job.out\n({more}) </dev/null &\n\
             {PROGRAM} {} </shared/to >/shared/from\n",
            role(lab, head, "srun").join(" ")
        );
        std::fs::write(lab.shared().join("job.sh"), script).unwrap();
        head.shell("mkfifo /shared/to /shared/from");
        let output = lab.ssh("login", "cd /shared && sbatch --parsable job.sh");
        assert!(output.status.success(), "{output:?}");
        // each waits for the other end
        let to = std::fs::OpenOptions::new()
            .write(true)
            .open(lab.shared().join("to"))
            .unwrap();
        let from = std::fs::File::open(lab.shared().join("from")).unwrap();
        Self {
            events: listen(from),
            stdin: Some(Box::new(to)),
            child: None,
        }
    }

    pub fn say(&mut self, command: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(format!("{command}\n").as_bytes())
            .unwrap();
    }

    /// Waits for something that starts so; what it says after that. What else is said meanwhile is passed over.
    #[track_caller]
    pub fn hears(&self, start: &str) -> Event {
        let begin = Instant::now();
        let mut others = Vec::new();
        loop {
            match self
                .events
                .recv_timeout(LIMIT.saturating_sub(begin.elapsed()))
            {
                Ok(event) => match event.text.strip_prefix(start) {
                    Some(rest) => {
                        return Event {
                            text: rest.trim().to_owned(),
                            ..event
                        };
                    }
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

/// The helper, where all nodes see it.
fn put_program(lab: &Lab) {
    let program = lab.shared().join("crew-helper");
    if !program.exists() {
        std::fs::copy(HELPER, program).unwrap();
    }
}

/// What makes the helper an agent with sentinels on all nodes.
fn role(lab: &Lab, head: &Node, by: &str) -> [String; 4] {
    let nodes: Vec<&str> = lab.nodes().map(Node::name).collect();
    [
        "console".into(),
        nodes.join(","),
        head.name().into(),
        by.into(),
    ]
}

fn listen(stdout: impl Read + Send + 'static) -> Receiver<Event> {
    let (tell, events) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Some(text) = line.strip_prefix("> ") else {
                continue;
            };
            if tell
                .send(Event {
                    text: text.to_owned(),
                    at: Instant::now(),
                })
                .is_err()
            {
                return;
            }
        }
    });
    events
}
