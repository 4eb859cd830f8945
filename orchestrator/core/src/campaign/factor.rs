//! Factors and their values, as written in `[matrix]`, `[[zip]]`, `[[points]]` and `when`.

use super::{
    checker::Checker,
    level::{Level, MAX_PROCESSES, WrongValue, integer, kind, wrong_kind},
};
use crate::factor_registry::settings;
use crate::source::{SourceError, SourceText, Span, suggestion};
use crate::{
    mapping::{MAX_THREADS, Mapping},
    point::{Point, UserValue},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

macro_rules! define_factor {
    ($(
        places { $(
            $(#[$place_doc:meta])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also {
                $(#[$also_doc:meta])+
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal, digest $also_digest:ident
            })*;
        )* }
        settings { $($(#[$doc:meta])+ $Name:ident $name:ident: $type:ty { $($setting:tt)* })* }
    )*) => {
        /// A factor.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Factor {
            $($($Place, $($Also,)*)* $($Name,)*)*
            User(String),
        }

        impl Factor {
            /// Returns the built-in factor of this name; `None` if there is none.
            pub fn built_in(name: &str) -> Option<Self> {
                match name {
                    $(
                        $(stringify!($place) => Some(Self::$Place), $(stringify!($also) => Some(Self::$Also),)*)*
                        $(stringify!($name) => Some(Self::$Name),)*
                    )*
                    _ => None,
                }
            }

            /// Returns the name of the factor in files and tables.
            pub fn name(&self) -> &str {
                match self {
                    $(
                        $(Self::$Place => stringify!($place), $(Self::$Also => stringify!($also),)*)*
                        $(Self::$Name => stringify!($name),)*
                    )*
                    Self::User(name) => name,
                }
            }
        }
    };
}
crate::factors!(define_factor);

/// Names of the built-in factors.
pub const BUILT_IN: &[&str] = Point::FACTORS;

macro_rules! define_value {
    ($($Name:ident $name:ident: $type:ty, $level:ty = $default:expr, $needs:ident, $digest:ident;)*) => {
        /// The value of a factor. Each factor that is a setting has its own variant.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            Name(String),
            Count(u32),
            Mapping(Mapping),
            User(UserValue),
            $($Name($level),)*
        }

        impl Value {
            /// Returns whether the value is a level without effect, such as `false` or `none`. Only settings have such levels.
            pub fn is_plain(&self) -> bool {
                match self {
                    $(Self::$Name(level) => level.is_plain(),)*
                    Self::Name(_) | Self::Count(_) | Self::Mapping(_) | Self::User(_) => false,
                }
            }
        }

        /// Parses one value of a factor.
        pub fn parse(factor: &Factor, value: &DeValue<'_>) -> Result<Value, WrongValue> {
            let name = factor.name();
            match factor {
                Factor::Site | Factor::App | Factor::Class | Factor::Mpi | Factor::Storage => parse_name(name, value).map(Value::Name),
                Factor::Processes => parse_count(name, value, MAX_PROCESSES).map(Value::Count),
                Factor::Threads => parse_count(name, value, MAX_THREADS.into()).map(Value::Count),
                Factor::Mapping => parse_mapping(name, value).map(Value::Mapping),
                Factor::User(_) => parse_user(name, value).map(Value::User),
                $(Factor::$Name => <$level>::read(name, value).map(Value::$Name),)*
            }
        }
    };
}
settings!(define_value);

/// A factor and the values that one table gives it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub factor: Factor,
    pub key: Span,
    pub span: Span,
    pub values: Vec<(Value, Span)>,
}

impl Entry {
    /// Returns the value if there is exactly one; otherwise `None`.
    pub fn single(&self) -> Option<&Value> {
        match self.values.as_slice() {
            [(value, _)] => Some(value),
            _ => None,
        }
    }
}

/// How many values one table may give a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// One value, or a list without duplicates.
    Some,
    /// A list whose order matters and whose values may repeat.
    List,
    /// Exactly one value.
    One,
}

