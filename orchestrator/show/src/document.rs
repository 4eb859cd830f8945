//! The model of documents. Commands and reports create documents, emitters write them in a format; neither depends on the other.

use crate::error::ShowError;
use cvc_core::store::StoreError;
use cvc_model::{
    Estimate,
    stats::{Comparison, Summary},
};
use serde::Serialize;
use std::sync::Arc;

/// Version of the JSON format of documents.
pub const SCHEMA: u32 = 1;

/// A document: a report, a comparison, the output of a command.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Version of the document model.
    pub schema: u32,
    /// Subject of the report.
    pub kind: DocumentKind,
    /// Name of the campaign or the paper.
    pub campaign: String,
    /// Title in the campaign file, otherwise the campaign's name.
    pub title: String,
    /// Times of the first and last line of the journal, UTC.
    pub span: Option<(String, String)>,
    /// Sections, in order.
    pub sections: Vec<Section>,
    /// Questions and answers, printed on terminals only; files contain them in sections.
    #[serde(skip)]
    pub found: Vec<(String, String)>,
    /// Tables for programs: the data of the sections in long form. Only the CSV emitter writes them.
    #[serde(skip)]
    pub data_tables: Vec<Table>,
    /// Rows that may exceed memory, for the CSV emitter only.
    #[serde(skip)]
    pub long_rows: Option<Arc<dyn LongRows>>,
}

/// Rows for programs that are read while they are written, because they may exceed memory.
pub trait LongRows: std::fmt::Debug + Send + Sync {
    /// Returns the name of the file for these rows.
    fn name(&self) -> &str;
    /// Returns the names of the columns.
    fn columns(&self) -> Vec<String>;
    /// Calls `line` with the fields of each row.
    ///
    /// # Errors
    /// Rows cannot be read, or `line` fails.
    fn each(&self, line: LineWriter<'_>) -> Result<(), ShowError>;
}

/// Callback that writes the fields of one row.
pub type LineWriter<'a> =
    &'a mut dyn FnMut(&mut dyn Iterator<Item = String>) -> Result<(), StoreError>;

/// The subject of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentKind {
    /// The runs of a campaign.
    Campaign,
    /// The printed tables of a paper.
    Paper,
    /// A comparison of two sites or campaigns.
    Comparison,
    /// The advice of `cvc advise`.
    Advice,
}

impl DocumentKind {
    /// Returns the words printed above the document's title.
    pub fn label(self) -> &'static str {
        match self {
            Self::Campaign => "Checkpoint campaign",
            Self::Paper => "Printed tables, recomputed and measured",
            Self::Comparison => "Comparison",
            Self::Advice => "Advice",
        }
    }
}

/// A part of a document with a heading.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Identifier in links and file names: letters, digits and hyphens.
    pub id: &'static str,
    /// Text of the heading.
    pub title: String,
    /// Blocks of the section, in order.
    pub blocks: Vec<Block>,
}

/// A block of a section: text, a table, or a plot.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "block", rename_all = "kebab-case")]
pub enum Block {
    /// A paragraph.
    Text {
        /// The text.
        text: String,
    },
    /// An important fact, which is highlighted.
    Warning {
        /// The text.
        text: String,
    },
    /// A list of names with their values.
    Pairs {
        /// The pairs, in order.
        pairs: Vec<(String, String)>,
    },
    /// An item of a list.
    Item {
        /// Level of indentation, from 0.
        level: usize,
        /// The text.
        text: String,
    },
    /// A line that terminals do not wrap; empty between parts.
    Line {
        /// The text.
        text: String,
    },
    /// A command to type.
    Command {
        /// The command.
        text: String,
    },
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
}

/// Rows under typed columns.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Identifier in links, and name of the CSV file: letters, digits, hyphens and underscores.
    pub id: String,
    /// Title of the table.
    pub title: String,
    /// Describes the table's content in a sentence.
    pub caption: String,
    /// Whether the table is folded on a page, because it is long and rarely read.
    pub folded: bool,
    /// Whether the table has no CSV file, because another table has the same data in a form for programs.
    #[serde(skip)]
    pub page_only: bool,
    /// Maximum width if the width of the terminal is unknown.
    #[serde(skip)]
    pub fallback_width: Option<u16>,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows; each has one cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Footnotes.
    pub notes: Vec<Note>,
}

