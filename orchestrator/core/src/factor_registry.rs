//! The registry of factors: a macro that calls another macro with the entries.

/// The built-in factors, in the order of tables, of plans and of the index. Each entry defines the key in `[matrix]`, `[[zip]]`, `[[points]]` and
/// conditions, with its JSON Schema; the field of [`Point`](crate::point::Point) and of the grid; the part in identifiers; the column of the index
/// and of data files; the heading in reports; and the rows of tables in the documentation.
///
/// `places` define what runs where: their values are names of other parts of the campaign, and `campaign/build.rs` looks up each in its own way.
/// `also` are factors that follow from the factor before them. `settings` define how a point runs. An entry of `settings` has this form:
///
/// ```text
/// /// Description, shown in the schema and in the documentation. Default: the behaviour without the factor.
/// #[serde(...)]                     attributes of the field of `Point`: needs a default if plans of earlier versions lack the field
/// Name name: TYPE IN A POINT {      the default of the type is the neutral level; `Option<LEVEL>`: `None` if the file gives no level
///     level: LEVEL = |known| ...,   type of a level in the campaign file, and the level of a file without the factor
///     heading: "in reports",
///     column: "in_the_index",
///     needs: Nothing,               a variant of `Needs`: the ability without which the factor does not apply to a point
///     digest: PointUnlessNeutral,   a variant of `DigestPart`; this one keeps the identifiers of points from before the factor existed
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
                /// Processes on nodes, as in `1Nx4P`; with 6 threads in each as in `2Nx2Px6T`.
                Mapping mapping: $crate::mapping::Mapping, heading "mapping", also {
                    /// Total processes; without `mapping` they run on one node.
                    Processes processes: u32, heading "processes", digest Point
                }, also {
                    /// Threads per process, such as OpenMP's. Default: from `mapping`, else chosen by the program.
                    Threads threads: u32, heading "threads", digest PointUnlessNeutral
                };
                /// MPI libraries of the site. Default: its first.
                Mpi mpi: String, heading "MPI";
            }
            settings {
                /// Checkpointer. Default: `none`.
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
                /// How checkpoints are written and kept. Default: `sync`.
                #[serde(skip_serializing_if = "crate::strategy::Strategy::is_neutral", default)]
                Strategy strategy: $crate::strategy::Strategy {
                    level: $crate::strategy::Strategy = |_| $crate::strategy::Strategy::Sync,
                    heading: "strategy",
                    column: "strategy",
                    needs: Checkpoints,
                    digest: PointUnlessNeutral,
                }
                /// Whose threads write with `thread`, `staggered`. Default: `process`.
                #[serde(skip_serializing_if = "crate::strategy::CheckpointWriters::is_neutral", default)]
                Writers writers: $crate::strategy::CheckpointWriters {
                    level: $crate::strategy::CheckpointWriters = |_| $crate::strategy::CheckpointWriters::Process,
                    heading: "checkpoint writers",
                    column: "writers",
                    needs: Checkpoints,
                    digest: PointUnlessNeutral,
                }
                /// Policy for a checkpoint due before the previous one is safe. Default: `wait`.
                #[serde(skip_serializing_if = "crate::strategy::WhenLate::is_neutral", default)]
                WhenLate when_late: $crate::strategy::WhenLate {
                    level: $crate::strategy::WhenLate = |_| $crate::strategy::WhenLate::Wait,
                    heading: "when late",
                    column: "when_late",
                    needs: Checkpoints,
                    digest: PointUnlessNeutral,
                }
                /// File layout of the program's own checkpoints. Default: `strided`.
                #[serde(skip_serializing_if = "crate::strategy::CheckpointLayout::is_neutral", default)]
                Layout layout: $crate::strategy::CheckpointLayout {
                    level: $crate::strategy::CheckpointLayout = |_| $crate::strategy::CheckpointLayout::Strided,
                    heading: "checkpoint layout",
                    column: "layout",
                    needs: Checkpoints,
                    digest: PointUnlessNeutral,
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
                /// Data sieving of writes by ROMIO: `enable`, `disable`, `automatic`, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                RomioDsWrite romio_ds_write: Option<$crate::mpi_io::HintSwitch> {
                    level: Option<$crate::mpi_io::HintSwitch> = |_| None,
                    heading: "data sieving",
                    column: "romio_ds_write",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
                /// Collective buffering of writes by ROMIO: `enable`, `disable`, `automatic`, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                RomioCbWrite romio_cb_write: Option<$crate::mpi_io::HintSwitch> {
                    level: Option<$crate::mpi_io::HintSwitch> = |_| None,
                    heading: "collective buffering",
                    column: "romio_cb_write",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
                /// Buffer of ROMIO for data sieving of writes, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                IndWrBufferSize ind_wr_buffer_size: Option<$crate::units::ByteSize> {
                    level: Option<$crate::units::ByteSize> = |_| None,
                    heading: "sieving buffer",
                    column: "ind_wr_buffer_size_bytes",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
                /// Bytes that OMPIO writes at once, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                CycleBufferSize cycle_buffer_size: Option<$crate::units::ByteSize> {
                    level: Option<$crate::units::ByteSize> = |_| None,
                    heading: "cycle buffer",
                    column: "cycle_buffer_size_bytes",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
                /// Number of OMPIO's aggregator selection method, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                GroupingOption grouping_option: Option<u32> {
                    level: Option<u32> = |_| None,
                    heading: "grouping option",
                    column: "grouping_option",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
                /// Component of Open MPI for collective I/O, as in `dynamic_gen2`, or `default`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                Fcoll fcoll: Option<$crate::mpi_io::FcollComponent> {
                    level: Option<$crate::mpi_io::FcollComponent> = |_| None,
                    heading: "fcoll component",
                    column: "fcoll",
                    needs: Nothing,
                    digest: PointUnlessNeutral,
                }
            }
            places {
                /// Storage areas of the site. Default: its first.
                Storage storage: String, heading "storage";
            }
            settings {
                /// Whether runs are restarted from their last checkpoint and verified again. Default: from `checkpoint`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                RestartCheck restart_check: Option<bool> {
                    level: bool = |known| known.checkpoint.restart_check,
                    heading: "restart check",
                    column: "restart_check",
                    needs: Checkpoints,
                    digest: Settings,
                }
                /// When DMTCP takes checkpoints. Default: from `checkpoint`.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                Moment moment: Option<$crate::point::Moment> {
                    level: $crate::point::Moment = |known| known.checkpoint.moment.clone(),
                    heading: "moment",
                    column: "moment",
                    needs: DrivenCheckpoints,
                    digest: Settings,
                }
                /// Tracer of the runs. Default: from `trace`.
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
