//! The claims of a paper, in the form of `claims.toml`.

use super::definition::{CellValues, RuleUse};
use indexmap::IndexMap;
use serde::Deserialize;

/// A statement of a paper, and the tests that its tables must pass.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name in links and files.
    pub id: String,
    /// Section or table of the claim.
    pub section: String,
    /// Page, as printed.
    pub page: Option<u32>,
    /// The statement in cvc's own words.
    pub says: String,
    /// How cvc interprets the statement: the bound used for "similar", the tables used for a figure.
    pub reading: Option<String>,
    /// Tests on the paper's tables; the claim holds if all pass.
    #[serde(default)]
    pub print: Vec<Test<PrintSide>>,
}

/// One side of a test: numbers in tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintSide {
    /// The tables with the numbers.
    pub table: CellValues,
    /// The rows: for each column, a cell value or a list of values. Empty for all rows.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// The number of a row: a column, or a rule with its columns. A `*` in the name of a column matches any letters.
    pub value: RuleUse,
}

/// A test on sides, which are rows of tables or points of campaigns.
///
/// Without `than`, `minus`, `along` or `spread`, its numbers are the values of `each`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test<S> {
    /// The rows that are judged.
    pub each: S,
    /// Rows to compare with: the numbers are the ratios of `each` to these rows.
    pub than: Option<S>,
    /// Rows to subtract: the numbers are those of `each` minus those of these rows.
    pub minus: Option<S>,
    /// A rising key that orders the rows: the numbers are the ratios of each row to the previous one.
    pub along: Option<String>,
    /// Whether the numbers are the ratios of the largest to the smallest value of each group.
    #[serde(default)]
    pub spread: bool,
    /// Keys by which rows are divided into groups: rows of a group have equal values of these keys. Used with `along` and `spread`.
    #[serde(default)]
    pub within: Vec<String>,
    /// Keys by which rows of both sides are matched, with `than` and `minus`: key of `each` = key of the other side. By default, rows are matched by
    /// all keys that both sides have and that no side uses to select rows.
    #[serde(default, rename = "match")]
    pub matching: Option<IndexMap<String, String>>,
    /// Selects one of the numbers; only this one is compared with the bound.
    pub of: Option<Extreme>,
    /// The numbers must be above this value.
    pub above: Option<f64>,
    /// The numbers must be below this value.
    pub below: Option<f64>,
    /// The numbers must be within this range, including its ends.
    pub between: Option<[f64; 2]>,
    /// Share of the numbers that must be within the bound, above 0; by default all.
    pub share: Option<f64>,
}

/// The largest or the smallest of several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extreme {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}
