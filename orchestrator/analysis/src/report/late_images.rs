//! Checkpoints whose last images are written late: a few slow ranks or nodes delay all others.

use crate::results::{data::Data, rows::PointRow};
use cvc_core::record::names;
use cvc_show::format::percent;

/// Share of a checkpoint's time above which the time of the last tenth of its images is reported.
const LARGE_SHARE: f64 = 1.0 / 3.0;

/// Maximum number of points that are listed.
const MAX_NAMED: usize = 4;

/// Lists the points whose last tenth of images takes more than a third of the checkpoint's time.
pub(super) fn found(data: &Data) -> Option<(String, String)> {
    let varying = data.varying();
    let late: Vec<String> = data
        .points
        .iter()
        .enumerate()
        .filter_map(|(i, p)| Some((i, share_of_last(p)?)))
        .filter(|(_, share)| *share > LARGE_SHARE)
        .map(|(i, share)| format!("{} ({})", data.label(i, &varying), percent(share)))
        .collect();
    let more = match late.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = late.get(..late.len().min(MAX_NAMED))?.join(", ");
    (!late.is_empty()).then(|| {
        (
            "the last tenth of the images takes more than a third of a checkpoint's time"
                .to_owned(),
            format!("{named}{more}"),
        )
    })
}

/// Returns the share of a checkpoint's time that the last tenth of its images took; `None` if the images were not timed.
fn share_of_last(point: &PointRow) -> Option<f64> {
    let mean = |at: &str| {
        let name = format!("{}{at}", names::CKPT_IMAGES_DONE_S);
        Some(point.summaries.get(name.as_str())?.mean)
    };
    let latency_s = mean_of(point, names::CKPT_LATENCY_S).filter(|s| *s > 0.0)?;
    Some((mean("_last")? - mean("_p90")?) / latency_s)
}

fn mean_of(point: &PointRow, quantity: &str) -> Option<f64> {
    Some(point.summaries.get(quantity)?.mean)
}
