//! Formats numbers and texts for the page.

use handlebars::html_escape;

/// Units of bytes, each 1024 times the previous one.
const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Returns the largest unit for a number of bytes, and its size.
pub(super) fn unit_of(bytes: f64) -> (&'static str, f64) {
    let mut at = (UNITS[0], 1.0);
    for unit in &UNITS[1..] {
        if bytes < at.1 * 1024.0 {
            break;
        }
        at = (unit, at.1 * 1024.0);
    }
    at
}

/// Returns the unit for a duration, and the length of the unit in seconds.
pub(super) fn unit_of_time(span_s: f64) -> (&'static str, f64) {
    match span_s {
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e-3),
        s if s >= 1e-6 => ("µs", 1e-6),
        _ => ("ns", 1e-9),
    }
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v == 0.0 || v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        v if v >= 0.09995 => format!("{value:.3}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Formats a number of bytes, such as `1.50 MiB`.
pub(super) fn size(bytes: f64) -> String {
    let (unit, of) = unit_of(bytes);
    if of > 1.0 {
        format!("{} {unit}", short(bytes / of))
    } else {
        format!("{bytes:.0} {unit}")
    }
}

/// Formats a duration, such as `1.50 s`.
pub(super) fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    let (unit, of) = unit_of_time(seconds);
    format!("{} {unit}", short(seconds / of))
}

/// Formats a rate in MiB/s, without the unit.
pub(super) fn rate(mib_s: Option<f64>) -> String {
    mib_s.map_or_else(|| "–".to_owned(), short)
}

/// Formats a number with separated thousands.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub(super) fn of(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Joins names for a sentence: `a, b and c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Escapes a text as markup. Also escapes control characters, which could control a terminal that shows the page's source, and characters that change
/// the direction of text.
pub(super) fn escape(text: &str) -> String {
    let steers =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(steers) {
        return html_escape(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    html_escape(&plain)
}

/// Escapes a text as markup, and marks the parts between backticks as code.
pub(super) fn with_code(text: &str) -> String {
    crate::emit::policy::with_code(text, escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_thousands() {
        assert_eq!(size(0.0), "0 B");
        assert_eq!(size(1023.0), "1023 B");
        assert_eq!(size(1536.0), "1.50 KiB");
        assert_eq!(size(300.0 * 1024.0 * 1024.0), "300 MiB");
        assert_eq!(time(0.0123), "12.3 ms");
        assert_eq!(rate(Some(0.5336)), "0.534");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(of(1, "file", "files"), "1 file");
    }

    #[test]
    fn markup_and_terminal_controls_are_escaped() {
        assert_eq!(
            escape("<b>\u{1b}[1m\u{202e}"),
            "&lt;b&gt;\\u{1b}[1m\\u{202e}"
        );
    }

    #[test]
    fn backticks_become_code() {
        assert_eq!(with_code("more `<a>`"), "more <code>&lt;a&gt;</code>");
        assert_eq!(with_code("a ` alone"), "a &#x60; alone");
    }
}
