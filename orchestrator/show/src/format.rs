//! Formats numbers for people: all numbers of a column have the same scale and the same number of decimals.

use crate::document::{Cell, Mark, Table};
use cvc_core::units::{MIB, counted};
use cvc_model::{
    Estimate,
    stats::{Comparison, Scale, Summary},
};

/// Maximum percentage in texts; larger ratios are shown as multiples. Data files are not limited.
pub const MAX_PCT: f64 = 1000.0;

/// How the numbers of a column are formatted.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// Divisor: the shown value is the stored value / divisor.
    divisor: f64,
    /// Unit of the shown values; `None` for plain numbers.
    pub unit: Option<String>,
    decimals: usize,
    /// Whether each value has its own number of decimals, because the values differ too much for a common one.
    each: bool,
}

impl Style {
    /// Returns the style for a column of a table.
    pub fn of(table: &Table, column: usize) -> Self {
        let mut values: Vec<f64> = Vec::new();
        for row in &table.rows {
            match &row[column] {
                Cell::Number { value } => values.push(value.abs()),
                Cell::Predicted { estimate } => values.push(estimate.value.abs()),
                Cell::Measured { summary } => {
                    values.extend([summary.mean.abs(), summary.min.abs(), summary.max.abs()])
                }
                Cell::Empty
                | Cell::Text { .. }
                | Cell::Link { .. }
                | Cell::Compared { .. }
                | Cell::Against { .. } => {}
            }
        }
        let unit = table.columns[column].unit.as_deref();
        let measured = table
            .rows
            .iter()
            .any(|r| matches!(r[column], Cell::Measured { .. }));
        // Times scatter, so that a fourth digit is only noise; sizes hardly scatter.
        Self::with_digits(
            values,
            unit,
            if measured && unit != Some("bytes") {
                3
            } else {
                4
            },
        )
    }

    /// Returns the style for these values.
    pub fn for_values(values: Vec<f64>, unit: Option<&str>) -> Self {
        Self::with_digits(values, unit, 4)
    }

    fn with_digits(mut values: Vec<f64>, unit: Option<&str>, digits: i32) -> Self {
        values.retain(|v| v.is_finite() && *v > 0.0);
        values.sort_by(f64::total_cmp);
        let largest = values.last().copied().unwrap_or(0.0);
        let (divisor, shown) = match unit {
            Some("bytes") if largest >= 0.1 * MIB => (MIB, Some("MiB")),
            Some("bytes") if largest >= 4096.0 => (1024.0, Some("KiB")),
            Some("1" | "count" | "bool") => (1.0, None),
            other => (1.0, other),
        };
        let whole = values.iter().all(|v| (v / divisor).fract() == 0.0);
        // The middle value determines the number of digits, so that neither noise is shown nor differences are rounded away.
        let decimals = match values.get(values.len() / 2) {
            Some(middle) if !whole => {
                (digits - 1 - (middle / divisor).log10().floor() as i32).clamp(0, 9) as usize
            }
            _ => 0,
        };
        // The smallest value keeps two digits, unless it is extremely small.
        let decimals = match values.first() {
            Some(smallest) if !whole && largest / smallest <= 1e3 => {
                decimals.max((1 - (smallest / divisor).log10().floor() as i32).clamp(0, 9) as usize)
            }
            Some(_) | None => decimals,
        };
        // Values that need fewer decimals get no trailing zeros.
        let needed = |v: &f64| {
            (v / divisor)
                .to_string()
                .split_once('.')
                .map_or(0, |(_, d)| d.len())
        };
        let decimals = decimals.min(values.iter().map(needed).max().unwrap_or(0));
        let each = !whole
            && values
                .first()
                .is_some_and(|smallest| largest / smallest > 1e5);
        Self {
            divisor,
            unit: shown.map(str::to_owned),
            decimals,
            each,
        }
    }

    /// Returns the divisor: the shown value is the stored value / divisor.
    pub fn divisor(&self) -> f64 {
        self.divisor
    }

    /// Formats a stored value.
    pub fn number(&self, value: f64) -> String {
        if value > MAX_PCT && self.unit.as_deref() == Some("%") {
            return format!("> {MAX_PCT}");
        }
        let shown = value / self.divisor;
        if self.each {
            return if shown.fract() == 0.0 {
                format!("{shown:.0}")
            } else {
                significant(shown)
            };
        }
        let text = format!("{shown:.*}", self.decimals);
        // A mean of whole numbers need not be whole.
        if self.decimals == 0 && shown.fract() != 0.0 && shown.abs() < 1000.0 {
            format!("{shown:.2}")
        } else {
            text
        }
    }

