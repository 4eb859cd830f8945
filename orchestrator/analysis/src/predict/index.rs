//! Observations from a campaign: the means of each point's counted runs that succeeded.

use super::{
    error::PredictError,
    observation::{Observation, even_load, mpi_kind_of_fact, mpi_kind_of_name},
};
use crate::index::Index;
use cvc_core::quantity::Quantity;
use cvc_core::{
    mapping::Mapping,
    point::Compression,
    record::names,
    store::StoreError,
    units::{ByteSize, MIB},
};
use cvc_model::stats;
use rusqlite::Row;
use std::collections::{BTreeMap, HashMap};

/// Bytes of the header of an area in an image.
const AREA_HEADER_BYTES: f64 = 4096.0;

/// What of the index's quantities is taken as it is, with the factor to the unit here. Zones are those of the structural rule.
pub(crate) const TAKEN: [(&str, Quantity, f64); 13] = [
    ("zone_bytes_DTAPP_structural", Quantity::Dtapp, 1.0 / MIB),
    ("zone_bytes_LB_structural", Quantity::Lb, 1.0 / MIB),
    ("zone_bytes_SHMEM_structural", Quantity::Shmem, 1.0 / MIB),
    ("area_headers_per_rank", Quantity::Headers, AREA_HEADER_BYTES / MIB),
    ("image_bytes_per_rank", Quantity::Image, 1.0 / MIB),
    ("file_bytes_per_rank", Quantity::File, 1.0 / MIB),
    ("ckpt_bytes_rank", Quantity::Ranks, 1.0 / MIB),
    ("ckpt_bytes_launcher", Quantity::Launchers, 1.0 / MIB),
    ("ckpt_bytes_aux", Quantity::Aux, 1.0 / MIB),
    ("ckpt_bytes_application", Quantity::Application, 1.0 / MIB),
    ("ckpt_files_rank", Quantity::RankFiles, 1.0),
    ("ckpt_files_launcher", Quantity::LauncherFiles, 1.0),
    ("ckpt_files_aux", Quantity::AuxFiles, 1.0),
];

/// The observations of a campaign, one for each point with a counted run that succeeded, in the order of the plan.
///
/// # Errors
/// An index that cannot be read, or a point of which nobody knows what kind of MPI library it ran with.
pub fn from_index(index: &Index, origin: &str) -> Result<Vec<Observation>, PredictError> {
    let (points, means) = read(index).map_err(index.failed()).map_err(PredictError::Store)?;
    let mut observations = Vec::new();
    for point in points {
        let Some(found) = means.get(&point.id).filter(|m| !m.is_empty()) else { continue };
        let mapping: Mapping = point.mapping.parse().map_err(|detail: String| damaged(origin, detail))?;
        let mpi = point.fact.as_deref().and_then(mpi_kind_of_fact).or_else(|| mpi_kind_of_name(&point.mpi));
        let mpi = mpi.ok_or_else(|| PredictError::Model {
            message: format!("nothing in {origin} tells what kind of MPI library `{}` is", point.mpi),
            hint: "its runs have no fact `mpi`; give the library a name with mpich-ch3, mpich or openmpi in it".into(),
        })?;
        let mut quantities: BTreeMap<Quantity, f64> =
            TAKEN.iter().filter_map(|(name, quantity, factor)| Some((*quantity, found.get(*name)? * factor))).collect();
        // what a checkpoint costs is only there where one was taken; the program alone only where none was
        for (name, quantity, of_baseline, factor) in [
            (names::CKPT_STORED_BYTES, Quantity::Stored, false, 1.0 / MIB),
            (names::CKPT_LATENCY_S, Quantity::Latency, false, 1.0),
            (names::WALL_S, Quantity::App, true, 1.0),
        ] {
            if let (Some(mean), true) = (found.get(name), of_baseline == (point.checkpointer == "none")) {
                quantities.insert(quantity, mean * factor);
            }
        }
        // a checkpoint without files of a kind has 0 MiB of them
        if quantities.contains_key(&Quantity::Stored) {
            for kind in [Quantity::Launchers, Quantity::Aux] {
                quantities.entry(kind).or_insert(0.0);
            }
        }
        let compression = if point.compression == "gzip" { Compression::Gzip } else { Compression::None };
        if even_load(&mapping).is_some()
            && let Some(surplus) = found.get(SURPLUS)
        {
            quantities.insert(Quantity::Surplus, surplus / MIB);
        }
        observations.push(Observation {
            label: Observation::label_of(&point.app, &point.class, &mapping, &point.mpi, compression),
            id: point.id,
            origin: origin.to_owned(),
            app: point.app,
            class: point.class,
            mapping,
            mpi_name: point.mpi,
            mpi,
            compression,
            aggregators: point.aggregators,
            cb_buffer: point.cb_buffer,
            quantities,
        });
    }
    Ok(observations)
}

