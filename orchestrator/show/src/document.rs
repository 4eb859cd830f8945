//! The parts of a document. Commands and reports make them, emitters write them, and neither side knows the other.

use crate::error::ShowError;
use cvc_core::store::StoreError;
use cvc_model::{
    Estimate,
    stats::{Comparison, Summary},
};
use serde::Serialize;
use std::sync::Arc;

/// Version of the model, as written to JSON.
pub const SCHEMA: u32 = 1;

/// Something that is shown: a report, a comparison, the answer of a command.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Version of this model.
    pub schema: u32,
    /// Subject of the report.
    pub kind: DocumentKind,
    /// Name of the campaign or the paper.
    pub campaign: String,
    /// Heading: the title in the campaign file, else the campaign's name.
    pub title: String,
    /// Times of the first and last line of the journal, UTC.
    pub span: Option<(String, String)>,
    /// Sections, in order.
    pub sections: Vec<Section>,
    /// What was found in words, for terminals: what was asked, and the answer. Files have it in the sections.
    #[serde(skip)]
    pub found: Vec<(String, String)>,
    /// Tables for programs, which only the CSV emitter writes: they say again, in long form, what the sections say.
    #[serde(skip)]
    pub data_tables: Vec<Table>,
    /// Rows that may be more than memory holds; only the CSV emitter writes them.
    #[serde(skip)]
    pub long_rows: Option<Arc<dyn LongRows>>,
}

/// Rows for programs that are read when they are written.
pub trait LongRows: std::fmt::Debug + Send + Sync {
    /// Name of their file.
    fn name(&self) -> &str;
    /// Names of the columns.
    fn columns(&self) -> Vec<String>;
    /// Hands over the fields of one row after another.
    ///
    /// # Errors
    /// When rows cannot be read, or `line` fails.
    fn each(&self, line: LineWriter<'_>) -> Result<(), ShowError>;
}

/// Writes the fields of a row.
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
    /// Two sites or campaigns.
    Comparison,
    /// What to take.
    Advice,
}

impl DocumentKind {
    /// Returns the words above the heading.
    pub fn words(self) -> &'static str {
        match self {
            Self::Campaign => "Checkpoint campaign",
            Self::Paper => "Printed tables, recomputed and measured",
            Self::Comparison => "Comparison",
            Self::Advice => "Advice",
        }
    }
}

/// A part with a heading.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Name in links and files: letters, digits and hyphens.
    pub id: &'static str,
    /// Heading.
    pub title: String,
    /// Contents, in order.
    pub blocks: Vec<Block>,
}

/// One piece of a section.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "block", rename_all = "kebab-case")]
pub enum Block {
    /// A paragraph.
    Text {
        /// The text.
        text: String,
    },
    /// A fact that readers must not overlook.
    Warning {
        /// The text.
        text: String,
    },
    /// Names with their values.
    Pairs {
        /// In order.
        pairs: Vec<(String, String)>,
    },
    /// A paragraph of a list.
    Item {
        /// How far it is indented, from 0.
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
    /// Name in links and of the CSV file: letters, digits, hyphens and underscores.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What the table shows, in a sentence.
    pub caption: String,
    /// Whether the table is shown folded, because it is long and rarely read.
    pub folded: bool,
    /// Whether the table has no CSV file, because another table has the same data for programs.
    #[serde(skip)]
    pub page_only: bool,
    /// Width for terminals that do not say theirs.
    #[serde(skip)]
    pub fallback_width: Option<u16>,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows; each has one cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Notes at the foot.
    pub notes: Vec<Note>,
}

/// A note at the foot of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The mark by which cells refer to the note.
    pub mark: String,
    /// The text.
    pub text: String,
}

/// One column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Name in data files, with the unit that the values have there.
    pub id: String,
    /// Heading for people, without a unit.
    pub heading: String,
    /// Unit of the values as stored: `s`, `bytes`, `count`, ...; `None` for text and plain numbers.
    pub unit: Option<String>,
    /// Which way is better, in words: `lower is better`.
    pub better: Option<&'static str>,
    /// Whether only data files have it: its value is the same in every row, or follows from another column.
    pub data_only: bool,
    /// What terminals do with its texts where the table is too wide.
    #[serde(skip)]
    pub narrow: Narrow,
    /// Whether terminals align its texts on the right, as numbers are.
    #[serde(skip)]
    pub right: bool,
}

