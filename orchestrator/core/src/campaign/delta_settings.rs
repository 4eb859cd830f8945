//! Checks the settings `[checkpoint] deltas`.

use super::{
    checker::{Checker, SpanLookup},
    deltas::DeltaSettings,
    grid::Grid,
    model::CheckpointSettings,
    raw::RawDeltas,
};
use crate::{point::Moment, source::Step};
use cvc_delta_rules::BlockSize;

/// Checks the settings; `place` returns positions below `[checkpoint]`.
pub fn read(check: &mut Checker<'_>, raw: &RawDeltas, place: &SpanLookup<'_>) -> DeltaSettings {
    list(check, "methods", &raw.methods, place);
    list(check, "codecs", &raw.codecs, place);
    list(check, "blocks", &raw.blocks, place);
    for (i, block) in raw.blocks.iter().enumerate() {
        if BlockSize::new(block.0).is_err() {
            check.fail(
                place(&["deltas".into(), "blocks".into(), i.into()]),
                format!("a block of {block}"),
                "write a power of two from \"4KiB\", a page, to \"1MiB\"",
            );
        }
    }
    DeltaSettings {
        methods: raw.methods.clone(),
        codecs: raw.codecs.clone(),
        blocks: raw.blocks.clone(),
        keep: raw.keep,
    }
}

/// Refuses an empty list, and duplicates in a list.
fn list<T: PartialEq>(check: &mut Checker<'_>, key: &str, list: &[T], place: &SpanLookup<'_>) {
    let way: [Step<'_>; 2] = ["deltas".into(), key.into()];
    if list.is_empty() {
        check.fail(
            place(&way),
            format!("the list `{key}` is empty"),
            "give at least one, or remove the key to get its default",
        );
    }
    for (i, value) in list.iter().enumerate() {
        if list[..i].contains(value) {
            check.fail(
                place(&[way[0], way[1], i.into()]),
                format!("it is given twice in `{key}`"),
                "remove one",
            );
        }
    }
}

/// Refuses deltas if no series is compared, neither of cvc's nor of the program's own checkpoints.
pub fn require_series(
    check: &mut Checker<'_>,
    checkpoint: &CheckpointSettings,
    grids: &[Grid],
    place: &SpanLookup<'_>,
) {
    let is_compared = |grid: &Grid| grid.settings.moment.values.iter().any(Moment::is_compared);
    if checkpoint.deltas.is_some() && !checkpoint.own_series && !grids.iter().any(is_compared) {
        check.fail(
            place(&["deltas".into()]),
            "`deltas` without a series of checkpoints",
            "write `moment = { every_s = 60, count = 8 }`, or `own_series = true` for checkpoints that the program writes itself, or remove it: a single checkpoint has no delta",
        );
    }
}
