//! Watches a restart from DMTCP's images: whether it can still come to an end. A process that fails leaves the others waiting for it.

use super::{
    coordinator::{Coordinator, ask_restart},
    dmtcp_run::DmtcpRun,
    install::{Status, failed_assertion},
};
use crate::run::{GrowingFile, RunFailure, own_words, text};
use camino::Utf8PathBuf;
use cvc_core::outcome::Cause;
use std::time::{Duration, Instant};

/// Shortest and longest delay between looks, each of which starts a program on the machine that is measured.
const TICK: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
/// The delay is this part of the time that was waited.
const PART: u32 = 50;
/// Time that is left to what may still end by itself, such as the launcher of a rank that is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Bytes of the errors that are kept for the next look, in which a line may go on.
const KEPT: usize = 16 << 10;

/// Waits until the restart of a checkpoint with so many processes cannot come to an end any more. Never returns if it can.
pub(super) async fn watch(of: &DmtcpRun<'_>, peers: u32) -> RunFailure {
    let mut errors: Vec<Errors> = error_files(of).into_iter().map(Errors::new).collect();
    let (mut looks, mut assertion, begin) = (Looks::new(peers), None, Instant::now());
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
                "the restart did not end though {what} ({})",
                own_words(&text(&of.run.dir.join("restart.stderr")))
            ),
        };
        return RunFailure::new(Cause::Restart, detail);
    }
}

/// The assertion of DMTCP that failed in a restart which has ended.
pub(super) fn find_assertion(of: &DmtcpRun<'_>) -> Option<String> {
    error_files(of)
        .iter()
        .find_map(|path| failed_assertion(&text(path)))
}

/// Where a restart writes its errors: those of other nodes have files of their own.
fn error_files(of: &DmtcpRun<'_>) -> Vec<Utf8PathBuf> {
    let others = of
        .run
        .used
        .others()
        .into_iter()
        .map(|node| format!("restart.{node}.out"));
    ["restart.stderr".to_owned()]
        .into_iter()
        .chain(others)
        .map(|name| of.run.dir.join(name))
        .collect()
}

/// The errors of a restart as they grow.
struct Errors {
    file: GrowingFile,
    /// The end of what was read.
    end: Vec<u8>,
}

impl Errors {
    fn new(path: Utf8PathBuf) -> Self {
        Self {
            file: GrowingFile::new(path),
            end: Vec::new(),
        }
    }

    /// Returns the assertion that failed by what is new.
    fn read_new(&mut self) -> Option<String> {
        // the file appears when the restart is started
        self.file.read_new(&mut self.end)?;
        // what follows the last end of a line is not all of a line yet
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

/// What successive looks at a restart show.
#[derive(Debug)]
struct Looks {
    /// Processes of the checkpoint.
    peers: u32,
    /// The most that were seen.
    most: u32,
    /// Whether all of them have been seen running.
    ran: bool,
    /// Since when it looks as if it could not come to an end.
    doubtful: Option<Instant>,
}

impl Looks {
    fn new(peers: u32) -> Self {
        Self {
            peers,
            most: 0,
            ran: false,
            doubtful: None,
        }
    }

    /// Adds a look. Returns why the restart cannot come to an end, if that is so.
    fn add(&mut self, coordinator: Coordinator, asserted: bool, now: Instant) -> Option<String> {
        let Some(what) = self.doubt(coordinator, asserted) else {
            self.doubtful = None;
            return None;
        };
        let since = *self.doubtful.get_or_insert(now);
        // one that is not complete waits for the process that an assertion has ended
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
            // a machine with much to do
            Coordinator::Late => return None,
        };
        let lost = peers < self.most;
        self.most = self.most.max(peers);
        self.ran |= running;
        if peers == 0 {
            // before the first has connected, there is none either
            return (self.most > 0 || asserted).then(|| "all its processes are gone".to_owned());
        }
        let left = || {
            format!(
                "{peers} of {} processes are left",
                self.most.max(self.peers)
            )
        };
        if self.ran {
            // processes leave when they end: only with an assertion is it known that one did not end well. It may have been none of them
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

    /// The look, from 0, after which a restart of three processes is ended, with looks every two seconds.
    fn ended_after(looks: &[(Coordinator, bool)]) -> Option<usize> {
        let (begin, mut all) = (Instant::now(), Looks::new(3));
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
        // one process has much to do after the others have ended
        looks.extend([looks[4]; 20]);
        // its script has yet to see that the coordinator has left
        looks.extend([(Coordinator::Gone, false); 3]);
        assert_eq!(ended_after(&looks), None);
    }

    #[test]
    fn a_coordinator_that_is_slow_to_answer_says_nothing() {
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
    fn processes_that_are_gone_for_a_while_end_it() {
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[(Coordinator::Gone, false); 20]].concat()),
            Some(6)
        );
        assert_eq!(
            ended_after(&[&[(COMPLETE, false)][..], &[(restoring(0), false); 20]].concat()),
            Some(6)
        );
        // one that left before all were there
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
    fn an_assertion_ends_what_waits_for_a_process_and_not_what_goes_on_without() {
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
    fn an_assertion_is_read_once_its_line_is_whole() {
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
