//! Errors as a user sees them, and their exit codes.

use crate::{exit_status::ExitStatus, output::note, session_log};
use cvc_core::source::{SourceError, SourceErrors};
use cvc_core::store::StoreError;
use cvc_delta::{DeltaError, DeltaErrorKind};
use cvc_engine::{attempt::RunError, crew::CrewError};
use cvc_image_show::command::ImageCommandError;
use cvc_index::error::AnalysisError;
use cvc_prediction::predict::PredictError;
use cvc_session::SessionError;
use cvc_show::ShowError;
use cvc_sites::error::CampaignError;
use cvc_sites::install::InstallError;
use miette::{Diagnostic, LabeledSpan, MietteHandlerOpts, NamedSource, ReportHandler};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Why a command ends without having done its work.
#[derive(Debug)]
pub enum Failure {
    /// The campaign file or a descriptor.
    Spec(SourceErrors),
    /// An error that stopped a campaign.
    Campaign(CampaignError),
    /// A file of the campaign.
    Store(StoreError),
    /// The index or a report.
    Analysis(AnalysisError),
    /// Software on a site.
    Install(Box<InstallError>),
    /// An image, or a directory of them.
    Image(ImageCommandError),
    /// The reader of the output is gone (`cvc … | head`), which is not an error.
    Unread,
    /// Anything else, in one line, with how to fix it.
    Other {
        status: ExitStatus,
        message: String,
        hint: Option<String>,
    },
}

impl From<SourceErrors> for Failure {
    fn from(errors: SourceErrors) -> Self {
        Self::Spec(errors)
    }
}
impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Self {
        Self::Campaign(error)
    }
}
impl From<AnalysisError> for Failure {
    fn from(error: AnalysisError) -> Self {
        match error {
            AnalysisError::Store(error) => Self::Store(error),
            error @ (AnalysisError::Index { .. } | AnalysisError::Render(_)) => {
                Self::Analysis(error)
            }
        }
    }
}
impl From<ShowError> for Failure {
    fn from(error: ShowError) -> Self {
        match error {
            ShowError::Store(error) => Self::Store(error),
            error @ (ShowError::Render(_) | ShowError::Rows(_)) => Self::Other {
                status: ExitStatus::Store,
                message: error.to_string(),
                hint: None,
            },
        }
    }
}
impl From<CrewError> for Failure {
    fn from(error: CrewError) -> Self {
        Self::Campaign(error.into())
    }
}
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Store(error) => Self::Store(error),
            other => Self::Install(Box::new(other)),
        }
    }
}
impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Spec(errors) => errors.into(),
            SessionError::Campaign(error) => error.into(),
            SessionError::Store(error) => error.into(),
            SessionError::Install(error) => error.into(),
            SessionError::Asked { message, hint } => Self::Other {
                status: ExitStatus::Usage,
                message,
                hint: Some(hint),
            },
            SessionError::NoCampaign(_) => Self::Other {
                status: ExitStatus::Store,
                message: error.to_string(),
                hint: Some(
                    "`cvc run FILE` makes one; --campaigns says where campaigns are kept".into(),
                ),
            },
            SessionError::UnknownPath => Self::Other {
                status: ExitStatus::Internal,
                message: error.to_string(),
                hint: None,
            },
            SessionError::Machine { message, hint } => Self::Other {
                status: ExitStatus::Host,
                message,
                hint: Some(hint.into()),
            },
        }
    }
}
impl From<PredictError> for Failure {
    fn from(error: PredictError) -> Self {
        match error {
            PredictError::Store(error) => error.into(),
            error @ (PredictError::Csv { .. }
            | PredictError::Unreadable { .. }
            | PredictError::Question { .. }
            | PredictError::Model { .. }) => Self::Other {
                status: of_prediction(&error),
                message: error.to_string(),
                hint: error.hint().map(str::to_owned),
            },
        }
    }
}
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::Unread;
        }
        Self::Other {
            status: ExitStatus::Internal,
            message: format!("cannot write: {error}"),
            hint: None,
        }
    }
}

