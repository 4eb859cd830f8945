//! The registry of factors: a macro that calls another one with its entries.

/// The built-in factors, in the order of tables, of plans and of the index. From an entry follow: the key in `[matrix]`, `[[zip]]`,
/// `[[points]]` and conditions with its JSON Schema; the field of [`Point`](crate::point::Point) and of the grid; what enters identifiers; the column
/// of the index and of data files; the heading in reports; the rows of tables in the documentation.
///
/// `places` say what runs where: their values are names of other parts of the campaign, and `campaign/build.rs` looks up each in its own way.
/// `also` is a factor that follows from the one before. `settings` say how it runs; an entry is
///
/// ```text
/// /// What it is; shown in the schema and in the documentation. Default: what holds without it.
/// #[serde(...)]                     for its field of `Point`: one that plans of earlier versions do not have needs a default
/// Name name: TYPE IN A POINT {      its default is the neutral level; `Option<LEVEL>`: `None` where it says nothing
///     level: LEVEL = |known| ...,   a level in the campaign file, and the one of a file without the factor
///     heading: "in reports",
///     column: "in_the_index",
///     needs: Nothing,               a variant of `Needs`: without it the factor says nothing of a point
///     digest: PointUnlessNeutral,   a variant of `DigestPart`; this one keeps the identifiers of points that are older than the factor
/// }
/// ```
#[macro_export]
macro_rules! factors {
    ($with:ident $(, $($head:tt)*)?) => {
        $with! { $($($head)*;)?
            places {
                /// Sites of this file. Default: all of them.
                Site site: String, heading "site";
                /// Application descriptors (`apps/NAME.toml`).
                App app: String, heading "application";
                /// Workloads of the descriptor. Default: its only one.
                Class class: String, heading "class";
                /// Processes on nodes, as in `1Nx4P`.
                Mapping mapping: $crate::mapping::Mapping, heading "mapping", also {
                    /// Total processes; without `mapping` they run on one node.
                    Processes processes: u32, heading "processes"
                };
                /// MPI libraries of the site. Default: its first.
                Mpi mpi: String, heading "MPI";
            }
            settings {
                /// What writes the checkpoints. Default: `none`.
                Checkpointer checkpointer: $crate::point::CheckpointerKind {
                    level: $crate::point::CheckpointerKind = |_| $crate::point::CheckpointerKind::None,
                    heading: "checkpointer",
                    column: "checkpointer",
                    needs: Nothing,
                    digest: Point,
                }
                /// How DMTCP stores images. Default: `none`.
                Compression compression: $crate::point::Compression {
                    level: $crate::point::Compression = |_| $crate::point::Compression::None,
                    heading: "compression",
                    column: "compression",
                    needs: Compression,
                    digest: Point,
                }
                /// Total collective-buffering aggregators, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                Aggregators aggregators: Option<u32> {
                    level: Option<u32> = |_| None,
                    heading: "aggregators",
                    column: "aggregators",
                    needs: Nothing,
                    digest: Point,
                }
                /// Collective buffer of one aggregator, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                CbBuffer cb_buffer: Option<$crate::units::ByteSize> {
                    level: Option<$crate::units::ByteSize> = |_| None,
                    heading: "collective buffer",
                    column: "cb_buffer_bytes",
                    needs: Nothing,
                    digest: Point,
                }
            }
            places {
                /// Storage areas of the site. Default: its first.
                Storage storage: String, heading "storage";
            }
            settings {
                /// Whether runs are restarted from their last checkpoint and must verify again. Default: as `checkpoint` says.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                RestartCheck restart_check: Option<bool> {
                    level: bool = |known| known.checkpoint.restart_check,
                    heading: "restart check",
                    column: "restart_check",
                    needs: Checkpoints,
                    digest: Settings,
                }
                /// When DMTCP takes checkpoints. Default: as `checkpoint` says.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                Moment moment: Option<$crate::point::Moment> {
                    level: $crate::point::Moment = |known| known.checkpoint.moment.clone(),
                    heading: "moment",
                    column: "moment",
                    needs: DrivenCheckpoints,
                    digest: Settings,
                }
                /// What traces the runs. Default: as `trace` says.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                Tracer tracer: Option<$crate::point::TracerKind> {
                    level: $crate::point::TracerKind = |known| known.trace.tracer,
                    heading: "tracer",
                    column: "tracer",
                    needs: Nothing,
                    digest: Settings,
                }
            }
        }
    };
}

/// Calls a macro with the settings among the factors, each as `Name name: TYPE IN A POINT, LEVEL = DEFAULT, NEEDS, DIGEST PART;`.
macro_rules! settings {
    ($with:ident) => {
        $crate::factors! { settings, $with }
    };
    ($with:ident; $(
        places { $($place:tt)* }
        settings { $(
            $(#[$doc:meta])*
            $Name:ident $name:ident: $type:ty {
                level: $level:ty = $default:expr,
                heading: $heading:literal,
                column: $column:literal,
                needs: $needs:ident,
                digest: $digest:ident,
            }
        )* }
    )*) => {
        $with! { $($($Name $name: $type, $level = $default, $needs, $digest;)*)* }
    };
}
pub(crate) use settings;
