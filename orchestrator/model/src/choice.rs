//! Chooses among models. Models that contradict the runs to which they were fitted are excluded. With four or more points, the model with the
//! smallest leave-one-out error is chosen from the rest.

use super::{
    curve::{Fitted, Model, ModelInfo, Sample, Tier},
    fit::FitError,
    split::{Judged, Judgement, Training},
};
use std::collections::BTreeMap;

/// Minimum number of points for which the leave-one-out error decides. With fewer points, every fit looks good.
pub const MIN_FOR_CHOICE: usize = 4;

/// Error, in percent, assumed for a model whose leave-one-out error is unknown because too few points remain. It is preferred to models with a
/// larger known error, but not to models with a smaller one.
const UNJUDGED_PCT: f64 = 10.0;

/// A model that was tried, with its result.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The model.
    pub info: ModelInfo,
    /// The result.
    pub verdict: FitVerdict,
}

/// The result of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum FitVerdict {
    /// The model was fitted.
    Fitted {
        /// Mean of 100·|predicted − measured|/measured over the points, each left out in turn; `None` with too few points.
        leave_one_out_pct: Option<f64>,
        /// The group of equal runs that contradicts the model most; `None` if none does.
        contradicted: Option<Miss>,
    },
    /// The model could not be fitted.
    Refused(FitError),
}

/// A group of equal runs whose mean is further from a curve than their scatter explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Identifier of the runs.
    pub id: String,
    /// Distance of their mean from the curve, in the unit of the quantity.
    pub by: f64,
    /// Distance that the scatter of the runs and the systematic error of the model explain.
    pub explained: f64,
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "its own runs contradict it: it misses those of `{}` by {:.2}, and they scatter by {:.2}",
            self.id, self.by, self.explained
        )
    }
}

/// Number of standard errors by which a mean of equal runs may differ from a curve.
const STANDARD_ERRORS: f64 = 3.0;

/// Returns the group of equal runs whose mean is furthest from a curve, relative to the explained distance. Runs are equal if their samples have
/// the same identifier. Returns `None` if all distances are explained. Settings that the curve cannot predict do not count.
pub fn largest_miss(model: &dyn Model, curve: &dyn Fitted, samples: &[&Sample]) -> Option<Miss> {
    let mut groups: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry(&sample.id).or_default().push(sample);
    }
    // residuals of each run, so that differences between the settings of equal runs are removed
    let residuals: Vec<(&str, f64, Vec<f64>)> = groups
        .into_iter()
        .filter_map(|(id, of)| {
            let left = |s: &&Sample| Some(s.value - curve.predict(&s.at).ok()?.estimate.value);
            let residuals: Vec<f64> = of.iter().map(left).collect::<Option<_>>()?;
            let level = of.iter().map(|s| s.value.abs()).sum::<f64>() / of.len() as f64;
            Some((id, level, residuals))
        })
        .collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let squares: f64 = residuals
        .iter()
        .map(|(_, _, of)| of.iter().map(|r| (r - mean(of)).powi(2)).sum::<f64>())
        .sum();
    let freedom: usize = residuals.iter().map(|(_, _, of)| of.len() - 1).sum();
    let scatter = if freedom > 0 {
        (squares / freedom as f64).sqrt()
    } else {
        0.0
    };
    let misses = residuals.iter().map(|(id, level, of)| Miss {
        id: (*id).to_owned(),
        by: mean(of).abs(),
        explained: model
            .form_error(*level)
            .max(STANDARD_ERRORS * scatter / (of.len() as f64).sqrt()),
    });
    misses
        .filter(|miss| miss.by > miss.explained)
        .max_by(|a, b| (a.by / a.explained).total_cmp(&(b.by / b.explained)))
}

/// The chosen model, and all candidates.
#[derive(Debug)]
pub struct Choice<'s> {
    /// The chosen curve.
    pub chosen: Judgement<'s>,
    /// The reason for the choice.
    pub reason: String,
    /// All candidates, in the order of the list of models.
    pub candidates: Vec<Candidate>,
}

impl Choice<'_> {
    /// Returns the chosen curve.
    pub fn curve(&self) -> &dyn Fitted {
        &*self.chosen.curve
    }
}

