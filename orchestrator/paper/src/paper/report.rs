//! The report of a paper: its printed tables, with the comparisons of each number.

use super::{
    agreement,
    cell::Cell as PrintedCell,
    cells, claims,
    definition::Anomaly,
    figures,
    judge::{
        CellCounts, CellVerdict, Deviation, JudgedCell, JudgedMeasurement, JudgedTable,
        Reproduction, significant_digits,
    },
    measured::Agreement,
    misprints::{FoundMisprint, misprints},
    printed::Digits,
    rules,
    verdict_words::describe_verdict,
};
use cvc_core::units::counted;
use cvc_index::error::AnalysisError;
use cvc_model::Tier;
use cvc_show::{
    Against, Block, Cell, Column, ComparedValue, Document, DocumentKind, Mark, Note, SCHEMA,
    Section, Table, slug,
};

/// Builds the report.
///
/// # Errors
/// A plot cannot be drawn.
pub fn report(of: &Reproduction) -> Result<Document, AnalysisError> {
    let year = of.year.map(|y| format!(" ({y})")).unwrap_or_default();
    let mut sections = vec![summary(of)];
    sections.extend(wrong(of));
    sections.extend(claims::section(&of.claims));
    sections.extend(agreement::section(of)?);
    sections.push(reading());
    let tables: Vec<Block> = of
        .tables
        .iter()
        .map(|t| Block::Table(table(of, t)))
        .collect();
    if !tables.is_empty() {
        sections.push(Section {
            id: "tables",
            title: "Tables".to_owned(),
            blocks: tables,
        });
    }
    let (drawn, numbers) = figures::draw(of)?;
    if !drawn.is_empty() {
        sections.push(Section {
            id: "figures",
            title: "Figures".to_owned(),
            blocks: drawn,
        });
    }
    if !of.notes.is_empty() {
        sections.push(Section {
            id: "text",
            title: "Text and algorithms".to_owned(),
            blocks: vec![Block::Table(text_anomalies(of))],
        });
    }
    let data_tables = Some(cells::table(of)).filter(|t| !t.rows.is_empty());
    Ok(Document {
        schema: SCHEMA,
        kind: DocumentKind::Paper,
        campaign: of.paper.clone(),
        title: format!("{}{year}", of.title),
        span: None,
        sections,
        found: Vec::new(),
        data_tables: data_tables.into_iter().chain(numbers).collect(),
        long_rows: None,
    })
}

/// Returns the identifier of a table in the report.
fn table_id(id: &str) -> String {
    format!("table-{}", slug(id))
}

/// Returns the identifier of a cell in the report.
fn cell_id(table: &str, row: usize, column: &str) -> String {
    format!("{}-row-{}-{}", table_id(table), row + 1, slug(column))
}

