//! Evaluates claims on the numbers of a paper's tables.

use super::{ClaimOutcome, Item, SideOutcome, TestOutcome};
use crate::paper::{
    cell::PrintedTable,
    claim::{Claim, PrintSide},
    definition::{Kind, RuleUse},
    published::Paper,
    rules::{self, CellContext, NotRecomputable, Reads},
};
use std::{cell::RefCell, collections::BTreeSet};

/// Judges the claims of a paper. `here` returns the outcome of a claim from runs.
pub fn evaluate(paper: &Paper, here: impl Fn(&Claim) -> Option<SideOutcome>) -> Vec<ClaimOutcome> {
    let judged = |claim: &Claim| ClaimOutcome::new(claim, in_print(paper, claim), here(claim));
    paper.claims.iter().map(judged).collect()
}

fn in_print(paper: &Paper, claim: &Claim) -> Option<SideOutcome> {
    let mut used = BTreeSet::new();
    let tests: Vec<TestOutcome> = claim
        .print
        .iter()
        .map(|test| {
            let other = test.than.as_ref().or(test.minus.as_ref());
            let mut items = |side: Option<&PrintSide>| {
                side.map_or_else(Vec::new, |side| of_side(paper, side, &mut used))
            };
            let (each, others) = (items(Some(&test.each)), items(other));
            let sides = [Some(&test.each), other].into_iter().flatten();
            let fixed: Vec<&str> = sides
                .flat_map(|s| s.rows.keys().map(String::as_str))
                .chain(["table"])
                .collect();
            test.judge(&each, &others, &fixed)
        })
        .collect();
    let corrected = used.into_iter().map(|i| paper.anomalies[i].id.clone());
    SideOutcome::of(&tests, corrected.collect())
}

/// Returns the rows of one side of a test, with probable values instead of misprints. Rows without the number are skipped.
fn of_side(paper: &Paper, side: &PrintSide, used: &mut BTreeSet<usize>) -> Vec<Item> {
    let of_table = |id: &String| {
        let t = paper.tables.iter().position(|t| t.definition.id == *id)?;
        let of = columns(&paper.tables[t], side.value.of());
        Some((t, of))
    };
    let mut items = Vec::new();
    for (t, of) in side.table.list().iter().filter_map(of_table) {
        let table = &paper.tables[t];
        for row in 0..table.cells.len() {
            let reads = RefCell::new(Reads {
                corrected: true,
                ..Reads::default()
            });
            let at = CellContext::new(paper, (t, row, 0), &of, &reads);
            if !side.rows.iter().all(|(c, values)| values.has(at.text(c))) {
                continue;
            }
            let Some(value) = value(&side.value, &at).ok().filter(|v| v.is_finite()) else {
                continue;
            };
            let about = table.definition.columns.iter();
            let keys = about
                .filter(|c| matches!(c.kind, Kind::Label | Kind::Setting))
                .map(|c| (c.id.clone(), at.text(&c.id).to_owned()))
                .chain([("table".to_owned(), table.definition.id.clone())]);
            items.push(Item {
                about: format!("{} ({})", table.definition.title, table.row_name(row)),
                keys: keys.collect(),
                value,
                runs: None,
            });
            used.extend(reads.into_inner().used);
        }
    }
    items
}

fn value(used: &RuleUse, at: &CellContext<'_>) -> Result<f64, NotRecomputable> {
    match used {
        RuleUse::Plain(column) => at.number(column),
        RuleUse::With { name, .. } => {
            let rule = rules::rule(name).ok_or(NotRecomputable::Input)?;
            Ok(rule.cell(at)?.value())
        }
    }
}

/// Returns the columns that a rule is applied to; a `*` in a name is replaced by all columns that it matches.
pub(super) fn columns(table: &PrintedTable, of: &[String]) -> Vec<String> {
    let expand = |name: &String| match name.split_once('*') {
        Some((begin, end)) => {
            let all = table.definition.columns.iter().map(|c| c.id.clone());
            all.filter(|id| id.starts_with(begin) && id.ends_with(end))
                .collect()
        }
        None => vec![name.clone()],
    };
    of.iter().flat_map(expand).collect()
}
