//! A point: one combination of factor values.

use crate::{
    factor_value::{
        ColumnType, ColumnValue, FactorValue, UnknownWord, optional_text_values, text_values,
    },
    ids::PointId,
    registry::define_kind,
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

pub use crate::checkpointer::CheckpointerKind;

impl CheckpointerKind {
    /// Returns why runs with this checkpointer cannot be traced by `tracer`; `None` if no reason is known.
    pub fn hazard_with(self, tracer: TracerKind) -> Option<&'static str> {
        match (self, tracer) {
            (Self::Dmtcp, TracerKind::Darshan) => Some(
                "Darshan and DMTCP cannot run together: Darshan's dup2 wrapper recurses until the stack overflows; trace with strace, or run Darshan without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::DfTracer) => Some(
                "DFTracer and DMTCP cannot run together: a process that DMTCP restarts with DFTracer in it hangs; trace with strace, or run DFTracer without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::MpiIo) => Some(
                "the tracer of MPI-IO and DMTCP cannot run together: programs hang with both; trace with strace, or trace without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::None | TracerKind::Strace)
            | (Self::None | Self::Application, _) => None,
        }
    }
}

/// A program through which checkpoints are piped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compressor {
    /// Name of the program.
    pub program: &'static str,
    /// Program that decompresses its output for a restart.
    pub reader: &'static str,
    /// Whether the program uses all cores of a node; if not, it uses one core for each process.
    pub has_all_cores: bool,
    /// Estimated rate at which one core compresses, MiB per second of output.
    pub core_mib_s: f64,
    /// Estimated ratio of uncompressed to compressed size. It is higher if the data contains more zeros.
    pub ratio: f64,
}

/// How DMTCP stores images.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// Uncompressed.
    #[default]
    None,
    /// Piped through gzip.
    Gzip,
    /// Piped through pigz, a parallel gzip.
    Pigz,
}

impl Compression {
    /// All values, starting with none.
    pub const ALL: [Self; 3] = [Self::None, Self::Gzip, Self::Pigz];

    /// Returns the number of cores of a node with `load` processes that are busy while images are written: one for each process, or all cores.
    pub fn busy_cores(self, load: u32, cores: u32) -> u32 {
        match self.compressor() {
            Some(of) if of.has_all_cores => cores,
            _ => load.min(cores),
        }
    }

    /// Returns the program that images are piped through; `None` if they are stored uncompressed.
    pub fn compressor(self) -> Option<Compressor> {
        let of = |program, has_all_cores| Compressor {
            program,
            reader: "gzip",
            has_all_cores,
            core_mib_s: 40.0,
            ratio: 3.0,
        };
        match self {
            Self::None => None,
            Self::Gzip => Some(of("gzip", false)),
            Self::Pigz => Some(of("pigz", true)),
        }
    }

    /// Returns the name of the program that images are piped through; `None` if they are stored uncompressed.
    pub fn program(self) -> Option<&'static str> {
        self.compressor().map(|of| of.program)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program().unwrap_or("none"))
    }
}

impl FromStr for Compression {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or(UnknownWord)
    }
}

/// When DMTCP takes checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// At these times, seconds after the program began to compute; ascending, not empty.
    AtS(Vec<f64>),
    /// After this step of the program, from 1, as its output shows. For a program without steps, step 1 is its first output.
    AfterStep(u64),
    /// After the first step; the program is then killed. Measures sizes within minutes instead of hours.
    #[serde(rename = "size-only")]
    SizeOnly,
    /// Like size-only, but after this step, for programs that allocate memory later, for example for buffers of their first output.
    SizeOnlyAfterStep(u64),
    /// Periodically. A program that ends before the last checkpoint has fewer.
    Series {
        /// Interval, seconds; the first checkpoint is one interval after the program began to compute.
        every_s: f64,
        /// Number of checkpoints, at least 2.
        count: u32,
        /// Whether differences between the checkpoints are measured; true by default.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        compare: bool,
    },
}

