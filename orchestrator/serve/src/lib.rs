//! A campaign in a browser: progress, what runs where, costs so far, failures, and the report when there is one. Read-only, on the loopback
//! interface alone, behind a token.
//!
//! | file | what |
//! | --- | --- |
//! | `snapshot.rs` | a campaign as it is now |
//! | `page.rs` | the same as HTML |
//! | `access.rs` | who may read |
//! | `current.rs` | what was last read, for all readers |
//! | `answers.rs` | what is answered to a request |
//! | `server.rs` | listens, with limits |

mod access;
mod answers;
mod current;
mod page;
mod server;
mod snapshot;

pub use access::Token;
pub use current::Served;
pub use server::{ServeError, Server};
pub use snapshot::{FailedRun, OpenRun, PointProgress, Snapshot};
