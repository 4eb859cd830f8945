//! Distinguishes runs that were ended from outside cvc from runs that failed by themselves. The output of a run ended from outside is no evidence
//! about the program.

use super::judge::Judge;
use crate::run::{RunError, RunFailure, stream_with};
use cvc_core::campaign::SiteKind;
use cvc_core::outcome::Cause;
use cvc_probe::shepherd::{EndedBy, Exit};
use nix::sys::signal::Signal;

/// Signals that end a program, and that a failing program does not send to itself.
const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGKILL,
];

impl Judge<'_> {
    /// Checks whether something outside cvc has ended the run. On other machines the loss of a shepherd is the loss of its node.
    pub(super) fn outside(&mut self) -> Result<(), RunError> {
        let evidence = self.evidence;
        let is_here = evidence.context.site.kind == SiteKind::Local;
        let Some(exit) = &evidence.exit else {
            if is_here {
                self.findings.failure.get_or_insert(shepherd_killed());
            }
            return Ok(());
        };
        // cvc itself ended the run: after its checkpoint, because a checkpoint is missing, or for another reason
        let is_own =
            evidence.course.killed || evidence.halted.is_some() || evidence.cut_off.is_some();
        // a launcher may end successfully although its ranks did not
        let success = &evidence.prepared.run.app.success;
        let pattern = self.regex(&success.pattern)?;
        let ended_well = exit
            .code
            .is_some_and(|code| success.exit_codes.contains(&code))
            && pattern.is_match(stream_with(&pattern, (&self.stdout, &self.stderr)));
        if let Some(how) = ended_from_outside(exit, is_own, ended_well) {
            self.fail(Cause::EndedFromOutside, how);
        }
        Ok(())
    }
}

/// Returns the failure of a run on this machine whose shepherd has disappeared.
pub(super) fn shepherd_killed() -> RunFailure {
    RunFailure::new(
        Cause::EndedFromOutside,
        "ended from outside: the process that supervises it (its shepherd) was killed, by a user or by the kernel for lack of memory, and left no exit status",
    )
}

/// Describes what ended a program, if that was neither cvc nor the program itself. `is_own` means that cvc ended it; `ended_well` means that it
/// succeeded nevertheless.
fn ended_from_outside(exit: &Exit, is_own: bool, ended_well: bool) -> Option<String> {
    if ended_well {
        return None;
    }
    let cause = || match &exit.requested_by {
        Some(by) => format!("its shepherd got {by}, which cvc did not send"),
        None => "its shepherd got a signal to end, which cvc did not send".to_owned(),
    };
    match exit.ended_by {
        // cvc's own requests use no signal
        Some(EndedBy::Request) if exit.end_requested => {
            Some(format!("ended from outside: {}", cause()))
        }
        Some(EndedBy::Request | EndedBy::Timeout | EndedBy::Output | EndedBy::ControllerGone) => {
            None
        }
        None if exit.end_requested => Some(format!("ended from outside: {}", cause())),
        None if is_own => None,
        None => {
            let of_launcher = ENDING
                .iter()
                .find(|signal| exit.signal.as_deref() == Some(signal.as_str()));
            // an exit code of 128 plus a signal may be the program's own
            let signal = of_launcher?;
            let by = match signal {
                Signal::SIGKILL => " (by a user, or by the kernel for lack of memory)",
                _ => "",
            };
            Some(format!(
                "ended from outside: its launcher got {}, which cvc did not send{by}",
                signal.as_str()
            ))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the end of a program that ended by itself with this code.
    pub fn exit(code: Option<i32>) -> Exit {
        Exit {
            code,
            signal: None,
            ended_by: None,
            wall_s: 1.0,
            user_s: 0.0,
            system_s: 0.0,
            max_rss_kib: 0,
            leftovers: 0,
            end_requested: false,
            requested_by: None,
            disk_full: false,
            start_error: None,
        }
    }

    fn outside_cause(exit: &Exit, is_own: bool) -> Option<String> {
        ended_from_outside(exit, is_own, false)
    }

    #[test]
    fn a_signal_that_cvc_did_not_send_ended_the_run_and_not_the_program() {
        let signalled = Exit {
            end_requested: true,
            requested_by: Some("SIGTERM from process 812 (bash)".to_owned()),
            ..exit(Some(1))
        };
        let text = outside_cause(&signalled, false).expect("from outside");
        let unfinished = Exit {
            code: Some(0),
            ..signalled.clone()
        };
        assert!(
            outside_cause(&unfinished, false).is_some(),
            "a launcher ended well"
        );
        assert_eq!(ended_from_outside(&unfinished, false, true), None);
        assert!(
            text.contains("SIGTERM from process 812 (bash), which cvc did not send"),
            "{text}"
        );
        let requested = Exit {
            ended_by: Some(EndedBy::Request),
            ..signalled
        };
        assert!(outside_cause(&requested, false).is_some());
        let launcher = Exit {
            signal: Some("SIGTERM".to_owned()),
            ..exit(None)
        };
        assert!(outside_cause(&launcher, false).is_some_and(|text| text.contains("its launcher")));
        let killed = Exit {
            signal: Some("SIGKILL".to_owned()),
            ..exit(None)
        };
        let killed = outside_cause(&killed, false).expect("from outside");
        assert!(killed.contains("lack of memory"), "{killed}");
    }

    #[test]
    fn actions_of_cvc_or_the_program_are_not_from_outside() {
        for own in [
            exit(Some(0)),
            exit(Some(1)),
            // shells and launchers report a signal like this, but a program may use this code itself
            exit(Some(137)),
            exit(Some(139)),
            Exit {
                signal: Some("SIGSEGV".to_owned()),
                ..exit(None)
            },
            Exit {
                ended_by: Some(EndedBy::Request),
                ..exit(None)
            },
            Exit {
                ended_by: Some(EndedBy::Timeout),
                signal: Some("SIGKILL".to_owned()),
                ..exit(None)
            },
        ] {
            assert_eq!(outside_cause(&own, false), None, "{own:?}");
        }
        let killed_by_cvc = Exit {
            signal: Some("SIGKILL".to_owned()),
            ..exit(None)
        };
        assert_eq!(outside_cause(&killed_by_cvc, true), None);
    }
}
