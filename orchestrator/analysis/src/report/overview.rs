//! Facts about the campaign, and the outcomes of its runs.

use super::{drift, noise};
use crate::report::consistency;
use crate::results::data::Data;
use cvc_core::point::FactorId;
use cvc_index::IndexedBaseline;
use cvc_index::{RecordsState, RunOutcome};
use cvc_show::{Block, Cell, Column, Section, Table};
use std::collections::BTreeSet;

pub(super) fn section(data: &Data) -> Section {
    let meta = |key: &str| data.meta.get(key).map(String::as_str).unwrap_or_default();
    let mut pairs = Vec::new();
    let mut pair = |name: &str, value: String| {
        if !value.is_empty() {
            pairs.push((name.to_owned(), value));
        }
    };
    if let (Some(first), Some(last)) = (data.meta.get("first_entry"), data.meta.get("last_entry")) {
        pair("when", format!("{} to {}", time(first), time(last)));
    }
    let sites: Vec<&str> = data.levels("site").into_iter().collect();
    pair(
        if sites.len() == 1 { "site" } else { "sites" },
        sites.join(", "),
    );
    pair(
        "points",
        counted(data.points.len(), data.excluded.len(), "excluded"),
    );
    let warmups = data.runs.iter().filter(|r| r.warmup).count();
    pair(
        "runs",
        counted(
            data.runs.len() - warmups,
            warmups,
            "warm-up, excluded below",
        ),
    );
    pair("seed", meta("seed").to_owned());
    pair("cvc", meta("cvc").to_owned());
    pair("limit", limit(data));
    let baseline = |b: &IndexedBaseline| {
        format!(
            "{} {} {}: {:.2} MiB",
            b.site,
            b.mpi,
            b.mapping,
            b.bytes / f64::from(1 << 20)
        )
    };
    let all: Vec<String> = data.baselines.iter().map(baseline).collect();
    pair(
        "memory of libraries in each process, by the smallest program",
        all.join("; "),
    );
    let mut blocks = vec![Block::Pairs { pairs }];
    blocks.extend(warnings(data));
    blocks.push(Block::Table(states(data)));
    Section {
        id: "overview",
        title: "Overview".to_owned(),
        blocks,
    }
}

/// Describes the scope of the intervals.
fn limit(data: &Data) -> String {
    let blocks: BTreeSet<u32> = data
        .runs
        .iter()
        .filter(|run| run.enters())
        .filter_map(|run| run.block)
        .collect();
    let many = data
        .meta
        .get("blocks")
        .map(String::as_str)
        .unwrap_or_default();
    let one_fleet = if data.fleets > 0 {
        "one fleet of instances and "
    } else {
        ""
    };
    match (many, blocks.len()) {
        ("", _) | (_, 0) => format!(
            "intervals hold for {one_fleet}these machines and hours; the variation between machines of this kind and between days was not measured"
        ),
        (_, 1) => format!(
            "only one of the {many} has run: intervals do not include the variation between {many} yet"
        ),
        ("fleets", n) => {
            format!(
                "intervals include the variation between {n} fleets, launched one after another; other days and regions were not measured"
            )
        }
        (_, n) => format!(
            "intervals include the variation between {n} {many}; the variation between machines of this kind was not measured"
        ),
    }
}

fn states(data: &Data) -> Table {
    let columns = RunOutcome::ALL;
    let mut table = Table::new(
        "runs",
        "Runs",
        "Counted runs by outcome. Quarantined: not tried, because the point had failed too often.",
        std::iter::once(Column::plain("application", "application"))
            .chain(columns.map(|c| Column::plain(c.as_str(), c.as_str())))
            .chain([
                Column::plain("retried", "retried"),
                Column::plain("excluded_points", "excluded points"),
            ])
            .collect(),
    );
    for app in data.factor_values("app") {
        let of_app = |point: usize| data.points[point].level(FactorId::App) == app;
        let mut row = vec![Cell::text(app)];
        for state in columns {
            row.push(Cell::count(
                data.runs
                    .iter()
                    .filter(|r| !r.warmup && r.state == state && of_app(r.point))
                    .count(),
            ));
        }
        row.push(Cell::count(
            data.runs
                .iter()
                .filter(|r| !r.warmup && r.attempts > 1 && of_app(r.point))
                .count(),
        ));
        row.push(Cell::count(
            data.excluded
                .iter()
                .filter(|e| e.factors.get("app").is_some_and(|a| a == app))
                .count(),
        ));
        table.rows.push(row);
    }
    table
}

fn warnings(data: &Data) -> Vec<Block> {
    let mut warnings = Vec::new();
    let mut warn = |text: String| warnings.push(Block::Warning { text });
    let failed = data.count(RunOutcome::Failed);
    if failed > 0 {
        warn(format!(
            "{} failed: see Outcomes. The numbers below include successful runs only.",
            runs(failed)
        ));
    }
    let undone = data.count(RunOutcome::Pending) + data.count(RunOutcome::Running);
    if undone > 0 {
        let have = if undone == 1 { "has" } else { "have" };
        warn(format!(
            "The campaign is not finished: {undone} counted runs {have} not ended. Resume it with `cvc run`."
        ));
    }
    let without = |state: RecordsState| data.runs.iter().filter(|r| r.records == state).count();
    let lost = without(RecordsState::Missing) + without(RecordsState::Damaged);
    if lost > 0 {
        warn(format!(
            "The records of {} are missing or damaged: see Outcomes. They are excluded below.",
            runs(lost)
        ));
    }
    if without(RecordsState::Changed) > 0 {
        warn(format!(
            "The records of {} changed after it had finished (the checksum differs): see Outcomes.",
            runs(without(RecordsState::Changed))
        ));
    }
    if let Some(n) = data.meta.get("runs_not_in_plan").filter(|n| *n != "0") {
        warn(format!(
            "The plan has changed since the journal began: runs in the journal that are not in the plan are excluded ({n})."
        ));
    }
    for text in drift::warnings(data)
        .into_iter()
        .chain(noise::warning(data))
    {
        warn(text);
    }
    if let Some(text) =
        consistency::warning(&data.points.iter().map(|p| &p.mixed).collect::<Vec<_>>())
    {
        warn(text);
    }
    let few = data
        .points
        .iter()
        .flat_map(|p| p.summaries.values())
        .any(|s| s.n < 5);
    if few {
        let text = "Some numbers have fewer than five repeats: their intervals use the scatter of all points, and outliers cannot be detected. The plots of all \
                    repeats show every value.";
        warnings.push(Block::Text {
            text: text.to_owned(),
        });
    }
    warnings
}

fn runs(n: usize) -> String {
    if n == 1 {
        "1 run".to_owned()
    } else {
        format!("{n} runs")
    }
}

fn counted(n: usize, more: usize, what: &str) -> String {
    if more == 0 {
        n.to_string()
    } else {
        format!("{n} (and {more} {what})")
    }
}

/// Formats a time stamp to the second.
pub(super) fn time(stamp: &str) -> String {
    let to_the_second = stamp
        .split('.')
        .next()
        .unwrap_or(stamp)
        .trim_end_matches('Z');
    format!("{} UTC", to_the_second.replace('T', " "))
}