fn summary(of: &Reproduction) -> Section {
    let total = of
        .tables
        .iter()
        .fold(CellCounts::default(), |sum, t| sum.plus(t.counts));
    let mut pairs = vec![("authors".to_owned(), of.authors.join(", "))];
    pairs.extend(of.published.clone().map(|p| ("published".to_owned(), p)));
    if total.judged > 0 {
        pairs.push((
            "cells".to_owned(),
            format!("{}: {}", total.checked(), total.outcomes()),
        ));
    }
    let doubtful = of.anomalies.iter().filter(|a| !is_misprint(of, a)).count();
    pairs.push((
        "known anomalies".to_owned(),
        format!(
            "{}: {}, {doubtful} doubtful or notable",
            of.anomalies.len(),
            counted(of.anomalies.len() - doubtful, "misprint")
        ),
    ));
    let mut blocks = vec![Block::Pairs { pairs }];
    blocks.extend(of.note.clone().map(|text| Block::Text { text }));
    let mut head = vec![
        Column::plain("table", "table"),
        Column::plain("about", "about"),
        Column::plain("page", "page"),
    ];
    let verdicts = Mark::COMPARED.map(Mark::word);
    let counted = ["cells"].into_iter().chain(verdicts).chain([
        "measured here",
        "of these agree",
        "differ, known why",
    ]);
    // columns without values in any table are not shown, but data files include them
    let in_all = values(&total);
    head.extend(counted.zip(in_all).map(|(h, n)| {
        let column = Column::plain(&h.replace(',', "").replace(' ', "_"), h);
        if n == 0 { column.data_only() } else { column }
    }));
    let meanings = Mark::COMPARED.map(|mark| format!("{}: {}", mark.word(), mark.meaning()));
    let caption = format!(
        "Cells: printed numbers, without row labels. {}; differ, known why: measured here, and different for a reason \
         that explains the distance.",
        meanings.join("; ")
    );
    let mut table = Table::new("summary", "Outcomes by table", &caption, head);
    let counts = |c: &CellCounts| values(c).map(|n| Cell::number((n > 0).then_some(n as f64)));
    for t in &of.tables {
        let d = &t.definition;
        let mut row = vec![
            Cell::Link {
                text: d.title.clone(),
                to: table_id(&d.id),
            },
            Cell::text(d.caption.clone()),
            Cell::number(d.page.map(f64::from)),
        ];
        row.extend(counts(&t.counts));
        table.rows.push(row);
    }
    if of.tables.len() > 1 {
        let mut row = vec![Cell::text("all"), Cell::Empty, Cell::Empty];
        row.extend(counts(&total));
        table.rows.push(row);
    }
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    Section {
        // the id `summary` is already that of the table
        id: "outcome",
        title: "Summary".to_owned(),
        blocks,
    }
}

/// Returns the counts of a table, in the order of the summary's columns.
fn values(c: &CellCounts) -> [usize; 10] {
    [
        c.judged,
        c.equal,
        c.inferred,
        c.within,
        c.differs,
        c.wrong,
        c.cannot,
        c.measured,
        c.agree,
        c.explained,
    ]
}

/// Returns whether a printed cell is wrong because of this anomaly.
fn is_misprint(of: &Reproduction, anomaly: &Anomaly) -> bool {
    of.tables.iter().flat_map(|t| t.rows.iter().flatten()).any(
        |c| matches!(&c.verdict, CellVerdict::PrintedWrong { anomaly: id, .. } if *id == anomaly.id),
    )
}

/// Returns the section that lists misprints, and other doubtful or notable cells.
fn wrong(of: &Reproduction) -> Option<Section> {
    let mut blocks = Vec::new();
    let found = misprints(of);
    if !found.is_empty() {
        blocks.push(Block::Table(misprint_list(&found)));
    }
    let doubtful = doubtful(of);
    if !doubtful.rows.is_empty() {
        blocks.push(Block::Table(doubtful));
    }
    (!blocks.is_empty()).then(|| Section {
        id: "wrong",
        title: "Misprints".to_owned(),
        blocks,
    })
}