/// What becomes of a column's texts where a table is wider than the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Narrow {
    /// They stay.
    #[default]
    Keep,
    /// They are wrapped between words.
    Wrap,
    /// Their middles are left out.
    Shorten,
}

/// One cell. A predicted value is never `Measured`, nor a measured one `Predicted`. Large contents are boxed: a report of 10^5 runs has
/// millions of cells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "cell", rename_all = "kebab-case")]
pub enum Cell {
    /// No content.
    Empty,
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A number that was not measured, or one number of a summary.
    Number {
        /// In the unit of the column.
        value: f64,
    },
    /// A measurement, summarised over its repeats.
    Measured {
        /// In the unit of the column.
        summary: Box<Summary>,
    },
    /// A prediction of a model that has not seen the point.
    Predicted {
        /// In the unit of the column, with its prediction interval.
        estimate: Estimate,
    },
    /// The ratio of two measurements, from repeats that ran close together.
    Compared {
        /// Ratio of the means with its interval.
        comparison: Box<Comparison>,
    },
    /// Text that links to a table of the same report, or to a cell of one.
    Link {
        /// The text.
        text: String,
        /// Identifier of the table or the cell.
        to: String,
    },
    /// A cell of a printed table, with the numbers to compare it with.
    Against {
        /// The printed number and its comparisons.
        against: Box<Against>,
    },
}

/// A printed number, with the numbers that it is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// As printed.
    pub printed: String,
    /// The printed number; `None` for text.
    pub value: Option<f64>,
    /// Identifier by which links name the cell, where some do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Result of the comparison.
    pub mark: Mark,
    /// How sure that is, where print is said to be wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// The same, in words.
    pub verdict: String,
    /// Recomputed from the paper's own inputs.
    pub recomputed: Option<Beside>,
    /// Predicted by a model.
    pub modelled: Option<Beside>,
    /// Measured here.
    pub measured: Option<Beside>,
    /// Marks of the notes that apply to this cell.
    pub notes: Vec<String>,
}

impl Against {
    /// Returns the character of the mark, with question marks where print is wrong with less than high confidence.
    pub fn symbol(&self) -> String {
        let doubt = self.confidence.map_or("", Confidence::doubt);
        format!("{}{doubt}", self.mark.symbol())
    }
}

/// How sure it is that print is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Other numbers in print prove it.
    High,
    /// It is the most likely explanation.
    Medium,
    /// Something is wrong, perhaps this.
    Low,
}

impl Confidence {
    /// All of them, the surest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// Returns its word in data files.
    pub fn word(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    /// Returns what stands behind the mark.
    pub fn doubt(self) -> &'static str {
        match self {
            Self::High => "",
            Self::Medium => "?",
            Self::Low => "??",
        }
    }
}

/// A number beside a printed one.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// The number.
    pub value: f64,
    /// The number as shown.
    pub shown: String,
    /// The number minus the printed one.
    pub by: f64,
    /// The same, in percent of the printed number.
    pub pct: Option<f64>,
    /// Whether the number is as close as can be expected; `None` if that is unknown.
    pub mark: Option<Mark>,
    /// More about it, in words.
    pub details: String,
}

/// How a number compares with the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Nothing to compare.
    Label,
    /// Equal to the printed digits.
    Equal,
    /// Equal, but by a constant that was inferred from the printed numbers.
    Inferred,
    /// Within a tolerance.
    Within,
    /// Another number.
    Differs,
    /// The printed number is wrong.
    Wrong,
    /// Nothing to compare it with.
    Cannot,
}

impl Mark {
    /// All marks that a comparison can result in.
    pub const COMPARED: [Self; 6] = [
        Self::Equal,
        Self::Inferred,
        Self::Within,
        Self::Differs,
        Self::Wrong,
        Self::Cannot,
    ];

    /// Returns the character of the mark, in parentheses if the mark proves nothing.
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

    /// Returns whether the digits equal the printed ones.
    pub fn is_equal(self) -> bool {
        matches!(self, Self::Equal | Self::Inferred)
    }