/// Suffix in tables for an uncompared series.
const NOT_COMPARED: &str = ", not compared";

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_true(value: &bool) -> bool {
    *value
}

impl fmt::Display for Moment {
    /// Formats the moment as in tables: `at 5 s`, `after step 1`, `size-only`, `every 60 s, 8 times`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtS(seconds) => {
                let list: Vec<String> = seconds.iter().map(ToString::to_string).collect();
                write!(f, "at {} s", list.join(" and "))
            }
            Self::AfterStep(step) => write!(f, "after step {step}"),
            Self::SizeOnly => f.write_str("size-only"),
            Self::SizeOnlyAfterStep(step) => write!(f, "size-only after step {step}"),
            Self::Series {
                every_s,
                count,
                compare,
            } => {
                let apart = if *compare { "" } else { NOT_COMPARED };
                write!(f, "every {every_s} s, {count} times{apart}")
            }
        }
    }
}

impl FromStr for Moment {
    type Err = UnknownWord;

    /// Parses the form that tables show.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let step = |text: &str| text.parse().map_err(|_| UnknownWord);
        if text == "size-only" {
            return Ok(Self::SizeOnly);
        }
        if let Some(number) = text.strip_prefix("size-only after step ") {
            return step(number).map(Self::SizeOnlyAfterStep);
        }
        if let Some(number) = text.strip_prefix("after step ") {
            return step(number).map(Self::AfterStep);
        }
        if let Some(rest) = text.strip_prefix("every ") {
            let (rest, compare) = match rest.strip_suffix(NOT_COMPARED) {
                Some(rest) => (rest, false),
                None => (rest, true),
            };
            let (every_s, count) = rest
                .strip_suffix(" times")
                .and_then(|rest| rest.split_once(" s, "))
                .ok_or(UnknownWord)?;
            return Ok(Self::Series {
                every_s: every_s.parse().map_err(|_| UnknownWord)?,
                count: count.parse().map_err(|_| UnknownWord)?,
                compare,
            });
        }
        let list = text
            .strip_prefix("at ")
            .and_then(|rest| rest.strip_suffix(" s"))
            .ok_or(UnknownWord)?;
        let seconds: Result<Vec<f64>, _> = list.split(" and ").map(str::parse).collect();
        seconds.map(Self::AtS).map_err(|_| UnknownWord)
    }
}

impl Moment {
    /// Returns whether the program is killed after its checkpoint, and not restarted.
    pub fn kills(&self) -> bool {
        match self {
            Self::SizeOnly | Self::SizeOnlyAfterStep(_) => true,
            Self::AtS(_) | Self::AfterStep(_) | Self::Series { .. } => false,
        }
    }

    /// Returns the number of checkpoints, if the program does not end before the last one.
    pub fn count(&self) -> u32 {
        match self {
            Self::AtS(seconds) => u32::try_from(seconds.len()).unwrap_or(u32::MAX),
            Self::Series { count, .. } => *count,
            Self::AfterStep(_) | Self::SizeOnly | Self::SizeOnlyAfterStep(_) => 1,
        }
    }

    /// Returns whether checkpoints are taken periodically.
    pub fn is_series(&self) -> bool {
        matches!(self, Self::Series { .. })
    }

    /// Returns whether differences between its checkpoints are measured.
    pub fn is_compared(&self) -> bool {
        matches!(self, Self::Series { compare: true, .. })
    }
}

crate::tracers!(
    define_kind,
    #[doc = " A tracer."]
    TracerKind
);

impl Default for TracerKind {
    fn default() -> Self {
        Self::None
    }
}

/// Value of a free factor, for templates as `{{user.NAME}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum UserValue {
    /// true or false
    Bool(bool),
    /// a whole number
    Integer(i64),
    /// a number
    Float(f64),
    /// text
    Text(String),
}

impl fmt::Display for UserValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{v}"),
            Self::Integer(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v}"),
            Self::Text(v) => f.write_str(v),
        }
    }
}

