//! Variants: the same campaign file with some keys changed, chosen by name.
//!
//! A variant is merged with the parsed file before anything is checked. Its values keep their positions, so that errors refer to the variant.

use super::{
    checker::{Checker, is_name},
    level::kind,
    raw::SECTIONS,
};
use crate::source::{SourceText, Span, suggestion};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Top-level keys that a variant cannot change, because they describe the file itself.
const FIXED: [&str; 4] = ["schema", "name", "variant", "variants"];
/// Key of a variant that lists keys of the file to remove before the variant is merged.
const REMOVE: &str = "remove";

/// Returns the keys of a variant, in the order of the reference.
pub fn keys() -> impl Iterator<Item = &'static str> {
    std::iter::once(REMOVE).chain(SECTIONS.into_iter().filter(|key| !FIXED.contains(key)))
}

/// Returns the names of the variants of a file, in order.
pub fn names(table: &DeTable<'_>) -> Vec<String> {
    let inner = table.get("variants").and_then(|v| v.get_ref().as_table());
    inner
        .into_iter()
        .flat_map(DeTable::keys)
        .map(|key| key.get_ref().to_string())
        .collect()
}

/// Returns the tables of the variants of a file; reports other values under `variants`.
fn tables<'d, 't>(
    check: &mut Checker<'_>,
    table: &'d DeTable<'t>,
) -> Vec<(&'d str, Span, &'d DeTable<'t>)> {
    let Some(value) = table.get("variants") else {
        return Vec::new();
    };
    let hint = "write [variants.NAME] with the differences";
    let Some(inner) = value.get_ref().as_table() else {
        check.fail(
            Some(value.span()),
            format!(
                "expected a table of variants, found {}",
                kind(value.get_ref())
            ),
            hint,
        );
        return Vec::new();
    };
    let mut all = Vec::new();
    for (key, value) in inner {
        match value.get_ref().as_table() {
            Some(variant) => all.push((key.get_ref().as_ref(), key.span(), variant)),
            None => check.fail(
                Some(value.span()),
                format!("expected a variant, found {}", kind(value.get_ref())),
                hint,
            ),
        }
    }
    all
}

/// A variant that was merged with its file.
pub struct Applied {
    pub name: String,
    /// Keys to which the variant gives the value that they have in the file anyway.
    pub unchanged: Vec<String>,
}

/// Merges the requested variant with the file; without a request, the variant that the file itself names.
///
/// Names and top-level keys of all variants are checked, but the contents only of the one that is used.
pub fn apply(
    check: &mut Checker<'_>,
    table: &mut DeTable<'_>,
    asked: Option<&str>,
) -> Option<Applied> {
    let named = match table
        .get("variant")
        .map(|value| (value.span(), check.source.decode::<String>(value)))
    {
        None => None,
        Some((span, Ok(name))) => Some((name, span)),
        Some((_, Err(e))) => {
            check.errors.push(e);
            None
        }
    };
    let all = tables(check, table);
    for (name, span, variant) in &all {
        if !is_name(name) || name.contains('.') {
            let hint = "use small letters, digits, `-` and `_`, beginning with a letter or digit";
            check.fail(
                Some(span.clone()),
                format!("`{name}` is not a valid variant name"),
                hint,
            );
        }
        for (key, _) in *variant {
            let key_name = key.get_ref().as_ref();
            if FIXED.contains(&key_name) {
                let hint = format!(
                    "a variant can change: {}",
                    keys().collect::<Vec<_>>().join(", ")
                );
                check.fail(
                    Some(key.span()),
                    format!("a variant cannot change `{key_name}`"),
                    hint,
                );
            } else if !keys().any(|k| k == key_name) {
                check.fail(
                    Some(key.span()),
                    format!("unknown key `{key_name}`"),
                    suggestion(key_name, "known keys here", keys()),
                );
            }
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, _, _)| *name).collect();
    let (wanted, span) = match (asked, named) {
        (Some(asked), named) => (
            asked.to_owned(),
            named
                .map(|n| n.1)
                .or_else(|| crate::source::key_span(table, "variants"))
                .or(Some(0..0)),
        ),
        (None, Some((name, span))) => (name, Some(span)),
        (None, None) => return None,
    };
    let Some((_, _, variant)) = all.iter().find(|(name, _, _)| *name == wanted) else {
        check.fail(
            span,
            format!("unknown variant `{wanted}`"),
            suggestion(&wanted, "variants of this file", names),
        );
        return None;
    };
    let variant = (*variant).clone();
    let mut unchanged = Vec::new();
    add_unchanged(table, &variant, "", &mut unchanged);
    remove(check, table, &variant);
    merge_tables(table, variant);
    Some(Applied {
        name: wanted,
        unchanged,
    })
}

