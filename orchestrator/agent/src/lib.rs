//! The agent: cvc's engine on the head node of a cluster, where it continues to run without the controller.
//!
//! It works in its own directory on the head node, the spool. The controller writes requests into the spool and reads events from it, both through
//! [`attach`], a relay that runs as long as the connection lasts. The agent does not depend on the relay.
//!
//! | in the spool | contents |
//! |---|---|
//! | `orders.json` | the settings that runs depend on, and the nodes: [`Orders`] |
//! | `in/NAME.json` | requests, complete when they have that name: [`Request`] |
//! | `in/unreadable/` | requests that cannot be read |
//! | `events.jsonl` | events, numbered: [`Event`] |
//! | `agent.json` | the process of the last agent, which holds a lock on `agent.lock` |
//! | `agent.log` | the agent's standard error |
//! | `beat` | its modification time shows that the agent is alive, also to other machines |
//! | `controller` | its modification time shows when a controller was last connected |
//! | `runs/` | directories of runs, as in a campaign, until the controller has fetched them |

mod attach;
mod attempts;
mod error;
mod error_tolerance;
mod head;
mod history;
mod inbox;
mod node_watch;
mod nodes;
mod protocol;
mod ready;
mod serve;
mod spool;
mod spot_interruption;
mod start;
mod wake;

pub use attach::{Named, NewEvents, Relay, RelayLine, RelayMessage, attach, read_relay_line};
pub use error::{AgentError, ReadyError, SpreadError};
pub use head::{Head, LostNodes, Workplace};
pub use history::end_leftovers;
pub use protocol::{AwaitedAttempt, DispatchId, Event, Numbered, Orders, Request};
pub use protocol::{PROTOCOL, REHEARSED};
pub use serve::{serve, serve_on};
pub use spool::{EventLog, OldEvents, Spool, SpoolError};
pub use spot_interruption::NodeNotice;
pub use start::start;
pub use wake::Arrivals;
