//! The plot of a paper: what is held against its numbers, over the numbers in print.

use super::judge::Reproduction;
use cvc_analysis::report::{AgreementPanel, ComparedNumber, agreement_plot};
use cvc_index::error::AnalysisError;
use cvc_show::{Block, Section};
use indexmap::IndexMap;

/// The series, in the order of what a cell shows below the printed number.
const SERIES: [&str; 3] = [
    "= recomputed from the paper's inputs",
    "\u{25c7} another model",
    "\u{25cf} measured here",
];

/// Fewest numbers of a unit that make a panel.
const FEWEST: usize = 3;

/// Most panels; the units with most numbers come first.
const MOST: usize = 6;

/// Builds the section; `None` if there is nothing to draw.
pub(super) fn section(of: &Reproduction) -> Result<Option<Section>, AnalysisError> {
    let mut units: IndexMap<&str, Vec<ComparedNumber>> = IndexMap::new();
    let mut left_out = 0;
    for t in &of.tables {
        for row in &t.rows {
            for (column, cell) in t.definition.columns.iter().zip(row) {
                let Some(printed) = cell.printed.number() else {
                    continue;
                };
                let others = [
                    cell.recomputed.map(|(r, _)| r.value()),
                    cell.modelled.as_ref().map(|(m, _)| m.estimate.value),
                    cell.measured.as_ref().map(|m| m.measured.value),
                ];
                for (series, other) in others.into_iter().enumerate() {
                    let Some(other) = other else { continue };
                    if printed.value() > 0.0 && other > 0.0 && other.is_finite() {
                        let unit = column.unit.as_deref().unwrap_or_default();
                        units.entry(unit).or_default().push(ComparedNumber {
                            series,
                            printed: printed.value(),
                            other,
                        });
                    } else {
                        left_out += 1;
                    }
                }
            }
        }
    }
    let all: usize = units.values().map(Vec::len).sum();
    units.retain(|_, numbers| numbers.len() >= FEWEST);
    units.sort_by(|_, a, _, b| b.len().cmp(&a.len()));
    units.truncate(MOST);
    if units.is_empty() {
        return Ok(None);
    }
    let drawn: usize = units.values().map(Vec::len).sum();
    let panels: Vec<AgreementPanel> = units
        .into_iter()
        .map(|(unit, numbers)| AgreementPanel {
            title: match unit {
                "" => "without a unit",
                "1" => "counts",
                unit => unit,
            }
            .to_owned(),
            numbers,
        })
        .collect();
    // a series that no panel has needs no name
    let series: Vec<String> = SERIES
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let any = panels
                .iter()
                .any(|p| p.numbers.iter().any(|n| n.series == i));
            if any {
                (*name).to_owned()
            } else {
                String::new()
            }
        })
        .collect();
    let mut caption = "Each mark is a cell: right is what stands in print, up what is held against it. On the line both are equal; a mark far from it \
                       is a misprint, or a number that the formula misses. Both axes are logarithmic."
        .to_owned();
    let names: Vec<&str> = series
        .iter()
        .map(String::as_str)
        .filter(|n| !n.is_empty())
        .collect();
    if let [only] = names[..] {
        caption.push_str(&format!(" All marks: {only}."));
    }
    let missing = left_out + all - drawn;
    if missing > 0 {
        caption.push_str(&format!(
            " Not drawn: {missing} that are not above 0, or of a unit with few; the tables have them."
        ));
    }
    let plot = agreement_plot(("agreement", "Against print", &caption), &series, &panels)?;
    Ok(Some(Section {
        id: "plot",
        title: "Predicted and measured against print".to_owned(),
        blocks: vec![Block::Plot(plot)],
    }))
}
