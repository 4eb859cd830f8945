//! Determines the next block of runs. A block is the part of a campaign for one day or one fleet.

use cvc_core::campaign::{Block, BlockKind};

use cvc_core::ids::PointId;

use cvc_journal::{CampaignState, RunState};

use cvc_core::plan::{Plan, PlannedRun};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use std::collections::HashSet;

/// The block for the next session of a campaign whose runs are divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBlock {
    /// All runs: they are not divided into blocks, or no block has runs left.
    All,
    /// The runs of this block, and the remaining runs of earlier blocks.
    Of(Block),
    /// No block may begin today, because runs of the previous block ended today.
    NotBefore {
        /// The next block.
        block: Block,
        /// The first day (UTC) on which the block may begin.
        day: Date,
    },
}

/// Returns the block of the next session: the first block with a run that has not ended and may be tried. If blocks are days, a block does not begin
/// on a day on which a run of an earlier block ended. `only` are the points that the session is limited to.
#[must_use]
pub fn next_block(
    plan: &Plan,
    state: &CampaignState,
    only: Option<&HashSet<PointId>>,
    now: Timestamp,
) -> NextBlock {
    if plan.runs.iter().all(|run| run.block.is_none()) {
        return NextBlock::All;
    }
    let is_over = |run: &PlannedRun| matches!(state.run(&run.id), Some(RunState::Finished { .. }));
    let tried: HashSet<&PointId> = plan
        .runs
        .iter()
        .filter(|run| is_over(run))
        .map(|run| &run.point)
        .collect();
    let is_out = |point: &PointId| {
        // otherwise a point that the last session could not run at all would delay the blocks of other points
        let is_skipped = state.skipped.contains_key(point) && !tried.contains(point);
        is_skipped
            || state.quarantined.contains(point)
            || only.is_some_and(|only| !only.contains(point))
    };
    let is_open = |run: &&PlannedRun| !is_over(run) && !is_out(&run.point);
    let Some(block) = plan
        .runs
        .iter()
        .filter(is_open)
        .filter_map(|run| run.block)
        .min_by_key(|block| block.number)
    else {
        return NextBlock::All;
    };
    if block.of == BlockKind::Fleets {
        return NextBlock::Of(block);
    }
    let day_of = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    let earlier = plan
        .runs
        .iter()
        .filter(|run| run.block.is_some_and(|of_run| of_run.number < block.number));
    let last = earlier
        .filter_map(|run| {
            state
                .runs
                .get(&run.id)?
                .attempts
                .iter()
                .filter_map(|attempt| attempt.ended)
                .max()
        })
        .max();
    match last.map(day_of) {
        Some(last) if last >= day_of(now) => NextBlock::NotBefore {
            block,
            day: last.tomorrow().unwrap_or(last),
        },
        Some(_) | None => NextBlock::Of(block),
    }
}