/// A model that was fitted and can still be chosen.
struct Fittable<'s> {
    fitted: Judgement<'s>,
    leave_one_out_pct: Option<f64>,
    contradicted: Option<Miss>,
}

/// Chooses among models.
///
/// A model that contradicts the runs to which it was fitted is excluded, unless all models do, or the other models have larger leave-one-out
/// errors. Among the rest, the smallest mean leave-one-out error decides. With fewer than four points, the first model of the list that can be
/// fitted is chosen; lists begin with the models that need the least data. A model that needs no runs is judged by its errors at all points,
/// because it was not fitted to them.
///
/// # Errors
/// No model can be fitted. The candidates say why.
pub fn choose<'s>(
    models: &[&dyn Model],
    training: &Training<'s>,
) -> Result<Choice<'s>, Vec<Candidate>> {
    let points = training.items().len();
    let decides = points >= MIN_FOR_CHOICE;
    let all: Vec<&Sample> = training.items().iter().collect();
    let mut candidates = Vec::new();
    let mut fittable: Vec<Fittable<'s>> = Vec::new();
    for model in models {
        let info = model.info();
        let verdict = match training.fit(*model) {
            Ok(fitted) => {
                let is_judged = info.tier != Tier::SmallRuns || decides;
                let leave_one_out_pct = is_judged
                    .then(|| mean_error(&training.leave_one_out(*model)))
                    .flatten();
                let contradicted = (info.tier == Tier::SmallRuns)
                    .then(|| largest_miss(*model, &*fitted.curve, &all))
                    .flatten();
                let verdict = FitVerdict::Fitted {
                    leave_one_out_pct,
                    contradicted: contradicted.clone(),
                };
                fittable.push(Fittable {
                    fitted,
                    leave_one_out_pct,
                    contradicted,
                });
                verdict
            }
            Err(refusal) => FitVerdict::Refused(refusal),
        };
        candidates.push(Candidate { info, verdict });
    }
    let tried = candidates.len();
    // a curve that fits all runs does not replace another one if its leave-one-out error is larger
    let replaces = |other: &Fittable<'s>, of: &Fittable<'s>| {
        other.contradicted.is_none()
            && match (decides, other.leave_one_out_pct, of.leave_one_out_pct) {
                (true, Some(error), Some(other)) => error <= other,
                (false, ..) | (_, None, _) | (_, _, None) => true,
            }
    };
    let is_out: Vec<bool> = fittable
        .iter()
        .map(|f| f.contradicted.is_some() && fittable.iter().any(|other| replaces(other, f)))
        .collect();
    let out = is_out.iter().filter(|out| **out).count();
    let score = |f: &Fittable<'s>| match (decides, f.leave_one_out_pct) {
        (true, error) => error.unwrap_or(UNJUDGED_PCT),
        (false, _) => 0.0,
    };
    let best = fittable
        .into_iter()
        .zip(is_out)
        .filter_map(|(f, out)| (!out).then_some(f))
        .reduce(|best, next| {
            if score(&next) < score(&best) {
                next
            } else {
                best
            }
        });
    let Some(best) = best else {
        return Err(candidates);
    };
    let mut reason = match (decides, best.leave_one_out_pct) {
        _ if tried == 1 => "the only model for it".to_owned(),
        (false, _) => {
            let plural = if points == 1 { "" } else { "s" };
            format!(
                "first of the list that can be fitted to {points} point{plural}; from {MIN_FOR_CHOICE} points on, the error decides"
            )
        }
        (true, Some(error)) => {
            format!("smallest mean leave-one-out error of {tried} models, {error:.2} %")
        }
        (true, None) => format!(
            "the points are too few for its leave-one-out error; all others err by more than {UNJUDGED_PCT} % or have none"
        ),
    };
    if out > 0 {
        reason += &format!("; models excluded because runs contradict them: {out}");
    }
    Ok(Choice {
        chosen: best.fitted,
        reason,
        candidates,
    })
}

