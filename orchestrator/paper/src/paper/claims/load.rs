//! Reads `claims.toml`. All problems are reported with their position.

use super::evaluate::columns;
use crate::paper::{
    cell::PrintedTable,
    claim::{Claim, PrintSide, Test},
    definition::RuleUse,
    rules::{self, WrongUse},
};
use cvc_core::source::{SourceError, SourceErrors, SourceText, span_of, suggestion};
use serde::Deserialize;
use std::path::Path;
use toml::{Spanned, de::DeValue};

/// Name of the file in the folder of a paper.
const FILE: &str = "claims.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClaims {
    schema: u32,
    claims: Vec<Claim>,
}

/// Reads the claims of a paper; returns none if the folder does not have the file.
///
/// # Errors
/// The problems in the file, with positions.
pub(in crate::paper) fn read(
    folder: &Path,
    tables: &[PrintedTable],
) -> Result<Vec<Claim>, SourceErrors> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let source = SourceText::read(&path)?;
    let table = source.parse().map_err(SourceErrors)?;
    let value = Spanned::new(0..source.text.len(), DeValue::Table(table.clone()));
    let raw: RawClaims = source.decode(&value)?;
    let mut errors: Vec<SourceError> = Vec::new();
    let mut fail = |n: usize, key: &'static str, wrong: WrongUse| {
        let span = span_of(&table, &["claims".into(), n.into(), key.into()]);
        errors.push(source.error(span.or(Some(0..0)), wrong.message, wrong.hint));
    };
    if raw.schema != 1 {
        let message = format!("unknown format {} of claims", raw.schema);
        let hint = "this version reads `schema = 1`".to_owned();
        fail(0, "id", WrongUse { message, hint });
    }
    for (n, claim) in raw.claims.iter().enumerate() {
        if raw.claims[..n].iter().any(|other| other.id == claim.id) {
            let message = format!("the claim `{}` is given twice", claim.id);
            let hint = "rename one".to_owned();
            fail(n, "id", WrongUse { message, hint });
        }
        for test in &claim.print {
            let sides = [Some(&test.each), test.than.as_ref(), test.minus.as_ref()];
            let checked = check(test).and_then(|()| {
                let mut sides = sides.into_iter().flatten();
                sides.try_for_each(|side| check_side(side, tables))
            });
            if let Err(wrong) = checked {
                fail(n, "print", wrong);
            }
        }
    }
    if errors.is_empty() {
        Ok(raw.claims)
    } else {
        Err(SourceErrors(errors))
    }
}

/// Checks that a test has exactly one kind of comparison and one bound.
///
/// # Errors
/// The problem with the test.
pub fn check<S>(test: &Test<S>) -> Result<(), WrongUse> {
    let ways = [
        test.than.is_some(),
        test.minus.is_some(),
        test.along.is_some(),
        test.spread,
    ];
    let count = |ways: &[bool]| ways.iter().filter(|is| **is).count();
    let bounds = [
        test.above.is_some(),
        test.below.is_some(),
        test.between.is_some(),
    ];
    let wrong = |message: &str, hint: &str| {
        Err(WrongUse {
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    if count(&ways) > 1 {
        return wrong(
            "a test compares in one way",
            "write one of `than`, `minus`, `along` and `spread`, or none to judge the values themselves",
        );
    }
    if count(&bounds) != 1 {
        return wrong(
            "a test has one bound",
            "write one of `above`, `below` and `between = [lowest, highest]`",
        );
    }
    if !test.share.is_none_or(|share| share > 0.0 && share <= 1.0) {
        return wrong(
            "`share` is not a share",
            "write a number above 0, at most 1",
        );
    }
    Ok(())
}

fn check_side(side: &PrintSide, tables: &[PrintedTable]) -> Result<(), WrongUse> {
    for id in side.table.list() {
        let Some(table) = tables.iter().find(|t| t.definition.id == *id) else {
            let known = tables.iter().map(|t| t.definition.id.as_str());
            return Err(WrongUse {
                message: format!("unknown table `{id}`"),
                hint: suggestion(id, "tables", known),
            });
        };
        let plain = match &side.value {
            RuleUse::Plain(column) => Some(column),
            RuleUse::With { .. } => None,
        };
        for column in side.rows.keys().chain(plain) {
            if table.column(column).is_none() {
                let known = table.definition.columns.iter().map(|c| c.id.as_str());
                return Err(WrongUse {
                    message: format!("table {id} has no column `{column}`"),
                    hint: suggestion(column, "columns", known),
                });
            }
        }
        if let RuleUse::With { name, of } = &side.value {
            let expanded = RuleUse::With {
                name: name.clone(),
                of: columns(table, of),
            };
            rules::check(&expanded, &table.definition)?;
        }
    }
    Ok(())
}
