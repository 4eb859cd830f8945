//! Rules for arithmetic on columns, for papers of any kind.

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;

/// Returns the numbers in the columns that are the rule's arguments.
fn numbers(at: &CellContext<'_>) -> Result<Vec<f64>, NotRecomputable> {
    at.of().iter().map(|column| at.number(column)).collect()
}

/// The sum of columns.
#[derive(Debug)]
pub struct SumRule;

impl Rule for SumRule {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn about(&self) -> &'static str {
        "the sum of the columns"
    }
    fn needs(&self) -> usize {
        1
    }
    fn columns(&self) -> usize {
        usize::MAX
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        Ok(Recomputed::new(numbers(at)?.iter().sum()))
    }
}

/// The product of columns.
#[derive(Debug)]
pub struct Product;

impl Rule for Product {
    fn name(&self) -> &'static str {
        "product"
    }
    fn about(&self) -> &'static str {
        "the product of the columns: files and the size of each"
    }
    fn needs(&self) -> usize {
        2
    }
    fn columns(&self) -> usize {
        usize::MAX
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        Ok(Recomputed::new(numbers(at)?.iter().product()))
    }
}

/// One column minus another.
#[derive(Debug)]
pub struct DifferenceRule;

impl Rule for DifferenceRule {
    fn name(&self) -> &'static str {
        "difference"
    }
    fn about(&self) -> &'static str {
        "the first column minus the second"
    }
    fn needs(&self) -> usize {
        2
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        Ok(Recomputed::new(n[0] - n[1]))
    }
}

/// One column divided by another.
#[derive(Debug)]
pub struct Quotient;

impl Rule for Quotient {
    fn name(&self) -> &'static str {
        "quotient"
    }
    fn about(&self) -> &'static str {
        "the first column divided by the second"
    }
    fn needs(&self) -> usize {
        2
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        if n[1] == 0.0 {
            Err(NotRecomputable::Other("the divisor is 0".to_owned()))
        } else {
            Ok(Recomputed::new(n[0] / n[1]))
        }
    }
}

/// Returns `value` as percent of `base`.
fn percent(value: f64, base: f64) -> Result<Recomputed, NotRecomputable> {
    if base == 0.0 {
        Err(NotRecomputable::Other("the base is 0".to_owned()))
    } else {
        Ok(Recomputed::new(100.0 * value / base))
    }
}

/// The difference of two columns in percent of the second.
#[derive(Debug)]
pub struct PercentChange;

impl Rule for PercentChange {
    fn name(&self) -> &'static str {
        "percent-change"
    }
    fn about(&self) -> &'static str {
        "100·(first − second)/second"
    }
    fn needs(&self) -> usize {
        2
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        percent(n[0] - n[1], n[1])
    }
}

/// The absolute difference of two columns in percent of the second.
#[derive(Debug)]
pub struct PercentDifference;

impl Rule for PercentDifference {
    fn name(&self) -> &'static str {
        "percent-difference"
    }
    fn about(&self) -> &'static str {
        "100·|first − second|/second"
    }
    fn needs(&self) -> usize {
        2
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        percent((n[0] - n[1]).abs(), n[1])
    }
}

/// The error of a prediction.
#[derive(Debug)]
pub struct PercentError;

impl Rule for PercentError {
    fn name(&self) -> &'static str {
        "percent-error"
    }
    fn about(&self) -> &'static str {
        "100·|predicted − measured|/measured"
    }
    fn needs(&self) -> usize {
        2
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        cvc_model::error_pct(n[0], n[1])
            .map(Recomputed::new)
            .ok_or_else(|| NotRecomputable::Other("the measured value is 0".to_owned()))
    }
}

/// The mean of columns.
#[derive(Debug)]
pub struct Mean;

impl Rule for Mean {
    fn name(&self) -> &'static str {
        "mean"
    }
    fn about(&self) -> &'static str {
        "the mean of the columns"
    }
    fn needs(&self) -> usize {
        1
    }
    fn columns(&self) -> usize {
        usize::MAX
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let n = numbers(at)?;
        Ok(Recomputed::new(n.iter().sum::<f64>() / n.len() as f64))
    }
}

/// The population standard deviation over columns.
#[derive(Debug)]
pub struct PopulationDeviation;

impl Rule for PopulationDeviation {
    fn name(&self) -> &'static str {
        "population-sd"
    }
    fn about(&self) -> &'static str {
        "the standard deviation of the columns with the divisor n"
    }
    fn needs(&self) -> usize {
        2
    }
    fn columns(&self) -> usize {
        usize::MAX
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let (_, sd) = mean_and_sd(&numbers(at)?);
        Ok(Recomputed::new(sd))
    }
}

/// Returns the mean, and the standard deviation with the divisor n.
fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / n).sqrt())
}

/// The coefficient of variation over columns.
#[derive(Debug)]
pub struct VariationCoefficient;

impl Rule for VariationCoefficient {
    fn name(&self) -> &'static str {
        "variation-coefficient"
    }
    fn about(&self) -> &'static str {
        "100·standard deviation with the divisor n/mean of the columns"
    }
    fn needs(&self) -> usize {
        2
    }
    fn columns(&self) -> usize {
        usize::MAX
    }
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable> {
        let (mean, sd) = mean_and_sd(&numbers(at)?);
        percent(sd, mean)
    }
}
