//! Shows a campaign in a browser: progress, runs in progress, costs so far, failures, and the report if there is one. The server is read-only,
//! listens on the loopback interface only, and requires a token.
//!
//! | file | contents |
//! | --- | --- |
//! | `snapshot.rs` | the current state of a campaign |
//! | `page.rs` | the state as HTML |
//! | `access.rs` | access control |
//! | `current.rs` | the last state, which all readers share |
//! | `answers.rs` | answers to requests |
//! | `server.rs` | listens for connections, with limits |

mod access;
mod answers;
mod current;
mod page;
mod server;
mod snapshot;

pub use access::Token;
pub use current::Served;
pub use server::{ServeError, Server};
pub use snapshot::{FailedRun, OpenRun, Snapshot, SnapshotPoint};
