//! The agent: cvc's engine on the head of a cluster, which survives the controller.
//!
//! It works in a directory of its own on the head, the spool. The controller puts requests into it and reads events from it, both through
//! [`attach`], a relay that lives as long as the connection does; the agent goes on without.
//!
//! | in the spool | what |
//! |---|---|
//! | `orders.json` | what the runs depend on, and the nodes: [`Orders`] |
//! | `in/NAME.json` | requests, whole when they have that name: [`Request`] |
//! | `in/unreadable/` | requests that cannot be read, out of the way |
//! | `events.jsonl` | what happened, numbered: [`Event`] |
//! | `agent.json` | the process of the last agent, which holds a lock on `agent.lock` |
//! | `agent.log` | what it said |
//! | `beat` | its time of change tells that the agent is alive, also to other machines |
//! | `controller` | its time of change tells when a controller was there last |
//! | `runs/` | directories of runs, as in a campaign, until the controller has fetched them |

mod attach;
mod attempts;
mod error;
mod head;
mod history;
mod inbox;
mod node_watch;
mod nodes;
mod patience;
mod protocol;
mod ready;
mod serve;
mod spool;
mod spot_interruption;
mod start;
mod wake;

pub use attach::{Named, Relay, RelayLine, RelayMessage, attach, read_relay_line};
pub use error::{AgentError, ReadyError, SpreadError};
pub use head::{Head, LostNodes, Workplace};
pub use history::end_leftovers;
pub use protocol::PROTOCOL;
pub use protocol::{AwaitedAttempt, DispatchId, Event, Numbered, Orders, Request};
pub use serve::{serve, serve_on};
pub use spool::{EventLog, OldEvents, Spool, SpoolError};
pub use spot_interruption::NodeNotice;
pub use start::start;
pub use wake::Arrivals;
