//! The processes of the tests of crews: a sentinel, an agent that guards one run, and an agent that a test leads by lines. Started by the tests
//! alone; what they are is the first argument.

mod times;

use cvc_engine::crew::{Crew, CrewError, Member, whole};
use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Debug,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// For what is not to fail, also on a machine with other work.
const LIMIT: Duration = Duration::from_secs(30);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["sentinel"] => Ok(cvc_probe::sentinel::main(1.0)?),
        ["agent", dir, marker] => tokio::runtime::Runtime::new()?.block_on(guard(Path::new(dir), marker)),
        ["console", names, head, by] => tokio::runtime::Runtime::new()?.block_on(obey_all(names, head, by)),
        _ => Err(format!("{args:?}: known are `sentinel`, `agent DIRECTORY MARKER` and `console NODES HEAD ssh|srun`").into()),
    }
}

/// What starts this program as a sentinel.
fn sentinel() -> Result<Vec<String>, Box<dyn Error>> {
    let program = std::env::current_exe()?
        .into_os_string()
        .into_string()
        .map_err(|p| format!("{} is not UTF-8", p.display()))?;
    Ok(vec![program, "sentinel".into()])
}

/// Guards a run by a crew of one sentinel, whose process number it writes into `dir/ready`, until it is killed.
async fn guard(dir: &Path, marker: &str) -> Outcome {
    let crew = Crew::start(
        vec![Member {
            name: "n1".into(),
            argv: Some(sentinel()?),
        }],
        times::QUICK,
    )
    .await?;
    whole(
        crew.guard(&["n1"], marker, &[dir.to_owned()], &[], LIMIT)
            .await,
    )?;
    let pid = crew
        .hello("n1")
        .ok_or("the sentinel has not said who it is")?
        .pid;
    cvc_os::atomic_file::write(
        &dir.join("ready"),
        pid.to_string().as_bytes(),
        cvc_os::atomic_file::Durability::Visible,
    )?;
    tokio::time::sleep(Duration::from_secs(120)).await;
    Ok(())
}

fn tell(what: impl AsRef<str>) {
    // one write for a line; who does not listen any more has seen enough
    let _ = std::io::stdout().write_all(format!("> {}\n", what.as_ref()).as_bytes());
}

fn describe<T: Debug>(answers: Vec<(String, Result<T, CrewError>)>) -> String {
    let describe = answers.into_iter().map(|(host, answer)| match answer {
        Ok(answer) => format!("{host} {answer:?}"),
        Err(error) if error.is_lost() => format!("{host} is lost"),
        Err(error) => format!("{host} failed: {error}"),
    });
    describe.collect::<Vec<_>>().join("; ")
}

/// Starts a crew on these nodes of a lab, and does what the lines on standard input say, until there are no more.
async fn obey_all(names: &str, head: &str, by: &str) -> Outcome {
    let sentinel = sentinel()?;
    let members = names.split(',').map(|name| {
        let way = match by {
            "ssh" => format!("ssh -o BatchMode=yes -o ConnectTimeout=5 {name}"),
            _ => format!(
                "srun --overlap -N1 -n1 --cpu-bind=none --mpi=none --quiet --unbuffered -w {name}"
            ),
        };
        let way: Vec<String> = way.split(' ').map(str::to_owned).collect();
        Member {
            name: name.to_owned(),
            argv: (name != head).then(|| [way, sentinel.clone()].concat()),
        }
    });
    let begin = Instant::now();
    let crew = Crew::start(members.collect(), times::IN_LAB).await?;
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
    while let Some(line) = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await? {
        obey(&crew, &line?).await?;
    }
    crew.close().await;
    tell("closed");
    Ok(())
}

async fn obey(crew: &Crew, line: &str) -> Outcome {
    let names = crew.names();
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["guard", marker] => {
            let dirs = [PathBuf::from("/tmp/cvc-lab-run")];
            tell(format!(
                "guarded {}",
                describe(crew.guard(&names, marker, &dirs, &[], LIMIT).await)
            ));
        }
        ["ranks", marker] => {
            let ranks = crew.ranks(&names, marker, LIMIT).await;
            let ranks = ranks.into_iter().map(|(host, r)| {
                (
                    host,
                    r.map(|r| r.iter().map(|p| p.rank).collect::<Vec<_>>()),
                )
            });
            tell(format!("ranks {}", describe(ranks.collect())));
        }
        ["end", marker] => {
            let ended = crew.end(&names, marker, &[], 0.3, LIMIT).await;
            let ended = ended
                .into_iter()
                .map(|(host, e)| (host, e.map(|e| (e.ended.len(), e.left.len()))));
            tell(format!("ended {}", describe(ended.collect())));
        }
        ["clock", times] => {
            let times: u32 = times.parse()?;
            let begin = Instant::now();
            for _ in 0..times {
                whole(
                    crew.ask_all(&names, cvc_probe::sentinel::SentinelRequest::Clock, LIMIT)
                        .await,
                )?;
            }
            tell(format!("clocks {}", (begin.elapsed() / times).as_micros()));
        }
        ["hosts"] => {
            let facts = crew
                .facts(&names, &["/shared".into(), "/scratch-local".into()], LIMIT)
                .await;
            let facts = facts.into_iter().map(|(host, f)| {
                (
                    host,
                    f.map(|f| {
                        (
                            f.host,
                            f.places
                                .iter()
                                .map(|p| p.file_system.clone())
                                .collect::<Vec<_>>(),
                            f.interfaces.len(),
                        )
                    }),
                )
            });
            tell(format!("hosts {}", describe(facts.collect())));
        }
        ["revive"] => tell(format!("revived {}", crew.revive().await.join(" "))),
        _ => return Err(format!("unknown command `{line}`").into()),
    }
    Ok(())
}
