//! Advice: which site, mapping and checkpoint setting to take for a program, by time, cost and storage, and what to measure next.
//!
//! | file | what |
//! | --- | --- |
//! | `candidate.rs` | what can be chosen, with its objectives |
//! | `wishes.rs` | what the user asks for: deadline, budget, failures, walltime, notice |
//! | `next.rs` | the measurements that would decide for the least money |
//! | `sentence.rs` | the advice in a sentence |
//! | `page.rs` | the same as a report, with a drawing |

mod candidate;
mod next;
mod page;
mod sentence;
mod wishes;

pub use candidate::{Candidate, Kept};
pub use next::NextMeasurement;
pub use wishes::Wishes;

use crate::{
    comparison::Side,
    report::{Report, Section},
};
use cvc_index::error::AnalysisError;
use cvc_model::pareto::{Bounded, Standing, standings};
use indexmap::IndexMap;
use serde::Serialize;

/// Version of the form in which advice is written to JSON.
pub const SCHEMA: u32 = 1;

/// Advice for one program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Application and class, as in `npb-bt.C`.
    pub program: String,
    /// The advice in a sentence.
    pub sentence: String,
    /// What candidates are judged by, in order: `time_s`, `cost_usd`, `storage_bytes`.
    pub objectives: Vec<&'static str>,
    /// All candidates: the front first, each group by time.
    pub candidates: Vec<Candidate>,
    /// What to measure to tell apart what is not; cheapest first.
    pub next: Vec<NextMeasurement>,
}

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
    let (by_cost, by_storage) = (all(|c| c.cost_usd), all(|c| c.storage_bytes));
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

/// The advice for several programs as a report.
///
/// # Errors
/// When a drawing fails.
pub fn report(title: &str, advice: &[Advice]) -> Result<Report, AnalysisError> {
    let sections: Vec<Section> = page::sections(advice)?;
    Ok(page::report(title, sections))
}
