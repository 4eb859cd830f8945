//! A number as it stands in print, and a number that was recomputed. They are compared, never converted.

use serde::Serialize;
use std::fmt;

/// A number as it stands in print. The text is kept: it says to how many digits another number can be equal to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Printed {
    text: String,
    value: f64,
    decimals: u32,
}

/// A text that is not a number in print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number")]
pub struct NotANumber(String);

impl Printed {
    /// Reads a number in print. `column_decimals` is how many decimals its column is printed with: files lose zeros at the end.
    ///
    /// # Errors
    /// When it is something else.
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

    /// As it is printed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number, in the unit of its column.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Digits behind the decimal point.
    pub fn decimals(&self) -> u32 {
        self.decimals
    }

    /// Whether a recomputed number, rounded as it is printed, is this one; a number of which it is known that it may be cut off instead of
    /// rounded is also tried that way.
    pub(super) fn equals(&self, other: Recomputed) -> Option<Digits> {
        let unit = 10f64.powi(self.decimals as i32);
        // binary fractions lie beside decimal ones: a half that is meant as one is taken either way
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

/// Digits behind the decimal point of a written number; an exponent moves them.
pub(super) fn decimals(text: &str) -> u32 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let behind = mantissa.split_once('.').map_or(0, |(_, d)| d.len() as i64);
    let moved = behind - exponent.parse::<i64>().unwrap_or(0);
    u32::try_from(moved.clamp(0, 300)).unwrap_or(0)
}

/// How a recomputed number becomes the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Digits {
    /// Rounded to the printed digits.
    Rounded,
    /// Cut off behind the printed digits.
    Cut,
}

/// A number that comes out of the paper's own inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recomputed {
    value: f64,
    cut: bool,
}

impl Recomputed {
    /// A number that is printed rounded.
    pub fn new(value: f64) -> Self {
        Self { value, cut: false }
    }

    /// A number that the paper prints cut off behind its last digit, at least in places.
    pub fn or_cut(value: f64) -> Self {
        Self { value, cut: true }
    }

    /// The same number, which may be cut off in print.
    pub(super) fn perhaps_cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// The number, in the unit of its column.
    pub fn value(self) -> f64 {
        self.value
    }

    /// Whether the print may be cut off instead of rounded.
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
        // 1.005 as a binary fraction lies below
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
