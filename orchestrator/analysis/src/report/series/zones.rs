//! Changes between checkpoints, by zone of memory.

use super::over::{OverCheckpoints, by_checkpoint};
use crate::report::layout::{self, PlannedPlot};
use crate::results::data::Data;
use cvc_index::SeriesZoneVolume;

/// Zones with their names in legends, in the order of stacking.
const ZONES: [(&str, &str); 4] = [
    ("DTAPP", "application data (DTAPP)"),
    ("LB", "libraries (LB)"),
    ("SHMEM", "shared memory (SHMEM)"),
    ("REST", "stacks and reserves (REST)"),
];

/// Plans one plot for each application.
pub(super) fn plots<'a>(data: &'a Data, volumes: &'a [SeriesZoneVolume]) -> Vec<PlannedPlot<'a>> {
    let of_zone = |point: &str, zone: &str| -> Vec<(u32, f64)> {
        let of = volumes
            .iter()
            .filter(|v| v.point == point && v.zone == zone);
        of.map(|v| (v.ckpt, v.bytes)).collect()
    };
    let drawable = |p: usize| {
        let id = data.points[p].id.as_str();
        volumes.iter().any(|v| v.point == id)
    };
    let plan = |sheet: layout::Sheet<'a>| {
        let title = format!(
            "Changed since the previous checkpoint, by zone: {}",
            sheet.title
        );
        let of = |p: usize| {
            let point = data.points[p].id.as_str();
            let pieces = ZONES.map(|(zone, _)| by_checkpoint(2, &of_zone(point, zone)));
            (p, pieces.to_vec())
        };
        let drawn = OverCheckpoints {
            id: format!("series-zones-{}", sheet.id),
            caption: "Blocks of all processes that differ from those of the previous checkpoint, uncompressed, by zone of memory. \
                      Mean of the repeats; lower is better."
                .to_owned(),
            axis: "changed",
            unit: "bytes",
            legend: ZONES.iter().map(|(_, name)| (*name).to_owned()).collect(),
            first: 2,
            is_stacked: true,
            points: sheet.points().map(of).collect(),
        };
        PlannedPlot::new(title, move |title| drawn.draw(data, title))
    };
    layout::sheets(data, drawable)
        .into_iter()
        .map(plan)
        .collect()
}
