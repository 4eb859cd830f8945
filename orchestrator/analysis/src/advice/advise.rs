//! Computes the advice for sides.

use super::{
    assumptions::{self, Assumption},
    candidate::{self, AdviceCandidate, Feasibility, PointFacts},
    constraints::Constraints,
    for_program::Advice,
    next, sentence,
};
use crate::comparison::Side;
use cvc_model::pareto::{Bounded, ParetoRank, pareto_ranks};
use indexmap::IndexMap;

/// Returns the advice for each program of these sides, from their points.
pub fn advise(sides: &[Side], constraints: &Constraints) -> Vec<Advice> {
    let mut programs: IndexMap<String, Vec<PointFacts<'_>>> = IndexMap::new();
    let name_side = sides.len() > 1;
    for known in sides
        .iter()
        .flat_map(|side| candidate::of_side(side, name_side))
    {
        programs.entry(known.program()).or_default().push(known);
    }
    let costs = assumptions::of_costs(sides, constraints);
    programs
        .into_iter()
        .filter_map(|(program, known)| of_program(program, known, constraints, &costs))
        .collect()
}

/// Returns the advice for one program; `None` if none of its points can be a candidate.
fn of_program(
    program: String,
    mut known: Vec<PointFacts<'_>>,
    constraints: &Constraints,
    costs: &[Assumption],
) -> Option<Advice> {
    let fastest = known
        .iter()
        .filter_map(|k| Some((k.work_s().filter(|s| *s > 0.0)?, k.label().to_owned())))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let length = assumptions::JobLength::new(constraints, fastest);
    let constraints = &Constraints {
        times: length.times,
        ..constraints.clone()
    };
    known.retain(|k| !constraints.checkpointed || k.takes_checkpoints());
    if known.is_empty() {
        return None;
    }
    let was_restarted = known.iter().any(PointFacts::was_restarted);
    let mut candidates: Vec<AdviceCandidate> = known
        .into_iter()
        .map(|k| k.candidate(constraints))
        .collect();
    // use an objective only if all candidates have a value
    let all =
        |of: fn(&AdviceCandidate) -> Option<Bounded>| candidates.iter().all(|c| of(c).is_some());
    // rank by storage only if all candidates take checkpoints, because a run without checkpoints always stores the least
    let (by_cost, by_storage) = (
        all(|c| c.cost_usd),
        all(|c| c.storage_bytes.filter(|_| c.checkpoints)),
    );
    let mut objectives = vec!["time_s"];
    objectives.extend(by_cost.then_some("cost_usd"));
    objectives.extend(by_storage.then_some("storage_bytes"));
    let values = |c: &AdviceCandidate| -> Vec<Bounded> {
        let cost = c.cost_usd.filter(|_| by_cost);
        let storage = c.storage_bytes.filter(|_| by_storage);
        [Some(c.time_s), cost, storage]
            .into_iter()
            .flatten()
            .collect()
    };
    let possible: Vec<usize> = (0..candidates.len())
        .filter(|i| candidates[*i].kept != Feasibility::Broken)
        .collect();
    let of_possible: Vec<Vec<Bounded>> = possible.iter().map(|i| values(&candidates[*i])).collect();
    for (i, rank) in possible.iter().zip(pareto_ranks(&of_possible)) {
        candidates[*i].standing = Some(rank);
    }
    candidates.sort_by(|a, b| {
        let rank = |c: &AdviceCandidate| match c.standing {
            Some(ParetoRank::Front) => 0,
            Some(ParetoRank::Indistinguishable) => 1,
            Some(ParetoRank::Dominated) => 2,
            None => 3,
        };
        rank(a)
            .cmp(&rank(b))
            .then(a.time_s.value.total_cmp(&b.time_s.value))
    });
    let mut assumptions = assumptions::of_job(constraints, &length, was_restarted);
    assumptions.extend_from_slice(costs);
    Some(Advice {
        sentence: sentence::sentence(&program, &candidates),
        times: length.times,
        assumptions,
        next: next::next(&candidates),
        program,
        objectives,
        candidates,
    })
}
