//! Reads observations from a campaign: means over the successful counted runs of each point.

use super::{
    environment::{Environment, ZoneRules},
    error::PredictError,
    labels::add_differing,
    observation::Observation,
    setting::{RunSetting, mpi_kind_of_fact, mpi_kind_of_name},
};
use cvc_core::point::Point;
use cvc_core::quantity::{At, Quantity};
use cvc_core::record::names;
use cvc_core::units::MIB;
use cvc_index::error::AnalysisError;
use cvc_index::{ImageSize, Index, IndexedPoint, PointSummary, factors};
use cvc_model::stats;
use std::collections::{BTreeMap, HashMap};

/// Returns the index into a quantity's two names of a zone: 0 for zones by owner, 1 for zones by the structural rule. The two rules give different
/// quantities, so all points of a campaign use the same one. `has` returns whether a point has a quantity of this name.
pub fn zone_rule<P>(points: &[P], has: impl Fn(&P, &str) -> bool) -> usize {
    let by_owner = |point: &P| {
        let measured = Quantity::ALL.into_iter().filter_map(Quantity::measured_as);
        measured
            .map(|of| of.names)
            .all(|[owner, structural]| has(point, owner) || !has(point, structural))
    };
    usize::from(!points.iter().all(by_owner))
}

/// Returns the observations of a campaign in the order of the plan, one for each point with a successful counted run.
///
/// # Errors
/// The index cannot be read, or the kind of a point's MPI library is unknown.
pub fn from_index(index: &Index, origin: &str) -> Result<Vec<Observation>, PredictError> {
    let (means, mpi_facts) = (means(index)?, mpi_facts(index)?);
    let (dmtcp, kernels) = (
        facts_by_point(index, "dmtcp")?,
        facts_by_point(index, "node.kernel")?,
    );
    let cores = facts_by_point(index, "node.cores")?;
    let rule = zone_rule(&means.values().collect::<Vec<_>>(), |found, name| {
        found.contains_key(name)
    });
    let is_by_owner = rule == 0
        && means
            .values()
            .any(|found| found.contains_key("zone_bytes_DTAPP_owner"));
    let by = if is_by_owner {
        ZoneRules::Owner
    } else {
        ZoneRules::Structural
    };
    let (mut observations, mut others) = (Vec::new(), Vec::new());
    for IndexedPoint { id, point } in index.points()? {
        let id = id.as_str().to_owned();
        let Some(found) = means.get(&id).filter(|m| !m.is_empty()) else {
            continue;
        };
        let baseline = !point.checkpointer.takes_checkpoints();
        let beside = factors_outside_setting(&point);
        let setting = setting(&point, mpi_facts.get(&id), origin)?;
        let measured = |quantity: Quantity| {
            let of = quantity.measured_as()?;
            // costs of a checkpoint exist only if one was taken; times of the program alone only if none was taken
            let is_here = match of.at {
                At::Any => true,
                At::Checkpoints => !baseline,
                At::Baselines => baseline,
            };
            let mean = found.get(of.names[rule]).filter(|_| is_here)?;
            Some((quantity, mean * of.factor))
        };
        let mut quantities: BTreeMap<Quantity, f64> =
            Quantity::ALL.into_iter().filter_map(measured).collect();
        // a checkpoint without files of a kind has 0 MiB of them
        if quantities.contains_key(&Quantity::Stored) {
            for kind in [Quantity::Launchers, Quantity::Aux] {
                quantities.entry(kind).or_insert(0.0);
            }
        }
        if setting.load().is_some()
            && let Some(surplus) = found.get(SURPLUS)
        {
            quantities.insert(Quantity::Surplus, surplus / MIB);
        }
        let zone_ratios = if is_by_owner {
            zone_ratios(found, &quantities)
        } else {
            BTreeMap::new()
        };
        let of_point =
            |facts: &HashMap<String, Vec<String>>| facts.get(&id).cloned().unwrap_or_default();
        let environment = Environment::of_facts(&of_point(&dmtcp), &of_point(&kernels))
            .map(|of| Environment { zones: by, ..of });
        let cores = same_number(&of_point(&cores));
        observations.push(Observation {
            label: setting.label(),
            id,
            origin: origin.to_owned(),
            setting,
            environment,
            cores,
            quantities,
            zone_ratios,
        });
        others.push(beside);
    }
    add_differing(&mut observations, &others);
    Ok(observations)
}

