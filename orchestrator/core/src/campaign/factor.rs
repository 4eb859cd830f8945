//! Factors and their values, as written in `[matrix]`, `[[zip]]`, `[[points]]` and `when`.

use super::{
    checker::Checker,
    level::{Level, MAX_PROCESSES, WrongValue, integer, kind, wrong_kind},
};
use crate::factor_registry::settings;
use crate::source::{Source, SourceError, Span, suggestion};
use crate::{
    mapping::Mapping,
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
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal
            })?;
        )* }
        settings { $($(#[$doc:meta])+ $Name:ident $name:ident: $type:ty { $($setting:tt)* })* }
    )*) => {
        /// A factor.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Factor {
            $($($Place, $($Also,)?)* $($Name,)*)*
            User(String),
        }

        impl Factor {
            /// A built-in factor.
            pub fn built_in(name: &str) -> Option<Self> {
                match name {
                    $(
                        $(stringify!($place) => Some(Self::$Place), $(stringify!($also) => Some(Self::$Also),)?)*
                        $(stringify!($name) => Some(Self::$Name),)*
                    )*
                    _ => None,
                }
            }

            /// Its name in files and tables.
            pub fn name(&self) -> &str {
                match self {
                    $(
                        $(Self::$Place => stringify!($place), $(Self::$Also => stringify!($also),)?)*
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
        /// The value of a factor; each setting has its own kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            Name(String),
            Count(u32),
            Mapping(Mapping),
            User(UserValue),
            $($Name($level),)*
        }

        impl Value {
            /// Whether it is a setting that says that nothing is done.
            pub fn is_plain(&self) -> bool {
                match self {
                    $(Self::$Name(level) => level.is_plain(),)*
                    Self::Name(_) | Self::Count(_) | Self::Mapping(_) | Self::User(_) => false,
                }
            }
        }

        /// Reads one value of a factor.
        pub fn parse(factor: &Factor, value: &DeValue<'_>) -> Result<Value, WrongValue> {
            let name = factor.name();
            match factor {
                Factor::Site | Factor::App | Factor::Class | Factor::Mpi | Factor::Storage => parse_name(name, value).map(Value::Name),
                Factor::Processes => parse_count(name, value).map(Value::Count),
                Factor::Mapping => parse_mapping(name, value).map(Value::Mapping),
                Factor::User(_) => parse_user(name, value).map(Value::User),
                $(Factor::$Name => <$level>::read(name, value).map(Value::$Name),)*
            }
        }
    };
}
settings!(define_value);

/// A factor with the values that one table gives it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub factor: Factor,
    pub key: Span,
    pub span: Span,
    pub values: Vec<(Value, Span)>,
}

impl Entry {
    /// The value, if there is exactly one.
    pub fn single(&self) -> Option<&Value> {
        match self.values.as_slice() {
            [(value, _)] => Some(value),
            _ => None,
        }
    }
}

/// The number of values that a table may give a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A value or a list without duplicates.
    Some,
    /// A list whose order matters; values may repeat.
    List,
    /// One value.
    One,
}

/// Reads a table of factors.
pub fn entries(
    source: &Source,
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

/// A free factor's name is used in templates and beside the built-in ones.
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

/// Maximum number of values of a factor: each is a point, and a point takes a run.
const MAX_VALUES: usize = 100_000;

fn entry(
    source: &Source,
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
                "a zip varies lists together: write `{} = [.., ..]`",
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
            "divide them among several campaigns".to_owned(),
        ));
        return None;
    }
    let mut values: Vec<(Value, Span)> = Vec::with_capacity(items.len());
    let mut seen = std::collections::HashSet::new();
    let mut bad = false;
    for item in items {
        match parse(&factor, item.get_ref()) {
            // The debug form distinguishes values as `==` does and can be looked up quickly in long lists.
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

fn parse_count(factor: &str, value: &DeValue<'_>) -> Result<u32, WrongValue> {
    match integer(value) {
        Some(count @ 1..=MAX_PROCESSES) => Ok(count as u32),
        Some(count) => Err((
            format!("{count} processes are impossible"),
            Some(format!("write a number between 1 and {MAX_PROCESSES}")),
        )),
        None => Err(wrong_kind(factor, value, "a whole number")),
    }
}

fn parse_mapping(factor: &str, value: &DeValue<'_>) -> Result<Mapping, WrongValue> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_kind(factor, value, "a mapping in quotes, as in \"1Nx4P\","))?;
    text.parse().map_err(|e: String| {
        (
            e,
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

/// Values are shown in tables and in comments of scripts, where the rest of a second line would be a command.
fn no_control(name: &str) -> WrongValue {
    let hint =
        "write it in one line; what needs several goes into a file, whose name can be the value";
    (
        format!("the value of `{name}` has a line feed or another control character"),
        Some(hint.to_owned()),
    )
}

/// Conditions: like a matrix, but free factors may be named without `user`.
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

/// Whether two values of a free factor are equal; 1 and 1.0 are.
pub fn same_user(a: &UserValue, b: &UserValue) -> bool {
    match (a, b) {
        (UserValue::Integer(i), UserValue::Float(f))
        | (UserValue::Float(f), UserValue::Integer(i)) => *i as f64 == *f,
        _ => a == b,
    }
}
