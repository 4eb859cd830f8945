//! Errors of predictions for runs of the program itself, with each number of processes left out in turn.
//!
//! A model with large errors for a program's own runs also has large errors for its further runs, and a model with small errors usually has small
//! ones. Programs differ from each other far more than the runs of one program.

use super::{
    calibration::Backtest, forecast::Prediction, observation::Observation, predictor::Predictor,
    question::Question,
};
use cvc_core::quantity::Quantity;
use cvc_model::conformal::{Doubt, LeftOut};
use std::{collections::BTreeSet, rc::Rc};

impl Predictor<'_> {
    /// Returns predictions for runs of the question's program. To predict the runs on a number of processes, all runs on this number are left out.
    /// The result is empty if the program has runs on one number of processes only, or if the quantity cannot be predicted.
    pub(crate) fn left_out(&self, quantity: Quantity, question: &Question) -> Vec<LeftOut> {
        let key = (
            question.setting.app.clone(),
            question.setting.mpi_name.clone(),
        );
        let known = self.backtests.borrow().get(&key).cloned();
        let backtest = known.unwrap_or_else(|| {
            let made = Rc::new(self.backtest(question));
            self.backtests.borrow_mut().insert(key, Rc::clone(&made));
            made
        });
        backtest.get(&quantity).cloned().unwrap_or_default()
    }

    /// Returns the expected error of a prediction. `reach` is the factor by which the prediction is beyond the runs.
    pub fn doubt(
        &self,
        quantity: Quantity,
        question: &Question,
        reach: f64,
        prediction: &Prediction,
    ) -> Doubt {
        // if several laws fit, the interval already covers them; if runs on two numbers of processes are given, leaving one out would leave no
        // choice of laws
        let is_zone = !matches!(quantity, Quantity::Image | Quantity::Stored);
        let left_out = if is_zone && prediction.spans_laws {
            Vec::new()
        } else {
            self.left_out(quantity, question)
        };
        Doubt {
            reach,
            left_out,
            laws: prediction.laws,
        }
    }

    fn backtest(&self, question: &Question) -> Backtest {
        let mut backtest = Backtest::new();
        let library = self.library(question);
        let own = |o: &Observation| {
            library(o) && o.setting.app == question.setting.app && o.load().is_some()
        };
        let counts: BTreeSet<u32> = self
            .training
            .items()
            .iter()
            .filter(|o| own(o))
            .map(|o| o.setting.mapping.processes())
            .collect();
        if counts.len() < 2 {
            return backtest;
        }
        for count in counts {
            let is_left_out = |o: &Observation| own(o) && o.setting.mapping.processes() == count;
            let rest = self.training.only(|o| !is_left_out(o));
            // the intervals of these predictions are not used
            let Ok(without) = Predictor::train_with(&rest, self.calibration.without_errors())
            else {
                continue;
            };
            for observation in self.training.items().iter().filter(|o| is_left_out(o)) {
                let forecasts = without.forecast(&Question::of(observation));
                for (quantity, measured) in &observation.quantities {
                    if let Some(prediction) = forecasts.first(*quantity) {
                        backtest.entry(*quantity).or_default().push(LeftOut {
                            predicted: prediction.estimate.value,
                            measured: *measured,
                        });
                    }
                }
            }
        }
        backtest
    }
}
