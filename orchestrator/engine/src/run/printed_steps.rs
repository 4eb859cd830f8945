//! The steps that a program prints, and the step at which a restarted program must continue.

use super::texts::stream_with;
use regex::Regex;

/// The steps in a part of a program's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrintedSteps {
    /// The first printed step.
    pub first: Option<u64>,
    /// The last printed step.
    pub last: Option<u64>,
    /// The largest difference between consecutive printed steps.
    widest: Option<u64>,
}

impl PrintedSteps {
    /// Returns the steps in a text.
    pub fn of(step: &Regex, text: &str) -> Self {
        let mut all = Self::default();
        for found in numbers(step, text) {
            if let Some(last) = all.last
                && found > last
            {
                all.widest = all.widest.max(Some(found - last));
            }
            all.first.get_or_insert(found);
            all.last = Some(found);
        }
        all
    }

    /// Returns the steps in standard output or, if it has none, in standard error.
    pub fn of_streams(step: &Regex, streams: (&str, &str)) -> Self {
        Self::of(step, stream_with(step, streams))
    }
}

/// Returns the steps in a text, in their order. Carriage returns, with which progress bars end lines, count as line ends.
fn numbers(step: &Regex, text: &str) -> impl Iterator<Item = u64> {
    let lines = text.replace('\r', "\n");
    let all: Vec<u64> = step
        .captures_iter(&lines)
        .filter_map(|c| c.get(1)?.as_str().parse().ok())
        .collect();
    all.into_iter()
}

/// The range of steps in which a restarted program must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResumePoint {
    /// The last step printed before the checkpoint; `None` if the checkpoint's position in the output is unknown.
    pub from: Option<u64>,
    /// Minimum first step of a restarted program; a smaller one shows a restart from the beginning.
    least: u64,
    /// The last step that can have been complete when the checkpoint was taken.
    until: Option<u64>,
    /// The largest difference between consecutive printed steps.
    widest: Option<u64>,
}

/// An inconsistency in the steps of a restarted program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongStep {
    /// The program repeats steps from before its checkpoint: it restarted from the beginning, or from an earlier checkpoint.
    Repeated { first: u64, from: u64 },
    /// The program started from the beginning.
    FromStart { first: u64 },
    /// The program skipped steps.
    Skipped { first: u64, until: u64 },
}

impl ResumePoint {
    /// Returns the resume point of a requested checkpoint. `asked` are the steps printed before the request; `whole` are the steps printed until the
    /// checkpoint was complete. `None` if no step was printed before the request.
    pub fn of_request(asked: PrintedSteps, whole: PrintedSteps) -> Option<Self> {
        let from = asked.last?;
        Some(Self {
            from: Some(from),
            least: from + 1,
            until: whole.last.max(asked.last),
            widest: whole.widest.max(asked.widest),
        })
    }

    /// Returns the resume point of a checkpoint whose step the program prints. `before` are the steps that the program printed before its end. Some
    /// programs print the checkpoint's step again after the restart.
    pub fn of_step(step: u64, before: PrintedSteps) -> Self {
        Self {
            from: Some(step),
            least: step,
            until: Some(step),
            widest: before.widest,
        }
    }

    /// Returns the resume point of the last checkpoint that the program wrote by itself and announced in a line of its standard output. The
    /// checkpoint's step is between the last step before that line and the first step after it. Some programs print the checkpoint's step again after
    /// the restart.
    pub fn of_own(step: &Regex, checkpoint: &Regex, stdout: &str) -> Option<Self> {
        let line = checkpoint.find_iter(stdout).last()?;
        let (before, after) = (&stdout[..line.start()], &stdout[line.end()..]);
        let (before, after) = (
            PrintedSteps::of(step, before),
            PrintedSteps::of(step, after),
        );
        let from = before.last?;
        Some(Self {
            from: Some(from),
            least: from,
            until: after.first.max(Some(from)),
            widest: before.widest.max(after.widest),
        })
    }

    /// Returns the resume point of a checkpoint whose position in the output is unknown: the only requirement is that the restarted program begins
    /// after the first step of `run`. `None` if `run` has too few steps.
    pub fn not_from_start(run: PrintedSteps) -> Option<Self> {
        run.widest.is_some().then_some(())?;
        Some(Self {
            from: None,
            least: run.first? + 1,
            until: None,
            widest: None,
        })
    }

