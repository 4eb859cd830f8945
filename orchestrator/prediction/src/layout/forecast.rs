//! Answers a question about layouts.

use super::{
    answer::{DmtcpForecast, LayoutAnswer, LayoutForecast, UnknownLayout},
    operations::{LayoutOperations, OperationSource},
    question::LayoutQuestion,
    sentence::sentence,
};
use crate::predict::PredictError;
use cvc_model::{
    FitError,
    metadata::{
        Layout, MetadataSetting,
        cost::{file_count, layout_time, server_load},
        crossing::{LayoutLine, WinningRange, winning_ranges},
        dmtcp::DmtcpImages,
        stripes::{PartialStripes, partial_stripes},
    },
};

/// The best layouts are listed up to at least this number of nodes and of checkpoints.
const LISTED: u64 = 1000;

fn refused(error: FitError) -> PredictError {
    PredictError::Model {
        message: error.to_string(),
        hint: "see `cvc predict --help`".into(),
    }
}

/// Returns the forecast of each layout, and the best layouts by number of nodes and of checkpoints.
///
/// # Errors
/// A value is invalid for all layouts, or the operations of all layouts are unknown.
pub fn layout_answer(
    source: &OperationSource,
    question: &LayoutQuestion,
) -> Result<LayoutAnswer, PredictError> {
    let (mut layouts, mut unknown) = (Vec::new(), Vec::new());
    for layout in Layout::ALL {
        match source.operations(layout, question.setting(), question.nodes()) {
            Ok(found) => layouts.push(forecast(source, question, layout, found).map_err(refused)?),
            Err(reason) => unknown.push(UnknownLayout { layout, reason }),
        }
    }
    if layouts.is_empty() {
        let first = unknown.first().map(|of| of.reason.clone());
        return Err(PredictError::Model {
            message: format!(
                "the operations of no layout are known for {} processes, {} checkpoints and {} metadata servers: {}",
                question.processes,
                question.checkpoints,
                question.servers,
                first.unwrap_or_default()
            ),
            hint: "count them at other numbers with `cvc metadata --csv`, and give the table with --operations".into(),
        });
    }
    layouts.sort_by(|a, b| {
        let time = |of: &LayoutForecast| of.time.total_s.value;
        time(a)
            .total_cmp(&time(b))
            .then(a.operations.value.total_cmp(&b.operations.value))
    });
    let dmtcp = question
        .dmtcp
        .map(|(launchers, gzip)| dmtcp(question, launchers, gzip))
        .transpose()
        .map_err(refused)?;
    Ok(LayoutAnswer {
        source: source.about(),
        sentence: sentence(question, &layouts),
        by_nodes: ranges(question.nodes(), |nodes, layout| {
            let at = MetadataSetting {
                clients: nodes * u64::from(question.per_node),
                ..question.setting()
            };
            let found = source.operations(layout, at, nodes).ok()?;
            Some(found.total.value)
        }),
        by_checkpoints: ranges(question.checkpoints, |checkpoints, layout| {
            let at = MetadataSetting {
                checkpoints,
                ..question.setting()
            };
            let found = source.operations(layout, at, question.nodes()).ok()?;
            Some(found.total.value)
        }),
        layouts,
        unknown,
        dmtcp,
        warnings: source.warnings(),
    })
}

/// Returns the best layouts for each range of a number, from 1 to at least four times `asked`. Operations are linear in the number, so two values
/// determine each layout.
fn ranges(asked: u64, operations: impl Fn(u64, Layout) -> Option<f64>) -> Vec<WinningRange> {
    let last = LISTED.max(asked.saturating_mul(4));
    let line = |layout| {
        Some(LayoutLine {
            layout,
            first: operations(1, layout)?,
            last: operations(last, layout)?,
        })
    };
    let lines: Vec<LayoutLine> = Layout::ALL.into_iter().filter_map(line).collect();
    match lines.len() {
        0 | 1 => Vec::new(),
        _ => winning_ranges(&lines, 1, last),
    }
}

fn forecast(
    source: &OperationSource,
    question: &LayoutQuestion,
    layout: Layout,
    found: LayoutOperations,
) -> Result<LayoutForecast, FitError> {
    let checkpoints = question.checkpoints as f64;
    let each = question.bytes / u64::from(question.processes).max(1);
    let block = match layout {
        Layout::Strided => question.block_bytes,
        Layout::Segmented | Layout::Delegated => Some(each),
        Layout::PerProcess | Layout::PerNode | Layout::Log => None,
    };
    let stripes = match (block, question.stripe_bytes) {
        (Some(block), Some(stripe)) => Some(partial_stripes(question.bytes, block, stripe)?),
        _ => None,
    };
    let all = stripes.map(|of| PartialStripes {
        pieces: of.pieces.saturating_mul(question.checkpoints),
        extra_bytes: of.extra_bytes.saturating_mul(question.checkpoints),
    });
    let time = layout_time(
        question.bytes as f64 * checkpoints,
        found.total,
        all,
        source.locks_stripes(),
        question.rates,
    )?;
    let load = question
        .interval_s
        .map(|interval_s| {
            let each = found.total.value / checkpoints;
            server_load(each, interval_s, question.rates.operations_s)
        })
        .transpose()?;
    let each = layout.files(u64::from(question.processes), question.nodes());
    Ok(LayoutForecast {
        layout,
        operations: found.total,
        kinds: found.kinds,
        time,
        load,
        files: file_count(
            each,
            question.keep,
            question.checkpoints,
            layout == Layout::Delegated,
            question.file_limit,
        ),
        stripes,
        notes: found.notes,
    })
}

fn dmtcp(question: &LayoutQuestion, launchers: u32, gzip: bool) -> Result<DmtcpForecast, FitError> {
    let operations = DmtcpImages {
        processes: question.processes,
        launchers,
        nodes: u32::try_from(question.nodes()).unwrap_or(u32::MAX),
        gzip,
    }
    .operations()?;
    let seconds = |count: u64| count as f64 / question.rates.operations_s;
    Ok(DmtcpForecast {
        operations_s: seconds(operations.total),
        copied_behind_s: seconds(operations.copied_behind),
        operations,
    })
}
