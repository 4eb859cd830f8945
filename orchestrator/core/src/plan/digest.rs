//! Identifiers: digests of the canonical form of all facts that the results of a point depend on.
//!
//! A [`PointId`] is the digest of canonical JSON (sorted keys, no spaces) with these keys:
//!
//! - `format`: [`super::SCHEMA`]
//! - `point`: every factor value, with defaults filled in; of factors that are newer than identifiers, only values that are not neutral
//! - `app`: digest of the descriptor's content
//! - `site`: digest of the part of the site that the point uses: kind, `app_dirs`, storage area, MPI library, DMTCP if it takes the checkpoints,
//!   `ClusterPart` for a cluster, and anything that is set up before the launcher
//! - `settings`: digest of the tracer; with a checkpointer, of `restart_check`; with DMTCP, of the checkpoint moments; of a locale that is not the
//!   default; of `own_series`, for the program's own checkpoints; of `restarts`, if more than one; of `deltas` without `keep`, for a compared series;
//!   of `levels`, for checkpoints that nodes keep
//!
//! A [`RunId`] is the digest of `{point, repeat}`. Paths enter as written. Repeats, warm-ups, seed, order, time limits, retries, retention, reports,
//! and everything else in the file are not included: changing these leaves finished runs valid.

use crate::ids::canonical_json;
use crate::{
    campaign::{
        DEFAULT_LOCALE, DeltaSettings, LevelSettings, MpiLibrary, RunEnvironment, SiteKind, Spec,
        StorageArea,
    },
    factor_value::FactorValue,
    ids::{PointId, RunId},
    point::{DigestPart, Point, Repeat},
    units::ByteSize,
};
use cvc_delta_rules::{Codec, MethodName};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::{collections::BTreeMap, sync::LazyLock};

fn digest<T: Serialize>(value: &T) -> String {
    blake3::hash(canonical_json(value).as_bytes())
        .to_hex()
        .to_string()
}

/// The part of a site that a point uses.
#[derive(Serialize)]
struct SitePart<'a> {
    kind: SiteKind,
    app_dirs: &'a [String],
    storage: Option<&'a StorageArea>,
    mpi: Option<&'a MpiLibrary>,
    dmtcp: Option<&'a crate::campaign::DmtcpSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterPart<'a>>,
    /// Environment set up before the launcher. An empty one is omitted, so that identifiers from before this setting stay the same.
    #[serde(skip_serializing_if = "RunEnvironment::is_empty")]
    environment: RunEnvironment,
}

/// The properties of a cluster on which results depend; excludes which of its equal nodes took part, and how they are reached.
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
    /// GPUs and licences. They are omitted if not set, so that identifiers from before these settings stay the same. The choice of nodes is never
    /// included.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_per_node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    licenses: Option<&'a str>,
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
            gpus_per_node: slurm.and_then(|s| Some(s.gpus_per_node.as_ref()?.to_string())),
            licenses: slurm.and_then(|s| s.licenses.as_deref()),
        }
    }
}

/// The factor values of a point.
struct PointPart<'a>(&'a Point);

/// The settings that apply to a point.
struct SettingsPart<'a> {
    point: &'a Point,
    /// Locale. The default is omitted, so that identifiers from before this setting stay the same.
    locale: Option<&'a str>,
    /// Whether the program's own checkpoints are measured while it runs. False is omitted, so that identifiers from before this setting stay the
    /// same.
    own_series: bool,
    /// Number of restarts. A single one is omitted, so that identifiers from before this setting stay the same.
    restarts: Option<u32>,
    /// How the series is stored as deltas. It is omitted if there are none, so that identifiers from before this setting stay the same.
    deltas: Option<DeltasPart<'a>>,
    /// How nodes keep checkpoints. It is omitted if they do not, so that identifiers from before this setting stay the same.
    levels: Option<LevelSettings>,
}

/// The part of `deltas` that results depend on. The order of each list matters, because its first value is used while the program runs.
#[derive(Serialize)]
struct DeltasPart<'a> {
    methods: &'a [MethodName],
    codecs: &'a [Codec],
    blocks: &'a [ByteSize],
}

impl<'a> DeltasPart<'a> {
    fn of(deltas: &'a DeltaSettings) -> Self {
        Self {
            methods: &deltas.methods,
            codecs: &deltas.codecs,
            blocks: &deltas.blocks,
        }
    }
}

