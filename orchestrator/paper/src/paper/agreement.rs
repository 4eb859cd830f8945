//! The plot that compares recomputed, modelled and measured numbers with the printed ones.

use super::judge::Reproduction;
use cvc_analysis::report::{AgreementPanel, ComparedNumber, agreement_plot};
use cvc_index::error::AnalysisError;
use cvc_show::{Block, Section};
use indexmap::IndexMap;

/// Names of the series, in the order of the lines below a printed number in a cell.
const SERIES: [&str; 3] = [
    "= recomputed from the paper's inputs",
    "\u{25c7} another model",
    "\u{25cf} measured here",
];

/// Minimum number of values with the same unit for a panel.
const MIN_NUMBERS: usize = 3;

/// Maximum number of panels. If there are more units, the units with the most values are drawn.
const MOST: usize = 6;

/// Returns the section with the plot; `None` if there is nothing to draw.
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
    units.retain(|_, numbers| numbers.len() >= MIN_NUMBERS);
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
    // a series without values is not listed in the legend
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
    let mut caption = "Each mark is a cell: the printed number (horizontal) and the number compared with it (vertical). They are equal on the line; a mark far from it \
                       is a misprint, or a number that the formula does not reproduce. Both axes are logarithmic."
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
            " Not drawn: {missing} that are not above 0 or whose unit has too few numbers; the tables have them."
        ));
    }
    let plot = agreement_plot(
        ("agreement", "Compared with print", &caption),
        &series,
        &panels,
    )?;
    Ok(Some(Section {
        id: "plot",
        title: "Predicted and measured, compared with print".to_owned(),
        blocks: vec![Block::Plot(plot)],
    }))
}