impl From<DeltaError> for Failure {
    fn from(error: DeltaError) -> Self {
        Self::Other {
            status: of_delta(&error.kind),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

fn of_delta(kind: &DeltaErrorKind) -> ExitStatus {
    match kind {
        DeltaErrorKind::Io { verb, .. } if matches!(*verb, "open" | "read" | "list") => {
            ExitStatus::Unreadable
        }
        DeltaErrorKind::Io { .. } | DeltaErrorKind::Busy | DeltaErrorKind::UnknownStates(_) => {
            ExitStatus::Store
        }
        DeltaErrorKind::Empty
        | DeltaErrorKind::Rule(_)
        | DeltaErrorKind::OtherRun { .. }
        | DeltaErrorKind::NoCommonProcess { .. }
        | DeltaErrorKind::NoState { .. }
        | DeltaErrorKind::NoBlock(_)
        | DeltaErrorKind::NoFile { .. }
        | DeltaErrorKind::Exists => ExitStatus::Usage,
        DeltaErrorKind::OtherBytes => ExitStatus::Differs,
        DeltaErrorKind::Image(_)
        | DeltaErrorKind::Temporary
        | DeltaErrorKind::Special(_)
        | DeltaErrorKind::Changed
        | DeltaErrorKind::NotOurs(_)
        | DeltaErrorKind::Newer { .. }
        | DeltaErrorKind::Damaged { .. }
        | DeltaErrorKind::MissingLink { .. }
        | DeltaErrorKind::MissingHashes
        | DeltaErrorKind::OtherHashes
        | DeltaErrorKind::WrongBase { .. }
        | DeltaErrorKind::Differs { .. } => ExitStatus::Unreadable,
    }
}

fn of_prediction(error: &PredictError) -> ExitStatus {
    match error {
        PredictError::Store(_) => ExitStatus::Store,
        PredictError::Csv { .. } | PredictError::Unreadable { .. } => ExitStatus::Unreadable,
        PredictError::Question { .. } => ExitStatus::Usage,
        PredictError::Model { .. } => ExitStatus::Model,
    }
}

fn of_image(error: &ImageCommandError) -> ExitStatus {
    match error {
        ImageCommandError::ListingOfDirectory(_) => ExitStatus::Usage,
        ImageCommandError::Compressor { .. } => ExitStatus::Installation,
        ImageCommandError::Image(_)
        | ImageCommandError::BrokenImages { .. }
        | ImageCommandError::BrokenTree { .. }
        | ImageCommandError::NoImages { .. } => ExitStatus::Unreadable,
        ImageCommandError::Output(_) => ExitStatus::Store,
    }
}

/// What helps against an error of a campaign's files.
fn store_hint(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Damaged { path, .. } if path.ends_with("journal.jsonl") => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!("`cvc fsck {campaign}` says what is lost, and with --repair goes on with what is whole"))
        }
        StoreError::Copied { original, .. } => {
            Some(format!("work with {}, or remove it; a campaign of its own starts from the campaign file", original.display()))
        }
        StoreError::Io { path, .. } if path.starts_with(cvc_core::paths::cache()) => {
            Some("cvc keeps files there that it can make again; XDG_CACHE_HOME names another place".into())
        }
        StoreError::Io { .. } if error.is_full_disk() => Some("make room, then run the same command again: it continues".into()),
        StoreError::Io { path, source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => Some(format!("is {} there?", path.parent().filter(|p| !p.as_os_str().is_empty())?.display())),
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Some("change its permissions, or choose a directory of your own".into())
            }
            _ => None,
        },
        StoreError::WentBack { path, .. } => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!(
                "bring the newest copy of it back, or `cvc fsck --repair {campaign}` goes on from what is there and takes in the runs that are whole"
            ))
        }
        StoreError::Fenced { path, .. } => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!(
                "this cvc has ended what it ran here and left the rest to the other one; if there is none, type the command again where \
                 {campaign} is now"
            ))
        }
        StoreError::NoLocks { .. } => Some(
            "mount it with locks (Lustre: `-o flock`; NFS: without `nolock`), or put the campaign on another file system (`--campaigns DIR`)".into(),
        ),
        StoreError::Damaged { .. } | StoreError::Newer { .. } | StoreError::Locked { .. } => None,
    }
}

/// One error with a place in a file.
#[derive(Debug)]
struct Placed {
    message: String,
    hint: Option<String>,
    label: Option<LabeledSpan>,
    source: NamedSource<String>,
}

impl Placed {
    /// The message with its place, as miette draws it. It has no colours: nobody could tell their codes from
    /// those that a file may have in it.
    fn render(&self) -> String {
        /// Draws what it is given, as `Debug` of miette's reports does.
        struct Drawn<'a>(&'a Placed);
        impl std::fmt::Display for Drawn<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                MietteHandlerOpts::new()
                    .color(false)
                    .terminal_links(false)
                    .build()
                    .debug(self.0, f)
            }
        }
        Drawn(self).to_string()
    }
}

