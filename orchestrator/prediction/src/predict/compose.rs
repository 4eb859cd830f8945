//! Composes zones into images, images into files, and files into the whole checkpoint.

use super::{
    forecast::{Forecast, ForecastLine, Prediction},
    predictor::{Answered, Predictor},
    question::Question,
};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, FitError, ModelInfo, Tier,
    stored::{self, Aggregators},
};
use std::collections::{BTreeMap, BTreeSet};

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

/// A number made of others.
pub(super) fn sum(model: ModelInfo, estimate: Estimate, parts: &[&Prediction]) -> Prediction {
    let mut training: Vec<String> = Vec::new();
    for label in parts.iter().flat_map(|p| &p.training) {
        if !training.contains(label) {
            training.push(label.clone());
        }
    }
    // a sum is only as certain as its worst part
    let tier = parts
        .iter()
        .map(|p| p.model.tier)
        .max()
        .unwrap_or(model.tier)
        .max(model.tier);
    let reason = format!(
        "made of {}",
        parts
            .iter()
            .map(|p| p.model.id)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", ")
    );
    let own_half = parts
        .iter()
        .filter_map(|p| p.own_half)
        .map(|half| half * half)
        .sum::<f64>()
        .sqrt();
    let model = ModelInfo { tier, ..model };
    Prediction {
        estimate,
        model,
        reason,
        parameters: Vec::new(),
        training,
        candidates: Vec::new(),
        own_half: Some(own_half),
        spans_laws: parts.iter().any(|p| p.spans_laws),
    }
}

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

/// Sizes as they come together.
pub(super) struct Sizes {
    pub lines: Vec<ForecastLine>,
    pub files: Vec<stored::FileGroup>,
    pub warnings: Vec<String>,
}

impl Sizes {
    /// Adds a line and hands back its number.
    pub fn add(
        &mut self,
        quantity: Quantity,
        node_load: Option<u32>,
        answered: Answered,
    ) -> Result<Prediction, String> {
        self.warnings.extend(answered.warnings);
        let kept = match &answered.forecast {
            Forecast::Predicted(prediction) => Ok(prediction.clone()),
            Forecast::NoPrediction(reason) => Err(reason.clone()),
        };
        let refused = answered.refused;
        self.lines.push(ForecastLine {
            quantity,
            unit: quantity.unit(),
            node_load,
            forecast: answered.forecast,
            refused,
            observed: None,
        });
        kept
    }
}