text_values!(CheckpointerKind, Compression);
optional_text_values!(Moment, TracerKind);

/// The ability that a factor requires of a point's checkpointer. If the checkpointer lacks it, the factor does not apply to the point. From the
/// weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// No ability: the factor applies to every point.
    Nothing,
    /// Taking checkpoints.
    Checkpoints,
    /// Taking checkpoints when cvc requests them.
    DrivenCheckpoints,
    /// Compressing checkpoints on request.
    Compression,
}

impl Needs {
    /// Returns whether a checkpointer has the ability.
    pub fn are_met_by(self, checkpointer: CheckpointerKind) -> bool {
        match self {
            Self::Nothing => true,
            Self::Checkpoints => checkpointer.takes_checkpoints(),
            Self::DrivenCheckpoints => checkpointer.is_driven(),
            Self::Compression => checkpointer.compresses(),
        }
    }

    /// Describes the ability, for messages that a checkpointer lacks it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "anything",
            Self::Checkpoints => "checkpoints by DMTCP or the program",
            Self::DrivenCheckpoints | Self::Compression => "DMTCP",
        }
    }
}

/// How the value of a factor enters the identifier of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestPart {
    /// Together with the values of the point.
    Point,
    /// Like [`Self::Point`], but a neutral value is omitted: the factor was added later, and identifiers of earlier points must not change.
    PointUnlessNeutral,
    /// As part of the digest of the settings.
    Settings,
}

/// Facts about a built-in factor.
#[derive(Clone, Copy, Debug)]
pub struct FactorInfo {
    /// Name of the factor in files and tables.
    pub name: &'static str,
    /// Heading of the factor in reports.
    pub heading: &'static str,
    /// Description of the factor and its default: the text in the JSON Schema.
    pub about: &'static str,
    /// The ability that the factor requires of a point's checkpointer.
    pub needs: Needs,
    /// How the factor's value enters the identifier of a point.
    pub digest: DigestPart,
}

/// The column of a factor in the index.
#[derive(Clone, Copy, Debug)]
pub struct FactorColumn {
    /// Name of the column.
    pub name: &'static str,
    /// The type of its values.
    pub of: ColumnType,
}

