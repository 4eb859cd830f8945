//! Errors as a user sees them, and their exit codes.

use crate::{
    exit_status::ExitStatus, image_error::ImageCommandError, output::note, session_log,
    text::paragraph,
};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use cvc_core::source::{SourceError, SourceErrors};
use cvc_core::store::StoreError;
use cvc_core::units::counted;
use cvc_delta::{DeltaError, DeltaErrorKind};
use cvc_engine::{attempt::RunError, crew::CrewError};
use cvc_index::error::AnalysisError;
use cvc_prediction::predict::PredictError;
use cvc_session::SessionError;
use cvc_show::ShowError;
use cvc_sites::error::CampaignError;
use cvc_sites::install::InstallError;
use std::{
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Why a command ends without having done its work.
#[derive(Debug)]
pub enum Failure {
    /// An error in the campaign file or a descriptor.
    Spec(SourceErrors),
    /// An error that stopped the campaign.
    Campaign(CampaignError),
    /// An unusable file of the campaign.
    Store(StoreError),
    /// An error of the index or of a report.
    Analysis(AnalysisError),
    /// An error while software was installed or searched on a site.
    Install(Box<InstallError>),
    /// An error of `cvc image`.
    Image(ImageCommandError),
    /// The reader of the output has closed it (`cvc … | head`), which is not an error.
    Unread,
    /// Any other error: a message in one line, and how to fix it.
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
            SessionError::ImpossibleRequest { message, hint } => Self::Other {
                status: ExitStatus::Usage,
                message,
                hint: Some(hint),
            },
            SessionError::NoCampaign(_) => Self::Other {
                status: ExitStatus::Store,
                message: error.to_string(),
                hint: Some(
                    "`cvc run FILE` or `cvc import FILE` creates one; --campaigns sets the parent directory"
                        .into(),
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
        ImageCommandError::ListingOfDirectory(_) | ImageCommandError::AgainstDirectory(_) => {
            ExitStatus::Usage
        }
        ImageCommandError::Compressor { .. } => ExitStatus::Installation,
        ImageCommandError::Image(_)
        | ImageCommandError::BrokenImages { .. }
        | ImageCommandError::BrokenTree { .. }
        | ImageCommandError::NoImages { .. } => ExitStatus::Unreadable,
        ImageCommandError::Output(_) => ExitStatus::Store,
    }
}

/// Returns a hint for an error in a campaign's files.
fn store_hint(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Damaged { path, .. } if path.ends_with("journal.jsonl") => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!("`cvc fsck {campaign}` shows the losses; with --repair, it continues with complete entries"))
        }
        StoreError::Copied { original, .. } => {
            Some(format!("use {}, or remove it; for a separate campaign, start from the campaign file", original.display()))
        }
        StoreError::Io { path, .. } if path.starts_with(cvc_core::paths::cache()) => {
            Some("cvc keeps reproducible files there; set XDG_CACHE_HOME to use another directory".into())
        }
        StoreError::Io { .. } if error.is_full_disk() => Some("make room, then run the same command again: it continues".into()),
        StoreError::Io { path, source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty() && !parent.exists())
                .map(|parent| format!("{} does not exist: create it, or correct the path", parent.display())),
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Some("change its permissions, or choose a directory of your own".into())
            }
            std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
                Some("it is a file: give a directory, or another file".into())
            }
            _ => None,
        },
        StoreError::WentBack { path, .. } => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!(
                "restore its newest copy, or run `cvc fsck --repair {campaign}` to continue from the present state and keep complete runs"
            ))
        }
        StoreError::Fenced { path, .. } => {
            let campaign = path.parent().unwrap_or(path).display();
            Some(format!(
                "this cvc ended its runs here and left the rest to the other one; if there is none, run the command again at the present location of {campaign}"
            ))
        }
        StoreError::NoLocks { .. } => Some(
            "mount it with locks (Lustre: `-o flock`; NFS: without `nolock`), or put the campaign on another file system (`--campaigns DIR`)".into(),
        ),
        StoreError::Damaged { .. } | StoreError::Newer { .. } | StoreError::Locked { .. } => None,
    }
}

/// Maximum number of errors shown for a file. In a file that is not a campaign, further errors follow from the first.
const MAX_PLACED: usize = 10;

/// Renders the line of a file around a span. The text has no colours, because their escape codes could not be distinguished from escape codes in the
/// file.
fn source_lines(path: &Path, text: &str, span: Range<usize>) -> String {
    let snippet = Snippet::source(text)
        .path(path.to_string_lossy())
        .annotation(AnnotationKind::Primary.span(span));
    let group = Group::with_level(Level::ERROR).element(snippet);
    Renderer::plain().render(&[group])
}

impl Failure {
    /// Prints the error and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Self::Spec(SourceErrors(errors)) => {
                let more = errors.len().saturating_sub(MAX_PLACED);
                for (i, error) in errors.into_iter().take(MAX_PLACED).enumerate() {
                    if i > 0 {
                        note("");
                    }
                    report_placed(error);
                }
                if more > 0 {
                    note(format!("\nand {}", counted(more, "more error")));
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

/// Prints an error of a file that people write, with the lines around the position if [`is_near`] allows showing them.
fn report_placed(error: SourceError) {
    // the position is repeated in one line, for editors and scripts
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
    note(paragraph("", &format!("error: {message}")));
    if let Some(span) = span {
        note(source_lines(&error.path, &text, span));
    }
    if let Some(hint) = &error.hint {
        note(paragraph("  ", &format!("hint: {hint}")));
    }
}

/// Returns the exit code for a campaign's error.
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

/// Returns a hint for a campaign's error.
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
            let first = if error.is_full_disk() { "make room" } else { "fix the cause" };
            Some(format!("{first}, then run the same command again: it continues"))
        }
        CampaignError::Leftover { .. } => {
            Some("run `cvc run` or `cvc down` to end it; `cvc sweep` also finds instances, from any machine".into())
        }
    }
}

/// Maximum bytes shown of an excerpt's long line, before and after the error's position.
const SHOWN_BEFORE: usize = 240;
const SHOWN_AFTER: usize = 120;

/// Returns whether lines of a file may be shown. The file must be below the current directory, or below the directory of a file on the command line,
/// and no part of its path from there may be hidden. Other files may contain secrets.
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

/// Cuts long lines of the text around the position; returns the text and the span in it.
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
            // keep the beginning of the line if the position is near it, so that the shown column equals the column in the file
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

fn one_line(status: ExitStatus, message: &str, hint: Option<&str>) -> ExitCode {
    tracing::error!(exit = status.code(), hint, "{message}");
    note(paragraph("", &format!("error: {message}")));
    if let Some(hint) = hint {
        note(paragraph("  ", &format!("hint: {hint}")));
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
        // a position far along the line, after multi-byte characters
        let wide = format!("a = [{}oops]\n", "\"ä\", ".repeat(100_000));
        let at = wide.find("oops").expect("there");
        let (text, span) = shortened(&wide, Some(at..at + 4));
        assert_eq!(&text[span.expect("a place")], "oops");
        assert!(text.len() < 1000, "{}", text.len());
        assert_eq!(shortened(&wide, None).1, None);
        // a position at the end of the text
        let end = wide.trim_end().len();
        let (text, span) = shortened(wide.trim_end(), Some(end..end));
        assert_eq!(span, Some(text.len()..text.len()));
    }
}