    /// Returns the word for the mark in CSS classes and data files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Equal => "equal",
            Self::Inferred => "equal-inferred",
            Self::Within => "within",
            Self::Differs => "differs",
            Self::Wrong => "printed-wrong",
            Self::Cannot => "cannot",
        }
    }

    /// Returns the meaning of the mark.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Label => "labels the row",
            Self::Equal => "recomputed, and equal to the printed digits",
            Self::Inferred => {
                "recomputed and equal, but by a constant that is not printed and was inferred from these very cells: no evidence"
            }
            Self::Within => {
                "recomputed, and as near as the rounding of the printed inputs or the stated tolerance allows"
            }
            Self::Differs => "recomputed, and different from print",
            Self::Wrong => {
                "wrong in print: see the note; with ? the confidence in that is medium, with ?? low"
            }
            Self::Cannot => "cannot be recomputed from what is printed",
        }
    }
}

impl Beside {
    /// Formats the distance to the printed number for people.
    pub fn deviation(&self) -> String {
        match self.pct {
            // a sign before zeros would mislead
            Some(pct) if pct.abs() < 0.005 => "0.00 %".to_owned(),
            Some(pct) if pct.abs() < 10.0 => format!("{pct:+.2} %"),
            Some(pct) => format!("{pct:+.1} %"),
            None => format!("{:+}", self.by),
        }
    }
}

/// A drawing.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What the plot shows, in a sentence.
    pub caption: String,
    /// Width of the panels side by side, in CSS pixels; where less is there, they stand below each other.
    pub width: u32,
    /// The legend of all panels: an `<svg>` element for each name. Empty if there is nothing to tell apart.
    pub keys: Vec<String>,
    /// An `<svg>` element for each panel. All elements inherit their text colour.
    pub panels: Vec<String>,
}

impl Column {
    /// Makes a column of text, or of numbers without a unit.
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

    /// Makes a column of values in a unit; the unit is added to the name unless the name has it already.
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

    /// Sets the better direction.
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
    /// Makes a cell with text; an empty cell if the text is empty.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self::Empty
        } else {
            Self::Text { text }
        }
    }

    /// Makes a cell with a number, or an empty one.
    pub fn number(value: impl Into<Option<f64>>) -> Self {
        value
            .into()
            .map_or(Self::Empty, |value| Self::Number { value })
    }

    /// Makes a cell with a count.
    pub fn count(value: usize) -> Self {
        Self::Number {
            value: value as f64,
        }
    }

    /// Makes a cell with a prediction, or an empty one.
    pub fn predicted(estimate: Option<Estimate>) -> Self {
        estimate.map_or(Self::Empty, |estimate| Self::Predicted { estimate })
    }

    /// Makes a cell with a measurement, or an empty one.
    pub fn measured(summary: Option<&Summary>) -> Self {
        summary.map_or(Self::Empty, |summary| Self::Measured {
            summary: Box::new(summary.clone()),
        })
    }
}

impl Table {
    /// Makes a table without rows.
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

impl Table {
    /// Makes a table of texts for terminals, without rows.
    pub fn plain<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = headings.into_iter().map(|name| Column::plain(name, name));
        Self::new("", "", "", columns.collect())
    }

    /// Adds a row of texts.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Cell::text).collect());
    }

    /// Lets the columns with these headings be wrapped between words.
    pub fn wrap(self, headings: &[&str]) -> Self {
        headings
            .iter()
            .fold(self, |table, heading| table.narrow(heading, Narrow::Wrap))
    }

    /// Sets what becomes of a column that is too wide.
    pub fn narrow(mut self, heading: &str, narrow: Narrow) -> Self {
        let columns = self.columns.iter_mut();
        columns
            .filter(|column| column.heading == heading)
            .for_each(|column| column.narrow = narrow);
        self
    }

    /// Aligns the texts of this column and those after it on the right.
    pub fn right_from(mut self, first: usize) -> Self {
        let columns = self.columns.iter_mut().skip(first);
        columns.for_each(|column| column.right = true);
        self
    }
}

impl Document {
    /// Returns all tables, in order.
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
