//! How far predictions are off for runs of the program itself, each number of processes left out in turn.
//!
//! A model that misses a program's own runs misses its further ones, too, and one that hits them is likely to hit those: programs differ by
//! far more than the runs of one.

use super::{
    calibration::{self, Backtest, LeftOut},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::quantity::Quantity;
use std::{collections::BTreeSet, rc::Rc};

impl Predictor<'_> {
    /// The runs of the question's program that a quantity was predicted for without those on as many processes. There are none of a program on
    /// one number of processes, nor of quantities that cannot be predicted without that number.
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

    /// The largest error of these runs; `None` without any.
    pub fn own_error(&self, quantity: Quantity, question: &Question) -> Option<f64> {
        calibration::own_error(quantity, &self.left_out(quantity, question))
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
            // intervals are of no matter here
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
