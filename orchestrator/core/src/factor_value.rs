//! The value of a factor, for code that treats all factors alike: tables, the index, identifiers.

use crate::{mapping::Mapping, units::ByteSize};
use serde::Serialize;

/// The error that a text is not a word of the requested type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

/// The type of a column of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A text; every point has a value.
    Text,
    /// A text, or no value.
    OptionalText,
    /// A whole number, or no value.
    OptionalInteger,
}

/// The value of a factor in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    /// No value: a library chooses it, or the factor does not apply to the point.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

/// The value of a factor in a point.
pub trait FactorValue: Sized + Serialize {
    /// Type of the factor's column in the index.
    const COLUMN: ColumnType;

    /// Returns the text in tables; `None` if the factor does not apply to its point.
    fn text(&self) -> Option<String>;

    /// Returns the value in the index.
    fn to_column(&self) -> ColumnValue {
        self.text().map_or(ColumnValue::Null, ColumnValue::Text)
    }

    /// Converts the result of [`Self::to_column`] back; `None` for anything else.
    fn from_column(value: ColumnValue) -> Option<Self>;

    /// Returns the form that enters identifiers, which must not change.
    fn digested(&self) -> impl Serialize {
        self
    }
}

/// Implements types with a value for every point, by their textual form.
macro_rules! text_values {
    ($($type:ty),+) => {
        $(impl $crate::factor_value::FactorValue for $type {
            const COLUMN: $crate::factor_value::ColumnType = $crate::factor_value::ColumnType::Text;

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn from_column(value: $crate::factor_value::ColumnValue) -> Option<Self> {
                match value {
                    $crate::factor_value::ColumnValue::Text(text) => text.parse().ok(),
                    $crate::factor_value::ColumnValue::Null | $crate::factor_value::ColumnValue::Integer(_) => None,
                }
            }
        })+
    };
}
pub(crate) use text_values;

/// Implements types with a value for only some points: the factor does not apply to the others, or tables show another word for them.
macro_rules! optional_text_values {
    ($($type:ty),+) => {
        $crate::factor_value::optional_text_values!(None::<&str>; $($type),+);
    };
    ($none:expr; $($type:ty),+) => {
        $(impl $crate::factor_value::FactorValue for Option<$type> {
            const COLUMN: $crate::factor_value::ColumnType = $crate::factor_value::ColumnType::OptionalText;

            fn text(&self) -> Option<String> {
                self.as_ref().map(ToString::to_string).or_else(|| $none.map(str::to_owned))
            }

            fn to_column(&self) -> $crate::factor_value::ColumnValue {
                self.as_ref().map_or($crate::factor_value::ColumnValue::Null, |value| {
                    $crate::factor_value::ColumnValue::Text(value.to_string())
                })
            }

            fn from_column(value: $crate::factor_value::ColumnValue) -> Option<Self> {
                match value {
                    $crate::factor_value::ColumnValue::Null => Some(None),
                    $crate::factor_value::ColumnValue::Text(text) => text.parse().ok().map(Some),
                    $crate::factor_value::ColumnValue::Integer(_) => None,
                }
            }
        })+
    };
}
pub(crate) use optional_text_values;

text_values!(String, Mapping);
optional_text_values!(bool);

/// Shown in tables if the library chooses the value.
pub(crate) const LEFT_TO_LIBRARY: &str = "default";

/// A number; `None` if the library chooses it.
impl FactorValue for Option<u32> {
    const COLUMN: ColumnType = ColumnType::OptionalInteger;

    fn text(&self) -> Option<String> {
        Some(self.map_or_else(|| LEFT_TO_LIBRARY.to_owned(), |number| number.to_string()))
    }

    fn to_column(&self) -> ColumnValue {
        self.map_or(ColumnValue::Null, |number| {
            ColumnValue::Integer(number.into())
        })
    }

    fn from_column(value: ColumnValue) -> Option<Self> {
        match value {
            ColumnValue::Null => Some(None),
            ColumnValue::Integer(number) => u32::try_from(number).ok().map(Some),
            ColumnValue::Text(_) => None,
        }
    }
}

/// A size; `None` if the library chooses it.
impl FactorValue for Option<ByteSize> {
    const COLUMN: ColumnType = ColumnType::OptionalInteger;

    fn text(&self) -> Option<String> {
        Some(self.map_or_else(|| LEFT_TO_LIBRARY.to_owned(), |size| size.to_string()))
    }

    fn to_column(&self) -> ColumnValue {
        self.map_or(ColumnValue::Null, |size| {
            ColumnValue::Integer(i64::try_from(size.0).unwrap_or(i64::MAX))
        })
    }

    fn from_column(value: ColumnValue) -> Option<Self> {
        match value {
            ColumnValue::Null => Some(None),
            ColumnValue::Integer(bytes) => {
                u64::try_from(bytes).ok().map(|bytes| Some(ByteSize(bytes)))
            }
            ColumnValue::Text(_) => None,
        }
    }

    fn digested(&self) -> impl Serialize {
        self.map(|size| size.0)
    }
}
