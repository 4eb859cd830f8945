//! Identifiers: what a point's results depend on, written canonically and digested.
//!
//! A [`PointId`] is the digest of the canonical JSON (keys sorted, no spaces) of
//!
//! | key | content |
//! |---|---|
//! | `format` | [`super::SCHEMA`] |
//! | `point` | every factor value, defaults filled in; of factors that are newer than identifiers, only values that are not neutral |
//! | `app` | digest of the descriptor's content |
//! | `site` | digest of the site as far as the point touches it: kind, `app_dirs`, its storage area, its MPI library, DMTCP if it
//! checkpoints with it, of a cluster `ClusterPart` |
//! | `settings` | digest of the tracer; with a checkpointer, of `restart_check`; with DMTCP, of the checkpoint moments; of a locale that is not the
//! default; of `own_series`, for checkpoints that the program writes itself; of `deltas` without `keep`, for a series that is compared |
//!
//! and a [`RunId`] that of `{point, repeat}`. Paths enter as written. What does not enter: repeats, warm-ups, seed, order, time limits,
//! retries, what is kept, what is reported, and what else is in the file: changing these leaves finished runs valid.

use crate::ids::canonical_json;
use crate::{
    campaign::{DEFAULT_LOCALE, DeltaSettings, MpiLibrary, SiteKind, Spec, StorageArea},
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

/// The values of a point.
struct PointPart<'a>(&'a Point);

/// The settings that a point is subject to.
struct SettingsPart<'a> {
    point: &'a Point,
    /// Unless it is the default: digests are older than this setting.
    locale: Option<&'a str>,
    /// Whether the program's own checkpoints are measured while it runs; digests are older than this setting.
    own_series: bool,
    /// How its series is stored, if it is; digests are older than this setting.
    deltas: Option<DeltasPart<'a>>,
}

/// What results depend on of `deltas`. The first of each list is what is made while the program runs: their order counts.
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
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also { $($also:tt)* })?;
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
        /// The keys of [`PointPart`], sorted, so that serde writes canonical JSON at once: this is done for every point.
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
                if let Some(deltas) = &self.deltas {
                    map.serialize_entry("deltas", deltas)?;
                }
                map.end()
            }
        }

        /// Whether two points have the same [`SettingsPart`].
        fn have_same_settings(one: &Point, other: &Point) -> bool {
            $($((DigestPart::$part != DigestPart::Settings || one.$name == other.$name) &&)*)* true
        }
    };
}
crate::factors!(define_parts);

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
struct RunPart<'a> {
    point: &'a PointId,
    repeat: Repeat,
}

/// Computes identifiers; remembers the digests of what many points share.
pub struct Digester<'a> {
    spec: &'a Spec,
    /// Few entries, and neighbouring points share them: lists, latest last.
    settings: Vec<(Point, SettingsKey, String)>,
    sites: Vec<(SiteKey, String)>,
    buffer: Vec<u8>,
}

/// Whether the program's own checkpoints are measured while it runs, and whether those of DMTCP are stored as deltas.
type SettingsKey = (bool, bool);

/// Site, storage, MPI library, whether DMTCP is used.
type SiteKey = (String, String, String, bool);

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
        let checkpoint = &self.spec.checkpoint;
        let own_series = checkpoint.own_series && point.checkpointer.has_own_files();
        let deltas = checkpoint.deltas_of(point);
        let key = (own_series, deltas.is_some());
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
            deltas: deltas.map(DeltasPart::of),
        });
        self.settings.push((point.clone(), key, digest));
        self.settings.len() - 1
    }

    /// Where the digest of the point's part of its site is.
    fn site(&mut self, point: &Point) -> usize {
        let dmtcp = point.checkpointer.is_driven();
        let same = |(site, storage, mpi, with): &SiteKey| {
            *site == point.site && *storage == point.storage && *mpi == point.mpi && *with == dmtcp
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
            }),
        };
        self.sites.push((
            (
                point.site.clone(),
                point.storage.clone(),
                point.mpi.clone(),
                dmtcp,
            ),
            digest,
        ));
        self.sites.len() - 1
    }
}
