//! Sizes and the units that records carry. MiB = 2^20 bytes.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Bytes in 1 MiB.
pub const MIB: f64 = 1_048_576.0;

/// Returns a count with its noun, which is plural unless the count is 1: `1 run`, `2 runs`, `2 processes`.
pub fn counted(count: impl fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("{count} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        None if noun.ends_with('s') => format!("{count} {noun}es"),
        Some(_) | None => format!("{count} {noun}s"),
    }
}

/// Why a duration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not have the form of a duration.
    #[error("`{0}` is not a valid duration: write a number and a unit, as in 90s, 30m, 4h")]
    Form(String),
    /// A number without a unit.
    #[error("`{text}` has no unit: write {number}s, {number}m, {number}h or {number}d")]
    NoUnit {
        /// The text.
        text: String,
        /// The number, without its sign.
        number: String,
    },
    /// The duration is zero or negative.
    #[error("`{0}`: a duration must be above 0 seconds")]
    NotPositive(String),
}

/// Parses a duration into seconds: `90s`, `30m`, `4h`, `1h 30m`, `2d`. A number without a unit is refused, because `24` may be meant as hours.
///
/// # Errors
/// The text is not a duration, has no unit, or the duration is not above zero.
pub fn seconds(text: &str) -> Result<f64, DurationError> {
    let text = text.trim();
    let wrong = || DurationError::Form(text.to_owned());
    let is_number = text
        .strip_prefix('-')
        .unwrap_or(text)
        .starts_with(|c: char| c.is_ascii_digit());
    if is_number && text.parse::<f64>().is_ok() {
        let number = text.trim_start_matches('-').to_owned();
        return Err(DurationError::NoUnit {
            text: text.to_owned(),
            number,
        });
    }
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    // average years of 365.25 days
    let years_s = f64::from(span.get_years()) * 365.25 * 86_400.0;
    let seconds = span
        .try_years(0)
        .map_err(|_| wrong())?
        .total((
            jiff::Unit::Second,
            jiff::SpanRelativeTo::days_are_24_hours(),
        ))
        .map_err(|_| wrong())?
        + years_s;
    if !seconds.is_finite() {
        return Err(wrong());
    }
    if seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(DurationError::NotPositive(text.to_owned()))
    }
}

/// Maximum cost that is displayed, US dollars. A higher expected cost is displayed as more than this; it means a run that does not end.
const MAX_SHOWN_USD: f64 = 1e12;

/// Formats US dollars for display: without decimals from 1000, with two decimals from 0.1, and with two significant digits below that. Positive
/// values below 0.0001 are shown as `<$0.0001`.
pub fn dollars(value: f64) -> String {
    // rounds halves up: 0.145 is slightly less than that in binary
    let up = |v: f64, digits: i32| {
        let factor = 10f64.powi(digits);
        (v * factor + 1e-6).round() / factor
    };
    match value {
        v if v > MAX_SHOWN_USD => format!(">${MAX_SHOWN_USD:e}"),
        v if v >= 1000.0 => format!("${:.0}", up(v, 0)),
        v if v >= 0.1 => format!("${:.2}", up(v, 2)),
        v if v >= 0.01 => format!("${:.3}", up(v, 3)),
        v if v >= 0.0001 => format!("${:.4}", up(v, 4)),
        v if v > 0.0 => "<$0.0001".to_owned(),
        _ => "$0".to_owned(),
    }
}

