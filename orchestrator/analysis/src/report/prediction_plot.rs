//! Plots of predicted and measured values at held-out points.

use super::layout::{self, PlannedPlot};
use crate::results::{data::Data, rows::PointRow};
use cvc_core::ids::PointId;
use cvc_core::point::FactorId;
use cvc_core::quantity::{MeasuredAs, Quantity};
use cvc_index::error::AnalysisError;
use cvc_model::{
    Estimate,
    stats::{Interval, Summary},
};
use cvc_prediction::holdout::HoldoutResult;
use cvc_prediction::predict::zone_rule;
use cvc_show::{
    Plot,
    plot::{self, Categories, Marks, Panel, Whisker},
};
use indexmap::IndexMap;
use std::collections::HashMap;

/// Quantities that are always drawn if predicted. Other quantities are drawn only if they have a bound.
const DRAWN: [Quantity; 3] = [Quantity::Image, Quantity::Stored, Quantity::Latency];

/// Index of each point, by its identifier.
pub(super) type PlotPlaces = HashMap<PointId, usize>;

/// Values of a panel along the axis: measured at training points, measured at held-out points, predicted.
type Series = [Vec<Option<Whisker>>; 3];

/// Plans one plot for each program and quantity, with a panel for each combination of the factors other than program and mapping.
pub(super) fn plots<'a>(
    data: &'a Data,
    outcome: &'a HoldoutResult,
    places: &'a PlotPlaces,
) -> Vec<PlannedPlot<'a>> {
    let drawn = |q: &Quantity| {
        let wanted = DRAWN.contains(q) || outcome.split.max_error_pct.contains_key(q);
        wanted && outcome.of(*q).any(|row| row.answer.is_ok())
    };
    let mut apps: Vec<&str> = outcome
        .judged
        .iter()
        .filter_map(|row| outcome.held_out.get(&row.point))
        .map(|f| f.app.as_str())
        .collect();
    apps.sort_unstable();
    apps.dedup();
    let mut planned: Vec<PlannedPlot<'a>> = Vec::new();
    for app in apps {
        for q in Quantity::ALL.into_iter().filter(drawn) {
            let title = format!("Predicted and measured, {}: {app}", q.title());
            planned.push(PlannedPlot::new(title, move |title| {
                Sheet::new(data, outcome, places, app, q).draw(title)
            }));
        }
    }
    planned
}

/// Returns the summary of a quantity at a point, in the unit of predictions.
pub(super) fn scaled(data: &Data, at: usize, q: Quantity) -> Option<Summary> {
    let rule = zone_rule(&data.points, |point, name| {
        point.summaries.contains_key(name)
    });
    let MeasuredAs { names, factor, .. } = q.measured_as()?;
    let s = data.points[at].summaries.get(names[rule])?;
    let scaled = |i: Interval| Interval {
        low: i.low * factor,
        high: i.high * factor,
    };
    let (interval, median_interval) = (s.interval.map(scaled), s.median_interval.map(scaled));
    let [mean, median, min, max] = [s.mean, s.median, s.min, s.max].map(|v| v * factor);
    Some(Summary {
        mean,
        median,
        sd: s.sd.map(|sd| sd * factor),
        min,
        max,
        interval,
        median_interval,
        ..s.clone()
    })
}

/// The mappings of some points, ordered by their number of processes.
struct Axis<'a>(Vec<(u32, u32, &'a str)>);

impl<'a> Axis<'a> {
    fn of(points: impl Iterator<Item = &'a PointRow>) -> Self {
        let mut levels: Vec<(u32, u32, &str)> = points
            .map(|p| (p.processes, p.nodes, p.level(FactorId::Mapping)))
            .collect();
        levels.sort_unstable();
        levels.dedup();
        Self(levels)
    }

    fn position(&self, mapping: &str) -> Option<usize> {
        self.0.iter().position(|level| level.2 == mapping)
    }

    fn categories(&self) -> Categories {
        let one_node = self.0.iter().all(|level| level.1 == 1);
        let title = if one_node {
            "processes, on one node"
        } else {
            "mapping (nodes × processes on each)"
        };
        let names = self
            .0
            .iter()
            .map(|level| {
                if one_node {
                    level.0.to_string()
                } else {
                    level.2.to_owned()
                }
            })
            .collect();
        Categories {
            title: title.to_owned(),
            names,
        }
    }
}

