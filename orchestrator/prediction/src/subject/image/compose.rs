//! Composes zones into images, images into files, and files into the whole checkpoint.

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

/// A zone of an image, and what is said of it.
pub(super) type Part = (Quantity, Forecast);

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

/// The sum of parts with independent errors. Which of several laws holds is no error: the ends of what they span are as likely as its middle, and
/// the errors of the other parts come on top.
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
    /// Adds zones, images, files and their sum.
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
        // none at all where no run shows any, as with the published zones, which hold them
        if self.count(|o| o.fitted(Quantity::Headers).is_some()) > 0 {
            same.push(zone(to, Quantity::Headers, None, most));
        } else if !self.training.items().is_empty() {
            to.warnings.push(
                "the observations have only the zones of images, so sizes do not include headers"
                    .into(),
            );
        }
        let mut zones: Vec<(u32, Vec<Part>)> = Vec::new();
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
        let stored = match (&ranks, launchers.prediction(), aux.prediction()) {
            (Forecast::NoPrediction(reason), _, _) => Answered::none(reason),
            (Forecast::Predicted(_), None, _) => Answered::none("the launchers' part is unknown"),
            (Forecast::Predicted(_), _, None) => Answered::none("the auxiliary files are unknown"),
            (Forecast::Predicted(ranks), Some(launchers), Some(aux)) => {
                let parts = [ranks, launchers, aux];
                Answered::of(Prediction::made_of(EVERYTHING, added(&parts), &parts))
            }
        };
        // the trials are of files that were not compressed
        let stored = if question.setting.compression == Compression::None {
            self.calibrated(Quantity::Stored, question, most, stored)
        } else {
            stored
        };
        to.add(Quantity::Stored, None, stored);
    }

    /// The reason why zones are not summed, if published sizes would be mixed with observed ones, which are of different versions.
    fn of_other_software(&self, question: &Question, zones: &[Part]) -> Option<Answered> {
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
            .filter(|(zone, part)| published(part) && !self.tells_of(*zone, question))
            .map(|(zone, _)| zone.title())
            .collect();
        (!unseen.is_empty()).then(|| {
            Answered::none(format!(
                "{} of today's software were not observed with {}; published sizes are of DMTCP 2 and are not added to what was observed",
                unseen.join(" and "),
                question.setting.mpi_name
            ))
        })
    }

    /// The file of a rank: the image, or what a program that compresses makes of its zones.
    fn file(&self, question: &Question, image: &Forecast, zones: &[Part]) -> Answered {
        let Some(image) = image.prediction() else {
            return Answered::none("the image is unknown");
        };
        if question.setting.compression == Compression::None {
            return Answered::of(Prediction::made_of(AS_IMAGE, image.estimate, &[image]));
        }
        self.compressed_file(question, image, zones)
    }
}

/// The sum of the zones, or which of them is missing.
fn image(zones: &[Part]) -> Answered {
    let mut parts: Vec<&Prediction> = Vec::new();
    for (zone, part) in zones {
        match part.prediction() {
            Some(part) => parts.push(part),
            None => return Answered::none(format!("{} is unknown", zone.title())),
        }
    }
    Answered::of(Prediction::made_of(IMAGE, added(&parts), &parts))
}

/// The files of all ranks, alike ones together, and their sum.
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
            let total = Prediction::made_of(ALL_RANKS, stored::total(&found), &parts);
            *groups = found;
            Answered::of(total)
        }
        Err(why) => Answered::none(why.to_string()),
    }
}