fn misprint_list(found: &[FoundMisprint<'_>]) -> Table {
    let mut table = Table::new(
        "misprints",
        "All misprints",
        "Cells that are wrong in print; their tables link to them. Recomputed: from the paper's own inputs as they are printed.",
        vec![
            Column::plain("table", "table"),
            Column::plain("page", "page"),
            Column::plain("row", "row"),
            Column::plain("column", "column"),
            Column::plain("printed", "printed"),
            Column::plain("likely", "likely"),
            Column::plain("recomputed", "recomputed"),
            Column::plain("unit", "unit"),
            Column::plain("confidence", "confidence"),
            Column::plain("anomaly", "note"),
            Column::plain("why", "why"),
        ],
    );
    for m in found {
        let unit = m.column.unit.as_deref().filter(|u| *u != "1");
        table.rows.push(vec![
            Cell::Link {
                text: m.table.id.clone(),
                to: cell_id(&m.table.id, m.row, &m.column.id),
            },
            Cell::number(m.table.page.map(f64::from)),
            Cell::text(m.about.clone()),
            Cell::text(m.column.heading.clone()),
            Cell::text(m.printed),
            Cell::text(m.likely),
            Cell::text(
                m.recomputed
                    .map_or_else(String::new, |v| significant_digits(v, 6).to_string()),
            ),
            Cell::text(unit.unwrap_or_default()),
            Cell::text(m.confidence.word()),
            Cell::text(m.anomaly),
            Cell::text(m.why),
        ]);
    }
    table
}

/// Returns a table of the anomalies that concern judged tables but do not mark a cell as wrong.
fn doubtful(of: &Reproduction) -> Table {
    let mut table = anomaly_table(
        "doubtful",
        "Doubtful or notable",
        "Notes on printed values that are not corrected. Consider them before using these cells and tables.",
    );
    for a in &of.anomalies {
        let stands = !of.notes.contains(&a.id) && !is_misprint(of, a);
        let at = of.tables.iter().find(|t| t.mentions(&a.id));
        if let (true, Some(at)) = (stands, at) {
            let link = Cell::Link {
                text: a.table.clone(),
                to: table_id(&at.definition.id),
            };
            table.rows.push(anomaly_row(a, link));
        }
    }
    table
}

fn reading() -> Section {
    let mut table = Table::new(
        "marks",
        "Marks",
        "A cell shows the printed number; below it = is recomputed from the paper's own inputs, \u{25c7} another model, \u{25cf} measured here. \
         The note \u{25c7} below a table lists the constants of the model that were read from the paper's own measurements: they are not predictions. Percentages \
         are the distance to print. Hover over a number for details.",
        vec![
            Column::plain("mark", "mark"),
            Column::plain("name", "in data files"),
            Column::plain("meaning", "meaning"),
        ],
    );
    for mark in Mark::COMPARED {
        table.rows.push(vec![
            Cell::text(mark.symbol()),
            Cell::text(mark.word()),
            Cell::text(mark.meaning()),
        ]);
    }
    Section {
        id: "reading",
        title: "Legend".to_owned(),
        blocks: vec![Block::Table(table)],
    }
}

fn table(of: &Reproduction, judged: &JudgedTable) -> Table {
    let d = &judged.definition;
    let columns = d
        .columns
        .iter()
        .map(|c| {
            let mut column = Column::plain(&c.id, &c.heading);
            column.unit = c.unit.clone().filter(|u| u != "1");
            column
        })
        .collect();
    let place: Vec<String> = [
        d.page.map(|p| format!("page {p}")),
        d.section.as_ref().map(|s| format!("section {s}")),
        d.application.clone(),
        d.mpi.clone(),
        d.cluster.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let c = judged.counts;
    let mut caption = format!("{}.", d.caption.trim_end_matches('.'));
    if !place.is_empty() {
        caption.push_str(&format!(" In print: {}.", place.join(", ")));
    }
    if let Some(note) = &d.note {
        let mut letters = note.trim_end_matches('.').chars();
        let first: String = letters
            .next()
            .map(|c| c.to_uppercase().collect())
            .unwrap_or_default();
        caption.push_str(&format!(" {first}{}.", letters.as_str()));
    }
    if c.judged > 0 {
        caption.push_str(&format!(" {}: {}.", c.checked(), c.outcomes()));
    }
    if let Some(fault) = judged.probable_fault() {
        caption.push_str(&format!(" {fault}."));
    }
    let mut table = Table::new(&table_id(&d.id), &d.title, &caption, columns);
    table.rows = judged
        .rows
        .iter()
        .enumerate()
        .map(|(n, row)| {
            let cells = d.columns.iter().zip(row);
            cells
                .map(|(c, of)| cell(of, || cell_id(&d.id, n, &c.id)))
                .collect()
        })
        .collect();
    table.notes = notes(of, judged);
    table
}

/// Returns a cell of a printed table. `anchor` returns its identifier for links.
fn cell(judged: &JudgedCell, anchor: impl Fn() -> String) -> Cell {
    if judged.printed == PrintedCell::Empty {
        return Cell::Empty;
    }
    if judged.verdict == CellVerdict::Label && judged.anomalies.is_empty() {
        return match &judged.printed {
            PrintedCell::Number(printed) => Cell::Against {
                against: Box::new(plain(printed.text(), Some(printed.value()))),
            },
            other => Cell::text(other.text()),
        };
    }
    let number = judged.printed.number();
    let decimals = number.map_or(0, |n| n.decimals()) as usize;
    let (mark, verdict) = describe_verdict(&judged.verdict);
    let mut against = plain(judged.printed.text(), number.map(|n| n.value()));
    // digits beyond the printed ones are only shown if they matter for the verdict
    let digits = if matches!(
        judged.verdict,
        CellVerdict::Equal {
            digits: Digits::Rounded,
            ..
        } | CellVerdict::Inferred {
            digits: Digits::Rounded,
            ..
        }
    ) {
        decimals
    } else {
        decimals + 1
    };
    let beside = |value: f64, deviation: Deviation, digits: usize, details: String| ComparedValue {
        value: significant_digits(value, 15),
        shown: shown(value, digits),
        by: deviation.by,
        pct: deviation.pct,
        mark: None,
        details,
    };
    against.recomputed = judged
        .recomputed
        .map(|(r, d)| beside(r.value(), d, digits, format!("recomputed: {verdict}")));
    against.modelled = judged.modelled.as_ref().map(|(m, d)| {
        let interval = m
            .estimate
            .interval
            .map(|i| format!(" [{}, {}]", shown(i.low, decimals), shown(i.high, decimals)))
            .unwrap_or_default();
        beside(
            m.estimate.value,
            *d,
            decimals,
            format!("model ({}): {}{interval}", m.tier, m.model),
        )
    });
    against.measured = judged.measured.as_ref().map(|m| {
        let (mark, agreement) = match m.agreement {
            Agreement::WithPrint => (
                Mark::Within,
                format!("within {} % of print", m.measured.tolerance_pct),
            ),
            Agreement::WithLikely => (
                Mark::Within,
                format!(
                    "within {} % of the probable value",
                    m.measured.tolerance_pct
                ),
            ),
            Agreement::Explained | Agreement::Differs => (
                Mark::Differs,
                format!("more than {} % from print", m.measured.tolerance_pct),
            ),
        };
        let same =
            number.is_some_and(|n| shown(n.value(), decimals) == shown(m.measured.value, decimals));
        let mark = if same { Mark::Equal } else { mark };
        let cause = cause(m).map(|c| format!("; {c}")).unwrap_or_default();
        let runs = if m.measured.n == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", m.measured.n)
        };
        let details = format!(
            "measured here, {runs}, {agreement}{cause}; {}",
            m.measured.from
        );
        ComparedValue {
            mark: Some(mark),
            ..beside(m.measured.value, m.deviation, decimals, details)
        }
    });
    if let CellVerdict::PrintedWrong { confidence, .. } = &judged.verdict {
        against.confidence = Some(*confidence);
        against.anchor = Some(anchor());
    }
    (against.mark, against.verdict) = (mark, verdict);
    against.notes.clone_from(&judged.anomalies);
    Cell::Against {
        against: Box::new(against),
    }
}

/// Returns the reason why a measurement differs, if the reason explains the difference.
fn cause(measured: &JudgedMeasurement) -> Option<&str> {
    measured
        .measured
        .reason
        .as_ref()
        .filter(|_| measured.agreement == Agreement::Explained)
        .map(|r| r.because.as_str())
}

fn plain(text: &str, value: Option<f64>) -> Against {
    Against {
        printed: text.to_owned(),
        value,
        anchor: None,
        mark: Mark::Label,
        confidence: None,
        verdict: String::new(),
        recomputed: None,
        modelled: None,
        measured: None,
        notes: Vec::new(),
    }
}

/// Formats a number with this number of decimals; very small numbers in scientific notation.
fn shown(value: f64, decimals: usize) -> String {
    if decimals > 8 && value != 0.0 {
        format!("{value:.5e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// Returns the notes of a table: first anomalies, then how columns were recomputed and modelled, why measurements differ, and why cells were not
/// recomputed.
fn notes(of: &Reproduction, judged: &JudgedTable) -> Vec<Note> {
    let mut names: Vec<&String> = judged.anomalies.iter().collect();
    names.extend(judged.rows.iter().flatten().flat_map(|c| &c.anomalies));
    let mut notes: Vec<Note> = Vec::new();
    for anomaly in of.anomalies.iter().filter(|a| names.contains(&&a.id)) {
        notes.push(Note {
            mark: anomaly.id.clone(),
            text: describe(anomaly),
        });
    }
    let mut rules: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for column in &judged.definition.columns {
        let Some(rule) = column.rule.as_ref().and_then(|r| rules::rule(r.name())) else {
            continue;
        };
        match rules.iter_mut().find(|(about, _)| *about == rule.about()) {
            Some((_, headings)) => headings.push(&column.heading),
            None => rules.push((rule.about(), vec![&column.heading])),
        }
    }
    notes.extend(rules.into_iter().map(|(about, headings)| Note {
        mark: format!("= {}", headings.join(", ")),
        text: about.to_owned(),
    }));
    let mut models: Vec<(&'static str, Tier, Vec<&str>)> = Vec::new();
    for row in &judged.rows {
        for (column, cell) in judged.definition.columns.iter().zip(row) {
            let Some((message, _)) = &cell.modelled else {
                continue;
            };
            match models
                .iter_mut()
                .find(|(basis, ..)| *basis == message.basis)
            {
                Some((_, _, headings)) if headings.contains(&column.heading.as_str()) => {}
                Some((_, _, headings)) => headings.push(&column.heading),
                None => models.push((message.basis, message.tier, vec![&column.heading])),
            }
        }
    }
    notes.extend(models.into_iter().map(|(basis, tier, headings)| {
        let text = if tier == Tier::NoRun {
            format!("no run needed: {basis}")
        } else {
            basis.to_owned()
        };
        Note {
            mark: format!("\u{25c7} {}", headings.join(", ")),
            text,
        }
    }));
    let mut causes: Vec<&str> = Vec::new();
    for cause in judged
        .rows
        .iter()
        .flatten()
        .filter_map(|c| cause(c.measured.as_ref()?))
    {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    notes.extend(causes.into_iter().map(|cause| Note {
        mark: "\u{25cf} \u{2260}".to_owned(),
        text: cause.to_owned(),
    }));
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for cell in judged.rows.iter().flatten() {
        if let CellVerdict::Cannot { because } = &cell.verdict {
            match reasons.iter_mut().find(|(text, _)| text == because) {
                Some((_, n)) => *n += 1,
                None => reasons.push((because, 1)),
            }
        }
    }
    notes.extend(reasons.into_iter().map(|(because, n)| {
        let cells = if n == 1 {
            "1 cell".to_owned()
        } else {
            format!("{n} cells")
        };
        Note {
            mark: Mark::Cannot.symbol().to_owned(),
            text: format!("{cells}: {because}"),
        }
    }));
    notes
}

fn describe(anomaly: &Anomaly) -> String {
    format!(
        "{}: printed {}; likely: {}. {} (confidence: {})",
        anomaly.cell,
        anomaly.printed,
        anomaly.likely,
        anomaly.why,
        anomaly.confidence.word()
    )
}

fn text_anomalies(of: &Reproduction) -> Table {
    let mut table = anomaly_table(
        "text-anomalies",
        "Errors and doubts outside the tables",
        "Passages, formulas and algorithms.",
    );
    for a in of.anomalies.iter().filter(|a| of.notes.contains(&a.id)) {
        table.rows.push(anomaly_row(a, Cell::text(a.table.clone())));
    }
    table
}

/// Returns an empty table of anomalies.
fn anomaly_table(id: &str, title: &str, caption: &str) -> Table {
    let columns = [
        "anomaly",
        "where",
        "what",
        "printed",
        "probably",
        "why",
        "confidence",
    ];
    Table::new(
        id,
        title,
        caption,
        columns.map(|c| Column::plain(c, c)).to_vec(),
    )
}

/// Returns a row of a table of anomalies. `place` is the cell with the position of the anomaly.
fn anomaly_row(a: &Anomaly, place: Cell) -> Vec<Cell> {
    let [what, printed, likely, why] = [&a.cell, &a.printed, &a.likely, &a.why].map(Cell::text);
    vec![
        Cell::text(&a.id),
        place,
        what,
        printed,
        likely,
        why,
        Cell::text(a.confidence.word()),
    ]
}