    /// Formats the interval of a mean, such as `[12.01, 12.70]`, or how many repeats it needs; empty for a single value.
    pub fn interval(&self, s: &Summary) -> String {
        match (s.interval, s.values_needed) {
            (Some(i), _) => format!("[{}, {}]", self.number(i.low), self.number(i.high)),
            (None, Some(needed)) => format!("needs {needed} repeats"),
            (None, None) => String::new(),
        }
    }

    /// Formats a prediction: the value, its interval, and all details in one line. A sign before the value distinguishes it from a measurement in
    /// every format.
    pub fn prediction(&self, e: &Estimate) -> (String, String, String) {
        let main = format!("\u{2248} {}", self.number(e.value));
        let interval = e.interval.map_or("no interval".to_owned(), |i| {
            format!("[{}, {}]", self.number(i.low), self.number(i.high))
        });
        let unit = self
            .unit
            .as_ref()
            .map(|u| format!(" {u}"))
            .unwrap_or_default();
        let details = match e.interval {
            Some(_) => format!(
                "predicted {}{unit}; 95 % prediction interval {interval}",
                self.number(e.value)
            ),
            None => format!(
                "predicted {}{unit}; its error is unknown",
                self.number(e.value)
            ),
        };
        (main, interval, details)
    }

    /// Describes a measurement with all details in one line.
    pub fn details(&self, s: &Summary) -> String {
        let mut text = format!("measured, n = {}", s.n);
        let unit = self
            .unit
            .as_ref()
            .map(|u| format!(" {u}"))
            .unwrap_or_default();
        text.push_str(&format!(
            "; mean {}{unit}, median {}",
            self.number(s.mean),
            self.number(s.median)
        ));
        if let Some(sd) = s.sd {
            text.push_str(&format!(", sd {}", significant(sd / self.divisor)));
        }
        if s.interval.is_some() {
            let of = match s.interval_of {
                Some(Scale::Logarithms) => " (of logarithms)",
                Some(Scale::Skewness) => " (corrected for skewness)",
                Some(Scale::Pooled) => " (by the scatter of all points)",
                Some(Scale::Values) | None => "",
            };
            text.push_str(&format!(
                "; 95 % interval of the mean {}{of}",
                self.interval(s)
            ));
        } else if let Some(why) = s.why_no_interval().filter(|_| s.n > 1) {
            text.push_str(&format!("; {why}"));
        }
        if let Some(i) = s.median_interval {
            text.push_str(&format!(
                ", of the median [{}, {}]",
                self.number(i.low),
                self.number(i.high)
            ));
        }
        if let Some(v) = s.variation.filter(|v| v.cv > 0.0) {
            let high = v
                .high
                .map_or("?".to_owned(), |high| significant(high * 100.0));
            text.push_str(&format!(
                "; variation {} % [{}, {high}]",
                significant(v.cv * 100.0),
                significant(v.low * 100.0)
            ));
        }
        text.push_str(&format!(
            "; {} to {}",
            self.number(s.min),
            self.number(s.max)
        ));
        if s.mild + s.severe > 0 {
            text.push_str(&format!("; outliers: {} mild, {} severe", s.mild, s.severe));
        }
        text
    }
}

/// Returns the unit to append to a heading; `None` if the heading already ends with it.
pub fn unit_beside<'a>(heading: &str, style: &'a Style) -> Option<&'a str> {
    style
        .unit
        .as_deref()
        .filter(|unit| !heading.ends_with(&format!("_{unit}")))
}

/// Formats the level of an interval: `95 %`, or for example `99.2 %` if it is adjusted for the number of intervals.
pub fn level(level: f64) -> String {
    let pct = level * 100.0;
    let decimals = if pct > 99.9 { 3 } else { 1 };
    format!("{} %", format!("{pct:.decimals$}").trim_end_matches(".0"))
}

