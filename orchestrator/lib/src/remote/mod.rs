//! The controller's end of a site of several machines: it puts cvc there, starts an agent or finds the one that went on without it, hands
//! attempts over and brings back what came of them.

mod gate;
mod hub;
mod link;
mod pump;
mod site;
mod words;

pub(crate) use link::Held;
pub(crate) use site::{Opening, Remote, identity};
pub(crate) use words::{Speaker, Word};
