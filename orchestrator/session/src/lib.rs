//! Operations of commands on a campaign: opens it, queries its sites, estimates it, installs its software, and carries out its sessions. Commands
//! parse their arguments, call this crate, and show the results.

mod audience;
pub mod campaigns;
pub mod command_line;
mod error;
mod expectations;
pub mod explanation;
mod hold;
mod installing;
mod machine;
pub mod own_files;
pub mod progress;
pub mod run_words;
mod session;
mod shortage;
mod software;
mod trial;
mod varying;

pub use audience::Audience;
pub use error::SessionError;
pub use expectations::Expectations;
pub use hold::{HoldEnd, HoldOptions};
pub use installing::{install_all, install_one};
pub use machine::{Machine, ask_sites};
pub use session::CampaignSession;
pub use shortage::{ShortResource, Shortage};
pub use software::SoftwareGap;
pub use trial::{Scratch, Trial, TrialRecords};
pub use varying::Varying;
