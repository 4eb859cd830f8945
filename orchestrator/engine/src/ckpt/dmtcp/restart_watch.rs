//! Watches whether a restart from DMTCP's images can still complete. If one process fails, the others wait for it forever.

use super::{
    coordinator::{Coordinator, ask_restart},
    dmtcp_run::DmtcpRun,
    install::{Status, failed_assertion},
};
use crate::run::{GrowingFile, RunFailure, own_words, text};
use camino::Utf8PathBuf;
use cvc_core::outcome::Cause;
use std::time::{Duration, Instant};

/// Minimum interval between checks. Each check starts a program on the machine that is measured.
const TICK: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
/// The interval is the waiting time divided by this number.
const PART: u32 = 50;
/// Time for processes that may still end by themselves, such as the launcher of a lost rank.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Number of bytes of the error output that are kept for the next check, in which an incomplete line may continue.
const KEPT: usize = 16 << 10;

/// Waits until the restart of a checkpoint with this many processes can no longer complete. Does not return while it can complete.
pub(super) async fn watch(of: &DmtcpRun<'_>, peers: u32) -> RunFailure {
    let mut errors: Vec<Errors> = error_files(of).into_iter().map(Errors::new).collect();
    let (mut looks, mut assertion, begin) = (RestartObservations::new(peers), None, Instant::now());
    loop {
        tokio::time::sleep((begin.elapsed() / PART).clamp(TICK, LONGEST)).await;
        assertion = assertion.or_else(|| errors.iter_mut().find_map(Errors::read_new));
        let coordinator = ask_restart(of).await;
        let Some(what) = looks.add(coordinator, assertion.is_some(), Instant::now()) else {
            continue;
        };
        let detail = match &assertion {
            Some(line) => format!("DMTCP ended a process of the restart: {line}"),
            None => format!(
                "the restart did not end, although {what} ({})",
                own_words(&text(&of.run.dir.join(name_of(of, "stderr"))))
            ),
        };
        return RunFailure::new(Cause::Restart, detail);
    }
}

/// Returns the failed assertion of DMTCP in an ended restart.
pub(super) fn find_assertion(of: &DmtcpRun<'_>) -> Option<String> {
    error_files(of)
        .iter()
        .find_map(|path| failed_assertion(&text(path)))
}

/// Returns the name of a restart's file with this suffix.
fn name_of(of: &DmtcpRun<'_>, suffix: &str) -> String {
    of.restart
        .map_or_else(|| suffix.to_owned(), |which| which.file(suffix))
}

/// Returns the files with a restart's error output. Each node writes its own file.
fn error_files(of: &DmtcpRun<'_>) -> Vec<Utf8PathBuf> {
    let others = of
        .run
        .used
        .others()
        .into_iter()
        .map(|node| name_of(of, &format!("{node}.out")));
    [name_of(of, "stderr")]
        .into_iter()
        .chain(others)
        .map(|name| of.run.dir.join(name))
        .collect()
}

/// The growing error output of a restart.
struct Errors {
    file: GrowingFile,
    /// The last bytes that were read.
    end: Vec<u8>,
}

impl Errors {
    fn new(path: Utf8PathBuf) -> Self {
        Self {
            file: GrowingFile::new(path),
            end: Vec::new(),
        }
    }

    /// Reads new output, and returns a failed assertion in it.
    fn read_new(&mut self) -> Option<String> {
        // the file appears when the restart begins
        self.file.read_new(&mut self.end)?;
        // text after the last line end is an incomplete line
        let whole = self
            .end
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let found = failed_assertion(&String::from_utf8_lossy(&self.end[..whole]));
        self.end.drain(..self.end.len().saturating_sub(KEPT));
        found
    }
}

/// Successive observations of a restart.
#[derive(Debug)]
struct RestartObservations {
    /// Number of processes in the checkpoint.
    peers: u32,
    /// Maximum number of processes observed.
    most: u32,
    /// Whether all processes have been observed running.
    ran: bool,
    /// Time since when the observations show that the restart cannot complete.
    doubtful: Option<Instant>,
}

impl RestartObservations {
    fn new(peers: u32) -> Self {
        Self {
            peers,
            most: 0,
            ran: false,
            doubtful: None,
        }
    }

    /// Adds an observation. Returns the reason once it is certain that the restart cannot complete.
    fn add(&mut self, coordinator: Coordinator, asserted: bool, now: Instant) -> Option<String> {
        let Some(what) = self.doubt(coordinator, asserted) else {
            self.doubtful = None;
            return None;
        };
        let since = *self.doubtful.get_or_insert(now);
        // the other processes of an incomplete restart wait for the process that an assertion has ended
        let restoring = asserted && !self.ran && matches!(coordinator, Coordinator::Answers(_));
        (restoring || now.saturating_duration_since(since) >= LAST_WORDS).then_some(what)
    }

