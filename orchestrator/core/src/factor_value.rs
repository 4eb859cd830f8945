//! What the value of a factor is wherever nobody needs to know which one it is: in tables, in the index, in identifiers.

use crate::{mapping::Mapping, units::ByteSize};
use serde::Serialize;

/// A text is not a word of the type that it was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

/// What a column of the index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A text, never empty of meaning.
    Text,
    /// A text, or nothing.
    OptionalText,
    /// A whole number, or nothing.
    OptionalInteger,
}

/// The value of a factor in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    /// Nothing: left to a library, or the factor says nothing of the point.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

/// The value of a factor in a point.
pub trait FactorValue: Sized + Serialize {
    /// The type of its column in the index.
    const COLUMN: ColumnType;

    /// As tables show it; `None` if it says nothing of its point.
    fn text(&self) -> Option<String>;

    /// As the index has it.
    fn to_column(&self) -> ColumnValue {
        self.text().map_or(ColumnValue::Null, ColumnValue::Text)
    }

    /// Reads what [`Self::to_column`] wrote; `None` if it did not write this.
    fn from_column(value: ColumnValue) -> Option<Self>;

    /// As it enters identifiers, which must not change.
    fn digested(&self) -> impl Serialize {
        self
    }
}

/// Types whose values every point has, as the text that they are written as.
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

/// Types whose values only some points have: the factor says nothing of the others.
macro_rules! optional_text_values {
    ($($type:ty),+) => {
        $(impl $crate::factor_value::FactorValue for Option<$type> {
            const COLUMN: $crate::factor_value::ColumnType = $crate::factor_value::ColumnType::OptionalText;

            fn text(&self) -> Option<String> {
                self.as_ref().map(ToString::to_string)
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

/// What tables show where a library has the choice.
const DEFAULT: &str = "default";

/// A number, or left to a library.
impl FactorValue for Option<u32> {
    const COLUMN: ColumnType = ColumnType::OptionalInteger;

    fn text(&self) -> Option<String> {
        Some(self.map_or_else(|| DEFAULT.to_owned(), |number| number.to_string()))
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

/// A size, or left to a library.
impl FactorValue for Option<ByteSize> {
    const COLUMN: ColumnType = ColumnType::OptionalInteger;

    fn text(&self) -> Option<String> {
        Some(self.map_or_else(|| DEFAULT.to_owned(), |size| size.to_string()))
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
