//! What the templates of a launch's files are filled with.

use super::{launch::LaunchRequest, romio};
use serde_json::{Value, json};

/// Returns the values for the templates of [`Launch::files`](super::Launch::files): `nodes` (host, processes), `ranks` (the host of each
/// rank), `hints` (ROMIO's), `marker` and `export`.
pub fn file_values(request: &LaunchRequest) -> Value {
    let nodes: Vec<Value> = request
        .placement()
        .map(|(host, processes)| json!({ "host": host, "processes": processes }))
        .collect();
    let ranks: Vec<&str> = request
        .placement()
        .flat_map(|(host, processes)| std::iter::repeat_n(host, processes as usize))
        .collect();
    let hints: Vec<Value> = romio::hints(request)
        .into_iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    json!({ "nodes": nodes, "ranks": ranks, "hints": hints, "marker": request.marker, "export": request.export })
}
