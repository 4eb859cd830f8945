//! Overhead of checkpoints, and the savings and costs of compressing them.

use crate::results::{
    counterpart::{
        CounterpartPair, labels, pairs, pairs_without_checkpoints, ratio_groups, repeats,
    },
    data::Data,
    quantity,
};
use cvc_core::point::Compression;
use cvc_core::record::names;
use cvc_model::stats::{PooledRatio, adjust_effects, pooled_ratio};
use cvc_show::{Cell, Column, Table};

/// Builds the table of the overhead of checkpoints.
pub(super) fn overhead(data: &Data) -> Table {
    let mut columns = vec![
        Column::plain("at", "at"),
        Column::plain("checkpointer", "checkpoints by"),
    ];
    columns.extend(
        [
            ("wall_without_s", "wall time without"),
            ("wall_with_s", "with checkpoints"),
        ]
        .map(|(id, heading)| Column::of(id, heading, "s")),
    );
    columns.extend(
        [
            ("overhead", "overhead"),
            ("overhead_low", "adjusted 95 % from"),
            ("overhead_high", "to"),
        ]
        .map(|(id, heading)| Column::of(id, heading, "%")),
    );
    columns.push(Column::plain("pairs", "pairs"));
    columns.push(Column::of("checkpoint_time", "checkpoint time", "s"));
    let caption = "Wall time of otherwise equal runs with and without checkpoints. The interval is Student's t of the logarithms of the ratios \
                   of repeats with the same number, adjusted for the number of rows. With DMTCP the overhead includes the start under DMTCP. Runs that end at their checkpoint (size-only, restarted) have no wall time and are excluded.";
    let mut table = Table::new("overhead", "Overhead of checkpoints", caption, columns);
    let (levels, pairs): (Vec<&str>, Vec<CounterpartPair>) = pairs_without_checkpoints(data)
        .filter(|(_, pair)| !repeats(data, pair, names::WALL_S).is_empty())
        .unzip();
    let mut ratios: Vec<Option<PooledRatio>> = pairs
        .iter()
        .map(|pair| {
            let pair = std::slice::from_ref(pair);
            pooled_ratio(&ratio_groups(data, pair, names::WALL_S))
        })
        .collect();
    adjust_effects(ratios.iter_mut().flatten());
    let labelled = levels.into_iter().zip(&pairs).zip(labels(&pairs));
    for (((level, pair), at), ratio) in labelled.zip(ratios) {
        let Some(ratio) = ratio else { continue };
        let (low, high) = ratio.interval_pct().unzip();
        let [with, without] = summaries(data, pair, names::WALL_S);
        let time = Cell::measured(data.points[pair.point].summaries.get(names::CKPT_LATENCY_S));
        let numbers = [
            Cell::number(ratio.change_pct()),
            Cell::number(low),
            Cell::number(high),
            Cell::count(ratio.pairs),
            time,
        ];
        table.rows.push(
            [Cell::text(at), Cell::text(level), without, with]
                .into_iter()
                .chain(numbers)
                .collect(),
        );
    }
    table
}

/// Builds the tables of the savings and costs of compression, one for each compression program.
pub(super) fn compression(data: &Data) -> Vec<Table> {
    Compression::ALL
        .into_iter()
        .filter_map(Compression::program)
        .map(|program| compression_by(data, program))
        .collect()
}

/// Builds the table of one compression program.
fn compression_by(data: &Data, program: &str) -> Table {
    let measured = [
        names::CKPT_STORED_BYTES,
        names::CKPT_LATENCY_S,
        names::CPU_S,
    ];
    let mut columns = vec![
        Column::plain("at", "at"),
        Column::plain("ratio", "compression ratio"),
    ];
    for q in measured {
        let unit = if q == names::CKPT_STORED_BYTES {
            "bytes"
        } else {
            "s"
        };
        columns.push(Column::of(
            &format!("{q}_none"),
            &format!("{}, uncompressed", quantity::heading(q)),
            unit,
        ));
        columns.push(Column::of(
            &format!("{q}_{program}"),
            &format!("{}, {program}", quantity::heading(q)),
            unit,
        ));
    }
    let caption = format!(
        "Otherwise equal points without and with {program}. Compression ratio: size stored without compression, divided by size stored with it. Processor \
         time is that of the launcher and of the ranks on its node over the whole run, checkpoints included; runs that end at their \
         checkpoint have none."
    );
    // keep the earlier name for the table of gzip
    let (id, title) = match program {
        "gzip" => (
            "compression".to_owned(),
            "Savings and cost of compression".to_owned(),
        ),
        other => (
            format!("compression-{other}"),
            format!("Savings and cost of compression with {other}"),
        ),
    };
    let mut table = Table::new(&id, &title, &caption, columns);
    // use runs with restarts too: until the checkpoint they equal other runs
    let mut pairs = pairs(data, "compression", program, "none");
    pairs.retain(|pair| {
        !repeats(data, pair, names::CKPT_STORED_BYTES).is_empty()
            && [pair.point, pair.counterpart]
                .iter()
                .any(|p| data.unrestarted(*p).is_none())
    });
    for (pair, at) in pairs.iter().zip(labels(&pairs)) {
        let Some(ratio) = pooled_ratio(&ratio_groups(
            data,
            std::slice::from_ref(pair),
            names::CKPT_STORED_BYTES,
        )) else {
            continue;
        };
        let mut row = vec![Cell::text(at), Cell::number(1.0 / ratio.ratio)];
        let ends = !repeats(data, pair, names::WALL_S).is_empty();
        for q in measured {
            let [with, without] = summaries(data, pair, q);
            row.extend(if q != names::CPU_S || ends {
                [without, with]
            } else {
                [Cell::Empty, Cell::Empty]
            });
        }
        table.rows.push(row);
    }
    table
}

/// Returns the cells with the means of both points of a pair.
fn summaries(data: &Data, pair: &CounterpartPair, quantity: &str) -> [Cell; 2] {
    [pair.point, pair.counterpart].map(|p| Cell::measured(data.points[p].summaries.get(quantity)))
}
