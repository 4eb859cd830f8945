//! Exit codes. The tables in the help and in docs/cli.md are made from this type.

use std::process::ExitCode;

/// The meaning of a command's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// The command did its work.
    Done = 0,
    /// Internal error, or unwritable output.
    Internal = 1,
    /// The campaign file, a descriptor or the command line is wrong.
    Usage = 2,
    /// A cloud or Slurm refused, or cannot be reached.
    Provider = 3,
    /// A host cannot be reached or lacks a required feature.
    Host = 4,
    /// Software cannot be installed or is missing.
    Installation = 5,
    /// A file is not in the expected format.
    Unreadable = 6,
    /// A file of a campaign or of a report cannot be used.
    Store = 7,
    /// No model fits the observations.
    Model = 8,
    /// Leases or other cloud resources are left.
    Leftover = 9,
    /// Runs failed.
    RunsFailed = 10,
    /// A prediction missed its bound.
    BoundMissed = 11,
    /// The budget does not suffice for more runs.
    OverBudget = 12,
    /// A comparison with `--gate` found a difference.
    Differs = 13,
    /// A comparison with `--gate` is undecided.
    CannotTell = 14,
    /// A plan needs more time, memory, space or money than is available, or its runs end before their checkpoints are due.
    NotEnough = 15,
    /// An import would leave out rows.
    RowsLeftOut = 16,
    /// The user interrupted the command.
    Interrupted = 130,
    /// The reader of the output has closed it, as in `cvc status | head`. Shells report this code for a program that SIGPIPE ended.
    Unread = 141,
}

impl ExitStatus {
    /// All exit codes in numerical order.
    pub const ALL: [Self; 19] = [
        Self::Done,
        Self::Internal,
        Self::Usage,
        Self::Provider,
        Self::Host,
        Self::Installation,
        Self::Unreadable,
        Self::Store,
        Self::Model,
        Self::Leftover,
        Self::RunsFailed,
        Self::BoundMissed,
        Self::OverBudget,
        Self::Differs,
        Self::CannotTell,
        Self::NotEnough,
        Self::RowsLeftOut,
        Self::Interrupted,
        Self::Unread,
    ];

    /// Returns the number of the exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the meaning for the tables in the help and in the docs.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Internal => "internal error, or the output cannot be written",
            Self::Usage => "the campaign file or the command line is wrong",
            Self::Provider => "error of a cloud or of Slurm",
            Self::Host => "a machine cannot be used",
            Self::Installation => "software is missing or cannot be installed",
            Self::Unreadable => "a file is not in the expected format",
            Self::Store => "a file of the campaign or the report cannot be used",
            Self::Model => "nothing can be predicted",
            Self::Leftover => "resources are left running",
            Self::RunsFailed => "runs failed",
            Self::BoundMissed => "a prediction missed its bound",
            Self::OverBudget => "the budget does not pay for more runs",
            Self::Differs => "a comparison found a difference",
            Self::CannotTell => "a comparison is undecided",
            Self::NotEnough => "a plan needs more time, memory, space or money than there is",
            Self::RowsLeftOut => "an import would leave out rows",
            Self::Interrupted => "interrupted",
            Self::Unread => "the output has no reader, as in `cvc status | head`",
        }
    }

    /// Returns the table at the end of `cvc --help`.
    pub fn help_table() -> String {
        let lines = Self::ALL.map(|status| format!("{:>5}  {}", status.code(), status.meaning()));
        format!("Exit codes:\n{}", lines.join("\n"))
    }

    /// Returns the table of docs/cli.md.
    pub fn markdown_table() -> String {
        let rows =
            Self::ALL.map(|status| format!("| {} | {} |\n", status.code(), status.meaning()));
        format!("| code | meaning |\n| ---: | --- |\n{}", rows.concat())
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::ExitStatus;

    #[test]
    fn every_code_is_in_both_tables_once_and_in_order() {
        let codes = ExitStatus::ALL.map(ExitStatus::code);
        assert!(
            codes.is_sorted() && codes.windows(2).all(|w| w[0] != w[1]),
            "{codes:?}"
        );
        for status in ExitStatus::ALL {
            let (help, page) = (ExitStatus::help_table(), ExitStatus::markdown_table());
            assert_eq!(
                help.lines()
                    .filter(|l| l.trim_start().starts_with(&format!("{}  ", status.code())))
                    .count(),
                1,
                "{help}"
            );
            assert!(
                page.contains(&format!("| {} | {} |", status.code(), status.meaning())),
                "{page}"
            );
        }
    }
}