/// A footnote of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The mark by which cells refer to the note.
    pub mark: String,
    /// The text.
    pub text: String,
}

/// A column of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Name of the column in data files, with the unit that the values have there.
    pub id: String,
    /// Heading for people, without a unit.
    pub heading: String,
    /// Unit of the values as stored: `s`, `bytes`, `count`, ...; `None` for text and plain numbers.
    pub unit: Option<String>,
    /// Which direction is better, as text, such as `lower is better`.
    pub better: Option<&'static str>,
    /// Whether the column is only in data files, because its value is constant or can be computed from another column.
    pub data_only: bool,
    /// How texts are treated on a terminal that is narrower than the table.
    #[serde(skip)]
    pub narrow: Narrow,
    /// Whether texts are right-aligned on terminals, like numbers.
    #[serde(skip)]
    pub right: bool,
}

/// How a column's texts are treated if a table is wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Narrow {
    /// Not changed.
    #[default]
    Keep,
    /// Wrapped between words.
    Wrap,
    /// Shortened in the middle.
    Shorten,
}

/// A cell of a table. A predicted value is never `Measured`, and a measured one never `Predicted`. Large contents are boxed, because a report of 10^5
/// runs has millions of cells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "cell", rename_all = "kebab-case")]
pub enum Cell {
    /// An empty cell.
    Empty,
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A number that was not measured, or one number of a summary (such as the minimum).
    Number {
        /// The number, in the unit of the column.
        value: f64,
    },
    /// A measured quantity, summarized over repeats.
    Measured {
        /// The summary, in the unit of the column.
        summary: Box<Summary>,
    },
    /// A prediction by a model that was not fitted to this point.
    Predicted {
        /// The predicted value with its prediction interval, in the unit of the column.
        estimate: Estimate,
    },
    /// The ratio of two measured quantities, from repeats that ran close together in time.
    Compared {
        /// Ratio of the means with its interval.
        comparison: Box<Comparison>,
    },
    /// A link to a table of the same document, or to a cell of such a table.
    Link {
        /// The text.
        text: String,
        /// Identifier of the table or the cell.
        to: String,
    },
    /// A cell of a printed table, compared with other numbers.
    Against {
        /// The printed number and its comparisons.
        against: Box<Against>,
    },
}

/// A cell of a printed table, with the numbers that it is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// The text as printed.
    pub printed: String,
    /// The number in the text; `None` if it contains none.
    pub value: Option<f64>,
    /// Identifier of the cell for links; `None` if nothing links to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Outcome of the comparison.
    pub mark: Mark,
    /// Confidence that the printed number is wrong; `None` if it is not assumed to be wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Describes the outcome.
    pub verdict: String,
    /// The number recomputed from the paper's other data.
    pub recomputed: Option<ComparedValue>,
    /// The number predicted by a model.
    pub modelled: Option<ComparedValue>,
    /// The number measured in own runs.
    pub measured: Option<ComparedValue>,
    /// Marks of the footnotes that apply to the cell.
    pub notes: Vec<String>,
}

impl Against {
    /// Returns the character of the mark; for a wrong number with less than high confidence, with question marks.
    pub fn symbol(&self) -> String {
        let doubt = self.confidence.map_or("", Confidence::doubt);
        format!("{}{doubt}", self.mark.symbol())
    }
}

/// Confidence that a printed number is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Other printed numbers prove that this one is wrong.
    High,
    /// A wrong printed number is the most likely explanation of the difference.
    Medium,
    /// Some printed number is wrong, and it may be this one.
    Low,
}

impl Confidence {
    /// All levels of confidence, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// Returns the word for the level in data files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    /// Returns the question marks that follow the mark, by level.
    pub fn doubt(self) -> &'static str {
        match self {
            Self::High => "",
            Self::Medium => "?",
            Self::Low => "??",
        }
    }
}

/// A number that is compared with a printed one.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedValue {
    /// The number.
    pub value: f64,
    /// The number as text.
    pub shown: String,
    /// Difference: the number minus the printed one.
    pub by: f64,
    /// The difference in percent of the printed number.
    pub pct: Option<f64>,
    /// Outcome for this number; `None` if its expected deviation is unknown.
    pub mark: Option<Mark>,
    /// Further details.
    pub details: String,
}