/// Reads the factors of a table.
pub fn entries(
    source: &SourceText,
    table: &DeTable<'_>,
    amount: Amount,
    errors: &mut Vec<SourceError>,
) -> Vec<Entry> {
    let mut found = Vec::new();
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if name == "user" {
            let Some(users) = value.get_ref().as_table() else {
                errors.push(source.error(
                    Some(value.span()),
                    format!(
                        "expected a table of free factors, found {}",
                        kind(value.get_ref())
                    ),
                    "write `user = { NAME = [..] }`, or a table [matrix.user]".to_owned(),
                ));
                continue;
            };
            for (key, value) in users {
                let name = key.get_ref().as_ref();
                match user_name(name) {
                    Ok(()) => found.extend(entry(
                        source,
                        Factor::User(name.to_owned()),
                        key.span(),
                        value,
                        amount,
                        errors,
                    )),
                    Err((message, hint)) => {
                        errors.push(source.error(Some(key.span()), message, hint))
                    }
                }
            }
        } else if let Some(factor) = Factor::built_in(name) {
            found.extend(entry(source, factor, key.span(), value, amount, errors));
        } else {
            let hint = suggestion(name, "factors", BUILT_IN.iter().copied())
                + "; free factors go under `user`";
            errors.push(source.error(Some(key.span()), format!("unknown factor `{name}`"), hint));
        }
    }
    found
}

/// Checks the name of a free factor. It must not be the name of a built-in factor, and must be usable in templates.
fn user_name(name: &str) -> Result<(), (String, String)> {
    if Factor::built_in(name).is_some() || name == "user" {
        return Err((
            format!("the free factor `{name}` has the name of a built-in one"),
            format!(
                "rename it, or put `{name}` directly into the table if the built-in factor is meant"
            ),
        ));
    }
    let mut chars = name.chars();
    let good = chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if good {
        Ok(())
    } else {
        Err((
            format!("`{name}` is not a valid name for a free factor"),
            "use small letters, digits and _, with a letter first".to_owned(),
        ))
    }
}

/// Maximum number of values of a factor. Each value adds at least one point, and so one run.
const MAX_VALUES: usize = 100_000;

fn entry(
    source: &SourceText,
    factor: Factor,
    key: Span,
    value: &Spanned<DeValue<'_>>,
    amount: Amount,
    errors: &mut Vec<SourceError>,
) -> Option<Entry> {
    let span = value.span();
    let items: Vec<&Spanned<DeValue<'_>>> = match (value.get_ref(), amount) {
        (DeValue::Array(_), Amount::One) => {
            let hint = format!(
                "a point has one value for each factor: write `{} = VALUE`, and a [[points]] for each further one",
                factor.name()
            );
            errors.push(source.error(Some(span), "expected one value, found a list", hint));
            return None;
        }
        (DeValue::Array(list), Amount::Some | Amount::List) => list.iter().collect(),
        (_, Amount::List) => {
            let hint = format!(
                "a zip varies lists in parallel: write `{} = [.., ..]`",
                factor.name()
            );
            errors.push(source.error(
                Some(span),
                format!("expected a list, found {}", kind(value.get_ref())),
                hint,
            ));
            return None;
        }
        (_, Amount::Some | Amount::One) => vec![value],
    };
    if items.is_empty() {
        let hint = "give at least one value, or remove the key to get its default".to_owned();
        errors.push(source.error(
            Some(span),
            format!("the list of `{}` is empty", factor.name()),
            hint,
        ));
        return None;
    }
    if items.len() > MAX_VALUES {
        let message = format!(
            "`{}` has {} values, more than {MAX_VALUES}",
            factor.name(),
            items.len()
        );
        errors.push(source.error(
            Some(key),
            message,
            "split them into several campaigns".to_owned(),
        ));
        return None;
    }
    let mut values: Vec<(Value, Span)> = Vec::with_capacity(items.len());
    let mut seen = std::collections::HashSet::new();
    let mut bad = false;
    for item in items {
        match parse(&factor, item.get_ref()) {
            // The debug form distinguishes values as `==` does, and allows fast look-ups in long lists.
            Ok(value) if amount == Amount::Some && !seen.insert(format!("{value:?}")) => {
                let written = source.text.get(item.span()).unwrap_or_default().trim();
                let message = format!("{written} is given twice for `{}`", factor.name());
                errors.push(source.error(
                    Some(item.span()),
                    message,
                    "remove one; more runs of a point are `repeats`".to_owned(),
                ));
                bad = true;
            }
            Ok(value) => values.push((value, item.span())),
            Err((message, hint)) => {
                errors.push(source.error(Some(item.span()), message, hint));
                bad = true;
            }
        }
    }
    (!bad).then_some(Entry {
        factor,
        key,
        span,
        values,
    })
}

