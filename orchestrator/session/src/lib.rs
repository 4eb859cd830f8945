//! What commands do with a campaign: open it, ask its sites, estimate it, install what it needs, and hold its sessions. Commands parse their
//! arguments, call this, and show what comes of it.

mod audience;
pub mod campaigns;
mod error;
mod expectations;
pub mod explanation;
mod hold;
mod installing;
mod machine;
pub mod run_words;
mod session;
mod shortage;
mod trial;

pub use audience::Audience;
pub use error::SessionError;
pub use expectations::Expectations;
pub use hold::{Ended, HoldOptions};
pub use installing::{install_all, install_one};
pub use machine::{Machine, ask_sites};
pub use session::Session;
pub use shortage::{Resource, Shortage};
pub use trial::{Records, Scratch, Trial};
