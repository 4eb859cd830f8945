//! Levels of factors that are settings, in the form in which `[matrix]`, `[[zip]]`, `[[points]]` and `when` have them.

use super::raw::RawMoment;
use crate::{
    factor_value::UnknownWord,
    mpi_io::{FcollComponent, HintSwitch},
    point::{CheckpointerKind, Compression, Moment, TracerKind},
    source::{plain_words, suggestion},
    strategy::{CheckpointLayout, CheckpointWriters, Strategy, WhenLate},
    units::ByteSize,
};
use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeValue, ValueDeserializer},
};

/// Maximum number of processes of a point, as in [`crate::mapping::Mapping`].
pub const MAX_PROCESSES: i64 = 1 << 20;

/// The problem with a value, and a hint if there is one.
pub type WrongValue = (String, Option<String>);

/// The type of a factor's levels.
pub trait Level: Clone + std::fmt::Debug + PartialEq {
    /// The form of a level in the JSON Schema.
    #[cfg(feature = "schema")]
    type Written: schemars::JsonSchema;

    /// Parses a level of the factor with this name.
    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue>;

    /// Returns whether this is a level without effect, such as `false` or `none`.
    fn is_plain(&self) -> bool {
        false
    }
}

/// How a point stores the level of a factor; `L` is the type of levels in campaign files.
pub trait OfPoint<L> {
    /// Returns the stored form of a level; `acts` tells whether the factor applies to the point.
    fn of_level(level: &L, acts: bool) -> Self;

    /// Returns the level; `None` if the factor does not apply to the point.
    fn level(&self) -> Option<&L>;

    /// Resets the level. Called for points to which the factor does not apply, so that points that differ only in this factor become equal.
    fn silence(&mut self);
}

/// For factors that apply to every point.
impl<L: Clone + Default> OfPoint<L> for L {
    fn of_level(level: &L, _acts: bool) -> Self {
        level.clone()
    }

    fn level(&self) -> Option<&L> {
        Some(self)
    }

    fn silence(&mut self) {
        *self = L::default();
    }
}

/// For factors that apply only to some points; `None` at the other points.
impl<L: Clone> OfPoint<L> for Option<L> {
    fn of_level(level: &L, acts: bool) -> Self {
        acts.then(|| level.clone())
    }

    fn level(&self) -> Option<&L> {
        self.as_ref()
    }

    fn silence(&mut self) {
        *self = None;
    }
}

/// Returns the type of a TOML value, in words.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fractional number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    value
        .as_integer()
        .and_then(|v| i64::from_str_radix(v.as_str(), v.radix()).ok())
}

/// Returns the error that a value has the wrong type.
pub fn wrong_kind(factor: &str, value: &DeValue<'_>, expected: &str) -> WrongValue {
    match value.as_integer() {
        Some(number) if integer(value).is_none() => (
            format!("the number {} is out of range", number.as_str()),
            Some(format!("write a smaller number for `{factor}`")),
        ),
        _ => (
            format!("expected {expected}, found {}", kind(value)),
            Some(format!("write {expected} for `{factor}`")),
        ),
    }
}

impl Level for CheckpointerKind {
    #[cfg(feature = "schema")]
    type Written = Self;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        let text = value
            .as_str()
            .ok_or_else(|| wrong_kind(factor, value, "\"none\", \"application\" or \"dmtcp\""))?;
        named(
            text,
            factor,
            Self::ALL.iter().map(|kind| (kind.word(), *kind)),
        )
    }
}

impl Level for Compression {
    #[cfg(feature = "schema")]
    type Written = Self;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        let text = value
            .as_str()
            .ok_or_else(|| wrong_kind(factor, value, "\"none\", \"gzip\" or \"pigz\""))?;
        if text == "zstd" {
            return Err((
                "DMTCP cannot restart zstd-compressed images: it reads only its own format and gzip's"
                    .to_owned(),
                Some(
                    "write \"pigz\", which is as fast on several cores, or store the images with `cvc delta make --codec zstd`"
                        .to_owned(),
                ),
            ));
        }
        named(
            text,
            factor,
            Self::ALL
                .iter()
                .map(|kind| (kind.program().unwrap_or("none"), *kind)),
        )
    }

    fn is_plain(&self) -> bool {
        *self == Self::None
    }
}

/// A value, or `default` to leave it to the MPI library.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "it only describes the file")]
#[serde(untagged)]
pub enum OrDefault<T> {
    /// The word `default`.
    Default(DefaultWord),
    /// A value.
    Value(T),
}

/// The word `default`.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "it only describes the file")]
#[serde(rename_all = "lowercase")]
pub enum DefaultWord {
    /// Left to the MPI library.
    Default,
}

/// A number of processes, or `default`.
impl Level for Option<u32> {
    #[cfg(feature = "schema")]
    type Written = OrDefault<u32>;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        match (value.as_str(), integer(value)) {
            (Some("default"), _) => Ok(None),
            (_, Some(count @ 1..=MAX_PROCESSES)) => Ok(Some(count as u32)),
            (_, Some(count)) => Err((
                format!("{count} {factor} are impossible"),
                Some("write 1 or more, or \"default\" to leave it to the MPI library".to_owned()),
            )),
            _ => Err(wrong_kind(factor, value, "a whole number or \"default\"")),
        }
    }
}

