//! The JSON Schema of campaign files and application descriptors.
//!
//! The sections in [`super::raw`] are read as they are described there. `[matrix]`, `[[zip]]`, `[[points]]`, `when` and the file as a whole
//! are read by
//! [`super::factor`] and [`super::load`], which keep a position for every value: the types here only describe them. A test holds both to
//! the same keys.

#![expect(dead_code, reason = "these types only describe the file")]

use super::{
    ec2::Budget,
    level::Level,
    model::{ReportSettings, TraceSettings},
    raw::{RawCheckpoint, RawRun, RawSite},
};
use crate::point::UserValue;
use indexmap::IndexMap;
use schemars::JsonSchema;

/// A value or a list of values.
#[derive(JsonSchema)]
#[serde(untagged)]
enum OneOrMany<T> {
    /// One value.
    One(T),
    /// Several.
    Many(Vec<T>),
}

/// A campaign of `cvc`: sites, a matrix of factors, repeats, what to measure and report.
#[derive(JsonSchema)]
#[schemars(rename = "Campaign")]
#[serde(deny_unknown_fields)]
struct RawCampaign {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    schema: u32,
    /// Name of the campaign and of its directory: small letters, digits, `-` and `_`.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]*$"))]
    name: String,
    /// The variant to use if none is given; set in the copy of the file that is kept with the runs.
    variant: Option<String>,
    /// One line for people.
    #[serde(default)]
    description: String,
    /// Places where runs happen, by name.
    sites: IndexMap<String, RawSite>,
    /// Factors; every combination of their values is a point.
    matrix: Option<RawMatrix>,
    /// Factors that vary together instead of being combined with each other.
    #[serde(default)]
    zip: Vec<RawZip>,
    /// Combinations that are not run.
    #[serde(default)]
    exclude: Vec<RawExclude>,
    /// Extra points. A missing factor takes the matrix's value if that is a single one, else its default.
    #[serde(default)]
    points: Vec<RawPoint>,
    /// Repeats, order, limits.
    #[serde(default)]
    run: RawRun,
    /// When and how checkpoints are taken.
    #[serde(default)]
    checkpoint: RawCheckpoint,
    /// What is traced.
    #[serde(default)]
    trace: TraceSettings,
    /// What is reported.
    #[serde(default)]
    report: ReportSettings,
    /// What the campaign may cost.
    budget: Option<Budget>,
    /// The points that models are fitted on and judged on, and the bounds that they must keep.
    predict: Option<RawPredict>,
    /// The same campaign with some keys changed, by name.
    #[serde(default)]
    variants: IndexMap<String, RawVariant>,
}

/// What a variant changes: its tables are merged with those of the file key by key; lists and single values replace the file's.
#[derive(JsonSchema)]
#[schemars(rename = "Variant")]
#[serde(deny_unknown_fields)]
struct RawVariant {
    /// Keys of the file to remove first, as in `matrix.aggregators`.
    #[serde(default)]
    remove: Vec<String>,
    /// One line for people.
    description: Option<String>,
    /// What differs, by site.
    #[serde(default)]
    sites: IndexMap<String, IndexMap<String, serde_json::Value>>,
    /// Factors that differ. `processes` or `mapping` here takes the place of both.
    matrix: Option<RawMatrix>,
    /// Instead of the file's.
    zip: Option<Vec<RawZip>>,
    /// Instead of the file's.
    exclude: Option<Vec<RawExclude>>,
    /// Instead of the file's.
    points: Option<Vec<RawPoint>>,
    /// Settings of the runs that differ.
    run: Option<RawRun>,
    /// Settings of the checkpoints that differ.
    checkpoint: Option<RawCheckpoint>,
    /// What is traced instead.
    trace: Option<TraceSettings>,
    /// Settings of the report that differ.
    report: Option<ReportSettings>,
    /// What it may cost instead.
    budget: Option<Budget>,
    /// Other training and held-out points, or bounds.
    predict: Option<IndexMap<String, serde_json::Value>>,
}

macro_rules! define_table {
    ($(#[$about:meta])* $table:ident, $title:literal, $one:ident; $(
        places { $(
            $(#[$place_doc:meta])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also {
                $(#[$also_doc:meta])+
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal
            })?;
        )* }
        settings { $(
            $(#[doc = $doc:literal])+
            $(#[serde($($serde:tt)*)])?
            $Name:ident $name:ident: $type:ty { level: $level:ty = $default:expr, $($rest:tt)* }
        )* }
    )*) => {
        $(#[$about])*
        #[derive(JsonSchema)]
        #[schemars(rename = $title)]
        #[serde(deny_unknown_fields)]
        struct $table {
            $(
                $($($(#[$also_doc])+ $also: Option<$one<$also_type>>,)? $(#[$place_doc])+ $place: Option<$one<$place_type>>,)*
                $($(#[doc = $doc])+ $name: Option<$one<<$level as Level>::Written>>,)*
            )*
            /// Free factors, for templates as `{{user.NAME}}`.
            user: Option<IndexMap<String, $one<UserValue>>>,
        }
    };
}

type Single<T> = T;
type List<T> = Vec<T>;

crate::factors! {
    define_table,
    /// Each key is a factor with a value or a list of values.
    RawMatrix, "Matrix", OneOrMany
}
crate::factors! {
    define_table,
    /// Lists of equal length; their n-th values go together.
    RawZip, "Zip", List
}
crate::factors! {
    define_table,
    /// One value for each factor.
    RawPoint, "Point", Single
}

/// Combinations that are not run.
#[derive(JsonSchema)]
#[schemars(rename = "Exclude")]
#[serde(deny_unknown_fields)]
struct RawExclude {
    /// Factors and values, all of which must match; of a list, any. Free factors as `NAME` or `user.NAME`.
    when: IndexMap<String, serde_json::Value>,
    /// Why; shown in plans and reports.
    #[schemars(length(min = 1))]
    reason: String,
}

/// Training and held-out points, and bounds that the predictions must keep.
#[derive(JsonSchema)]
#[schemars(rename = "Predict")]
#[serde(deny_unknown_fields)]
struct RawPredict {
    /// Conditions as in an exclude's `when`; models are fitted on the points that meet one of them.
    #[schemars(length(min = 1))]
    train: Vec<IndexMap<String, serde_json::Value>>,
    /// Conditions for the points that models are judged on. Default: every point that is not a training point.
    #[schemars(length(min = 1))]
    held_out: Option<Vec<IndexMap<String, serde_json::Value>>>,
    /// Largest mean error in percent, by quantity, over the held-out points of a program and MPI library.
    #[serde(default)]
    max_error: RawBounds,
    /// Minimum share of the held-out cells that have a 95 % interval, and of those the share that lie within it, percent. Default: no bound.
    #[schemars(range(max = 100))]
    min_coverage: Option<f64>,
}

/// Percents by quantity.
#[derive(Default, JsonSchema)]
#[schemars(rename = "Bounds", extend("propertyNames" = { "enum": crate::quantity::Quantity::judged().map(crate::quantity::Quantity::short).collect::<Vec<_>>() }))]
#[serde(transparent)]
struct RawBounds(IndexMap<String, f64>);

/// The JSON Schema of campaign files.
pub fn schema() -> serde_json::Value {
    let mut value = schemars::schema_for!(RawCampaign).to_value();
    value["title"] = "campaign file of cvc".into();
    value
}

/// The JSON Schema of application descriptors.
pub fn app_schema() -> serde_json::Value {
    let mut value = schemars::schema_for!(crate::app::descriptor::Descriptor).to_value();
    value["title"] = "application descriptor of cvc".into();
    value
}