/// Returns the mean error; `None` if any left-out point could not be predicted, because a model must not win by skipping points.
fn mean_error(judged: &[Judged]) -> Option<f64> {
    let errors: Option<Vec<f64>> = judged.iter().map(|j| j.error_pct).collect();
    errors
        .filter(|e| !e.is_empty())
        .map(|e| e.iter().sum::<f64>() / e.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::{FitError, Model, MpiKind, Sample, Setting, shmem, split};

    /// Shared memory of an image under ch3:nemesis, MiB, of two classes on 4 and 9 processes, as measured with MPICH 4.0.2.
    const MEASURED: [(&str, u32, f64); 4] = [
        ("A", 4, 28.43),
        ("B", 4, 28.43),
        ("A", 9, 52.86),
        ("B", 9, 52.87),
    ];

    /// Both classes on the same processes count as one point.
    fn sample(mpi: MpiKind, (class, p, value): (&str, u32, f64)) -> Sample {
        let mapping = cvc_core::mapping::Mapping::one_node(p);
        let at = Setting {
            app: "program".into(),
            class: class.into(),
            nas: None,
            size: None,
            mapping,
            per_node: p,
            mpi,
            output: Default::default(),
        };
        Sample {
            id: format!("on {p}"),
            at,
            value,
        }
    }

    fn chosen<const N: usize>(
        mpi: MpiKind,
        of: [(&str, u32, f64); N],
        wanted: &[&str],
    ) -> (String, String) {
        let models = shmem::models();
        let models: Vec<&dyn Model> = models
            .iter()
            .map(AsRef::as_ref)
            .filter(|m| wanted.contains(&m.info().id))
            .collect();
        assert_eq!(models.len(), wanted.len());
        split(
            of.map(|point| sample(mpi, point)),
            |_| true,
            |training, _| {
                let choice = choose(&models, &training).expect("a choice");
                (choice.chosen.info.id.to_owned(), choice.reason)
            },
        )
    }

    #[test]
    fn a_curve_does_not_win_because_a_twin_of_each_point_gave_away_the_answer() {
        // on 25 processes 148.3 MiB were measured; the line predicts 131, the buffers 149
        assert_eq!(
            chosen(MpiKind::Nemesis, MEASURED, &["shmem-line", "shmem-buffers"]).0,
            "shmem-buffers"
        );
    }

    #[test]
    fn a_curve_that_cannot_be_judged_is_taken_before_one_that_is_known_to_be_bad() {
        let flat = MEASURED.map(|(class, p, _)| (class, p, 4.0 + 4.0 * f64::from(p)));
        // a constant can be fitted to these runs, but its error is 50 %
        let (id, reason) = chosen(MpiKind::Mpich, flat, &["shmem-constant", "shmem-line"]);
        assert_eq!(id, "shmem-line");
        assert!(reason.contains("too few"), "{reason}");
    }

    #[test]
    fn of_few_points_the_first_model_of_the_list_is_taken_and_of_more_the_one_that_errs_least() {
        let grows = [4, 9, 16, 25].map(|p| ("A", p, 4.0 * f64::from(p)));
        let both = &["shmem-constant", "shmem-line"];
        let same = [4, 9].map(|p| ("A", p, 6.0));
        let (id, reason) = chosen(MpiKind::Mpich, same, both);
        assert_eq!(id, "shmem-constant", "{reason}");
        // two runs are enough to contradict a constant
        let (id, reason) = chosen(MpiKind::Mpich, [grows[0], grows[1]], both);
        assert_eq!(id, "shmem-line", "{reason}");
        assert!(reason.contains("contradict"), "{reason}");
        let (id, reason) = chosen(MpiKind::Mpich, grows, both);
        assert_eq!(id, "shmem-line", "{reason}");
    }

    #[test]
    fn points_that_no_model_can_be_fitted_to_are_refused_with_every_reason() {
        let models = shmem::models();
        let models: Vec<&dyn Model> = models
            .iter()
            .map(AsRef::as_ref)
            .filter(|m| m.info().id == "shmem-quadratic")
            .collect();
        let refused = split(
            MEASURED.map(|point| sample(MpiKind::Nemesis, point)),
            |_| true,
            |training, _| {
                choose(&models, &training)
                    .map(|_| ())
                    .expect_err("two abscissas")
            },
        );
        assert!(
            matches!(
                &refused[0].verdict,
                super::FitVerdict::Refused(FitError::RankDeficient { rank: 2, .. })
            ),
            "{refused:?}"
        );
    }
}