impl std::fmt::Display for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Placed {}
impl Diagnostic for Placed {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.hint
            .as_ref()
            .map(|h| Box::new(h) as Box<dyn std::fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.source)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.label
            .clone()
            .map(|l| Box::new(std::iter::once(l)) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

impl Failure {
    /// Prints the error and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Spec(SourceErrors(errors)) => {
                for (i, error) in errors.into_iter().enumerate() {
                    if i > 0 {
                        note("");
                    }
                    report_placed(error);
                }
                ExitStatus::Usage.into()
            }
            Self::Campaign(error) => one_line(
                campaign_status(&error),
                &error.to_string(),
                campaign_hint(&error).as_deref(),
            ),
            Self::Analysis(error) => one_line(ExitStatus::Store, &error.to_string(), None),
            Self::Store(error) => one_line(
                ExitStatus::Store,
                &error.to_string(),
                store_hint(&error).as_deref(),
            ),
            Self::Install(error) => {
                let status = if matches!(*error, InstallError::Interrupted { .. }) {
                    ExitStatus::Interrupted
                } else {
                    ExitStatus::Installation
                };
                one_line(status, &error.to_string(), error.hint().as_deref())
            }
            Self::Image(error) => {
                note(format!("error: {error}"));
                of_image(&error).into()
            }
            Self::Unread => ExitStatus::Unread.into(),
            Self::Other {
                status,
                message,
                hint,
            } => one_line(status, &message, hint.as_deref()),
        }
    }
}

/// Shows an error of a file that people write, with the lines around it where they may be shown.
fn report_placed(error: SourceError) {
    // the position also in one line, as editors and scripts read it
    let message = error.to_string();
    tracing::error!(
        exit = ExitStatus::Usage.code(),
        hint = error.hint,
        "{message}"
    );
    let (text, span) = if is_near(&error.path) {
        shortened(&error.text, error.span.clone())
    } else {
        Default::default()
    };
    let placed = Placed {
        message,
        hint: error.hint,
        label: span.map(|s| LabeledSpan::new_with_span(None, s)),
        source: NamedSource::new(error.path.display().to_string(), text),
    };
    note(in_the_form_of_all(&placed.render()));
}

/// Returns the exit code of a campaign's error.
fn campaign_status(error: &CampaignError) -> ExitStatus {
    match error {
        CampaignError::Run(RunError::Store(_) | RunError::Input(_)) => ExitStatus::Store,
        CampaignError::Run(
            RunError::Host(_) | RunError::Crew(_) | RunError::Shepherd { .. } | RunError::Area(_),
        ) => ExitStatus::Host,
        CampaignError::Run(RunError::Render(_) | RunError::Descriptor { .. }) => ExitStatus::Usage,
        CampaignError::Run(RunError::Broken(_)) => ExitStatus::Internal,
        CampaignError::Install(_) => ExitStatus::Installation,
        CampaignError::Slurm(_) | CampaignError::Provider { .. } => ExitStatus::Provider,
        CampaignError::Site { .. } => ExitStatus::Host,
        CampaignError::NotWritten { .. } => ExitStatus::Store,
        CampaignError::Leftover { .. } => ExitStatus::Leftover,
        CampaignError::OverBudget { .. } => ExitStatus::OverBudget,
    }
}

/// Returns how a campaign's error may be corrected.
fn campaign_hint(error: &CampaignError) -> Option<String> {
    match error {
        CampaignError::Run(RunError::Host(error)) => error.hint(),
        CampaignError::Run(RunError::Crew(error)) => error.hint().map(str::to_owned),
        CampaignError::Run(RunError::Broken(_)) => Some(session_log::how_to_report()),
        CampaignError::Run(RunError::Store(error)) => store_hint(error),
        CampaignError::Run(
            RunError::Shepherd { .. } | RunError::Area(_) | RunError::Render(_) | RunError::Descriptor { .. } | RunError::Input(_),
        )
        | CampaignError::Site { .. }
        | CampaignError::Slurm(_)
        | CampaignError::OverBudget { .. } => None,
        CampaignError::Provider { error, .. } => error.hint(),
        CampaignError::Install(error) => error.hint(),
        CampaignError::NotWritten { .. } => {
            let first = if error.is_full_disk() { "make room" } else { "correct the cause" };
            Some(format!("{first}, then run the same command again: it continues"))
        }
        CampaignError::Leftover { .. } => {
            Some("`cvc run` or `cvc down` finds and ends it; `cvc sweep` also finds instances, from any machine".into())
        }
    }
}