/// A size in bytes, written `16MiB`, `64KiB`, `2GiB` or `4096` (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a size is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteSizeError {
    /// The unit is unknown.
    #[error("unknown unit of size `{0}`: write B, KiB, MiB, GiB or TiB (powers of 2)")]
    Unit(String),
    /// The text does not begin with a whole number.
    #[error("`{0}` is not a valid size: write a whole number and a unit, as in 16MiB")]
    Form(String),
    /// The size does not fit into 64 bits.
    #[error("`{0}` is larger than any file can be")]
    TooLarge(String),
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        let split = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, suffix) = text.split_at(split);
        let factor: u64 = match suffix.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            other => return Err(ByteSizeError::Unit(other.to_owned())),
        };
        let count: u64 = digits
            .parse()
            .map_err(|_| ByteSizeError::Form(text.to_owned()))?;
        count
            .checked_mul(factor)
            .map(Self)
            .ok_or_else(|| ByteSizeError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for ByteSize {
    /// Formats with the largest unit that divides the size exactly, so that parsing returns the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [
            (1u64 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ] {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, as in \"16MiB\" or a number of bytes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes).map(ByteSize).map_err(|_| {
                    E::custom(format!("a size cannot be negative, but this is {bytes}"))
                })
            }
            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ByteSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByteSize".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A size: a whole number of bytes, or text with a unit (B, KiB, MiB, GiB, TiB; powers of 2).",
            "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB|TiB)?$"}]
        })
    }
}

/// Formats bytes for display, as in `12.5 GiB` (from 10 GiB), `80 MiB` (from 10 MiB), `2.5 MiB` (from 0.1 MiB) and `64.0 KiB`.
pub fn size(bytes: f64) -> String {
    let mib = bytes.max(0.0) / MIB;
    match mib {
        m if m >= 10_240.0 => format!("{:.1} GiB", m / 1024.0),
        m if m >= 10.0 => format!("{m:.0} MiB"),
        0.0 => "0 MiB".to_owned(),
        m if m < 0.1 => format!("{:.1} KiB", m * 1024.0),
        m => format!("{m:.1} MiB"),
    }
}

/// Maximum time that is displayed, seconds: 10,000 years. A longer expected time means a run that does not end.
const MAX_SHOWN_S: f64 = 10_000.0 * 365.25 * 86_400.0;

/// Formats seconds for display, up to 10,000 years.
pub fn duration(seconds: f64) -> String {
    if seconds > MAX_SHOWN_S {
        return "over 10,000 years".to_owned();
    }
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 if seconds < 10.0 => format!("{seconds:.1} s"),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        864_000.. => format!("{:.0} days", seconds / 86_400.0),
        172_800.. => {
            let hours = (seconds / 3600.0).round() as u64;
            match hours % 24 {
                0 => format!("{} days", hours / 24),
                rest => format!("{} days {rest} h", hours / 24),
            }
        }
        _ => {
            let minutes = (seconds / 60.0).round() as u64;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, dollars, duration, size};

    #[test]
    fn durations_of_days_keep_their_hours_until_they_do_not_matter() {
        let hour = 3600.0;
        let shown = [
            0.4,
            59.0,
            90.0,
            47.0 * hour,
            48.0 * hour,
            69.9 * hour,
            78.4 * hour,
            239.9 * hour,
            11.6 * 24.0 * hour,
            f64::INFINITY,
        ]
        .map(duration);
        let expected = [
            "0.4 s",
            "59 s",
            "1 min 30 s",
            "47 h 00 min",
            "2 days",
            "2 days 22 h",
            "3 days 6 h",
            "10 days",
            "12 days",
            "over 10,000 years",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn nouns_are_plural_unless_there_is_one() {
        let shown = [
            counted(1, "process"),
            counted(2, "process"),
            counted(0, "run"),
            counted(3, "entry"),
            counted(2, "day"),
        ];
        assert_eq!(
            shown,
            ["1 process", "2 processes", "0 runs", "3 entries", "2 days"]
        );
    }

    #[test]
    fn sizes_are_in_the_unit_that_people_read() {
        let shown = [0.0, 4096.0, 1.5 * 1048576.0, 83_887_231.0, 4e10].map(size);
        assert_eq!(shown, ["0 MiB", "4.0 KiB", "1.5 MiB", "80 MiB", "37.3 GiB"]);
    }

    #[test]
    fn dollars_have_as_many_figures_as_matter() {
        let shown: Vec<String> = [0.0, 0.00001, 0.00042, 0.0116, 0.145, 0.42, 12.345, 1234.5]
            .iter()
            .map(|v| dollars(*v))
            .collect();
        assert_eq!(
            shown,
            [
                "$0", "<$0.0001", "$0.0004", "$0.012", "$0.15", "$0.42", "$12.35", "$1235"
            ]
        );
    }
}
