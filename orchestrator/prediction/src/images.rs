//! The areas of predicted images, from which the writes of a checkpoint follow.

use crate::predict::{Forecasts, PredictError, Prediction};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_core::units::MIB;
use cvc_image::PlannedImage;
use cvc_model::stored::FileGroup;
use std::collections::BTreeMap;

/// Bytes of a page, and of the header of an area.
const PAGE: u64 = 4096;
const HINT: &str =
    "give a campaign with smaller runs; `cvc predict --at SETTING --detail` shows what is missing";
/// Maximum bytes of one area; larger data are divided.
const MAX_AREA: u64 = 1 << 30;

/// The images of all processes, by rank.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedImages {
    /// The images.
    pub images: Vec<PlannedImage>,
    /// Notes about the assumptions.
    pub notes: Vec<String>,
}

/// Returns the images of a predicted checkpoint.
///
/// The data of the program are one area, like the shared memory and the buffers of an aggregator; the libraries are the other areas, all but one of the
/// same size. The number of areas follows from the predicted headers.
///
/// # Errors
/// The reason why no size of a file is predicted.
pub fn planned_images(forecasts: &Forecasts) -> Result<PlannedImages, PredictError> {
    let unknown = |reason: &str| PredictError::Model {
        message: format!(
            "the images of {} are not predicted: {reason}",
            forecasts.label
        ),
        hint: HINT.to_owned(),
    };
    if forecasts.files.is_empty() {
        let reasons = forecasts.of(Quantity::Ranks).chain(&forecasts.lines);
        let reason = reasons
            .filter_map(|line| line.forecast.estimate().err())
            .next();
        return Err(unknown(reason.unwrap_or("no size of a file is predicted")));
    }
    let setting = &forecasts.question.setting;
    let mut notes = Vec::new();
    let is_compressed = setting.compression != Compression::None;
    if setting.compression == Compression::Pigz {
        notes.push("the writes of pigz are taken as those of gzip".to_owned());
    }
    if !is_compressed {
        notes.push(
            "the program's data are taken as one area, and libraries as many of equal size"
                .to_owned(),
        );
        let without = [
            Quantity::Dtapp,
            Quantity::Lb,
            Quantity::Shmem,
            Quantity::Headers,
        ];
        let without = without
            .into_iter()
            .filter(|zone| forecasts.first(*zone).is_none());
        let without: Vec<&str> = without.map(Quantity::title).collect();
        if !without.is_empty() {
            notes.push(format!(
                "not predicted, so not written in separate areas: {}",
                without.join(", ")
            ));
        }
    }
    let image = |group: &FileGroup| match is_compressed {
        true => PlannedImage::Gzip(bytes(group.size.value)),
        false => PlannedImage::Plain(areas(forecasts, group)),
    };
    let mut left: BTreeMap<(u32, bool), (u32, PlannedImage)> = forecasts
        .files
        .iter()
        .map(|group| {
            (
                (group.node_load, group.aggregator),
                (group.count, image(group)),
            )
        })
        .collect();
    let mut images = Vec::new();
    let loads: Vec<u32> = setting.mapping.node_loads().collect();
    for (node, load) in loads.iter().copied().enumerate() {
        let nodes = loads[node..].iter().filter(|other| **other == load).count() as u32;
        // the nodes of the same size share the aggregators
        let of_node = left
            .get(&(load, true))
            .map_or(0, |(count, _)| count.div_ceil(nodes));
        for rank in 0..load {
            let wanted = left.get_mut(&(load, rank < of_node));
            let (count, image) = wanted
                .ok_or_else(|| unknown("the predicted files are not those of the mapping"))?;
            *count = count.saturating_sub(1);
            images.push(image.clone());
        }
    }
    Ok(PlannedImages { images, notes })
}

/// Returns whole pages.
fn bytes(mib: f64) -> u64 {
    ((mib.max(0.0) * MIB / PAGE as f64).round() as u64) * PAGE
}

/// Returns the bytes of data of each area of a file.
fn areas(forecasts: &Forecasts, group: &FileGroup) -> Vec<u64> {
    let size = |prediction: Option<&Prediction>| prediction.map_or(0, |p| bytes(p.estimate.value));
    let of_load = |zone: Quantity| {
        let line = forecasts
            .of(zone)
            .find(|line| line.node_load == Some(group.node_load));
        line.map_or_else(
            || size(forecasts.first(zone)),
            |line| size(line.forecast.prediction()),
        )
    };
    let count = (of_load(Quantity::Headers) / PAGE).max(1);
    let all = bytes(group.size.value).saturating_sub(count * PAGE);
    let libraries = of_load(Quantity::Lb).min(all);
    let shared = of_load(Quantity::Shmem).min(all - libraries);
    let surplus = size(
        forecasts
            .first(Quantity::Surplus)
            .filter(|_| group.aggregator),
    );
    let surplus = surplus.min(all - libraries - shared);
    let large = [all - libraries - shared - surplus, shared, surplus];
    let mut areas = Vec::new();
    for bytes in large {
        let whole = usize::try_from(bytes / MAX_AREA).unwrap_or(usize::MAX);
        areas.extend(std::iter::repeat_n(MAX_AREA, whole));
        areas.extend(Some(bytes % MAX_AREA).filter(|rest| *rest > 0));
    }
    let pages = libraries / PAGE;
    let small = count
        .saturating_sub(areas.len() as u64)
        .clamp(1, pages.max(1));
    let each = pages / small;
    areas.extend((0..small).map(|i| (each + if i == 0 { pages % small } else { 0 }) * PAGE));
    // headers of areas without data
    let empty = count.saturating_sub(areas.len() as u64);
    areas.extend((0..empty).map(|_| 0));
    areas
}
