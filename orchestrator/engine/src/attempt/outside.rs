//! Tells runs that something outside cvc has ended from those that failed by themselves: what they printed says nothing of the program.

use super::judge::Judge;
use crate::run::{RunError, RunFailure};
use cvc_core::campaign::SiteKind;
use cvc_core::outcome::Cause;
use cvc_probe::shepherd::{EndedBy, Exit};
use nix::sys::signal::Signal;

/// Signals that end a program and that it does not send itself when it fails.
const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGKILL,
];

impl Judge<'_> {
    /// Whether something outside cvc has ended the run. On other machines the loss of a shepherd is that of its node.
    pub(super) fn outside(&mut self) -> Result<(), RunError> {
        let evidence = self.evidence;
        let is_here = evidence.context.site.kind == SiteKind::Local;
        let Some(exit) = &evidence.exit else {
            if is_here {
                self.findings.failure.get_or_insert(shepherd_killed());
            }
            return Ok(());
        };
        // cvc ended it itself: after its checkpoint, for want of one, or for another reason
        let is_own =
            evidence.course.killed || evidence.halted.is_some() || evidence.cut_off.is_some();
        // a launcher may end well although its ranks did not
        let success = &evidence.prepared.run.app.success;
        let ended_well = exit
            .code
            .is_some_and(|code| success.exit_codes.contains(&code))
            && self.regex(&success.pattern)?.is_match(&self.stdout);
        if let Some(how) = ended_from_outside(exit, is_own, ended_well) {
            self.fail(Cause::EndedFromOutside, how);
        }
        Ok(())
    }
}

/// The failure of a run on this machine whose shepherd is gone.
pub(super) fn shepherd_killed() -> RunFailure {
    RunFailure::new(
        Cause::EndedFromOutside,
        "ended from outside: the process that supervises it (its shepherd) was killed, by somebody or by the kernel for want of memory, and left no \
         exit status",
    )
}

/// What ended a program, if that was neither cvc nor the program itself; `is_own` tells that cvc ended it, and
/// `ended_well` that it did what it should all the same.
fn ended_from_outside(exit: &Exit, is_own: bool, ended_well: bool) -> Option<String> {
    if ended_well {
        return None;
    }
    let teller = || match &exit.told_by {
        Some(by) => format!("its shepherd got {by}, which cvc did not send"),
        None => "its shepherd got a signal that asks for an end, which cvc did not send".to_owned(),
    };
    match exit.ended_by {
        // what cvc asks for, it asks without a signal
        Some(EndedBy::Request) if exit.told_to_end => {
            Some(format!("ended from outside: {}", teller()))
        }
        Some(EndedBy::Request | EndedBy::Timeout | EndedBy::Output | EndedBy::ControllerGone) => {
            None
        }
        None if exit.told_to_end => Some(format!("ended from outside: {}", teller())),
        None if is_own => None,
        None => {
            let of_launcher = ENDING
                .iter()
                .find(|signal| exit.signal.as_deref() == Some(signal.as_str()));
            // an exit code as after a signal may be the program's own word
            let signal = of_launcher?;
            let by = match signal {
                Signal::SIGKILL => " (by somebody, or by the kernel for want of memory)",
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

    /// How a program ended by itself.
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
            told_to_end: false,
            told_by: None,
            disk_full: false,
            start_error: None,
        }
    }

    fn told(exit: &Exit, is_own: bool) -> Option<String> {
        ended_from_outside(exit, is_own, false)
    }

    #[test]
    fn a_signal_that_cvc_did_not_send_ended_the_run_and_not_the_program() {
        let signalled = Exit {
            told_to_end: true,
            told_by: Some("SIGTERM from process 812 (bash)".to_owned()),
            ..exit(Some(1))
        };
        let text = told(&signalled, false).expect("from outside");
        let unfinished = Exit {
            code: Some(0),
            ..signalled.clone()
        };
        assert!(told(&unfinished, false).is_some(), "a launcher ended well");
        assert_eq!(ended_from_outside(&unfinished, false, true), None);
        assert!(
            text.contains("SIGTERM from process 812 (bash), which cvc did not send"),
            "{text}"
        );
        let requested = Exit {
            ended_by: Some(EndedBy::Request),
            ..signalled
        };
        assert!(told(&requested, false).is_some());
        let launcher = Exit {
            signal: Some("SIGTERM".to_owned()),
            ..exit(None)
        };
        assert!(told(&launcher, false).is_some_and(|text| text.contains("its launcher")));
        let killed = Exit {
            signal: Some("SIGKILL".to_owned()),
            ..exit(None)
        };
        let killed = told(&killed, false).expect("from outside");
        assert!(killed.contains("want of memory"), "{killed}");
    }

    #[test]
    fn what_cvc_or_the_program_did_itself_is_not_from_outside() {
        for own in [
            exit(Some(0)),
            exit(Some(1)),
            // as shells and launchers tell of a signal, but a program may end so by itself
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
            assert_eq!(told(&own, false), None, "{own:?}");
        }
        let killed_by_cvc = Exit {
            signal: Some("SIGKILL".to_owned()),
            ..exit(None)
        };
        assert_eq!(told(&killed_by_cvc, true), None);
    }
}
