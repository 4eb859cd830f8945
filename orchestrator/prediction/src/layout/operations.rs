//! Sources of the operation counts of layouts: a known file system, or a table of counts.

use super::answer::KindOperations;
use crate::predict::PredictError;
use camino::Utf8Path;
use cvc_core::source::{SourceText, suggestion};
use cvc_core::units::counted;
use cvc_index::csv::{self, CsvRecord};
use cvc_model::{
    Estimate,
    metadata::{
        Layout, MetadataSetting,
        known::KnownFileSystem,
        law::{Counted, OperationLaw, Quality},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a table of counts; others are ignored.
const COLUMNS: [&str; 6] = [
    "layout",
    "clients",
    "checkpoints",
    "servers",
    "kind",
    "count",
];
const NEEDS: &str =
    "a table of counts has the columns layout,clients,checkpoints,servers,kind,count";

/// The word for a count that is unknown, for example because a node was lost or a server restarted.
const UNKNOWN: &str = "unknown";

/// A table of counts from runs, with a fitted law for each layout and kind of operation.
#[derive(Debug)]
pub struct OperationTable {
    name: String,
    laws: BTreeMap<(Layout, String), OperationLaw>,
    warnings: Vec<String>,
}

/// The source of operation counts.
#[derive(Debug)]
pub enum OperationSource {
    /// A known file system.
    Known(&'static KnownFileSystem),
    /// A table of counts.
    Counted(OperationTable),
}

/// Operations of a layout.
pub(super) struct LayoutOperations {
    pub(super) total: Estimate,
    pub(super) kinds: Vec<KindOperations>,
    pub(super) notes: Vec<String>,
}

impl OperationSource {
    pub(super) fn about(&self) -> String {
        match self {
            Self::Known(of) => of.source.to_owned(),
            Self::Counted(of) => of.name.clone(),
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Known(_) => Vec::new(),
            Self::Counted(of) => of.warnings.clone(),
        }
    }

    pub(super) fn locks_stripes(&self) -> Option<bool> {
        match self {
            Self::Known(of) => of.locks_stripes,
            Self::Counted(_) => None,
        }
    }

    /// Returns the operations of a layout on `nodes`, or the reason why they are unknown. If the layout with one file for each node was not counted,
    /// the counts with one file for each process are used, with one process on each node. If logs were not counted, the counts with one file for each
    /// process are used.
    pub(super) fn operations(
        &self,
        layout: Layout,
        at: MetadataSetting,
        nodes: u64,
    ) -> Result<LayoutOperations, String> {
        let counted = self.counted(layout, at);
        let (writers, note) = match layout {
            Layout::PerNode => (
                MetadataSetting {
                    clients: nodes,
                    ..at
                },
                "as files per process with one process on each node",
            ),
            Layout::Log => (at, "written like files per process"),
            Layout::PerProcess | Layout::Segmented | Layout::Strided | Layout::Delegated => {
                return counted;
            }
        };
        counted.or_else(|reason| {
            let mut found = self
                .counted(Layout::PerProcess, writers)
                .map_err(|of_files| {
                    if layout == Layout::Log {
                        of_files
                    } else {
                        reason
                    }
                })?;
            found.notes.push(note.into());
            Ok(found)
        })
    }

    fn counted(&self, layout: Layout, at: MetadataSetting) -> Result<LayoutOperations, String> {
        match self {
            Self::Known(of) => {
                let known = of
                    .operations(layout, at)
                    .map_err(|error| error.to_string())?;
                Ok(LayoutOperations {
                    total: known.total,
                    kinds: known
                        .kinds
                        .into_iter()
                        .map(|(kind, count)| KindOperations {
                            kind: kind.to_owned(),
                            count,
                        })
                        .collect(),
                    notes: known.note.map(str::to_owned).into_iter().collect(),
                })
            }
            Self::Counted(table) => table.operations(layout, at),
        }
    }
}

impl OperationTable {
    fn operations(&self, layout: Layout, at: MetadataSetting) -> Result<LayoutOperations, String> {
        let (mut kinds, mut total) = (Vec::new(), Estimate::exact(0.0));
        let (mut is_unchecked, mut miss, mut beyond) = (false, 0.0_f64, 0.0_f64);
        for ((_, kind), law) in self.laws.iter().filter(|((of, _), _)| *of == layout) {
            let count = law
                .at(at)
                .map_err(|of| format!("{}, kind `{kind}`: {of}", layout.word()))?;
            match law.quality() {
                Quality::Exact => {}
                Quality::Unchecked => is_unchecked = true,
                Quality::Near { beyond: of } => beyond = beyond.max(of),
                Quality::Approximate { miss: of } => miss = miss.max(of),
            }
            total = total.plus_together(count);
            kinds.push(KindOperations {
                kind: kind.clone(),
                count: count.value,
            });
        }
        if kinds.is_empty() {
            return Err(format!("{} is not in the table", layout.word()));
        }
        let mut notes = Vec::new();
        if is_unchecked {
            notes.push("there are as many counts as terms, so no count checks the law".into());
        }
        if beyond > 0.0 {
            notes.push(format!(
                "integer coefficients reproduce the counts except for up to {}, the housekeeping of a mount or server",
                counted(beyond, "operation")
            ));
        }
        if miss > 0.0 {
            notes.push(format!(
                "a kind follows no law: left-out counts are missed by up to {:.0} %",
                100.0 * miss
            ));
        }
        Ok(LayoutOperations {
            total,
            kinds,
            notes,
        })
    }
}

/// Parses a table of counts.
///
/// # Errors
/// The first problem, with line and hint.
pub fn parse_operations(path: &Utf8Path, text: &str) -> Result<OperationTable, PredictError> {
    let wrong = |line: usize, message: String, hint: &str| PredictError::Csv {
        path: path.to_owned(),
        line,
        message,
        hint: hint.to_owned(),
    };
    let source = SourceText {
        path: path.into(),
        text: text.into(),
    };
    let records = csv::records(&source, Some(csv::COMMENT)).map_err(|e| {
        let line = e.position().map_or(1, |(line, _)| line);
        wrong(line, e.message, &e.hint.unwrap_or_default())
    })?;
    let (header, rows) = records
        .split_first()
        .ok_or_else(|| wrong(1, "the table is empty".into(), NEEDS))?;
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        let is_it = |field: &csv::CsvField| field.text.trim() == name;
        *place = header.fields.iter().position(is_it).ok_or_else(|| {
            wrong(
                header.line,
                format!("the column `{name}` is missing"),
                NEEDS,
            )
        })?;
    }
    if rows.is_empty() {
        return Err(wrong(
            header.line,
            "the table has no counts".into(),
            "`cvc metadata --csv` prints counts",
        ));
    }
    let mut counts: BTreeMap<(Layout, String), Vec<Counted>> = BTreeMap::new();
    let (mut unknown, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let texts = |record: &CsvRecord| -> Vec<String> {
        record.fields.iter().map(|of| of.text.clone()).collect()
    };
    // if tables were appended to each other, the header is repeated
    for record in rows.iter().filter(|row| texts(row) != texts(header)) {
        let row = CountRow {
            path,
            record,
            places: &places,
        };
        let (layout, kind, at, count) = row.parse()?;
        if !seen.insert((layout, kind.clone(), at)) {
            return Err(wrong(
                record.line,
                format!("`{kind}` of {} is counted twice here", layout.word()),
                "give one line for each layout, setting and kind",
            ));
        }
        match count {
            Some(count) => counts
                .entry((layout, kind))
                .or_default()
                .push(Counted { at, count }),
            None => {
                unknown.insert((layout, at));
            }
        }
    }
    table(path, counts, &unknown, &seen)
}

/// Fits the laws. A setting with an unknown count is skipped as a whole.
fn table(
    path: &Utf8Path,
    mut counts: BTreeMap<(Layout, String), Vec<Counted>>,
    unknown: &BTreeSet<(Layout, MetadataSetting)>,
    seen: &BTreeSet<(Layout, String, MetadataSetting)>,
) -> Result<OperationTable, PredictError> {
    let model = |message: String, hint: &str| PredictError::Model {
        message: format!("{path}: {message}"),
        hint: hint.to_owned(),
    };
    let mut of_layout: BTreeMap<Layout, (BTreeSet<&String>, BTreeSet<MetadataSetting>)> =
        BTreeMap::new();
    for (layout, kind, at) in seen {
        let (kinds, settings) = of_layout.entry(*layout).or_default();
        kinds.insert(kind);
        settings.insert(*at);
    }
    for (layout, (kinds, settings)) in &of_layout {
        for at in settings {
            let is_missing = |kind: &&&String| !seen.contains(&(*layout, (**kind).clone(), *at));
            if let Some(kind) = kinds.iter().find(is_missing) {
                return Err(model(
                    format!(
                        "{} at {} clients, {} checkpoints and {} servers has no `{kind}`",
                        layout.word(),
                        at.clients,
                        at.checkpoints,
                        at.servers
                    ),
                    "write 0 if there were none: a kind that was not counted is not 0",
                ));
            }
        }
    }
    for ((layout, _), of) in &mut counts {
        of.retain(|count| !unknown.contains(&(*layout, count.at)));
    }
    counts.retain(|_, of| !of.is_empty());
    let mut laws = BTreeMap::new();
    for ((layout, kind), of) in counts {
        let law = OperationLaw::fit(&of).map_err(|error| {
            model(
                format!("{}, kind `{kind}`: {error}", layout.word()),
                "check the numbers of this layout",
            )
        })?;
        laws.insert((layout, kind), law);
    }
    if laws.is_empty() {
        return Err(model(
            "all counts are unknown".into(),
            "repeat the runs without losing nodes or servers",
        ));
    }
    let warnings = unknown
        .iter()
        .map(|(layout, at)| {
            format!(
                "{} at {} clients and {} checkpoints is left out: a count is unknown",
                layout.word(),
                at.clients,
                at.checkpoints
            )
        })
        .collect();
    Ok(OperationTable {
        name: path.to_string(),
        laws,
        warnings,
    })
}

struct CountRow<'a> {
    path: &'a Utf8Path,
    record: &'a CsvRecord,
    places: &'a [usize; COLUMNS.len()],
}

impl CountRow<'_> {
    fn wrong(&self, message: String, hint: String) -> PredictError {
        PredictError::Csv {
            path: self.path.to_owned(),
            line: self.record.line,
            message,
            hint,
        }
    }

    fn field(&self, column: usize) -> Result<&str, PredictError> {
        let field = self.record.fields.get(self.places[column]);
        let text = field.map(|field| field.text.trim()).unwrap_or_default();
        match text.is_empty() {
            false => Ok(text),
            true => Err(self.wrong(format!("`{}` is empty", COLUMNS[column]), NEEDS.to_owned())),
        }
    }

    fn number(&self, column: usize, least: u64) -> Result<u64, PredictError> {
        let text = self.field(column)?;
        let number = text.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| {
            self.wrong(
                format!("`{}` is `{text}`", COLUMNS[column]),
                format!("write a whole number from {least}, without separators of thousands"),
            )
        })
    }

    fn parse(&self) -> Result<(Layout, String, MetadataSetting, Option<u64>), PredictError> {
        let word = self.field(0)?;
        let layout = Layout::from_word(word).ok_or_else(|| {
            let hint = suggestion(word, "layouts", Layout::ALL.map(Layout::word));
            self.wrong(format!("unknown layout `{word}`"), hint)
        })?;
        let at = MetadataSetting {
            clients: self.number(1, 1)?,
            checkpoints: self.number(2, 1)?,
            servers: self.number(3, 1)?,
        };
        let count = match self.field(5)? {
            UNKNOWN => None,
            _ => Some(self.number(5, 0)?),
        };
        Ok((layout, self.field(4)?.to_owned(), at, count))
    }
}
