//! The JSON Schema of campaign files and application descriptors.
//!
//! The sections in [`super::raw`] are read with the types that describe them. `[matrix]`, `[[zip]]`, `[[points]]`, `when` and the file as a whole are
//! read by [`super::factor`] and [`super::load`], which keep a position for every value; the types in this file only describe them. A test checks
//! that both have the same keys.

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

/// A campaign of `cvc`: sites, a matrix of factors, repeats, measurements and reports.
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
    /// Default variant; set in the copy of the file kept with the runs.
    variant: Option<String>,
    /// One-line description.
    #[serde(default)]
    description: String,
    /// Sites by name.
    sites: IndexMap<String, RawSite>,
    /// Factors; each combination of their values is a point.
    matrix: Option<RawMatrix>,
    /// Factors that vary in parallel instead of being combined.
    #[serde(default)]
    zip: Vec<RawZip>,
    /// Combinations that are not run.
    #[serde(default)]
    exclude: Vec<RawRule>,
    /// Combinations expected to fail: their failures do not fail the campaign, and successes are reported.
    #[serde(default)]
    expect_failure: Vec<RawRule>,
    /// Extra points. A missing factor has the matrix's value if it is single, else its default.
    #[serde(default)]
    points: Vec<RawPoint>,
    /// Repeats, order, limits.
    #[serde(default)]
    run: RawRun,
    /// When and how checkpoints are taken.
    #[serde(default)]
    checkpoint: RawCheckpoint,
    /// Tracing.
    #[serde(default)]
    trace: TraceSettings,
    /// Report settings.
    #[serde(default)]
    report: ReportSettings,
    /// Cost limit.
    budget: Option<Budget>,
    /// Training and held-out points of models, and bounds for predictions.
    predict: Option<RawPredict>,
    /// Variants of the campaign by name.
    #[serde(default)]
    variants: IndexMap<String, RawVariant>,
}

/// Changes of a variant: its tables are merged with the file's by key; lists and single values replace the file's.
#[derive(JsonSchema)]
#[schemars(rename = "Variant")]
#[serde(deny_unknown_fields)]
struct RawVariant {
    /// Keys of the file to remove first, as in `matrix.aggregators`.
    #[serde(default)]
    remove: Vec<String>,
    /// One-line description.
    description: Option<String>,
    /// Changes by site.
    #[serde(default)]
    sites: IndexMap<String, IndexMap<String, serde_json::Value>>,
    /// Changed factors. `processes` or `mapping` here replaces both.
    matrix: Option<RawMatrix>,
    /// Replaces the file's.
    zip: Option<Vec<RawZip>>,
    /// Replaces the file's.
    exclude: Option<Vec<RawRule>>,
    /// Replaces the file's.
    expect_failure: Option<Vec<RawRule>>,
    /// Replaces the file's.
    points: Option<Vec<RawPoint>>,
    /// Changed run settings.
    run: Option<RawRun>,
    /// Changed checkpoint settings.
    checkpoint: Option<RawCheckpoint>,
    /// Changed tracing.
    trace: Option<TraceSettings>,
    /// Changed report settings.
    report: Option<ReportSettings>,
    /// Changed cost limit.
    budget: Option<Budget>,
    /// Changed training and held-out points, or bounds.
    predict: Option<IndexMap<String, serde_json::Value>>,
}

macro_rules! define_table {
    ($(#[$about:meta])* $table:ident, $title:literal, $one:ident; $(
        places { $(
            $(#[$place_doc:meta])+
            $Place:ident $place:ident: $place_type:ty, heading $place_heading:literal $(, also {
                $(#[$also_doc:meta])+
                $Also:ident $also:ident: $also_type:ty, heading $also_heading:literal, digest $also_digest:ident
            })*;
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
                $($($(#[$also_doc])+ $also: Option<$one<$also_type>>,)* $(#[$place_doc])+ $place: Option<$one<$place_type>>,)*
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
    /// Lists of equal length, combined value by value.
    RawZip, "Zip", List
}
crate::factors! {
    define_table,
    /// One value for each factor.
    RawPoint, "Point", Single
}

/// Combinations with a reason.
#[derive(JsonSchema)]
#[schemars(rename = "Exclude")]
#[serde(deny_unknown_fields)]
struct RawRule {
    /// Factors and values that must all match; any value of a list. Free factors as `NAME` or `user.NAME`.
    when: IndexMap<String, serde_json::Value>,
    /// Reason, shown in plans and reports.
    #[schemars(length(min = 1))]
    reason: String,
}

/// Training and held-out points, and bounds for predictions.
#[derive(JsonSchema)]
#[schemars(rename = "Predict")]
#[serde(deny_unknown_fields)]
struct RawPredict {
    /// Conditions as in an exclude's `when`; models are fitted on points that meet one of them.
    #[schemars(length(min = 1))]
    train: Vec<IndexMap<String, serde_json::Value>>,
    /// Conditions of points to test models on. Default: all other points.
    #[schemars(length(min = 1))]
    held_out: Option<Vec<IndexMap<String, serde_json::Value>>>,
    /// Maximum mean error in percent, by quantity, over the held-out points of a program and MPI library.
    #[serde(default)]
    max_error: RawBounds,
    /// Minimum share of held-out cells with a 95 % interval, and of those within it, percent. Default: none.
    #[schemars(range(max = 100))]
    min_coverage: Option<f64>,
}

/// Percents by quantity.
#[derive(Default, JsonSchema)]
#[schemars(rename = "Bounds", extend("propertyNames" = { "enum": crate::quantity::Quantity::judged().map(crate::quantity::Quantity::short).collect::<Vec<_>>() }))]
#[serde(transparent)]
struct RawBounds(IndexMap<String, f64>);

/// Returns the JSON Schema of campaign files.
pub fn schema() -> serde_json::Value {
    let mut value = schemars::schema_for!(RawCampaign).to_value();
    value["title"] = "campaign file of cvc".into();
    value
}

/// Returns the JSON Schema of application descriptors.
pub fn app_schema() -> serde_json::Value {
    let mut value = schemars::schema_for!(crate::app::descriptor::Descriptor).to_value();
    value["title"] = "application descriptor of cvc".into();
    value
}
