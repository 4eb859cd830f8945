//! Adds zones up to images, images to files, and files to the whole checkpoint.

use crate::predict::{
    forecast::{Answered, Forecast, Forecasts, Prediction},
    predictor::Predictor,
    question::Question,
};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, FitError, ModelInfo, Tier,
    stored::{self, Aggregators},
};
use std::collections::{BTreeMap, BTreeSet};

/// A zone of an image, with its forecast.
pub(super) type ImagePart = (Quantity, Forecast);

const IMAGE: ModelInfo = ModelInfo {
    id: "sum-of-zones",
    title: "sum of the zones",
    formula: "dtapp + lb + shmem + headers",
    source: "DMTCP's image format; errors taken as independent",
    tier: Tier::NoRun,
    parameters: 0,
};

const AS_IMAGE: ModelInfo = ModelInfo {
    id: "file-is-image",
    title: "the file is the image",
    formula: "image",
    source: "DMTCP's image format",
    tier: Tier::NoRun,
    parameters: 0,
};

const ALL_RANKS: ModelInfo = ModelInfo {
    id: "sum-of-files",
    title: "sum of the files of the ranks",
    formula: "Σ count · size",
    source: "thesis, Algorithm 1; files that hold the same zones err together",
    tier: Tier::NoRun,
    parameters: 0,
};

const EVERYTHING: ModelInfo = ModelInfo {
    id: "sum-of-all-files",
    title: "ranks, launchers and auxiliary files",
    formula: "ranks + launchers + aux",
    source: "what DMTCP writes",
    tier: Tier::NoRun,
    parameters: 0,
};

/// Returns the sum of parts with independent errors. If several laws fit a part, its interval is not treated as a random error: the ends are as
/// likely as the middle, so its width is added to the errors of the other parts.
fn added(parts: &[&Prediction]) -> Estimate {
    let of = |spans_laws: bool| parts.iter().filter(move |p| p.spans_laws == spans_laws);
    let independent = of(false)
        .map(|p| p.estimate)
        .fold(Estimate::exact(0.0), Estimate::plus);
    of(true)
        .map(|p| p.estimate)
        .fold(independent, Estimate::plus_together)
}