/// Most bytes of a line of an excerpt that are shown before and after the beginning of what is wrong.
const SHOWN_BEFORE: usize = 240;
const SHOWN_AFTER: usize = 120;

/// Whether lines of a file may be shown: it lies below the current directory or next to an argument, and is not hidden there. Others are named by
/// files that somebody else may have written, and may hold secrets.
fn is_near(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return true;
    };
    let given = std::env::args_os().skip(1).map(PathBuf::from);
    let given = given.filter_map(|file| Some(file.canonicalize().ok()?.parent()?.to_owned()));
    given.chain(std::env::current_dir()).any(|dir| {
        path.strip_prefix(dir).is_ok_and(|below| {
            let mut names = below.iter();
            names.all(|name| !name.as_encoded_bytes().starts_with(b"."))
        })
    })
}

/// The text with its long lines cut around the place, and the place in it.
fn shortened(text: &str, span: Option<Range<usize>>) -> (String, Option<Range<usize>>) {
    const CUT: char = '…';
    let is_long = |line: &str| line.len() > SHOWN_BEFORE + SHOWN_AFTER;
    if !text.lines().any(is_long) {
        return (text.to_owned(), span);
    }
    let mut shown = String::new();
    let mut place = None;
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let end = begin + line.len();
        let at = span
            .as_ref()
            .filter(|s| (begin..end).contains(&s.start) || s.start == end && end == text.len())
            .map(|s| s.start - begin);
        let content = line.trim_end_matches(['\n', '\r']);
        let (from, to) = if is_long(content) {
            let at = at.unwrap_or(0).min(content.len());
            // the whole beginning, as long as it fits: then the column is that of the file
            let from = if at <= SHOWN_BEFORE {
                0
            } else {
                content.floor_char_boundary(at - SHOWN_AFTER)
            };
            (from, content.floor_char_boundary(at + SHOWN_AFTER))
        } else {
            (0, content.len())
        };
        if from > 0 {
            shown.push(CUT);
        }
        if let (Some(at), Some(span)) = (at, &span) {
            let start = shown.len() + at.clamp(from, to) - from;
            let length = span.len().min((to - from) - (at.clamp(from, to) - from));
            place = Some(start..start + length);
        }
        shown.push_str(&content[from..to]);
        if to < content.len() {
            shown.push(CUT);
        }
        shown.push_str(&line[content.len()..]);
        begin = end;
    }
    (shown, place)
}

/// Gives a message of miette the form that all messages of cvc have: `error: WHERE: WHAT`, and `hint:` for what to do.
fn in_the_form_of_all(text: &str) -> String {
    let mut is_head = true;
    let lines = text.lines().map(|line| {
        is_head &= !line.starts_with("  help: ") && !line.contains("╭─");
        match line.strip_prefix("  × ") {
            Some(first) if is_head => format!("error: {first}"),
            _ if is_head => line.replacen("  │ ", "       ", 1),
            _ => line.replacen("  help: ", "  hint: ", 1),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn one_line(status: ExitStatus, message: &str, hint: Option<&str>) -> ExitCode {
    tracing::error!(exit = status.code(), hint, "{message}");
    note(format!("error: {message}"));
    if let Some(hint) = hint {
        note(format!("  hint: {hint}"));
    }
    status.into()
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_lines_are_cut_around_the_place_and_short_ones_are_not() {
        let short = "a = 1\nb = 2\n";
        assert_eq!(shortened(short, Some(6..7)), (short.to_owned(), Some(6..7)));
        let long = format!("a = 1\nb = \"{}\"\nc = 3\n", "x".repeat(1_000_000));
        let (text, span) = shortened(&long, Some(10..1_000_012));
        assert!(
            text.len() < 1000
                && text.starts_with("a = 1\nb = \"xxx")
                && text.ends_with("…\nc = 3\n")
        );
        let span = span.expect("a place");
        assert!(span.start == 10 && text[span].chars().all(|c| c == '"' || c == 'x'));
        // far along the line, and not at the beginning of a letter
        let wide = format!("a = [{}oops]\n", "\"ä\", ".repeat(100_000));
        let at = wide.find("oops").expect("there");
        let (text, span) = shortened(&wide, Some(at..at + 4));
        assert_eq!(&text[span.expect("a place")], "oops");
        assert!(text.len() < 1000, "{}", text.len());
        assert_eq!(shortened(&wide, None).1, None);
        // at the end of the text
        let end = wide.trim_end().len();
        let (text, span) = shortened(wide.trim_end(), Some(end..end));
        assert_eq!(span, Some(text.len()..text.len()));
    }
}