    /// Checks the steps that the restarted program prints.
    ///
    /// # Errors
    /// The program did not continue after its checkpoint.
    pub fn check(self, restarted: PrintedSteps) -> Result<(), WrongStep> {
        let Some(first) = restarted.first else {
            return Ok(());
        };
        if first < self.least {
            return Err(match self.from {
                Some(from) => WrongStep::Repeated { first, from },
                None => WrongStep::FromStart { first },
            });
        }
        // the program's step interval is known once it has printed two steps
        let widest = self.widest.max(restarted.widest);
        match (self.until, widest) {
            (Some(until), Some(widest)) if first > until + widest => {
                Err(WrongStep::Skipped { first, until })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> Regex {
        Regex::new(r"(?m)^Time step (\d+)").expect("a pattern")
    }

    fn printed(steps: impl IntoIterator<Item = u64>) -> PrintedSteps {
        PrintedSteps::of(&step(), &text(steps))
    }

    fn text(steps: impl IntoIterator<Item = u64>) -> String {
        steps
            .into_iter()
            .map(|n| format!("Time step {n}\n"))
            .collect()
    }

    #[test]
    fn a_program_that_continues_after_its_checkpoint_passes() {
        let at = ResumePoint::of_request(printed(1..=5), printed(1..=7)).expect("steps");
        assert_eq!(at.from, Some(5));
        for first in 6..=8 {
            assert_eq!(at.check(printed(first..=20)), Ok(()), "{first}");
        }
        // all steps were complete
        assert_eq!(at.check(printed([])), Ok(()));
    }

    #[test]
    fn a_program_that_starts_over_fails_with_both_numbers() {
        let at = ResumePoint::of_request(printed(1..=5), printed(1..=5)).expect("steps");
        let from_start = at.check(printed(1..=20));
        assert_eq!(from_start, Err(WrongStep::Repeated { first: 1, from: 5 }));
        let earlier = at.check(printed(5..=20));
        assert_eq!(earlier, Err(WrongStep::Repeated { first: 5, from: 5 }));
        let beyond = at.check(printed(8..=20));
        assert_eq!(beyond, Err(WrongStep::Skipped { first: 8, until: 5 }));
    }

    #[test]
    fn steps_printed_now_and_then_may_have_long_gaps() {
        let at = ResumePoint::of_request(printed([1, 20]), printed([1, 20])).expect("steps");
        assert_eq!(at.check(printed([40, 60])), Ok(()));
        assert!(at.check(printed([60, 80])).is_err());
        // after only one printed step the interval is unknown
        let first = ResumePoint::of_request(printed([1]), printed([1])).expect("steps");
        assert_eq!(first.check(printed([20])), Ok(()));
        assert!(first.check(printed([1, 2])).is_err());
    }

    #[test]
    fn a_checkpoint_of_the_programs_own_is_found_in_its_output() {
        let line = Regex::new(r"(?m)^Checkpoint \d+ written").expect("a pattern");
        let output = text(1..=4) + "Checkpoint 1 written\n" + &text(5..=8);
        let own = |output: &str| ResumePoint::of_own(&step(), &line, output);
        let at = own(&(output + "Checkpoint 2 written\n" + &text(9..=10))).expect("a checkpoint");
        assert_eq!(at.from, Some(8));
        assert_eq!(at.check(printed(9..=10)), Ok(()));
        assert_eq!(at.check(printed(8..=10)), Ok(()), "it is printed again");
        let from_start = at.check(printed(1..=10));
        assert_eq!(from_start, Err(WrongStep::Repeated { first: 1, from: 8 }));
        let first = at.check(printed(5..=10));
        assert!(first.is_err(), "that is the checkpoint before");
        assert_eq!(own(&text(1..=4)), None);
    }

    #[test]
    fn a_checkpoint_with_a_printed_step_may_be_complete_when_the_program_is_further() {
        let at = ResumePoint::of_step(16, printed(1..=19));
        assert_eq!(at.check(printed(17..=30)), Ok(()));
        assert!(at.check(printed(9..=30)).is_err(), "an older checkpoint");
        assert!(at.check(printed(20..=30)).is_err());
    }

    #[test]
    fn without_a_place_in_the_output_only_a_new_beginning_is_found() {
        let at = ResumePoint::not_from_start(printed(1..=9)).expect("steps");
        assert_eq!(at.check(printed([5, 6])), Ok(()));
        assert_eq!(
            at.check(printed([1, 2])),
            Err(WrongStep::FromStart { first: 1 })
        );
        assert_eq!(ResumePoint::not_from_start(printed([1])), None);
    }

    #[test]
    fn steps_of_a_progress_bar_on_the_standard_error_count() {
        let found = PrintedSteps::of_streams(&step(), ("hello\n", "Time step 3\rTime step 4\r"));
        assert_eq!((found.first, found.last), (Some(3), Some(4)));
    }
}
