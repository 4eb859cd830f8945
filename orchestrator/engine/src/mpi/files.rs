//! Values for the templates of a launch's files.

use super::{launch::LaunchRequest, romio};
use serde_json::{Value, json};

/// Returns the values for the templates of [`Launch::files`](super::Launch::files): `nodes` (host, number of processes), `ranks` (host of each rank),
/// `bound` (rank, host, and first and last core, if threads are bound), `hints` (of ROMIO), `marker` and `export`.
pub fn file_values(request: &LaunchRequest) -> Value {
    let nodes: Vec<Value> = request
        .placement()
        .map(|(host, processes)| json!({ "host": host, "processes": processes }))
        .collect();
    let ranks: Vec<&str> = request
        .placement()
        .flat_map(|(host, processes)| std::iter::repeat_n(host, processes as usize))
        .collect();
    let threads = request.bound_threads();
    let on_nodes = request
        .placement()
        .flat_map(|(host, processes)| (0..processes).map(move |on_node| (host, on_node)));
    let bound: Vec<Value> = (0u32..)
        .zip(on_nodes)
        .filter_map(|(rank, (host, on_node))| {
            let first = on_node * threads?;
            Some(
                json!({ "rank": rank, "host": host, "first": first, "last": first + threads? - 1 }),
            )
        })
        .collect();
    let hints: Vec<Value> = romio::hints(request)
        .into_iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    json!({ "nodes": nodes, "ranks": ranks, "bound": bound, "hints": hints, "marker": request.marker, "export": request.export })
}