impl Predictor<'_> {
    /// Adds the lines of zones, images, files and their sum.
    pub(super) fn sizes(&self, question: &Question, to: &mut Forecasts) {
        to.warnings.extend(question.taken_as.clone());
        to.warnings.extend(self.about_software(question));
        let loads: BTreeSet<u32> = question.setting.mapping.node_loads().collect();
        let most = loads.last().copied().unwrap_or(1);
        let of_load = |load: u32| (loads.len() > 1).then_some(load);
        let zone = |to: &mut Forecasts, zone: Quantity, of: Option<u32>, load: u32| {
            (zone, to.add(zone, of, self.zone(zone, question, load)))
        };
        let mut same = vec![
            zone(to, Quantity::Dtapp, None, most),
            zone(to, Quantity::Lb, None, most),
        ];
        // if no run has headers there is no line for them; the published zones include them
        if self.count(|o| o.fitted(Quantity::Headers).is_some()) > 0 {
            same.push(zone(to, Quantity::Headers, None, most));
        } else if !self.training.items().is_empty() {
            to.warnings.push(
                "the observations have only zones of images, so sizes exclude headers".into(),
            );
        }
        let mut zones: Vec<(u32, Vec<ImagePart>)> = Vec::new();
        for load in loads.iter().rev().copied() {
            let mut all = same.clone();
            all.insert(2, zone(to, Quantity::Shmem, of_load(load), load));
            zones.push((load, all));
        }
        let mut images = Vec::new();
        for (load, zones) in &zones {
            let image = self
                .of_other_software(question, zones)
                .unwrap_or_else(|| image(zones));
            let image = self.calibrated(Quantity::Image, question, *load, image);
            images.push(to.add(Quantity::Image, of_load(*load), image));
        }
        let surplus = self.surplus(question);
        let surplus = surplus.map(|of| to.add(Quantity::Surplus, None, of));
        let surplus = surplus.as_ref().and_then(Forecast::prediction);
        let mut files: BTreeMap<u32, Prediction> = BTreeMap::new();
        let mut missing = None;
        for (image, (load, zones)) in images.iter().zip(&zones) {
            let file = self.file(question, image, zones);
            match to.add(Quantity::File, of_load(*load), file) {
                Forecast::Predicted(file) => drop(files.insert(*load, file)),
                Forecast::NoPrediction(reason) => missing = Some(reason),
            }
        }
        let of_ranks = match missing {
            Some(reason) => Answered::none(reason),
            None => all_ranks(question, &files, surplus, &mut to.files),
        };
        let ranks = to.add(Quantity::Ranks, None, of_ranks);
        let launchers = to.add(Quantity::Launchers, None, self.launchers(question));
        let aux = self.auxiliary(question, launchers.prediction());
        let aux = to.add(Quantity::Aux, None, aux);
        let beside = [
            (launchers.prediction(), Quantity::Launchers),
            (aux.prediction(), Quantity::Aux),
        ];
        let unknown = beside.iter().filter(|(part, _)| part.is_none());
        let unknown: Vec<&str> = unknown.map(|(_, of)| of.title()).collect();
        let stored = match &ranks {
            Forecast::NoPrediction(reason) => Answered::none(reason),
            Forecast::Predicted(ranks) => {
                let known = beside.iter().filter_map(|(part, _)| *part);
                let parts: Vec<&Prediction> = std::iter::once(ranks).chain(known).collect();
                Answered::of(Prediction::made_of(EVERYTHING, added(&parts), &parts))
            }
        };
        if ranks.prediction().is_some() && !unknown.is_empty() {
            to.warnings.push(format!(
                "the total excludes {}, which are unknown",
                unknown.join(" and ")
            ));
        }
        // the trials include all files, and none of them is compressed
        let stored = if question.setting.compression == Compression::None && unknown.is_empty() {
            self.calibrated(Quantity::Stored, question, most, stored)
        } else {
            stored
        };
        to.add(Quantity::Stored, None, stored);
    }

    /// Returns an explanation instead of a sum of zones if published and observed sizes, which are of different versions, would be mixed.
    fn of_other_software(&self, question: &Question, zones: &[ImagePart]) -> Option<Answered> {
        if self.training.items().is_empty() {
            return None;
        }
        let published = |part: &Forecast| {
            part.prediction()
                .is_some_and(|p| p.model.tier == Tier::Published)
        };
        let unseen: Vec<&str> = zones
            .iter()
            .filter(|(zone, _)| *zone != Quantity::Headers)
            .filter(|(zone, part)| published(part) && !self.has_runs_of(*zone, question))
            .map(|(zone, _)| zone.title())
            .collect();
        (!unseen.is_empty()).then(|| {
            Answered::none(format!(
                "{} of today's software were not observed with {}; published sizes are of DMTCP 2 and are not added to observed ones",
                unseen.join(" and "),
                question.setting.mpi_name
            ))
        })
    }

    /// Returns the file of a rank: the image, or the compressed image.
    fn file(&self, question: &Question, image: &Forecast, zones: &[ImagePart]) -> Answered {
        let Some(image) = image.prediction() else {
            return Answered::none("the image is unknown");
        };
        if question.setting.compression == Compression::None {
            return Answered::of(Prediction::made_of(AS_IMAGE, image.estimate, &[image]));
        }
        self.compressed_file(question, image, zones)
    }
}

/// Returns the sum of the zones, or the name of the missing zone.
fn image(zones: &[ImagePart]) -> Answered {
    let mut parts: Vec<&Prediction> = Vec::new();
    for (zone, part) in zones {
        match part.prediction() {
            Some(part) => parts.push(part),
            None => return Answered::none(format!("{} is unknown", zone.title())),
        }
    }
    Answered::of(Prediction::made_of(IMAGE, added(&parts), &parts))
}

/// Returns the files of all ranks, with equal files in groups, and their sum.
fn all_ranks(
    question: &Question,
    files: &BTreeMap<u32, Prediction>,
    surplus: Option<&Prediction>,
    groups: &mut Vec<stored::FileGroup>,
) -> Answered {
    let aggregators = match (surplus, question.setting.aggregators) {
        (None, _) => Aggregators::None,
        (Some(_), None) => Aggregators::OnePerNode,
        (Some(_), Some(number)) => Aggregators::Number(number),
    };
    let plain = |load: u32| {
        let size = files.get(&load).map(|p| p.estimate);
        size.ok_or_else(|| {
            FitError::OutOfDomain(format!("no file size on nodes with {load} processes"))
        })
    };
    match stored::files(
        &question.setting.mapping,
        aggregators,
        surplus.map_or(Estimate::exact(0.0), |s| s.estimate),
        plain,
    ) {
        Ok(found) => {
            let parts: Vec<&Prediction> = files.values().chain(surplus).collect();
            let laws = |group: &stored::FileGroup| {
                let file = files.get(&group.node_load);
                file.map_or(0.0, |file| f64::from(group.count) * file.laws)
            };
            let total = Prediction {
                laws: found.iter().map(laws).sum(),
                ..Prediction::made_of(ALL_RANKS, stored::total(&found), &parts)
            };
            *groups = found;
            Answered::of(total)
        }
        Err(why) => Answered::none(why.to_string()),
    }
}