macro_rules! define_point {
    ($(
        places { $(
            $(#[doc = $place_doc:literal])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also {
                $(#[doc = $also_doc:literal])+
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal, digest $also_digest:ident
            })*;
        )* }
        settings { $(
            $(#[doc = $doc:literal])+
            $(#[serde($($serde:tt)*)])?
            $Name:ident $name:ident: $type:ty {
                level: $level:ty = $default:expr,
                heading: $heading:literal,
                column: $column:literal,
                needs: $needs:ident,
                digest: $digest:ident,
            }
        )* }
    )*) => {
        /// One combination of factor values, with defaults filled in. The default of each factor is its neutral level.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Point {
            $(
                $($(#[doc = $place_doc])+ pub $place: $place_type,)*
                $($(#[doc = $doc])+ $(#[serde($($serde)*)])? pub $name: $type,)*
            )*
            /// Free factors.
            #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
            pub user: IndexMap<String, UserValue>,
        }

        /// A built-in factor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FactorId {
            $($($(#[doc = $place_doc])+ $Place, $($(#[doc = $also_doc])+ $Also,)*)* $($(#[doc = $doc])+ $Name,)*)*
        }

        impl FactorId {
            /// Returns the name of the factor in files and tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(
                        $(Self::$Place => stringify!($place), $(Self::$Also => stringify!($also),)*)*
                        $(Self::$Name => stringify!($name),)*
                    )*
                }
            }
        }

        impl Point {
            /// Names of the factors that every point has, in the order of tables.
            pub const FACTORS: &'static [&'static str] = &[
                $($(stringify!($place), $(stringify!($also),)*)* $(stringify!($name),)*)*
            ];

            /// Facts about these factors, in the same order.
            pub const FACTOR_INFO: &'static [FactorInfo] = &[
                $(
                    $(
                        FactorInfo {
                            name: stringify!($place), heading: $place_heading, about: concat!($($place_doc),+),
                            needs: Needs::Nothing, digest: DigestPart::Point,
                        },
                        $(FactorInfo {
                            name: stringify!($also), heading: $also_heading, about: concat!($($also_doc),+),
                            needs: Needs::Nothing, digest: DigestPart::$also_digest,
                        },)*
                    )*
                    $(FactorInfo {
                        name: stringify!($name), heading: $heading, about: concat!($($doc),+),
                        needs: Needs::$needs, digest: DigestPart::$digest,
                    },)*
                )*
            ];

            /// The columns of the index that contain factors. The factors that follow from the mapping have no columns here.
            pub const COLUMNS: &'static [FactorColumn] = &[
                $(
                    $(FactorColumn { name: stringify!($place), of: <$place_type as FactorValue>::COLUMN },)*
                    $(FactorColumn { name: $column, of: <$type as FactorValue>::COLUMN },)*
                )*
            ];

            /// Returns the values of this point for the columns in [`Self::COLUMNS`].
            pub fn to_columns(&self) -> Vec<ColumnValue> {
                vec![$($(self.$place.to_column(),)* $(self.$name.to_column(),)*)*]
            }

            /// Reads the columns of a point, without its free factors. `read` is called with the name of each column.
            ///
            /// # Errors
            /// An error of `read`; or the result of `unknown` for a column that does not have the form of [`Self::to_columns`].
            pub fn from_columns<E>(
                mut read: impl FnMut(&'static str) -> Result<ColumnValue, E>,
                unknown: impl Fn(&'static str) -> E,
            ) -> Result<Self, E> {
                Ok(Self {
                    $(
                        $($place: FactorValue::from_column(read(stringify!($place))?).ok_or_else(|| unknown(stringify!($place)))?,)*
                        $($name: FactorValue::from_column(read($column)?).ok_or_else(|| unknown($column))?,)*
                    )*
                    user: IndexMap::new(),
                })
            }

            /// Returns the value of a factor as tables show it. The factor is one of [`Self::FACTORS`] or a free one. `None` for any other name, and
            /// for a factor that does not apply to this point (for example the moment without DMTCP).
            pub fn factor(&self, name: &str) -> Option<String> {
                match name {
                    $(
                        $(
                            stringify!($place) => self.$place.text(),
                            $(stringify!($also) => Option::<$also_type>::from(self.$also()).map(|of| of.to_string()),)*
                        )*
                        $(stringify!($name) => self.$name.text(),)*
                    )*
                    other => self.user.get(other).map(ToString::to_string),
                }
            }
        }
    };
}
crate::factors!(define_point);

impl Point {
    /// Returns the total number of processes.
    pub fn processes(&self) -> u32 {
        self.mapping.processes()
    }

    /// Returns the number of threads of each process, if the mapping has it.
    pub fn threads(&self) -> Option<u32> {
        self.mapping.threads()
    }

    /// Returns the names of the factors to show in tables of these points. A factor that was added after the first version
    /// ([`DigestPart::PointUnlessNeutral`]) is omitted if it is neutral in all points, so that tables of old campaigns do not change.
    pub fn shown_factors<'a>(points: impl Iterator<Item = &'a Self> + Clone) -> Vec<&'static str> {
        let neutral = Self::default();
        let is_used = |name: &str| {
            points
                .clone()
                .any(|point| point.factor(name) != neutral.factor(name))
        };
        let shown = Self::FACTOR_INFO
            .iter()
            .filter(|info| info.digest != DigestPart::PointUnlessNeutral || is_used(info.name));
        shown.map(|info| info.name).collect()
    }

    /// Returns whether a factor has its neutral level, the level in campaigns that do not name the factor.
    pub fn is_neutral(&self, name: &str) -> bool {
        self.factor(name) == Self::default().factor(name)
    }

    /// Returns a short description of the point: `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        format!("{}.{} {} {}", self.app, self.class, self.mapping, self.mpi)
    }
}

