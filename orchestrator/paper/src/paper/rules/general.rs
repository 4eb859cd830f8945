//! Arithmetic that papers of any kind do with their columns.

use super::{CellContext, NotRecomputable, Rule};
use crate::paper::Recomputed;

/// The numbers of the columns that the rule is applied to.
fn numbers(at: &CellContext<'_>) -> Result<Vec<f64>, NotRecomputable> {
    at.of().iter().map(|column| at.number(column)).collect()
}

/// The sum of columns.
#[derive(Debug)]
pub struct Sum;

impl Rule for Sum {
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
pub struct Difference;

impl Rule for Difference {
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

/// `value` as percent of `base`.
fn percent(value: f64, base: f64) -> Result<Recomputed, NotRecomputable> {
    if base == 0.0 {
        Err(NotRecomputable::Other("the base is 0".to_owned()))
    } else {
        Ok(Recomputed::new(100.0 * value / base))
    }
}

/// How much larger a column is than another, in percent of that one.
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

/// The distance of two columns, in percent of the second.
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

/// The population standard deviation of columns.
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
        let n = numbers(at)?;
        let mean = n.iter().sum::<f64>() / n.len() as f64;
        Ok(Recomputed::new(
            (n.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n.len() as f64).sqrt(),
        ))
    }
}