/// Outcome of the comparison of a number with a printed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The cell is a label, which is not compared.
    Label,
    /// The number equals the printed digits.
    Equal,
    /// The number equals the printed digits, but was computed with a constant that was inferred from print.
    Inferred,
    /// The number is within the tolerance.
    Within,
    /// The number differs.
    Differs,
    /// The printed number is wrong.
    Wrong,
    /// No number exists to compare with.
    Cannot,
}

impl Mark {
    /// All outcomes but [`Self::Label`].
    pub const COMPARED: [Self; 6] = [
        Self::Equal,
        Self::Inferred,
        Self::Within,
        Self::Differs,
        Self::Wrong,
        Self::Cannot,
    ];

    /// Returns the character of the mark; in parentheses if the outcome proves nothing.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Label => "",
            Self::Equal => "\u{2713}",
            Self::Inferred => "(\u{2713})",
            Self::Within => "\u{2248}",
            Self::Differs => "\u{2260}",
            Self::Wrong => "\u{2717}",
            Self::Cannot => "\u{00b7}",
        }
    }

    /// Returns whether the outcome means that the compared number equals the printed digits.
    pub fn is_equal(self) -> bool {
        matches!(self, Self::Equal | Self::Inferred)
    }

    /// Returns the word for the mark, the same in all outputs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Equal => "equal",
            Self::Inferred => "fitted",
            Self::Within => "within",
            Self::Differs => "differs",
            Self::Wrong => "misprint",
            Self::Cannot => "not checkable",
        }
    }

    /// Returns the CSS class of the mark.
    pub fn class(self) -> String {
        self.word().replace(' ', "-")
    }

    /// Returns the meaning of the mark, for legends.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Label => "labels the row",
            Self::Equal => "recomputed from the paper's own inputs, to the printed digits",
            Self::Inferred => "equal, because a constant was fitted to these cells: no evidence",
            Self::Within => "recomputed, and as close as rounding or a stated tolerance allows",
            Self::Differs => "recomputed, but different",
            Self::Wrong => "wrong in print; ? and ?? mark medium and low confidence",
            Self::Cannot => "a measurement or an input: no other printed number gives it",
        }
    }
}

impl ComparedValue {
    /// Formats the difference from the printed number for people.
    pub fn deviation(&self) -> String {
        match self.pct {
            // a sign before only zeros would be misleading
            Some(pct) if pct.abs() < 0.005 => "0.00 %".to_owned(),
            Some(pct) if pct.abs() < 10.0 => format!("{pct:+.2} %"),
            Some(pct) => format!("{pct:+.1} %"),
            None => format!("{:+}", self.by),
        }
    }
}

/// A plot: drawings with a legend.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// Identifier in links and file names.
    pub id: String,
    /// Title of the plot.
    pub title: String,
    /// Describes the plot's content in a sentence.
    pub caption: String,
    /// Width of the panels side by side, in CSS pixels; on a narrower page the panels are below each other.
    pub width: u32,
    /// The legend of all panels: an `<svg>` element for each name. Empty if there is only one series.
    pub keys: Vec<String>,
    /// An `<svg>` element for each panel. All elements inherit their text colour.
    pub panels: Vec<String>,
}

impl Column {
    /// Returns a column of text, or of numbers without a unit.
    pub fn plain(id: &str, heading: &str) -> Self {
        Self {
            id: id.to_owned(),
            heading: heading.to_owned(),
            unit: None,
            better: None,
            data_only: false,
            narrow: Narrow::Keep,
            right: false,
        }
    }

    /// Returns a column of values with a unit. The unit is appended to the name in data files, unless the name contains it.
    pub fn of(id: &str, heading: &str, unit: &str) -> Self {
        let suffix = match unit {
            "MiB/s" => "mib_per_s",
            "Mop/s" => "mop_per_s",
            "%" => "pct",
            "USD" => "usd",
            "1" | "count" | "bool" => "",
            other => other,
        };
        let named = suffix.is_empty()
            || id.ends_with(&format!("_{suffix}"))
            || id.contains(&format!("_{suffix}_"));
        let id = if named {
            id.to_owned()
        } else {
            format!("{id}_{suffix}")
        };
        Self {
            id,
            heading: heading.to_owned(),
            unit: Some(unit.to_owned()),
            better: None,
            data_only: false,
            narrow: Narrow::Keep,
            right: false,
        }
    }