/// The size of a collective buffer, a text with its unit or bytes, or `default`.
impl Level for Option<ByteSize> {
    #[cfg(feature = "schema")]
    type Written = OrDefault<ByteSize>;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        match (value.as_str(), integer(value)) {
            (Some("default"), _) => Ok(None),
            (None, None) => Err(wrong_kind(factor, value, "a size in quotes")),
            (text, bytes) => buffer(text, bytes).map(Some),
        }
    }
}

/// The switch of a hint, or `default`.
impl Level for Option<HintSwitch> {
    #[cfg(feature = "schema")]
    type Written = OrDefault<HintSwitch>;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        let words = || HintSwitch::ALL.into_iter().map(|of| (of.word(), Some(of)));
        let text = value
            .as_str()
            .ok_or_else(|| wrong_kind(factor, value, "\"enable\", \"disable\" or \"default\""))?;
        named(text, factor, words().chain([("default", None)]))
    }
}

/// The name of a component, or `default`.
impl Level for Option<FcollComponent> {
    #[cfg(feature = "schema")]
    type Written = OrDefault<FcollComponent>;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        match value.as_str() {
            Some("default") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|UnknownWord| {
                (
                    format!("`{text}` is not the name of a component"),
                    Some("write one of `ompi_info --param fcoll all`, as in \"vulcan\"".to_owned()),
                )
            }),
            None => Err(wrong_kind(
                factor,
                value,
                "the name of a component in quotes",
            )),
        }
    }
}

/// Implements levels that are one of a few words. The neutral word is the level without effect.
macro_rules! levels_of_words {
    ($($type:ty, $example:literal;)+) => {
        $(impl Level for $type {
            #[cfg(feature = "schema")]
            type Written = Self;

            fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
                let text = value.as_str().ok_or_else(|| wrong_kind(factor, value, concat!("a word, as in \"", $example, "\",")))?;
                named(text, factor, Self::ALL.iter().map(|of| (of.word(), *of)))
            }

            fn is_plain(&self) -> bool {
                self.is_neutral()
            }
        })+
    };
}

levels_of_words! {
    Strategy, "thread";
    CheckpointWriters, "node";
    WhenLate, "skip";
    CheckpointLayout, "segmented";
}

impl Level for bool {
    #[cfg(feature = "schema")]
    type Written = Self;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        match value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(wrong_kind(factor, value, "true or false")),
        }
    }

    fn is_plain(&self) -> bool {
        !self
    }
}

impl Level for TracerKind {
    #[cfg(feature = "schema")]
    type Written = Self;

    fn read(factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        let text = value
            .as_str()
            .ok_or_else(|| wrong_kind(factor, value, "the name of a tracer, as in \"strace\","))?;
        named(
            text,
            factor,
            Self::ALL.iter().map(|kind| (kind.word(), *kind)),
        )
    }
}

/// Has the form of `moment` in `[checkpoint]`.
impl Level for Moment {
    #[cfg(feature = "schema")]
    type Written = RawMoment;

    fn read(_factor: &str, value: &DeValue<'_>) -> Result<Self, WrongValue> {
        let hint = || {
            Some("write \"size-only\", { at_s = 5 }, { after_step = 3 }, { size_only_after_step = 3 } or { every_s = 60, count = 8 }".to_owned())
        };
        let read =
            RawMoment::deserialize(ValueDeserializer::from(Spanned::new(0..0, value.clone())));
        let raw = read.map_err(|e| (plain_words(e.message().trim()).0, hint()))?;
        let mut wrong = None;
        let moment = raw.check(&mut |_, message, hint| {
            wrong.get_or_insert((message, Some(hint)));
        });
        wrong.map_or(Ok(moment), Err)
    }
}

/// Parses a value that has one of these names.
fn named<T>(
    text: &str,
    what: &str,
    all: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<T, WrongValue> {
    let found = all.clone().find(|(name, _)| *name == text);
    found.map(|(_, value)| value).ok_or_else(|| {
        let hint = suggestion(text, &format!("{what}s"), all.map(|(name, _)| name));
        (format!("unknown {what} `{text}`"), Some(hint))
    })
}

/// Parses the size of a collective buffer: a text with a unit, or a number of bytes.
fn buffer(text: Option<&str>, bytes: Option<i64>) -> Result<ByteSize, WrongValue> {
    let hint = || {
        Some(
            "write a size as in \"16MiB\", or \"default\" to leave it to the MPI library"
                .to_owned(),
        )
    };
    let bytes = bytes.unwrap_or_default();
    let size = match text {
        Some(text) => text
            .parse::<ByteSize>()
            .map_err(|e| (e.to_string(), hint()))?,
        None => ByteSize(
            u64::try_from(bytes)
                .map_err(|_| (format!("a buffer of {bytes} bytes is impossible"), hint()))?,
        ),
    };
    // The MPI hint for this size is a C int.
    if size.0 == 0 || size.0 > i32::MAX as u64 {
        return Err((
            format!("a buffer of {size} is impossible"),
            Some("write a size between 1B and 2047MiB".to_owned()),
        ));
    }
    Ok(size)
}
