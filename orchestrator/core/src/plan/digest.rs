//! Identifiers: what a point's results depend on, written canonically and digested.
//!
//! A [`PointId`] is the digest of the canonical JSON (keys sorted, no spaces) of
//!
//! | key | content |
//! |---|---|
//! | `format` | [`super::SCHEMA`] |
//! | `point` | every factor value, defaults filled in |
//! | `app` | digest of the descriptor's content |
//! | `site` | digest of the site as far as the point touches it: kind, `app_dirs`, its storage area, its MPI library, DMTCP if it
//! checkpoints with it, of a cluster `ClusterPart` |
//! | `settings` | digest of the tracer; with a checkpointer, of `restart_check`; with DMTCP, of the checkpoint moments; of a locale that is not the
//! default |
//!
//! and a [`RunId`] that of `{point, repeat}`. Paths enter as written. What does not enter: repeats, warm-ups, seed, order, time limits,
//! retries, what is kept, what is reported, and what else is in the file: changing these leaves finished runs valid.

use crate::ids::canonical_json;
use crate::{
    campaign::{DEFAULT_LOCALE, MpiLibrary, SiteKind, Spec, StorageArea},
    ids::{PointId, RunId},
    point::{CheckpointerKind, Moment, Point, Repeat, TracerKind, UserValue},
};
use serde::Serialize;
use std::collections::BTreeMap;

fn digest<T: Serialize>(value: &T) -> String {
    blake3::hash(canonical_json(value).as_bytes()).to_hex().to_string()
}

/// The part of a site that a point touches.
#[derive(Serialize)]
struct SitePart<'a> {
    kind: SiteKind,
    app_dirs: &'a [String],
    storage: Option<&'a StorageArea>,
    mpi: Option<&'a MpiLibrary>,
    dmtcp: Option<&'a crate::campaign::DmtcpSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterPart<'a>>,
}

/// The properties of a cluster that results depend on: not which of its equal nodes took part, nor how they are reached.
#[derive(Serialize)]
struct ClusterPart<'a> {
    interface: Option<&'a str>,
    partition: Option<&'a str>,
    constraint: Option<&'a str>,
    launcher: Option<crate::campaign::SlurmLauncher>,
    side_by_side: bool,
    /// Only with Slurm.
    #[serde(skip_serializing_if = "Option::is_none")]
    exclusive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qos: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sbatch_args: Option<&'a [String]>,
}

impl<'a> ClusterPart<'a> {
    fn of(cluster: &'a crate::campaign::Cluster) -> Self {
        let slurm = cluster.slurm.as_ref();
        Self {
            interface: cluster.interface.as_deref(),
            partition: slurm.and_then(|s| s.partition.as_deref()),
            constraint: slurm.and_then(|s| s.constraint.as_deref()),
            launcher: slurm.map(|s| s.launcher),
            side_by_side: cluster.side_by_side,
            exclusive: slurm.map(|s| s.exclusive),
            qos: slurm.and_then(|s| s.qos.as_deref()),
            sbatch_args: slurm.map(|s| s.sbatch_args.as_slice()),
        }
    }
}

/// The settings that a point is subject to.
#[derive(Serialize)]
struct SettingsPart<'a> {
    tracer: TracerKind,
    restart_check: Option<bool>,
    moment: Option<&'a Moment>,
    /// Unless it is the default: digests are older than this setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<&'a str>,
}

/// Fields in the order of their names, so that serde writes canonical JSON at once: this is done for every point.
#[derive(Serialize)]
struct Inputs<'a> {
    app: &'a str,
    format: u32,
    point: PointPart<'a>,
    settings: &'a str,
    site: &'a str,
}

#[derive(Serialize)]
struct PointPart<'a> {
    aggregators: Option<u32>,
    app: &'a str,
    cb_buffer: Option<u64>,
    checkpointer: CheckpointerKind,
    class: &'a str,
    compression: crate::point::Compression,
    mapping: &'a crate::mapping::Mapping,
    mpi: &'a str,
    site: &'a str,
    storage: &'a str,
    user: BTreeMap<&'a str, &'a UserValue>,
}