/// Formats a ratio: the value, its interval, and all details in one line.
pub fn ratio(c: &Comparison) -> (String, String, String) {
    let main = format!("{:.3}{}", c.ratio, if c.differs() { " *" } else { "" });
    let interval = c
        .interval
        .map(|i| format!("[{:.3}, {:.3}]", i.low, i.high))
        .unwrap_or_default();
    let of = if c.paired {
        format!("{} of repeats", counted(c.n.0, "pair"))
    } else {
        format!("{} and {} repeats", c.n.0, c.n.1)
    };
    let mut details = format!(
        "ratio of measured means, {of}; {} interval {}",
        level(1.0 - c.level),
        if interval.is_empty() {
            "none: the repeats scatter too much"
        } else {
            &interval
        }
    );
    if let Some(q) = c.q_value.or(c.p_value) {
        details.push_str(&format!(
            "; adjusted p {}",
            if q < 0.001 {
                "< 0.001".to_owned()
            } else {
                format!("{q:.3}")
            }
        ));
    }
    if let Some(g) = c.effect_size {
        details.push_str(&format!("; effect size (Hedges' g) {g:.2}"));
    }
    (main, interval, details)
}

/// Formats a cell as plain text, for formats without markup in cells.
pub fn plain(cell: &Cell, style: &Style) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text { text } | Cell::Link { text, .. } => text.clone(),
        Cell::Number { value } => style.number(*value),
        Cell::Compared { comparison } => {
            let (main, interval, _) = ratio(comparison);
            format!("{main} {interval}").trim_end().to_owned()
        }
        Cell::Predicted { estimate } => {
            let (main, interval, _) = style.prediction(estimate);
            format!("{main} {interval}")
        }
        Cell::Measured { summary } => {
            let mut text = style.number(summary.mean);
            // A zero-width interval adds nothing to the mean.
            if summary.min < summary.max {
                text.push_str(&format!(" {}", style.interval(summary)));
            }
            if summary.outlier().is_some() {
                text.push_str(" (outliers)");
            }
            text
        }
        Cell::Against { against } => {
            let mut text = format!("{} {}", against.printed, against.symbol())
                .trim_end()
                .to_owned();
            if let Some(recomputed) = against
                .recomputed
                .as_ref()
                .filter(|_| !against.mark.is_equal())
            {
                text.push_str(&format!(
                    " {} ({})",
                    recomputed.shown,
                    recomputed.deviation()
                ));
            }
            if let Some(modelled) = &against.modelled {
                text.push_str(&format!(
                    "; model {} ({})",
                    modelled.shown,
                    modelled.deviation()
                ));
            }
            if let Some(measured) = &against.measured {
                let mark = measured.mark.map_or("", Mark::symbol);
                text.push_str(&format!(
                    "; here {mark} {} ({})",
                    measured.shown,
                    measured.deviation()
                ));
            }
            if !against.notes.is_empty() {
                text.push_str(&format!(" [{}]", against.notes.join(", ")));
            }
            text
        }
    }
}

/// Returns whether a column has cells with numbers.
pub fn numeric(table: &Table, column: usize) -> bool {
    table.rows.iter().any(|row| match &row[column] {
        Cell::Number { .. }
        | Cell::Measured { .. }
        | Cell::Predicted { .. }
        | Cell::Compared { .. } => true,
        Cell::Against { against } => against.value.is_some(),
        Cell::Empty | Cell::Text { .. } | Cell::Link { .. } => false,
    })
}

/// Formats a value, or a dash if it is missing.
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Formats a fraction in percent with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats bytes in MiB with two decimals, for columns that name the unit.
pub fn mib(bytes: f64) -> String {
    format!("{:.2}", bytes / MIB)
}

/// Formats a number with four significant digits.
pub fn significant(value: f64) -> String {
    Style::for_values(vec![value.abs()], None).number(value)
}

#[cfg(test)]
mod tests {
    use super::Style;

    #[test]
    fn a_column_has_one_unit_and_about_four_digits() {
        let style = Style::for_values(vec![104_857_600.0, 99_971_000.0], Some("bytes"));
        assert_eq!(
            (style.number(104_857_600.0), style.unit.as_deref()),
            ("100.0".to_owned(), Some("MiB"))
        );
        assert_eq!(
            Style::for_values(vec![1.2345, 2.0], Some("s")).number(1.2345),
            "1.234"
        );
        assert_eq!(
            Style::for_values(vec![5.0, 9.0], Some("count")).number(5.0),
            "5"
        );
        assert_eq!(Style::for_values(vec![0.5, 1.0], None).number(0.5), "0.5");
        assert_eq!(Style::for_values(vec![0.0], Some("s")).number(0.0), "0");
        assert_eq!(
            Style::for_values(vec![1.5e-7, 2e-7], Some("s")).number(2e-7),
            "0.00000020"
        );
    }
}
