//! The advice in a sentence.

use super::candidate::{Candidate, Kept};
use cvc_core::units::{counted, dollars, duration};
use cvc_model::pareto::Standing;

/// Says which candidate to take. Without a single best one: the fastest and the cheapest.
pub(super) fn sentence(program: &str, candidates: &[Candidate]) -> String {
    let front: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.standing == Some(Standing::Front))
        .collect();
    let near = candidates
        .iter()
        .filter(|c| c.standing == Some(Standing::NotToldApart))
        .count();
    let Some(fastest) = front.first() else {
        return format!(
            "{program}: none of {} keeps what is asked for.",
            counted(candidates.len(), "candidate")
        );
    };
    let cheapest = front
        .iter()
        .filter(|c| c.cost_usd.is_some())
        .min_by(|a, b| {
            let usd = |c: &Candidate| c.cost_usd.map_or(f64::INFINITY, |cost| cost.value);
            usd(a).total_cmp(&usd(b))
        });
    let told = match cheapest {
        Some(cheapest) if cheapest.label != fastest.label => format!(
            "{program}: fastest is {}; cheapest is {}",
            told(fastest),
            told(cheapest)
        ),
        Some(_) | None => format!("{program}: take {}", told(fastest)),
    };
    let more = front.len().saturating_sub(match cheapest {
        Some(cheapest) if cheapest.label != fastest.label => 2,
        Some(_) | None => 1,
    });
    let between = match more {
        0 => String::new(),
        _ => format!("; {more} more between time, cost and storage"),
    };
    let near = match near {
        0 => String::new(),
        _ => format!("; {} not told apart from these", counted(near, "candidate")),
    };
    let broken = candidates.iter().filter(|c| c.kept == Kept::Broken).count();
    let broken = match broken {
        0 => String::new(),
        _ => format!("; {} not keep what is asked for", does(broken)),
    };
    format!("{told}{between}{near}{broken}.")
}

fn does(count: usize) -> String {
    if count == 1 {
        "1 does".to_owned()
    } else {
        format!("{count} do")
    }
}

/// A candidate with its time, its cost and how sure it keeps what is asked for.
fn told(candidate: &Candidate) -> String {
    let cost = candidate
        .cost_usd
        .map_or_else(String::new, |cost| format!(", {}", dollars(cost.value)));
    let unsure = if candidate.kept == Kept::Perhaps {
        ", not surely within what is asked for"
    } else {
        ""
    };
    let predicted = if candidate.predicted {
        ", predicted: nobody has measured it"
    } else {
        ""
    };
    format!(
        "{} ({}{cost}{predicted}{unsure})",
        candidate.label,
        duration(candidate.time_s.value)
    )
}