    /// Sets which direction is better.
    pub fn better(mut self, better: Option<&'static str>) -> Self {
        self.better = better;
        self
    }

    /// Restricts the column to data files.
    pub fn data_only(mut self) -> Self {
        self.data_only = true;
        self
    }
}

impl Cell {
    /// Returns a cell with text; an empty cell for an empty text.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self::Empty
        } else {
            Self::Text { text }
        }
    }

    /// Returns a cell with a number; an empty cell without one.
    pub fn number(value: impl Into<Option<f64>>) -> Self {
        value
            .into()
            .map_or(Self::Empty, |value| Self::Number { value })
    }

    /// Returns a cell with a count.
    pub fn count(value: usize) -> Self {
        Self::Number {
            value: value as f64,
        }
    }

    /// Returns a cell with a prediction; an empty cell without one.
    pub fn predicted(estimate: Option<Estimate>) -> Self {
        estimate.map_or(Self::Empty, |estimate| Self::Predicted { estimate })
    }

    /// Returns a cell with a measurement; an empty cell without one.
    pub fn measured(summary: Option<&Summary>) -> Self {
        summary.map_or(Self::Empty, |summary| Self::Measured {
            summary: Box::new(summary.clone()),
        })
    }
}

impl Table {
    /// Returns a table without rows.
    pub fn new(id: &str, title: &str, caption: &str, columns: Vec<Column>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            caption: caption.to_owned(),
            folded: false,
            page_only: false,
            fallback_width: None,
            columns,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Headings, each with a function that returns the text of a cell in its column.
pub type TextColumns<'a, T> = &'a [(&'a str, &'a dyn Fn(&T) -> String)];

impl Table {
    /// Returns a table of texts for terminals, without rows.
    pub fn plain<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = headings.into_iter().map(|name| Column::plain(name, name));
        Self::new("", "", "", columns.collect())
    }

    /// Returns a table of texts with a row for each item; `columns` gives the headings and the text of each cell.
    pub fn of<T>(items: impl IntoIterator<Item = T>, columns: TextColumns<'_, T>) -> Self {
        let mut table = Self::plain(columns.iter().map(|(heading, _)| *heading));
        for item in items {
            table.row(columns.iter().map(|(_, cell)| cell(&item)));
        }
        table
    }

    /// Adds a row of text cells.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Cell::text).collect());
    }

    /// Removes the column with this heading.
    pub fn without(mut self, heading: &str) -> Self {
        while let Some(at) = self.columns.iter().position(|c| c.heading == heading) {
            self.columns.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        self
    }

    /// Changes the heading of a column.
    pub fn renamed(mut self, heading: &str, other: &str) -> Self {
        let columns = self.columns.iter_mut();
        columns
            .filter(|column| column.heading == heading)
            .for_each(|column| other.clone_into(&mut column.heading));
        self
    }

    /// Allows to wrap the columns with these headings between words.
    pub fn wrap(self, headings: &[&str]) -> Self {
        headings
            .iter()
            .fold(self, |table, heading| table.narrow(heading, Narrow::Wrap))
    }

    /// Sets how a column is treated if the table is too wide.
    pub fn narrow(mut self, heading: &str, narrow: Narrow) -> Self {
        let columns = self.columns.iter_mut();
        columns
            .filter(|column| column.heading == heading)
            .for_each(|column| column.narrow = narrow);
        self
    }

    /// Right-aligns the column with this index and all later ones.
    pub fn right_from(mut self, first: usize) -> Self {
        let columns = self.columns.iter_mut().skip(first);
        columns.for_each(|column| column.right = true);
        self
    }
}

impl Document {
    /// Returns all tables of the sections, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections
            .iter()
            .flat_map(|s| &s.blocks)
            .filter_map(|b| match b {
                Block::Table(table) => Some(table),
                Block::Text { .. }
                | Block::Item { .. }
                | Block::Line { .. }
                | Block::Warning { .. }
                | Block::Pairs { .. }
                | Block::Command { .. }
                | Block::Plot(_) => None,
            })
    }
}