impl Predictor<'_> {
    /// Zones, images, files and their sum.
    pub(super) fn sizes(&self, question: &Question) -> Sizes {
        let mut sizes = Sizes {
            lines: Vec::new(),
            files: Vec::new(),
            warnings: question
                .taken_as
                .iter()
                .cloned()
                .chain(self.about_software(question))
                .collect(),
        };
        let loads: BTreeSet<u32> = question.setting.mapping.node_loads().collect();
        let most = loads.last().copied().unwrap_or(1);
        let of_load = |load: u32| (loads.len() > 1).then_some(load);
        let data = sizes.add(
            Quantity::Dtapp,
            None,
            self.zone(Quantity::Dtapp, question, most),
        );
        let libraries = sizes.add(Quantity::Lb, None, self.zone(Quantity::Lb, question, most));
        let headers = self.headers(question, most, &mut sizes);
        let mut shared = Vec::new();
        for load in loads.iter().rev().copied() {
            shared.push((
                load,
                sizes.add(
                    Quantity::Shmem,
                    of_load(load),
                    self.zone(Quantity::Shmem, question, load),
                ),
            ));
        }
        let mut images = Vec::new();
        for (load, shmem) in &shared {
            let load = *load;
            let zones = [
                (Quantity::Dtapp, &data),
                (Quantity::Lb, &libraries),
                (Quantity::Shmem, shmem),
            ];
            let image = self
                .of_other_software(question, zones)
                .unwrap_or_else(|| image(zones, headers.as_ref()));
            let image = self.calibrated(Quantity::Image, question, load, image);
            images.push((load, sizes.add(Quantity::Image, of_load(load), image)));
        }
        let surplus = self.surplus(question, &mut sizes);
        let mut files: BTreeMap<u32, Prediction> = BTreeMap::new();
        let mut missing = None;
        for ((load, image), (_, shmem)) in images.into_iter().zip(&shared) {
            let zones = [
                (Quantity::Dtapp, Some(&data)),
                (Quantity::Lb, Some(&libraries)),
                (Quantity::Shmem, Some(shmem)),
                (Quantity::Headers, headers.as_ref()),
            ];
            let zones: Vec<_> = zones
                .into_iter()
                .filter_map(|(zone, part)| Some((zone, part?.as_ref().ok()?)))
                .collect();
            match sizes.add(
                Quantity::File,
                of_load(load),
                self.file(question, &image, &zones),
            ) {
                Ok(file) => drop(files.insert(load, file)),
                Err(reason) => missing = Some(reason),
            }
        }
        let of_ranks = match missing {
            Some(reason) => Answered::none(reason),
            None => all_ranks(question, &files, surplus.as_ref(), &mut sizes.files),
        };
        let of_ranks = sizes.add(Quantity::Ranks, None, of_ranks);
        let launchers = sizes.add(Quantity::Launchers, None, self.launchers(question));
        let aux = sizes.add(
            Quantity::Aux,
            None,
            self.auxiliary(question, launchers.as_ref().ok()),
        );
        let stored = match (of_ranks, launchers, aux) {
            (Ok(ranks), Ok(launchers), Ok(aux)) => {
                let parts = [&ranks, &launchers, &aux];
                Answered::of(sum(EVERYTHING, added(&parts), &parts))
            }
            (Err(reason), _, _) => Answered::none(reason),
            (_, Err(_), _) => Answered::none("the launchers' part is unknown"),
            (_, _, Err(_)) => Answered::none("the auxiliary files are unknown"),
        };
        // the trials are of files that were not compressed
        let plain = question.setting.compression == Compression::None;
        let stored = if plain {
            self.calibrated(Quantity::Stored, question, most, stored)
        } else {
            stored
        };
        let _ = sizes.add(Quantity::Stored, None, stored);
        sizes
    }

    /// The reason why zones are not summed, if published sizes would be mixed with observed ones, which are of different versions.
    fn of_other_software(
        &self,
        question: &Question,
        zones: [(Quantity, &Result<Prediction, String>); 3],
    ) -> Option<Answered> {
        if self.training.items().is_empty() {
            return None;
        }
        let published = |part: &Result<Prediction, String>| {
            part.as_ref().is_ok_and(|p| p.model.tier == Tier::Published)
        };
        let unseen: Vec<&str> = zones
            .iter()
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

    /// Headers of the areas; none at all where no run tells of any, as with the published zones, which hold them.
    fn headers(
        &self,
        question: &Question,
        load: u32,
        sizes: &mut Sizes,
    ) -> Option<Result<Prediction, String>> {
        let seen = self.count(|o| super::predictor::zone_value(o, Quantity::Headers).is_some());
        if seen == 0 {
            if !self.training.items().is_empty() {
                sizes.warnings.push("the observations have only the zones of images, so sizes do not include headers".into());
            }
            return None;
        }
        Some(sizes.add(
            Quantity::Headers,
            None,
            self.zone(Quantity::Headers, question, load),
        ))
    }

    /// The file of a rank: the image, or what gzip or pigz makes of its zones.
    fn file(
        &self,
        question: &Question,
        image: &Result<Prediction, String>,
        zones: &[(Quantity, &Prediction)],
    ) -> Answered {
        let image = match image {
            Ok(image) => image,
            Err(_) => return Answered::none("the image is unknown"),
        };
        if question.setting.compression == Compression::None {
            return Answered::of(sum(AS_IMAGE, image.estimate, &[image]));
        }
        self.compressed_file(question, image, zones)
    }
}

/// The sum of the zones, or which of them is missing.
fn image(
    zones: [(Quantity, &Result<Prediction, String>); 3],
    headers: Option<&Result<Prediction, String>>,
) -> Answered {
    let mut parts: Vec<&Prediction> = Vec::new();
    for (zone, part) in zones
        .into_iter()
        .chain(headers.map(|h| (Quantity::Headers, h)))
    {
        match part {
            Ok(part) => parts.push(part),
            Err(_) => return Answered::none(format!("{} is unknown", zone.title())),
        }
    }
    Answered::of(sum(IMAGE, added(&parts), &parts))
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
            let total = sum(ALL_RANKS, stored::total(&found), &parts);
            *groups = found;
            Answered::of(total)
        }
        Err(why) => Answered::none(why.to_string()),
    }
}