/// Returns the share of each zone in a gzip-compressed file, divided by its share in the image. Stacks and reserved memory count as shared memory,
/// as in the images.
fn zone_ratios(
    found: &HashMap<String, f64>,
    zones: &BTreeMap<Quantity, f64>,
) -> BTreeMap<Quantity, f64> {
    let in_file = |zone: &str| {
        found
            .get(&format!("{}_{zone}_owner", names::ZONE_FILE_BYTES))
            .map(|bytes| bytes / MIB)
    };
    let of = [
        (Quantity::Dtapp, in_file("DTAPP")),
        (Quantity::Lb, in_file("LB")),
        (
            Quantity::Shmem,
            in_file("SHMEM").map(|mib| mib + in_file("REST").unwrap_or(0.0)),
        ),
        (Quantity::Headers, in_file("HEADERS")),
    ];
    let ratio = |zone, mib: f64| Some((zone, mib / zones.get(&zone).filter(|of| **of > 0.0)?));
    of.into_iter()
        .filter_map(|(zone, mib)| ratio(zone, mib?))
        .collect()
}

/// Returns those factors of a point that a [`RunSetting`] does not contain, with their values.
pub(super) fn factors_outside_setting(point: &Point) -> Vec<(String, String)> {
    let own = ["site", "checkpointer", "storage"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), point.factor(name)?)));
    own.chain(
        point
            .user
            .iter()
            .map(|(name, value)| (name.clone(), factors::user_text(value))),
    )
    .collect()
}

/// Returns the setting of a point. `mpi_fact` is the MPI library recorded by its first run.
fn setting(
    point: &Point,
    mpi_fact: Option<&String>,
    origin: &str,
) -> Result<RunSetting, PredictError> {
    let mpi = mpi_fact
        .and_then(|fact| mpi_kind_of_fact(fact))
        .or_else(|| mpi_kind_of_name(&point.mpi));
    let mpi = mpi.ok_or_else(|| PredictError::Model {
        message: format!("unknown kind of the MPI library `{}` in {origin}", point.mpi),
        hint: "its runs have no fact `mpi`; give the library a name with mpich-ch3, mpich or openmpi in it: in an imported table, add a column `mpi`".into(),
    })?;
    Ok(RunSetting::of_point(point, mpi))
}

/// Name under which [`means`] returns the difference between the largest and the median image, bytes.
const SURPLUS: &str = "largest minus median image";

/// Returns the means of all quantities by point.
fn means(index: &Index) -> Result<HashMap<String, HashMap<String, f64>>, AnalysisError> {
    let mut means: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for PointSummary {
        point,
        quantity,
        summary,
    } in index.summaries()?
    {
        means
            .entry(point)
            .or_default()
            .insert(quantity, summary.mean);
    }
    for (point, surplus) in surpluses(index)? {
        means
            .entry(point)
            .or_default()
            .insert(SURPLUS.to_owned(), surplus);
    }
    Ok(means)
}

/// Returns the MPI library recorded by the first successful run of each point.
fn mpi_facts(index: &Index) -> Result<HashMap<String, String>, AnalysisError> {
    let mut first = HashMap::new();
    for fact in index.fact("mpi")? {
        first.entry(fact.point).or_insert(fact.value);
    }
    Ok(first)
}

/// Returns the values that the successful runs of each point recorded under a key.
fn facts_by_point(index: &Index, key: &str) -> Result<HashMap<String, Vec<String>>, AnalysisError> {
    let mut of_points: HashMap<String, Vec<String>> = HashMap::new();
    for fact in index.fact(key)? {
        of_points.entry(fact.point).or_default().push(fact.value);
    }
    Ok(of_points)
}

/// Returns the number that all facts contain; `None` if they differ, or contain none.
fn same_number(facts: &[String]) -> Option<u32> {
    let first = facts.first()?;
    first
        .parse()
        .ok()
        .filter(|cores| *cores > 0 && facts.iter().all(|fact| fact == first))
}

/// Returns the difference between the largest and the median image for each point, as the mean over its checkpoints. If it is many MiB, some ranks
/// are I/O aggregators.
fn surpluses(index: &Index) -> Result<HashMap<String, f64>, AnalysisError> {
    let mut differences: HashMap<String, Vec<f64>> = HashMap::new();
    let mut add = |point: String, mut sizes: Vec<f64>| {
        // with one or two images there is no typical image to compare with
        sizes.sort_by(f64::total_cmp);
        if let (Some(largest), Some(median), true) =
            (sizes.last(), stats::quantile(&sizes, 0.5), sizes.len() >= 3)
        {
            differences.entry(point).or_default().push(largest - median);
        }
    };
    // the images of one checkpoint follow each other
    let mut of: Option<(ImageSize, Vec<f64>)> = None;
    index.each_image_size(names::IMAGE_BYTES, |size| match &mut of {
        Some((first, sizes))
            if (&first.point, &first.run, &first.ckpt) == (&size.point, &size.run, &size.ckpt) =>
        {
            sizes.push(size.bytes)
        }
        _ => {
            let bytes = vec![size.bytes];
            if let Some((first, sizes)) = of.replace((size, bytes)) {
                add(first.point, sizes);
            }
        }
    })?;
    if let Some((first, sizes)) = of {
        add(first.point, sizes);
    }
    Ok(differences
        .into_iter()
        .map(|(point, d)| (point, d.iter().sum::<f64>() / d.len() as f64))
        .collect())
}
