//! Chooses among models: with four or more points, the one with the smallest leave-one-out error.

use super::{
    curve::{Fitted, Model, ModelInfo, Tier},
    fit::FitError,
    split::{Judged, Judgement, Training},
};

/// Number of points from which the leave-one-out error decides. With fewer, every fit looks good.
pub const MIN_FOR_CHOICE: usize = 4;

/// Error, in percent, assumed for a model that cannot be judged because too few points remain when one is left out: it is preferred to
/// models that are known to err by more, but not to those known to err by less.
const UNJUDGED_PCT: f64 = 10.0;

/// A model that was offered, with its result.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The model.
    pub info: ModelInfo,
    /// The result.
    pub verdict: Verdict,
}

/// The result of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Fitted, with the mean leave-one-out error if there are enough points for it.
    Fitted {
        /// Mean of 100·|predicted − measured|/measured over the points, each left out in turn.
        leave_one_out_pct: Option<f64>,
    },
    /// Not fitted.
    Refused(FitError),
}

/// The chosen model, and all candidates.
#[derive(Debug)]
pub struct Choice<'s> {
    /// The chosen curve.
    pub chosen: Judgement<'s>,
    /// Why it was chosen, in words.
    pub reason: String,
    /// All candidates, in the order of the list.
    pub candidates: Vec<Candidate>,
}

impl Choice<'_> {
    /// Returns the chosen curve.
    pub fn curve(&self) -> &dyn Fitted {
        &*self.chosen.curve
    }
}

/// Chooses among models by their mean leave-one-out error. With fewer than four points it takes the first model of the list that can be
/// fitted: lists begin with the models that need the least data. A model that needs no run is judged by its errors at the points, which it
/// has not seen.
///
/// # Errors
/// The refusals of all models, if none can be fitted.
pub fn choose<'s>(
    models: &[&dyn Model],
    training: &Training<'s>,
) -> Result<Choice<'s>, Vec<Candidate>> {
    let points = training.items().len();
    let decides = points >= MIN_FOR_CHOICE;
    let mut candidates = Vec::new();
    let mut best: Option<(f64, bool, Judgement<'s>)> = None;
    for model in models {
        let info = model.info();
        let fitted = match training.fit(*model) {
            Ok(fitted) => fitted,
            Err(refusal) => {
                candidates.push(Candidate {
                    info,
                    verdict: Verdict::Refused(refusal),
                });
                continue;
            }
        };
        let error = if info.tier == Tier::SmallRuns && !decides {
            None
        } else {
            mean_error(&training.leave_one_out(*model))
        };
        candidates.push(Candidate {
            info,
            verdict: Verdict::Fitted {
                leave_one_out_pct: error,
            },
        });
        let score = if decides {
            error.unwrap_or(UNJUDGED_PCT)
        } else {
            0.0
        };
        if best.as_ref().is_none_or(|(least, ..)| score < *least) {
            best = Some((score, error.is_some(), fitted));
        }
    }
    match best {
        Some((score, judged, chosen)) => {
            let reason = match () {
                () if candidates.len() == 1 => "the only model for it".to_owned(),
                () if !decides => {
                    let plural = if points == 1 { "" } else { "s" };
                    format!(
                        "first of the list that can be fitted to {points} point{plural}; from {MIN_FOR_CHOICE} points on, the error decides"
                    )
                }
                () if judged => format!(
                    "smallest mean leave-one-out error of {} models, {score:.2} %",
                    candidates.len()
                ),
                () => {
                    format!(
                        "the points are too few for its leave-one-out error; all others err by more than {UNJUDGED_PCT} % or have none"
                    )
                }
            };
            Ok(Choice {
                chosen,
                reason,
                candidates,
            })
        }
        None => Err(candidates),
    }
}

/// Returns the mean error; `None` if any left-out point could not be predicted, because a model must not win by its gaps.
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
        // On 25 processes 148.3 MiB were measured: the line says 131, the buffers 149.
        assert_eq!(
            chosen(MpiKind::Nemesis, MEASURED, &["shmem-line", "shmem-buffers"]).0,
            "shmem-buffers"
        );
    }

    #[test]
    fn a_curve_that_cannot_be_judged_is_taken_before_one_that_is_known_to_be_bad() {
        let flat = MEASURED.map(|(class, p, _)| (class, p, 4.0 + 4.0 * f64::from(p)));
        // a constant can be fitted to it, and errs by half
        let (id, reason) = chosen(MpiKind::Mpich, flat, &["shmem-constant", "shmem-line"]);
        assert_eq!(id, "shmem-line");
        assert!(reason.contains("too few"), "{reason}");
    }

    #[test]
    fn of_few_points_the_first_model_of_the_list_is_taken_and_of_more_the_one_that_errs_least() {
        let grows = [4, 9, 16, 25].map(|p| ("A", p, 4.0 * f64::from(p)));
        let both = &["shmem-constant", "shmem-line"];
        let (id, reason) = chosen(MpiKind::Mpich, [grows[0], grows[1]], both);
        assert_eq!(id, "shmem-constant", "{reason}");
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
                super::Verdict::Refused(FitError::RankDeficient { rank: 2, .. })
            ),
            "{refused:?}"
        );
    }
}
