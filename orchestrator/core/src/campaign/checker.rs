//! Collects the errors of a file, and has the checks that all sections share.

use crate::{
    hosts::HostEntry,
    inventory::InventoryError,
    source::{SourceError, SourceText, Span, Step},
};
use std::collections::BTreeMap;

/// Maximum of a limit, seconds: a year. A longer limit is probably a typing error.
const MAX_S: f64 = 31_536_000.0;

/// By site: the hosts from the site's inventory, or the error that prevented reading them.
pub type KnownHosts = BTreeMap<String, Result<Vec<HostEntry>, InventoryError>>;

/// Returns the position of the value at a path in a section.
pub type SpanLookup<'a> = dyn Fn(&[Step<'_>]) -> Option<Span> + 'a;

/// Collects the errors of one file.
pub struct Checker<'a> {
    pub source: &'a SourceText,
    /// Hosts of sites with an inventory, if they are known.
    pub hosts: &'a KnownHosts,
    pub errors: &'a mut Vec<SourceError>,
}

impl Checker<'_> {
    pub fn fail(
        &mut self,
        span: Option<Span>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.errors
            .push(self.source.error(span, message, hint.into()));
    }

    /// Checks that a whole number is in a range. If it is not, reports an error and returns the nearest legal number, so that later checks can go on
    /// to find further errors.
    pub fn whole(
        &mut self,
        key: &str,
        value: i64,
        low: i64,
        high: i64,
        place: &SpanLookup<'_>,
    ) -> i64 {
        if (low..=high).contains(&value) {
            return value;
        }
        self.fail(
            place(&[key.into()]),
            format!("`{key}` is {value}"),
            format!("write a whole number from {low} to {high}"),
        );
        value.clamp(low, high)
    }

    pub fn seconds(&mut self, what: &str, value: f64, place: Option<Span>) {
        if let Some((message, hint)) = wrong_seconds(what, value) {
            self.fail(place, message, hint);
        }
    }
}

/// Returns the problem with a duration in seconds, and a hint; `None` if it is valid.
pub fn wrong_seconds(what: &str, value: f64) -> Option<(String, String)> {
    let hint = "write a number of seconds above 0 and at most 31536000, a year";
    (!(value > 0.0 && value <= MAX_S))
        .then(|| (format!("{what} is {value} seconds"), hint.to_owned()))
}

/// Returns true, for serde: the default of settings that are on.
pub fn yes() -> bool {
    true
}

/// Returns whether a name is valid; valid names can be parts of paths and of tables.
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'))
}

pub fn path_text(check: &mut Checker<'_>, path: &str, span: Option<Span>) {
    if path.trim().is_empty() {
        check.fail(
            span,
            "an empty path",
            "write a path, or remove the key to get its default",
        );
    } else if path.contains(char::is_control) {
        check.fail(
            span,
            "the path has a line feed or another control character",
            "write a path of one line",
        );
    }
}