/// The kind and number of a run of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// A run that precedes the counted runs and is excluded from statistics; numbered from 1.
    Warmup(u32),
    /// A counted run; numbered from 1.
    Measured(u32),
}

/// Formats as `repeat 2` or `warm-up 1`.
impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::Warmup(n) => format!("warm-up {n}"),
            Self::Measured(n) => format!("repeat {n}"),
        })
    }
}

/// A point of a plan with its identifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPoint {
    /// Digest of the point and of everything else that its results depend on.
    pub id: PointId,
    /// The factor values.
    pub point: Point,
    /// Whether the point was added to separate the memory of libraries from the memory of programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// Reason why its runs are expected to fail; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_failure: Option<String>,
}

/// A point that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// The factor values.
    pub point: Point,
    /// What excludes the point.
    pub by: ExcludedBy,
    /// Reason for the exclusion.
    pub reason: Reason,
}

/// Reason why a point does not run; stored as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Reason {
    /// The point differs from another one only in these factors, which have no effect. Only the other point runs.
    NoEffect {
        /// Names of the factors without effect.
        factors: Vec<String>,
        /// The ability that the point's checkpointer lacks, so that the factors have no effect.
        without: Needs,
    },
    /// Any other reason, as text.
    Text(String),
}

impl Reason {
    /// Returns why the factors have no effect, without naming the other point that runs.
    pub fn cause(&self) -> String {
        match self {
            Self::NoEffect { factors, without } => {
                let have = if factors.len() == 1 { "has" } else { "have" };
                let names = factors.join(" and ");
                format!("{names} {have} no effect without {}", without.words())
            }
            Self::Text(text) => text.clone(),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cause())?;
        match self {
            Self::NoEffect { .. } => f.write_str("; see the otherwise equal point"),
            Self::Text(_) => Ok(()),
        }
    }
}

/// Compares the texts, because a plan that is read from a file has only these.
impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.to_string()
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// What excludes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExcludedBy {
    /// An `[[exclude]]` rule of the campaign.
    Rule,
    /// The application: its process counts, its workloads.
    Application,
    /// The combination makes no sense (more aggregators than processes, compression without DMTCP, a number of processes that contradicts the
    /// mapping).
    Combination,
    /// A known hazard (Darshan with DMTCP 4.2).
    Hazard,
    /// The site: too few nodes.
    Site,
    /// Missing software. It is found when the site is queried, so it is not in the plan file.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mapping::Mapping, units::ByteSize};

    #[test]
    fn the_columns_of_a_point_read_back_as_the_same_point() {
        let plain = Point {
            site: "here".into(),
            storage: "run".into(),
            ..Point::default()
        };
        let moments = [
            Moment::AtS(vec![0.25, 7.0]),
            Moment::AfterStep(3),
            Moment::SizeOnly,
            Moment::SizeOnlyAfterStep(9),
        ];
        let full = moments.into_iter().map(|moment| Point {
            mapping: "6Nx4P+1Nx1P".parse::<Mapping>().expect("a mapping"),
            checkpointer: CheckpointerKind::Dmtcp,
            compression: Compression::Gzip,
            aggregators: Some(2),
            cb_buffer: Some(ByteSize(1 << 24)),
            restart_check: Some(true),
            moment: Some(moment),
            tracer: Some(TracerKind::Strace),
            ..plain.clone()
        });
        for point in full.chain([plain.clone()]) {
            let columns = Point::COLUMNS
                .iter()
                .map(|column| column.name)
                .zip(point.to_columns());
            let columns: std::collections::HashMap<&str, ColumnValue> = columns.collect();
            assert_eq!(
                Point::from_columns(|name| Ok(columns[name].clone()), |name| name),
                Ok(point)
            );
            let damaged = |name| {
                Ok(if name == "moment" {
                    ColumnValue::Text("at noon".into())
                } else {
                    columns[name].clone()
                })
            };
            assert_eq!(Point::from_columns(damaged, |name| name), Err("moment"));
        }
    }
}
