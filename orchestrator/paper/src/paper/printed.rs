//! A printed number and a recomputed number. They can be compared, but not converted into each other.

use serde::Serialize;
use std::fmt;

/// A printed number. Its text determines how many digits are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Printed {
    text: String,
    value: f64,
    decimals: u32,
}

/// The error for a printed text that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number")]
pub struct NotANumber(String);

impl Printed {
    /// Parses a printed number. `column_decimals` is the number of decimals in the printed column, because files lose zeros at the end.
    ///
    /// # Errors
    /// The text is not a number.
    pub fn parse(text: &str, column_decimals: u32) -> Result<Self, NotANumber> {
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'));
        let value: f64 = text
            .parse()
            .ok()
            .filter(|v: &f64| plain && v.is_finite())
            .ok_or_else(|| NotANumber(text.to_owned()))?;
        Ok(Self {
            text: text.to_owned(),
            value,
            decimals: decimals(text).max(column_decimals),
        })
    }

    /// Returns the printed text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number, in the unit of its column.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the number of digits after the decimal point.
    pub fn decimals(&self) -> u32 {
        self.decimals
    }

    /// Returns how a recomputed number becomes equal to the printed one: rounded, or truncated if the print may be truncated. Returns `None` if
    /// they differ.
    pub(super) fn equals(&self, other: Recomputed) -> Option<Digits> {
        let unit = 10f64.powi(self.decimals as i32);
        // a decimal half is not exact as a binary fraction, so both directions of rounding are tried
        let slack = 1e-9 + 8.0 * f64::EPSILON * (other.value() * unit).abs();
        let difference = other.value() * unit - (self.value * unit).round();
        if difference.abs() <= 0.5 + slack {
            Some(Digits::Rounded)
        } else if other.may_be_cut() && (-slack..1.0).contains(&difference) {
            Some(Digits::Cut)
        } else {
            None
        }
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the number of digits after the decimal point of a number's text, adjusted for its exponent.
pub(super) fn decimals(text: &str) -> u32 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let behind = mantissa.split_once('.').map_or(0, |(_, d)| d.len() as i64);
    let moved = behind - exponent.parse::<i64>().unwrap_or(0);
    u32::try_from(moved.clamp(0, 300)).unwrap_or(0)
}

/// How a recomputed number was shortened to the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Digits {
    /// Rounded to the printed digits.
    Rounded,
    /// Truncated after the printed digits.
    Cut,
}

/// A number computed from the paper's own inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recomputed {
    value: f64,
    cut: bool,
}

impl Recomputed {
    /// Returns a number that the paper rounds.
    pub fn new(value: f64) -> Self {
        Self { value, cut: false }
    }

    /// Returns a number that the paper truncates after the last digit in at least some cells.
    pub fn or_cut(value: f64) -> Self {
        Self { value, cut: true }
    }

    /// Returns the same number, marked as possibly truncated in print.
    pub(super) fn perhaps_cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Returns the number, in the unit of its column.
    pub fn value(self) -> f64 {
        self.value
    }

    /// Returns whether the paper may truncate the number instead of rounding it.
    pub fn may_be_cut(self) -> bool {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::{Digits, Printed, Recomputed, decimals};

    fn equals(printed: &str, column: u32, value: f64) -> Option<Digits> {
        Printed::parse(printed, column)
            .expect("a number")
            .equals(Recomputed::new(value))
    }

    proptest::proptest! {
        #[test]
        fn a_rounded_number_is_equal_and_its_neighbours_are_not(value in -1e6..1e6f64, decimals in 0..6usize) {
            let text = format!("{value:.decimals$}");
            proptest::prop_assert!(equals(&text, 0, value).is_some());
            let unit = 10f64.powi(-(decimals as i32));
            proptest::prop_assert!(equals(&text, 0, value + 1.01 * unit).is_none());
            proptest::prop_assert!(equals(&text, 0, value - 1.01 * unit).is_none());
        }
    }

    #[test]
    fn equal_means_to_the_printed_digits() {
        assert_eq!(equals("12.30", 0, 12.304), Some(Digits::Rounded));
        assert_eq!(equals("12.30", 0, 12.306), None);
        assert_eq!(equals("163.0", 2, 163.004), Some(Digits::Rounded));
        assert_eq!(
            equals("163.0", 2, 163.04),
            None,
            "the column is printed with two decimals"
        );
        assert_eq!(equals("163.0", 0, 163.04), Some(Digits::Rounded));
        assert_eq!(equals("2", 0, 2.49), Some(Digits::Rounded));
        // as a binary fraction, 1.005 is slightly less than 1.005
        assert_eq!(equals("1.01", 0, 1.005), Some(Digits::Rounded));
        assert_eq!(equals("26.95", 0, 26.9554), None);
        let cut = Recomputed::or_cut(26.9554);
        assert_eq!(
            Printed::parse("26.95", 0).expect("a number").equals(cut),
            Some(Digits::Cut)
        );
        assert_eq!(
            Printed::parse("26.96", 0).expect("a number").equals(cut),
            Some(Digits::Rounded)
        );
        assert_eq!(
            Printed::parse("26.94", 0).expect("a number").equals(cut),
            None
        );
    }

    #[test]
    fn decimals_are_those_of_the_text() {
        assert_eq!(
            [
                decimals("12"),
                decimals("1.50"),
                decimals("1.46041308e-07"),
                decimals("2e3")
            ],
            [0, 2, 15, 0]
        );
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["", "default", "1,5", "NaN", "inf", "0x10", "1.2.3", " 4"] {
            assert!(Printed::parse(bad, 0).is_err(), "{bad}");
        }
    }
}
