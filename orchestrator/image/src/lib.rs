//! DMTCP checkpoint images (`ckpt_*.dmtcp`): headers, areas, zones, listing, and whole checkpoint directories.
//!
//! A plain image is read by seeking from area header to area header: the cost depends on the number of headers, not on the size. A gzip-compressed
//! image is decompressed as a stream into one fixed buffer. All types are `Send`; there is no async code.

mod area;
mod baseline;
mod compressor;
mod dir;
mod error;
mod estimate;
mod filename;
mod files;
mod gzip;
mod header;
mod in_file;
mod layout;
mod listing;
mod model;
mod name;
mod owner;
mod owner_sums;
mod plain;
mod planned;
mod reader;
mod source;
mod structural;
mod tree;
mod zone_rules;
mod zones;

pub use area::Area;
pub use baseline::{Baseline, MpiFlavour};
pub use compressor::Method;
pub use dir::{
    BrokenImage, CheckpointDir, DirImage, ReadDirOptions, Role, RoleTotals, TemporaryImage, Totals,
    read_dir, read_dir_with,
};
pub use error::{ImageError, ImageErrorKind};
pub use estimate::{
    EstimateError, EstimateOptions, ImageEstimate, MethodEstimate, PartEstimate, estimate_image,
};
pub use filename::ImageName;
pub use files::{FilesDir, FilesTotals, SavedFile};
pub use header::{Header, Range, UniquePid, V2Header, V2Release, V4Header};
pub use in_file::InFile;
pub use layout::Layout;
pub use listing::write_listing;
pub use model::{Family, Format, Image, Region};
pub use name::Name;
pub use owner_sums::{OwnerBytes, OwnerSums, OwnerZone, Part};
pub use planned::PlannedImage;
pub use reader::{ReadOptions, is_complete, read_image, read_image_with};
pub use tree::{
    FoundImages, ImageTree, SavedFiles, TreeImage, TreeLimit, UnreadImage, find_images, read_tree,
};
pub use zones::{RuleSums, Sub, SubZone, Zone, ZoneBytes, Zones};

/// The page size of the format, bytes: a constant of DMTCP, even where hardware pages are larger.
pub const PAGE: usize = 4096;
