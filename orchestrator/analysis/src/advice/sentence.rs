//! The advice in a sentence.

use super::candidate::{AdviceCandidate, Feasibility};
use cvc_core::units::{counted, dollars, duration};
use cvc_model::pareto::ParetoRank;

/// Returns a sentence that names the best candidate or, if no single candidate is best, the fastest and the cheapest one.
pub(super) fn sentence(program: &str, candidates: &[AdviceCandidate]) -> String {
    let front: Vec<&AdviceCandidate> = candidates
        .iter()
        .filter(|c| c.standing == Some(ParetoRank::Front))
        .collect();
    let near = candidates
        .iter()
        .filter(|c| c.standing == Some(ParetoRank::Indistinguishable))
        .count();
    let Some(fastest) = front.first() else {
        return format!(
            "{program}: none of {} satisfies the constraints.",
            counted(candidates.len(), "candidate")
        );
    };
    let cheapest = front
        .iter()
        .filter(|c| c.cost_usd.is_some())
        .min_by(|a, b| {
            let usd = |c: &AdviceCandidate| c.cost_usd.map_or(f64::INFINITY, |cost| cost.value);
            usd(a).total_cmp(&usd(b))
        });
    let best = match cheapest {
        Some(cheapest) if cheapest.label != fastest.label => format!(
            "{program}: fastest is {}; cheapest is {}",
            describe(fastest),
            describe(cheapest)
        ),
        Some(_) | None => format!("{program}: take {}", describe(fastest)),
    };
    let more = front.len().saturating_sub(match cheapest {
        Some(cheapest) if cheapest.label != fastest.label => 2,
        Some(_) | None => 1,
    });
    let more = match more {
        0 => String::new(),
        _ => format!("; {more} more on the Pareto front"),
    };
    let near = match near {
        0 => String::new(),
        _ => format!(
            "; {} indistinguishable from these",
            counted(near, "candidate")
        ),
    };
    let broken = candidates
        .iter()
        .filter(|c| c.kept == Feasibility::Broken)
        .count();
    let broken = match broken {
        0 => String::new(),
        1 => "; 1 violates a constraint".to_owned(),
        _ => format!("; {broken} violate a constraint"),
    };
    format!("{best}{more}{near}{broken}.")
}

/// Describes a candidate: its time, its cost, and whether it certainly satisfies the constraints.
fn describe(candidate: &AdviceCandidate) -> String {
    let cost = candidate
        .cost_usd
        .map_or_else(String::new, |cost| format!(", {}", dollars(cost.value)));
    let unsure = if candidate.kept == Feasibility::Perhaps {
        ", may violate a constraint"
    } else {
        ""
    };
    let predicted = if candidate.predicted {
        ", predicted, not measured"
    } else {
        ""
    };
    format!(
        "{} ({}{cost}{predicted}{unsure})",
        candidate.label,
        duration(candidate.time_s.value)
    )
}
