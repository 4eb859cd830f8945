//! The claims of a paper as a section of its report.

use super::{ClaimCounts, ClaimOutcome, SideOutcome};
use cvc_core::units::counted;
use cvc_show::{Block, Cell, Column, Section, Table};

/// Returns the section; `None` if there are no claims.
pub(in crate::paper) fn section(claims: &[ClaimOutcome]) -> Option<Section> {
    if claims.is_empty() {
        return None;
    }
    let caption = format!(
        "Statements of the work, judged by the numbers of its own tables, and by runs if a campaign tests them. {}: {}. In print and here: \
         how many compared numbers agree, and their range: ratios, differences or values, by the claim's rule. Misprints are replaced by the \
         probable value.",
        counted(claims.len(), "claim"),
        ClaimCounts::of(claims).describe()
    );
    let columns = vec![
        Column::plain("id", "claim").data_only(),
        Column::plain("says", "statement"),
        Column::plain("verdict", "verdict"),
        Column::plain("print", "in print"),
        Column::plain("here", "here"),
        Column::plain("why", "because"),
        Column::plain("reading", "interpretation"),
        Column::plain("section", "section"),
        Column::plain("page", "page").data_only(),
        Column::plain("corrected", "corrected misprints").data_only(),
    ];
    let mut table = Table::new("claims", "Claims", &caption, columns);
    let side = |of: &Option<SideOutcome>| {
        let words = of.as_ref().map_or_else(String::new, SideOutcome::describe);
        Cell::text(words)
    };
    let row = |c: &ClaimOutcome| {
        let corrected = c.print.iter().flat_map(|p| &p.corrected);
        vec![
            Cell::text(&c.id),
            Cell::text(&c.says),
            Cell::text(c.verdict.describe()),
            side(&c.print),
            side(&c.here),
            Cell::text(c.why()),
            Cell::text(c.reading.clone().unwrap_or_default()),
            Cell::text(&c.section),
            Cell::number(c.page.map(f64::from)),
            Cell::text(corrected.cloned().collect::<Vec<_>>().join(" ")),
        ]
    };
    table.rows = claims.iter().map(row).collect();
    Some(Section {
        id: "statements",
        title: "Claims".to_owned(),
        blocks: vec![Block::Table(table)],
    })
}
