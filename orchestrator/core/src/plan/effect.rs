//! Finds settings of a campaign file that no point uses, although their author probably expects an effect.

use super::Plan;
use crate::{
    campaign::Spec,
    point::{CheckpointerKind, PlannedPoint},
};

/// Returns a warning for each key of the file that has no effect.
pub fn without_effect(spec: &Spec, plan: &Plan) -> Vec<String> {
    let uses =
        |is: fn(CheckpointerKind) -> bool| plan.points.iter().any(|p| is(p.point.checkpointer));
    let (driven, any) = (
        uses(CheckpointerKind::is_driven),
        uses(CheckpointerKind::takes_checkpoints),
    );
    let has_own_series = spec.checkpoint.own_series && uses(CheckpointerKind::has_own_files);
    let given = |key: &str| spec.given.contains(key);
    let mut all = Vec::new();
    let mut none_takes = |key: &str, by: &str, remedy: &str| {
        all.push(format!(
            "`{key}` has no effect: no point takes checkpoints{by}; {remedy}"
        ))
    };
    if (spec.checkpoint.restart_check || given("matrix.restart_check")) && !any {
        none_takes(
            "restart_check",
            "",
            "add checkpointer = \"dmtcp\" or \"application\" to [matrix]",
        );
    }
    if !driven {
        for (key, is_given) in [
            (
                "moment",
                given("checkpoint.moment") || given("matrix.moment"),
            ),
            ("timeout_s", given("checkpoint.timeout_s")),
            ("deltas", given("checkpoint.deltas") && !has_own_series),
            (
                "keep_images",
                given("run.keep_images") && spec.run.keep_images,
            ),
        ] {
            if is_given {
                none_takes(key, " by DMTCP", "add checkpointer = \"dmtcp\" to [matrix]");
            }
        }
    }
    if spec.checkpoint.own_series && !has_own_series {
        none_takes(
            "own_series",
            " that the program writes itself",
            "add checkpointer = \"application\" to [matrix]",
        );
    }
    let restarted = |p: &PlannedPoint| spec.checkpoint_plan(&p.point).is_restarted();
    if given("checkpoint.restarts") && any && !plan.points.iter().any(restarted) {
        all.push(
            "`restarts` has no effect: no run is restarted; add restart_check = true".to_owned(),
        );
    }
    if let (Some(variant), false) = (&spec.variant, spec.unchanged.is_empty()) {
        let keys = spec
            .unchanged
            .iter()
            .map(|key| format!("`{key}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let are = if spec.unchanged.len() == 1 {
            "is"
        } else {
            "are"
        };
        all.push(format!(
            "variant `{variant}`: {keys} {are} the same as without it"
        ));
    }
    all
}
