//! A line of a DFTracer trace: one event in Chrome's trace format, as JSON.

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// A line. Version 1 of DFTracer writes phases as letters, version 2 as numbers.
#[derive(Debug, Deserialize)]
pub(super) struct DftracerLine<'a> {
    #[serde(borrow, default)]
    pub(super) name: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) cat: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) ph: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) ts: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) dur: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) pid: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) tid: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) args: Option<LineArgs<'a>>,
}

/// The arguments and the result of a call, as far as this reader uses them.
#[derive(Debug, Default, Deserialize)]
pub(super) struct LineArgs<'a> {
    #[serde(borrow, default)]
    pub(super) hhash: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) hostname: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) fhash: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) fname: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) newpath_hash: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) name: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) value: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) ret: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) size: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) offset: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) whence: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) flags: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) mode: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) length: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) cwd: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) cmd_hash: Scalar<'a>,
    #[serde(borrow, default)]
    pub(super) exec_hash: Scalar<'a>,
}

/// A JSON value that is a number or a string; versions of DFTracer differ in which of the two they write.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Scalar<'a> {
    /// No value, or a value of another type.
    #[default]
    None,
    Number(i64),
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// Returns the value as a non-negative number.
    pub(super) fn unsigned(&self) -> Option<u64> {
        self.number().and_then(|number| u64::try_from(number).ok())
    }

    /// Returns the value as text. A number is converted, because a hash may have been written as a number.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(Cow::Owned(number.to_string())),
            Self::Text(text) => Some(Cow::Borrowed(text)),
        }
    }

    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) if text == word)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => Scalar::Number(value),
            Err(_) => Scalar::Text(Cow::Owned(value.to_string())),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        // a time or duration with a fraction; the cast saturates out of range
        #[expect(clippy::cast_possible_truncation, reason = "fractions are cut off")]
        Ok(Scalar::Number(value as i64))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Number(i64::from(value)))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::None)
    }
}

/// Returns the JSON in a line, without list separators. `None` if there is no JSON.
pub(super) fn json_of(line: &[u8]) -> Option<&[u8]> {
    let mut text = line.trim_ascii();
    text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
    if text.starts_with(b"{") {
        text = text.strip_suffix(b"]").unwrap_or(text).trim_ascii_end();
        text = text.strip_suffix(b",").unwrap_or(text);
        return Some(text);
    }
    match text {
        b"" | b"]" | b"," => None,
        _ => Some(text),
    }
}
