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

crate::checkpointers!(
    define_kind,
    #[doc = " What writes the checkpoints of a run."]
    CheckpointerKind
);

impl Default for CheckpointerKind {
    fn default() -> Self {
        Self::None
    }
}

/// What distinguishes checkpointers outside `cvc-engine`: nothing else compares them with one another.
impl CheckpointerKind {
    /// Whether anything takes checkpoints of a run.
    pub fn takes_checkpoints(self) -> bool {
        match self {
            Self::None => false,
            Self::Application | Self::Dmtcp => true,
        }
    }

    /// Whether cvc asks for each checkpoint of a run at its [`Moment`], with software that the site has to have. The program decides itself
    /// when it writes its own.
    pub fn is_driven(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Whether the program writes checkpoints of its own.
    pub fn has_own_files(self) -> bool {
        self.takes_checkpoints() && !self.is_driven()
    }

    /// Whether it can store its checkpoints compressed, as [`Compression`] says.
    pub fn compresses(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Whether its checkpoints are images of processes, from which these are restarted where they were. A program that reads what it wrote
    /// itself is started anew.
    pub fn restarts_images(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Why runs cannot be traced by `tracer` with it, as far as that is known.
    pub fn hazard_with(self, tracer: TracerKind) -> Option<&'static str> {
        match (self, tracer) {
            (Self::Dmtcp, TracerKind::Darshan) => Some(
                "Darshan and DMTCP cannot run together: Darshan's dup2 wrapper recurses until the stack overflows; trace with strace, or run Darshan without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::DfTracer) => Some(
                "DFTracer and DMTCP cannot run together: a process that DMTCP restarts with DFTracer in it hangs; trace with strace, or run DFTracer without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::None | TracerKind::Strace)
            | (Self::None | Self::Application, _) => None,
        }
    }
}

/// How DMTCP stores images.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Piped through gzip.
    Gzip,
    /// Piped through pigz, which compresses on all cores of a node and makes files that gzip reads.
    Pigz,
}

impl Compression {
    /// All of them, none first.
    pub const ALL: [Self; 3] = [Self::None, Self::Gzip, Self::Pigz];

    /// Cores of a node with `load` processes that are busy while images are written: one for each process, or all of them.
    pub fn busy_cores(self, load: u32, cores: u32) -> u32 {
        match self {
            Self::None | Self::Gzip => load.min(cores),
            Self::Pigz => cores,
        }
    }

    /// The program that images are piped through; `None` if they are stored as they are.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Pigz => Some("pigz"),
        }
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
    /// At these seconds after the program began to compute; rising, not empty.
    AtS(Vec<f64>),
    /// After this step of the program, counted from 1, as its output tells; step 1 of a program that does not tell is its first output.
    AfterStep(u64),
    /// After the first step, and then the program is killed: sizes in minutes instead of hours.
    #[serde(rename = "size-only")]
    SizeOnly,
    /// The same after this step, for what a program allocates only later: buffers of its first output, for example.
    SizeOnlyAfterStep(u64),
    /// Again and again. A program that ends before the last has fewer.
    Series {
        /// Seconds between them; the first is so long after the program began to compute.
        every_s: f64,
        /// How many, 2 or more.
        count: u32,
        /// Whether what differs between them is measured, as it is by default.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        compare: bool,
    },
}

/// What tables add to a series that is not compared.
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
    /// As tables show it: `at 5 s`, `after step 1`, `size-only`, `every 60 s, 8 times`.
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

    /// Reads what tables show.
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
    /// Whether the program is killed after its checkpoint, for good.
    pub fn kills(&self) -> bool {
        match self {
            Self::SizeOnly | Self::SizeOnlyAfterStep(_) => true,
            Self::AtS(_) | Self::AfterStep(_) | Self::Series { .. } => false,
        }
    }

    /// Whether checkpoints come again and again.
    pub fn is_series(&self) -> bool {
        matches!(self, Self::Series { .. })
    }

    /// Whether what differs between its checkpoints is measured.
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

/// The value of a free, user-defined factor. It is available in command templates as `{{user.NAME}}`.
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

/// What a checkpointer must do for a factor to say something of a point; of several the first is the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// Nothing: it says something of every point.
    Nothing,
    /// Take checkpoints.
    Checkpoints,
    /// Take them when cvc asks for them.
    DrivenCheckpoints,
    /// Store them compressed if that is wanted.
    Compression,
}

impl Needs {
    /// Whether a checkpointer does it.
    pub fn are_met_by(self, checkpointer: CheckpointerKind) -> bool {
        match self {
            Self::Nothing => true,
            Self::Checkpoints => checkpointer.takes_checkpoints(),
            Self::DrivenCheckpoints => checkpointer.is_driven(),
            Self::Compression => checkpointer.compresses(),
        }
    }

    /// What is missing without it, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "anything",
            Self::Checkpoints => "checkpoints by DMTCP or the program",
            Self::DrivenCheckpoints | Self::Compression => "DMTCP",
        }
    }
}

/// Where the value of a factor enters the identifier of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestPart {
    /// With the values of the point.
    Point,
    /// The same, unless it is the neutral one: identifiers are older than the factor.
    PointUnlessNeutral,
    /// With the digest of the settings.
    Settings,
}

/// What is told of a built-in factor.
#[derive(Clone, Copy, Debug)]
pub struct FactorInfo {
    /// Its name in files and tables.
    pub name: &'static str,
    /// Its heading in reports.
    pub heading: &'static str,
    /// What it is, and what holds without it: the text of the JSON Schema.
    pub about: &'static str,
    /// What a checkpointer must do for it to say something of a point.
    pub needs: Needs,
    /// Where it enters identifiers.
    pub digest: DigestPart,
}

