//! The campaign file: read with source positions, checked, and turned into a [`Spec`].

mod error;
mod model;

pub use error::{SpecError, SpecErrors};
pub use model::{
    CheckpointSettings, DmtcpSettings, Format, LoadedApp, Moment, MpiFamily, MpiIo, MpiLibrary, MpiSource, Order, ReportSettings,
    RunSettings, Site, SiteKind, Spec, StorageArea, StorageKind, TraceSettings, TracerKind,
};