/// A plot of one quantity of a program.
struct Sheet<'a> {
    data: &'a Data,
    app: &'a str,
    quantity: Quantity,
    /// Points that the models were fitted on.
    training: Vec<usize>,
    /// Points that the models were not fitted on.
    held_out: Vec<usize>,
    predicted: HashMap<&'a PointId, Estimate>,
}

impl<'a> Sheet<'a> {
    fn new(
        data: &'a Data,
        outcome: &'a HoldoutResult,
        places: &PlotPlaces,
        app: &'a str,
        quantity: Quantity,
    ) -> Self {
        let of_app = |ids: &[PointId]| -> Vec<usize> {
            ids.iter()
                .filter_map(|id| places.get(id).copied())
                .filter(|p| data.points[*p].level(FactorId::App) == app)
                .collect()
        };
        let predicted = outcome
            .of(quantity)
            .filter_map(|row| Some((&row.point, *row.answer.as_ref().ok()?)))
            .collect();
        Self {
            data,
            app,
            quantity,
            training: of_app(&outcome.split.train),
            held_out: of_app(&outcome.split.held_out),
            predicted,
        }
    }

    /// Returns the values of each panel, by the panel's title and scale.
    fn series(&self, axis: &Axis<'_>) -> IndexMap<(String, usize), Series> {
        let data = self.data;
        let others: Vec<&str> = data
            .varying()
            .into_iter()
            .filter(|f| !["app", "mapping", "processes"].contains(f))
            .collect();
        // MPI libraries share memory in different ways, so each library has its own scale.
        let mut libraries: Vec<&str> = Vec::new();
        let mut panels: IndexMap<(String, usize), Series> = IndexMap::new();
        for (series, &p) in self
            .training
            .iter()
            .map(|p| (0, p))
            .chain(self.held_out.iter().map(|p| (1, p)))
        {
            let name = if others.is_empty() {
                String::new()
            } else {
                data.label(p, &others)
            };
            let library = data.points[p].level(FactorId::Mpi);
            let scale = libraries
                .iter()
                .position(|l| *l == library)
                .unwrap_or_else(|| {
                    libraries.push(library);
                    libraries.len() - 1
                });
            let rows = panels
                .entry((name, scale))
                .or_insert_with(|| [(); 3].map(|()| vec![None; axis.0.len()]));
            let Some(at) = axis.position(data.points[p].level(FactorId::Mapping)) else {
                continue;
            };
            rows[series][at] = scaled(data, p, self.quantity).map(|s| layout::whisker(&s, 1.0));
            if let Some(e) = self.predicted.get(&data.points[p].id) {
                rows[2][at] = Some(
                    e.interval
                        .map_or((e.value, e.value, e.value), |i| (e.value, i.low, i.high)),
                );
            }
        }
        // Remove panels without measurements.
        panels.retain(|_, [training, held_out, _]| {
            training.iter().chain(held_out.iter()).any(Option::is_some)
        });
        panels
    }

    fn draw(&self, title: String) -> Result<Plot, AnalysisError> {
        let axis = Axis::of(
            self.training
                .iter()
                .chain(&self.held_out)
                .map(|p| &self.data.points[*p]),
        );
        let x = axis.categories();
        let mut caption =
            "Means of the repeats at training and held-out points, and predictions of the held-out ones with their 95 % prediction intervals."
                .to_owned();
        let panels: Vec<Panel> = self
            .series(&axis)
            .into_iter()
            .map(|((title, scale), [training, held_out, predicted])| Panel {
                title,
                x: x.clone(),
                scale,
                marks: Marks::Judged {
                    training,
                    held_out,
                    predicted,
                },
            })
            .collect();
        let panels = layout::cut(panels, &mut caption);
        let id = format!(
            "predicted-{}-{}",
            cvc_show::slug(self.quantity.short()),
            cvc_show::slug(self.app)
        );
        let y = format!("{}, {}", self.quantity.title(), self.quantity.unit());
        let legend = [
            "measured, training point",
            "measured, held out",
            "predicted",
        ]
        .map(str::to_owned);
        let drawing = plot::panels(&id, &y, &legend, &panels)?;
        Ok(drawing.plot(id, title, caption))
    }
}
