//! Names, units and files of cvc: points, mappings, the campaign file, the plan, the journal, and what is kept on disk. Nothing here runs anything.

pub mod app;
pub mod budget_share;
pub mod campaign;
pub mod clock;
pub mod embedded;
pub mod environment;
pub mod factor_registry;
pub mod factor_value;
pub mod fsck;
pub mod hosts;
pub mod ids;
pub mod inventory;
pub mod journal;
pub mod lease;
pub mod log;
pub mod mapping;
pub mod names;
pub mod nodelist;
pub mod outcome;
pub mod panics;
pub mod paths;
pub mod plan;
pub mod point;
pub mod price;
pub mod quantity;
pub mod record;
pub mod registry;
pub mod source;
pub mod spending;
pub mod stop;
pub mod store;
pub mod units;

pub use cvc_os::visible;