macro_rules! define_parts {
    ($(
        places { $(
            $(#[$place_doc:meta])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also { $($also:tt)* })*;
        )* }
        settings { $(
            $(#[$doc:meta])+
            $Name:ident $name:ident: $type:ty {
                level: $level:ty = $default:expr,
                heading: $heading:literal,
                column: $column:literal,
                needs: $needs:ident,
                digest: $part:ident,
            }
        )* }
    )*) => {
        /// Keys of [`PointPart`] in sorted order. They are sorted once, because serde writes the canonical JSON of every point in this order.
        static KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
            let places = [$($(stringify!($place),)*)* "user"];
            let settings = [$($((stringify!($name), DigestPart::$part),)*)*];
            let settings = settings.into_iter().filter(|(_, part)| *part != DigestPart::Settings).map(|(name, _)| name);
            let mut keys: Vec<&str> = places.into_iter().chain(settings).collect();
            keys.sort_unstable();
            keys
        });

        impl Serialize for PointPart<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for key in KEYS.iter() {
                    match *key {
                        $(
                            $(stringify!($place) => map.serialize_entry(key, &self.0.$place.digested())?,)*
                            $(stringify!($name) => {
                                if DigestPart::$part == DigestPart::Point || self.0.$name != <$type>::default() {
                                    map.serialize_entry(key, &self.0.$name.digested())?;
                                }
                            })*
                        )*
                        _ => map.serialize_entry(key, &self.0.user.iter().collect::<BTreeMap<_, _>>())?,
                    }
                }
                map.end()
            }
        }

        impl Serialize for SettingsPart<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $($(if DigestPart::$part == DigestPart::Settings {
                    map.serialize_entry(stringify!($name), &self.point.$name.digested())?;
                })*)*
                if let Some(locale) = self.locale {
                    map.serialize_entry("locale", locale)?;
                }
                if self.own_series {
                    map.serialize_entry("own_series", &true)?;
                }
                if let Some(restarts) = self.restarts {
                    map.serialize_entry("restarts", &restarts)?;
                }
                if let Some(deltas) = &self.deltas {
                    map.serialize_entry("deltas", deltas)?;
                }
                if let Some(levels) = &self.levels {
                    map.serialize_entry("levels", levels)?;
                }
                map.end()
            }
        }

        /// Returns whether two points have equal levels of all factors that enter [`SettingsPart`].
        fn have_same_settings(one: &Point, other: &Point) -> bool {
            $($((DigestPart::$part != DigestPart::Settings || one.$name == other.$name) &&)*)* true
        }
    };
}
crate::factors!(define_parts);

/// Everything that identifies a point. The fields are sorted by name, because serde writes the canonical JSON of every point in this order.
#[derive(Serialize)]
struct Inputs<'a> {
    app: &'a str,
    format: u32,
    point: PointPart<'a>,
    settings: &'a str,
    site: &'a str,
}

#[derive(Serialize)]
struct RunPart<'a> {
    point: &'a PointId,
    repeat: Repeat,
}

/// Computes identifiers, and caches the digests of parts that many points share.
pub struct Digester<'a> {
    spec: &'a Spec,
    /// Digests of settings; the last one used is at the end. A list is enough, because there are few, and neighbouring points have the same settings.
    settings: Vec<(Point, SettingsKey, String)>,
    sites: Vec<(SiteKey, String)>,
    buffer: Vec<u8>,
}

/// Whether the program's own checkpoints are measured while it runs; whether those of DMTCP are stored as deltas; whether nodes keep checkpoints; the
/// number of restarts, if more than one.
type SettingsKey = (bool, bool, bool, Option<u32>);

/// Site, storage area, MPI library, application (only if the site has settings for it), whether DMTCP is used.
type SiteKey = (String, String, String, Option<String>, bool);

impl<'a> Digester<'a> {
    pub fn new(spec: &'a Spec) -> Self {
        Self {
            spec,
            settings: Vec::new(),
            sites: Vec::new(),
            buffer: Vec::with_capacity(1024),
        }
    }

    pub fn point(&mut self, point: &Point) -> PointId {
        let site = self.site(point);
        let settings = self.settings(point);
        let settings = &self.settings[settings].2;
        let inputs = Inputs {
            app: self
                .spec
                .apps
                .get(&point.app)
                .map_or("", |app| app.digest.as_str()),
            format: super::SCHEMA,
            point: PointPart(point),
            settings,
            site: &self.sites[site].1,
        };
        self.buffer.clear();
        // writing to memory cannot fail, and neither can these serializers
        let _ = serde_json::to_writer(&mut self.buffer, &inputs);
        PointId::of(&self.buffer)
    }

    pub fn run(&mut self, point: &PointId, repeat: Repeat) -> RunId {
        self.buffer.clear();
        let _ = serde_json::to_writer(&mut self.buffer, &RunPart { point, repeat });
        RunId::of(&self.buffer)
    }

    /// Returns the index of the digest of the point's settings.
    fn settings(&mut self, point: &Point) -> usize {
        let (own_series, deltas) = self.spec.checkpoint.series_of(point);
        let levels = self.spec.checkpoint.levels_of(point);
        let restarts = Some(self.spec.checkpoint_plan(point).restarts()).filter(|count| *count > 1);
        let key = (own_series, deltas.is_some(), levels.is_some(), restarts);
        if let Some(found) = self
            .settings
            .iter()
            .position(|(of, own, _)| *own == key && have_same_settings(of, point))
        {
            return found;
        }
        let locale = Some(self.spec.run.locale.as_str()).filter(|locale| *locale != DEFAULT_LOCALE);
        let digest = digest(&SettingsPart {
            point,
            locale,
            own_series,
            restarts,
            deltas: deltas.map(DeltasPart::of),
            levels,
        });
        self.settings.push((point.clone(), key, digest));
        self.settings.len() - 1
    }

    /// Returns the index of the digest of the part of the site that the point uses.
    fn site(&mut self, point: &Point) -> usize {
        let dmtcp = point.checkpointer.is_driven();
        let has_settings = self
            .spec
            .sites
            .get(&point.site)
            .is_some_and(|site| site.apps.contains_key(&point.app));
        let own_app = has_settings.then_some(&point.app);
        let same = |(site, storage, mpi, app, with): &SiteKey| {
            *site == point.site
                && *storage == point.storage
                && *mpi == point.mpi
                && app.as_ref() == own_app
                && *with == dmtcp
        };
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
                environment: site.run_environment(&point.mpi, Some(&point.app)),
            }),
        };
        self.sites.push((
            (
                point.site.clone(),
                point.storage.clone(),
                point.mpi.clone(),
                own_app.cloned(),
                dmtcp,
            ),
            digest,
        ));
        self.sites.len() - 1
    }
}