/// Appends to `all` the keys of the variant that have the same value in the file, as in `run.repeats`.
fn add_unchanged(below: &DeTable<'_>, above: &DeTable<'_>, path: &str, all: &mut Vec<String>) {
    for (key, new) in above {
        let Some(old) = below.get(key.get_ref().as_ref()) else {
            continue;
        };
        let way = format!("{path}{}", key.get_ref());
        match (old.get_ref(), new.get_ref()) {
            (DeValue::Table(old), DeValue::Table(new)) => {
                add_unchanged(old, new, &format!("{way}."), all)
            }
            (old, new) if is_same(old, new) => all.push(way),
            _ => {}
        }
    }
}

/// Returns whether two values are equal; their positions in the file do not matter.
fn is_same(a: &DeValue<'_>, b: &DeValue<'_>) -> bool {
    match (a, b) {
        (DeValue::String(a), DeValue::String(b)) => a == b,
        (DeValue::Integer(a), DeValue::Integer(b)) => {
            (a.radix(), a.as_str()) == (b.radix(), b.as_str())
        }
        (DeValue::Float(a), DeValue::Float(b)) => a.as_str() == b.as_str(),
        (DeValue::Boolean(a), DeValue::Boolean(b)) => a == b,
        (DeValue::Datetime(a), DeValue::Datetime(b)) => a == b,
        (DeValue::Array(a), DeValue::Array(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b.iter())
                    .all(|(a, b)| is_same(a.get_ref(), b.get_ref()))
        }
        (DeValue::Table(a), DeValue::Table(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    b.get(key.get_ref().as_ref())
                        .is_some_and(|b| is_same(value.get_ref(), b.get_ref()))
                })
        }
        _ => false,
    }
}

/// Removes from the file the keys that the variant lists in `remove`.
fn remove(check: &mut Checker<'_>, table: &mut DeTable<'_>, variant: &DeTable<'_>) {
    let Some(list) = variant.get(REMOVE) else {
        return;
    };
    let ways = match check.source.decode::<Vec<Spanned<String>>>(list) {
        Ok(ways) => ways,
        Err(e) => return check.errors.push(e),
    };
    for way in ways {
        let steps: Vec<&str> = way.get_ref().split('.').collect();
        if FIXED.contains(&steps[0]) || !taken_out(table, &steps) {
            let hint = "name a key of this file, as in \"matrix.aggregators\" or \"zip\"";
            check.fail(
                Some(way.span()),
                format!(
                    "cannot remove `{}`: the file does not have it",
                    way.get_ref()
                ),
                hint,
            );
        }
    }
}

fn taken_out(table: &mut DeTable<'_>, steps: &[&str]) -> bool {
    match steps {
        [] => false,
        [last] => table.remove(*last).is_some(),
        [first, rest @ ..] => match table.get_mut(*first).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => taken_out(inner, rest),
            Some(_) | None => false,
        },
    }
}

/// Merges the table `above` into the table `below`, key by key; values that are not tables are replaced. `moment` is replaced as a whole, even if it
/// is written as a table, because its keys exclude each other. `processes` and `mapping` of the matrix are alternatives, too: if the variant gives
/// one of them, both of the file's are replaced.
fn merge_tables<'t>(below: &mut DeTable<'t>, mut above: DeTable<'t>) {
    above.remove(REMOVE);
    if let (Some(DeValue::Table(new)), Some(DeValue::Table(old))) = (
        above.get("matrix").map(Spanned::get_ref),
        below.get_mut("matrix").map(Spanned::get_mut),
    ) && (new.contains_key("processes") || new.contains_key("mapping"))
    {
        old.remove("processes");
        old.remove("mapping");
    }
    // rebuilt, so that a replaced key keeps its place in the order of factors, but has the variant's position in the file
    for (key, value) in std::mem::take(below) {
        let name = key.get_ref().as_ref();
        let Some(new_key) = above.get_key_value(name).map(|(key, _)| key.clone()) else {
            below.insert(key, value);
            continue;
        };
        let Some(new) = above.remove(name) else {
            continue;
        };
        match (value.get_ref().is_table(), new.get_ref().is_table()) {
            (true, true) if name != "moment" => {
                let span = value.span();
                if let (DeValue::Table(mut old), DeValue::Table(new)) =
                    (value.into_inner(), new.into_inner())
                {
                    merge_tables(&mut old, new);
                    below.insert(key, Spanned::new(span, DeValue::Table(old)));
                }
            }
            (_, _) => {
                below.insert(new_key, new);
            }
        }
    }
    below.extend(above);
}

/// Returns the text of a campaign file with the name of the variant added, so that no option is needed to read the file with this variant.
pub fn fixed_text(source: &SourceText, variant: Option<&str>) -> String {
    let text = source.text.as_ref();
    let Some(variant) = variant else {
        return text.to_owned();
    };
    let line = format!("variant = \"{variant}\"");
    let written = source.parse().ok().and_then(|table| {
        let key = crate::source::key_span(&table, "variant")?;
        let value = table.get("variant")?.span();
        Some(key.start..value.end)
    });
    match written {
        Some(span) => format!("{}{line}{}", &text[..span.start], &text[span.end..]),
        // a key without a table must come before the first table
        None => format!("{line}\n{}", text.strip_prefix('\u{feff}').unwrap_or(text)),
    }
}
