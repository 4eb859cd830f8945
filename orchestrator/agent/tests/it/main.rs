//! The agent in memory: its spool is real, its nodes and its clock are not.

mod end;
mod nodes;
mod relay;
mod requests;
mod scripted;
mod takeover;
