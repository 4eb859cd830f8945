//! The campaign file: read with source positions, checked, and converted to a [`Spec`].

mod blocks;
mod build;
mod by_code;
mod checker;
mod checkpoint_plan;
mod cluster;
mod cluster_settings;
mod delta_settings;
mod deltas;
mod deployment;
mod deployment_settings;
mod ec2;
mod ec2_names;
mod ec2_settings;
mod expansion;
mod factor;
mod grid;
mod install;
mod kept_hosts;
mod layout_rules;
mod level;
mod level_rules;
mod level_settings;
mod levels;
mod load;
mod model;
mod predict;
mod predict_settings;
mod raw;
mod run_environment;
#[cfg(feature = "schema")]
mod schema;
mod settings;
mod spec;
mod strategy_rules;
mod tables;
mod variant;

pub use blocks::{Block, BlockKind, Blocks};
pub use by_code::SmallCampaign;
pub use checker::KnownHosts;
pub use checkpoint_plan::{
    CheckpointPlan, Directory, LevelPlan, Loss, Place, Reach, SCRATCH, StageLoad, StagePlan, Timing,
};
pub use cluster::{
    Allocation, Cluster, Gpus, InventorySource, SlurmLauncher, SlurmSettings, WARNING_S,
};
pub use deltas::{DeltaSettings, DeltaWay};
pub use deployment::{DeployedFileSystem, Deployment};
pub use ec2::{
    Budget, Credits, Disk, Ec2Settings, Image, InstanceSpec, Market, OnInterruption, PriceSettings,
    Volume, WhenShort,
};
pub use ec2_settings::KNOWN_IMAGES;
pub use expansion::{Combination, Expansion};
pub use install::InstallSettings;
pub use kept_hosts::{keep_hosts, kept_hosts};
pub use levels::{FlushSettings, LEVELS, LevelSettings, NoGroups, parity_groups};
pub use load::{load, load_text, load_variant, load_with_hosts};
pub use model::{
    CheckpointSettings, DEFAULT_LOCALE, DmtcpSettings, Format, MpiFamily, MpiIo, MpiLibrary,
    MpiSource, Order, ReportSettings, RunSettings, Site, SiteKind, StorageArea, StorageKind,
    TraceSettings, Until,
};
pub use predict::{PredictSettings, Role};
pub use run_environment::{RunEnvironment, SiteApp};
#[cfg(feature = "schema")]
pub use schema::{app_schema, schema};
pub use spec::Spec;