    fn doubt(&mut self, coordinator: Coordinator, asserted: bool) -> Option<String> {
        let Status { peers, running } = match coordinator {
            Coordinator::Answers(status) => status,
            Coordinator::Gone => Status {
                peers: 0,
                running: false,
            },
            // the machine may be busy
            Coordinator::Late => return None,
        };
        let lost = peers < self.most;
        self.most = self.most.max(peers);
        self.ran |= running;
        if peers == 0 {
            // before the first process has connected there are none either
            return (self.most > 0 || asserted).then(|| "all its processes have ended".to_owned());
        }
        let left = || {
            format!(
                "{peers} of {} processes are left",
                self.most.max(self.peers)
            )
        };
        if self.ran {
            // processes also disconnect when they end normally: only an assertion shows that a process failed, perhaps not one that is missing
            return (asserted && peers < self.peers).then(left);
        }
        (lost || asserted).then(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Coordinator = Coordinator::Answers(Status {
        peers: 3,
        running: true,
    });

    fn restoring(peers: u32) -> Coordinator {
        Coordinator::Answers(Status {
            peers,
            running: false,
        })
    }

    /// Returns the number, from 0, of the observation after which a restart of three processes is ended, with an observation every two seconds.
    fn ended_after(looks: &[(Coordinator, bool)]) -> Option<usize> {
        let (begin, mut all) = (Instant::now(), RestartObservations::new(3));
        looks
            .iter()
            .enumerate()
            .position(|(i, (coordinator, asserted))| {
                all.add(*coordinator, *asserted, begin + TICK * i as u32)
                    .is_some()
            })
    }

    #[test]
    fn a_restart_that_comes_and_ends_is_left_alone() {
        let ends = [
            Coordinator::Gone,
            restoring(1),
            restoring(3),
            COMPLETE,
            Coordinator::Answers(Status {
                peers: 1,
                running: true,
            }),
        ];
        let mut looks: Vec<_> = ends
            .into_iter()
            .map(|coordinator| (coordinator, false))
            .collect();
        // one process continues to work long after the others have ended
        looks.extend([looks[4]; 20]);
        // the coordinator has exited, but the restart's script has not noticed it yet
        looks.extend([(Coordinator::Gone, false); 3]);
        assert_eq!(ended_after(&looks), None);
    }

    #[test]
    fn a_slow_coordinator_proves_nothing() {
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[(Coordinator::Late, false); 20]].concat()),
            None
        );
        assert_eq!(
            ended_after(&[(Coordinator::Gone, false); 20]),
            None,
            "it is not there yet"
        );
    }

    #[test]
    fn processes_missing_for_a_while_end_it() {
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[(Coordinator::Gone, false); 20]].concat()),
            Some(6)
        );
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[(restoring(0), false); 20]].concat()),
            Some(6)
        );
        // a process disconnected before all had connected
        assert_eq!(
            ended_after(&[&[(restoring(3), false)][..], &[(restoring(2), false); 20]].concat()),
            Some(6)
        );
        let mut comes_back = vec![
            (restoring(3), false),
            (restoring(2), false),
            (restoring(3), false),
        ];
        comes_back.extend([(restoring(2), false); 5]);
        assert_eq!(ended_after(&comes_back), None, "the time begins again");
    }

    #[test]
    fn an_assertion_ends_a_restart_that_waits_for_a_process_but_not_one_that_continues() {
        assert_eq!(
            ended_after(&[(restoring(3), false), (restoring(2), true)]),
            Some(1),
            "a restart that is not complete at once"
        );
        assert_eq!(
            ended_after(&[(COMPLETE, true); 20]),
            None,
            "it was in none of its processes"
        );
        let one_gone = (
            Coordinator::Answers(Status {
                peers: 2,
                running: true,
            }),
            true,
        );
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[one_gone; 20]].concat()),
            Some(6),
            "its launcher may end the others"
        );
        assert_eq!(
            ended_after(&[(Coordinator::Gone, true); 20]),
            Some(5),
            "it was before the first look"
        );
    }

    #[test]
    fn an_assertion_is_read_once_its_line_is_complete() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("restart.stderr")).expect("UTF-8");
        let mut errors = Errors::new(path.clone());
        assert_eq!(errors.read_new(), None, "there is no file yet");
        let mut written =
            "x".repeat(1 << 20) + "\n[41000] ERROR at sysvipc.cpp:77 in refill; REASON='JASS";
        std::fs::write(&path, &written).expect("writes");
        assert_eq!(errors.read_new(), None);
        assert!(errors.end.len() <= KEPT, "{}", errors.end.len());
        written += "ERT(_realId != -1) failed'\n";
        std::fs::write(&path, &written).expect("writes");
        assert_eq!(
            errors.read_new().as_deref(),
            Some(
                "[41000] ERROR at sysvipc.cpp:77 in refill; REASON='JASSERT(_realId != -1) failed'"
            )
        );
    }
}