fn parse_name(factor: &str, value: &DeValue<'_>) -> Result<String, WrongValue> {
    match value.as_str() {
        Some("") => Err((
            format!("an empty name for `{factor}`"),
            Some("write the name between the quotes".to_owned()),
        )),
        Some(text) if text.contains(char::is_control) => Err(no_control(factor)),
        Some(text) => Ok(text.to_owned()),
        None => Err(wrong_kind(factor, value, "a name in quotes")),
    }
}

fn parse_count(factor: &str, value: &DeValue<'_>, max: i64) -> Result<u32, WrongValue> {
    match integer(value) {
        Some(count) if (1..=max).contains(&count) => Ok(count as u32),
        Some(count) => Err((
            format!("{count} {factor} are impossible"),
            Some(format!("write a number between 1 and {max}")),
        )),
        None => Err(wrong_kind(factor, value, "a whole number")),
    }
}

fn parse_mapping(factor: &str, value: &DeValue<'_>) -> Result<Mapping, WrongValue> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_kind(factor, value, "a mapping in quotes, as in \"1Nx4P\","))?;
    text.parse::<Mapping>().map_err(|error| {
        (
            error.to_string(),
            Some("a mapping is NODESNxPROCESSESP: 1Nx4P is one node with 4 processes".to_owned()),
        )
    })
}

fn parse_user(factor: &str, value: &DeValue<'_>) -> Result<UserValue, WrongValue> {
    Ok(match value {
        DeValue::String(text) if text.contains(char::is_control) => return Err(no_control(factor)),
        DeValue::String(text) => UserValue::Text(text.clone().into_owned()),
        DeValue::Boolean(v) => UserValue::Bool(*v),
        DeValue::Integer(_) => UserValue::Integer(integer(value).ok_or_else(|| {
            (
                "the number is too large".to_owned(),
                Some("write it as text, in quotes".to_owned()),
            )
        })?),
        DeValue::Float(v) => match v.as_str().replace('_', "").parse::<f64>() {
            Ok(v) if v.is_finite() => UserValue::Float(v),
            Ok(_) | Err(_) => {
                return Err((
                    "a number that is not finite".to_owned(),
                    Some("write a finite number".to_owned()),
                ));
            }
        },
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return Err(wrong_kind(factor, value, "a text, a number, true or false"));
        }
    })
}

/// Returns the error that the value of `name` contains control characters. Values appear in tables and in comments of scripts; a second line in such
/// a comment would be a command.
fn no_control(name: &str) -> WrongValue {
    let hint = "write it in one line; put longer values into a file and use its name";
    (
        format!("the value of `{name}` has a line feed or another control character"),
        Some(hint.to_owned()),
    )
}

/// Reads conditions. They have the form of a matrix, but free factors may be named without `user`.
pub fn conditions_of(check: &mut Checker<'_>, table: &DeTable<'_>) -> Vec<Entry> {
    let (mut plain, mut users) = (DeTable::new(), DeTable::new());
    for (key, value) in table {
        let target = if BUILT_IN.contains(&key.get_ref().as_ref()) || key.get_ref() == "user" {
            &mut plain
        } else {
            &mut users
        };
        target.insert(key.clone(), value.clone());
    }
    let mut found = entries(check.source, &plain, Amount::Some, check.errors);
    if !users.is_empty() {
        let mut wrapped = DeTable::new();
        wrapped.insert(
            Spanned::new(0..0, "user".into()),
            Spanned::new(0..0, DeValue::Table(users)),
        );
        found.extend(entries(check.source, &wrapped, Amount::Some, check.errors));
    }
    found
}

/// Returns whether two values of a free factor are equal; 1 and 1.0 are equal.
pub fn same_user(a: &UserValue, b: &UserValue) -> bool {
    match (a, b) {
        (UserValue::Integer(i), UserValue::Float(f))
        | (UserValue::Float(f), UserValue::Integer(i)) => *i as f64 == *f,
        _ => a == b,
    }
}