#[derive(Serialize)]
struct RunPart<'a> {
    point: &'a PointId,
    repeat: Repeat,
}

/// Computes identifiers; remembers the digests of what many points share.
pub struct Digester<'a> {
    spec: &'a Spec,
    /// Few entries, and neighbouring points share them: lists, latest last.
    settings: Vec<(SettingsKey, String)>,
    sites: Vec<(SiteKey, String)>,
    buffer: Vec<u8>,
}

/// Site, storage, MPI library, whether DMTCP is used.
type SiteKey = (String, String, String, bool);

/// Tracer, whether it is restarted, when checkpoints are taken.
type SettingsKey = (TracerKind, Option<bool>, Option<Moment>);

impl<'a> Digester<'a> {
    pub fn new(spec: &'a Spec) -> Self {
        Self { spec, settings: Vec::new(), sites: Vec::new(), buffer: Vec::with_capacity(1024) }
    }

    pub fn point(&mut self, point: &Point) -> PointId {
        let site = self.site(point);
        let settings = self.settings(point);
        let settings = &self.settings[settings].1;
        let inputs = Inputs {
            app: self.spec.apps.get(&point.app).map_or("", |app| app.digest.as_str()),
            format: super::SCHEMA,
            point: PointPart {
                aggregators: point.aggregators,
                app: &point.app,
                cb_buffer: point.cb_buffer.map(|size| size.0),
                checkpointer: point.checkpointer,
                class: &point.class,
                compression: point.compression,
                mapping: &point.mapping,
                mpi: &point.mpi,
                site: &point.site,
                storage: &point.storage,
                user: point.user.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            },
            settings,
            site: &self.sites[site].1,
        };
        self.buffer.clear();
        // Writing to memory does not fail, nor do our own serializers.
        let _ = serde_json::to_writer(&mut self.buffer, &inputs);
        PointId::of(&self.buffer)
    }

    pub fn run(&mut self, point: &PointId, repeat: Repeat) -> RunId {
        self.buffer.clear();
        let _ = serde_json::to_writer(&mut self.buffer, &RunPart { point, repeat });
        RunId::of(&self.buffer)
    }

    /// Where the digest of the point's settings is.
    fn settings(&mut self, point: &Point) -> usize {
        let tracer = point.tracer.unwrap_or_default();
        let same = |(of, restart_check, moment): &SettingsKey| {
            *of == tracer && *restart_check == point.restart_check && moment.as_ref() == point.moment.as_ref()
        };
        if let Some(found) = self.settings.iter().position(|(key, _)| same(key)) {
            return found;
        }
        let locale = Some(self.spec.run.locale.as_str()).filter(|locale| *locale != DEFAULT_LOCALE);
        let digest = digest(&SettingsPart { tracer, restart_check: point.restart_check, moment: point.moment.as_ref(), locale });
        self.settings.push(((tracer, point.restart_check, point.moment.clone()), digest));
        self.settings.len() - 1
    }

    /// Where the digest of the point's part of its site is.
    fn site(&mut self, point: &Point) -> usize {
        let dmtcp = point.checkpointer.is_driven();
        let same =
            |(site, storage, mpi, with): &SiteKey| *site == point.site && *storage == point.storage && *mpi == point.mpi && *with == dmtcp;
        if let Some(found) = self.sites.iter().position(|(key, _)| same(key)) {
            return found;
        }
        let digest = match self.spec.sites.get(&point.site) {
            None => String::new(),
            Some(site) => digest(&SitePart {
                kind: site.kind,
                app_dirs: &site.app_dirs,
                storage: site.storage.get(&point.storage),
                mpi: site.mpi.get(&point.mpi),
                dmtcp: dmtcp.then_some(&site.dmtcp),
                cluster: site.cluster.as_ref().map(ClusterPart::of),
            }),
        };
        self.sites.push(((point.site.clone(), point.storage.clone(), point.mpi.clone(), dmtcp), digest));
        self.sites.len() - 1
    }
}
