//! Checks the section `[checkpoint.levels]`.

use super::{
    checker::{Checker, SpanLookup},
    levels::{FlushSettings, LevelSettings},
    model::{CheckpointSettings, Site, StorageKind},
    raw::{RawFlush, RawLevels},
};
use crate::source::{Step, suggestion};
use indexmap::IndexMap;

/// Maximum of `keep` and `group`.
const MAX: u32 = 1000;

/// Checks the section; `place` returns positions below `[checkpoint]`.
pub fn read(check: &mut Checker<'_>, raw: &RawLevels, place: &SpanLookup<'_>) -> LevelSettings {
    let at = |key: &'static str| place(&["levels".into(), key.into()]);
    for (key, value, min, hint) in [
        (
            "keep",
            raw.keep,
            1,
            "the last complete checkpoint is always kept: write 1 or more",
        ),
        (
            "group",
            raw.group,
            2,
            "a parity group needs at least 2 nodes; 4 or 8 are usual",
        ),
    ] {
        if !(min..=MAX).contains(&value) {
            check.fail(
                at(key),
                format!("`{key}` is {value}, expected {min} to {MAX}"),
                hint,
            );
        }
    }
    for (i, node) in raw.lose.iter().enumerate() {
        let way: [Step<'_>; 3] = ["levels".into(), "lose".into(), i.into()];
        if *node == 0 {
            check.fail(
                place(&way),
                "node 0",
                "nodes are numbered from 1 in the order of the mapping",
            );
        } else if raw.lose[..i].contains(node) {
            check.fail(
                place(&way),
                format!("node {node} is given twice"),
                "remove one",
            );
        }
    }
    LevelSettings {
        keep: raw.keep,
        group: raw.group,
        flush: flush(check, raw, place),
        lose: raw.lose.clone(),
    }
}

fn flush(
    check: &mut Checker<'_>,
    raw: &RawLevels,
    place: &SpanLookup<'_>,
) -> Option<FlushSettings> {
    let at = |key: &'static str| place(&["levels".into(), key.into()]);
    match (raw.flush_every, &raw.flush_to) {
        (0, None) => {
            if raw.flush == RawFlush::Behind {
                check.fail(
                    at("flush"),
                    "`flush` without `flush_every`",
                    "set which checkpoints are flushed, as in flush_every = 4",
                );
            }
            None
        }
        (0, Some(_)) => {
            check.fail(
                at("flush_to"),
                "`flush_to` without `flush_every`",
                "set which checkpoints are flushed, as in flush_every = 4, or remove it",
            );
            None
        }
        (_, None) => {
            check.fail(
                at("flush_every"),
                "`flush_every` without `flush_to`",
                "set a shared storage area of the site, as in flush_to = \"shared\"",
            );
            None
        }
        (every, Some(to)) => Some(FlushSettings {
            to: to.clone(),
            every,
            behind: raw.flush == RawFlush::Behind,
        }),
    }
}

/// Checks the storage area to which checkpoints are copied: every site must have it, and all nodes of the site must see the same files in it. `place`
/// returns positions below `[checkpoint]`.
pub fn require_areas(
    check: &mut Checker<'_>,
    checkpoint: &CheckpointSettings,
    sites: &IndexMap<String, Site>,
    place: &SpanLookup<'_>,
) {
    let Some(flush) = checkpoint
        .levels
        .as_ref()
        .and_then(|levels| levels.flush.as_ref())
    else {
        return;
    };
    for (name, site) in sites {
        let at = place(&["levels".into(), "flush_to".into()]);
        match site.storage.get(&flush.to) {
            None => check.fail(
                at,
                format!("the site `{name}` has no storage area `{}`", flush.to),
                suggestion(&flush.to, "its areas", site.storage.keys().map(String::as_str)),
            ),
            Some(area) if area.kind != StorageKind::Shared => check.fail(
                at,
                format!("the storage area `{}` of the site `{name}` is not shared: flushed data is lost with its node", flush.to),
                "use an area that all nodes see (kind = \"shared\")",
            ),
            Some(_) => {}
        }
    }
}