/// The column of a factor in the index.
#[derive(Clone, Copy, Debug)]
pub struct FactorColumn {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub of: ColumnType,
}

macro_rules! define_point {
    ($(
        places { $(
            $(#[doc = $place_doc:literal])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also {
                $(#[doc = $also_doc:literal])+
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal
            })?;
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
        /// One combination of factor values, every default filled in. By default each has its neutral level.
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
            $($($(#[doc = $place_doc])+ $Place, $($(#[doc = $also_doc])+ $Also,)?)* $($(#[doc = $doc])+ $Name,)*)*
        }

        impl FactorId {
            /// Returns its name in files and tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(
                        $(Self::$Place => stringify!($place), $(Self::$Also => stringify!($also),)?)*
                        $(Self::$Name => stringify!($name),)*
                    )*
                }
            }
        }

        impl Point {
            /// The names of the factors that every point has, in the order of tables.
            pub const FACTORS: &'static [&'static str] = &[
                $($(stringify!($place), $(stringify!($also),)?)* $(stringify!($name),)*)*
            ];

            /// The same factors, with what is told of them.
            pub const FACTOR_INFO: &'static [FactorInfo] = &[
                $(
                    $(
                        FactorInfo {
                            name: stringify!($place), heading: $place_heading, about: concat!($($place_doc),+),
                            needs: Needs::Nothing, digest: DigestPart::Point,
                        },
                        $(FactorInfo {
                            name: stringify!($also), heading: $also_heading, about: concat!($($also_doc),+),
                            needs: Needs::Nothing, digest: DigestPart::Point,
                        },)?
                    )*
                    $(FactorInfo {
                        name: stringify!($name), heading: $heading, about: concat!($($doc),+),
                        needs: Needs::$needs, digest: DigestPart::$digest,
                    },)*
                )*
            ];

            /// The columns that the index has for factors; what follows from a mapping is not among them.
            pub const COLUMNS: &'static [FactorColumn] = &[
                $(
                    $(FactorColumn { name: stringify!($place), of: <$place_type as FactorValue>::COLUMN },)*
                    $(FactorColumn { name: $column, of: <$type as FactorValue>::COLUMN },)*
                )*
            ];

            /// The values in [`Self::COLUMNS`].
            pub fn to_columns(&self) -> Vec<ColumnValue> {
                vec![$($(self.$place.to_column(),)* $(self.$name.to_column(),)*)*]
            }

            /// Reads the columns of a point, without its free factors; `read` gets the name of each.
            ///
            /// # Errors
            /// When `read` fails, or with `unknown` of the name where a column does not hold what [`Self::to_columns`] writes.
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

            /// The value of a factor as a table shows it; of one of [`Self::FACTORS`], or of a user-defined one. `None` for any other name, and
            /// for a factor that says nothing of this point (the moment of one without DMTCP).
            pub fn factor(&self, name: &str) -> Option<String> {
                match name {
                    $(
                        $(
                            stringify!($place) => self.$place.text(),
                            $(stringify!($also) => Some(self.$also().to_string()),)?
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
    /// Processes in all.
    pub fn processes(&self) -> u32 {
        self.mapping.processes()
    }

    /// The names of the factors that tables of these points have: all but those that are newer than identifiers and neutral in each, so that
    /// old campaigns are shown as they were.
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

    /// Whether a factor is at its neutral level: that of a campaign that does not name it.
    pub fn is_neutral(&self, name: &str) -> bool {
        self.factor(name) == Self::default().factor(name)
    }

    /// The point in a few words: `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        format!("{}.{} {} {}", self.app, self.class, self.mapping, self.mpi)
    }
}

/// First run(s) whose results are kept apart, or a counted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// Runs first, never enters statistics; numbered from 1.
    Warmup(u32),
    /// Counted; numbered from 1.
    Measured(u32),
}

/// A point of a plan with its identifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPoint {
    /// Digest of the point and of everything that affects its results.
    pub id: PointId,
    /// The factor values.
    pub point: Point,
    /// Whether it was added to tell the memory of libraries from that of programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
}

/// A point that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// The factor values.
    pub point: Point,
    /// Who excludes it.
    pub by: ExcludedBy,
    /// Why.
    pub reason: Reason,
}

/// Why a point does not run. In files it is its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Reason {
    /// A point that differs in nothing else stands for it, because these factors have no effect.
    NoEffect {
        /// Names of the factors.
        factors: Vec<String>,
        /// What they have no effect without.
        without: Needs,
    },
    /// Anything else, in words.
    Text(String),
}

impl Reason {
    /// Returns why a factor has no effect, without what stands for the point.
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
            Self::NoEffect { .. } => f.write_str("; see the point that differs in nothing else"),
            Self::Text(_) => Ok(()),
        }
    }
}

/// By the text: that is all that a plan which was read has.
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

/// Who excludes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExcludedBy {
    /// An `[[exclude]]` rule of the campaign.
    Rule,
    /// The application: process count, workload.
    Application,
    /// The combination makes no sense (more aggregators than processes, compression without DMTCP, processes against mapping).
    Combination,
    /// A known hazard (Darshan with DMTCP 4.2).
    Hazard,
    /// The site: too few nodes.
    Site,
    /// Something is not installed; found when the site was asked, so not part of the plan file.
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
