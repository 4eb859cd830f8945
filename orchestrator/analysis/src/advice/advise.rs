//! Advises upon sides.

use super::{
    candidate::{self, Candidate, Kept},
    for_program::Advice,
    next, sentence,
    wishes::Wishes,
};
use crate::comparison::Side;
use cvc_model::pareto::{Bounded, Standing, standings};
use indexmap::IndexMap;

/// Advises upon the points of these sides, for each program that they ran.
pub fn advise(sides: &[Side], wishes: &Wishes) -> Vec<Advice> {
    let mut programs: IndexMap<String, Vec<Candidate>> = IndexMap::new();
    let name_side = sides.len() > 1;
    for side in sides {
        for (program, candidate) in candidate::candidates(side, wishes, name_side) {
            programs.entry(program).or_default().push(candidate);
        }
    }
    programs
        .into_iter()
        .map(|(program, candidates)| of_program(program, candidates))
        .collect()
}

fn of_program(program: String, mut candidates: Vec<Candidate>) -> Advice {
    // an objective that not all candidates have cannot put them in order
    let all = |of: fn(&Candidate) -> Option<Bounded>| candidates.iter().all(|c| of(c).is_some());
    // nothing stores as little as a run without checkpoints: beside it storage tells nothing
    let (by_cost, by_storage) = (
        all(|c| c.cost_usd),
        all(|c| c.storage_bytes.filter(|_| c.checkpoints)),
    );
    let mut objectives = vec!["time_s"];
    objectives.extend(by_cost.then_some("cost_usd"));
    objectives.extend(by_storage.then_some("storage_bytes"));
    let values = |c: &Candidate| -> Vec<Bounded> {
        let cost = c.cost_usd.filter(|_| by_cost);
        let storage = c.storage_bytes.filter(|_| by_storage);
        [Some(c.time_s), cost, storage]
            .into_iter()
            .flatten()
            .collect()
    };
    let possible: Vec<usize> = (0..candidates.len())
        .filter(|i| candidates[*i].kept != Kept::Broken)
        .collect();
    let of_possible: Vec<Vec<Bounded>> = possible.iter().map(|i| values(&candidates[*i])).collect();
    for (i, standing) in possible.iter().zip(standings(&of_possible)) {
        candidates[*i].standing = Some(standing);
    }
    candidates.sort_by(|a, b| {
        let place = |c: &Candidate| match c.standing {
            Some(Standing::Front) => 0,
            Some(Standing::NotToldApart) => 1,
            Some(Standing::Dominated) => 2,
            None => 3,
        };
        place(a)
            .cmp(&place(b))
            .then(a.time_s.value.total_cmp(&b.time_s.value))
    });
    Advice {
        sentence: sentence::sentence(&program, &candidates),
        next: next::next(&candidates),
        program,
        objectives,
        candidates,
    }
}