fn damaged(origin: &str, detail: String) -> PredictError {
    StoreError::damaged(origin, 0, detail).into()
}

/// Name under which [`read`] hands on what the largest image has more than the median one, bytes.
const SURPLUS: &str = "largest minus median image";

struct PointRow {
    id: String,
    app: String,
    class: String,
    mapping: String,
    mpi: String,
    checkpointer: String,
    compression: String,
    aggregators: Option<u32>,
    cb_buffer: Option<ByteSize>,
    fact: Option<String>,
}

type Means = HashMap<String, HashMap<String, f64>>;

fn read(index: &Index) -> rusqlite::Result<(Vec<PointRow>, Means)> {
    let db = index.connection();
    let points = db
        .prepare(
            "SELECT p.*, (SELECT f.value FROM facts f JOIN runs r ON r.id = f.run
                          WHERE r.point = p.id AND r.state = 'succeeded' AND f.key = 'mpi' ORDER BY r.seq LIMIT 1) AS fact
             FROM points p ORDER BY p.seq",
        )?
        .query_map([], point)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut means: Means = HashMap::new();
    let mut query = db.prepare("SELECT point, quantity, mean FROM summaries")?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        means.entry(r.get(0)?).or_default().insert(r.get(1)?, r.get(2)?);
    }
    for (point, surplus) in surpluses(db)? {
        means.entry(point).or_default().insert(SURPLUS.to_owned(), surplus);
    }
    Ok((points, means))
}

fn point(r: &Row<'_>) -> rusqlite::Result<PointRow> {
    let buffer: Option<i64> = r.get("cb_buffer_bytes")?;
    Ok(PointRow {
        id: r.get("id")?,
        app: r.get("app")?,
        class: r.get("class")?,
        mapping: r.get("mapping")?,
        mpi: r.get("mpi")?,
        checkpointer: r.get("checkpointer")?,
        compression: r.get("compression")?,
        aggregators: r.get("aggregators")?,
        cb_buffer: buffer.and_then(|b| u64::try_from(b).ok()).map(ByteSize),
        fact: r.get("fact")?,
    })
}

/// For each point the mean over its checkpoints of the largest image less the median one: where it is many MiB, some ranks aggregate I/O.
fn surpluses(db: &rusqlite::Connection) -> rusqlite::Result<HashMap<String, f64>> {
    let mut images: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    let mut query = db.prepare(
        "SELECT r.point, r.id, coalesce(c.ckpt, ''), c.value FROM records c JOIN runs r ON r.id = c.run
         WHERE c.name = 'image_bytes' AND c.rank IS NOT NULL AND c.value IS NOT NULL AND r.kind = 'measured' AND r.state = 'succeeded'",
    )?;
    let mut rows = query.query([])?;
    while let Some(r) = rows.next()? {
        images.entry((r.get(0)?, r.get(1)?, r.get(2)?)).or_default().push(r.get(3)?);
    }
    let mut differences: HashMap<String, Vec<f64>> = HashMap::new();
    for ((point, _, _), mut sizes) in images {
        // with one or two images there is no typical one that an aggregator's could stand out of
        sizes.sort_by(f64::total_cmp);
        if let (Some(largest), Some(median), true) = (sizes.last(), stats::quantile(&sizes, 0.5), sizes.len() >= 3) {
            differences.entry(point).or_default().push(largest - median);
        }
    }
    Ok(differences.into_iter().map(|(point, d)| (point, d.iter().sum::<f64>() / d.len() as f64)).collect())
}
